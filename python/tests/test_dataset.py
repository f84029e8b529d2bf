"""Real releases read by the real program, against the same shards read by pyarrow."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astropile

KINDS = ["images", "rgb", "spectra", "lightcurves", "table"]
Synth = Callable[[str], Path]


def by_pyarrow(root: Path) -> dict[str, list[Any]]:
    """All rows of the primary shards as Python values, sorted by id."""
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    name = next(p.parent.name for p in root.glob("*/hats.properties") if (p.parent / "releases").is_dir())
    files = sorted(root.glob(f"{name}/dataset/Norder=*/Dir=*/**/*.parquet"))
    tables = [pq.ParquetFile(f).read() for f in files]
    return pa.concat_tables(tables).sort_by("object_id").to_pydict()


def plain(value: Any) -> Any:
    """A row's value as pyarrow's ``to_pydict`` gives it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_equals_what_pyarrow_reads(synth: Synth, kind: str) -> None:
    root = synth(kind)
    want = by_pyarrow(root)
    with astropile.open(root) as ds:
        assert len(ds) == len(want["object_id"])
        seen: dict[str, dict[str, Any]] = {}
        for batch in ds.batches(64, shuffle=True, seed=3):
            step = max(1, batch.rows // 8)
            for i in range(0, batch.rows, step):
                row = batch.row(i)
                seen[str(row["object_id"])] = {k: plain(v) for k, v in row.items()}
        place = {str(v): i for i, v in enumerate(want["object_id"])}
        assert len(seen) > 5
        for key, row in seen.items():
            for column, value in row.items():
                assert same(value, want[column][place[key]]), (key, column)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_rows_and_maps_agree(synth: Synth, kind: str) -> None:
    with astropile.open(synth(kind)) as ds:
        ids = [str(x) for b in ds.batches(100) for x in b["object_id"]]
        assert len(set(ids)) == len(ds)
        for mode in (True, "rows"):
            shuffled = [str(x) for b in ds.batches(100, shuffle=mode, seed=1) for x in b["object_id"]]
            assert sorted(shuffled) == sorted(ids)
            assert shuffled != ids
        some = np.random.default_rng(0).choice(len(ds), 9, replace=False)
        batch = ds[some]
        assert [str(x) for x in batch["object_id"]] == [ids[i] for i in some]
        mapped = 0
        for name, field in ds.schema.items():
            try:
                m = ds.memmap(name)
            except astropile.NotMappedError as e:
                assert name in str(e)  # noqa: PT017
                continue
            mapped += field.kind == "tensor"
            assert np.array_equal(m[some], batch[name], equal_nan=field.dtype is not None and field.dtype.kind == "f")
        tensors = sum(f.kind == "tensor" for f in ds.schema.values())
        assert mapped > 0 or tensors == 0


def test_batches_of_images_are_page_aligned_views(synth: Synth) -> None:
    with astropile.open(synth("images"), columns={"flux": "image_array"}) as ds:
        for batch in ds.batches(16, shuffle=True):
            flux = batch["flux"]
            assert flux.shape == (batch.rows, 4, 96, 96)
            assert flux.dtype == np.float32
            assert not flux.flags.owndata
            assert flux.ctypes.data % 4096 == 0


def test_epochs_and_positions_make_the_order(synth: Synth) -> None:
    with astropile.open(synth("table"), columns=["object_id"]) as ds:

        def order(**more: Any) -> list[Any]:
            return [x for b in ds.batches(37, shuffle=True, **more) for x in b["object_id"]]

        first = order(seed=1)
        assert order(seed=1) == first
        assert order(seed=1, epoch=1) != first
        assert order(seed=1, position=37 * 3) == first[37 * 3 :]


def test_schema_and_releases_describe_the_root(synth: Synth) -> None:
    with astropile.open(synth("images")) as ds:
        assert ds.schema["image_array"].shape == (4, 96, 96)
        assert ds.schema["image_array"].dtype == np.float32
        (release,) = ds.releases
        assert (release.number, release.id, release.rows) == (1, ds.release_id, len(ds))
        assert len(release.id) == 64
        assert ds.threads >= 1
        assert ds.memory >= 16 << 20


def test_what_is_not_there_is_named(synth: Synth, tmp_path: Path) -> None:
    root = synth("table")
    with pytest.raises(astropile.DataError, match="nothing"):
        astropile.open(root, columns=["nothing"])
    with pytest.raises((astropile.DataError, astropile.MissingError), match="7"):
        astropile.open(root, release=7)
    with pytest.raises(astropile.MissingError, match="nowhere"):
        astropile.open(tmp_path / "nowhere")
    with pytest.raises(astropile.AstropileError, match=r"latest\.json"):
        astropile.open(tmp_path)


def test_the_hidden_verb_says_who_calls_it(synth: Synth) -> None:
    synth("table")
    from astropile import _binary

    p = subprocess.run([_binary.find(), "feed"], capture_output=True, text=True, check=False)
    assert p.returncode == 2
    assert "--fd" in p.stderr
