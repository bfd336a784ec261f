"""Ufuncs on Traced arrays: element by element, folded along axes, running totals; and calling NumPy back.

Enters: a ufunc, how it is applied, and its operands. Leaves: Traced results. What has no primitive is noted as a
function for the program to call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import FUNCTIONS
from minitorch.compiler.ir.sizes import Size
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.traced import (
    HANDLERS,
    Traced,
    as_traced,
    concrete,
    is_known,
    operand_value,
    scalar_kind,
)
from minitorch.engine.recording import recorder
from minitorch.ops.sums import total

# --- ufuncs ---------------------------------------------------------------------------------------


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Record a ufunc, in any of its methods."""
    if method == "reduce":
        return _ufunc_reduce(ufunc, *inputs, **options)
    if method == "accumulate":
        return scan_traced(ufunc, *inputs, **options)
    if method == "at":
        return HANDLERS["at"](ufunc, *inputs)
    if method != "__call__":
        return call_back(getattr(ufunc, method), inputs, options)
    inputs = tuple(np.asarray(i) if isinstance(i, (list, tuple)) else i for i in inputs)
    if ufunc is np.matmul:
        return _matmul(*inputs)
    if ufunc in _COMPOSED and not options:
        return _COMPOSED[ufunc](*inputs)
    name = program_function(ufunc)
    if name is None or options.get("where", True) is not True or set(options) - _HARMLESS:
        return _call_elementwise(ufunc, inputs, options)
    with np.errstate(all="ignore"):
        array = ufunc(*(concrete(i) for i in inputs), **options)
    if array.dtype.kind == "c" or any(np.asarray(concrete(i)).dtype.kind == "c" for i in inputs):
        return _call_elementwise(ufunc, inputs, options)
    *kinds, result = _loop(ufunc, inputs, options, array)
    try:
        values = [operand_value(i, kind) for i, kind in zip(inputs, kinds, strict=True)]
    except OverflowError:  # a comparison with a number that the dtype cannot hold
        return _call_elementwise(ufunc, inputs, options)
    return Traced(make.cast(make.map_values(name, *values), result), array, is_known(*inputs))


