"""`np.memmap` over a raw .npy file: fancy-indexed by a permutation, or row by row."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np


def main() -> None:
    p = common.parser(__doc__)
    p.add_argument("file", type=Path)
    p.add_argument("--single", action="store_true", help="one row at a time, as a view, in random order")
    args = p.parse_args()
    m = np.load(args.file, mmap_mode="r")

    def batches():
        order = np.random.default_rng(args.seed).permutation(len(m))
        if args.single:
            return (m[i][None] for i in order.tolist())
        return (m[order[i : i + args.batch]] for i in range(0, len(m), args.batch))

    common.report(common.measure(args, batches))


if __name__ == "__main__":
    main()
