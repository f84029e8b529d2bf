"""A feed of made-up rows for tests of the client, and small synthetic datasets read by the real program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import astropile
from astropile import _binary

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def testfeed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of internal/feed/testfeed, or a skip where it cannot be built."""
    given = os.environ.get("ASTROPILE_TESTFEED")
    if given:
        return given
    go = shutil.which(os.environ.get("GO", "go"))
    if go is None:
        pytest.skip("no Go to build the test feed with")
    out = tmp_path_factory.mktemp("bin") / "testfeed"
    subprocess.run(
        [go, "build", "-buildvcs=false", "-o", str(out), "./internal/feed/testfeed"],
        cwd=ROOT,
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return str(out)


@pytest.fixture
def made_up(testfeed: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., astropile.Dataset]]:
    """Opens made-up datasets: ``made_up(rows=1000, side=8, die_at=3, columns=[...])``."""
    monkeypatch.setenv("ASTROPILE_BIN", testfeed)
    opened: list[astropile.Dataset] = []

    def make(rows: int = 1000, side: int = 8, **more: object) -> astropile.Dataset:
        options = {k: more.pop(k) for k in ("columns", "memory", "strings", "threads") if k in more}
        ds = astropile.open(json.dumps({"rows": rows, "side": side, **more}), **options)  # type: ignore[arg-type]
        opened.append(ds)
        return ds

    yield make
    for ds in opened:
        ds.close()


@pytest.fixture(scope="session")
def synth(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Roots of small synthetic datasets by kind: images, rgb, spectra, lightcurves, table."""
    try:
        program = _binary.find()
    except astropile.BinaryNotFoundError as e:
        pytest.skip(str(e))
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            root = tmp_path_factory.mktemp("synth") / kind
            subprocess.run([program, "synth", str(root), "--kind", kind, "--size", "8MiB", "--seed", "1"], check=True)
            made[kind] = root
        return made[kind]

    return make
