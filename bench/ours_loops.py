"""This project's training loops: shuffled or in order, mixes, filters, torch, time to the first batch, resume."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import common
import workloads

import astropile


def columns(batch: Any, workload: workloads.Workload) -> workloads.Batch:
    """The columns of a batch of ours, numpy or torch."""
    out: workloads.Batch = {}
    for c in workload.columns:
        v = batch[c.group] if c.group else batch[c.name]
        if c.ragged:
            out[c.name] = (v[c.name], v["offsets"]) if isinstance(v, dict) else (v[c.name].values, v.offsets)
        else:
            out[c.name] = v
    return out


def opened(args: argparse.Namespace, workload: workloads.Workload) -> astropile.Dataset:
    """The dataset, or the mix of several."""
    sets = [
        astropile.open(root, columns=workload.stored, where=args.where, threads=args.threads) for root in args.roots
    ]
    if not args.shares:
        return sets[0]
    return astropile.mix(list(zip(sets, args.shares)), stop="first", threads=args.threads)


def loop(args: argparse.Namespace, workload: workloads.Workload, ds: astropile.Dataset, epochs: int = 1) -> Any:
    return ds.batches(workload.batch, shuffle=not args.order, seed=args.seed, epochs=epochs)


def first(args: argparse.Namespace, workload: workloads.Workload) -> tuple[dict[str, Any], astropile.Dataset]:
    """From the call of open to a first batch that was read; with a state, to the batch after it."""
    state = None
    if args.resume:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "state.json"
            subprocess.run([sys.executable, *sys.argv, "--save", str(file)], check=True)
            state = json.loads(file.read_text())
    begin = time.perf_counter()
    ds = opened(args, workload)
    batches = loop(args, workload, ds)
    if state:
        batches.load_state_dict(state["state"])
    got = columns(next(iter(batches)), workload)
    sums = [workloads.touch(got[c.name], c)[0] for c in workload.columns]
    seconds = time.perf_counter() - begin
    if state and state["next"] != [sums, workloads.digest(got, workload)]:
        raise SystemExit("the batch after the state is not the one that follows where it was taken")
    size = workloads.size(got, workload)
    return {
        "rows": len(got[workload.columns[0].name]),
        "bytes": size,
        "gbs": size / seconds / 1e9,
        "seconds": [seconds],
    }, ds


def save(args: argparse.Namespace, workload: workloads.Workload) -> None:
    """Half an epoch, its state, and what the next batch holds."""
    batches = loop(args, workload, opened(args, workload))
    left = len(batches) // 2
    steps = iter(batches)
    for _ in range(left):
        next(steps)
    state = batches.state_dict()
    got = columns(next(steps), workload)
    sums = [workloads.touch(got[c.name], c)[0] for c in workload.columns]
    args.save.write_text(json.dumps({"state": state, "next": [sums, workloads.digest(got, workload)]}))


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("roots", type=Path, nargs="+")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--order", action="store_true", help="in order, not shuffled")
    p.add_argument("--where", help="rows for which this is true")
    p.add_argument("--epochs", type=int, default=1, help="that follow each other, where one is too short to be timed")
    p.add_argument("--shares", type=lambda s: [float(x) for x in s.split(",")], help="of the roots in a mix")
    p.add_argument("--torch", action="store_true", help="through DataLoader(ds.torch(...), num_workers=0)")
    p.add_argument("--first", action="store_true", help="time to the first batch")
    p.add_argument(
        "--resume", action="store_true", help="time to the first batch from a state in the middle of an epoch"
    )
    p.add_argument("--save", type=Path, help="write such a state, and what follows it")
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    if args.save:
        save(args, w)
        return
    if args.first or args.resume:
        result, ds = first(args, w)
        common.report(result, [ds._feed.process_id])
        return
    if args.check:
        args.epochs, args.warm = 1, min(args.warm, 0 if args.where else args.warm)
    if args.torch:
        from torch.utils.data import DataLoader
    ds = opened(args, w)

    def take(batch: Any) -> workloads.Batch:
        out = columns(batch, w)
        return workloads.arrays(out) if args.torch else out

    # map drops a batch before it asks for the next one; a generator expression would keep it.
    def batches() -> Iterable[workloads.Batch]:
        if args.torch:
            made = ds.torch(w.batch, shuffle=not args.order, seed=args.seed)
            steps = DataLoader(made, batch_size=None, num_workers=0)
            return map(take, steps)
        return map(take, loop(args, w, ds, args.epochs))

    result = workloads.measure(args, w, batches, args.epochs)
    common.report(result, [ds._feed.process_id] if ds._feed else [])


if __name__ == "__main__":
    main()
