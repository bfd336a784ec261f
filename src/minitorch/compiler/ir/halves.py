"""float16 and bfloat16 as processors compute them: in float32, rounded after each step. Enters, leaves: a Program.

What lies in memory stays half as wide: inputs and outputs. In between a value is a float32 that is one of the narrow
dtype's numbers. Sums and products of matrices are added up in float32 and rounded once.
"""

from __future__ import annotations

import numpy as np

from minitorch.compiler.ir import builder
from minitorch.compiler.ir.program import COMPARISONS, LOGIC, TESTS, Program, Value
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
