"""A second reader of a dataset, written from docs/format.md alone.

pyarrow reads Parquet's footer and tables, hashlib takes digests; everything else is here. It shares no code with the
project and is not fast: it is there to show that the document is enough.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MASK = (1 << 64) - 1


class DamageError(Exception):
    """What is read is not what the format or a digest says."""


def want(ok: bool, what: str) -> None:
    """Raises DamageError unless ok."""
    if not ok:
        raise DamageError(what)


# ---------------------------------------------------------------- Thrift's compact protocol, as far as Parquet needs it


class Thrift:
    """Reads structs as dicts from field id to value."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value

    def zigzag(self) -> int:
        v = self.varint()
        return v >> 1 ^ -(v & 1)

    def value(self, kind: int):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            self.at += 8
            return self.data[self.at - 8 : self.at]
        if kind == 8:
            n = self.varint()
            self.at += n
            return self.data[self.at - n : self.at]
        if kind in (9, 10):
            head = self.byte()
            n = head >> 4
            if n == 15:
                n = self.varint()
            return [self.byte() == 1 if head & 15 in (1, 2) else self.value(head & 15) for _ in range(n)]
        if kind == 12:
            return self.struct()
        raise DamageError(f"thrift type {kind}")

    def struct(self) -> dict:
        out, field = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return out
            field = field + (head >> 4) if head >> 4 else self.zigzag()
            out[field] = self.value(head & 15)


# ---------------------------------------------------------------- documents


def digest_of(name: str):
    """The function of a digest's name: bytes to 32 bytes."""
    if name == "sha256":
        return lambda b: hashlib.sha256(b).digest()
    if name == "blake3":
        import blake3

        return lambda b: blake3.blake3(b).digest()
    raise DamageError(f"digest {name}")


def canonical(v) -> str:
    """Canonical JSON as section 2.1 has it."""
    if isinstance(v, dict):
        return "{" + ",".join(canonical(k) + ":" + canonical(v[k]) for k in sorted(v)) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(canonical, v)) + "]"
    if isinstance(v, str):
        short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in v) + '"'
    want(v is None or isinstance(v, (bool, int)), f"{v!r} in release.json")
    return json.dumps(v)


@dataclass
class Release:
    """One release: its folder, id, content and manifest (a list of dicts)."""

    folder: Path
    id: str
    content: dict
    manifest: list


class Dataset:
    """A dataset at a root, at the release that latest.json hints at."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        hint = json.loads((self.root / "latest.json").read_text())
        want(hint["format"] == 1, "format")
        self.name = hint["name"]
        self.releases = [self.release(n) for n in range(1, hint["release"] + 1)]
        want(self.releases[0].content["parent"] == "", "parent")
        for before, after in zip(self.releases[:-1], self.releases[1:], strict=True):
            want(after.content["parent"] == before.id, "parent")
            kept = [s for s in after.manifest if s["release"] <= before.content["number"]]
            want(kept == before.manifest, "a release changes what an earlier one holds")
        self.latest = self.releases[-1]
        want(self.latest.id == hint["id"], "latest.json names another id")
        self.meta = self.latest.content["dataset"]
        self.digest = digest_of(self.meta["digest"])
        catalogues = [self.root / f"{self.name}{end}" / "dataset" for end in ("", "_margin", "_ids")]
        found = {str(p.relative_to(self.root)) for c in catalogues for p in c.rglob("*.parquet")}
        want(found == {s["path"] for s in self.latest.manifest}, "shards that no manifest names, or that are missing")
        fit = self.meta["shard_size"] // (512 * self.meta["expect"])
        piece = 1 << max(fit, 1).bit_length() - 1
        want(self.meta["piece"] == min(max(piece, 64 << 10), 4 << 20), "piece")

    def release(self, n: int) -> Release:
        """Reads release n and checks every document that it names."""
        folder = self.root / self.name / "releases" / str(n)
        raw = (folder / "release.json").read_bytes()
        content = json.loads(raw)
        want(canonical(content).encode() == raw, "release.json is not canonical")
        for name, ref in content["files"].items():
            b = (folder / name).read_bytes()
            want(len(b) == ref["bytes"] and hashlib.sha256(b).hexdigest() == ref["sha256"], f"release {n}: {name}")
        manifest = pq.read_table(folder / "manifest.parquet").to_pylist()
        for s in manifest:
            want(s["bytes"] == (self.root / s["path"]).stat().st_size, f"{s['path']}: length")
        rank = {"primary": 0, "margin": 1, "ids": 2}

        def key(s):
            return (s["release"], rank[s["role"]], -1 if s["hpx_min"] is None else s["hpx_min"], s["path"])

        want(manifest == sorted(manifest, key=key), "the manifest is not sorted")
        for total in ("rows", "bytes"):
            want(content[total] == sum(s[total] for s in manifest if s["role"] == "primary"), total)
        want(content["number"] == n and content["time"].endswith("Z"), "number, time")
        return Release(folder, hashlib.sha256(raw).hexdigest(), content, manifest)

    def shards(self) -> list[Shard]:
        """Every primary shard in the manifest's order, checked."""
        return [Shard(self, s) for s in self.latest.manifest if s["role"] == "primary"]

    def pieces(self) -> int:
        """Checks pieces.sha1 of every release; gives the number of pieces."""
        total, size = 0, self.meta["piece"]
        for n, r in enumerate(self.releases, 1):
            got = b""
            for s in r.manifest:
                if s["release"] == n:
                    b = (self.root / s["path"]).read_bytes()
                    want(len(b) % size == 0, "a shard's length is not a multiple of the piece")
                    got += b"".join(hashlib.sha1(b[i : i + size]).digest() for i in range(0, len(b), size))
            told = (r.folder / "pieces.sha1").read_bytes()
            want(len(got) == len(told), f"number of pieces of release {n}")
            for i in range(0, len(got), 20):
                want(got[i : i + 20] == told[i : i + 20], f"piece {i // 20} of release {n}")
            total += len(got) // 20
        return total

    def rows(self) -> int:
        """Checks the rows files of every release against the shards; gives the number of rows."""
        total = 0
        scalars = [c["name"] for c in self.meta["columns"] if c["type"] == "scalar"]
        for n, r in enumerate(self.releases, 1):
            files = sorted(f for f in r.content["files"] if f.startswith("rows-"))
            table = [pq.read_table(r.folder / f) for f in files]
            at = 0
            whole = pa.concat_tables(table)
            want(whole.column_names == ["_shard", "_row", *scalars], "columns of the rows file")
            for k, s in enumerate(x for x in r.manifest if x["release"] == n and x["role"] == "primary"):
                part = whole.slice(at, s["rows"])
                want(part["_shard"].to_pylist() == [k] * s["rows"], "_shard")
                want(part["_row"].to_pylist() == list(range(s["rows"])), "_row")
                shard = pq.read_table(self.root / s["path"], columns=scalars, partitioning=None)
                for c in scalars:
                    a, b = shard[c].combine_chunks(), part[c].combine_chunks()
                    want(str(a.to_pylist()) == str(b.to_pylist()), f"{s['path']}: {c}")
                at += s["rows"]
            want(at == whole.num_rows, "rows of no shard")
            total += at
        return total


