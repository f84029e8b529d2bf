"""torch's DataLoader over h5py: contiguous datasets, opened in each worker, every row read straight into the batch.

h5py's own fancy index wants sorted rows and is slower than that. Scalars are read once, at opening. Tables and ragged rows
are left out: HDF5 has no access to scattered single numbers that comes near the other peers, and no ragged layout but
h5py's special dtypes, which give an object a row.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import h5py
import numpy as np
import workloads
from torch.utils.data import Dataset
from torch_memmap import loader

FILE = "rows.hdf5"


def write(workload: workloads.Workload, rows, out: Path) -> None:
    """One dataset a column, contiguous."""
    out.mkdir()
    with h5py.File(out / FILE, "w") as f:
        for c in workload.columns:
            d = f.create_dataset(c.name, (len(rows), *c.shape), c.dtype)
            for lo in range(0, len(rows), workload.batch):
                hi = min(lo + workload.batch, len(rows))
                d[lo:hi] = rows.column(c, lo, hi)


class Stored(Dataset):
    def __init__(self, folder: Path, workload: workloads.Workload) -> None:
        self.path, self.workload = folder / FILE, workload
        self.open: dict[str, object] | None = None
        with h5py.File(self.path) as f:
            self.rows = len(f[workload.columns[0].name])

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: list[int]) -> dict[str, object]:
        if self.open is None:
            f = h5py.File(self.path)
            self.open = {c.name: f[c.name] if c.shape else f[c.name][:] for c in self.workload.columns}
        out: workloads.Batch = {}
        for c in self.workload.columns:
            d = self.open[c.name]
            if not c.shape:
                out[c.name] = d[rows]
                continue
            out[c.name] = np.empty((len(rows), *c.shape), c.dtype)
            for k, i in enumerate(rows):
                d.read_direct(out[c.name], i, k)
        return workloads.tensors(out)


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("folder", type=Path)
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    batches = loader(Stored(args.folder, w), w, args)
    common.report(workloads.measure(args, w, lambda: map(workloads.arrays, batches)))


if __name__ == "__main__":
    main()
