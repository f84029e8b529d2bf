"""An open dataset."""

from __future__ import annotations

import collections
import json
import logging
import operator
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from . import _forks
from ._batch import Batch
from ._errors import DataError, FeedDiedError, FeedError, StateError
from ._iterate import Batches
from ._memmap import Memmap, PageTable
from ._process import Feed, Source, Spec, start_feed
from ._protocol import CHOSEN, MAP, READ, ROWS, SHARD_ROWS, SHARDS, STATE, STATE_IS, TABLE
from ._ranks import Rank, find_rank
from ._schema import Field, Release, Schema
from ._select import Region, columns_json, finite, selection
from ._session import Reply, Session

if TYPE_CHECKING:
    from ._torch import TorchBatches, TorchRows

log = logging.getLogger("astropile")

SHUFFLES: dict[bool | str, str] = {False: "off", True: "blocks", "blocks": "blocks", "rows": "rows"}


class Dataset:
    """One release of a dataset, open for reading: made by ``astropile.open``.

    ``len(ds)`` is the number of rows. ``ds[5]`` is one row as a dict; ``ds[[3, 1, 7]]``, ``ds[2:9]`` and ``ds[mask]`` are
    batches. All reading is done by a feed process, which starts with the dataset and ends with it, or with this
    process. A Dataset may be used after a fork, and pickles: each process starts a feed of its own, of the same
    release. Threads may share it.
    """

    def __init__(self, spec: Spec, strings: str = "numpy") -> None:
        self._strings = strings
        self._lock = threading.RLock()
        self._restarts = 0
        self._reader: Session | None = None
        # Finished streams leave their session, whose slots are warm, to the next one.
        self._idle: collections.deque[tuple[int, Session]] = collections.deque(maxlen=1)
        self._closed = False
        self._shards: list[int] | None = None
        self._feed: Feed | None = start_feed(spec)
        self._describe(spec, self._feed.about)
        _forks.register(self)

    def _describe(self, spec: Spec, about: dict[str, Any]) -> None:
        self._sources: list[dict[str, Any]] = about["sources"]
        self._spec = spec.pinned([(x["release"], x["id"]) for x in self._sources])
        self.root: str = about["root"]
        self.name: str = " + ".join(x["name"] for x in self._sources)
        self._rows: int = about["rows"]
        self._epoch_rows: int = about["epoch"]
        self.schema = Schema(tuple(Field.from_json(c) for c in about["columns"]))
        self.releases: tuple[Release, ...] = tuple(Release(**r) for r in about["releases"] or ())
        self.release: int = about["release"]
        self.release_id: str = about["id"]
        self.weights: tuple[int, ...] = tuple(about["weights"] or ())
        self.threads: int = about["threads"]
        self.memory: int = about["memory"]
        if about.get("hint"):
            log.warning("%s: %s", self.root, about["hint"])
        self._shards = None

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, i: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, i: slice | Sequence[int] | npt.NDArray[Any]) -> Batch: ...
    def __getitem__(self, i: Any) -> dict[str, Any] | Batch:
        if isinstance(i, slice):
            return self._read(np.arange(*i.indices(self._rows), dtype=np.int64))
        if isinstance(i, tuple):
            raise TypeError("one index chooses rows; a list chooses several: ds[[3, 1, 7]]")
        at = np.asarray(i)
        if at.dtype == np.bool_ and at.ndim == 1:
            if len(at) != self._rows:
                raise IndexError(f"a mask of {len(at)} for {self._rows} rows")
            return self._read(np.flatnonzero(at).astype(np.int64))
        if at.size == 0 and at.ndim == 1:
            return self._read(np.empty(0, np.int64))
        if at.dtype.kind not in "iu" or at.ndim > 1:
            raise TypeError(f"a row is asked for by number, slice, list of numbers or mask, not {type(i).__name__}")
        rows = at.astype(np.int64).reshape(-1)
        bad = (rows < -self._rows) | (rows >= self._rows)
        if bad.any():
            raise IndexError(f"row {int(rows[bad][0])} of {self._rows}")
        rows[rows < 0] += self._rows
        batch = self._read(rows)
        return batch.row(0) if at.ndim == 0 else batch

    def batches(
        self,
        batch_size: int,
        *,
        shuffle: bool | Literal["blocks", "rows"] = False,
        seed: int = 0,
        epoch: int = 0,
        position: int = 0,
        epochs: int | None = 1,
        drop_last: bool = False,
        rank: int | Literal["auto"] | None = None,
        world_size: int | None = None,
        progress: bool = False,
    ) -> Batches:
        """The rows of one epoch in batches of ``batch_size``; every ``iter()`` of the result gives the same.

        ``shuffle=True`` mixes blocks of about 1 MiB and rows inside windows ("blocks"); "rows" is uniform; both depend on
        ``seed`` and ``epoch`` alone. ``position`` skips the rows before it (``Batch.position`` says where a stream
        stands). ``epochs`` of them follow each other; None is endless. ``drop_last`` leaves out a last batch that is not full.

        ``rank`` of ``world_size`` takes its part of each step: ``batch_size`` rows, and the same number of batches as
        the others, for which the last batch of an epoch may be filled up (``Batch.valid``). ``rank="auto"`` takes both from
        torch.distributed, or the variables of torchrun, SLURM or MPI. ``progress`` shows a bar (needs tqdm).
        """
        batch_size = _whole("batch_size", batch_size)
        seed, epoch, position = _whole("seed", seed), _whole("epoch", epoch), _whole("position", position)
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}; give 1 or more")
        try:
            mode = SHUFFLES[shuffle]
        except (KeyError, TypeError):
            raise ValueError(f"shuffle={shuffle!r}; give True, False, 'blocks' or 'rows'") from None
        if not 0 <= position <= self._epoch_rows or epoch < 0 or not 0 <= seed < 1 << 64:
            raise ValueError(
                f"position={position} (0 to {self._epoch_rows}), epoch={epoch} (from 0), seed={seed} (0 to 2**64 - 1)"
            )
        at = find_rank(rank, world_size) if rank is not None or world_size is not None else Rank(0, 1)
        ask = {
            # One row more than there are: still too large for drop_last, and a number that any feed can hold.
            "batch": min(batch_size, self._epoch_rows + 1),
            "shuffle": mode,
            "seed": seed,
            "epoch": epoch,
            "position": position,
            "epochs": 0 if epochs is None else _positive("epochs", epochs),
            "drop_last": bool(drop_last),
            "rank": at.rank,
            "world": at.world_size,
        }
        return Batches(self, ask, progress)

    def torch(self, batch_size: int, **options: Any) -> TorchBatches:
        """The batches as a torch ``IterableDataset`` with checkpoints; see ``astropile._torch.TorchBatches``."""
        from ._torch import make_batches

        return make_batches(self, batch_size, **options)

    def torch_rows(self, **options: Any) -> TorchRows:
        """The rows as a map-style torch ``Dataset``, which reads a batch of rows at once; see ``TorchRows``."""
        from ._torch import make_rows

        return make_rows(self, **options)

    def memmap(self, column: str) -> Memmap:
        """The rows of a column as views of the shards' own pages.

        Raises NotMappedError where the values do not stand in the files as they do in memory (text, ragged columns,
        bool, compressed columns), and KeyError for a column that is not open.
        """
        return Memmap(self, column)

    def close(self) -> None:
        """Ends the feed. Arrays already given stay valid; what reads on, running streams too, gets a FeedError."""
        with self._lock:
            self._closed = True
            self._drop_feed()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dataset, (self._spec, self._strings))

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, release {self.release}, {self._rows} rows: {', '.join(self.schema)})"

    # What streams and maps use.

    def _stream_session(self, batch: int) -> Session:
        """A session for a stream: one left by an earlier stream of that batch size, or a new one."""
        feed = self._running()
        while self._idle:
            try:
                size, session = self._idle.pop()
            except IndexError:
                break
            if size == batch and session.alive and session.feed is feed:
                return session
            session.close()
        return self._session(feed)

    def _session(self, feed: Feed) -> Session:
        try:
            return Session(feed, self._strings)
        except FeedDiedError:
            self._feed_died(feed, "idle")
            return Session(self._running(), self._strings)

    def _keep(self, batch: int, session: Session) -> None:
        """Takes a session whose stream is over. Called by finalizers too: no lock."""
        if self._closed:
            session.close()
        elif session.alive:
            self._idle.append((batch, session))

    def _feed_died(self, feed: Feed, where: str) -> None:
        """Starts the feed again, once; a second death is an error."""
        with self._lock:
            self._check_open()
            if self._feed is not feed:
                return  # another session saw it first
            words = feed.last_words()
            self._drop_feed()
            if self._restarts:
                raise FeedError(f"the feed died again ({where}): {words}")
            self._restarts += 1
            log.warning("the feed died (%s); starting it again at %s", words, where)
            self._feed = start_feed(self._spec)

    def _check_open(self) -> None:
        if self._closed:
            raise FeedError("the dataset is closed; open it again to read on")

    def _running(self) -> Feed:
        with self._lock:
            self._check_open()
            if self._feed is None:
                self._feed = start_feed(self._spec)
            return self._feed

    def _drop_feed(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        while self._idle:
            self._idle.pop()[1].close()
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _ask(self, kind: int, js: dict[str, Any] | None = None, plain: bytes = b"") -> Batch | Reply:
        """One request and its answer."""
        with self._lock:
            while True:
                feed = self._running()
                try:
                    if self._reader is None or not self._reader.alive:
                        self._reader = Session(feed, self._strings)
                    return self._reader.receive(self._reader.send(kind, js, plain))
                except FeedDiedError:
                    self._feed_died(feed, "a single read")

    def _read(self, rows: npt.NDArray[np.int64]) -> Batch:
        got = self._ask(READ, plain=rows.astype("<i8").tobytes())
        if not isinstance(got, Batch):
            raise FeedError(f"message {got.head.type} instead of rows")
        return got

    def _shard_rows(self) -> list[int]:
        if self._shards is None:
            got = self._ask(SHARDS)
            if not isinstance(got, Reply) or got.head.type != SHARD_ROWS:
                raise FeedError("no shards in the feed's answer")
            self._shards = np.frombuffer(got.body, "<i8").tolist()
        return self._shards

    def _chosen(self, shard: int) -> npt.NDArray[np.int64] | None:
        """The selected rows of a shard, or None where all are."""
        if self._spec.sources[0].selection == "{}":
            return None
        got = self._ask(CHOSEN, {"shard": shard})
        if not isinstance(got, Reply) or got.head.type != ROWS:
            raise FeedError("no rows in the feed's answer")
        return np.frombuffer(got.body, "<i8") if got.body else None

    def _state(self, ask: dict[str, Any]) -> dict[str, Any]:
        """The checkpoint of a stream where ``ask`` says that it stands."""
        got = self._ask(STATE, ask)
        if not isinstance(got, Reply) or got.head.type != STATE_IS:
            raise FeedError("no state in the feed's answer")
        return dict(json.loads(got.body))

    def _reopen(self, state: Mapping[str, Any]) -> None:
        """Makes the release of a state the one that is open: a state pins its own."""
        try:
            wanted = [(int(x["release"]), str(x["release_id"])) for x in state.get("sources", [state])]
        except (KeyError, TypeError, ValueError) as e:
            raise StateError("this is no state of a stream: it names no release") from e
        with self._lock:
            if wanted == [(s.release, s.release_id) for s in self._spec.sources]:
                return
            if len(wanted) != len(self._spec.sources):
                raise StateError(f"the state is of {len(wanted)} datasets, this is of {len(self._spec.sources)}")
            spec = self._spec.pinned(wanted)
            try:
                feed = start_feed(spec)
            except DataError as e:
                raise StateError(f"the state is of another release or dataset: {e}") from e
            self._drop_feed()
            self._feed = feed
            self._describe(spec, feed.about)

    def _page_table(self, column: str, shard: int) -> PageTable:
        """Where the values of a column stand in a shard's file."""
        got = self._ask(MAP, {"column": column, "shard": shard})
        if not isinstance(got, Reply) or got.head.type != TABLE:
            raise FeedError("no page table in the feed's answer")
        return PageTable.parse(got.body, got.head.json)

    def after_fork_in_child(self) -> None:
        """The feed is the parent's: a child starts its own when it needs one."""
        self._lock = threading.RLock()
        self._feed = None
        self._reader = None
        self._idle = collections.deque(maxlen=1)
        self._restarts = 0


def open_dataset(
    root: str | os.PathLike[str],
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    release: int | None = None,
    where: str | None = None,
    region: Region | None = None,
    ids: Iterable[Any] | None = None,
    split: str | None = None,
    splits: Mapping[str, float] | None = None,
    sample: float | None = None,
    key: int = 0,
    limit: int | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    strings: Literal["numpy", "arrow"] = "numpy",
) -> Dataset:
    """Opens the dataset in the folder ``root``.

    ``columns`` names the columns to read, in order, or maps new names to stored ones (``{"flux": "image_array"}``), or to
    ``astropile.column(...)``, which changes them on the way; all by default. ``release`` opens an older state.

    Rows are chosen by all of these that are given: ``where`` is a predicate over scalar columns ("z < 0.5 and mag_r < 19";
    docs/python.md), ``region`` is ``astropile.cone``, ``box``, ``polygon`` or ``healpix``, ``ids`` lists ids (any that is
    missing is an error that names it), ``split`` is a published split, or without a column ``split`` a share of ``splits``
    (train 0.8, val 0.1, test 0.1) drawn for each id by ``key``; ``sample`` keeps a share of the rows, drawn likewise;
    ``limit`` the first so many of what is left.

    ``threads`` (for reading) and ``memory`` (bytes, or a text such as "512MiB"; for slots and decoding) have defaults that
    fit cgroup, CPU affinity and the ranks on this machine. ``strings="arrow"`` gives text as pyarrow arrays.

    Raises MissingError (no dataset there), DataError (no such column or release, damaged), QueryError, MissingIdsError,
    MemoryBudgetError, BinaryNotFoundError, FeedError.
    """
    if strings not in ("numpy", "arrow"):
        raise ValueError(f"strings={strings!r}; give 'numpy' or 'arrow'")
    if strings == "arrow":
        try:
            import pyarrow  # noqa: F401
        except ImportError as e:
            from ._errors import need

            raise need("pyarrow", "arrow", 'strings="arrow"') from e
    if release is not None and (release := _whole("release", release)) < 1:
        raise DataError(f"release={release}; releases count from 1")
    source = Source(
        root=os.fspath(root),
        columns=columns_json(columns),
        release=release or 0,
        selection=selection(
            where=where, region=region, ids=ids, split=split, splits=splits, sample=sample, key=key, limit=limit
        ),
    )
    return Dataset(_spec((source,), threads, memory), strings)


def _spec(sources: tuple[Source, ...], threads: int | None, memory: int | str | None, **more: Any) -> Spec:
    return Spec(
        sources=sources,
        threads=_positive("threads", threads),
        memory=parse_bytes(memory),
        slots=0,
        transport=os.environ.get("ASTROPILE_TRANSPORT", "auto"),
        **more,
    )


def mix(
    datasets: Mapping[Dataset, float] | Sequence[tuple[Dataset, float]],
    *,
    stop: Literal["never", "first"] = "never",
    threads: int | None = None,
    memory: int | str | None = None,
) -> Dataset:
    """Several datasets as one, whose batches hold their rows in proportion to the shares.

    The datasets have the same columns, by the names they are opened under. Shares are rounded to whole weights, kept in
    ``.weights``; whole shares are taken as they are. A source that ends begins its next epoch, for ever (``stop="never"``);
    with ``stop="first"`` an epoch ends before any source would repeat. ``Batch.source`` says where each row is from.
    """
    pairs: list[Any] = list(datasets.items() if isinstance(datasets, Mapping) else datasets)
    if any(isinstance(p, Dataset) or len(p) != 2 for p in pairs):
        raise TypeError("mix takes shares too: {a: 0.7, b: 0.3}, or [(a, 0.7), (b, 0.3)]")
    if stop not in ("never", "first"):
        raise ValueError(f"stop={stop!r}; give 'never' or 'first'")
    if not pairs:
        raise ValueError("a mix of no datasets")
    sources = tuple(replace(_one(d, "mix"), share=_share(share)) for d, share in pairs)
    mixed = Dataset(_spec(sources, threads, memory, end=stop), pairs[0][0]._strings)
    log.info("mix of %s with weights %s", mixed.name, mixed.weights)
    return mixed


def match(
    a: Dataset,
    b: Dataset,
    radius: float = 1.0,
    *,
    threads: int | None = None,
    memory: int | str | None = None,
) -> Dataset:
    """The objects of ``a`` that have one of ``b`` within ``radius`` arcsec, each with the nearest: one record with the
    columns of both, which need different names (``columns={"desi_z": "z"}``). Correct at pixel borders and at the poles.
    """
    radius = finite("radius", radius)
    if not 0 < radius <= 180 * 3600:
        raise ValueError(f"radius={radius}; give arcseconds, more than 0 and at most 648000")
    sources = (_one(a, "match"), _one(b, "match"))
    return Dataset(_spec(sources, threads, memory, radius=float(radius)), a._strings)


def _share(value: Any) -> float:
    share = finite("share", value)
    if share <= 0:
        raise ValueError(f"share={value!r}; give a positive number, or leave the dataset out")
    return share


def _one(d: Dataset, what: str) -> Source:
    if not isinstance(d, Dataset):
        raise TypeError(f"{what} takes open datasets, not {type(d).__name__}")
    if len(d._spec.sources) != 1:
        raise TypeError(f"{what} takes datasets, and {d!r} is made of several")
    return d._spec.sources[0]


def _whole(name: str, value: Any) -> int:
    """A whole number from an int or what stands for one, as numpy's do. A bool or a float is a mistake."""
    if not isinstance(value, (bool, np.bool_)):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name}={value!r}; give a whole number")


def _positive(name: str, value: int | None) -> int:
    if value is None:
        return 0
    value = _whole(name, value)
    if value < 1:
        raise ValueError(f"{name}={value}; give 1 or more")
    return value


_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


def parse_bytes(value: int | str | None) -> int:
    """A number of bytes from 268435456, "256MiB" or "0.25 GiB"; 0 for None."""
    if value is None:
        return 0
    if isinstance(value, str):
        text = value.strip()
        digits = text.rstrip("BbKkMmGgTtIi ")
        unit = text[len(digits) :].strip().upper()
        try:
            n = int(float(digits) * _UNITS[unit])
        except (ValueError, KeyError, OverflowError):
            raise ValueError(f"memory={value!r}; give bytes, or a text such as '512MiB'") from None
    else:
        n = _whole("memory", value)
    if n < 1:
        raise ValueError(f"memory={value!r}; give more than 0 bytes")
    return n
