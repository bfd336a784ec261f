"""In which dtype functions compute: what autocast chooses, and what half precision needs.

Enters: a function of Tensors. Leaves: the same function, that first casts what it is given.

PyTorch names three kinds of functions. Products and convolutions gain from half precision (`in_lower_precision`).
Losses, long products and the like lose by it (`in_float32`; on a GPU more of them: `in_float32_there`, and the ops of
engine/record.py). All others take what comes, and so do some products (`in_given_precision`). Besides, what PyTorch
computes in one piece rounds its result once, and not at every op on the way (`rounded_once`), autocast or not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from minitorch.engine import modes
from minitorch.engine.dtypes import float16, float32, is_bfloat16
from minitorch.engine.gpu import device_of
from minitorch.engine.node import Node
from minitorch.ops.native import is_of_device
from minitorch.tensor.convert import cast

F = TypeVar("F", bound=Callable[..., Any])


def _chosen(precision: modes.Precision | None, tensor: Any) -> Any:
    """Return the dtype that autocast chose where a tensor lies; None if it chose none."""
    return None if precision is None else precision.of(device_of(tensor._data) is not None)


def _lowered(mode: modes.Mode, tensor: Any) -> Any:
    """Return a tensor in the dtype that autocast chose; float64, and what is no float, as it is."""
    chosen = _chosen(mode.precision, tensor)
    if chosen is None or (tensor._array.dtype != float32 and not _is_half(tensor._array.dtype)):
        return tensor
    is_parameter = tensor._operation is None and tensor._requires_grad and mode.enabled
    if mode.casts is None or not is_parameter:
        return cast(tensor, chosen)
    _, array, lowered = mode.casts.get(id(tensor), (None, None, None))
    # Anew if it was given another array (moved to a device, say), or if a backward has consumed the cast.
    if array is not tensor._array or not lowered._inputs:
        lowered = cast(tensor, chosen)
        mode.casts[id(tensor)] = (tensor, tensor._array, lowered)
    return lowered


def lowered_by_autocast(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what a function gives of its arguments in the dtype that autocast chose; None if it chose none.

    For functions that are called so often that no wrapper shall stand before them.
    """
    mode = modes.current()
    if mode.precision is None:
        return None
    lowered = functools.partial(_lowered, mode)
    with _as_they_are():
        return function(*_each(lowered, args), **_each_named(lowered, options))


def in_lower_precision(function: F) -> F:
    """Compute a function in the dtype that autocast chose, if it did."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        if modes.autocasting and modes.current().precision is not None:
            return lowered_by_autocast(function, *args, **options)
        return function(*args, **options)

    return run  # type: ignore[return-value]


def in_float32(function: F) -> F:
    """Compute a function in float32 where autocast gave it half precision."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        if modes.autocasting and (precision := modes.current().precision) is not None:
            wide = functools.partial(_widened_where_chosen, precision)
            with _as_they_are():
                return function(*_each(wide, args), **_each_named(wide, options))
        return function(*args, **options)

    return run  # type: ignore[return-value]


def in_float32_there(function: F) -> F:
    """Compute a function in float32 where autocast gave it half precision on a GPU."""
    wide = in_float32(function)

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        return (wide if is_autocast_there(*args[:1]) else function)(*args, **options)

    return run  # type: ignore[return-value]


def refused_there(why: str) -> Callable[[F], F]:
    """Refuse to compute a function under autocast on a GPU."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            if is_autocast_there(*args[:1]):
                raise RuntimeError(why)
            return function(*args, **options)

        return run  # type: ignore[return-value]

    return decorated


def is_autocast_there(tensor: Any = None) -> bool:
    """Tell whether autocast is on for GPUs, and a tensor on one."""
    if not modes.autocasting or not isinstance(tensor, Node):
        return False
    return (modes.current().precision or modes.Precision()).cuda is not None and device_of(
        tensor._data
    ) is not None


def in_given_precision(function: F) -> F:
    """Compute a function without autocast, though others that it calls would heed it."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        if modes.autocasting and modes.current().precision is not None:
            with _as_they_are():
                return function(*args, **options)
        return function(*args, **options)

    return run  # type: ignore[return-value]


def rounded_once(function: F) -> F:
    """Compute a function of half precision in float32, and round its result."""
    by_one_op = hasattr(function, "rounds_once_there")

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        first = args[0] if args else None
        if not isinstance(first, Node) or first._array.dtype.itemsize != 2:
            return function(*args, **options)
        if (by_one_op and is_of_device(first._array)) or not _is_half(first._array.dtype):
            return function(*args, **options)
        return cast(function(*_each(_widened, args), **_each_named(_widened, options)), first._array.dtype)

    return run  # type: ignore[return-value]


def is_half_there(tensor: Any) -> bool:
    """Tell whether a tensor of half precision lies on a device, where kernels compute in float32 and round once."""
    return isinstance(tensor, Node) and is_of_device(tensor._array) and _is_half(tensor._array.dtype)


def by_one_op_there(function: F) -> F:
    """Note that a function is one op on a device, whose kernels compute in float32 and round once."""
    function.rounds_once_there = True  # type: ignore[attr-defined]
    return function


def _as_they_are() -> modes.ModeSwitch:
    """Inside, autocast chooses nothing."""
    return modes.ModeSwitch(lambda mode: mode._replace(precision=None))


def _is_half(dtype: np.dtype[Any]) -> bool:
    return dtype == float16 or is_bfloat16(dtype)


def _widened(tensor: Any) -> Any:
    return cast(tensor, float32) if _is_half(tensor._array.dtype) else tensor


def _widened_where_chosen(precision: modes.Precision, tensor: Any) -> Any:
    return tensor if _chosen(precision, tensor) is None else _widened(tensor)


def _each(change: Callable[[Any], Any], given: Any) -> Any:
    """Return arguments with the Tensors among them changed, and those in lists."""
    if isinstance(given, Node):
        return change(given)
    if given.__class__ in (list, tuple):
        return type(given)([_each(change, each) for each in given])
    return given


def _each_named(change: Callable[[Any], Any], options: dict[str, Any]) -> dict[str, Any]:
    return {name: _each(change, each) for name, each in options.items()}
