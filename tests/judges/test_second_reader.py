"""docs/format.md is enough to write another reader: second_reader.py was, and finds everything."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import second_reader as second

import astropile as ours

KINDS = ["images", "rgb", "spectra", "lightcurves", "table"]


@pytest.fixture(scope="module")
def roots(astropile, tmp_path_factory):
    """A synthetic release of every kind, cut into several shards."""
    base = tmp_path_factory.mktemp("second")
    for kind in KINDS:
        astropile("synth", str(base / kind), "--kind", kind, "--size", "4MiB", "--seed", "3", "--shard-size", "512KiB")
    return base


def flatten(column):
    """The elements of an Arrow column of nested lists."""
    a = column.combine_chunks()
    while hasattr(a, "flatten") and a.type.num_fields == 1:
        a = a.flatten()
    return a


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
    ds = second.Dataset(roots / kind)
    mapped = 0
    for shard in ds.shards():
        for column in ds.meta["columns"]:
            if column["type"] != "tensor" or not shard.mapped(column):
                continue
            table = pq.read_table(shard.path, columns=[column["name"]], partitioning=None)
            expected = flatten(table[column["name"]]).to_numpy().reshape(-1, *column["shape"])
            np.testing.assert_array_equal(shard.tensor(column), expected)
            mapped += 1
    assert mapped > 0


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_sorted_by_place_inside_their_pixel(roots, kind):
    for shard in second.Dataset(roots / kind).shards():
        place = pq.read_table(shard.path, columns=["_healpix_29"], partitioning=None)["_healpix_29"].to_numpy()
        shift = 2 * (29 - shard.entry["norder"])
        assert (np.diff(place) >= 0).all()
        assert set(place >> shift) == {shard.entry["npix"]}
        assert (place[0], place[-1]) == (shard.entry["hpx_min"], shard.entry["hpx_max"])


@pytest.mark.parametrize("kind", ["rgb", "lightcurves"])
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


def test_an_append_is_found_and_changes_nothing(astropile, tmp_path):
    import h5py

    rng = np.random.default_rng(1)
    (tmp_path / "cite.txt").write_text("x")
    for part in range(2):
        with h5py.File(tmp_path / f"{part}.hdf5", "w") as f:
            f["object_id"] = np.arange(200) + 1000 * part
            f["ra"], f["dec"] = rng.uniform(0, 360, 200), rng.uniform(-80, 80, 200)
            f["flux"] = rng.normal(size=(200, 3, 20)).astype("f8")
    root = tmp_path / "root"
    astropile("import", str(tmp_path / "0.hdf5"), "--into", str(root), "--shard-size", "64KiB")
    astropile("release", str(root), "-m", "a", "--licence", "MIT", "--citation", str(tmp_path / "cite.txt"))
    first = {p: p.read_bytes() for p in root.rglob("*.parquet")} | {
        p: p.read_bytes() for p in root.rglob("releases/1/*") if p.is_file()
    }
    astropile("import", str(tmp_path / "1.hdf5"), "--into", str(root))
    astropile("release", str(root), "-m", "b")
    assert {p: p.read_bytes() for p in first} == first
    ds = second.Dataset(root)
    assert [r.content["rows"] for r in ds.releases] == [200, 400]
    assert ds.rows() == 400
    assert ds.pieces() > 0
    assert sum(s.footer.num_rows for s in ds.shards()) == 400


@pytest.mark.parametrize("where", ["unit", "padding", "tail", "manifest", "rows", "pieces"])
def test_a_flipped_bit_is_found(roots, tmp_path, where):
    root = Path(shutil.copytree(roots / "table", tmp_path / "t"))
    shard = second.Dataset(root).shards()[1]
    folder = root / second.Dataset(root).name / "releases" / "1"
    path, at = {
        "unit": (shard.path, shard.units[-1][1] - 10),
        "padding": (shard.path, shard.units[-1][1] + 10),
        "tail": (shard.path, shard.entry["tail_offset"] + 3),
        "manifest": (folder / "manifest.parquet", 50),
        "rows": (folder / "rows-00000.parquet", 500),
        "pieces": (folder / "pieces.sha1", 5),
    }[where]
    b = bytearray(path.read_bytes())
    b[at] ^= 4
    path.write_bytes(b)
    with pytest.raises(second.DamageError):
        second.Dataset(root).shards()


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
