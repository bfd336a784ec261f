"""A program ready for a backend. Enters: a Program. Leaves: a `Schedule`: groups in order, and what lies in memory.

Simplify, fuse, decide what is stored and what is computed again, which updates are made in place, and in which
order everything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Program, Value, evaluate
from minitorch.compiler.ir.simplify import simplify
from minitorch.compiler.ir.sizes import Binding, evaluated
from minitorch.compiler.schedule.fuse import Fuser, fuse_values
from minitorch.compiler.schedule.grouping import Grouping
from minitorch.compiler.schedule.groups import COPY, MAY_FAIL, PARTIAL, PLACE, VIRTUAL, Group
from minitorch.compiler.schedule.machine import Machine
from minitorch.compiler.schedule.order import in_running_order
from minitorch.compiler.schedule.repeated import without_repetition
from minitorch.compiler.schedule.report import BuildReport, value_in_words
from minitorch.compiler.schedule.stored import compute_again, stored_values
from minitorch.compiler.schedule.updates import place_updates


@dataclass
class Schedule:
    """What a backend is handed.

    program: simplified; every output is a value of its own. groups: in the order in which they run.
    stored: the computed values that lie in memory. Those in `arguments` lie in that argument of a call: first
        the inputs, in the program's order, then arrays for all outputs that are no updates; an update lies where
        the input does that it replaces. All others lie in the program's own memory.
    updates: {output: input}, by number. numbers: inputs that a call may give as Python floats.
    early: outputs, by number, that may be written by a run that is stopped. (No input is changed then.)
    """

    program: Program
    groups: list[Group]
    stored: set[Value]
    arguments: dict[Value, int]
    argument_count: int
    updates: Mapping[int, int]
    numbers: Collection[int]
    early: frozenset[int]
    report: BuildReport
    grouping: Grouping

    @property
    def may_fail(self) -> bool:
        """Whether a run may be stopped: by an index out of range, or an error of NumPy's."""
        return any(group.kind in MAY_FAIL for group in self.groups)

    def lies_in_memory(self, value: Value, reader: Group) -> bool:
        """Whether a group finds a value in memory; if not, it computes it from what the value is made of.

        A view that was written out for the sake of one group is there only for those that come after it.
        """
        if value in self.grouping.forced and not reader.comes_after(self.grouping.group_of[value]):
            return False
        return value in self.stored or value.primitive in ("input", "constant")

    def needs_place(self, value: Value) -> bool:
        """Whether a value that is touched needs a place in the program's own memory."""
        return value not in self.arguments and value.primitive != "constant"

    def passes(self, group: Group) -> dict[Value, int]:
        """Return after how many passes over a row each member of a group is known."""
        return self.grouping.passes(group)

    def is_read(self, value: Value) -> bool:
        """Whether any group reads a value."""
        return bool(self.grouping.readers.get(value))

    # --- what NumPy computes ----------------------------------------------------------------------------------

    def call_operands(self, group: Group) -> tuple[list[Value], list[Value]]:
        """Return what NumPy reads from memory to compute a group, and what it writes there."""
        members = set(group.members)
        given: dict[Value, None] = {}
        stack = [i for m in group.members for i in m.inputs]
        if group.check is not None:
            stack.append(group.check.indices)
        while stack:
            value = stack.pop()
            if value in members or value.primitive == "constant":
                continue
            if self.lies_in_memory(value, group):
                given[value] = None
            else:
                stack.extend(value.inputs)
        whole = [m.attributes["into"] for m in group.members if m.primitive == PLACE]
        written = dict.fromkeys([*(m for m in group.members if m in self.stored), *whole])
        return [v for v in given if v.size], list(written)


def call_numpy(
    group: Group,
    known: dict[Value, Any],
    binding: Binding | None = None,
    compute: Callable[..., Any] = evaluate,
) -> None:
    """Have NumPy compute the members of a group; `known` has what it reads, and gets what it computes.

    binding: what the sizes that vary are in this run. compute: in place of `evaluate`, where arrays lie elsewhere.
    """
    with np.errstate(all="ignore"):
        for value in group.members:
            known[value] = _compute(value, known, binding, compute)
        if group.check is not None:
            indices, bound = group.check
            found, length = _known(indices, known, binding, compute), evaluated(bound, binding or {})
            if bool(np.any((found < 0) | (found >= length))):
                raise IndexError(f"an index is outside of an axis of length {length}")


def _known(
    value: Value, known: dict[Value, Any], binding: Binding | None, compute: Callable[..., Any]
) -> Any:
    """Return what is known, or compute it from what is."""
    if value not in known:
        nothing = value.primitive == "input"  # one without elements, which nobody hands over
        known[value] = (
            np.empty(value.shape, value.dtype) if nothing else _compute(value, known, binding, compute)
        )
    return known[value]


