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
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def find_rank(rank: Any = "auto", world_size: Any = None, env: Mapping[str, str] | None = None) -> Rank:
    """The rank given, or with "auto" what torch.distributed says, else the variables of a launcher, else 0 of 1.

    Raises ValueError for a rank outside of its world, and for variables that are no numbers or lack their other half.
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
    # A batch script, or a shell of salloc, is process 0 of a job of many tasks, but alone: srun started no step.
    alone = "SLURM_JOB_ID" in env and "SLURM_STEP_ID" not in env
    for a, b in _VARIABLES:
        if alone and a == "SLURM_PROCID":
            continue
        if a == "RANK" and (a in env) != (b in env):
            there, lacks = (a, b) if a in env else (b, a)
            raise ValueError(f"{there}={env[there]!r}, but {lacks} is not set; set both or neither, or give rank=")
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
