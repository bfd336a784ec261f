"""bfloat16 arrays, which nothing computes with: they are widened to float32, and what is made of them is rounded, once.

Enters: functions of arrays. Leaves: the same functions, of bfloat16 too. NumPy has no such dtype; a package gives it
one, whose kind is a letter that no other dtype of a tensor has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def is_narrow(thing: Any) -> bool:
    """Tell whether something is an array of bfloat16.

    >>> is_narrow(np.ones(2, np.float16)), is_narrow(2.0)
    (False, False)
    """
    dtype = getattr(thing, "dtype", None)
    return dtype is not None and dtype.kind == "V" and dtype.type.__name__ == "bfloat16"


def widened(thing: Any) -> Any:
    """Return an array, or the arrays in a list, in float32 where they are bfloat16."""
    if isinstance(thing, (list, tuple)):
        return type(thing)(widened(each) for each in thing)  # (a gradient of an op with several results, too)
    return thing.astype(np.float32) if is_narrow(thing) else thing


def narrowed(result: Any, arrays: Sequence[Any]) -> Any:
    """Return what was computed from `arrays`, widened, in bfloat16; as it is if the first of floats was no bfloat16."""
    if isinstance(result, (list, tuple)):
        return type(result)(narrowed(each, arrays) for each in result)
    first = _first_of_floats(arrays)
    return result.astype(first.dtype) if is_narrow(first) and _is_wide(result) else result


def _first_of_floats(arrays: Sequence[Any]) -> Any:
    for each in arrays:
        if isinstance(each, (list, tuple)):
            each = _first_of_floats(each)
        if hasattr(each, "dtype") and each.dtype.kind not in "biu":
            return each
    return None


def _is_wide(result: Any) -> bool:
    return getattr(result, "dtype", None) == np.float32


def takes_narrow(function: Callable[..., Any]) -> Callable[..., Any]:
    """Note that a function takes bfloat16 as it is, on a device: it moves what is there, or calls what computes it."""
    function.takes_narrow = True  # type: ignore[attr-defined]
    return function


def widely(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes bfloat16 in float32 and rounds once; itself, if it takes bfloat16."""
    if getattr(function, "takes_narrow", False):
        return function

    @functools.wraps(function)
    def run(*inputs: Any, **attributes: Any) -> Any:
        for each in inputs:
            if isinstance(each, (list, tuple)) or is_narrow(each):
                break
        else:
            return function(*inputs, **attributes)
        return narrowed(function(*widened(inputs), **attributes), inputs)

    return run


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that computes float16 and bfloat16 in float32, and rounds its results once."""

    @functools.wraps(function)
    def run(*inputs: Any, **attributes: Any) -> Any:
        first = _first_of_floats(inputs)
        if (
            hasattr(first, "requires_grad") or first.dtype.itemsize != 2
        ):  # (each op of Tensors does so by itself)
            return function(*inputs, **attributes)
        found = function(*_in_float32(inputs), **attributes)
        rounded = [None if each is None else each.astype(first.dtype) for each in _several(found)]
        return tuple(rounded) if isinstance(found, tuple) else rounded[0]

    return takes_narrow(run)


def _several(found: Any) -> Any:
    return found if isinstance(found, tuple) else (found,)


def _in_float32(thing: Any) -> Any:
    if isinstance(thing, (list, tuple)):
        return type(thing)(_in_float32(each) for each in thing)
    is_half = is_narrow(thing) or getattr(thing, "dtype", None) == np.float16
    return thing.astype(np.float32) if is_half else thing
