"""What scheduling asks of a GPU: what there are kernels for, what that costs, how much it does side by side.

Enters: a value. Leaves: whether it can be written as a kernel. See `schedule.machine.Machine`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitorch.compiler.backends.cuda.products import LEAST_MULTIPLICATIONS, is_small
from minitorch.compiler.backends.cuda.sorting import is_sorted_here
from minitorch.compiler.backends.llvm.capabilities import Cpu
from minitorch.compiler.backends.llvm.text import TYPES
from minitorch.compiler.ir.program import Value
from minitorch.compiler.schedule.groups import SORTS, is_expressible
from minitorch.compiler.schedule.machine import Figures

GPU_FIGURES = Figures(
    serial_elements=1 << 13,  # one block sums so many before another kernel could have begun
    most_blocks=264,  # two for each multiprocessor of the largest GPUs
    column_bytes=1 << 18,  # one thread for each column sums fewer without much waiting
    largest_group=200,
    longest_epilogue=20,
    grained_elements=4096,
    cheap=4.0,
    far_bytes=1 << 16,  # a kernel leaves nothing in registers: all it stores is far
    far_cost=60.0,
    far_inputs=1 << 62,  # (a product that is finished by a kernel of ours is small)
    few_bytes=1 << 14,
    alignment=256,
    columns_apart=True,  # threads of a row wait for each other; those of columns need not
    alone_from=LEAST_MULTIPLICATIONS,  # such a product may be a library's
    is_small=is_small,
    rows_of_a_block=8,
    most_long_rows=1 << 13,
    columns_of_a_block=256,  # its threads: with more columns, a thread for each is more of them
    finishes=True,
    reads_padded=True,  # (a kernel that brings factors to where a library wants them does that, too)
    keeps_rows=False,  # each thread of a row computes it, in each pass
)

# What memory can add to by itself while other threads do too.
ATOMIC = {np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64)}


@dataclass(frozen=True)
class Gpu(Cpu):
    """A GPU, as scheduling sees it: elementwise functions are written by the same formulas as for a CPU."""

    figures: Figures = GPU_FIGURES

    def computes(self, value: Value) -> bool:
        """Whether there is a kernel for a value: as for a CPU, for products of halves, summed in float32, for sorts."""
        if value.primitive == "contract" and value.dtype == np.float32:
            return is_expressible(value) and all(i.dtype in TYPES for i in value.inputs)
        return is_sorted_here(value) if value.primitive in SORTS else super().computes(value)
