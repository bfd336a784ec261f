"""Which values are computed together. Enters: a program's values. Leaves: `Group`s, each to become a kernel.

A group is a space of loops and the values computed at each place of it. A value joins a group if it is wanted
at the very place where what it is made of is computed, so that this never needs to reach memory. Views are no
members: whoever reads one reads what lies below it, at another index. A reduction over the last loops divides a
group's space into rows and what lies along a row; what it gives is known to everything later in the row.
Groups grow from what is computed first, and never so that two would wait for each other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.text import TYPES
from minitorch.compiler.ir.index import (
    Affine,
    Dim,
    Index,
    Inexpressible,
    Split,
    dims_of,
    forward,
    new_index,
    offset,
    split_map,
    through,
    total,
)
from minitorch.compiler.ir.program import Program, Shape, Value

VIRTUAL = {"reshape", "permute", "expand", "slice", "window", "pad", "iota"}
FOLDS = {"add", "multiply", "maximum", "minimum", "logical_and", "logical_or"}
SMALL = 1 << 14  # elements: below, one thread does a reduction in one go
BLOCKS = 32  # of rows at most, each with its own partial sums
COLUMN_BYTES = 1 << 18  # a reduction over the first axes of more than this goes through memory row by row
LONG_EPILOGUE = 20  # so many functions on a product's result are done before it is stored, at most
TALL = 24  # so many views may lie on top of each other
LARGE = 400  # members of one group, at most
GRAINED = 4096  # elements: values this large are not stored against the grain of what is computed with them
CHEAP = 2.0  # a function of at most this cost is computed again rather than stored
# Values of this many bytes leave the caches nearest to the core before they are read again: to write and read one
# costs as much as some functions that are not cheap, together.
FAR_BYTES, FAR_COST = 1 << 20, 60.0


class Blocked(Exception):
    """A view whose index cannot be written; its input has to lie in memory first."""

    def __init__(self, view: Value) -> None:
        super().__init__(view)
        self.view = view


class Group:
    """Values computed together.

    kind: 'loop', 'contract', 'scan', 'scatter', 'concatenate', 'check', 'call'.
    index: where each member lies, in terms of the group's loops. source: the same for what a fold folds.
    outer, inner: rows, and along a row; inner is None while nothing tells them apart.
    scope: for each fold, over what it goes (see `llvm.loops.Fold`).
    """

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self.kind = kind
        self.members: list[Value] = []
        self.index: dict[Value, Index] = {}
        self.source: dict[Value, Index] = {}
        self.scope: dict[Value, str] = {}
        self.by_shape: dict[tuple[int, ...], list[Index]] = {}
        self.dims: list[Dim] = []
        self.outer: list[Dim] = []
        self.inner: list[Dim] | None = None
        self.blocks = 1
        self.ancestors = 0  # a bit for every group that has to come before
        self.bit = 1 << number
        self.check: tuple[Value, int] | None = None
        self.letters: list[str] = []  # of a product's spec, in the order of its `source`

    def remember(self, shape: tuple[int, ...], index: Index) -> None:
        """Note an index under which values of a shape lie in this group."""
        known = self.by_shape.setdefault(shape, [])
        if index not in known:
            known.append(index)

    def split(self, request: Split) -> Callable[[Affine], Affine]:
        """Make one loop two, and return how indices are rewritten."""
        rewrite = split_map(request)
        self.rewrite(rewrite, request.dim)
        return rewrite

    def rewrite(self, rewrite: Callable[[Affine], Affine], dim: Dim) -> None:
        """Express all indices by other loops."""

        def new(index: Index) -> Index:
            return tuple(rewrite(a) for a in index)

        parts = [d for d, _ in sorted(rewrite((0, ((dim, 1),)))[1], key=lambda t: -t[1])]
        self.index = {v: new(i) for v, i in self.index.items()}
        self.source = {v: new(i) for v, i in self.source.items()}
        self.by_shape = {s: [new(i) for i in found] for s, found in self.by_shape.items()}

        def replaced(dims: list[Dim]) -> list[Dim]:
            return [p for d in dims for p in (parts if d is dim else [d])]

        self.dims = replaced(self.dims)
        self.outer = replaced(self.outer)
        self.inner = None if self.inner is None else replaced(self.inner)

    @property
    def elements(self) -> int:
        """How many places its space has."""
        return total(self.dims)


def is_native(value: Value) -> bool:
    """Whether there is machine code for a value; NumPy computes all others."""
    if value.dtype not in TYPES or any(i.dtype not in TYPES for i in value.inputs):
        return False
    primitive, attributes = value.primitive, value.attributes
    if any(i.size == 0 for i in value.inputs):
        return False
    if primitive in VIRTUAL or primitive in ("input", "constant", "concatenate", "copy", "place", "partial"):
        return True
    if primitive == "map":
        function = attributes["function"]
        if function == "cast":
            return functions.supported("cast", value.inputs[0].dtype)
        return functions.supported(function, value.inputs[-1].dtype)
    if primitive in ("reduce", "scan"):
        function = attributes["function"]
        if function not in FOLDS or value.dtype != value.inputs[0].dtype:
            return False
        if value.dtype.kind == "b" and function in ("add", "multiply"):
            return False
        return functions.supported(function, value.dtype)
    if primitive == "arg_reduce":
        return value.dtype == np.int64
    if primitive == "contract":
        return value.dtype.kind == "f" and _plain_spec(value)
    if primitive == "gather":
        return value.inputs[1].dtype == np.int64
    if primitive == "scatter":
        if attributes["function"] == "add" and not functions.supported("add", value.dtype):
            return False
        return value.inputs[1].dtype == np.int64 and value.inputs[1].ndim == 1
    return False


def _plain_spec(value: Value) -> bool:
    left, _, out = value.attributes["spec"].partition("->")
    first, second = left.split(",")
    letters_ok = all(len(set(part)) == len(part) for part in (first, second, out))
    alone = [c for c in first + second if c not in out and not (c in first and c in second)]
    return letters_ok and not alone and all(c in first + second for c in out)


def _renamed(index: Index, renaming: dict[Dim, Dim]) -> Index:
    """Express an index by another group's loops."""
    return tuple(
        (const, tuple(sorted(((renaming[d], c) for d, c in terms), key=lambda t: t[0].number)))
        for const, terms in index
    )


