"""Write the workloads of loaders.py in the formats that the peers read.

The shards are made first; pyarrow reads their rows into plain .npy files, and each peer's own writer takes them from there.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from prepare import once, shards, synth
from runner import PEERS, parse_size
from workloads import PIXELS, WORKLOADS, Batch, Column, Workload, from_arrow

sys.path.insert(0, str(PEERS))

# Of --size: images take all of it, the others a share.
SHARES = {"images": 1.0, "spectra": 0.5, "lightcurves": 0.25, "table": 0.5}
# Loaders that take one row at a time from Python get this share of a table, its first rows: of millions they would take minutes.
PART = 1 / 64
# Sources of a mix, by the share of its rows.
MIX = {"mix-5": 0.5, "mix-3": 0.3, "mix-2": 0.2}
# Modules of peers by the name of their format: each has write(workload, rows, out).
FORMATS = {
    "records": "torch_memmap",
    "hdf5": "torch_h5py",
    "parquet": "datasets_loops",
    "mds": "mosaic_mds",
    "lit": "litdata_chunks",
    "wds": "webdataset_tars",
    "ipc": "pyarrow_take",
}
# What synth counts for a row, beside what it holds.
SYNTH_ROW = {
    "images": 64 + 2 * 8 + 3 * 4 + 4 * 96 * 96 * 4,
    "spectra": 64 + 2 * 8 + 4 + PIXELS * (3 * 4 + 1),
    "table": 64 + 2 * 8 + 14 * 4 + 8 + 4 + 1,
}
POINTS = (20, 2000)  # of a light curve: as many short ones as long ones, in logarithm
POINT_BYTES = 8 + 4 + 4 + 4


class Rows:
    """The rows of a workload in .npy files: a file a column; of ragged ones the values, and the offsets they share."""

    def __init__(self, folder: Path, workload: Workload, stop: int | None = None) -> None:
        self.folder, self.workload = folder, workload
        self.arrays = {c.name: np.load(folder / f"{c.name}.npy", mmap_mode="r") for c in workload.columns}
        self.offsets = np.load(folder / "offsets.npy") if workload.ragged else None
        fixed = [len(self.arrays[c.name]) for c in workload.columns if not c.ragged]
        self.stop = min(fixed[0], stop or fixed[0])

    def __len__(self) -> int:
        return self.stop

    def column(self, c: Column, lo: int, hi: int) -> Any:
        """Rows [lo, hi) of a column as a batch has them."""
        a = self.arrays[c.name]
        if not c.ragged:
            return a[lo:hi]
        offsets = self.offsets[lo : hi + 1]
        return a[offsets[0] : offsets[-1]], offsets - offsets[0]

    def row(self, i: int) -> dict[str, np.ndarray]:
        """One row: an array a column, of no dimension where that is a scalar."""
        out = {}
        for c in self.workload.columns:
            a = self.arrays[c.name]
            out[c.name] = np.asarray(a[self.offsets[i] : self.offsets[i + 1]] if c.ragged else a[i])
        return out

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return (self.row(i) for i in range(len(self)))


def read(root: Path, workload: Workload, where: Any = None) -> Iterator[Batch]:
    """The rows of a dataset in dense order, as pyarrow reads them; ``where`` is a filter of Arrow's, over scalars."""
    import pyarrow.parquet as pq

    names = [*workload.stored, *(["z"] if where is not None and "z" not in workload.stored else [])]
    for f in shards(root):
        for b in pq.ParquetFile(f).iter_batches(workload.batch, columns=names):
            got = b if where is None else b.filter(where(b))
            if got.num_rows:
                yield from_arrow(got, workload)


def about(workload: str, size: int) -> int:
    """Rows of a workload, of light curves about so many, where images are of a size."""
    per = SYNTH_ROW["images"] if workload == "images" else POINT_BYTES * mean_points()
    if workload in ("spectra", "table"):
        per = WORKLOADS[workload].record.itemsize
    return int(size * SHARES[workload] / per)


def mean_points() -> float:
    """Points of a light curve on average."""
    low, high = POINTS
    return (high - low) / np.log(high / low)


def part(rows: int) -> int:
    """The first rows of a table, for those that take one at a time."""
    return max(1, int(rows * PART))


def count(root: Path) -> int:
    """The rows of a dataset."""
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(f).metadata.num_rows for f in shards(root))


