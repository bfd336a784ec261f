"""The backend of eager ops on a GPU, and which is in use. Enters: a program. Leaves: its `Launches`.

Kernels are kept for as long as the same launcher is in use.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from typing import Any

from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.capabilities import GPU_FIGURES, Gpu
from minitorch.compiler.backends.cuda.convolutions import Convolution, is_known, multiplications
from minitorch.compiler.backends.cuda.in_place import in_place
from minitorch.compiler.backends.interface import Task
from minitorch.compiler.call.launcher import Launcher
from minitorch.compiler.call.launches import Launches, ManySizes
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.compiler.ir.program import Value
from minitorch.compiler.schedule.memory import MemoryPlan
from minitorch.compiler.schedule.schedule import Schedule
from minitorch.ops.op import OPS, UNLISTED

CALLS = 3  # of one kind, before a kernel is made for it
MOST_NOTED = 1024  # functions, with their numbers and lengths, of which is known how often they were met
MOST_SHAPES = 64  # that kernels of one function are made for
LEAST_CONVOLVED = 1 << 20  # multiplications of a library's convolution: below, its call takes longer
making = threading.Lock()  # held while kernels are made


class EagerBackend(CudaBackend):
    """The backend for GPUs, whose programs are launched kernel by kernel: one more takes longer than a larger block."""

    # To launch another kernel takes longer than that one block goes through a few rows more.
    machine = Gpu(dataclasses.replace(GPU_FIGURES, rows_of_a_block=64, joins_readers=True))

    def __init__(self, launcher: Any) -> None:
        super().__init__(launcher.device)
        self.launcher = launcher

    @functools.cached_property
    def by_values(self) -> Elsewhere:
        """What computes values one by one, by kernels that know no lengths."""
        return self.launcher.computing()

    def convolves(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is a library's: it takes one launch."""
        large = multiplications(product, found) >= LEAST_CONVOLVED
        return large and is_known(product, found) and self.device.convolves

    def turns(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is to have its channels last: its arrays are given and wanted with channels first."""
        return False

    def tasks(self, schedule: Schedule) -> list[Task]:
        """Return the steps of all groups, in the order in which they are launched."""
        return in_place(super().tasks(schedule), schedule)

    def link(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan) -> Any:
        """Return kernels as something that runs."""
        if schedule.program.symbols:
            return ManySizes(schedule, tasks, plan, self.launcher)
        return Launches(schedule, tasks, plan, self.launcher)


_backends: list[EagerBackend] = []
_kept: list[dict[Any, Any]] = []


def kept(empty: dict[Any, Any] | None = None) -> dict[Any, Any]:
    """Return a dict (this one) for what is made for the launcher in use: it is emptied when another one is chosen."""
    _kept.append({} if empty is None else empty)
    return _kept[-1]


class Lately(dict[Any, Any]):
    """What was noted lately, of functions that may come with other numbers, or lengths, at every call."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= MOST_NOTED and key not in self:
            del self[
                next((old for old, each in self.items() if not getattr(each, "many", None)), next(iter(self)))
            ]
        super().__setitem__(key, value)


def is_due(met: int) -> bool:
    """Tell whether something was met often enough for a kernel to be made for it."""
    return met >= CALLS


def use(launcher: Any) -> None:
    """Choose what kernels are launched by, from now on: a GPU, unless somebody says otherwise."""
    _backends[:] = [EagerBackend(launcher)]
    if launcher.finder is not None:
        for op in (*OPS.values(), *UNLISTED):
            op.shorten(launcher.finder.shortcut)
    for each in _kept:
        each.clear()


def in_use() -> EagerBackend | None:
    """Return the backend; None if there is no GPU, or what it takes is not installed."""
    if not _backends:
        try:
            use(Launcher())
        except (ImportError, RuntimeError):
            return None
    return _backends[0]
