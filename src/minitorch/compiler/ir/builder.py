"""Making values: one function per primitive, which works out the shape and dtype of its result.

Enters: Values. Leaves: Values. Trivial cases (a reshape to the same shape) give the value back itself.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import COMPARISONS, LOGIC, TESTS, Shape, Value, in_order
from minitorch.compiler.ir.sizes import Size, surely_at_most, surely_equal

BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)


def constant(array: Any) -> Value:
    """Return an array, or a number, as a value."""
    array = np.asarray(array)
    return Value("constant", (), {"array": array}, array.shape, array.dtype)


def full(shape: Shape, number: Any, dtype: Any) -> Value:
    """Return one number in every place, without writing it down more than once."""
    return expand(constant(np.asarray(number, dtype=dtype)), shape)


def iota(count: int) -> Value:
    """Return 0, 1, … count - 1 as int64."""
    return Value("iota", (), {"count": count}, (count,), INT64)


def size(n: int) -> Value:
    """Return a size as a number, int64."""
    return Value("size", (), {"size": n}, (), INT64) if isinstance(n, Size) else constant(np.int64(n))


def cast(x: Value, dtype: Any) -> Value:
    """Return the same numbers in another dtype."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if x.primitive == "constant":
        return constant(x.attributes["array"].astype(dtype))
    if x.primitive == "expand" and x.inputs[0].size == 1:
        return expand(cast(x.inputs[0], dtype), x.shape)
    return Value("map", (x,), {"function": "cast", "to": dtype}, x.shape, dtype)


