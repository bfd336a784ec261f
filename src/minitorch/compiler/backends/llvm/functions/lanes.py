"""Formulas that write instructions. Enters: Python arithmetic on `Lanes`. Leaves: LLVM text in an Emitter.

`x * y + 1` on Lanes writes a multiplication and an addition and stands for the sum, so that the functions
beside this file read as the mathematics they compute. Each operator is one plain instruction with the
rounding of NumPy; only `multiply_add` may be fused into one rounding, where the processor can.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.text import TYPES, Emitter, literal, splat, vector

BOOL = np.dtype(np.bool_)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# The bits of a float as a number without sign, so that shifting right fills with zeros.
BITS: dict[np.dtype, np.dtype] = {FLOAT32: np.dtype(np.uint32), FLOAT64: np.dtype(np.uint64)}

Number = float | int | bool


class Lanes:
    """Numbers side by side in a register, all of one dtype; one lane is a plain scalar."""

    __slots__ = ("dtype", "emitter", "lanes", "name")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, emitter: Emitter, name: str, dtype: Any, lanes: int) -> None:
        self.emitter = emitter
        self.name = name
        self.dtype = np.dtype(dtype)
        self.lanes = lanes

    @property
    def type(self) -> str:
        """Its type as LLVM writes it."""
        return vector(TYPES[self.dtype], self.lanes)

    @property
    def overloaded(self) -> str:
        """Its type as the name of an intrinsic ends: v8f64, i32."""
        element = f"{'f' if self.dtype.kind == 'f' else 'i'}{bit_count(self.dtype)}"
        return element if self.lanes == 1 else f"v{self.lanes}{element}"

    def made(self, name: str, dtype: Any = None) -> Lanes:
        """A result with as many lanes, and the same dtype unless another is given."""
        return Lanes(self.emitter, name, self.dtype if dtype is None else dtype, self.lanes)

    def constant(self, number: Number) -> Lanes:
        """The same number in every lane."""
        return self.made(_constant(number, self.dtype, self.lanes))

    def _text(self, other: Lanes | Number) -> str:
        return other.name if isinstance(other, Lanes) else _constant(other, self.dtype, self.lanes)

    def _write(self, instruction: str, other: Lanes | Number, flip: bool = False) -> Lanes:
        left, right = self.name, self._text(other)
        if flip:
            left, right = right, left
        return self.made(self.emitter.op(f"{instruction} {self.type} {left}, {right}"))

    def _arithmetic(self, instruction: str, other: Lanes | Number, flip: bool = False) -> Lanes:
        return self._write("f" + instruction if self.dtype.kind == "f" else instruction, other, flip)

    def __add__(self, other: Lanes | Number) -> Lanes:
        return self._arithmetic("add", other)

    def __radd__(self, other: Number) -> Lanes:
        return self._arithmetic("add", other, flip=True)

    def __sub__(self, other: Lanes | Number) -> Lanes:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: Number) -> Lanes:
        return self._arithmetic("sub", other, flip=True)

    def __mul__(self, other: Lanes | Number) -> Lanes:
        return self._arithmetic("mul", other)

    def __rmul__(self, other: Number) -> Lanes:
        return self._arithmetic("mul", other, flip=True)

    def __truediv__(self, other: Lanes | Number) -> Lanes:
        return self._write("fdiv", other)

    def __rtruediv__(self, other: Number) -> Lanes:
        return self._write("fdiv", other, flip=True)

    def __neg__(self) -> Lanes:
        if self.dtype.kind == "f":
            return self.made(self.emitter.op(f"fneg {self.type} {self.name}"))
        return 0 - self

    def __and__(self, other: Lanes | Number) -> Lanes:
        return self._write("and", other)

    def __or__(self, other: Lanes | Number) -> Lanes:
        return self._write("or", other)

    def __xor__(self, other: Lanes | Number) -> Lanes:
        return self._write("xor", other)

    def __invert__(self) -> Lanes:
        return self._write("xor", True if self.dtype == BOOL else -1)

    def __lshift__(self, other: Lanes | Number) -> Lanes:
        return self._write("shl", other)

    def __rshift__(self, other: Lanes | Number) -> Lanes:
        return self._write("ashr" if self.dtype.kind == "i" else "lshr", other)

    def quotient(self, other: Lanes | Number) -> Lanes:
        """Integers divided, rounded towards zero."""
        return self._write("sdiv" if self.dtype.kind == "i" else "udiv", other)

    def rest(self, other: Lanes | Number) -> Lanes:
        """What `quotient` leaves over."""
        return self._write("srem" if self.dtype.kind == "i" else "urem", other)

    def compare(self, how: str, other: Lanes | Number) -> Lanes:
        """Compare by `eq`, `ne`, `lt`, `le`, `gt` or `ge`; nan is unequal to everything and in no order."""
        if self.dtype.kind == "f":
            instruction = "fcmp une" if how == "ne" else f"fcmp o{how}"
        elif how in ("eq", "ne"):
            instruction = f"icmp {how}"
        else:
            instruction = f"icmp {'s' if self.dtype.kind == 'i' else 'u'}{how}"
        text = f"{instruction} {self.type} {self.name}, {self._text(other)}"
        return self.made(self.emitter.op(text), BOOL)

    def __lt__(self, other: Lanes | Number) -> Lanes:
        return self.compare("lt", other)

    def __le__(self, other: Lanes | Number) -> Lanes:
        return self.compare("le", other)

    def __gt__(self, other: Lanes | Number) -> Lanes:
        return self.compare("gt", other)

    def __ge__(self, other: Lanes | Number) -> Lanes:
        return self.compare("ge", other)

    def equals(self, other: Lanes | Number) -> Lanes:
        """Where both are equal."""
        return self.compare("eq", other)

    def differs(self, other: Lanes | Number) -> Lanes:
        """Where they are not equal; true for nan."""
        return self.compare("ne", other)

    def is_nan(self) -> Lanes:
        """Where a float is not a number."""
        return self.made(self.emitter.op(f"fcmp uno {self.type} {self.name}, {self.name}"), BOOL)

    def intrinsic(self, function: str, *others: Lanes | Number) -> Lanes:
        """Call one of LLVM's own functions that processors have an instruction for (sqrt, fabs, floor …)."""
        arguments = [(self.type, self.name), *((self.type, self._text(o)) for o in others)]
        return self.made(self.emitter.call(f"llvm.{function}.{self.overloaded}", self.type, arguments))

    def absolute(self) -> Lanes:
        """A float without its sign."""
        return self.intrinsic("fabs")

    def with_sign_of(self, other: Lanes) -> Lanes:
        """A float with another's sign, that of zeros included."""
        return self.intrinsic("copysign", other)

    def bits(self) -> Lanes:
        """A float's bits as an integer."""
        return self._reinterpret(BITS[self.dtype])

    def float_of_bits(self) -> Lanes:
        """The float that has these bits."""
        return self._reinterpret({bits: dtype for dtype, bits in BITS.items()}[self.dtype])

    def _reinterpret(self, dtype: np.dtype) -> Lanes:
        result = vector(TYPES[dtype], self.lanes)
        return self.made(self.emitter.op(f"bitcast {self.type} {self.name} to {result}"), dtype)

    def convert(self, instruction: str, dtype: Any) -> Lanes:
        """Convert by one of LLVM's conversions (fpext, sitofp, trunc …)."""
        result = vector(TYPES[np.dtype(dtype)], self.lanes)
        return self.made(self.emitter.op(f"{instruction} {self.type} {self.name} to {result}"), dtype)

    def each(self, function: str, *others: Lanes) -> Lanes:
        """Call libm's function of this name lane after lane (with an f behind its name for float32)."""
        function += "f" if self.dtype == FLOAT32 else ""
        element, operands = TYPES[self.dtype], [self, *others]
        if self.lanes == 1:
            return self.made(self.emitter.call(function, element, [(element, o.name) for o in operands]))
        result = self.constant(0).name
        for lane in range(self.lanes):
            items = [self.emitter.op(f"extractelement {o.type} {o.name}, i32 {lane}") for o in operands]
            value = self.emitter.call(function, element, [(element, item) for item in items])
            result = self.emitter.op(f"insertelement {self.type} {result}, {element} {value}, i32 {lane}")
        return self.made(result)


