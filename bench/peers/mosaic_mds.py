"""MosaicML Streaming: a StreamingDataset of local MDS shards, shuffle=True and its defaults, in torch's DataLoader."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import streaming
import torch
import workloads
from torch.utils.data import DataLoader

ROW_BY_ROW = True
SHARD = 64 << 20  # its default


def encoding(c: workloads.Column) -> str:
    """The MDS encoding of a column; it has none for masks."""
    dtype = "uint8" if c.dtype == "bool" else c.dtype
    if c.ragged:
        return f"ndarray:{dtype}"
    return f"ndarray:{dtype}:{','.join(map(str, c.shape))}" if c.shape else dtype


def write(workload: workloads.Workload, rows, out: Path) -> None:
    columns = {c.name: encoding(c) for c in workload.columns}
    with streaming.MDSWriter(out=str(out), columns=columns, compression=None, hashes=[], size_limit=SHARD) as w:
        for row in rows:
            w.write(
                {
                    c.name: row[c.name].view(columns[c.name].split(":")[1])
                    if c.shape != ()
                    else row[c.name].astype(columns[c.name])[()]
                    for c in workload.columns
                }
            )


class Collate(workloads.Collate):
    """Masks are bytes that mean booleans."""

    def __call__(self, rows: list[workloads.Batch]) -> dict[str, object]:
        for c in self.workload.columns:
            if c.dtype == "bool" and c.shape:
                for r in rows:
                    r[c.name] = r[c.name].view("bool")
        return super().__call__(rows)


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("folder", type=Path)
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)
    streaming.base.util.clean_stale_shared_memory()
    data = streaming.StreamingDataset(
        local=str(args.folder), shuffle=True, batch_size=w.batch, shuffle_seed=args.seed, num_canonical_nodes=1
    )
    batches = DataLoader(data, batch_size=w.batch, num_workers=args.workers, collate_fn=Collate(w))
    common.report(workloads.measure(args, w, lambda: map(workloads.arrays, batches)))
    sys.stdout.flush()
    os._exit(0)  # its threads may wait for ever


if __name__ == "__main__":
    main()
