"""Selections, ranks, checkpoints, mixes, matches and changed columns, on datasets that the real program wrote."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astropile

Synth = Callable[[str], Path]


@pytest.fixture
def stars(synth: Synth) -> Path:
    return synth("table")


def column(ds: astropile.Dataset, name: str) -> Any:
    return ds[:][name]


def ids(ds: astropile.Dataset) -> list[str]:
    return list(column(ds, "object_id"))


def test_where_selects_what_numpy_would(stars: Path) -> None:
    with astropile.open(stars, columns=["object_id", "parallax", "phot_g_mean_mag", "nobs", "variable"]) as ds:
        b = ds[:]
    for where, mask in [
        ("parallax > 2 and phot_g_mean_mag < 15", (b["parallax"] > 2) & (b["phot_g_mean_mag"] < 15)),
        ("not (parallax > 2)", ~(b["parallax"] > 2)),
        ("nobs in [3, 5, 200, 201, 202] or variable", np.isin(b["nobs"], [3, 5, 200, 201, 202]) | b["variable"]),
        ("0.1 < parallax < 0.3", (b["parallax"] > np.float32(0.1)) & (b["parallax"] < np.float32(0.3))),
    ]:
        with astropile.open(stars, columns=["object_id"], where=where) as ds:
            assert ids(ds) == list(b["object_id"][np.ma.filled(mask, False)]), where
            got = [i for batch in ds.batches(1000, shuffle=True, seed=3) for i in batch["object_id"]]
            assert sorted(got) == sorted(ids(ds))
            assert len(got) < 100 or got != ids(ds)


def test_wrong_selections_say_where_and_read_nothing(stars: Path) -> None:
    for options, say in [
        ({"where": "paralax > 2"}, 'no column "paralax"'),
        ({"where": "parallax > 'a'"}, "does not compare"),
        ({"where": "parallax >"}, "unexpected"),
        ({"region": {"cone": {"ra": 1, "dec": 2, "radius": -1}}}, "radius"),
        ({"split": "holdout"}, "no split"),
        ({"sample": 2.0}, "sample"),
    ]:
        with pytest.raises(astropile.QueryError, match=say):
            astropile.open(stars, **options)
    with pytest.raises(astropile.MissingIdsError, match="nova"):
        astropile.open(stars, ids=["nova"])
    for options in ({"limit": 0}, {"sample": 0}):
        with pytest.raises(ValueError, match=r"limit|sample"):
            astropile.open(stars, **options)
    with pytest.raises(TypeError):
        astropile.open(stars, ids="synth-000000056292")


def test_regions_ids_splits_samples_and_limits(stars: Path) -> None:
    with astropile.open(stars, columns=["object_id", "ra", "dec"]) as ds:
        b = ds[:]
    ra, dec = np.asarray(b["ra"]), np.asarray(b["dec"])
    with astropile.open(stars, columns=["object_id"], region=astropile.box(ra=(44, 46), dec=(0, 1))) as ds:
        assert ids(ds) == list(b["object_id"][(ra >= 44) & (ra <= 46) & (dec >= 0) & (dec <= 1)])
    with astropile.open(stars, columns=["object_id"], region=astropile.cone(ra[7], dec[7], 0.5)) as ds:
        d = np.radians(dec)
        chord = np.cos(d) * np.cos(d[7]) * np.cos(np.radians(ra - ra[7])) + np.sin(d) * np.sin(d[7])
        near = set(b["object_id"][np.degrees(np.arccos(np.clip(chord, -1, 1))) < 0.4999])
        assert near <= set(ids(ds))
        assert len(ds) < len(b["object_id"])
    wanted = [b["object_id"][i] for i in (900, 3, 77)]
    with astropile.open(stars, columns=["object_id"], ids=wanted) as ds:
        assert sorted(ids(ds)) == sorted(wanted)
    parts = []
    for split in ("train", "val", "test"):
        with astropile.open(stars, columns=["object_id"], split=split, key=1) as ds:
            parts += ids(ds)
            assert len(ds) / len(ra) == pytest.approx({"train": 0.8}.get(split, 0.1), abs=0.02)
    assert sorted(parts) == sorted(b["object_id"])
    with astropile.open(stars, columns=["object_id"], split="b", splits={"a": 0.5, "b": 0.25}) as ds:
        assert len(ds) / len(ra) == pytest.approx(0.25, abs=0.02)
    with astropile.open(stars, columns=["object_id"], sample=0.1) as ds, astropile.open(stars, limit=10) as ten:
        assert len(ds) / len(ra) == pytest.approx(0.1, abs=0.01)
        assert ids(ten) == list(b["object_id"][:10])


def test_ranks_share_an_epoch_with_equal_numbers_of_batches(stars: Path) -> None:
    with astropile.open(stars, columns=["object_id"], limit=5003) as ds:
        for world in (1, 2, 7):
            seen: list[str] = []
            counts = set()
            for rank in range(world):
                batches = ds.batches(64, shuffle=True, seed=5, rank=rank, world_size=world)
                n = 0
                for b in batches:
                    n += 1
                    valid = np.ones(b.rows, bool) if b.valid is None else b.valid
                    seen += list(b["object_id"][valid])
                assert n == len(batches)
                counts.add(n)
            assert len(counts) == 1
            assert Counter(seen) == Counter(ids(ds))


def test_rank_comes_from_arguments_or_the_launcher() -> None:
    from astropile._ranks import find_rank

    assert find_rank(1, 4) == (1, 4)
    torchrun = {"RANK": "2", "WORLD_SIZE": "3"}
    mpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    job = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "10"}
    step = {**job, "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}
    launchers: list[tuple[dict[str, str], tuple[int, int]]] = [
        ({}, (0, 1)),
        (torchrun, (2, 3)),
        (mpi, (0, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
        ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "8"}, (1, 8)),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "10"}, (9, 10)),
        (step, (3, 4)),  # srun of fewer tasks than the job's
        (job, (0, 1)),  # python in a batch script, without srun
        ({**step, **torchrun}, (2, 3)),  # torchrun under srun
        ({**job, **mpi}, (0, 2)),  # mpirun in a batch script
        ({**step, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (0, 1)),  # srun --pty bash
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, (0, 1)),
    ]
    for env, want in launchers:
        assert find_rank("auto", env=env) == want, env
    for bad in ((4, 4), (-1, 2), (1, None), (None, 2)):
        with pytest.raises(ValueError, match="rank"):
            find_rank(*bad)
    wrong = [
        ({"SLURM_PROCID": "x", "SLURM_NTASKS": "10"}, "SLURM_PROCID='x'.*numbers"),
        ({"RANK": "", "WORLD_SIZE": "2"}, "RANK=''.*numbers"),
        ({"RANK": "3", "WORLD_SIZE": "3"}, "ranks count from 0 to WORLD_SIZE - 1"),
        ({"PMI_RANK": "-1", "PMI_SIZE": "3"}, "PMI_RANK=-1"),
        ({"RANK": "3"}, "WORLD_SIZE is not set"),
        ({"WORLD_SIZE": "3"}, "RANK is not set"),
    ]
    for env, message in wrong:
        with pytest.raises(ValueError, match=message):
            find_rank("auto", env=env)


def test_a_state_goes_on_exactly_at_another_world_and_batch_size(stars: Path) -> None:
    with astropile.open(stars, columns=["object_id"], where="parallax > 1") as ds:
        whole = [i for b in ds.batches(50, shuffle=True, seed=9) for i in b["object_id"]]
        loop = ds.batches(50, shuffle=True, seed=9)
        taken: list[str] = []
        for k, b in enumerate(loop):
            taken += list(b["object_id"])
            if k == 6:
                break
        state = json.loads(json.dumps(loop.state_dict()))
    assert taken == whole[:350]
    assert len(json.dumps(state)) < 700
    rest: list[str] = []
    for rank in range(3):
        with astropile.open(stars, columns=["object_id", "ra"], where="not (parallax <= 1)") as ds:
            loop = ds.batches(11, shuffle=True, seed=9, rank=rank, world_size=3)
            loop.load_state_dict(state)
            for b in loop:
                valid = np.ones(b.rows, bool) if b.valid is None else b.valid
                rest += list(b["object_id"][valid])
    assert sorted(rest) == sorted(whole[350:])
    # The next loop begins anew, and several epochs follow each other.
    with astropile.open(stars, columns=["object_id"], where="parallax > 1", limit=100) as ds:
        two = ds.batches(40, shuffle=True, seed=1, epochs=2)
        assert [b.epoch for b in two] == [0, 0, 0, 1, 1, 1]
        assert len(two) == 6
        state = two.state_dict()
        assert (state["epoch"], state["position"]) == (1, 100)


def test_a_state_of_another_order_is_refused_saying_what_differs(stars: Path) -> None:
    with astropile.open(stars, columns=["object_id"], where="parallax > 1") as ds:
        state = ds.batches(50, shuffle=True, seed=9).state_dict()
    with astropile.open(stars, columns=["object_id"]) as ds, pytest.raises(astropile.StateError, match="selection"):
        ds.batches(50, shuffle=True, seed=9).load_state_dict(state)
    with astropile.open(stars, columns=["object_id"], where="parallax > 1") as ds:
        with pytest.raises(astropile.StateError, match="seed"):
            ds.batches(50, shuffle=True, seed=10).load_state_dict(state)
        with pytest.raises(astropile.StateError, match="shuffle"):
            ds.batches(50, shuffle="rows", seed=9).load_state_dict(state)
        with pytest.raises(astropile.StateError, match="hash"):
            ds.batches(50, shuffle=True, seed=9).load_state_dict({**state, "position": 7})
        with pytest.raises(astropile.StateError, match="release"):
            ds.batches(50, shuffle=True, seed=9).load_state_dict({**state, "release_id": "0" * 64})
        with pytest.raises(astropile.StateError):
            ds.batches(50).load_state_dict({})


def test_memmap_rows_are_those_of_the_selection(synth: Synth) -> None:
    root = synth("spectra")
    with astropile.open(root, columns=["object_id", "z", "spectrum_flux"]) as ds:
        b = ds[:]
    keep = np.ma.filled(b["z"] > np.median(b["z"]), False)
    with astropile.open(root, columns=["spectrum_flux", "z"], where=f"z > {float(np.median(b['z']))!r}") as ds:
        m = ds.memmap("spectrum_flux")
        want = b["spectrum_flux"][keep]
        assert len(m) == len(want) == len(ds)
        np.testing.assert_array_equal(np.stack([m[i] for i in range(len(m))]), want)
        np.testing.assert_array_equal(ds[:]["spectrum_flux"], want)
        again = pickle.loads(pickle.dumps(ds))
        assert len(again) == len(ds)
        again.close()


def test_a_mix_keeps_its_proportions_and_resumes(synth: Synth, stars: Path) -> None:
    a = astropile.open(stars, columns=["object_id", "ra"], where="parallax > 1")
    b = astropile.open(stars, columns=["object_id", "ra"], where="parallax <= 1", limit=500)
    ours, others = set(ids(a)), set(ids(b))
    with astropile.mix({a: 0.7, b: 0.3}) as mixed:
        assert mixed.weights == (7, 3)
        assert len(mixed) == len(a) + len(b)
        loop = mixed.batches(100, shuffle=True, seed=2)
        with pytest.raises(TypeError):
            len(loop)
        sequence: list[str] = []
        for batch in loop:
            assert batch.source is not None
            for i, s in zip(batch["object_id"], batch.source, strict=True):
                assert i in (ours, others)[s]
            assert abs(int((batch.source == 0).sum()) - 70) <= 4
            sequence += list(batch["object_id"])
            if len(sequence) == 500:
                state = loop.state_dict()
            if len(sequence) == 1000:
                break
    with astropile.mix([(a, 7), (b, 3)]) as mixed:
        loop = mixed.batches(50, shuffle=True, seed=2)
        loop.load_state_dict(json.loads(json.dumps(state)))
        got: list[str] = []
        for batch in loop:
            got += list(batch["object_id"])
            if len(got) == 500:
                break
        assert got == sequence[500:]
    with astropile.mix({a: 1, b: 2}) as other, pytest.raises(astropile.StateError, match="weights"):
        other.batches(50, shuffle=True, seed=2).load_state_dict(state)
    with astropile.mix({a: 1, b: 1}, stop="first") as first:
        got = [i for batch in first.batches(64, shuffle=True) for i in batch["object_id"]]
        assert max(Counter(got).values()) == 1
        assert len(got) == len(set(got))
    c = astropile.open(synth("spectra"), columns=["object_id", "z"])
    with pytest.raises(astropile.DataError, match="ra"):
        astropile.mix({a: 1, c: 1})
    for ds in (a, b, c):
        ds.close()


def test_a_match_pairs_the_nearest_objects(synth: Synth, stars: Path) -> None:
    a = astropile.open(stars, columns=["object_id", "ra", "dec"], where="parallax > 1.5")
    b = astropile.open(stars, columns={"other": "object_id", "ra_b": "ra"}, sample=0.5)
    with astropile.match(a, b, radius=0.5) as pairs:
        both = set(ids(a)) & set(b[:]["other"])
        got = pairs[:]
        same = got["object_id"] == got["other"]
        assert both <= set(got["object_id"][same])
        assert list(pairs.schema) == ["object_id", "ra", "dec", "other", "ra_b"]
        shuffled = [
            (x, y)
            for batch in pairs.batches(100, shuffle=True)
            for x, y in zip(batch["object_id"], batch["other"], strict=True)
        ]
        assert Counter(shuffled) == Counter(zip(got["object_id"], got["other"], strict=True))
        with pytest.raises(astropile.NotMappedError):
            pairs.memmap("ra")
    with pytest.raises(astropile.DataError, match="rename"):
        astropile.match(a, a)
    a.close()
    b.close()


def test_columns_are_changed_on_the_way(synth: Synth) -> None:
    root = synth("images")
    with astropile.open(root) as ds:
        name = next(f.name for f in ds.schema.values() if f.kind == "tensor" and len(f.shape) == 3)
        whole = ds[:8][name]
    with astropile.open(
        root,
        columns={
            "x": astropile.column(name, bands=[2, 0], crop=32, subtract=[0.5, 1], divide=2, dtype="float16"),
            "y": astropile.column(name, dtype="bfloat16"),
            "z": name,
        },
    ) as ds:
        b = ds[:8]
        lo = (whole.shape[-1] - 32) // 2
        part = whole[:, [2, 0], lo : lo + 32, lo : lo + 32].astype("f8")
        want = ((part - np.array([0.5, 1])[None, :, None, None]) / 2).astype("f2")
        np.testing.assert_array_equal(b["x"], want)
        assert b["y"].dtype.itemsize == 2
        assert b["y"].shape == whole.shape
        np.testing.assert_array_equal(b["z"], whole)
        with pytest.raises(astropile.NotMappedError, match="changed"):
            ds.memmap("x")
    for bad in ({"bands": [9]}, {"crop": 10_000}, {"dtype": "int32"}, {"divide": 0.0}):
        with pytest.raises(astropile.DataError):
            astropile.open(root, columns={"x": astropile.column(name, **bad)})


def test_state_survives_a_feed_that_dies(stars: Path) -> None:
    import os
    import signal

    with astropile.open(stars, columns=["object_id"], limit=3000) as ds:
        whole = [i for b in ds.batches(100, shuffle=True, seed=1) for i in b["object_id"]]
        first = ds.batches(100, shuffle=True, seed=1)
        it = iter(first)
        next(it)
        state = copy.deepcopy(first.state_dict())
        loop = ds.batches(100, shuffle=True, seed=1)
        loop.load_state_dict(state)
        got: list[str] = []
        for k, b in enumerate(loop):
            got += list(b["object_id"])
            if k == 4:
                feed = ds._feed
                assert feed is not None
                os.kill(feed.process_id, signal.SIGKILL)
        assert got == whole[100:]
