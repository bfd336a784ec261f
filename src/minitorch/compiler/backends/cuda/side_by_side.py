"""Small kernels that need not wait for each other as one. Enters: tasks in their order. Leaves: fewer tasks.

A GPU takes about a microsecond to go on from one kernel to the next, in which a small one would be done. Kernels of
which none reads or overwrites what another writes run as different blocks of one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from minitorch.compiler.backends.cuda.in_turn import MOST_OPERANDS
from minitorch.compiler.backends.cuda.lower import FAILED
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, SIZE, Kernel, Part
from minitorch.compiler.backends.interface import Task
from minitorch.compiler.ir.sizes import Size, typical
from minitorch.compiler.schedule.groups import PLACE, Group
from minitorch.compiler.schedule.memory import Scratch
from minitorch.compiler.schedule.schedule import Schedule

MOST_ELEMENTS = 1 << 19  # of a small kernel
MOST_THREADS = 1 << 18  # of all side by side
MOST_PARTS = 24
FAR = 48  # so many steps back, and
NEAR = 6  # so many ahead a kernel may be moved


@dataclass
class _Step:
    """Tasks that are done side by side; what they read and write, and whether others may join them."""

    tasks: list[Task]
    reads: set[Any]
    writes: set[Any]
    small: bool
    threads: int = 0
    alone: bool = field(default=False)  # a call, which nothing is moved across

    def meets(self, other: _Step) -> bool:
        """Whether one has to wait for the other."""
        return (
            self.alone
            or other.alone
            or not self.writes.isdisjoint(other.reads)
            or not other.writes.isdisjoint(self.reads)
            or not (self.writes - {FAILED}).isdisjoint(other.writes)  # (Checks all say the same.)
        )

    def has_room_for(self, other: _Step) -> bool:
        """Whether both are small enough to be one."""
        return (
            self.small
            and other.small
            and self.threads + other.threads <= MOST_THREADS
            and len(self.tasks) + len(other.tasks) <= MOST_PARTS
            and sum(len(task.kernel.operands) + 2 for task in (*self.tasks, *other.tasks)) <= MOST_OPERANDS
        )

    def join(self, other: _Step) -> None:
        """Take in another."""
        self.tasks += other.tasks
        self.reads |= other.reads
        self.writes |= other.writes
        self.threads += other.threads


def side_by_side(tasks: list[Task], schedule: Schedule) -> list[Task]:
    """Return tasks of which small ones that come to the same time are one."""
    steps: list[_Step] = []
    for task in tasks:
        step = _step(task, schedule)
        chosen = None
        for earlier in reversed(steps[-FAR:]) if step.small else ():
            if earlier.meets(step):
                break
            if earlier.has_room_for(step):
                chosen = earlier
        if chosen is None:
            steps.append(step)
        else:
            chosen.join(step)
    steps = _moved_ahead(steps)
    texts: dict[tuple[int, ...], Kernel] = {}
    return [step.tasks[0] if len(step.tasks) == 1 else _as_one(step.tasks, texts) for step in steps]


def _moved_ahead(steps: list[_Step]) -> list[_Step]:
    """Let small steps that nobody waits for join one that comes soon."""
    kept = []
    for place, step in enumerate(steps):
        for later in steps[place + 1 : place + 1 + NEAR] if step.small else ():
            if step.meets(later):
                kept.append(step)
                break
            if later.has_room_for(step):
                later.join(step)
                break
        else:
            kept.append(step)
    return kept


def _step(task: Task, schedule: Schedule) -> _Step:
    written = {member for member in task.group.members if member in schedule.stored}
    written |= {m.attributes["into"] for m in task.group.members if m.primitive == PLACE}
    reads, writes = set(), set()
    for thing in task.touches:
        # (An update lies where the input does that it replaces.)
        where = thing if isinstance(thing, Scratch) else schedule.arguments.get(thing, thing)  # type: ignore[call-overload]
        if isinstance(thing, Scratch) or thing in written:
            writes.add(where)
        reads.add(where)
    kernel = task.kernel
    if not isinstance(kernel, Kernel):
        return _Step([task], reads, writes, False, alone=kernel is None)
    flags = [operand[1] for operand in kernel.operands if isinstance(operand, tuple) and operand[0] == FAILED]
    if any(flags):
        writes.add(FAILED)
    elif flags:
        reads.add(FAILED)
    threads = typical(kernel.blocks) * kernel.threads
    few = typical(kernel.elements) <= MOST_ELEMENTS
    alone = bool(kernel.parts or kernel.variables)
    small = threads <= MOST_THREADS // 2 and few and not alone
    return _Step([task], reads, writes, small and kernel.shared <= SHARED_BYTES, threads)


def _as_one(tasks: list[Task], texts: dict[tuple[int, ...], Kernel]) -> Task:
    """Return tasks as one. texts: the kernels made so far; those of equal parts are one text."""
    kernels: list[Kernel] = [task.kernel for task in tasks]
    operands = [operand for kernel in kernels for operand in kernel.operands]
    key = tuple(id(kernel.items) for kernel in kernels)
    if key not in texts:
        parts, first, place = [], 0, 0
        for kernel in kernels:
            parts.append(Part(kernel, first, place))
            first += kernel.blocks
            place += len(kernel.operands)
        # Where the blocks of each begin, and how many there are, may vary.
        told = [n for part in parts for n in (part.block, part.kernel.blocks) if isinstance(n, Size)]
        sizes = [(SIZE, n) for n in dict.fromkeys(told)]
        texts[key] = Kernel(
            [],
            [*operands, *sizes],
            first,
            max(kernel.threads for kernel in kernels),
            max(kernel.shared for kernel in kernels),
            {name: text for kernel in kernels for name, text in kernel.externs.items()},
            sum(kernel.flops for kernel in kernels),
            f"{len(kernels)} kernels side by side, {typical(first)} blocks of threads",
            parts=tuple(parts),
            sizes=len(sizes),
        )
    made = texts[key]
    kernel = dataclasses.replace(made, operands=[*operands, *made.operands[len(operands) :]])
    group = Group(0, "loop", members=[m for task in tasks for m in task.group.members])
    touches = list(dict.fromkeys(thing for task in tasks for thing in task.touches))
    return Task(group, touches, kernel)
