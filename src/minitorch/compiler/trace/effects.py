"""What a function does besides computing, as it is recorded. Enters: steps, schedules, collectives. Leaves: a script.

An optimiser's step may be left out by a GradScaler, its first one makes state; a schedule steps on, and ranks exchange
arrays, anew at each call; a check is a condition that must not hold when the program runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.trace import collectives
from minitorch.compiler.trace.promised import NumbersMissing
from minitorch.compiler.trace.recorded import Effect, ReadNumber
from minitorch.compiler.trace.refusal import CheckFailed
from minitorch.compiler.trace.tensors import Tensors
from minitorch.compiler.trace.traced import Traced, as_traced
from minitorch.engine.node import Node


class Effects(Tensors):
    """What a recording knows of steps, schedules, collectives and checks."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.checks: list[Traced] = []
        self.asked_here: list[Traced] = []  # conditions of a device's that the host asks about
        self._conditions: list[Traced] = []  # that must not hold, and are computed there
        # How many of an optimiser's states were made in this run, by their dict's id.
        self.begun: dict[int, int] = {}
        self.collectives: list[collectives.Collective] = []
        # The latest start is an output: each collective is begun, whether its result is read or not.
        self._last_start: Traced | None = None
        self.is_finished = False  # whether everything is written down

    # --- optimisers ---------------------------------------------------------------------------------

    def beforehand(self, states: Any, begin: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a parameter's first state, made as if it had been there before: later calls will find it there.

        (Of an optimiser that is itself made in this run they will not.)
        """
        if self._is_made_here(states):
            return begin()
        if self.observer is not None and self.observer.has_changed(states):
            raise self.refusal("it steps an optimiser after it has taken some of its state away")
        with self.paused():
            made = begin()
        if made:
            self.begun[id(states)] = self.begun.get(id(states), 0) + 1
        for each in made.values():
            if isinstance(each, Node):
                each._time = self.began
        return made

    def replay(self, effect: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Do now, and at every call."""
        schedule = getattr(effect, "__self__", args[0] if args else None)
        groups = getattr(getattr(schedule, "optimizer", None), "param_groups", ())
        if groups and self._is_made_here(schedule):
            if all(map(self._is_made_here, groups)):
                return effect(*args, **options)
            raise self.refusal("a schedule that it makes sets the learning rate of an optimiser from outside")
        if any(isinstance(group.get("lr"), Node) for group in groups):
            # A schedule writes into it, and whatever has read it before would find the new one.
            raise self.refusal("a schedule sets a learning rate that is a Tensor; make it a float")
        step = Effect(effect, args, options)
        with self.paused():
            step.run()
        self.script.append(step)
        self._numbers.clear()  # what is read from here on may be another number

    def stepped(self) -> None:
        """Nothing depends on where an optimiser's step ends."""

    def unless(self, condition: Any, step: Callable[[], Any], states: Mapping[Any, Any]) -> Any:
        """Let an optimiser step, and choose then, for everything that it has written, what was there before where the
        condition holds.
        """
        condition = here = as_traced(condition)
        kept = list(self._nodes_made())  # so that no node of the step's gets the id of one of these
        before: dict[Any, tuple[Any, Any, Any]] = {
            slot: (now, None, None) if now is None else (now, now.value, now.array)
            for slot, (now, *_) in self._writeable().items()
        }
        lengths, done = _lengths(states), self._done_outside()
        result = step()
        if result is not None or self._done_outside() != done:
            raise self.refusal(
                "GradScaler may leave this optimiser's step out, and it does more than to write into Tensors (in its "
                "own step, or in a hook)"
            )
        if _lengths(states) != lengths:
            # Where the first step is left out there is no state after it: such a call is not recorded.
            self._must_not_hold(condition)
        for slot, (now, at_first, first, is_new) in self._writeable().items():
            if slot not in before and is_new:
                continue  # made by the step itself
            index = None if first is None else first.attributes["index"]
            known = before.get(slot) or (at_first, first, None if index is None else self.concrete[index])
            was, value, array = known
            if now is not was:
                raise self.refusal(
                    "GradScaler may leave a step out that gives a Tensor other memory, or another gradient or none "
                    "(p.data = …, p.grad = …)"
                )
            if now is None or now.value is value:
                continue
            lies_there = self.lies_on(now.value) is not None
            if not lies_there and here is condition and self.lies_on(condition.value) is not None:
                # (A count of steps: one number is brought for all of them.)
                here = self.moved(condition, None)
                self.asked_here.append(here)
            now.assign(as_traced(np.where(condition if lies_there else here, Traced(value, array), now)))
        del kept
        return None

    def _writeable(self) -> dict[tuple[int, str], tuple[Any, Any, Any, bool]]:
        """Return what Tensors and arrays show now, what at first, which inputs that was, and whether they were made in
        this run. (None: no gradient.)
        """
        found: dict[tuple[int, str], tuple[Any, Any, Any, bool]] = {
            (key, "array"): (array, array, self._at_first[key], False) for key, array in self._arrays.items()
        }
        for node in self._nodes_made():
            found |= {
                (id(node), slot): (getattr(node, slot), None, None, True) for slot in ("_array", "_gradient")
            }
        for slot, holding in (("_array", self._data), ("_gradient", self._grads)):
            found |= {
                (id(held.node), slot): (held.now, held.at_first, held.value, False)
                for held in holding.values()
            }
        return {slot: each for slot, each in found.items() if each[0] is None or isinstance(each[0], Traced)}

    def _done_outside(self) -> tuple[int, ...]:
        """Return how much was done so far that is not written into Tensors."""
        done = [step for step in self.script if not isinstance(step, ReadNumber)]
        changes = [] if self.observer is None else self.observer.changes
        return len(done), len(self.collectives), len(changes)

    # --- checks -------------------------------------------------------------------------------------

    def check(self, condition: Traced) -> None:
        """Note a condition that must not hold when the program runs."""
        # Looking 0 up in a table of one element goes well, looking up 1 does not: a check without its own primitive.
        flag = make.cast(make.reshape(condition.value, (1,)), np.int64)
        self.checks.append(Traced(make.gather(make.iota(1), flag, 0), np.zeros(1, np.int64)))
        self._must_not_hold(condition)

    def _must_not_hold(self, condition: Traced) -> None:
        """Give this run up if a condition holds in it."""
        if self.is_promised(condition.value):
            self._conditions.append(Traced(condition.value, condition.array))  # as it is now
        elif bool(condition.array):
            raise CheckFailed

    # --- other ranks --------------------------------------------------------------------------------

    def exchange(self, exchange: Any, arrays: Any) -> Any:
        """Begin a collective between ranks now, and at every call."""
        if self.is_finished:
            raise self.refusal(
                "gradients of its results go through a collective; call backward() inside as well"
            )
        operands = [as_traced(each) for each in arrays]
        if self._there:
            raise NumbersMissing("a collective")
        if self.symbols:
            # Once other ranks were asked, the recording could not be made anew without them.
            self.assumed.need(math.prod(symbol.size for symbol in self.symbols.values()))
        collective, self._last_start, pending = collectives.begin(exchange, operands, self._last_start)
        self.collectives.append(collective)
        return pending


def _lengths(states: Mapping[Any, Any]) -> list[int]:
    """Return how many states there are, and how much is in each."""
    return [len(states), *(len(state) for state in states.values() if isinstance(state, dict))]
