"""What scheduling asks of this backend: what there is machine code for, what it costs, a CPU's cache sizes.

Enters: a value. Leaves: whether it can be written as LLVM. See `schedule.machine.Machine`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import TYPES
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import Value
from minitorch.compiler.schedule.groups import is_expressible
from minitorch.compiler.schedule.machine import Figures

CPU_FIGURES = Figures(
    serial_elements=1 << 14,  # one thread sums so many before another could have been woken
    most_blocks=32,  # more than any machine has threads for, few enough to add up by one
    column_bytes=1 << 18,  # a quarter of the cache nearest to a core (L2)
    largest_group=400,  # LLVM's own passes take too long on larger functions
    longest_epilogue=20,  # a product's tile and what is computed from it have to fit into registers
    grained_elements=4096,
    cheap=2.0,
    # Values of this many bytes leave the caches nearest to the core before they are read again: to write and read
    # one costs as much as some functions that are not cheap, together.
    far_bytes=1 << 20,
    far_cost=60.0,
    few_bytes=1 << 14,  # half of the fastest cache (L1)
    alignment=64,  # a cache line, and the widest vector
)


@dataclass(frozen=True)
class Cpu:
    """A processor, as scheduling sees it."""

    figures: Figures = CPU_FIGURES

    def of(self, target: Target) -> Cpu:
        """Return it with what is known of one: how wide the panels are that its products read."""
        vectors = max(1, target.registers // 8)
        return Cpu(replace(self.figures, panel_bytes=vectors * target.vector_bytes))

    def computes(self, value: Value) -> bool:
        """Whether there is machine code for a value; NumPy computes all others."""
        if value.dtype not in TYPES or any(i.dtype not in TYPES for i in value.inputs):
            return False
        if not is_expressible(value):
            return False
        function = value.attributes.get("function", "")
        if (
            value.primitive in ("arg_reduce", "contract", "sort", "argsort")
            and value.inputs[0].dtype in HALVES
        ):
            return False
        if value.primitive == "map":
            operand = value.inputs[0 if function == "cast" else -1]
            return functions.supported(function, operand.dtype)
        if value.primitive in ("reduce", "scan") or (value.primitive == "scatter" and function == "add"):
            return functions.supported(function, value.dtype)
        return True

    def cost(self, function: str, dtype: np.dtype) -> float:
        """Return what an elementwise function costs per element, where an addition costs 1."""
        return functions.cost(function, dtype)
