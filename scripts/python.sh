#!/usr/bin/env bash
# Prints the path of the Python interpreter that environments are made with:
# $PYTHON when it is set, otherwise the first one on PATH that runs and is new
# enough. 3.11 and later come first, for current survey clients need them.
set -euo pipefail

minor() { "$1" -c 'import sys; print(sys.version_info[1] if sys.version_info[0] == 3 else 0)' 2>/dev/null || echo 0; }
full() { "$1" -c 'import os, sys; print(os.path.realpath(sys.executable))'; }

if [ -n "${PYTHON:-}" ]; then
  if [ "$(minor "$PYTHON")" -lt 10 ]; then
    echo "PYTHON=$PYTHON is no Python 3.10 or later; set PYTHON to one that is, or unset it" >&2
    exit 1
  fi
  full "$PYTHON"
  exit 0
fi

for least in 11 10; do
  for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
    if command -v "$name" >/dev/null && [ "$(minor "$name")" -ge "$least" ]; then
      full "$name"
      exit 0
    fi
  done
done
echo "no Python 3.10 or later on PATH: install one (3.11 or later is best), or set PYTHON to its path" >&2
exit 1
