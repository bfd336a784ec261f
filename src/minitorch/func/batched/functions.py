"""NumPy's functions on batched arrays. Enters: a level and a function's arguments. Leaves: batched results.

Each is the same function on the array of all examples: elementwise ones after their operands' axes are aligned, those
along an axis with that axis counted one further. `HANDLERS` lists them by NumPy's function; of what is not listed each
example is computed alone (arrays.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.func.batched import keys
from minitorch.func.batched.arrays import (
    HANDLERS,
    Batched,
    EachAlone,
    Level,
    aligned,
    each_alone,
    is_at,
    levels_of,
    ndim_of,
    physical_axis,
    raw,
    spread,
    top_level,
    wrapped,
)
from minitorch.ops.native import answered
from minitorch.ops.products import explicit_subscripts
from minitorch.ops.reductions import accumulated

FUNCTIONS = HANDLERS
Handler = Callable[..., Any]


def _implements(*functions: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for function in functions:
            HANDLERS[function] = handler
        return handler

    return register


# --- ufuncs -----------------------------------------------------------------------------------------


@_implements("ufunc")
def _ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    out = options.pop("out", None)
    out = (out,) if out is not None and not isinstance(out, tuple) else out
    level = top_level(*inputs, *(out or ()), *options.values())
    assert level is not None
    for target in out or ():
        if target is not None and not is_at(target, level):
            raise EachAlone(level, f"np.{ufunc.__name__} writes into an array that all examples share")
    targets = None if out is None else tuple(raw(target, level) for target in out)
    if method == "at":
        return keys.add_at(ufunc, *inputs)
    into = {} if targets is None else {"out": targets}
    if method == "__call__" and ufunc is np.matmul:
        result = _matmul(level, *inputs)
        if targets is None:
            return result
        targets[0][...] = result.array
        return out[0]  # type: ignore[index]
    if method == "__call__" and ufunc.signature is None:
        where = options.get("where")
        ndim = max(ndim_of(each) for each in inputs)
        if where is not None:
            ndim = max(ndim, ndim_of(where))
            options["where"] = aligned(where, level, ndim)
        result = answered(ufunc, *(aligned(each, level, ndim) for each in inputs), **into, **options)
    elif method in ("reduce", "accumulate"):
        (x,) = inputs
        axis = physical_axis(options.pop("axis", 0), x.ndim)
        if method == "accumulate" and not (into or options):
            result = accumulated(ufunc, x.array, axis)  # (which CuPy does not have)
        else:
            result = getattr(ufunc, method)(x.array, axis=axis, **into, **options)
    else:
        return each_alone(
            level,
            getattr(ufunc, method),
            inputs,
            options,
            f"np.{ufunc.__name__}.{method} has no form for batches",
        )
    return wrapped(result, level) if out is None else out[0] if len(out) == 1 else out


def _matmul(level: Level, x: Any, y: Any) -> Batched:
    """Multiply matrices and vectors of all examples; one product does it where one side is shared."""
    a, b = raw(x, level), raw(y, level)
    if is_at(x, level) and not is_at(y, level) and y.ndim == 2 and x.ndim and 0 not in a.shape:
        return Batched((a.reshape(-1, a.shape[-1]) @ b).reshape((*a.shape[:-1], b.shape[-1])), level)
    if is_at(y, level) and not is_at(x, level) and y.ndim == 1 and x.ndim == 2:
        return Batched(b @ a.swapaxes(0, 1), level)
    if not x.ndim or not y.ndim:
        raise ValueError("matmul: an operand has no axes; multiply by *")
    a = a[..., None, :] if x.ndim == 1 else a
    b = b[..., :, None] if y.ndim == 1 else b
    ndim = max(x.ndim, y.ndim, 2)
    a, b = (_stretched(each, is_at(of, level), ndim) for each, of in ((a, x), (b, y)))
    out = a * b if a.shape[-1] == 1 == b.shape[-2] else a @ b  # a column times a row
    out = out[..., 0] if y.ndim == 1 else out
    out = (out[..., 0] if y.ndim == 1 else out[..., 0, :]) if x.ndim == 1 else out
    return Batched(out, level)


def _stretched(array: Any, batched: bool, ndim: int) -> Any:
    """Return an array of (batches of) matrices with axes of length 1 between the examples' and an example's."""
    missing = ndim + 1 - array.ndim
    return array[(slice(None), *(None,) * missing)] if batched and missing > 0 else array


# --- elementwise ------------------------------------------------------------------------------------


def _elementwise(function: Any, count: int) -> None:
    """Register a function whose first `count` arguments broadcast against each other."""

    def handler(level: Level, *args: Any, **options: Any) -> Any:
        operands = args[:count]
        named = {name: v for name, v in options.items() if isinstance(v, Batched)}
        ndim = max(ndim_of(each) for each in (*operands, *named.values()) if each is not None)
        fitted = [aligned(each, level, ndim) for each in operands]
        options.update({name: aligned(v, level, ndim) for name, v in named.items()})
        return wrapped(function(*fitted, *args[count:], **options), level)

    HANDLERS[function] = handler


for _function, _count in {
    np.where: 3, np.clip: 3, np.round: 1, np.around: 1, np.nan_to_num: 1, np.isclose: 2, np.real: 1, np.imag: 1,
    np.fix: 1, np.sinc: 1, np.i0: 1, np.angle: 1, np.isposinf: 1, np.isneginf: 1,
}.items():  # fmt: skip
    _elementwise(_function, _count)
_of_three = HANDLERS[np.where]


@_implements(np.where)
def _where(level: Level, condition: Any, *branches: Any) -> Any:
    if not branches:
        raise EachAlone(level, "another number of elements is not 0 in each example")
    return _of_three(level, condition, *branches)


@_implements(np.nonzero, np.flatnonzero, np.argwhere, np.unique)
def _as_many_as_there_are(level: Level, *args: Any, **options: Any) -> Any:
    raise EachAlone(level, "another number of elements is found in each example (nonzero, unique)")


@_implements(np.array_equal, np.allclose, np.array_equiv)
def _one_answer(level: Level, *args: Any, **options: Any) -> Any:
    raise EachAlone(level, "one answer for all examples is asked for (equal, allclose)")


@_implements(np.copyto)
def _copyto(level: Level, target: Any, source: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if not is_at(target, level):
        raise EachAlone(level, "values of examples are written into an array that all of them share")
    ndim = target.ndim
    np.copyto(target.array, aligned(source, level, ndim), casting=casting, where=aligned(where, level, ndim))


# --- new arrays -------------------------------------------------------------------------------------


def _new(level: Level, make: Callable[..., Any], shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """Make an array for each example, also of every vmap around: whatever is written into it later has its place."""
    levels, around = {*levels_of(like)}, level.outer
    levels.add(level)
    while around is not None:
        levels.add(around)
        around = around.outer
    ordered = sorted(levels, key=lambda each: each.start)
    like = _beneath(like)
    array = make((*(each.size for each in ordered), *shape), dtype, like)
    for each in ordered:
        array = Batched(array, each)
    return array


def _beneath(like: Any) -> Any:
    """Return the array that holds the numbers of all examples of all levels."""
    while isinstance(like, Batched):
        like = like.array
    return like


def _shape(given: Any) -> tuple[int, ...]:
    return tuple(given) if isinstance(given, (tuple, list)) else (int(given),)


def _makes(function: Any, like_function: Any) -> None:
    def filled(shape: Any, dtype: Any, like: Any) -> Any:
        if like.__class__ is np.ndarray or not hasattr(like, "__array_function__"):
            return function(shape, dtype=dtype)
        # (Not by `like=`: with that NumPy tells np.ones's of a device as well, of which CuPy's does not know.)
        return like_function(like, dtype=dtype, shape=shape)

    def plain(level: Level, shape: Any, dtype: Any = float, order: Any = "C", **more: Any) -> Any:
        return _new(level, filled, _shape(shape), dtype, more.get("like"))

    def alike(
        level: Level,
        x: Any,
        dtype: Any = None,
        order: Any = "K",
        subok: bool = True,
        shape: Any = None,
        **more: Any,
    ) -> Any:
        chosen = x.shape if shape is None else _shape(shape)
        return _new(level, filled, chosen, x.dtype if dtype is None else dtype, x)

    HANDLERS[function], HANDLERS[like_function] = plain, alike


_makes(np.zeros, np.zeros_like)
_makes(np.ones, np.ones_like)
_makes(np.empty, np.empty_like)


@_implements(np.full)
def _full(level: Level, shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **more: Any) -> Any:
    dtype = np.asarray(fill_value).dtype if dtype is None and not isinstance(fill_value, Batched) else dtype
    out = HANDLERS[np.empty](
        level, shape, fill_value.dtype if dtype is None else dtype, like=more.get("like")
    )
    out[...] = fill_value
    return out


@_implements(np.full_like)
def _full_like(level: Level, x: Any, fill_value: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
    out = HANDLERS[np.empty_like](level, x, dtype, *args, **options)
    out[...] = fill_value
    return out


@_implements(np.arange)
def _arange(level: Level, *bounds: Any, **options: Any) -> Any:
    if any(isinstance(each, Batched) for each in bounds):
        raise EachAlone(level, "the length of an array differs between the examples")
    return np.arange(*bounds, **{**options, "like": _beneath(options.get("like"))})


@_implements(np.asarray, np.asanyarray, np.ascontiguousarray)
def _asarray(level: Level, x: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
    if not isinstance(x, Batched):
        options["like"] = _beneath(options.get("like"))
        x = Batched(spread(np.asarray(x, dtype, *args, **options), level), level)
    return x if dtype is None or x.dtype == dtype else x.astype(dtype)


@_implements(np.array, np.copy)
def _array(level: Level, x: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
    return _asarray(level, x, dtype).copy()


# --- axes and shapes --------------------------------------------------------------------------------

_implements(np.reshape)(lambda level, x, shape, order="C", **more: x.reshape(shape))
_implements(np.ravel)(lambda level, x, order="C": x.reshape(-1))
_implements(np.transpose, np.permute_dims)(lambda level, x, axes=None: x.transpose(axes))
_implements(np.matrix_transpose)(lambda level, x: x.swapaxes(-1, -2))
_implements(np.shape)(lambda level, x: x.shape)
_implements(np.ndim)(lambda level, x: x.ndim)
_implements(np.size)(lambda level, x, axis=None: x.size if axis is None else x.shape[axis])
_implements(np.result_type)(
    lambda level, *kinds: np.result_type(*(k.dtype if isinstance(k, Batched) else k for k in kinds))
)
_implements(np.can_cast)(lambda level, kind, to, *args: np.can_cast(kind.dtype, to, *args))
_implements(np.iscomplexobj)(lambda level, x: x.dtype.kind == "c")
_implements(np.isrealobj)(lambda level, x: x.dtype.kind != "c")
_implements(np.min_scalar_type)(lambda level, x: x.dtype)


@_implements(np.shares_memory, np.may_share_memory)
def _shares_memory(level: Level, a: Any, b: Any, **options: Any) -> bool:
    return np.may_share_memory(raw(a, level), raw(b, level))


@_implements(np.swapaxes)
def _swapaxes(level: Level, x: Any, axis1: int, axis2: int) -> Any:
    return Batched(x.array.swapaxes(physical_axis(axis1, x.ndim), physical_axis(axis2, x.ndim)), level)


@_implements(np.moveaxis)
def _moveaxis(level: Level, x: Any, source: Any, destination: Any) -> Any:
    return Batched(
        np.moveaxis(x.array, physical_axis(source, x.ndim), physical_axis(destination, x.ndim)), level
    )


@_implements(np.expand_dims)
def _expand_dims(level: Level, x: Any, axis: Any) -> Any:
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return Batched(np.expand_dims(x.array, physical_axis(axis, x.ndim + count)), level)


@_implements(np.squeeze)
def _squeeze(level: Level, x: Any, axis: Any = None) -> Any:
    if axis is None:
        axis = tuple(i for i, n in enumerate(x.shape) if n == 1)
    return Batched(np.squeeze(x.array, physical_axis(axis, x.ndim)), level)


@_implements(np.broadcast_to)
def _broadcast_to(level: Level, x: Any, shape: Any, subok: bool = False) -> Any:
    shape = _shape(shape)
    return Batched(np.broadcast_to(aligned(x, level, len(shape)), (level.size, *shape)), level)


@_implements(np.broadcast_arrays)
def _broadcast_arrays(level: Level, *arrays: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*(np.shape(each) for each in arrays))
    return [np.broadcast_to(each, shape) for each in arrays]


@_implements(np.flip)
def _flip(level: Level, x: Any, axis: Any = None) -> Any:
    return Batched(np.flip(x.array, physical_axis(axis, x.ndim)), level)


@_implements(np.roll)
def _roll(level: Level, x: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        flat = x.reshape(-1)
        return Batched(np.roll(flat.array, shift, 1), level).reshape(x.shape)
    return Batched(np.roll(x.array, shift, physical_axis(axis, x.ndim)), level)


@_implements(np.tile)
def _tile(level: Level, x: Any, reps: Any) -> Any:
    times = _shape(reps)
    ndim = max(x.ndim, len(times))
    return Batched(np.tile(aligned(x, level, ndim), (1, *(1,) * (ndim - len(times)), *times)), level)


@_implements(np.repeat)
def _repeat(level: Level, x: Any, repeats: Any, axis: Any = None) -> Any:
    if isinstance(repeats, Batched):
        raise EachAlone(level, "elements are repeated a number of times that differs between the examples")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return Batched(np.repeat(x.array, repeats, physical_axis(axis, x.ndim)), level)


@_implements(np.pad)
def _pad(level: Level, x: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist() if x.ndim else []
    return Batched(np.pad(x.array, ((0, 0), *widths), mode, **options), level)


def _triangle(function: Any) -> None:
    def handler(level: Level, x: Any, k: int = 0) -> Any:
        if x.ndim < 2:  # a vector is repeated as rows
            x = np.broadcast_to(x, (x.shape[0], x.shape[0]))
        return Batched(function(x.array, k), level)

    HANDLERS[function] = handler


_triangle(np.tril)
_triangle(np.triu)


@_implements(np.diagonal)
def _diagonal(level: Level, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    found = np.diagonal(x.array, offset, physical_axis(axis1, x.ndim), physical_axis(axis2, x.ndim))
    if isinstance(found, np.ndarray) and isinstance(x.array, np.ndarray):
        found.flags.writeable = x.array.flags.writeable  # as the op has it (ops/shape.py)
    return Batched(found, level)


@_implements(np.trace)
def _trace(level: Level, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **options: Any) -> Any:
    return _diagonal(level, x, offset, axis1, axis2).sum(axis=-1)


@_implements(np.diag)
def _diag(level: Level, x: Any, k: int = 0) -> Any:
    if x.ndim == 2:
        return _diagonal(level, x, k).copy()
    n = x.shape[0] + abs(k)
    out, places = np.zeros_like(x, shape=(n, n)), np.arange(x.shape[0], like=_beneath(x))
    out[places + max(-k, 0), places + max(k, 0)] = x
    return out


@_implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(level: Level, x: Any, window_shape: Any, axis: Any = None, **options: Any) -> Any:
    axes = physical_axis(axis, x.ndim)
    return Batched(np.lib.stride_tricks.sliding_window_view(x.array, window_shape, axes, **options), level)


# --- joining ----------------------------------------------------------------------------------------


@_implements(np.concatenate)
def _concatenate(level: Level, arrays: Any, axis: Any = 0, **options: Any) -> Any:
    if axis is None:
        arrays, axis = [np.ravel(each) for each in arrays], 0
    ndim = arrays[0].ndim
    return Batched(
        np.concatenate([spread(each, level) for each in arrays], axis=physical_axis(axis, ndim), **options),
        level,
    )


@_implements(np.stack)
def _stack(level: Level, arrays: Any, axis: int = 0, **options: Any) -> Any:
    arrays = list(arrays)
    ndim = ndim_of(arrays[0]) + 1
    return Batched(
        np.stack([spread(each, level) for each in arrays], axis=physical_axis(axis, ndim), **options), level
    )


@_implements(np.split, np.array_split)
def _split(level: Level, x: Any, sections: Any, axis: int = 0) -> Any:
    parts = np.array_split(x.array, sections, axis=physical_axis(axis, x.ndim))
    return [Batched(each, level) for each in parts]


# --- along axes -------------------------------------------------------------------------------------


def _folds(function: Any) -> None:
    def handler(level: Level, x: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        result = Batched(function(x.array, physical_axis(axis, x.ndim), *args, **options), level)
        if out is None:
            return result
        out[...] = result
        return out

    HANDLERS[function] = handler


for _function in (
    np.prod,
    np.max,
    np.min,
    np.all,
    np.any,
    np.mean,
    np.std,
    np.var,
    np.count_nonzero,
    np.median,
):
    _folds(_function)
_implements(np.sum)(
    lambda level, x, axis=None, dtype=None, out=None, keepdims=False: x.sum(axis, dtype, out, bool(keepdims))
)


def _along(function: Any, flattens: bool, default: Any) -> None:
    """Register a function along one axis; without one the elements lie on one axis."""

    def handler(level: Level, x: Any, axis: Any = default, *args: Any, **options: Any) -> Any:
        kept = options.get("keepdims") and axis is None
        ndim = x.ndim
        if axis is None and flattens:
            x, axis = x.reshape(-1), 0
        if kept:
            options.pop("keepdims")
        found = Batched(function(x.array, physical_axis(axis, x.ndim), *args, **options), level)
        return found.reshape((1,) * ndim) if kept else found

    HANDLERS[function] = handler


for _function in (np.argmax, np.argmin, np.cumsum, np.cumprod, np.nancumsum):
    _along(_function, True, None)
for _function in (np.sort, np.argsort):
    _along(_function, True, -1)


def _parts(function: Any) -> None:
    def handler(level: Level, x: Any, kth: Any, axis: Any = -1, **options: Any) -> Any:
        x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
        return Batched(function(x.array, kth, physical_axis(axis, x.ndim), **options), level)

    HANDLERS[function] = handler


_parts(np.partition)
_parts(np.argpartition)


@_implements(np.diff)
def _diff(level: Level, x: Any, n: int = 1, axis: int = -1) -> Any:
    return Batched(np.diff(x.array, n, physical_axis(axis, x.ndim)), level)


# --- by index ---------------------------------------------------------------------------------------


@_implements(np.take)
def _take(level: Level, x: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    x, axis = (np.reshape(x, -1), 0) if axis is None else (x, axis % x.ndim)
    return Batched(spread(x, level), level)[(slice(None),) * axis + (indices,)]


@_implements(np.take_along_axis)
def _take_along_axis(level: Level, x: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        x, indices, axis = np.reshape(x, -1), np.reshape(indices, -1), 0
    return Batched(
        np.take_along_axis(spread(x, level), spread(indices, level), physical_axis(axis, x.ndim)), level
    )


@_implements(np.put_along_axis)
def _put_along_axis(level: Level, x: Any, indices: Any, values: Any, axis: Any) -> None:
    if not is_at(x, level):
        raise EachAlone(level, "values of examples are written into an array that all of them share")
    np.put_along_axis(
        x.array, spread(indices, level), aligned(values, level, x.ndim), physical_axis(axis, x.ndim)
    )


@_implements(np.searchsorted)
def _searchsorted(level: Level, sequence: Any, values: Any, side: Any = "left", sorter: Any = None) -> Any:
    if not is_at(sequence, level) and sorter is None and not isinstance(values.array, Batched):
        return Batched(np.searchsorted(sequence, values.array, side), level)
    # How many stand before each value, counted: np.searchsorted knows one sequence.
    rows, wanted = Batched(spread(sequence, level), level), Batched(spread(values, level), level)
    lead = rows.reshape((1,) * wanted.ndim + (-1,))
    before = lead < wanted[..., None] if side == "left" else lead <= wanted[..., None]
    return before.sum(axis=-1)


# --- products ---------------------------------------------------------------------------------------

_implements(np.matmul)(_matmul)


@_implements(np.dot)
def _dot(level: Level, x: Any, y: Any, out: Any = None) -> Any:
    if ndim_of(x) == 0 or ndim_of(y) == 0:
        return x * y
    if y.ndim <= 2:
        return _matmul(level, x, y)
    return np.tensordot(x, y, axes=(-1, -2))


@_implements(np.outer)
def _outer(level: Level, x: Any, y: Any, out: Any = None) -> Any:
    return np.reshape(x, (-1, 1)) * np.reshape(y, (1, -1))


@_implements(np.vdot, np.inner)
def _inner(level: Level, x: Any, y: Any) -> Any:
    if ndim_of(x) > 1 or ndim_of(y) > 1:
        return np.tensordot(x, y, axes=(-1, -1))
    return (x * y).sum(axis=-1)


@_implements(np.tensordot)
def _tensordot(level: Level, x: Any, y: Any, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        axes = (tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes)))
    left, right = (tuple(a) if isinstance(a, (tuple, list)) else (a,) for a in axes)
    left, right = tuple(a % x.ndim for a in left), tuple(a % y.ndim for a in right)
    keep_x = [a for a in range(x.ndim) if a not in left]
    keep_y = [a for a in range(y.ndim) if a not in right]
    count = math.prod(x.shape[a] for a in left)
    a = x.transpose((*keep_x, *left)).reshape(
        (-1, count) if count else (math.prod(x.shape[i] for i in keep_x), 0)
    )
    b = y.transpose((*right, *keep_y)).reshape(
        (count, -1) if count else (0, math.prod(y.shape[i] for i in keep_y))
    )
    return (a @ b).reshape((*(x.shape[i] for i in keep_x), *(y.shape[i] for i in keep_y)))


@_implements(np.einsum)
def _einsum(level: Level, subscripts: str, *operands: Any, **options: Any) -> Any:
    text = explicit_subscripts(subscripts, tuple(ndim_of(each) for each in operands))
    left, _, right = text.partition("->")
    letter = next(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in text)
    terms = [
        letter + term if is_at(each, level) else term
        for term, each in zip(left.split(","), operands, strict=True)
    ]
    arrays = [raw(each, level) for each in operands]
    if len(arrays) > 1 and all(each.__class__ is np.ndarray for each in arrays):
        options["optimize"] = True  # as products of matrices, where it can
    return Batched(np.einsum(f"{','.join(terms)}->{letter}{right}", *arrays, **options), level)


@_implements(np.cross)
def _cross(level: Level, x: Any, y: Any, *args: Any, axis: Any = None, **options: Any) -> Any:
    axis = -1 if axis is None else axis
    return Batched(np.cross(spread(x, level), spread(y, level), axis=physical_axis(axis, x.ndim)), level)


# --- linear algebra, transforms ---------------------------------------------------------------------


def _of_matrices(function: Any) -> None:
    """Register a function of matrices in the last two axes, which takes batches of them."""

    def handler(level: Level, x: Any, *args: Any, **options: Any) -> Any:
        return wrapped(answered(function, x.array, *args, **options), level)

    HANDLERS[function] = handler


for _function in (
    np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky, np.linalg.qr, np.linalg.svd, np.linalg.eigh,
    np.linalg.eigvalsh, np.linalg.eig, np.linalg.eigvals, np.linalg.pinv, np.linalg.matrix_rank,
    np.linalg.matrix_power, np.linalg.cond, np.linalg.svdvals,
):  # fmt: skip
    _of_matrices(_function)


@_implements(np.linalg.solve)
def _solve(level: Level, a: Any, b: Any) -> Any:
    if b.ndim == 1:
        return _solve(level, a, b[..., None])[..., 0]
    ndim = max(a.ndim, b.ndim)
    return Batched(np.linalg.solve(aligned(a, level, ndim), aligned(b, level, ndim)), level)


@_implements(np.linalg.norm)
def _norm(level: Level, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord is None:
        size = np.absolute(x)
        return np.sqrt((size * size).sum(axis=axis, keepdims=keepdims))
    axis = tuple(range(x.ndim)) if axis is None else axis
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    return Batched(np.linalg.norm(x.array, ord, physical_axis(axis, x.ndim), keepdims), level)


def _transforms(function: Any, several: bool) -> None:
    def handler(
        level: Level, x: Any, s: Any = None, axes: Any = None if several else -1, *args: Any, **options: Any
    ) -> Any:
        if several and axes is None:
            axes = tuple(range(x.ndim)) if s is None else tuple(range(-len(s), 0))
        if not several:
            s, axes = options.pop("n", s), options.pop("axis", axes)
        return Batched(function(x.array, s, physical_axis(axes, x.ndim), *args, **options), level)

    HANDLERS[function] = handler


for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _transforms(getattr(np.fft, _name), True)
for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _transforms(getattr(np.fft, _name), False)
