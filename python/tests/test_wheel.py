"""The wheel carries the program and belongs to its platform."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path / "out"), str(tmp_path / "python")], check=True)
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