# ---------------------------------------------------------------- a shard


class Shard:
    """One shard: units, pages and where values stand. Reading it checks it."""

    def __init__(self, dataset: Dataset, entry: dict) -> None:
        self.entry, self.meta = entry, dataset.meta
        self.path = dataset.root / entry["path"]
        b = self.data = self.path.read_bytes()
        want(len(b) == entry["bytes"], f"{entry['path']}: length")
        tail = entry["tail_offset"]
        want(dataset.digest(b[tail:]) == entry["tail_digest"], f"{entry['path']}: tail")
        self.footer = pq.ParquetFile(self.path).metadata
        keys = {k.decode(): v for k, v in self.footer.metadata.items()}
        want(keys["astropile.digest"].decode() == self.meta["digest"], "astropile.digest")
        self.constant = json.loads(keys.get("astropile.constant", b"[]"))
        self.units = self._units(base64.b64decode(keys["astropile.units"], validate=True), dataset.digest)
        want(not any(b[self.units[-1][1] : tail]), f"padding of {entry['path']} is not zero")
        self.indexes = self._indexes(tail)
        self.pages = self._pages()
        # Last, so that what is above says where the damage is.
        want(hashlib.sha256(b).digest() == entry["sha256"], f"{entry['path']}: sha256")
        want(self.path.name == entry["sha256"].hex()[:12] + ".parquet", "the name is not the digest's")

    def _units(self, table: bytes, digest) -> list[tuple[int, int]]:
        out, at = [], 0
        for i in range(0, len(table), 40):
            end = int.from_bytes(table[i : i + 8], "little")
            want(at < end <= self.entry["tail_offset"], "units overlap")
            want(digest(self.data[at:end]) == table[i + 8 : i + 40], f"unit {len(out)} of {self.entry['path']}")
            out.append((at, end))
            at = end
        return out

    def _indexes(self, tail: int) -> list[list[list[dict]]]:
        """Offset indexes by row group and leaf: they follow each other from the tail's start."""
        t, out = Thrift(self.data, tail), []
        for _ in range(self.footer.num_row_groups):
            out.append([t.struct()[1] for _ in range(self.footer.num_columns)])
        return out

    def _pages(self) -> int:
        """Walks all pages; each has a CRC, lies in one unit, and stands in an offset index if it holds data."""
        ends = {end for _, end in self.units}
        indexed = {p[1]: p[2] for group in self.indexes for leaf in group for p in leaf}
        at, pages, data_pages = 4, 0, 0
        last = self.units[-1][1]
        while at < last:
            t = Thrift(self.data, at)
            head = t.struct()
            body = self.data[t.at : t.at + head[3]]
            want(head[4] & 0xFFFFFFFF == zlib.crc32(body), f"CRC of the page at {at}")
            end = t.at + head[3]
            if head[1] != 2:
                want(indexed.get(at) == end - at, f"the page at {at} is not in the offset index as it is")
                data_pages += 1
            want(not any(at < e < end for e in ends), "a unit cuts a page")
            at, pages = end, pages + 1
        want(at == last and data_pages == len(indexed), "pages end elsewhere")
        return pages

    def leaf(self, column: dict) -> int:
        """Number of the leaf of a column that has one."""
        for k in range(self.footer.num_columns):
            if self.footer.schema.column(k).path.split(".")[0] == column["name"]:
                return k
        raise DamageError(f"no column {column['name']}")

    def mapped(self, column: dict) -> bool:
        """Whether the values of a tensor column stand in the file as they are in memory."""
        return (
            column["codec"] == "none"
            and column["layout"] in ("plain", "identity")
            and column["name"] not in self.constant
        )

    def tensor(self, column: dict) -> np.ndarray:
        """All rows of a mapped tensor column, by the offset index alone: [rows, *shape]."""
        dtype = np.dtype(column["dtype"]).newbyteorder("<")
        shape = tuple(column["shape"] or ())
        elements = int(np.prod(shape, dtype=int))
        leaf, out = self.leaf(column), []
        for g, group in enumerate(self.indexes):
            rows = self.footer.row_group(g).num_rows
            starts = [p.get(3, 0) for p in group[leaf]] + [rows]
            for p, lo, hi in zip(group[leaf], starts[:-1], starts[1:], strict=True):
                n = (hi - lo) * elements
                length = n * dtype.itemsize
                if column["layout"] == "identity":
                    length = (n + 7) // 8 * 8 * dtype.itemsize
                at = p[1] + p[2] - length
                numbers = n * (2 if dtype.kind == "c" else 1)
                want(numbers < 320 or at % 64 == 0, f"values at {at} are not aligned")
                out.append(np.frombuffer(self.data, dtype, n, at).reshape(hi - lo, *shape))
        return np.concatenate(out)


