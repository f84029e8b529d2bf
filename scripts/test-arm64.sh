#!/usr/bin/env bash
# The same bits on arm64: tests of the packages that compute with floats, and a synthetic release of every kind, whose id
# has to be the one that amd64 gives. Runs under qemu, which is installed where that can be done without asking.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${GO:=go}"
if [ "$(uname -m)" = aarch64 ]; then
  echo "this machine is arm64: make test-go runs these tests as they are"
  exit 0
fi

qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if [ -z "$qemu" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing qemu-user-static"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq qemu-user-static; } >/dev/null 2>&1 || true
  qemu=$(command -v qemu-aarch64-static || true)
fi
if [ -z "$qemu" ]; then
  echo "SKIPPED: no qemu-aarch64 here; install qemu-user-static to run the tests for arm64"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOOS=linux GOARCH=arm64 CGO_ENABLED=0
for package in sky order survey/synth catalog; do
  "$GO" test -c -o "$work/test" "./internal/$package"
  (cd "internal/$package" && "$qemu" "$work/test" -test.short -test.timeout 10m) | sed "s|^|internal/$package: |"
done

"$GO" build -trimpath -o "$work/astropile" ./cmd/astropile
for kind in images rgb spectra lightcurves table; do
  for program in bin/astropile "$qemu $work/astropile"; do
    rm -rf "$work/root"
    # shellcheck disable=SC2086 # the emulator is a word of its own
    $program synth "$work/root" --kind $kind --size 1MiB --seed 7 >>"$work/$kind"
  done
  if [ "$(sort -u "$work/$kind" | wc -l)" != 1 ]; then
    echo "FAILED: the synthetic release of $kind differs on arm64:"
    cat "$work/$kind"
    exit 1
  fi
  echo "the same on arm64: $(tail -n 1 "$work/$kind")"
done
