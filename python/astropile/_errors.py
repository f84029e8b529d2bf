"""What can go wrong, as exceptions. Each is also the built-in that a caller would expect."""

from __future__ import annotations


class AstropileError(Exception):
    """Base of all errors of this package."""


class BinaryNotFoundError(AstropileError, FileNotFoundError):
    """The ``astropile`` program, which does the reading, was not found."""


class FeedError(AstropileError, RuntimeError):
    """The feed process could not be started, or died more than once."""


class FeedKilledError(FeedError):
    """The feed was killed by a signal before it had opened the dataset."""


class MissingError(AstropileError, FileNotFoundError):
    """The dataset, or a file of it, is not there."""


class DataError(AstropileError, ValueError):
    """The dataset cannot be read as asked: an unknown column or release, or damaged bytes."""


class QueryError(DataError):
    """A selection, mix or match that does not make sense: it says what, and where in a predicate."""


class MissingIdsError(DataError, KeyError):
    """Ids were asked for that the release does not have; they are named."""

    __str__ = Exception.__str__


class StateError(DataError):
    """A checkpoint that is damaged, or of another release, selection or seed: it says what differs."""


class MemoryBudgetError(AstropileError, MemoryError):
    """A batch does not fit ``memory=``."""


class NotMappedError(AstropileError, TypeError):
    """The column cannot be mapped: its values do not stand in the file as they are in memory."""


class FeedDiedError(AstropileError):
    """The other end of the socket is gone. Inside the package only: callers restart, or raise FeedError."""


def from_wire(kind: str, text: str) -> AstropileError:
    """The exception for an error that the feed reports."""
    kinds: dict[str, type[AstropileError]] = {
        "memory": MemoryBudgetError,
        "ids": MissingIdsError,
        "missing": MissingError,
        "protocol": FeedError,
        "query": QueryError,
        "state": StateError,
        "unmapped": NotMappedError,
    }
    return kinds.get(kind, DataError)(text)


def need(module: str, extra: str, why: str) -> ImportError:
    """The error for an optional package that is not installed."""
    return ImportError(f"{why} needs {module}; install it with: pip install 'astropile[{extra}]'")
