"""torch's DataLoader over `np.memmap`: a map-style dataset that takes the row numbers of a whole batch and indexes with them.

That is how torch documents bulk reads: batch_size=None, and a BatchSampler over a RandomSampler as the sampler. Fixed rows
are one `np.take` a column, which is a fancy index that costs less; rows of scalars are records of a structured array, since
a row is then one place in memory and not twenty; of ragged rows the slices are put one after another.
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

RECORDS = "records.npy"


def write(workload: workloads.Workload, rows, out: Path) -> None:
    """All columns as one structured array."""
    out.mkdir()
    records = np.lib.format.open_memmap(out / RECORDS, "w+", workload.record, (len(rows),))
    for c in workload.columns:
        records[c.name] = rows.column(c, 0, len(rows))
    records.flush()


class Records(Dataset):
    """Rows of scalars."""

    def __init__(self, folder: Path) -> None:
        self.records = np.asarray(np.load(folder / RECORDS, mmap_mode="r"))

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, rows: list[int]) -> dict[str, object]:
        return workloads.tensors(workloads.split(np.take(self.records, rows)))


class Mapped(Dataset):
    """Columns of arrays, in a file each."""

    def __init__(self, folder: Path, workload: workloads.Workload) -> None:
        self.workload = workload
        files = {c.name: folder / f"{c.name}.npy" for c in workload.columns}
        self.arrays = {name: np.asarray(np.load(file, mmap_mode="r")) for name, file in files.items()}
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
            out[c.name] = (np.concatenate([a[s] for s in slices]), offsets) if c.ragged else np.take(a, index, axis=0)
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
    data = Records(args.folder) if (args.folder / RECORDS).exists() else Mapped(args.folder, w)
    batches = loader(data, w, args)
    common.report(workloads.measure(args, w, lambda: map(workloads.arrays, batches)))


if __name__ == "__main__":
    main()