def map_values(function: str, *operands: Value) -> Value:
    """Apply an elementwise function; operands broadcast here, so that the primitive's do not need to."""
    shape = broadcast_shapes(*(o.shape for o in operands))
    last = operands[-1].dtype
    dtype = BOOL if function in COMPARISONS | TESTS | LOGIC else last
    return Value("map", tuple(expand(o, shape) for o in operands), {"function": function}, shape, dtype)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the one shape to which all can be stretched, sizes that vary among them.

    >>> broadcast_shapes((2, 1), (3,), ())
    (2, 3)
    """
    if all(surely_equal(shape, shapes[0]) for shape in shapes):
        return shapes[0] if shapes else ()
    out: list[int] = []
    for place in range(-max(map(len, shapes), default=0), 0):
        lengths = [shape[place] for shape in shapes if len(shape) >= -place]
        length = lengths[0]
        if not all(surely_equal(n, length) for n in lengths):  # (if all are, none need be compared with 1)
            length = next((n for n in lengths if n != 1), 1)
        if not all(surely_equal(n, length) or n == 1 or n == length for n in lengths):
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        out.append(length)
    return tuple(out)


def where(condition: Value, x: Value, y: Value) -> Value:
    """Choose element by element."""
    return map_values("where", condition, x, y)


def reduce(function: str, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """Fold axes away; with keepdims they stay as axes of length 1."""
    axes = tuple(sorted(a % x.ndim for a in axes))
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    out = x
    if axes:
        dtype = x.dtype
        if function in ("logical_and", "logical_or"):
            dtype = BOOL
        elif function in ("add", "multiply") and x.dtype.kind in "bi":
            x, dtype = cast(x, INT64), INT64
        elif function in ("add", "multiply") and x.dtype.kind == "u":
            x, dtype = cast(x, np.uint64), np.dtype(np.uint64)
        out = Value("reduce", (x,), {"function": function, "axes": axes}, kept, dtype)
    if keepdims:
        out = reshape(out, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))
    return out


def reshape(x: Value, shape: Shape) -> Value:
    """Return the elements in the same order under another shape."""
    if surely_equal(x.shape, shape):
        return x
    if x.primitive == "reshape":
        return reshape(x.inputs[0], shape)
    if x.primitive == "expand" and x.inputs[0].size == 1:
        return expand(reshape(x.inputs[0], (1,) * len(shape)), shape)
    return Value("reshape", (x,), {"shape": shape}, shape, x.dtype)


def permute(x: Value, axes: Sequence[int]) -> Value:
    """Return x with its axes in another order."""
    axes = tuple(a % x.ndim for a in axes)
    if axes == tuple(range(x.ndim)):
        return x
    if x.primitive == "permute":
        before = x.inputs[0]
        return permute(before, tuple(x.attributes["axes"][a] for a in axes))
    return Value("permute", (x,), {"axes": axes}, tuple(x.shape[a] for a in axes), x.dtype)


def expand(x: Value, shape: Shape) -> Value:
    """Broadcast to a shape: axes of length 1 stretch, missing ones come in front."""
    shape = tuple(shape)
    if surely_equal(x.shape, shape):
        return x
    if x.primitive == "expand" and x.ndim == len(shape):
        x = x.inputs[0]
    x = reshape(x, (1,) * (len(shape) - x.ndim) + x.shape)
    return x if surely_equal(x.shape, shape) else Value("expand", (x,), {"shape": shape}, shape, x.dtype)


def slice_axes(x: Value, starts: Shape, counts: Shape, steps: Shape) -> Value:
    """Return every step-th element of each axis from its start on, `count` of them."""
    if surely_equal(counts, x.shape) and surely_equal(starts, (0,) * x.ndim) and all(s == 1 for s in steps):
        return x
    if x.primitive == "expand" and x.inputs[0].size == 1:
        return expand(x.inputs[0], counts)
    attributes = {"starts": tuple(starts), "counts": tuple(counts), "steps": tuple(steps)}
    return Value("slice", (x,), attributes, tuple(counts), x.dtype)


def crop(x: Value, axis: int, start: int, count: int) -> Value:
    """Return `count` elements of one axis."""
    starts, counts = [0] * x.ndim, list(x.shape)
    starts[axis], counts[axis] = start, count
    return slice_axes(x, tuple(starts), tuple(counts), (1,) * x.ndim)


def flip(x: Value, axes: Sequence[int]) -> Value:
    """Return x with some axes backwards."""
    axes = tuple(a % x.ndim for a in axes)
    starts = tuple(n - 1 if i in axes and n else 0 for i, n in enumerate(x.shape))
    return slice_axes(x, starts, x.shape, tuple(-1 if i in axes else 1 for i in range(x.ndim)))


def pad(x: Value, low: Sequence[int], high: Sequence[int], value: Any = 0) -> Value:
    """Put a border around x; a negative width cuts off."""
    starts = tuple(_or_nothing(-a) for a in low)
    counts = tuple(n - s - _or_nothing(-b) for n, s, b in zip(x.shape, starts, high, strict=True))
    x = slice_axes(x, starts, counts, (1,) * x.ndim)
    low, high = tuple(map(_or_nothing, low)), tuple(map(_or_nothing, high))
    if all(surely_equal(width, 0) for width in (*low, *high)):
        return x
    shape = tuple(n + a + b for n, a, b in zip(x.shape, low, high, strict=True))
    number = x.dtype.type(value).item()
    return Value("pad", (x,), {"low": low, "high": high, "value": number}, shape, x.dtype)


def _or_nothing(width: int) -> int:
    """Return a width, or 0 if it is negative; one that is always the same sign needs no look at what it is."""
    if surely_at_most(width, 0):
        return 0
    return width if surely_at_most(0, width) else max(width, 0)


def spread(x: Value, axis: int, step: int) -> Value:
    """Put step - 1 zeros between neighbours along an axis."""
    count = x.shape[axis]
    if step == 1 or count == 0:
        return x
    apart = reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    high = tuple(step - 1 if i == axis + 1 else 0 for i in range(apart.ndim))
    grown = reshape(
        pad(apart, (0,) * apart.ndim, high), (*x.shape[:axis], count * step, *x.shape[axis + 1 :])
    )
    return crop(grown, axis, 0, (count - 1) * step + 1)


def window(x: Value, axes: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> Value:
    """Return windows over some axes; those inside a window come last."""
    shape = list(x.shape)
    for axis, size, stride, dilation in zip(axes, sizes, strides, dilations, strict=True):
        shape[axis] = (x.shape[axis] - (size - 1) * dilation - 1) // stride + 1
    attributes = {"axes": axes, "sizes": sizes, "strides": strides, "dilations": dilations}
    return Value("window", (x,), attributes, (*shape, *sizes), x.dtype)


def concatenate(values: Sequence[Value], axis: int) -> Value:
    """Join along an axis."""
    first = values[0]
    axis = axis % first.ndim
    if len(values) == 1:
        return first
    length = sum(v.shape[axis] for v in values)
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    return Value("concatenate", tuple(values), {"axis": axis}, shape, first.dtype)


def arg_reduce(function: str, x: Value, axis: int) -> Value:
    """Return the place of the largest or smallest element along an axis."""
    axis = axis % x.ndim
    return Value(
        "arg_reduce", (x,), {"function": function, "axis": axis}, x.shape[:axis] + x.shape[axis + 1 :], INT64
    )


def scan(function: str, x: Value, axis: int) -> Value:
    """Return running totals, products or extremes along an axis."""
    if x.dtype.kind in "bi":
        x = cast(x, INT64)
    return Value("scan", (x,), {"function": function, "axis": axis % x.ndim}, x.shape, x.dtype)


def gather(x: Value, index: Value, axis: int) -> Value:
    """Return x's elements at `index` along an axis. An index outside is an error when the program runs."""
    shape = x.shape[:axis] + index.shape + x.shape[axis + 1 :]
    return Value("gather", (x, cast(index, INT64)), {"axis": axis}, shape, x.dtype)


def scatter(function: str, base: Value, index: Value, updates: Value, axis: int) -> Value:
    """Return base with updates added (or set) at `index`, which has one axis, along an axis."""
    shape = base.shape[:axis] + index.shape + base.shape[axis + 1 :]
    inputs = (base, cast(index, INT64), expand(cast(updates, base.dtype), shape))
    return Value("scatter", inputs, {"axis": axis, "function": function}, base.shape, base.dtype)


