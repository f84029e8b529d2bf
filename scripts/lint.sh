#!/usr/bin/env bash
# Every check of style and types that needs no test to run. All of them run,
# whatever the first one says; the exit code tells whether all passed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
bad=0
check() { # check WHAT COMMAND...: prints what went wrong, or that nothing did
  local what=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "ok      $what"
  else
    bad=1
    printf '%s\nFAILED  %s\n' "$output" "$what" >&2
  fi
}

formatted() {
  local files
  files=$(git -c safe.directory='*' ls-files --cached --others --exclude-standard -- '*.go' |
    while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    xargs -r "$("$go" env GOROOT)/bin/gofmt" -l) || return 1
  [ -z "$files" ] || { echo "run gofmt -w on:"; echo "$files"; return 1; }
}

vet() { CGO_ENABLED=0 GOOS=linux GOARCH=$1 "$go" vet ./...; }

# Its own module pins staticcheck, so that the project's module stays lean.
staticchecked() {
  "$go" -C tools build -o ../.cache/staticcheck honnef.co/go/tools/cmd/staticcheck && .cache/staticcheck ./...
}

check gofmt formatted
check "go vet, amd64" vet amd64
check "go vet, arm64" vet arm64
check staticcheck staticchecked
if python=$(scripts/venv.sh test | tail -n 1) && [ -n "$python" ]; then
  check "ruff check" "$python" -m ruff check .
  check "ruff format" "$python" -m ruff format --check --diff .
  check mypy "$python" -m mypy
else
  echo "FAILED  no Python environment for ruff and mypy" >&2
  bad=1
fi
exit $bad
