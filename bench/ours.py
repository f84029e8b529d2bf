"""This project's Python package: shuffled batches, or random rows of a mapped column."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import common
import numpy as np

import astropile


def main() -> None:
    p = common.parser(__doc__)
    p.add_argument("root", type=Path)
    p.add_argument("--column", default="image_array")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--order", action="store_true", help="in order, not shuffled")
    p.add_argument("--untouched", action="store_true", help="take the batches without reading them")
    p.add_argument("--single", action="store_true", help="rows of ds.memmap, one at a time, in random order")
    args = p.parse_args()
    ds = astropile.open(args.root, columns=[args.column], threads=args.threads)
    if args.single:
        m = ds.memmap(args.column)

        def batches():
            return (m[i][None] for i in np.random.default_rng(args.seed).permutation(len(m)).tolist())
    else:

        def batches():
            return (b[args.column] for b in ds.batches(args.batch, shuffle=not args.order, seed=args.seed))

    result = common.measure(args, batches, untouched=args.untouched)
    common.report(result, [ds._feed.process_id] if ds._feed else [])


if __name__ == "__main__":
    main()
