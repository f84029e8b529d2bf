"""A slot is filled again only when nothing made from its arrays is left; keeping everything never blocks or changes."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import astropile

Array = np.ndarray


class Sub(np.ndarray):
    """A subclass, as users have them."""


FORMS: dict[str, Callable[[Array], Any]] = {
    "slice": lambda a: a[3:9],
    "element view": lambda a: a[4, 1, 2:3],
    "view of another dtype": lambda a: a.view(np.int32)[2],
    "reshape": lambda a: a.reshape(len(a), -1)[:, 5],
    "transpose": lambda a: a.T,
    "memoryview": lambda a: memoryview(a)[3:5],
    "asarray": lambda a: np.asarray(a),
    "dlpack": lambda a: np.from_dlpack(a),
    "flat": lambda a: a.flat,
    "broadcast": lambda a: np.broadcast_to(a[:1], (3, *a.shape[1:])),
    "as_strided": lambda a: np.lib.stride_tricks.as_strided(a, (3,), (4,)),
    "recarray": lambda a: a.view(np.recarray),
    "subclass, then base": lambda a: np.asarray(a.view(Sub)[3:9]),
}


def lent(ds: astropile.Dataset) -> int:
    """How many slots of the dataset's streams are with the caller."""
    gc.collect()
    return sum(len(s._loans.lent) for _, s in ds._idle)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_made_from_a_column_keeps_its_slot(made_up: Any, form: str) -> None:
    ds = made_up(rows=1000, side=32, columns=["image"])
    batch = next(iter(ds.batches(1000)))
    made = FORMS[form](batch["image"])
    del batch
    assert lent(ds) == 1
    before = np.array(memoryview(made) if not isinstance(made, np.flatiter) else made[:100], copy=True)
    for _ in range(3):
        for b in ds.batches(1000, shuffle=True, seed=5):
            b["image"][:] = -1  # whatever the stream does to its slots
            del b
    after = np.array(memoryview(made) if not isinstance(made, np.flatiter) else made[:100], copy=True)
    assert np.array_equal(before, after)
    del made, before, after
    assert lent(ds) == 0


def test_lazy_text_and_ragged_values_keep_their_slot(made_up: Any) -> None:
    ds = made_up(rows=3000, side=16)
    first = next(iter(ds.batches(1000)))
    words, curve = first["words"], first["lightcurve"]["time"][999:]
    text = first
    for _ in range(3):
        for b in ds.batches(1000, shuffle=True):
            del b
    assert words[4].tolist() == ["y", "g", "r", "i"]
    assert curve[0].tolist() == [999 + k / 8 for k in range(4)]
    assert text["id"][7] == "obj-7-é"


def test_keeping_every_batch_gives_copies_and_never_changes_one(made_up: Any) -> None:
    ds = made_up(rows=20_000, side=16, columns=["row", "image"])
    kept = list(ds.batches(500))
    assert len(kept) == 40
    assert ds._idle[0][1].copies >= 24
    for k, batch in enumerate(kept):
        assert batch["row"].tolist() == list(range(500 * k, 500 * (k + 1)))
        assert np.array_equal(batch["image"][:, 0, 0, 0], batch["row"].astype(np.float32))
    del kept, batch
    assert lent(ds) == 0
    copies = ds._idle[0][1].copies
    for batch in ds.batches(500):
        assert batch["row"][0] == batch.position - 500
    assert ds._idle[0][1].copies == copies  # with the batches gone, slots serve again without a copy


def test_arrays_dropped_in_other_threads_give_their_slots_back(made_up: Any) -> None:
    ds = made_up(rows=20_000, side=16, columns=["row", "image"])
    wrong: list[int] = []

    def use(batch: astropile.Batch) -> None:
        rows = batch["row"].copy()
        if not np.array_equal(batch["image"][:, 0, 0, 0], rows.astype(np.float32)):
            wrong.append(int(rows[0]))

    for _ in range(3):
        threads = []
        for batch in ds.batches(500, shuffle=True):
            threads.append(threading.Thread(target=use, args=(batch,)))
            threads[-1].start()
        for t in threads:
            t.join()
    del batch, threads, t
    assert wrong == []
    assert lent(ds) == 0


def test_a_forked_child_keeps_what_it_saw_and_returns_nothing(made_up: Any) -> None:
    ds = made_up(rows=4000, side=16, columns=["row", "image"])
    stream = iter(ds.batches(500))
    batch = next(stream)
    go_r, go_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(go_w)
            os.read(go_r, 1)  # until the parent has streamed on
            same = np.array_equal(batch["image"][:, 0, 0, 0], np.arange(500, dtype=np.float32))
            del batch
            gc.collect()
            own = ds[[7]]["row"].tolist() == [7]  # through a feed of its own
            total = sum(b.rows for b in ds.batches(1000))
            code = 0 if same and own and total == 4000 else 2
        finally:
            os._exit(code)
    os.close(go_r)
    del batch
    for _ in range(3):
        for b in ds.batches(500, shuffle=True, seed=1):
            del b
    os.close(go_w)
    assert os.waitpid(pid, 0)[1] == 0
    assert [next(stream)["row"][0] for _ in range(3)] == [500, 1000, 1500]


def test_slots_grow_with_ragged_batches(made_up: Any) -> None:
    ds = made_up(rows=60_000, columns=["row", "lightcurve", "words"])
    for size in (10, 20_000, 60_000):
        for batch in ds.batches(size):
            r = int(batch["row"][-1])
            assert batch["lightcurve"]["time"][-1].tolist() == [r + k / 8 for k in range(r % 5)]


@pytest.mark.torch
def test_torch_tensors_keep_their_slot(made_up: Any) -> None:
    torch = pytest.importorskip("torch")
    ds = made_up(rows=1000, side=32)
    batch = next(iter(ds.batches(1000)))
    a = torch.from_numpy(batch["image"])[3:5].reshape(2, -1)
    b = batch.torch()["image"][7, 0]
    del batch
    assert lent(ds) == 1
    wanted = a.clone(), b.clone()
    for _ in range(3):
        for other in ds.batches(1000, shuffle=True):
            other["image"][:] = -1
            del other
    assert torch.equal(a, wanted[0])
    assert torch.equal(b, wanted[1])
    a.add_(1)  # in place, on memory that is mapped read and write
    assert torch.equal(a, wanted[0] + 1)
    del a
    assert lent(ds) == 1
    del b
    assert lent(ds) == 0


@pytest.mark.torch
def test_batches_as_torch_tensors(made_up: Any) -> None:
    torch = pytest.importorskip("torch")
    tensors = made_up(rows=20)[0:20].torch()
    assert set(tensors) == {"row", "z", "flag", "phase", "wave", "image"}
    assert tensors["phase"].dtype == torch.complex64
    assert tensors["wave"].shape == (20, 16)