def _call_elementwise(ufunc: Any, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call a ufunc back that has no primitive."""
    shape = None
    if ufunc.signature is None and ufunc.nout == 1 and options.get("where", True) is True:
        shape = make.broadcast_shapes(*(as_traced(i).shape for i in inputs))
    return call_back(ufunc, inputs, options, shape)


def program_function(ufunc: Any) -> str | None:
    """Return which function of a program a ufunc is by itself; None if none."""
    name = _NAMES.get(ufunc.__name__, ufunc.__name__)
    return name if name in FUNCTIONS and ufunc not in _COMPOSED and ufunc is not np.matmul else None


def _ignoring_nan(choose: Any) -> Callable[..., Any]:
    def chosen(x: Any, y: Any) -> Any:
        return np.where(np.isnan(x), y, np.where(np.isnan(y), x, choose(x, y)))

    return chosen


def _logaddexp2(x: Any, y: Any) -> Any:
    # log2(2^x + 2^y) with the larger taken out; equal infinities have no difference.
    larger = np.maximum(x, y)
    added = np.log1p(np.exp2(-np.absolute(np.subtract(x, y)))) * math.log2(math.e)
    return np.where(np.equal(x, y), larger + 1.0, larger + added)


# Ufuncs that are a few functions of a program.
_COMPOSED: dict[Any, Callable[..., Any]] = {
    np.fmax: _ignoring_nan(np.maximum),
    np.fmin: _ignoring_nan(np.minimum),
    np.logaddexp2: _logaddexp2,
    np.deg2rad: lambda x: x * (math.pi / 180),
    np.radians: lambda x: x * (math.pi / 180),
    np.rad2deg: lambda x: x * (180 / math.pi),
    np.degrees: lambda x: x * (180 / math.pi),
}
# NumPy's other names for functions of a program, and options that change nothing.
_NAMES = {"fabs": "absolute", "true_divide": "divide", "bitwise_not": "invert"}
_HARMLESS = {"where", "casting", "order", "subok", "dtype"}


def _loop(ufunc: Any, inputs: Sequence[Any], options: dict[str, Any], array: Any) -> tuple[Any, ...]:
    """Return the dtypes a ufunc computes in: one per input, and the result's."""
    dtype = options.get("dtype")
    signature = {} if dtype is None else {"signature": (None,) * len(inputs) + (np.dtype(dtype),)}
    if not hasattr(ufunc, "resolve_dtypes") or ufunc.__name__ == "erf":
        return (array.dtype,) * (len(inputs) + 1)
    return ufunc.resolve_dtypes((*(scalar_kind(i) for i in inputs), None), **signature)


def _matmul(a: Any, b: Any) -> Any:
    array = np.matmul(concrete(a), concrete(b))
    x, y = (make.cast(as_traced(o).value, np.asarray(array).dtype) for o in (a, b))
    return Traced(make.matmul(x, y), array, is_known(a, b))


# --- reductions -----------------------------------------------------------------------------------


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as numbers from 0 to ndim - 1; None means all."""
    if axis is None:
        return tuple(range(ndim))
    return (
        tuple(a % ndim for a in axis) if isinstance(axis, (tuple, list)) else ((axis % ndim,) if ndim else ())
    )


def reduce_traced(ufunc: Any, x: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Traced:
    """Fold axes by a ufunc."""
    x = as_traced(x)
    with np.errstate(all="ignore"):
        if ufunc is np.add and dtype is None:
            array = np.asarray(total(x.array, axis=axis, keepdims=keepdims))
        else:
            array = np.asarray(ufunc.reduce(x.array, axis=axis, keepdims=keepdims, dtype=dtype))
    value = x.value
    if ufunc in (np.logical_and, np.logical_or):
        value = make.cast(value, np.bool_)
    elif dtype is not None:
        value = make.cast(value, dtype)
    value = make.reduce(ufunc.__name__, value, axes_of(axis, x.ndim), keepdims)
    return Traced(make.cast(value, array.dtype), array, x.known)


def _ufunc_reduce(
    ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any
) -> Any:
    names = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
    if ufunc.__name__ not in names or any(
        v is not None and v is not True and v is not np._NoValue for v in more.values()
    ):
        return call_back(ufunc.reduce, (x,), {"axis": axis, "keepdims": keepdims, "dtype": dtype, **more})
    return reduce_traced(ufunc, x, axis, keepdims, dtype)


def scan_traced(ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Traced:
    """Return running totals (or products, or extremes) along an axis."""
    x = as_traced(x)
    if ufunc not in (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp):
        return call_back(ufunc.accumulate, (x,), {"axis": axis, "dtype": dtype})
    with np.errstate(all="ignore"):
        array = ufunc.accumulate(x.array, axis=axis, dtype=dtype)
    value = make.scan(ufunc.__name__, make.cast(x.value, array.dtype), axis)
    return Traced(make.cast(value, array.dtype), array, x.known)


# --- calling back ---------------------------------------------------------------------------------


def call_back(
    function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], shape: Any = None
) -> Any:
    """Record a function that has no primitive: the program calls it, by NumPy, on the arrays of the run.

    shape: that of its result, where sizes that vary may be in it; if nobody knows it, they must not vary.
    """
    active: Any = recorder()
    if active is not None and not active.repeats:
        return active.call_back(function, args, options)
    found: list[Traced] = []

    def mark(x: Any) -> Any:
        if type(x) is Size:
            return int(x)
        if isinstance(x, (Traced, Number)) or (isinstance(x, np.ndarray) and x.ndim):
            found.append(as_traced(x))
            return _Place(len(found) - 1, type(x.concrete) if isinstance(x, Number) else None)
        if isinstance(x, (tuple, list)):
            return type(x)(mark(i) for i in x) if not hasattr(x, "_fields") else type(x)(*map(mark, x))
        return {k: mark(v) for k, v in x.items()} if isinstance(x, dict) else x

    marked_args, marked_options = mark(tuple(args)), mark(dict(options))

    def run(*arrays: Any) -> Any:
        def fill(x: Any) -> Any:
            if isinstance(x, _Place):
                given = arrays[x.number]
                return given if x.kind is None else x.kind(given)
            if isinstance(x, (tuple, list)):
                return type(x)(fill(i) for i in x) if not hasattr(x, "_fields") else type(x)(*map(fill, x))
            return {k: fill(v) for k, v in x.items()} if isinstance(x, dict) else x

        with np.errstate(all="ignore"):
            result = function(*fill(marked_args), **fill(marked_options))
        if isinstance(result, (tuple, list)):
            return (
                type(result)(*map(np.asarray, result))
                if hasattr(result, "_fields")
                else tuple(map(np.asarray, result))
            )
        return np.asarray(result)

    run.__name__ = getattr(function, "__name__", "function")
    result = run(*(t.array for t in found))
    single = isinstance(result, np.ndarray)
    results = [result] if single else list(result)
    known = all(t.known for t in found)
    shapes: list[Any] = results
    if shape is not None and single:
        shapes = [_Shaped(shape, result.dtype)]
    else:
        for n in (n for t in found for n in t.shape):
            if type(n) is Size:
                int(n)
    made = make.call(run, [t.value for t in found], shapes, single)
    outs = [Traced(v, r, known) for v, r in zip(made, results, strict=True)]
    if single:
        return outs[0]
    return type(result)(*outs) if hasattr(result, "_fields") else tuple(outs)


class _Shaped(NamedTuple):
    """What is known of a result."""

    shape: tuple[int, ...]
    dtype: Any


class _Place:
    """Where an array goes when a recorded function is called back. kind: of a Python number, its type."""

    __slots__ = ("kind", "number")

    def __init__(self, number: int, kind: type | None) -> None:
        self.number = number
        self.kind = kind


HANDLERS["ufunc"] = apply_ufunc
HANDLERS["call back"] = call_back
