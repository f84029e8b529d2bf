#!/usr/bin/env bash
# Usage: scripts/venv.sh NAME
#
# Makes, once, the virtual environment that requirements/NAME.txt pins, and
# prints its interpreter's path as the only line on stdout. What is being done
# goes to stderr. Environments live in the cache folder, one for each lock and
# Python version, so that a clean checkout finds them again.
#
# ASTROPILE_CACHE moves the cache; PYTHON chooses the interpreter.
set -euo pipefail

name=${1:?usage: scripts/venv.sh NAME, where requirements/NAME.txt exists}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
lock=$root/requirements/$name.txt
if [ ! -f "$lock" ]; then
  echo "no lock file requirements/$name.txt; there are: $(cd "$root/requirements" && echo *.txt)" >&2
  exit 1
fi

say() { echo "venv $name: $*" >&2; }

python=$("$root/scripts/python.sh")
version=$("$python" -c 'import platform; print(platform.python_version(), platform.machine())')
key=$({ cat "$lock"; echo "$version"; } | sha256sum | cut -c1-12)
folder=${ASTROPILE_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or ASTROPILE_CACHE}/.cache}/astropile}/venv
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
venv=$folder/$name-$key

# The marker is written last. It also names the interpreter, since a base
# Python that was removed leaves a virtual environment that looks whole.
complete() { [ -f "$venv/.complete" ] && "$venv/bin/python" -c '' 2>/dev/null; }

create() { # create FOLDER: an empty environment with pip
  rm -rf "$1"
  if ! "$python" -m venv "$1" >&2; then
    rm -rf "$1"
    say "$python cannot make virtual environments; install its venv module (package python3-venv on Debian and Ubuntu)"
    exit 1
  fi
}

# uv installs several times faster than pip. It is used when it is there or can
# be had. The caller tests the result, which turns errexit off in here.
find_uv() {
  if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then
    command -v uv
    return
  fi
  local own
  own=$folder/uv-$({ cat "$root/requirements/uv.txt"; echo "$version"; } | sha256sum | cut -c1-12)
  (
    flock 8
    if [ ! -f "$own/.complete" ] || ! "$own/bin/uv" --version >/dev/null 2>&1; then
      create "$own" &&
        "$own/bin/python" -m pip install --quiet --requirement "$root/requirements/uv.txt" >&2 &&
        "$own/bin/uv" --version >/dev/null &&
        touch "$own/.complete"
    fi
  ) 8>"$own.lock" || return 1
  echo "$own/bin/uv"
}

if ! complete; then
  (
    # A second caller waits here, then finds the work done.
    if ! flock -n 9; then
      say "another process is making it; waiting"
      flock 9
    fi
    if ! complete; then
      say "installing $(grep -c '==' "$lock") pinned packages for Python $version into $venv"
      create "$venv"
      installed=no
      if uv=$(find_uv); then
        if "$uv" pip install --python "$venv/bin/python" --requirement "$lock" >&2; then
          installed=yes
        else
          say "uv could not install them; trying pip"
        fi
      else
        say "uv cannot be had here; using pip"
      fi
      if [ "$installed" = no ]; then
        "$venv/bin/python" -m pip install --quiet --requirement "$lock" >&2
      fi
      touch "$venv/.complete"
      say "ready"
    fi
  ) 9>"$venv.lock"
fi

echo "$venv/bin/python"
