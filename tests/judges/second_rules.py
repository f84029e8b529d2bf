"""What docs/format.md asks of a writer: how rows are sorted and parted, and how a shard is cut. Each function raises DamageError."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from second_reader import Dataset, Shard, want

GROUP, UNIT = 16 << 20, 131072
ARROW = {"bool": "bool", "string": "string", "float16": "halffloat", "float32": "float", "float64": "double"}


def table_of(shard: Shard, columns: list[str] | None = None) -> pa.Table:
    return pq.read_table(shard.path, columns=columns, partitioning=None)


def text_bytes(values: pa.Array) -> int:
    return pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype("i8") + 4


def payload(table: pa.Table, columns: list[dict]) -> np.ndarray:
    """Bytes of each row before encoding (section 3)."""
    total = np.zeros(table.num_rows, "i8")

    def ragged(values: pa.Array, column: dict) -> np.ndarray:
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype("i8")
        if column["dtype"] != "string":
            return lengths * np.dtype(column["dtype"]).itemsize
        before = np.concatenate([[0], np.cumsum(text_bytes(values.flatten()))])
        return np.diff(before[np.concatenate([[0], np.cumsum(lengths)])])

    for column in columns:
        values = table[column["name"]].combine_chunks() if column["type"] != "tensor" else None
        if column["type"] == "struct":
            for member in column["members"]:
                total += ragged(pc.struct_field(values, member["name"]), member)
        elif column["type"] == "list":
            total += ragged(values, column)
        elif column["dtype"] == "string":
            total += text_bytes(values)
        else:
            total += int(np.prod(column["shape"] or (), dtype=int)) * np.dtype(column["dtype"]).itemsize
    return total


def sorted_rows(shard: Shard, dataset: Dataset) -> None:
    """Rows stand by (pixel at order 29, bytes of the id as text)."""
    table = table_of(shard, ["_healpix_29", dataset.meta["id"]])
    ids = [str(i).encode() for i in table[dataset.meta["id"]].to_pylist()]
    keys = list(zip(table["_healpix_29"].to_pylist(), ids, strict=True))
    want(keys == sorted(keys), f"rows of {shard.path.name} are not sorted")
    first, last = keys[0][0], keys[-1][0]
    want((first, last) == (shard.entry["hpx_min"], shard.entry["hpx_max"]), "hpx_min, hpx_max")
    shift = 2 * (29 - shard.entry["norder"])
    want(first >> shift == last >> shift == shard.entry["npix"], "a row is not in its pixel")


def row_groups(shard: Shard, dataset: Dataset) -> int:
    """A row group holds the most rows whose payload is at most 16 MiB, and at least one; gives their number."""
    sizes = payload(table_of(shard), dataset.meta["columns"])
    at = 0
    for g in range(shard.footer.num_row_groups):
        rows, room = shard.footer.row_group(g).num_rows, GROUP
        fit = int(np.searchsorted(np.cumsum(sizes[at:]), room, side="right"))
        want(rows == max(1, fit), f"row group {g} of {shard.path.name} holds {rows} rows, {fit} fit")
        at += rows
    want(at == len(sizes), "rows of the row groups")
    return shard.footer.num_row_groups


def units(shard: Shard) -> None:
    """Units are cut where section 4.6 says."""
    ends, start = [], 0
    for g, group in enumerate(shard.indexes):
        mine: list[int] = []
        at = start
        for k, leaf in enumerate(group):
            meta = shard.footer.row_group(g).column(k)
            first = meta.dictionary_page_offset if meta.has_dictionary_page else leaf[0][1]
            stop = leaf[-1][1] + leaf[-1][2]
            pages = [p[1] + p[2] for p in leaf]
            for end in pages if stop - first >= UNIT else [stop]:
                if end - start >= UNIT:
                    mine.append(end)
                    start = end
            if stop - first >= UNIT and start < stop:
                mine[-1] = start = stop
            at = stop
        if start < at:
            mine = [*mine[:-1], at]
        ends += mine
        start = at
    want([end for _, end in shard.units] == ends, f"units of {shard.path.name} are cut elsewhere")


def partition(shards: list[Shard], dataset: Dataset) -> None:
    """Of a first release: a pixel was split while it held too much, and not before; the rest was cut into equal shards."""
    size, target = dataset.meta["shard_size"], dataset.meta["shard_size"] // dataset.meta["expect"]
    held: dict[tuple[int, int], int] = defaultdict(int)
    parts = defaultdict(list)
    for shard in shards:
        order, pix = shard.entry["norder"], shard.entry["npix"]
        total = int(payload(table_of(shard), dataset.meta["columns"]).sum())
        parts[order, pix].append(shard.footer.num_rows)
        for k in range(order + 1):
            held[k, pix >> 2 * (order - k)] += total
    for (order, pix), rows in parts.items():
        total = held[order, pix]
        want(total <= target or order == 12, f"pixel {pix} of order {order} holds {total} bytes")
        want(order == 0 or held[order - 1, pix >> 2] > target, f"pixel {pix >> 2} of order {order - 1} needed no split")
        n, m = min(sum(rows), max(1, -(-total // size))), sum(rows)
        want(sorted(rows) == sorted((k + 1) * m // n - k * m // n for k in range(n)), "shards of a pixel are not equal")


def schema(shard: Shard, dataset: Dataset) -> None:
    """Columns' order, the Arrow schema and what it says of each field."""
    common = pq.ParquetFile(dataset.root / dataset.name / "dataset" / "_common_metadata")
    message = shard.footer.metadata[b"ARROW:schema"]
    want(common.metadata.metadata[b"ARROW:schema"] == message, "_common_metadata has another schema")
    arrow = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(message, validate=True)))
    columns = dataset.meta["columns"]
    rank = {"scalar": 0, "list": 1, "struct": 1, "tensor": 2}
    want([c["name"] for c in columns] == arrow.names, "columns and schema")
    want(sorted(columns, key=lambda c: rank[c["type"]]) == columns, "columns are not scalars, ragged, tensors")
    want(not dataset.meta["ra"] or arrow.names[0] == "_healpix_29", "_healpix_29 is not the first column")
    for column, field in zip(columns, arrow, strict=True):
        said = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
        want(field.nullable == (column["type"] != "tensor"), f"{field.name}: nullable")
        want(said.get("unit", "") == column["unit"], f"{field.name}: unit")
        if column["type"] == "tensor":
            want(json.loads(said["shape"]) == (column["shape"] or []), f"{field.name}: shape")
        if column["type"] in ("tensor", "scalar"):
            want(said["dtype"] == column["dtype"], f"{field.name}: dtype")
            kind = field.type
            while pa.types.is_nested(kind):
                kind = kind.value_type
            if not column["dtype"].startswith("complex"):
                want(str(kind) == ARROW.get(column["dtype"], column["dtype"]), f"{field.name}: {kind}")


