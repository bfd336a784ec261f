"""Running a native program on arrays. Enters: inputs of any layout. Leaves: outputs, in memory that is used again.

Fresh memory is dear: the first touch of each page costs more than the arithmetic done on it. So the arrays that
results were written to are used again, but only those that nobody else holds any more.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.assemble import build
from minitorch.compiler.ir.program import Program
from minitorch.compiler.trace.refusal import Refused
from minitorch.engine.memory import release_freed

# Below this many bytes a fresh array costs less than looking for an old one.
SMALL = 1 << 15
# So many arrays are kept for one output, at most.
KEPT = 3


class Pool:
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


class Native:
    """A program as machine code, to be called with arrays."""

    def __init__(
        self, program: Program, updates: Mapping[int, int], fuse: bool = True, numbers: Sequence[int] = ()
    ) -> None:
        # A recorded run leaves holes that the program's own memory does not fit into, and LLVM leaves some more.
        release_freed()
        self.native = build(program, updates=updates, fuse=fuse, numbers=numbers)
        release_freed()
        self.report = self.native.report
        self.entry = self.native.entry
        self.may_fail = self.native.may_fail
        self.updates = dict(updates)
        self.numbers = frozenset(numbers)
        self.given = [i for i in range(len(program.outputs)) if i not in updates]
        self.pools = {i: Pool(program.outputs[i].shape, program.outputs[i].dtype) for i in self.given}
        self.count = len(program.outputs)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it; inputs that are updated change in place. Returns the outputs, None for the updated ones."""
        ready = [
            float(a) if i in self.numbers else a if a.flags.c_contiguous else np.ascontiguousarray(a)
            for i, a in enumerate(inputs)
        ]
        outputs: list[Any] = [None] * self.count
        for i in self.given:
            outputs[i] = self.pools[i].take()
        if self.entry(*ready, *(outputs[i] for i in self.given)) is not None:
            self.fail()
        for target in self.updates.values():
            if ready[target] is not inputs[target]:
                inputs[target][...] = ready[target]
        return outputs

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run."""
        self.native.runner.settle()
        release_freed()

    def fail(self) -> None:
        """Raise what stopped the last run: a failed check, or an error of a function that was called back."""
        try:
            self.native.explain_failure()
        except IndexError as error:
            raise Refused(str(error)) from None
