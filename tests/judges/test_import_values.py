"""Every column of every family comes out as h5py reads it, bit for bit, whoever reads the shards."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

N = 60


def legacysurvey(f: h5py.File, rng: np.random.Generator) -> None:
    """Images and catalogue, LZF, chunks as h5py guesses them."""
    side, lzf = 24, {"chunks": True, "compression": "lzf"}
    f["object_id"] = np.array([f"{i:07d}" for i in range(N)], "S12")
    f["ra"], f["dec"] = rng.uniform(0, 360, N), rng.uniform(-90, 90, N)
    f["image_band"] = np.array([[b"des-g", b"des-r", b"des-i", b"des-z"]] * N, h5py.string_dtype("utf-8", 5))
    f.create_dataset(
        "image_array", data=rng.normal(size=(N, 4, side, side)).astype("f4"), maxshape=(None, 4, side, side), **lzf
    )
    f.create_dataset("image_ivar", data=rng.gamma(1, 1, (N, 4, side, side)).astype("f4"), **lzf)
    f.create_dataset("image_mask", data=rng.random((N, side, side)) < 0.1, **lzf)
    f.create_dataset("image_rgb", data=rng.integers(0, 256, (N, side, side, 3), "u1"), **lzf)
    f.create_dataset("object_mask", data=rng.integers(0, 256, (N, side, side), "u1"), **lzf)
    f["image_psf_fwhm"] = rng.uniform(1, 2, (N, 4)).astype("f4")
    f["catalog_FLUX_G"] = rng.normal(size=(N, 20)).astype("f4")
    f["EBV"] = rng.uniform(0, 1, N).astype("f4")


def desi(f: h5py.File, rng: np.random.Generator) -> None:
    """Spectra on one grid, contiguous."""
    length = 333
    f["object_id"] = 39627000000000000 + rng.permutation(N)
    f["ra"], f["dec"] = rng.uniform(0, 360, N), rng.uniform(-90, 90, N)
    for name in ("flux", "ivar", "lsf_sigma"):
        f[f"spectrum_{name}"] = rng.normal(size=(N, length)).astype("f4")
    f["spectrum_lambda"] = np.tile(np.linspace(3600, 9800, length, dtype="f4"), (N, 1))
    f["spectrum_mask"] = rng.random((N, length)) < 0.01
    f["Z"], f["ZERR"], f["ZWARN"] = rng.random(N), rng.random(N).astype("f4"), rng.random(N) < 0.1


def types(f: h5py.File, rng: np.random.Generator) -> None:
    """A scalar and a tensor of every element type, in both byte orders, with every filter."""
    f["object_id"] = np.arange(N)
    f["ra"], f["dec"] = rng.uniform(0, 360, N), rng.uniform(-90, 90, N)
    for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
        for order in "<>":
            dtype = np.dtype(order + t)
            bits = rng.integers(0, 256, (N, 7 * dtype.itemsize), "u1").view(dtype)
            name = f"{t}_{'le' if order == '<' else 'be'}"
            f.create_dataset(
                f"tensor_{name}", data=bits, chunks=(13, 4), compression="gzip", shuffle=True, fletcher32=True
            )
            if t != "f2":
                f.create_dataset(f"scalar_{name}", data=bits[:, 0], chunks=(20,), compression="lzf")
    f["tensor_c8"] = (rng.normal(size=(N, 5)) + 1j * rng.normal(size=(N, 5))).astype("c8")
    f["tensor_c16"] = rng.normal(size=(N, 2, 2)) + 1j * rng.normal(size=(N, 2, 2))
    f["scalar_bool"], f["tensor_bool"] = rng.random(N) < 0.5, rng.random((N, 3, 9)) < 0.5
    f["text"] = np.array([f"π = 3.{i} ☉" for i in range(N)], dtype=object)
    f["fixed"] = np.array([f"s{i * i}" for i in range(N)], "S8")
    ragged = f.create_dataset("ragged", (N,), h5py.vlen_dtype("f4"))
    for i in range(N):
        ragged[i] = rng.normal(size=i % 9).astype("f4")


def expected(file: Path) -> dict[str, np.ndarray]:
    """Every dataset as h5py reads it, in the order of object_id's text."""
    with h5py.File(file) as f:
        return {k: d[()] if d.dtype != object else d[:] for k, d in f.items()}


def elements(column: pa.Array) -> np.ndarray:
    """All numbers of a column of nested lists, with no cast."""
    while (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    ):
        column = column.flatten()
    if pa.types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False)
    return column.to_numpy()


