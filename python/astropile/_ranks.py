"""Which part of a job this process is."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple


class Rank(NamedTuple):
    """A process of a job: number ``rank`` of ``world_size``, from 0."""

    rank: int
    world_size: int


# Pairs of variables that launchers set, the more specific first.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun, accelerate, deepspeed
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def find_rank(rank: Any = "auto", world_size: Any = None, env: Mapping[str, str] | None = None) -> Rank:
    """The rank given, or with "auto" what torch.distributed says, else the variables of a launcher, else 0 of 1.

    Raises ValueError for a rank outside of its world, and for variables that are no numbers.
    """
    if rank == "auto":
        if world_size is not None:
            raise ValueError('give both rank and world_size, or rank="auto" alone')
        return _from_torch() or _from_environment(os.environ if env is None else env) or Rank(0, 1)
    if rank is None or world_size is None:
        raise ValueError('give both rank and world_size, or rank="auto"')
    found = Rank(operator.index(rank), operator.index(world_size))
    if not 0 <= found.rank < found.world_size:
        raise ValueError(f"rank={found.rank} of world_size={found.world_size}; ranks count from 0")
    return found


def _from_torch() -> Rank | None:
    torch = sys.modules.get("torch")  # not imported for this: who has not imported it has no process group
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())


def _from_environment(env: Mapping[str, str]) -> Rank | None:
    for a, b in _VARIABLES:
        if a in env and b in env:
            try:
                found = Rank(int(env[a]), int(env[b]))
            except ValueError:
                raise ValueError(
                    f"{a}={env[a]!r}, {b}={env[b]!r}: these have to be numbers; correct or unset them"
                ) from None
            if not 0 <= found.rank < found.world_size:
                raise ValueError(f"{a}={env[a]}, {b}={env[b]}: ranks count from 0 to {b} - 1; correct or unset them")
            return found
    return None
