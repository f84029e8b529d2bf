"""However either side ends, the other ends within a second, and nothing is left behind."""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astropile

PACKAGE = str(Path(astropile.__file__).parents[1])
LIMIT = 1.0  # seconds


def wait_gone(pid: int, limit: float = LIMIT) -> bool:
    """Waits for the end of a process that need not be a child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], limit)[0])
    finally:
        os.close(fd)


def client(testfeed: str, body: str, **more: Any) -> subprocess.Popen[str]:
    """A Python process with an open made-up dataset ``ds``; its first line is the number of the feed process."""
    code = f"""
import json, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
import numpy as np
import astropile
ds = astropile.open(json.dumps(dict(rows=100_000, side=16, hang={more.pop("hang", False)})), columns=["row", "image"])
print(ds._feed.process_id, flush=True)
{textwrap.dedent(body)}
"""
    env = {**os.environ, "ASTROPILE_BIN": testfeed, "PYTHONPATH": PACKAGE}
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **more
    )


def line(p: subprocess.Popen[str]) -> str:
    assert p.stdout is not None
    watchdog = threading.Timer(60, p.kill)  # a line that does not come must not hold the tests up
    watchdog.start()
    try:
        return p.stdout.readline().strip()
    finally:
        watchdog.cancel()


def shm() -> set[str]:
    return set(os.listdir("/dev/shm"))


ENDINGS = {
    "end of the program": "",
    "leaving the loop": "for b in ds.batches(1000): break",
    "an exception": "for b in ds.batches(1000): 1 / 0",
    "sys.exit": "for b in ds.batches(1000): sys.exit(3)",
    "os._exit": "for b in ds.batches(1000): os._exit(3)",
    "keeping batches": "keep = list(ds.batches(10_000))",
    "close": "ds.close(); print('closed', flush=True)",
    "a global iterator": "it = iter(ds.batches(1000)); next(it)",
}


@pytest.mark.parametrize("how", ENDINGS)
def test_the_feed_ends_with_its_client(testfeed: str, how: str) -> None:
    before = shm()
    p = client(testfeed, ENDINGS[how])
    feed = int(line(p))
    p.wait(timeout=20)
    assert wait_gone(feed)
    assert shm() == before
    assert "Exception ignored" not in p.communicate()[1]


@pytest.mark.parametrize("transport", ["memfd", "shm-file", "inline"])
@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_client_takes_its_feed_along(
    testfeed: str, sig: int, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTROPILE_TRANSPORT", transport)
    before = shm()
    p = client(
        testfeed,
        "for b in ds.batches(1000):\n    print(b.position, flush=True)\n    if b.position > 3000: time.sleep(60)",
    )
    feed = int(line(p))
    assert line(p) == "1000"
    p.send_signal(sig)
    p.wait(timeout=20)
    assert wait_gone(feed)
    assert shm() == before
    p.communicate()


def test_a_client_killed_while_its_feed_reads_takes_it_along(testfeed: str) -> None:
    p = client(testfeed, "it = iter(ds.batches(1000)); print('reading', flush=True); next(it)", hang=True)
    feed = int(line(p))
    assert line(p) == "reading"
    p.kill()
    p.wait(timeout=20)
    assert wait_gone(feed)
    p.communicate()


def test_a_feed_ends_although_a_forked_child_holds_its_socket(testfeed: str) -> None:
    # The child is made without Python's hooks, as a C library would.
    p = client(
        testfeed,
        """
        it = iter(ds.batches(1000)); next(it)
        import ctypes
        pid = ctypes.CDLL(None).fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        print(pid, flush=True)
        time.sleep(60)
        """,
    )
    feed, child = int(line(p)), int(line(p))
    try:
        p.kill()
        p.wait(timeout=20)
        assert wait_gone(feed)
        assert not wait_gone(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
    p.communicate()


def test_ctrl_c_stops_the_loop_not_the_dataset(testfeed: str) -> None:
    p = client(
        testfeed,
        """
        seen = 0
        try:
            while True:
                for b in ds.batches(1000):
                    seen += 1
                    if seen == 5: print("go", flush=True)
        except KeyboardInterrupt:
            print(sum(b.rows for b in ds.batches(1000)), ds._restarts, flush=True)
        """,
        start_new_session=True,
    )
    feed = int(line(p))
    assert line(p) == "go"
    os.killpg(p.pid, signal.SIGINT)  # as a terminal does
    assert line(p) == "100000 0"
    assert p.wait(timeout=20) == 0
    assert wait_gone(feed)
    p.communicate()


def test_a_feed_started_in_a_thread_outlives_the_thread(testfeed: str) -> None:
    p = client(
        testfeed,
        """
        import threading
        box = []
        t = threading.Thread(target=lambda: box.append(astropile.open('{"rows": 50}')))
        t.start(); t.join(); time.sleep(0.05)
        print(box[0][7]["row"], box[0]._restarts, flush=True)
        """,
    )
    line(p)
    assert line(p) == "7 0"
    assert p.wait(timeout=20) == 0
    p.communicate()


def test_a_feed_that_dies_is_started_again_at_the_exact_position(
    made_up: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ds = made_up(rows=5000, side=16, columns=["row", "image"])
    want = [b["row"].tolist() for b in ds.batches(300, shuffle=True, seed=4)]
    got, kept = [], []
    with caplog.at_level(logging.WARNING, logger="astropile"):
        for k, batch in enumerate(ds.batches(300, shuffle=True, seed=4)):
            got.append(batch["row"].tolist())
            kept.append(batch)
            if k == 5:
                os.kill(ds._feed.process_id, signal.SIGKILL)
    assert got == want
    assert [b["row"].tolist() for b in kept] == want
    assert np.array_equal(kept[3]["image"][:, 0, 0, 0], kept[3]["row"].astype(np.float32))
    (record,) = caplog.records
    assert "killed by signal 9" in record.getMessage()
    assert "position" in record.getMessage()
    os.kill(ds._feed.process_id, signal.SIGKILL)
    with pytest.raises(astropile.FeedError, match="died again"):
        ds[0]


def test_a_feed_that_dies_by_itself_leaves_its_last_words(
    made_up: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    ds = made_up(rows=1000, die_at=4, once=str(tmp_path / "once"), columns=["row"])
    with caplog.at_level(logging.WARNING, logger="astropile"):
        assert [b["row"][0] for b in ds.batches(200)] == [0, 200, 400, 600, 800]
    assert "dying as asked" in caplog.text
    assert "exit code 7" in caplog.text


def test_a_death_between_uses_is_mended_too(made_up: Any) -> None:
    ds = made_up(rows=1000, columns=["row"])
    assert ds[5]["row"] == 5
    os.kill(ds._feed.process_id, signal.SIGKILL)
    assert wait_gone(ds._feed.process_id)
    assert ds[6]["row"] == 6
    assert [b.position for b in ds.batches(500)] == [500, 1000]


def test_a_death_while_a_finished_stream_is_kept_is_mended_too(made_up: Any) -> None:
    ds = made_up(rows=1000, columns=["row"])
    for _ in range(2):
        assert [b.position for b in ds.batches(500)] == [500, 1000]
        if ds._restarts == 0:
            os.kill(ds._feed.process_id, signal.SIGKILL)
            assert wait_gone(ds._feed.process_id)


def _child(ds: Any, out: Any) -> None:
    out.put((ds[3]["row"].item(), sum(b.rows for b in ds.batches(100)), ds._feed.process_id))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_child_processes_read_through_feeds_of_their_own(
    made_up: Any, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    ds = made_up(rows=1000, columns=["row"])
    stream = iter(ds.batches(100))
    assert next(stream).position == 100
    context = multiprocessing.get_context(method)
    out = context.Queue()
    children = [context.Process(target=_child, args=(ds, out)) for _ in range(2)]
    for c in children:
        c.start()
    got = [out.get(timeout=30) for _ in children]
    for c in children:
        c.join(timeout=30)
        assert c.exitcode == 0
    assert [g[:2] for g in got] == [(3, 1000)] * 2
    feeds = {g[2] for g in got} | {ds._feed.process_id}
    assert len(feeds) == 3
    for pid in feeds - {ds._feed.process_id}:
        assert wait_gone(pid)
    assert [b.position for b in stream] == list(range(200, 1001, 100))


def test_dropping_a_dataset_ends_its_feed_and_closes_its_descriptors(made_up: Any, testfeed: str) -> None:
    astropile.open('{"rows": 10}').close()
    before = len(os.listdir("/proc/self/fd"))
    pids = []
    for _ in range(5):
        ds = astropile.open('{"rows": 3000, "side": 16}')
        batch = list(ds.batches(1000))
        pids.append(ds._feed.process_id)
        del ds, batch
    assert all(wait_gone(pid) for pid in pids)
    deadline = time.monotonic() + 5
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        import gc

        gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_missing_or_wrong_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASTROPILE_BIN", str(tmp_path / "nothing"))
    with pytest.raises(astropile.BinaryNotFoundError, match="ASTROPILE_BIN"):
        astropile.open("x")
    monkeypatch.setenv("ASTROPILE_BIN", "/bin/false")
    with pytest.raises(astropile.FeedError, match="exit code 1"):
        astropile.open("x")
    monkeypatch.delenv("ASTROPILE_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("astropile._binary.__file__", str(tmp_path / "x.py"))
    with pytest.raises(astropile.BinaryNotFoundError, match="PATH"):
        astropile.open("x")
