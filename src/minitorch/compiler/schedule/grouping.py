"""Which value is in which group, and what each reads. Enters: values. Leaves: what has to be known to compute them.

What is read is found by carrying an index back through views, down to leaves: values that some group computes, or
that are given. A view on the way that cannot be gone through is an obstacle, and comes in place of what lies below.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch.compiler.ir.index import Condition, Index, Inexpressible, Split, through
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.schedule.groups import VIRTUAL, Check, Group, Obstacle, Read
from minitorch.compiler.schedule.machine import Machine


class Grouping:
    """The groups of a program, while they grow and afterwards.

    group_of: who computes a value. readers: the groups that need a value another computes. checks: the groups
    that look at indices. forced: views that are written out. inlined: values that each reader computes for itself;
    numbers: those of them that are made of sizes alone.
    """

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        self.groups: list[Group] = []
        self.made: list[Group] = []  # by number: with those that others have taken in
        self.group_of: dict[Value, Group] = {}
        self.readers: dict[Value, list[Group]] = {}
        self.checks: dict[Check, Group] = {}
        self.forced: set[Value] = set()
        self.inlined: set[Value] = set()
        self.numbers: set[Value] = set()

    # --- what is read, and where ------------------------------------------------------------------------------

    def is_leaf(self, value: Value, reader: Group | None = None) -> bool:
        """Whether a value is computed by a group, or given, and not just another look at one.

        reader: the group that looks. A view that was written out for another group's sake is there only for those
        that come after it; members placed before that look through it as they did.
        """
        if value.primitive in VIRTUAL:
            if value not in self.forced or reader is None:
                return value in self.forced
            maker = self.group_of.get(value)
            return maker is not None and reader.comes_after(maker)
        return value not in self.inlined

    def leaves(
        self,
        value: Value,
        index: Index,
        beside: Group | None,
        conditional: bool = False,
        reader: Group | None = None,
    ) -> Iterator[Read | Obstacle]:
        """Yield what has to be known for one element of a value, or what stands in the way of knowing it.

        beside: the group in which it is to be known; what others compute may be read through a reshape as memory.
        """
        if is_number(value):
            return
        if self.is_leaf(value, reader) or (
            reader is not None and value in self.forced and reader.index.get(value) == index
        ):
            yield Read(value, index, conditional)
            return
        if value.primitive in ("iota", "size"):
            return
        if value.primitive == "map":
            for operand in value.inputs:
                yield from self.leaves(operand, index, beside, conditional, reader)
            return
        if value.primitive == "reshape":
            below = value.inputs[0]
            while below.primitive == "reshape" and not self.is_leaf(below, reader):
                below = below.inputs[0]
            elsewhere = beside is None or self.group_of.get(below) is not beside
            if elsewhere and self.is_leaf(below, reader) and not is_number(below):
                yield Read(below, None, conditional)
                return
        yield from self._below(value, index, beside, conditional, reader)

    def _below(
        self, view: Value, index: Index, beside: Group | None, conditional: bool, reader: Group | None
    ) -> Iterator[Read | Obstacle]:
        """Yield what has to be known for one element of a view."""
        carried = carry_back(view, index)
        if isinstance(carried, Obstacle):
            yield carried
            return
        before, conditions = carried
        yield from self.leaves(view.inputs[0], before, beside, conditional or bool(conditions), reader)

    def operand_leaves(
        self, value: Value, index: Index, beside: Group | None, reader: Group | None = None
    ) -> Iterator[Read | Obstacle]:
        """Yield what has to be known for one element of a value that is to be computed."""
        if value.primitive in VIRTUAL:  # a view that is copied
            if value.inputs:
                yield from self._below(value, index, beside, False, reader)
        elif value.primitive == "gather":
            axis, places = value.attributes["axis"], value.inputs[1]
            if not is_checked_index(value):
                yield Read(self.gather_source(value), None, True)
            yield from self.leaves(places, index[axis : axis + places.ndim], beside, reader=reader)
        else:
            for operand in value.inputs:
                yield from self.leaves(operand, index, beside, reader=reader)

    def member_leaves(self, group: Group, member: Value, beside: Group | None) -> Iterator[Read | Obstacle]:
        """Yield what a member (that is no product) needs for one place of its group."""
        if member in group.source:
            return self.leaves(member.inputs[0], group.source[member], beside, reader=group)
        return self.operand_leaves(member, group.index[member], beside, group)

    def leaf_values(self, value: Value, reader: Group | None = None) -> Iterator[Value]:
        """Yield the leaves below a value, whatever the index."""
        if self.is_leaf(value, reader):
            yield value
        else:
            for operand in value.inputs:
                yield from self.leaf_values(operand, reader)

    def gather_source(self, value: Value) -> Value:
        """Return what a gather reads from, which lies in memory."""
        source = value.inputs[0]
        while source.primitive == "reshape" and source not in self.forced:
            source = source.inputs[0]
        return source

    # --- who comes before whom --------------------------------------------------------------------------------

    def reads(self, group: Group, leaf: Value) -> None:
        """Note that a group needs a value that another computes."""
        group.needs[leaf] = None
        readers = self.readers.setdefault(leaf, [])
        if group not in readers:
            readers.append(group)
        maker = self.group_of.get(leaf)
        if maker is not None and maker is not group:
            self.after(group, maker)

    def after(self, group: Group, earlier: Group) -> None:
        """Note that one group comes after another."""
        earlier.is_followed = True
        new = earlier.ancestors | earlier.bit
        if group.ancestors | new == group.ancestors:
            return
        group.ancestors |= new
        for other in self.groups if group.is_followed else ():
            if other.ancestors & group.bit:
                other.ancestors |= group.ancestors

    def would_wait(self, group: Group, leaf: Value) -> bool:
        """Whether computing something from `leaf` in a group would make the group wait for itself."""
        maker = self.group_of.get(leaf)
        return maker is not None and maker is not group and maker.comes_after(group)

    # --- inside a group ---------------------------------------------------------------------------------------

    def made_of(self, group: Group, value: Value) -> set[Value]:
        """Return a member and all members that it is made of."""
        found = {value}
        stack = [value]
        while stack:
            for operand in stack.pop().inputs:
                for leaf in self.leaf_values(operand, group):
                    if leaf not in found and self.group_of.get(leaf) is group:
                        found.add(leaf)
                        stack.append(leaf)
        return found

    def passes(self, group: Group) -> dict[Value, int]:
        """Return after how many passes over a row each member is known."""
        found: dict[Value, int] = {}
        for member in group.members:
            last = 0
            for operand in member.inputs:
                for leaf in self.leaf_values(operand, group):
                    if self.group_of.get(leaf) is group:
                        folded = leaf in group.source and group.kind == "loop"
                        last = max(last, found[leaf] + folded)
            found[member] = last
        return found


def carry_back(view: Value, index: Index) -> tuple[Index, tuple[Condition, ...]] | Obstacle:
    """Carry an index of a view's result back to its input (see `through`), or say what is in the way."""
    try:
        return through(view, index)
    except Split as request:
        return Obstacle(view, request)
    except Inexpressible:
        return Obstacle(view, None)


def is_checked_index(gather: Value) -> bool:
    """Whether a gather gives its indices themselves, and is there to have them checked."""
    return gather.inputs[0].primitive == "iota"


def is_number(value: Value) -> bool:
    """Whether a value is a single number that is known beforehand."""
    return value.primitive == "constant" and value.size == 1
