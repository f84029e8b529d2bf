"""A hundred deaths: of the client, of its feed and of both, at random moments from the start to the end. Nothing stays."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import astropile

Synth = Callable[[str], Path]

# Seconds of a whole run of the loop below, over which the moments of death are spread.
SPAN = 0.25


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A cache folder and a folder of temporary files of this test alone."""
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    cache.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("ASTROPILE_CACHE", str(cache))
    monkeypatch.setenv("TMPDIR", str(temporary))
    return cache, temporary


def feeds(cache: Path) -> list[int]:
    """Living processes that were started with this cache folder, but for this one and its children by fork."""
    out = []
    mark = f"ASTROPILE_CACHE={cache}".encode()
    for p in Path("/proc").iterdir():
        if not p.name.isdigit() or int(p.name) == os.getpid():
            continue
        try:
            if mark in (p / "environ").read_bytes().split(b"\0") and b"feed" in (p / "cmdline").read_bytes():
                out.append(int(p.name))
        except OSError:
            continue
    return out


def gone(cache: Path) -> bool:
    """Whether no feed is left, or none within five seconds."""
    end = time.monotonic() + 5
    while feeds(cache):
        if time.monotonic() > end:
            return False
        os.sched_yield()
    return True


def train(root: Path, seed: int) -> None:
    """What a client does: it selects, reads, holds batches, leaves an epoch early, and closes."""
    kept = []
    with astropile.open(root, where=f"z < {0.1 + seed % 7 / 100}") as ds:
        for b in ds.batches(4, shuffle=True, seed=seed):
            kept.append(b)
            if len(kept) == 3:
                break
        for b in ds.batches(8, shuffle=True, seed=seed, epochs=2):
            kept = [*kept[-2:], b]
        ds[[0, 1]]


def child(root: Path, seed: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        while True:
            train(root, seed)
            seed += 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["client", "feed", "both"])
def test_a_hundred_deaths_leave_nothing_behind(synth: Synth, places: tuple[Path, Path], victim: str) -> None:
    cache, temporary = places
    root = synth("images")
    shared = set(os.listdir("/dev/shm"))
    rng = random.Random(victim)
    for k in range(34):
        pid = child(root, k)
        end = time.monotonic() + rng.uniform(0, SPAN)
        killed = False
        while time.monotonic() < end or (victim != "client" and not killed):
            found = feeds(cache) if victim != "client" else []
            if found and time.monotonic() >= end:
                if victim == "both":
                    os.kill(pid, signal.SIGKILL)
                for feed in found:
                    with contextlib.suppress(ProcessLookupError):  # it saw its client go
                        os.kill(feed, signal.SIGKILL)
                killed = True
        if victim == "feed":
            # The client goes on by itself, with another feed; then it goes, too.
            until = time.monotonic() + 5
            while not set(feeds(cache)) - set(found) and time.monotonic() < until:
                os.sched_yield()
            assert os.waitpid(pid, os.WNOHANG) == (0, 0), f"death {k}: the client ended with its feed"
        if victim != "both":
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert gone(cache), f"death {k}: a feed outlives its client"
    assert set(os.listdir("/dev/shm")) <= shared
    assert not os.listdir(temporary)
    assert {p.suffix for p in cache.rglob("*") if p.is_file()} <= {".rows", ".column", ""}
    begin = time.monotonic()
    train(root, 0)  # no lock is held
    assert time.monotonic() - begin < 10


@pytest.mark.slow
def test_feeds_that_die_at_random_steps_are_replaced_at_the_exact_position(
    synth: Synth, places: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(7)

    def epoch(death: int) -> list[tuple[np.ndarray, np.ndarray]]:
        out = []
        with astropile.open(synth("lightcurves")) as ds:
            for k, b in enumerate(ds.batches(10, shuffle=True, seed=3)):
                curve = b["lightcurve"]
                out.append((b["object_id"].copy(), curve[next(iter(curve))].values.copy()))
                if k == death:
                    assert ds._feed is not None
                    os.kill(ds._feed.process_id, signal.SIGKILL)
        return out

    want = epoch(-1)
    assert len(want) > 100
    for _ in range(8):
        caplog.clear()
        got = epoch(rng.randrange(len(want) // 2))  # the last ones are on their way before
        assert len(got) == len(want)
        for (a, x), (b, y) in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(x, y)
        assert "killed by signal 9" in caplog.text
