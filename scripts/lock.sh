#!/usr/bin/env bash
# Usage: scripts/lock.sh [NAME...]
#
# Resolves requirements/NAME.in again, to the newest versions, into the lock
# file requirements/NAME.txt: one file for every supported Python and machine.
# Needs uv on PATH.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../requirements"
command -v uv >/dev/null || { echo "lock.sh needs uv on PATH" >&2; exit 1; }
if [ $# -eq 0 ]; then
  set -- test torch peers
fi
for name in "$@"; do
  new=$(mktemp)
  {
    echo "# Exact versions for requirements/$name.in, for every Python and machine. Made by scripts/lock.sh; do not edit."
    uv pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header --upgrade "$name.in"
  } >"$new"
  cat "$new" >"$name.txt"
  rm "$new"
  echo "requirements/$name.txt: $(grep -c '==' "$name.txt") lines"
done
