#!/usr/bin/env bash
# From survey files to batches, on a survey made up on the spot. Leaves demo/ behind: the survey, its releases, and
# demo/galaxies.png for a person to look at. Called by `make demo`, which sets ASTROPILE_BIN and ASTROPILE_PYTHON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${ASTROPILE_BIN:?run this through make demo}" "${ASTROPILE_PYTHON:?run this through make demo}"
export ASTROPILE_BIN PYTHONPATH=$PWD/python
start=$SECONDS
say() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - start)); }

rm -rf demo
mkdir -p demo
say "make up a survey: galaxies, spectra, supernovae, cubes, as HDF5"
"$ASTROPILE_PYTHON" scripts/demo_survey.py demo/survey
du -sh demo/survey/*

cat > demo/CITATION.txt <<'TEXT'
The astropile demo survey, made up by scripts/demo_survey.py.
TEXT
say "what import will make of the supernovae"
"$ASTROPILE_BIN" inspect demo/survey/supernovae
for name in galaxies spectra supernovae cubes; do
  say "import and release $name"
  "$ASTROPILE_BIN" import demo/survey/$name --into demo/releases/$name
  "$ASTROPILE_BIN" release demo/releases/$name -m "First release" --licence CC0-1.0 --citation demo/CITATION.txt
done
say "verify every byte"
for name in galaxies spectra supernovae cubes; do
  "$ASTROPILE_BIN" verify demo/releases/$name --deep
done
"$ASTROPILE_BIN" info demo/releases

say "stream, in Go alone, beside what the disk can give"
"$ASTROPILE_BIN" stream demo/releases/galaxies --columns image_array --shuffle
say "train, in Python"
"$ASTROPILE_PYTHON" scripts/demo_train.py demo/releases --sheet demo/galaxies.png
say "done: look at demo/galaxies.png"
