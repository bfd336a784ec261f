"""The native functions that run programs. Enters: this machine. Leaves: the functions, loaded once, and the pool.

`templates/program.ll` has a function that walks a program's steps, and the builtin function that Python calls. The
latter reads the arrays' addresses out of the array objects itself, since asking for `array.ctypes.data` costs more
than the whole call; whether they lie there is looked up beforehand.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm import threads
from minitorch.compiler.backends.llvm.machine import MachineCode, compile_module
from minitorch.compiler.backends.llvm.target import Target, host
from minitorch.compiler.backends.llvm.templates import fill

# A program in memory: 8 bytes each, in this order.
FIELDS = (
    "table",  # the pointers
    "steps",  # STEP_BYTES each
    "count",  # of steps
    "times",  # nanoseconds per step, added up; or 0
    "runs",  # how often it ran while times were taken
    "pool",
    "most_threads",  # how many numbers a kernel's `thread` may take
    "failed",  # the step that returned nonzero
    "lock",  # an i32: held while it runs without Python's lock
    "releases",  # 1: lets go of Python's lock while it runs
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
STEP_BYTES = 40  # function, slots, units, grain, parallel
WRONG_NUMBER = "a compiled program was called with the wrong number of arguments"
WRONG_TYPE = "a compiled program takes NumPy arrays and Python floats"


def text(target: Target) -> str:
    """Return the functions that run programs, and the pool's, as one module of LLVM text.

    run: walk the steps. entry: the builtin function for Python. nothing: a kernel without work.
    """
    program = fill(
        "program.ll",
        **{name: 8 * place for place, name in enumerate(FIELDS)},
        attributes=target.attributes,
        pool_threads=threads.THREADS_OFFSET,
        step_size=STEP_BYTES,
        wrong_number=c_string(WRONG_NUMBER),
        wrong_type=c_string(WRONG_TYPE),
    )
    return threads.text(target) + program


def c_string(message: str) -> str:
    r"""Return a constant as C has it.

    >>> print(c_string("no"))
    [3 x i8] c"no\00"
    """
    return f'[{len(message) + 1} x i8] c"{message}\\00"'


class _MethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL, _METH_KEYWORDS = 0x0080, 0x0002
_pointer = ctypes.c_void_p
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, _pointer, _pointer, _pointer)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.py_object
)(("PyCFunction_NewEx", ctypes.pythonapi))


class Builtin:
    """Machine code as builtin functions of Python's (METH_FASTCALL); it is never unloaded.

    keywords: whether it takes arguments by their names too (METH_KEYWORDS).
    """

    def __init__(self, name: bytes, code: MachineCode, entry: str, keywords: bool = False) -> None:
        self._kept = code
        flags = _METH_FASTCALL | _METH_KEYWORDS if keywords else _METH_FASTCALL
        self._method = _MethodDef(name, code.address(entry), flags, None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def function(self, memory: int, owner: object) -> Callable[..., Any]:
        """Return a function whose `self` leads to some memory and whose module is all that must live with it."""
        return _new_function(ctypes.byref(self._method), _new_capsule(memory, None, None), owner)


class Runtime:
    """The native functions and the pool: loaded once, and never unloaded."""

    def __init__(self) -> None:
        target = host()
        self.code = compile_module(text(target), target, ["run", "nothing", "entry", *threads.EXPORTS])
        self.pool = threads.ThreadPool(self.code)
        run = self.code.address("run")
        self.run_keeping = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(run)
        self.run_releasing = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(run)
        self.fast = objects_are_as_expected()
        self.entry = Builtin(b"program", self.code, "entry").function  # of a program, and its owner
        self.start = self.pool.start
        for kept in (self, self.start):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_runtime: Runtime | None = None
_loading = threading.Lock()


def runtime() -> Runtime:
    """Return the native functions and the pool of this process."""
    global _runtime
    if _runtime is None:
        with _loading:
            if _runtime is None:
                _runtime = Runtime()
    return _runtime


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
