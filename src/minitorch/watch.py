"""Who changed an array that a graph still needs?

Enters: arrays. Leaves: times. Every node carries the time it was recorded; here we keep the time
each array was last written to. A recorded op whose input is younger than the op itself would be
differentiated at the wrong place, and backward says so instead.

Two kinds of writing are told apart. Writing through minitorch (`x[0] = 1`, an optimiser, `x.data =
…`) reports itself with `touch`. Writing through a NumPy array that a person got hold of (`x.data[0]
= 1`) cannot report itself, so from the moment an array is handed out its content is remembered as
a fingerprint, and looked at again when an op uses it and when backward needs it. Arrays that were
never handed out cost nothing, and one that nobody else holds any more is forgotten again.
"""

from __future__ import annotations

import itertools
import sys
import weakref
import zlib
from typing import Any

import numpy as np

# One clock for everything: a tensor's birth, an array's change. Parents are older than children.
tick = itertools.count(1).__next__

exposed: dict[int, tuple[weakref.ref[Any], int]] = {}  # id of the owner → (the owner, fingerprint)
_changed: dict[int, tuple[weakref.ref[Any], int]] = {}  # id of an owner or Tensor → (it, time)
_last_change = 0

_BLOCK = 1024


def last_change() -> int:
    """Return the time of the latest known change of any array; older nodes may be affected."""
    return _last_change


def owner_of(array: np.ndarray) -> np.ndarray:
    """Return the array whose memory `array` looks at: itself, unless it is a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def fingerprint(array: np.ndarray) -> int:
    """Return a number that changes when the content does.

    Small arrays are summed up byte by byte. Large ones as 64-bit words in a grid, by rows and by
    columns: a pass at the speed of memory, and moving values around does not go unseen either.
    """
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.nbytes < 16 * _BLOCK:
        return zlib.crc32(array.data)
    raw = array.reshape(-1).view(np.uint8)
    whole = raw.size - raw.size % (8 * _BLOCK)
    grid = raw[:whole].view(np.uint64).reshape(-1, _BLOCK)
    seen = zlib.crc32(grid.sum(axis=0).data)
    seen = zlib.crc32(grid.sum(axis=1).data, seen)
    return zlib.crc32(raw[whole:].data, seen)


def touch(thing: Any) -> None:
    """Note that `thing` (an array, or a Tensor whose array was replaced) changes now."""
    global _last_change
    if isinstance(thing, np.ndarray):
        thing = owner_of(thing)
    key = id(thing)
    _last_change = tick()
    _changed[key] = (weakref.ref(thing, lambda _: _changed.pop(key, None)), _last_change)


def changed_since(thing: Any, time: int) -> bool:
    """Tell whether `thing` (an array or a Tensor) is known to have changed after `time`."""
    if isinstance(thing, np.ndarray):
        thing = owner_of(thing)
    entry = _changed.get(id(thing))
    return entry is not None and entry[1] > time


def expose(array: Any) -> None:
    """Remember the content of an array that is handed to a person who may write into it."""
    if type(array) is not np.ndarray:
        return  # device and traced arrays report their changes through `touch` alone
    owner = owner_of(array)
    key = id(owner)
    if key not in exposed and owner.dtype != object:
        exposed[key] = (weakref.ref(owner, lambda _: exposed.pop(key, None)), fingerprint(owner))


def look_again(array: Any) -> None:
    """Compare an array that was handed out with what it was, and note a change."""
    if type(array) is not np.ndarray:
        return
    owner = owner_of(array)
    key = id(owner)
    entry = exposed.get(key)
    if entry is None:
        return
    now = fingerprint(owner)
    if now != entry[1]:
        exposed[key] = (entry[0], now)
        touch(owner)


def look_again_at_all() -> None:
    """Look at every array that was handed out and is still alive."""
    for reference, _ in list(exposed.values()):
        owner = reference()
        if owner is not None:
            look_again(owner)


def before_use(tensor: Any) -> None:
    """Look again at a tensor's array, just before an op that reads it is recorded.

    An array that only this tensor holds (its slot, and the reference on the stack while counting)
    is not watched any longer: a person's array, or any view of it, would be one reference more.
    """
    alone = sys.getrefcount(tensor._data) == 2
    array = tensor._data
    look_again(array)
    if alone and getattr(array, "base", array) is None:
        exposed.pop(id(array), None)
