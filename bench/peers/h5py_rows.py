"""h5py: a dataset in slabs of rows, in order."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import h5py


def main() -> None:
    p = common.parser(__doc__)
    p.add_argument("file", type=Path)
    p.add_argument("--column", default="image_array")
    p.add_argument(
        "--chunks", action="store_true", help="slabs as high as the chunks, so that each chunk is decoded once"
    )
    args = p.parse_args()
    d = h5py.File(args.file, "r")[args.column]
    step = d.chunks[0] if args.chunks else args.batch
    common.report(common.measure(args, lambda: (d[i : i + step] for i in range(0, len(d), step))))


if __name__ == "__main__":
    main()
