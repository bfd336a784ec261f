"""Who changed an array that a graph still needs?

Enters: arrays, and nodes as they are recorded. Leaves: times. Every node carries the time it was
recorded; here we keep the time each array was last written to. A recorded op whose input is younger
than the op itself would be differentiated at the wrong place, and backward says so instead.

Two kinds of writing are told apart. Writing through minitorch (`x[0] = 1`, an optimiser, `x.data =
…`) reports itself with `touch`. Writing through a NumPy array that a person holds (`x.data[0] = 1`)
cannot report itself, so the content of such an array is remembered as a fingerprint: of a tensor's
own array when it is handed out (`expose`), of a person's array (`share`) when a recorded op reads
it. Backward looks again at those that its graph may have read. Arrays that were never handed out
cost nothing, and one that nobody else holds any more is forgotten again.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import math
import sys
import weakref
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

# One clock for everything: a tensor's birth, an array's change. Parents are older than children.
tick = itertools.count(1).__next__

Times = dict[int, tuple[weakref.ref[Any], int]]  # by id: the thing, and a time

exposed: dict[int, weakref.ref[Any]] = {}  # memory others may write into, by the id of its owner
_contents: dict[int, Content] = {}  # what such arrays held, by the id of the array
_written: Times = {}  # through minitorch: an owner, or a Tensor that was given another array
_noticed: Times = {}  # by its fingerprint: an owner
_last_change = 0


def last_change() -> int:
    """Return the time of the latest known change of any array; older nodes may be affected."""
    return _last_change


def owner_of(array: np.ndarray) -> np.ndarray:
    """Return the array whose memory `array` looks at: itself, unless it is a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


_WIDTHS = (1024, 1021)


def fingerprint(array: np.ndarray) -> int:
    """Return a number that changes when the content does.

    Small arrays are summed up byte by byte. Large ones as 64-bit words laid out as a grid, by columns
    and by rows, at the speed of memory; and by columns of a second grid with another width, because
    swapping rows of a permutation matrix leaves every row's and every column's sum as it was.
    """
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.nbytes < 16 * _WIDTHS[0]:
        return zlib.crc32(array.data)
    raw = array.reshape(-1).view(np.uint8)
    words = raw[: raw.size - raw.size % 8].view(np.uint64)
    first, second = (words[: words.size - words.size % w].reshape(-1, w) for w in _WIDTHS)
    seen = zlib.crc32(first.sum(axis=0).data)
    seen = zlib.crc32(first.sum(axis=1).data, seen)
    seen = zlib.crc32(second.sum(axis=0).data, seen)
    return zlib.crc32(raw[8 * first.size :].data, seen)


class Content:
    """What an array held when it was last looked at."""

    __slots__ = ("array", "changed", "fingerprint", "read", "since")

    def __init__(self, array: np.ndarray, now: int) -> None:
        key = id(array)
        self.array = weakref.ref(array, lambda _: _contents.pop(key, None))
        self.fingerprint = fingerprint(array)
        self.since = now  # what was recorded before cannot be judged by this
        self.read = now  # when a recorded op last read it; before `since` that may have happened too
        self.changed = 0  # when a change was noticed
        _contents[key] = self

    def look(self, now: int) -> None:
        """Compare the array with what it was; a change is noted as of `now`."""
        global _last_change
        array = self.array()
        if array is None:
            return
        seen = fingerprint(array)
        if seen != self.fingerprint:
            self.fingerprint = seen
            self.changed = now
            _last_change = max(_last_change, now)
            if owner_of(array) is array:
                _note(_noticed, array, now)


def _note(times: Times, thing: Any, now: int) -> None:
    key = id(thing)
    times[key] = (weakref.ref(thing, lambda _: times.pop(key, None)), now)


def touch(thing: Any) -> None:
    """Note that `thing` (an array, or a Tensor whose array was replaced) changes now."""
    global _last_change
    _last_change = tick()
    _note(_written, owner_of(thing) if isinstance(thing, np.ndarray) else thing, _last_change)


class Group:
    """Arrays that are written together, again and again (by a compiled step): noting it takes one step for all."""

    __slots__ = ("__weakref__", "arrays", "members", "time")

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays  # kept, so that their ids stay theirs
        self.members = frozenset(id(owner_of(array)) for array in arrays)
        self.time = 0
        _groups.add(self)

    def touch(self) -> None:
        """Note that all of them change now."""
        global _last_change
        _last_change = self.time = tick()


_groups: weakref.WeakSet[Group] = weakref.WeakSet()


def changed_since(thing: Any, time: int) -> bool:
    """Tell whether `thing` (an array or a Tensor) is known to have changed after `time`."""
    if not isinstance(thing, np.ndarray):
        return _time(_written, thing) > time
    owner = owner_of(thing)
    if _time(_written, owner) > time:
        return True
    content = _contents.get(id(thing))
    if content is not None and content.since <= time:
        return content.changed > time
    return _time(_noticed, owner) > time


def changed_after(time: int) -> set[int]:
    """Return the ids of all arrays and Tensors known to have changed after `time`."""
    written = {key for times in (_written, _noticed) for key, (_, when) in list(times.items()) if when > time}
    written |= {key for key, content in list(_contents.items()) if content.changed > time}
    return written.union(*(group.members for group in list(_groups) if group.time > time))