class Fuser:
    """Puts values into groups, one after the other."""

    def __init__(self, program: Program, fuse: bool = True) -> None:
        self.program = program
        self.fuse = fuse
        self.groups: list[Group] = []
        self.group_of: dict[Value, Group] = {}
        self.forced: set[Value] = set()  # views that have to lie in memory
        self.checks: dict[tuple[Value, int], Group] = {}
        self.needs_check: dict[Group, list[Group]] = {}
        self.readers: dict[Value, list[Group]] = {}
        self.inlined: set[Value] = set()

    # --- what values are read, and where -------------------------------------------------------------------

    def is_leaf(self, value: Value, reader: Group | None = None) -> bool:
        """Whether a value is computed by a group, or given, and not just another look at one.

        reader: the group that looks. A view that was written out for another group's sake is there only for those
        that come after it; members placed before that look through it as they did (see `Lowering.is_stored`).
        """
        if value.primitive in VIRTUAL:
            if value not in self.forced or reader is None:
                return value in self.forced
            maker = self.group_of.get(value)
            return maker is not None and bool(reader.ancestors & maker.bit)
        return value not in self.inlined

    def leaves(
        self,
        value: Value,
        index: Index,
        group: Group | None,
        under: bool = False,
        reader: Group | None = None,
    ) -> Iterator[tuple[Value, Index | None, bool]]:
        """Yield what has to be known for one element: leaf, its index (None: any), whether under a condition."""
        if value.size == 1 and value.primitive == "constant":
            return
        if self.is_leaf(value, reader) or (
            reader is not None and value in self.forced and reader.index.get(value) == index
        ):
            yield value, index, under
            return
        if value.primitive == "iota":
            return
        if value.primitive == "map":
            for operand in value.inputs:
                yield from self.leaves(operand, index, group, under, reader)
            return
        below = value.inputs[0]
        if value.primitive == "reshape":
            while below.primitive == "reshape" and not self.is_leaf(below, reader):
                below = below.inputs[0]
            if (
                self.is_leaf(below, reader)
                and (group is None or self.group_of.get(below) is not group)
                and not (below.primitive == "constant" and below.size == 1)
            ):
                yield below, None, under
                return
        try:
            before, conditions = through(value, index)
        except Inexpressible:
            raise Blocked(value) from None
        yield from self.leaves(value.inputs[0], before, group, under or bool(conditions), reader)

    def operand_leaves(
        self, value: Value, index: Index, group: Group | None, reader: Group | None = None
    ) -> Iterator[tuple[Value, Index | None, bool]]:
        """Yield what has to be known for one element of a value that is to be computed."""
        if value.primitive in VIRTUAL:  # a view that is copied
            if value.primitive == "iota":
                return
            try:
                before, conditions = through(value, index)
            except Inexpressible:
                raise Blocked(value) from None
            yield from self.leaves(value.inputs[0], before, group, bool(conditions), reader)
        elif value.primitive == "gather":
            axis, places = value.attributes["axis"], value.inputs[1]
            yield self.gathered(value), None, True
            yield from self.leaves(places, index[axis : axis + places.ndim], group, reader=reader)
        else:
            for operand in value.inputs:
                yield from self.leaves(operand, index, group, reader=reader)

    def gathered(self, value: Value) -> Value:
        """Return what a gather reads from, which lies in memory."""
        source = value.inputs[0]
        while source.primitive == "reshape" and source not in self.forced:
            source = source.inputs[0]
        return source

    # --- the whole program ------------------------------------------------------------------------------------

    def run(self) -> list[Group]:
        """Put every value into a group, and return the groups."""
        heights: dict[Value | None, int] = {}
        for value in self.program.values():
            if value.primitive == "input" or value.size == 0:
                continue
            if value.primitive == "constant":
                continue
            if value.primitive in VIRTUAL and is_native(value):
                below = value.inputs[0] if value.inputs else None
                heights[value] = 1 + heights.get(below, 0)
                if heights[value] > TALL:  # so many views are written out, or reading them would take forever
                    self.force(value)
                    heights[value] = 0
                continue
            self.place(value)
        for output in self.program.outputs:
            if output.size and output.primitive in VIRTUAL and is_native(output):
                self.force(output)
        return self.groups

    def place(self, value: Value) -> None:
        """Put one value into a group."""
        if not is_native(value):
            self.place_call(value)
            return
        primitive = value.primitive
        if primitive == "contract":
            self.place_contract(value)
        elif primitive == "scan":
            self.place_scan(value)
        elif primitive == "scatter":
            self.place_scatter(value)
        elif primitive == "concatenate":
            self.place_concatenate(value)
        elif primitive in ("reduce", "arg_reduce"):
            self.place_fold(value)
        else:
            if primitive == "gather":
                self.prepare_gather(value)
            self.place_map(value)

    def new_group(self, kind: str) -> Group:
        """Return an empty group."""
        group = Group(len(self.groups), kind)
        self.groups.append(group)
        return group

    def force(self, view: Value) -> None:
        """Have a view written out."""
        if view in self.forced or view.primitive not in VIRTUAL:
            return
        self.forced.add(view)
        self.place_map(view)

    def reads(self, group: Group, leaf: Value) -> None:
        """Note that a group needs a value that another computes."""
        self.readers.setdefault(leaf, [])
        if group not in self.readers[leaf]:
            self.readers[leaf].append(group)
        maker = self.group_of.get(leaf)
        if maker is not None and maker is not group:
            self.after(group, maker)

    def after(self, group: Group, earlier: Group) -> None:
        """Note that one group comes after another."""
        new = earlier.ancestors | earlier.bit
        if group.ancestors | new == group.ancestors:
            return
        group.ancestors |= new
        for other in self.groups:
            if other.ancestors & group.bit:
                other.ancestors |= group.ancestors

    def would_wait(self, group: Group, leaf: Value) -> bool:
        """Whether computing something from `leaf` in a group would make the group wait for itself."""
        maker = self.group_of.get(leaf)
        return maker is not None and maker is not group and bool(maker.ancestors & group.bit)

    def join(self, group: Group, value: Value, index: Index, leaves: Sequence[Value]) -> None:
        """Make a value a member."""
        group.members.append(value)
        group.index[value] = index
        self.group_of[value] = group
        group.remember(value.shape, index)
        for leaf in leaves:
            self.reads(group, leaf)
        if value.primitive == "gather":
            self.guard(group, value.inputs[1], value.inputs[0].shape[value.attributes["axis"]])

    def retried(self, action: Callable[[], Any]) -> Any:
        """Do something again and again, having what blocks it written out in between."""
        while True:
            try:
                return action()
            except Blocked as blocked:
                self.force_below(blocked.view)

    def force_below(self, view: Value) -> None:
        """Have what a view looks at written out, so that the view is only another shape of it."""
        below = view.inputs[0]
        assert below.primitive in VIRTUAL, f"{view} cannot be read"
        self.force(below)

    # --- maps -------------------------------------------------------------------------------------------------

    def place_map(self, value: Value) -> None:
        """Put an elementwise value (or a copy of a view, or a gather) where its operands are computed."""
        if self.fuse:
            for group in self.candidates(value, value.inputs):
                if self.try_map(group, value):
                    return
        self.retried(lambda: self.fresh_map(value))

    def candidates(self, value: Value, operands: Sequence[Value]) -> list[Group]:
        """Return the groups that compute what a value is made of, the latest first."""
        found: dict[Group, None] = {}
        for operand in operands:
            for leaf in self.leaf_values(operand):
                group = self.group_of.get(leaf)
                if group is not None and group.kind in ("loop", "contract"):
                    found[group] = None
        order = sorted(found, key=lambda g: (g.kind == "contract", bool(g.inner), g.number), reverse=True)
        return order

    def leaf_values(self, value: Value, reader: Group | None = None) -> Iterator[Value]:
        """Yield the leaves below a value, whatever the index."""
        if self.is_leaf(value, reader):
            yield value
        else:
            for operand in value.inputs:
                yield from self.leaf_values(operand, reader)

    def guesses(self, group: Group, value: Value) -> Iterator[Index]:
        """Yield indices at which a value might be computed in a group."""
        yield from list(group.by_shape.get(value.shape, ()))
        for operand in value.inputs if value.primitive not in VIRTUAL else (value,):
            chain = []
            below = operand
            while not self.is_leaf(below) and below.primitive in ("reshape", "permute"):
                chain.append(below)
                below = below.inputs[0]
            if chain and self.group_of.get(below) is group:
                yield from self.carried(group, below, chain)

    def carried(self, group: Group, below: Value, chain: list[Value]) -> Iterator[Index]:
        """Yield a member's index carried through views to what they give."""
        for _ in range(4):
            try:
                index: Index | None = group.index[below]
                for view in reversed(chain):
                    assert index is not None
                    index = forward(view, index)
                assert index is not None
            except Inexpressible:
                return
            except Split as request:
                if request.dim not in group.dims:
                    return
                group.split(request)
                continue
            yield index
            return

    def try_map(self, group: Group, value: Value) -> bool:
        """Let a value join a group if everything agrees."""
        if value.primitive == "gather":
            bound = value.inputs[0].shape[value.attributes["axis"]]
            if self.checks[value.inputs[1], bound].ancestors & group.bit:
                return False
        if len(group.members) > (LONG_EPILOGUE if group.kind == "contract" else LARGE):
            return False
        for guess in self.guesses(group, value):
            level = self.level(group, guess)
            if level is None or (level == "row" and group.kind != "loop"):
                continue
            if (
                level == "full"
                and value.size >= GRAINED
                and self.grain(guess, value) is not self.grain_of(group)
            ):
                continue
            leaves = self.agreeing(group, guess, lambda i: self.operand_leaves(value, i, group))
            if leaves is None:
                continue
            self.join(group, value, leaves[0], leaves[1])
            self.absorb(group, value)
            return True
        return False

    @staticmethod
    def grain(index: Index, value: Value) -> Dim | None:
        """Return the loop along which a value's neighbours lie."""
        for dim, factor in offset(index, value.shape)[1]:
            if factor == 1:
                return dim
        return None

    def grain_of(self, group: Group) -> Dim | None:
        """Return the loop along which most of a group's values have their neighbours."""
        first = group.members[0]
        if group.kind == "contract":
            first = next(m for m in group.members if m.primitive == "contract")
        elif first in group.source:
            return self.grain(group.source[first], first.inputs[0])
        return self.grain(group.index[first], first)

    def level(self, group: Group, index: Index) -> str | None:
        """Return whether an index runs over the whole space of a group, or over its rows; None if neither."""
        dims = set(dims_of(index))
        if len(dims) == len(group.dims):
            return "full"
        if group.inner is not None and dims == set(group.outer):
            return "row"
        return None

    def agreeing(
        self,
        group: Group,
        index: Index,
        wanted: Callable[[Index], Iterator[tuple[Value, Index | None, bool]]],
    ) -> tuple[Index, list[Value]] | None:
        """Return the index and the leaves if all that is read in the group is read where it is computed."""
        for _ in range(6):
            found: list[Value] = []
            try:
                for leaf, where, under in wanted(index):
                    if self.group_of.get(leaf) is group:
                        if where != group.index[leaf] or under:
                            return None
                        if group.scope.get(leaf, "row") != "row":
                            return None
                    elif self.would_wait(group, leaf):
                        return None
                    found.append(leaf)
                return index, found
            except Blocked:
                return None
            except Split as request:
                if request.dim not in group.dims:
                    return None
                rewrite = group.split(request)
                index = tuple(rewrite(a) for a in index)
        return None

    def loops_over(
        self, shape: Shape, leaves_at: Callable[[Index], Iterable[tuple[Value, Index | None, bool]]]
    ) -> tuple[Index, list[Value]]:
        """Return loops over a shape, divided where a view asks for it, and what has to be known in them."""
        index = new_index(shape)
        while True:
            try:
                return index, [leaf for leaf, _, _ in leaves_at(index)]
            except Split as request:
                rewrite = split_map(request)
                index = tuple(rewrite(a) for a in index)

    def fresh_map(self, value: Value, alone: bool = False) -> None:
        """Begin a group with an elementwise value; `alone`: and let it stay alone."""
        index, leaves = self.loops_over(value.shape, lambda index: self.operand_leaves(value, index, None))
        group = self.new_group("loop")
        group.dims = dims_of(index)
        self.join(group, value, index, leaves)
        if self.fuse and not alone:
            self.absorb(group, value)

    # --- joining whole groups -----------------------------------------------------------------------------

    def absorb(self, group: Group, value: Value) -> None:
        """Take in whole groups that compute operands of a new member, where their spaces are the same."""
        if value.primitive == "gather":
            return
        try:
            found = list(self.operand_leaves(value, group.index[value], group))
        except (Blocked, Split):
            return
        for leaf, where, under in found:
            other = self.group_of.get(leaf)
            if other is None or other is group or other.kind != "loop" or under or where is None:
                continue
            self.merge(group, other, leaf, where)

    def merge(self, group: Group, other: Group, leaf: Value, where: Index) -> bool:
        """Take a group in if `leaf`, which it computes, is wanted at one and the same place."""
        if other.scope.get(leaf, "row") != "row" or len(group.members) + len(other.members) > LARGE:
            return False
        if group.kind == "contract" and (other.inner is not None or len(group.members) > LONG_EPILOGUE):
            return False
        renaming: dict[Dim, Dim] = {}
        for theirs, mine in zip(other.index[leaf], where, strict=True):
            if theirs[0] != mine[0] or len(theirs[1]) != len(mine[1]):
                return False
            for (a, c), (b, d) in zip(
                sorted(theirs[1], key=lambda t: -t[1]), sorted(mine[1], key=lambda t: -t[1]), strict=True
            ):
                if c != d or a.size != b.size or renaming.setdefault(a, b) is not b:
                    return False
        mine_all = set(renaming.values())
        if len(renaming) != len(other.dims) or len(mine_all) != len(renaming):
            return False
        if len(mine_all) == len(group.dims):
            if not self.same_division(group, other, renaming):
                return False
        elif other.inner is not None or group.inner is None or mine_all != set(group.outer):
            return False  # neither the whole space, nor elementwise work on the rows
        # Nothing may have to come between the two.
        if (
            any(g.ancestors & other.bit and group.ancestors & g.bit for g in self.groups if g is not group)
            or other.ancestors & group.bit
        ):
            return False
        # What the other's folds give must not be wanted at another place by members here, nor the reverse.
        if any(s != "row" for s in other.scope.values()) and self.reads_terminal(group, other):
            return False
        if not self.reads_in_place(group, other, renaming):
            return False
        self.take_in(group, other, renaming)
        return True

    def reads_terminal(self, group: Group, other: Group) -> bool:
        """Whether a group reads what another only has when all its rows are done."""
        return any(
            scope != "row" and group in self.readers.get(value, ()) for value, scope in other.scope.items()
        )

    def same_division(self, group: Group, other: Group, renaming: dict[Dim, Dim]) -> bool:
        """Whether two groups have the same rows, or one of them has none yet."""
        if other.inner is None:
            return True
        inner = [renaming[d] for d in other.inner]
        if group.inner is None:
            return True
        return set(inner) == set(group.inner) and (group.blocks == other.blocks)

    def take_in(self, group: Group, other: Group, renaming: dict[Dim, Dim]) -> None:
        """Move all members of a group."""

        def new(index: Index) -> Index:
            return _renamed(index, renaming)

        if other.inner is not None and group.inner is None:
            group.inner = [renaming[d] for d in other.inner]
            group.outer = [renaming[d] for d in other.outer]
            group.blocks = other.blocks
        group.members = other.members + group.members
        for member in other.members:
            self.group_of[member] = group
            group.index[member] = new(other.index[member])
            group.remember(member.shape, group.index[member])
        group.source.update({v: new(i) for v, i in other.source.items()})
        for fold in other.source:
            group.remember(fold.inputs[0].shape, group.source[fold])
        group.scope.update(other.scope)
        for readers in self.readers.values():
            if other in readers:
                readers.remove(other)
                if group not in readers:
                    readers.append(group)
        ancestors = (group.ancestors | other.ancestors) & ~other.bit & ~group.bit
        group.ancestors = ancestors
        for g in self.groups:
            if g.ancestors & (other.bit | group.bit):
                g.ancestors = (g.ancestors & ~other.bit) | group.bit | ancestors
        other.members = []
        for needed in self.needs_check.pop(other, []):
            self.needs_check.setdefault(group, []).append(needed)

    def reads_in_place(self, group: Group, other: Group, renaming: dict[Dim, Dim]) -> bool:
        """Whether all that a group reads of another is read at the place where it would be computed."""
        try:
            for reader in group.members:
                if reader.primitive == "contract":  # it reads its operands from memory
                    below = (x for o in reader.inputs for x in self.leaf_values(o, group))
                    if any(self.group_of.get(x) is other for x in below):
                        return False
                    continue
                for leaf, where, under in self.wanted(group, reader, other):
                    if self.group_of.get(leaf) is other and (
                        under or where != _renamed(other.index[leaf], renaming)
                    ):
                        return False
        except (Blocked, Split):
            return False
        return True

    def wanted(
        self, group: Group, member: Value, beside: Group | None
    ) -> Iterator[tuple[Value, Index | None, bool]]:
        """Yield what a member (that is no product) needs for one place of its group; `beside`: see `leaves`."""
        if member in group.source:
            return self.leaves(member.inputs[0], group.source[member], beside, reader=group)
        return self.operand_leaves(member, group.index[member], beside, group)

    # --- folds ----------------------------------------------------------------------------------------------

    def place_fold(self, value: Value) -> None:
        """Put a reduction into a group that has its operand at hand, or begin one."""
        if self.fuse:
            source = value.inputs[0]
            groups = self.candidates(value, [source])
            seen = set(groups)
            for leaf in self.leaf_values(source):  # others that read the same
                for group in self.readers.get(leaf, ()):
                    if group.kind == "loop" and group not in seen and group.members:
                        seen.add(group)
                        groups.append(group)
            for group in groups:
                if group.kind == "loop" and self.try_fold(group, value):
                    return
        self.retried(lambda: self.fresh_fold(value))

    def fold_axes(self, value: Value) -> tuple[int, ...]:
        """Return the axes that a reduction drops."""
        if value.primitive == "arg_reduce":
            return (value.attributes["axis"],)
        return value.attributes["axes"]

    def try_fold(self, group: Group, value: Value) -> bool:
        """Let a reduction join a group if everything agrees."""
        source = value.inputs[0]
        guesses: list[Index] = []
        if self.group_of.get(source) is group:
            guesses.append(group.index[source])
        guesses += [g for g in self.guesses(group, source) if g not in guesses]
        for guess in guesses:
            level = self.level(group, guess)
            if level is None:
                continue
            found = self.agreeing(group, guess, lambda i: self.leaves(source, i, group))
            if found is None:
                continue
            index, leaves = found
            scope = self.fold_scope(group, value, index, level)
            if scope is None:
                continue
            self.join_fold(group, value, index, leaves, scope)
            return True
        return False

    def fold_scope(self, group: Group, value: Value, index: Index, level: str) -> str | None:
        """Decide over what a fold goes in a group, dividing the group if nothing has yet."""
        axes = set(self.fold_axes(value))
        reduced = set(dims_of(a for i, a in enumerate(index) if i in axes))
        kept = set(dims_of(a for i, a in enumerate(index) if i not in axes))
        if reduced & kept:
            return None
        is_arg = value.primitive == "arg_reduce"
        if level == "row" and group.inner:
            return "rows" if not kept and not is_arg and self.blocks_agree(group) else None
        if group.inner is None:
            at_once = is_arg or value.inputs[0].primitive == "partial"
            return self.divide(group, reduced, kept, at_once)
        if not kept and group.outer and not is_arg and self.blocks_agree(group):
            return "total"
        if reduced == set(group.inner):
            return "row" if group.outer or group.blocks == 1 else "total" if not is_arg else None
        if kept == set(group.inner) and not is_arg and self.blocks_agree(group):
            return "column"
        return None

    def blocks_agree(self, group: Group) -> bool:
        """Decide on blocks of rows, now that something is summed over rows."""
        if not self.has_terminal(group):
            group.blocks = self.block_count(group, total(group.outer))
        return True

    @staticmethod
    def has_terminal(group: Group) -> bool:
        """Whether a group has sums over its rows."""
        return any(s != "row" for s in group.scope.values())

    @staticmethod
    def block_count(group: Group, rows: int) -> int:
        """Return into how many blocks rows are divided."""
        wanted = min(BLOCKS, group.elements // SMALL, rows)
        if wanted <= 1:
            return 1
        return math.ceil(rows / math.ceil(rows / wanted))

    def divide(self, group: Group, reduced: set[Dim], kept: set[Dim], at_once: bool) -> str | None:
        """Divide a group into rows and what lies along them, for its first fold; `at_once`: not in blocks."""
        order = group.dims
        if not kept and not at_once and group.elements > SMALL:
            inner: list[Dim] = []
            for dim in reversed(order):  # rows of a few thousand elements
                if inner and total(inner) * dim.size > SMALL // 2:
                    break
                inner.insert(0, dim)
            group.inner = inner
            group.outer = order[: len(order) - len(inner)]
            if group.outer:
                group.blocks = self.block_count(group, total(group.outer))
            else:
                group.blocks = max(1, min(BLOCKS, group.elements // SMALL))
            return "total"
        last_is_kept = bool(order) and order[-1] in kept
        if last_is_kept and not at_once and reduced:
            first_kept = min(i for i, d in enumerate(order) if d in kept)
            last_reduced = max(i for i, d in enumerate(order) if d in reduced)
            if last_reduced < first_kept and group.elements * 4 > COLUMN_BYTES:
                group.outer = [d for d in order if d in reduced]
                group.inner = [d for d in order if d in kept]
                group.blocks = self.block_count(group, total(group.outer))
                return "column"
        group.outer = [d for d in order if d in kept]
        group.inner = [d for d in order if d in reduced]
        return "row"

    def join_fold(
        self, group: Group, value: Value, index: Index, leaves: Sequence[Value], scope: str
    ) -> None:
        """Make a fold a member; one in blocks leaves the last step to another group."""
        axes = set(self.fold_axes(value))
        made = value
        if scope != "row" and group.blocks > 1:
            attributes = {"function": value.attributes["function"], "axes": tuple(sorted(axes))}
            shape = (group.blocks, *value.shape)
            made = Value("partial", value.inputs, attributes, shape, value.dtype)
        kept = tuple(a for i, a in enumerate(index) if i not in axes)
        group.members.append(made)
        group.index[made] = kept
        group.source[made] = index
        group.scope[made] = scope
        self.group_of[made] = group
        group.remember(value.inputs[0].shape, index)
        if scope == "row":
            group.remember(value.shape, kept)
        for leaf in leaves:
            self.reads(group, leaf)
        if made is not value:
            value.inputs = (made,)
            value.attributes = {"function": value.attributes["function"], "axes": (0,)}
            self.place_fold(value)

    def fresh_fold(self, value: Value) -> None:
        """Begin a group with a reduction."""
        source = value.inputs[0]
        index, leaves = self.loops_over(source.shape, lambda index: self.leaves(source, index, None))
        group = self.new_group("loop")
        group.dims = dims_of(index)
        scope = self.fold_scope(group, value, index, "full")
        assert scope is not None
        self.join_fold(group, value, index, leaves, scope)

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

    def stages(self, group: Group) -> dict[Value, int]:
        """Return after how many passes over a row each member is known."""
        found: dict[Value, int] = {}
        for member in group.members:
            stage = 0
            for operand in member.inputs:
                for leaf in self.leaf_values(operand, group):
                    if self.group_of.get(leaf) is group:
                        stage = max(
                            stage, found[leaf] + (1 if leaf in group.source and group.kind == "loop" else 0)
                        )
            found[member] = stage
        return found

    # --- all others ------------------------------------------------------------------------------------------

    def place_contract(self, value: Value) -> None:
        """A product begins a group; elementwise work on its result may join."""
        self.retried(lambda: self.fresh_contract(value))

    def fresh_contract(self, value: Value) -> Group:
        """Begin a group with a product, one loop per letter of its spec."""
        spec = value.attributes["spec"]
        left, _, out = spec.partition("->")
        parts = left.split(",")
        sizes = {
            c: n
            for part, operand in zip(parts, value.inputs, strict=True)
            for c, n in zip(part, operand.shape, strict=True)
        }
        letters: dict[str, Affine] = {c: new_index((n,))[0] for c, n in sizes.items()}
        while True:
            try:
                leaves = []
                for part, operand in zip(parts, value.inputs, strict=True):
                    index = tuple(letters[c] for c in part)
                    found = list(self.leaves(operand, index, None))
                    if any(under for _, _, under in found):
                        self.force_pads(operand)
                        return self.fresh_contract(value)
                    if not self.in_memory(operand):
                        self.force(operand)
                        return self.fresh_contract(value)
                    leaves += [leaf for leaf, _, _ in found]
                break
            except Split as request:
                rewrite = split_map(request)
                letters = {c: rewrite(a) for c, a in letters.items()}
        group = self.new_group("contract")
        group.index[value] = tuple(letters[c] for c in out)
        group.dims = dims_of(group.index[value])
        group.source[value] = tuple(letters.values())
        group.letters = list(letters)
        self.join(group, value, group.index[value], leaves)
        return group

    def in_memory(self, operand: Value) -> bool:
        """Whether a value is a view of something that lies in memory: a product reads nothing else."""
        while not self.is_leaf(operand) and operand.primitive not in ("map", "iota"):
            operand = operand.inputs[0]
        return self.is_leaf(operand) and not (operand.primitive == "constant" and operand.size == 1)

    def force_pads(self, operand: Value) -> None:
        """Have a padded operand of a product written out, pad and all."""
        view = operand
        while view.primitive != "pad":
            view = view.inputs[0]
        self.force(view)

    def place_scan(self, value: Value) -> None:
        """Running sums have a group of their own; what they sum is computed inside it only if it is a view."""
        source = value.inputs[0]

        def fresh() -> tuple[Index, list[Value]]:
            index = new_index(source.shape)
            while True:
                try:
                    return index, [leaf for leaf, _, _ in self.leaves(source, index, None)]
                except Split as request:
                    axis = index[value.attributes["axis"]]
                    if any(d is request.dim for d, _ in axis[1]):
                        raise Blocked(self.blocking(source)) from None
                    rewrite = split_map(request)
                    index = tuple(rewrite(a) for a in index)

        index, leaves = self.retried(fresh)
        group = self.new_group("scan")
        group.dims = dims_of(index)
        inner = dims_of([index[value.attributes["axis"]]])
        group.inner = inner
        group.outer = [d for d in group.dims if d not in inner]
        group.source[value] = index
        group.scope[value] = "scan"
        self.join(group, value, index, leaves)

    def blocking(self, source: Value) -> Value:
        """Return the last reshape below a value: the view that asked for a split."""
        while source.primitive != "reshape":
            source = source.inputs[0]
        return source

    def place_scatter(self, value: Value) -> None:
        """Two kernels, one after the other: the base is copied, then updates go to their places."""
        base, index, updates = value.inputs
        self.add_check(index, value.shape[value.attributes["axis"]])
        group = self.new_group("scatter")
        for operand in (base, index, updates):
            leaves = self.retried(functools.partial(self.plain_leaves, operand))
            for leaf in leaves:
                self.reads(group, leaf)
        group.members.append(value)
        self.group_of[value] = group
        self.guard(group, index, value.shape[value.attributes["axis"]])

    def place_concatenate(self, value: Value) -> None:
        """Each part is written to its place in the whole, wherever it is computed."""
        axis, begin = value.attributes["axis"], 0
        placed = []
        for part in value.inputs:
            if part.size:
                attributes = {"into": value, "axis": axis, "begin": begin}
                placed.append(Value("place", (part,), attributes, part.shape, part.dtype))
                self.place_map(placed[-1])
            begin += part.shape[axis]
        group = self.new_group("concatenate")
        for part in placed:
            self.reads(group, part)
        group.members.append(value)
        self.group_of[value] = group

    def plain_leaves(self, value: Value) -> list[Value]:
        """Return the leaves of a value over a space of its own."""
        index = new_index(value.shape)
        while True:
            try:
                return [leaf for leaf, _, _ in self.leaves(value, index, None)]
            except Split as request:
                rewrite = split_map(request)
                index = tuple(rewrite(a) for a in index)

    def prepare_gather(self, value: Value) -> None:
        """Have what is gathered from in memory, and its indices checked."""
        source = self.gathered(value)
        if source.primitive in VIRTUAL or (source.primitive == "map" and source in self.inlined):
            self.force(source)
        if source.primitive == "constant" and source.size == 1:
            self.force(value.inputs[0])
        self.add_check(value.inputs[1], value.inputs[0].shape[value.attributes["axis"]])

    def add_check(self, index: Value, bound: int) -> None:
        """See to it that indices are looked at before they are used."""
        if (index, bound) in self.checks:
            return
        leaves = self.retried(lambda: self.plain_leaves(index))
        group = self.new_group("check")
        group.check = (index, bound)
        for leaf in leaves:
            self.reads(group, leaf)
        self.checks[index, bound] = group

    def guard(self, group: Group, index: Value, bound: int) -> None:
        """Let a group wait for a check."""
        self.after(group, self.checks[index, bound])
        self.needs_check.setdefault(group, []).append(self.checks[index, bound])

    def place_call(self, value: Value) -> None:
        """NumPy computes this; neighbours that it computes too become one call."""
        leaves: list[Value] = []
        stack = list(value.inputs)
        while stack:
            operand = stack.pop()
            if operand.primitive in VIRTUAL and is_native(operand):
                stack.extend(operand.inputs)
            elif operand.primitive != "constant":
                leaves.append(operand)
        group = None
        for leaf in leaves:
            maker = self.group_of.get(leaf)
            if (
                maker is not None
                and maker.kind == "call"
                and not any(self.would_wait(maker, x) for x in leaves)
            ):
                group = maker
                break
        if group is None:
            group = self.new_group("call")
        group.members.append(value)
        self.group_of[value] = group
        for leaf in leaves:
            self.reads(group, leaf)


def compute_again(fuser: Fuser, stored: set[Value]) -> None:
    """Take values out of memory that cost less to compute again, from what lies there anyway, than to read."""
    outputs = set(fuser.program.outputs)
    users: dict[Value, list[tuple[Value, Group]]] = {}
    for group in fuser.groups:
        for member in group.members:
            for operand in member.inputs:
                for leaf in fuser.leaf_values(operand, group):
                    users.setdefault(leaf, []).append((member, group))
    for value in fuser.program.values():
        if value not in stored or value in outputs or value.primitive != "map" or value in fuser.forced:
            continue
        recipe = _recipe(fuser, value, stored)
        if recipe is None:
            continue
        again, there = recipe
        mine = fuser.group_of[value]
        if not all(
            _may_compute(fuser, user, group, value)
            for user, group in users.get(value, ())
            if group is not mine
        ):
            continue
        new = again - fuser.inlined
        fuser.inlined |= new
        try:
            for user, group in users.get(value, ()):
                if group is not mine:
                    list(fuser.wanted(group, user, group))
        except (Blocked, Split):  # what is no copy of memory cannot be looked at in this way
            fuser.inlined -= new
            continue
        stored.discard(value)
        for group in list(fuser.readers.get(value, ())):
            if group is not mine:
                for leaf in there:
                    fuser.reads(group, leaf)


def _recipe(fuser: Fuser, value: Value, stored: set[Value]) -> tuple[set[Value], list[Value]] | None:
    """Return the values to compute again for one, itself among them, and what they are computed from in memory.

    None if that costs more than to write and read it, or cannot be done.
    """
    limit = FAR_COST if value.nbytes >= FAR_BYTES else CHEAP
    again: set[Value] = set()
    there: dict[Value, None] = {}
    cost = 0.0
    stack = [value]
    while stack:
        each = stack.pop()
        if each in again:
            continue
        cost += functions.cost(each.attributes["function"], each.inputs[-1].dtype)
        again.add(each)
        if cost > limit:
            return None
        for operand in each.inputs:
            leaf = _plain_leaf(fuser, operand)
            if leaf is None:
                return None
            if leaf.primitive == "constant":
                continue
            if leaf.primitive == "input" or leaf in stored:
                there[leaf] = None
            elif leaf.primitive == "map" and leaf not in fuser.forced and leaf.size == value.size:
                stack.append(leaf)
            else:
                return None
    return again, list(there)


def _plain_leaf(fuser: Fuser, operand: Value) -> Value | None:
    """Return what an operand is, if it is that itself in the same order, or one number spread."""
    below = operand
    while not fuser.is_leaf(below) and (
        below.primitive == "reshape" or (below.primitive == "expand" and below.inputs[0].size == 1)
    ):
        below = below.inputs[0]
    return below if fuser.is_leaf(below) and below.size in (operand.size, 1) else None


def _may_compute(fuser: Fuser, user: Value, group: Group, value: Value) -> bool:
    """Whether a group may compute an operand of one of its members by itself, without doing it many times over."""
    if group.kind not in ("loop", "contract") or user.primitive in ("contract", "gather"):
        return False
    if any(i.primitive == "gather" for i in user.inputs):
        return False
    size = user.inputs[0].size if user in group.source else user.size
    return size <= value.size


def stored_values(fuser: Fuser) -> set[Value]:
    """Return the computed values that have to lie in memory: some other group reads them, or they are results."""
    stored: set[Value] = set(fuser.program.outputs)
    for leaf, readers in fuser.readers.items():
        maker = fuser.group_of.get(leaf)
        if maker is not None and any(reader is not maker for reader in readers):
            stored.add(leaf)
    for group in fuser.groups:
        for member in group.members:
            terminal = group.scope.get(member, "row") != "row"
            if terminal or group.kind in ("scatter", "concatenate", "scan"):
                stored.add(member)
            if member.primitive == "gather":
                stored.add(fuser.gathered(member))
    return {v for v in stored if v in fuser.group_of and v.primitive != "place"}
