"""What a C library would be called for, where there is none. Enters: a kernel's externals. Leaves: their texts.

sin, cos and tan of numbers beyond a million, which need hundreds of bits of π, and the rest of a division.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

import numpy as np

from minitorch.compiler.backends.llvm.functions.circular import COS, HALF_PI, SIN
from minitorch.compiler.backends.llvm.functions.lanes import Lanes, multiply_add, polynomial
from minitorch.compiler.backends.llvm.text import Emitter, literal

FLOAT64 = np.dtype(np.float64)
PREFIX = "exact."  # (a bare `sin` would be an instruction)
_PADDING = 64  # bits of 0 before those of 2/π, so that a window may begin before them
_WORDS = 22  # of 64 bits: the largest number's window ends in the last but one


def supplied(externs: Mapping[str, str]) -> dict[str, str]:
    """Return a kernel's external functions, those of a C library with texts of their own and under other names."""
    wanted = {name for name in externs if name in _NAMES}
    found = {name: _renamed(text) for name, text in externs.items() if name not in wanted}
    wanted |= {name for name in _NAMES if any(f"@{PREFIX}{name}(" in text for text in found.values())}
    for name in sorted(wanted):
        found |= _texts(name)
    return found


def renamed(line: str) -> str:
    """Return a line in which a C library's functions have the names they are supplied under."""
    return _renamed(line) if "@" in line else line


_NAMES = ("sin", "cos", "tan", "sinf", "cosf", "fmod", "fmodf")


def _renamed(text: str) -> str:
    for name in _NAMES:
        text = text.replace(f"@{name}(", f"@{PREFIX}{name}(")
    return text


@functools.cache
def _texts(name: str) -> dict[str, str]:
    """The texts that one of the functions takes, by their names."""
    if name in ("fmod", "fmodf"):
        needed = {each: f"declare double @{each}" for each in _OF_FMOD}
        needed = {each.partition("(")[0]: text for each, text in needed.items()}
        needed["fmod"] = _FMOD
    else:
        base = name.removesuffix("f")
        needed = _circular(base)
    if name.endswith("f"):
        arguments = ("x", "y") if name == "fmodf" else ("x",)
        wide = "".join(f"  %wide.{a} = fpext float %{a} to double\n" for a in arguments)
        given = ", ".join(f"double %wide.{a}" for a in arguments)
        parameters = ", ".join(f"float %{a}" for a in arguments)
        needed[name] = (
            f"define internal float @{PREFIX}{name}({parameters}) nounwind {{\n{wide}"
            f"  %r = call double @{PREFIX}{name.removesuffix('f')}({given})\n"
            "  %s = fptrunc double %r to float\n  ret float %s\n}\n"
        )
    return needed


# |y| is doubled as often as it fits into |x|, and then taken off wherever it fits while it is halved again: all of that
# is exact.
_OF_FMOD = ("llvm.fabs.f64(double)", "llvm.copysign.f64(double, double)")
_FMOD = f"""define internal double @{PREFIX}fmod(double %x, double %y) nounwind {{
entry:
  %a = call double @llvm.fabs.f64(double %x)
  %b = call double @llvm.fabs.f64(double %y)
  %zero = fcmp ueq double %b, {literal(0.0, FLOAT64)}
  %large = fcmp ueq double %a, {literal(np.inf, FLOAT64)}
  %none = or i1 %zero, %large
  br i1 %none, label %undefined, label %defined
undefined:
  ret double {literal(np.nan, FLOAT64)}
defined:
  %less = fcmp olt double %a, %b
  br i1 %less, label %itself, label %up
itself:
  ret double %x
up:
  %t = phi double [ %b, %defined ], [ %twice, %up ]
  %twice = fadd double %t, %t
  %fits = fcmp ole double %twice, %a
  br i1 %fits, label %up, label %down
down:
  %u = phi double [ %t, %up ], [ %half, %down ]
  %r = phi double [ %a, %up ], [ %left, %down ]
  %takes = fcmp oge double %r, %u
  %taken = fsub double %r, %u
  %left = select i1 %takes, double %taken, double %r
  %half = fmul double %u, {literal(0.5, FLOAT64)}
  %again = fcmp oge double %half, %b
  br i1 %again, label %down, label %done
done:
  %signed = call double @llvm.copysign.f64(double %left, double %x)
  ret double %signed
}}
"""


