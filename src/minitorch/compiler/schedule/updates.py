"""Updates of inputs, in place. Enters: groups, and outputs that replace inputs. Leaves: who writes over an input.

A run that fails must leave its inputs as they were. So whatever can fail comes before the first update; what has
to be known earlier than that, or while others still read the old value, is computed beside its input and copied
there in the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from minitorch.compiler.ir.program import Value
from minitorch.compiler.schedule.fuse import Fuser
from minitorch.compiler.schedule.grouping import Grouping
from minitorch.compiler.schedule.groups import COPY, MAY_FAIL, Obstacle


def place_updates(fuser: Fuser, updates: Mapping[int, int], stored: set[Value]) -> dict[Value, Value]:
    """Return {value: the input it is written over}, having added copies where it cannot be the output itself.

    updates: {output: input}, by number. Copies, and what they copy, are added to `stored`.
    """
    program = fuser.program
    failing = [g for g in fuser.groups if g.kind in MAY_FAIL]
    written: dict[Value, Value] = {}
    for number, value in enumerate(program.outputs):
        if number not in updates or not value.size:
            continue
        source = program.inputs[updates[number]]
        writer = fuser.group_of[value]
        too_early = writer.kind in MAY_FAIL or any(g.comes_after(writer) for g in failing)
        if too_early or not _in_place(fuser, value, source):
            value = Value(COPY, (value,), {}, value.shape, value.dtype)
            writer = fuser.begin_map(value, alone=True)
            stored.update((value, *value.inputs))
        for reader in fuser.readers.get(source, ()):
            if reader is not writer:
                fuser.after(writer, reader)
        for group in failing:
            fuser.after(writer, group)
        written[value] = source
    return written


def _in_place(grouping: Grouping, value: Value, source: Value) -> bool:
    """Whether a result may be written over an input as soon as it is known."""
    writer = grouping.group_of[value]
    readers = grouping.readers.get(source, ())
    if value.primitive == "concatenate":  # written by several groups
        return False
    if any(reader is not writer and reader.comes_after(writer) for reader in readers):
        return False
    if writer not in readers:
        return True
    if writer.kind not in ("loop", "contract") or not writer.is_known_in_row(value):
        return False
    index = writer.index[value]
    passes = grouping.passes(writer)
    if writer.inner is not None and writer.level(index) == "row":
        if not grouping.machine.figures.keeps_rows and any(
            member is not value and value in grouping.made_of(writer, member) for member in writer.members
        ):
            return False  # who computes the value once more would find the new one
        made_of = grouping.made_of(writer, value)  # read before the value is known, and kept for the row
    elif passes[value] < max(passes.values()):  # a later pass would find the new numbers
        return False
    else:
        made_of = set(writer.members)
    for member in writer.members:
        if member.primitive == "gather" and grouping.gather_source(member) is source:
            return False
        if member.primitive == "contract":
            if any(source in grouping.leaf_values(o, writer) for o in member.inputs):
                return False
            continue
        for read in grouping.member_leaves(writer, member, writer):
            if isinstance(read, Obstacle):
                return False
            in_place = read.where == index and source.shape == value.shape and not read.conditional
            if read.value is source and not (in_place and member in made_of):
                return False
    return True
