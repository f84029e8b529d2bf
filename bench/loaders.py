"""make bench-loaders: training loops over this project's datasets, beside other loaders on the same rows.

Four workloads (workloads.py): images, spectra with scalars, ragged light curves, rows of 20 scalars. Each peer reads a format
that its own writer made of the same rows (prepare_loaders.py), shuffled as its documentation says, with 0 and with 2 worker
processes where it has workers. All read from the page cache, and every byte of every batch is summed.

The workloads are run one after another, so that the files of one fit into memory. Of each, first every cell runs once: it
digests a whole epoch, which has to be what pyarrow reads from the shards, and then times another one. A peer that is SLOWER
times slower in that trial than the fastest it competes with is not run again: it cannot be the fastest, and its one figure is
kept as a trial in loaders-cells.json. Then come the blocks, as runner.py says; in each the fastest peer of a row is the
denominator. A peer is left after --limit seconds, its rate that of the rows it got through. Peers that take rows one at a
time get the first part of a table.

A rate leaves out the first quarter of an epoch: opening, and filling a buffer to shuffle in, cost peers nothing here. What is
left in a buffer at the end comes to them for nothing too.

Writes bench/out/loaders.json (the table), loaders-machine.json (versions, machine) and loaders-cells.json (every repeat).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import prepare_loaders
import table
from runner import HERE, PEERS, Cell, Row, Runner, arguments, parse_size, parsed, say
from workloads import WORKLOADS

PACKAGES = ("numpy", "pyarrow", "h5py", "torch", "datasets", "mosaicml-streaming", "litdata", "webdataset")
SLOWER = 2.0
WORKERS = (0, 2)
BELOW = 0.0205  # an image's z is the product of two uniform numbers, of which a tenth are less
EPOCHS = 10  # of a filter that keeps a tenth, to have as many rows as without

# Peers by name: script, format, whether they have workers, and whether they stream from files of their own.
PEER: dict[str, tuple[str, str, bool, bool]] = {
    "datasets-map": ("datasets_loops.py", "parquet", False, False),
    "datasets-iterable": ("datasets_loops.py", "parquet", False, False),
    "datasets-stream": ("datasets_loops.py", "parquet", False, True),
    "torch-memmap": ("torch_memmap.py", "raw", True, False),
    "torch-h5py": ("torch_h5py.py", "hdf5", True, False),
    "mds": ("mosaic_mds.py", "mds", True, True),
    "litdata": ("litdata_chunks.py", "lit", True, True),
    "webdataset": ("webdataset_tars.py", "wds", True, True),
    "pyarrow": ("pyarrow_take.py", "ipc", False, False),
}
LEFT_OUT = {("torch-h5py", "lightcurves"), ("torch-h5py", "table")}  # torch_h5py.py says why
ROW_BY_ROW = ("datasets-map", "datasets-iterable", "datasets-stream", "mds", "litdata", "webdataset")


def names(workload: str, streaming: bool = False) -> tuple[str, ...]:
    """The cells of a workload's peers, or of those that stream from files of their own."""
    return tuple(
        f"{workload}-{peer}{n}"
        for peer, (_, _, workers, streams) in PEER.items()
        if (peer, workload) not in LEFT_OUT and (streams or not streaming)
        for n in (WORKERS if workers else ("",))
    )


