"""The backend of eager ops on a GPU, and which is in use. Enters: a program. Leaves: its `Launches`.

Kernels are kept for as long as the same launcher is in use.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Collection, Mapping
from typing import Any

from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.capabilities import GPU_FIGURES, Gpu
from minitorch.compiler.backends.cuda.convolutions import Convolution, is_known, multiplications
from minitorch.compiler.backends.cuda.in_place import in_place
from minitorch.compiler.backends.cuda.side_by_side import side_by_side
from minitorch.compiler.backends.interface import Task, planned
from minitorch.compiler.call.launcher import Launcher
from minitorch.compiler.call.launches import Launches, ManySizes
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.schedule.groups import VIRTUAL
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

    def build(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> Any:
        """Return kernels of a program. A result that is another one reshaped is computed into an array of its shape."""
        outputs: list[Value] = []
        for i, output in enumerate(program.outputs):
            source = output
            while source.primitive == "reshape" and i not in updates:
                source = source.inputs[0]
            own = source.primitive not in (*VIRTUAL, "input", "constant") and source not in program.outputs
            outputs.append(source if own and source not in outputs else output)
        made = super().build(Program(program.inputs, outputs, program.guards), updates, numbers)
        return made.returning([o.shape for i, o in enumerate(program.outputs) if i not in updates])

    def convolves(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is a library's: it takes one launch."""
        large = multiplications(product, found) >= LEAST_CONVOLVED
        return large and is_known(product, found) and self.device.convolves

    def turns(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is to have its channels last: its arrays are given and wanted with channels first."""
        return False

    def link(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan) -> Any:
        """Return kernels as something that runs."""
        sizes_vary = bool(schedule.program.symbols)
        launched = in_place(tasks, schedule)
        # (Which parts of a whole kernels write is not known when they are put side by side; checks are told apart.)
        if len(launched) == len(tasks) and not sizes_vary and all(t.group.kind != "check" for t in tasks):
            launched = side_by_side(tasks, schedule)
        if len(launched) < len(tasks):
            plan = planned(launched, schedule, self.machine.figures.alignment)
        return (ManySizes if sizes_vary else Launches)(schedule, launched, plan, self.launcher)


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


def forget() -> None:
    """Let the backend be chosen anew, by whoever asks for it next."""
    _backends.clear()
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
