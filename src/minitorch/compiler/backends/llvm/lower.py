"""From groups to kernels. Enters: groups of values. Leaves: the text of each group's kernels.

Here values become nodes: every load gets its address, every view disappears.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.body import Body, Expression, in_order
from minitorch.compiler.backends.llvm.kernel import Kernel, with_sizes
from minitorch.compiler.backends.llvm.loops import Loop, LoopFold, Store, write_loop
from minitorch.compiler.backends.llvm.products import Operand, Product, write_product
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.ir.index import (
    Affine,
    Condition,
    Dim,
    Index,
    Inexpressible,
    Split,
    dims_of,
    new_index,
    offset,
    split_map,
    weighted,
)
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import typical
from minitorch.compiler.schedule.groups import PARTIAL, PLACE, Contradiction, Group
from minitorch.compiler.schedule.schedule import Schedule

BOOL = np.dtype(np.bool_)
STREAMED_BYTES = 24 << 20  # results larger than this would only drive other things out of the caches


class Lowering:
    """Writes groups as kernels."""

    def __init__(self, schedule: Schedule, target: Target) -> None:
        self.schedule = schedule
        self.target = target
        self.outputs = set(schedule.program.outputs)
        self.texts: dict[Any, tuple[Kernel, list[Any]]] = {}
        self.group = Group(0, "loop")  # the one being written
        self.rows: dict[Any, tuple[Any, int]] = {}  # see `Body`

    def is_stored(self, value: Value) -> bool:
        """Whether a value lies in memory, for the group that is being written."""
        return self.schedule.lies_in_memory(value, self.group)

    def kernels(self, group: Group) -> list[Kernel]:
        """Return the kernels of a group, in the order in which they have to run."""
        self.group = group
        try:
            return self._kernels(group)
        except (Inexpressible, Split) as problem:
            raise Contradiction(
                f"a {group.kind} reads a view at an index that cannot be written"
            ) from problem

    def _kernels(self, group: Group) -> list[Kernel]:
        if group.kind == "contract":
            return [self.contract(group)]
        if group.kind == "scatter":
            return self.scatter(group.members[0])
        if group.kind == "concatenate":
            return []  # its parts have been written where they were computed
        if group.kind == "check":
            return [self.check(group)]
        loop = self.loop(group)
        return [self.write(loop)] if loop.stores or loop.folds else []

    def write(self, loop: Loop) -> Kernel:
        """Write a loop, unless an equal one has been."""
        return self.written(loop_key(loop), loop.body, lambda: write_loop(loop, self.target))

    # --- loops -------------------------------------------------------------------------------------------

    def loop(self, group: Group) -> Loop:
        """Return what a loop kernel computes."""
        body = Body(self.is_stored, self.rows)
        divided = group.inner is not None
        outer = list(group.outer) if divided else list(group.dims)
        loop = Loop(body, outer, list(group.inner or ()), divided, blocks=group.blocks)
        for member in group.members:
            if member in group.source:
                self.fold(group, member, body, loop)
                continue
            index = group.index[member]
            node = body.compute(member, index)
            body.give(member, index, node)
            loop.stores += self.stores(member, index, node, body)
        return loop

    def stores(self, member: Value, index: Index, node: Expression, body: Body) -> list[Store]:
        """Return how a member reaches memory, if it does."""
        if member.primitive == PLACE:
            whole, axis = member.attributes["into"], member.attributes["axis"]
            begin = ((member.attributes["begin"], ()), 1)
            moved = tuple(weighted([(a, 1), begin]) if i == axis else a for i, a in enumerate(index))
            return [Store(node, *body.buffer(whole, offset(moved, whole.shape)))]
        if member in self.schedule.stored:
            return [Store(node, body.operand(member), body.place(member, index), last=self.is_last(member))]
        return []

    def is_last(self, value: Value) -> bool:
        """Whether a value is a large result that nothing here reads again."""
        return (
            typical(value.nbytes) >= STREAMED_BYTES
            and value in self.outputs
            and not self.schedule.is_read(value)
        )

    def fold(self, group: Group, member: Value, body: Body, loop: Loop) -> None:
        """Add a fold to a loop."""
        index, scope = group.index[member], group.scope[member]
        source = body.at(member.inputs[0], group.source[member])
        fold = LoopFold(member, member.attributes["function"], source, scope)
        loop.folds.append(fold)
        if member.primitive == "arg_reduce":
            loop.position = group.source[member][member.attributes["axis"]]
        if scope == "row":
            result = body.result(member, frozenset(group.outer))
            body.give(member, index, result)
            if member in self.schedule.stored:
                loop.stores.append(Store(result, body.operand(member), body.place(member, index)))
            return
        fold.operand = body.operand(member)
        shape = member.shape[1:] if member.primitive == PARTIAL else member.shape
        fold.where = offset(index, shape) if shape else (0, ())
        for n in shape:
            fold.size *= n

    def over(self, value: Value, build: Callable[[Body, Index], Loop]) -> Kernel:
        """Write a kernel over a space of its own, dividing its loops where an index asks for it."""
        index = new_index(value.shape)
        while True:
            try:
                return self.write(build(Body(self.is_stored, self.rows), index))
            except Split as request:
                rewrite = split_map(request)
                index = tuple(rewrite(a) for a in index)

    def check(self, group: Group) -> Kernel:
        """Look whether indices are within bounds."""
        assert group.check is not None
        value, bound = group.check

        def build(body: Body, index: Index) -> Loop:
            node = body.at(value, index)
            low = body.apply("less", BOOL, node, body.constant(0, value.dtype))
            high = body.apply("greater_equal", BOOL, node, body.constant(bound, value.dtype))
            bad = body.apply("logical_or", BOOL, low, high)
            loop = Loop(body, [], dims_of(index), True)
            loop.folds.append(LoopFold(None, "logical_or", bad, "check"))
            return loop

        return self.over(value, build)

    def scatter(self, value: Value) -> list[Kernel]:
        """Copy the base, then bring the updates to their places, one after the other."""
        base, places, updates = value.inputs
        axis = value.attributes["axis"]

        def copy(body: Body, index: Index) -> Loop:
            loop = Loop(body, dims_of(index), [], False)
            loop.stores.append(Store(body.at(base, index), body.operand(value), offset(index, value.shape)))
            return loop

        def bring(body: Body, index: Index) -> Loop:
            rows = dims_of([index[axis]])
            loop = Loop(body, rows, [d for d in dims_of(index) if d not in rows], True, serial=True)
            around: list[Affine] = list(index)
            around[axis] = (0, ())
            stride = 1
            for n in value.shape[axis + 1 :]:
                stride *= n
            place = body.at(places, (index[axis],))
            loop.stores.append(
                Store(
                    body.at(updates, index),
                    body.operand(value),
                    offset(tuple(around), value.shape),
                    ((place, stride),),
                    value.attributes["function"],
                )
            )
            return loop

        return [self.over(base, copy), self.over(updates, bring)]

    # --- products --------------------------------------------------------------------------------------------

    def contract(self, group: Group) -> Kernel:
        """Write a product with what follows it."""
        value, indices, summed = product_of(group)
        body = Body(self.is_stored, self.rows)
        sides = [
            self.side(body, operand, index) for operand, index in zip(value.inputs, indices, strict=True)
        ]
        node = body.result(value, frozenset(dims_of(group.index[value])))
        stores = self.epilogue(group, value, body, node)
        product = Product(value, sides[0], sides[1], group.index[value], summed, body, node, stores)
        return self.written(_product_key(product), body, lambda: write_product(product, self.target))

    def epilogue(self, group: Group, value: Value, body: Body, node: Expression) -> list[Store]:
        """Return all that is stored of a product and of the others of its group, which read its element as a node."""
        index = group.index[value]
        body.give(value, index, node)
        stores = []
        if value in self.schedule.stored:
            stores.append(Store(node, body.operand(value), body.place(value, index)))
        for member in group.members:
            if member is value:
                continue
            made = body.compute(member, group.index[member])
            body.give(member, group.index[member], made)
            stores += self.stores(member, group.index[member], made, body)
        return stores

    def side(self, body: Body, operand: Value, index: Index) -> Operand:
        """Find where an operand of a product lies."""
        looked_up = Body(self.is_stored, self.rows)
        node = looked_up.at(operand, index)
        if node.kind != "load":
            raise Contradiction(f"a product reads {operand}, which does not lie in memory")
        start, terms = node.data.where
        key = looked_up.operands[node.data.operand]
        if not isinstance(key, tuple):
            key = (key, start * operand.dtype.itemsize)
        return Operand(body.operand(key), {**dict.fromkeys(dims_of(index), 0), **dict(terms)})

    def with_sizes(self, write: Callable[[], Any]) -> Any:
        """Write a kernel in which sizes may vary."""
        return with_sizes(write)

    # --- equal kernels ---------------------------------------------------------------------------------------

    def written(self, key: Any, body: Body, write: Callable[[], Any]) -> Any:
        """Write a kernel, or take over the text of an equal one; only its operands differ."""
        before = len(body.operands)
        known = self.texts.get(key)
        if known is None:
            kernel = self.with_sizes(write)
            self.texts[key] = (kernel, kernel.operands[before:])
            return kernel
        kernel, added = known
        return dataclasses.replace(kernel, operands=[*body.operands, *added])


class _Numbers:
    """Names for loops and nodes that are the same for equal kernels: the order in which they are met."""

    def __init__(self, dims: Sequence[Dim]) -> None:
        self.dims = {d: i for i, d in enumerate(dims)}
        self.nodes: dict[Expression, int] = {}
        self.results: dict[Value, int] = {}
        self.lines: list[Any] = [tuple(d.size for d in dims)]

    def affine(self, a: Affine) -> Any:
        return a[0], tuple(sorted((self.dims[d], c) for d, c in a[1]))

    def conditions(self, conditions: Sequence[Condition]) -> Any:
        return tuple((self.affine(a), low, high) for a, low, high in conditions)

    def add(self, roots: Sequence[Expression]) -> None:
        """Number nodes, and write down what each is."""
        for node in in_order(roots):
            if node in self.nodes:
                continue
            self.nodes[node] = len(self.nodes)
            data = node.data
            if node.kind == "load":
                where, conditions = self.affine(data.where), self.conditions(data.conditions)
                data = (data.operand, where, data.strides, conditions)
            elif node.kind == "index":
                data = self.affine(data)
            elif node.kind == "pad":
                data = (self.conditions(data.conditions), data.number)
            elif node.kind == "result":
                data = self.results.setdefault(data, len(self.results))
            dims = tuple(sorted(self.dims[d] for d in node.dims)) if node.kind == "result" else ()
            self.lines.append((node.kind, tuple(self.nodes[a] for a in node.args), data, node.dtype, dims))

    def store(self, store: Store) -> None:
        places = tuple((self.nodes[n], stride) for n, stride in store.places)
        self.lines.append(
            (
                self.nodes[store.node],
                store.operand,
                self.affine(store.where),
                places,
                store.function,
                store.last,
            )
        )


def product_of(group: Group) -> tuple[Value, list[Index], list[Dim]]:
    """Return the product in a group, where its operands are read, and the loops that are summed over."""
    value = next(m for m in group.members if m.primitive == "contract")
    letters = dict(zip(group.letters, group.source[value], strict=True))
    left, _, out = value.attributes["spec"].partition("->")
    indices = [tuple(letters[c] for c in part) for part in left.split(",")]
    return value, indices, dims_of(letters[c] for c in letters if c not in out)


def loop_key(loop: Loop) -> Any:
    """Return what makes two loops the same kernel."""
    numbers = _Numbers([*loop.outer, *loop.inner])
    for fold in loop.folds:
        numbers.add([fold.source])
        result = None if fold.value is None else numbers.results.setdefault(fold.value, len(numbers.results))
        dtype = None if fold.value is None else fold.value.dtype
        what = (fold.function, fold.scope, fold.size, dtype)
        numbers.lines.append(
            (what, numbers.nodes[fold.source], fold.operand, numbers.affine(fold.where), result)
        )
    for store in loop.stores:
        numbers.add([store.node, *(n for n, _ in store.places)])
        numbers.store(store)
    rest = (len(loop.outer), loop.divided, loop.blocks, numbers.affine(loop.position), loop.serial)
    return ("loop", rest, len(loop.body.operands), tuple(numbers.lines))


def nodes_key(dims: Sequence[Dim], named: Mapping[str, Expression]) -> Any:
    """Return what makes some expressions in loops the same."""
    numbers = _Numbers(dims)
    numbers.add(list(named.values()))
    return tuple(numbers.lines), tuple((name, numbers.nodes[node]) for name, node in named.items())


def _product_key(product: Product) -> Any:
    """Return what makes two products the same kernel."""
    numbers = _Numbers([*dims_of(product.index), *product.summed])
    numbers.add([product.node])
    for store in product.stores:
        numbers.add([store.node])
        numbers.store(store)
    sides = tuple(
        (side.place, tuple((numbers.dims[d], s) for d, s in side.strides.items()))
        for side in (product.a, product.b)
    )
    where = tuple(numbers.affine(a) for a in product.index)
    return ("product", product.value.dtype, sides, where, len(product.body.operands), tuple(numbers.lines))
