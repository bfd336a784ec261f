"""A program that was recorded, and is made native when it is needed. Enters: how to make it. Leaves: an `Executable`.

What comes only once is not worth compiling: LLVM takes several times as long as recording does, and the results of the
call that is recorded are the function's own. So a program whose sizes do not vary waits for a second call. That one is
audited, as ever, which is a recording too: the program is made of it and compared with it before it is ever used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitorch.compiler.backends.interface import Executable
from minitorch.compiler.schedule.report import BuildReport

enabled = (
    True  # False: every program is made native at its first call, as who looks for mistakes there wants it
)


class MadeWhenNeeded:
    """A program that nobody has run yet (an `Executable`). Who wants to look at it, as `explain()` does, makes it."""

    numbers: frozenset[int] = frozenset()
    may_fail = True  # (nobody knows yet)

    def __init__(self, make: Callable[[], Executable]) -> None:
        self.updates: dict[int, int] = {}
        self._make = make

    @functools.cached_property
    def _made(self) -> Executable:
        return self._make()

    @property
    def report(self) -> BuildReport | None:
        """What became of the program."""
        return self._made.report

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it."""
        return self._made(inputs)

    def settle(self) -> None:
        """Nothing is held."""

    def measure(self, inputs: list[Any], runs: int) -> None:
        """Run it some times, and note in the report how long each step takes."""
        self._made.measure(inputs, runs)

    def text(self) -> str:
        """Return the code that runs, as text."""
        return self._made.text()
