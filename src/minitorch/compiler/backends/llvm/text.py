"""LLVM's language as text: names, types, constants. Enters: instructions. Leaves: the body of a function.

Text, because writing it takes a quarter of the time of building objects for it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

import numpy as np

from minitorch.compiler.ir.halves import HALVES

# The type of one element in a register; a bool is one bit there, and one byte in memory. A float16, or bfloat16, is its
# bits: it is moved and cast, and nothing is computed in it.
TYPES = {
    **dict.fromkeys(HALVES, "i16"),
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
    if dtype in HALVES:
        return str(int(np.asarray(value, dtype).view(np.int16)))
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


def memory_type(dtype: np.dtype) -> str:
    """Return the type of an element in memory."""
    return "i8" if dtype.kind == "b" else TYPES[dtype]


def suffix(element: str, lanes: int) -> str:
    """Return how intrinsics spell a vector type.

    >>> suffix("float", 16), suffix("i8", 4)
    ('v16f32', 'v4i8')
    """
    short = {"float": "f32", "double": "f64"}.get(element, element)
    return f"v{lanes}{short}" if lanes > 1 else short


def first_lanes(count: int, lanes: int) -> str:
    """Return the mask of the first `count` lanes.

    >>> first_lanes(1, 2)
    '<i1 true, i1 false>'
    """
    return "<" + ", ".join(f"i1 {'true' if lane < count else 'false'}" for lane in range(lanes)) + ">"


def multiples(factor: int, lanes: int) -> str:
    """Return 0, factor, 2·factor … as a vector of i64.

    >>> multiples(3, 2)
    '<i64 0, i64 3>'
    """
    return "<" + ", ".join(f"i64 {lane * factor}" for lane in range(lanes)) + ">"


class Emitter:
    """The lines of one function while it is being written.

    fast: the instructions, by name, that the machine has for a function of its own (see cuda/instructions.py).
    """

    def __init__(self, fast: Collection[str] = ()) -> None:
        self.fast = fast
        self.lines: list[str] = []
        self.externs: dict[str, str] = {}  # functions called: name to its declaration
        self.block = ""  # the one being written
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
        self.block = name

    def call(self, name: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Call a function (an LLVM intrinsic, libm's) on (type, value) pairs, and declare it."""
        types = ", ".join(kind for kind, _ in arguments)
        self.externs[name] = f"declare {result} @{name}({types})"
        given = ", ".join(f"{kind} {value}" for kind, value in arguments)
        if result == "void":
            self.line(f"call void @{name}({given})")
            return ""
        return self.op(f"call {result} @{name}({given})")

    def spread(self, name: str, element: str, lanes: int) -> str:
        """Put one element into all lanes."""
        if lanes == 1:
            return name
        kind = vector(element, lanes)
        first = self.op(f"insertelement {kind} poison, {element} {name}, i64 0")
        return self.op(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def masked_load(
        self,
        element: str,
        lanes: int,
        pointer: str,
        align: int,
        mask: str,
        otherwise: str = "zeroinitializer",
    ) -> str:
        """Load neighbours where a mask says so; memory is not touched elsewhere."""
        kind = vector(element, lanes)
        return self.call(
            f"llvm.masked.load.{suffix(element, lanes)}.p0",
            kind,
            [("ptr", pointer), ("i32", str(align)), (vector("i1", lanes), mask), (kind, otherwise)],
        )

    def gather(self, element: str, lanes: int, pointers: str, align: int, mask: str | None) -> str:
        """Load elements from here and there."""
        kind = vector(element, lanes)
        return self.call(
            f"llvm.masked.gather.{suffix(element, lanes)}.v{lanes}p0",
            kind,
            [
                (vector("ptr", lanes), pointers),
                ("i32", str(align)),
                (vector("i1", lanes), mask or splat("true", "i1", lanes)),
                (kind, "zeroinitializer"),
            ],
        )

    def masked_store(self, element: str, lanes: int, value: str, pointer: str, align: int, mask: str) -> None:
        """Store neighbours where a mask says so."""
        self.call(
            f"llvm.masked.store.{suffix(element, lanes)}.p0",
            "void",
            [
                (vector(element, lanes), value),
                ("ptr", pointer),
                ("i32", str(align)),
                (vector("i1", lanes), mask),
            ],
        )

    def scatter(
        self, element: str, lanes: int, value: str, pointers: str, align: int, mask: str | None
    ) -> None:
        """Store elements here and there."""
        self.call(
            f"llvm.masked.scatter.{suffix(element, lanes)}.v{lanes}p0",
            "void",
            [
                (vector(element, lanes), value),
                (vector("ptr", lanes), pointers),
                ("i32", str(align)),
                (vector("i1", lanes), mask or splat("true", "i1", lanes)),
            ],
        )
