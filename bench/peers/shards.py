"""What pyarrow (or h5py) says a column holds: rows, sum and digest. Other readers are held against it.

FOLDER is a dataset's root; with --loose any folder of Parquet files; with --hdf5 a survey of HDF5 files.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import h5py
import numpy as np
import pyarrow.parquet as pq
from prepare import shards
from pyarrow_batches import to_numpy


def main() -> None:
    p = common.parser(__doc__)
    p.add_argument("folder", type=Path)
    p.add_argument("--column", default="image_array")
    p.add_argument("--dtype", default="float32")
    p.add_argument("--loose", action="store_true")
    p.add_argument("--hdf5", action="store_true")
    args = p.parse_args()
    args.check, args.warm = True, 0
    found: dict[str, object] = {}
    if args.hdf5:
        found["by"] = "h5py"
        files = sorted(args.folder.rglob("*.hdf5"))
        with_arrays = [h5py.File(f, "r") for f in files]
        found["all_bytes"] = sum(d.size * d.dtype.itemsize for f in with_arrays for d in f.values())

        def batches():
            for f in with_arrays:
                d = f[args.column]
                step = max(d.chunks[0], args.batch)
                yield from (d[i : i + step] for i in range(0, len(d), step))
    else:
        # Files without the column are statistics, manifests and the like.
        every = sorted(args.folder.rglob("*.parquet")) if args.loose else shards(args.folder)
        files = [f for f in every if args.column in pq.read_schema(f).names]

        def batches():
            for f in files:
                for b in pq.ParquetFile(f).iter_batches(args.batch, columns=[args.column]):
                    yield np.asarray(to_numpy(b.column(0), args.shape), args.dtype)

    common.report({**common.measure(args, batches, dtype=args.dtype), **found})


if __name__ == "__main__":
    main()
