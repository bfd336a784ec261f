"""Programs with attention computed as a whole. Enters: a program. Leaves: one that calls `Attention`, or itself."""

from __future__ import annotations

import string
from collections.abc import Sequence

from minitorch.compiler.backends.cuda.attention import FLOAT32, LOOKS, ROW_NUMBERS, SIZES, Attention
from minitorch.compiler.backends.cuda.finding_attention import (
    Found,
    are_enough,
    before_dropout,
    find_attention,
    results_of_gradients,
    some_rows_are_0,
)
from minitorch.compiler.backends.cuda.masks import is_map, remade
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import Program, Value, in_order
from minitorch.compiler.ir.simplify import number, simplify

# What kernels need, by the bytes of an element and the size of a head.
LEAST_SHARED = {(bytes_, size): 48 << 10 for bytes_ in (2, 4) for size in SIZES} | {
    (2, 128): 70 << 10,
    (4, 128): 105 << 10,
}
MOST_INSIDE = 64  # values that attention is made of


def with_attention(program: Program, shared: int, in_groups: bool) -> Program:
    """Return a program in which attention is computed as a whole, wherever it is found.

    shared: how much shared memory a block of threads can have. in_groups: whether four warps can multiply together.
    """
    if not shared or sum(v.primitive == "contract" for v in program.values()) < 2:
        return program
    plain = _with_ones(simplify(program))
    made = _with_attention(plain, shared, in_groups)
    return program if made is plain else made


def _with_attention(program: Program, shared: int, in_groups: bool) -> Program:
    readers: dict[Value, list[Value]] = {}
    for value in program.values():
        for each in dict.fromkeys(value.inputs):
            readers.setdefault(each, []).append(value)
    taken: dict[Value, Found] = {}
    products = [v for v in program.values() if v.primitive == "contract"]
    for product in [*products, *results_of_gradients(products, readers)]:
        found = find_attention(product, readers, set(program.outputs))
        if found is None or not taken.keys().isdisjoint(found.results):
            continue
        if shared >= LEAST_SHARED[found.forward.dtype.itemsize, found.forward.size]:
            for attention in (found.forward, found.backward):
                if attention is not None:
                    attention.in_groups = in_groups
            taken |= dict.fromkeys(found.results, found)
    return _rewritten(program, taken) if taken else program


def inside_attention(program: Program) -> set[Value]:
    """Return what lies between the factors of attention and its results, in a program as it was recorded.

    Whoever computes gradients finds attention only where all of it is; and to compute it takes less time than to read
    it. (So does a half in float32.)
    """
    readers: dict[Value, list[Value]] = {}
    made_of: dict[Value, str] = {}  # "product": among others; "nothing": of what is known without any input
    found: set[Value] = set()
    for value in program.values():
        kinds = [made_of[each] for each in value.inputs]
        for each in dict.fromkeys(value.inputs):
            readers.setdefault(each, []).append(value)
        if value.primitive in ("contract", "constant", "iota"):
            made_of[value] = "product" if value.primitive == "contract" else "nothing"
        elif value.primitive in ("map", "reduce", *LOOKS) and "product" in kinds:
            made_of[value] = "product"
        else:
            made_of[value] = "nothing" if kinds and set(kinds) == {"nothing"} else "others"
    for value in program.values():
        if is_map(value, "divide") and are_enough(value) and value not in program.outputs:
            found |= _inside(value, readers, made_of)
        elif is_map(value, "cast") and value.dtype == FLOAT32 and value.inputs[0].dtype in HALVES:
            found.add(value)
    return found


def _inside(softmax: Value, readers: dict[Value, list[Value]], made_of: dict[Value, str]) -> set[Value]:
    """Return what a softmax is made of, down to a product's factors; nothing if it is no attention's."""
    reading, found = list(readers.get(softmax, [])), set[Value]()
    for each in reading:
        dropped = before_dropout(each)[1]
        if dropped is not None:
            found.add(each)
            numbers = dropped.numbers
            while numbers is not dropped.kept:
                found.add(numbers)
                numbers = numbers.inputs[0]
        elif some_rows_are_0(each):
            found.add(each)
        elif each.primitive == "contract":
            continue
        elif each.primitive not in LOOKS:
            return set()
        reading += readers.get(each, [])
    products, stack = [], [softmax]
    while stack and len(found) < MOST_INSIDE:
        value = stack.pop()
        if value in found or made_of[value] == "others":
            continue
        found.add(value)
        if value.primitive == "contract":
            products.append(value)
        else:
            stack += value.inputs
    if stack or len(products) != 1:
        return set()
    (product,) = products
    left, _, out = product.attributes["spec"].partition("->")
    (first, second), length = left.split(","), product.inputs[0].shape
    summed = [n for c, n in zip(first, length, strict=True) if c in second and c not in out]
    if len(summed) != 1 or summed[0] not in SIZES:
        return set()
    for factor in product.inputs:
        while factor.primitive in LOOKS or is_map(factor, "cast") or _is_scaled(factor):
            found.add(factor)
            factor = factor.inputs[0]
    return found


def _is_scaled(value: Value) -> bool:
    """Whether a value is another one times a number."""
    return is_map(value, "multiply") and number(value.inputs[1]) is not None


