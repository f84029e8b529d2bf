"""Jobs that end and go on: at other world sizes, over mixes and selections, after an append, from a copy of the dataset."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astropile
from astropile import _binary

CITATION = "@misc{stars, title={Stars}}\n"


class Survey:
    """A release that grows: every append is a file of stars."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.rows = folder, folder / "root", 0
        (folder / "c.bib").write_text(CITATION)
        try:
            self.program = _binary.find()
        except astropile.BinaryNotFoundError as e:
            pytest.skip(str(e))

    def add(self, rows: int) -> None:
        rng = np.random.default_rng(self.rows)
        name = self.folder / f"{self.rows}.csv"
        ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
        lines = (f"{self.rows + i},{ra[i]:.6f},{dec[i]:.6f},{z:.4f}" for i, z in enumerate(rng.uniform(0, 1, rows)))
        name.write_text("\n".join(("id,ra,dec,z", *lines)) + "\n")
        first = ["--name", "stars", "--shard-size", "1MiB", "--expect", "100"] if not self.rows else []
        words = ["--licence", "CC-BY-4.0", "--citation", str(self.folder / "c.bib")] if not self.rows else []
        for command in (
            ["import", str(name), "--into", str(self.root), *first],
            ["release", str(self.root), "-m", f"{rows} stars", *words],
        ):
            subprocess.run([self.program, *command], check=True, capture_output=True)
        self.rows += rows


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    made = Survey(tmp_path)
    made.add(500)
    return made


def take(loops: list[Any], steps: int) -> tuple[list[tuple[int, int]], dict[str, Any] | None]:
    """(source, id) of the rows of some steps of all ranks, in no order within a step, and the state after them."""
    rows: list[tuple[int, int]] = []
    state = None
    for _ in range(steps):
        step = []
        states = []
        for loop in loops:
            b = next(loop, None)
            if b is None:
                return rows, state
            keep = np.ones(b.rows, bool) if b.valid is None else b.valid
            source = np.zeros(b.rows, int) if b.source is None else b.source
            step += list(zip(source[keep].tolist(), b["id"][keep].tolist(), strict=True))
            states.append(loop.state_dict())
        assert all(s == states[0] for s in states)  # the same on every rank
        rows += sorted(step)
        state = states[0]
    return rows, state


def ranks(ds: Any, world: int, batch: int, state: dict[str, Any] | None, **how: Any) -> list[Iterator[Any]]:
    loops = []
    for rank in range(world):
        loop = ds.batches(batch, shuffle=True, seed=11, rank=rank, world_size=world, **how)
        if state is not None:
            loop.load_state_dict(json.loads(json.dumps(state)))
        loops.append(iter(loop))
    return loops


@pytest.mark.parametrize("kind", ["plain", "filtered", "mixed"])
def test_three_interruptions_at_other_world_sizes_lose_and_repeat_nothing(survey: Survey, kind: str) -> None:
    def opened() -> Any:
        if kind == "plain":
            return astropile.open(survey.root, columns=["id", "z"])
        parts = [astropile.open(survey.root, columns=["id"], where=w) for w in ("z < 0.5", "z >= 0.2", "z > 0.9")]
        if kind == "filtered":
            return parts[0]
        return astropile.mix(dict(zip(parts, (0.5, 0.3, 0.2), strict=True)), stop="first")

    rng = random.Random(kind)
    with opened() as ds:
        whole, _ = take(ranks(ds, 1, 1, None), 10**6)
    assert len(whole) > 100
    if kind != "mixed":
        assert max(Counter(whole).values()) == 1
    for _ in range(4):
        got: list[tuple[int, int]] = []
        state = None
        for world, batch in rng.sample([(1, 24), (2, 12), (3, 8), (4, 6), (6, 4), (8, 3), (7, 5), (5, 2)], 3):
            with opened() as ds:  # another process would see no more than this
                part, after = take(ranks(ds, world, batch, state), rng.randint(1, 3))
            # A step is the same rows at any number of ranks.
            assert sorted(part) == sorted(whole[len(got) : len(got) + len(part)])
            got += part
            state = after or state
        with opened() as ds:
            rest, _ = take(ranks(ds, 1, 1, state), 10**6)
        assert Counter(got + rest) == Counter(whole)
        assert rest == whole[len(got) :]


def test_a_state_reopens_its_own_release_after_an_append(survey: Survey) -> None:
    with astropile.open(survey.root, columns=["id"]) as ds:
        want, _ = take(ranks(ds, 1, 50, None), 10**6)
        loops = ranks(ds, 2, 25, None)
        got, state = take(loops, 4)
    survey.add(300)
    with astropile.open(survey.root, columns=["id"]) as ds:
        assert len(ds) == 800
        rest, _ = take(ranks(ds, 3, 10, state), 10**6)
        assert Counter(got + rest) == Counter(want)
        assert len(rest) == 300
        assert ds.release_id == astropile.open(survey.root, release=1).release_id
    # A newer release is a new function, from its own beginning.
    with astropile.open(survey.root, columns=["id"]) as ds:
        new, _ = take(ranks(ds, 1, 50, None), 10**6)
        assert len(new) == len(set(new)) == 800
    with (
        astropile.open(survey.root, columns=["id"], where="z < 0.5") as ds,
        pytest.raises(astropile.StateError, match=r"selection|rows"),
    ):
        ranks(ds, 1, 10, state)


def test_a_state_goes_on_from_a_copy_of_the_dataset(survey: Survey, tmp_path: Path) -> None:
    with astropile.open(survey.root, columns=["id", "z"]) as ds:
        whole, _ = take(ranks(ds, 1, 20, None), 10**6)
        got, state = take(ranks(ds, 4, 5, None), 7)
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(survey.root, copy)
    shutil.rmtree(survey.root)
    with astropile.open(copy, columns={"id": "id", "red": "z"}) as ds:
        rest, _ = take(ranks(ds, 1, 20, state), 10**6)
    assert rest == whole[len(got) :]
    (tmp_path / "other").mkdir()
    other = Survey(tmp_path / "other")
    other.add(499)
    with (
        astropile.open(other.root, columns=["id"]) as ds,
        pytest.raises(astropile.AstropileError, match="release"),
    ):
        ranks(ds, 1, 20, state)


def test_the_next_epoch_starts_right_after_an_early_break(survey: Survey) -> None:
    with astropile.open(survey.root, columns=["id"]) as ds:
        for _ in range(3):
            for b in ds.batches(10, shuffle=True, seed=1, epochs=3):
                assert b.epoch == 0
                break
        epochs = [[], [], []]  # type: list[list[int]]
        for b in ds.batches(64, shuffle=True, seed=1, epochs=3):
            epochs[b.epoch] += b["id"].tolist()
        assert all(sorted(e) == list(range(500)) for e in epochs)
        assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", 12), ("lanes", 480), ("rows", 1), ("position", 10**9), ("order", 2), ("hash", "0" * 64)],
)
def test_a_state_that_was_changed_is_refused(survey: Survey, field: str, value: Any) -> None:
    with astropile.open(survey.root, columns=["id"]) as ds:
        loop = ds.batches(10, shuffle=True, seed=11)
        state = {**loop.state_dict(), field: value}
        with pytest.raises(astropile.StateError):
            loop.load_state_dict(state)
