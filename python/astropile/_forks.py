"""What happens to feeds, sessions and datasets when the process forks."""

from __future__ import annotations

import os
import weakref
from typing import Any

_objects: weakref.WeakSet[Any] = weakref.WeakSet()


def register(thing: object) -> None:
    """Calls the methods ``before_fork``, ``after_fork_in_parent``, ``after_fork_in_child`` of the object, where it has them."""
    _objects.add(thing)


def _call(method: str) -> None:
    for thing in list(_objects):
        call = getattr(thing, method, None)
        if call is not None:
            call()


def _in_child() -> None:
    _call("after_fork_in_child")
    _objects.clear()


os.register_at_fork(
    before=lambda: _call("before_fork"),
    after_in_parent=lambda: _call("after_fork_in_parent"),
    after_in_child=_in_child,
)
