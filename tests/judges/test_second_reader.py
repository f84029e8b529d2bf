"""docs/format.md is enough to write another reader: second_reader.py was, and finds everything."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import second_reader as second
import second_rules as rules
from second_pages import TensorPages

import astropile as ours

KINDS = ["images", "rgb", "spectra", "lightcurves", "table"]
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


@pytest.fixture(scope="module")
def roots(astropile, tmp_path_factory):
    """A synthetic release of every kind, cut into several shards."""
    base = tmp_path_factory.mktemp("second")
    for kind in KINDS:
        astropile("synth", str(base / kind), "--kind", kind, "--size", "4MiB", "--seed", "3", "--shard-size", "512KiB")
    return base


def sealed(astropile, base, name, *sources, flags=()):
    """A root of that name below base, with one release for each source."""
    (base / "cite.txt").write_text("Someone, 2026\n")
    root = base / name
    for n, source in enumerate(sources):
        astropile("import", source, "--into", root, *(flags if n == 0 else ()))
        terms = ("--licence", "MIT", "--citation", base / "cite.txt") if n == 0 else ()
        astropile("release", root, "-m", f"number {n + 1}", *terms)
    return root


def varied(path, seed, rows):
    """An HDF5 file with a tensor of every element type, and every kind of column, nulls and NaN among them."""
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as f:
        f["object_id"] = rng.permutation(rows) + 100_000 * seed
        f["ra"] = rng.choice([10.0, 10.3, 250.0], rows) + rng.normal(0, 0.5, rows) ** 2
        f["dec"] = rng.normal(0, 20, rows)
        f["z"] = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)).astype("f4")
        f["note"] = np.array([f"№ {i * i}" for i in range(rows)], dtype=object)
        f["kept"] = rng.random(rows) < 0.5
        for name in DTYPES:
            size = np.dtype(name).itemsize
            f[f"t_{name}"] = rng.integers(0, 256, (rows, 3, 7 * size), "u1").view(name)
            # Steps of a stair: these are worth compressing.
            f[f"c_{name}"] = (np.arange(50) // 10 + rng.integers(0, 3, (rows, 2, 1))).astype(name)
        f["t_bool"] = rng.random((rows, 5, 11)) < 0.3
        f["c_bool"] = np.zeros((rows, 999), bool)
        f["c_bool"][:, 500:] = rng.random((rows, 1)) < 0.5
        f["t_complex64"] = (rng.normal(size=(rows, 9)) + 1j * rng.normal(size=(rows, 9))).astype("c8")
        f["t_complex128"] = rng.normal(size=(rows, 2, 300)) + 1j
        f["s_complex64"] = (rng.normal(size=rows) + 2j).astype("c8")
        f["grid"] = np.tile(np.linspace(1, 2, 700), (rows, 1))
        f["same_int8"] = np.full((rows, 40), -3, "i1")
        ragged = f.create_dataset("ragged", (rows,), h5py.vlen_dtype("f8"))
        for i in range(rows):
            ragged[i] = rng.normal(size=i % 7)
    return path


@pytest.fixture(scope="module", params=["none", "auto", "zstd"])
def every_type(request, astropile, tmp_path_factory):
    """A release of every kind of column and an append to it, under each policy of compression."""
    base = tmp_path_factory.mktemp(request.param)
    parts = [varied(base / f"{seed}.hdf5", seed, rows) for seed, rows in ((1, 400), (2, 150))]
    return sealed(
        astropile,
        base,
        "varied",
        *parts,
        flags=("--compression", request.param, "--shard-size", "1MiB", "--expect", "2x"),
    )


def tensor(shard, column):
    """A tensor column as pyarrow reads it: [rows, *shape]."""
    a = pq.read_table(shard.path, columns=[column["name"]], partitioning=None)[column["name"]].combine_chunks()
    while a.type.num_fields == 1:
        a = a.flatten()
    a = a.to_numpy(zero_copy_only=False)
    if column["dtype"].startswith("complex"):
        a = a.view(column["dtype"])
    assert a.dtype == column["dtype"]
    return a.reshape(-1, *(column["shape"] or ()))


def check_tensors(ds):
    """Compares every tensor, by offset index and by page, with pyarrow's bits; gives how many of each there were."""
    mapped = decoded = 0
    for shard in ds.shards():
        for column in ds.meta["columns"]:
            if column["type"] != "tensor":
                continue
            want = tensor(shard, column).tobytes()
            assert TensorPages(shard, column).values().tobytes() == want, column
            decoded += 1
            if shard.mapped(column):
                assert shard.tensor(column).tobytes() == want, column
                mapped += 1
    return mapped, decoded


def check_rules(ds):
    """Everything that the format asks of who writes a release."""
    shards = ds.shards()
    for shard in shards:
        rules.sorted_rows(shard, ds)
        rules.row_groups(shard, ds)
        rules.units(shard)
        rules.schema(shard, ds)
    rules.partition([s for s in shards if s.entry["release"] == 1], ds)
    assert rules.statistics(ds) > 0
    assert rules.files_at_the_top(ds) >= 6


