"""Running a program. Enters: kernels' addresses, steps, a table of buffers. Leaves: a function to call.

A program is data: a table of pointers and a list of steps, each a kernel with the table entries it works on.
A native function walks the steps; another is the builtin function that Python calls (`runtime.py`).

A kernel is `i64 kernel(ptr table, ptr slots, i64 start, i64 stop, i64 thread)`: operand i lies at
table[slots[i]], the units from start to stop are to be done, and a nonzero result ends the program.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.llvm.machine import discard
from minitorch.compiler.backends.llvm.runtime import FIELDS, STEP_BYTES, WRONG_NUMBER, WRONG_TYPE, runtime
from minitorch.compiler.backends.llvm.threads import threads as thread_count

ALIGNMENT = 64  # of everything that kernels read: a cache line
GRAINS = 4  # pieces that each thread takes of a step, if nobody says how many


# --- what a program is made of ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arena:
    """A place in the program's own memory, as a byte offset."""

    offset: int


@dataclass(frozen=True)
class External:
    """A place in the n-th argument. Of a Python float, byte 0 is its float64 and byte 8 its float32."""

    number: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Constant:
    """A place in an array known beforehand."""

    array: np.ndarray
    offset: int = 0


@dataclass(frozen=True)
class Step:
    """One kernel and what it works on.

    function: its address. slots: for each operand, a table entry. units: how much there is to do.
    parallel: any thread may do any range of units; the kernel's `thread` says which, may be the same in many calls,
    and who does what changes from run to run. If not, one call does all. grain: the fewest units worth handing over
    (0: chosen here).
    """

    function: int
    slots: Sequence[int] = ()
    units: int = 1
    parallel: bool = False
    grain: int = 0
    label: object = ""  # what to say of it


_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)


class PythonKernel:
    """A Python function as a kernel, for what has no native one.

    function: called with the operands' addresses (see `array_at`). What it raises ends the program with
    the code FAILED, and is kept as `error`. Give the object to the Runner's `keep`, with release=True.
    """

    FAILED = -1

    def __init__(self, function: Callable[[list[int]], None], operands: int) -> None:
        errors: list[BaseException] = []  # and not self: the kernel would hold its own holder

        def kernel(table: int, slots: int, start: int, stop: int, thread: int) -> int:
            pointers = ctypes.cast(table, ctypes.POINTER(ctypes.c_uint64))
            entries = ctypes.cast(slots, ctypes.POINTER(ctypes.c_int64))
            try:
                function([pointers[entries[i]] for i in range(operands)])
            except BaseException as error:  # nothing above could catch it
                errors[:] = [error]
                return PythonKernel.FAILED
            return 0

        self._errors = errors
        self._native = _KERNEL(kernel)

    @property
    def error(self) -> BaseException | None:
        """What the function raised last."""
        return self._errors[0] if self._errors else None

    @property
    def address(self) -> int:
        """Where the kernel begins."""
        return ctypes.cast(self._native, ctypes.c_void_p).value or 0


def array_at(address: int, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Return the memory at an address as an array, in C order. It is valid only as long as the memory is."""
    dtype = np.dtype(dtype)
    count = math.prod(shape) * dtype.itemsize
    if not count:
        return np.empty(shape, dtype)
    return np.frombuffer((ctypes.c_char * count).from_address(address), dtype).reshape(shape)


# --- a program, ready to be called --------------------------------------------------------------------------


def aligned(count: int) -> np.ndarray:
    """Return `count` bytes that begin on a cache line; they take no memory before they are written."""
    block = np.empty(count + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + count]


def fixed(array: np.ndarray) -> np.ndarray:
    """Return a constant in order, on a cache line, and nobody's to change."""
    if array.flags.c_contiguous and not array.flags.writeable and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned(array.nbytes).view(array.dtype).reshape(array.shape) if array.size else array.copy()
    copy[...] = array
    return copy


class _ProgramMemory:
    """All memory of a program. The entry holds it, and so keeps it as long as it can be called."""

    __slots__ = ("__weakref__", "image", "kept", "lock", "program", "times")

    def __init__(self, program: np.ndarray, times: np.ndarray, image: Image, kept: Sequence[Any]) -> None:
        self.program = program
        self.times = times
        self.image = image
        self.kept = kept
        self.lock = threading.Lock()  # for the slow entry


_storages: weakref.WeakSet[_ProgramMemory] = weakref.WeakSet()


def _unlock_all() -> None:
    """In a forked child: a lock that another thread held is held by nobody now."""
    for storage in _storages:
        storage.program[FIELDS.index("lock")] = 0
        storage.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_all)


