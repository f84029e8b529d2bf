"""The wheel carries the program, gives the command, belongs to its platform, and leaves nothing in the source folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import astropile

HERE = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_an_installed_wheel_runs_its_own_program(testfeed: str, tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=False).returncode:
        pytest.skip("no venv module to install into")
    python = str(tmp_path / "venv" / "bin" / "python")
    shutil.copytree(
        HERE, tmp_path / "python", ignore=shutil.ignore_patterns("build", "*.egg-info", "_bin", "__pycache__")
    )
    (tmp_path / "bin").mkdir()
    shutil.copy2(testfeed, tmp_path / "bin" / "astropile")
    before = sorted((tmp_path / "python").rglob("*"))
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path / "out"), str(tmp_path / "python")], check=True)
    assert sorted((tmp_path / "python").rglob("*")) == before
    (wheel,) = (tmp_path / "out").iterdir()
    assert wheel.name.startswith("astropile-")
    assert "-py3-none-linux_" in wheel.name
    subprocess.run([*pip, "install", str(wheel)], check=True)
    code = """
import astropile
from astropile import _binary
assert "site-packages" in _binary.find(), _binary.find()
with astropile.open('{"rows": 10}') as ds:
    print(ds[3]["row"], len(ds))
"""
    env = {k: v for k, v in os.environ.items() if k not in ("ASTROPILE_BIN", "PYTHONPATH")}
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path, check=True)
    assert run.stdout.split() == ["3", "10"]

    command = tmp_path / "venv" / "bin" / "astropile"
    own = subprocess.run([command, "--help"], capture_output=True, text=True, env=env, check=False)
    program = subprocess.run([testfeed, "--help"], capture_output=True, text=True, env=env, check=False)
    assert (own.returncode, own.stderr.splitlines()[1:]) == (program.returncode, program.stderr.splitlines()[1:])
    # Without its program it must not take itself, which is on PATH, for one.
    (inside,) = (tmp_path / "venv").rglob("_bin/astropile")
    inside.unlink()
    env["PATH"] = f"{command.parent}:/usr/bin:/bin"
    gone = subprocess.run([command], capture_output=True, text=True, env=env, check=False, timeout=60)
    assert gone.returncode == 1
    assert "astropile program was not found" in gone.stderr


def test_the_module_runs_the_program_in_its_place(tmp_path: Path) -> None:
    program = tmp_path / "astropile"
    program.write_text('#!/bin/sh\necho "$$ $0 $*"\nexit 7\n')
    program.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(HERE), "ASTROPILE_BIN": str(program)}
    started = subprocess.Popen(
        [sys.executable, "-m", "astropile", "ls", "a b", "--json"], stdout=subprocess.PIPE, text=True, env=env
    )
    out, _ = started.communicate(timeout=60)
    assert started.returncode == 7
    assert out.split() == [str(started.pid), str(program), "ls", "a", "b", "--json"]
    run = [sys.executable, "-m", "astropile", "ls"]
    for bad in (str(tmp_path / "none"), str(tmp_path)):
        said = subprocess.run(run, capture_output=True, text=True, env={**env, "ASTROPILE_BIN": bad}, check=False)
        assert said.returncode == 1
        assert f"ASTROPILE_BIN={bad}" in said.stderr


def test_errors_name_a_program_that_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "other"
    monkeypatch.setenv("ASTROPILE_BIN", str(program))
    for text, says in (("#!/bin/sh\nexit 3\n", "exit code 3"), ("no program", "could not be started")):
        program.write_text(text)
        program.chmod(0o755)
        with pytest.raises(astropile.FeedError, match=says) as e:
            astropile.open("ROOT")
        assert f"{program} (as ASTROPILE_BIN names it)" in str(e.value)
