"""From groups to GPU kernels. Enters: groups of values. Leaves: the kernels of each group.

Values become expressions as for a CPU; a product is a loop like any other, that folds a row of multiplications.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda import attention as attention_of
from minitorch.compiler.backends.cuda.arrangement import is_aligned
from minitorch.compiler.backends.cuda.attention import ROW_NUMBERS, SUM, Attention
from minitorch.compiler.backends.cuda.attention_kernels import kernels_of
from minitorch.compiler.backends.cuda.capabilities import Gpu
from minitorch.compiler.backends.cuda.convolutions import (
    Convolution,
    LibraryConvolution,
    as_it_lies,
    orders,
    present,
    sizes_of,
    swapped,
)
from minitorch.compiler.backends.cuda.loops import write_loop
from minitorch.compiler.backends.cuda.products import (
    DTYPES,
    LEAST_MULTIPLICATIONS,
    LEAST_READ_AGAIN,
    LEAST_WORTH_PACKING,
    Arranged,
    LibraryProduct,
    Matrix,
    Side,
    arrangements,
    finished,
    is_small,
    worth_transposing,
)
from minitorch.compiler.backends.cuda.scans import pieces_of, write_scan
from minitorch.compiler.backends.cuda.sorting import Rows, scratch_bytes, write_sort
from minitorch.compiler.backends.cuda.tiles import RESULT, ROW
from minitorch.compiler.backends.cuda.words import SIZE, TRIPLE, Kernel, with_sizes
from minitorch.compiler.backends.llvm.body import Body
from minitorch.compiler.backends.llvm.loops import Loop, LoopFold, Store
from minitorch.compiler.backends.llvm.lower import Lowering, loop_key, nodes_key, product_of
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.index import (
    ZERO,
    Affine,
    Dim,
    Index,
    Inexpressible,
    Split,
    dims_of,
    new_index,
    offset,
    shifted,
    total,
)
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import Size, is_fixed, spelled, surely_at_most, typical
from minitorch.compiler.schedule.groups import SORTS, Contradiction, Group
from minitorch.compiler.schedule.memory import Scratch
from minitorch.compiler.schedule.schedule import Schedule
from minitorch.engine.precision import precision

GPU = Gpu()
# Operands (FAILED, n): whether the n-th check has failed, counted from 1; (FAILED, 0): whether any has.
FAILED = "failed"


ALIGNED_ROWS = 16  # bytes, of which libraries like whole numbers for a row
LEAST_ROW = 256
# What looks at a value element by element, wherever that lies.
_BY_INDEX = {"map", "reduce", "contract", "permute", "expand", "slice", "reshape", "partial", "copy"}


def _rows_apart(schedule: Schedule) -> dict[Value, tuple[int, int]]:
    """Return values whose rows are to lie at multiples of 16 bytes, with their size then and how far apart these lie.

    Those are values in the program's own memory that a large product reads or makes.
    """
    readers: dict[Value, list[Value]] = {}
    values = schedule.program.values()
    for value in values:
        for each in value.inputs:
            readers.setdefault(each, []).append(value)

    def is_read_by_index(value: Value, row: int) -> bool:
        for reader in readers.get(value, ()):
            if reader.primitive not in _BY_INDEX or not GPU.computes(reader):
                return False
            if reader.primitive == "reshape" and (
                not reader.shape or reader.shape[-1] != row or not is_read_by_index(reader, row)
            ):
                return False
        return True

    found = {}
    for value in schedule.stored:
        row = value.shape[-1] if value.ndim > 1 else 0
        aligned = ALIGNED_ROWS // value.dtype.itemsize
        if (
            not is_fixed(row)
            or row < LEAST_ROW
            or row % aligned == 0
            or value.dtype not in (np.float32, *HALVES)
            or value.primitive not in ("map", "contract")
            or not schedule.needs_place(value)
            or value in schedule.program.outputs
            or not GPU.computes(value)
            or not is_read_by_index(value, row)
        ):
            continue
        around = [value, *value.inputs, *readers.get(value, ())]
        if any(each.primitive == "contract" for each in around):
            apart = -(-row // aligned) * aligned
            found[value] = (value.size // row * apart * value.dtype.itemsize, apart)
    return found


def _attention_key(attention: Attention) -> Any:
    """Return what makes the kernels of two attentions the same: all but which values they read and write."""
    a = attention
    places = {leaf: place for place, leaf in enumerate(a.leaves)}

    def lie(rows: attention_of.Rows | None) -> Any:
        source = None if rows is None or rows.source is None else places.get(rows.source)
        return None if rows is None else (source, dataclasses.replace(rows, source=None))

    body, named = attention_of.expressions(a)
    read = [each if isinstance(each, tuple) else (each,) for each in body.operands]
    return (
        nodes_key([*a.batches, a.query, a.key], named),
        tuple((places[value], *rest) for value, *rest in read),
        (a.size, a.band, a.kept_factor, a.in_groups, len(a.batches)),
        tuple(map(lie, (a.q, a.k, a.v, a.g, *a.of_queries))),
        tuple((name, lie(rows)) for name, rows in a.written.items()),
    )


def _all_with_sizes(body: Body, write: Callable[[], list[Any]]) -> list[Any]:
    """Write kernels of the same operands in which sizes may vary: those of where something begins, say."""
    names: dict[Size, str] = {}
    with spelled(lambda size: names.setdefault(size, f"%size.{len(names)}")):
        kernels = write()
    for kernel in kernels if names else ():
        kernel.operands, kernel.sizes = [*body.operands, *((SIZE, size) for size in names)], len(names)
    return kernels


class GpuLowering(Lowering):
    """Writes groups as kernels for a GPU."""

    def __init__(
        self, schedule: Schedule, convolves: Callable[[Value, Convolution], bool] = lambda *_: False
    ) -> None:
        super().__init__(schedule, Target("", "", TRIPLE))
        self.convolves = convolves  # whether a convolution is a library's
        self.written_views: dict[Value, Scratch] = {}  # for convolutions
        self.checks: list[Group] = []  # so far
        # Attention's kernels, by what makes two the same, and the values that those were written for.
        self.attentions: dict[Any, tuple[list[Value], list[Kernel]]] = {}
        self.rows = {value: (Scratch(size), row) for value, (size, row) in _rows_apart(schedule).items()}

    def write(self, loop: Loop) -> Any:
        """Write a loop; one that checks says where to say so, and others look there before they do any harm."""
        if loop.has("check"):
            self.checks.append(self.group)
            loop.folds[0].operand = loop.body.operand((FAILED, len(self.checks)))
            loop.body.operand((FAILED, 0))
            guard = None
        else:
            guard = loop.body.operand((FAILED, 0)) if self.checks and self.may_harm(loop) else None
        aligned = tuple(map(is_aligned, loop.body.operands))
        return self.written((guard, aligned, loop_key(loop)), loop.body, lambda: write_loop(loop, guard))

    def with_sizes(self, write: Callable[[], Any]) -> Any:
        """Write a kernel in which sizes may vary."""
        return with_sizes(write)

    def may_harm(self, loop: Loop) -> bool:
        """Whether a loop would read or write elsewhere if an index were out of range, or changes an input."""
        if any(store.places for store in loop.stores) or any(
            n.kind == "load" and n.args for n in loop.nodes()
        ):
            return True
        written = [s.operand for s in loop.stores] + [f.operand for f in loop.folds if f.operand >= 0]
        operands = [loop.body.operands[place] for place in written]
        values = [each[0] if isinstance(each, tuple) else each for each in operands]
        arguments, inputs = self.schedule.arguments, len(self.schedule.program.inputs)
        return any(arguments.get(value, inputs) < inputs for value in values)

    def _kernels(self, group: Group) -> list[Any]:
        if group.kind == "composite":
            return self.attention(group)
        if group.kind == "contract":
            return self.product(group)
        if group.kind == "scan":
            return self.sort(group) if group.members[0].primitive in SORTS else self.scan(group)
        return super()._kernels(group)

    def scan(self, group: Group) -> list[Any]:
        """Write running results; of few rows that are long, by pieces: their sums, what comes before each, and all."""
        loop = self.loop(group)
        (fold,) = loop.folds
        assert fold.value is not None
        pieces, dtype = pieces_of(loop), fold.value.dtype
        if pieces == 1 or self.checks or dtype.kind == "b":
            return [self.write(loop)]
        rows = total(loop.outer)
        sums, before = (Scratch(rows * pieces * dtype.itemsize) for _ in range(2))

        def first_and_last() -> list[Any]:
            made = write_scan(loop, None, pieces=pieces, sums=loop.body.operand(sums))
            if made is None:
                return []
            return [made, write_scan(loop, None, pieces=pieces, before=loop.body.operand(before))]

        written = _all_with_sizes(loop.body, first_and_last)
        if not written:
            return [self.write(loop)]
        first, last = written
        row, piece = Dim(rows), Dim(pieces)
        where = (0, ((row, pieces), (piece, 1)))
        body = Body(self.is_stored, self.rows)
        between, node = Loop(body, [row], [piece], True), body.read(sums, where, dtype)
        between.folds.append(LoopFold(fold.value, fold.function, node, "scan", body.operand(before), where))
        return [first, self.write(between), last]

    def sort(self, group: Group) -> list[Any]:
        """Write rows in their order."""
        (value,) = group.members
        (x,), body, index = value.inputs, Body(self.is_stored, self.rows), group.index[value]
        along = group.inner[0] if group.inner else Dim(1)
        node = body.at(x, group.source[value])
        operand, where = body.operand(value), body.place(value, index)
        size = scratch_bytes(x.dtype, x.size, along.size)
        scratch = body.operand(Scratch(size)) if size else None
        rows = Rows(body, group.outer, along, node, operand, where, value.primitive == "argsort", scratch)
        return _all_with_sizes(body, lambda: write_sort(rows))

    def attention(self, group: Group) -> list[Any]:
        """Return attention's kernels, on what is read and written in this group."""
        call, *items = group.members
        attention: Attention = call.attributes["function"]
        key = _attention_key(attention)
        if key not in self.attentions:
            self.attentions[key] = attention.leaves, kernels_of(attention)
        leaves, kernels = self.attentions[key]
        given = dict(zip(leaves, call.inputs, strict=False))
        rows = call.inputs[len(attention.leaves) :]
        if not all(self.is_stored(each) for each in call.inputs):
            raise Contradiction("attention reads what does not lie in memory")
        made = {each.attributes["index"]: each for each in items}
        names = list(dict.fromkeys(map(attention.result, attention.written)))
        written = {name: made.get(names.index(attention.result(name))) for name in attention.written}
        unread: dict[str, Scratch] = {}

        def operand(key: Any) -> Any:
            first, *rest = key if isinstance(key, tuple) else (key,)
            if first == SIZE:
                return key
            if first == RESULT:
                one_each = (*ROW_NUMBERS, SUM)
                size = attention.query.size if key[1] in ("o", "q", *one_each) else attention.key.size
                size *= attention.count * (1 if key[1] in one_each else attention.size)
                return written.get(key[1]) or unread.setdefault(key[1], Scratch(size * 4))
            if first == ROW:
                return rows[key[1]]
            return (given[first], *rest) if rest else given[first]

        def placed(kernel: Kernel) -> Kernel:
            exact = None if kernel.exact is None else placed(kernel.exact)
            return dataclasses.replace(kernel, operands=list(map(operand, kernel.operands)), exact=exact)

        # Layers that differ in nothing but where they read and write have one text.
        return [placed(kernel) for kernel in kernels]

    def product(self, group: Group) -> list[Any]:
        """Write a product, with what follows it: a library's, or a loop over its elements and along its sums."""
        value, indices, summed = product_of(group)
        last = group.members[-1]
        if value not in self.rows and self.is_rounded_alone(group, value):
            convolution = as_it_lies(value)
            if convolution is not None and self.convolves(value, convolution):
                return self.convolution(value, convolution, last)
        found = self.by_a_library(group, value, indices, summed)
        if found:
            return found
        body = Body(self.is_stored, self.rows)
        sides = [body.at(operand, index) for operand, index in zip(value.inputs, indices, strict=True)]
        sides = [
            side if side.dtype == value.dtype else body.apply("cast", value.dtype, side) for side in sides
        ]
        loop = Loop(body, dims_of(group.index[value]), summed, True)
        loop.folds.append(LoopFold(value, "add", body.apply("multiply", value.dtype, *sides), "row"))
        node = body.result(value, frozenset(dims_of(group.index[value])))
        loop.stores += self.epilogue(group, value, body, node)
        return [self.write(loop)]

    def is_rounded_alone(self, group: Group, value: Value) -> bool:
        """Whether nothing is done to a product but to round it to the dtype of its factors, if they are halves."""
        last = group.members[-1]
        if last.dtype != value.inputs[0].dtype or value.inputs[1].dtype != last.dtype:
            return False
        if last is value:
            return True
        where = Body(self.is_stored, self.rows).place(last, group.index[last])
        alone = len(group.members) == 2 and last.attributes.get("function") == "cast"
        return (
            alone and value not in self.schedule.stored and where == offset(group.index[value], value.shape)
        )

    def by_a_library(self, group: Group, value: Value, indices: list[Index], summed: list[Dim]) -> list[Any]:
        """Return a product as a library's, with what is done to its result; [] if it is none."""
        last, index = group.members[-1], group.index[value]
        kept = dims_of(index)
        arguments, inputs = self.schedule.arguments, len(self.schedule.program.inputs)
        alone = len(group.members) == 1
        few = typical(total(kept) * total(summed)) < LEAST_MULTIPLICATIONS
        if few or is_small(value) or (alone and arguments.get(value, inputs) < inputs):
            return []
        if arguments.get(last, inputs) >= inputs and (alone or value not in self.schedule.stored):
            where = Body(self.is_stored, self.rows).place(last, group.index[last])
            found = self.library_product(value, indices, kept, summed, last, where, self.added(group))
            if found or alone:
                return found
        # What a library does not do comes after it.
        made = Scratch(value.nbytes)
        where = offset(index, value.shape)
        found = self.library_product(value, indices, kept, summed, made, where)
        if not found:
            return []
        body = Body(self.is_stored, self.rows)
        loop = Loop(body, kept, [], False)
        loop.stores += self.epilogue(group, value, body, body.read(made, where, value.dtype))
        return [*found, self.write(loop)]

    def added(self, group: Group) -> list[tuple[Any, Affine, np.dtype] | None]:
        """Return what is added to a product: where it lies, and as what; None if it does not lie in memory."""
        found: list[tuple[Any, Affine, np.dtype] | None] = []
        before = group.product
        for member in group.members[1:]:
            if member.attributes["function"] == "add":
                body = Body(self.is_stored, self.rows)
                leaves = [set(self.schedule.grouping.leaf_values(i, group)) for i in member.inputs]
                other = member.inputs[before in leaves[0]]
                node = body.at(other, group.index[member])
                if node.kind == "map" and node.data == "cast":
                    (node,) = node.args
                plain = node.kind == "load" and not node.data.conditions and not node.args
                found.append(
                    (body.operands[node.data.operand], node.data.where, node.dtype) if plain else None
                )
            before = member
        return found

    def convolution(self, value: Value, found: Convolution, result: Value) -> list[Any]:
        """Return a convolution as a library's, after kernels that write out what does not lie as it wants it.

        result: what it is written to, perhaps in another dtype.
        """
        steps: list[Any] = []
        how, images = found.window.attributes, found.window.inputs[0]
        padding = (0,) * len(found.taps)
        if images.primitive == "pad" and not self.is_stored(images):
            low, high, number = (images.attributes[name] for name in ("low", "high", "value"))
            if low == high and sum(low) == sum(low[axis] for axis in how["axes"]) and number == 0.0:
                padding = tuple(low[axis] for axis in how["axes"])
                images = images.inputs[0]
        factor, sizes = found.other, sizes_of(value, found)
        _, of_filters, of_results = orders(found)
        if not found.of_filters:
            letters = value.attributes["spec"].partition("->")[0].partition(",")[2]
            factor = builder.permute(factor, [letters.index(c) for c in present(of_filters)])
        reach = [d * (k - 1) for d, k in zip(how["dilations"], how["sizes"], strict=True)]
        unturned = None
        within = all(surely_at_most(p, r) for p, r in zip(padding, reach, strict=True))
        alone = not found.of_filters and len(found.made) == 1
        if within and alone and all(step == 1 for step in how["strides"]):
            unturned = self.unturned(factor, found, sizes)
        if unturned is not None:
            of_filters = swapped(of_filters, found)
        filters, results = (tuple(sizes[c] for c in letters) for letters in (of_filters, of_results))
        joined = len(found.group + found.made)  # axes that are one for a library
        filters = (math.prod(filters[:joined]), *filters[joined:])
        at = 1 if found.channels_first else len(results) - joined
        results = (*results[:at], math.prod(results[at : at + joined]), *results[at + joined :])
        steps.append(
            LibraryConvolution(
                [self.in_memory(images, steps), unturned or self.in_memory(factor, steps), result],
                found.of_filters,
                images.shape,
                filters,
                results,
                tuple(how["strides"]),
                tuple(how["dilations"]),
                padding,
                found.channels_first,
                result.dtype,
                unturned is not None,
            )
        )
        return steps

    def unturned(self, factor: Value, found: Convolution, sizes: dict[str, int]) -> Value | None:
        """Return what filters are if they are others, that lie in memory, turned round, as a gradient has them."""
        letters = orders(found)[1]
        index: dict[str, Affine] = dict(zip(present(letters), new_index(factor.shape), strict=True))
        body = Body(self.is_stored, self.rows)
        try:
            node = body.at(factor, tuple(index.values()))
        except (Split, Inexpressible):
            return None
        if node.kind != "load" or node.data.conditions or node.args:
            return None
        for tap in present(found.taps):
            index[tap] = shifted(index[tap], sizes[tap] - 1, -1) if index[tap] != ZERO else ZERO
        order = present(swapped(letters, found))
        expected = offset(tuple(index[c] for c in order), tuple(sizes[c] for c in order))
        operand = body.operands[node.data.operand]
        value, first = operand if isinstance(operand, tuple) else (operand, 0)
        where = shifted(node.data.where, first // factor.dtype.itemsize)
        return value if isinstance(value, Value) and where == expected else None

    def in_memory(self, value: Value, steps: list[Any]) -> Any:
        """Return a value as something that lies in memory, having a view written out if it was not yet."""
        while value.primitive == "reshape" and not self.is_stored(value):
            value = value.inputs[0]
        if self.is_stored(value) and value not in self.rows:
            return value
        if value not in self.written_views:
            scratch = self.written_views[value] = Scratch(value.nbytes)

            def copy(body: Body, index: Index) -> Loop:
                loop = Loop(body, dims_of(index), [], False)
                where = offset(index, value.shape)
                loop.stores.append(Store(body.at(value, index), body.operand(scratch), where))
                return loop

            steps.append(self.over(value, copy))
        return self.written_views[value]

    def library_product(
        self,
        value: Value,
        indices: list[Index],
        kept: list[Dim],
        summed: list[Dim],
        result: Value | Scratch,
        where: Affine,
        added: Sequence[tuple[Any, Affine, np.dtype] | None] = (),
    ) -> list[Any]:
        """Return a product as a library's, after kernels that write its factors out; [] if it is none.

        result, where: what its elements are written to (a value may have another dtype), and where they lie there.
        added: what is added to them before.
        """
        count = typical(total(kept) * total(summed))
        if value.dtype not in DTYPES:
            return []
        body = Body(self.is_stored, self.rows)
        nodes = [body.at(operand, index) for operand, index in zip(value.inputs, indices, strict=True)]
        dtype = value.inputs[0].dtype
        sides = []
        for node, index in zip(nodes, indices, strict=True):
            plain = node.kind == "load" and not node.data.conditions and not node.args and node.dtype == dtype
            sides.append(Side(node.data.where if plain else None, frozenset(dims_of(index))))
        best: tuple[int, Arranged, list[Matrix | None]] | None = None
        for way in arrangements(sides, where, kept, summed):
            found = [
                sides[0].matrix(way.rows, way.summed, way.batches),
                sides[1].matrix(way.summed, way.columns, way.batches),
            ]
            written = sum(
                typical(total(list(side.dims))) for side, m in zip(sides, found, strict=True) if m is None
            )
            if best is None or written < best[0]:
                best = written, way, found
        if best is None:
            return []
        written, way, found = best
        if written and (count < LEAST_WORTH_PACKING or count < LEAST_READ_AGAIN * written):
            return []
        made = result.dtype if isinstance(result, Value) else value.dtype
        finish = finished(way, added, made)
        if finish is None:
            return []
        steps: list[Any] = []
        operands: list[Any] = []
        matrices: list[Matrix] = []
        rows, columns, length, batches = (
            total(dims) for dims in (way.rows, way.columns, way.summed, way.batches)
        )
        turned = None
        a, b = found
        if (
            a is not None
            and b is not None
            and batches == 1
            and dtype == np.float32
            and precision() != "highest"
        ):
            turned = worth_transposing(rows, columns, length, a, b)
        for number, (node, side, matrix) in enumerate(zip(nodes, sides, found, strict=True)):
            if matrix is not None and number != turned:
                operands.append(body.operands[node.data.operand])
                matrices.append(matrix)
                continue
            down, across = (way.rows, way.summed) if number == 0 else (way.summed, way.columns)
            if not all(d in side.dims for d in (*down, *across)):
                return []
            read = node.data.where if node.kind == "load" else None
            order, packed = side.packed(down, across, way.batches, read, way.summed if matrix else ())
            scratch = Scratch(total(order) * dtype.itemsize)
            steps.append(self.written_out(value.inputs[number], indices[number], dtype, order, scratch))
            operands.append(scratch)
            matrices.append(packed)
        a, b = matrices
        result = self.rows[result][0] if result in self.rows else result
        product = LibraryProduct(
            [*operands, result, *finish.operands],
            dtype,
            made,
            rows,
            columns,
            length,
            batches,
            a,
            b,
            way.c,
            addend=finish.addend,
            has_row=finish.has_row,
        )
        return [*steps, *product.in_parts()]

    def written_out(
        self, factor: Value, index: Index, dtype: np.dtype, order: list[Dim], scratch: Scratch
    ) -> Any:
        """Write the kernel that brings a product's factor to memory, its loops in an order."""
        body = Body(self.is_stored, self.rows)
        node = body.at(factor, index)
        node = node if node.dtype == dtype else body.apply("cast", dtype, node)
        terms, step = [], 1
        for d in reversed(order):
            terms.append((d, step))
            step *= d.size
        loop = Loop(body, order, [], False)
        loop.stores.append(Store(node, body.operand(scratch), (0, tuple(reversed(terms)))))
        return self.write(loop)