ANY = "the fastest peer, shuffled"
STREAMING = "the fastest peer that streams from its own files"
ROWS = (
    Row("images, shuffled / control", 0.50, "images", "control"),
    Row(f"images, shuffled / {ANY}", 5.5, "images", names("images")),
    Row(f"images, shuffled / {STREAMING}", 9.0, "images", names("images", True)),
    Row(f"spectra, shuffled / {ANY}", 3.0, "spectra", names("spectra")),
    Row(f"spectra, shuffled / {STREAMING}", 0.0, "spectra", names("spectra", True)),
    Row(f"light curves, shuffled / {ANY}", 3.0, "lightcurves", names("lightcurves")),
    Row(f"light curves, shuffled / {STREAMING}", 0.0, "lightcurves", names("lightcurves", True)),
    Row(f"rows of 20 scalars, shuffled / {ANY}", 4.0, "table", names("table")),
    Row(f"rows of 20 scalars, shuffled / {STREAMING}", 0.0, "table", names("table", True)),
    Row("rows of 20 scalars, shuffled", 0.0, "table", unit="rows/s"),
    Row("torch DataLoader(num_workers=0) over ds.torch / ds.batches", 0.95, "images-torch", "images"),
    Row("mix of three / plain, shuffled", 0.9, "images-mix", "images"),
    Row("filter that keeps a tenth / plain, shuffled", 0.8, "images-filter", "images"),
    Row("images, shuffled / in order", 0.8, "images", "images-order"),
    Row("time to the first shuffled batch", 0.0, "images-first", unit="s", at_most=0.5),
    Row("time to the first batch after resuming", 0.0, "images-resume", unit="s", at_most=1.0),
    Row("variance over that of random rows, 256 positions", 0.0, "order", unit="h256", at_most=1.1),
    Row("variance over that of random rows, 1,024 positions", 0.0, "order", unit="h1024", at_most=1.1),
    Row("manifest of 100,000 shards read, s", 0.0, "seek", unit="manifest_s", at_most=2.0),
    Row("seek among 10^9 rows, ms", 0.0, "seek", unit="seek_ms", at_most=20.0),
    Row("filter over 10^8 rows of three columns, warm", 100e6, "filter", unit="rows/s"),
)
FLOOR = Row("A/A: control / control again", 0.0, "control", "control-again")


def cells(work: Path, binary: Path, args: argparse.Namespace) -> dict[str, Cell]:
    """All cells by name."""
    seed, threads = ("--seed", str(args.seed)), ("--threads", str(args.threads))
    images = work / "images"
    few = ("--passes", "3", "--batch", str(args.go_batch), "--slots", str(args.go_slots))
    blocks = (str(binary), "bench-cell", "blocks", str(images), *threads, *seed, *few)
    out = {"control": Cell(blocks, ("images",)), "control-again": Cell(blocks, ("images",))}

    for name, cell, more in (
        ("order", "shuffle-quality", ()),
        ("seek", "seek", ()),
        ("filter", "filter", ("--passes", "4")),
    ):
        out[name] = Cell((str(binary), "bench-cell", cell, str(work / name), *threads, *seed, *more), ())

    def ours(workload: str, roots: tuple[Path, ...], *more: str) -> tuple[str, ...]:
        rows = ("--warm", str(warm(workload, args.size)))
        return (sys.executable, str(HERE / "ours_loops.py"), workload, *map(str, roots), *seed, *threads, *rows, *more)

    def image(*more: str) -> tuple[str, ...]:
        return ours("images", (images,), *more)

    parts = tuple(work / "mix" / name for name in prepare_loaders.MIX)
    shares = ",".join(map(str, prepare_loaders.MIX.values()))
    for w in WORKLOADS:
        out[w] = Cell(ours(w, (work / w,)), (w,), w)
    out |= {
        "images-order": Cell(image("--order"), ("images",), "images"),
        "images-torch": Cell(image("--torch"), ("images",), "images"),
        "images-mix": Cell(ours("images", parts, "--shares", shares), ("mix",), "images-mix"),
        "images-filter": Cell(image("--where", f"z < {BELOW}", "--epochs", str(EPOCHS)), ("images",), "images-filter"),
        "images-first": Cell(image("--first"), ("images",)),
        "images-resume": Cell(image("--resume"), ("images",)),
    }
    for w in WORKLOADS:
        for peer, (script, kind, workers, _) in PEER.items():
            if (peer, w) in LEFT_OUT:
                continue
            if (peer, w) == ("torch-memmap", "table"):
                kind = "records"
            part = w == "table" and peer in ROW_BY_ROW
            skip = warm(w, args.size) // (round(1 / prepare_loaders.PART) if part else 1)
            command = (sys.executable, str(PEERS / script), w, str(work / f"{w}-{kind}"), *seed)
            command += ("--warm", str(skip), "--limit", str(args.limit))
            needs = (w, f"{w}-raw", f"{w}-{kind}")
            if script == "datasets_loops.py":
                how = peer.removeprefix("datasets-")
                command += ("--how", how, "--cache", str(work / f"{w}-cache"))
                needs += () if how == "stream" else (f"{w}-cache",)
            for n in WORKERS if workers else ("",):
                count = ("--workers", str(n)) if workers else ()
                out[f"{w}-{peer}{n}"] = Cell((*command, *count), needs, "table-part" if part else w)
    return out


