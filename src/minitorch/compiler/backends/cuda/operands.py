"""How a kernel finds its operands. Enters: what it is given. Leaves: lines that name operands and sizes."""

from __future__ import annotations

from minitorch.compiler.backends.cuda.words import Kernel
from minitorch.compiler.backends.llvm.text import Emitter


def name_sizes(kernel: Kernel) -> list[str]:
    """Give the sizes among the operands their names."""
    first = len(kernel.operands) - kernel.sizes
    return [f"  %size.{number} = add i64 %given{first + number}, 0" for number in range(kernel.sizes)]


def looked_up(entry: int) -> int:
    """Return what a kernel is given for an operand whose address it finds in memory, at `entry`, when it runs."""
    return entry - (1 << 63)


def find_operand(place: int) -> list[str]:
    """Write where an operand is: its address is given, or (a negative number) that of a place with its address."""
    given = f"%given{place}"
    return [
        f"  %inside{place} = icmp slt i64 {given}, 0",
        f"  br i1 %inside{place}, label %look{place}, label %there{place}",
        f"look{place}:",
        f"  %plain{place} = and i64 {given}, {(1 << 63) - 1}",
        f"  %entry{place} = inttoptr i64 %plain{place} to ptr",
        f"  %read{place} = load i64, ptr %entry{place}, align 8, !invariant.load !{{}}",
        f"  br label %found{place}",
        f"there{place}:",
        f"  br label %found{place}",
        f"found{place}:",
        f"  %address{place} = phi i64 [ %read{place}, %look{place} ], [ {given}, %there{place} ]",
        f"  %generic{place} = inttoptr i64 %address{place} to ptr",
    ]


def nothing_failed(e: Emitter, guard: int | None) -> list[str]:
    """Write the condition that no index was found out of range, which an operand says: none, without that operand."""
    if guard is None:
        return []
    found = e.op(f"load i64, ptr %operand{guard}, align 8")
    return [e.op(f"icmp eq i64 {found}, 0")]
