"""Launching kernels, in machine code. Enters: kernels that the driver has loaded. Leaves: builtin functions.

One takes a stream and addresses, and calls the driver. Another stands in the place of an op's forward, or rule: takes
arrays, finds the kernel for what is like them, makes the result's array and launches. Of a small op, what Python does
would take as long as the driver.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.devices import ALIGNMENT
from minitorch.compiler.backends.llvm.machine import compile_module
from minitorch.compiler.backends.llvm.runtime import Builtin, c_string
from minitorch.compiler.backends.llvm.target import host
from minitorch.compiler.backends.llvm.templates import fill

# A launch in memory: 8 bytes each, in this order. Of each operand follow two: which of the addresses it lies at (from 1
# on; 0: at none), and how many bytes from there.
FIELDS = (
    "driver",  # its function that launches
    "function",  # the kernel
    "blocks",
    "threads",
    "shared",  # bytes that are asked for
    "given",  # how many arguments
    "count",  # how many operands
    "prepare",  # called with the driver's code, if that is not 0: raises, or it is tried once more
    "fail",  # and then, if it is not 0 again: raises
    "type_error",
    "none",
    "operands",
)
WRONG_NUMBER = "a kernel was launched with the wrong number of addresses"
DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"  # the library


# What finds launches, in memory: Python's objects.
FINDS = (
    "entries",  # a dict: launches, each with the shape and the dtype of what it makes
    "kind",  # the class of the arrays
    "new",  # C's function that makes one that is empty inside, of the class
    "nothing",  # a tuple: the arguments of that
    "stream",  # returns the current one
    "true",
    "init",  # the name of an array's method, of a shape and a dtype
    "pointer",  # the class of an array's `data`
    # Attributes, of each: its name, what its class reads it with (C's function, or 0), and the descriptor that takes.
    # `ptr` is one of a `data`, and of a stream.
    *(
        f"{name}{part}"
        for name in ("data", "ptr", "contiguous", "shape", "dtype")
        for part in ("", "_reader", "_of")
    ),
)
# A shortcut, in memory.
SHORTCUT = (
    "finder",
    "of",  # the function that kernels are known for
    "otherwise",  # called with the same, where there is no kernel
    "busy",  # a list: while there is anything in it, that is called
)
NAMES = ("data", "ptr", "_c_contiguous", "shape", "dtype")


_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(
    ("PyType_GetSlot", ctypes.pythonapi)
)
# Python's numbers of a class's functions: which makes objects, and by which its own objects, as descriptors, are asked.
_NEW, _ASKED = 65, 54


def _reader(kind: Any, name: str) -> tuple[int, Any]:
    """Return C's function that reads an attribute of a class's objects, and what it takes first; 0 if it is unknown.

    To ask an object by a name takes Python twice as long: it looks for the same descriptor every time.
    """
    found = inspect.getattr_static(kind, name, None)
    is_known = isinstance(found, (GetSetDescriptorType, MemberDescriptorType))
    return (_slot(type(found), _ASKED), found) if is_known else (0, None)


@functools.cache
def _builtins() -> tuple[Builtin, Builtin]:
    target = host()
    text = fill(
        "launch.ll",
        **{name: 8 * place for fields in (FIELDS, FINDS, SHORTCUT) for place, name in enumerate(fields)},
        attributes=target.attributes,
        misaligned=ALIGNMENT - 1,
        wrong_number=c_string(WRONG_NUMBER),
    )
    code = compile_module(text, target, ["launch", "shortcut"])
    return Builtin(b"launch", code, "launch"), Builtin(b"shortcut", code, "shortcut", keywords=True)


class Finder:
    """Finds launches that make one array of others, by what these are like. kind: their class. pointer: their `data`'s.

    entries: by a function, the shape and the dtype of each array, and the names, values and classes of attributes, all
    in a row: the launch, and the shape and the dtype of what it makes.
    """

    def __init__(self, kind: Any, stream: Callable[[], Any], pointer: Any = None) -> None:
        self.entries: dict[Any, tuple[Callable[..., None], Any, Any]] = {}
        objects = [self.entries, kind, (), stream, True, sys.intern("_init"), pointer]
        entries, of_kind, *others = map(id, objects)
        words = [entries, of_kind, _slot(kind.__mro__[1], _NEW), *others]
        for name in map(sys.intern, NAMES):
            reader, descriptor = _reader(pointer if name == "ptr" else kind, name)
            objects += [name, descriptor]
            words += [id(name), reader, id(descriptor)]
        self._words = np.array(words, np.int64)
        self._kept = objects

    def keep(self, key: tuple[Any, ...], launch: Any, shape: Any, dtype: Any) -> None:
        """Let a launch be found: one that `launching` has returned."""
        if isinstance(launch, BuiltinFunctionType):
            self.entries[key] = launch, shape, dtype

    def shortcut(
        self, function: Callable[..., Any], otherwise: Callable[..., Any], busy: list[Any]
    ) -> Callable[..., Any]:
        """Return what does as `otherwise` does, by the kernel that is known for a function, if there is one.

        busy: while there is anything in it, `otherwise` is called.
        """
        words = np.array([self._words.ctypes.data, id(function), id(otherwise), id(busy)], np.int64)
        return _builtins()[1].function(words.ctypes.data, (self, words, function, otherwise, busy))


def launching(
    driver: int,
    function: int,
    grid: tuple[int, int, int],
    addresses: int,
    operands: Sequence[tuple[int, int]],
    prepare: Callable[[int], Any],
    fail: Callable[[int], Any],
    owner: Any,
) -> Callable[..., None]:
    """Return the function that launches a kernel, of a stream and addresses.

    driver: where the driver's function lies. grid: blocks, threads of each, bytes of shared memory. addresses: how many
    are given. operands: which address each lies at (-1: none), and how many bytes from there. prepare: gets
    the driver's code where that is not 0, and raises, or it is tried once more. fail: gets the code after that, and
    raises. owner: lives as long as the function does.
    """
    head = [driver, function, *grid, 1 + addresses, len(operands)]
    objects = [prepare, fail, TypeError, None]
    pairs = [number for at, offset in operands for number in (1 + at, offset)]
    words = np.array([*head, *map(id, objects), *pairs], np.int64)
    return _builtins()[0].function(words.ctypes.data, (words, objects, owner))


def address_of(function: Any) -> int:
    """Return where a function of a library's lies."""
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found
