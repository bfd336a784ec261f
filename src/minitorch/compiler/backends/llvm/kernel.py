"""A kernel: one function of LLVM's. Enters: its text and operands. Leaves: what it takes to compile and call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import Emitter
from minitorch.compiler.ir.sizes import Size, spelled

SCRATCH = "scratch"  # the operand that is a thread's own memory
SIZES = "sizes"  # (SIZES, sizes): the operand that has what these sizes are in a call, as i64 numbers
TABLE = "table"  # (TABLE, array): an operand that is known beforehand, or as soon as the sizes are


@dataclass
class Kernel:
    """A function named @KERNEL.

    units and scratch may vary with the sizes of a call. work: what `seconds` is proportional to.
    """

    text: str
    operands: list[Any]
    units: int
    externs: dict[str, str]
    scratch: int = 0  # bytes per thread, in the operand SCRATCH
    seconds: float = 0.0  # a rough estimate, on one thread
    flops: float = 0.0
    note: str = ""
    work: int = 1


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


def with_sizes(write: Callable[[], Kernel]) -> Kernel:
    """Write a kernel in which sizes may vary: each that it names is read from one more operand, at its beginning."""
    names: dict[Size, str] = {}
    with spelled(lambda size: names.setdefault(size, f'%"{size!s}"')):
        kernel = write()
    if not names:
        return kernel
    lines = [
        f"  %sizes.slot = getelementptr i64, ptr %slots, i64 {len(kernel.operands)}",
        "  %sizes.number = load i64, ptr %sizes.slot, align 8",
        "  %sizes.entry = getelementptr ptr, ptr %table, i64 %sizes.number",
        "  %sizes = load ptr, ptr %sizes.entry, align 8",
    ]
    for number, name in enumerate(names.values()):
        lines.append(f"  %size.{number} = getelementptr i64, ptr %sizes, i64 {number}")
        lines.append(f"  {name} = load i64, ptr %size.{number}, align 8")
    head, entry, rest = kernel.text.partition("entry:\n")
    kernel.operands.append((SIZES, tuple(names)))
    return replace(kernel, text=head + entry + "\n".join(lines) + "\n" + rest)


def _operand(e: Emitter, place: int) -> str:
    slot = e.op(f"getelementptr i64, ptr %slots, i64 {place}")
    number = e.op(f"load i64, ptr {slot}, align 8")
    entry = e.op(f"getelementptr ptr, ptr %table, i64 {number}")
    return e.op(f"load ptr, ptr {entry}, align 8", "operand")
