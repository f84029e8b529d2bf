"""make bench-survey: what decoding and importing surveys reach on this machine, beside other readers and a plain copy.

Decoding: one core turns the same file into arrays, ours and h5py or astropy in the same block. Importing: the program's whole
life, from files in the page cache to shards that are synced, beside `cp -r` of the same files; memory is what the process
holds for itself (RssAnon, sampled), page cache left out. How cells are run and compared, runner.py says.

Writes bench/out/survey.json (the table), survey-machine.json (versions, machine) and survey-cells.json (every repeat).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path

import table
from prepare_survey import FILTERS, INTEGERS, makers
from runner import HERE, PEERS, Cell, Row, Runner, arguments, parse_size, parsed, say

# What one core has to reach of h5py's rate, by filter; a filter that is not named, 0.5.
FILTER_GOALS = {"contiguous": 0.0, "gzip": 1.1, "gzip-shuffle": 1.1, "lzf": 1.1, "zstd": 0.8} | {
    f: 0.8 for f in FILTERS if f.startswith("blosc")
}
FITS = {"plain": 0.0, "rice": 1.5, "rice-float": 1.5, "gzip-tiles": 0.0}
# Of every kind of survey: the folder it stands in, and what that needs.
IMPORTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gaia": ("gaia", ("gaia",)),
    "images": ("survey", ("synth", "npy", "survey")),
    "objects": ("objects", ("objects",)),
    "groups": ("groups", ("groups",)),
    "fits-table": ("fits-table", ("fits-table",)),
    "fits-images": ("fits-images", ("synth", "npy", "fits-images")),
    "parquet": ("parquet", ("parquet",)),
    "alerts": ("alerts", ("alerts",)),
    "csv": ("csv", ("csv",)),
}
WHAT = {
    "gaia": "HDF5, columnar, rows of 1 kB",
    "images": "HDF5, columnar, images in gzip chunks",
    "objects": "HDF5, one object a file",
    "groups": "HDF5, one group an object",
    "fits-table": "FITS tables, rows of 1 kB",
    "fits-images": "FITS, one image a file",
    "parquet": "Parquet, rows of 1 kB",
    "alerts": "Parquet, alerts with cutouts",
    "csv": "CSV",
}
FILES = 2000.0  # files of one object a second, unless opening them alone takes longer
BUDGET = "64MiB"  # of memory for rows, where the source is many times larger
SMALL = "gaia-64MiB"
# The source of 1 GiB has to be this many times the memory that its import holds; of smaller ones nothing is asked.
COPIES = 4.0

ROWS = (
    *(Row(f"decode HDF5 {f} / h5py", FILTER_GOALS.get(f, 0.5), f"hdf5-{f}", f"h5py-{f}") for f in FILTERS),
    Row("decode FITS table / astropy", 2.0, "fits-table", "astropy-table"),
    *(Row(f"decode FITS {k} images / astropy", goal, f"fits-{k}", f"astropy-{k}") for k, goal in FITS.items()),
    *(Row(f"import of {WHAT[k]}", 100.0 if k == "gaia" else 0.0, f"import-{k}", unit="MB/s") for k in IMPORTS),
    *(Row(f"import of {WHAT[k]} / cp", 0.0, f"import-{k}", f"cp-{k}") for k in IMPORTS),
    Row("import of one object a file, files a second", FILES, "import-objects", unit="rows/s"),
    Row("open, read and close of the same files", 0.0, "open-objects", unit="rows/s"),
    Row(f"import of {WHAT['gaia']}, --memory {BUDGET}", 0.0, f"import-{SMALL}", unit="MB/s"),
    Row(f"the same, source / memory held with --memory {BUDGET}", COPIES, f"import-{SMALL}", unit="copies"),
    *(Row(f"memory held by import of {WHAT[k]}", 0.0, f"import-{k}", unit="MiB") for k in IMPORTS),
    Row(f"memory held by import with --memory {BUDGET}", 0.0, f"import-{SMALL}", unit="MiB"),
)
FLOOR = Row("A/A: decode of gzip / the same again", 0.0, "hdf5-gzip", "hdf5-gzip-again")


def cells(work: Path, binary: Path, args: argparse.Namespace) -> dict[str, Cell]:
    """All cells by name."""
    out: dict[str, Cell] = {}

    def py(script: str, *more: str | Path) -> tuple[str, ...]:
        return (sys.executable, str(PEERS / script), *map(str, more))

    def go(cell: str, file: Path) -> tuple[str, ...]:
        batch = ("--batch", str(args.batch))
        return (str(binary), "bench-cell", cell, str(file), "--threads", "1", "--passes", "1", *batch)

    for f in FILTERS:
        file, dtype = work / f"{f}.hdf5", "int32" if f in INTEGERS else "float32"
        peer = py("h5py_rows.py", file, "--chunks", "--warm", "0", "--dtype", dtype, "--batch", str(args.batch))
        out[f"h5py-{f}"] = Cell(peer, ("synth", "npy", f), f"filter {f}", one_core=True)
        out[f"hdf5-{f}"] = Cell(go("hdf5", file), ("synth", "npy", f), f"filter {f}", one_core=True)
    out[FLOOR.under] = out[FLOOR.over]
    stars = work / "fits-table" / "00000000.fits"
    out["astropy-table"] = Cell(py("astropy_hdus.py", stars), ("fits-table",), "table", one_core=True)
    out["fits-table"] = Cell(go("fits-table", stars), ("fits-table",), "table", one_core=True)
    for k in FITS:
        file, need = work / f"frames-{k}.fits", (f"frames-{k}",)
        out[f"astropy-{k}"] = Cell(py("astropy_hdus.py", file, "--images"), need, f"frames {k}", one_core=True)
        out[f"fits-{k}"] = Cell(go("fits-images", file), need, f"frames {k}", one_core=True)
    for k, (folder, needs) in IMPORTS.items():
        source, made = work / folder, work / "imported"
        command = (str(binary), "import", str(source), "--into", str(made), "--name", "survey")
        jobs = ("--jobs", str(args.threads))
        if k == "alerts":
            jobs += ("--recipe", str(work / "alerts.yaml"))
        judge = py("survey_values.py", made, k, "--import")
        out[f"import-{k}"] = Cell((*command, *jobs), needs, k, makes=made, judge=judge, program=True)
        if k == "gaia":
            small = (*command, *jobs, "--memory", BUDGET)
            out[f"import-{SMALL}"] = Cell(small, needs, k, makes=made, judge=judge, program=True)
        copy = work / "copied"
        out[f"cp-{k}"] = Cell(("cp", "-r", str(source), str(copy)), needs, k, makes=copy, program=True)
    out["open-objects"] = Cell(py("open_files.py", work / "objects"), ("objects",))
    return out


def truths(work: Path) -> dict[str, tuple[str, ...]]:
    """Who says what surveys hold."""
    judge = (sys.executable, str(PEERS / "survey_values.py"))
    return {k: (*judge, str(work / folder), k) for k, (folder, _) in IMPORTS.items()}


class Bench(Runner):
    """One run."""

    def run(self, name: str, *more: str) -> dict[str, object]:
        """A cell of decoding is measured by the bytes that its truth gives: readers count text and padding in their own ways."""
        got = super().run(name, *more)
        cell = self.all[name]
        truth = self.truth.get(cell.truth)
        if truth and not cell.program:
            got["bytes"] = truth["bytes"]
            got["gbs"] = truth["bytes"] / got["seconds"][-1] / 1e9
        return got


def main() -> int:
    p = arguments(
        __doc__, size="of the largest survey; the others are smaller by fixed factors", seed="of the order of cells"
    )
    p.add_argument("--threads", type=int, default=2, help="--jobs of imports; decoding has one core")
    p.add_argument("--batch", type=int, default=64, help="rows of a slab of contiguous data, the peers' too")
    args, work, binary = parsed(p)
    work /= "surveys"  # survey/ is bench-local's
    begin = time.perf_counter()
    first = [n for n in cells(work, binary, args) if n.startswith(("h5py-", "astropy-"))]
    b = Bench(work, binary, args, cells(work, binary, args), ROWS, truths(work), first=first, floor=FLOOR)
    about = table.machine(work, binary, args)
    say(f"preparing surveys, the largest of {args.size}")
    size = parse_size(args.size)
    sources = [HERE / "prepare.py", HERE / "prepare_survey.py"]
    b.prepare(sources, list(makers(work, size, binary)), HERE / "prepare_survey.py", str(size))
    say("checking that every reader gives the same values, and every import what its source holds")
    b.check()
    say("measuring")
    b.measure()
    goals = {"rows/s": FILES}
    if opened := b.middle(Row("", 0.0, "open-objects", unit="rows/s")):
        goals["rows/s"] = min(FILES, opened)  # nothing imports files faster than they can be opened
    if size < 1 << 30:
        goals["copies"] = 0.0
    b.rows = [dataclasses.replace(r, at_least=goals.get(r.unit, r.at_least)) if r.at_least else r for r in b.rows]
    return b.report("survey", about, begin)


if __name__ == "__main__":
    sys.exit(main())
