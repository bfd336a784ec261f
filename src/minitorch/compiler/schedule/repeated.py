"""Products that come again and again, as in a loop over time. Enters: a simplified program. Leaves: one that does less.

A weight's gradient is a sum of products, one for each step: it is one product, of what all steps have side by side.
And a weight by which each step multiplies is laid out once, the way products read it, and not anew for each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.ir.sizes import is_fixed, typical
from minitorch.compiler.schedule.groups import COPY

OFTEN = 4  # products that are worth it
FEW_ROWS = 64  # of a product: with more of them, laying a weight out is a small part of it
LEAST_ELEMENTS = 1 << 12  # of a weight

PRODUCT = "ab,bc->ac"


def without_repetition(program: Program, panel_bytes: int) -> Program:
    """Return a program with fewer, or faster, products. panel_bytes: how many bytes of columns lie together in memory
    where products read them best; 0: they are left as they lie."""
    products = [v for v in program.values() if _is_product(v)]
    if len(products) < OFTEN:
        return program
    program = _replaced(program, _joined_sums(program))
    return _replaced(program, _in_panels(program, panel_bytes)) if panel_bytes else program


def _is_product(value: Value) -> bool:
    return value.primitive == "contract" and value.attributes["spec"] == PRODUCT


def _replaced(program: Program, instead: dict[Value, Value]) -> Program:
    """Return a program with other values in place of some: these may be made of values of the program."""
    if not instead:
        return program
    new: dict[Value, Value] = {}

    def of(roots: Sequence[Value]) -> None:
        waiting = [(root, False) for root in reversed(roots)]
        while waiting:
            value, is_ready = waiting.pop()
            if value in new:
                continue
            source = instead.get(value, value)
            if not is_ready:
                waiting.append((value, True))
                waiting.extend((i, False) for i in reversed(source.inputs if source is value else (source,)))
            elif source is not value:
                new[value] = new[source]
            elif all(new[i] is i for i in value.inputs):
                new[value] = value
            else:
                made = Value(
                    value.primitive,
                    tuple(new[i] for i in value.inputs),
                    value.attributes,
                    value.shape,
                    value.dtype,
                )
                made.line = value.line
                new[value] = made

    of([*program.inputs, *program.outputs])
    return Program(program.inputs, [new[o] for o in program.outputs], program.guards)


# --- sums of products -----------------------------------------------------------------------------------------


def _joined_sums(program: Program) -> dict[Value, Value]:
    """Return sums of many small products, and the one product that each is."""
    values = program.values()
    uses = Counter(i for value in values for i in value.inputs)
    uses.update(program.outputs)
    joined = {v.inputs: v for v in values if v.primitive == "concatenate"}
    found: dict[Value, Value] = {}
    inside: set[Value] = set()  # of a larger sum
    for value in reversed(values):
        if value in inside or not _is_sum(value):
            continue
        terms: list[Value] = []
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if part is value or (_is_sum(part) and uses[part] == 1):
                inside.add(part)
                waiting.extend(part.inputs)
            else:
                terms.append(part)
        products = [t for t in terms if _is_product(t) and uses[t] == 1 and _is_small(t)]
        if len(products) < OFTEN:
            continue
        whole = _one_product(products, joined)
        for other in (t for t in terms if not any(t is p for p in products)):
            whole = make.map_values("add", whole, other)
        found[value] = whole
    return found


def _is_sum(value: Value) -> bool:
    return (
        value.primitive == "map"
        and value.attributes["function"] == "add"
        and value.dtype.kind == "f"
        and value.ndim == 2
        and is_fixed(*value.shape)
    )


def _is_small(product: Value) -> bool:
    """Whether a product has more results than factors: to add them up takes longer than to lay the factors together."""
    return sum(typical(i.size) for i in product.inputs) < product.size


def _one_product(products: list[Value], joined: dict[tuple[Value, ...], Value]) -> Value:
    """Return the sum of products as one, of all their factors side by side."""
    products = sorted(products, key=lambda product: product.number)
    rows = [make.permute(p.inputs[0], (1, 0)) for p in products]
    columns = [p.inputs[1] for p in products]
    for pieces, there in joined.items():
        # They may stand side by side already, one after the other on an axis of their own.
        order = _order_of(columns, pieces, there)
        if order is not None:
            rows = [rows[i] for i in order]
            right = make.reshape(there, (sum(c.shape[0] for c in columns), columns[0].shape[1]))
            break
    else:
        right = make.concatenate(columns, 0)
    left = make.permute(make.concatenate(rows, 0), (1, 0))
    return make.contract(PRODUCT, left, right)


def _order_of(columns: list[Value], pieces: tuple[Value, ...], there: Value) -> list[int] | None:
    """Return in which order pieces that are joined are these; None if they are not."""
    if len(pieces) != len(columns) or there.attributes["axis"] != 0 or there.ndim != 3:
        return None
    place = {column: i for i, column in enumerate(columns)}
    order = [
        place.get(p.inputs[0], -1) if p.primitive == "reshape" and p.shape[0] == 1 else -1 for p in pieces
    ]
    return order if sorted(order) == list(range(len(columns))) else None


# --- a factor of many products ----------------------------------------------------------------------------------


def _in_panels(program: Program, panel_bytes: int) -> dict[Value, Value]:
    """Return products with a factor that many have, and the same with that factor laid out for all of them."""
    with_factor: dict[Value, list[Value]] = defaultdict(list)
    for value in program.values():
        if _is_product(value) and typical(value.shape[0]) <= FEW_ROWS:
            with_factor[value.inputs[1]].append(value)
    found: dict[Value, Value] = {}
    for factor, products in with_factor.items():
        width = panel_bytes // factor.dtype.itemsize
        if len(products) < OFTEN or not is_fixed(*factor.shape) or factor.size < LEAST_ELEMENTS:
            continue
        depth, columns = factor.shape
        if columns % width or columns == width:
            continue
        turned = make.permute(make.reshape(factor, (depth, columns // width, width)), (1, 0, 2))
        panels = Value(COPY, (turned,), {}, turned.shape, turned.dtype)
        for product in products:
            shape: Any = (product.shape[0], columns // width, width)
            spec = {"spec": "ab,dbe->ade"}
            made = Value("contract", (product.inputs[0], panels), spec, shape, product.dtype)
            made.line = product.line
            found[product] = make.reshape(made, product.shape)
    return found
