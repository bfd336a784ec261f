"""What a backend is. Enters: a recorded program. Leaves: an `Executable`, which runs it on arrays.

A new machine needs a `Machine` (what it computes, what that costs), `tasks` (scheduled groups as its kernels) and
`link` (kernels and a memory plan as something that runs): a `ScheduledBackend` of these is chosen by its name in
`compile(backend=…)` once `backends.register` knows it. With figures of its own it is handed other groups: products
alone, for a library, say; and what `Machine.computes` refuses goes to NumPy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.ir.sizes import Undecided, comparing_surely
from minitorch.compiler.schedule.groups import Contradiction, Group
from minitorch.compiler.schedule.machine import Machine
from minitorch.compiler.schedule.memory import MemoryPlan, Placed, plan_memory
from minitorch.compiler.schedule.report import BuildReport, group_in_words
from minitorch.compiler.schedule.schedule import Schedule, schedule_program


class Executable(Protocol):
    """A program that runs on a call's arrays, wherever it computes.

    updates: {output: input}: outputs that replace an input. numbers: inputs that may be given as Python floats.
    """

    updates: dict[int, int]
    numbers: frozenset[int]

    @property
    def may_fail(self) -> bool:
        """Whether a run may be stopped."""

    @property
    def report(self) -> BuildReport | None:
        """What became of the program, where there is something to tell."""

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it. Inputs that are updated change in place; returns the outputs, anything for updates.

        An index out of range raises IndexError, a function of NumPy's what it likes; no input is changed then.
        """

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run."""

    def measure(self, inputs: list[Any], runs: int) -> None:
        """Run it some times, and note in the report how long each step takes."""

    def text(self) -> str:
        """Return the code that runs, as text."""


class Backend(Protocol):
    """Makes programs run. sizes_may_vary: whether a program's sizes may (ir/sizes.py); if not, each has its own."""

    sizes_may_vary: bool

    def require(self) -> None:
        """Raise ImportError, and say what to install, if something is missing."""

    def compile(
        self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()
    ) -> Executable:
        """Return a program as something that runs (see `Executable` for updates and numbers)."""

    def made_again(self, program: Program) -> Collection[Value]:
        """Return the values that a program of gradients had better compute itself than be given by this one."""


@dataclass(frozen=True)
class Task:
    """One step of a scheduled program as a backend runs it.

    touches: what it reads or writes in memory, and its `Scratch` if it needs memory for itself.
    kernel: whatever the backend likes to keep for `link`.
    """

    group: Group
    touches: Sequence[Placed]
    kernel: Any = None


def tasks_of(
    schedule: Schedule,
    kernels_of: Callable[[Group], Sequence[Any] | None],
    touched: Callable[[Any], Sequence[Placed]],
) -> list[Task]:
    """Return the steps of all groups, in their order: their kernels, or, where there are none, a call back.

    kernels_of: a group's kernels, if it can have some. touched: what a kernel finds in memory.
    """
    tasks = []
    for group in schedule.groups:
        try:
            kernels = kernels_of(group) if group.kind != "call" else None
        except Undecided as why:  # code for all sizes would have to know more of them
            kernels = None
            schedule.report.undecided |= dict.fromkeys(group_in_words(group), str(why))
        if kernels is None:
            read, written = schedule.call_operands(group)
            tasks.append(Task(group, [*read, *written]))
        else:
            tasks += [Task(group, touched(kernel), kernel) for kernel in kernels]
    return tasks


def planned(tasks: list[Task], schedule: Schedule, alignment: int) -> MemoryPlan:
    """Return where what tasks compute on the way lies in memory, once their order is known."""
    touched = [
        [each for each in task.touches if not isinstance(each, Value) or schedule.needs_place(each)]
        for task in tasks
    ]
    return plan_memory(touched, alignment)


class ScheduledBackend(ABC):
    """A backend that is handed groups in their order and a memory plan; the rest of the way is the same for all.

    Where sizes may vary, what `link` makes runs at any: `MemoryPlan.at` says what lies where.
    """

    machine: Machine
    sizes_may_vary: bool = False
    fuse: bool = True  # False: every value by itself, to find out which room a mistake is in

    @abstractmethod
    def tasks(self, schedule: Schedule) -> list[Task]:
        """Return the steps of all groups, in their order."""

    @abstractmethod
    def link(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan) -> Any:
        """Return steps and the places of what they touch as one program, with the schedule's report filled in."""

    def made_again(self, program: Program) -> Collection[Value]:
        """Return the values that a program of gradients had better compute itself than be given by this one."""
        return ()

    def compile(
        self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()
    ) -> Executable:
        """Return a program as something that runs."""
        return self.build(program, updates, numbers)

    def build(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> Any:
        """Schedule a program, and return what `link` makes of it; if it cannot be fused, the report says why."""
        with comparing_surely(program.guards):
            return self._build_with_or_without(program, updates, numbers)

    def _build_with_or_without(
        self, program: Program, updates: Mapping[int, int], numbers: Collection[int]
    ) -> Any:
        try:
            return self._build(program, updates, numbers, self.fuse)
        except (Contradiction, Undecided) as problem:
            if not self.fuse:
                raise
            plain = self._build(program, updates, numbers, False)
            plain.report.unfused = {
                f"fusing the program failed ({problem}); please report this": ["everything"]
            }
            return plain

    def _build(
        self, program: Program, updates: Mapping[int, int], numbers: Collection[int], fuse: bool
    ) -> Any:
        schedule = schedule_program(program, self.machine, updates, numbers, fuse)
        report = schedule.report
        tasks = self.tasks(schedule)
        report.tick("write")
        plan = planned(tasks, schedule, self.machine.figures.alignment)
        report.arena, report.unshared = plan.size, plan.unshared
        report.tick("plan")
        return self.link(schedule, tasks, plan)
