"""Columns whose rows differ in length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Ragged:
    """Rows of any length: one array of values, and where each row starts.

    ``offsets``: int64 [rows + 1]; row i is ``values[offsets[i]:offsets[i + 1]]``.
    ``values``: [offsets[-1]] of the column's dtype, a view of the batch's memory; object for text.
    ``valid``: bool [rows], or None where no row is null. A null row is empty.
    """

    __slots__ = ("_values", "offsets", "valid")

    def __init__(
        self, values: Array | Callable[[], Array], offsets: npt.NDArray[np.int64], valid: Array | None = None
    ) -> None:
        self._values = values
        self.offsets = offsets
        self.valid = valid

    @property
    def values(self) -> Array:
        """The elements of all rows. Text is decoded at the first use."""
        if callable(self._values):
            self._values = self._values()
        return self._values

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of elements of each row, int64 [rows]."""
        return np.diff(self.offsets)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of one element."""
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, i: int) -> Array: ...
    @overload
    def __getitem__(self, i: slice) -> Ragged: ...
    def __getitem__(self, i: int | slice) -> Array | Ragged:
        """The elements of a row, a view; of a slice of step 1, the rows as Ragged that share the values."""
        n = len(self)
        if isinstance(i, slice):
            lo, hi, step = i.indices(n)
            if step != 1:
                raise ValueError("a Ragged is sliced with step 1; index the rows one by one, or pad() first")
            hi = max(lo, hi)
            offsets = self.offsets[lo : hi + 1]
            first, last = int(offsets[0]), int(offsets[-1])
            return Ragged(self.values[first:last], offsets - first, None if self.valid is None else self.valid[lo:hi])
        if not -n <= i < n:
            raise IndexError(f"row {i} of {n}")
        i %= n
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def pad(self, fill: Any = 0, length: int | None = None) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The rows as one dense array [rows, length], and a mask [rows, length] that is True where a value stands.

        ``length`` is the longest row unless given; longer rows are cut. ``fill`` stands elsewhere.
        """
        lengths = self.lengths
        width = int(lengths.max(initial=0)) if length is None else int(length)
        if width < 0:
            raise ValueError(f"length={length}; give 0 or more")
        column = np.arange(width)
        mask = column < lengths[:, None]
        out = np.full((len(self), width), fill, dtype=self.dtype)
        at = (self.offsets[:-1, None] + column)[mask]
        out[mask] = self.values[at]
        return out, mask

    def __reduce__(self) -> tuple[Any, ...]:
        # Text that is not decoded yet is a function of the batch's memory, which stays behind.
        return Ragged, (self.values, self.offsets, self.valid)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, {int(self.offsets[-1] - self.offsets[0])} values)"


class RaggedStruct(Mapping[str, Ragged]):
    """Several ragged columns whose rows agree in length, such as a light curve: ``batch["lightcurve"]["time"]``.

    All members share ``offsets`` (int64 [rows + 1]). ``len`` is the number of members, ``rows`` that of rows.
    """

    __slots__ = ("_members", "offsets", "valid")

    def __init__(self, members: dict[str, Ragged], offsets: npt.NDArray[np.int64], valid: Array | None = None) -> None:
        self._members = members
        self.offsets = offsets
        self.valid = valid

    def __getitem__(self, name: str) -> Ragged:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def row(self, i: int) -> dict[str, Array]:
        """The members of one row."""
        return {name: m[i] for name, m in self._members.items()}

    def pad(self, fill: Any = 0, length: int | None = None) -> tuple[dict[str, Array], npt.NDArray[np.bool_]]:
        """Every member as a dense array [rows, length], and the mask that they share. Text is filled with ""."""
        out: dict[str, Array] = {}
        mask = np.zeros((self.rows, 0), np.bool_)
        for name, m in self._members.items():
            out[name], mask = m.pad("" if m.dtype == object else fill, length)
        return out, mask

    def __reduce__(self) -> tuple[Any, ...]:
        return RaggedStruct, (self._members, self.offsets, self.valid)

    def __repr__(self) -> str:
        return f"RaggedStruct({self.rows} rows: {', '.join(self._members)})"
