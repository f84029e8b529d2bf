"""Real alerts and catalogues in Parquet come out as pyarrow and astropy read them, value for value."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.io import fits

RESERVED = {"Norder", "Dir", "Npix"}
STAMPS = [f"cutout{kind}.stampData" for kind in ("Science", "Template", "Difference")]
# Folder of the data, recipe, path of the id, sources that are dropped, sources that are padded.
CASES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "alerts/ztf.parquet": (
        f"id: candidate.candid\ndrop: [timestamp]\npad: {{{', '.join(f'{s}: .nan' for s in STAMPS)}}}\n",
        "candidate.candid",
        ["timestamp"],
        STAMPS,
    ),
    "alerts/rubin.parquet": (
        "drop: [brokerStartProcessTimestamp, brokerEndProcessTimestamp]\n",
        "diaSourceId",
        ["brokerStartProcessTimestamp", "brokerEndProcessTimestamp"],
        [],
    ),
    "hats/small_sky_o1_collection": ("", "id", [], []),
    "hats/small_sky_nested": ("", "id", [], []),
    "hats/small_sky_npix_as_dir": ("", "id", [], []),
}


def leaves(field: pa.Field, path: str) -> list[tuple[str, pa.DataType]]:
    """Members of structs, by dotted names; a struct of nothing but lists is one leaf."""
    kind = field.type
    if not pa.types.is_struct(kind) or all(pa.types.is_list(f.type) for f in kind):
        return [(path, kind)]
    return [x for f in kind for x in leaves(f, f"{path}.{f.name}")]


def at(row: dict[str, Any] | None, path: str) -> Any:
    """The value of a dotted path; None below a null."""
    for name in path.split("."):
        row = None if row is None else row[name]
    return row


def plain(value: Any, fill: Any = None) -> Any:
    """Values that compare equal when they are the same: NaN is one value, null elements are what stands for them."""
    if isinstance(value, list):
        return [plain(v, fill) for v in value]
    if value is None:
        return fill
    return "NaN" if isinstance(value, float) and np.isnan(value) else value


def null(kind: pa.DataType) -> Any:
    """What stands for a null element of the type."""
    if pa.types.is_floating(kind):
        return "NaN"
    if pa.types.is_boolean(kind):
        return 255
    if pa.types.is_integer(kind):
        return -(2 ** (kind.bit_width - 1))
    return ""


def element(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind


def image(raw: bytes, shape: tuple[int, ...]) -> Any:
    """The first image of a FITS file, in the corner of one of the shape, NaN where there is none."""
    out = np.full(shape, np.nan)
    with fits.open(io.BytesIO(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)) as hdus:
        data = next(h.data for h in hdus if h.data is not None)
        out[tuple(slice(n) for n in data.shape)] = data
    return plain(out.tolist())


@pytest.mark.parametrize("case", CASES)
def test_foreign_parquet_comes_out_value_for_value(astropile, shared_data, tmp_path, case):
    recipe, key, drop, padded = CASES[case]
    source = shared_data / case
    args: list[object] = []
    if recipe:
        (tmp_path / "recipe.yaml").write_text(recipe)
        args = ["--recipe", tmp_path / "recipe.yaml"]
    (tmp_path / "cite.txt").write_text("x")
    root = tmp_path / "root"
    astropile("import", source, "--into", root, *args)
    astropile("release", root, "-m", "x", "--licence", "MIT", "--citation", tmp_path / "cite.txt")
    astropile("verify", root, "--deep")

    files = [source] if source.is_file() else primary(source)
    tables = [pq.ParquetFile(p).read() for p in files]
    want = sorted((r for t in tables for r in t.to_pylist()), key=lambda r: at(r, key))
    shards = [pq.ParquetFile(p).read() for p in sorted(root.glob("root/dataset/Norder=*/**/*.parquet"))]
    got = sorted((r for t in shards for r in t.to_pylist()), key=lambda r: r[key.replace(".", "_")])
    assert len(got) == len(want) > 0

    columns = set()
    for path, kind in [x for f in tables[0].schema for x in leaves(f, f.name)]:
        if any(path == d or path.startswith(d + ".") for d in drop):
            continue
        name = path.replace(".", "_")
        name = name + "_" if name in RESERVED else name
        columns.add(name)
        mine = [r[name] for r in got]
        theirs = [at(r, path) for r in want]
        where = f"{case}: {path}"
        if pa.types.is_binary(kind):
            shape = np.array(mine[0]).shape
            assert not padded or shape == (63, 63), where
            assert [plain(x) for x in mine] == [image(x, shape) for x in theirs], where
        elif pa.types.is_struct(kind):  # lists beside one another
            for f in kind:
                fill = null(element(f.type))
                assert [plain(x[f.name]) for x in mine] == [plain((x or {}).get(f.name) or [], fill) for x in theirs], (
                    where
                )
        elif pa.types.is_map(kind):
            members = [("key", kind.key_type), *leaves(kind.item_field.with_name("value"), "value")]
            for member, of in members:
                fill = null(of)
                entries = [[{"key": k, "value": v} for k, v in x or []] for x in theirs]
                assert [plain(x[member.replace(".", "_")]) for x in mine] == [
                    [plain(at(e, member), fill) for e in x] for x in entries
                ], f"{where}.{member}"
        elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
            members = [x for f in kind.value_type for x in leaves(f, f.name)]
            assert set(mine[0]) == {m.replace(".", "_") for m, _ in members}, where
            for member, of in members:
                fill = null(of)
                assert [plain(x[member.replace(".", "_")]) for x in mine] == [
                    [plain(at(e, member), fill) for e in x or []] for x in theirs
                ], f"{where}.{member}"
        elif pa.types.is_list(kind):
            fill = null(element(kind))
            assert [plain(x) for x in mine] == [None if x is None else plain(x, fill) for x in theirs], where
        else:
            assert [plain(x) for x in mine] == [plain(x) for x in theirs], where
    assert set(shards[0].column_names) - {"_healpix_29"} == columns - {"_healpix_29"}


def primary(folder: Path) -> list[Path]:
    """The data files of a HATS catalogue, or of a collection's primary one."""
    collection = folder / "collection.properties"
    if collection.exists():
        lines = dict(x.split("=", 1) for x in collection.read_text().splitlines() if "=" in x)
        folder = folder / lines["hats_primary_table_url"].strip()
    return sorted((folder / "dataset").glob("Norder=*/**/*.parquet"))
