"""The backend for CPUs. Enters: a program, then inputs of any layout. Leaves: outputs, in memory that is used again.

Fresh memory is dear: the first touch of each page costs more than the arithmetic done on it. So the arrays that
results were written to are used again, but only those that nobody else holds any more.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.assemble import Assembler, NativeProgram
from minitorch.compiler.backends.llvm.target import require_llvmlite
from minitorch.compiler.ir.program import Program
from minitorch.engine.memory import release_freed

# Below this many bytes a fresh array costs less than looking for an old one.
SMALL = 1 << 15
# So many arrays are kept for one output, at most.
KEPT = 3


class ResultArrays:
    """Arrays for one output. `take` gives one that nobody else holds."""

    __slots__ = ("arrays", "dtype", "shape", "small")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.arrays: list[np.ndarray] = []
        self.small = int(np.prod(shape)) * dtype.itemsize < SMALL

    def take(self, spare: Any = None) -> np.ndarray:
        """Return an array; `spare` is one its holder is about to let go, and so may be given again."""
        if self.small:
            return np.empty(self.shape, self.dtype)
        arrays = self.arrays
        for i in range(len(arrays)):
            alone = sys.getrefcount(arrays[i])
            if alone == HELD_BY_POOL or (arrays[i] is spare and alone == HELD_BY_POOL + 2):
                return arrays[i]
        fresh = np.empty(self.shape, self.dtype)
        if len(arrays) < KEPT:
            arrays.append(fresh)
        return fresh


_probe = [np.empty(1)]
# What sys.getrefcount says of an array that only a list holds; measured, not assumed.
HELD_BY_POOL = sys.getrefcount(_probe[0])


class Llvm(Assembler):
    """The backend (see `backends.interface`)."""

    def require(self) -> None:
        """Raise ImportError, and say what to install, if llvmlite is missing."""
        require_llvmlite()

    def compile(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> Native:
        """Return a program as something that runs."""
        # A recorded run leaves holes that the program's own memory does not fit into, and LLVM leaves some more.
        release_freed()
        made = self.build(program, updates, numbers)
        release_freed()
        return Native(program, made, updates, numbers)


class Native:
    """A program as machine code, to be called with arrays (an `Executable`).

    given: the outputs that are no updates, for which `entry` takes arrays; `pools` has some for each.
    """

    def __init__(
        self,
        program: Program,
        native: NativeProgram,
        updates: Mapping[int, int],
        numbers: Collection[int],
    ) -> None:
        self.program = program
        self.native = native
        self.report = native.report
        self.entry = native.entry
        self.may_fail = native.may_fail
        self.updates = dict(updates)
        self.numbers = frozenset(numbers)
        self.given = [i for i in range(len(program.outputs)) if i not in updates]
        self.pools = {i: ResultArrays(program.outputs[i].shape, program.outputs[i].dtype) for i in self.given}

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it; inputs that are updated change in place. Returns the outputs, None for the updated ones."""
        ready = self._ready(inputs)
        outputs: list[Any] = [None] * len(self.program.outputs)
        for i in self.given:
            outputs[i] = self.pools[i].take()
        if self.entry(*ready, *(outputs[i] for i in self.given)) is not None:
            self.fail()
        for target in self.updates.values():
            if ready[target] is not inputs[target]:
                inputs[target][...] = ready[target]
        return outputs

    def _ready(self, inputs: list[Any]) -> list[Any]:
        return [
            float(a) if i in self.numbers else a if a.flags.c_contiguous else np.ascontiguousarray(a)
            for i, a in enumerate(inputs)
        ]

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run."""
        for pool in self.pools.values():
            pool.arrays.clear()
        self.native.runner.settle()
        release_freed()

    def fail(self) -> None:
        """Raise what stopped the last run: a failed check, or an error of a function that was called back."""
        self.native.explain_failure()

    def measure(self, inputs: list[Any], runs: int) -> None:
        """Run it some times, and note in the report how long each step takes."""
        outputs = [np.empty(o.shape, o.dtype) for o in map(self.program.outputs.__getitem__, self.given)]
        self.native.measure(self._ready(inputs), outputs, runs)

    def text(self) -> str:
        """Return the LLVM text of all kernels."""
        return Llvm(keep_text=True).build(self.program, self.updates, sorted(self.numbers)).report.text
