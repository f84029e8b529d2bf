"""A release in the hands of lsdb, hats and datasets: what they open, count, search and read, after an append too."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import Run

h5py = pytest.importorskip("h5py")
lsdb = pytest.importorskip("lsdb")
datasets = pytest.importorskip("datasets")
validation = pytest.importorskip("hats.io.validation")

pytestmark = pytest.mark.slow

ROWS = (160, 90)  # of the first release and of the append
CENTRES = [(150.0, 2.0, 5.0), (0.5, -1.0, 3.0), (150.0, 2.0, 0.4), (220.0, 88.5, 6.0)]  # ra, dec, radius in degrees
TENSORS = ("image_array", "image_mask", "image_rgb", "spectrum_flux", "quality")


class Published(NamedTuple):
    """A root, and the rows that went into it, by column, in the order of `object_id`."""

    root: Path
    rows: dict[str, np.ndarray[Any, Any]]


def survey(seed: int, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Objects in clumps: about a field, across ra 0, near the pole."""
    rng = np.random.default_rng(seed)
    where = rng.integers(0, 3, rows)
    ra = np.choose(where, [150.0, 0.0, 220.0]) + rng.normal(0, 1.5, rows) * np.choose(where, [1.0, 1.0, 20.0])
    dec = np.choose(where, [2.0, -1.0, 88.5]) + rng.normal(0, 1.0, rows) * np.choose(where, [1.0, 1.0, 0.3])
    flux = rng.normal(size=(rows, 3, 12, 12)).astype("f4")
    flux[0, 0, 0] = np.nan
    return {
        "object_id": np.array([f"{seed}-{i:05d}" for i in range(rows)]),
        "ra": ra % 360,
        "dec": dec,
        "z": rng.random(rows).astype("f4"),
        "plate": rng.integers(-30000, 30000, rows).astype("i2"),
        "image_array": flux,
        "image_mask": rng.random((rows, 3, 12, 12)) < 0.1,
        "image_rgb": rng.integers(0, 256, (rows, 12, 12, 3)).astype("u1"),
        "spectrum_flux": rng.normal(size=(rows, 40)),
        "quality": rng.integers(-9, 9, (rows, 2, 2)).astype("i2"),
    }


def write(path: Path, data: dict[str, np.ndarray[Any, Any]]) -> None:
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w") as f:
        for name, values in data.items():
            if name == "object_id":
                values = values.astype("S16")
            f.create_dataset(name, data=values, chunks=True, maxshape=(None, *values.shape[1:]), compression="gzip")


@pytest.fixture(scope="module", params=[1, 2], ids=["first", "appended"])
def published(request: pytest.FixtureRequest, astropile: Run, tmp_path_factory: pytest.TempPathFactory) -> Published:
    base = tmp_path_factory.mktemp("release")
    root = base / "sample"
    (base / "cite.bib").write_text("@misc{sample, title={A sample}}\n")
    parts = []
    for n in range(request.param):
        data = survey(n, ROWS[n])
        source = base / f"src{n}"
        write(source / f"part-{n}.hdf5", data)
        astropile("import", source, "--into", root, "--shard-size", "96KiB")
        terms = ["--licence", "CC-BY-4.0", "--citation", base / "cite.bib"] if n == 0 else []
        astropile("release", root, "-m", f"number {n + 1}", *terms)
        parts.append(data)
    astropile("verify", root, "--deep")
    return Published(root, {k: np.concatenate([p[k] for p in parts]) for k in parts[0]})


def separation(ra: np.ndarray[Any, Any], dec: np.ndarray[Any, Any], ra0: float, dec0: float) -> np.ndarray[Any, Any]:
    a, d, a0, d0 = np.radians(ra), np.radians(dec), np.radians(ra0), np.radians(dec0)
    h = np.sin((d - d0) / 2) ** 2 + np.cos(d) * np.cos(d0) * np.sin((a - a0) / 2) ** 2
    return np.degrees(2 * np.arcsin(np.sqrt(h)))


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Bit for bit, type included."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


