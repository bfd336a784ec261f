"""Who wrote into an array, and when?

Enters: arrays, and nodes as they are recorded. Leaves: times. Every node carries the time it was
recorded; here we keep the time each piece of memory was last written to. A recorded op whose rule reads
an array that was written to after the op would be differentiated at the wrong place; backward says so
instead (errors.check_unchanged).

Two kinds of writing are told apart. Writing through minitorch (`x[0] = 1`, an optimiser, `x.data =
…`) reports itself with `touch`. Writing through a NumPy array that a person holds (`x.data[0] = 1`)
cannot report itself, so the content of such memory is remembered as a fingerprint, when it is handed out
(`hand_out`) and when a recorded op reads it; backward looks again. What was handed out and is held by
nobody any more is watched no longer; memory that came from a person's own array (`share`) always is.
"""

from __future__ import annotations

import itertools
import weakref
import zlib
from typing import Any

import numpy as np

# One clock for everything: a tensor's birth, an array's change. Parents are older than children.
tick = itertools.count(1).__next__

Times = dict[int, tuple[weakref.ref[Any], int, str]]  # by id: the thing, a time, and by which line it changed

exposed: dict[int, Exposed] = {}  # memory that others may write into, by the id of its owner
_written: Times = {}  # through minitorch: an owner, or a Tensor that was given another array
_noticed: Times = {}  # by its fingerprint: an owner
_last_change = 0
_owners: dict[int, tuple[weakref.ref[Any], Any]] = {}  # of views that do not tell: CuPy's by steps


def last_change() -> int:
    """Return the time of the latest known change of any array; older nodes may be affected."""
    return _last_change


def owner_of(array: Any) -> Any:
    """Return the array whose memory `array` looks at: itself, unless it is a view."""
    while True:
        base = getattr(array, "base", None)
        if base is None:
            known = _owners.get(id(array)) if _owners else None
            return array if known is None else known[1]
        if isinstance(base, Held):
            base = base.array
        if not hasattr(base, "base"):
            return array  # bytes, a memory map: no array
        array = base


def note_owner(view: Any, array: Any) -> None:
    """Remember whose memory a view looks at, if it does not tell."""
    key, root = id(view), owner_of(array)
    if owner_of(view) is not root:
        _owners[key] = (weakref.ref(view, lambda _: _owners.pop(key, None)), root)


def memory_of(array: Any) -> Any:
    """Return the array itself; of one whose numbers are still pending (lazily), the one they are computed into, now."""
    if array.__class__ is np.ndarray:
        return array
    compute = getattr(array, "__minitorch_memory__", None)
    return array if compute is None else compute()


# --- writing that reports itself ----------------------------------------------------------------------


def _note(times: Times, thing: Any, now: int, spelling: str = "") -> None:
    key = id(thing)
    times[key] = (weakref.ref(thing, lambda _: times.pop(key, None)), now, spelling)


def touch(thing: Any, spelling: str = "") -> None:
    """Note that `thing` (an array, or a Tensor whose array was replaced) changes now; spelling: by which line."""
    global _last_change
    _last_change = tick()
    owner = owner_of(thing)
    _note(_written, owner, _last_change, spelling)


def written_by(array: Any) -> str:
    """Return in which words the latest known write into an array was spelled, or nothing."""
    entry = _written.get(id(owner_of(array)))
    return "" if entry is None else entry[2]


class WrittenTogether:
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


_groups: weakref.WeakSet[WrittenTogether] = weakref.WeakSet()


def changed_since(thing: Any, time: int) -> bool:
    """Tell whether `thing` (an array or a Tensor) is known to have changed after `time`."""
    owner = owner_of(thing)
    thing = getattr(thing, "__minitorch_there__", thing)
    if _time(_written, owner) > time:
        return True
    exposure = exposed.get(id(owner))
    content = exposure.contents.get(id(thing)) if exposure is not None else None
    if content is not None and content.since <= time:
        return content.changed > time
    return _time(_noticed, owner) > time


def changed_after(time: int) -> set[int]:
    """Return the ids of all arrays and Tensors known to have changed after `time`."""
    # Copies: the pairs of .items() may wake the collector, and then entries of dead arrays vanish under the loop.
    changed = {
        key for times in (_written, _noticed) for key, (_, when, _) in times.copy().items() if when > time
    }
    for key, exposure in exposed.copy().items():
        if any(content.changed > time for content in list(exposure.contents.values())):
            changed.add(key)
    return changed.union(*(group.members for group in list(_groups) if group.time > time))


def _time(times: Times, thing: Any) -> int:
    entry = times.get(id(thing))
    when = 0 if entry is None else entry[1]
    if times is _written and _groups:
        key = id(thing)
        when = max([when, *(group.time for group in list(_groups) if key in group.members)])
    return when


