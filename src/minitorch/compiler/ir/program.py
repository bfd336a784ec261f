"""A program written down: values, each made by one of some twenty primitives from earlier values.

Enters: primitives, as a recording meets them. Leaves: a `Program`, and its results by plain NumPy
(`interpret`), which is what every later room is measured against. Imports NumPy and SciPy alone.

Sizes in shapes and attributes may vary from call to call (see sizes.py). Every symbol is the length of an input's axis,
or an input that is a whole number, and so a call's arrays say what each is.

Nothing is implicit here: operands of an elementwise function have one shape (`expand` makes it so) and
one dtype (`cast` does), reductions drop their axes, a number is a constant without axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from minitorch.compiler.ir.sizes import Binding, Guard, Size, Symbol, evaluated
from minitorch.ops.error_function import erf
from minitorch.ops.sums import total

Shape = tuple[int, ...]
DType = np.dtype

_number = itertools.count().__next__


class Value:
    """One array of a program: which primitive made it, from what, and its shape and dtype.

    primitive: a name in PRIMITIVES. inputs: earlier Values. attributes: what else the primitive needs;
    hashable, except the array of a constant. number: counts up in the order of creation. line: where in a person's
    code it was asked for, a file and a line, where that is known. kind: a number for all this but the inputs, if
    somebody has given it one.
    """

    __slots__ = ("attributes", "dtype", "inputs", "kind", "line", "number", "primitive", "shape")

    def __init__(
        self,
        primitive: str,
        inputs: tuple[Value, ...],
        attributes: dict[str, Any],
        shape: Shape,
        dtype: DType,
    ) -> None:
        self.primitive = primitive
        self.inputs = inputs
        self.attributes = attributes
        self.shape = shape
        self.dtype = dtype
        self.number = _number()
        self.line: tuple[str, int] | None = None
        self.kind = 0

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes, written out."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        how = ", ".join(
            [f"%{i.number}" for i in self.inputs] + [f"{k}={_short(v)}" for k, v in self.attributes.items()]
        )
        shape = "×".join(map(str, self.shape)) or "scalar"
        return f"%{self.number} = {self.primitive}({how}) : {self.dtype}[{shape}]"


def _alone(n: int) -> Symbol | None:
    """Return the symbol that a size is, if it is one."""
    if isinstance(n, Size) and len(n.terms) == 1:
        (monomial, factor), *_ = n.terms
        if factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0]
    return None


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value) if value.size == 1 else f"<{'×'.join(map(str, value.shape))}>"
    return str(getattr(value, "__name__", value))


class Program:
    """Inputs, outputs, and everything between them in an order of computation.

    inputs: Values of the primitive 'input', in the order arrays are given.
    outputs: Values, in the order results are given; one may stand twice, or be an input.
    guards: what has to hold of the sizes of a call.
    """

    def __init__(
        self, inputs: Sequence[Value], outputs: Sequence[Value], guards: Sequence[Guard] = ()
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.guards = tuple(guards)

    @property
    def symbols(self) -> dict[Symbol, tuple[int, int | None]]:
        """What varies, each with the input and the axis that has this length; None: the input itself is the number."""
        found: dict[Symbol, tuple[int, int | None]] = {}
        for number, value in enumerate(self.inputs):
            for axis, n in enumerate(value.shape):
                symbol = _alone(n)
                if symbol is not None:
                    found.setdefault(symbol, (number, axis))
            if "symbol" in value.attributes:
                found.setdefault(value.attributes["symbol"], (number, None))
        return found

    def binding(self, arrays: Sequence[Any]) -> dict[Symbol, int]:
        """Return what each symbol is for a call with these arrays."""
        return {
            symbol: int(arrays[number]) if axis is None else arrays[number].shape[axis]
            for symbol, (number, axis) in self.symbols.items()
        }

    def at(self, binding: Binding) -> Program:
        """Return the program as it is at some sizes, in which nothing varies any more."""
        made: dict[Value, Value] = {}
        for value in self.values():
            attributes = {name: each for name, each in value.attributes.items() if name != "symbol"}
            inputs = tuple(made[each] for each in value.inputs)
            shape = evaluated(value.shape, binding)
            new = Value(value.primitive, inputs, evaluated(attributes, binding), shape, value.dtype)
            new.line = value.line
            made[value] = new
        return Program([made[i] for i in self.inputs], [made[o] for o in self.outputs])

    def values(self) -> list[Value]:
        """Return every value the outputs need, inputs before results (unneeded inputs included)."""
        return in_order([*self.inputs, *self.outputs])

    def __str__(self) -> str:
        lines = [repr(value) for value in self.values()]
        return "\n".join([*lines, "return " + ", ".join(f"%{o.number}" for o in self.outputs)])


T = TypeVar("T")


def in_order(roots: Iterable[T], inputs_of: Callable[[T], Sequence[T]] = attrgetter("inputs")) -> list[T]:
    """Return the roots and all they are made from; what is needed comes before what needs it."""
    order: list[T] = []
    seen: set[T] = set()
    stack: list[tuple[T, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack.extend((i, False) for i in reversed(inputs_of(value)) if i not in seen)
    return order


# --- elementwise functions --------------------------------------------------------------------------

COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
TESTS = {"isnan", "isinf", "isfinite", "signbit"}
LOGIC = {"logical_and", "logical_or", "logical_xor", "logical_not"}
# Functions of one and of two operands, by NumPy's names (and ours, for erf); operands and result of
# one dtype. `where` has a bool and two operands; `cast` is a primitive attribute `to`.
UNARY = {
    "negative", "absolute", "sign", "sqrt", "square", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
    "arctanh", "erf", "floor", "ceil", "trunc", "rint", "invert",
}  # fmt: skip
BINARY = {
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "remainder", "fmod", "floor_divide",
    "arctan2", "hypot", "logaddexp", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
    "copysign",
}  # fmt: skip
FUNCTIONS = UNARY | BINARY | COMPARISONS | TESTS | LOGIC | {"where", "cast"}


def numpy_function(name: str) -> Callable[..., Any]:
    """Return the NumPy function that an elementwise function's name stands for."""
    return erf if name == "erf" else getattr(np, name)