@pytest.mark.parametrize("kind", KINDS)
def test_every_document_unit_page_piece_and_row_is_found(roots, kind):
    ds = second.Dataset(roots / kind)
    shards = ds.shards()
    assert len(shards) > 1
    assert sum(s.footer.num_rows for s in shards) == ds.latest.content["rows"] == ds.rows()
    assert ds.pieces() == sum(s.entry["bytes"] for s in shards) // ds.meta["piece"]
    assert all(s.units and s.pages for s in shards)


@pytest.mark.parametrize("kind", ["images", "rgb", "spectra"])
def test_values_stand_where_the_offset_index_says(roots, kind):
    mapped, decoded = check_tensors(second.Dataset(roots / kind))
    assert 0 < mapped <= decoded


def test_every_element_type_layout_and_codec_is_decoded_from_the_document(every_type):
    ds = second.Dataset(every_type)
    mapped, decoded = check_tensors(ds)
    codecs = {(c["dtype"], c["codec"]) for c in ds.meta["columns"] if c["type"] == "tensor"}
    policy = every_type.parent.name
    if "none" in policy:
        assert {codec for _, codec in codecs} == {"none"}
    else:
        assert {codec for _, codec in codecs} >= {"zstd", "bss+zstd"}
    assert decoded > 0
    assert (mapped == 0) == ("zstd" in policy)
    assert {"grid", "same_int8"} <= set(ds.shards()[0].constant)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_writer_must_do_was_done(roots, kind):
    check_rules(second.Dataset(roots / kind))


def test_what_a_writer_must_do_was_done_for_every_type_and_an_append(every_type):
    ds = second.Dataset(every_type)
    check_rules(ds)
    assert ds.rows() == 550
    assert ds.pieces() > 0
    assert [r.content["rows"] for r in ds.releases] == [400, 550]


def test_row_groups_and_units_are_as_large_as_they_may_be(astropile, tmp_path):
    rng, rows = np.random.default_rng(4), 1800
    with h5py.File(tmp_path / "a.hdf5", "w") as f:
        f["object_id"] = np.array([f"{i}" * (i % 50) + f"-{i}" for i in range(rows)], dtype=object)
        f["ra"], f["dec"] = rng.uniform(120, 130, rows), rng.uniform(20, 30, rows)
        f["flux"] = rng.normal(size=(rows, 4, 32, 32)).astype("f4")
        f["thumbnail"] = rng.integers(0, 256, (rows, 40, 40), "u1")
        samples = f.create_dataset("samples", (rows,), h5py.vlen_dtype("f8"))
        for i in range(rows):
            samples[i] = rng.normal(size=i % 900)
    root = sealed(astropile, tmp_path, "large", tmp_path / "a.hdf5", flags=("--compression", "none"))
    ds = second.Dataset(root)
    (shard,) = ds.shards()
    assert rules.row_groups(shard, ds) == 3
    rules.units(shard)
    assert len(shard.units) > 100
    assert check_tensors(ds) == (2, 2)


def test_integers_of_16_bits_map_where_a_row_group_has_enough_of_them(astropile, tmp_path):
    rng, rows = np.random.default_rng(6), 700
    with h5py.File(tmp_path / "a.hdf5", "w") as f:
        f["object_id"] = np.arange(rows)
        f["ra"], f["dec"] = rng.uniform(120, 130, rows), rng.uniform(20, 30, rows)
        f["counts"] = rng.integers(0, 256, (rows, 81, 77 * 2), "u1").view("<i2")
    root = sealed(astropile, tmp_path, "large", tmp_path / "a.hdf5", flags=("--compression", "none"))
    ds = second.Dataset(root)
    assert [(c["layout"], c["codec"]) for c in ds.meta["columns"] if c["name"] == "counts"] == [("identity", "none")]
    assert check_tensors(ds) == (1, 1)
    check_rules(ds)


