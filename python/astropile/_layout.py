"""From the bytes of a slot to arrays: where each column of a batch stands, worked out once a layout."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import need
from ._ragged import Array, Ragged, RaggedStruct
from ._schema import numpy_dtype

Base = npt.NDArray[np.uint8]
INT64 = np.dtype("<i8")
BOOL = np.dtype("?")
_ndarray = np.ndarray


def decode_text(values: Base, offsets: npt.NDArray[np.int64]) -> list[str]:
    """The strings between byte offsets into UTF-8 text."""
    first = int(offsets[0])
    raw = values[first : int(offsets[-1])].tobytes()
    at = (offsets - first).tolist()
    if raw.isascii():
        text = raw.decode("ascii")
        return [text[a:b] for a, b in pairwise(at)]
    return [raw[a:b].decode() for a, b in pairwise(at)]


def _objects(items: list[Any]) -> Array:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def _arrow_text(values: Base, offsets: npt.NDArray[np.int64], valid: Array | None) -> Any:
    """A pyarrow large_string array on the memory of the batch, which it keeps."""
    try:
        import pyarrow as pa
    except ImportError as e:
        raise need("pyarrow", "arrow", 'strings="arrow"') from e
    bits = None
    if valid is not None:
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.large_string(), len(offsets) - 1, [bits, pa.py_buffer(offsets), pa.py_buffer(values)]
    )


def bfloat16() -> np.dtype[Any]:
    """What stands for bfloat16, which numpy does not have: the dtype of ml_dtypes where that is installed, else uint16."""
    try:
        ml_dtypes: Any = importlib.import_module("ml_dtypes")
    except ImportError:
        return np.dtype("<u2")
    made: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return made


class Plan:
    """Makes the columns of a batch from the memory of a slot.

    ``eager`` columns are views made at once; ``lazy`` ones (text) are made at the first use. What a column becomes:

    - number: array [rows]; where a row of the batch is null, ``numpy.ma.MaskedArray``
    - tensor: array [rows, *shape]; a constant column is one row broadcast with stride 0, and read-only
    - text: object array [rows] of str, None where null; ``pyarrow.LargeStringArray`` with ``strings="arrow"``
    - list: Ragged; struct: RaggedStruct
    """

    def __init__(self, layout: bytes, strings: str = "numpy") -> None:
        lay = json.loads(layout)
        self.rows: int = lay["rows"]
        self.names: tuple[str, ...] = tuple(c["name"] for c in lay["columns"])
        self._arrow = strings == "arrow"
        # Most columns are plain arrays: these need no call of their own a batch.
        self._plain: list[tuple[str, tuple[int, ...], np.dtype[Any], int]] = []
        self._eager: list[tuple[str, Callable[[Base], Any]]] = []
        self._lazy: list[tuple[str, Callable[[Base], Any]]] = []
        for c in lay["columns"]:
            self._column(c)

    def build(self, base: Base) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
        """The columns on the memory ``base``, and those still to be made."""
        values: dict[str, Any] = {name: _ndarray(shape, dtype, base, off) for name, shape, dtype, off in self._plain}
        for name, make in self._eager:
            values[name] = make(base)
        lazy: dict[str, Callable[[], Any]] = {}
        for name, make in self._lazy:
            lazy[name] = _Bound(make, base)
        return values, lazy

    def _column(self, c: dict[str, Any]) -> None:
        name = c["name"]
        if c["kind"] in ("scalar", "tensor") and c["dtype"] != "string":
            dtype = bfloat16() if c.get("format") == "bfloat16" else numpy_dtype(c["dtype"])
            assert dtype is not None
            shape = (c["rows"], *(c["shape"] or ()))
            off = c["values"]["off"]
            if not c["constant"] and not c["valid"]["len"]:
                self._plain.append((name, shape, dtype, off))
            else:
                self._eager.append((name, _numbers(c, shape, dtype, off)))
        elif c["kind"] == "scalar":
            self._lazy.append((name, _text(c, self._arrow)))
        elif c["kind"] == "list":
            self._eager.append((name, _ragged(c)))
        else:
            self._eager.append((name, _struct(c)))


class _Bound:
    """A column that is not made yet; it keeps the memory of its batch."""

    __slots__ = ("_base", "_make")

    def __init__(self, make: Callable[[Base], Any], base: Base) -> None:
        self._make, self._base = make, base

    def __call__(self) -> Any:
        return self._make(self._base)


def _valid(c: dict[str, Any], base: Base) -> Array | None:
    """bool [rows], or None where no row of the batch is null."""
    span = c["valid"]
    if not span["len"]:
        return None
    valid: Array = _ndarray((c["rows"],), BOOL, base, span["off"])
    return None if valid.all() else valid


def _numbers(c: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any], off: int) -> Callable[[Base], Any]:
    strides: tuple[int, ...] | None = None
    if c["constant"]:
        inner = np.empty(shape[1:], dtype).strides if 0 not in shape[1:] else (0,) * len(shape[1:])
        strides = (0, *inner)

    def make(base: Base) -> Any:
        a: Array = _ndarray(shape, dtype, base, off, strides)
        if strides is not None:
            a.flags.writeable = False
        valid = _valid(c, base)
        return a if valid is None else np.ma.MaskedArray(a, mask=~valid)

    return make


def _offsets(c: dict[str, Any], base: Base) -> npt.NDArray[np.int64]:
    return _ndarray((c["rows"] + 1,), INT64, base, c["offsets"]["off"])


def _bytes(c: dict[str, Any], base: Base) -> Base:
    span = c["values"]
    return base[span["off"] : span["off"] + span["len"]]


def _text(c: dict[str, Any], arrow: bool) -> Callable[[Base], Any]:
    def make(base: Base) -> Any:
        values, offsets, valid = _bytes(c, base), _offsets(c, base), _valid(c, base)
        rows = c["rows"]
        if c["constant"]:
            # One text stands for all rows.
            word = decode_text(values, _ndarray((2,), INT64, base, c["offsets"]["off"]))[0]
            out = np.full(rows, word, dtype=object)
        elif arrow:
            return _arrow_text(values, offsets, valid)
        else:
            out = _objects(decode_text(values, offsets))
        if valid is not None:
            out[~valid] = None
        return out

    return make


def _ragged(c: dict[str, Any]) -> Callable[[Base], Ragged]:
    dtype = numpy_dtype(c["dtype"])
    assert dtype is not None

    def make(base: Base) -> Ragged:
        offsets, raw = _offsets(c, base), _bytes(c, base)
        if c["dtype"] != "string":
            return Ragged(raw.view(dtype), offsets, _valid(c, base))
        ends = _ndarray((int(offsets[-1]) + 1,), INT64, base, c["str_offsets"]["off"])
        return Ragged(lambda: _objects(decode_text(raw, ends)), offsets, _valid(c, base))

    return make


def _struct(c: dict[str, Any]) -> Callable[[Base], RaggedStruct]:
    makers = [(m["name"], _ragged(m)) for m in c["members"]]

    def make(base: Base) -> RaggedStruct:
        members = {name: mk(base) for name, mk in makers}
        offsets = next(iter(members.values())).offsets
        for m in members.values():
            m.offsets = offsets
        return RaggedStruct(members, offsets, _valid(c, base))

    return make