# ---------------------------------------------------------------- order 1


def mix(x: int) -> int:
    """The finaliser of splitmix64 of x + the golden gamma."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def permutation(sub: int, m: int) -> list[int]:
    """The keyed permutation of [0, m) as a list."""
    if m <= 65536:
        out = list(range(m))
        for i in range(m - 1, 0, -1):
            j = mix(sub) * (i + 1) >> 64
            sub = (sub + 0x9E3779B97F4A7C15) & MASK
            out[i], out[j] = out[j], out[i]
        return out
    w = max(2, (m - 1).bit_length())
    a = w // 2
    low, high = (1 << a) - 1, (1 << w - a) - 1
    keys = [mix((sub + i * 0xD1342543DE82EF95) & MASK) for i in range(8)]

    def once(x: int) -> int:
        lo, hi = x & low, x >> a
        for i, k in enumerate(keys):
            if i % 2 == 0:
                hi ^= mix(lo ^ k) >> 7 & high
            else:
                lo ^= mix(hi ^ k) >> 7 & low
        return hi << a | lo

    out = []
    for x in range(m):
        x = once(x)
        while x >= m:
            x = once(x)
        out.append(x)
    return out


def order1(counts: list[int], seed: int, epoch: int, n: int, lanes: int, window: int) -> list[tuple[int, int]]:
    """(shard, row) at every position of an epoch, all rows selected."""
    key = int.from_bytes(
        hashlib.sha256(b"order1" + seed.to_bytes(8, "little") + epoch.to_bytes(8, "little")).digest()[:8], "little"
    )

    def sub(tag: int, a: int, b: int) -> int:
        return mix(mix(mix(key ^ tag) ^ a) ^ b)

    total = sum(counts)
    blocks = [[(s, b * n + i) for i in range(n)] for s, c in enumerate(counts) for b in range(c // n)]
    dust = [(s, c // n * n + i) for s, c in enumerate(counts) for i in range(c % n)]
    blocks += [dust[i : i + n] for i in range(0, len(dust), n)]
    permuted = [row for i in permutation(sub(1, 0, 0), len(blocks)) for row in blocks[i]]
    q, g = divmod(total, lanes)
    lane_rows = []
    for lane in range(lanes):
        start, length = lane * q + min(lane, g), q + (lane < g)
        phase, rows, o = lane * window // lanes, [], 0
        while o < length:
            j = (o + phase) // window
            lo, hi = max(0, j * window - phase), min(length, (j + 1) * window - phase)
            rows += [permuted[start + lo + i] for i in permutation(sub(2, lane, j), hi - lo)]
            o = hi
        lane_rows.append(rows)
    return [lane_rows[p % lanes][p // lanes] for p in range(total)]


def default_order(dataset: Dataset) -> tuple[int, int, int]:
    """n, L, K of a release."""
    rows = dataset.latest.content["rows"]
    if all(c["type"] == "scalar" for c in dataset.meta["columns"]):
        n = max(1, (4 << 20) // (dataset.latest.content["bytes"] // rows))
        if rows // 960 < n:
            n = max(1, min(n, rows // (64 * 960)))
        return n, 960, n
    n = max(1, min((1 << 20) * rows // dataset.latest.content["bytes"], 256, rows // (64 * 960)))
    return n, 960, 4 * n
