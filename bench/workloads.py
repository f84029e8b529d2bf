"""What training loops read, by name: columns of every row, how a batch is touched, digested and measured.

A batch is a dict of columns. A column of fixed shape is an array [n, *shape]; one whose rows differ in length is
(values [total], offsets [n + 1]), all rows' values one after another. As everywhere here, ``sum`` and ``digest`` do not depend
on the order of rows: the digest is the sum of the CRC-32 of every row, the bytes of its columns one after another.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import common
import numpy as np

Batch = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """``shape`` is that of one row; None where rows differ in length. ``group`` is the group of lists it is stored in."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None = ()
    group: str = ""

    @property
    def ragged(self) -> bool:
        return self.shape is None

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape or (), dtype=int)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Workload:
    """Rows of one kind. ``batch`` is the rows of a batch, the same for every loader."""

    name: str
    columns: tuple[Column, ...]
    batch: int

    @property
    def ragged(self) -> bool:
        return any(c.ragged for c in self.columns)

    @property
    def record(self) -> np.dtype[Any]:
        """The columns as one packed record; there are none of differing length."""
        return np.dtype([(c.name, c.dtype, c.shape) for c in self.columns])

    @property
    def stored(self) -> list[str]:
        """The names under which the columns are stored, groups by their own."""
        return list(dict.fromkeys(c.group or c.name for c in self.columns))


PIXELS = 7781
GAIA = (
    *(
        "parallax",
        "parallax_error",
        "pmra",
        "pmdec",
        "phot_g_mean_mag",
        "phot_bp_mean_mag",
        "phot_rp_mean_mag",
        "bp_rp",
    ),
    *("radial_velocity", "teff_gspphot", "logg_gspphot", "mh_gspphot", "ruwe", "astrometric_chi2"),
)
WORKLOADS = {
    w.name: w
    for w in (
        Workload("images", (Column("image_array", "float32", (4, 96, 96)),), 256),
        Workload(
            "spectra",
            (
                Column("spectrum_flux", "float32", (PIXELS,)),
                Column("spectrum_ivar", "float32", (PIXELS,)),
                Column("spectrum_mask", "bool", (PIXELS,)),
                Column("ra", "float64"),
                Column("dec", "float64"),
                Column("z", "float32"),
            ),
            256,
        ),
        Workload(
            "lightcurves",
            (
                Column("time", "float64", None, "lightcurve"),
                Column("flux", "float32", None, "lightcurve"),
                Column("flux_err", "float32", None, "lightcurve"),
                Column("passband", "int32", None, "lightcurve"),
                Column("z", "float32"),
            ),
            256,
        ),
        Workload(
            "table",
            (
                Column("source_id", "int64"),
                Column("_healpix_29", "int64"),
                Column("ra", "float64"),
                Column("dec", "float64"),
                *(Column(name, "float32") for name in GAIA),
                Column("nobs", "int32"),
                Column("variable", "bool"),
            ),
            4096,
        ),
    )
}


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that every measured loop takes."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("workload", choices=WORKLOADS)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--warm", type=int, default=0, help="rows at the start that are not timed")
    p.add_argument("--limit", type=float, default=0.0, help="seconds after which a loop is left; 0: at its end")
    p.add_argument("--workers", type=int, default=0, help="processes of the loader, where it has them")
    p.add_argument("--check", action="store_true", help="digest one epoch, before another one that is timed")
    return p


def split(record: np.ndarray) -> Batch:
    """Records as columns, each in memory of its own, as a training loop takes them."""
    return {name: np.ascontiguousarray(record[name]) for name in record.dtype.names}


def join(rows: list[Batch], workload: Workload) -> Batch:
    """A batch of single rows: what a collate function does."""
    out: Batch = {}
    for c in workload.columns:
        values = [np.asarray(r[c.name]) for r in rows]
        if c.ragged:
            offsets = np.zeros(len(rows) + 1, np.int64)
            np.cumsum([len(v) for v in values], out=offsets[1:])
            out[c.name] = (np.concatenate(values), offsets)
        else:
            out[c.name] = np.stack(values).astype(c.dtype, copy=False)
    return out


