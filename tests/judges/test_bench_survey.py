"""make bench-survey on little data: its readers agree, and what does not agree gets no figure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(work: Path, binary: Path, *more: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """Exit code, table and cells."""
    only = [x for name in more for x in ("--only", name)]
    command = [sys.executable, str(ROOT / "bench" / "survey.py"), "--size", "4MiB", "--repeats", "2", *only, "--keep"]
    env = {**os.environ, "ASTROPILE_BIN": str(binary), "BENCH_DIR": str(work)}
    done = subprocess.run([*command, "--out", str(work / "out")], env=env, capture_output=True, text=True, check=False)
    assert (work / "out" / "survey.json").exists(), done.stderr
    return (
        done.returncode,
        json.loads((work / "out" / "survey.json").read_text()),
        json.loads((work / "out" / "survey-cells.json").read_text()),
    )


@pytest.mark.slow
def test_survey_cells_agree_with_their_peers_or_are_invalid(astropile_bin: Path, tmp_path: Path) -> None:
    names = ("hdf5-lzf", "hdf5-nbit", "fits-table", "fits-rice", "import-objects", "open-objects")
    code, lines, cells = run(tmp_path, astropile_bin, *names)
    assert code == 0, cells["invalid"]
    assert all(x["value"] > 0 and set(x) == {"name", "value", "unit", "at_least", "ok"} for x in lines)
    assert {x["unit"] for x in lines} == {"ratio", "MB/s", "MiB", "rows/s"}
    for name in (*names, "h5py-lzf", "astropy-table", "cp-objects"):
        assert [r["block"] for r in cells["cells"][name]] == [0, 1], name
    assert all(r["peak_anon"] > 0 for r in cells["cells"]["import-objects"])

    # A program that decodes something else.
    import h5py

    source, other = tmp_path / "surveys" / "lzf.hdf5", tmp_path / "other.hdf5"
    shutil.copy(source, other)
    with h5py.File(other, "r+") as f:
        f["image_array"][0, 0, 0, 0] += 1
    program = tmp_path / "liar"
    program.write_text(f'#!/bin/sh\nexec "{astropile_bin}" $(echo "$@" | sed s,surveys/lzf.hdf5,other.hdf5,)\n')
    program.chmod(0o755)
    code, lines, cells = run(tmp_path, program, "hdf5-lzf")
    assert code == 1
    assert [x["value"] for x in lines] == [None]
    assert not lines[0]["ok"]
    assert "digest of the values differ from what h5py gives" in cells["invalid"]["hdf5-lzf"]
