"""How arrays on a device lie in memory. Enters: one that is not laid out in the order of its axes. Leaves: a `Look`.

Kernels know arrays that are. Another one is a look at such an array: some of it, with its axes in another order, as
queries are, a part of a product's columns cut into heads. A kernel that knows of the look reads what is there, where it
is: nothing is copied before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minitorch.engine.watch import owner_of

Function = Callable[..., Any]


class Look(NamedTuple):
    """What an array is of one that is laid out in the order of its axes.

    axes: its axes, in the order in which they lie in memory. shape: of all the memory, cut along those; parts: which of
    it is the array's, along each; None: all, and the array has no gaps.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...] | None = None
    parts: tuple[tuple[int, int] | None, ...] = ()

    def taken_from(self, array: Any) -> Any:
        """Return the array that a look at it is given for."""
        return array.transpose(self.axes) if self.shape is None else owner_of(array).reshape(self.shape)

    def at(self, array: Any) -> Any:
        """Return what is seen of an array."""
        if self.shape is not None:
            array = array[tuple([slice(None) if part is None else slice(*part) for part in self.parts])]
        return array.transpose(self.back)

    @property
    def back(self) -> tuple[int, ...]:
        """Where each axis is in memory."""
        return tuple(sorted(range(len(self.axes)), key=self.axes.__getitem__))


def look_of(array: Any, gaps: bool) -> Look | None:
    """Return what an array is a look at; None if it is laid out in the order of its axes, or nothing of the kind.

    gaps: whether it may be a part of the memory: one of several equal ones, along each axis.
    """
    if array.flags.c_contiguous:
        return None
    axes = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    if array.transpose(axes).flags.c_contiguous:
        return Look(axes)
    return _with_gaps(array, axes) if gaps else None


def _with_gaps(array: Any, axes: tuple[int, ...]) -> Look | None:
    owner, size = owner_of(array), array.dtype.itemsize
    if owner is array or owner.dtype != array.dtype or not owner.flags.c_contiguous or not array.ndim:
        return None
    lengths = [array.shape[axis] for axis in axes]
    steps = [array.strides[axis] // size for axis in axes]
    around = [owner.size, *steps[:-1]]
    if steps[-1] != 1 or any(not step or whole % step for whole, step in zip(around, steps, strict=True)):
        return None
    shape = tuple([whole // step for whole, step in zip(around, steps, strict=True)])
    rest, parts = (array.data.ptr - owner.data.ptr) // size, list[tuple[int, int] | None]()
    for length, whole, step in zip(lengths, shape, steps, strict=True):
        first, rest = divmod(rest, step)
        if whole % length or first % length:
            return None
        parts.append(None if length == whole else (first, first + length))
    return Look(axes, shape, tuple(parts))


@functools.lru_cache(maxsize=1024)
def seen_through(
    function: Function, looks: tuple[Look | None, ...], lie_as: tuple[int | None, ...]
) -> Function:
    """Return a function of arrays that are looked at, `looks`, before they are given to another one.

    lie_as: for each result, after which of the arrays it lies in memory: it is returned with its axes in that order.
    None: in the order of its own.
    """

    @functools.wraps(function)
    def run(*inputs: Any, **attributes: Any) -> Any:
        seen = [x if look is None else look.at(x) for x, look in zip(inputs, looks, strict=True)]
        found = function(*seen, **attributes)
        if not lie_as:
            return found
        if isinstance(found, tuple):
            return tuple([_laid(each, _of(looks, i)) for each, i in zip(found, lie_as, strict=True)])
        return _laid(found, _of(looks, lie_as[0]))

    return run


def _of(looks: Sequence[Look | None], number: int | None) -> Look | None:
    return None if number is None else looks[number]


def _laid(array: Any, look: Look | None) -> Any:
    return array if look is None or array is None else array.transpose(look.axes).copy()


def as_asked(found: Any, looks: Sequence[Look | None], lie_as: Sequence[int | None]) -> Any:
    """Return what `seen_through` gives with the axes of results in the order in which they are asked for."""
    if not lie_as:
        return found
    if isinstance(found, tuple):
        return tuple([_turned_back(each, _of(looks, i)) for each, i in zip(found, lie_as, strict=True)])
    return _turned_back(found, _of(looks, lie_as[0]))


def _turned_back(array: Any, look: Look | None) -> Any:
    return array if look is None or array is None else array.transpose(look.back)