def raw(root: Path, workload: Workload, out: Path) -> None:
    """The .npy files that Rows reads."""
    out.mkdir()
    n = count(root)
    files = {c.name: open(out / f"{c.name}.npy", "wb") for c in workload.columns}  # noqa: SIM115  closed below
    offsets = [np.zeros(1, np.int64)]

    def header(c: Column, rows: int) -> None:
        files[c.name].seek(0)
        shape = (rows,) if c.ragged else (n, *c.shape)
        descr = np.lib.format.dtype_to_descr(np.dtype(c.dtype))
        # numpy pads headers so that a larger first dimension fits in later.
        np.lib.format.write_array_header_1_0(files[c.name], {"descr": descr, "fortran_order": False, "shape": shape})

    for c in workload.columns:
        header(c, 0)
    total = 0
    for batch in read(root, workload):
        for c in workload.columns:
            v = batch[c.name]
            files[c.name].write(np.ascontiguousarray(v[0] if c.ragged else v).data)
        if workload.ragged:
            ends = next(batch[c.name][1] for c in workload.columns if c.ragged)[1:] + total
            offsets.append(ends)
            total = int(ends[-1])
    for c in workload.columns:
        if c.ragged:
            header(c, total)
        files[c.name].close()
    if workload.ragged:
        np.save(out / "offsets.npy", np.concatenate(offsets))


def lightcurves(binary: Path, root: Path, size: int) -> None:
    """A release of made-up light curves of very different lengths, imported from Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    n = max(1, round(size / (POINT_BYTES * mean_points())))
    lengths = np.exp(rng.uniform(*np.log(POINTS), n)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    m = int(offsets[-1])
    members = {
        "time": 53000 + 1000 * rng.random(m),
        "flux": 100 * rng.random(m, np.float32),
        "flux_err": 1 + rng.random(m, np.float32),
        "passband": rng.integers(0, 6, m, np.int32),
    }
    curves = pa.StructArray.from_arrays(
        [pa.ListArray.from_arrays(offsets, pa.array(v)) for v in members.values()], names=list(members)
    )
    table = pa.table(
        {
            "object_id": np.arange(n),
            "ra": rng.uniform(0, 360, n),
            "dec": np.degrees(np.arcsin(rng.uniform(-1, 1, n))),
            "z": rng.random(n, np.float32),
            "lightcurve": curves,
        }
    )
    source = root.with_name(root.name + "-source")
    source.mkdir(exist_ok=True)
    try:
        pq.write_table(table, source / "lightcurves.parquet")
        (source / "citation.txt").write_text("Made up.\n")
        into = ("--into", str(root), "--name", "lightcurves")
        run(binary, "import", str(source / "lightcurves.parquet"), *into)
        run(
            *(binary, "release", str(root), "-m", "made up", "--licence", "CC0-1.0"),
            *("--citation", str(source / "citation.txt")),
        )
    finally:
        for f in source.iterdir():
            f.unlink()
        source.rmdir()


def run(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


def dataset(binary: Path, root: Path, workload: str, size: int) -> None:
    """The shards of a workload."""
    if workload == "lightcurves":
        lightcurves(binary, root, size)
    elif workload == "images":
        synth(binary, root, workload, str(size), "none")  # as bench-local has it
    else:
        rows = size // WORKLOADS[workload].record.itemsize
        synth(binary, root, workload, str(rows * SYNTH_ROW[workload]), "none")


def mix(binary: Path, out: Path, size: int) -> None:
    """The sources of a mix: images, in whole cycles of each of the order's 720 lanes, so that an epoch has all rows of all."""
    whole = 720 * 10
    rows = max(1, size // SYNTH_ROW["images"] // whole) * whole
    out.mkdir()
    for seed, (name, share) in enumerate(MIX.items(), start=11):
        n = round(rows * share)
        run(
            *(binary, "synth", out / name, "--kind", "images", "--size", n * SYNTH_ROW["images"], "--seed", seed),
            *("--compression", "none"),
        )
        got = count(out / name)
        if got != n:
            raise SystemExit(f"{name} has {got} rows, {n} were to be made")


def formats() -> list[str]:
    """All that can be prepared, in the order it is needed."""
    out = []
    for w in WORKLOADS:
        out += [w, f"{w}-raw", *(f"{w}-{f}" for f in FORMATS), f"{w}-cache"]
        if w == "images":
            out.append("mix")
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("work", type=Path)
    p.add_argument("what", choices=formats())
    p.add_argument("--binary", type=Path, required=True)
    p.add_argument("--size", default="1GiB")
    a = p.parse_args()
    out: Path = a.work / a.what
    if out.exists():
        return
    if a.what == "mix":
        once(out, lambda half: mix(a.binary, half, parse_size(a.size)), out)
        return
    name, _, kind = a.what.partition("-")
    w = WORKLOADS[name]
    if not kind:
        once(out, lambda half: dataset(a.binary, half, name, int(parse_size(a.size) * SHARES[name])), out)
    elif kind == "raw":
        once(out, lambda half: raw(a.work / name, w, half), out)
    elif kind == "cache":
        once(out, lambda half: importlib.import_module("datasets_loops").load(a.work / f"{name}-parquet", half), out)
    else:
        module = importlib.import_module(FORMATS[kind])
        whole = Rows(a.work / f"{name}-raw", w)
        few = name == "table" and getattr(module, "ROW_BY_ROW", False)
        rows = Rows(a.work / f"{name}-raw", w, part(len(whole))) if few else whole
        once(out, lambda half: module.write(w, rows, half), out)


if __name__ == "__main__":
    main()
