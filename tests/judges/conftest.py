"""Fixtures of the judges: other people's programs, run on what this one wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


class CommandError(AssertionError):
    """A command of astropile ended with an exit code other than the one expected."""


@pytest.fixture(scope="session")
def astropile_bin() -> Path:
    """Path of the binary under test: ASTROPILE_BIN, bin/astropile or the one on PATH."""
    given = os.environ.get("ASTROPILE_BIN")
    if given:
        path = Path(given)
        if not path.is_absolute():
            path = ROOT / path
        if not os.access(path, os.X_OK):
            pytest.fail(f"ASTROPILE_BIN={given} is not a program; run `make build`")
        return path
    built = ROOT / "bin" / "astropile"
    if os.access(built, os.X_OK):
        return built
    found = shutil.which("astropile")
    if found:
        return Path(found)
    pytest.fail("no astropile to test: run `make build`, or set ASTROPILE_BIN")


@pytest.fixture(scope="session")
def astropile(astropile_bin: Path) -> Run:
    """Run the binary: `astropile("import", source, "--into", root)`.

    Arguments are turned into text. Returns the completed process, with `stdout` and
    `stderr` as text. Raises CommandError with both when the exit code is not `code`
    (0 unless given), and subprocess.TimeoutExpired after `timeout` seconds.
    """

    def run(
        *args: object,
        code: int = 0,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        command = [str(astropile_bin), *map(str, args)]
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != code:
            raise CommandError(
                f"{' '.join(command)}\nexit code {done.returncode}, expected {code}\n"
                f"stdout:\n{done.stdout}\nstderr:\n{done.stderr}"
            )
        return done

    return run


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real survey files: ASTROPILE_SHARED, or ../shared/data beside the project."""
    given = os.environ.get("ASTROPILE_SHARED")
    path = Path(given) if given else ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no real survey files: {path} is not a folder (ASTROPILE_SHARED names another)")
    return path
