"""x[mask]: as many rows as the mask holds places, which only the program can tell.

Enters: a Traced and a mask over its first axes. Leaves: a `Masked`, which computes on all rows and folds those alone
that the mask holds: x[mask].mean() is a sum of where(mask, x, 0), over the number of places. Row by row everything may
be computed from it, also with other arrays that the same mask has chosen from. How many rows there are is a `Length`:
a number of the program, as x.item() is. Whatever is not named here needs the rows themselves, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Value
from minitorch.compiler.trace import numpy_functions as numpy_functions  # whose tables are added to
from minitorch.compiler.trace.lengths import Length, length_of
from minitorch.compiler.trace.refusal import CompileError, refuse
from minitorch.compiler.trace.traced import (
    FUNCTIONS_OF_NUMPY,
    HANDLERS,
    LOWERINGS,
    OPERATORS,
    Traced,
    as_traced,
)
from minitorch.engine.node import Node
from minitorch.ops.indexing import GATHER, SCATTER_ADD
from minitorch.ops.special import ERF


class Masked(Traced):
    """Rows of an array, those that a mask holds.

    rows: all of them. length: how many the mask holds. axis: along which of their axes they lie.
    """

    __slots__ = ("axis", "length", "rows")

    is_masked = True

    def __init__(self, rows: Any, length: Length, axis: int = 0) -> None:
        self.rows, self.length, self.axis = as_traced(rows), length, axis
        self._source = None
        self._version = self._seen = 0
        self._place = None

    # The arrays behind Traced's own attributes; whether there are any other rows is never known.
    _array: Any = property(lambda self: self.rows.array)
    _known: Any = property(lambda self: False)
    known: Any = _known

    @property
    def value(self) -> Value:
        """There is none: what asks for it needs the rows themselves."""
        raise _refusal()

    array = value  # type: ignore[assignment]

    def settled(self) -> np.ndarray:
        """Return the rows of this run."""
        return np.compress(self.length.mask.array, self.rows.array, self.axis)

    shape = property(
        lambda self: tuple(self.length if i == self.axis else n for i, n in enumerate(self.rows.shape))
    )
    size = property(lambda self: math.prod(self.shape))
    dtype = property(lambda self: self.rows.dtype)
    ndim = property(lambda self: self.rows.ndim)
    __minitorch_device__ = property(lambda self: self.rows.__minitorch_device__)

    def __len__(self) -> int:
        raise _refusal()

    def _look(self, *what: Any) -> Any:
        raise _refusal()

    item = tolist = _look

    def of(self, rows: Any, axis: int | None = None) -> Masked:
        """Return other rows that this mask has chosen."""
        return Masked(rows, self.length, self.axis if axis is None else axis)

    def with_others(self, number: Any) -> Traced:
        """Return all rows, with a number in those that the mask does not hold."""
        shape = [self.length.places if i == self.axis else 1 for i in range(self.ndim)]
        filled: Any = np.where(self.length.mask.reshape(shape), self.rows, self.dtype.type(number))
        return filled

    def assign(self, new: Any) -> None:
        """Write into these rows, which are a copy."""
        self.rows = _row_by_row(
            lambda mine, other: np.broadcast_to(other, mine.shape), (self, new)
        ).rows.astype(self.dtype)

    # --- shapes -------------------------------------------------------------------------------------

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Return them in another dtype."""
        return self.of(self.rows.astype(dtype))

    def copy(self, order: str = "C") -> Any:
        """Return a copy."""
        return self.of(self.rows.copy())

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return the rows under another shape; or all their elements on one axis."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        rest = math.prod(n for i, n in enumerate(self.rows.shape) if i != self.axis)
        if math.prod(self.rows.shape[: self.axis]) != 1:
            raise _refusal()
        if len(shape) == 1:
            return Masked(self.rows.reshape(-1), self.length.repeated(rest))
        places = [i for i, n in enumerate(shape) if isinstance(n, Length)]
        places = places or [i for i, n in enumerate(shape) if type(n) is int and n == -1]
        if len(places) != 1:
            raise _refusal()
        place = places[0]
        length = shape[place] if isinstance(shape[place], Length) else self.length
        others = [n for i, n in enumerate(shape) if i != place]
        if length.base is not self.length.base or math.prod(shape[:place]) != 1:
            raise _refusal()
        if math.prod(others) * length.times != rest * self.length.times:
            raise _refusal()
        full = [length.places if i == place else n for i, n in enumerate(shape)]
        return Masked(self.rows.reshape(full), length, place)

    def transpose(self, *axes: Any) -> Any:
        """Return them with their axes in another order."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = () if axes[0] is None else tuple(axes[0])
        order = tuple(a % self.ndim for a in axes) if axes else tuple(range(self.ndim))[::-1]
        return self.of(self.rows.transpose(order), order.index(self.axis))

    def __getitem__(self, key: Any) -> Any:
        self._check_key(key)
        return self.of(self.rows[key])

    def __setitem__(self, key: Any, new: Any) -> None:
        if key is Ellipsis or (type(key) is slice and key == slice(None)):
            self.assign(new)
            return
        self._check_key(key)
        part = self[key]
        part.assign(new)
        rows = self.rows.copy()
        rows[key] = part.rows
        self.rows = rows

    def _check_key(self, key: Any) -> None:
        """Refuse an index that does not take all rows."""
        parts = key if isinstance(key, tuple) else (key,)
        basic = all(p is None or p is Ellipsis or isinstance(p, (slice, int)) for p in parts)
        first = parts and (parts[0] is Ellipsis or (type(parts[0]) is slice and parts[0] == slice(None)))
        named = sum(p is not None and p is not Ellipsis for p in parts)
        if self.axis or not basic or not first or (parts[0] is Ellipsis and named >= self.ndim):
            raise _refusal()

    # --- NumPy's protocols ----------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if any(isinstance(each, Node) for each in inputs):
            return NotImplemented
        if method == "reduce" and len(inputs) == 1 and ufunc.__name__ in _FOLDS:
            return _fold(ufunc.__name__, self, options.pop("axis", 0), **options)
        if method != "__call__" or ufunc.nout != 1:
            raise _refusal()
        result = (
            _matmul(*inputs) if ufunc is np.matmul else _row_by_row(lambda *a: ufunc(*a, **options), inputs)
        )
        if out is None:
            return result
        target = out[0] if isinstance(out, tuple) else out
        target.assign(result)
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if any(issubclass(each, Node) for each in types):
            return NotImplemented
        implementation = _FUNCTIONS.get(function)
        if implementation is None:
            raise _refusal()
        return implementation(*args, **options)

    def __minitorch_op__(self, op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        if op in (GATHER, SCATTER_ADD):
            return _along_rows(op, inputs, **attributes)
        if op.name in LOWERINGS and op is not ERF:
            raise _refusal()
        return getattr(op.forward, "__wrapped__", op.forward)(*inputs, **attributes)


def _refusal() -> CompileError:
    return refuse(
        "x[mask] where it is not folded by sum, mean, max, … (the shape of the result)",
        "write minitorch.where(mask, x, 0) or masked_fill, which keep the shape",
    )


def _operator(name: str) -> Any:
    of_traced = getattr(Traced, name)
    if "matmul" in name:
        order = (lambda a, b: (b, a)) if name == "__rmatmul__" else (lambda a, b: (a, b))
        return lambda self, other: NotImplemented if isinstance(other, Node) else _matmul(*order(self, other))

    def method(self: Any, *others: Any) -> Any:
        if any(isinstance(each, Node) for each in others):
            return NotImplemented
        return _row_by_row(lambda mine, *theirs: of_traced(as_traced(mine), *theirs), (self, *others))

    return method


def _in_place(name: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        self.assign(getattr(self, name)(other).astype(self.dtype))
        return self

    return method


for _name in OPERATORS:
    setattr(Masked, _name, _operator(_name))
for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "and", "or", "xor"):
    setattr(Masked, f"__i{_name}__", _in_place(f"__{_name}__"))


# --- row by row ------------------------------------------------------------------------------------------


def _row_by_row(function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Compute element by element: every operand is of the same rows, or the same for all of them."""
    masked = [each for each in operands if isinstance(each, Masked)]
    first = masked[0]
    from_the_end = first.ndim - first.axis
    if any(m.length is not first.length or m.ndim - m.axis != from_the_end for m in masked):
        raise _refusal()
    for each in operands:
        shape = getattr(each, "shape", ()) if not isinstance(each, Masked) else ()
        if len(shape) >= from_the_end and shape[-from_the_end] != 1:
            raise _refusal()
    result = as_traced(function(*(each.rows if isinstance(each, Masked) else each for each in operands)))
    return first.of(result, result.ndim - from_the_end)


