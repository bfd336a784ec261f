"""Running a program. Enters: kernels' addresses, steps, a table of buffers. Leaves: a function to call.

A program is data: a table of pointers and a list of steps, each a kernel with the table entries it works on.
A native function walks the steps; another is the builtin function that Python calls. It reads the arrays'
addresses out of the array objects itself, since asking for `array.ctypes.data` costs more than the whole call.

A kernel is `i64 kernel(ptr table, ptr slots, i64 start, i64 stop, i64 thread)`: operand i lies at
table[slots[i]], the units from start to stop are to be done, and a nonzero result ends the program.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm import threads as pools
from minitorch.compiler.backends.llvm.machine import compile_module, discard
from minitorch.compiler.backends.llvm.target import Target, host
from minitorch.compiler.backends.llvm.threads import PARALLEL, PARTS, SERIAL

ALIGNMENT = 64

# A program in memory: 8 bytes each, in this order.
_FIELDS = (
    "table",  # the pointers
    "steps",  # STEP_BYTES each
    "count",  # of steps
    "times",  # nanoseconds per step, added up; or 0
    "runs",  # how often it ran while times were taken
    "pool",
    "parts",  # how many numbers a kernel's `thread` may take
    "failed",  # the step that returned nonzero
    "lock",  # an i32: held while it runs without Python's lock
    "externals",  # how many arguments
    "bases",  # where each argument's data begins, in this call
    "scalars",  # 16 bytes for each argument: a Python float as float64, and behind it as float32
    "fills",  # table entries that depend on arguments: entry, argument, byte offset
    "fill_count",
    "starter",  # called without arguments if the pool is not started; or 0
    "float_type",
    "array_type",
    "type_error",
    "none",
)
_OFFSET = {name: 8 * i for i, name in enumerate(_FIELDS)}
_STEP_BYTES = 40  # function, slots, units, grain, flags


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
    flags: SERIAL, PARALLEL, PARTS or PARALLEL | PARTS. grain: the fewest units worth handing over (0:
    chosen here). With PARALLEL, the kernel may be called many times with one `thread`, and who does what
    changes from run to run; with PARTS it is called once for each part, whoever does it, so that what
    it adds up is the same in every run. There are as many parts as the Runner has `threads`; one may be empty.
    """

    function: int
    slots: Sequence[int] = ()
    units: int = 1
    flags: int = SERIAL
    grain: int = 0
    label: str = ""


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


# --- the native functions -----------------------------------------------------------------------------------