def warm(workload: str, size: str) -> int:
    """Rows at the start that are not timed."""
    return prepare_loaders.about(workload, parse_size(size)) // 4


def truths(work: Path) -> dict[str, tuple[str, ...]]:
    """Who says what the rows are: commands that print rows, sum and digest."""

    def judge(workload: str, *more: str | Path) -> tuple[str, ...]:
        return (sys.executable, str(PEERS / "rows_truth.py"), workload, *map(str, more))

    return {
        **{w: judge(w, work / w) for w in WORKLOADS},
        "table-part": judge("table", work / "table", "--part"),
        "images-mix": judge("images", *(work / "mix" / name for name in prepare_loaders.MIX)),
        "images-filter": judge("images", work / "images", "--below", str(BELOW)),
    }


class Bench(Runner):
    """One run."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.trials: dict[str, dict[str, Any]] = {}

    def digest(self, name: str) -> dict[str, Any]:
        got = super().digest(name)
        self.trials[name] = got
        return got

    def group(self, workload: str) -> list[str]:
        """The cells of a workload."""
        return [
            n for n in self.names if n.split("-")[0] == workload or (workload == "images" and n.startswith("control"))
        ]

    def chosen(self, names: list[str]) -> list[str]:
        """Those that may count: not the peers that were SLOWER times slower than the fastest of each row they stand in."""
        slow: dict[str, float] = {}
        for row in self.rows:
            if len(row.unders) < 2:
                continue
            rates = {n: self.trials[n]["gbs"] for n in row.unders if n in self.trials and n not in self.invalid}
            for n, rate in rates.items():
                slow[n] = min(slow.get(n, float("inf")), max(rates.values()) / rate)
        out = [n for n in names if slow.get(n, 1.0) <= SLOWER]
        for n in sorted(set(names) - set(out), key=slow.__getitem__):
            say(f"  not run again: {n}, {self.trials[n]['gbs']:.3f} GB/s in its trial")
        return out


def main() -> int:
    p = arguments(
        __doc__,
        size="of the images; the other sets are smaller by fixed factors, a mix is of 1 GiB at least",
        seed="of orders and of the order of cells",
    )
    p.add_argument("--threads", type=int, default=2, help="threads that read, the control's too")
    p.add_argument("--limit", type=float, default=2.0, help="seconds after which a peer's loop is left")
    p.add_argument("--go-batch", type=int, default=64, help="as bench-local has it")
    p.add_argument("--go-slots", type=int, default=3, help="as bench-local has it")
    args, work, binary = parsed(p)
    work /= "loaders"
    # A filter is found once, as in training; what peers leave in folders of their own stays here as well.
    aside = work.with_name("loaders-tmp")
    aside.mkdir(parents=True, exist_ok=True)
    os.environ.update(ASTROPILE_CACHE=str(work / "selections"), TMPDIR=str(aside), HF_HOME=str(aside / "huggingface"))
    begin = time.perf_counter()
    b = Bench(work, binary, args, cells(work, binary, args), ROWS, truths(work), floor=FLOOR)
    about = table.machine(work, binary, args, PACKAGES)
    say("versions: " + ", ".join(f"{k} {v}" for k, v in about["versions"].items()))
    for w in WORKLOADS:
        names = b.group(w)
        if not names:
            continue
        say(f"{w}: preparing the formats of all loaders")
        sources = [HERE / "prepare.py", HERE / "prepare_loaders.py", HERE / "workloads.py", binary]
        scripts = sorted({PEERS / script for script, *_ in PEER.values()})
        b.prepare([*sources, *scripts], prepare_loaders.formats(), HERE / "prepare_loaders.py", args.size, names)
        say(f"{w}: checking that every loader gives the same values")
        b.check(names)
        say(f"{w}: measuring")
        b.measure(b.chosen(names))
    if rest := [n for n in b.names if n in ("order", "seek", "filter")]:
        say("the order and selections: measuring")
        b.measure(rest)
    return b.report("loaders", about, begin, {"trials": b.trials})


if __name__ == "__main__":
    sys.exit(main())
