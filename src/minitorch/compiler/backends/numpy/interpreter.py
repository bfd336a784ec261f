"""Running a recorded program by NumPy. Enters: a Program as it was recorded. Leaves: its results, value by value.

The reference: nothing is simplified, fused or planned here, so that a mistake in any of these shows beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Program, Value, interpret
from minitorch.compiler.schedule.report import BuildReport


class Numpy:
    """The backend (see `backends.interface`)."""

    sizes_may_vary = True

    def require(self) -> None:
        """Nothing is missing: NumPy is always there."""

    def compile(
        self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()
    ) -> Interpreter:
        """Return a program as something that runs."""
        return Interpreter(program, updates, numbers)

    def made_again(self, program: Program) -> Collection[Value]:
        """Return the values that a program of gradients had better compute itself: none."""
        return ()


class Interpreter:
    """Runs a recorded program by NumPy."""

    may_fail = True  # NumPy may always say no
    report: BuildReport | None = None

    def __init__(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> None:
        self.program = program
        self.updates = dict(updates)
        self.numbers = frozenset(numbers)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it; inputs that are updated change in place."""
        outputs = [np.array(o, order="C") for o in interpret(self.program, inputs)]
        for output, target in self.updates.items():
            inputs[target][...] = outputs[output]
        return outputs

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run: there is none."""

    def measure(self, inputs: list[Any], runs: int) -> None:
        """There is no report to note times in."""

    def text(self) -> str:
        """Return the program as it was recorded."""
        return str(self.program)
