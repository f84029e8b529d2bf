"""Batches of astronomical records, as numpy views, from a dataset folder.

>>> ds = astropile.open("ROOT", columns=["image_array", "z"])
>>> for batch in ds.batches(256, shuffle=True, seed=0):
...     train(batch["image_array"], batch["z"])
"""

from ._batch import Batch
from ._dataset import Dataset, match, mix
from ._dataset import open_dataset as open  # noqa: A004
from ._errors import (
    AstropileError,
    BinaryNotFoundError,
    DataError,
    FeedError,
    MemoryBudgetError,
    MissingError,
    MissingIdsError,
    NotMappedError,
    QueryError,
    StateError,
)
from ._iterate import Batches, BatchIterator
from ._memmap import Memmap
from ._ragged import Ragged, RaggedStruct
from ._schema import Field, Release, Schema
from ._select import box, column, cone, healpix, polygon

__version__ = "0.1.0"

__all__ = [
    "AstropileError",
    "Batch",
    "BatchIterator",
    "Batches",
    "BinaryNotFoundError",
    "DataError",
    "Dataset",
    "FeedError",
    "Field",
    "Memmap",
    "MemoryBudgetError",
    "MissingError",
    "MissingIdsError",
    "NotMappedError",
    "QueryError",
    "Ragged",
    "RaggedStruct",
    "Release",
    "Schema",
    "StateError",
    "box",
    "column",
    "cone",
    "healpix",
    "match",
    "mix",
    "open",
    "polygon",
]
