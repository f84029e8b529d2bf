"""Write the same rows in the formats that the peers read.

The rows are taken from the shards by pyarrow, so that what this project's own reader gives is held against another
reader's values.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

BANDS = [b"g", b"r", b"i", b"z"]


def shards(root: Path) -> list[Path]:
    """The shards of the latest release, in manifest order."""
    import json

    import pyarrow.parquet as pq

    latest = json.loads((root / "latest.json").read_text())
    manifest = root / latest["name"] / "releases" / str(latest["release"]) / "manifest.parquet"
    lines = pq.read_table(manifest, columns=["path", "role"]).to_pylist()
    return [root / x["path"] for x in lines if x["role"] == "primary"]


def rows(files: list[Path], column: str, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """The column's rows in batches, read by pyarrow."""
    import pyarrow.parquet as pq
    from pyarrow_batches import to_numpy

    for f in files:
        for b in pq.ParquetFile(f).iter_batches(256, columns=[column]):
            yield to_numpy(b.column(0), shape)


def npy(root: Path, out: Path, column: str, shape: tuple[int, ...]) -> None:
    """One raw .npy file of all rows, in dense order."""
    import pyarrow.parquet as pq

    files = shards(root)
    n = sum(pq.ParquetFile(f).metadata.num_rows for f in files)
    with open(out, "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": (n, *shape)})
        for a in rows(files, column, shape):
            f.write(np.ascontiguousarray(a, "<f4").data)


def parquet(source: Path, out: Path, column: str) -> None:
    """Four Parquet files that `datasets` writes from an ArrayND column."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    import datasets

    m = np.load(source, mmap_mode="r")
    kind = {2: datasets.Array2D, 3: datasets.Array3D, 4: datasets.Array4D}[m.ndim - 1]
    features = datasets.Features({column: kind(m.shape[1:], str(m.dtype))})
    out.mkdir()
    for k in range(4):
        part = [m[i] for i in range(k * len(m) // 4, (k + 1) * len(m) // 4)]
        datasets.Dataset.from_dict({column: part}, features=features).to_parquet(
            str(out / f"{k}.parquet"), batch_size=100
        )


def chunked(source: Path, out: Path, column: str, shuffle: bool) -> None:
    """Two slabs of rows in an HDF5 file with the chunks that h5py would choose for the whole set, gzip."""
    import h5py

    m = np.load(source, mmap_mode="r")
    with h5py.File("guess", "w", driver="core", backing_store=False) as f:
        chunks = f.create_dataset(column, m.shape, m.dtype, chunks=True).chunks
    n = min(len(m), 2 * chunks[0])
    chunks = (min(chunks[0], n), *chunks[1:])
    with h5py.File(out, "w") as f:
        f.create_dataset(
            column, data=m[:n], chunks=chunks, compression="gzip", shuffle=shuffle, maxshape=(None, *m.shape[1:])
        )


def survey_file(job: tuple[Path, Path, np.ndarray, np.ndarray, np.ndarray, int]) -> None:
    """One file of the survey: a HEALPix pixel's rows, columnar, every array gzip in the chunks that h5py guesses."""
    import h5py

    source, out, k, ra, dec, pixel = job
    images = np.load(source, mmap_mode="r")[k]
    out.parent.mkdir(parents=True)
    rng = np.random.default_rng(pixel)
    with h5py.File(out, "w") as f:
        kw = {"chunks": True, "compression": "gzip"}
        f.create_dataset("object_id", data=np.array([f"{i:012d}" for i in k], "S12"), **kw)
        f.create_dataset("ra", data=ra, **kw)
        f.create_dataset("dec", data=dec, **kw)
        f.create_dataset("healpix", data=np.full(len(k), pixel, "i8"), **kw)
        f.create_dataset("z", data=rng.gamma(2.0, 0.15, len(k)).astype("f4"), **kw)
        f.create_dataset("image_band", data=np.array([BANDS] * len(k), "S5"), **kw)
        f.create_dataset("image_array", data=images, maxshape=(None, *images.shape[1:]), **kw)


def survey(source: Path, out: Path, share: int) -> None:
    """An HDF5 survey of every share-th part of the rows, on a patch of sky, one file a HEALPix pixel of order 4."""
    from astropy import units as u
    from astropy_healpix import HEALPix

    n = max(1, len(np.load(source, mmap_mode="r")) // share)
    rng = np.random.default_rng(7)
    ra = rng.uniform(146.0, 154.0, n)
    dec = np.degrees(np.arcsin(rng.uniform(np.sin(np.radians(-2.0)), np.sin(np.radians(6.0)), n)))
    pixel = HEALPix(nside=16, order="nested").lonlat_to_healpix(ra * u.deg, dec * u.deg)
    jobs = []
    for p in np.unique(pixel).tolist():
        k = np.flatnonzero(pixel == p)
        jobs.append((source, out / f"healpix={p}" / "001-of-001.hdf5", k, ra[k], dec[k], p))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(survey_file, jobs))


def cache(folder: Path, store: Path, column: str) -> None:
    """The Arrow cache that `datasets` reads from."""
    from datasets_map import load

    load(folder, store, column)


def synth(binary: Path, root: Path, kind: str, size: str, compression: str) -> None:
    """A made-up release."""
    command = [
        str(binary),
        "synth",
        str(root),
        "--kind",
        kind,
        "--size",
        size,
        "--seed",
        "1",
        "--compression",
        compression,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def once(out: Path, make: object, *args: object) -> None:
    """Calls make(..., out, ...) unless out is there; half of a result is never left."""
    if out.exists():
        return
    half = out.with_name("making-" + out.name)
    shutil.rmtree(half, ignore_errors=True)
    half.unlink(missing_ok=True)
    make(*(half if a is out else a for a in args))  # type: ignore[operator]
    half.rename(out)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("work", type=Path)
    p.add_argument(
        "what",
        choices=["images", "zstd", "rgb", "npy", "parquet", "ours-cache", "parquet-cache", "gzip", "shuffle", "survey"],
    )
    p.add_argument("--binary", type=Path, required=True)
    p.add_argument("--size", default="1GiB")
    p.add_argument("--share", type=int, default=4)
    a = p.parse_args()
    w, column = a.work, "image_array"
    if a.what in ("images", "zstd", "rgb"):
        out = w / a.what
        kind, codec = {"images": ("images", "none"), "zstd": ("images", "zstd"), "rgb": ("rgb", "none")}[a.what]
        once(out, synth, a.binary, out, kind, a.size, codec)
    elif a.what == "npy":
        out = w / "images.npy"
        once(out, npy, w / "images", out, column, (4, 96, 96))
    elif a.what == "parquet":
        out = w / "parquet"
        once(out, parquet, w / "images.npy", out, column)
    elif a.what in ("ours-cache", "parquet-cache"):
        out = w / a.what
        once(out, cache, w / {"ours-cache": "images", "parquet-cache": "parquet"}[a.what], out, column)
    elif a.what in ("gzip", "shuffle"):
        out = w / f"{a.what}.hdf5"
        once(out, chunked, w / "images.npy", out, column, a.what == "shuffle")
    else:
        out = w / "survey"
        once(out, survey, w / "images.npy", out, a.share)


if __name__ == "__main__":
    main()
