"""NumPy's functions on Traced arrays.

Enters: calls of NumPy's functions, by `__array_function__`. Leaves: Traced results, entered in FUNCTIONS_OF_NUMPY;
a function that is not among them is called back when the program runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import Size, hint, hints, is_fixed
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.refusal import CompileError, refuse, where_in_user_code
from minitorch.compiler.trace.traced import (
    FUNCTIONS_OF_NUMPY,
    LOWERINGS,
    Traced,
    as_traced,
    concrete,
    into,
    is_known,
    operand_value,
    plainly,
    writable,
)
from minitorch.compiler.trace.ufuncs import axes_of, call_back, reduce_traced, scan_traced
from minitorch.engine.recording import recorder
from minitorch.ops.products import explicit_subscripts
from minitorch.ops.shape import AS_STRIDED, DIAGONAL


def _implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS_OF_NUMPY[function] = implementation
        return implementation

    return note


@_implements(np.where)
def _where(condition: Any, *branches: Any) -> Any:
    if not branches:
        raise refuse("np.where(condition) alone, or nonzero", "write minitorch.where(condition, a, b)")
    concretes = [concrete(b) for b in branches]
    array = np.where(concrete(condition), *concretes)
    test = as_traced(condition).value
    x, y = (operand_value(b, array.dtype) for b in branches)
    return Traced(make.where(make.cast(test, np.bool_), x, y), array, is_known(condition, *branches))


@_implements(np.broadcast_to)
def broadcast_to(x: Any, shape: Any, subok: bool = False) -> Traced:
    """Stretch to a shape."""
    x = as_traced(x)
    shape = _as_shape(shape)
    array = np.broadcast_to(x.array, hints(shape))
    if make.broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"an array of shape {x.shape} cannot be broadcast to shape {shape}")
    out = Traced(make.expand(x.value, shape), array, x.known)
    return out.view_of(x, lambda source: broadcast_to(source, shape), _read_only)


def _as_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape, which may be given as one length, as a tuple."""
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _read_only(source: Traced, view: Traced) -> Traced:
    raise ValueError("assignment destination is read-only")


@_implements(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0, **options: Any) -> Traced:
    parts = [as_traced(a) for a in arrays]
    array = np.concatenate([p.array for p in parts], axis=axis)
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0
    for part in parts:
        for i, n in enumerate(part.shape):
            if i != axis % part.ndim and n != parts[0].shape[i]:
                raise ValueError(
                    f"shapes {parts[0].shape} and {part.shape} cannot be joined along axis {axis}"
                )
    values = [make.cast(p.value, array.dtype) for p in parts if p.shape[axis]] or [
        make.cast(parts[0].value, array.dtype)
    ]
    return Traced(make.concatenate(values, axis), array, is_known(*parts))


@_implements(np.stack)
def _stack(arrays: Any, axis: int = 0, **options: Any) -> Any:
    parts = [as_traced(a) for a in arrays]
    axis = axis % (parts[0].ndim + 1)
    return _concatenate([p.reshape((*p.shape[:axis], 1, *p.shape[axis:])) for p in parts], axis)


def _filled(like: Any, number: Any, dtype: Any, shape: Any, order: Any = "C") -> Traced:
    memory = (
        np.empty(plainly(shape), bool) if shape is not None else np.empty_like(concrete(like), bool, order)
    )
    memory = memory.view(np.ndarray)
    shape = like.shape if shape is None else _as_shape(shape)
    dtype = like.dtype if dtype is None else np.dtype(dtype)
    number = np.asarray(number).astype(dtype)
    active: Any = recorder()
    if active is not None and not active.repeats and memory.size > 1:  # lazily: nobody may ever look at it
        return Traced(make.full(shape, number, dtype), np.empty_like(memory, dtype))
    if memory.flags.c_contiguous and not any(number.tobytes()):  # zeros that nobody looks at cost nothing
        return Traced(make.full(shape, number, dtype), np.zeros(memory.shape, dtype), known=True)
    return Traced(make.full(shape, number, dtype), np.full_like(memory, number, dtype), known=True)


@_implements(np.zeros_like, np.empty_like)
def _zeros_like(
    x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **more: Any
) -> Traced:
    return _filled(x, 0, dtype, shape, order)


