"""Finds the ``astropile`` program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ._errors import BinaryNotFoundError


def find() -> str:
    """Path of the program: ``$ASTROPILE_BIN``, else the one in the wheel, else the first on ``PATH``.

    Raises BinaryNotFoundError saying what was tried.
    """
    named = os.environ.get("ASTROPILE_BIN")
    if named:
        if os.access(named, os.X_OK) and os.path.isfile(named):
            return named
        raise BinaryNotFoundError(f"ASTROPILE_BIN={named} is not a program that can be run; correct it or unset it")
    own = Path(__file__).parent / "_bin" / "astropile"
    if os.access(own, os.X_OK):
        return str(own)
    found = _on_path()
    if found:
        return found
    raise BinaryNotFoundError(
        "the astropile program was not found: neither in the package "
        f"({own}) nor on PATH; build it with `make build` and set ASTROPILE_BIN=bin/astropile, or put it on PATH"
    )


def _on_path() -> str | None:
    """The first program on PATH that is not the command of this package, which would only start itself."""
    for folder in os.get_exec_path():
        found = shutil.which("astropile", path=folder or os.curdir)
        if found and not _is_own_command(found):
            return found
    return None


def _is_own_command(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            head = f.read(4096)
    except OSError:
        return False
    return head.startswith(b"#!") and b"astropile.__main__" in head