class Fill(NamedTuple):
    """An entry of the table that depends on an argument: which entry, which argument, how many bytes into it."""

    entry: int
    argument: int
    offset: int


class Image:
    """What the native function walks: table, the entries of it that depend on arguments, steps; as arrays of numbers.

    own: arrays that it has for itself. kept: what else must live as long as this.
    """

    __slots__ = ("addresses", "fills", "kept", "own", "steps", "table")

    def __init__(
        self,
        table: np.ndarray,
        fills: np.ndarray,
        steps: np.ndarray,
        own: Sequence[np.ndarray],
        kept: Sequence[Any],
    ) -> None:
        self.table, self.fills, self.steps, self.own, self.kept = table, fills, steps, own, kept
        self.addresses = (table.ctypes.data, fills.ctypes.data, steps.ctypes.data)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return sum(array.nbytes for array in (self.table, self.fills, self.steps, *self.own))


class Runner:
    """A program that can be called.

    table: what each entry of the table points to, or all of it with the steps as an `Image`. steps: in order.
    arena: how many bytes the program needs for itself. externals: how many arguments a call has; each is a NumPy
    array (whose shape, dtype and order the caller vouches for) or a Python float. keep: whatever must live as
    long as this, the kernels' MachineCode first of all. release: let other Python threads run meanwhile; costs some
    0.1 µs, worth it for long programs, and needed if a kernel calls back into Python (which must not
    call this same program). threads: how many numbers a kernel's `thread` may take, that is, how many scratch
    buffers there are.

    `entry(*arguments)` runs it and returns None, or the nonzero code of the kernel that failed;
    `failed` then says which step that was. It keeps everything alive that it needs, this object aside.
    """

    def __init__(
        self,
        table: Sequence[Arena | External | Constant] | Image,
        steps: Sequence[Step],
        *,
        arena: int = 0,
        externals: int = 0,
        keep: Iterable[Any] = (),
        release: bool = False,
        threads: int | None = None,
    ) -> None:
        most_threads = thread_count() if threads is None else threads
        self.steps = tuple(steps)
        keep = tuple(keep)
        self._arena = aligned(arena)
        if not release and any(isinstance(kept, PythonKernel) for kept in keep):
            raise ValueError("a program that calls Python must let go of Python's lock: give release=True")
        native = runtime()
        if isinstance(table, Image):
            image, wants_threads = table, most_threads > 1
        else:
            _check(table, self.steps, arena, externals)
            image = _image(table, self.steps, self._arena, most_threads)
            wants_threads = most_threads > 1 and any(step.parallel for step in self.steps)
        bases = np.zeros(max(1, externals), np.int64)
        scalars = aligned(16 * max(1, externals))
        values = {
            "count": len(self.steps),
            "pool": native.pool.address,
            "most_threads": most_threads,
            "releases": int(release),
            "externals": externals,
            "bases": bases.ctypes.data,
            "scalars": scalars.ctypes.data,
            "fill_count": len(image.fills),
            "starter": id(native.start) if wants_threads else 0,
            "float_type": id(float),
            "array_type": id(np.ndarray),
            "type_error": id(TypeError),
            "none": id(None),
        }
        program = aligned(8 * len(FIELDS)).view(np.int64)
        program[:] = [values.get(name, 0) for name in FIELDS]
        times = np.zeros(len(self.steps), np.int64)
        self._storage = _ProgramMemory(program, times, image, (self._arena, bases, scalars, *keep))
        self._show(image)
        _storages.add(self._storage)
        self.entry: Callable[..., int | None] = (
            native.entry(program.ctypes.data, self._storage)
            if native.fast
            else _SlowEntry(self._storage, release, externals, wants_threads)
        )

    def use(self, image: Image) -> None:
        """Run this from now on: the same steps, with other numbers. (Not while it runs.)"""
        if image is not self._storage.image:
            self._show(image)

    def _show(self, image: Image) -> None:
        self._storage.image = image
        for place, address in zip(_IMAGE_PLACES, image.addresses, strict=True):
            self._storage.program[place] = address

    def settle(self) -> None:
        """Let the system have the arena's memory until the next run."""
        discard(self._arena)

    @property
    def failed(self) -> Step:
        """The step whose kernel returned nonzero last."""
        return self.steps[int(self._storage.program[FIELDS.index("failed")])]

    def measure(self, on: bool = True) -> None:
        """Begin to add up the time that each step takes, from zero; or stop it."""
        self._storage.times[:] = 0
        self._storage.program[FIELDS.index("runs")] = 0
        self._storage.program[FIELDS.index("times")] = self._storage.times.ctypes.data if on else 0

    @property
    def times(self) -> list[float]:
        """Seconds for each step, on average over the runs since `measure`."""
        runs = max(1, int(self._storage.program[FIELDS.index("runs")]))
        return [float(time) * 1e-9 / runs for time in self._storage.times]


