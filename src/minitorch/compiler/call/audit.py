"""Audits: is a kept program still what the function does? Enters: the program, and a call recorded anew beside it.
Leaves: where the two differ.

An audited call is itself a recording: the function runs once, as it is, and what it gives and does is what counts. The
second call of each program is audited, and later ones as long as audits take less than a hundredth of the time that is
spent in the program (`Audits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import Any

import numpy as np

from minitorch.compiler.call.containers import Same
from minitorch.compiler.call.key import is_record
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.ir.sizes import Symbol
from minitorch.compiler.trace.observe.observer import PLAIN, Change
from minitorch.compiler.trace.recorded import (
    FromPlace,
    FromScript,
    FromTensor,
    GivenNumbers,
    Recorded,
    Source,
    found_at,
)

SHARE = 0.01  # of the time spent in programs, for audits
# A recording of a device's function that takes so many seconds on the host is not made again at the second call.
LONG = 1.0
MOST_APART = 1 << 30  # calls between two audits


class Audits:
    """When a program is to be audited, and how often it was called.

    ticks: gives something for each call until an audit is due. A program's entry takes one at each call, which costs
    no more than counting.
    """

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.due = wanted
        self.unmeasured = False  # whether an audit has passed since a call was last measured
        self.program: Any = lambda: None  # a weak reference to whose audits they are
        self._before = 0  # calls before the first of these ticks
        self._count = 0
        self.ticks: Any = iter(range(0))
        self._spread(0 if wanted else MOST_APART)

    def _spread(self, count: int) -> None:
        self._before = self.calls
        self._count = min(max(count, 0), MOST_APART)
        self.ticks = iter(range(self._count))

    @property
    def calls(self) -> int:
        """How many calls the program has run, or was found to be right for."""
        return self._before + self._count - length_hint(self.ticks)

    def stop(self) -> None:
        """Audit no more."""
        self.wanted = self.due = False
        self._spread(MOST_APART)

    def tick(self) -> None:
        """Note a call."""
        if next(self.ticks, None) is None:
            self._before += 1
            self.due = self.wanted
            if (program := self.program()) is not None:
                program.entry, program.entry_is_made = None, False  # it would go on without asking

    def passed(self) -> None:
        """Note that an audit found nothing. The next call is measured, to tell how far off the next audit is."""
        self.due, self.unmeasured = False, True
        self._before += 1
        self._spread(0)

    def put_off(self) -> None:
        """Let the first audit wait until the time for it is there, as for any later one."""
        self.due, self.unmeasured = False, self.wanted

    def measured(self, seconds: float, audit: float) -> None:
        """Be told how long a call takes, and an audit."""
        self.due = self.unmeasured = False
        self._spread(int(audit / SHARE / max(seconds, 1e-9)) if self.wanted else MOST_APART)


def difference(kept: Any, recorded: Recorded, changes: Sequence[Change], template: Any) -> str:
    """Say where a program and a new recording of the same call differ; '' if they do not. kept: a Specialisation."""
    old = kept.recorded
    different = _first_difference(old.program, recorded.program)
    if different:
        return different
    for i, (a, b) in enumerate(zip(old.sources, recorded.sources, strict=False)):
        if not _same_source(a, b):
            return f"input {i} comes from somewhere else"
    if len(old.script) != len(recorded.script) or not all(
        type(a) is type(b) and _alike(vars(a), vars(b))
        for a, b in zip(old.script, recorded.script, strict=True)
    ):
        return "other numbers are read, or drawn"
    for words, one, other in (
        ("written", old.updates, recorded.updates),
        ("given to tensors", old.rebinds, recorded.rebinds),
    ):
        if len(one) != len(other) or not all(
            _alike(vars(x), vars(y)) for x, y in zip(one, other, strict=True)
        ):
            return f"something else is {words}"
    if [answer for _, answer in old.decisions] != [answer for _, answer in recorded.decisions]:
        return "something else is decided"
    before = kept.changes
    if len(before) != len(changes) or not all(
        a.kind == b.kind and _alike([_target(a.holder), a.key], [_target(b.holder), b.key])
        for a, b in zip(before, changes, strict=True)
    ):
        return "other objects of Python's are changed"
    return (
        ""
        if _alike(kept.template, template[0]) and _alike(kept.stored, template[1])
        else "something else is returned"
    )


def _same_source(a: Source, b: Source) -> bool:
    if isinstance(a, FromTensor) and isinstance(b, FromPlace):
        # Meanwhile the place was seen to change. The program relies on the tensor that was there, and still is.
        return found_at(b.holder, b.key) is a.tensor
    return type(a) is type(b) and (isinstance(a, FromScript) or _alike(vars(a), vars(b)))


def _target(holder: Any) -> Any:
    """Return what a change is about: of a method, which is made anew when it is asked for, its object and name."""
    owner = getattr(holder, "__self__", None)
    return holder if owner is None else (id(owner), holder.__name__)


def _first_difference(old: Program, new: Program) -> str:
    if len(old.inputs) != len(new.inputs) or len(old.outputs) != len(new.outputs):
        counts = [f"{len(p.inputs)} inputs and {len(p.outputs)} outputs" for p in (new, old)]
        return f"it has {counts[0]}, not {counts[1]}"
    first, second = old.values(), new.values()
    if len(first) != len(second):
        return f"it computes {len(second)} values, not {len(first)}"
    numbers = [{value: i for i, value in enumerate(values)} for values in (first, second)]
    for a, b in zip(first, second, strict=True):
        if not _same_value(a, b, *numbers):
            return f"it computes {b!r}, not {a!r}"
    same = [numbers[0][o] for o in old.outputs] == [numbers[1][o] for o in new.outputs]
    return "" if same else "its outputs are others of its values"


def _same_value(a: Value, b: Value, numbers: dict[Value, int], others: dict[Value, int]) -> bool:
    return (
        (a.primitive, a.dtype) == (b.primitive, b.dtype)
        and _alike(a.shape, b.shape)
        and [numbers[i] for i in a.inputs] == [others[i] for i in b.inputs]
        and _alike(a.attributes, b.attributes)
    )


def _alike(a: Any, b: Any) -> bool:
    """Tell whether two attributes are the same: plain things and arrays by value, others by identity."""
    if a.__class__ is Same:
        a = a.thing
    if b.__class__ is Same:
        b = b.thing
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, GivenNumbers):
        return True  # the floats among a call's arguments: each recording has a place of its own for them
    if isinstance(a, Symbol):
        return a.name == b.name  # (what it is differs)
    if isinstance(a, PLAIN):
        return repr(a) == repr(b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(_alike(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if callable(a):
        # A function that is made anew by each run: what it is made of must be the same.
        code = getattr(a, "__code__", None)
        return code is not None and code is getattr(b, "__code__", None)
    if is_record(a):
        return _alike(vars(a), vars(b))
    slots: Any = getattr(type(a), "__slots__", None)
    return bool(slots) and all(_alike(getattr(a, s), getattr(b, s)) for s in slots)