@_implements(np.ones_like)
def _ones_like(
    x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **more: Any
) -> Traced:
    return _filled(x, 1, dtype, shape, order)


@_implements(np.full_like)
def _full_like(
    x: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **more: Any,
) -> Any:
    if isinstance(fill_value, (Traced, Number, Size)):
        return broadcast_to(
            as_traced(fill_value).astype(dtype or x.dtype), x.shape if shape is None else shape
        )
    return _filled(x, fill_value, dtype, shape, order)


@_implements(np.zeros, np.empty)
def _zeros(shape: Any, dtype: Any = float, order: str = "C", **more: Any) -> Traced:
    return _filled(None, 0, dtype, shape)


@_implements(np.ones)
def _ones(shape: Any, dtype: Any = None, order: str = "C", **more: Any) -> Traced:
    return _filled(None, 1, float if dtype is None else dtype, shape)


@_implements(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **more: Any) -> Any:
    dtype = np.asarray(concrete(fill_value)).dtype if dtype is None else dtype
    return (
        _filled(None, concrete(fill_value), dtype, shape)
        if is_known(fill_value)
        else broadcast_to(as_traced(fill_value).astype(dtype), _as_shape(shape))
    )


@_implements(np.asarray, np.ascontiguousarray)
def _asarray(x: Any, dtype: Any = None, *args: Any, **more: Any) -> Any:
    if isinstance(x, (list, tuple)):
        stacked = _stack([_asarray(i) for i in x])
        return stacked if dtype is None else stacked.astype(dtype)
    x = as_traced(x)
    return x if dtype is None else x.astype(dtype, copy=False)


@_implements(np.array, np.copy)
def _array(x: Any, dtype: Any = None, *args: Any, copy: Any = True, **more: Any) -> Any:
    found = _asarray(x, dtype if not isinstance(dtype, str) or dtype not in "CFAK" else None)
    return found.copy() if copy else found


@_implements(np.arange)
def _arange(*bounds: Any, dtype: Any = None, **more: Any) -> Traced:
    bounds = tuple(int(b) if isinstance(b, Traced) else b for b in bounds)
    if not is_fixed(*bounds) and len(bounds) < 3 and all(isinstance(b, int) for b in bounds):
        start, stop = bounds if len(bounds) == 2 else (0, *bounds)
        array = np.arange(hint(start), hint(stop), dtype=dtype)
        if stop > start:
            counted = make.map_values("add", make.iota(stop - start), make.size(start))
            return Traced(make.cast(counted, array.dtype), array)
    array = np.arange(*bounds, dtype=dtype)
    if len(bounds) == 1 and array.dtype == np.int64:
        return Traced(make.iota(len(array)), array, known=True)
    return Traced(make.constant(array), array, known=True)


@_implements(np.reshape)
def _reshape(x: Any, *shape: Any, **options: Any) -> Any:
    return x.reshape(*shape, *(v for k, v in options.items() if k in ("shape", "newshape")))


@_implements(np.transpose)
def _transpose(x: Any, axes: Any = None) -> Any:
    return as_traced(x).transpose(axes)


@_implements(np.swapaxes)
def _swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return x.transpose(order)


@_implements(np.moveaxis)
def _moveaxis(x: Any, source: Any, destination: Any) -> Any:
    source, destination = (
        [a % x.ndim for a in ((p,) if isinstance(p, int) else p)] for p in (source, destination)
    )
    order = [i for i in range(x.ndim) if i not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return x.transpose(order)


@_implements(np.expand_dims)
def _expand_dims(x: Any, axis: Any) -> Any:
    axes = axes_of(axis, x.ndim + len(axis) if isinstance(axis, (tuple, list)) else x.ndim + 1)
    rest = iter(x.shape)
    return x.reshape(
        tuple(1 if i in axes else next(rest) for i in range(np.expand_dims(x._array, axis).ndim))
    )


@_implements(np.squeeze)
def _squeeze(x: Any, axis: Any = None) -> Any:
    x._array.squeeze(axis)  # NumPy says what is wrong with it
    axes = axes_of(axis, x.ndim)
    return x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in axes or n != 1))


@_implements(np.ravel)
def _ravel(x: Any, order: str = "C") -> Any:
    return x.ravel()


