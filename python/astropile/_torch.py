"""Datasets for torch: batches as an IterableDataset with checkpoints, rows as a map-style Dataset."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np

from ._batch import Batch
from ._errors import StateError, need
from ._iterate import Batches
from ._ragged import Ragged, RaggedStruct
from ._ranks import find_rank
from ._state import moved, place

try:
    import torch
    from torch.utils.data import Dataset as _MapStyle
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError as e:
    raise need("torch", "torch", "Dataset.torch()") from e

if TYPE_CHECKING:
    from ._dataset import Dataset

# Workers of a DataLoader that an epoch counter tells apart.
MAX_WORKERS = 512


class TorchBatch:
    """Columns of some rows by name, as tensors [rows, ...], each made when it is first asked for.

    At ``num_workers=0`` tensors are views of the batch's memory, which is filled anew only when neither the batch nor any
    of them is left. A ragged column is a dict of ``values`` and ``offsets`` (int64 [rows + 1]), a struct a dict of its
    members' values and their ``offsets``, text a list of str. ``mask`` holds, for columns with nulls in this batch, where a
    value stands; ``valid`` is None, or False where a row only fills the batch up. ``state`` is the checkpoint after this
    batch. It is used like a dict, but is no ``collections.abc.Mapping``: DataLoader would walk through every value of one.
    """

    valid: torch.Tensor | None
    source: torch.Tensor | None
    epoch: int
    position: int
    rows: int
    state: dict[str, Any]

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns  # as arrays
        self._made: dict[str, Any] = dict.fromkeys(columns)
        self._mask: dict[str, torch.Tensor] | None = None

    def __getitem__(self, name: str) -> Any:
        made = self._made[name]
        if made is None:
            made = self._made[name] = _column(self._columns[name])
        return made

    def __setitem__(self, name: str, value: Any) -> None:
        self._made[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __repr__(self) -> str:
        return f"TorchBatch({self.rows} rows: {', '.join(self._made)})"

    def get(self, name: str, default: Any = None) -> Any:
        """A column, or the default where there is none of that name."""
        return self[name] if name in self._made else default

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
        return self._made.keys()

    def values(self) -> ValuesView[Any]:
        """The columns."""
        return self._all().values()

    def items(self) -> ItemsView[str, Any]:
        """Names and columns."""
        return self._all().items()

    def _all(self) -> dict[str, Any]:
        for name in self._made:
            self[name]
        return self._made

    @property
    def mask(self) -> dict[str, torch.Tensor]:
        """Bool [rows] by name, for columns with nulls in this batch: True where a value stands."""
        if self._mask is None:
            self._mask = {
                name: torch.from_numpy(~np.ma.getmaskarray(v))
                for name, v in self._columns.items()
                if isinstance(v, np.ma.MaskedArray)
            }
        return self._mask

    def to(self, device: Any, non_blocking: bool = False) -> TorchBatch:
        """A copy on a device; text stays. The batch's own memory is free for the next one once it is dropped.

        A copy to a GPU that does not block goes through memory that torch has pinned and watches: the GPU may read it after
        this batch is gone.
        """
        device = torch.device(device)

        def move(t: torch.Tensor) -> torch.Tensor:
            if non_blocking and device.type == "cuda" and t.device.type == "cpu":
                return t.pin_memory().to(device, non_blocking=True)
            return t.to(device, copy=True)

        return self._each(move)

    def pin_memory(self) -> TorchBatch:
        """A copy in memory that torch has pinned, as ``DataLoader(pin_memory=True)`` asks for; text stays."""
        return self._each(torch.Tensor.pin_memory)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> TorchBatch:
        def walk(v: Any) -> Any:
            if isinstance(v, torch.Tensor):
                return change(v)
            return {k: walk(x) for k, x in v.items()} if isinstance(v, dict) else v

        out = TorchBatch({})
        out.__dict__.update({k: v if k == "state" else walk(v) for k, v in self.__getstate__().items()})
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": dict(self._all()), "_mask": self.mask, "_columns": {}}


def tensors(batch: Batch) -> TorchBatch:
    """The columns of a batch as tensors that share its memory."""
    out = TorchBatch(batch)
    out.valid = None if batch.valid is None else torch.from_numpy(batch.valid.copy())
    out.source = None if batch.source is None else torch.from_numpy(batch.source.astype(np.int64))
    out.epoch, out.position, out.rows = batch.epoch, batch.position, batch.rows
    return out


def _column(v: Any) -> Any:
    if isinstance(v, RaggedStruct):
        return {**{k: _column(v[k].values) for k in v}, "offsets": _tensor(v.offsets)}
    if isinstance(v, Ragged):
        return {"values": _column(v.values), "offsets": _tensor(v.offsets)}
    if not isinstance(v, np.ndarray):
        return v.to_pylist()
    return v.tolist() if v.dtype == object else _tensor(np.ma.getdata(v))


def _tensor(a: Any) -> torch.Tensor:
    # torch cannot mark a tensor read-only, and refuses strides of 0 in some operations.
    return torch.from_numpy(a if a.flags.writeable and 0 not in a.strides else a.copy())


class TorchBatches(IterableDataset):  # type: ignore[misc]
    """Batches for ``DataLoader(ds.torch(256), batch_size=None, num_workers=0)``, or for a loop of its own.

    Every ``iter()`` is the next epoch, also after an early break; ``set_epoch`` sets it. With workers, worker w of W takes
    every W-th step, so that a DataLoader gives the same batches in the same order whatever their number.
    ``state_dict``/``load_state_dict`` work at ``num_workers=0`` and with torchdata's StatefulDataLoader; with the workers of a
    plain DataLoader the state is that of the last batch, ``batch.state``.
    """

    def __init__(self, dataset: Dataset, options: dict[str, Any]) -> None:
        super().__init__()
        self._dataset = dataset
        self._options = options
        # Epochs begun, by number of workers and worker: workers are made anew each epoch, and see what their forerunners
        # wrote. [0, 0] is the epoch that these add to.
        self._begun = torch.zeros((MAX_WORKERS + 1, MAX_WORKERS), dtype=torch.int64).share_memory_()
        self._resume: dict[str, Any] | None = None
        self._ended = False  # this worker had no step left where its state was taken
        self._at: dict[str, Any] | None = None

    def _batches(self, **more: Any) -> Batches:
        return self._dataset.batches(**{**self._options, **more})

    def __len__(self) -> int:
        return len(self._batches())

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter()`` is this epoch, from its beginning."""
        if epoch < 0:
            raise ValueError(f"epoch={epoch}; epochs count from 0")
        self._begun.zero_()
        self._begun[0, 0] = epoch
        self._resume = None

    def _others(self, workers: int) -> int:
        """The epoch that the epochs begun by this number of workers add to."""
        if workers > MAX_WORKERS:
            raise ValueError(f"{workers} workers, at most {MAX_WORKERS}")
        most = self._begun[1:].amax(dim=1)  # of each number of workers
        return int(self._begun[0, 0]) + int(most.sum()) - int(most[workers - 1])

    def _next_epoch(self, worker: int, workers: int) -> int:
        epoch = self._others(workers) + int(self._begun[workers, worker])
        self._begun[workers, worker] += 1
        return epoch

    def _begin_at(self, worker: int, workers: int, epoch: int) -> None:
        self._begun[workers, worker] = epoch - self._others(workers)

    def __iter__(self) -> Iterator[TorchBatch]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        if self._ended:
            self._ended = False
            return
        epoch = self._next_epoch(worker, workers)
        batches = self._batches(epoch=epoch)
        ask = batches._ask
        ask["first"], ask["every"] = worker, workers
        resume = self._resume
        if resume is not None and place(resume)[0] == epoch:
            # A worker's own state is after its last step, and the others' steps follow before its next.
            own = resume.get("worker"), resume.get("workers")
            state = {k: v for k, v in resume.items() if k not in ("worker", "workers")}
            if own == (worker, workers):
                ask["first"] = workers - 1
            elif own[0] is not None:
                raise StateError(f"the state is of worker {own[0]} of {own[1]}; this is worker {worker} of {workers}")
            batches.load_state_dict(state)
        steps = iter(batches)
        template = steps.state_dict()

        def made(batch: Batch) -> TorchBatch:
            out = tensors(batch)
            out.state = self._at = moved(template, batch.epoch, batch.position)
            if workers > 1:
                self._at = {**out.state, "worker": worker, "workers": workers}
            return out

        try:
            # No name here refers to a batch that was given: its memory is free as soon as the caller drops it.
            yield from map(made, steps)
        finally:
            steps.close()

    def state_dict(self) -> dict[str, Any]:
        """Where the loop of this process stands: after the batch it was given last."""
        if self._at is not None:
            return dict(self._at)
        if self._resume is not None:
            return dict(self._resume)
        return self._batches(epoch=int(self._begun[0, 0])).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next ``iter()`` goes on from a state; a state at the end of an epoch begins the next.

        Raises StateError, saying what differs, for a state of another selection, seed, shuffle or mix.
        """
        plain = {k: v for k, v in state.items() if k not in ("worker", "workers")}
        batches = self._batches()
        batches.load_state_dict(plain)
        epoch, position = place(plain)
        self._resume, self._ended, self._at = None, False, None
        info = get_worker_info()
        left = batches._steps(position)
        if info is not None and "worker" in state:
            # The loader asks each of its workers, which must not touch what the others were told.
            self._ended = left < int(state["workers"])
            self._begin_at(info.id, info.num_workers, epoch + self._ended)
            self._resume = None if self._ended else dict(state)
            return
        self.set_epoch(epoch if left else epoch + 1)
        if left:
            self._resume = dict(state)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_at": None}


class TorchRows(_MapStyle):  # type: ignore[misc]
    """Single rows by number, for samplers: ``DataLoader(ds.torch_rows(), batch_size=256, shuffle=True)``.

    ``__getitems__`` reads the rows of a batch at once; each is a dict of tensors, and text of str. Ragged columns are tensors
    of their own length, which a collate function of yours joins. Rows are in the loader's order, not in order 1: a state is
    the sampler's matter.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return self.__getitems__([i])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        batch = self._dataset[[int(i) for i in rows]]
        return [{k: _value(v) for k, v in batch.row(i).items()} for i in range(batch.rows)]


def _value(v: Any) -> Any:
    if isinstance(v, dict):
        return {k: _value(x) for k, x in v.items()}
    if isinstance(v, np.ndarray):
        return v.tolist() if v.dtype == object else _tensor(v)
    return v.item() if isinstance(v, np.generic) else v


def make_batches(dataset: Dataset, batch_size: int, **options: Any) -> TorchBatches:
    """``Dataset.torch``: options are those of ``Dataset.batches``, but rank is found out by itself."""
    for name in ("epoch", "epochs", "position"):
        if name in options:
            raise TypeError(f"{name}= is not given here: every iter() is an epoch; see set_epoch and load_state_dict")
    rank = options.pop("rank", "auto")
    at = find_rank(rank, options.pop("world_size", None))
    options.update(batch_size=batch_size, rank=at.rank, world_size=at.world_size)
    made = TorchBatches(dataset, options)
    made._batches()  # says now what does not fit
    return made


def make_rows(dataset: Dataset) -> TorchRows:
    """``Dataset.torch_rows``."""
    return TorchRows(dataset)