def statistics(dataset: Dataset) -> int:
    """stats.parquet of every release against the rows; gives the number of values compared."""
    compared = 0
    scalars = [c for c in dataset.meta["columns"] if c["type"] == "scalar"]
    for n, release in enumerate(dataset.releases, 1):
        stats = pq.read_table(release.folder / "stats.parquet")
        mine = [s for s in release.manifest if s["release"] == n and s["role"] == "primary"]
        want(stats.num_rows == len(mine), "rows of stats.parquet")
        for k, entry in enumerate(mine):
            shard = pq.read_table(dataset.root / entry["path"], columns=[c["name"] for c in scalars], partitioning=None)
            for column in scalars:
                name, values = column["name"], shard[column["name"]].combine_chunks()
                got = {x: stats[f"{name}.{x}"][k].as_py() for x in ("min", "max", "nulls", "nans")}
                low, high = stats.schema.field(f"{name}.min").type, stats.schema.field(f"{name}.max").type
                want(low == high == values.type, f"{name}.min is {low}, not {values.type}")
                nans = np.zeros(len(values), bool)
                if pa.types.is_floating(values.type):
                    nans = pc.fill_null(pc.is_nan(values), False).to_numpy(zero_copy_only=False)
                want(got["nulls"] == values.null_count and got["nans"] == nans.sum(), f"{name}: nulls, nans")
                real = (
                    values.filter(pa.array(~nans)).drop_null().to_pylist()
                )  # Python sorts text as its UTF-8 bytes sort
                bounds = (min(real), max(real)) if real else (None, None)
                want((got["min"], got["max"]) == bounds, f"{name}: {got}, want {bounds}")
                compared += 4
    return compared


def files_at_the_top(dataset: Dataset) -> int:
    """What stands at the top is what the newest release's meta/ holds; gives the number of files."""
    catalogue = dataset.root / dataset.name
    names = {p.name for p in (dataset.latest.folder / "meta").iterdir()} - {"recipe.yaml"}
    for name in sorted(names):
        twins = [t for t in (dataset.root / name, catalogue / name, catalogue / "dataset" / name) if t.is_file()]
        frozen = (dataset.latest.folder / "meta" / name).read_bytes()
        want(len(twins) == 1 and twins[0].read_bytes() == frozen, f"{name} is not the one in meta/")
    sums = (dataset.latest.folder / "SHA256SUMS").read_text().splitlines()
    for line in sums:
        digest, _, name = line.partition("  ")
        want(hashlib.sha256((dataset.latest.folder / name).read_bytes()).hexdigest() == digest, f"SHA256SUMS: {name}")
    want(bool(sums), "SHA256SUMS is empty")
    return len(names)
