"""h5py: a dataset in slabs of rows, in order."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import h5py
import hdf5plugin  # noqa: F401  teaches h5py the filters that HDF5 itself lacks


def main() -> None:
    p = common.parser(__doc__)
    p.add_argument("file", type=Path)
    p.add_argument("--column", default="image_array")
    p.add_argument("--dtype", default="float32")
    p.add_argument(
        "--chunks",
        action="store_true",
        help="slabs as high as the chunks, so that each chunk is decoded once; a batch where there are none",
    )
    args = p.parse_args()
    d = h5py.File(args.file, "r")[args.column]
    step = d.chunks[0] if args.chunks and d.chunks else args.batch
    result = common.measure(args, lambda: (d[i : i + step] for i in range(0, len(d), step)), dtype=args.dtype)
    common.report({"by": "h5py", **result})


if __name__ == "__main__":
    main()
