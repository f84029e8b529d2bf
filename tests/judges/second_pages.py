"""Decodes every page of a tensor column as docs/format.md and Parquet have it: levels, layouts and codecs.

The second reader finds where values stand; this takes them apart, compressed ones too. pyarrow's zstd is the only help.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from second_reader import Shard, Thrift, want

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
PLAIN, RLE, RLE_DICTIONARY, BYTE_STREAM_SPLIT = 0, 3, 8, 9


def hybrid(data: bytes, width: int, count: int) -> np.ndarray:
    """Runs and bit-packed groups of values of width bits; the data holds count of them and nothing more."""
    t, parts, left = Thrift(data), [], count
    while left > 0:
        head = t.varint()
        if head & 1:
            size = (head >> 1) * width
            bits = np.frombuffer(data, np.uint8, size, t.at)
            t.at += size
            lanes = np.unpackbits(bits, bitorder="little").reshape(-1, width)
            part = (lanes.astype(np.uint32) << np.arange(width, dtype=np.uint32)).sum(1, dtype=np.uint32)
            want(not part[left:].any(), "a bit-packed run is not filled up with zeros")
        else:
            value = int.from_bytes(data[t.at : t.at + (width + 7) // 8], "little")
            t.at += (width + 7) // 8
            part = np.full(head >> 1, value, np.uint32)
            want(len(part) <= left, "a run is longer than its page")
        parts.append(part[:left])
        left -= len(part)
    want(t.at == len(data), "bytes after the last run")
    return np.concatenate(parts)


def repetition(dims: tuple[int, ...], rows: int) -> np.ndarray:
    """Repetition levels of rows of a tensor: the depth less the innermost sides that begin anew."""
    levels = np.full(dims, len(dims), np.uint32)
    for axis in range(len(dims), 0, -1):  # the first element of a list at some depth has the level above it
        levels[(*(slice(None),) * (axis - 1), *(0,) * (len(dims) - axis + 1))] = axis - 1
    return np.tile(levels.ravel(), rows)


class TensorPages:
    """The pages of a tensor column in a shard; `values` decodes them all and checks what the format says of them."""

    def __init__(self, shard: Shard, column: dict) -> None:
        self.shard, self.column = shard, column
        self.constant = column["name"] in shard.constant
        self.codec = "zstd" if self.constant else column["codec"]
        self.layout = "widened" if self.constant and column["layout"] == "identity" else column["layout"]
        dtype = np.dtype(column["dtype"])
        self.whole = dtype
        self.part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
        self.dims = tuple(column["shape"] or ()) + ((2,) if dtype.kind == "c" else ())
        self.elements = int(np.prod(self.dims))
        self.row_bytes = self.elements * self.part.itemsize
        self.leaf = shard.leaf(column)
        small = self.part.kind in "iu" and self.part.itemsize < 4
        self.stored = np.dtype("i4") if small else self.part  # what a dictionary, or PLAIN, holds

    def values(self) -> np.ndarray:
        """All rows: [rows, *shape]."""
        out = []
        for g, group in enumerate(self.shard.indexes):
            meta = self.shard.footer.row_group(g).column(self.leaf)
            want(meta.compression == ("UNCOMPRESSED" if self.codec == "none" else "ZSTD"), f"codec {meta.compression}")
            want(meta.has_dictionary_page == (self.layout == "identity"), "a dictionary page")
            dictionary = self.dictionary(meta.dictionary_page_offset) if self.layout == "identity" else None
            rows = self.shard.footer.row_group(g).num_rows
            starts = [p.get(3, 0) for p in group[self.leaf]] + [rows]
            most = max(1, (1 << 20 if self.constant else 65536) // self.row_bytes)
            want(starts == [*range(0, rows, most), rows], f"rows of the pages of {self.column['name']}")
            for p, lo, hi in zip(group[self.leaf], starts[:-1], starts[1:], strict=True):
                out.append(self.page(p[1], hi - lo, dictionary))
        return np.concatenate(out)

    def unpack(self, body: bytes, size: int) -> bytes:
        return body if self.codec == "none" else pa.decompress(body, size, "zstd", asbytes=True)

    def header(self, at: int) -> tuple[dict, bytes]:
        t = Thrift(self.shard.data, at)
        head = t.struct()
        return head, self.shard.data[t.at : t.at + head[3]]

    def dictionary(self, at: int) -> np.ndarray:
        """The identity dictionary: every value in the order of its bit pattern."""
        head, body = self.header(at)
        count = 1 << 8 * self.part.itemsize
        want(head[1] == DICTIONARY and head[7] == {1: count, 2: PLAIN}, "the dictionary's header")
        got = np.frombuffer(self.unpack(body, head[2]), "<i4")
        patterns = np.arange(count, dtype=f"u{self.part.itemsize}").view(self.part)
        want(np.array_equal(got, patterns.astype("i4")), "the dictionary is not the identity")
        return got

    def page(self, at: int, rows: int, dictionary: np.ndarray | None) -> np.ndarray:
        head, body = self.header(at)
        n, depth = rows * self.elements, len(self.dims)
        v1 = self.codec == "none" or self.layout == "rle"
        want(head[1] == (DATA if v1 else DATA_V2), f"the page at {at} is of kind {head[1]}")
        if v1:
            if self.codec != "none":  # of bools: V1, compressed as a whole
                body = self.unpack(body, head[2])
            info, levels = head[5], []
            want(info[1] == n and info[3] == info[4] == RLE, "a V1 header")
            encoding = info[2]
            for _ in range(2):
                size = int.from_bytes(body[:4], "little")
                levels.append(body[4 : 4 + size])
                body = body[4 + size :]
        else:
            info = head[8]
            want(info[1] == n and info[2] == 0 and info[3] == rows and info.get(7, True), "a V2 header")
            encoding, split = info[4], info[6] + info[5]
            levels = [body[: info[6]], body[info[6] : split]]
            body = self.unpack(body[split:], head[2] - split)
        want(np.array_equal(hybrid(levels[0], depth.bit_length(), n), repetition(self.dims, rows)), "repetition levels")
        want((hybrid(levels[1], depth.bit_length(), n) == depth).all(), "definition levels")
        return self.elements_of(body, encoding, n, dictionary).reshape(rows, *self.dims)

    def elements_of(self, body: bytes, encoding: int, n: int, dictionary: np.ndarray | None) -> np.ndarray:
        if self.layout == "rle":
            want(encoding == RLE, f"encoding {encoding}")
            want(int.from_bytes(body[:4], "little") == len(body) - 4, "length of the runs")
            return hybrid(body[4:], 1, n).astype(bool)
        if dictionary is not None:
            want(encoding == RLE_DICTIONARY and body[0] == 8 * self.part.itemsize, "the indexes' width")
            return dictionary[hybrid(body[1:], body[0], n)].astype(self.part)
        if self.codec == "bss+zstd":
            want(encoding == BYTE_STREAM_SPLIT, f"encoding {encoding}")
            body = np.frombuffer(body, np.uint8).reshape(self.stored.itemsize, n).T.tobytes()
        else:
            want(encoding == PLAIN, f"encoding {encoding}")
        want(len(body) == n * self.stored.itemsize, "length of the values")
        return np.frombuffer(body, self.stored.newbyteorder("<")).astype(self.part)