def from_arrow(column: Any, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A column of an Arrow table as numpy, without a client's casts in between."""
    values = column.combine_chunks()
    while hasattr(values, "storage"):
        values = values.storage
    while str(values.type).startswith(("list", "large_list", "fixed_size_list")):
        values = values.flatten()
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape((-1, *like.shape[1:]))


def test_hats_finds_nothing_wrong_with_it(published: Published, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert validation.is_valid_catalog(published.root, strict=True)
        assert validation.is_valid_catalog(published.root / "sample", strict=True)
    expected = ("found collection", "_metadata file does not exist")
    assert [r.message for r in caplog.records if not any(e in r.message for e in expected)] == []


def test_lsdb_opens_counts_and_reads_every_scalar(published: Published) -> None:
    catalogue = lsdb.open_catalog(published.root)
    assert len(catalogue) == len(published.rows["ra"])
    assert catalogue.hc_structure.catalog_info.total_rows == len(published.rows["ra"])
    assert not set(TENSORS) & set(catalogue.columns)
    frame = catalogue.compute()
    assert frame.index.name == "_healpix_29"
    frame = frame.sort_values("object_id")
    order = np.argsort(published.rows["object_id"])
    for name in ("object_id", "ra", "dec", "z", "plate"):
        want = published.rows[name][order]
        got = frame[name].to_numpy()
        same(got.astype(str).astype(want.dtype) if name == "object_id" else got, want)


def test_lsdb_reads_tensors_when_asked(published: Published) -> None:
    frame = lsdb.open_catalog(published.root, columns="all").compute().sort_values("object_id")
    order = np.argsort(published.rows["object_id"])
    for name in TENSORS:
        want = published.rows[name][order]
        same(from_arrow(frame[name].array.__arrow_array__(), want), want)


@pytest.mark.parametrize(("ra", "dec", "radius"), CENTRES)
def test_a_cone_search_finds_what_brute_force_finds(published: Published, ra: float, dec: float, radius: float) -> None:
    found = lsdb.open_catalog(published.root).cone_search(ra=ra, dec=dec, radius_arcsec=radius * 3600).compute()
    near = separation(published.rows["ra"], published.rows["dec"], ra, dec) <= radius
    assert sorted(found["object_id"]) == sorted(published.rows["object_id"][near])
    assert near.any()


def test_datasets_loads_the_folder_with_shapes_and_types(published: Published, tmp_path: Path) -> None:
    ds = datasets.load_dataset(str(published.root), split="train", cache_dir=str(tmp_path))
    assert len(ds) == len(published.rows["ra"])
    assert str(ds.features["image_array"]) == "Array3D(shape=(3, 12, 12), dtype='float32')"
    assert str(ds.features["image_rgb"]) == "Array3D(shape=(12, 12, 3), dtype='uint8')"
    assert str(ds.features["spectrum_flux"]) == "List(Value('float64'), length=40)"
    # The numpy format widens integers and narrows floats, so values are compared through Arrow.
    table = ds.with_format("arrow")[:]
    ids = np.array(table["object_id"].to_pylist())
    order, back = np.argsort(published.rows["object_id"]), np.argsort(ids)
    for name, values in published.rows.items():
        if name != "object_id":
            same(from_arrow(table[name], values)[back], values[order])
    batch = ds.with_format("numpy")[:8]["image_array"]
    assert batch.shape == (8, 3, 12, 12)
    assert batch.dtype == np.float32


def test_datasets_streams_the_folder(published: Published) -> None:
    ds = datasets.load_dataset(str(published.root), split="train", streaming=True).with_format("numpy")
    by_id = {str(i): k for k, i in enumerate(published.rows["object_id"])}
    seen = set()
    for row in ds:
        k = by_id[str(row["object_id"])]
        seen.add(k)
        same(np.asarray(row["image_array"]), published.rows["image_array"][k])
    assert len(seen) == len(by_id)


def test_the_release_names_what_it_holds(published: Published) -> None:
    latest = json.loads((published.root / "latest.json").read_text())
    folder = published.root / "sample" / "releases" / str(latest["release"])
    manifest = pq.read_table(folder / "manifest.parquet")
    assert sum(manifest["rows"].to_pylist()) == len(published.rows["ra"])
    shards = {str(p.relative_to(published.root)) for p in (published.root / "sample" / "dataset").rglob("*.parquet")}
    assert set(manifest["path"].to_pylist()) == shards
    info = (published.root / "sample" / "partition_info.csv").read_text().split()
    assert info[0] == "Norder,Npix"
    pixels = {f"{o},{p}" for o, p in zip(manifest["norder"].to_pylist(), manifest["npix"].to_pylist(), strict=True)}
    assert set(info[1:]) == pixels
    assert (published.root / "sample" / "properties").read_bytes() == (
        published.root / "sample" / "hats.properties"
    ).read_bytes()


def test_data_without_positions_keep_the_order_of_their_input(astropile: Run, tmp_path: Path) -> None:
    data = survey(7, 300)
    root = tmp_path / "plain"
    write(tmp_path / "src" / "all.hdf5", data)
    (tmp_path / "cite.txt").write_text("Someone, 2026\n")
    astropile("import", tmp_path / "src", "--into", root, "--no-sky", "--shard-size", "128KiB")
    astropile("release", root, "-m", "first", "--licence", "LicenseRef-ours", "--citation", tmp_path / "cite.txt")
    assert len(list((root / "plain" / "dataset").rglob("*.parquet"))) > 3
    table = datasets.load_dataset(str(root), split="train", cache_dir=str(tmp_path / "cache")).with_format("arrow")[:]
    assert table["object_id"].to_pylist() == [str(i) for i in data["object_id"]]
    for name, values in data.items():
        if name != "object_id":
            same(from_arrow(table[name], values), values)
    assert not (root / "collection.properties").exists()