def from_arrow(table: Any, workload: Workload) -> Batch:
    """Columns of an Arrow table or record batch, by the names they are stored under, as a batch without Python lists."""
    import pyarrow as pa
    from peers.pyarrow_batches import to_numpy

    out: Batch = {}
    for c in workload.columns:
        column = table.column(c.group or c.name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if c.group:
            column = column.field(c.name)
        if c.ragged:
            offsets = column.offsets.to_numpy()
            out[c.name] = (to_numpy(column.flatten(), ()), offsets - offsets[0])
        else:
            out[c.name] = to_numpy(column, c.shape)
    return out


def to_arrow(rows: Any, workload: Workload, lo: int, hi: int) -> Any:
    """Rows [lo, hi) of prepare_loaders.Rows as an Arrow table: lists of one length where rows have a shape."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for c in workload.columns:
        if c.ragged:
            values, offsets = rows.column(c, lo, hi)
            lists = pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values))
            columns.setdefault(c.group, {})[c.name] = lists
            continue
        a = rows.column(c, lo, hi)
        n = int(np.prod(c.shape, dtype=int))
        flat = pa.array(np.ascontiguousarray(a).reshape(-1))
        columns[c.name] = pa.FixedSizeListArray.from_arrays(flat, n) if c.shape else flat
    for name, members in columns.items():
        if isinstance(members, dict):
            columns[name] = pa.StructArray.from_arrays(list(members.values()), names=list(members))
    return pa.table(columns)


def tensors(batch: Batch) -> dict[str, Any]:
    """A batch as torch tensors of the same memory, which DataLoader hands from process to process without a copy more."""
    import torch

    return {
        k: tuple(map(torch.from_numpy, v)) if isinstance(v, tuple) else torch.from_numpy(v) for k, v in batch.items()
    }


def arrays(batch: dict[str, Any]) -> Batch:
    """A batch of tensors as numpy arrays of the same memory."""
    return {k: tuple(x.numpy() for x in v) if isinstance(v, (tuple, list)) else v.numpy() for k, v in batch.items()}


class Collate:
    """What DataLoader calls with the rows of a batch."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __call__(self, rows: list[Batch]) -> dict[str, Any]:
        return tensors(join(rows, self.workload))


def _checked(batch: Batch, workload: Workload) -> int:
    """Rows of a batch that is what the workload says; another one ends the process."""
    rows = set()
    for c in workload.columns:
        v = batch[c.name]
        a, n = (v[0], len(v[1]) - 1) if c.ragged else (v, len(v))
        if type(a) is not np.ndarray or a.dtype != c.dtype or (not c.ragged and a.shape[1:] != c.shape):
            raise SystemExit(f"{c.name}: {type(a).__name__} {a.dtype} {list(a.shape)}; rows are {c.dtype} {c.shape}")
        if c.ragged and v[1][-1] - v[1][0] != len(a):
            raise SystemExit(f"{c.name}: {len(a)} values, offsets up to {v[1][-1]}")
        rows.add(n)
    if len(rows) != 1:
        raise SystemExit(f"columns of {sorted(rows)} rows in one batch")
    return rows.pop()


def touch(a: np.ndarray, c: Column) -> tuple[int, int]:
    """Reads every byte of an array at the speed of memory: a sum of its words, and the bits of such a word.

    The words are the widest that rows are made of, so that the sum of all batches does not depend on who is in which.
    """
    flat = np.ascontiguousarray(a).reshape(-1)
    if flat.dtype.itemsize == 1:
        return int(np.count_nonzero(flat)), 64
    wide = flat.dtype.itemsize == 8 or (not c.ragged and c.row_bytes % 8 == 0)
    words = flat.view(np.int64 if wide else np.int32)
    return int(np.add.reduce(words, dtype=words.dtype)), 64 if wide else 32


def digest(batch: Batch, workload: Workload) -> int:
    """Sum of the CRC-32 of every row."""
    if workload.ragged:
        parts = [batch[c.name] for c in workload.columns]
        total = 0
        for i in range(len(parts[0][1]) - 1):
            crc = 0
            for p, c in zip(parts, workload.columns):
                row = p[0][p[1][i] - p[1][0] : p[1][i + 1] - p[1][0]] if c.ragged else p[i : i + 1]
                crc = zlib.crc32(np.ascontiguousarray(row).data.cast("B"), crc)
            total += crc
        return total
    n = len(batch[workload.columns[0].name])
    rows = np.concatenate(
        [np.ascontiguousarray(batch[c.name]).reshape(n, -1).view(np.uint8) for c in workload.columns], axis=1
    )
    size, flat = rows.shape[1], memoryview(rows.reshape(-1))
    return sum(zlib.crc32(flat[i : i + size]) for i in range(0, n * size, size))


def size(batch: Batch, workload: Workload) -> int:
    """Bytes of a batch's values; offsets do not count."""
    return sum((batch[c.name][0] if c.ragged else batch[c.name]).nbytes for c in workload.columns)


def measure(
    args: argparse.Namespace, workload: Workload, batches: Callable[[], Iterable[Batch]], epochs: int = 1
) -> dict[str, Any]:
    """Drains ``batches()``, and says how fast it went.

    The first ``args.warm`` rows are not timed, for the reasons that common.measure gives. With ``args.check`` an epoch before
    that gives rows, sum and digest, and the rate is a first one, of a loop that has run before. With ``args.limit`` the
    loop is left after so many seconds, and ``part`` says so.

    ``batches()`` gives ``epochs`` of them at once where there are several; rows and sum are those of one.
    """
    first = drain(args, workload, batches, epochs, check=True) if args.check else None
    out = drain(args, workload, batches, epochs)
    if first is not None:
        out.update({k: first[k] for k in ("rows", "bytes", "sum", "digest")})
        out.pop("part", None)
    return out


def drain(
    args: argparse.Namespace,
    workload: Workload,
    batches: Callable[[], Iterable[Batch]],
    epochs: int = 1,
    check: bool = False,
) -> dict[str, Any]:
    """One loop over ``batches()``, as ``measure`` says; with ``check`` to its end, and with a digest."""
    rows = total = bytes_ = timed = timed_rows = 0
    sums = dict.fromkeys((c.name for c in workload.columns), 0)
    bits = dict.fromkeys(sums, 64)
    part = False
    begin = start = time.perf_counter()
    first = 0.0
    for batch in batches():
        n = _checked(batch, workload)
        if not rows:
            first = time.perf_counter() - begin
        for c in workload.columns:
            v = batch[c.name]
            got, bits[c.name] = touch(v[0] if c.ragged else v, c)
            sums[c.name] += got
        if check:
            total += digest(batch, workload)
        rows += n
        timed_rows += n
        taken = size(batch, workload)
        bytes_ += taken
        timed += taken
        batch.clear()
        v = None
        if rows <= args.warm:
            start, timed, timed_rows = time.perf_counter(), 0, 0
        elif args.limit and not check and time.perf_counter() - start > args.limit:
            part = True
            break
    seconds = time.perf_counter() - start
    if not timed:
        raise SystemExit(f"{rows} rows are no more than the {args.warm} that are not timed; take a larger set")
    out: dict[str, Any] = {
        "rows": rows // epochs,
        "bytes": bytes_ // epochs,
        "gbs": timed / seconds / 1e9,
        "rows_per_second": timed_rows / seconds,
        "seconds": [seconds],
        "timed_bytes": timed,
        "first_batch": first,
    }
    if epochs == 1:
        out["sum"] = sum(s & ((1 << bits[name]) - 1) for name, s in sums.items()) & common.MASK
    if check:
        out["digest"] = total & common.MASK
    if part:
        out["part"] = True
        del out["sum"]
    return out


def shuffled(batches: Callable[[int], Iterator[Batch]], seed: int) -> Callable[[], Iterator[Batch]]:
    """Calls ``batches`` with another seed each time: an epoch after another."""
    state = [seed]

    def again() -> Iterator[Batch]:
        state[0] += 1
        return batches(state[0] - 1)

    return again
