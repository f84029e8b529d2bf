"""torch's DataLoader over `np.memmap`: a map-style dataset that takes the row numbers of a whole batch and indexes with them.

That is how torch documents bulk reads: batch_size=None, and a BatchSampler over a RandomSampler as the sampler. Fixed rows
are one fancy index a column; of ragged ones the slices are put one after another.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np
import torch
import workloads
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Mapped(Dataset):
    def __init__(self, folder: Path, workload: workloads.Workload) -> None:
        self.workload = workload
        self.arrays = {c.name: np.load(folder / f"{c.name}.npy", mmap_mode="r") for c in workload.columns}
        self.offsets = np.load(folder / "offsets.npy") if workload.ragged else None
        self.rows = min(len(self.arrays[c.name]) for c in workload.columns if not c.ragged)

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: list[int]) -> dict[str, object]:
        index = np.asarray(rows)
        out: workloads.Batch = {}
        if self.offsets is not None:
            lo, hi = self.offsets[index], self.offsets[index + 1]
            offsets = np.concatenate([[0], np.cumsum(hi - lo)])
            slices = [slice(a, b) for a, b in zip(lo.tolist(), hi.tolist())]
        for c in self.workload.columns:
            a = self.arrays[c.name]
            out[c.name] = (np.concatenate([a[s] for s in slices]), offsets) if c.ragged else np.asarray(a[index])
        return workloads.tensors(out)


def loader(data: Dataset, workload: workloads.Workload, args) -> DataLoader:
    """Shuffled batches of a dataset that takes the row numbers of a batch."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    sampler = BatchSampler(RandomSampler(data), workload.batch, drop_last=False)
    return DataLoader(data, sampler=sampler, batch_size=None, num_workers=args.workers)


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("folder", type=Path)
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    batches = loader(Mapped(args.folder, w), w, args)
    common.report(workloads.measure(args, w, lambda: map(workloads.arrays, batches)))


if __name__ == "__main__":
    main()