def moved(old: Any, new: np.ndarray) -> None:
    """Note that `new` holds what `old` held: what is known of its changes goes with it."""
    for times in (_written, _noticed):
        when = _time(times, owner_of(old))
        if when:
            _note(times, new, when)


# --- writing behind our back ------------------------------------------------------------------------------

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
        return zlib.crc32(array.view(np.uint16).data if array.dtype.kind == "V" else array.data)
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
        self.array = weakref.ref(array)
        self.fingerprint = fingerprint(array)
        self.since = now  # what was recorded before cannot be judged by this
        self.read = now  # when a recorded op last read it; before `since` that may have happened too
        self.changed = 0  # when a change was noticed

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
            owner = owner_of(array)
            if owner is array:
                _note(_noticed, owner, now)


class Exposed:
    """Memory that others may write into: who may, and what it held when it was last looked at."""

    __slots__ = ("contents", "holders", "owner")

    def __init__(self, owner: np.ndarray) -> None:
        key = id(owner)
        self.owner = weakref.ref(owner, lambda _: exposed.pop(key, None))
        self.contents: dict[int, Content] = {}  # by the id of the array
        self.holders: (
            dict[int, weakref.ref[Any]] | None
        ) = {}  # what was handed out; None: a person's own array

    def add_holder(self, held: Held) -> None:
        """Note what a person gets hold of: when all arrays made from it are gone, watching ends."""
        if self.holders is None:
            return
        holders, number, owner = self.holders, tick(), self.owner

        def let_go(_: Any) -> None:
            holders.pop(number, None)
            memory = owner()
            if not holders and memory is not None and (exposure := exposed.pop(id(memory), None)) is not None:
                for content in list(exposure.contents.values()):
                    content.look(tick())  # once more: it may have been written into at the last moment

        holders[number] = weakref.ref(held, let_go)

    def read(self, array: np.ndarray, now: int) -> None:
        """Remember the content of an array, which is read now and will be again in backward."""
        content = self.contents.get(id(array))
        if content is None or content.array() is not array:
            self.contents[id(array)] = Content(array, now)
        else:
            content.look(now)
            content.read = now


def _exposure_of(owner: np.ndarray) -> Exposed:
    exposure = exposed.get(id(owner))
    if exposure is None:
        exposure = exposed[id(owner)] = Exposed(owner)
    return exposure


def share(array: Any) -> None:
    """Note that a person holds this memory: what recorded ops read of it will be watched, for good."""
    if isinstance(array, np.ndarray):  # device and traced arrays report their changes through `touch` alone
        _exposure_of(owner_of(array)).holders = None


class Held:
    """Stands between our memory and the array a person holds: it lives as long as anybody can see the memory.

    NumPy lets a view of a view look at the first array directly, past what we handed out; but not past this.
    """

    __slots__ = ("__array_interface__", "__weakref__", "array")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


def hand_out(array: Any) -> Any:
    """Return an array for a person to hold: the same memory, as an array of its own, and watched from now on."""
    array = memory_of(array)
    if type(array) is not np.ndarray:
        return array
    owner, held = owner_of(array), Held(array)
    known = id(owner) in exposed
    exposure = _exposure_of(owner)
    exposure.add_holder(held)
    if not known and type(owner) is np.ndarray:
        exposure.read(owner, tick())  # ops may have read it already
    handed = np.asarray(held)
    return (
        handed if handed.dtype is array.dtype else handed.view(array.dtype)
    )  # (bfloat16 is lost on that way)


def beneath(array: np.ndarray) -> Any:
    """Return the array that another is directly a view of, past what `hand_out` puts between."""
    base: Any = array.base
    if isinstance(getattr(base, "base", None), Held):
        base = base.base
    return base.array if isinstance(base, Held) else base


def is_exposed(tensor: Any) -> bool:
    """Tell whether others may write into a tensor's array."""
    array = tensor._array
    if array.__class__ is not np.ndarray:
        return False
    return id(array if array.base is None else owner_of(array)) in exposed


def read(array: Any, now: int) -> None:
    """Remember the content of an array that backward will read again, if others may write into it."""
    array = getattr(array, "__minitorch_there__", array)
    if type(array) is np.ndarray and (exposure := exposed.get(id(owner_of(array)))) is not None:
        exposure.read(array, now)


def look_again(since: int) -> None:
    """Look at every array that an op recorded at `since` or later may have read."""
    for exposure in list(exposed.values()):
        for content in list(exposure.contents.values()):
            if content.read >= since:
                content.look(tick())