def _time(times: Times, thing: Any) -> int:
    entry = times.get(id(thing))
    when = 0 if entry is None else entry[1]
    if times is _written and _groups:
        key = id(thing)
        when = max([when, *(group.time for group in list(_groups) if key in group.members)])
    return when


def share(array: Any) -> None:
    """Note that a person holds this memory: what recorded ops read of it will be watched."""
    if type(array) is np.ndarray:  # device and traced arrays report their changes through `touch` alone
        owner = owner_of(array)
        key = id(owner)
        if key not in exposed:
            exposed[key] = weakref.ref(owner, lambda _: exposed.pop(key, None))


def is_exposed(tensor: Any) -> bool:
    """Tell whether others may write into a tensor's array."""
    array = tensor._array
    if array.__class__ is not np.ndarray:
        return False
    return id(array if array.base is None else owner_of(array)) in exposed


def expose(array: Any) -> None:
    """Remember the content of our own array, now that a person gets hold of it: ops may have read it already."""
    if type(array) is np.ndarray and id(owner_of(array)) not in exposed:
        share(array)
        Content(owner_of(array), tick())


class _Slot:
    __slots__ = ("_data",)

    def __init__(self, data: Any) -> None:
        self._data = data


# What sys.getrefcount says of an array that only one slot holds; measured, not assumed.
_probe = _Slot(np.zeros(1))
ALONE = sys.getrefcount(_probe._data)


def is_alone(tensor: Any, others: int = 0) -> bool:
    """Tell whether a tensor owns its memory, and nobody else (but `others`, who do not mind) can see it."""
    return tensor._data.base is None and sys.getrefcount(tensor._data) <= ALONE + others


def moved(old: np.ndarray, new: np.ndarray) -> None:
    """Note that `new` holds what `old` held: what is known of its changes goes with it."""
    for times in (_written, _noticed):
        when = _time(times, owner_of(old))
        if when:
            _note(times, new, when)


def forget(tensor: Any) -> None:
    """Stop watching an exposed array if only this tensor holds it: a person's array, or a view, would count."""
    if sys.getrefcount(tensor._data) == ALONE and tensor._data.base is None:
        key = id(tensor._data)
        content = _contents.pop(key, None)
        if content is not None:
            content.look(tick())
        exposed.pop(key, None)


def recorded(node: Any) -> None:
    """Remember the content of what a newly recorded op will read again in backward, where others may write."""
    for position, tensor in enumerate((node, *node._inputs), start=1):
        if hasattr(tensor, "_data") and is_exposed(tensor) and is_read(node, position):
            read(tensor._data, node._time)
    for value in node._attributes.values():
        for part in value if isinstance(value, tuple) else (value,):
            read(part, node._time)


def read(array: Any, now: int) -> None:
    """Remember the content of an array that backward will read again, if others may write into it."""
    if type(array) is np.ndarray and id(owner_of(array)) in exposed:
        content = _contents.get(id(array))
        if content is None:
            Content(array, now)
        else:
            content.look(now)
            content.read = now


def look_again(since: int) -> None:
    """Look at every array that an op recorded at `since` or later may have read."""
    for content in list(_contents.values()):
        if content.read >= since:
            content.look(tick())


# --- what a derivative rule reads -----------------------------------------------------------------


def is_read(node: Any, position: int) -> bool:
    """Tell whether backward reads the values of a node's result (position 1) or input (from 2 on)."""
    op = node._operation
    if op.joint is not None:
        return _reads(op.joint, position)
    wanted = [bool(getattr(i, "requires_grad", False)) for i in node._inputs]
    if op.each is not None:
        return any(wanted) and _reads(op.each, position + 1)  # it gets the input's number first
    return any(w and r is not None and _reads(r, position) for w, r in zip(wanted, op.rules, strict=False))


def _reads(rule: Callable[..., Any], position: int) -> bool:
    found = getattr(rule, "values_read", None)
    if found is None:
        found = _values_read(rule)
        if inspect.isfunction(rule):
            rule.values_read = found  # type: ignore[attr-defined]
    named, rest = found
    return position in named or position >= rest


def _values_read(rule: Callable[..., Any]) -> tuple[frozenset[int], float]:
    """Return the positions of the arguments whose values a rule reads, not merely their shape.

    The second number is the position from which on all are read: that of `*inputs`.
    """
    code = getattr(rule, "__code__", None)
    if code is None:
        return frozenset(), 0  # a rule we cannot look into: assume it reads everything
    read: set[Any] = set()
    instructions = list(dis.get_instructions(code))
    for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
        name = instruction.opname
        if "LOAD" not in name or not any(word in name for word in ("FAST", "DEREF", "CLOSURE")):
            continue
        loaded = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        only_metadata = (
            following is not None
            and following.opname == "LOAD_ATTR"
            and following.argval in ("shape", "ndim", "dtype")
        )
        read.update(loaded[:-1] if only_metadata else loaded)
    names = code.co_varnames
    positions = frozenset(i for i in range(code.co_argcount) if names[i] in read)
    if not code.co_flags & inspect.CO_VARARGS:
        return positions, math.inf
    rest = names[code.co_argcount + code.co_kwonlyargcount]
    return positions, code.co_argcount if rest in read else math.inf
