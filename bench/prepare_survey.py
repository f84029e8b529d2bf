"""Write surveys in the layouts and formats that import reads, and files of every filter that it decodes.

Everything follows from the size and a seed. Rows stand on one patch of sky; what the rows are, VALUES says (survey_values.py
reads it back from the sources and from the imports).
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import prepare
from prepare import once

KIB, MIB = 1 << 10, 1 << 20
COEFFICIENTS = 110
MAGNITUDES = 25  # columns of four bytes that fill a row up to 1 kB
BANDS = "griz"
SIDE = 63  # of a cutout of an alert
FRAME = 2048  # of an image that is compressed in tiles


def positions(rng: np.random.Generator, n: int, side: float = 30.0) -> tuple[np.ndarray, np.ndarray]:
    """n positions in degrees, uniform over a patch of sky on the equator."""
    ra = rng.uniform(150 - side / 2, 150 + side / 2, n)
    edge = np.sin(np.radians(side / 2))
    return ra, np.degrees(np.arcsin(rng.uniform(-edge, edge, n)))


def healpix(ra: np.ndarray, dec: np.ndarray) -> np.ndarray:
    """Pixels of order 4, NESTED."""
    from astropy import units as u
    from astropy_healpix import HEALPix

    return HEALPix(nside=16, order="nested").lonlat_to_healpix(ra * u.deg, dec * u.deg)


def stars(first: int, n: int) -> dict[str, np.ndarray]:
    """n stars as Gaia has them, 1 kB each: ids, positions, coefficients of their spectra with errors, magnitudes."""
    rng = np.random.default_rng(first + 11)
    ra, dec = positions(rng, n)
    out: dict[str, np.ndarray] = {
        "object_id": np.char.add("4295806", np.char.zfill(np.arange(first, first + n).astype("U"), 12)).astype("S19"),
        "ra": ra,
        "dec": dec,
        "coeff": (rng.standard_normal((n, COEFFICIENTS), "f4") * np.geomspace(3000, 1, COEFFICIENTS)).astype("f4"),
        "coeff_error": rng.gamma(2.0, 1.0, (n, COEFFICIENTS)).astype("f4"),
    }
    for k in range(MAGNITUDES):
        out[f"mag_{k:02d}"] = rng.normal(18, 2, n).astype("f4")
    return out


def parts(n: int, files: int) -> list[tuple[int, int]]:
    """First row and number of rows of every file."""
    edges = [n * k // files for k in range(files + 1)]
    return [(a, b - a) for a, b in itertools.pairwise(edges) if b > a]


def parallel(make: Callable[..., None], jobs: list[Any]) -> None:
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(make, jobs))


def gaia(out: Path, size: int) -> None:
    """HDF5, columnar, contiguous: a file a pixel of order 4, rows of 1 kB."""
    import h5py

    rows = stars(0, size // KIB)
    pixel = healpix(rows["ra"], rows["dec"])
    order = np.argsort(pixel, kind="stable")
    pixels, starts = np.unique(pixel[order], return_index=True)
    for p, k in zip(pixels.tolist(), np.split(order, starts[1:])):
        folder = out / f"healpix={p}"
        folder.mkdir(parents=True)
        with h5py.File(folder / "001-of-001.hdf5", "w") as f:
            for name, values in rows.items():
                f[name] = values[k]
            f["healpix"] = pixel[k]


def one_object(job: tuple[Path, int]) -> None:
    """A file of one object: a light curve in four bands, padded."""
    import h5py

    out, i = job
    rng = np.random.default_rng(i)
    ra, dec = positions(np.random.default_rng(i + 10**6), 1)
    counts = rng.integers(8, 45, len(BANDS))
    time, flux, error = (np.full((len(BANDS), counts.max()), v, "f4") for v in (-99, 0, 0))
    for band, c in enumerate(counts):
        time[band, :c] = np.sort(rng.uniform(55000, 55200, c))
        flux[band, :c], error[band, :c] = rng.gamma(2.0, 200, c), rng.uniform(2, 12, c)
    folder = out / f"healpix={int(healpix(ra, dec)[0]):04d}"
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / f"example_SN{i:06d}.hdf5", "w") as f:
        f["object_id"], f["obj_type"] = f"SN{i:06d}", "SN Ia"
        f["ra"], f["dec"], f["redshift"] = ra[0], dec[0], rng.uniform(0.01, 0.4)
        f["bands"] = np.array(list(BANDS), dtype="S1")
        f["time"], f["flux"], f["flux_err"] = time, flux, error


def objects(out: Path, size: int) -> None:
    """HDF5, one object a file."""
    parallel(one_object, [(out, i) for i in range(max(16, size // (256 * KIB)))])


def groups_file(job: tuple[Path, int, int]) -> None:
    """A file of groups, one an object, with a compound dataset each."""
    import h5py

    out, first, n = job
    spaxel = np.dtype([("flux", "f4", (60,)), ("ivar", "f4", (60,)), ("x", "i2"), ("y", "i2")])
    rng = np.random.default_rng(first)
    ra, dec = positions(rng, n)
    with h5py.File(out / f"{first:06d}.hdf5", "w") as f:
        f.attrs["survey"] = "bench"
        for i in range(n):
            g = f.create_group(f"7443-{first + i:06d}")
            name = g.name.strip("/")
            for key, value in (("object_id", name), ("ra", ra[i]), ("dec", dec[i]), ("z", rng.uniform(0.01, 0.15))):
                g.attrs[key] = value
            s = np.zeros(144, spaxel)
            s["x"], s["y"] = np.arange(144) % 12, np.arange(144) // 12
            s["flux"] = rng.normal(1, 0.01, (144, 60))
            s["ivar"] = 1e4
            g.create_dataset("spaxels", data=s, compression="gzip", compression_opts=1, shuffle=True)


def groups(out: Path, size: int) -> None:
    """HDF5, one group an object."""
    out.mkdir(parents=True)
    parallel(groups_file, [(out, a, n) for a, n in parts(max(16, size // (512 * KIB)), 4)])


def fits_table_file(job: tuple[Path, int, int]) -> None:
    from astropy.table import Table

    out, first, n = job
    Table(stars(first, n)).write(out / f"{first:08d}.fits")


def fits_table(out: Path, size: int) -> None:
    """FITS: binary tables of the same stars."""
    out.mkdir(parents=True)
    parallel(fits_table_file, [(out, a, n) for a, n in parts(size // 4 // KIB, 4)])


def fits_image(job: tuple[Path, Path, int]) -> None:
    """A file of one image with its position in the header."""
    from astropy.io import fits

    source, out, i = job
    ra, dec = positions(np.random.default_rng(i + 10**6), 1)
    image = np.load(source, mmap_mode="r")[i]
    h = fits.PrimaryHDU(np.array(image))
    centre = (image.shape[-1] + 1) / 2
    for key, value in {
        "OBJECT": f"IMG{i:06d}",
        "CTYPE1": "RA---TAN",
        "CTYPE2": "DEC--TAN",
        "CRVAL1": float(ra[0]),
        "CRVAL2": float(dec[0]),
        "CRPIX1": centre,
        "CRPIX2": centre,
        "CD1_1": -0.262 / 3600,
        "CD1_2": 0.0,
        "CD2_1": 0.0,
        "CD2_2": 0.262 / 3600,
    }.items():
        h.header[key] = value
    h.writeto(out / f"IMG{i:06d}.fits")


def fits_images(out: Path, size: int, source: Path) -> None:
    """FITS: one image a file."""
    out.mkdir(parents=True)
    n = min(len(np.load(source, mmap_mode="r")), max(16, size // MIB))
    parallel(fits_image, [(source, out, i) for i in range(n)])


def parquet(out: Path, size: int) -> None:
    """Parquet: the same stars, coefficients as lists of fixed length, Snappy as pyarrow writes it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out.mkdir(parents=True)
    for first, n in parts(size // 4 // KIB, 4):
        rows = stars(first, n)
        columns = {}
        for name, v in rows.items():
            if v.ndim == 2:
                columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(v.reshape(-1)), v.shape[1])
            elif v.dtype.kind == "S":
                columns[name] = pa.array(v.astype("U").tolist())
            else:
                columns[name] = pa.array(v)
        pq.write_table(pa.table(columns), out / f"{first:08d}.parquet")


