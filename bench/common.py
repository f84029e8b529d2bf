"""What the measured processes share: timing, touching, digests, peak memory, one line of JSON.

Every measured process prints one JSON object. ``sum`` is the sum of the bytes of all batches read as int64, modulo 2^64,
and ``digest`` the sum of the CRC-32 of every row: both are independent of the order of rows, so loaders that shuffle
can be held against loaders that do not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

MASK = (1 << 64) - 1


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options every measured process takes."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batch", type=int, default=256, help="rows of a batch")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--warm", type=int, default=2048, help="rows at the start that are not timed")
    p.add_argument(
        "--check",
        action="store_true",
        help="compute the digest of every row of all batches; the rate then means nothing",
    )
    p.add_argument(
        "--shape", type=lambda s: tuple(int(x) for x in s.split(",")), default=(4, 96, 96), help="of one row"
    )
    return p


def touch(a: np.ndarray) -> int:
    """Sum of all bytes of a contiguous array as int64: reads every byte, at the speed of memory."""
    if not a.flags.c_contiguous:
        a = np.ascontiguousarray(a)
    return int(np.add.reduce(a.reshape(-1).view(np.int64)))


def native(a: np.ndarray) -> np.ndarray:
    """The values in this machine's byte order and one after another, as a training loop needs them."""
    return np.ascontiguousarray(a, a.dtype.newbyteorder("="))


def digest(a: np.ndarray) -> int:
    """Sum of the CRC-32 of every row of a batch."""
    a = np.ascontiguousarray(a)
    return sum(zlib.crc32(row.data.cast("B")) for row in a)


def measure(
    args: argparse.Namespace,
    batches: Callable[[], Iterable[np.ndarray]],
    *,
    untouched: bool = False,
    dtype: str = "float32",
) -> dict[str, Any]:
    """Drains ``batches()``, one epoch, and says how fast it went.

    Every batch must be an array [n, *shape] of the dtype. The first ``args.warm`` rows are not timed: what a loader does
    once (opening, first touch of its buffers) is over by then, and what it does for rows never seen before (faults of mapped
    pages, decoding) goes on, as it does in a set larger than memory. A second epoch over a small set would hide that.
    """
    rows = total = check = size = timed = 0
    begin = time.perf_counter()
    start = begin
    first = 0.0
    for batch in batches():
        a = np.asarray(batch)
        if a.shape[1:] != tuple(args.shape) or a.dtype != dtype:
            raise SystemExit(f"a batch of {a.dtype} {list(a.shape)}; rows are {dtype} {list(args.shape)}")
        if not rows:
            first = time.perf_counter() - begin
        rows += len(a)
        size += a.nbytes
        timed += a.nbytes
        if args.check:
            check += digest(a)
        if args.check or not untouched:
            total += touch(a)
        del a, batch
        if rows <= args.warm:
            start, timed = time.perf_counter(), 0
    seconds = time.perf_counter() - start
    if not timed:
        raise SystemExit(f"{rows} rows are no more than the {args.warm} that are not timed; take a larger set")
    out: dict[str, Any] = {
        "rows": rows,
        "bytes": size,
        "gbs": timed / seconds / 1e9,
        "seconds": [seconds],
        "timed_bytes": timed,
        "first_batch": first,
    }
    if args.check or not untouched:
        out["sum"] = total & MASK
    if args.check:
        out["digest"] = check & MASK
    return out


def peak(pid: int | str = "self") -> int:
    """Peak resident memory of a process in bytes (VmHWM; pages of mapped files that it touched count)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmHWM")


def report(result: dict[str, Any], others: Sequence[int] = ()) -> None:
    """Prints the result with the peak memory of this process, and of others that worked for it."""
    result["peak"] = peak() + sum(peak(p) for p in others)
    print(json.dumps(result), flush=True)
    sys.stdout.flush()
