"""Recording one call. Enters: a function and the arguments of a call. Leaves: its results, and a program or why not.

The function runs once, as always, and its results are the ones that count. What it does is written down (trace/), made
a runner by a backend, and run beside it on copies of what it started from: both must agree.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler import backends
from minitorch.compiler.call import verify
from minitorch.compiler.call.again import OnceMore
from minitorch.compiler.call.conditions import PLAIN, same
from minitorch.compiler.call.containers import collect, rebuilt, template
from minitorch.compiler.call.guards import Environment
from minitorch.compiler.call.key import Arguments, CacheKey
from minitorch.compiler.call.names import describe
from minitorch.compiler.call.specialisation import Result, Specialisation
from minitorch.compiler.call.undo import Aside, Before, foreign_draws
from minitorch.compiler.trace.backward import Backward, differentiate, is_consumed
from minitorch.compiler.trace.deferred import Deferred
from minitorch.compiler.trace.number import as_float
from minitorch.compiler.trace.plain import PlainTraced
from minitorch.compiler.trace.recorded import FromArray, FromScript, GivenNumbers, ReadNumber, Recorded
from minitorch.compiler.trace.recorder import Recording
from minitorch.compiler.trace.refusal import CheckFailed, CompileError, StaysEager
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.modes import current
from minitorch.engine.node import Node
from minitorch.random import default_generator
from minitorch.tensor import Tensor
from minitorch.tensor.generator import StreamState
from minitorch.tensor.plain import PlainArray


@dataclass
class RecordedCall:
    """What became of a call: its results, and a program, or why there is none.

    refused: it cannot be written down, nor at the next call. changed: what the function relies on and itself changed.
    mistake: what the compiler did wrong. asks_for_floats: nothing was done, because a float must not be an input.
    """

    results: Any = None
    program: Specialisation | None = None
    refused: str = ""
    changed: str = ""
    mistake: str = ""
    asks_for_floats: bool = False


def run_plainly(function: Any, environment: Environment, arguments: Arguments, tensors: list[Any]) -> Any:
    """Run the function itself; if it fails, leave everything as it was. tensors: further ones it may change."""
    found = {id(t): t for t in (*environment.tensors, *arguments.leaves, *tensors) if isinstance(t, Node)}
    aside = Aside(list(found.values()))
    before = Before([default_generator, *environment.streams], environment)
    try:
        return function(*arguments.args, **arguments.options)
    except BaseException:
        aside.restore()
        before.restore()
        raise


def record_call(
    function: Callable[..., Any],
    arguments: Arguments,
    key: CacheKey,
    promoted: set[tuple[int, str]],
    backend: str,
    verified: bool,
    reason: str,
) -> RecordedCall:
    """Run a function on the arguments of a call, and make a program of it.

    promoted: options and attributes, by holder and name, that are inputs because they were seen to change; more of them
    may be found. verified: compare the program with the function. reason: why there is to be a new one.
    """
    began = time.perf_counter()
    objects = arguments.objects()
    environment = Environment(function, set(promoted), objects)
    if environment.iterators:
        refused = (
            f"it takes from an iterator ({environment.iterators[0]}), which has something else at each call; take what "
            "it needs outside, and pass it as an argument"
        )
        return RecordedCall(function(*arguments.args, **arguments.options), refused=refused)
    bare = {id(t): t for t in environment.tensors if t._grad is None}
    before = Before([default_generator, *environment.streams], environment)
    run = _Run(function, arguments, key, environment, promoted)
    mode = current()
    try:
        run.go(foreign_draws(function, environment))
    except CheckFailed:
        before.restore()
        return RecordedCall(run_plainly(function, environment, arguments, []))
    except StaysEager as refusal:
        before.restore()
        return RecordedCall(run_plainly(function, environment, arguments, []), refused=str(refusal))
    except BaseException as error:
        before.restore()
        if key.inputs and isinstance(error, Exception) and not isinstance(error, CompileError):
            return RecordedCall(asks_for_floats=True)
        raise
    recorded, active = run.recorded, run.active
    changed = run.what_changed(mode)
    results = rebuilt(run.results, _untraced)
    if changed:
        return RecordedCall(results, changed=changed)
    found = collect(run.results)
    refused = _not_made_anew(run.results, found, environment, active)
    if refused:
        return RecordedCall(results, refused=refused)
    without = [t for t in bare.values() if id(t) in active.asked]
    given = set(map(id, arguments.leaves))
    without += [t for t in active.without_gradient() if id(t) not in bare and id(t) not in given]
    inputs = {id(source.array) for source in recorded.sources if isinstance(source, FromArray)}
    environment = Environment(function, recorded.symbolic, objects, without, inputs)
    try:
        made_by = backends.named(backend)
        runner = made_by.compile(recorded.program, _updates(recorded), _number_inputs(recorded))
        if run.backward is not None:
            run.backward.runner = made_by.compile(run.backward.program, {})
    except Exception as error:
        # The function itself has run: its results are there, whatever went wrong here.
        return RecordedCall(
            results, mistake=f"its program could not be compiled ({type(error).__name__}: {error})"
        )
    program = Specialisation(
        recorded, environment, key, template(run.results, {id(r): i for i, r in enumerate(found)}),
        [_result(r, arguments.leaves, active) for r in found], runner, run.backward, run.given, reason,
    )  # fmt: skip
    if run.backward is not None:
        run.backward.again = OnceMore(function, program)
    mistake = _disagreement(program, active, backend) if verified else ""
    if mistake:
        return RecordedCall(results, mistake=mistake)
    active.forget(program.asked_about)
    if run.backward is not None:
        run.backward.expected = []
    runner.settle()
    program.seconds = time.perf_counter() - began
    return RecordedCall(results, program)


class _Run:
    """The function as it is recorded: with floats among its arguments made inputs, and an eye on what it does."""

    results: Any
    recorded: Recorded
    backward: Backward | None

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Arguments,
        key: CacheKey,
        environment: Environment,
        promoted: set[tuple[int, str]],
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.inputs = key.inputs
        self.environment = environment
        self.promoted = promoted
        self.given = GivenNumbers()
        self.active = Recording(arguments.leaves, environment.arrays, promoted, self._around_pause)
        self._rates = list(environment.rates)
        self._streams = [StreamState(stream) for stream in (default_generator, *environment.streams)]
        self._changed_by_hand = ""

    def go(self, check: Callable[[], None]) -> None:
        """Run and record it. check: raises an error if the function did what cannot be recorded."""

        def then(recorded: Recorded, found: list[Any]) -> Backward | None:
            # Before anything is written for real: what would fail then fails now.
            check()
            for update in recorded.updates:
                array = self.active.concrete[update.input]
                if not array.flags.writeable:
                    raise ValueError(
                        f"compile: {describe(self.function)} writes into an array of shape {array.shape} that is "
                        "read-only; clone() it"
                    )
            return differentiate(self.active, recorded, found, self.arguments.leaves)

        self.results, self.recorded, self.backward = self.active.run(self._call, collect, then)

    def _call(self) -> Any:
        args, options = self.arguments.args, self.arguments.options
        if self.inputs:
            count = iter(range(len(self.arguments.numbers)))
            args, options = (
                rebuilt(part, lambda thing: self._as_input(thing, count)) for part in (args, options)
            )
        if any(isinstance(given, np.ndarray) for given in self.arguments.leaves):
            args, options = rebuilt((args, options), self.active.shown)  # a copy of one must be recorded too
        return self.function(*args, **options)

    def _as_input(self, thing: Any, count: Iterator[int]) -> Any:
        if type(thing) is not float:
            return thing
        i = next(count)
        if i not in self.inputs:
            return thing
        setattr(self.given, f"n{i}", thing)
        return as_float(self.active.scalar(thing, ReadNumber(self.given, f"n{i}")))

    @contextmanager
    def _around_pause(self) -> Iterator[None]:
        # What a schedule does to learning rates, and draws to generators, is done again at each call; what is done to
        # them otherwise is not.
        self._look_at_rates_and_streams()
        before = [dict(group) for group, _ in self._rates]
        yield
        for (group, _), was in zip(self._rates, before, strict=True):
            changed = (k for k, v in group.items() if type(v) is float and v is not was.get(k))
            self.promoted.update((id(group), key) for key in changed if key != "lr")
        self._rates = [(group, group["lr"]) for group, _ in self._rates]
        self._streams = [StreamState(state.stream) for state in self._streams]

    def _look_at_rates_and_streams(self) -> None:
        if any(not (group.get("lr") is was or same(group.get("lr"), was)) for group, was in self._rates):
            self._changed_by_hand = (
                "a learning rate, set by hand (a schedule of minitorch.optim.lr_scheduler may be stepped)"
            )
        if not all(state.holds() for state in self._streams):
            self._changed_by_hand = "the state of a random generator, set by hand (seed it outside)"

    def what_changed(self, mode: Any) -> str:
        """Name something that the function relies on, and has changed itself; '' if there is nothing."""
        if current() != mode:
            return "whether gradients are recorded"
        self._look_at_rates_and_streams()
        if self._changed_by_hand:
            return self._changed_by_hand
        changed = "" if self.environment.holds() else self.environment.violation()
        return changed or self.environment.freed_changed(self.recorded.symbolic)


def _updates(recorded: Recorded) -> dict[int, int]:
    return {u.output: u.input for u in recorded.updates}


def _number_inputs(recorded: Recorded) -> list[int]:
    """Return which inputs are Python numbers, read at each call."""
    return [
        i
        for i, source in enumerate(recorded.sources)
        if isinstance(source, FromScript) and isinstance(recorded.script[source.step], ReadNumber)
    ]


def _result(result: Any, leaves: list[Any], active: Recording) -> Result:
    is_tensor = isinstance(result, Node)
    place = next((i for i, leaf in enumerate(leaves) if leaf is result), None)
    given = place if place is not None else result if is_tensor and not active.is_fresh(result) else None
    used_up = is_tensor and result._operation is not None and is_consumed(result)
    return Result(given, is_tensor, result._operation if used_up else None, isinstance(result, PlainTraced))


def _not_made_anew(results: Any, found: list[Any], environment: Environment, active: Recording) -> str:
    """Say what among the results a program cannot make anew at each call; '' if it can make everything."""
    known = {id(each) for each in found}
    strange: list[str] = []

    def look(part: Any) -> None:
        if isinstance(part, Deferred):
            return
        if id(part) in known:
            if isinstance(part, Node) and active.is_fresh(part):
                if type(part) is not Tensor:
                    strange.append(f"it returns a new {type(part).__name__}")
                elif part._requires_grad and part._operation is None:
                    strange.append("it returns a new leaf that requires grad; write requires_grad_() outside")
        elif not isinstance(
            part, (*PLAIN, type, types.FunctionType, types.ModuleType)
        ) and not environment.knows(part):
            strange.append(
                f"it returns a {type(part).__name__}, which cannot be made anew at each call; return Tensors, or "
                "tuples, lists, dicts, namedtuples and dataclasses of them"
            )

    rebuilt(results, look)
    return strange[0] if strange else ""


def _untraced(part: Any) -> Any:
    """Return a recorded array or number as the plain one it was in this run."""
    if isinstance(part, Traced):
        return np.array(part.array).view(PlainArray if isinstance(part, PlainTraced) else np.ndarray)
    return part.concrete if isinstance(part, Deferred) else part


def _disagreement(program: Specialisation, active: Recording, backend: str) -> str:
    """Run the program on what the function started from, and say where it differs from it; '' if it does not."""
    try:
        wrong = verify.first_difference(program, active)
    except Exception as error:
        # As above: the function has run. A program that fails where the function did not is wrong.
        return f"its program could not be run ({type(error).__name__}: {error})"
    if wrong is None:
        return ""
    output, room = wrong
    room = room or f"the {backend} code"
    return f"output {output} of its program differs from what the function gave ({room} is wrong)"
