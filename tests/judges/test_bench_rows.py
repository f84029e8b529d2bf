"""What benchmarks conclude from cells: the fastest of several, goals not to be passed, sums that no order changes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import loaders
import runner
import table
import workloads


def cell(tmp_path: Path, name: str, rates: list[float], **more: Any) -> runner.Cell:
    """A process that says it reached one rate after another."""
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(rates))
    said = {"rows": 1, "bytes": 1 << 40, "peak": 1, "seconds": [0.2], **more}
    code = (
        "import json, sys; f = sys.argv[1]; r = json.load(open(f)); json.dump(r[1:], open(f, 'w'));"
        f"print(json.dumps({{**{said}, 'gbs': r[0]}}))"
    )
    return runner.Cell((sys.executable, "-c", code, str(file)), ())


def run(tmp_path: Path, cells: dict[str, runner.Cell], rows: tuple[runner.Row, ...]) -> list[dict[str, Any]]:
    args = argparse.Namespace(only=[], repeats=3, seed=1, keep=True, out=tmp_path / "out")
    b = runner.Runner(tmp_path, tmp_path / "none", args, cells, rows, {}, floor=runner.Row("", 0.0, "", ""))
    b.measure()
    assert b.report("rows", {}, 0.0) == 0
    return json.loads((tmp_path / "out" / "rows.json").read_text())


def test_the_fastest_of_several_cells_counts_in_each_block(tmp_path: Path) -> None:
    cells = {
        "ours": cell(tmp_path, "ours", [6.0, 6.0, 6.0]),
        "a": cell(tmp_path, "a", [1.0, 3.0, 3.0]),
        "b": cell(tmp_path, "b", [2.0, 1.0, 1.0]),
    }
    (line,) = run(tmp_path, cells, (runner.Row("ours / any", 2.5, "ours", ("a", "b")),))
    assert line == {"name": "ours / any", "value": 2.0, "unit": "ratio", "at_least": 2.5, "ok": False, "fastest": "a"}


def test_a_goal_that_is_not_to_be_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = {"x": cell(tmp_path, "x", [1.0] * 3, h=1.2)}
    rows = (
        runner.Row("seconds", 0.0, "x", unit="s", at_most=0.5),
        runner.Row("ratio", 0.0, "x", unit="h", at_most=1.1),
    )
    seconds, ratio = run(tmp_path, cells, rows)
    assert (seconds["value"], seconds["at_most"], seconds["ok"]) == (0.2, 0.5, True)
    assert (ratio["value"], ratio["ok"]) == (1.2, False)
    said = capsys.readouterr().out
    assert "1 of 2 goals are met; missed:\n  ratio: 1.200, at most 1.1" in said


def test_a_line_without_valid_values_misses_its_goal() -> None:
    assert not table.line("x", 0.0, [], at_most=1.0)["ok"]
    assert not table.line("x", 0.5, [1.0], ["a: broken"])["ok"]


@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_sum_and_digest_see_every_value_and_no_order(name: str) -> None:
    w = workloads.WORKLOADS[name]
    rng = np.random.default_rng(0)
    rows = []
    for n in (3, 20, 1, 7, 11):
        shapes = {c.name: (n,) if c.ragged else c.shape for c in w.columns}
        rows.append({c.name: rng.integers(0, 2 if c.dtype == "bool" else 100, shapes[c.name]) for c in w.columns})
        rows[-1] = {c.name: np.asarray(rows[-1][c.name]).astype(c.dtype) for c in w.columns}

    def said(order: list[list[int]]) -> tuple[int, int]:
        args = argparse.Namespace(warm=0, limit=0.0)
        got = workloads.drain(args, w, lambda: (workloads.join([rows[i] for i in b], w) for b in order), check=True)
        assert got["rows"] == 5
        return got["sum"], got["digest"]

    first = said([[0, 1, 2], [3, 4]])
    assert said([[4, 2], [0], [3, 1]]) == first
    for c in w.columns:
        rows[3][c.name] = (
            (rows[3][c.name] + np.ones((), c.dtype)).astype(c.dtype) if c.dtype != "bool" else ~rows[3][c.name]
        )
        assert said([[0, 1, 2], [3, 4]])[1] != first[1], c.name
        first = said([[0, 1, 2], [3, 4]])


def test_peers_that_cannot_be_the_fastest_are_not_run_again(tmp_path: Path) -> None:
    rates = {"images-pyarrow": 4.0, "images-torch-memmap0": 2.1, "images-mds0": 0.5, "images-webdataset0": 0.2}
    names = tuple(rates)
    rows = (runner.Row("any", 0.0, "images", names), runner.Row("streaming", 0.0, "images", names[2:]))
    cells = dict.fromkeys((*names, "images"), runner.Cell(("false",), ()))
    args = argparse.Namespace(only=[], repeats=1, seed=1, keep=True, out=tmp_path)
    b = loaders.Bench(tmp_path, tmp_path, args, cells, rows, {}, floor=loaders.FLOOR)
    b.trials = {n: {"gbs": rate} for n, rate in rates.items()}
    assert b.chosen(b.group("images")) == ["images", "images-mds0", "images-pyarrow", "images-torch-memmap0"]


def test_every_cell_of_every_row_is_made(tmp_path: Path) -> None:
    args = argparse.Namespace(seed=1, threads=2, size="1GiB", go_batch=64, go_slots=3, limit=1.0)
    cells = loaders.cells(tmp_path, tmp_path / "astropile", args)
    assert {n for r in loaders.ROWS for n in r.cells} <= set(cells)
    made = set(loaders.prepare_loaders.formats())
    assert {need for c in cells.values() for need in c.needs} <= made
    assert {c.truth for c in cells.values()} - {""} == set(loaders.truths(tmp_path))
