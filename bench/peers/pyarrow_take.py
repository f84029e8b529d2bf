"""pyarrow: `Table.take` of a permutation's next rows, from a memory-mapped Arrow file.

pyarrow has no shuffled loader; this is what it documents for rows by number over a file that is not copied into memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np
import pyarrow as pa
import workloads

FILE = "rows.arrow"


def write(workload: workloads.Workload, rows, out: Path) -> None:
    """One record batch, since take first joins a column of several."""
    out.mkdir()
    table = workloads.to_arrow(rows, workload, 0, len(rows))
    with pa.OSFile(str(out / FILE), "wb") as f, pa.ipc.new_file(f, table.schema) as w:
        w.write_table(table)


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("folder", type=Path)
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    table = pa.ipc.open_file(pa.memory_map(str(args.folder / FILE))).read_all()

    def batches(seed: int) -> Iterator[workloads.Batch]:
        order = np.random.default_rng(seed).permutation(table.num_rows)
        parts = (order[i : i + w.batch] for i in range(0, len(order), w.batch))
        return (workloads.from_arrow(table.take(pa.array(rows)), w) for rows in parts)

    common.report(workloads.measure(args, w, workloads.shuffled(batches, args.seed)))


if __name__ == "__main__":
    main()
