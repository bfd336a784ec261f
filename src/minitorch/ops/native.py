"""Large arrays, and a GPU's, by native kernels. Enters: an op's forward or rule. Leaves: the same, computed elsewhere.

An op of several steps goes through a large array several times; a kernel made from the same lines goes through it once.
Nothing here knows how kernels are made: whoever can make them offers to (the compiler does, where it is installed).
Making one takes longer than a few calls do, so a function is handed over only after it has met many elements: how many
depends on a program alone, and not on the clock, so that every run of it gives the same numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy import ndarray

from minitorch.ops import pieces
from minitorch.ops.narrow import takes_narrow, widely

# A function, how NumPy computes it, inputs and attributes; and which lengths its kernel is for. None: not by a kernel.
Compute = Callable[[Callable[..., Any], Callable[..., Any], tuple[Any, ...], dict[str, Any], str], Any]

# A function, inputs and attributes: what it gives, by a kernel that was used before; None if there is none.
Quick = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

# A function, what computes it otherwise, and `busy`: what computes it on a device, by a kernel that was used before.
Shortcut = Callable[[Callable[..., Any], Callable[..., Any], list[object]], Callable[..., Any]]

# Kernels for arrays of any lengths; of any shape, if it is the same for all, and each element is computed from those at
# its place; of any length of the first axis, of all that have as many axes as the first array, or of that alone.
ANY, ELEMENTWISE, BATCH, FIRST = "any", "elementwise", "batch", "first"

# From so many elements on an array is large, earlier for a function that takes NumPy many steps: where kernels and
# NumPy were measured to take equally long. And after so many elements, in large arrays, a kernel is worth making.
LARGE = 1 << 13
LARGE_IF_COSTLY = 1 << 10
MANY = 1 << 23
# What NumPy does as fast as memory allows has to meet so many times as many: a kernel saves it little time.
PATIENCE = 16

# What takes NumPy one step is left to it below this. Until there was a tensor as large as that such ops are NumPy's own
# functions, and in a program of small tensors they cost what they always did.
LARGE_IF_CHEAP = 1 << 16
large_was_met: list[bool] = []
_when_large: list[Callable[[], None]] = []

_offered: list[Compute] = []  # by whom, at most one
_in_use: list[Compute] = []  # the same, or empty
_offered_there: list[Compute] = []  # by whom on a device, at most one
_quick: list[Quick] = []  # what finds kernels that were used before, at most one
_of_devices: set[type] = set()  # the classes of devices' arrays that were met so far
# Why kernels are not to be looked for on a device at this moment: they are "off", or a call of its own is looking.
busy: list[object] = []
_behind: dict[Any, Callable[..., Any]] = {}  # shorter ways, with what each is a way to
# Whether NumPy is computing a function in this thread: what that calls is a part of its kernel.
_inside: ContextVar[bool] = ContextVar("inside", default=False)


def when_large(prepare: Callable[[], None]) -> None:
    """Have a function called when there is a large tensor for the first time."""
    _when_large.append(prepare)


def meet_large(size: int) -> None:
    """Note how many elements a tensor has, if none was large before."""
    if size >= LARGE_IF_CHEAP and not large_was_met:
        large_was_met.append(True)
        for prepare in _when_large:
            prepare()


def offer(compute: Compute) -> None:
    """Let large arrays be computed by a function."""
    _offered[:] = _in_use[:] = [compute]


def offer_there(compute: Compute, quick: Quick | None = None) -> None:
    """Let arrays on a device be computed by a function, however few elements they hold; quick: which is asked first."""
    _offered_there[:] = [compute]
    _quick[:] = [] if quick is None else [quick]


def meet(kind: type) -> bool:
    """Note that arrays of this class lie on a device; return whether that is new."""
    is_new = kind not in _of_devices
    _of_devices.add(kind)
    return is_new


def is_of_device(array: Any) -> bool:
    """Tell whether an array is of a class that was met."""
    return array.__class__ in _of_devices


def is_on_gpu(array: Any) -> bool:
    """Tell whether an array lies on a GPU: whether it is CuPy's."""
    return type(array).__module__.partition(".")[0] == "cupy"


def answered(function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """Return function(*inputs, **options); what a device's arrays have no function for is computed from copies."""
    try:
        return function(*inputs, **options)
    except TypeError:
        there = next(filter(is_of_device, inputs), None)
        if there is None:
            raise
        found = function(*(x.get() if is_of_device(x) else x for x in inputs), **options)
        if not isinstance(found, tuple):
            return np.asarray(found, like=there)
        parts = [np.asarray(each, like=there) for each in found]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)


def forget(kind: type) -> None:
    """Let arrays of this class be what they were before they were met."""
    _of_devices.discard(kind)


def first_of(several: list[Any]) -> Any:
    """Return the first array in a list: a rule of several results gets their gradients so, and None for some."""
    return next((each for each in several if each is not None), None)


def by_its_lines(function: Callable[..., Any], *inputs: Any, **attributes: Any) -> Any:
    """Return what a function gives, computed by its own lines, and those of what it calls."""
    before = _inside.set(True)
    try:
        return function(*inputs, **attributes)
    finally:
        _inside.reset(before)


