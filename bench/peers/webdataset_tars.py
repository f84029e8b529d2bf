"""WebDataset: tar files of .npy members; shards shuffled, then samples in a buffer, batched in the worker, WebLoader."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np
import torch
import webdataset
import workloads

ROW_BY_ROW = True
SHARD = 64 << 20
BUFFER = 1000  # samples, as its documentation has it


def members(workload: workloads.Workload) -> dict[str, tuple[str, ...]]:
    """The members of a sample, and the columns in each: an array for itself, all scalars as one record."""
    out = {f"{c.name}.npy": (c.name,) for c in workload.columns if c.shape != ()}
    if names := tuple(c.name for c in workload.columns if c.shape == ()):
        out["scalars.npy"] = names
    return out


def write(workload: workloads.Workload, rows, out: Path) -> None:
    out.mkdir()
    dtypes = {c.name: c.dtype for c in workload.columns}
    with webdataset.ShardWriter(str(out / "%04d.tar"), maxsize=SHARD, verbose=0) as w:
        for i, row in enumerate(rows):
            sample: dict[str, object] = {"__key__": f"{i:08d}"}
            for member, names in members(workload).items():
                if member == "scalars.npy":
                    dtype = [(n, dtypes[n]) for n in names]
                    sample[member] = np.array([tuple(row[n] for n in names)], dtype)
                else:
                    sample[member] = np.array(row[names[0]])
            w.write(sample)


class Collate:
    def __init__(self, workload: workloads.Workload) -> None:
        self.workload = workload
        arrays = tuple(c for c in workload.columns if c.shape != ())
        self.arrays = workloads.Workload(workload.name, arrays, workload.batch)

    def __call__(self, samples: list[tuple[np.ndarray, ...]]) -> dict[str, object]:
        names = [c.name for c in self.arrays.columns]
        out = workloads.join([dict(zip(names, s)) for s in samples], self.arrays) if names else {}
        if len(samples[0]) > len(names):
            out.update(workloads.split(np.concatenate([s[-1] for s in samples])))
        return workloads.tensors(out)


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("folder", type=Path)
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    torch.set_num_threads(1)
    tars = sorted(str(t) for t in args.folder.glob("*.tar"))
    data = (
        webdataset.WebDataset(tars, shardshuffle=len(tars), empty_check=False, seed=args.seed)
        .shuffle(BUFFER)
        .decode()
        .to_tuple(*members(w))
        .batched(w.batch, collation_fn=Collate(w))
    )
    batches = webdataset.WebLoader(data, batch_size=None, num_workers=args.workers)
    common.report(workloads.measure(args, w, lambda: map(workloads.arrays, batches)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