@_implements(np.flip)
def _flip(x: Any, axis: Any = None) -> Any:
    axes = axes_of(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


@_implements(np.roll)
def _roll(x: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return _roll(x.reshape(-1), shift, 0).reshape(x.shape)
    shifts, axes = ((p,) if isinstance(p, int) else tuple(p) for p in (shift, axis))
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    for by, a in zip(shifts, axes * len(shifts) if len(axes) == 1 else axes, strict=False):
        n = x.shape[a]
        by = by % n if n != 0 else 0
        if by != 0:
            lead = (slice(None),) * (a % x.ndim)
            x = _concatenate([x[(*lead, slice(n - by, n))], x[(*lead, slice(0, n - by))]], a)
    return x.copy() if isinstance(x, Traced) else x


@_implements(np.tile)
def _tile(x: Any, reps: Any) -> Any:
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    ndim = max(len(reps), x.ndim)
    reps, shape = (1,) * (ndim - len(reps)) + reps, (1,) * (ndim - x.ndim) + x.shape
    apart = x.reshape(tuple(n for s in shape for n in (1, s)))
    full = broadcast_to(apart, tuple(n for r, s in zip(reps, shape, strict=True) for n in (r, s)))
    tiled = full.reshape(tuple(r * s for r, s in zip(reps, shape, strict=True)))
    return tiled if tiled.base is None else tiled.copy()


@_implements(np.repeat)
def _repeat(x: Any, repeats: Any, axis: Any = None) -> Any:
    if isinstance(repeats, Traced) and not repeats.known:
        raise refuse(
            "repeating by a tensor (the shape of the result)",
            "repeat by numbers, or outside the compiled function",
        )
    source = as_traced(x).reshape(-1) if axis is None else as_traced(x)
    if isinstance(repeats, int) and not is_fixed(*source.shape, repeats):
        axis = (axis or 0) % source.ndim
        apart = source.reshape((*source.shape[: axis + 1], 1, *source.shape[axis + 1 :]))
        full = broadcast_to(apart, (*source.shape[: axis + 1], repeats, *source.shape[axis + 1 :]))
        return full.reshape((*source.shape[:axis], source.shape[axis] * repeats, *source.shape[axis + 1 :]))
    places = np.repeat(np.arange(source.shape[axis or 0]), concrete(repeats))
    return _take(source, places, axis or 0)


@_implements(np.take)
def _take(x: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    source = as_traced(x).reshape(-1) if axis is None else as_traced(x)
    lead = (slice(None),) * ((axis or 0) % source.ndim)
    return into(out, source[(*lead, np.asarray(indices) if isinstance(indices, list) else indices)])


@_implements(np.pad)
def _pad(x: Any, widths: Any, mode: str = "constant", **options: Any) -> Any:
    number = options.get("constant_values", 0)
    if mode != "constant" or not isinstance(number, (int, float)):
        return call_back(np.pad, (x, widths), {"mode": mode, **options})
    array = np.pad(x.array, plainly(widths), constant_values=number)
    if isinstance(widths, (tuple, list)) and len(widths) == x.ndim and all(map(_is_pair, widths)):
        low, high = [a for a, _ in widths], [b for _, b in widths]
    else:
        pairs = np.broadcast_to(np.asarray(widths), (x.ndim, 2))
        low, high = pairs[:, 0].tolist(), pairs[:, 1].tolist()
    return Traced(make.pad(x.value, low, high, number), array, x.known)


def _is_pair(widths: Any) -> bool:
    return isinstance(widths, (tuple, list)) and len(widths) == 2 and all(isinstance(n, int) for n in widths)


@_implements(np.tril)
def _tril(x: Any, k: int = 0) -> Any:
    return _where(_triangle(x.shape, k), x, x.dtype.type(0))


@_implements(np.triu)
def _triu(x: Any, k: int = 0) -> Any:
    return _where(_triangle(x.shape, k - 1), x.dtype.type(0), x)


def _triangle(shape: tuple[int, ...], k: int) -> Traced:
    """Return where column - row ≤ k, over the last two axes, computed in place of being stored."""
    rows, columns = shape[-2:]
    r = make.map_values("add", make.reshape(make.iota(rows), (rows, 1)), make.size(k))
    array = np.tri(hint(rows), hint(columns), hint(k), dtype=bool)
    return Traced(make.map_values("less_equal", make.iota(columns), r), array, is_fixed(k))


@_implements(np.diagonal)
def _diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, write_back: Any = _read_only) -> Any:
    axis1, axis2 = axis1 % x.ndim, axis2 % x.ndim
    array = np.diagonal(x.array, hint(offset), axis1, axis2)
    rows, columns = x.shape[axis1] + min(offset, 0), x.shape[axis2] - max(offset, 0)
    count = max(0, rows if rows <= columns else columns)
    taken = _moveaxis(x, (axis1, axis2), (-2, -1))[_diagonal_key(count, offset)]
    out = Traced(taken.value, array, x.known)
    out.view_of(x, lambda source: _diagonal(source, offset, axis1, axis2, write_back), write_back)
    if out._source is not None and write_back is not _read_only:
        out.flags.writeable = x.flags.writeable
    return out


def _diagonal_key(count: int, offset: int) -> Any:
    places = _arange(count) if not is_fixed(count, offset) else np.arange(count)
    return (..., places + max(-offset, 0), places + max(offset, 0))


def _writable_diagonal(x: Any, *, offset: int, axis1: int, axis2: int) -> Any:
    """Return the diagonal as PyTorch's: NumPy's is read only."""

    def write_back(source: Traced, view: Traced) -> Traced:
        whole = source.copy()
        _moveaxis(whole, (axis1, axis2), (-2, -1))[_diagonal_key(view.shape[-1], offset)] = view.copy()
        return whole

    return _diagonal(x, offset, axis1, axis2, write_back)


LOWERINGS[DIAGONAL.name] = _writable_diagonal


def _strided(
    x: Any, *, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, own: tuple[int, ...]
) -> Any:
    """Return what lies at steps in the memory of an array: a view."""
    memory = x.root()
    axes = sorted(range(memory.ndim), key=lambda axis: -memory.array.strides[axis])
    rows = memory.transpose(axes)
    if not rows.flags.c_contiguous:
        raise CompileError(
            f"compile: as_strided of an array with gaps in its memory\n  {where_in_user_code()}"
        )
    first = x.taken_again().array.ctypes.data - memory.array.ctypes.data
    start = first // x.itemsize + offset
    last = start + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 not in shape and not 0 <= start <= last < memory.array.size:
        raise CompileError(
            f"compile: as_strided reaches beyond what its memory is known to hold\n  {where_in_user_code()}"
        )
    return _at_steps(rows.reshape(-1), shape, strides, start)


def _at_steps(flat: Any, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Any:
    look = lambda array: np.lib.stride_tricks.as_strided(
        array[start:], shape, [step * array.itemsize for step in strides]
    )
    places = look(np.arange(flat.array.size)).copy()

    def write_back(source: Traced, view: Traced) -> Traced:
        if np.unique(places).size != places.size:
            raise CompileError(
                "compile: it writes into a view in which an element is seen several times (as_strided)\n"
                f"  {where_in_user_code()}"
            )
        whole = source.copy()
        whole[places] = view.copy()
        return whole

    out = Traced(flat[places].value, look(flat.array), flat.known)
    out.look_at(flat, lambda source: _at_steps(source, shape, strides, start), write_back)
    return out


LOWERINGS[AS_STRIDED.name] = _strided


def _writes_into_its_first(function: Any) -> Callable[..., None]:
    def written(x: np.ndarray, *args: Any, **options: Any) -> np.ndarray:
        new = x.copy()
        function(new, *args, **options)
        return new

    written.__name__ = function.__name__

    def write(x: Any, *args: Any, **options: Any) -> None:
        writable(x).assign(call_back(written, (x, *args), options))

    return write


_WRITERS: tuple[Any, ...] = (np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask)
FUNCTIONS_OF_NUMPY.update({function: _writes_into_its_first(function) for function in _WRITERS})


# --- reductions -----------------------------------------------------------------------------------


def _folding(ufunc: Any) -> Callable[..., Any]:
    def fold(
        x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **more: Any
    ) -> Any:
        more = {k: v for k, v in more.items() if v is not np._NoValue and not (k == "where" and v is True)}
        keepdims = False if keepdims is np._NoValue else keepdims
        if more:
            return into(
                out,
                call_back(ufunc.reduce, (x,), {"axis": axis, "dtype": dtype, "keepdims": keepdims, **more}),
            )
        return into(out, reduce_traced(ufunc, x, axis, keepdims, dtype))

    return fold


def _folding_without_dtype(ufunc: Any) -> Callable[..., Any]:
    fold = _folding(ufunc)
    return lambda x, axis=None, out=None, keepdims=False, **more: fold(x, axis, None, out, keepdims, **more)


FUNCTIONS_OF_NUMPY[np.sum] = _folding(np.add)
FUNCTIONS_OF_NUMPY[np.prod] = _folding(np.multiply)
for _function, _ufunc in {
    np.max: np.maximum,
    np.min: np.minimum,
    np.all: np.logical_and,
    np.any: np.logical_or,
}.items():
    FUNCTIONS_OF_NUMPY[_function] = _folding_without_dtype(_ufunc)


@_implements(np.mean)
def _mean(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    x = as_traced(x)
    if x.dtype.kind != "f" or x.dtype == np.float16 or dtype is not None:
        return into(out, call_back(np.mean, (x,), {"axis": axis, "dtype": dtype, "keepdims": keepdims}))
    count = math.prod(x.shape[a] for a in axes_of(axis, x.ndim))
    return into(out, reduce_traced(np.add, x, axis, keepdims) / count)


def _place_of(name: str) -> Callable[..., Any]:
    def find(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        x = as_traced(x)
        keepdims = False if keepdims is np._NoValue else keepdims
        array = np.asarray(getattr(np, name)(x.array, axis=axis, keepdims=keepdims))
        source = make.reshape(x.value, (x.size,)) if axis is None else x.value
        value = make.arg_reduce(name, source, 0 if axis is None else axis)
        if keepdims:
            axes = axes_of(axis, x.ndim)
            value = make.reshape(value, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))
        return into(out, Traced(value, array, x.known))

    return find


FUNCTIONS_OF_NUMPY[np.argmax] = _place_of("argmax")
FUNCTIONS_OF_NUMPY[np.argmin] = _place_of("argmin")


def _running(ufunc: Any) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = as_traced(x)
        if axis is None:
            x, axis = x.reshape(-1), 0
        return into(out, scan_traced(ufunc, x, axis, dtype))

    return run


FUNCTIONS_OF_NUMPY[np.cumsum] = _running(np.add)
FUNCTIONS_OF_NUMPY[np.cumprod] = _running(np.multiply)


@_implements(np.count_nonzero)
def _count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return reduce_traced(np.add, np.not_equal(x, 0), axis, keepdims)


def _of_values(function: Any) -> Callable[..., Any]:
    """Return a function whose result has a shape that the values decide."""

    def run(x: Any, *args: Any, **options: Any) -> Any:
        if not is_known(x):
            raise refuse(
                "nonzero or unique (the shape of the result)",
                "write minitorch.where(condition, a, b), which keeps the shape",
            )
        return call_back(function, (x, *args), options)

    return run


_SHAPED_BY_VALUES: tuple[Any, ...] = (np.nonzero, np.flatnonzero, np.argwhere, np.unique)
FUNCTIONS_OF_NUMPY.update({function: _of_values(function) for function in _SHAPED_BY_VALUES})


# --- products and order -----------------------------------------------------------------------------


@_implements(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    if np.ndim(concrete(a)) > 2 or np.ndim(concrete(b)) > 2:
        return call_back(np.dot, (a, b), {})
    product = np.matmul(a, b) if np.ndim(concrete(a)) and np.ndim(concrete(b)) else np.multiply(a, b)
    return into(out, product)


@_implements(np.sort)
def _sort(x: Any, axis: int | None = -1, **options: Any) -> Traced:
    if axis is None:
        return call_back(np.sort, (x,), {"axis": None})
    value = Value("sort", (x.value,), {"axis": axis % x.ndim}, x.shape, x.dtype)
    return Traced(value, np.sort(x.array, axis=axis, kind="stable"), x.known)


@_implements(np.partition)
def _partition(x: Any, kth: Any, axis: int = -1, **options: Any) -> Any:
    return _sort(x, axis)  # in order altogether is in order at the k-th place


@_implements(np.argsort)
def _argsort(x: Any, axis: int = -1, kind: Any = None, **options: Any) -> Traced:
    if kind != "stable" or axis is None:
        shape = (x.size,) if axis is None else x.shape
        return call_back(np.argsort, (x,), {"axis": axis, "kind": kind, **options}, shape)
    array = np.argsort(x.array, axis=axis, kind="stable")
    return Traced(Value("argsort", (x.value,), {"axis": axis % x.ndim}, x.shape, array.dtype), array, x.known)


@_implements(np.take_along_axis)
def _take_along_axis(x: Any, indices: Any, axis: Any = -1) -> Any:
    x, indices = as_traced(x), as_traced(indices)
    if axis is None:
        return x.reshape(-1)[indices]
    key = []
    for i, n in enumerate(indices.shape):
        places = (np.arange(n) if is_fixed(n) else _arange(n)).reshape((-1,) + (1,) * (indices.ndim - i - 1))
        key.append(indices if i == axis % indices.ndim else places)
    return x[tuple(key)]


@_implements(np.copyto)
def _copyto(target: Any, source: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = writable(target)
    target.assign(
        as_traced(source).astype(target.dtype)
        if where is True
        else _where(where, source, target).astype(target.dtype)
    )


@_implements(np.clip)
def _clip(x: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **options: Any) -> Any:
    if not all(
        b is None
        or np.ndim(concrete(b))
        or np.can_cast(np.min_scalar_type(concrete(b)), x.dtype)
        or x.dtype.kind == "f"
        for b in (a_min, a_max)
    ):
        shape = make.broadcast_shapes(*(as_traced(i).shape for i in (x, a_min, a_max) if i is not None))
        return call_back(np.clip, (x, a_min, a_max), {}, shape)
    x = x if a_min is None else np.maximum(x, a_min)
    return into(out, x if a_max is None else np.minimum(x, a_max))


@_implements(np.round)
def _round(x: Any, decimals: int = 0, out: Any = None) -> Any:
    if x.dtype.kind != "f":
        return into(out, x.copy() if decimals >= 0 else call_back(np.round, (x, decimals), {}, x.shape))
    if decimals > 0:
        return into(out, np.rint(x * 10.0**decimals) / 10.0**decimals)
    return into(out, np.rint(x / 10.0**-decimals) * 10.0**-decimals if decimals else np.rint(x))


@_implements(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    info = np.finfo(x.dtype)
    x = _where(np.isnan(x), nan, x)
    x = _where(_both(np.isinf(x), x > 0), info.max if posinf is None else posinf, x)
    return _where(_both(np.isinf(x), x < 0), info.min if neginf is None else neginf, x).astype(x.dtype)


def _both(a: Any, b: Any) -> Any:
    return np.logical_and(a, b)


@_implements(np.einsum)
def einsum(subscripts: str, *operands: Any, **options: Any) -> Any:
    """Multiply and sum by einsum's notation, two operands at a time."""
    parts = [as_traced(o) for o in operands]
    array = np.asarray(np.einsum(subscripts, *(p.array for p in parts), optimize=len(parts) > 1))
    if array.dtype.kind not in "fiub":
        return call_back(np.einsum, (subscripts, *operands), {})
    left, _, out = explicit_subscripts(subscripts, tuple(p.ndim for p in parts)).partition("->")
    terms = left.split(",")
    known = is_known(*parts)
    given, axes = parts[0], terms[0]
    for i, term in enumerate(terms):
        parts[i], terms[i] = _without_repetition(parts[i], term)
    pairs = [(term, make.cast(p.value, array.dtype)) for term, p in zip(terms, parts, strict=True)]
    if len(pairs) == 1:
        value = _einsum_of_one(pairs[0][1], terms[0], out)
        alone = Traced(make.cast(value, array.dtype), array, known)
        # Where nothing is summed NumPy gives a view: other axes, or a diagonal.
        return alone.view_of(
            given,
            lambda source: einsum(subscripts, source),
            lambda source, view: _einsum_written(source, axes, view, out),
        )
    path: list[Any] = [(0, 1)]
    if len(pairs) > 2:
        shapes = [np.broadcast_to(np.float32(0), p.array.shape) for p in parts]
        path = np.einsum_path(",".join(terms) + "->" + out, *shapes, optimize="greedy")[0][1:]
    for step in path:
        taken = [pairs[i] for i in step]
        pairs = [pair for i, pair in enumerate(pairs) if i not in step]
        while len(taken) > 1:
            (first, a), (second, b), *taken = taken
            needed = set(out).union(*(term for term, _ in (*pairs, *taken)))
            kept = "".join(dict.fromkeys(c for c in first + second if c in needed))
            kept = kept if pairs or taken else out
            taken.insert(0, (kept, make.contract(f"{first},{second}->{kept}", a, b)))
        pairs += taken
    return Traced(make.cast(pairs[0][1], array.dtype), array, known)


def _einsum_written(source: Traced, axes: str, view: Traced, out: str) -> Traced:
    """Return an array in which what einsum has taken of it, summing nothing, is replaced."""
    if len(set(axes)) == len(axes):
        return einsum(f"{out}->{axes}", view).copy()
    whole = source.copy()
    places = np.ogrid[tuple(slice(int(n)) for n in view.shape)]
    whole[tuple(places[out.index(axis)] for axis in axes)] = view.copy()
    return whole


def _without_repetition(x: Traced, term: str) -> tuple[Traced, str]:
    """Take diagonals until no index stands twice in a term."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            x = _diagonal(x, 0, i, j)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + letter
    return x, term


def _einsum_of_one(x: Value, term: str, out: str) -> Value:
    kept = "".join(c for c in term if c in out)
    x = make.reduce("add", x, [i for i, c in enumerate(term) if c not in out])
    return make.permute(x, [kept.index(c) for c in out])


@_implements(np.trace)
def _trace(
    x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    return into(out, reduce_traced(np.add, _diagonal(x, offset, axis1, axis2), -1, False, dtype))


@_implements(np.isclose)
def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    close = np.less_equal(np.absolute(np.subtract(a, b)), atol + rtol * np.absolute(b))
    close = np.logical_or(np.logical_and(close, np.isfinite(b)), np.equal(a, b))
    return np.logical_or(close, np.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else close


@_implements(np.linalg.norm)
def _norm(x: Any, *args: Any, **options: Any) -> Any:
    return call_back(np.linalg.norm, (x, *args), options)


@_implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, **options: Any) -> Traced:
    sizes = (window_shape,) if isinstance(window_shape, int) else tuple(window_shape)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(a % x.ndim for a in axes)
    sizes = tuple(int(n) for n in sizes)
    array = np.lib.stride_tricks.sliding_window_view(x.array, sizes, axes)
    ones = (1,) * len(axes)
    out = Traced(make.window(x.value, axes, sizes, ones, ones), array, x.known)
    return out.view_of(x, lambda source: _sliding_window_view(source, sizes, axes), _read_only)


@_implements(np.shape)
def _shape(x: Any) -> Any:
    return x.shape


@_implements(np.ndim)
def _ndim(x: Any) -> Any:
    return x.ndim


@_implements(np.size)
def _size(x: Any, axis: Any = None) -> Any:
    return x.size if axis is None else x.shape[axis]


@_implements(np.may_share_memory, np.shares_memory)
def _shares_memory(a: Any, b: Any, **options: Any) -> bool:
    return False


@_implements(np.result_type)
def _result_type(*kinds: Any) -> Any:
    return np.result_type(*(concrete(k) if isinstance(k, (Traced, Number)) else k for k in kinds))


@_implements(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return x.dtype.kind == "c"


def _like_the_first(function: Any) -> Callable[..., Any]:
    """Return how a function is called back whose result has its first operand's shape, unless options change it."""

    def call(x: Any, *args: Any, **options: Any) -> Any:
        plain = all(v is None or k in ("axes", "axis", "norm") for k, v in options.items()) and not args
        return call_back(function, (x, *args), options, as_traced(x).shape if plain else None)

    return call


_LIKE_THE_FIRST: tuple[Any, ...] = (
    np.fft.fft, np.fft.ifft, np.fft.fftn, np.fft.ifftn, np.linalg.inv, np.linalg.cholesky,
)  # fmt: skip
FUNCTIONS_OF_NUMPY.update({function: _like_the_first(function) for function in _LIKE_THE_FIRST})
