"""Arrays whose numbers are not there yet.

Enters: what NumPy is asked to compute on them. Leaves: arrays of the shape, dtype and layout that NumPy's answer would
have, with nothing computed. They are NumPy's own arrays, over memory that nobody has written to: a view of one is a
view as NumPy makes it, and what NumPy refuses is refused in its words.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.ops.products import explicit_subscripts

# What NumPy's functions give; those that are not among them need the numbers.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
# Which dtypes a ufunc gives, by those of its operands: asking NumPy takes longer than everything else here.
_dtypes: dict[Any, tuple[Any, ...]] = {}
LARGE = 1 << 22  # bytes
_RESERVED = 0x4000 if sys.platform == "linux" else 0  # mmap's flag for memory of which nothing is set aside
_RESHAPES_WITHOUT_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


class NumbersMissing(BaseException):
    """Somebody asked for numbers that are not computed yet. (A program's own `except Exception` is not meant.)"""


class Promised(np.ndarray):
    """An array of which only the numbers are missing."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__":
            return _mapped(ufunc, inputs, options)
        if method == "reduce":
            return _reduced(ufunc, *inputs, **options)
        if method == "accumulate":
            return _scanned(ufunc, *inputs, **options)
        if method == "at":
            return None
        raise NumbersMissing(f"{ufunc.__name__}.{method}")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        implementation = _FUNCTIONS.get(function)
        if implementation is None:
            raise NumbersMissing(getattr(function, "__name__", "a function"))
        return implementation(*args, **options)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing is written: what it holds is yet to be computed."""

    def astype(  # type: ignore[override]
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """Return an array of another dtype, laid out as NumPy's would be."""
        if not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(f"Cannot cast array data from {self.dtype!r} to {np.dtype(dtype)!r}")
        return _like(self, dtype, order)

    def copy(self, order: Any = "C") -> Any:
        """Return an array like it."""
        return _like(self, None, order)

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return a view, or, where NumPy would copy, an array of its own."""
        plain: Any = self.view(np.ndarray)
        if self.flags.c_contiguous or not _RESHAPES_WITHOUT_COPY:
            return plain.reshape(*shape).view(Promised)
        try:
            return plain.reshape(*shape, copy=False).view(Promised)
        except ValueError:
            # It is copied, or cannot be: of an array that holds one number NumPy says which, at no cost.
            one = np.broadcast_to(np.zeros((), bool), self.shape)
            return promise(_shape_after(one, shape), self.dtype)

    def _missing(self, *args: Any, **options: Any) -> Any:
        raise NumbersMissing

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __contains__ = _missing
    item = tolist = tobytes = tofile = dump = dumps = _missing


def promise(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array that will hold numbers; of a large one only the addresses are reserved."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LARGE or not _RESERVED:
        return np.empty(shape, dtype).view(Promised)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _RESERVED)
    return np.frombuffer(memory, np.uint8, size).view(dtype).reshape(shape).view(Promised)


def _like(array: np.ndarray, dtype: Any, order: Any, shape: Any = None) -> Any:
    if array.nbytes >= LARGE and shape is None and (order == "C" or array.flags.c_contiguous):
        return promise(array.shape, array.dtype if dtype is None else dtype)
    return np.empty_like(array.view(np.ndarray), dtype, order, shape=shape).view(Promised)


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if x.__class__ is Promised else x


def _shape_after(array: np.ndarray, shape: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape that a reshape gives."""
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    lengths = [int(n) for n in wanted]
    if lengths.count(-1) == 1:
        others = math.prod(n for n in lengths if n != -1)
        if others and array.size % others == 0:
            lengths[lengths.index(-1)] = array.size // others
    if min(lengths, default=0) < 0 or math.prod(lengths) != array.size:
        raise ValueError(f"cannot reshape array of size {array.size} into shape {tuple(wanted)}")
    return tuple(lengths)


# --- ufuncs ---------------------------------------------------------------------------------------------------


def _kind(x: Any) -> Any:
    """Return what NumPy's promotion sees of an operand: its dtype, or, of a Python number, its type."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype
    if x.__class__ in (int, float, complex):
        return x.__class__
    dtype = np.asarray(x).dtype
    if dtype.kind not in "biufc":
        raise NumbersMissing(f"{type(x).__name__} as an operand")
    return dtype


def _result_dtypes(ufunc: Any, inputs: Sequence[Any], dtype: Any) -> tuple[Any, ...]:
    kinds = tuple(map(_kind, inputs))
    key = (ufunc, kinds, dtype)
    found = _dtypes.get(key)
    if found is None:
        # (Asked on arrays of one element: also those ufuncs answer that cannot be asked about dtypes.)
        ones = [x if isinstance(k, type) else np.ones(1, k) for x, k in zip(inputs, kinds, strict=True)]
        with np.errstate(all="ignore"):
            results = ufunc(*ones, **({} if dtype is None else {"dtype": dtype}))
        results = results if isinstance(results, tuple) else (results,)
        found = _dtypes[key] = tuple(r.dtype for r in results)
    return found


def _mapped(ufunc: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return what a ufunc gives, element by element."""
    if ufunc.signature is not None:
        if ufunc is not np.matmul or options:
            raise NumbersMissing(ufunc.__name__)
        return _matmul(*inputs)
    arrays = [_plain(x) for x in inputs if isinstance(x, np.ndarray)]
    if options.get("where", True) is not True or options.get("out") is not None:
        raise NumbersMissing(ufunc.__name__)
    dtypes = _result_dtypes(ufunc, inputs, options.get("dtype"))
    shapes = {a.shape for a in arrays}
    shape = shapes.pop() if len(shapes) == 1 else _broadcast(ufunc, arrays)
    if all(a.flags.c_contiguous for a in arrays):
        results = [promise(shape, dtype) for dtype in dtypes]
    else:
        results = [_laid_out(arrays, dtype) for dtype in dtypes]
    return results[0] if len(results) == 1 else tuple(results)


def _broadcast(ufunc: Any, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = " ".join(str(a.shape).replace(" ", "") for a in arrays)
        raise ValueError(f"operands could not be broadcast together with shapes {shapes}") from None


def _laid_out(arrays: Sequence[np.ndarray], dtype: Any) -> Any:
    """Return memory for a result that follows its operands' layout, as NumPy's does."""
    count = len(arrays)
    iterator: Any = np.nditer
    memory = iterator(
        [*arrays, None],
        ["zerosize_ok", "refs_ok"],
        [["readonly"]] * count + [["writeonly", "allocate"]],
        [*(a.dtype for a in arrays), dtype],
        "K",
    ).operands[count]
    return memory.view(Promised)


def _matmul(a: Any, b: Any) -> Any:
    one = [np.broadcast_to(np.zeros((), bool), x.shape) for x in map(np.asarray, (a, b))]
    if not one[0].ndim or not one[1].ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions (it has 0)")
    left, right = one[0].shape, one[1].shape
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        raise ValueError(
            f"matmul: Input operands have a mismatch in their core dimension: {left} and {right}"
        )
    lead = np.broadcast_shapes(left[:-2], right[:-2])
    shape = (*lead, *(left[-2:-1] if len(left) > 1 else ()), *(right[-1:] if len(right) > 1 else ()))
    return promise(shape, np.result_type(*(x.dtype for x in (a, b))))


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    for each in axes:
        if not -ndim <= each < ndim:
            raise np.exceptions.AxisError(each, ndim)
    found = tuple(a % ndim for a in axes)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def _without(shape: tuple[int, ...], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _reduced(
    ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any
) -> Any:
    plain = _plain(x)
    more = {k: v for k, v in more.items() if v is not np._NoValue and not (k == "where" and v is True)}
    if not x.size:  # what there is nothing of costs nothing, and may be refused
        return ufunc.reduce(plain, axis=axis, dtype=dtype, keepdims=keepdims, **more).view(Promised)
    if out is not None or more.get("where") is not None:
        raise NumbersMissing(ufunc.__name__)
    axes = _axes(axis, x.ndim)
    key = (ufunc, "reduce", x.dtype, dtype)
    found = _dtypes.get(key)
    if found is None:
        found = _dtypes[key] = (ufunc.reduce(np.ones(1, x.dtype), dtype=dtype).dtype,)
    if plain.flags.c_contiguous or (
        ufunc is np.add and not keepdims
    ):  # (sums lie in the order of their axes)
        return promise(_without(x.shape, axes, keepdims), found[0])
    thin = _like(
        plain[tuple(slice(0, 1) if i in axes else slice(None) for i in range(x.ndim))], found[0], "K"
    )
    return thin if keepdims else thin.reshape(_without(x.shape, axes, False))


def _scanned(ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    if out is not None:
        raise NumbersMissing(ufunc.__name__)
    _axes(axis, x.ndim)
    return promise(x.shape, ufunc.accumulate(np.ones(1, x.dtype), dtype=dtype).dtype)


# --- functions ------------------------------------------------------------------------------------------------


def _gives(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            _FUNCTIONS[function] = implementation
        return implementation

    return note


def _as_numpy(function: Any) -> Callable[..., Any]:
    """Return a function that looks at no number: views, and questions about shapes and memory."""

    def run(*args: Any, **options: Any) -> Any:
        result = function(*map(_plain, args), **{k: _plain(v) for k, v in options.items()})
        return result.view(Promised) if type(result) is np.ndarray else result

    return run


for _function in (
    np.broadcast_to, np.diagonal, np.empty_like, np.expand_dims, np.flip, np.lib.stride_tricks.sliding_window_view,
    np.may_share_memory, np.moveaxis, np.ndim, np.shape, np.shares_memory, np.size, np.squeeze, np.swapaxes,
    np.transpose,
):  # fmt: skip
    _FUNCTIONS[_function] = _as_numpy(_function)


@_gives(np.full_like, np.zeros_like, np.ones_like)
def _filled_like(
    x: Any, *args: Any, dtype: Any = None, order: Any = "K", shape: Any = None, **more: Any
) -> Any:
    return _like(x, dtype, order, shape)


@_gives(np.result_type)
def _result_type(*kinds: Any) -> Any:
    return np.result_type(*(k.dtype if k.__class__ is Promised and k.ndim else _plain(k) for k in kinds))


@_gives(np.can_cast)
def _can_cast(source: Any, target: Any, casting: Any = "safe") -> bool:
    return np.can_cast(source.dtype if isinstance(source, np.ndarray) else source, target, casting)


@_gives(np.where)
def _where(condition: Any, x: Any, y: Any) -> Any:
    arrays = [np.asarray(_plain(each)) for each in (condition, x, y)]
    kinds = [each if isinstance(k, type) else k for each, k in ((x, _kind(x)), (y, _kind(y)))]
    dtype = np.result_type(*kinds)
    shape = _broadcast(np.where, arrays)
    if all(a.flags.c_contiguous for a in arrays):
        return promise(shape, dtype)
    return _laid_out([a.astype(bool) if not a.ndim else a for a in arrays], dtype)


@_gives(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0, **options: Any) -> Any:
    if options or axis is None:
        raise NumbersMissing("concatenate")
    ones = [np.broadcast_to(np.zeros((), a.dtype), a.shape) for a in arrays]
    axis = _axes(axis, ones[0].ndim)[0]
    kept = [a.shape[:axis] + a.shape[axis + 1 :] for a in ones]
    if any(each != kept[0] for each in kept):
        raise ValueError(
            "all the input array dimensions except for the concatenation axis must match exactly, but the shapes are "
            + ", ".join(str(a.shape) for a in ones)
        )
    length = sum(a.shape[axis] for a in ones)
    shape = (*ones[0].shape[:axis], length, *ones[0].shape[axis + 1 :])
    dtype = np.result_type(*(a.dtype for a in ones))
    if all(_plain(a).flags.c_contiguous for a in arrays):
        return promise(shape, dtype)
    # Its memory lies as that of the parts does.
    thin = [_plain(a)[(slice(None),) * axis + (slice(0, 1),)] for a in arrays if a.shape[axis]]
    if not thin:
        return promise(shape, dtype)
    order = np.argsort([-abs(s) for s in _laid_out(thin, dtype).strides], kind="stable")
    memory = np.empty([shape[i] for i in order], dtype).transpose(np.argsort(order))
    return memory.view(Promised)


@_gives(np.argmax, np.argmin)
def _place_of(x: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    if not x.size:
        return np.argmax(_plain(x), axis=axis, keepdims=bool(keepdims)).view(Promised)
    keepdims = keepdims is True
    return promise(_without(x.shape, _axes(axis, x.ndim), keepdims), np.intp)


@_gives(np.sort)
def _sort(x: Any, axis: Any = -1, **options: Any) -> Any:
    _axes(axis, x.ndim)
    return _like(x, None, "K")


@_gives(np.argsort)
def _argsort(x: Any, axis: Any = -1, **options: Any) -> Any:
    _axes(axis, x.ndim)
    return promise(x.shape, np.intp)


@_gives(np.pad)
def _pad(x: Any, widths: Any, mode: str = "constant", **options: Any) -> Any:
    pairs = np.broadcast_to(np.asarray(widths), (x.ndim, 2))
    if mode != "constant" or (pairs < 0).any():
        raise NumbersMissing("pad")
    shape = tuple(n + int(a) + int(b) for n, (a, b) in zip(x.shape, pairs, strict=True))
    fortran = x.flags.f_contiguous and not x.flags.c_contiguous
    return np.empty(shape, x.dtype, order="F" if fortran else "C").view(Promised)


@_gives(np.einsum)
def _einsum(subscripts: str, *operands: Any, **options: Any) -> Any:
    np.einsum(
        subscripts, *(np.zeros((1,) * o.ndim, bool) for o in operands)
    )  # what is wrong with it, NumPy says
    left, _, out = explicit_subscripts(subscripts, tuple(o.ndim for o in operands)).partition("->")
    if len(operands) == 1 and set(left) == set(out):  # a view
        return np.einsum(subscripts, _plain(operands[0])).view(Promised)
    lengths: dict[str, int] = {}
    for term, operand in zip(left.split(","), operands, strict=True):
        for letter, n in zip(term, operand.shape, strict=True):
            known = lengths.setdefault(letter, n)
            if known != n and 1 not in (known, n):
                raise ValueError(f"einsum: index {letter!r} has lengths {known} and {n}")
            lengths[letter] = max(known, n) if 0 not in (known, n) else 0
    dtype = np.result_type(*(o.dtype for o in operands))
    return promise(tuple(lengths[letter] for letter in out), dtype)
