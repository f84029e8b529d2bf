"""A column as the shards' own pages, mapped."""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from . import _forks
from ._errors import DataError, MissingError

if TYPE_CHECKING:
    from ._dataset import Dataset

Array = npt.NDArray[Any]
_ndarray = np.ndarray

# A mapped shard: first row, row after the last, offset of each row's values, the map (or the one row of a constant column).
_Shard = tuple[int, int, "array[int]", "mmap.mmap | bytes"]


class PageTable(NamedTuple):
    """Where the values of a column stand in a shard's file."""

    path: str  # relative to the dataset's root
    first: npt.NDArray[np.int64]  # first row of each page, and the number of rows
    offsets: npt.NDArray[np.int64]  # of each page's values in the file
    constant: bytes | None  # the bytes of the one row that stands for all

    @classmethod
    def parse(cls, body: bytearray, head: int) -> PageTable:
        """The table of a message whose first ``head`` bytes are JSON."""
        js = json.loads(body[:head])
        pages = js["pages"]
        split = head + 8 * (pages + 1)
        first = np.frombuffer(body[head:split], "<i8")
        if js["constant"]:
            return cls(js["path"], first, np.empty(0, np.int64), bytes(body[split:]))
        return cls(js["path"], first, np.frombuffer(body[split : split + 8 * pages], "<i8"), None)


class Memmap:
    """The rows of a fixed-size column, without a copy: ``m[i]`` is an array [*shape] on the pages of the shard.

    Rows are numbered as the dataset's. ``m[2:9]``, ``m[[4, 1]]`` and a bool mask give arrays [n, *shape], copied, since rows do
    not touch in the file. Single rows are read-only views. Shards are mapped when a row of them is first asked for;
    ``capacity`` of them stay mapped. A Memmap works in forked processes and pickles to others.
    """

    def __init__(self, dataset: Dataset, column: str, capacity: int | None = None) -> None:
        field = dataset.schema[column]
        if field.kind not in ("tensor", "scalar") or field.dtype is None or field.dtype == object:
            from ._errors import NotMappedError

            raise NotMappedError(
                f"column {column!r} is a {field.kind} of {field}: rows differ in length and do not map; use batches() or ds[i]"
            )
        self._dataset = dataset
        self._column = column
        self.capacity = default_capacity() if capacity is None else max(1, capacity)
        self.row_shape: tuple[int, ...] = field.shape
        self.dtype: np.dtype[Any] = field.dtype
        self._row_bytes = self.dtype.itemsize * int(np.prod(field.shape, dtype=np.int64))
        self._starts = [0, *accumulate(dataset._shard_rows())]
        self._n = self._starts[-1]
        self._lock = threading.Lock()
        self._shards: OrderedDict[int, _Shard] = OrderedDict()
        self._evicts = len(self._starts) - 1 > self.capacity
        self._last: _Shard = (0, 0, array("q"), b"")
        _forks.register(self)
        if self._n:
            self._find(0)  # says now, not later, if the column does not map

    @property
    def shape(self) -> tuple[int, ...]:
        """[rows, *shape of a row]."""
        return (self._n, *self.row_shape)

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, i: int) -> Array: ...
    @overload
    def __getitem__(self, i: slice | Sequence[int] | Array) -> Array: ...
    def __getitem__(self, i: Any) -> Array:
        if i.__class__ is not int:
            if isinstance(i, slice):
                return self._stack(range(*i.indices(self._n)))
            if isinstance(i, tuple):
                raise TypeError(
                    "one index chooses rows; index the row itself for more: memmap[17][0], not memmap[17, 0]"
                )
            if not hasattr(i, "__index__") or getattr(i, "ndim", 0) != 0:
                return self._stack(self._rows(i))
            i = i.__index__()
        lo, hi, offsets, pages = self._last
        if not lo <= i < hi:
            if i < 0:
                i += self._n
            if not 0 <= i < self._n:
                raise IndexError(f"row {i if i >= 0 else i - self._n} of {self._n}")
            lo, hi, offsets, pages = self._find(i)
        return _ndarray(self.row_shape, self.dtype, pages, offsets[i - lo])

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(self._n))

    def _rows(self, i: Any) -> Sequence[int]:
        at = np.asarray(i)
        if at.ndim != 1:
            raise IndexError(f"an index of {at.ndim} dimensions; give a number, a slice, a list of rows or a mask")
        if at.dtype == np.bool_:
            if len(at) != self._n:
                raise IndexError(f"a mask of {len(at)} for {self._n} rows")
            return [int(x) for x in np.flatnonzero(at)]
        if at.size == 0:
            return []
        if at.dtype.kind not in "iu":
            raise IndexError(f"row numbers are integers, not {at.dtype}")
        return [int(x) for x in at]

    def _stack(self, rows: Sequence[int]) -> Array:
        out = np.empty((len(rows), *self.row_shape), self.dtype)
        for k, i in enumerate(rows):
            out[k] = self[i]
        return out

    def _find(self, i: int) -> _Shard:
        """The shard of a row, mapped. Without eviction, readers need no lock."""
        s = bisect_right(self._starts, i) - 1
        shard = self._shards.get(s)
        if shard is None or self._evicts:
            with self._lock:
                shard = self._shards.get(s)
                if shard is None:
                    shard = self._map(s)
                    self._shards[s] = shard
                    if len(self._shards) > self.capacity:
                        # Views of the rows keep its map until they are gone.
                        self._shards.popitem(last=False)
                else:
                    self._shards.move_to_end(s)
        self._last = shard
        return shard

    def _map(self, s: int) -> _Shard:
        table = self._dataset._page_table(self._column, s)
        first, offsets = table.first, table.offsets
        full = Path(self._dataset.root) / table.path
        start = self._starts[s]
        rows = self._starts[s + 1] - start
        if table.constant is not None:
            return (start, start + rows, array("q", bytes(8 * rows)), table.constant)
        chosen = self._dataset._chosen(s)
        counts = np.diff(first)
        at = (
            np.repeat(offsets - first[:-1] * self._row_bytes, counts)
            + np.arange(int(first[-1]), dtype=np.int64) * self._row_bytes
        )
        if chosen is not None:
            at = at[chosen]
        try:
            with open(full, "rb") as f:
                size = os.fstat(f.fileno()).st_size
                if rows and (int(at.max()) + self._row_bytes > size or int(at.min()) < 0):
                    raise DataError(f"{full} is {size} bytes long, shorter than its pages say; run: astropile verify")
                pages = _open_map(f.fileno(), size)
        except FileNotFoundError as e:
            raise MissingError(f"{full} is gone; the dataset is incomplete: run: astropile verify") from e
        return (start, start + rows, array("q", at.tobytes()), pages)

    def after_fork_in_child(self) -> None:
        """Maps are inherited; a lock that another thread held is not."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Memmap, (self._dataset, self._column, self.capacity))

    def __repr__(self) -> str:
        return f"Memmap({self._column!r}, shape={self.shape}, dtype={self.dtype})"


Sequence.register(Memmap)


def _open_map(fd: int, size: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ, trackfd=False)
    return mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)


def default_capacity() -> int:
    """How many shards may be mapped at once: a quarter of the system's mappings, and of descriptors where maps hold them."""
    try:
        most = int(Path("/proc/sys/vm/max_map_count").read_text()) // 4
    except (OSError, ValueError):
        most = 65530 // 4
    if sys.version_info < (3, 13):
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            most = min(most, soft // 4)
    return max(1, most)
