#!/usr/bin/env bash
# Runs the Python tests marked `torch`, in the environment that has torch and
# little else: only the files that use the mark are collected, since the others
# import clients that are not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$(scripts/venv.sh torch | tail -n 1)
mapfile -t files < <(grep -rlE 'mark\.torch\b' --include='test_*.py' python/tests tests 2>/dev/null | sort)
if [ "${#files[@]}" -eq 0 ]; then
  echo "no test under python/tests or tests carries the mark 'torch': nothing would be tested" >&2
  exit 1
fi
exec "$python" -m pytest -m torch "${files[@]}" "$@"