def text(target: Target) -> str:
    """Return the functions that run programs, and the pool's, as one module of LLVM text.

    run: walk the steps. entry_keeping, entry_releasing: builtin functions for Python (METH_FASTCALL),
    which hold Python's lock all the time, or let go of it while the steps run.
    """
    attributes = target.attributes

    def at(name: str, base: str = "%program") -> str:
        return f"  %{name}_at = getelementptr i8, ptr {base}, i64 {_OFFSET[name]}"

    def load(name: str, kind: str = "ptr") -> str:
        return f"{at(name)}\n  %{name} = load {kind}, ptr %{name}_at, align 8"

    too_many = b"a compiled program was called with the wrong number of arguments"
    not_array = b"a compiled program takes NumPy arrays and Python floats"
    messages = "\n".join(
        f'@{name} = private constant [{len(message) + 1} x i8] c"{message.decode()}\\00"'
        for name, message in (("wrong_number", too_many), ("wrong_type", not_array))
    )

    # Before anything else: Python code runs here, and other Python threads may run meanwhile.
    begin = f"""entry:
  %program = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
{load("externals", "i64")}
  %right = icmp eq i64 %externals, %given
  br i1 %right, label %ready, label %wrong
wrong:
{load("type_error")}
  call void @PyErr_SetString(ptr %type_error, ptr @wrong_number)
  ret ptr null
ready:
{load("starter")}
  %wants = icmp ne ptr %starter, null
  br i1 %wants, label %look, label %fill
look:
{load("pool")}
  %threads_at = getelementptr i8, ptr %pool, i64 {pools.THREADS_OFFSET}
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %stopped = icmp eq i64 %threads, 0
  br i1 %stopped, label %start, label %fill
start:
  %nothing = call ptr @PyObject_CallNoArgs(ptr %starter)
  %raised = icmp eq ptr %nothing, null
  br i1 %raised, label %null, label %started
started:
  call void @Py_DecRef(ptr %nothing)
  br label %fill
null:
  ret ptr null"""
    end = f"""  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %report, label %fine
report:
  %number = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %number
fine:
{load("none")}
  call void @Py_IncRef(ptr %none)
  ret ptr %none"""

    return f"""{pools.text(target)}
{messages}
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Walk the steps; return 0, or the first nonzero code, after which nothing runs.
define i64 @run(ptr %program) {attributes} {{
entry:
{load("table")}
{load("steps")}
{load("count", "i64")}
{load("times")}
{load("pool")}
{load("parts", "i64")}
  %timed = icmp ne ptr %times, null
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %step_done ]
  %step = phi ptr [ %steps, %entry ], [ %step_next, %step_done ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %read, label %finished
read:
  %slots_at = getelementptr i64, ptr %step, i64 1
  %units_at = getelementptr i64, ptr %step, i64 2
  %grain_at = getelementptr i64, ptr %step, i64 3
  %flags_at = getelementptr i64, ptr %step, i64 4
  %function = load ptr, ptr %step, align 8
  %slots = load ptr, ptr %slots_at, align 8
  %units = load i64, ptr %units_at, align 8
  %flags = load i64, ptr %flags_at, align 8
  br i1 %timed, label %look, label %choose
look:
  %clock_before = call i64 @clock()
  br label %choose
choose:
  %before = phi i64 [ 0, %read ], [ %clock_before, %look ]
  %serial = icmp eq i64 %flags, {SERIAL}
  br i1 %serial, label %alone, label %together
alone:
  %code_alone = call i64 %function(ptr %table, ptr %slots, i64 0, i64 %units, i64 0)
  br label %done
together:
  %grain = load i64, ptr %grain_at, align 8
  %code_together = call i64 @pool_step(ptr %pool, ptr %function, ptr %table, ptr %slots, i64 %units, i64 %grain,
                                       i64 %flags, i64 %parts)
  br label %done
done:
  %code = phi i64 [ %code_alone, %alone ], [ %code_together, %together ]
  br i1 %timed, label %look_again, label %check
look_again:
  %after = call i64 @clock()
  %elapsed = sub i64 %after, %before
  %time_at = getelementptr i64, ptr %times, i64 %i
  %time = load i64, ptr %time_at, align 8
  %time_new = add i64 %time, %elapsed
  store i64 %time_new, ptr %time_at, align 8
  br label %check
check:
  %bad = icmp ne i64 %code, 0
  br i1 %bad, label %fail, label %step_done
step_done:
  %i_next = add i64 %i, 1
  %step_next = getelementptr i8, ptr %step, i64 {_STEP_BYTES}
  br label %next
fail:
{at("failed")}
  store i64 %i, ptr %failed_at, align 8
  br label %finished
finished:
  %result = phi i64 [ 0, %next ], [ %code, %fail ]
  br i1 %timed, label %count_run, label %leave
count_run:
{load("runs", "i64")}
  %runs_new = add i64 %runs, 1
  store i64 %runs_new, ptr %runs_at, align 8
  br label %leave
leave:
  ret i64 %result
}}

; A kernel that does nothing, for steps without units.
define i64 @nothing(ptr %table, ptr %slots, i64 %start, i64 %stop, i64 %thread) {attributes} {{
  ret i64 0
}}

; Write the arguments' addresses into the table; false, and a Python exception, if one is of a wrong type.
define internal i1 @fill(ptr %program, ptr %arguments, i64 %given) {attributes} {{
entry:
{load("bases")}
{load("scalars")}
{load("float_type")}
{load("array_type")}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %store ]
  %more = icmp ult i64 %i, %given
  br i1 %more, label %read, label %write
read:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument_at, align 8
  %kind_at = getelementptr i8, ptr %argument, i64 8
  %kind = load ptr, ptr %kind_at, align 8
  %content_at = getelementptr i8, ptr %argument, i64 16
  %exactly_array = icmp eq ptr %kind, %array_type
  br i1 %exactly_array, label %array, label %no_array
no_array:
  %exactly_float = icmp eq ptr %kind, %float_type
  br i1 %exactly_float, label %float, label %subtype_of_array
subtype_of_array:
  %is_array = call i32 @PyType_IsSubtype(ptr %kind, ptr %array_type)
  %as_array = icmp ne i32 %is_array, 0
  br i1 %as_array, label %array, label %subtype_of_float
subtype_of_float:
  %is_float = call i32 @PyType_IsSubtype(ptr %kind, ptr %float_type)
  %as_float = icmp ne i32 %is_float, 0
  br i1 %as_float, label %float, label %wrong
wrong:
{load("type_error")}
  call void @PyErr_SetString(ptr %type_error, ptr @wrong_type)
  ret i1 false
array:
  %data = load ptr, ptr %content_at, align 8
  br label %store
float:
  %double = load double, ptr %content_at, align 8
  %single = fptrunc double %double to float
  %scalar_bytes = mul i64 %i, 16
  %scalar = getelementptr i8, ptr %scalars, i64 %scalar_bytes
  %single_at = getelementptr i8, ptr %scalar, i64 8
  store double %double, ptr %scalar, align 8
  store float %single, ptr %single_at, align 4
  br label %store
store:
  %base = phi ptr [ %data, %array ], [ %scalar, %float ]
  %base_at = getelementptr ptr, ptr %bases, i64 %i
  store ptr %base, ptr %base_at, align 8
  %i_next = add i64 %i, 1
  br label %next
write:
{load("table")}
{load("fills")}
{load("fill_count", "i64")}
  br label %each_fill
each_fill:
  %j = phi i64 [ 0, %write ], [ %j_next, %one_fill ]
  %more_fills = icmp ult i64 %j, %fill_count
  br i1 %more_fills, label %one_fill, label %done
one_fill:
  %fill_bytes = mul i64 %j, 24
  %fill = getelementptr i8, ptr %fills, i64 %fill_bytes
  %from_at = getelementptr i64, ptr %fill, i64 1
  %offset_at = getelementptr i64, ptr %fill, i64 2
  %entry_number = load i64, ptr %fill, align 8
  %from_number = load i64, ptr %from_at, align 8
  %offset = load i64, ptr %offset_at, align 8
  %from = getelementptr ptr, ptr %bases, i64 %from_number
  %pointer = load ptr, ptr %from, align 8
  %moved = getelementptr i8, ptr %pointer, i64 %offset
  %entry_at = getelementptr ptr, ptr %table, i64 %entry_number
  store ptr %moved, ptr %entry_at, align 8
  %j_next = add i64 %j, 1
  br label %each_fill
done:
  ret i1 true
}}

define ptr @entry_keeping(ptr %self, ptr %arguments, i64 %given) {attributes} {{
{begin}
fill:
  %filled = call i1 @fill(ptr %program, ptr %arguments, i64 %given)
  br i1 %filled, label %go, label %null
go:
  %code = call i64 @run(ptr %program)
{end}
}}

define ptr @entry_releasing(ptr %self, ptr %arguments, i64 %given) {attributes} {{
{begin}
fill:
{at("lock")}
  %try = cmpxchg ptr %lock_at, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %try, 1
  br i1 %free, label %locked, label %wait
wait:
  ; Who holds it may need Python's lock before it lets go.
  %waiting = call ptr @PyEval_SaveThread()
  call void @mutex_lock(ptr %lock_at)
  call void @PyEval_RestoreThread(ptr %waiting)
  br label %locked
locked:
  %filled = call i1 @fill(ptr %program, ptr %arguments, i64 %given)
  br i1 %filled, label %go, label %unlock
unlock:
  call void @mutex_unlock(ptr %lock_at)
  ret ptr null
go:
  %saved = call ptr @PyEval_SaveThread()
  %code = call i64 @run(ptr %program)
  call void @mutex_unlock(ptr %lock_at)
  call void @PyEval_RestoreThread(ptr %saved)
{end}
}}
"""


