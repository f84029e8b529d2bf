"""make bench-local: what reading and importing reach on this machine, beside raw reads and other loaders.

One synthetic set of float32 images [4,96,96] is written in every format that is compared, all of it in the page cache. A cell
is one process that measures one thing and prints one line of JSON. In every block each cell runs once, in shuffled order;
ratios are taken inside a block, and their median counts. Before that every cell runs once to give a digest of all its
values; one that differs from what pyarrow or h5py says makes its rows INVALID.

Writes bench/out/local.json (the table), local-machine.json (versions, machine) and local-cells.json (every repeat).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEERS = HERE / "peers"
IMAGE = 4 * 96 * 96 * 4  # bytes of a row
TIMEOUT = 300  # seconds a cell may take
COLD = 0.02  # share of a cell's bytes that the disk may give before it counts as cold


@dataclass(frozen=True)
class Cell:
    """One process, run once a block.

    Cells with the same ``truth`` deliver the same rows. ``needs`` are the files of prepare.py that it reads. ``makes`` is
    removed before and after. A ``program`` prints no result: its whole life is timed.
    """

    command: tuple[str, ...]
    needs: tuple[str, ...]
    truth: str = ""
    one_core: bool = False
    makes: Path | None = None
    program: bool = False


@dataclass(frozen=True)
class Row:
    """A line of the table: the rate of the cell ``over`` divided by that of ``under``."""

    name: str
    at_least: float
    over: str
    under: str


ROWS = (
    Row("Go stream in order / control", 0.90, "stream", "control"),
    Row("Go stream shuffled / raw pread of the same rows in the same order", 0.90, "stream-shuffled", "control-rows"),
    Row("Go stream in order, uint8 [3,160,160] / control", 0.90, "stream-uint8", "control-uint8"),
    Row("Python batches shuffled, not touched / control", 0.72, "python", "control"),
    Row("Python batches shuffled, touched / control", 0.50, "python-touched", "control"),
    Row("Python batches shuffled, touched / datasets map-style", 5.5, "python-touched", "datasets-shuffled"),
    Row("Python batches shuffled, touched / np.memmap fancy-indexed", 4.0, "python-touched", "memmap-fancy"),
    Row("Python batches shuffled, touched / pyarrow to numpy in order", 14.0, "python-touched", "pyarrow"),
    Row("Python batches shuffled, touched / h5py in order, chunked gzip", 50.0, "python-touched", "h5py"),
    Row("datasets map in order, our folder / its own Parquet", 0.90, "datasets-ours", "datasets-own"),
    Row("Go stream of zstd / what one pread and the codec allow", 0.80, "stream-zstd", "codec"),
    Row("import of gzip HDF5 / h5py + pyarrow script", 2.5, "import", "import-peer"),
    Row("single random rows in Go / raw pread of the same rows", 0.80, "singles", "raw-singles"),
    Row("ds.memmap random rows, touched / np.memmap on .npy", 0.95, "memmap", "memmap-npy"),
    Row("one-core HDF5 decode, gzip + shuffle / h5py", 1.1, "hdf5", "h5py-decode"),
    Row("payload / bytes of shards", 0.97, "payload", "stored"),
)
FLOOR = Row("A/A: control / control again", 0.0, "control", "control-again")


def say(text: str) -> None:
    """Progress goes to stderr, the table to stdout."""
    print(text, file=sys.stderr, flush=True)


def parse_size(text: str) -> int:
    """Bytes of 1GiB, 512MiB or 1048576."""
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB)?", text)
    if not found:
        raise SystemExit(f"--size {text}: give a size such as 1GiB or 512MiB")
    return int(found[1]) << {None: 0, "KiB": 10, "MiB": 20, "GiB": 30}[found[2]]


def cells(work: Path, binary: Path, args: argparse.Namespace) -> dict[str, Cell]:
    """All cells by name."""
    images, zstd, rgb, survey = work / "images", work / "zstd", work / "rgb", work / "survey"
    common = ("--seed", str(args.seed))
    threads = ("--threads", str(args.threads))
    own = ("--column", "image_rgb")

    def go(cell: str, path: Path, *more: str) -> tuple[str, ...]:
        return (
            str(binary),
            "bench-cell",
            cell,
            str(path),
            *threads,
            "--batch",
            str(args.go_batch),
            "--slots",
            str(args.go_slots),
            *common,
            *more,
        )

    # A quarter of the rows at the start of an epoch is not timed in Python.
    warm = str(min(2048, parse_size(args.size) // IMAGE // 4))

    def py(script: Path, *more: str | Path) -> tuple[str, ...]:
        return (sys.executable, str(script), "--batch", str(args.batch), "--warm", warm, *common, *map(str, more))

    parquet = [work / "parquet" / f"{k}.parquet" for k in range(4)]
    theirs = (work / "parquet", "--cache", work / "parquet-cache")
    import_ = (
        str(binary),
        "import",
        str(survey),
        "--into",
        str(work / "imported"),
        "--name",
        "survey",
        "--compression",
        "none",
        "--jobs",
        str(args.threads),
    )
    return {
        "control": Cell(go("blocks", images), ("images",)),
        "control-again": Cell(go("blocks", images), ("images",)),
        "control-rows": Cell(go("rows", images), ("images",), "images"),
        "control-uint8": Cell(go("blocks", rgb, *own), ("rgb",)),
        "stream": Cell(go("stream", images), ("images",), "images"),
        "stream-shuffled": Cell(go("stream-shuffled", images), ("images",), "images"),
        "stream-uint8": Cell(go("stream", rgb, *own), ("rgb",), "rgb"),
        "stream-zstd": Cell(go("stream", zstd, "--passes", "1"), ("images", "zstd"), "images"),
        "codec": Cell(go("codec", zstd, "--passes", "1"), ("zstd",)),
        "raw-singles": Cell(go("raw-singles", images), ("images",), "singles"),
        "singles": Cell(go("singles", images), ("images",), "singles"),
        "payload": Cell(go("payload", images), ("images",)),
        "python": Cell(py(HERE / "ours.py", images, *threads, "--untouched"), ("images",), "images"),
        "python-touched": Cell(py(HERE / "ours.py", images, *threads), ("images",), "images"),
        "memmap": Cell(py(HERE / "ours.py", images, *threads, "--single"), ("images",), "images"),
        "memmap-npy": Cell(py(PEERS / "numpy_memmap.py", work / "images.npy", "--single"), ("images", "npy"), "images"),
        "memmap-fancy": Cell(py(PEERS / "numpy_memmap.py", work / "images.npy"), ("images", "npy"), "images"),
        "datasets-shuffled": Cell(
            py(PEERS / "datasets_map.py", *theirs, "--shuffle"), ("images", "npy", "parquet", "parquet-cache"), "images"
        ),
        "datasets-own": Cell(
            py(PEERS / "datasets_map.py", *theirs), ("images", "npy", "parquet", "parquet-cache"), "images"
        ),
        "datasets-ours": Cell(
            py(PEERS / "datasets_map.py", images, "--cache", work / "ours-cache"), ("images", "ours-cache"), "images"
        ),
        "pyarrow": Cell(py(PEERS / "pyarrow_batches.py", *parquet), ("images", "npy", "parquet"), "images"),
        "h5py": Cell(py(PEERS / "h5py_rows.py", work / "gzip.hdf5", "--warm", "0"), ("images", "npy", "gzip"), "slabs"),
        "h5py-decode": Cell(
            py(PEERS / "h5py_rows.py", work / "shuffle.hdf5", "--chunks", "--warm", "0"),
            ("images", "npy", "shuffle"),
            "slabs",
            one_core=True,
        ),
        "hdf5": Cell(
            go("hdf5", work / "shuffle.hdf5", "--threads", "1", "--passes", "1"),
            ("images", "npy", "shuffle"),
            "slabs",
            one_core=True,
        ),
        "import": Cell(import_, ("images", "npy", "survey"), "survey", makes=work / "imported", program=True),
        "import-peer": Cell(
            (sys.executable, str(HERE / "import_peer.py"), str(survey), str(work / "imported-peer")),
            ("images", "npy", "survey"),
            "survey",
            makes=work / "imported-peer",
        ),
    }


def truths(work: Path) -> dict[str, tuple[str, ...]]:
    """Who says what the rows are: commands that print rows, sum and digest."""
    judge = (sys.executable, str(PEERS / "shards.py"))
    return {
        "images": (*judge, str(work / "images")),
        "rgb": (*judge, str(work / "rgb"), "--column", "image_rgb", "--shape", "3,160,160", "--dtype", "uint8"),
        "survey": (*judge, str(work / "survey"), "--hdf5"),
    }


FIRST = {"slabs": ("h5py-decode", "h5py"), "singles": ("raw-singles",)}  # cells whose digest is the truth of others


class CellError(Exception):
    """A cell that gave no result."""


def start(command: Iterable[str], binary: Path, one_core: bool = False) -> tuple[str, dict[str, Any]]:
    """Runs a process to its end; gives its output, and time, peak memory and bytes read from disk by it and its children."""
    env = {**os.environ, "ASTROPILE_BIN": str(binary), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = list(command)
    if one_core:
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=env)
        late = threading.Timer(TIMEOUT, process.kill)
        late.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        late.cancel()
        out.seek(0)
        err.seek(0)
        if process.returncode:
            words = err.read().decode(errors="replace").strip().splitlines()[-3:]
            raise CellError(" | ".join(words) or f"ended with {process.returncode} after {seconds:.0f} s")
        return out.read().decode(), {"wall": seconds, "maxrss": usage.ru_maxrss * 1024, "disk": usage.ru_inblock * 512}


class Bench:
    """One run."""

    def __init__(self, work: Path, binary: Path, args: argparse.Namespace) -> None:
        self.work, self.binary, self.args = work, binary, args
        self.all = cells(work, binary, args)
        only = [o.lower() for o in args.only]
        self.rows = [r for r in ROWS if not only or any(o in r.name.lower() or o in (r.over, r.under) for o in only)]
        if not self.rows:
            raise SystemExit(f"--only {' '.join(args.only)}: no row has such a name or cell")
        names = {n for r in self.rows for n in (r.over, r.under)} - {"stored"}
        if "control" in names:
            names.add(FLOOR.under)
        self.names = sorted(names)
        self.results: dict[str, list[dict[str, Any]]] = {}
        self.invalid: dict[str, str] = {}
        self.truth: dict[str, dict[str, Any]] = {}

    def prepare(self) -> None:
        """Writes what the chosen cells read. Another program or size makes new data."""
        sources = [HERE / "prepare.py", PEERS / "datasets_map.py", self.binary]
        key = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest() + " " + self.args.size
        mark = self.work / "key"
        if not self.args.keep and (not mark.exists() or mark.read_text() != key):
            shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True, exist_ok=True)
        mark.write_text(key)
        order = ["images", "rgb", "zstd", "npy", "parquet", "parquet-cache", "ours-cache", "gzip", "shuffle", "survey"]
        wanted = {what for name in self.names for what in self.all[name].needs}
        for what in sorted(wanted, key=order.index):
            begin = time.perf_counter()
            start(
                (
                    sys.executable,
                    str(HERE / "prepare.py"),
                    str(self.work),
                    what,
                    "--binary",
                    str(self.binary),
                    "--size",
                    self.args.size,
                ),
                self.binary,
            )
            if (spent := time.perf_counter() - begin) > 1.5:
                say(f"  wrote {what}: {spent:.0f} s")
        os.sync()

    def run(self, name: str, *more: str) -> dict[str, Any]:
        """Runs a cell once."""
        cell = self.all[name]
        if cell.makes:
            shutil.rmtree(cell.makes, ignore_errors=True)
        out, life = start((*cell.command, *more), self.binary, cell.one_core)
        if cell.program:
            # The files' images are what either import is measured by.
            size = self.truth[cell.truth]["all_bytes"]
            return {
                "seconds": [life["wall"]],
                "bytes": size,
                "gbs": size / life["wall"] / 1e9,
                "peak": life["maxrss"],
                **life,
            }
        return {**json.loads(out.strip().splitlines()[-1]), **life}

    def clean(self, name: str) -> None:
        """Removes what a cell wrote and waits for the disk, so that the next cell has it to itself."""
        if made := self.all[name].makes:
            shutil.rmtree(made, ignore_errors=True)
            os.sync()

    def check(self) -> None:
        """Every cell once, for its digest; this brings all files into the page cache too."""
        wanted = {self.all[n].truth for n in self.names} - {""}
        for name, command in truths(self.work).items():
            if name in wanted:
                self.truth[name] = {
                    "by": "pyarrow" if name != "survey" else "h5py",
                    **json.loads(start((*command, "--check"), self.binary)[0]),
                }
        first = [n for names in FIRST.values() for n in names if n in self.names]
        for name in [*first, *(n for n in self.names if n not in first)]:
            cell = self.all[name]
            if not cell.truth:
                continue
            try:
                got = self.digest(name)
            except CellError as e:
                self.invalid[name] = str(e)
                continue
            truth = self.truth.setdefault(cell.truth, {"by": name, **got})
            if differ := [k for k in ("rows", "sum", "digest") if got[k] != truth[k]]:
                self.invalid[name] = f"{', '.join(differ)} of the values differ from what {truth['by']} gives"
        for name, why in self.invalid.items():
            say(f"  INVALID {name}: {why}")

    def digest(self, name: str) -> dict[str, Any]:
        """Rows, sum and digest of what a cell delivers, or of what it wrote, as pyarrow reads it."""
        cell = self.all[name]
        if not cell.makes:
            return self.run(name, "--check")
        self.run(name)
        judge = (sys.executable, str(PEERS / "shards.py"), str(cell.makes), "--loose", "--check")
        got = json.loads(start(judge, self.binary)[0])
        self.clean(name)
        return got

    def measure(self) -> None:
        """The blocks."""
        for block in range(self.args.repeats):
            begin = time.perf_counter()
            order = list(self.names)
            random.Random(f"{self.args.seed} {block}").shuffle(order)
            for name in order:
                if name in self.invalid:
                    continue
                try:
                    got = self.run(name)
                except CellError as e:
                    self.invalid[name] = f"block {block + 1}: {e}"
                    continue
                finally:
                    self.clean(name)
                got["block"] = block
                self.results.setdefault(name, []).append(got)
                truth = self.truth.get(self.all[name].truth, {})
                if differ := [
                    k
                    for k in ("rows", "sum")
                    if k in got and self.all[name].truth not in ("", "singles", "survey") and got[k] != truth[k]
                ]:
                    self.invalid[name] = (
                        f"block {block + 1}: {', '.join(differ)} of the values differ from what {truth['by']} gives"
                    )
                if got["disk"] > COLD * got["bytes"] and not self.all[name].makes:
                    got["cold"] = True
            say(f"  block {block + 1} of {self.args.repeats}: {time.perf_counter() - begin:.0f} s")

    def pairs(self, row: Row) -> list[float]:
        """The ratio of every block that both cells ended."""
        if row.under == "stored":
            return [r["payload"] / r["stored"] for r in self.results.get(row.over, [])]
        under = {r["block"]: r["gbs"] for r in self.results.get(row.under, [])}
        return [r["gbs"] / under[r["block"]] for r in self.results.get(row.over, []) if r["block"] in under]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="1GiB", help="of the synthetic sets")
    p.add_argument("--repeats", type=int, default=5, help="blocks")
    p.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="rows whose name holds NAME, or whose cell is NAME; may be given again",
    )
    p.add_argument("--seed", type=int, default=1, help="of orders and of the order of cells")
    p.add_argument("--threads", type=int, default=2, help="threads that read, the controls' too")
    p.add_argument("--batch", type=int, default=256, help="rows of a batch in Python, the peers' too")
    p.add_argument(
        "--go-batch", type=int, default=64, help="rows of a batch of the Go stream; some 8 MiB, as the control's blocks"
    )
    p.add_argument("--go-slots", type=int, default=3, help="batches of the Go stream in memory at once")
    p.add_argument(
        "--binary",
        type=Path,
        default=Path(os.environ.get("ASTROPILE_BIN", ROOT / "bin" / "astropile")),
        help="the program under test",
    )
    p.add_argument("--keep", action="store_true", help="keep the data there are, though another program wrote them")
    p.add_argument("--out", type=Path, default=HERE / "out")
    args = p.parse_args()
    if args.repeats < 1:
        p.error("--repeats is at least 1")
    work = Path(os.environ.get("BENCH_DIR", ROOT / ".cache" / "bench")).resolve()
    begin = time.perf_counter()
    b = Bench(work, args.binary.resolve(), args)
    about = table.machine(work, b.binary, args)
    say(f"preparing {args.size} of images in the formats of all loaders")
    b.prepare()
    say("checking that every loader gives the same values")
    b.check()
    say("measuring")
    b.measure()
    about["load_at_end"] = os.getloadavg()
    about["seconds"] = round(time.perf_counter() - begin)
    lines = [
        table.line(r.name, r.at_least, b.pairs(r), [b.invalid[n] for n in (r.over, r.under) if n in b.invalid])
        for r in b.rows
    ]
    table.show(lines, b.results, b.invalid, table.summary(b.pairs(FLOOR)))
    table.write(args.out, "local", lines, about, {"cells": b.results, "invalid": b.invalid, "truth": b.truth})
    return 1 if b.invalid else 0


if __name__ == "__main__":
    sys.exit(main())
