"""float16 and bfloat16 as processors compute them: in float32, rounded after each step. Enters, leaves: a Program.

What lies in memory stays half as wide: inputs and outputs. In between a value is a float32 that is one of the narrow
dtype's numbers. Sums and products of matrices are added up in float32 and rounded once. Where there is something that
multiplies halves and adds up in float32, products read the halves themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder
from minitorch.compiler.ir.program import COMPARISONS, LOGIC, TESTS, Program, Value
from minitorch.compiler.ir.simplify import number, simplify
from minitorch.engine.dtypes import bfloat16

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
# bfloat16 is there where the package that has it is.
HALVES = [FLOAT16, *([bfloat16] if isinstance(bfloat16, np.dtype) else [])]
# What gives one of the numbers it was given, or one that float16 has because it has those.
_EXACT = {"negative", "absolute", "sign", "maximum", "minimum", "floor", "ceil", "trunc", "rint", "where"}
# What moves numbers, or tells where they stand.
_MOVES = {
    "reshape", "permute", "expand", "slice", "pad", "window", "concatenate", "gather", "sort", "argsort", "arg_reduce",
}  # fmt: skip


def widened(program: Program) -> Program:
    """Return a program in which nothing is computed in half precision; itself, if nothing is."""
    values = program.values()
    if all(value.dtype not in HALVES for value in values):
        return program
    wide: dict[Value, Value] = {}
    for value in values:
        wide[value] = _wide(value, wide)
    outputs = [builder.cast(wide[o], o.dtype) for o in program.outputs]
    return Program(program.inputs, outputs, program.guards)


def _wide(value: Value, wide: dict[Value, Value]) -> Value:
    """Return what stands for a value, in float32 if it is a half."""
    half = value.dtype in HALVES
    if value.primitive == "input":
        return builder.cast(value, FLOAT32) if half else value
    if value.primitive == "constant":
        return builder.constant(value.attributes["array"].astype(FLOAT32)) if half else value
    if not half and all(i.dtype not in HALVES for i in value.inputs):
        return _made(value, tuple(wide[i] for i in value.inputs), value.dtype)
    inputs = tuple(wide[i] for i in value.inputs)
    function = value.attributes.get("function", "")
    if value.primitive == "map" and function == "cast":
        direct = half and inputs[0].dtype == np.float64  # by way of float32 it would be rounded twice
        return _rounded(inputs[0], value.dtype) if direct else _cast(inputs[0], value.dtype)
    if value.primitive in _MOVES or function in COMPARISONS | TESTS | LOGIC:
        return _made(value, inputs, FLOAT32 if half else value.dtype)
    if value.primitive == "map" or (value.primitive == "reduce" and function in ("maximum", "minimum")):
        made = _made(value, inputs, FLOAT32)
        return made if function in _EXACT else _rounded(made, value.dtype)
    if value.primitive in ("contract", "scatter") or (value.primitive == "reduce" and function == "add"):
        return _rounded(_made(value, inputs, FLOAT32), value.dtype)
    # The rest is NumPy's, on the narrow dtype.
    given = tuple(builder.cast(wide[i], i.dtype) for i in value.inputs)
    made = _made(value, given, value.dtype)
    return builder.cast(made, FLOAT32) if half else made


def _made(value: Value, inputs: tuple[Value, ...], dtype: np.dtype) -> Value:
    if inputs == value.inputs and dtype == value.dtype:
        return value
    made = Value(value.primitive, inputs, value.attributes, value.shape, dtype)
    made.line = value.line
    return made


def _cast(x: Value, to: np.dtype) -> Value:
    return _rounded(builder.cast(x, FLOAT32), to) if to in HALVES else builder.cast(x, to)


def _rounded(x: Value, to: np.dtype) -> Value:
    return builder.cast(builder.cast(x, to), FLOAT32)


# --- products of halves -------------------------------------------------------------------------------------

# What a half is looked at through; and in a convolution, if that is a library's. Others are computed in float32.
_LOOKS = {"reshape", "permute", "expand", "slice", "concatenate"}
_WINDOWS = {"window", "pad"}


def with_products_of_halves(
    program: Program, rounds: bool, convolves: Callable[[Value], bool] = lambda product: False
) -> Program:
    """Return a program whose products read factors that are halves as such; their sums are float32 as before.

    rounds: whether products may round their factors. Then one of a half and of a float32 rounds the latter to that half
    too, if its result is rounded so anyway. convolves: whether a product of windows is a library's convolution, which
    is one of halves if its factors are and its result is rounded to them, if only after a bias was added.
    """
    if all(value.dtype not in HALVES for value in program.values()):
        return program
    program = simplify(program)
    values = program.values()
    readers: dict[Value, list[Value]] = {}
    for value in values:
        for each in value.inputs:
            readers.setdefault(each, []).append(value)
    new: dict[Value, Value] = {}
    known: dict[Value, Value | None] = {}
    for value in values:
        inputs = tuple(new[i] for i in value.inputs)
        halves = [_narrow(i, known) for i in inputs]
        if _is_cast(value) and halves[0] is not None and halves[0].dtype == value.dtype:
            new[value] = halves[0]
            continue
        if value.primitive == "contract" and value.dtype == FLOAT32 and not any(map(_is_windows, inputs)):
            dtypes = {half.dtype for half in halves if half is not None}
            rounded = rounds and _is_rounded(value, dtypes, readers, program.outputs)
            if len(dtypes) == 1 and (None not in halves or rounded):
                (dtype,) = dtypes
                inputs = tuple(
                    _rounded_below(i, dtype) if half is None else half
                    for i, half in zip(inputs, halves, strict=True)
                )
        elif value.primitive == "contract" and value.dtype == FLOAT32 and convolves(value):
            found = _of_one_dtype([_narrow_windows(i, known) for i in inputs])
            if found and _is_rounded(value, {found[0].dtype}, readers, program.outputs, {"add"}):
                new[value] = _rounded(_made(value, found, FLOAT32), found[0].dtype)
                continue
        new[value] = _made(value, inputs, value.dtype)
    return Program(program.inputs, [new[o] for o in program.outputs], program.guards)


def _narrow(value: Value, known: dict[Value, Value | None]) -> Value | None:
    """Return the half whose numbers a float32 has; None if it has others, as far as is known."""
    if value not in known:
        made = None
        if _is_cast(value) and value.dtype == FLOAT32 and value.inputs[0].dtype in HALVES:
            made = value.inputs[0]
        elif value.primitive in _LOOKS:
            inputs = tuple(half for i in value.inputs if (half := _narrow(i, known)) is not None)
            if len(inputs) == len(value.inputs) and len({half.dtype for half in inputs}) == 1:
                made = _made(value, inputs, inputs[0].dtype)
        elif value.primitive == "map" and value.dtype == FLOAT32:
            function, operands = value.attributes["function"], list(value.inputs)
            dtypes = {half.dtype for i in operands if (half := _narrow(i, known)) is not None}
            if function in _EXACT and len(dtypes) == 1:
                (dtype,) = dtypes
                given = operands[1:] if function == "where" else operands
                exact = all(_narrow(i, known) is not None or _has(dtype, number(i)) for i in given)
            else:  # only exponents change, of which bfloat16 has as many as float32
                exact = len(dtypes - {FLOAT16}) == 1 and _scales_by_a_power_of_two(value)
            made = builder.cast(value, dtypes.pop()) if exact else None
        known[value] = made
    return known[value]


def _narrow_windows(value: Value, known: dict[Value, Value | None]) -> Value | None:
    """Return the half whose numbers a factor of a convolution has; None if it has others, as far as is known."""
    if value.primitive not in _LOOKS | _WINDOWS or value.attributes.get("value", 0.0) != 0.0:
        return _narrow(value, known)
    inputs = _of_one_dtype([_narrow_windows(i, known) for i in value.inputs])
    return _made(value, inputs, inputs[0].dtype) if inputs else None


def _of_one_dtype(halves: list[Value | None]) -> tuple[Value, ...]:
    """Return halves, if all are there, and of one dtype; else none."""
    found = tuple(half for half in halves if half is not None)
    return found if len(found) == len(halves) and len({half.dtype for half in found}) == 1 else ()


def _rounded_below(value: Value, dtype: np.dtype) -> Value:
    """Return a value rounded to a half, before it is looked at in other ways: so it is rounded once for all of them."""
    if value.primitive not in _LOOKS:
        return builder.cast(value, dtype)
    return _made(value, tuple(_rounded_below(i, dtype) for i in value.inputs), dtype)


def _is_cast(value: Value) -> bool:
    return value.attributes.get("function") == "cast"


def _has(dtype: np.dtype, n: Any) -> bool:
    """Whether a number is one of a dtype's."""
    with np.errstate(all="ignore"):
        return n is not None and bool(n.astype(dtype).astype(n.dtype) == n)


def _scales_by_a_power_of_two(value: Value) -> bool:
    numbers = [number(i) for i in value.inputs] if value.attributes["function"] == "multiply" else []
    return any(n is not None and abs(np.frexp(n)[0]) == 0.5 for n in numbers)


def _is_windows(value: Value) -> bool:
    while value.primitive in _LOOKS:
        value = value.inputs[0]
    return value.primitive == "window"


def _is_rounded(
    value: Value,
    dtypes: set[np.dtype],
    readers: dict[Value, list[Value]],
    outputs: Sequence[Value],
    before: Collection[str] = (),
) -> bool:
    """Whether a value is read only to be rounded to one of some dtypes, perhaps multiplied by a number before.

    before: what else may come before.
    """
    if value in outputs:
        return False
    for reader in readers.get(value, ()):
        if _is_cast(reader):
            if reader.dtype not in dtypes:
                return False
            continue
        scales = reader.attributes.get("function") == "multiply" and any(
            number(i) is not None for i in reader.inputs
        )
        known = scales or reader.primitive in _LOOKS or reader.attributes.get("function") in before
        if not known or not _is_rounded(reader, dtypes, readers, outputs, before):
            return False
    return True
