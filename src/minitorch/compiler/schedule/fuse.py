"""Which values are computed together. Enters: a program's values. Leaves: `Group`s, each to become a kernel.

A value joins a group if it is wanted at the very place where what it is made of is computed, so that this never
needs to reach memory. Views are no members: whoever reads one reads what lies below it, at another index. Groups
grow from what is computed first, and never so that two would wait for each other.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from minitorch.compiler.ir.bounds import bounds
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.index import (
    Affine,
    Index,
    Inexpressible,
    Split,
    dims_of,
    forward,
    new_index,
    split_map,
)
from minitorch.compiler.ir.program import Program, Shape, Value
from minitorch.compiler.ir.sizes import surely_equal, surely_less, typical
from minitorch.compiler.schedule.folds import fold_axes, fold_scope
from minitorch.compiler.schedule.grouping import Grouping, is_checked_index, is_number
from minitorch.compiler.schedule.groups import (
    EXCHANGES,
    PARTIAL,
    PLACE,
    SORTS,
    VIRTUAL,
    Check,
    Contradiction,
    Group,
    Kind,
    Obstacle,
    Read,
    grain,
    is_composite,
    is_exchange,
)
from minitorch.compiler.schedule.machine import Machine
from minitorch.compiler.schedule.merge import merge

TALL = 24  # so many views may lie on top of each other: reading more of them would take forever
MOST_ADDED = 2  # arrays to a product that a library computes: a row of numbers, and one of as many as it has
SPLITS = 6  # so often a group's loops are divided for one value, at most

LeavesAt = Callable[[Index], Iterator[Read | Obstacle]]


def _numbers_of_sizes(program: Program, machine: Machine) -> set[Value]:
    """Return single numbers that are made of sizes alone (a mean's 1 / n), and that only elementwise functions read.

    Each of those computes them for itself: to wait until another has would take longer.
    """
    found: set[Value] = set()
    sizes: set[Value] = set()  # and looks at them
    for value in program.values():
        if value.primitive in ("size", "map", "reshape", "expand") and machine.computes(value):
            below = all(i in sizes or is_number(i) for i in value.inputs)
            varies = value.primitive == "size" or any(i in sizes for i in value.inputs)
            if below and varies and (value.primitive != "map" or surely_equal(value.size, 1)):
                sizes.add(value)
                if value.primitive == "map":
                    found.add(value)
                continue
        if value.primitive != "map" or not machine.computes(value):
            for operand in value.inputs:
                _leave_out(operand, found, sizes)
    for output in program.outputs:
        _leave_out(output, found, sizes)
    return found


def _leave_out(value: Value, found: set[Value], sizes: set[Value]) -> None:
    """Take out what lies below something."""
    stack = [value]
    while stack:
        each = stack.pop()
        if each in sizes:
            found.discard(each)
            if each.primitive != "map":
                stack += each.inputs


def fuse_values(program: Program, machine: Machine, fuse: bool = True) -> Fuser:
    """Put every value of a program into a group; fuse=False: each into one of its own."""
    fuser = Fuser(program, machine, fuse)
    fuser.place_all()
    return fuser


class Fuser(Grouping):
    """Puts values into groups, one after the other.

    apart: why the group that computes a value and one that reads it are two, where they were tried as one.
    """

    def __init__(self, program: Program, machine: Machine, fuse: bool = True) -> None:
        super().__init__(program, machine)
        self.fuse = fuse
        self.apart: dict[Value, str] = {}

    def place_all(self) -> None:
        """Put every value into a group."""
        heights: dict[Value | None, int] = {}
        if self.fuse:
            self.numbers = _numbers_of_sizes(self.program, self.machine)
            self.inlined |= self.numbers
        for value in self.program.values():
            if value.primitive in ("input", "constant") or value.size == 0 or value in self.inlined:
                continue
            if value.primitive in VIRTUAL and self.machine.computes(value):
                below = value.inputs[0] if value.inputs else None
                heights[value] = 1 + heights.get(below, 0)
                if heights[value] > TALL:
                    self.force(value)
                    heights[value] = 0
                continue
            self.place(value)
        for output in self.program.outputs:
            if output.size and output.primitive in VIRTUAL and self.machine.computes(output):
                self.force(output)

    def place(self, value: Value) -> None:
        """Put one value into a group."""
        if not self.machine.computes(value):
            self.place_call(value)
            return
        primitive = value.primitive
        if primitive == "contract":
            self.place_contract(value)
        elif primitive == "scan" or primitive in SORTS:
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

    def new_group(self, kind: Kind) -> Group:
        """Return an empty group."""
        group = Group(len(self.made), kind)
        self.made.append(group)
        self.groups.append(group)
        return group

    def join(self, group: Group, value: Value, index: Index, leaves: Sequence[Value]) -> None:
        """Make a value a member."""
        group.members.append(value)
        group.index[value] = index
        self.group_of[value] = group
        group.remember(value.shape, index)
        for leaf in leaves:
            self.reads(group, leaf)
        if value.primitive == "gather":
            self.after_check(group, _check_of(value))

    # --- views that are written out -------------------------------------------------------------------------

    def force(self, view: Value) -> None:
        """Have a view written out."""
        if view in self.forced or view.primitive not in VIRTUAL:
            return
        self.forced.add(view)
        self.place_map(view)

    def force_below(self, view: Value) -> None:
        """Have what a view looks at written out, so that the view is only another shape of it."""
        below = view.inputs[0]
        if below.primitive not in VIRTUAL or below in self.forced:
            raise Contradiction(f"{view} cannot be read, though what it looks at lies in memory")
        self.force(below)

    def loops_over(self, shape: Shape, leaves_at: LeavesAt) -> tuple[Index, list[Value]]:
        """Return loops over a shape, divided where a view asks for it, and what has to be known in them."""
        while True:
            index = new_index(shape)
            found = _all_reads(leaves_at(index))
            while isinstance(found, Obstacle) and found.split is not None:
                index = _rewritten(index, split_map(found.split))
                found = _all_reads(leaves_at(index))
            if not isinstance(found, Obstacle):
                return index, [leaf.value for leaf in found]
            self.force_below(found.view)

    def leaves_of(self, value: Value) -> list[Value]:
        """Return the leaves of a value over a space of its own."""
        return self.loops_over(value.shape, lambda index: self.leaves(value, index, None))[1]

    # --- maps -----------------------------------------------------------------------------------------------------

    def place_map(self, value: Value) -> None:
        """Put an elementwise value (or a copy of a view, or a gather) where its operands are computed."""
        groups = self.candidates(value.inputs) if self.fuse else []
        if len(groups) > 1 and surely_equal(value.size, 1):
            # A number is computed where most is waited for anyway: others may need the rest earlier.
            groups.sort(key=self.waits_for, reverse=True)
        if self.fuse and self.machine.figures.joins_readers:
            groups += [group for group in self.fellow_readers(value) if group not in groups]
        if not any(self.try_map(group, value) for group in groups):
            self.begin_map(value)

    def waits_for(self, group: Group) -> int:
        """Return how many elements are gone through before a group can be."""
        return sum(typical(each.elements) for each in self.groups if group.comes_after(each))

    def candidates(self, operands: Sequence[Value]) -> list[Group]:
        """Return the groups that compute what a value is made of, the latest first."""
        found: dict[Group, None] = {}
        for operand in operands:
            for leaf in self.leaf_values(operand):
                group = self.group_of.get(leaf)
                if group is not None and group.kind in ("loop", "contract"):
                    found[group] = None
        return sorted(found, key=lambda g: (g.kind == "contract", bool(g.inner), g.number), reverse=True)

    def fellow_readers(self, value: Value) -> list[Group]:
        """Return the loops that read some of what a value is made of, and fold nothing, the latest first."""
        found: dict[Group, None] = {}
        for operand in value.inputs:
            for leaf in self.leaf_values(operand):
                readers = self.readers.get(leaf, ())
                found |= dict.fromkeys(g for g in readers if g.kind == "loop" and g.members and not g.inner)
        return sorted(found, key=lambda group: group.number, reverse=True)

    def guesses(self, group: Group, value: Value) -> Iterator[Index]:
        """Yield indices at which a value might be computed in a group."""
        yield from list(group.indices.get(value.shape, ()))
        for operand in value.inputs if value.primitive not in VIRTUAL else (value,):
            if operand.shape != value.shape:  # a gather's
                continue
            views = []
            below = operand
            while not self.is_leaf(below) and below.primitive in ("reshape", "permute"):
                views.append(below)
                below = below.inputs[0]
            if views and self.group_of.get(below) is group:
                index = self.carried(group, below, views)
                if index is not None:
                    yield index

    def carried(self, group: Group, member: Value, views: list[Value]) -> Index | None:
        """Return a member's index carried through views to what they give, dividing loops where needed."""
        for _ in range(4):
            try:
                index = group.index[member]
                for view in reversed(views):
                    index = forward(view, index)
                return index
            except Inexpressible:
                return None
            except Split as request:
                if request.dim not in group.dims:
                    return None
                group.split(request)
        return None

    def try_map(self, group: Group, value: Value) -> bool:
        """Let a value join a group if everything agrees."""
        figures = self.machine.figures
        if value.primitive == "gather":
            check = self.checks.get(_check_of(value))
            if check is not None and check.comes_after(group):
                return False
        is_product = group.kind == "contract"
        most = figures.most_after(group.product) if is_product else figures.largest_group
        if is_product and not most:
            if not (figures.finishes and self.finishes(group, value)):
                return False
        elif len(group.members) > most or (is_product and self.meets_far_inputs(value)):
            return False
        for guess in self.guesses(group, value):
            level = group.level(guess)
            if level is None or (level == "row" and group.kind != "loop"):
                continue
            against_the_grain = (
                level == "full"
                and typical(value.size) >= figures.grained_elements
                and grain(guess, value) is not group.grain
            )
            if against_the_grain:
                continue
            agreed = self.agreeing(group, guess, lambda index: self.operand_leaves(value, index, group))
            if agreed is not None:
                self.join(group, value, *agreed)
                self.absorb(group, value)
                return True
        return False

    def finishes(self, group: Group, value: Value) -> bool:
        """Whether a library does this to a product's result on the way: add to it, or round it as its factors are."""
        product, last = group.product, group.members[-1]
        function = value.attributes.get("function")
        if function == "cast":
            return value.dtype == product.inputs[0].dtype and self.is_read_once(value.inputs[0], last)
        if any("window" in (x.primitive, *(i.primitive for i in x.inputs)) for x in product.inputs):
            return False  # a convolution, perhaps in groups, which may be another library's
        if function != "add" or value.dtype != np.float32 or len(group.members) > MOST_ADDED:
            return False
        if any(map(_is_windows, product.inputs)):  # a library for convolutions adds nothing
            return False
        first, second = value.inputs
        other = second if self.is_read_once(first, last) else first
        if other is first and not self.is_read_once(second, last):
            return False
        return self.lies_in_memory_anyway(other, product)

    def lies_in_memory_anyway(self, operand: Value, product: Value) -> bool:
        """Whether what is added to a product is a row of numbers, or given, or another product's result."""
        below = operand
        while not self.is_leaf(below) and below.primitive in ("reshape", "expand", "slice"):
            below = below.inputs[0]
        if not self.is_leaf(below) or is_number(below):
            return False
        if operand.primitive == "expand":
            row = operand.inputs[0]
            is_half = below.attributes.get("function") == "cast" and below.inputs[0].dtype in HALVES
            fits = is_half == (product.inputs[0].dtype in HALVES)
            return fits and surely_equal((row.size, row.shape[-1]), (product.shape[-1],) * 2)
        maker = self.group_of.get(below)
        alike = surely_equal(operand.size, product.size) and product.inputs[0].dtype == np.float32
        return alike and (maker is None or maker.kind == "contract")

    def is_read_once(self, view: Value, member: Value) -> bool:
        """Whether this is a look at a member of a group, and nobody else has one."""
        while view is not member and not self.is_leaf(view) and self.uses[view] == 1:
            view = view.inputs[0]
        return view is member and self.uses[view] == 1

    @functools.cached_property
    def uses(self) -> Counter[Value]:
        """By how many others, and results, each value is read."""
        return Counter(
            [*self.program.outputs, *(each for value in self.program.values() for each in value.inputs)]
        )

    def meets_far_inputs(self, value: Value) -> bool:
        """Whether a value is made with a large array that the program is given, as an optimiser's step is.

        A product is finished tile by tile, some elements of some rows: memory that is far away comes faster in a loop
        of its own, from its beginning to its end.
        """
        figures = self.machine.figures
        if typical(value.nbytes) < figures.far_inputs:
            return False
        leaves = {leaf for operand in value.inputs for leaf in self.leaf_values(operand)}
        for group in {self.group_of[leaf] for leaf in leaves if leaf in self.group_of}:
            if group.kind == "loop":  # it would be taken in
                leaves.update(group.needs)
        return any(
            leaf.primitive == "input" and typical(leaf.nbytes) >= figures.far_inputs for leaf in leaves
        )

    def agreeing(self, group: Group, index: Index, leaves_at: LeavesAt) -> tuple[Index, list[Value]] | None:
        """Return the index and the leaves if all that is read in the group is read where it is computed."""
        for _ in range(SPLITS):
            found: list[Value] = []
            for leaf in leaves_at(index):
                if isinstance(leaf, Obstacle):
                    if leaf.split is None or leaf.split.dim not in group.dims:
                        return None
                    index = _rewritten(index, group.split(leaf.split))
                    break
                if self.group_of.get(leaf.value) is group:
                    in_place = leaf.where == group.index[leaf.value] and not leaf.conditional
                    if not in_place or not group.is_known_in_row(leaf.value):
                        return None
                elif self.would_wait(group, leaf.value):
                    return None
                found.append(leaf.value)
            else:
                return index, found
        return None

    def begin_map(self, value: Value, alone: bool = False) -> Group:
        """Begin a group with an elementwise value; `alone`: and let it stay alone."""
        index, leaves = self.loops_over(value.shape, lambda index: self.operand_leaves(value, index, None))
        group = self.new_group("loop")
        group.dims = dims_of(index)
        self.join(group, value, index, leaves)
        if self.fuse and not alone:
            self.absorb(group, value)
        return group

    def absorb(self, group: Group, value: Value) -> None:
        """Take in whole groups that compute operands of a new member, where their spaces are the same."""
        if value.primitive == "gather":
            return
        found = _all_reads(self.operand_leaves(value, group.index[value], group))
        if isinstance(found, Obstacle):
            return
        for leaf, where, conditional in found:
            other = self.group_of.get(leaf)
            if other is None or other is group or other.kind != "loop" or conditional or where is None:
                continue
            reason = merge(self, group, other, leaf, where)
            if reason is not None:
                self.apart[leaf] = reason

    # --- folds ----------------------------------------------------------------------------------------------------

    def place_fold(self, value: Value) -> None:
        """Put a reduction into a group that has its operand at hand, or begin one."""
        source = value.inputs[0]
        if self.fuse:
            groups = dict.fromkeys(self.candidates([source]))
            for leaf in self.leaf_values(source):  # others that read the same
                groups.update(dict.fromkeys(g for g in self.readers.get(leaf, ()) if g.members))
            if any(group.kind == "loop" and self.try_fold(group, value) for group in groups):
                return
        index, leaves = self.loops_over(source.shape, lambda index: self.leaves(source, index, None))
        group = self.new_group("loop")
        group.dims = dims_of(index)
        scope = fold_scope(group, value, index, self.machine.figures)
        if scope is None:
            raise Contradiction(f"{value} keeps and folds the same loop")
        self.join_fold(group, value, index, leaves, scope)

    def try_fold(self, group: Group, value: Value) -> bool:
        """Let a reduction join a group if everything agrees."""
        source = value.inputs[0]
        guesses = [group.index[source]] if self.group_of.get(source) is group else []
        guesses += [g for g in self.guesses(group, source) if g not in guesses]
        for guess in guesses:
            if group.level(guess) is None:
                continue
            agreed = self.agreeing(group, guess, lambda index: self.leaves(source, index, group))
            if agreed is None:
                continue
            index, leaves = agreed
            scope = fold_scope(group, value, index, self.machine.figures)
            if scope is not None:
                self.join_fold(group, value, index, leaves, scope)
                return True
        return False

    def join_fold(
        self, group: Group, value: Value, index: Index, leaves: Sequence[Value], scope: str
    ) -> None:
        """Make a fold a member; one in blocks leaves the last step to another group."""
        axes = set(fold_axes(value))
        made = value
        if scope != "row" and group.blocks > 1:
            attributes = {"function": value.attributes["function"], "axes": tuple(sorted(axes))}
            made = Value(PARTIAL, value.inputs, attributes, (group.blocks, *value.shape), value.dtype)
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

    # --- products -------------------------------------------------------------------------------------------------

    def place_contract(self, value: Value) -> None:
        """A product begins a group, one loop per letter; elementwise work on its result may join."""
        left, _, out = value.attributes["spec"].partition("->")
        parts = left.split(",")
        sizes = {
            c: n
            for part, operand in zip(parts, value.inputs, strict=True)
            for c, n in zip(part, operand.shape, strict=True)
        }
        letters, leaves = self.factors(value, parts, sizes)
        group = self.new_group("contract")
        index = tuple(letters[c] for c in out)
        group.dims = dims_of(index)
        group.source[value] = tuple(letters.values())
        group.letters = list(letters)
        self.join(group, value, index, leaves)

    def factors(
        self, value: Value, parts: list[str], sizes: dict[str, int]
    ) -> tuple[dict[str, Affine], list[Value]]:
        """Return loops for a product's letters and what it reads, having its operands made readable."""
        letters: dict[str, Affine] = {c: new_index((n,))[0] for c, n in sizes.items()}
        leaves: list[Value] = []
        for part, operand in zip(parts, value.inputs, strict=True):
            found = _all_reads(self.leaves(operand, tuple(letters[c] for c in part), None))
            while isinstance(found, Obstacle) and found.split is not None:
                rewrite = split_map(found.split)
                letters = {c: rewrite(a) for c, a in letters.items()}
                found = _all_reads(self.leaves(operand, tuple(letters[c] for c in part), None))
            if isinstance(found, Obstacle):
                self.force_below(found.view)
            elif any(leaf.conditional for leaf in found) and not self.machine.figures.reads_padded:
                self.force_pad(operand)
            elif not self.in_memory(operand):
                self.force(operand)
            else:
                leaves += [leaf.value for leaf in found]
                continue
            return self.factors(value, parts, sizes)
        return letters, leaves

    def in_memory(self, operand: Value) -> bool:
        """Whether a value is a view of something that lies in memory: a product reads nothing else."""
        while not self.is_leaf(operand) and operand.primitive not in ("map", "iota", "size"):
            operand = operand.inputs[0]
        return self.is_leaf(operand) and not is_number(operand)

    def force_pad(self, operand: Value) -> None:
        """Have a padded operand of a product written out, pad and all."""
        view = operand
        while view.primitive != "pad":
            view = view.inputs[0]
        self.force(view)

    # --- all others -----------------------------------------------------------------------------------------------

    def place_scan(self, value: Value) -> None:
        """Running sums have a group of their own; what they sum is computed inside it only if it is a view."""
        source, axis = value.inputs[0], value.attributes["axis"]

        def leaves_at(index: Index) -> Iterator[Read | Obstacle]:
            for leaf in self.leaves(source, index, None):
                if isinstance(leaf, Obstacle) and leaf.split is not None:
                    _, terms = index[axis]
                    if any(dim is leaf.split.dim for dim, _ in terms):  # the axis itself stays one loop
                        leaf = Obstacle(self.last_reshape(source), None)
                yield leaf

        index, leaves = self.loops_over(source.shape, leaves_at)
        group = self.new_group("scan")
        group.dims = dims_of(index)
        group.inner = dims_of([index[axis]])
        group.outer = [d for d in group.dims if d not in group.inner]
        group.source[value] = index
        group.scope[value] = "scan"
        self.join(group, value, index, leaves)

    def last_reshape(self, source: Value) -> Value:
        """Return the last reshape below a value: the view that asked for a split."""
        while source.primitive != "reshape":
            source = source.inputs[0]
        return source

    def place_scatter(self, value: Value) -> None:
        """The base is copied, then updates go to their places."""
        check = Check(value.inputs[1], value.shape[value.attributes["axis"]])
        self.add_check(check)
        group = self.new_group("scatter")
        for operand in value.inputs:
            for leaf in self.leaves_of(operand):
                self.reads(group, leaf)
        group.members.append(value)
        self.group_of[value] = group
        self.after_check(group, check)

    def place_concatenate(self, value: Value) -> None:
        """Each part is written to its place in the whole, wherever it is computed."""
        axis, begin = value.attributes["axis"], 0
        placed = []
        for part in value.inputs:
            if part.size:
                attributes = {"into": value, "axis": axis, "begin": begin}
                placed.append(Value(PLACE, (part,), attributes, part.shape, part.dtype))
                self.place_map(placed[-1])
            begin += part.shape[axis]
        group = self.new_group("concatenate")
        for part in placed:
            self.reads(group, part)
        group.members.append(value)
        self.group_of[value] = group

    def prepare_gather(self, value: Value) -> None:
        """Have what is gathered from in memory, and its indices checked."""
        source = self.gather_source(value)
        if source.primitive in VIRTUAL and not is_checked_index(value):
            self.force(source)
        if is_number(source):
            self.force(value.inputs[0])
        self.add_check(_check_of(value))

    def after_check(self, group: Group, check: Check) -> None:
        """Have a group wait until indices were looked at, if that is needed."""
        if check in self.checks:
            self.after(group, self.checks[check])

    def add_check(self, check: Check) -> None:
        """See to it that indices are looked at before they are used."""
        known = bounds(check.indices)
        if check in self.checks or (
            known is not None and known[0] >= 0 and surely_less(known[1], check.bound)
        ):
            return
        leaves = self.leaves_of(check.indices)
        group = self.new_group("check")
        group.check = check
        for leaf in leaves:
            self.reads(group, leaf)
        self.checks[check] = group

    def place_call(self, value: Value) -> None:
        """NumPy computes this; neighbours that it computes too become one call."""
        if is_composite(value):
            self.place_composite(value)
            return
        leaves: list[Value] = []
        stack = list(value.inputs)
        while stack:
            operand = stack.pop()
            if operand.primitive in VIRTUAL and self.machine.computes(operand):
                stack.extend(operand.inputs)
            elif operand.primitive != "constant":
                leaves.append(operand)
        makers = [self.group_of[leaf] for leaf in leaves if leaf in self.group_of]
        calls = (
            m
            for m in makers
            if m.kind == "call"
            and not is_exchange(m)
            and not any(self.would_wait(m, x) for x in leaves)
            and value.primitive not in EXCHANGES  # between a start and its wait others come
        )
        self.take_in(next(calls, None) or self.new_group("call"), value, leaves)

    def place_composite(self, value: Value) -> None:
        """A backend has kernels for this, which read all of it from memory; each of its results goes with it."""
        if value.primitive == "item":
            self.take_in(self.group_of[value.inputs[0]], value, [])
            return
        for operand in value.inputs:
            if operand.primitive in VIRTUAL:
                self.force(operand)
        read = [operand for operand in value.inputs if operand.primitive != "constant"]
        self.take_in(self.new_group("composite"), value, read)

    def take_in(self, group: Group, value: Value, leaves: list[Value]) -> None:
        """Make a value that has no place in loops a member."""
        group.members.append(value)
        self.group_of[value] = group
        for leaf in leaves:
            self.reads(group, leaf)


def _is_windows(operand: Value) -> bool:
    """Whether a factor is made of windows, as a convolution's is."""
    while operand.primitive in VIRTUAL and operand.inputs and operand.primitive != "window":
        operand = operand.inputs[0]
    return operand.primitive == "window"


def _check_of(gather: Value) -> Check:
    """Return what has to hold for the indices of a gather."""
    source, index = gather.inputs
    return Check(index, source.shape[gather.attributes["axis"]])


def _all_reads(leaves: Iterator[Read | Obstacle]) -> list[Read] | Obstacle:
    """Return all leaves, or the first thing that stands in the way."""
    found = []
    for leaf in leaves:
        if isinstance(leaf, Obstacle):
            return leaf
        found.append(leaf)
    return found


def _rewritten(index: Index, rewrite: Callable[[Affine], Affine]) -> Index:
    return tuple(rewrite(a) for a in index)
