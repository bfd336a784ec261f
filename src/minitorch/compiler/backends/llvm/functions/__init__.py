"""Elementwise functions as instructions. Enters: a function's name, operands. Leaves: LLVM text.

Results are NumPy's: for integers and for + - × ÷ √ and comparisons to the bit; for the other functions of
floats within one or two units in the last place, with NumPy's answers for ±0, ±inf and nan.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.functions import (
    circular,
    exponential,
    hyperbolic,
    integer,
    plain,
    power,
)
from minitorch.compiler.backends.llvm.functions.lanes import BOOL, FLOAT32, Lanes, where
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, splat
from minitorch.compiler.ir import program
from minitorch.compiler.ir.halves import HALVES

FLOATS: dict[str, Callable[..., Lanes]] = {
    **plain.FLOATS,
    **exponential.FLOATS,
    **power.FLOATS,
    **hyperbolic.FLOATS,
    **circular.FLOATS,
}


def emit_function(
    e: Emitter,
    name: str,
    operands: list[str],
    dtype: np.dtype,
    lanes: int,
    *,
    to: np.dtype | None = None,
) -> str:
    """Write the instructions of one elementwise function; return the result's name.

    name: one of `program.FUNCTIONS`. operands: names, or constants (one number stands for all lanes).
    dtype: the operands' dtype; for `where` that of its two branches, while its first operand is a bool.
    lanes: how many elements a vector holds; 1 is a scalar. to: for `cast`, the result's dtype.
    A bool is one bit per lane.

    >>> e = Emitter()
    >>> emit_function(e, "add", ["%x", "1"], np.dtype("i4"), 4)
    '%v1'
    >>> print(*e.lines)
      %v1 = add <4 x i32> %x, splat (i32 1)
    """
    dtype = np.dtype(dtype)
    kinds = [BOOL, dtype, dtype] if name == "where" else [dtype] * len(operands)
    given = [_lanes(e, text, kind, lanes) for text, kind in zip(operands, kinds, strict=True)]
    if name == "where":
        return where(*given).name
    if name == "cast":
        assert to is not None, "cast needs the dtype to cast to"
        return plain.cast(given[0], np.dtype(to)).name
    if name == "power":
        known = plain.power_of_known(given[0], _number(operands[1], dtype))
        if known is not None:
            return known.name
    return _table(dtype)[name](*given).name


def supported(name: str, dtype: np.dtype) -> bool:
    """Whether a function of operands of a dtype can be compiled; NumPy does all others.

    That NumPy has it for this dtype, without casting first, is a condition: a sum of bools is compiled,
    their difference is an error there. So are negative powers of integers, which only their values tell.

    >>> supported("exp", np.dtype("f4")), supported("exp", np.dtype("i4")), supported("exp", np.dtype("f2"))
    (True, False, False)
    """
    return _supported(name, np.dtype(dtype))


def _ufunc(name: str) -> Any:
    """Return the ufunc of a function's operands and dtypes; erf, which is none, has those of exp."""
    return np.exp if name == "erf" else program.numpy_function(name)


@functools.cache
def _supported(name: str, dtype: np.dtype) -> bool:
    if dtype not in TYPES:
        return False
    if name in ("where", "cast"):
        return True
    if dtype in HALVES:
        return False
    if name not in _table(dtype) or (name == "power" and dtype.kind == "i"):
        return False
    result = BOOL if name in program.COMPARISONS | program.TESTS | program.LOGIC else dtype
    function = _ufunc(name)
    try:
        resolved = function.resolve_dtypes((*([dtype] * function.nin), None))
    except TypeError:
        return False
    return resolved == (*([dtype] * function.nin), result)


def _table(dtype: np.dtype) -> dict[str, Callable[..., Lanes]]:
    if dtype.kind == "f":
        return FLOATS
    return integer.BOOLS if dtype == BOOL else integer.INTEGERS


def _lanes(e: Emitter, text: str, dtype: np.dtype, lanes: int) -> Lanes:
    """An operand; a constant of one number is spread over the lanes."""
    if lanes > 1 and not text.startswith(("%", "<", "splat", "zeroinitializer")):
        text = splat(text, TYPES[dtype], lanes)
    return Lanes(e, text, dtype, lanes)


def _number(text: str, dtype: np.dtype) -> float | int | None:
    """The number that an operand is, if it is a constant with the same number in every lane."""
    if text.startswith("%"):
        return None
    if text == "zeroinitializer":
        return 0
    if text.startswith(("<", "splat")):
        words = set(re.findall(r"(?:0x[0-9A-Fa-f]+|-?\d+(?:\.\d+(?:e[+-]?\d+)?)?)(?=[,>)])", text))
        if len(words) != 1:
            return None
        text = words.pop()
    if text.startswith("0x"):
        return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
    return float(text) if dtype.kind == "f" else int(text)


# --- what they cost -----------------------------------------------------------------------------------

# How many additions an instruction takes the time of; those not named here take one.
_SLOW = {
    "fdiv": 5.0,
    "llvm.sqrt": 5.0,
    "sdiv": 20.0,
    "udiv": 20.0,
    "srem": 20.0,
    "urem": 20.0,
    "bitcast": 0.0,
}
_LIBM_CALL = 60.0
_INSTRUCTION = re.compile(r"= (?:call \w+ @)?((?:llvm\.)?[a-z0-9]+)")


def cost(name: str, dtype: np.dtype) -> float:
    """Return roughly what a function costs per element, where an addition of this dtype costs 1.

    Counted from the instructions that are written for it.

    >>> cost("add", np.dtype("f4"))
    1.0
    """
    return _cost(name, np.dtype(dtype))


@functools.cache
def _cost(name: str, dtype: np.dtype) -> float:
    if name in ("where", "cast") or not supported(name, dtype):
        return 1.0
    e = Emitter()
    function = _ufunc(name)
    emit_function(e, name, [f"%{operand}" for operand in range(function.nin)], dtype, 1)
    lines = list(e.lines)
    own = [text for text in e.externs.values() if text.startswith("define")]
    for text in own:  # up to where the exact, slow part begins
        lines += text.partition("\nexact:")[0].splitlines()[1:]
    total = 0.0
    for line in lines:
        found = _INSTRUCTION.search(line)
        if found is None:
            continue
        word = found[1]
        called = "call " in line and not word.startswith("llvm.")
        price = (0.0 if own else _LIBM_CALL) if called else _SLOW.get(word, 1.0)
        total += price * (2 if dtype == FLOAT32 and "double" in line else 1)
    return max(total, 1.0)
