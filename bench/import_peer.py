"""What people write today to turn a survey's HDF5 into Parquet: h5py and pyarrow, one process.

Every file is read in slabs; the rows of a HEALPix pixel are sorted by their pixel of order 29 and id, written as one Parquet
file of nested lists, in row groups of 100 rows, and the file's SHA-256 is taken. Compression, dictionaries and statistics are
off for images: the fastest that pyarrow does.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import common
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from astropy import units as u
from astropy_healpix import HEALPix

SLAB = 256


def nested(a: np.ndarray) -> pa.Array:
    """An array [n, ...] as nested lists, without a Python list."""
    if a.dtype.kind == "S":
        out = pa.array(np.char.decode(a.reshape(-1), "utf-8"), pa.string())
    else:
        out = pa.array(a.reshape(-1))
    for length in a.shape[:0:-1]:
        out = pa.ListArray.from_arrays(pa.array(np.arange(0, len(out) + 1, length, dtype=np.int32)), out)
    return out


def convert(source: Path, out: Path) -> tuple[int, int]:
    """Rows and bytes of arrays converted."""
    files: dict[int, list[Path]] = {}
    for f in sorted(source.rglob("*.hdf5")):
        files.setdefault(int(f.parent.name.split("=")[1]), []).append(f)
    finest = HEALPix(nside=1 << 29, order="nested")
    rows = size = 0
    for pixel, paths in sorted(files.items()):
        parts: dict[str, list[np.ndarray]] = {}
        for path in paths:
            with h5py.File(path, "r") as f:
                for name, d in f.items():
                    parts.setdefault(name, []).extend(d[i : i + SLAB] for i in range(0, len(d), SLAB))
        columns = {name: np.concatenate(p) for name, p in parts.items()}
        place = np.asarray(finest.lonlat_to_healpix(columns["ra"] * u.deg, columns["dec"] * u.deg), "i8")
        order = np.lexsort((columns["object_id"], place))
        columns = {"_healpix_29": place, **columns}
        table = pa.table({name: nested(a[order]) for name, a in columns.items()})
        path = out / f"Npix={pixel}.parquet"
        pq.write_table(
            table, path, row_group_size=100, compression="none", use_dictionary=False, write_statistics=False
        )
        with open(path, "rb") as f:
            path.with_suffix(".sha256").write_text(
                hashlib.file_digest(f, "sha256").hexdigest()
                if sys.version_info >= (3, 11)
                else hashlib.sha256(f.read()).hexdigest()
            )
        rows += len(order)
        size += sum(a.nbytes for a in columns.values())
    return rows, size


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("source", type=Path)
    p.add_argument("out", type=Path)
    args = p.parse_args()
    args.out.mkdir(parents=True)
    start = time.perf_counter()
    rows, size = convert(args.source, args.out)
    seconds = time.perf_counter() - start
    common.report({"rows": rows, "bytes": size, "seconds": [seconds], "gbs": size / seconds / 1e9})


if __name__ == "__main__":
    main()