def _circular(name: str) -> dict[str, str]:
    """sin, cos or tan of a number beyond a million: x·2/π with as many bits of 2/π as matter, in whole numbers."""
    e = Emitter()
    bits = e.op("bitcast double %x to i64")
    exponent = e.op(f"and i64 {e.op(f'lshr i64 {bits}, 52')}, 2047")
    fraction = e.op(f"and i64 {bits}, {(1 << 52) - 1}")
    mantissa = e.op(f"zext i64 {e.op(f'or i64 {fraction}, {1 << 52}')} to i192")
    # x = mantissa · 2^(exponent - 1075): bits of 2/π above this place give whole turns.
    first = e.op(f"sub i64 {exponent}, {1075 - _PADDING + 2}")
    word, shift = e.op(f"lshr i64 {first}, 6"), e.op(f"and i64 {first}, 63")
    words = []
    for k in range(4):
        place = e.op(f"getelementptr i64, ptr @{PREFIX}table, i64 {e.op(f'add i64 {word}, {k}')}")
        words.append(e.op(f"load i64, ptr {place}, align 8"))
    window = "0"
    for a, b in itertools.pairwise(words):
        part = e.call("llvm.fshl.i64", "i64", [("i64", a), ("i64", b), ("i64", shift)])
        wide = e.op(f"zext i64 {part} to i192")
        window = wide if window == "0" else e.op(f"or i192 {e.op(f'shl i192 {window}, 64')}, {wide}")
    product = e.op(f"mul i192 {mantissa}, {window}")  # quarter turns: two bits of them, then what is left
    rounded = e.op(f"add i192 {product}, {1 << 189}")
    turns = e.op(f"lshr i192 {rounded}, 190")
    rest = e.op(f"sub i192 {product}, {e.op(f'shl i192 {turns}, 190')}")
    negative = e.op(f"icmp slt i192 {rest}, 0")
    size = e.op(f"select i1 {negative}, i192 {e.op(f'sub i192 0, {rest}')}, i192 {rest}")
    total = Lanes(e, literal(0.0, FLOAT64), FLOAT64, 1)
    for begin in (48, 96, 144):  # the small ones first
        piece = e.op(f"trunc i192 {e.op(f'lshr i192 {size}, {begin}')} to i64")
        piece = e.op(f"and i64 {piece}, {(1 << 48) - 1}")
        total = Lanes(e, e.op(f"uitofp i64 {piece} to double"), FLOAT64, 1) * 2.0 ** (begin - 190) + total
    r = total * HALF_PI[0]
    r = r.made(e.op(f"select i1 {negative}, double {(-r).name}, double {r.name}"))
    square = r * r
    sine = multiply_add(square * r, polynomial(square, SIN), r)
    cosine = (square * square) * polynomial(square, COS) + (1.0 - square * 0.5)
    quarter = e.op(f"trunc i192 {turns} to i64")
    minus = e.op(f"icmp slt i64 {bits}, 0")
    if name == "tan":
        result = _turned(e, quarter, sine, cosine) / _turned(e, e.op(f"add i64 {quarter}, 1"), sine, cosine)
    elif name == "sin":
        result = _turned(e, quarter, sine, cosine)
    else:
        result = _turned(e, e.op(f"add i64 {quarter}, 1"), sine, cosine)
    text = result.name
    if name != "cos":
        text = e.op(f"select i1 {minus}, double {(-result).name}, double {text}")
    finite = e.op(f"icmp ne i64 {exponent}, 2047")
    answer = e.op(f"select i1 {finite}, double {text}, double {literal(np.nan, FLOAT64)}")
    lines = [f"define internal double @{PREFIX}{name}(double %x) nounwind {{", "entry:", *e.lines]
    table = ", ".join(f"i64 {word}" for word in _two_over_pi())
    needed = {
        f"{PREFIX}table": f"@{PREFIX}table = internal constant [{_WORDS} x i64] [{table}], align 8",
        **e.externs,
    }
    needed[name] = "\n".join([*lines, f"  ret double {answer}", "}", ""])
    return needed


def _turned(e: Emitter, quarter: str, sine: Lanes, cosine: Lanes) -> Lanes:
    """The sine after some quarter turns."""
    odd = e.op(f"icmp ne i64 {e.op(f'and i64 {quarter}, 1')}, 0")
    size = sine.made(e.op(f"select i1 {odd}, double {cosine.name}, double {sine.name}"))
    beyond = e.op(f"icmp ne i64 {e.op(f'and i64 {quarter}, 2')}, 0")
    return sine.made(e.op(f"select i1 {beyond}, double {(-size).name}, double {size.name}"))


@functools.cache
def _two_over_pi() -> tuple[int, ...]:
    """The bits of 2/π behind its point, in words, with some bits of 0 before them."""
    count = 64 * _WORDS - _PADDING
    one = 1 << (count + 64)

    def arctan_of_one_over(n: int) -> int:
        power, total, k = one // n, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    pi = 4 * (4 * arctan_of_one_over(5) - arctan_of_one_over(239))  # Machin's formula
    bits = (2 * one << count) // pi
    return tuple((bits >> (64 * (_WORDS - 1 - k))) & ((1 << 64) - 1) for k in range(_WORDS))