@functools.lru_cache(maxsize=4096)
def _constant(number: Number, dtype: np.dtype, lanes: int) -> str:
    """A number in every lane, as text. (0.0 and -0.0 are one to the cache: no formula may write the latter.)"""
    bits = bit_count(dtype)
    if dtype.kind == "u":  # LLVM's integers have no sign: write those past the middle as negative
        number = int(number) % (1 << bits)
        number -= (number >> (bits - 1)) << bits
    return splat(literal(number, np.int64 if dtype.kind == "u" else dtype), TYPES[dtype], lanes)


def bit_count(dtype: Any) -> int:
    """How many bits an element takes in a register."""
    return 1 if dtype == BOOL else 8 * np.dtype(dtype).itemsize


def where(mask: Lanes, yes: Lanes | Number, no: Lanes | Number) -> Lanes:
    """Choose lane by lane; one of the two may be a number."""
    pattern = yes if isinstance(yes, Lanes) else no
    assert isinstance(pattern, Lanes)
    yes, no = (v if isinstance(v, Lanes) else pattern.constant(v) for v in (yes, no))
    text = f"select {mask.type} {mask.name}, {pattern.type} {yes.name}, {pattern.type} {no.name}"
    return pattern.made(mask.emitter.op(text))


def multiply_add(x: Lanes, y: Lanes | Number, z: Lanes | Number) -> Lanes:
    """x·y + z, in one rounding where the processor has an instruction for it, else in two."""
    return x.intrinsic("fmuladd", y, z)


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """c₀ + c₁x + c₂x² + …, by Horner's rule."""
    *rest, highest = coefficients
    result = x.constant(highest)
    for coefficient in reversed(rest):
        result = multiply_add(result, x, coefficient)
    return result