def _with_ones(program: Program) -> Program:
    """Return a program whose products have the axes of length 1 that reshapes around them take away and put back."""
    readers: dict[Value, list[Value]] = {}
    for value in program.values():
        for each in value.inputs:
            readers.setdefault(each, []).append(value)
    new: dict[Value, Value] = {}
    changed = False
    for value in program.values():
        inputs = tuple(new[each] for each in value.inputs)
        product = inputs[0] if inputs else value
        new[value] = value if inputs == value.inputs else remade(value, inputs)
        if value.primitive != "reshape" or product.primitive != "contract":
            continue
        spec = _spec_with_ones(product, value.shape)
        if len(readers[value.inputs[0]]) == 1 and spec is not None:
            parts, out = spec.split("->")[0].split(","), spec.split("->")[1]
            lengths = dict(zip(out, value.shape, strict=True))
            before = product.attributes["spec"].split("->")[0].split(",")
            operands = []
            for part, old, operand in zip(parts, before, product.inputs, strict=True):
                mine = dict(zip(old, operand.shape, strict=True))
                shape = tuple(mine[c] if c in mine else lengths[c] for c in part)
                while operand.primitive == "reshape":
                    operand = operand.inputs[0]
                operands.append(builder.reshape(operand, shape))
            new[value] = Value("contract", tuple(operands), {"spec": spec}, value.shape, value.dtype)
            new[value].line = product.line
            changed = True
    if not changed:
        return program
    return Program(program.inputs, [new[each] for each in program.outputs], program.guards)


def _spec_with_ones(product: Value, shape: tuple[int, ...]) -> str | None:
    """Return a product's spec with letters for the axes of length 1 that a shape has more."""
    left, _, out = product.attributes["spec"].partition("->")
    letters = iter(c for c in string.ascii_letters if c not in left)
    rest, parts, made = list(zip(out, product.shape, strict=True)), left.split(","), ""
    for n in shape:
        if rest and rest[0][1] == n:
            made += rest.pop(0)[0]
        elif n == 1:
            letter, before = next(letters), made[-1:]
            if not all(before in part for part in parts):
                return None
            parts = [part.replace(before, before + letter) if before else letter + part for part in parts]
            made += letter
        else:
            return None
    return None if rest or made == out else f"{','.join(parts)}->{made}"


def _rewritten(program: Program, taken: dict[Value, Found]) -> Program:
    """Return a program in which products are results of calls."""
    firsts = {
        id(found): next(p for p, name in found.results.items() if name == "o") for found in taken.values()
    }

    def inputs_of(value: Value) -> Sequence[Value]:
        found = taken.get(value)
        if found is None:
            return value.inputs
        if found.results[value] == "o":
            return [*found.forward.leaves, *([found.none] if found.none is not None else [])]
        if found.results[value] in ROW_NUMBERS:
            return [firsts[id(found)]]
        assert found.backward is not None
        return [*found.backward.leaves, *(found.known or [firsts[id(found)]])]

    new: dict[Value, Value] = {}
    sums: dict[int, list[Value]] = {}
    calls: dict[int, dict[str, Value]] = {}

    def call(attention: Attention, inputs: list[Value], found: Found) -> dict[str, Value]:
        """Return the results of a call, each with the axes of the product that it is in place of."""
        products = {name: product for product, name in found.results.items()}
        dtypes = {attention.result(name): rows.dtype for name, rows in attention.written.items()}
        examples = []
        for name, dtype in dtypes.items():
            shape = attention.rows_shape
            if name not in ROW_NUMBERS:
                shape = tuple(products[name].shape[axis] for axis in found.orders[products[name]])
            examples.append(builder.full(shape, 0.0, dtype))
        named = dict(zip(dtypes, builder.call(attention, inputs, examples, single=False), strict=True))
        if "l" in named:
            sums[id(found)] = [*(named[name] for name in ROW_NUMBERS), named["o"]]
        for name in [each for each in named if each not in ROW_NUMBERS]:
            for each in (named[name], named[name].inputs[0]):
                each.line = products[name].line
            order = found.orders[products[name]]
            back = [order.index(axis) for axis in range(len(order))]
            named[name] = builder.permute(builder.cast(named[name], FLOAT32), back)
        return named

    for value in in_order([*program.inputs, *program.outputs], inputs_of):
        found = taken.get(value)
        if found is None:
            moved = tuple(new[each] for each in value.inputs)
            new[value] = value if moved == value.inputs else remade(value, moved)
            continue
        products = {name: product for product, name in found.results.items()}
        if found.results[value] in ROW_NUMBERS:
            numbers = sums[id(found)][ROW_NUMBERS.index(found.results[value])]
            new[value] = builder.reshape(numbers, value.shape)
            continue
        if value is products["o"]:
            named = call(found.forward, [new[leaf] for leaf in found.forward.leaves], found)
            new[value] = named["o"]
            if found.none is not None:
                zeros = builder.full(value.shape, 0.0, FLOAT32)
                new[value] = builder.where(new[found.none], zeros, named["o"])
            continue
        if id(found) not in calls:
            assert found.backward is not None
            if found.known:
                *rows, result = [new[each] for each in found.known]
                sums[id(found)] = [
                    *(builder.reshape(each, found.backward.rows_shape) for each in rows),
                    result,
                ]
            inputs = [*(new[leaf] for leaf in found.backward.leaves), *sums[id(found)]]
            calls[id(found)] = call(found.backward, inputs, found)
        new[value] = calls[id(found)][found.results[value]]
    return Program(program.inputs, [new[each] for each in program.outputs], program.guards)
