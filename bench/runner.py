"""Runs cells in blocks, checks what they deliver, pairs their rates: what every benchmark of ours does alike.

A cell is one process that measures one thing and prints one line of JSON. In every block each cell runs once, in shuffled
order; ratios are taken inside a block, and their median counts. Before that every cell runs once to give a digest of all its
values; one that differs from what another program says makes its rows INVALID.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEERS = HERE / "peers"
TIMEOUT = 300  # seconds a cell may take
COLD = 0.02  # share of a cell's bytes that the disk may give before it counts as cold
SAMPLE = 0.02  # seconds between looks at a program's memory


@dataclass(frozen=True)
class Cell:
    """One process, run once a block.

    Cells with the same ``truth`` deliver the same rows. ``needs`` are the prepared files that it reads. ``makes`` is removed
    before and after; ``judge`` is the command that prints rows, sum and digest of what it made. A ``program`` prints no
    result: its whole life is timed, and its rate is in the bytes that the truth calls ``all_bytes``.
    """

    command: tuple[str, ...]
    needs: tuple[str, ...]
    truth: str = ""
    one_core: bool = False
    makes: Path | None = None
    judge: tuple[str, ...] = ()
    program: bool = False


@dataclass(frozen=True)
class Row:
    """A line of the table: the rate of the cell ``over``, divided by that of ``under`` where there is one.

    Where ``under`` names several cells, the fastest of them in a block is what counts in that block. ``unit`` says what is
    taken of a cell: "ratio" and "MB/s" its bytes a second, "rows/s", "s" its seconds, "MiB" its own peak memory, or "copies",
    the bytes of its truth divided by that memory; another word is a key of its result. ``at_most`` is a goal that is not to
    be passed, in place of one to be reached.
    """

    name: str
    at_least: float
    over: str
    under: str | tuple[str, ...] = ""
    unit: str = "ratio"
    at_most: float = 0.0

    @property
    def unders(self) -> tuple[str, ...]:
        """The cells that ``under`` names."""
        return (self.under,) if isinstance(self.under, str) else self.under

    @property
    def cells(self) -> tuple[str, ...]:
        """All cells of the line."""
        return tuple(n for n in (self.over, *self.unders) if n not in ("", "stored"))


def say(text: str) -> None:
    """Progress goes to stderr, the table to stdout."""
    print(text, file=sys.stderr, flush=True)


def parse_size(text: str) -> int:
    """Bytes of 1GiB, 512MiB or 1048576."""
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB)?", text)
    if not found:
        raise SystemExit(f"--size {text}: give a size such as 1GiB or 512MiB")
    return int(found[1]) << {None: 0, "KiB": 10, "MiB": 20, "GiB": 30}[found[2]]


class CellError(Exception):
    """A cell that gave no result."""


def own_memory(pid: int) -> int:
    """Bytes that a process holds for itself (RssAnon): pages of files, which the system may drop, are left out."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def start(
    command: Iterable[str], binary: Path, one_core: bool = False, watch: bool = False
) -> tuple[str, dict[str, Any]]:
    """Runs a process to its end; gives its output, and time, peak memory and bytes read from disk by it and its children.

    With ``watch`` the peak of the memory that is its own is sampled too: ``peak_anon``, in bytes.
    """
    env = {**os.environ, "ASTROPILE_BIN": str(binary), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = list(command)
    if one_core:
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
    peaks = [0]
    ended = threading.Event()

    def look(pid: int) -> None:
        while not ended.wait(SAMPLE):
            peaks[0] = max(peaks[0], own_memory(pid))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=env)
        late = threading.Timer(TIMEOUT, process.kill)
        late.start()
        watcher = threading.Thread(target=look, args=(process.pid,))
        if watch:
            watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        late.cancel()
        ended.set()
        if watch:
            watcher.join()
        out.seek(0)
        err.seek(0)
        if process.returncode:
            words = err.read().decode(errors="replace").strip().splitlines()[-3:]
            raise CellError(" | ".join(words) or f"ended with {process.returncode} after {seconds:.0f} s")
        life = {"wall": seconds, "maxrss": usage.ru_maxrss * 1024, "disk": usage.ru_inblock * 512}
        return out.read().decode(), {**life, "peak_anon": peaks[0]} if watch else life


