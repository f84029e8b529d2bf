"""Every column of every family comes out as h5py reads it, bit for bit, whoever reads the shards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

N = 60
Rng = np.random.Generator
# What a column must hold, row by row: numbers as one array, text as a list of str, lists as a list of arrays or of
# lists of str, and a struct as a dict of such lists.
Truth = dict[str, "np.ndarray | list | dict[str, list]"]


def positions(rng: Rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.uniform(0, 360, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))


def new(folder: Path, name: str, libver: str) -> h5py.File:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return h5py.File(path, "w", libver=libver)


def legacysurvey(folder: Path, libver: str, rng: Rng) -> None:
    """Images and catalogue, LZF, resizable, chunks as h5py guesses them."""
    side = 24
    ra, dec = positions(rng, N)
    d = {
        "object_id": np.array([f"{i:07d}" for i in range(N)], "S12"),
        "ra": ra,
        "dec": dec,
        "healpix": rng.integers(0, 3072, N),
        "image_band": np.array([[b"des-g", b"des-r", b"des-i", b"des-z"]] * N, h5py.string_dtype("utf-8", 5)),
        "image_array": rng.normal(size=(N, 4, side, side)).astype("f4"),
        "image_ivar": rng.gamma(1, 1, (N, 4, side, side)).astype("f4"),
        "image_mask": rng.random((N, side, side)) < 0.1,
        "image_rgb": rng.integers(0, 256, (N, side, side, 3), "u1"),
        "blobmodel": rng.integers(0, 256, (N, side, side, 3), "u1"),
        "object_mask": rng.integers(0, 256, (N, side, side), "u1"),
        "image_psf_fwhm": rng.uniform(1, 2, (N, 4)).astype("f4"),
        "image_scale": np.full((N, 4), 0.262, "f4"),
        "catalog_FLUX_G": rng.normal(size=(N, 20)).astype("f4"),
        "catalog_X": rng.normal(size=(N, 20)),
        "catalog_TYPE": rng.integers(-3, 6, (N, 20), "i2"),
        "EBV": rng.uniform(0, 1, N).astype("f4"),
    }
    with new(folder, "healpix=1711/001-of-001.hdf5", libver) as f:
        for name, v in d.items():
            f.create_dataset(name, data=v, chunks=True, maxshape=(None, *v.shape[1:]), compression="lzf")


def desi(folder: Path, libver: str, rng: Rng) -> None:
    """Spectra on one grid, contiguous, in two files."""
    length = 333
    for k in range(2):
        with new(folder, f"healpix={100 + k}/001-of-001.hdf5", libver) as f:
            f["object_id"] = 39627000000000000 + 1000 * k + rng.permutation(N // 2)
            f["ra"], f["dec"] = positions(rng, N // 2)
            for name in ("flux", "ivar", "lsf_sigma"):
                f[f"spectrum_{name}"] = rng.normal(size=(N // 2, length)).astype("f4")
            f["spectrum_lambda"] = np.tile(np.linspace(3600, 9800, length, dtype="f4"), (N // 2, 1))
            f["spectrum_mask"] = rng.random((N // 2, length)) < 0.01
            f["Z"], f["ZERR"] = rng.random(N // 2), rng.random(N // 2).astype("f4")
            f["ZWARN"] = rng.random(N // 2) < 0.1


def ps1(folder: Path, libver: str, rng: Rng) -> None:
    """One supernova a file: bands joined to one text, light curves padded to one length with a time of -99."""
    for i in range(14):
        ra, dec = positions(rng, 1)
        bands, length = ["g", "r", "i", "z", "y"][: 2 + i % 4], 4 + i % 5
        time = np.full((len(bands), length), -99, "f4")
        flux, error = np.full_like(time, -99), np.full_like(time, -99)
        for b in range(len(bands)):
            epochs = int(rng.integers(0, length + 1))
            time[b, :epochs] = np.sort(rng.uniform(55000, 55100, epochs))
            flux[b, :epochs], error[b, :epochs] = rng.normal(size=epochs), rng.gamma(1, 1, epochs)
        with new(folder, f"healpix={i:04d}/example_PSc{i:06d}.hdf5", libver) as f:
            f["object_id"], f["ra"], f["dec"] = np.bytes_(f"PSc{i:06d}"), ra[0], dec[0]
            f["healpix"], f["redshift"] = np.int64(i), np.float32(rng.random())
            f["bands"] = np.bytes_(",".join(bands))
            f["time"], f["flux"], f["flux_err"] = time, flux, error


def manga(folder: Path, libver: str, rng: Rng) -> None:
    """One group an object in two files of a pixel: scalars, repeated as attributes, and compound datasets."""
    length, side, k = 21, 6, 5
    spaxel = np.dtype(
        [("flux", "<f4", (length,)), ("mask", "<i8", (length,)), ("x", "<i4"), ("ok", "?"), ("units", "S12")]
    )
    image = np.dtype([("filter", "S4"), ("flux", "<f4", (side, side)), ("psf_fwhm", "<f4")])
    maps = np.dtype([("label", "S8"), ("flux", ">f8", (side, side))])
    for part in range(2):
        with new(folder, f"healpix=44/000{part + 1}-of-0002.hdf5", libver) as f:
            f.attrs["project"] = "SDSS"
            for i in range(9):
                ra, dec = positions(rng, 1)
                name = f"{8000 + part}-{1900 + i}"
                g = f.create_group(name)
                scalars = {
                    "object_id": name,
                    "ra": ra[0],
                    "dec": dec[0],
                    "z": np.float32(rng.random()),
                    "n": np.int32(-i),
                }
                for key, v in scalars.items():
                    g[key] = v
                    g.attrs[key] = v
                for key, dtype, rows, kw in (
                    ("spaxels", spaxel, k, {"compression": "gzip", "chunks": (2,)}),
                    ("images", image, 4, {}),
                    ("maps", maps, 3, {}),
                ):
                    v = np.zeros(rows, dtype)
                    for m in dtype.names:
                        base = dtype[m].base
                        if base.kind == "S":
                            v[m] = [f"{m}{j}".encode() for j in range(rows)]
                        elif base.kind == "f":
                            v[m] = rng.normal(size=v[m].shape)
                        else:
                            v[m] = rng.integers(0, 2 if base.kind == "b" else 999, v[m].shape)
                    g.create_dataset(key, data=v, **kw)


def types(folder: Path, libver: str, rng: Rng) -> None:
    """A scalar and a tensor of every element type, of any bits, in both byte orders, with every filter."""
    with new(folder, "a.hdf5", libver) as f:
        f["object_id"] = np.arange(N)
        f["ra"], f["dec"] = positions(rng, N)
        for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
            for order in "<>":
                dtype = np.dtype(order + t)
                bits = rng.integers(0, 256, (N, 7 * dtype.itemsize), "u1").view(dtype)
                name = f"{t}_{'le' if order == '<' else 'be'}"
                f.create_dataset(
                    f"tensor_{name}", data=bits, chunks=(13, 4), compression="gzip", shuffle=True, fletcher32=True
                )
                f.create_dataset(f"scalar_{name}", data=bits[:, 0], chunks=(20,), compression="lzf")
        for name in ("c8", "c16"):
            v = rng.normal(size=(N, 2, 3)) + 1j * rng.normal(size=(N, 2, 3))
            f[f"tensor_{name}"], f[f"scalar_{name}"] = v.astype(name), v[:, 0, 0].astype(name)
        f["scalar_bool"], f["tensor_bool"] = rng.random(N) < 0.5, rng.random((N, 3, 9)) < 0.5
        kinds = h5py.enum_dtype({"STAR": -1, "GALAXY": 0, "QSO": 7}, "i2")
        f.create_dataset("scalar_enum", data=rng.choice([-1, 0, 7], N), dtype=kinds)
        f.create_dataset("tensor_enum", data=rng.choice([-1, 0, 7], (N, 4)), dtype=kinds)
        f["text"] = np.array([f"π = 3.{i} ☉" * (i % 3) for i in range(N)], dtype=object)
        f["fixed"] = np.array([f"s{i * i}" for i in range(N)], "S8")
        f["texts"] = np.array([[f"ä{i}", "", f"{i}" * 9] for i in range(N)], dtype=object)
        for t in ("u1", "i2", "i4", "i8", "f4", "f8"):
            ragged = f.create_dataset(f"ragged_{t}", (N,), h5py.vlen_dtype(np.dtype(t)))
            for i in range(N):
                ragged[i] = rng.integers(0, 256, (i * 5 % 9) * np.dtype(t).itemsize, "u1").view(t)


def text_of(x: object) -> str:
    return x.decode() if isinstance(x, bytes) else str(x)


def plain_values(v: np.ndarray) -> np.ndarray | list:
    """An array as h5py gives it, of objects and fixed text made lists of str and of arrays."""
    if v.dtype.kind not in "SO":
        return v
    if v.dtype.kind == "O" and isinstance(v.flat[0], np.ndarray):
        return list(v)
    return [text_of(x) for x in v] if v.ndim == 1 else [[text_of(x) for x in row.ravel()] for row in v]


def columnar(files: list[Path]) -> Truth:
    """Every dataset at the root, one file after the other."""
    parts = []
    for path in files:
        with h5py.File(path) as f:
            parts.append({k: d[()] for k, d in f.items()})
    return {k: plain_values(np.concatenate([p[k] for p in parts])) for k in parts[0]}


def one_a_file(files: list[Path]) -> Truth:
    """Scalars, bands as lists, and the light curve without its padding."""
    rows = []
    for path in files:
        with h5py.File(path) as f:
            rows.append({k: d[()] for k, d in f.items()})
    arrays = ["time", *(k for k, v in rows[0].items() if isinstance(v, np.ndarray) and k != "time")]
    curves: dict[str, list] = {"band": []} | {k: [] for k in arrays}
    for row in rows:
        row["bands"] = row["bands"].decode().split(",")
        real = row["time"] != -99  # no epoch of these files has another reason to be cut
        curves["band"].append([b for b, keep in zip(row["bands"], real, strict=True) for _ in range(keep.sum())])
        for k in arrays:
            curves[k].append(row[k][real])
    truth: Truth = {k: plain_values(np.array([r[k] for r in rows])) for k in rows[0] if k not in (*arrays, "bands")}
    return truth | {"bands": [r["bands"] for r in rows], "lightcurve": curves}


def one_a_group(files: list[Path]) -> Truth:
    """Scalars, and the members of compound datasets as columns of their own."""
    rows = []
    for path in files:
        with h5py.File(path) as f:
            for g in f.values():
                row = {}
                for k, d in g.items():
                    v = d[()]
                    if d.shape == ():
                        row[k] = text_of(v) if isinstance(v, bytes) else v
                    else:
                        row |= {f"{k}_{m}": v[m] for m in d.dtype.names}
                rows.append(row)
    return {
        k: plain_values(np.array([r[k] for r in rows])) if k != "object_id" else [r[k] for r in rows] for k in rows[0]
    }


def elements(column: pa.Array) -> np.ndarray:
    """All numbers of a column of nested lists, with no cast."""
    assert column.null_count == 0
    while is_list(column.type):
        column = column.flatten()
    return column.to_numpy(zero_copy_only=not pa.types.is_boolean(column.type))


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def same_numbers(got: np.ndarray, want: np.ndarray, where: str) -> None:
    """Bit for bit, type included; DuckDB has no 16-bit float and gives them as 32 bits."""
    want = want.ravel()
    if want.dtype.kind == "c":
        want = want.view(f"f{want.itemsize // 2}")
    want = want.astype(want.dtype.newbyteorder("="))
    if want.dtype == np.float16 and where.startswith("DuckDB"):
        assert got.dtype == np.float32, where
        assert np.array_equal(np.isnan(got), np.isnan(want)), where
        want, got = np.nan_to_num(want.astype("f4")), np.nan_to_num(got)
    assert got.dtype == want.dtype, f"{where}: {got.dtype}, want {want.dtype}"
    assert got.tobytes() == want.tobytes(), where


def same_lists(column: pa.Array, want: list, where: str) -> None:
    got = column.to_pylist()
    if isinstance(want[0], list):
        assert got == want, where
        return
    assert [len(x) for x in got] == [len(x) for x in want], where
    same_numbers(elements(column), np.concatenate(want), where)


def check(table: pa.Table, truth: Truth, where: str) -> None:
    """Compares an Arrow table with the truth, row by row of object_id, bit for bit."""
    ids, texts = ([text_of(x) for x in v] for v in (table["object_id"].to_pylist(), truth["object_id"]))
    assert sorted(ids) == sorted(texts), where
    place = {t: i for i, t in enumerate(texts)}
    order = np.array([place[i] for i in ids])
    assert set(table.column_names) - {"_healpix_29", "Norder", "Dir", "Npix"} == set(truth), where
    for name, value in truth.items():
        column, at = table[name].combine_chunks(), f"{where}: {name}"
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        if isinstance(value, dict):
            assert [f.name for f in column.type] == list(value), at
            for k, (member, lists) in enumerate(value.items()):
                same_lists(column.flatten()[k], [lists[i] for i in order], f"{at}.{member}")
        elif isinstance(value, np.ndarray):
            same_numbers(elements(column), value[order], at)
        elif isinstance(value[0], str):
            assert column.to_pylist() == [value[i] for i in order], at
        else:
            same_lists(column, [value[i] for i in order], at)


@pytest.fixture(scope="module", params=["earliest", "latest"])
def libver(request):
    """The file format h5py writes."""
    return request.param


SURVEYS: dict[Callable, Callable] = {
    legacysurvey: columnar,
    desi: columnar,
    ps1: one_a_file,
    manga: one_a_group,
    types: columnar,
}


@pytest.fixture(scope="module", params=SURVEYS, ids=lambda f: f.__name__)
def imported(request, astropile, libver, tmp_path_factory):
    """A release of a made-up survey: its root and the truth."""
    base = tmp_path_factory.mktemp("values")
    request.param(base / "src", libver, np.random.default_rng(5))
    (base / "cite.txt").write_text("x")
    root = base / "root"
    astropile("import", base / "src", "--into", root, "--shard-size", "64KiB")
    astropile("release", root, "-m", "x", "--licence", "MIT", "--citation", base / "cite.txt")
    astropile("verify", root, "--deep")
    return root, SURVEYS[request.param](sorted((base / "src").rglob("*.hdf5")))


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
    glob = str(root / "root/dataset/**/*.parquet")
    check(duckdb.sql(f"from read_parquet('{glob}', hive_partitioning=false)").to_arrow_table(), truth, "DuckDB")


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
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(plain(f.type)) for f in t])
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
    with astropile.open(root) as ds:
        batch = ds[:]
    place = {text_of(x): i for i, x in enumerate(truth["object_id"])}
    order = [place[str(x)] for x in batch["object_id"]]
    assert set(batch) - {"_healpix_29"} == set(truth)
    for name, value in truth.items():
        if isinstance(value, dict):
            for member, lists in value.items():
                own_lists(batch[name][member], [lists[i] for i in order], f"{name}.{member}")
        elif isinstance(value, np.ndarray):
            assert batch[name].shape == value.shape, name
            same_numbers(batch[name].ravel().view(real_part(batch[name].dtype)), value[order], name)
        elif isinstance(value[0], str):
            assert list(batch[name]) == [value[i] for i in order], name
        else:
            own_lists(batch[name], [value[i] for i in order], name)


def real_part(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def own_lists(got, want: list, where: str) -> None:
    """A Ragged column of our package against lists."""
    assert np.diff(got.offsets).tolist() == [len(x) for x in want], where
    if isinstance(want[0], list):
        assert list(got.values) == [x for row in want for x in row], where
    else:
        same_numbers(np.asarray(got.values), np.concatenate(want), where)


@pytest.mark.parametrize(
    ("name", "ra", "dec", "bands", "epochs", "redshift"),
    [
        ("cfa/SN2007bc.hdf5", 169.81071, 20.809029, 7, 60, 0),
        ("csp/example_SN2004dt.hdf5", 30.553207, -0.097639, 12, 269, np.float32(0.0197)),
    ],
)
def test_published_supernovae(astropile, shared_data, tmp_path, name, ra, dec, bands, epochs, redshift):
    import astropile as ours

    (tmp_path / "cite.txt").write_text("x")
    astropile("import", shared_data / "mmu" / name, "--into", tmp_path / "root")
    astropile("release", tmp_path / "root", "-m", "x", "--licence", "CC-BY-4.0", "--citation", tmp_path / "cite.txt")
    with h5py.File(shared_data / "mmu" / name) as f:
        source = {k: d[()] for k, d in f.items()}
    with ours.open(tmp_path / "root") as ds:
        row = ds[0]
        assert len(ds) == 1
    assert row["object_id"] == source["object_id"].decode()
    assert (row["ra"], row["dec"], row["redshift"]) == (np.float32(ra), np.float32(dec), redshift)
    curve = row["lightcurve"]
    real = source["time"] != 0
    assert len(row["bands"]) == bands == len(real)
    assert len(curve["time"]) == epochs == real.sum()
    names = [b.decode() for b, keep in zip(source["bands"], real, strict=True) for _ in range(keep.sum())]
    assert list(curve["band"]) == names
    for member in ("time", "mag", "mag_err"):
        same_numbers(np.asarray(curve[member]), source[member][real], member)