def test_data_without_positions_keep_the_order_of_the_input_in_folders(astropile, tmp_path):
    counts = [160, 110]
    parts = [varied(tmp_path / f"{seed}.hdf5", seed, rows) for seed, rows in enumerate(counts, 1)]
    root = sealed(astropile, tmp_path, "plain", *parts, flags=("--no-sky", "--shard-size", "64KiB"))
    ds = second.Dataset(root)
    assert ds.rows() == sum(counts)
    assert ds.pieces() > 0
    assert all(s["norder"] is s["npix"] is s["hpx_min"] is s["hpx_max"] is None for s in ds.latest.manifest)
    first, at = 0, 0
    for n, part in enumerate(parts, 1):
        mine = [s for s in ds.shards() if s.entry["release"] == n]
        each = -(-len(mine) // 1000)
        # The numbers of a release have as many digits, so that paths sort as numbers do.
        folders = [int(s.path.parent.name) for s in mine]
        assert folders == [first + k // each for k in range(len(mine))]
        assert {len(s.path.parent.name) for s in mine} == {3}
        first = folders[-1] + 1
        with h5py.File(part) as f:
            ids = f["object_id"][()].tolist()
        got = [i for s in mine for i in rules.table_of(s, ["object_id"])["object_id"].to_pylist()]
        assert got == ids
        at += len(mine)
        for shard in mine:
            rules.row_groups(shard, ds)
            rules.units(shard)
            rules.schema(shard, ds)
    assert at > 20
    assert rules.statistics(ds) > 0


@pytest.mark.parametrize("kind", ["rgb", "lightcurves", "table"])
@pytest.mark.parametrize("epoch", [0, 3])
def test_the_order_is_the_one_that_is_written_down(roots, kind, epoch):
    ds = second.Dataset(roots / kind)
    ids = [
        pq.read_table(s.path, columns=["object_id"], partitioning=None)["object_id"].to_pylist() for s in ds.shards()
    ]
    n, lanes, window = second.default_order(ds)
    expected = [ids[s][r] for s, r in second.order1([len(x) for x in ids], 11, epoch, n, lanes, window)]
    with ours.open(roots / kind, columns=["object_id"]) as reader:
        got = [x for b in reader.batches(50, shuffle=True, seed=11, epoch=epoch) for x in b["object_id"]]
    assert got == expected


def test_an_append_changes_nothing_that_was_published(astropile, tmp_path):
    parts = [varied(tmp_path / f"{seed}.hdf5", seed, 60) for seed in (1, 2)]
    root = sealed(astropile, tmp_path, "root", parts[0], flags=("--shard-size", "256KiB"))
    first = {p: p.read_bytes() for p in [*root.rglob("*.parquet"), *root.rglob("releases/1/**/*")] if p.is_file()}
    before = second.Dataset(root)
    astropile("import", parts[1], "--into", root)
    astropile("release", root, "-m", "number 2")
    assert {p: p.read_bytes() for p in first} == first
    after = second.Dataset(root)
    assert after.releases[0].id == before.latest.id
    assert after.rows() == 120
    assert len(after.shards()) > len(before.shards())


def flip(path, at):
    b = bytearray(path.read_bytes())
    b[at] ^= 4
    path.write_bytes(b)


@pytest.mark.parametrize("where", ["unit", "padding", "tail", "manifest", "rows", "pieces", "release"])
def test_a_flipped_bit_is_found_and_its_place_named(roots, tmp_path, where):
    root = Path(shutil.copytree(roots / "table", tmp_path / "t"))
    ds = second.Dataset(root)
    shard = ds.shards()[1]
    folder, name, last = ds.latest.folder, shard.entry["path"], len(shard.units) - 1
    path, at, message = {
        "unit": (shard.path, shard.units[last][1] - 10, f"unit {last} of {name}"),
        "padding": (shard.path, shard.units[last][1] + 10, f"padding of {name}"),
        "tail": (shard.path, shard.entry["tail_offset"] + 3, f"{name}: tail"),
        "manifest": (folder / "manifest.parquet", 50, "release 1: manifest.parquet"),
        "rows": (folder / "rows-00000.parquet", 500, "release 1: rows-00000.parquet"),
        "pieces": (folder / "pieces.sha1", 5, "release 1: pieces.sha1"),
        "release": (folder / "release.json", 20, "latest.json names another id"),
    }[where]
    assert shard.units[last][1] + 10 < shard.entry["tail_offset"]
    flip(path, at)
    with pytest.raises(second.DamageError, match=re.escape(message)):
        second.Dataset(root).shards()


@pytest.mark.parametrize("where", ["unit", "padding", "tail"])
def test_a_piece_tells_of_a_flipped_bit_too(roots, tmp_path, where):
    root = Path(shutil.copytree(roots / "images", tmp_path / "t"))
    ds = second.Dataset(root)
    before, shard = ds.shards()[:2]
    at = {"unit": shard.units[0][1] - 1, "padding": shard.units[-1][1], "tail": shard.entry["bytes"] - 9}[where]
    assert where != "padding" or at < shard.entry["tail_offset"]
    flip(shard.path, at)
    piece = (before.entry["bytes"] + at) // ds.meta["piece"]
    with pytest.raises(second.DamageError, match=f"piece {piece} of release 1"):
        ds.pieces()


def test_the_vectors_of_the_specification_hold(astropile_bin):
    text = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    vectors = json.loads(text.split("## 6. Test vectors")[1].split("```json")[1].split("```")[0])
    for v in vectors["order"]:
        got = second.order1(v["counts"], v["seed"], v["epoch"], v["n"], v["lanes"], v["window"])
        assert [list(x) for x in got] == v["rows"]
    places = np.array([v[:2] for v in vectors["healpix_29"]], "<f8").tobytes()
    done = subprocess.run([astropile_bin, "healpix", "--order", "29"], input=places, capture_output=True, check=True)
    assert np.frombuffer(done.stdout, "<i8").tolist() == [v[2] for v in vectors["healpix_29"]]
    for size, expect, piece in vectors["piece"]:
        power = int(np.floor(np.log2(size / expect / 512)))
        assert min(max(2**power, 64 << 10), 4 << 20) == piece
    c = vectors["canonical"]
    assert second.canonical(c["value"]) == c["text"]
    assert hashlib.sha256(c["text"].encode()).hexdigest() == c["sha256"]