def stamp(rng: np.random.Generator) -> bytes:
    """A cutout as a gzipped FITS image."""
    from astropy.io import fits

    y, x = np.mgrid[0:SIDE, 0:SIDE] - SIDE // 2
    image = rng.gamma(2.0, 300) * np.exp(-(x * x + y * y) / 8.0) + rng.normal(0, 9, (SIDE, SIDE))
    out = io.BytesIO()
    fits.PrimaryHDU(image.astype("f4")).writeto(out)
    return gzip.compress(out.getvalue(), 6, mtime=0)


def alerts_file(job: tuple[Path, int, int]) -> None:
    """A file of alerts: nested structs, a list of structs, cutouts as gzipped FITS in binary columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out, first, n = job
    rng = np.random.default_rng(first)
    ra, dec = positions(rng, n)

    def epoch() -> dict[str, Any]:
        return {
            "jd": 2459000 + rng.uniform(0, 30),
            "fid": int(rng.integers(1, 4)),
            "magpsf": float(np.float32(rng.normal(19, 1))),
            "sigmapsf": float(np.float32(rng.uniform(0.01, 0.3))),
        }

    past = pa.struct([("jd", pa.float64()), ("fid", pa.int32()), ("magpsf", pa.float32()), ("sigmapsf", pa.float32())])
    cutout = pa.struct([("fileName", pa.string()), ("stampData", pa.binary())])
    now = pa.struct([*past, ("ra", pa.float64()), ("dec", pa.float64()), ("candid", pa.int64())])
    schema = pa.schema(
        [
            ("objectId", pa.string()),
            ("candid", pa.int64()),
            ("candidate", now),
            ("prv_candidates", pa.list_(past)),
            *((f"cutout{k}", cutout) for k in ("Science", "Template", "Difference")),
        ]
    )
    rows = []
    for i in range(n):
        candid = 10**15 + first + i
        row = {
            "objectId": f"ZTF{first + i:08d}",
            "candid": candid,
            "candidate": {**epoch(), "ra": ra[i], "dec": dec[i], "candid": candid},
            "prv_candidates": [epoch() for _ in range(int(rng.integers(1, 30)))],
        }
        for k in ("Science", "Template", "Difference"):
            row[f"cutout{k}"] = {"fileName": f"candid{candid}_{k}.fits.gz", "stampData": stamp(rng)}
        rows.append(row)
    pq.write_table(pa.Table.from_pylist(rows, schema), out / f"{first:08d}.parquet")


def alerts(out: Path, size: int) -> None:
    """Parquet: alerts of a transient survey, and beside them the recipe that says which of their ids counts."""
    out.mkdir(parents=True)
    (out.parent / "alerts.yaml").write_text("id: candid\n")
    parallel(alerts_file, [(out, a, n) for a, n in parts(max(32, size // (512 * KIB)), 4)])


def csv(out: Path, size: int) -> None:
    """CSV: ids, positions and magnitudes of the same stars, in the fewest digits that give the same number."""
    import pyarrow as pa
    from pyarrow import csv as pacsv

    out.mkdir(parents=True)
    for first, n in parts(size // 4 // KIB, 4):
        rows = stars(first, n)
        columns = {
            k: pa.array(v.astype("U").tolist() if v.dtype.kind == "S" else v) for k, v in rows.items() if v.ndim == 1
        }
        pacsv.write_csv(pa.table(columns), out / f"{first:08d}.csv", pacsv.WriteOptions(quoting_style="none"))


# Of the images' bytes, how many a file of each filter has: slow ones need fewer to be measured.
FILTERS = {
    "contiguous": 1.0,
    "gzip": 0.5,
    "gzip-shuffle": 0.5,
    "lzf": 1.0,
    "szip": 0.5,
    "scaleoffset": 0.5,
    "nbit": 0.5,
    "zstd": 1.0,
    "lz4": 1.0,
    "bz2": 0.125,
    "bitshuffle-lz4": 1.0,
    "blosc-blosclz": 1.0,
    "blosc-lz4": 1.0,
    "blosc-lz4hc": 1.0,
    "blosc-zlib": 0.5,
    "blosc-zstd": 1.0,
    "blosc-zstd-bitshuffle": 1.0,
}
INTEGERS = {"scaleoffset", "nbit"}  # filters of whole numbers


def filter_options(name: str) -> dict[str, Any]:
    """What h5py wants for a filter."""
    import hdf5plugin

    if name.startswith("blosc-"):
        _, codec, *shuffle = name.split("-")
        how = hdf5plugin.Blosc.BITSHUFFLE if shuffle else hdf5plugin.Blosc.SHUFFLE
        return dict(hdf5plugin.Blosc(cname=codec, clevel=5, shuffle=how))
    return {
        "contiguous": dict,
        "gzip": lambda: {"compression": "gzip"},
        "gzip-shuffle": lambda: {"compression": "gzip", "shuffle": True},
        "lzf": lambda: {"compression": "lzf"},
        "szip": lambda: {"compression": "szip", "compression_opts": ("nn", 32)},
        "scaleoffset": lambda: {"scaleoffset": 0},
        "zstd": lambda: dict(hdf5plugin.Zstd(clevel=3)),
        "lz4": lambda: dict(hdf5plugin.LZ4()),
        "bz2": lambda: dict(hdf5plugin.BZip2()),
        "bitshuffle-lz4": lambda: dict(hdf5plugin.Bitshuffle()),
    }[name]()


def filtered(out: Path, source: Path, name: str) -> None:
    """Images in an HDF5 file in chunks of the size that h5py chooses for such a set, through one filter."""
    import h5py

    m = np.load(source, mmap_mode="r")
    n = max(1, int(len(m) * FILTERS[name] / 2))
    rows = np.array(m[:n])
    if name in INTEGERS:
        rows = np.rint(rows * 100).clip(-(1 << 15), (1 << 15) - 1).astype("<i4")
    with h5py.File("guess", "w", driver="core", backing_store=False) as f:
        chunks = f.create_dataset("x", m.shape, m.dtype, chunks=True).chunks
    chunks = (min(chunks[0], n), *chunks[1:])
    with h5py.File(out, "w") as f:
        if name == "nbit":
            kind = h5py.h5t.NATIVE_INT32.copy()
            kind.set_precision(17)
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk(chunks)
            plist.set_filter(h5py.h5z.FILTER_NBIT)
            d = h5py.h5d.create(f.id, b"image_array", kind, h5py.h5s.create_simple(rows.shape), plist)
            d.write(h5py.h5s.ALL, h5py.h5s.ALL, rows)
            return
        options = filter_options(name)
        f.create_dataset("image_array", data=rows, chunks=None if name == "contiguous" else chunks, **options)


def frames(out: Path, size: int, kind: str) -> None:
    """FITS: large images as a camera gives them, plain or compressed in tiles."""
    from astropy.io import fits

    rng = np.random.default_rng(5)
    pixel = 2 if kind == "rice" else 4
    hdus: list[Any] = [fits.PrimaryHDU()]
    for _ in range(max(1, size // 16 // (FRAME * FRAME * pixel))):
        sky = rng.normal(1000, 15, (FRAME, FRAME))
        if kind == "rice":
            hdus.append(fits.CompImageHDU(np.rint(sky).astype("i2"), compression_type="RICE_1"))
        elif kind == "rice-float":
            hdus.append(
                fits.CompImageHDU(
                    sky.astype("f4"), compression_type="RICE_1", quantize_level=16, quantize_method=1, dither_seed=7
                )
            )
        elif kind == "gzip-tiles":
            hdus.append(fits.CompImageHDU(sky.astype("f4"), compression_type="GZIP_2", quantize_level=0))
        else:
            hdus.append(fits.ImageHDU(sky.astype("f4")))
    fits.HDUList(hdus).writeto(out)


def makers(work: Path, size: int, binary: Path) -> dict[str, tuple[Path, Callable[[Path], None]]]:
    """What can be made: where it stands, and how."""
    images, npy = work / "images", work / "images.npy"
    quarter = f"{size // 4}"
    made: dict[str, tuple[Path, Callable[[Path], None]]] = {
        "synth": (images, lambda out: prepare.synth(binary, out, "images", quarter, "none")),
        "npy": (npy, lambda out: prepare.npy(images, out, "image_array", (4, 96, 96))),
        "survey": (work / "survey", lambda out: prepare.survey(npy, out, 1)),
        "gaia": (work / "gaia", lambda out: gaia(out, size)),
        "objects": (work / "objects", lambda out: objects(out, size)),
        "groups": (work / "groups", lambda out: groups(out, size)),
        "fits-table": (work / "fits-table", lambda out: fits_table(out, size)),
        "fits-images": (work / "fits-images", lambda out: fits_images(out, size, npy)),
        "parquet": (work / "parquet", lambda out: parquet(out, size)),
        "alerts": (work / "alerts", lambda out: alerts(out, size)),
        "csv": (work / "csv", lambda out: csv(out, size)),
    }
    for name in FILTERS:
        made[name] = (work / f"{name}.hdf5", lambda out, name=name: filtered(out, npy, name))
    for kind in ("plain", "rice", "rice-float", "gzip-tiles"):
        made[f"frames-{kind}"] = (work / f"frames-{kind}.fits", lambda out, kind=kind: frames(out, size, kind))
    return made


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("work", type=Path)
    p.add_argument("what", nargs="+")
    p.add_argument("--binary", type=Path, required=True)
    p.add_argument("--size", type=int, required=True, help="bytes of the largest survey")
    a = p.parse_args()
    for what in a.what:
        out, make = makers(a.work, a.size, a.binary)[what]
        once(out, make, out)
    # Half-made leftovers of an interrupted run are of no use to the next.
    for half in a.work.glob("making-*"):
        shutil.rmtree(half, ignore_errors=True)


if __name__ == "__main__":
    main()
