#!/usr/bin/env bash
# Says clearly what a machine lacks, before anything is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=0
lack() { echo "missing: $*" >&2; missing=1; }

needed=$(awk '$1 == "go" { print $2; exit }' go.mod)
go=${GO:-go}
if ! command -v "$go" >/dev/null; then
  lack "Go $needed or later (the command 'go' is not on PATH)"
elif ! have=$("$go" env GOVERSION 2>/dev/null) || [ -z "$have" ] ||
  [ "$(printf '%s\n' "$needed" "${have#go}" | sort -V | head -n 1)" != "$needed" ]; then
  lack "Go $needed or later; '$go' is $("$go" version 2>&1 | tail -n 1)"
fi
for tool in git flock sha256sum awk; do
  command -v "$tool" >/dev/null || lack "the command '$tool'"
done
python=$(scripts/python.sh) || missing=1
[ "$missing" -eq 0 ] || exit 1
echo "$("$go" version); $("$python" --version); $(nproc) processors"