class _MethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x0080
_pointer = ctypes.c_void_p
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, _pointer, _pointer, _pointer)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.py_object
)(("PyCFunction_NewEx", ctypes.pythonapi))


class _Native:
    """The native functions and the pool: loaded once, and never unloaded."""

    def __init__(self) -> None:
        target = host()
        names = ["run", "nothing", "entry_keeping", "entry_releasing", *pools.EXPORTS]
        self.code = compile_module(text(target), target, names)
        self.pool = pools.Pool(self.code)
        run = self.code.address("run")
        self.run_keeping = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(run)
        self.run_releasing = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(run)
        self.fast = objects_are_as_expected()
        self.methods = {
            release: _MethodDef(b"program", self.code.address(name), _METH_FASTCALL, None)
            for release, name in ((False, "entry_keeping"), (True, "entry_releasing"))
        }
        self.start = self.pool.start
        for kept in (self, self.start):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_native: _Native | None = None
_loading = threading.Lock()


def native() -> _Native:
    """Return the native functions and the pool of this process."""
    global _native
    if _native is None:
        with _loading:
            if _native is None:
                _native = _Native()
    return _native


def objects_are_as_expected() -> bool:
    """Whether arrays and floats lie in memory as the native entry reads them: type at byte 8, content at 16.

    It is not so in a Python without its global lock, or in one built for debugging.
    """
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    word = ctypes.c_uint64.from_address
    arrays: list[np.ndarray] = [np.zeros(3), np.ones((), np.int8), np.zeros((4, 0))]
    arrays.append(np.zeros((2, 5), np.float32)[1:, ::2])
    floats = [1.5, -0.25, float(np.float64(1e300))]
    return all(
        word(id(array) + 8).value == id(np.ndarray) and word(id(array) + 16).value == array.ctypes.data
        for array in arrays
    ) and all(
        word(id(number) + 8).value == id(float)
        and ctypes.c_double.from_address(id(number) + 16).value == number
        for number in floats
    )


