"""Checkpoints of streams: small dicts that JSON can hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ._errors import StateError


def moved(state: Mapping[str, Any], epoch: int, position: int) -> dict[str, Any]:
    """The state of the same order at another place, sealed."""
    out = {k: v for k, v in state.items() if k != "hash"}
    out["epoch"], out["position"] = epoch, position
    text = json.dumps(out, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    out["hash"] = hashlib.sha256(text.encode()).hexdigest()
    return out


def place(state: Mapping[str, Any]) -> tuple[int, int]:
    """Epoch and position of a state."""
    try:
        return int(state["epoch"]), int(state["position"])
    except (KeyError, TypeError, ValueError) as e:
        raise StateError(f"this is no state of a stream: {e!r} is missing or no number") from e