def contract(spec: str, a: Value, b: Value) -> Value:
    """Multiply and sum as einsum says, two operands, no index twice in one of them.

    A product without two sides to it (no index that only one operand has, on both) is a map and a reduction,
    which later fuse with what stands around them; the primitive is kept for what multiplies matrices.
    """
    left, _, out = spec.partition("->")
    first, second = left.split(",")
    sizes: dict[str, int] = {}
    for letters, value in ((first, a), (second, b)):
        for letter, n in zip(letters, value.shape, strict=True):
            sizes[letter] = n if surely_equal(sizes.get(letter, 1), 1) else sizes[letter]
    a, first = _drop_ones(a, first)
    b, second = _drop_ones(b, second)
    a, first = _sum_alone(a, first, second + out)
    b, second = _sum_alone(b, second, first + out)
    kept = "".join(c for c in out if c in first or c in second)
    rows = [c for c in first if c not in second]
    columns = [c for c in second if c not in first]
    summed = [c for c in first if c in second and c not in kept]
    if rows and columns and summed and a.dtype.kind == "f":
        shape = tuple(sizes[c] for c in kept)
        result = Value("contract", (a, b), {"spec": f"{first},{second}->{kept}"}, shape, a.dtype)
    else:
        # A matrix times a vector: summed in the order in which the matrix lies in memory.
        larger = (a, first) if len(first) > len(second) else (b, second)
        along_rows = not summed or _fastest(*larger) not in kept
        order = kept + "".join(summed) if along_rows else "".join(summed) + kept
        product = map_values("multiply", _aligned(a, first, order), _aligned(b, second, order))
        product = expand(product, tuple(sizes[c] for c in order))
        result = reduce("add", product, [order.index(c) for c in summed]) if summed else product
        result = cast(result, a.dtype)
    return reshape(result, tuple(sizes[c] if c in kept else 1 for c in out))


def _fastest(x: Value, letters: str) -> str:
    """Name the axis along which neighbours lie next to each other in memory, as far as is known."""
    return letters[x.attributes["axes"].index(x.ndim - 1)] if x.primitive == "permute" else letters[-1:]


def _sum_alone(x: Value, letters: str, others: str) -> tuple[Value, str]:
    """Sum over the indices that nobody else has."""
    alone = [i for i, c in enumerate(letters) if c not in others]
    kept = "".join(c for c in letters if c in others)
    return (cast(reduce("add", x, alone), x.dtype) if alone else x), kept


def _drop_ones(x: Value, letters: str) -> tuple[Value, str]:
    """Leave out axes of length 1: they neither stretch nor sum to anything."""
    kept = [i for i, n in enumerate(x.shape) if not surely_equal(n, 1)]
    return reshape(x, tuple(x.shape[i] for i in kept)), "".join(letters[i] for i in kept)


def _aligned(x: Value, letters: str, order: str) -> Value:
    """Lay axes out in a given order, with 1s for those that are missing."""
    here = [c for c in order if c in letters]
    x = permute(x, [letters.index(c) for c in here])
    lengths = dict(zip(here, x.shape, strict=True))
    return reshape(x, tuple(lengths.get(c, 1) for c in order))


def matmul(a: Value, b: Value) -> Value:
    """Multiply matrices as NumPy's @ does: vectors, batches and their broadcasting included."""
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: operands need at least one axis")
    batch = max(a.ndim, b.ndim) - 2
    letters = string.ascii_letters[3 : 3 + max(batch, 0)]
    rows, columns = "a" if a.ndim > 1 else "", "c" if b.ndim > 1 else ""
    first = letters[len(letters) - max(a.ndim - 2, 0) :] + rows + "b"
    second = letters[len(letters) - max(b.ndim - 2, 0) :] + "b" + columns
    return contract(f"{first},{second}->{letters}{rows}{columns}", a, b)


def call(
    function: Callable[..., Any],
    inputs: Sequence[Value],
    results: Sequence[Any],
    single: bool,
    sizes: Shape = (),
) -> list[Value]:
    """Note that a function of arrays is to be called back, with `sizes` behind the arrays.

    results: something with the shape and dtype of each result, in which sizes may vary.
    """
    attributes: dict[str, Any] = {"function": function, "count": len(results)}
    if sizes:
        attributes["sizes"] = tuple(sizes)
    if single:
        return [Value("call", tuple(inputs), attributes, results[0].shape, results[0].dtype)]
    made = Value("call", tuple(inputs), attributes, (), np.dtype(object))
    return [Value("item", (made,), {"index": i}, r.shape, r.dtype) for i, r in enumerate(results)]


def start(kind: str, function: Callable[..., Any], before: Value, inputs: Sequence[Value]) -> Value:
    """Note that a collective begins, after another has; what it gives is a token."""
    return Value("start", (before, *inputs), {"kind": kind, "function": function}, before.shape, before.dtype)


def wait(kind: str, function: Callable[..., Any], token: Value, result: Any) -> Value:
    """Note that a collective is waited for; `result` is an example of what it gives."""
    return Value("wait", (token,), {"kind": kind, "function": function}, result.shape, result.dtype)


def depends_on(values: Sequence[Value], primitive: str) -> bool:
    """Tell whether anything the values are made from is of a primitive."""
    return any(value.primitive == primitive for value in in_order(values))


def element_count(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)
