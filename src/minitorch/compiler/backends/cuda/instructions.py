"""Instructions of a GPU's own, by name. Enters: nothing. Leaves: what each is there, and in its place on a CPU."""

from __future__ import annotations

import re

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.text import TYPES, Emitter
from minitorch.compiler.ir.halves import FLOAT16, FLOAT32, HALVES
from minitorch.engine.dtypes import bfloat16


def _packing(half: np.dtype, name: str) -> str:
    """Return a function that has two float32 in one register as halves, the first in its lower bits."""
    e = Emitter()
    e.label("entry")
    bits = [functions.emit_function(e, "cast", [each], FLOAT32, 1, to=half) for each in ("%x", "%y")]
    low, high = (e.op(f"zext i16 {each} to i32") for each in bits)
    both = e.op(f"or i32 {low}, {e.op(f'shl i32 {high}, 16')}")
    head = f"define internal i32 @{name}(float %x, float %y) nounwind {{"
    return "\n".join([head, *e.lines, f"  ret i32 {both}", "}"])


def _converting(name: str, given: np.dtype, to: np.dtype) -> str:
    """Return a function between a float32 and a half's bits that does as GPUs do: every nan becomes the same one."""
    e, narrows = Emitter(), given == FLOAT32
    e.label("entry")
    number = functions.emit_function(e, "cast", ["%x"], given, 1, to=to)
    wide, nan = ("%x", "32767") if narrows else (number, "0x7FFFFFFFE0000000")
    found = e.op(
        f"select i1 {e.op(f'fcmp uno float {wide}, {wide}')}, {TYPES[to]} {nan}, {TYPES[to]} {number}"
    )
    head = f"define internal {TYPES[to]} @{name}({TYPES[given]} %x) nounwind {{"
    return "\n".join([head, *e.lines, f"  ret {TYPES[to]} {found}", "}"])


# Instructions that are right to two units in the last place, and what they are elsewhere.
INSTRUCTIONS = {
    "fast.exp2": (
        'asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"',
        "declare float @llvm.exp2.f32(float)\n"
        "define internal float @fast.exp2(float %x) nounwind {\n"
        "  %r = call float @llvm.exp2.f32(float %x)\n  ret float %r\n}",
    ),
    "fast.reciprocal": (
        'asm "rcp.approx.ftz.f32 $0, $1;", "=f,f"',
        "define internal float @fast.reciprocal(float %x) nounwind {\n"
        "  %r = fdiv float 1.0, %x\n  ret float %r\n}",
    ),
    # TF32 has ten bits, the others are cut off: about half of what that takes away is added before. (A number that has
    # no more bits stays what it is, and so do infinities and nans.)
    "fast.tf32": (
        'asm "mul.rn.f32 $0, $1, 0f3F800B8B;", "=f,f"',
        "define internal float @fast.tf32(float %x) nounwind {\n  ret float %x\n}",
    ),
    # Two halves in one register, the first in its lower bits.
    "fast.pack_bfloat16": (
        'asm "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f"',
        _packing(bfloat16, "fast.pack_bfloat16") if bfloat16 in HALVES else "",
    ),
    "fast.pack_float16": (
        'asm "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f"',
        _packing(np.dtype(np.float16), "fast.pack_float16"),
    ),
    "fast.divide": (
        'asm "div.full.f32 $0, $1, $2;", "=f,f,f"',
        "define internal float @fast.divide(float %x, float %y) nounwind {\n"
        "  %r = fdiv float %x, %y\n  ret float %r\n}",
    ),
}
# A float32 as a half's bits and back, right to the bit but for nans, which all become the same one: LLVM's two
# conversions (it knows which instructions a processor has for them), and what they are elsewhere.
CONVERSIONS = {
    "fast.to_bfloat16": (
        ("fptrunc float {} to bfloat", "bitcast bfloat {} to i16"),
        _converting("fast.to_bfloat16", FLOAT32, bfloat16) if bfloat16 in HALVES else "",
    ),
    "fast.to_float16": (
        ("fptrunc float {} to half", "bitcast half {} to i16"),
        _converting("fast.to_float16", FLOAT32, FLOAT16),
    ),
    "fast.from_float16": (
        ("bitcast i16 {} to half", "fpext half {} to float"),
        _converting("fast.from_float16", FLOAT16, FLOAT32),
    ),
}
CONVERTED = re.compile(r"  (\S+) = call \w+ @(fast\.\w+)\(\w+ (\S+)\)")
FAST = ("maximum", "fast.exp2", "fast.reciprocal", "fast.divide", *CONVERSIONS)
# By name, what instructions are on a CPU.
ON_A_CPU = {name: text for name, (_, text) in (*INSTRUCTIONS.items(), *CONVERSIONS.items())}
# What a warp multiplies matrices by; slots: as of `Together` in words.py.
PRODUCTS = {
    "multiply": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "multiply_bfloat16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "multiply_float16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
}