def _matmul(a: Any, b: Any) -> Any:
    rows_of = lambda x: x.rows if isinstance(x, Masked) else as_traced(x)
    dims = rows_of(a).ndim, rows_of(b).ndim
    if max(dims) > 2:
        raise _refusal()
    if isinstance(a, Masked) and isinstance(b, Masked):
        if a.length is b.length and a.axis == a.ndim - 1 and b.axis == 0:
            return np.matmul(a.with_others(0), b.with_others(0))
        raise _refusal()
    product = as_traced(np.matmul(rows_of(a), rows_of(b)))
    if isinstance(a, Masked) and dims[0] == 2 and a.axis == 0:
        return a.of(product, 0)
    if isinstance(b, Masked) and dims[1] == 2 and b.axis == 1:
        return b.of(product, product.ndim - 1)
    raise _refusal()


def _along_rows(op: Any, inputs: tuple[Any, ...], *, axis: int) -> Any:
    """Take from, or add to, each row at an index of its own."""
    masked = [each for each in inputs if isinstance(each, Masked)]
    first = masked[0]
    same = all(m.length is first.length and (m.ndim, m.axis) == (2, 0) for m in masked)
    if len(masked) != len(inputs) or not same or axis % 2 != 1:
        raise _refusal()
    x, index, *rest = masked
    # In the rows that the mask does not hold the index may be anything.
    return first.of(op(x.rows, index.with_others(0), *(each.rows for each in rest), axis=axis))