# --- a program, ready to be called --------------------------------------------------------------------------


def aligned(count: int) -> np.ndarray:
    """Return `count` bytes that begin on a cache line; they take no memory before they are written."""
    block = np.empty(count + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + count]


def _fixed(array: np.ndarray) -> np.ndarray:
    """A constant in order, on a cache line, and nobody's to change."""
    if array.flags.c_contiguous and not array.flags.writeable and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned(array.nbytes).view(array.dtype).reshape(array.shape) if array.size else array.copy()
    copy[...] = array
    return copy


class _Storage:
    """All memory of a program. The entry holds it, and so keeps it as long as it can be called."""

    __slots__ = ("__weakref__", "kept", "lock", "program", "times")

    def __init__(self, program: np.ndarray, times: np.ndarray, kept: Sequence[Any]) -> None:
        self.program = program
        self.times = times
        self.kept = kept
        self.lock = threading.Lock()  # for the slow entry


_storages: weakref.WeakSet[_Storage] = weakref.WeakSet()


def _unlock_all() -> None:
    """In a forked child: a lock that another thread held is held by nobody now."""
    for storage in _storages:
        storage.program[_FIELDS.index("lock")] = 0
        storage.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_all)


class Runner:
    """A program that can be called.

    table: what each entry of the table points to. steps: in order. arena: how many bytes the program needs
    for itself. externals: how many arguments a call has; each is a NumPy array (whose shape, dtype and order
    the caller vouches for) or a Python float. keep: whatever must live as long as this, the kernels'
    MachineCode first of all. release: let other Python threads run meanwhile; costs some 0.1 µs, worth it
    for long programs, and needed if a kernel calls back into Python (which must not call this same program).
    threads: how many numbers a kernel's `thread` may take, that is, how many scratch buffers there are.

    `entry(*arguments)` runs it and returns None, or the nonzero code of the kernel that failed;
    `failed` then says which step that was. It keeps everything alive that it needs, this object aside.
    """

    def __init__(
        self,
        table: Sequence[Arena | External | Constant],
        steps: Sequence[Step],
        *,
        arena: int = 0,
        externals: int = 0,
        keep: Iterable[Any] = (),
        release: bool = False,
        threads: int | None = None,
    ) -> None:
        parts = pools.threads() if threads is None else threads
        self.steps = tuple(steps)
        self.release = release
        kept_too = tuple(keep)
        _check(table, self.steps, arena, externals)
        if not release and any(isinstance(kept, PythonKernel) for kept in kept_too):
            raise ValueError("a program that calls Python must let go of Python's lock: give release=True")
        machinery = native()
        memory = self._arena = aligned(arena)
        pointers = np.zeros(max(1, len(table)), np.int64)
        fills: list[tuple[int, int, int]] = []
        constants: dict[int, np.ndarray] = {}
        for entry, place in enumerate(table):
            if isinstance(place, Arena):
                pointers[entry] = memory.ctypes.data + place.offset
            elif isinstance(place, Constant):
                if id(place.array) not in constants:
                    constants[id(place.array)] = _fixed(place.array)
                pointers[entry] = constants[id(place.array)].ctypes.data + place.offset
            else:
                fills.append((entry, place.number, place.offset))
        slots = np.array([slot for step in self.steps for slot in step.slots] or [0], np.int64)
        listed = np.zeros((max(1, len(self.steps)), _STEP_BYTES // 8), np.int64)
        first = slots.ctypes.data
        for row, step in zip(listed, self.steps, strict=False):
            grain = step.grain or max(1, step.units // (4 * parts))
            function, flags = step.function, step.flags
            if parts == 1 or (step.units <= 1 and not flags & PARTS):
                flags = SERIAL
            if step.units == 0 and not flags & PARTS:
                function = machinery.code.address("nothing")
            row[:] = function, first, step.units, grain, flags
            first += 8 * len(step.slots)
        filled = np.array(fills or [(0, 0, 0)], np.int64)
        bases = np.zeros(max(1, externals), np.int64)
        scalars = aligned(16 * max(1, externals))
        times = np.zeros(len(self.steps), np.int64)
        wants_threads = parts > 1 and any(step.flags & PARALLEL for step in self.steps)
        program = aligned(8 * len(_FIELDS)).view(np.int64)
        values = {
            "table": pointers.ctypes.data,
            "steps": listed.ctypes.data,
            "count": len(self.steps),
            "pool": machinery.pool.address,
            "parts": parts,
            "externals": externals,
            "bases": bases.ctypes.data,
            "scalars": scalars.ctypes.data,
            "fills": filled.ctypes.data,
            "fill_count": len(fills),
            "starter": id(machinery.start) if wants_threads else 0,
            "float_type": id(float),
            "array_type": id(np.ndarray),
            "type_error": id(TypeError),
            "none": id(None),
        }
        program[:] = [values.get(name, 0) for name in _FIELDS]
        kept = (memory, pointers, slots, listed, filled, bases, scalars, *constants.values(), *kept_too)
        self._storage = _Storage(program, times, kept)
        _storages.add(self._storage)
        self.entry: Callable[..., int | None] = (
            _entry(self._storage, release)
            if machinery.fast
            else _SlowEntry(self._storage, release, pointers, fills, externals, wants_threads)
        )

    def call(self, *arguments: Any) -> int | None:
        """Run the program: what `entry` does, a little slower."""
        return self.entry(*arguments)

    def settle(self) -> None:
        """Let the system have the arena's memory until the next run."""
        discard(self._arena)

    @property
    def failed(self) -> Step:
        """The step whose kernel returned nonzero last."""
        return self.steps[int(self._storage.program[_FIELDS.index("failed")])]

    def measure(self, on: bool = True) -> None:
        """Begin to add up the time that each step takes, from zero; or stop it."""
        self._storage.times[:] = 0
        self._storage.program[_FIELDS.index("runs")] = 0
        self._storage.program[_FIELDS.index("times")] = self._storage.times.ctypes.data if on else 0

    @property
    def times(self) -> list[float]:
        """Seconds for each step, on average over the runs since `measure`."""
        runs = max(1, int(self._storage.program[_FIELDS.index("runs")]))
        return [float(time) * 1e-9 / runs for time in self._storage.times]


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


def _entry(storage: _Storage, release: bool) -> Callable[..., int | None]:
    """A builtin function whose `self` leads to the program and whose module is all that must live with it."""
    capsule = _new_capsule(storage.program.ctypes.data, None, None)
    return _new_function(ctypes.byref(native().methods[release]), capsule, storage)


class _SlowEntry:
    """The same through NumPy and ctypes, for a Python whose objects are laid out otherwise."""

    def __init__(
        self,
        storage: _Storage,
        release: bool,
        pointers: np.ndarray,
        fills: list[tuple[int, int, int]],
        externals: int,
        wants_threads: bool,
    ) -> None:
        self._storage = storage
        self._pointers = pointers
        self._fills = fills
        self._externals = externals
        self._wants_threads = wants_threads
        self._run = native().run_releasing if release else native().run_keeping

    def __call__(self, *arguments: Any) -> int | None:
        if len(arguments) != self._externals:
            raise TypeError("a compiled program was called with the wrong number of arguments")
        if self._wants_threads:
            native().start()
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
                raise TypeError("a compiled program takes NumPy arrays and Python floats")
        with self._storage.lock:
            for entry, number, offset in self._fills:
                self._pointers[entry] = arrays[number].ctypes.data + offset
            code = self._run(self._storage.program.ctypes.data)
        return code or None
