"""Streams of batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _forks
from ._batch import Batch
from ._errors import AstropileError, FeedDiedError, need
from ._protocol import END, STREAM
from ._session import Reply, Session

if TYPE_CHECKING:
    from ._dataset import Dataset


class Batches:
    """The batches of one epoch, as ``Dataset.batches`` makes it. Each ``iter()`` starts it anew; ``len`` is their number."""

    def __init__(self, dataset: Dataset, ask: dict[str, Any], progress: bool) -> None:
        self._dataset = dataset
        self._ask = ask
        self._progress = progress

    def __len__(self) -> int:
        rows: int = max(0, len(self._dataset) - self._ask["position"])
        batch = int(self._ask["batch"])
        return rows // batch if self._ask["drop_last"] else -(-rows // batch)

    def __iter__(self) -> BatchIterator:
        return BatchIterator(self._dataset, self._ask, self._progress)


class BatchIterator(Iterator[Batch]):
    """A running stream. It ends when it is closed, dropped or used up; threads may share it."""

    def __init__(self, dataset: Dataset, ask: dict[str, Any], progress: bool) -> None:
        self._session: Session | None = None
        self._bar: Any = None
        self._over = False
        self._dataset = dataset
        self._ask = dict(ask)
        self._lock = threading.Lock()
        if progress:
            try:
                from tqdm.auto import tqdm
            except ImportError as e:
                raise need("tqdm", "progress", "progress=True") from e
            self._bar = tqdm(total=len(dataset), initial=ask["position"], unit="row", unit_scale=True)
        _forks.register(self)
        try:
            self._begin()
        except FeedDiedError:
            self._session = None  # the first batch starts the feed again

    def _begin(self) -> None:
        """Starts the stream where it stands; the feed reads ahead from now on."""
        self._session = self._dataset._stream_session(self._ask["batch"])
        self._seq = self._session.send(STREAM, self._ask)

    def __next__(self) -> Batch:
        with self._lock:
            if self._over:
                raise StopIteration
            try:
                self._dataset._check_open()  # what was read ahead is not given any more
                return self._next()
            except (StopIteration, AstropileError):
                self._finish()
                raise

    def _next(self) -> Batch:
        got: Batch | Reply | None = None
        while got is None:
            session = self._session
            try:
                if session is None or not session.alive:
                    self._begin()  # after an interruption
                    continue
                got = session.receive(self._seq)
            except FeedDiedError:
                self._session = None
                if session is None:
                    continue  # a session that was kept died with its feed
                self._dataset._feed_died(session.feed, f"epoch {self._ask['epoch']}, position {self._ask['position']}")
        if isinstance(got, Reply):
            if got.head.type == END:
                raise StopIteration
            raise AssertionError(f"message {got.head.type} in a stream")
        rows = got.position - self._ask["position"]
        self._ask["epoch"], self._ask["position"] = got.epoch, got.position
        if self._bar is not None:
            self._bar.update(rows)
        if got.last:
            # The end is known: a feed that dies after its last batch need not be started again.
            self._finish()
        return got

    def _finish(self) -> None:
        self._over = True
        session, self._session = self._session, None
        if session is not None:
            session.stop()
            self._dataset._keep(self._ask["batch"], session)
        if self._bar is not None:
            self._bar.close()

    def close(self) -> None:
        """Ends the stream; batches already given stay valid."""
        with self._lock:
            if not self._over:
                self._finish()

    def after_fork_in_child(self) -> None:
        """The child's stream goes on where it stood, through a feed of its own."""
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()