def check(table: pa.Table, truth: dict[str, np.ndarray], where: str) -> None:
    """Compares an Arrow table with the truth, row by row of object_id, bit for bit."""
    ids = [str(x) for x in table["object_id"].to_pylist()]
    texts = [x.decode() if isinstance(x, bytes) else str(x) for x in truth["object_id"]]
    assert sorted(ids) == sorted(texts), where
    place = {t: i for i, t in enumerate(texts)}
    order = np.array([place[i] for i in ids])
    seen = 0
    for name, value in truth.items():
        column = table[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else column
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        value = value[order]
        if value.dtype == object and name == "ragged":
            got = [np.asarray(x, "f4").tobytes() for x in column.to_pylist()]
            assert got == [np.asarray(x, "f4").tobytes() for x in value], f"{where}: {name}"
        elif value.dtype.kind in "SO":
            flat = [x.decode() if isinstance(x, bytes) else x for x in value.ravel().tolist()]
            while pa.types.is_list(column.type):
                column = column.flatten()
            assert column.to_pylist() == flat, f"{where}: {name}"
        else:
            got = elements(column)
            want = value.ravel()
            if want.dtype.kind == "c":
                want = want.view(f"f{want.itemsize // 2}")
            want = want.astype(want.dtype.newbyteorder("="))
            assert got.dtype == want.dtype, f"{where}: {name}: {got.dtype}, want {want.dtype}"
            assert got.tobytes() == want.tobytes(), f"{where}: {name}"
        seen += 1
    assert seen == len(truth)


@pytest.fixture(scope="module", params=["earliest", "latest"])
def libver(request):
    """The file format h5py writes."""
    return request.param


@pytest.fixture(scope="module", params=[legacysurvey, desi, types], ids=lambda f: f.__name__)
def imported(request, astropile, libver, tmp_path_factory):
    """A release of a made-up survey: its root and the truth."""
    base = tmp_path_factory.mktemp("values")
    with h5py.File(base / "a.hdf5", "w", libver=libver) as f:
        request.param(f, np.random.default_rng(5))
    (base / "cite.txt").write_text("x")
    root = base / "root"
    astropile("import", base / "a.hdf5", "--into", root, "--shard-size", "256KiB")
    astropile("release", root, "-m", "x", "--licence", "MIT", "--citation", base / "cite.txt")
    astropile("verify", root, "--deep")
    return root, expected(base / "a.hdf5")


def shards(root: Path) -> list[Path]:
    return sorted(root.glob("root/dataset/Norder=*/**/*.parquet"))


def test_pyarrow_with_page_checksums(imported):
    root, truth = imported
    parts = [pq.ParquetFile(p, page_checksum_verification=True).read() for p in shards(root)]
    assert len(parts) > 1
    check(pa.concat_tables(parts), truth, "pyarrow")


def test_duckdb(imported):
    duckdb = pytest.importorskip("duckdb")
    root, truth = imported
    # DuckDB has no 16-bit float: what it cannot hold is compared through pyarrow above.
    names = [k for k in truth if truth[k].dtype.itemsize != 2 or truth[k].dtype.kind != "f"]
    picked = ", ".join(f'"{n}"' for n in names)
    glob = str(root / "root/dataset/**/*.parquet")
    table = duckdb.sql(f"select {picked} from read_parquet('{glob}', hive_partitioning=false)").to_arrow_table()
    check(table, {k: truth[k] for k in names}, "DuckDB")


def test_polars(imported):
    polars = pytest.importorskip("polars")
    root, truth = imported
    table = polars.read_parquet(str(root / "root/dataset/**/*.parquet"), hive_partitioning=False).to_arrow()
    cast = pa.schema([f.with_type(plain(f.type)) for f in table.schema])
    check(table.cast(cast), truth, "polars")


def plain(t: pa.DataType) -> pa.DataType:
    """The type with ordinary lists and strings where polars gives its large ones."""
    if pa.types.is_large_list(t):
        return pa.list_(plain(t.value_type))
    if pa.types.is_large_string(t) or t == pa.string_view():
        return pa.string()
    return t


def test_pandas(imported):
    pandas = pytest.importorskip("pandas")
    root, truth = imported
    frame = pandas.concat([pandas.read_parquet(p, dtype_backend="pyarrow") for p in shards(root)], ignore_index=True)
    check(pa.Table.from_pandas(frame, preserve_index=False), truth, "pandas")


@pytest.mark.slow
@pytest.mark.parametrize("streaming", [False, True], ids=["map", "streaming"])
def test_datasets(imported, streaming, tmp_path):
    datasets = pytest.importorskip("datasets")
    root, truth = imported
    ds = datasets.load_dataset(str(root), split="train", streaming=streaming, cache_dir=str(tmp_path)).with_format(
        "arrow"
    )
    table = pa.concat_tables(list(ds.iter(25))) if streaming else ds[:]
    check(table, truth, "datasets")


def test_our_own_reader(imported):
    import astropile

    root, truth = imported
    names = [k for k in truth if truth[k].dtype.kind not in "SO"]
    texts = [x.decode() if isinstance(x, bytes) else str(x) for x in truth["object_id"]]
    place = {t: i for i, t in enumerate(texts)}
    with astropile.open(root) as ds:
        batch = ds[:]
        order = np.array([place[str(x)] for x in batch["object_id"]])
        for name in names:
            got, want = np.asarray(batch[name]), truth[name][order]
            want = want.astype(want.dtype.newbyteorder("="))
            assert got.dtype == want.dtype, name
            assert got.shape == want.shape, name
            assert got.tobytes() == want.tobytes(), name


@pytest.mark.parametrize(
    ("name", "ra", "dec", "epochs"),
    [("cfa/SN2007bc.hdf5", 169.81071, 20.809029, 60), ("csp/example_SN2004dt.hdf5", 30.553207, -0.097639, 269)],
)
def test_published_supernovae(astropile, shared_data, tmp_path, name, ra, dec, epochs):
    import astropile as ours

    (tmp_path / "cite.txt").write_text("x")
    astropile("import", shared_data / "mmu" / name, "--into", tmp_path / "root")
    astropile("release", tmp_path / "root", "-m", "x", "--licence", "CC-BY-4.0", "--citation", tmp_path / "cite.txt")
    with ours.open(tmp_path / "root") as ds:
        row = ds[0]
        assert (row["ra"], row["dec"]) == pytest.approx((ra, dec), abs=1e-5)
        assert len(row["lightcurve"]["time"]) == epochs
        assert (np.asarray(row["lightcurve"]["time"]) > 0).all()