_IMAGE_PLACES = [FIELDS.index(name) for name in ("table", "fills", "steps")]


def _check(
    table: Sequence[Arena | External | Constant], steps: Sequence[Step], arena: int, externals: int
) -> None:
    """What would crash later is said now."""
    for place in table:
        if isinstance(place, External) and not 0 <= place.number < externals:
            raise ValueError(f"{place} is none of the {externals} arguments")
        if isinstance(place, Arena) and not 0 <= place.offset <= arena:
            raise ValueError(f"{place} lies outside of the {arena} bytes there are")
    for step in steps:
        if not step.function:
            raise ValueError(f"{step} has no function")
        if step.units < 0 or any(not 0 <= slot < len(table) for slot in step.slots):
            raise ValueError(f"{step} does not fit a table of {len(table)} entries")


def _image(
    table: Sequence[Arena | External | Constant], steps: Sequence[Step], arena: np.ndarray, threads: int
) -> Image:
    pointers, fills, constants = _pointers(table, arena)
    steps_listed, slots = listed(steps, threads)
    filled = np.array(fills, np.int64).reshape(-1, 3)
    return Image(pointers, filled, steps_listed, [slots], [arena, *constants])


def _pointers(
    table: Sequence[Arena | External | Constant], arena: np.ndarray
) -> tuple[np.ndarray, list[Fill], list[np.ndarray]]:
    """The table as far as it is known, what every call fills in, and the constants it points to."""
    pointers = np.zeros(max(1, len(table)), np.int64)
    fills: list[Fill] = []
    constants: dict[int, np.ndarray] = {}
    for entry, place in enumerate(table):
        if isinstance(place, Arena):
            pointers[entry] = arena.ctypes.data + place.offset
        elif isinstance(place, Constant):
            if id(place.array) not in constants:
                constants[id(place.array)] = fixed(place.array)
            pointers[entry] = constants[id(place.array)].ctypes.data + place.offset
        else:
            fills.append(Fill(entry, place.number, place.offset))
    return pointers, fills, list(constants.values())


def listed(steps: Sequence[Step], most_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps as the native function reads them, and the slots of all of them, to which they point."""
    slots = np.array([slot for step in steps for slot in step.slots] or [0], np.int64)
    rows = np.zeros((max(1, len(steps)), STEP_BYTES // 8), np.int64)
    first = slots.ctypes.data
    for row, step in zip(rows, steps, strict=False):
        grain = step.grain or max(1, step.units // (GRAINS * most_threads))
        parallel = step.parallel and most_threads > 1 and step.units > 1
        function = step.function if step.units else runtime().code.address("nothing")
        row[:] = function, first, step.units, grain, parallel
        first += 8 * len(step.slots)
    return rows, slots


class _SlowEntry:
    """The same through NumPy and ctypes, for a Python whose objects are laid out otherwise."""

    def __init__(
        self,
        storage: _ProgramMemory,
        release: bool,
        externals: int,
        wants_threads: bool,
    ) -> None:
        self._storage = storage
        self._externals = externals
        self._wants_threads = wants_threads
        self._run = runtime().run_releasing if release else runtime().run_keeping

    def __call__(self, *arguments: Any) -> int | None:
        if len(arguments) != self._externals:
            raise TypeError(WRONG_NUMBER)
        if self._wants_threads:
            runtime().start()
        arrays = []
        for argument in arguments:
            if isinstance(argument, float):
                both = np.zeros(2)
                both[0] = argument
                both.view(np.float32)[2] = argument
                arrays.append(both)
            elif isinstance(argument, np.ndarray):
                arrays.append(argument)
            else:
                raise TypeError(WRONG_TYPE)
        with self._storage.lock:
            image = self._storage.image
            for entry, argument, offset in image.fills.tolist():
                image.table[entry] = arrays[argument].ctypes.data + offset
            code = self._run(self._storage.program.ctypes.data)
        return code or None
