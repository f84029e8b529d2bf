"""The loop that docs/python.md shows to those who use neither torch nor anything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import astropile

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_loop_for_numpy_runs_as_it_stands(synth: Callable[[str], Path]) -> None:
    after = GUIDE.read_text().split("Nothing but NumPy is needed", 1)[1]
    code = after.split("```python\n", 1)[1].split("```", 1)[0]
    with astropile.open(synth("images")) as ds:
        names: dict[str, Any] = {"np": np, "ds": ds}
        exec(compile(code, str(GUIDE), "exec"), names)
    assert names["weights"].shape == (2,)
    assert np.isfinite(names["weights"]).all()
    assert names["weights"].any()
