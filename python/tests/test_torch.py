"""The torch datasets under the real DataLoader. Runs where torch is: the loader's workers start feeds of their own."""

from __future__ import annotations

import functools
import operator
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astropile
from astropile import _binary

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        program = _binary.find()
    except astropile.BinaryNotFoundError as e:
        pytest.skip(str(e))
    made = tmp_path_factory.mktemp("torch") / "table"
    subprocess.run([program, "synth", str(made), "--kind", "table", "--size", "256KiB", "--seed", "1"], check=True)
    return made


def sources(loader: Any) -> list[int]:
    return [int(i) for b in loader for i in b["source_id"][: b.rows if b.valid is None else int(b.valid.sum())]]


def test_any_number_of_workers_gives_the_same_batches_in_the_same_order(root: Path) -> None:
    with astropile.open(root, columns=["source_id", "ra"]) as ds:
        want = [[int(i) for i in b["source_id"]] for b in ds.batches(64, shuffle=True, seed=3)]
        for workers, how in ((0, None), (1, "fork"), (3, "forkserver")):
            loader = torch.utils.data.DataLoader(
                ds.torch(64, shuffle=True, seed=3, rank=0, world_size=1),
                batch_size=None,
                num_workers=workers,
                multiprocessing_context=how,
            )
            assert len(loader) == len(want)
            got = [b["source_id"].tolist() for b in loader]
            assert got == want, workers
            # The next epoch comes by itself, and shuffles anew.
            again = [b["source_id"].tolist() for b in loader]
            assert again != want
            assert Counter(functools.reduce(operator.iadd, again, [])) == Counter(
                functools.reduce(operator.iadd, want, [])
            )


def test_tensors_are_views_at_no_workers_and_epochs_can_be_set(root: Path) -> None:
    with astropile.open(root, columns=["source_id", "ra", "object_id"]) as ds:
        batches = ds.torch(64, shuffle=True, seed=3)
        first = next(iter(batches))
        assert first["ra"].dtype == torch.float64
        assert isinstance(first["object_id"], list)
        np.testing.assert_array_equal(first["ra"].numpy(), ds[[0]]["ra"][:0].tolist() or first["ra"].numpy())
        assert first.epoch == 0
        assert next(iter(batches)).epoch == 1  # after an early break the next epoch begins
        batches.set_epoch(7)
        b = next(iter(batches))
        assert (b.epoch, b.position, b.state["epoch"]) == (7, 64, 7)
        moved = b.to("cpu")
        assert moved["ra"].data_ptr() != b["ra"].data_ptr()
        assert torch.equal(moved["ra"], b["ra"])


def test_a_state_goes_on_in_the_parent_and_with_workers(root: Path) -> None:
    with astropile.open(root, columns=["source_id"]) as ds:
        whole = sources(ds.torch(50, shuffle=True, seed=4))
        batches = ds.torch(50, shuffle=True, seed=4)
        taken: list[int] = []
        state: dict[str, Any] = {}
        for k, b in enumerate(batches):
            taken += [int(i) for i in b["source_id"]]
            state = b.state
            assert batches.state_dict() == state
            if k == 3:
                break
        for workers in (0, 2):
            rest = ds.torch(50, shuffle=True, seed=4)
            rest.load_state_dict(state)
            loader = torch.utils.data.DataLoader(rest, batch_size=None, num_workers=workers)
            assert taken + sources(loader) == whole
        other = ds.torch(50, shuffle=True, seed=5)
        with pytest.raises(astropile.StateError, match="seed"):
            other.load_state_dict(state)


def test_rows_by_number_serve_a_sampler(root: Path) -> None:
    with astropile.open(root, columns=["source_id", "ra", "object_id"]) as ds:
        rows = ds.torch_rows()
        loader = torch.utils.data.DataLoader(rows, batch_size=32, shuffle=True, num_workers=2)
        seen = [int(i) for b in loader for i in b["source_id"]]
        assert Counter(seen) == Counter(int(i) for i in ds[:]["source_id"])


TRAIN = """
import json, os, sys
import torch, torch.distributed as dist
import astropile

root, out, state, stop = sys.argv[1:5]
dist.init_process_group("gloo")
ds = astropile.open(root, columns=["source_id", "ra", "dec"])
batches = ds.torch(16, shuffle=True, seed=6)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
opt = torch.optim.SGD(model.parameters(), lr=1e-6)
if os.path.exists(state):
    batches.load_state_dict(json.load(open(state)))
seen = []
for step, b in enumerate(batches):
    if step == int(stop):
        os.kill(os.getpid(), 9)  # nothing is closed, nothing is saved but the last checkpoint
    x = torch.stack([b["ra"], b["dec"]], 1).float()
    opt.zero_grad()
    model(x).sum().backward()
    opt.step()
    keep = slice(None) if b.valid is None else b.valid
    seen += b["source_id"][keep].tolist()
    if dist.get_rank() == 0:
        with open(state + ".new", "w") as f:
            json.dump(b.state, f)
        os.replace(state + ".new", state)
    dist.barrier()
    with open(f"{out}.{dist.get_rank()}", "a") as f:
        f.write("".join(f"{i}\\n" for i in b["source_id"][keep].tolist()))
    dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_training_that_is_killed_on_two_ranks_resumes_on_three(root: Path, tmp_path: Path) -> None:
    import os
    import sys

    script = tmp_path / "train.py"
    script.write_text(TRAIN)

    def run(world: int, port: int, stop: int, out: str) -> list[int]:
        procs = []
        for rank in range(world):
            env = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "PYTHONPATH": str(Path(astropile.__file__).parents[1]),
            }
            args = [sys.executable, str(script), str(root), str(tmp_path / out), str(tmp_path / "state"), str(stop)]
            procs.append(subprocess.Popen(args, env=env))
        return [p.wait(timeout=240) for p in procs]

    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    stop = random.SystemRandom().randint(1, 25)
    assert set(run(2, port, stop, "a")) == {-9}, stop
    assert set(run(3, port + 1, -1, "b")) == {0}
    seen = [int(i) for f in tmp_path.glob("[ab].*") for i in f.read_text().split()]
    with astropile.open(root, columns=["source_id"]) as ds:
        assert Counter(seen) == Counter(int(i) for i in ds[:]["source_id"])
