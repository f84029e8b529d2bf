"""What batches, rows and schemas hold, on made-up rows whose every value is known."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import astropile

TRANSPORTS = ["auto", "memfd", "memfd-plain", "shm-file", "inline"]


def length(row: int) -> int:
    return row % 5


def check(batch: astropile.Batch, rows: np.ndarray, side: int = 8) -> None:
    """Compares every column with what internal/feed/feedtest says."""
    n = len(rows)
    assert batch.rows == n
    assert batch["row"].tolist() == rows.tolist()
    assert batch["id"].tolist() == [f"obj-{r}-é" for r in rows]
    assert batch["note"].tolist() == [None if r % 3 == 1 else f"note {r}" for r in rows]
    z = batch["z"]
    null = rows % 7 == 3
    assert isinstance(z, np.ma.MaskedArray) == bool(null.any())
    want = np.where(rows % 11 == 5, np.nan, rows / 4).astype(np.float32)
    assert np.array_equal(np.ma.getmaskarray(z), null)
    assert np.array_equal(np.ma.getdata(z)[~null], want[~null], equal_nan=True)
    assert batch["flag"].dtype == bool
    assert batch["flag"].tolist() == (rows % 2 == 1).tolist()
    assert batch["phase"].dtype == np.complex64
    assert np.array_equal(batch["phase"], rows.astype(np.float32) * np.complex64(1 - 1j))
    assert batch["wave"].shape == (n, 16)
    assert np.array_equal(batch["wave"], np.broadcast_to(3600 + np.arange(16, dtype=np.float32), (n, 16)))
    image = batch["image"]
    assert image.shape == (n, 2, side, side)
    assert image.dtype == np.float32
    k = np.arange(2 * side * side, dtype=np.float32) / np.float32(2 * side * side)
    assert np.array_equal(image.reshape(n, -1), rows.astype(np.float32)[:, None] + k)
    tags, words, curve = batch["tags"], batch["words"], batch["lightcurve"]
    assert len(tags) == len(words) == curve.rows == n
    for i, r in enumerate(int(x) for x in rows):
        assert tags[i].tolist() == ([] if r % 4 == 2 else [r * 10 + k for k in range(length(r))])
        assert words[i].tolist() == ["grizy"[(r + k) % 5] for k in range(length(r))]
        assert curve["band"][i].tolist() == words[i].tolist()
        assert curve["time"][i].tolist() == [r + k / 8 for k in range(length(r))]
    if tags.valid is not None:
        assert tags.valid.tolist() == (rows % 4 != 2).tolist()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_kind_of_column_arrives_over_every_transport(
    made_up: Any, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    monkeypatch.setenv("ASTROPILE_TRANSPORT", transport)
    ds = made_up(rows=1000)
    seen = 0
    for batch in ds.batches(300):
        check(batch, np.arange(seen, seen + batch.rows))
        seen += batch.rows
        assert (batch.epoch, batch.position, batch.last) == (0, seen, seen == 1000)
    assert seen == 1000
    check(ds[[3, 1, 999]], np.array([3, 1, 999]))


def test_large_batches_are_views_of_slots_and_can_be_written(made_up: Any) -> None:
    ds = made_up(rows=2000, side=16)
    for batch in ds.batches(1000):
        image = batch["image"]
        assert not image.flags.owndata
        assert image.flags.writeable
        assert image.ctypes.data % 4096 == 0
        image += 1
        assert not batch["wave"].flags.writeable
        assert batch["wave"].strides[0] == 0


def test_rows_by_number_slice_list_and_mask(made_up: Any) -> None:
    ds = made_up(rows=100)
    assert len(ds) == 100
    row = ds[5]
    assert row["row"] == 5
    assert row["id"] == "obj-5-é"
    assert ds[-1]["row"] == 99
    assert ds[3]["z"] is None
    assert ds[1]["note"] is None
    assert ds[2]["tags"] is None
    assert ds[9]["tags"].tolist() == [90, 91, 92, 93]
    assert set(ds[9]["lightcurve"]) == {"band", "time"}
    check(ds[10:20:3], np.arange(10, 20, 3))
    check(ds[np.array([7, 7, -1])], np.array([7, 7, 99]))
    check(ds[np.arange(100) % 10 == 0], np.arange(0, 100, 10))
    assert ds[[]].rows == 0
    assert ds[[]]["image"].shape == (0, 2, 8, 8)
    for bad in (100, -101, [0, 100]):
        with pytest.raises(IndexError, match="of 100"):
            ds[bad]
    for odd in ("z", 1.5, [[1]]):
        with pytest.raises(TypeError, match="a row is asked for by"):
            ds[odd]


def test_columns_are_chosen_and_renamed(made_up: Any) -> None:
    assert tuple(made_up(columns=["z", "row"]).schema) == ("z", "row")
    ds = made_up(columns={"flux": "image", "z": "z"})
    batch = ds[[2]]
    assert list(batch) == ["flux", "z"]
    assert batch["flux"].shape == (1, 2, 8, 8)
    assert "image" not in batch
    with pytest.raises(KeyError):
        batch["image"]
    with pytest.raises(astropile.DataError, match="nothing"):
        made_up(columns=["nothing"])
    with pytest.raises(TypeError, match="list of names"):
        made_up(columns="image")
    with pytest.raises(ValueError, match="columns is empty"):
        made_up(columns=[])


def test_schema_says_kind_dtype_shape_and_unit(made_up: Any) -> None:
    ds = made_up()
    schema = ds.schema
    assert schema["image"].shape == (2, 8, 8)
    assert schema["image"].dtype == np.float32
    assert (schema["wave"].unit, schema["z"].nullable, schema["id"].dtype) == ("Angstrom", True, np.dtype(object))
    assert [m.name for m in schema["lightcurve"].members] == ["band", "time"]
    assert "wave: float32[16] [Angstrom]" in repr(schema)
    assert [r.number for r in ds.releases] == [1, 2]
    assert ds.release == 2


def test_shuffled_epochs_hold_every_row_once_and_differ(made_up: Any) -> None:
    ds = made_up(rows=997, columns=["row"])

    def rows(**more: Any) -> list[int]:
        return [int(r) for b in ds.batches(100, shuffle=True, **more) for r in b["row"]]

    first = rows(seed=1)
    assert sorted(first) == list(range(997))
    assert first == rows(seed=1)
    assert first != rows(seed=2)
    assert first != rows(seed=1, epoch=1)
    assert rows(seed=1, position=500) == first[500:]


def test_drop_last_and_len_agree_with_what_comes(made_up: Any) -> None:
    ds = made_up(rows=1000, columns=["row"])
    for drop in (False, True):
        for size in (1, 7, 300, 1000):
            batches = ds.batches(size, drop_last=drop)
            assert len(batches) == sum(1 for _ in batches)
    with pytest.raises(ValueError, match="batch_size=0"):
        ds.batches(0)
    with pytest.raises(ValueError, match="shuffle"):
        ds.batches(1, shuffle="yes")


def test_leaving_a_loop_early_starts_the_next_one_at_its_beginning(made_up: Any) -> None:
    ds = made_up(rows=5000, columns=["row", "image"], side=16)
    for start in range(5):
        for k, batch in enumerate(ds.batches(500)):
            assert batch["row"][0] == 500 * k
            if k == start:
                break
    assert len(ds._idle) == 1  # one session served them all


def test_two_streams_and_reads_at_once(made_up: Any) -> None:
    ds = made_up(rows=3000, columns=["row", "image"], side=16)
    for a, b in zip(ds.batches(400), ds.batches(400, shuffle=True, seed=3)):
        assert a["row"][0] == a.position - a.rows
        assert ds[int(b["row"][0])]["row"] == b["row"][0]


def test_ragged_pads_with_a_mask(made_up: Any) -> None:
    batch = made_up(rows=10)[0:10]
    time, mask = batch["lightcurve"]["time"].pad(fill=-1)
    assert time.shape == mask.shape == (10, 4)
    assert mask.sum(axis=1).tolist() == [length(r) for r in range(10)]
    assert time[9].tolist() == [9, 9.125, 9.25, 9.375]
    assert time[1].tolist() == [1, -1, -1, -1]
    cut, _ = batch["tags"].pad(length=2)
    assert cut.shape == (10, 2)
    members, mask = batch["lightcurve"].pad()
    assert members["band"][6].tolist() == ["r", "", "", ""]
    assert mask[6].tolist() == [True, False, False, False]
    assert batch["tags"][3:5][1].tolist() == [40, 41, 42, 43]
    assert batch["words"][5:5].pad()[0].shape == (0, 0)
    with pytest.raises(IndexError):
        batch["tags"][10]


def test_text_comes_as_arrow_where_asked(made_up: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    batch = made_up(rows=50, strings="arrow")[[1, 2, 49]]
    assert batch["id"].to_pylist() == ["obj-1-é", "obj-2-é", "obj-49-é"]
    assert batch["note"].to_pylist() == [None, "note 2", None]
    assert batch["note"].type == pa.large_string()
    assert batch.row(0)["note"] is None


def test_a_batch_that_does_not_fit_memory_says_so(made_up: Any) -> None:
    ds = made_up(rows=4000, side=64, memory="48MiB")
    with pytest.raises(astropile.MemoryBudgetError, match="memory="):
        next(iter(ds.batches(2000)))
    with pytest.raises(astropile.MemoryBudgetError, match="memory="):
        ds[0:4000]
    assert sum(b.rows for b in ds.batches(100)) == 4000  # and goes on with less
    with pytest.raises(ValueError, match="memory="):
        made_up(memory="lots")


def test_a_failed_read_is_reported_and_the_next_stream_works(made_up: Any) -> None:
    ds = made_up(rows=1000, fail_at=3, columns=["row"])
    stream = iter(ds.batches(100))
    assert [next(stream).position, next(stream).position] == [100, 200]
    with pytest.raises(astropile.DataError, match="on fire"):
        next(stream)
    assert list(stream) == []
    assert sum(b.rows for b in ds.batches(100)) == 1000


def test_a_dataset_pickles_with_its_release(made_up: Any) -> None:
    ds = made_up(rows=10)
    other = pickle.loads(pickle.dumps(ds))
    assert [s.release for s in other._spec.sources] == [2]
    assert other[3]["row"] == 3
    other.close()


def test_a_batch_pickles_as_copies(made_up: Any) -> None:
    ds = made_up(rows=2000, side=16)
    batch = next(iter(ds.batches(1000)))
    fresh = pickle.dumps(batch)  # before any text was decoded
    assert len(fresh) < 1.2 * sum(np.ma.getdata(batch[n]).nbytes for n in batch if isinstance(batch[n], np.ndarray))
    for other in (pickle.loads(fresh), pickle.loads(pickle.dumps(batch, 2)), copy.deepcopy(batch)):
        assert (list(other), other.rows, other.epoch, other.position, other.last) == (
            list(batch),
            1000,
            0,
            1000,
            False,
        )
        check(other, np.arange(1000), side=16)
        for name in batch:
            if isinstance(batch[name], np.ndarray):
                assert not np.shares_memory(np.ma.getdata(other[name]), np.ma.getdata(batch[name])), name
                assert other[name].flags.writeable == batch[name].flags.writeable, name
                assert (other[name].strides[0] == 0) == (batch[name].strides[0] == 0), name
    ragged = pickle.loads(pickle.dumps(batch))
    struct = next(v for v in ragged.values() if isinstance(v, astropile.RaggedStruct))
    assert all(m.offsets is struct.offsets for m in struct.values())


def test_a_batch_larger_than_the_dataset_holds_it_all(made_up: Any) -> None:
    ds = made_up(rows=1000, side=64, memory="256MiB")
    for size in (1001, 10**6, np.int64(10**12), 10**30):
        batches = ds.batches(size, shuffle=True)
        assert [b.rows for b in batches] == [1000]
        assert len(batches) == 1
        assert len(ds.batches(size, drop_last=True)) == 0


def test_numbers_that_are_none_are_refused(made_up: Any) -> None:
    ds = made_up(rows=10)
    for bad in (1.5, 2.0, True, np.True_, "a", None, [3], np.float64(2)):
        with pytest.raises(TypeError, match="batch_size="):
            ds.batches(bad)
    for name in ("seed", "epoch", "position"):
        with pytest.raises(TypeError, match=f"{name}=1.5; give a whole number"):
            ds.batches(2, **{name: 1.5})
    for bad in (-1, 0, np.int64(0)):
        with pytest.raises(ValueError, match="batch_size="):
            ds.batches(bad)
    for bad in ("on", 2, [], None):
        with pytest.raises(ValueError, match="shuffle="):
            ds.batches(2, shuffle=bad)
    assert [b.rows for b in ds.batches(np.uint8(4))] == [4, 4, 2]
    for options in ({"threads": 1.5}, {"memory": 1.5}, {"memory": True}, {"release": "1"}):
        with pytest.raises(TypeError, match="give a whole number"):
            astropile.open("nowhere", **options)


def test_a_closed_dataset_ends_streams_at_once(made_up: Any) -> None:
    ds = made_up(rows=1000, columns=["row"])
    stream = iter(ds.batches(100))
    first = next(stream)
    ds.close()
    with pytest.raises(astropile.FeedError, match="the dataset is closed"):
        next(stream)
    assert list(stream) == []
    assert first["row"].tolist() == list(range(100))
    with pytest.raises(astropile.FeedError, match="the dataset is closed"):
        ds.batches(100).__iter__()


def test_a_closed_dataset_refuses_and_its_arrays_stay(made_up: Any) -> None:
    with made_up(rows=2000, side=16) as ds:
        batch = next(iter(ds.batches(1000)))
    check(batch, np.arange(1000), side=16)
    with pytest.raises(astropile.FeedError, match="closed"):
        ds[0]


def test_progress_counts_rows(made_up: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    for _ in made_up(rows=1000, columns=["row"]).batches(300, progress=True):
        pass
    assert "1.00k/1.00k" in capsys.readouterr().err