def _computed_there(
    function: Callable[..., Any],
    plain: Callable[..., Any],
    inputs: tuple[Any, ...],
    attributes: dict[str, Any],
    lengths: str,
) -> Any:
    """Return what a function gives of a device's arrays, by a kernel if there is one."""
    if _inside.get() or not (_in_use and _offered_there):
        return plain(*inputs, **attributes)
    if _quick and (found := _quick[0](function, inputs, attributes)) is not None:
        return found
    mine = object()
    try:  # (One thing to each `finally`, and all of it inside: Ctrl-C may come between any two calls.)
        try:
            busy.append(mine)
            _inside.set(True)
            found = _offered_there[0](function, plain, inputs, attributes, lengths)
            return plain(*inputs, **attributes) if found is None else found
        finally:
            _inside.set(False)
    finally:
        if mine in busy:
            busy.remove(mine)


# A function that changes some of its arrays, those, and numbers; whether it was done.
Update = Callable[[Callable[..., None], list[Any], tuple[Any, ...]], bool]
_updates: list[Update] = []  # who does so here, at most one
# The same for sets of arrays, one after the other, of which none knows of another.
UpdateSets = Callable[[Callable[..., None], list[list[Any]], tuple[Any, ...]], bool]
_updates_there: list[UpdateSets] = []  # who does so on a device, at most one
_met_by_updates: dict[Callable[..., None], int] = {}  # how many elements


def offer_updates(update: Update) -> None:
    """Let what changes large arrays be done by a function."""
    _updates[:] = [update]


def offer_updates_there(update: UpdateSets) -> None:
    """Let what changes arrays on a device be done by a function."""
    _updates_there[:] = [update]


def update(function: Callable[..., None], arrays: list[Any], numbers: tuple[Any, ...]) -> bool:
    """Do function(arrays, numbers), which changes some of large arrays, by a kernel; return whether there was one."""
    met = _met_by_updates[function] = _met_by_updates.get(function, 0) + arrays[0].size
    return met > MANY and bool(_in_use and _updates) and _updates[0](function, arrays, numbers)


# To launch a kernel takes a host as long as a device takes to change a million elements: sets of fewer are changed
# together, so many at the most, for a kernel is made for each number of them.
LARGE_ALONE, MOST_TOGETHER = 1 << 21, 48


def update_there(function: Callable[..., None], sets: list[list[Any]], numbers: tuple[Any, ...]) -> None:
    """Do function(arrays, numbers), which changes some of a device's arrays, for each of some sets, by few kernels."""
    small = [arrays for arrays in sets if 0 < arrays[0].size < LARGE_ALONE]
    large = [[arrays] for arrays in sets if arrays[0].size >= LARGE_ALONE]
    for some in [*(small[i : i + MOST_TOGETHER] for i in range(0, len(small), MOST_TOGETHER)), *large]:
        if len(some) > 1 and _is_updated(function, some, numbers):
            continue
        for arrays in some:
            if not _is_updated(function, [arrays], numbers):
                function(arrays, numbers)


def _is_updated(function: Callable[..., None], sets: list[list[Any]], numbers: tuple[Any, ...]) -> bool:
    return bool(_in_use and _updates_there) and _updates_there[0](function, sets, numbers)


def natively_there(function: Callable[..., Any], lengths: str = ANY) -> Callable[..., Any]:
    """Return a function of arrays that hands those of a device over, and computes all others itself."""
    there = widely(function)

    @functools.wraps(function)
    def run(*inputs: Any, **attributes: Any) -> Any:
        array = inputs[1] if inputs[0].__class__ is float and len(inputs) > 1 else inputs[0]
        if isinstance(array, list):
            array = first_of(array)
        if array.__class__ in _of_devices:
            return _computed_there(there, there, inputs, attributes, lengths)
        return function(*inputs, **attributes)

    run.kernels_of = there  # type: ignore[attr-defined]
    return takes_narrow(run)


LARGE_THERE = 1 << 20  # elements, from which on a kernel copies sooner than a device's own library does
_copy_there: Callable[..., Any] = natively_there(lambda x: x * 1, ELEMENTWISE)


def copied(array: Any, order: Any = "C") -> Any:
    """Return a copy of an array: of large floats on a device by a kernel. order: as of NumPy's."""
    large = is_of_device(array) and array.size >= LARGE_THERE
    if large and array.dtype.kind in "fV" and array.flags.c_contiguous:
        return _copy_there(array)
    return array.copy(order)


def shortened(run: Callable[..., Any] | None, shortcut: Shortcut) -> Callable[..., Any] | None:
    """Return a shorter way to what kernels of a device compute, and a way to the same for all else; of others the same.

    run: what `natively` or `natively_there` returned, or a shorter way to that.
    """
    run = _behind.get(run, run)
    function = getattr(run, "kernels_of", None)
    if run is None or function is None:
        return run
    short = shortcut(function, run, busy)
    _behind[short] = run
    return short