# --- folding -----------------------------------------------------------------------------------------------

_FOLDS = {
    "add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min, "logical_and": np.all,
    "logical_or": np.any,
}  # fmt: skip


def _fold(
    name: str,
    x: Masked,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    **more: Any,
) -> Any:
    if out is not None or any(v is not np._NoValue and v is not True for v in more.values()):
        raise _refusal()
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(a % x.ndim for a in axes)
    keepdims = bool(keepdims) if keepdims is not np._NoValue else False
    fold: Any = _FOLDS[name]
    x = x if dtype is None else x.astype(dtype)
    if x.axis not in axes:
        gone = 0 if keepdims else sum(a < x.axis for a in axes)
        return x.of(fold(x.rows, axis=axes, keepdims=keepdims), x.axis - gone)
    if name in ("maximum", "minimum"):
        x.length.__bool__()  # of nothing there is no largest
    return fold(x.with_others(_neutral(name, x.dtype)), axis=axes, keepdims=keepdims)


def _neutral(name: str, dtype: Any) -> Any:
    """Return the number that changes no fold."""
    if name in ("maximum", "minimum"):
        low, high = (-np.inf, np.inf) if dtype.kind == "f" else (False, True)
        if dtype.kind in "iu":
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return low if name == "maximum" else high
    return {"add": 0, "multiply": 1, "logical_and": True, "logical_or": False}[name]


