"""A smaller program that means the same. Enters: a Program. Leaves: one of its own values, with fewer of them.

What depends on constants alone is computed now, equal values become one, and what changes nothing goes away.
Only what leaves every bit as it was is done to floating-point numbers: x + 0 stays, because -0 + 0 is +0, while
x · 1, x - 0 and x / 4 → x · ¼ are exact. Sums alone may change their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.compiler.ir import builder
from minitorch.compiler.ir.bounds import order
from minitorch.compiler.ir.program import CALLS, Program, Value, evaluate
from minitorch.compiler.ir.sizes import symbols_of

FOLDED = 1 << 16  # elements: larger results are not computed beforehand
ZERO_SUMS = {"add": 0, "multiply": 1, "logical_and": True, "logical_or": False}
COMMUTATIVE = {"add", "multiply", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or"}


def simplify(program: Program) -> Program:
    """Return a program that computes the same, made of values of its own (the inputs aside)."""
    known: dict[Any, Value] = {}
    new: dict[Value, Value] = {v: v for v in program.inputs}
    for value in program.values():
        if value in new:
            continue
        made = _simpler(value, tuple(new[i] for i in value.inputs))
        new[value] = _unique(made, known)
    return Program(program.inputs, [new[o] for o in program.outputs], program.guards)


def _unique(value: Value, known: dict[Any, Value]) -> Value:
    """Return an equal value that was met before, or this one; what a rule made on the way is looked at too."""
    if value in known:
        return known[value]
    inputs = tuple(_unique(i, known) for i in value.inputs)
    if inputs != value.inputs:
        value.inputs = inputs
    key = _key(value)
    found = known.setdefault(key, value) if key is not None else value
    known[value] = found
    known[found] = found
    return found


def _key(value: Value) -> Any:
    """Return what makes two values the same; None for those that never are."""
    primitive, attributes = value.primitive, value.attributes
    if primitive in ("input", "call", "start", "wait"):
        return None
    inputs: Any = value.inputs
    if primitive == "map" and attributes["function"] in COMMUTATIVE:
        inputs = tuple(sorted(inputs, key=lambda v: v.number))
    if primitive == "constant":
        array = attributes["array"]
        if array.dtype.hasobject:
            return None
        what: Any = array.tobytes() if array.nbytes <= 4096 else id(array)
        return (primitive, what, value.shape, value.dtype)
    return (primitive, inputs, tuple(sorted(attributes.items(), key=_first)), value.shape, value.dtype)


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def _simpler(value: Value, inputs: tuple[Value, ...]) -> Value:
    """Return a value with new inputs, or something simpler that equals it."""
    primitive, attributes = value.primitive, value.attributes
    if primitive in CALLS:
        made = _same(value, inputs)
        made.line = value.line
        return made
    if value.size == 0:
        return builder.reshape(builder.constant(np.empty(0, value.dtype)), value.shape)
    rule = _RULES.get(primitive)
    made = rule(value, inputs, **attributes) if rule is not None else _same(value, inputs)
    if made.dtype != value.dtype or made.shape != value.shape:  # a rule that does not fit this value
        made = _same(value, inputs)
    if made.line is None:
        made.line = value.line
    return _folded(made)


def _same(value: Value, inputs: tuple[Value, ...]) -> Value:
    return Value(value.primitive, inputs, value.attributes, value.shape, value.dtype)


def _folded(value: Value) -> Value:
    """Compute what depends on constants alone; one number in many places stays one number."""
    if not value.inputs or value.primitive in CALLS or value.primitive == "expand":
        return value
    if not any(i.primitive == "constant" for i in value.inputs):
        return value
    one_number = number if value.primitive == "map" else lambda i: None
    arrays = [i.attributes["array"] if i.primitive == "constant" else one_number(i) for i in value.inputs]
    if any(a is None for a in arrays) or symbols_of([value.shape, value.attributes]) or value.size > FOLDED:
        return value
    with np.errstate(all="ignore"):
        array = evaluate(value, arrays)
    return builder.constant(np.ascontiguousarray(array))


def number(value: Value) -> Any:
    """Return the one number that stands everywhere in a value, or None.

    >>> number(builder.full((2, 3), 4.0, "f4"))
    np.float32(4.0)
    """
    while value.primitive in ("expand", "reshape"):
        value = value.inputs[0]
    if value.primitive == "constant" and value.size == 1:
        return value.attributes["array"].reshape(-1)[0]
    return None


# --- rules --------------------------------------------------------------------------------------------------


def _map(value: Value, inputs: tuple[Value, ...], *, function: str, to: Any = None) -> Value:
    if function == "cast":
        return _cast(value, inputs[0], to)
    numbers = [number(i) for i in inputs]
    if all(n is not None for n in numbers):
        with np.errstate(all="ignore"):
            result = evaluate(value, [np.asarray(n) for n in numbers])
        return builder.expand(builder.constant(result), value.shape)
    made = _without_effect(function, inputs, numbers)
    if made is None:
        made = _turned_later(value, inputs, numbers)
    return _same(value, inputs) if made is None else made


def _turned_later(value: Value, inputs: tuple[Value, ...], numbers: list[Any]) -> Value | None:
    """Compute first and permute then, where all operands are permuted alike: computing follows memory that way."""
    turned = [i for i, n in zip(inputs, numbers, strict=True) if n is None]
    if any(i.primitive != "permute" for i in turned):
        return None
    axes = turned[0].attributes["axes"]
    if any(i.attributes["axes"] != axes for i in turned):
        return None
    shape = turned[0].inputs[0].shape
    operands = tuple(
        i.inputs[0] if n is None else builder.expand(builder.constant(n), shape)
        for i, n in zip(inputs, numbers, strict=True)
    )
    return builder.permute(Value("map", operands, value.attributes, shape, value.dtype), axes)


def _without_effect(function: str, inputs: tuple[Value, ...], numbers: list[Any]) -> Value | None:
    """Return what a function of one or two operands comes down to, if it does."""
    x = inputs[0]
    floats = x.dtype.kind == "f"
    if (
        function in ("negative", "logical_not", "invert")
        and _is(x, function)
        and x.inputs[0].dtype == x.dtype
    ):
        return x.inputs[0]
    if function == "absolute" and _is(x, "absolute"):
        return x
    if function == "where":
        chosen = numbers[0]
        if chosen is not None:
            return inputs[1] if chosen else inputs[2]
        return inputs[1] if inputs[1] is inputs[2] else None
    if len(inputs) != 2:
        return None
    y, (left, right) = inputs[1], numbers
    if (certain := order(function, x, y)) is not None:
        return builder.full(x.shape, certain, np.bool_)
    if function == "multiply":
        for one, other in ((left, y), (right, x)):
            if one is not None and one == 1:
                return other
            if one is not None and one == -1 and floats:
                return builder.map_values("negative", other)
    elif function == "divide" and right is not None:
        if right == 1:
            return x
        inverse = _exact_inverse(right) if floats else None
        if inverse is not None:
            return builder.map_values("multiply", x, builder.full(x.shape, inverse, x.dtype))
    elif function in ("add", "subtract"):
        nothing = -0.0 if function == "add" and floats else 0
        if right is not None and _identical(right, nothing):
            return x
        if function == "add" and left is not None and _identical(left, nothing):
            return y
        if _is(y, "negative"):
            return builder.map_values("subtract" if function == "add" else "add", x, y.inputs[0])
    elif function == "power" and right is not None:
        if right == 1:
            return x
        if right == 2:
            return builder.map_values("square", x)
    return None


def _is(value: Value, function: str) -> bool:
    return value.primitive == "map" and value.attributes["function"] == function


def _identical(a: Any, b: Any) -> bool:
    return bool(a == b) and bool(np.signbit(a) == np.signbit(b))


def _exact_inverse(divisor: Any) -> Any:
    """Return 1/x for a power of two whose inverse is neither tiny nor infinite, else None."""
    mantissa, _ = np.frexp(divisor)
    inverse = 1 / divisor if divisor else np.inf
    small = np.finfo(divisor.dtype).tiny
    fits = abs(mantissa) == 0.5 and small <= abs(inverse) < np.inf and small <= abs(divisor)
    return inverse if fits else None


def _cast(value: Value, x: Value, to: Any) -> Value:
    if _is(x, "cast") and _keeps_all(x.inputs[0].dtype, x.dtype):
        x = x.inputs[0]
    if _is(x, "where") and all(number(each) is not None for each in x.inputs[1:]):
        with np.errstate(all="ignore"):
            numbers = [number(each).astype(to) for each in x.inputs[1:]]
        return builder.where(x.inputs[0], *(builder.full(x.shape, each, to) for each in numbers))
    return builder.cast(x, to)


def _keeps_all(small: np.dtype, wide: np.dtype) -> bool:
    """Whether every number of one dtype is one of the other too (NumPy calls int64 → float64 safe as well)."""
    inexact = small.kind in "iu" and wide.kind in "fc" and small.itemsize * 2 > wide.itemsize
    return np.can_cast(small, wide, "safe") and not inexact


def _reduce(value: Value, inputs: tuple[Value, ...], *, function: str, axes: tuple[int, ...]) -> Value:
    x = inputs[0]
    if x.size == 0:
        if function in ZERO_SUMS:
            return builder.full(value.shape, ZERO_SUMS[function], value.dtype)
        return _same(value, inputs)
    if function in ("logical_and", "logical_or") and x.dtype.kind != "b":
        x = builder.map_values("not_equal", x, builder.full((), 0, x.dtype))
    elif function in ("add", "multiply") and x.dtype.kind in "biu":
        x = builder.cast(x, value.dtype)
    if x.dtype != value.dtype:
        return _same(value, inputs)
    long = tuple(a for a in axes if x.shape[a] != 1)
    if len(long) < len(axes):  # an axis of length 1 has nothing to sum
        kept = tuple(n for i, n in enumerate(x.shape) if i not in axes or i in long)
        dropped = builder.reshape(x, kept)
        moved = tuple(a - sum(1 for b in axes if b not in long and b < a) for a in long)
        if moved:
            return builder.reduce(function, dropped, moved)
        alone = builder.reshape(x, value.shape)
        if function == "add" and x.dtype.kind == "f":  # (a sum begins at +0, and so is never -0)
            return builder.map_values("add", alone, builder.full(value.shape, 0.0, x.dtype))
        return alone
    if x.primitive == "permute":  # fold in the order of memory
        turn = x.attributes["axes"]
        made = builder.reduce(function, x.inputs[0], [turn[a] for a in axes])
        left = [turn[i] for i in range(x.ndim) if i not in axes]
        return builder.permute(made, [sorted(left).index(k) for k in left])
    if x.primitive == "reduce" and x.attributes["function"] == function:
        below = x.inputs[0]
        first = x.attributes["axes"]
        rest = [i for i in range(below.ndim) if i not in first]
        return builder.reduce(function, below, (*first, *(rest[a] for a in axes)))
    return Value("reduce", (x,), {"function": function, "axes": axes}, value.shape, value.dtype)


def _arg_reduce(value: Value, inputs: tuple[Value, ...], *, function: str, axis: int) -> Value:
    if inputs[0].shape[axis] == 1:
        return builder.full(value.shape, 0, value.dtype)
    return _same(value, inputs)


def _scan(value: Value, inputs: tuple[Value, ...], *, function: str, axis: int) -> Value:
    return inputs[0] if inputs[0].shape[axis] == 1 else _same(value, inputs)


def _permute(value: Value, inputs: tuple[Value, ...], *, axes: tuple[int, ...]) -> Value:
    x = inputs[0]
    if x.primitive == "expand" and x.inputs[0].size == 1:
        return builder.expand(x.inputs[0], value.shape)
    long = [a for a in axes if x.shape[a] != 1]
    if long == sorted(long):  # only axes of length 1 move
        return builder.reshape(x, value.shape)
    return builder.permute(x, axes)


def _expand(value: Value, inputs: tuple[Value, ...], *, shape: tuple[int, ...]) -> Value:
    x = inputs[0]
    if x.size == 1 and x.primitive == "reshape" and x.inputs[0].primitive == "constant":
        x = builder.constant(x.inputs[0].attributes["array"].reshape(x.shape))
    return builder.expand(x, shape)


def _slice(
    value: Value,
    inputs: tuple[Value, ...],
    *,
    starts: tuple[int, ...],
    counts: tuple[int, ...],
    steps: tuple[int, ...],
) -> Value:
    x = inputs[0]
    if x.primitive == "slice":  # one after the other: start and step of both at once
        before = x.attributes
        starts = tuple(s + a * t for s, t, a in zip(before["starts"], before["steps"], starts, strict=True))
        steps = tuple(a * s for a, s in zip(before["steps"], steps, strict=True))
        x = x.inputs[0]
    return builder.slice_axes(x, starts, counts, steps)


def _pad(
    padded: Value, inputs: tuple[Value, ...], *, low: tuple[int, ...], high: tuple[int, ...], value: Any
) -> Value:
    if inputs[0].size == 0:
        return builder.full(padded.shape, value, padded.dtype)
    return builder.pad(inputs[0], low, high, value)


def _concatenate(value: Value, inputs: tuple[Value, ...], *, axis: int) -> Value:
    return builder.concatenate([i for i in inputs if i.size], axis)


def _contract(value: Value, inputs: tuple[Value, ...], *, spec: str) -> Value:
    a, b = inputs
    if a.size == 0 or b.size == 0:
        return builder.full(value.shape, 0, value.dtype)
    if a.dtype != b.dtype or a.dtype.kind not in "fiu" or a.dtype.itemsize < 4:
        return _same(value, inputs)
    return builder.contract(spec, a, b)


def _scatter(value: Value, inputs: tuple[Value, ...], *, axis: int, function: str) -> Value:
    base, index, updates = inputs
    if index.size == 0:
        return base
    if index.dtype != builder.INT64 and index.dtype.kind in "iu":
        inputs = (base, builder.cast(index, builder.INT64), updates)
    return _same(value, inputs)


def _gather(value: Value, inputs: tuple[Value, ...], *, axis: int) -> Value:
    x, index = inputs
    if index.dtype != builder.INT64 and index.dtype.kind in "iu":
        inputs = (x, builder.cast(index, builder.INT64))
    return _same(value, inputs)


_RULES: dict[str, Any] = {
    "map": _map,
    "reduce": _reduce,
    "arg_reduce": _arg_reduce,
    "scan": _scan,
    "reshape": lambda value, inputs, *, shape: builder.reshape(inputs[0], shape),
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "contract": _contract,
    "gather": _gather,
    "scatter": _scatter,
}
