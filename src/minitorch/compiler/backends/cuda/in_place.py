"""Parts of a whole that are computed where they belong. Enters: tasks in their order. Leaves: fewer tasks.

What is computed for others to read, and is a part of a whole too (the steps of a recurrence, all of which are wanted),
would be written twice, the second time by a kernel that only copies. Where such a part lies in one piece, it is put in
its place among the others at once, and everybody reads it there.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from minitorch.compiler.backends.cuda.arrangement import VECTOR_BYTES
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.words import Kernel
from minitorch.compiler.backends.interface import Task
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import surely_equal
from minitorch.compiler.schedule.groups import PLACE
from minitorch.compiler.schedule.schedule import Schedule


def in_place(tasks: list[Task], schedule: Schedule) -> list[Task]:
    """Return tasks without those that copy parts to their places. (No other order is known to be right.)"""
    places: dict[Value, tuple[Value, int]] = {}  # of a part: what it is a part of, and how many bytes into it
    kept = []
    for task in tasks:
        found = _copied(task, schedule)
        if found is None or found[0] in places:
            kept.append(task)
        else:
            part, whole, offset = found
            places[part] = whole, offset
    left_alone = {
        each
        for task in kept
        if not isinstance(task.kernel, (Kernel, LibraryProduct))
        for each in task.touches
    }
    if not left_alone.isdisjoint(places):
        return tasks
    return [_moved(task, places) for task in kept] if places else tasks


def _copied(task: Task, schedule: Schedule) -> tuple[Value, Value, int] | None:
    """Return which part a task copies into which whole, and how many bytes into it; None if it does anything else."""
    group = task.group
    if group.kind != "loop" or [member.primitive for member in group.members] != [PLACE]:
        return None
    (placed,) = group.members
    whole, axis, begin = (placed.attributes[name] for name in ("into", "axis", "begin"))
    part = placed.inputs[0]
    while part.primitive == "reshape" and part not in schedule.stored:
        part = part.inputs[0]
    if not surely_equal(whole.shape[:axis], (1,) * axis):
        return None
    offset = begin * math.prod(whole.shape[axis + 1 :]) * whole.dtype.itemsize
    is_computed = part in schedule.stored and schedule.needs_place(part)
    inputs = len(schedule.program.inputs)
    is_no_update = schedule.arguments.get(whole, inputs) >= inputs
    # (What a product makes may lie with gaps between its rows: then that is not what is read here.)
    is_read = part in task.touches and part.dtype == whole.dtype
    is_aligned = surely_equal(offset % VECTOR_BYTES, 0)
    return (part, whole, offset) if is_computed and is_no_update and is_read and is_aligned else None


def _moved(task: Task, places: dict[Value, tuple[Value, int]]) -> Task:
    """Return a task whose operands lie where they are told to."""
    if places.keys().isdisjoint(task.touches):
        return task

    def moved(operand: Any) -> Any:
        value, further = operand if isinstance(operand, tuple) else (operand, 0)
        if value not in places:
            return operand
        whole, offset = places[value]
        return moved((whole, offset + further))  # (which may be a part itself)

    def with_operands(kernel: Any) -> Any:
        given: dict[str, Any] = {"operands": list(map(moved, kernel.operands))}
        if getattr(kernel, "exact", None) is not None:
            given["exact"] = with_operands(kernel.exact)
        return dataclasses.replace(kernel, **given)

    touches = dict.fromkeys(moved((each, 0))[0] for each in task.touches)
    return dataclasses.replace(task, touches=list(touches), kernel=with_operands(task.kernel))
