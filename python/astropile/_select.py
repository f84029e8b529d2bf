"""Which rows of a dataset are wanted, and how columns are changed on the way, as the feed is told."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Region = Mapping[str, Any]


def finite(name: str, value: Any) -> float:
    """A float that JSON can carry: NaN and infinity are a ValueError that says which argument they were."""
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={value!r}; give a number") from None
    if not math.isfinite(out):
        raise ValueError(f"{name}={value!r}; give a finite number")
    return out


def cone(ra: float, dec: float, radius: float) -> Region:
    """The positions within ``radius`` degrees of (``ra``, ``dec``), in degrees, the rim included."""
    return {"cone": {"ra": finite("ra", ra), "dec": finite("dec", dec), "radius": finite("radius", radius)}}


def box(ra: tuple[float, float], dec: tuple[float, float]) -> Region:
    """The positions between two right ascensions, going east from the first, and two declinations, in degrees."""
    return {"box": {"ra": [finite("ra", x) for x in ra], "dec": [finite("dec", x) for x in dec]}}


def polygon(corners: Iterable[tuple[float, float]]) -> Region:
    """The positions inside corners (ra, dec), in degrees, joined by great circles. It has to fit into a hemisphere."""
    return {"polygon": [[finite("ra", a), finite("dec", d)] for a, d in corners]}


def healpix(order: int, pixels: Iterable[int]) -> Region:
    """The positions in HEALPix pixels (NESTED) of an order."""
    return {"healpix": {"order": operator.index(order), "pixels": [operator.index(p) for p in pixels]}}


def selection(
    *,
    where: str | None,
    region: Region | None,
    ids: Iterable[Any] | None,
    split: str | None,
    splits: Mapping[str, float] | None,
    sample: float | None,
    key: int,
    limit: int | None,
) -> str:
    """The selection as JSON."""
    out: dict[str, Any] = {}
    if where is not None:
        if not isinstance(where, str):
            raise TypeError(f"where={where!r}; give a text such as 'z < 0.5 and mag_r < 19'")
        out["where"] = where
    if region is not None:
        if not isinstance(region, Mapping):
            raise TypeError(f"region={region!r}; give astropile.cone(...), box(...), polygon(...) or healpix(...)")
        out["region"] = dict(region)
    if ids is not None:
        if isinstance(ids, (str, bytes)):
            raise TypeError(f"ids={ids!r}; give a list of ids")
        out["ids"] = [_id(i) for i in ids]
    if split is not None:
        out["split"] = str(split)
    if splits is not None:
        out["splits"] = [{"name": str(n), "fraction": finite(f"splits[{n!r}]", f)} for n, f in splits.items()]
    if sample is not None:
        out["sample"] = finite("sample", sample)
        if out["sample"] == 0:
            raise ValueError("sample=0 takes no row; leave it out to take all")
    if key:
        if not 0 <= key < 1 << 64:
            raise ValueError(f"key={key}; give 0 to 2**64 - 1")
        out["key"] = operator.index(key)
    if limit is not None:
        if operator.index(limit) < 1:
            raise ValueError(f"limit={limit}; give 1 or more")
        out["limit"] = operator.index(limit)
    return json.dumps(out, sort_keys=True)


def _id(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{value!r} is no id")
    return str(operator.index(value))


def columns_json(columns: Sequence[str] | Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """The columns as JSON objects, one each; None for all."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns={columns!r}; give a list of names, or a dict of new name to name")
    pairs = columns.items() if isinstance(columns, Mapping) else ((c, c) for c in columns)
    out = tuple(
        json.dumps({"as": str(a), **(dict(b) if isinstance(b, Mapping) else {"name": str(b)})}, sort_keys=True)
        for a, b in pairs
    )
    if not out:
        raise ValueError("columns is empty; leave it out to read all")
    return out


def column(
    name: str,
    *,
    bands: Sequence[int] | None = None,
    crop: int | Sequence[int] | None = None,
    subtract: float | Sequence[float] | None = None,
    divide: float | Sequence[float] | None = None,
    dtype: str | None = None,
) -> Mapping[str, Any]:
    """A tensor column that is changed while it is read: ``columns={"flux": astropile.column("image_array", crop=64)}``.

    In this order: ``bands`` chooses along the first axis; ``crop`` keeps the middle of the last axes (64 of the last two, or
    the lengths of as many as are given); then (value - ``subtract``) / ``divide``, each one number or one for each band
    that is kept, computed in float64; ``dtype`` is "float16", "bfloat16", "float32" or "float64" (by default the
    column's own, float32 where numbers are computed). bfloat16 is what ``ml_dtypes`` and torch call it, else its bits as
    uint16. What is not needed is not copied, nor read where the file allows.
    """
    out: dict[str, Any] = {"name": str(name)}
    if bands is not None:
        given: Any = bands
        if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
            raise TypeError(f"bands={bands!r}; give a list of positions along the first axis, such as [1]")
        out["bands"] = [operator.index(b) for b in bands]
    if crop is not None:
        out["crop"] = [operator.index(c) for c in crop] if isinstance(crop, Sequence) else [operator.index(crop)] * 2
    for key, value in (("subtract", subtract), ("divide", divide)):
        if value is not None:
            numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
            if numbers.ndim != 1 or not np.isfinite(numbers).all():
                raise ValueError(f"{key}={value!r}; give a number, or one for each band")
            out[key] = numbers.tolist()
    if dtype is not None:
        out["dtype"] = dtype if dtype == "bfloat16" else np.dtype(dtype).name
    return out