def _compute(
    value: Value, known: dict[Value, Any], binding: Binding | None, compute: Callable[..., Any]
) -> Any:
    """Compute a value by NumPy, with the views between it and what is known."""
    inputs = [_known(operand, known, binding, compute) for operand in value.inputs]
    if value.primitive in (COPY, PLACE):
        return inputs[0]
    if value.primitive == PARTIAL:
        return _in_one_block(value, inputs[0], compute)
    return compute(value, inputs, binding)


def _in_one_block(value: Value, x: Any, compute: Callable[..., Any]) -> Any:
    """Compute a reduction in blocks: all of it in the first, and nothing that would count in the others."""
    function, blocks = value.attributes["function"], value.shape[0]
    reduce = Value("reduce", value.inputs, value.attributes, value.shape[1:], value.dtype)
    whole = compute(reduce, [x])
    rest = whole if function not in ("add", "multiply") else np.full_like(whole, function == "multiply")
    return np.stack([whole] + [rest] * (blocks - 1))


# --- making one ---------------------------------------------------------------------------------------------


def schedule_program(
    program: Program,
    machine: Machine,
    updates: Mapping[int, int],
    numbers: Collection[int] = (),
    fuse: bool = True,
) -> Schedule:
    """Schedule a program for a machine; updates, numbers: see `Schedule`."""
    report = BuildReport()
    program = simplify(program)
    if fuse:
        program = without_repetition(program, machine.figures.panel_bytes)
    program = _own_outputs(program)
    report.tick("simplify")
    fuser = fuse_values(program, machine, fuse)
    stored = stored_values(fuser)
    if fuse:
        compute_again(fuser, stored)
    report.tick("fuse")
    arguments: dict[Value, int] = {value: number for number, value in enumerate(program.inputs)}
    given = [value for number, value in enumerate(program.outputs) if number not in updates]
    arguments |= {v: number for number, v in enumerate(given, len(program.inputs)) if v.size}
    outputs = set(program.outputs)
    for value, replaced in place_updates(fuser, updates, stored).items():
        arguments[value] = arguments[replaced]
        if value not in outputs:
            report.copied.append(repr(value.inputs[0]))
    order = in_running_order(fuser, [v for v in stored if v not in arguments])
    _note_unfused(fuser, stored - outputs, report)
    schedule = Schedule(
        program,
        order,
        stored,
        arguments,
        len(program.inputs) + len(given),
        updates,
        numbers,
        _written_early(fuser, order, updates),
        report,
        fuser,
    )
    report.tick("order")
    return schedule


def _own_outputs(program: Program) -> Program:
    """Give every output a value of its own, made for it alone: inputs, constants, views and doubles are copied.

    (A view that is an output and is also read would otherwise be read back from where it is written to.)
    """
    seen: set[Value] = set()
    outputs = []
    for value in program.outputs:
        if value in seen or value.primitive in ("input", "constant") or value.primitive in VIRTUAL:
            value = Value(COPY, (value,), {}, value.shape, value.dtype)
        seen.add(value)
        outputs.append(value)
    return Program(program.inputs, outputs, program.guards)


def _written_early(fuser: Fuser, order: list[Group], updates: Mapping[int, int]) -> frozenset[int]:
    """Return which outputs may be written, in part or whole, before a run fails."""
    last = max((i for i, group in enumerate(order) if group.kind in MAY_FAIL), default=-1)
    makers = set(order[: last + 1])
    return frozenset(
        number
        for number, value in enumerate(fuser.program.outputs)
        # (What is joined is written by whoever makes the pieces.)
        if number not in updates
        and value.size
        and (fuser.group_of[value] in makers or (value.primitive == "concatenate" and makers))
    )


def _note_unfused(fuser: Fuser, stored: set[Value], report: BuildReport) -> None:
    """Say of each value that is written only to be read by another group why the two are not one."""
    for value in sorted(stored, key=lambda v: v.number):
        readers = [g for g in fuser.readers.get(value, ()) if g is not fuser.group_of[value]]
        if readers:
            reason = _why_unfused(fuser, value, readers)
            report.unfused.setdefault(reason, []).append(value_in_words(value))


def _why_unfused(fuser: Fuser, value: Value, readers: list[Group]) -> str:
    maker = fuser.group_of[value]
    if maker.kind == "call" or any(g.kind == "call" for g in readers):
        return "NumPy computes one of the two"
    if any(_is_factor(fuser, value, g) for g in readers):
        return "a product reads its factors from memory"
    if not maker.is_known_in_row(value):
        return "it is known only when all rows are done"
    if any(g.kind in ("scatter", "scan", "concatenate") for g in readers):
        return "a scatter, a running sum or a join reads it from memory"
    if len(readers) > 1:
        return "several kernels read it, and it costs more to compute than to read"
    different = "the two go through their elements in different ways, or would wait for each other"
    return fuser.apart.get(value, different)


def _is_factor(fuser: Fuser, value: Value, group: Group) -> bool:
    products = [m for m in group.members if m.primitive == "contract"]
    return any(value in fuser.leaf_values(operand) for m in products for operand in m.inputs)
