"""DataLoader workers of every start method, torchdata's StatefulDataLoader, and the matrix of workers, ranks and shards."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import astropile
from astropile import _binary

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")


def made(folder: Path, *flags: str) -> Path:
    try:
        program = _binary.find()
    except astropile.BinaryNotFoundError as e:
        pytest.skip(str(e))
    command = [program, "synth", str(folder), "--kind", "table", "--size", "128KiB", "--seed", "1", *flags]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("torch") / "table")


def sources(batches: Any) -> list[int]:
    out: list[int] = []
    for b in batches:
        ids = b["source_id"]
        out += (ids if b.valid is None else ids[b.valid]).tolist()
    return out


def in_a_slot(address: int) -> bool:
    """Whether memory is that of a batch, shared with the feed."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
        if lo <= address < hi:
            return "astropile-slot" in line
    return False


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method_give_the_same_epochs(root: Path, how: str) -> None:
    with astropile.open(root, columns=["source_id"]) as ds:
        want = [[int(i) for i in b["source_id"]] for b in ds.batches(64, shuffle=True, seed=3, epochs=3)]
        steps = len(want) // 3
        batches = ds.torch(64, shuffle=True, seed=3, rank=0, world_size=1)
        loader = torch.utils.data.DataLoader(
            batches, batch_size=None, num_workers=2, multiprocessing_context=how, persistent_workers=True
        )
        assert [b["source_id"].tolist() for b in loader] == want[:steps]
        assert [b["source_id"].tolist() for b in loader] == want[steps : 2 * steps]
        batches.set_epoch(2)  # which workers that stay alive are told of
        assert [b["source_id"].tolist() for b in loader] == want[2 * steps :]
        batches.set_epoch(0)
        assert next(iter(loader))["source_id"].tolist() == want[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on_in_another_process(root: Path, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def loader(ds: Any) -> Any:
        return stateful(ds.torch(48, shuffle=True, seed=8), batch_size=None, num_workers=workers)

    with astropile.open(root, columns=["source_id"]) as ds:
        whole = [b["source_id"].tolist() for b in ds.batches(48, shuffle=True, seed=8, epochs=2)]
        steps = len(whole) // 2
        for stop in (1, 5, steps - 2, steps - 1, steps):
            first = loader(ds)
            got = []
            for b in first:
                got.append(b["source_id"].tolist())
                if len(got) == stop and stop < steps:
                    break
            state = first.state_dict()  # at steps, the loop was over
            with astropile.open(root, columns=["source_id"]) as again:  # as a new process would
                rest = loader(again)
                rest.load_state_dict(state)
                if stop < steps:
                    got += [b["source_id"].tolist() for b in rest]
                    assert got == whole[:steps], stop
                assert [b["source_id"].tolist() for b in rest] == whole[steps:], stop


@pytest.mark.parametrize("shards", [1, 5])
def test_workers_and_ranks_partition_the_epoch(
    tmp_path: Path, root: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from astropile import _torch

    many = root if shards == 1 else made(tmp_path / "many", "--shard-size", "1MiB")
    where = None if shards > 1 else "ra >= 0"
    with astropile.open(many, columns=["source_id"], where=where) as ds:
        want = sorted(int(i) for i in ds[:]["source_id"])
        for world in (1, 2, 7):
            for workers in (0, 1, 3, 64) if shards == 1 or world < 7 else (0, 3):
                seen: list[int] = []
                lengths = set()
                for rank in range(world):
                    n = 0
                    for worker in range(max(workers, 1)):
                        info = SimpleNamespace(id=worker, num_workers=workers) if workers else None
                        monkeypatch.setattr(_torch, "get_worker_info", lambda info=info: info)
                        own = ds.torch(16, shuffle=True, seed=2, rank=rank, world_size=world)
                        for b in own:
                            n += 1
                            seen += sources([b])
                    lengths.add(n)
                assert len(lengths) == 1, (world, workers)
                assert sorted(seen) == want, (world, workers)


def test_rows_that_fill_a_batch_up_are_marked(root: Path) -> None:
    with astropile.open(root, columns=["source_id"]) as ds:
        last = [list(ds.torch(100, shuffle=True, seed=2, rank=r, world_size=3))[-1] for r in range(3)]
        for b in last:
            assert b.rows == 100
            assert b.valid.dtype == torch.bool
        assert sum(int(b.valid.sum()) for b in last) == len(ds) % 300


def test_tensors_are_views_and_copies_are_their_own(tmp_path: Path) -> None:
    images = made(tmp_path / "images", "--kind", "images", "--size", "16MiB")
    with astropile.open(images, columns=["image_array"]) as ds:
        loader = torch.utils.data.DataLoader(ds.torch(8, shuffle=True, seed=3), batch_size=None, num_workers=0)
        kept = []
        for b in loader:
            mine = b.to("cpu")["image_array"]
            kept.append((mine, float(b["image_array"].double().sum())))
            assert in_a_slot(b["image_array"].data_ptr())
            assert not in_a_slot(mine.data_ptr())
            b["image_array"].zero_()  # a batch is the caller's, who may work in place
        assert len(kept) == len(loader) > 10
        assert all(float(mine.double().sum()) == total != 0 for mine, total in kept)


def test_a_batch_is_used_like_a_dict_and_survives_pickling(root: Path) -> None:
    import pickle

    with astropile.open(root, columns=["source_id", "ra", "object_id"]) as ds:
        # Without a GPU torch warns, and pins nothing.
        loader = torch.utils.data.DataLoader(ds.torch(100, seed=2), batch_size=None, pin_memory=True)
        b, want = next(iter(loader)), next(iter(ds.batches(100, seed=2)))
        assert list(b) == list(b.keys()) == ["source_id", "ra", "object_id"]
        assert (len(b), "ra" in b, "dec" in b, b.get("dec")) == (3, True, False, None)
        assert b["ra"] is b["ra"]
        with pytest.raises(KeyError):
            b["dec"]
        for other in (b, pickle.loads(pickle.dumps(b)), b.to("cpu")):
            columns = dict(**other)
            assert columns["ra"].tolist() == want["ra"].tolist()
            assert columns["object_id"] == want["object_id"].tolist()
            assert (other.rows, other.position, other.state) == (100, 100, b.state)
        b["twice"] = 2 * b["ra"]
        assert dict(b.items())["twice"] is list(b.values())[3]


BREAK = """
import sys, time, torch, astropile
ds = astropile.open(sys.argv[1], columns=["source_id"])
loader = torch.utils.data.DataLoader(ds.torch(16, shuffle=True), batch_size=None, num_workers=int(sys.argv[2]))
for b in loader:
    break
sys.stdout.write(repr(time.time()))
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_that_is_left_after_one_batch_ends_at_once(root: Path, workers: int) -> None:
    import os
    import time

    env = {**os.environ, "PYTHONPATH": str(Path(astropile.__file__).parents[1])}
    command = [sys.executable, "-c", BREAK, str(root), str(workers)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
    assert time.time() - float(done.stdout) < 5  # torch itself takes some of it
    assert Counter(done.stderr.split()) == Counter()