def arguments(doc: str | None, *, size: str, seed: str) -> argparse.ArgumentParser:
    """What every benchmark takes; ``size`` and ``seed`` say of what."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="1GiB", help=size)
    p.add_argument("--repeats", type=int, default=5, help="blocks")
    p.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="rows whose name holds NAME, or whose cell is NAME; may be given again",
    )
    p.add_argument("--seed", type=int, default=1, help=seed)
    p.add_argument(
        "--binary",
        type=Path,
        default=Path(os.environ.get("ASTROPILE_BIN", ROOT / "bin" / "astropile")),
        help="the program under test",
    )
    p.add_argument("--keep", action="store_true", help="keep the data there are, though another program wrote them")
    p.add_argument("--out", type=Path, default=HERE / "out")
    return p


def parsed(p: argparse.ArgumentParser) -> tuple[argparse.Namespace, Path, Path]:
    """The arguments, the folder of the data, and the program under test."""
    args = p.parse_args()
    if args.repeats < 1:
        p.error("--repeats is at least 1")
    work = Path(os.environ.get("BENCH_DIR", ROOT / ".cache" / "bench")).resolve()
    return args, work, args.binary.resolve()


class Runner:
    """One run of a benchmark.

    ``truths`` are commands that say what rows are, by the name that cells give them; ``first`` the cells whose own digest is
    the truth of others. Rows of the cells in ``apart`` are not those of the truth in every block.
    """

    def __init__(
        self,
        work: Path,
        binary: Path,
        args: argparse.Namespace,
        cells: dict[str, Cell],
        rows: Sequence[Row],
        truths: dict[str, tuple[str, ...]],
        floor: Row,
        first: Sequence[str] = (),
        apart: Sequence[str] = (),
    ) -> None:
        self.work, self.binary, self.args = work, binary, args
        self.all, self.truths, self.first, self.apart, self.floor = cells, truths, first, apart, floor
        only = [o.lower() for o in args.only]
        self.rows = [r for r in rows if not only or any(o in r.name.lower() or o in r.cells for o in only)]
        if not self.rows:
            raise SystemExit(f"--only {' '.join(args.only)}: no row has such a name or cell")
        names = {n for r in self.rows for n in r.cells}
        if floor.over in names:
            names.update(floor.unders)
        self.names = sorted(names)
        self.results: dict[str, list[dict[str, Any]]] = {}
        self.invalid: dict[str, str] = {}
        self.truth: dict[str, dict[str, Any]] = {}

    def wanted(self, order: Sequence[str], names: Sequence[str] | None = None) -> list[str]:
        """What the chosen cells, or those named, read, in the order given."""
        names = self.names if names is None else names
        return sorted({what for name in names for what in self.all[name].needs}, key=order.index)

    def prepare(
        self,
        sources: Sequence[Path],
        order: Sequence[str],
        script: Path,
        size: str,
        names: Sequence[str] | None = None,
    ) -> None:
        """Writes what the chosen cells, or those named, read, in the order given, by ``script``. Other sources, or another
        size, make all of it anew."""
        key = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest() + " " + self.args.size
        mark = self.work / "key"
        if not self.args.keep and (not mark.exists() or mark.read_text() != key):
            shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True, exist_ok=True)
        mark.write_text(key)
        for what in self.wanted(order, names):
            begin = time.perf_counter()
            command = (sys.executable, str(script), str(self.work), what)
            start((*command, "--binary", str(self.binary), "--size", size), self.binary)
            if (spent := time.perf_counter() - begin) > 1.5:
                say(f"  wrote {what}: {spent:.0f} s")
        os.sync()

    def run(self, name: str, *more: str) -> dict[str, Any]:
        """Runs a cell once."""
        cell = self.all[name]
        if cell.makes:
            shutil.rmtree(cell.makes, ignore_errors=True)
        out, life = start((*cell.command, *more), self.binary, cell.one_core, watch=cell.program)
        truth = self.truth.get(cell.truth, {})
        if cell.program:
            size = truth["all_bytes"]
            return {
                "seconds": [life["wall"]],
                "rows": truth["rows"],
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

    def check(self, names: Sequence[str] | None = None) -> None:
        """Every cell, or those named, once, for its digest; this brings their files into the page cache too."""
        names = self.names if names is None else names
        wanted = {self.all[n].truth for n in names} - {""}
        for name, command in self.truths.items():
            if name in wanted:
                try:
                    said = json.loads(start((*command, "--check"), self.binary)[0])
                except CellError as e:
                    self.fail(name, f"nothing says what its rows are: {e}")
                    continue
                self.truth[name] = {"by": said.pop("by", "pyarrow"), **said}
        first = [n for n in self.first if n in names]
        for name in [*first, *(n for n in names if n not in first)]:
            cell = self.all[name]
            if not cell.truth or name in self.invalid or (cell.makes and not cell.judge):
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
            if name in names:
                say(f"  INVALID {name}: {why}")

    def fail(self, truth: str, why: str) -> None:
        """Marks every cell of a truth."""
        self.invalid.update({n: why for n in self.names if self.all[n].truth == truth})

    def digest(self, name: str) -> dict[str, Any]:
        """Rows, sum and digest of what a cell delivers, or of what it wrote, as its judge reads it."""
        cell = self.all[name]
        if not cell.makes:
            return self.run(name, "--check")
        try:
            self.run(name)
            return json.loads(start((*cell.judge, "--check"), self.binary)[0])
        finally:
            self.clean(name)

    def measure(self, names: Sequence[str] | None = None) -> None:
        """The blocks, of all cells or of those named."""
        for block in range(self.args.repeats):
            begin = time.perf_counter()
            order = list(self.names if names is None else names)
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
                cell = self.all[name]
                truth = self.truth.get(cell.truth, {})
                if differ := [
                    k
                    for k in ("rows", "sum")
                    if k in got and cell.truth and name not in self.apart and not got.get("part") and got[k] != truth[k]
                ]:
                    self.invalid[name] = (
                        f"block {block + 1}: {', '.join(differ)} of the values differ from what {truth['by']} gives"
                    )
                if got["disk"] > COLD * got["bytes"] and not cell.makes:
                    got["cold"] = True
            say(f"  block {block + 1} of {self.args.repeats}: {time.perf_counter() - begin:.0f} s")

    def pairs(self, row: Row) -> list[float]:
        """What a line says in every block that its cells ended."""
        over = self.results.get(row.over, [])
        if row.under == "stored":
            return [r["payload"] / r["stored"] for r in over]
        if row.under:
            under = self.fastest(row)
            return [r["gbs"] / under[r["block"]][0] for r in over if r["block"] in under]
        take: dict[str, Callable[[dict[str, Any]], float]] = {
            "MB/s": lambda r: r["gbs"] * 1e3,
            "rows/s": lambda r: r.get("rows_per_second") or r["rows"] / r["seconds"][-1],
            "s": lambda r: r["seconds"][-1],
            "MiB": lambda r: r["peak_anon"] / 2**20,
            "copies": lambda r: r["bytes"] / max(r["peak_anon"], 1),
        }
        return [take.get(row.unit, lambda r: r[row.unit])(r) for r in over]

    def fastest(self, row: Row) -> dict[int, tuple[float, str]]:
        """In every block the highest rate among the cells that ``under`` names, and whose it is."""
        best: dict[int, tuple[float, str]] = {}
        for name in row.unders:
            for r in self.results.get(name, []):
                best[r["block"]] = max(best.get(r["block"], (0.0, "")), (r["gbs"], name))
        return best

    def middle(self, row: Row) -> float | None:
        """The median of a line."""
        values = self.pairs(row)
        return statistics.median(values) if values else None

    def lines(self) -> list[dict[str, Any]]:
        """The table."""
        out = []
        for r in self.rows:
            invalid = [f"{n}: {self.invalid[n]}" for n in r.cells if n in self.invalid]
            out.append(table.line(r.name, r.at_least, self.pairs(r), invalid, r.unit, r.at_most))
            if len(r.unders) > 1 and (best := self.fastest(r)):
                out[-1]["fastest"] = statistics.mode(name for _, name in best.values())
        return out

    def report(self, name: str, about: dict[str, Any], begin: float, more: dict[str, Any] | None = None) -> int:
        """Shows and writes the table of a run that began at ``begin``, with ``more`` beside the cells, and gives the exit code."""
        about["load_at_end"] = os.getloadavg()
        about["seconds"] = round(time.perf_counter() - begin)
        lines = self.lines()
        table.show(lines, self.results, self.invalid, table.summary(self.pairs(self.floor)))
        table.write(
            self.args.out,
            name,
            lines,
            about,
            {"cells": self.results, "invalid": self.invalid, "truth": self.truth, **(more or {})},
        )
        return 1 if self.invalid else 0
