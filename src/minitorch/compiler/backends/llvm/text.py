"""LLVM's language as text: names, types, constants. Enters: instructions. Leaves: the body of a function.

Text, because writing it takes a quarter of the time of building objects for it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

# The type of one element in a register; a bool is one bit there, and one byte in memory.
TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.int16): "i16",
    np.dtype(np.int8): "i8",
    np.dtype(np.uint64): "i64",
    np.dtype(np.uint32): "i32",
    np.dtype(np.uint16): "i16",
    np.dtype(np.uint8): "i8",
    np.dtype(np.bool_): "i1",
}


def vector(element: str, lanes: int) -> str:
    """Return the type of `lanes` elements side by side; one lane is the element itself.

    >>> vector("float", 16), vector("i64", 1)
    ('<16 x float>', 'i64')
    """
    return element if lanes == 1 else f"<{lanes} x {element}>"


def literal(value: Any, dtype: Any) -> str:
    """Return a constant as LLVM reads it; floats as the bits of a double, rounded to float32 first if they are such.

    >>> literal(1.5, np.dtype("f4")), literal(-3, np.dtype("i8")), literal(True, np.dtype(bool))
    ('0x3FF8000000000000', '-3', 'true')
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(dtype.type(value))))[0]:016X}"
    if dtype.kind == "b":
        return "true" if value else "false"
    return str(int(value))


def splat(constant: str, element: str, lanes: int) -> str:
    """Return a constant in all lanes.

    >>> splat("1", "i32", 2), splat("1", "i32", 1)
    ('splat (i32 1)', '1')
    """
    return constant if lanes == 1 else f"splat ({element} {constant})"


class Emitter:
    """The lines of one function while it is being written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.externs: dict[str, str] = {}  # functions called: name to its declaration
        self._count = 0

    def fresh(self, hint: str = "v") -> str:
        """Return a name nobody has used yet, without its %."""
        self._count += 1
        return f"{hint}{self._count}"

    def line(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append("  " + text)

    def op(self, text: str, hint: str = "v") -> str:
        """Write an instruction with a result, and return the result's name."""
        name = "%" + self.fresh(hint)
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        """Begin a block; jumps name it as `label %name`."""
        self.lines.append(f"{name}:")

    def call(self, name: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Call a function (an LLVM intrinsic, libm's) on (type, value) pairs, and declare it."""
        types = ", ".join(kind for kind, _ in arguments)
        self.externs[name] = f"declare {result} @{name}({types})"
        given = ", ".join(f"{kind} {value}" for kind, value in arguments)
        if result == "void":
            self.line(f"call void @{name}({given})")
            return ""
        return self.op(f"call {result} @{name}({given})")