def _mean(x: Masked, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    total = _fold("add", x, axis, dtype, out, keepdims)
    return total / math.prod(x.shape[a] for a in axes)


def _place_in_row(function: Any) -> Any:
    def find(x: Masked, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        if axis is None or axis % x.ndim == x.axis or out is not None:
            raise _refusal()
        kept = bool(keepdims) if keepdims is not np._NoValue else False
        return x.of(
            function(x.rows, axis=axis, keepdims=kept), x.axis - (not kept and axis % x.ndim < x.axis)
        )

    return find


# --- NumPy's functions ---------------------------------------------------------------------------------------


def _where(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        raise _refusal()
    return _row_by_row(np.where, (condition, *branches))


def _clip(x: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **options: Any) -> Any:
    x = x if a_min is None else np.maximum(x, a_min)
    if out is not None:
        raise _refusal()
    return x if a_max is None else np.minimum(x, a_max)


def _like(function: Any) -> Any:
    of_traced = FUNCTIONS_OF_NUMPY[function]

    def make(x: Any, *args: Any, shape: Any = None, **options: Any) -> Any:
        rows = x.rows if isinstance(x, Masked) else x
        found = _length_in(shape)
        if found is not None:
            length, axis, full = found
            return Masked(of_traced(rows, *args, shape=full, **options), length, axis)
        made = of_traced(rows, *args, shape=shape, **options)
        return x.of(made) if isinstance(x, Masked) and shape is None else made

    return make


def _of_shape(function: Any) -> Any:
    """Return a function that makes an array of a shape, which may have a Length in it."""
    of_traced = FUNCTIONS_OF_NUMPY[function]

    def make(shape: Any, *args: Any, **options: Any) -> Any:
        found = _length_in(shape)
        if found is None:
            return of_traced(shape, *args, **options)
        length, axis, full = found
        return Masked(of_traced(full, *args, **options), length, axis)

    return make


def _length_in(shape: Any) -> tuple[Length, int, tuple[int, ...]] | None:
    """Return the Length in a shape, its place, and the shape of all rows."""
    places = (
        [i for i, n in enumerate(shape) if isinstance(n, Length)] if isinstance(shape, (tuple, list)) else []
    )
    if not places:
        return None
    if len(places) > 1:
        raise _refusal()
    length = shape[places[0]]
    return length, places[0], tuple(length.places if n is length else n for n in shape)


_stretch = FUNCTIONS_OF_NUMPY[np.broadcast_to]


def _broadcast_to(x: Any, shape: Any, subok: bool = False) -> Any:
    found = _length_in(shape)
    if found is None:
        return _stretch(x, shape, subok)
    length, axis, full = found
    if isinstance(x, Masked):
        if x.length is not length or x.ndim - x.axis != len(full) - axis:
            raise _refusal()
        return x.of(_stretch(x.rows, full), axis)
    return Masked(_stretch(x, full), length, axis)


def _concatenate(arrays: Any, axis: Any = 0, **options: Any) -> Any:
    first = next(each for each in arrays if isinstance(each, Masked))
    alike = all(isinstance(a, Masked) and (a.length, a.axis) == (first.length, first.axis) for a in arrays)
    if not alike or axis is None or axis % first.ndim == first.axis:
        raise _refusal()
    return first.of(np.concatenate([each.rows for each in arrays], axis))


def _expand_dims(x: Masked, axis: Any) -> Any:
    axes = sorted(a % (x.ndim + 1) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(axes) != 1:
        raise _refusal()
    shape = list(x.shape)
    shape.insert(axes[0], 1)
    return x.reshape(shape)


def _squeeze(x: Masked, axis: Any = None) -> Any:
    axes = [i for i, n in enumerate(x.rows.shape) if n == 1 and i != x.axis] if axis is None else axis
    axes = [a % x.ndim for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    if any(a == x.axis or x.rows.shape[a] != 1 for a in axes):
        raise _refusal()
    return x.reshape([n for i, n in enumerate(x.shape) if i not in axes])


def _swapaxes(x: Masked, axis1: int, axis2: int) -> Any:
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return x.transpose(order)


_LIKE: tuple[Any, ...] = (np.zeros_like, np.ones_like, np.empty_like, np.full_like)
_OF_SHAPE: tuple[Any, ...] = (np.zeros, np.ones, np.empty, np.full)
_MAKERS: dict[Any, Callable[..., Any]] = {
    **{function: _like(function) for function in _LIKE},
    **{function: _of_shape(function) for function in _OF_SHAPE},
}
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.mean: _mean,
    np.argmax: _place_in_row(np.argmax),
    np.argmin: _place_in_row(np.argmin),
    np.broadcast_to: _broadcast_to,
    np.reshape: lambda x, shape=None, **options: x.reshape(shape, **options),
    np.transpose: lambda x, axes=None: x.transpose(axes),
    np.swapaxes: _swapaxes,
    np.concatenate: _concatenate,
    np.expand_dims: _expand_dims,
    np.squeeze: _squeeze,
    np.copy: lambda x, **options: x.copy(),
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    **_MAKERS,
}


def _folding(name: str) -> Callable[..., Any]:
    if name in ("add", "multiply"):
        return lambda x, *args, **options: _fold(name, x, *args, **options)
    return lambda x, axis=None, out=None, keepdims=False, **more: _fold(
        name, x, axis, None, out, keepdims, **more
    )


_FUNCTIONS.update({function: _folding(name) for name, function in _FOLDS.items()})
# Arrays that are not masked become so by a shape with a Length in it.
FUNCTIONS_OF_NUMPY.update({function: _FUNCTIONS[function] for function in (np.broadcast_to, *_MAKERS)})


def _method(name: str) -> Any:
    function = _FUNCTIONS[getattr(np, name)]
    return lambda self, *args, **options: function(self, *args, **options)


for _name in [
    "all",
    "any",
    "argmax",
    "argmin",
    "clip",
    "max",
    "mean",
    "min",
    "prod",
    "squeeze",
    "sum",
    "swapaxes",
]:
    setattr(Masked, _name, _method(_name))


# --- choosing, and putting back ------------------------------------------------------------------------------


def select(x: Traced, mask: Traced) -> Masked:
    """Return x[mask]."""
    if x.shape[: mask.ndim] != mask.shape or not mask.ndim:
        raise IndexError(f"a mask of shape {mask.shape} does not fit an array of shape {x.shape}")
    length = length_of(mask)
    return Masked(Traced(x.value, x.array).reshape(length.places, *x.shape[mask.ndim :]), length)


def put(x: Traced, mask: Traced, new: Any) -> Traced:
    """Return x with x[mask] set to rows that the same mask has chosen."""
    length = length_of(mask)
    rest = x.shape[mask.ndim :]
    if not isinstance(new, Masked):
        new = Masked(_stretch(new, (length.places, *rest)), length)
    if new.length is not length or new.axis:
        raise _refusal()
    rows: Any = _stretch(new.rows, (length.places, *rest)).astype(x.dtype).reshape(x.shape)
    chosen: Any = np.where(mask.reshape(*mask.shape, *(1,) * len(rest)), rows, x)
    return chosen


def take(x: Traced, index: Masked) -> Masked:
    """Return x[index], for rows that are places in x."""
    return index.of(x[index.with_others(0)])


HANDLERS["select by a mask"] = select
HANDLERS["put by a mask"] = put
HANDLERS["take by rows"] = take
