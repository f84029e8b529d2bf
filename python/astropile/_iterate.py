"""Streams of batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _forks
from ._batch import Batch
from ._errors import AstropileError, FeedDiedError, need
from ._protocol import END, STREAM
from ._session import Reply, Session
from ._state import moved, place

if TYPE_CHECKING:
    from ._dataset import Dataset


class Batches:
    """The batches of an epoch, or of several, as ``Dataset.batches`` makes it. Each ``iter()`` starts it anew.

    ``state_dict()`` says where the loop that was started last stands: after the batch it was given last. It is the same on
    every rank, and small enough to go into any checkpoint. ``load_state_dict()`` makes the next ``iter()`` go on there, on
    another number of ranks, with another batch size, on another machine.
    """

    def __init__(self, dataset: Dataset, ask: dict[str, Any], progress: bool) -> None:
        self._dataset = dataset
        self._ask = ask
        self._progress = progress
        self._running: BatchIterator | None = None
        self._resume: dict[str, Any] | None = None

    def __len__(self) -> int:
        """The number of batches. Raises TypeError where there is no end."""
        if self._ask["epochs"] == 0 or self._dataset._epoch_rows >= 1 << 55:
            raise TypeError("this loop has no end")
        epochs = int(self._ask["epochs"])
        return self._steps(int(self._ask["position"])) + (epochs - 1) * self._steps(0)

    def _steps(self, position: int) -> int:
        rows: int = max(0, self._dataset._epoch_rows - position)
        step = int(self._ask["batch"]) * int(self._ask["world"])
        return rows // step if self._ask["drop_last"] else -(-rows // step)

    def __iter__(self) -> BatchIterator:
        ask = dict(self._ask)
        if self._resume is not None:
            resume, self._resume = self._resume, None
            ask["state"] = resume
            ask["epoch"], ask["position"] = place(resume)
        self._running = BatchIterator(self._dataset, ask, self._progress)
        return self._running

    def state_dict(self) -> dict[str, Any]:
        """Where the loop that was started last stands."""
        if self._resume is not None:
            return dict(self._resume)
        if self._running is not None:
            return self._running.state_dict()
        return self._dataset._state(self._ask)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state with the next ``iter()``.

        The release of the state is opened, should it be another. Raises StateError where selection, seed, shuffle or mix
        differ, or the state is damaged: it says what.
        """
        self._dataset._reopen(state)
        epoch, position = place(state)
        ask = {**self._ask, "state": dict(state), "epoch": epoch, "position": position}
        self._resume = self._dataset._state(ask)  # which checks it


class BatchIterator(Iterator[Batch]):
    """A running stream. It ends when it is closed, dropped or used up; threads may share it."""

    def __init__(self, dataset: Dataset, ask: dict[str, Any], progress: bool) -> None:
        self._session: Session | None = None
        self._bar: Any = None
        self._over = False
        self._dataset = dataset
        self._ask = dict(ask)
        self._end = ask["epoch"] + ask["epochs"] if ask["epochs"] else None
        self._state: dict[str, Any] | None = None
        self._lock = threading.Lock()
        if progress:
            try:
                from tqdm.auto import tqdm
            except ImportError as e:
                raise need("tqdm", "progress", "progress=True") from e
            rows = None if self._end is None else dataset._epoch_rows * ask["epochs"]
            self._bar = tqdm(total=rows, initial=ask["position"], unit="row", unit_scale=True)
        _forks.register(self)
        try:
            self._begin()
        except FeedDiedError:
            self._session = None  # the first batch starts the feed again

    def _begin(self) -> None:
        """Starts the stream where it stands; the feed reads ahead from now on."""
        if self._end is not None:
            self._ask["epochs"] = self._end - self._ask["epoch"]
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
        before = self._ask["position"] if got.epoch == self._ask["epoch"] else 0
        self._stand(got.epoch, got.position)
        if self._bar is not None:
            self._bar.update(got.position - before)
        if got.last and self._end is not None and got.epoch + 1 >= self._end:
            # The end is known: a feed that dies after its last batch need not be started again.
            self._finish()
        return got

    def _stand(self, epoch: int, position: int) -> None:
        self._ask["epoch"], self._ask["position"] = epoch, position
        if "state" in self._ask:
            self._ask["state"] = moved(self._ask["state"], epoch, position)

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands: after the batch that was given last."""
        if self._state is None:
            self._state = self._dataset._state(self._ask)
        return moved(self._state, self._ask["epoch"], self._ask["position"])

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
