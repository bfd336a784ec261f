"""Indices of batched arrays: x[key], x[key] = value, np.add.at. Enters: a key for one example. Leaves: one for all.

A key of slices, integers and arrays that all examples share gets one more slice in front. Where the key itself differs
between the examples, the number of the example becomes one more index: of example e the element key[e].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.func.batched.arrays import (
    HANDLERS,
    Batched,
    EachAlone,
    Level,
    aligned,
    is_at,
    ndim_of,
    spread,
    top_level,
)
from minitorch.ops import indexing


def _is_advanced(part: Any) -> bool:
    return not (part is None or part is ... or isinstance(part, slice))


def _is_integer(part: Any) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, (bool, np.bool_))


class Key:
    """A key for the array of all examples, and where the axes of what it selects belong.

    physical: the key. moved: of an example's axes, how many that the index arrays make come after how many others;
    they stand in front of these in what the physical key selects.
    """

    def __init__(self, x: Batched, key: Any, level: Level) -> None:
        parts = list(key) if isinstance(key, tuple) else [key]
        parts = [np.asarray(p) if isinstance(p, (list, bool, np.bool_)) else p for p in parts]
        advanced = [i for i, part in enumerate(parts) if _is_advanced(part)]
        arrays = [i for i in advanced if not _is_integer(parts[i])]
        self.moved = (0, 0)
        together = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
        differs = any(is_at(parts[i], level) for i in arrays)
        if not differs and (together or not arrays):
            self.physical: tuple[Any, ...] = (slice(None), *parts)
            return
        for i in arrays:
            if parts[i].dtype.kind == "b":
                if is_at(parts[i], level):
                    raise EachAlone(level, "a mask selects another number of elements from each example")
                if len(advanced) > 1:
                    raise EachAlone(level, "an index of masks and of arrays that differ between the examples")
        # The number of the example beside arrays: all of them come first, and the axes they make stand in front.
        ndim = max([ndim_of(parts[i]) for i in arrays], default=0)
        for i in advanced:
            parts[i] = aligned(parts[i], level, ndim)
        numbers = np.arange(level.size, like=x.array).reshape((-1,) + (1,) * ndim)
        if together and advanced[0]:
            before, used = 0, sum(_axes_used(part) for part in parts)
            for part in parts[: advanced[0]]:
                before += x.ndim - used if part is ... else 1
            self.moved = (ndim, before)
        self.physical = (numbers, *parts)

    def to_examples(self, selected: Any) -> Any:
        """Return what was selected with an example's axes where they belong."""
        count, before = self.moved
        if not count or not before:
            return selected
        return np.moveaxis(selected, tuple(range(1, 1 + count)), tuple(range(1 + before, 1 + before + count)))

    def from_examples(self, values: Any) -> Any:
        """Return values in the order of axes in which they are written."""
        count, before = self.moved
        if not count or not before:
            return values
        return np.moveaxis(values, tuple(range(1 + before, 1 + before + count)), tuple(range(1, 1 + count)))


def _axes_used(part: Any) -> int:
    if part is None or part is ...:
        return 0
    return part.ndim if getattr(getattr(part, "dtype", None), "kind", "") == "b" else 1


def _read(x: Batched, key: Any) -> Any:
    level = top_level(x, key) or x.level
    if level is not x.level:  # the key is an inner vmap's: this array is shared there
        return Batched(_selected(Batched(spread(x, level), level), key, level), level)
    return Batched(_selected(x, key, level), level)


def _selected(x: Batched, key: Any, level: Level) -> Any:
    chosen = Key(x, key, level)
    found = x.array[chosen.physical]
    return chosen.to_examples(found)


def _values_for(x: Batched, chosen: Key, value: Any, level: Level) -> Any:
    """Return what is written, in the layout of its place."""
    if not is_at(value, level) and not chosen.moved[0]:
        return value
    room = chosen.to_examples(x.array[chosen.physical])
    if not is_at(value, level):
        return chosen.from_examples(np.broadcast_to(value, room.shape))
    array = aligned(value, level, room.ndim - 1)
    while array.ndim > room.ndim and array.shape[1] == 1:  # NumPy drops axes of length 1 in front
        array = array[:, 0]
    return chosen.from_examples(np.broadcast_to(array, room.shape)) if chosen.moved[0] else array


def _writable(x: Batched, *written: Any) -> Level:
    level = top_level(x, *written) or x.level
    if level is not x.level:
        raise EachAlone(level, "values of examples are written into an array that all of them share")
    return level


def _write(x: Batched, key: Any, value: Any) -> None:
    level = _writable(x, key, value)
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if is_at(mask, level) and mask.dtype.kind == "b":
        if ndim_of(value):
            raise EachAlone(
                level, "as many values are written as a mask holds, another number for each example"
            )
        held = mask.array[(..., *(None,) * (x.ndim - mask.ndim))]
        np.copyto(x.array, aligned(value, level, x.ndim), where=held)
        return
    chosen = Key(x, key, level)
    x.array[chosen.physical] = _values_for(x, chosen, value, level)


def add_at(ufunc: Any, x: Any, key: Any, values: Any) -> None:
    """Do ufunc.at(x, key, values)."""
    if not isinstance(x, Batched):
        level = top_level(key, values)
        assert level is not None
        raise EachAlone(level, "values of examples are added into an array that all of them share")
    level = _writable(x, key, values)
    chosen = Key(x, key, level)
    added = _values_for(x, chosen, values, level)
    if ufunc is np.add:
        indexing.add_at(x.array, chosen.physical, added)
    else:
        ufunc.at(x.array, chosen.physical, added)


HANDLERS["read"] = _read
HANDLERS["write"] = _write
