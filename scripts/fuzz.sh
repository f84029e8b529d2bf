#!/usr/bin/env bash
# Usage: scripts/fuzz.sh [SECONDS] [PACKAGE...]
#
# Runs every fuzz target of the packages (all, unless some are named) for SECONDS each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-10}
shift || true
if [ $# -eq 0 ]; then
  set -- ./...
fi
go=${GO:-go}
ran=0
failed=()
while IFS=' ' read -r package folder; do
  while read -r target; do
    ran=$((ran + 1))
    echo "==> $package $target, $seconds s"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzzminimizetime 20x -fuzztime "${seconds}s" "$package" </dev/null || failed+=("$package $target")
  done < <(find "$folder" -maxdepth 1 -name '*_test.go' -exec sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' {} + | sort -u)
done < <("$go" list -f '{{.ImportPath}} {{.Dir}}' "$@")

echo "$ran fuzz targets, ${#failed[@]} failed"
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
