"""Launching a kernel, in machine code. Enters: a kernel that the driver has loaded. Leaves: a builtin function.

The function takes a stream and addresses, and calls the driver: half of what a launch takes otherwise is spent on
bringing its arguments there.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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


@functools.cache
def _builtin() -> Builtin:
    target = host()
    text = fill(
        "launch.ll",
        **{name: 8 * place for place, name in enumerate(FIELDS)},
        attributes=target.attributes,
        wrong_number=c_string(WRONG_NUMBER),
    )
    return Builtin(b"launch", compile_module(text, target, ["launch"]), "launch")


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
    return _builtin().function(words.ctypes.data, (words, objects, owner))


def address_of(function: Any) -> int:
    """Return where a function of a library's lies."""
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found