def twice_reciprocal(y: Lanes) -> Lanes:
    """2 / y for y that is neither tiny nor huge, where the last bit does not matter if there is an instruction."""
    if y.dtype == FLOAT32 and y.lanes == 1 and "fast.reciprocal" in y.emitter.fast:
        return y.made(y.emitter.call("fast.reciprocal", "float", [("float", y.name)])) * 2.0
    return quotient(y.constant(2), y)


def quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y, by an instruction that is right to two units in the last place where the machine has one."""
    if x.dtype == FLOAT32 and x.lanes == 1 and "fast.divide" in x.emitter.fast:
        return x.made(x.emitter.call("fast.divide", "float", [("float", x.name), ("float", y.name)]))
    return x / y


def at_most(x: Lanes, limit: Number) -> Lanes:
    """The smaller of x and a number; nan stays nan."""
    if x.dtype == FLOAT32 and "maximum" in x.emitter.fast:
        return x.intrinsic("minimum", limit)
    return where(x > limit, limit, x)


def at_least(x: Lanes, limit: Number) -> Lanes:
    """The larger of x and a number; nan stays nan."""
    if x.dtype == FLOAT32 and "maximum" in x.emitter.fast:
        return x.intrinsic("maximum", limit)
    return where(x < limit, limit, x)


def through_float64(formula: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """Make a formula for float64 serve float32 too: widen, compute, round once at the end.

    Half as fast as a formula of float32's own, but right to the last bit but for rare ties; so it is for
    the functions that programs seldom spend their time in.
    """

    def widened(*operands: Lanes) -> Lanes:
        if operands[0].dtype == FLOAT64:
            return formula(*operands)
        return formula(*(o.convert("fpext", FLOAT64) for o in operands)).convert("fptrunc", FLOAT32)

    return widened
