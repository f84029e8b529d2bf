"""The memory of the whole path, as the kernel counts it: proportional set sizes of the feed and of what its client maps."""

from __future__ import annotations

import multiprocessing
import subprocess
from pathlib import Path
from typing import Any

import pytest

import astropile
from astropile import _binary

MIB = 1 << 20


def shares(pid: int | str) -> dict[str, int]:
    """Bytes of a process, its part of what it shares counted in: Pss, Pss_Anon, Pss_File, Pss_Shmem."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        pytest.skip("the kernel has no smaps_rollup")
    return {k: int(v.split()[0]) * 1024 for k, v in (line.split(":") for line in lines)}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("bounds") / "images", "images", "192MiB")


def made(root: Path, kind: str, size: str, *more: str) -> Path:
    try:
        program = _binary.find()
    except astropile.BinaryNotFoundError as e:
        pytest.skip(str(e))
    command = [program, "synth", str(root), "--kind", kind, "--size", size, "--seed", "1", *more]
    subprocess.run(command, check=True, capture_output=True)
    return root


def peaks(ds: Any, batch: int, epochs: int, every: int = 4, **how: Any) -> list[int]:
    """Of each epoch the most bytes that the feed and the batches take together."""
    before = shares("self")["Pss_Shmem"]
    out = []
    for epoch in range(epochs):
        most = 0
        for k, b in enumerate(ds.batches(batch, shuffle=True, seed=2, epoch=epoch, **how)):
            for name in b:
                b[name]
            if k % every == 0:
                most = max(most, shares(ds._feed.process_id)["Pss"] + shares("self")["Pss_Shmem"] - before)
        out.append(most)
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "batch"), [(64, 16), (96, 32)])
def test_ten_epochs_of_images_stay_within_memory(images: Path, memory: int, batch: int) -> None:
    with astropile.open(images, memory=memory * MIB) as ds:
        got = peaks(ds, batch, 10)
    assert max(got) <= memory * MIB, [x // MIB for x in got]
    assert max(got[5:]) <= max(got[:5]) + 4 * MIB  # flat


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lightcurves", "spectra", "table"])
def test_decoded_columns_stay_within_memory(tmp_path: Path, kind: str) -> None:
    size, memory = {"lightcurves": ("24MiB", 128), "spectra": ("96MiB", 96), "table": ("16MiB", 96)}[kind]
    with astropile.open(made(tmp_path / kind, kind, size), memory=memory * MIB) as ds:
        got = peaks(ds, 64, 3, every=16)
    assert max(got) <= memory * MIB, [x // MIB for x in got]


def test_memory_that_cannot_work_is_refused_at_once(images: Path) -> None:
    with pytest.raises(astropile.MemoryBudgetError, match="at least"):
        astropile.open(images, memory="8MiB")
    with (
        astropile.open(images, memory="64MiB") as ds,
        pytest.raises(astropile.MemoryBudgetError, match=r"two batches.*memory="),
    ):
        next(iter(ds.batches(256)))


def _client(root: str, memory: int, at: Any, out: Any) -> None:
    ds = astropile.open(root, memory=memory, where="z < 0.4", threads=1)
    before = shares("self")["Pss_Shmem"]
    kept = None
    for epoch in range(2):
        for b in ds.batches(8, shuffle=True, epoch=epoch):
            kept = b
    at.wait()  # all have read, none has ended
    assert ds._feed is not None
    feed = shares(ds._feed.process_id)
    rows = Path(f"/proc/{ds._feed.process_id}/maps").read_text().count(".rows")
    out.put((feed["Pss"] + shares("self")["Pss_Shmem"] - before, rows, len(ds), kept is not None))
    at.wait()


@pytest.mark.slow
def test_eight_clients_share_what_one_selected_and_stay_within_the_sum(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTROPILE_CACHE", str(tmp_path))
    memory = 64 * MIB
    context = multiprocessing.get_context("spawn")
    at, out = context.Barrier(8), context.Queue()
    clients = [context.Process(target=_client, args=(str(images), memory, at, out)) for _ in range(8)]
    for c in clients:
        c.start()
    got = [out.get(timeout=120) for _ in clients]
    for c in clients:
        c.join(60)
        assert c.exitcode == 0
    assert sum(size for size, *_ in got) <= 8 * memory
    assert {rows for _, rows, *_ in got} == {1}  # each maps the one bitmap
    assert len({n for _, _, n, _ in got}) == 1
    found = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len([p for p in found if p.suffix == ".rows"]) == 1
    assert {p.suffix for p in found} == {".rows", ".column", ""}  # bitmap, column and the file of locks


def test_a_feed_leaves_the_cache_of_files_to_the_system(images: Path) -> None:
    with astropile.open(images, memory="1GiB") as ds:
        for _ in ds.batches(32, shuffle=True):
            pass
        assert ds._feed is not None
        taken = shares(ds._feed.process_id)
    assert taken["Pss_Anon"] < 48 * MIB  # whatever of the files is mapped


def test_memory_that_shuffles_badly_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = made(tmp_path / "table", "table", "64MiB")
    with astropile.open(root, memory="64MiB") as ds:
        assert "takes memory= of" in caplog.text
        caplog.clear()
        assert sum(b.rows for b in ds.batches(4096)) == len(ds)
    with astropile.open(root, columns=["source_id"], memory="64MiB"), astropile.open(root):
        assert not caplog.text
