"""Rows as views of the shards' own pages."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astropile
from astropile import _memmap

SIDE = 4
Opener = Callable[..., "tuple[astropile.Dataset, np.ndarray]"]


@pytest.fixture
def mapped(made_up: Any, tmp_path: Path) -> Opener:
    """A dataset with files to map, as internal/feed/feedtest lays them out, and all its images."""

    def make(rows: int = 103, shards: int = 5, page_rows: int = 3) -> tuple[astropile.Dataset, np.ndarray]:
        images = np.random.default_rng(1).random((rows, 2, SIDE, SIDE), np.float32)
        counts = [rows // shards] * shards
        counts[-1] += rows % shards
        at = 0
        for s, n in enumerate(counts):
            with open(tmp_path / f"{s}.bin", "wb") as f:
                for lo in range(0, n, page_rows):
                    f.write(b"\xee" * 64)
                    f.write(images[at + lo : at + min(n, lo + page_rows)].tobytes())
            at += n
        ds = made_up(rows=rows, side=SIDE, shards=shards, page_rows=page_rows, maps=str(tmp_path)[1:])
        return ds, images

    return make


@pytest.mark.parametrize("page_rows", [1, 3, 1000])
def test_rows_over_all_shards_equal_the_bytes_of_the_files(mapped: Opener, page_rows: int) -> None:
    ds, images = mapped(page_rows=page_rows)
    m = ds.memmap("image")
    assert (len(m), m.shape, m.dtype) == (103, images.shape, images.dtype)
    for i in [*range(103), -1, -103]:
        assert np.array_equal(m[i], images[i])
    assert np.array_equal(np.stack(list(m)), images)
    assert np.array_equal(m[np.int64(7)], images[7])
    assert np.array_equal(m[:], images)
    assert np.array_equal(m[90:2:-7], images[90:2:-7])
    assert np.array_equal(m[[5, 100, 5, -2]], images[[5, 100, 5, -2]])
    mask = np.arange(103) % 9 == 0
    assert np.array_equal(m[mask], images[mask])
    assert m[[]].shape == m[50:50].shape == (0, 2, SIDE, SIDE)


def test_a_row_is_a_read_only_view_of_the_file(mapped: Opener) -> None:
    ds, images = mapped()
    row = ds.memmap("image")[50]
    assert not row.flags.owndata
    assert not row.flags.writeable
    ds.close()
    assert np.array_equal(row, images[50])


def test_bad_indexes_are_refused(mapped: Opener) -> None:
    m = mapped()[0].memmap("image")
    for bad in (103, -104, [0, 103]):
        with pytest.raises(IndexError, match="of 103"):
            m[bad]
    for odd in ([[1, 2]], [1.5], np.ones(5, bool)):
        with pytest.raises(IndexError):
            m[odd]


def test_shards_beyond_the_capacity_are_unmapped_and_mapped_again(mapped: Opener) -> None:
    ds, images = mapped(rows=400, shards=40)
    m = _memmap.Memmap(ds, "image", capacity=3)
    kept = [m[i] for i in range(0, 400, 10)]
    assert len(m._shards) == 3
    order = np.random.default_rng(2).permutation(400)
    for i in order.tolist():
        assert np.array_equal(m[i], images[i])
    assert len(m._shards) == 3
    for k, row in enumerate(kept):
        assert np.array_equal(row, images[10 * k])
    here = Path(f"/proc/{os.getpid()}/maps")
    del kept, row
    assert here.read_text().count(".bin") == 3
    assert 1 <= _memmap.default_capacity() <= int(Path("/proc/sys/vm/max_map_count").read_text()) // 4


def test_a_constant_column_is_one_row_for_all(mapped: Opener) -> None:
    m = mapped()[0].memmap("wave")
    assert m[102].tolist() == (3600 + np.arange(16.0)).tolist()
    assert m[[0, 50]].shape == (2, 16)


def test_what_does_not_map_is_refused_by_name(mapped: Opener) -> None:
    ds, _ = mapped()
    for column in ("id", "tags", "lightcurve"):
        with pytest.raises(astropile.NotMappedError, match=column):
            ds.memmap(column)
    with pytest.raises(astropile.NotMappedError, match='"z"'):
        ds.memmap("z")
    with pytest.raises(KeyError):
        ds.memmap("nothing")


def test_a_file_that_is_cut_or_gone_is_an_error_not_a_crash(mapped: Opener, tmp_path: Path) -> None:
    ds, images = mapped()
    m = ds.memmap("image")
    os.truncate(tmp_path / "3.bin", 1000)
    with pytest.raises(astropile.DataError, match=r"3\.bin is 1000 bytes"):
        m[3 * 20]
    (tmp_path / "4.bin").unlink()
    with pytest.raises(astropile.MissingError, match=r"4\.bin is gone"):
        m[-1]
    assert np.array_equal(m[25], images[25])


def test_forked_and_unpickled_maps_read_shards_the_parent_has_not_mapped(mapped: Opener) -> None:
    ds, images = mapped()
    m = ds.memmap("image")
    m[0]
    other = pickle.loads(pickle.dumps(m))
    assert np.array_equal(other[99], images[99])
    other._dataset.close()
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if np.array_equal(m[:], images) else 2
            finally:
                os._exit(code)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
    assert np.array_equal(m[:], images)


def test_several_indexes_are_refused_and_not_taken_for_rows(mapped: Opener) -> None:
    ds, _ = mapped()
    for wrong in (lambda: ds.memmap("image")[0, 1], lambda: ds.memmap("image")[:, 0], lambda: ds[0, 1]):
        with pytest.raises(TypeError, match="one index"):
            wrong()
