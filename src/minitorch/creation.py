"""Tensors from nothing: zeros, ones, ranges; and from arrays. Enters: shapes, numbers. Leaves: leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch import watch
from minitorch.convert import as_array, as_tensor, shape_of
from minitorch.dtypes import common_dtype, dtype_of_number, get_default_dtype, int64
from minitorch.node import Node, new_tensor
from minitorch.tensor import Tensor, check_device, move


def _leaf(data: Any, requires_grad: bool, device: Any = None) -> Tensor:
    out = new_tensor(data)
    check_device(device)
    if device is not None:
        out = move(out, device)
    return out.requires_grad_() if requires_grad else out


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a leaf with a copy of `data`: numbers, nested lists, arrays, Tensors.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    return _leaf(as_array(data, dtype, copy=True), requires_grad, device)


def from_numpy(array: np.ndarray) -> Tensor:
    """Return a tensor that shares memory with the array.

    >>> a = np.zeros(2); t = from_numpy(a); a[0] = 7.0; t
    tensor([7., 0.], dtype=float64)
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expects a NumPy array, got {type(array).__name__}; write tensor(data)")
    return as_tensor(array)


def asarray(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return `data` as a tensor, sharing memory where possible.

    >>> asarray(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    out = as_tensor(data, dtype)
    return out.requires_grad_() if requires_grad else move(out, device)


def from_dlpack(source: Any) -> Tensor:
    """Return a tensor over another library's array, without copying where possible.

    >>> from_dlpack(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    array = np.from_dlpack(source)
    watch.share(array)
    return new_tensor(array)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of one value everywhere.

    >>> full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    value = fill_value.item() if isinstance(fill_value, Node) else fill_value  # type: ignore[attr-defined]
    chosen = dtype_of_number(value) if dtype is None else np.dtype(dtype)
    shape = shape_of((size,) if isinstance(size, (tuple, list)) else (size,))
    return _leaf(np.full(shape, value, dtype=chosen), requires_grad, device)


def _filled(value: int, size: tuple[Any, ...], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    array = np.ones(shape_of(size), chosen) if value else np.zeros(shape_of(size), chosen)
    return _leaf(array, requires_grad, device)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros.

    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _filled(0, size, dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones.

    >>> ones(2)
    tensor([1., 1.])
    """
    return _filled(1, size, dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor whose values are whatever was in memory.

    >>> empty(2, 3).shape
    (2, 3)
    """
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    return _leaf(np.empty(shape_of(size), chosen), requires_grad, device)


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return ones on the diagonal, zeros elsewhere.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    return _leaf(np.eye(n, m, dtype=chosen), requires_grad, device)


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return start, start + step, … below end; from 0 if only one number is given.

    >>> arange(5)
    tensor([0, 1, 2, 3, 4])
    >>> arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])
    """
    numbers = [n.item() if isinstance(n, Node) else n for n in (start, end, step)]  # type: ignore[attr-defined]
    first, last, by = (0, numbers[0], numbers[2]) if end is None else tuple(numbers)
    if by == 0 or (last - first) * by < 0:
        raise RuntimeError(f"arange: {first} to {last} cannot be reached in steps of {by}")
    chosen = common_dtype(first, last, by) if dtype is None else np.dtype(dtype)
    if chosen.kind in "iu":
        return _leaf(np.arange(first, last, by, dtype=chosen), requires_grad, device)
    count = max(0, math.ceil((last - first) / by))
    return _leaf((first + by * np.arange(count, dtype=np.float64)).astype(chosen), requires_grad, device)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return evenly spaced numbers, both ends included.

    >>> linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    if steps < 0:
        raise RuntimeError(f"linspace: the number of steps must not be negative, got {steps}")
    return _leaf(np.linspace(float(start), float(end), steps).astype(chosen), requires_grad, device)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return base**start … base**end, evenly spaced exponents.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    return _leaf((base ** np.linspace(float(start), float(end), steps)).astype(chosen), requires_grad)


def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of a tensor's shape, dtype and device.

    >>> zeros_like(tensor([1.0, 2.0]))
    tensor([0., 0.])
    """
    return _leaf(np.zeros_like(as_tensor(input)._data, dtype=dtype, order="C"), requires_grad, device)


def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones of a tensor's shape, dtype and device.

    >>> ones_like(tensor([1.0, 2.0]))
    tensor([1., 1.])
    """
    return _leaf(np.ones_like(as_tensor(input)._data, dtype=dtype, order="C"), requires_grad, device)


def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return an uninitialised tensor of a tensor's shape, dtype and device.

    >>> empty_like(tensor([1.0, 2.0])).shape
    (2,)
    """
    return _leaf(np.empty_like(as_tensor(input)._data, dtype=dtype, order="C"), requires_grad, device)


def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return one value everywhere, in a tensor's shape, dtype and device.

    >>> full_like(tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    return _leaf(
        np.full_like(as_tensor(input)._data, fill_value, dtype=dtype, order="C"), requires_grad, device
    )


def one_hot(labels: Any, num_classes: int = -1) -> Tensor:
    """Return a new last axis with a 1 at each label and 0 elsewhere.

    >>> one_hot(tensor([0, 4, 2]), num_classes=5)           # tenses
    tensor([[1, 0, 0, 0, 0],
            [0, 0, 0, 0, 1],
            [0, 0, 1, 0, 0]])
    """
    values = as_tensor(labels)._data
    if values.dtype != int64:
        raise RuntimeError(f"one_hot: labels must be int64, got {values.dtype}; write labels.long()")
    if values.size == 0 and num_classes <= 0:
        raise RuntimeError("one_hot: give num_classes: it cannot be inferred from no labels")
    count = int(values.max()) + 1 if num_classes == -1 else num_classes
    if values.size and (values.min() < 0 or values.max() >= count):
        raise RuntimeError(f"one_hot: labels must be from 0 to num_classes - 1 = {count - 1}")
    return new_tensor((values[..., None] == np.arange(count, like=values)).astype(np.int64))


__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "one_hot",
    "ones",
    "ones_like",
    "tensor",
    "zeros",
    "zeros_like",
]
