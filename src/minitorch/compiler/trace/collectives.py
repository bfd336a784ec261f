"""Collectives in a program. Enters: an exchange of arrays between ranks (distributed/exchange.py), and Traced arrays.
Leaves: two values, a start and a wait, that do at every call of the program what was done in the recorded run.

Starts are chained, each made from the one before: whatever else a scheduler moves, all ranks begin the same collectives
in the same order, compiled or not. A wait is made from its start, and comes as late as it can.

A new program is run beside the recorded run to see whether both agree (call/verify.py). Nobody else is asked then: what
the collective gave in the recorded run is given again, moved as far as what it is given has moved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.recording import is_rehearsing

TOKEN = np.zeros((), np.int8)


class Collective:
    """One collective of a program: begun by `start`, ended by `wait`, at every call."""

    def __init__(self, exchange: Any) -> None:
        self.exchange = exchange
        self._under_way: deque[Any] = deque()
        self._given: list[np.ndarray] = []
        self._gave: np.ndarray | None = None

    def start(self, token: Any, *arrays: Any) -> np.ndarray:
        """Begin; the arrays may be overwritten as soon as this returns."""
        if is_rehearsing():
            self._under_way.append(_Rehearsed(self._as_it_was(arrays)))
        else:
            self._under_way.clear()  # of a run that failed between the two
            self._under_way.append(self.exchange.start_now([np.array(each) for each in arrays]))
        return TOKEN

    def wait(self, token: Any) -> np.ndarray:
        """Return the result."""
        found = self._under_way.popleft().wait()
        return found[0] if found else TOKEN

    def recorded(self, arrays: Sequence[np.ndarray]) -> Any:
        """Begin for the first time, and remember what was given."""
        self._given = [np.array(each) for each in arrays]
        return self.exchange.start_now(arrays)

    def gave(self, array: np.ndarray) -> None:
        """Remember what came out."""
        self._gave = np.array(array)

    def forget(self) -> None:
        """Let go of the arrays of the recorded run."""
        self._given, self._gave = [], None

    def _as_it_was(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        if self._gave is None:  # it was never waited for, or is measured later on
            return TOKEN if not arrays else np.array(arrays[0])
        if len(arrays) != 1 or arrays[0].shape != self._gave.shape or self._gave.dtype.kind not in "fc":
            return self._gave.copy()
        with np.errstate(all="ignore"):
            apart = arrays[0] - self._given[0]
            return self._gave + np.where(np.isfinite(apart), apart, 0).astype(self._gave.dtype)


class _Rehearsed:
    """What stands for a collective under way when a program is only tried."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def wait(self) -> tuple[np.ndarray, ...]:
        """Return the result."""
        return (self.array,)


class RecordedPending:
    """A collective under way in the recorded run, and in the program."""

    def __init__(self, collective: Collective, token: Traced, pending: Any) -> None:
        self._collective = collective
        self._token = token
        self._pending = pending
        self._results: tuple[Traced, ...] | None = None

    def is_done(self) -> bool:
        """Look whether it is done."""
        return bool(self._pending.is_done())

    def wait(self, timeout: float | None = None) -> tuple[Traced, ...]:
        """Wait, and return the results."""
        if self._results is None:
            found = self._pending.wait(timeout)
            result = found[0] if found else TOKEN
            self._collective.gave(result)
            value = make.wait(
                self._collective.exchange.kind, self._collective.wait, self._token.value, result
            )
            traced = Traced(value, np.array(result))
            self._results = (traced,) if found else ()
        return self._results


def begin(
    exchange: Any, operands: Sequence[Traced], before: Traced | None
) -> tuple[Collective, Traced, RecordedPending]:
    """Begin a collective and write it down. before: the token of the one before."""
    collective = Collective(exchange)
    pending = collective.recorded([each.array for each in operands])
    earlier = make.constant(TOKEN) if before is None else before.value
    token = Traced(
        make.start(exchange.kind, collective.start, earlier, [each.value for each in operands]), TOKEN.copy()
    )
    return collective, token, RecordedPending(collective, token, pending)
