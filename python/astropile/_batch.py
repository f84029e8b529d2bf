"""Rows handed to the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._errors import need
from ._ragged import Ragged, RaggedStruct


class Batch(Mapping[str, Any]):
    """Columns of some rows by name; ``rows`` is their number.

    The arrays are views of memory that is filled anew only when none of them, nor anything made from them, is left.
    They may be written to, but for constant columns. ``epoch`` and ``position`` (rows of the epoch up to and including
    this batch) say where a stream stands after it, ``last`` that the epoch is over; all are 0 for rows read by number.
    ``valid`` is None, or bool [rows]: False where a row stands there again only to make the batches of all ranks equally
    long. ``source`` is None, or uint16 [rows]: which dataset of a mix each row is of. A batch pickles, as copies of its
    arrays.
    """

    __slots__ = ("_lazy", "_names", "_values", "epoch", "last", "position", "rows", "source", "valid")

    def __init__(
        self,
        names: tuple[str, ...],
        values: dict[str, Any],
        lazy: dict[str, Callable[[], Any]],
        rows: int,
        epoch: int = 0,
        position: int = 0,
    ) -> None:
        self._names = names
        self._values = values
        self._lazy = lazy
        self.rows = rows
        self.epoch = epoch
        self.position = position
        self.last = False
        self.valid: npt.NDArray[np.bool_] | None = None
        self.source: npt.NDArray[np.uint16] | None = None

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            make = self._lazy.get(name)
            if make is None:
                raise
        value = self._values[name] = make()
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __reduce__(self) -> tuple[Any, ...]:
        # Memory that is lent cannot leave the process: what is unpickled owns copies.
        values = tuple(_constant(self[name]) for name in self._names)
        return _unpickled, (
            self._names,
            values,
            self.rows,
            self.epoch,
            self.position,
            self.last,
            self.valid,
            self.source,
        )

    def row(self, i: int) -> dict[str, Any]:
        """One row: numpy scalars, arrays, str, a dict of arrays for a struct; None where null."""
        return {name: _pick(self[name], i) for name in self._names}

    def torch(self) -> dict[str, Any]:
        """The columns of numbers as torch tensors that share the batch's memory; ragged and text columns are left out.

        Values that are null are undefined in the tensor. Constant columns are copied, for torch cannot mark them
        read-only.
        """
        try:
            import torch
        except ImportError as e:
            raise need("torch", "torch", "Batch.torch()") from e
        out: dict[str, Any] = {}
        for name in self._names:
            v = self._values.get(name)
            if not isinstance(v, np.ndarray) or v.dtype == object:
                continue
            a = np.ma.getdata(v)
            out[name] = torch.from_numpy(a if a.flags.writeable else a.copy())
        return out

    def __repr__(self) -> str:
        return f"Batch({self.rows} rows: {', '.join(self._names)})"


class _Constant(NamedTuple):
    """A constant column as it is pickled: one row, and how often it stands there."""

    row: Any
    rows: int


def _constant(column: Any) -> Any:
    if type(column) is np.ndarray and len(column) > 1 and column.strides[0] == 0:
        return _Constant(column[:1], len(column))
    return column


def _unpickled(
    names: tuple[str, ...],
    values: tuple[Any, ...],
    rows: int,
    epoch: int,
    position: int,
    last: bool,
    valid: npt.NDArray[np.bool_] | None,
    source: npt.NDArray[np.uint16] | None,
) -> Batch:
    made = (np.broadcast_to(v.row[0], (v.rows, *v.row.shape[1:])) if isinstance(v, _Constant) else v for v in values)
    batch = Batch(names, dict(zip(names, made, strict=True)), {}, rows, epoch, position)
    batch.last, batch.valid, batch.source = last, valid, source
    return batch


def _pick(column: Any, i: int) -> Any:
    if isinstance(column, RaggedStruct):
        return None if column.valid is not None and not column.valid[i] else column.row(i)
    if isinstance(column, Ragged):
        return None if column.valid is not None and not column.valid[i] else column[i]
    value = column[i]
    if value is np.ma.masked:
        return None
    if not isinstance(column, np.ndarray):  # a pyarrow array
        return value.as_py()
    return value
