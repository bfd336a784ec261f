"""Launching what is known for arrays like these, in machine code. Enters: sequences of steps. Leaves: shortcuts.

A shortcut stands in the place of an op's forward, or rule: takes arrays and numbers, finds the steps for what is like
them, makes the results' arrays and launches. Of a small op, what Python does would take as long as the driver.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.steps import NUMBERS, builtins

DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"  # the library
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


class Finder:
    """Finds steps that make arrays of others, by what these are like. kind: their class. pointer: their `data`'s.

    entries: by a function, the shape and the dtype of each array, the class and the value of each number, and the
    names, values and classes of attributes, all in a row: what runs the steps; shapes and dtypes of arrays that it
    takes besides; and how many of these are results (-1: of one, which is returned alone).
    """

    def __init__(self, kind: Any, stream: Callable[[], Any], pointer: Any = None) -> None:
        self.entries: dict[Any, tuple[Callable[..., None], tuple[Any, ...], int]] = {}
        objects = [self.entries, kind, (), stream, True, sys.intern("_init"), pointer, *NUMBERS]
        entries, of_kind, *others = map(id, objects[: -len(NUMBERS)])
        words = [entries, of_kind, _slot(kind.__mro__[1], _NEW), *others]
        for name in map(sys.intern, NAMES):
            reader, descriptor = _reader(pointer if name == "ptr" else kind, name)
            objects += [name, descriptor]
            words += [id(name), reader, id(descriptor)]
        self._words = np.array([*words, *map(id, (Exception, *NUMBERS))], np.int64)
        self._kept = objects

    def keep(
        self, key: tuple[Any, ...], run: Callable[..., None], made: Sequence[tuple[Any, Any]], results: int
    ) -> None:
        """Let steps be found: those that `in_a_row` has returned. made: the arrays that they take besides."""
        if isinstance(run, BuiltinFunctionType):
            self.entries[key] = run, tuple([part for each in made for part in each]), results

    def shortcut(
        self, function: Callable[..., Any], otherwise: Callable[..., Any], busy: list[Any]
    ) -> Callable[..., Any]:
        """Return what does as `otherwise` does, by the steps that are known for a function, if there are some.

        busy: while there is anything in it, `otherwise` is called.
        """
        words = np.array([self._words.ctypes.data, id(function), id(otherwise), id(busy)], np.int64)
        return builtins()[1].function(words.ctypes.data, (self, words, function, otherwise, busy))
