"""LitData: a StreamingDataset of chunks that `optimize` wrote, shuffle=True, in its StreamingDataLoader."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import litdata
import numpy as np
import torch
import workloads

ROW_BY_ROW = True
CHUNK = "64MB"  # what its documentation takes


def pack(workload: workloads.Workload, row: workloads.Batch) -> dict[str, object]:
    """A row as LitData stores it: arrays; it knows no numbers of 32 bits, so scalars are one array for each dtype."""
    out: dict[str, object] = {c.name: np.array(row[c.name]) for c in workload.columns if c.shape != ()}
    for dtype, names in scalars(workload).items():
        out[f"_{dtype}"] = np.array([row[n] for n in names], dtype)
    return out


def scalars(workload: workloads.Workload) -> dict[str, list[str]]:
    """The scalar columns by dtype."""
    out: dict[str, list[str]] = {}
    for c in workload.columns:
        if c.shape == ():
            out.setdefault(c.dtype, []).append(c.name)
    return out


def _row(i: int, rows, workload: workloads.Workload) -> dict[str, object]:
    return pack(workload, rows.row(i))


def write(workload: workloads.Workload, rows, out: Path) -> None:
    litdata.optimize(
        fn=partial(_row, rows=rows, workload=workload),
        inputs=list(range(len(rows))),
        output_dir=str(out),
        chunk_bytes=CHUNK,
        num_workers=2,
    )


class Collate:
    def __init__(self, workload: workloads.Workload) -> None:
        self.workload, self.scalars = workload, scalars(workload)
        arrays = tuple(c for c in workload.columns if c.shape != ())
        packed = tuple(workloads.Column(f"_{d}", d, (len(n),)) for d, n in self.scalars.items())
        self.stored = workloads.Workload(workload.name, arrays + packed, workload.batch)

    def __call__(self, rows: list[workloads.Batch]) -> dict[str, object]:
        out = workloads.join(rows, self.stored)
        for dtype, names in self.scalars.items():
            values = np.ascontiguousarray(out.pop(f"_{dtype}").T)
            out.update(zip(names, values))
        return workloads.tensors(out)


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("folder", type=Path)
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    torch.set_num_threads(1)
    data = litdata.StreamingDataset(str(args.folder), shuffle=True, seed=args.seed)
    batches = litdata.StreamingDataLoader(data, batch_size=w.batch, num_workers=args.workers, collate_fn=Collate(w))
    common.report(workloads.measure(args, w, lambda: map(workloads.arrays, batches)))
    sys.stdout.flush()
    os._exit(0)  # its threads may wait for ever


if __name__ == "__main__":
    main()
