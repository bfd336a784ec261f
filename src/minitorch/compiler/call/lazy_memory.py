"""Memory of what is pending. Enters: handles (trace/pending.py) and arrays. Leaves: arrays, and who looks at them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from minitorch.compiler.call.pending_programs import one_by_one
from minitorch.compiler.ir.program import Value
from minitorch.compiler.trace.pending import Pending
from minitorch.engine import watch


def with_numbers(thing: Any) -> Any:
    """Return arguments with computed arrays in place of pending ones."""
    if isinstance(thing, Pending):
        return thing.array.view(np.ndarray) if thing.known else thing.numbers()
    if type(thing) in (tuple, list):
        return type(thing)([with_numbers(each) for each in thing])
    return {k: with_numbers(v) for k, v in thing.items()} if type(thing) is dict else thing


def is_one_number(value: Value) -> bool:
    """Tell whether a value is one number everywhere, known beforehand."""
    while value.primitive in ("expand", "reshape"):
        (value,) = value.inputs
    return value.primitive == "constant" and value.size == 1


def filled(handle: Pending) -> np.ndarray:
    """Return memory for a handle that is one number everywhere, with that number in it."""
    (number,) = one_by_one([handle._value])
    memory = np.empty_like(handle._array.view(np.ndarray))
    memory[...] = number
    return memory


def laid_out_as(promised: Any, array: np.ndarray) -> np.ndarray:
    """Return an array as NumPy would have laid it out in memory."""
    if array.strides == promised.strides or array.size < 2:
        return array
    memory = np.empty_like(promised.view(np.ndarray))
    if memory.strides != promised.strides:
        return array  # memory that overlaps itself, as that of a broadcast array, is nobody's own
    memory[...] = array
    return memory


class _Slot:
    __slots__ = ("array",)


_probe = _Slot()
_probe.array = np.zeros(1)  # type: ignore[attr-defined]
# What sys.getrefcount says of an array that one slot holds; measured, not assumed.
_IN_ONE_SLOT = sys.getrefcount(_probe.array)  # type: ignore[attr-defined]


def is_seen_by_others(handle: Any) -> bool:
    """Tell whether anybody may look at the memory of a handle past the handle: other Tensors' views, NumPy's arrays.

    One who can see the memory holds the array it belongs to. Besides the handle, its Tensor and the value that stands
    for it hold it; a count beyond that may mean nothing, and then a write is done a little early.
    """
    memory = handle._memory
    if not memory.flags.writeable or (watch.exposed and id(watch.owner_of(memory)) in watch.exposed):
        return True
    if (
        memory.base is not None
    ):  # a reshaped array, as what was drawn at random is: nobody else holds what it was
        if type(memory.base) is not np.ndarray or memory.base.base is not None:
            return True
        if sys.getrefcount(memory.base) > _IN_ONE_SLOT or memory.base.nbytes != memory.nbytes:
            return True
    del memory
    holders = 1 + (handle._array.base is handle._memory)  # the Tensor, and the promise that looks at it
    settled = handle._settled
    holders += settled is not None and settled.attributes.get("array") is handle._memory
    return sys.getrefcount(handle._memory) > _IN_ONE_SLOT + holders