# --- the primitives, each with its meaning in NumPy ---------------------------------------------------


def _map(*operands: Any, function: str, to: Any = None) -> Any:
    if function == "cast":
        return operands[0].astype(to)
    return numpy_function(function)(*operands)


def _reduce(x: Any, *, function: str, axes: Shape) -> Any:
    if function == "add" and x.dtype.kind != "b":
        return total(x, axis=axes, keepdims=False)
    return getattr(np, function).reduce(x, axis=axes)


def _arg_reduce(x: Any, *, function: str, axis: int) -> Any:
    return getattr(np, function)(x, axis=axis)


def _slice(x: Any, *, starts: Shape, counts: Shape, steps: Shape) -> Any:
    """Element i of an axis is x[start + i·step]; steps may be negative."""
    key = []
    for start, count, step in zip(starts, counts, steps, strict=True):
        stop = start + count * step
        key.append(slice(start, None if stop < 0 else stop, step) if count else slice(0, 0))
    return x[tuple(key)]


def _pad(x: Any, *, low: Shape, high: Shape, value: float) -> Any:
    return np.pad(x, tuple(zip(low, high, strict=True)), constant_values=value)


def _window(x: Any, *, axes: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> Any:
    """Windows over some axes: each such axis counts windows, and behind all axes come those inside a window."""
    spans = tuple((k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    key: list[Any] = [slice(None)] * x.ndim
    for axis, stride in zip(axes, strides, strict=True):
        key[axis] = slice(None, None, stride)
    return view[(*key, *(slice(None, None, d) for d in dilations))]


def _contract(a: Any, b: Any, *, spec: str) -> Any:
    if a.dtype == np.float16:  # summed in float32 in any case, and by a library if the factors are float32
        return np.einsum(spec, a.astype(np.float32), b.astype(np.float32), optimize=True).astype(a.dtype)
    return np.einsum(spec, a, b, optimize=True)


def _gather(x: Any, index: Any, *, axis: int) -> Any:
    return np.take(x, index, axis=axis)


def _scatter(base: Any, index: Any, updates: Any, *, axis: int, function: str) -> Any:
    """base with updates at `index` along one axis; `index` has one axis and may name a place twice."""
    out = base.copy()
    key = (slice(None),) * axis + (index,)
    if function == "add":
        np.add.at(out, key, updates)
    else:
        out[key] = updates
    return out


# What each primitive does, its inputs by position and its attributes by keyword.
PRIMITIVES: dict[str, Callable[..., Any] | None] = {
    "input": None,  # index: the n-th array given; symbol: the size that this number is, if it is one
    "constant": lambda *, array: array,
    "iota": lambda *, count: np.arange(count),  # int64
    "size": lambda *, size: np.asarray(size, np.int64),  # a size as a number
    "map": _map,  # function, and for cast `to`
    "reduce": _reduce,  # function: add multiply maximum minimum logical_and logical_or; axes
    "arg_reduce": _arg_reduce,  # function: argmax argmin; axis
    "scan": lambda x, *, function, axis: getattr(np, function).accumulate(x, axis=axis),
    "reshape": lambda x, *, shape: x.reshape(shape),
    "permute": lambda x, *, axes: np.transpose(x, axes),
    "expand": lambda x, *, shape: np.broadcast_to(x, shape),  # same rank: only axes of length 1 stretch
    "slice": _slice,  # starts, counts, steps
    "pad": _pad,  # low, high (≥ 0), value
    "window": _window,
    "concatenate": lambda *xs, axis: np.concatenate(xs, axis=axis),
    "contract": _contract,  # spec: einsum's, two operands, no index twice in one of them
    "gather": _gather,  # axis; index of any shape, never negative
    "scatter": _scatter,  # axis; index with one axis, never negative; function: add set
    "sort": lambda x, *, axis: np.sort(x, axis=axis, kind="stable"),
    "argsort": lambda x, *, axis: np.argsort(x, axis=axis, kind="stable"),
    # Any function of arrays, and of sizes after them; several results: a tuple.
    "call": lambda *xs, function, count, sizes=(): function(*xs, *sizes),
    "item": lambda results, *, index: results[index],  # one of a call's several results
    # A collective between ranks: begun by one function, which gives a token, and ended by another, from the token. A
    # start's first input is the token of the start before.
    "start": lambda token, *xs, kind, function: function(token, *xs),
    "wait": lambda token, *, kind, function: function(token),
}

CALLS = {"call", "item", "start", "wait"}  # what Python computes, anew each time

VIEWS = {"reshape", "permute", "expand", "slice", "window"}


def interpret(
    program: Program,
    arrays: Sequence[Any],
    then: Callable[[Value, list[Any], Any], Any] = lambda value, inputs, array: array,
    compute: Callable[..., Any] | None = None,
) -> list[Any]:
    """Run a program by NumPy, value by value. What this gives is what every compiled form must give.

    Any values may be its inputs: what only they are made from is not computed.
    then: what to make of each value, from its inputs' arrays and its own, as soon as it is computed.
    compute: in place of `evaluate`, where arrays lie elsewhere (elsewhere.py).
    """
    compute = compute or evaluate
    binding = program.binding(arrays)
    known: dict[Value, Any] = dict(zip(program.inputs, arrays, strict=True))
    del arrays  # (where nobody else holds them either, each goes when it was read for the last time)
    order = in_order(
        [*program.inputs, *program.outputs], lambda value: () if value in known else value.inputs
    )
    last = {i: number for number, value in enumerate(order) if value not in known for i in value.inputs}
    last.update(dict.fromkeys(program.outputs, len(order)))
    with np.errstate(all="ignore"):
        for number, value in enumerate(order):
            inputs: tuple[Value, ...] = ()
            if value not in known:
                inputs = value.inputs
                read = [known[i] for i in inputs]
                known[value] = then(value, read, compute(value, read, binding))
                del read
            for i in {*inputs, value}:
                if last.get(i, -1) <= number:
                    known.pop(i, None)  # a large program's arrays do not all fit in memory
    return [known[o] for o in program.outputs]


def evaluate(value: Value, inputs: Sequence[Any], binding: Binding | None = None) -> Any:
    """Compute one value from its inputs' arrays; binding: what the symbols in its attributes are."""
    compute = PRIMITIVES[value.primitive]
    assert compute is not None, f"{value.primitive} is given, not computed"
    attributes = evaluated(value.attributes, binding) if binding else value.attributes
    result = compute(*inputs, **attributes)
    if isinstance(result, np.generic) or (isinstance(result, np.ndarray) and result.dtype != value.dtype):
        result = np.asarray(result, dtype=value.dtype)  # einsum and erf may widen
    return result
