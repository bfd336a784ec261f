"""Debug mode: before each collective, do all ranks mean the same one? Enters: what this rank is about to call.
Leaves: nothing; or, on all ranks, an error that says who means what.

`set_debug_level(DebugLevel.DETAIL)`, or TORCH_DISTRIBUTED_DEBUG=DETAIL as in PyTorch. Without it, ranks that call
different collectives are found out after some seconds of waiting (waiting.py), and different shapes only where MPI
notices them.
"""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING

import numpy as np

from minitorch.distributed import waiting
from minitorch.distributed.errors import DistBackendError

if TYPE_CHECKING:
    from minitorch.distributed.groups import ProcessGroup

_BYTES = 256  # of what each rank says


class DebugLevel(enum.IntEnum):
    """OFF, INFO, or DETAIL: every collective is agreed on before it begins."""

    OFF = 0
    INFO = 1
    DETAIL = 2


class _Level:
    level = DebugLevel[os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()]


def set_debug_level(level: DebugLevel) -> None:
    """Choose how much is checked; on all ranks alike."""
    _Level.level = DebugLevel(level)


def get_debug_level() -> DebugLevel:
    """Return how much is checked.

    >>> get_debug_level() in DebugLevel
    True
    """
    return _Level.level


def set_debug_level_from_env() -> None:
    """Choose what TORCH_DISTRIBUTED_DEBUG says."""
    _Level.level = DebugLevel[os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()]


def agree(group: ProcessGroup, kind: str, words: str, always: bool = False) -> None:
    """In debug mode, compare what all ranks are about to call; words: what must be the same, shape and dtype say.

    always: without debug mode too.
    """
    if (_Level.level < DebugLevel.DETAIL and not always) or group.size() == 1:
        return
    said = words.encode()[:_BYTES].ljust(_BYTES)
    mine = np.frombuffer(said, np.uint8).copy()
    all_of_them = np.empty((group.size(), _BYTES), np.uint8)
    request = group.checker.Iallgather(mine, all_of_them)
    others = [r for r in group.ranks if r != group.world.rank]
    call = waiting.Call(
        f"the check before {kind}", group.group_name, group.number, others, group.timeout, True
    )
    waiting.wait(group.world, request, call)
    heard = [bytes(row).decode(errors="replace").rstrip() for row in all_of_them]
    if len(set(heard)) == 1:
        return
    told = "; ".join(f"rank {r} calls {what}" for r, what in zip(group.ranks, heard, strict=True))
    raise DistBackendError(
        f"number {group.number + 1} of {group.group_name} is not the same collective on all ranks: {told}"
    )
