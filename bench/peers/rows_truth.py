"""What pyarrow says the rows of a workload are: rows, sum and digest. Every loader is held against it.

ROOTS are datasets of this project, read as the Parquet that they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np
import prepare_loaders
import workloads


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("roots", type=Path, nargs="+")
    p.add_argument("--below", type=float, help="only rows whose z is less")
    p.add_argument("--part", action="store_true", help="only the first rows, which slow peers get")
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    where = None
    if args.below is not None:

        def where(batch):
            import pyarrow as pa

            return pa.array(batch.column("z").to_numpy() < np.float32(args.below))

    left = [sys.maxsize]
    if args.part:
        left[0] = prepare_loaders.part(sum(map(prepare_loaders.count, args.roots)))

    def batches():
        for root in args.roots:
            for b in prepare_loaders.read(root, w, where):
                n = len(b[w.columns[0].name])
                if left[0] < n:
                    b = {k: v[: left[0]] for k, v in b.items()}
                if left[0] > 0:
                    yield b
                left[0] -= n

    common.report(workloads.drain(args, w, batches, check=True))


if __name__ == "__main__":
    main()
