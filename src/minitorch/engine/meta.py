"""The device 'meta': arrays that have a shape and a dtype, and no numbers. Enters: shapes. Leaves: such arrays.

They are promised arrays (promised.py) that nobody will ever keep: what NumPy would make of them has the right shape and
dtype, writing does nothing, and whoever asks for a number is told that there is none. Large ones take no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.engine.promised import NumbersMissing, Promised, promise

MOST = 1 << 26  # elements of what NumPy computes on zeros, to see what shape it has
# Functions whose results have shapes that do not depend on numbers, and of which promised arrays know nothing.
_OF_SHAPES = {
    np.clip, np.cumprod, np.cumsum, np.linalg.det, np.linalg.norm, np.linalg.qr,
    np.repeat, np.roll, np.split, np.stack, np.take, np.take_along_axis, np.tensordot, np.tile,
    np.tril, np.triu, np.var, np.std, np.mean, np.array_split, np.atleast_1d, np.partition, np.argpartition, np.vdot,
    np.nan_to_num, np.real, np.imag, np.dot, np.inner, np.outer, np.kron, np.diff, np.ravel, np.reshape, np.rot90,
    np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.fft2, np.fft.ifft2, np.amax, np.amin, np.max, np.min,
    np.around, np.diag, np.round, np.trace, np.prod, np.sum, np.any, np.all, np.isclose,
}  # fmt: skip
# Functions that make arrays, of the kind of another (`like=`).
_MAKING = {
    np.arange,
    np.array,
    np.asarray,
    np.ascontiguousarray,
    np.empty,
    np.eye,
    np.full,
    np.ones,
    np.zeros,
}


class Meta(Promised):
    """An array on the device 'meta'."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        try:
            found = Promised.__array_ufunc__(self, ufunc, method, *_promised(inputs), **_promised(options))
        except NumbersMissing:
            raise no_numbers(
                f"{ufunc.__name__}.{method}" if method != "__call__" else ufunc.__name__
            ) from None
        if out is None:
            return _as_meta(found)
        return out[0] if len(out) == 1 else out

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function in _MAKING:
            first, *more = args
            if isinstance(first, Meta):
                return first.astype(more[0] if more else options.get("dtype") or first.dtype)
            return like(function(first, *more, **options))
        if function is np.repeat and isinstance(args[1], Meta):
            raise no_numbers("repeat")
        if function in _OF_SHAPES:
            return _seen_on_zeros(function, args, options)
        try:
            return _as_meta(
                Promised.__array_function__(self, function, types, _promised(args), _promised(options))
            )
        except NumbersMissing:
            raise no_numbers(getattr(function, "__name__", "a function")) from None

    def __getitem__(self, key: Any) -> Any:
        """Return a view, or, of whole-numbered places, an array of as many; a mask's places are not known."""
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, Meta) and part.dtype.kind == "b" for part in parts):
            raise no_numbers("indexing by a mask")
        known = tuple(np.zeros(part.shape, part.dtype) if isinstance(part, Meta) else part for part in parts)
        found = self.view(np.ndarray)[known if isinstance(key, tuple) else known[0]]
        return np.asarray(found).view(Meta)

    def __decide__(self, _: Any) -> bool:
        """Tell whether numbers are to be refused: there are none."""
        return False

    def astype(self, *args: Any, **options: Any) -> Any:
        """Return an array of another dtype."""
        return _as_meta(self.view(Promised).astype(*args, **options))

    def copy(self, order: Any = "C") -> Any:
        """Return an array like it."""
        return _as_meta(self.view(Promised).copy(order))

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return an array of another shape."""
        return _as_meta(self.view(Promised).reshape(*shape, **options))

    def sort(self, *args: Any, **options: Any) -> None:
        """Nothing is sorted."""

    def _missing(self, *args: Any, **options: Any) -> Any:
        raise no_numbers("a number")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __contains__ = _missing
    item = tolist = tobytes = tofile = dump = dumps = get = __dlpack__ = _missing


def _by_function(name: str) -> Any:
    """Return a method that is NumPy's function of this name: NumPy's own would look at what lies in memory."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(np, name)(self, *args, **options)

    method.__name__ = name
    return method


for _name in (
    *(
        "argmax",
        "argmin",
        "argpartition",
        "argsort",
        "choose",
        "clip",
        "compress",
        "conj",
        "cumprod",
        "cumsum",
    ),
    *("diagonal", "dot", "nonzero", "repeat", "round", "searchsorted", "take", "trace"),
):
    setattr(Meta, _name, _by_function(_name))


def no_numbers(what: str) -> NotImplementedError:
    """Return the error for what needs numbers."""
    return NotImplementedError(
        f"{what}: a tensor on 'meta' has a shape and a dtype, and no numbers. Make one that has: "
        "torch.empty_like(x, device='cpu'), module.to_empty(device='cpu'), and load or initialise it then"
    )


def _promised(thing: Any) -> Any:
    if isinstance(thing, Meta):
        return thing.view(Promised)
    if isinstance(thing, (list, tuple)):
        return type(thing)(map(_promised, thing))
    return {name: _promised(each) for name, each in thing.items()} if isinstance(thing, dict) else thing


def _as_meta(thing: Any) -> Any:
    if thing.__class__ is Promised:
        return thing.view(Meta)
    return type(thing)(map(_as_meta, thing)) if isinstance(thing, (list, tuple)) else thing


def _seen_on_zeros(function: Any, args: Any, options: Any) -> Any:
    """Return what a function makes of zeros, without the numbers."""

    def zeros_for(thing: Any) -> Any:
        if isinstance(thing, Meta):
            if thing.size > MOST:
                raise no_numbers(f"{function.__name__} of so large a tensor")
            return np.zeros(thing.shape, thing.dtype)
        return type(thing)(map(zeros_for, thing)) if isinstance(thing, (list, tuple)) else thing

    def without(thing: Any) -> Any:
        if isinstance(thing, (list, tuple)) and not hasattr(thing, "_fields"):
            return type(thing)(map(without, thing))
        if hasattr(thing, "_fields"):
            return type(thing)(*map(without, thing))
        return like(np.asarray(thing)) if isinstance(thing, (np.ndarray, np.generic)) else thing

    with np.errstate(all="ignore"):
        return without(
            function(*zeros_for(args), **{name: zeros_for(each) for name, each in options.items()})
        )


def empty(shape: Any, dtype: Any = np.float32) -> Any:
    """Return an array without numbers.

    >>> empty((1000, 1000, 1000), np.float64).nbytes
    8000000000
    """
    return promise(tuple(shape) if isinstance(shape, (tuple, list)) else (shape,), np.dtype(dtype)).view(Meta)


zeros = ones = empty


def full(shape: Any, value: Any, dtype: Any) -> Any:
    """Return an array without numbers."""
    return empty(shape, dtype)


def like(array: Any) -> Any:
    """Return an array without numbers that lies in memory as another does."""
    made = empty(array.shape, array.dtype)
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    if order == list(range(array.ndim)):
        return made
    return empty([array.shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))
