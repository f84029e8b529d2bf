"""What a dataset holds: columns and releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def numpy_dtype(name: str) -> np.dtype[Any] | None:
    """The numpy dtype of a stored element type: object for text, None for a struct."""
    if name == "":
        return None
    if name == "string":
        return np.dtype(object)
    return np.dtype(name).newbyteorder("<")


@dataclass(frozen=True)
class Field:
    """One column.

    ``kind`` is "scalar" (a number or text a row), "tensor" (``shape`` numbers a row), "list" (any number of elements a
    row) or "struct" (lists of equal length: ``members``). ``dtype`` is that of one element: object for text, None for a
    struct. ``unit`` is as the survey gave it, or empty.
    """

    name: str
    kind: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    unit: str
    nullable: bool
    members: tuple[Field, ...] = ()

    @classmethod
    def from_json(cls, c: Mapping[str, Any]) -> Field:
        """The field of a column as the feed describes it."""
        return cls(
            c["name"],
            c["type"],
            numpy_dtype(c["dtype"]),
            tuple(c["shape"] or ()),
            c["unit"],
            c["nullable"],
            tuple(cls.from_json(m) for m in c.get("members") or ()),
        )

    def __str__(self) -> str:
        text = "text" if self.dtype == object else str(self.dtype)
        if self.kind == "struct":
            text = "{" + ", ".join(str(m) for m in self.members) + "}"
        elif self.kind == "list":
            text += "[...]"
        elif self.shape:
            text += str(list(self.shape))
        return f"{self.name}: {text}" + (f" [{self.unit}]" if self.unit else "") + ("?" if self.nullable else "")


class Schema(Mapping[str, Field]):
    """The columns of a dataset by name, in order."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = {f.name: f for f in fields}

    def __getitem__(self, name: str) -> Field:
        if name not in self._fields:
            raise KeyError(f"no column {name!r} is open; there are {', '.join(self._fields)}")
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._fields)

    def __repr__(self) -> str:
        return "Schema(\n" + "".join(f"  {f}\n" for f in self._fields.values()) + ")"


@dataclass(frozen=True)
class Release:
    """One immutable state of a dataset. ``id`` is the SHA-256 of its release.json, ``time`` is UTC (RFC 3339)."""

    number: int
    id: str
    time: str
    message: str
    rows: int
    bytes: int
