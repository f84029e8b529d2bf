"""make bench-local: what reading and importing reach on this machine, beside raw reads and other loaders.

One synthetic set of float32 images [4,96,96] is written in every format that is compared, all of it in the page cache. How
cells are run and compared, runner.py says; what values are, pyarrow or h5py.

Writes bench/out/local.json (the table), local-machine.json (versions, machine) and local-cells.json (every repeat).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import table
from runner import HERE, PEERS, Cell, Row, Runner, arguments, parse_size, parsed, say

IMAGE = 4 * 96 * 96 * 4  # bytes of a row


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

    def made(folder: Path) -> tuple[str, ...]:
        return (sys.executable, str(PEERS / "shards.py"), str(folder), "--loose")

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
        "import": Cell(
            import_,
            ("images", "npy", "survey"),
            "survey",
            makes=work / "imported",
            judge=made(work / "imported"),
            program=True,
        ),
        "import-peer": Cell(
            (sys.executable, str(HERE / "import_peer.py"), str(survey), str(work / "imported-peer")),
            ("images", "npy", "survey"),
            "survey",
            makes=work / "imported-peer",
            judge=made(work / "imported-peer"),
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


def main() -> int:
    p = arguments(__doc__, size="of the synthetic sets", seed="of orders and of the order of cells")
    p.add_argument("--threads", type=int, default=2, help="threads that read, the controls' too")
    p.add_argument("--batch", type=int, default=256, help="rows of a batch in Python, the peers' too")
    p.add_argument(
        "--go-batch", type=int, default=64, help="rows of a batch of the Go stream; some 8 MiB, as the control's blocks"
    )
    p.add_argument("--go-slots", type=int, default=3, help="batches of the Go stream in memory at once")
    args, work, binary = parsed(p)
    begin = time.perf_counter()
    b = Runner(
        work,
        binary,
        args,
        cells(work, binary, args),
        ROWS,
        truths(work),
        first=("h5py-decode", "h5py", "raw-singles"),
        apart=("singles", "raw-singles"),
        floor=FLOOR,
    )
    about = table.machine(work, b.binary, args)
    say(f"preparing {args.size} of images in the formats of all loaders")
    order = ["images", "rgb", "zstd", "npy", "parquet", "parquet-cache", "ours-cache", "gzip", "shuffle", "survey"]
    b.prepare([HERE / "prepare.py", PEERS / "datasets_map.py", binary], order, HERE / "prepare.py", args.size)
    say("checking that every loader gives the same values")
    b.check()
    say("measuring")
    b.measure()
    return b.report("local", about, begin)


if __name__ == "__main__":
    sys.exit(main())
