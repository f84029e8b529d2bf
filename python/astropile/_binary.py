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
    found = shutil.which("astropile")
    if found:
        return found
    raise BinaryNotFoundError(
        "the astropile program was not found: neither in the package "
        f"({own}) nor on PATH; build it with `make build` and set ASTROPILE_BIN=bin/astropile, or put it on PATH"
    )
