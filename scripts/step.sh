#!/usr/bin/env bash
# Usage: scripts/step.sh TITLE COMMAND...
#
# Runs one step of a longer run and says how long it took and how it ended.
set -uo pipefail
title=$1
shift
start=$SECONDS
echo "==> $title"
"$@"
code=$?
if [ $code -eq 0 ]; then
  echo "==> $title: ok, $((SECONDS - start)) s"
else
  echo "==> $title: FAILED (exit $code), $((SECONDS - start)) s" >&2
fi
exit $code
