"""The command ``astropile``, as pip installs it, and ``python -m astropile``: become the program."""

from __future__ import annotations

import os
import sys

from . import _binary
from ._errors import BinaryNotFoundError


def main() -> int:
    """Starts the program that reading would start, in this process's place. Returns only where there is none."""
    try:
        program = _binary.find()
    except BinaryNotFoundError as e:
        print(f"astropile: {e}", file=sys.stderr)
        return 1
    try:
        os.execv(program, ["astropile", *sys.argv[1:]])
    except OSError as e:
        print(f"astropile: {program} could not be started: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
