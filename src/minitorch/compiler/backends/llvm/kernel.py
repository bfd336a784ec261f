"""A kernel: one function of LLVM's. Enters: its text and operands. Leaves: what it takes to compile and call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import Emitter

SCRATCH = "scratch"  # the operand that is a thread's own memory


@dataclass
class Kernel:
    """A function named @KERNEL."""

    text: str
    operands: list[Any]
    units: int
    externs: dict[str, str]
    scratch: int = 0  # bytes per thread, in the operand SCRATCH
    seconds: float = 0.0  # a rough estimate, on one thread
    flops: float = 0.0
    note: str = ""


def begin_kernel(e: Emitter, target: Target, operands: Sequence[Any]) -> list[str]:
    """Write the head of a kernel, and the lookup of its operands' addresses; return their names."""
    parameters = "ptr %table, ptr %slots, i64 %start, i64 %stop, i64 %thread"
    e.lines.append(f"define i64 @KERNEL({parameters}) {target.attributes} {{")
    e.label("entry")
    return [_operand(e, place) for place in range(len(operands))]


def end_kernel(e: Emitter) -> str:
    """Close a kernel's function, and return its text."""
    e.lines.append("}")
    return "\n".join(e.lines) + "\n"


def _operand(e: Emitter, place: int) -> str:
    slot = e.op(f"getelementptr i64, ptr %slots, i64 {place}")
    number = e.op(f"load i64, ptr {slot}, align 8")
    entry = e.op(f"getelementptr ptr, ptr %table, i64 {number}")
    return e.op(f"load ptr, ptr {entry}, align 8", "operand")