def kernels_as_of(run: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Note that a function may hand what it is given on to `run`, as it is: a device's kernels are known by that.

    run: what `natively` or `natively_there` returned.
    """
    function.kernels_of = run.kernels_of  # type: ignore[attr-defined]
    return takes_narrow(function)


def takes_looks(function: Callable[..., Any]) -> Callable[..., Any]:
    """Note that a function's kernels on a device read inputs where they lie in memory, in whatever order of their axes.

    Of others results lie in memory as the inputs do, and a library computes them so.
    """
    function.takes_looks = True  # type: ignore[attr-defined]
    return function


def as_a_whole(*lie_as: int | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note that a function's kernels on a device are worth making for each of its lengths: there is nothing like them
    among a library's. They read inputs where they lie.

    lie_as: after which of the inputs each result lies in memory; None: in the order of its axes.
    """

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        function.as_a_whole = lie_as  # type: ignore[attr-defined]
        return takes_looks(function)

    return noted


def compared_with(expected: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note what results of a function's kernels are compared with, when they are made: what `expected` gives of those
    results, the inputs and the attributes. For a function whose own results, computed in another way, may be others.
    """

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        function.compared_with = expected  # type: ignore[attr-defined]
        return function

    return note


def computes_narrow(run: Callable[..., Any] | None, inputs: Sequence[Any]) -> bool:
    """Tell whether a forward, or rule, computes these arrays as they are, though some are bfloat16: kernels do."""
    first = inputs[0]
    run = _behind.get(run, run)
    if first.__class__ is float and len(inputs) > 1 and not hasattr(run, "is_native"):
        first = inputs[1]
    if isinstance(first, list):
        first = first_of(first)
    return first.__class__ in _of_devices and getattr(run, "takes_narrow", False)


def set_native_ops(enabled: bool) -> None:
    """Choose whether eager ops on large arrays run as native kernels (where llvmlite is installed) or by NumPy alone.

    Kernels are made from the ops' own lines, and differ from NumPy by rounding. They are used at first.

    >>> before = are_native_ops_enabled()
    >>> set_native_ops(False); are_native_ops_enabled()
    False
    >>> set_native_ops(before)
    """
    _in_use[:] = _offered if enabled else []
    if enabled == ("off" in busy):
        (busy.remove if enabled else busy.append)("off")


def are_native_ops_enabled() -> bool:
    """Return whether eager ops on large arrays may run as native kernels."""
    return bool(_in_use)


def natively(
    function: Callable[..., Any],
    lengths: str = ANY,
    otherwise: Callable[..., Any] | None = None,
    costly: bool = False,
    cheap: bool = False,
) -> Callable[..., Any]:
    """Return a function of arrays that hands large ones over, when it has met many.

    lengths: which ones a kernel is for. otherwise: a quicker way to the same numbers, by NumPy. costly: it takes NumPy
    many steps. cheap: it takes NumPy one, as fast as memory allows.
    """
    met = 0
    patience = PATIENCE if cheap else 1
    plain = function if otherwise is None else otherwise
    there, plain_there = widely(function), widely(plain)

    def run(*inputs: Any, **attributes: Any) -> Any:
        large = inputs[0]
        if large.__class__ is not ndarray:
            if isinstance(large, list):
                large = first_of(large)
            if large.__class__ in _of_devices:
                return _computed_there(there, plain_there, inputs, attributes, lengths)
            if large.__class__ is not ndarray:
                return plain(*inputs, **attributes)
        if large.size < (LARGE_IF_COSTLY if costly else LARGE):
            return plain(*inputs, **attributes)
        return computed(large.size, inputs, attributes)

    def run_one(x: Any) -> Any:  # the same, of one array: half as long before anything is computed
        if x.__class__ is not ndarray:
            if x.__class__ in _of_devices:
                return _computed_there(there, plain_there, (x,), {}, lengths)
            return plain(x)
        if x.size < (LARGE_IF_COSTLY if costly else LARGE):
            return plain(x)
        return computed(x.size, (x,), {})

    def computed(size: int, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        nonlocal met
        if _inside.get():
            return plain(*inputs, **attributes)
        try:
            _inside.set(True)
            met += size
            if not large_was_met:
                meet_large(size)
            if met > MANY * patience and _in_use:
                found = _in_use[0](function, plain, inputs, attributes, lengths)
                if found is not None:
                    return found
            if lengths == ELEMENTWISE and not cheap:
                return pieces.elementwise(plain, inputs, attributes)
            return plain(*inputs, **attributes)
        finally:
            _inside.set(False)

    chosen = functools.wraps(plain)(run_one if _takes_one(plain) else run)
    chosen.is_native, chosen.kernels_of = True, there  # type: ignore[attr-defined]
    return takes_narrow(chosen)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Tell whether a function takes one array and nothing else."""
    code = getattr(function, "__code__", None)
    if code is None:
        return isinstance(function, np.ufunc) and function.nin == 1
    any_number = code.co_flags & 0b1100  # *inputs, **attributes
    return code.co_argcount == 1 and not (code.co_kwonlyargcount or any_number)
