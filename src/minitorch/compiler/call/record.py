"""Recording one call. Enters: a function and the arguments of a call. Leaves: its results, and a program or why not.

The function runs once, as always, and its results are the ones that count. What it does is written down (trace/), made
a runner by a backend, and run beside it on copies of what it started from: both must agree.
"""

from __future__ import annotations

import enum
import functools
import math
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minitorch.compiler import backends
from minitorch.compiler.call import verify, when_needed
from minitorch.compiler.call.again import OnceMore
from minitorch.compiler.call.audit import LONG, Audits, difference
from minitorch.compiler.call.conditions import LENGTH, Condition
from minitorch.compiler.call.containers import Same, Taken, collect, parts_of, paths_of, rebuilt, template
from minitorch.compiler.call.guards import (
    Environment,
    can_be_placed,
    conditions_on_place,
    is_lasting,
    is_place_of_number,
)
from minitorch.compiler.call.key import Arguments, CacheKey, Layout, is_record
from minitorch.compiler.call.library import KnownObjects, can_be_met
from minitorch.compiler.call.names import describe
from minitorch.compiler.call.shapes import places_of
from minitorch.compiler.call.specialisation import Result, Specialisation
from minitorch.compiler.call.there import DeviceProgram, LieHere, computing, program_there
from minitorch.compiler.call.undo import Aside, Before
from minitorch.compiler.call.views import View, hidden_bases, views_among
from minitorch.compiler.call.when_needed import MadeWhenNeeded
from minitorch.compiler.ir.polynomial import GREATEST
from minitorch.compiler.ir.sizes import Symbol
from minitorch.compiler.trace.backward import Backward, differentiate, is_consumed
from minitorch.compiler.trace.deferred import given_by_program
from minitorch.compiler.trace.number import Number, as_float
from minitorch.compiler.trace.observe.calls import CallObserver
from minitorch.compiler.trace.observe.observer import PLAIN, watched_by
from minitorch.compiler.trace.observe.watchdog import watchdog
from minitorch.compiler.trace.plain import PlainTraced
from minitorch.compiler.trace.promised import NumbersMissing
from minitorch.compiler.trace.recorded import (
    Effect,
    FromArgument,
    FromGradient,
    FromPlace,
    FromScript,
    FromTensor,
    GivenNumbers,
    ReadNumber,
    Recorded,
)
from minitorch.compiler.trace.recorder import Recording
from minitorch.compiler.trace.refusal import CheckFailed, CompileError, TooMuchHere
from minitorch.compiler.trace.traced import Traced
from minitorch.compiler.trace.varying import SizeIsNeeded, as_number
from minitorch.distributed.errors import DistError
from minitorch.engine.gpu import OutOfMemoryError, device_of, on_host
from minitorch.engine.modes import current
from minitorch.engine.node import Node
from minitorch.optim.optimizer import ParameterGroup
from minitorch.random import default_generator
from minitorch.tensor import Tensor
from minitorch.tensor.generator import StreamState, device_generators
from minitorch.tensor.plain import PlainArray

MOST_HERE = 8 << 20  # bytes of a device's arrays that are copied to the host, which then computes a recording


class Where(enum.Enum):
    """Where the numbers of a recording are computed whose arrays lie on a device."""

    LITTLE_HERE = enum.auto()  # on the host, if there are few of them
    THERE = enum.auto()  # on the device, when everything is written down: it must not need them before
    HERE = enum.auto()  # on the host, however many there are


@dataclass
class RecordedCall:
    """What became of a call: its results, and a program, or why there is none.

    refused: it cannot be written down, and nothing was done; nor at the next call, as long as what it relied on, up to
    there, is as it was. changed: what the function relies on and itself changed.
    mistake: what the compiler did wrong. asks_for_floats: nothing was done, because a float must not be an input.
    differs: of an audited call, where it differs from the program that is kept for it.
    is_done: the function has run all the same, though it is refused.
    fixed: nothing was done, because these sizes, by name, cannot vary, and why; special: because there is something
    about the ones of this call; equal: because two must be one; fixed_layout: why strides cannot vary. sized: those of
    them, by name, that are no sizes of arguments, but ints that it reads.
    """

    results: Any = None
    program: Specialisation | None = None
    refused: CompileError | None = None
    relied_on: Environment | None = None
    changed: str = ""
    mistake: str = ""
    asks_for_floats: bool = False
    is_done: bool = False
    differs: str = ""
    fixed: dict[str, str] = field(default_factory=dict)
    fixed_layout: str = ""
    special: dict[str, str] = field(default_factory=dict)
    equal: set[tuple[str, str]] = field(default_factory=set)
    sized: dict[str, ReadNumber] = field(default_factory=dict)

    @property
    def sizes_cannot_vary(self) -> bool:
        """Whether nothing was done because of sizes."""
        return bool(self.fixed or self.fixed_layout or self.special or self.equal)


def run_plainly(function: Any, environment: Environment, arguments: Arguments, tensors: list[Any]) -> Any:
    """Run the function itself. If it is interrupted, leave everything as it was; if it fails, what it has done is done.

    tensors: further ones it may change.
    """
    found = {id(t): t for t in (*environment.tensors, *arguments.leaves, *tensors) if isinstance(t, Node)}
    aside = Aside(list(found.values()))
    before = Before([default_generator, *device_generators.values(), *environment.streams], environment)
    try:
        return function(*arguments.args, **arguments.options)
    except KeyboardInterrupt:
        aside.restore()
        before.restore()
        raise


def record_call(
    function: Callable[..., Any],
    arguments: Arguments,
    key: CacheKey,
    promoted: set[tuple[int, Any]],
    backend: str,
    verified: bool,
    reason: str,
    may_be_size: Callable[[ReadNumber, int], bool],
    kept: Specialisation | None = None,
    where: Where = Where.LITTLE_HERE,
) -> RecordedCall:
    """Run a function on the arguments of a call, and make a program of it.

    kept: the program that is kept for such calls: another one is made only if it is not the same.
    promoted: options and attributes, by holder and name, that are inputs because they were seen to change; more of them
    may be found. verified: compare the program with the function. reason: why there is to be a new one. may_be_size:
    tells which of the ints among them may be sizes. where: where a device's numbers are computed in this run.
    """
    began = time.perf_counter()
    run = _Run(function, arguments, key, promoted, may_be_size, where, backend)
    mode = current()
    failure: Exception | None = None
    elsewhere: Where | None = None
    try:
        run.go(begins=kept is None)
    except TooMuchHere:
        elsewhere = Where.THERE
    except NumbersMissing:
        elsewhere = Where.HERE
    except (MemoryError, OutOfMemoryError) as error:
        if run.is_settled or where is not Where.THERE:
            raise
        elsewhere = Where.HERE
        error.__traceback__ = None
    except CheckFailed as failed:
        run.put_back()
        run.may_repeat(failed)
        if run.active.symbols:
            return run.without_symbols("a check failed")
        return RecordedCall(run_plainly(function, run.environment, arguments, []))
    except CompileError as refusal:
        run.put_back()
        run.may_repeat(refusal)
        if run.active.symbols:
            return run.without_symbols(str(run.observer.refusal or refusal))
        return run.refused(refusal)
    except BaseException as error:
        if run.is_settled:
            raise  # everything is done: Ctrl-C has waited for that
        run.put_back()
        assumed = run.active.assumed
        if assumed.is_given_up or run.fixed_layout:
            run.may_repeat(CompileError(f"compile: {run.fixed_layout}"))
            return RecordedCall(
                fixed=assumed.fixed,
                fixed_layout=run.fixed_layout,
                special=assumed.special,
                equal=assumed.equal,
                sized=run.active.sized,
            )
        if not isinstance(error, Exception):
            raise
        run.may_repeat(error)
        if run.active.symbols:
            return run.without_symbols(f"{type(error).__name__}: {error}")
        if key.inputs:
            return RecordedCall(asks_for_floats=True)
        if run.observer.refusal is not None:
            return run.refused(run.observer.refusal)
        failure = error
    if elsewhere is not None:
        run.put_back()
        run.observer.forget()
        return record_call(
            function, arguments, key, promoted, backend, verified, reason, may_be_size, kept, elsewhere
        )
    if failure is not None:
        # The function itself says what is wrong, in its own words and with what it prints; if nothing is, we are.
        results = run_plainly(function, run.environment, arguments, [])
        said = f"compile: it cannot be recorded ({type(failure).__name__}: {failure})"
        outcome = run.refused(CompileError(said))
        outcome.results, outcome.is_done = results, True
        return outcome
    recorded, active, observer = run.recorded, run.active, run.observer
    changed = run.what_changed(mode)
    results = rebuilt(run.results, run.settled, run.made_plain)
    if changed:
        promoted.update(run.fed_back())
        return RecordedCall(results, changed=changed)
    found = run.found
    parts = template((run.results, run.stored), {id(r): i for i, r in enumerate(found)})
    differs = "" if kept is None else difference(kept, recorded, observer.changes, parts)
    if kept is not None and not differs and isinstance(kept.runner, MadeWhenNeeded):
        reason = kept.reason
    elif kept is not None and not differs:
        active.forget([])
        observer.forget()
        return RecordedCall(results)
    recorded.program.guards = tuple(active.assumed)
    try:
        if active.memory is not None:
            backend = active.memory.backend
            backends.named(backend).require()
        made_by = backends.named(backend)
        waits = kept is None and verified and _may_wait(recorded, active)
        if active.memory is None:
            make = functools.partial(
                made_by.compile, recorded.program, _updates(recorded), _number_inputs(recorded)
            )
            runner: Any = MadeWhenNeeded(make) if waits else make()
        else:
            if run.begun is None:
                run.begin_there(recorded, run.backward)
            if isinstance(run.begun, Exception):
                raise run.begun
            runner = run.begun
            runner.load()
        if run.backward is not None:
            make = functools.partial(made_by.compile, run.backward.program, {})
            run.backward.runner = MadeWhenNeeded(make) if waits else make()
    except Exception as error:
        # The function itself has run: its results are there, whatever went wrong here.
        return RecordedCall(
            results, mistake=f"its program could not be compiled ({type(error).__name__}: {error})"
        )
    environment, aliases, pinned, others = run.guards()
    results_made = [
        _result(r, arguments.leaves, active, view) for r, view in zip(found, run.views, strict=True)
    ]
    program = Specialisation(
        recorded, environment, key, parts[0], results_made, runner,
        run.backward, run.given, reason, changes=[c.plainly() for c in observer.changes], stored=parts[1],
        audits=Audits(verified), promoted=frozenset(promoted), aliases=aliases, pinned=pinned, compared=others,
        hints={symbol.name: symbol.hint for symbol in active.symbols.values()}, sized=active.sized,
    )  # fmt: skip
    if run.backward is not None:
        run.backward.again = OnceMore(function, program)
    mistake = _disagreement(program, active, backend) if verified and not waits else ""
    if mistake:
        return RecordedCall(results, mistake=mistake)
    active.forget(program.asked_about)
    observer.forget()
    if run.backward is not None:
        run.backward.expected = []
    runner.settle()
    program.seconds = time.perf_counter() - began
    if active.memory is not None and program.seconds > LONG:
        program.audit_seconds = program.seconds
        program.audits.put_off()
    return RecordedCall(results, program, differs=differs)


def _may_wait(recorded: Recorded, active: Recording) -> bool:
    """Tell whether a program may be made native when it comes a second time, which is audited."""
    is_never_audited = bool(recorded.decisions) and any(isinstance(s, Effect) for s in recorded.script)
    return when_needed.enabled and active.memory is None and not active.symbols and not is_never_audited


class _Run:
    """The function as it is recorded: with floats among its arguments made inputs, and observed in what it does."""

    results: Any
    recorded: Recorded
    backward: Backward | None
    views: list[View | None]

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Arguments,
        key: CacheKey,
        promoted: set[tuple[int, Any]],
        may_be_size: Callable[[ReadNumber, int], bool],
        where: Where,
        backend: str,
    ) -> None:
        self.function = function
        self.backend = backend  # unless what is read lies on a device
        self.arguments = arguments
        self.inputs = key.inputs
        self.strided = {i for i, leaf in enumerate(key.leaves) if isinstance(leaf.contiguous, Layout)}
        self.fixed_layout = ""  # why the strides of arguments cannot vary
        self.promoted = promoted
        self.given = GivenNumbers()
        self.is_settled = False  # whether what the function did is done for real
        self.made_plain: dict[int, Any] = {}  # containers of what was stored, with plain arrays in them
        self.found: list[Any] = []  # the Tensors and arrays among the results
        self.begun: DeviceProgram | Exception | None = None  # a device's program, or why there is none
        self._settled: dict[int, Any] = {}  # arrays among them, as this run gives them, by id
        self._paths: dict[int, tuple[Any, ...]] = {}  # of containers and arrays among the arguments, by id
        self.stored: list[Any] = []  # what was stored outside, change by change
        self.environment = Environment(promoted)  # as it was when each thing was first come across
        generators = [default_generator, *device_generators.values()]
        self.before = Before(generators)
        shapes = arguments.key.shapes
        symbols = {}
        for name, places in places_of(key.shapes).items():
            leaf, axis = places[0]  # (of one that is also an array's length, this is that)
            greatest = None if leaf < len(key.leaves) else GREATEST
            symbols.update(dict.fromkeys(places, Symbol(name, shapes[leaf][axis], greatest=greatest)))
        self.whole = key.whole
        self.active = Recording(
            arguments.leaves, {}, promoted, self._around_pause, symbols, self.given, may_be_size,
            computing if where is Where.THERE else None, MOST_HERE if where is Where.LITTLE_HERE else math.inf,
        )  # fmt: skip
        library = KnownObjects(self.active, self.environment, self.before)
        self.observer = CallObserver({}, promoted, library)
        self.active.observer = self.observer
        self.active.live = self.observer.arrays
        self._streams = {id(each): StreamState(each) for each in generators}
        self._seeded = False

    def go(self, begins: bool) -> None:
        """Run and record it. begins: whether a device may make kernels of a new program while it computes."""

        def then(recorded: Recorded, found: list[Any]) -> Backward | None:
            # Before anything is written for real: what would fail then fails now.
            if self.active.assumed.is_given_up:
                raise SizeIsNeeded
            self._refuse_what_is_not_made_anew(found)
            self.observer.refuse_what_was_shown_and_changed()
            if any(id(fact.value) in self.active.placed for fact in self.observer.facts.values()):
                raise CompileError(
                    "compile: it finds one tensor in two places, in one of which another one was before"
                )
            by_value = [fact.holder for fact in self.observer.facts.values() if fact.kind == "content"]
            written = [self.active.concrete[update.input] for update in recorded.updates]
            for rebind in recorded.rebinds:
                if rebind.in_place:  # a gradient that is added to
                    given = isinstance(rebind.tensor, int)
                    written.append(
                        (self.arguments.leaves[rebind.tensor] if given else rebind.tensor)._gradient
                    )
            here = [array for array in written if isinstance(array, np.ndarray)]
            if any(np.may_share_memory(array, each) for array in here for each in by_value):
                raise CompileError(
                    "compile: it writes into a tensor, or a gradient, that shares memory with a NumPy array whose "
                    "numbers it reads; clone() one of the two"
                )
            for update in recorded.updates:
                array = self.active.concrete[update.input]
                if not array.flags.writeable:
                    raise ValueError(
                        f"compile: {describe(self.function)} writes into an array of shape {array.shape} that is "
                        "read-only; clone() it"
                    )
            self.views = views_among(found, self.active)
            self._require_layouts(recorded)
            self.found = found
            own = [r if view is None else None for r, view in zip(found, self.views, strict=True)]
            try:
                backward = self._differentiated(recorded, own)
            except CompileError:
                raise
            except RuntimeError as error:
                # The function itself does not mind: whoever asks for gradients later on is told.
                raise CompileError(
                    f"compile: gradients of its results cannot be computed: {error}"
                ) from error
            self._refuse_what_is_split(found, recorded, backward)
            if self.observer.refusal is not None:
                raise self.observer.refusal
            return backward

        def begin(recorded: Recorded, backward: Backward | None) -> None:
            # (What is assumed of sizes that vary is known later.)
            if begins and self.active.memory is not None and not self.active.symbols:
                self.begin_there(recorded, backward)

        def all_of(results: Any) -> list[Any]:
            # Containers that are changed later on are kept as they are now.
            stored = [change.value for change in self.observer.changes]
            self.results, self.stored = rebuilt((results, stored), self._part, {}, self._kept)
            if any(isinstance(step, Effect) for step in self.active.script):
                # What a number is read from may be changed by then: the program gives it.
                self.results, self.stored = rebuilt((self.results, self.stored), _given_by_program)
            found = collect((self.results, self.stored))
            return found + hidden_bases(found, self.active)

        _, self.recorded, self.backward = self.active.run(
            self._call, all_of, then, self._settle_changes, begin
        )
        self.active.observer = None

    def _differentiated(self, recorded: Recorded, results: list[Any]) -> Backward | None:
        """Record the way back, which is gone later on: what a program's own code (hooks, the backward of a Function)
        reads there must be such that it stays, and there is nothing that it may change.
        """
        observer, active = self.observer, self.active
        before = len(observer.changes), len(active.script), len(active.inputs)
        facts, observer.facts = observer.facts, {}
        try:
            with watched_by(observer), watchdog(observer):
                name = self.backend if active.memory is None else active.memory.backend
                again = backends.named(name).made_again
                backward = differentiate(active, recorded, results, self.arguments.leaves, again)
        finally:
            read, observer.facts = observer.facts, {**observer.facts, **facts}
        if (len(observer.changes), len(active.script), len(active.inputs)) != before or not all(
            map(is_lasting, read.values())
        ):
            raise observer.refuse(
                "code that runs when gradients of its results are asked for (a hook, the backward of a Function) "
                "changes, or reads, what is outside; call backward() inside as well"
            )
        if backward is not None and read:
            backward.relies_on = Environment(set())
            backward.relies_on.add(read.values())
            backward.relies_on.finish()
        return backward

    def may_repeat(self, error: Exception) -> None:
        """Raise an error instead of running the function once more, if other ranks do not do so too.

        What it has exchanged with them before it failed would be exchanged twice.
        """
        for collective in self.active.collectives[:1]:
            if isinstance(error, DistError):
                raise error
            try:
                collective.exchange.agree_to_repeat(error)
            except DistError:
                raise error from None

    def _kept(self, thing: Any) -> Same | Taken | None:
        """Return what stands for a container, or an array, that is not made anew: from outside, or an argument."""
        if id(thing) in self._paths:
            return Taken(self._paths[id(thing)])
        return Same(thing) if self.observer.knows(thing) else None

    def _part(self, part: Any) -> Any:
        """Return a part of the results: an array that was there before as itself."""
        array = self.observer.unshown(part)
        return (self._kept(array) if isinstance(array, np.ndarray) else None) or as_number(part)

    def _call(self) -> Any:
        args, options = self.arguments.args, self.arguments.options
        if self.inputs or self.active.symbols:
            count, whole = iter(range(len(self.arguments.numbers))), iter(range(len(self.whole)))
            args, options = (
                rebuilt(part, lambda thing: self._as_input(thing, count, whole)) for part in (args, options)
            )
        if any(isinstance(given, np.ndarray) for given in self.arguments.leaves):
            args, options = rebuilt((args, options), self._shown)  # a copy of one must be recorded too
        self._note_given((args, options))
        self._paths = {
            id(self.observer.unshown(each)): path for each, path in paths_of((args, options)) if path != (1,)
        }
        with watched_by(self.observer), watchdog(self.observer):
            results = self.observer.calls(self.function, args, options)
        if self.observer.refusal is not None:
            raise self.observer.refusal
        return results

    def _shown(self, thing: Any) -> Any:
        shown = self.active.shown(thing)
        if shown is not thing:
            self.observer.originals[id(shown)] = shown, thing
        return shown

    def _note_given(self, thing: Any) -> None:
        """Note what the key knows of the arguments."""
        if isinstance(thing, (list, tuple)) or (
            isinstance(thing, dict) and not isinstance(thing, ParameterGroup)
        ):
            self.observer.given[id(thing)] = thing
            for part in thing.values() if isinstance(thing, dict) else thing:
                self._note_given(part)
        elif isinstance(thing, (Node, np.ndarray, Traced)):
            self.observer.given[id(thing)] = thing
        elif is_record(thing):
            self.observer.given[id(thing)] = thing
            for part in vars(thing).values() if hasattr(thing, "__dict__") else ():
                self._note_given(part)

    def _as_input(self, thing: Any, count: Iterator[int], whole: Iterator[int]) -> Any:
        if type(thing) is int:
            symbol = self.active.symbols.get((len(self.arguments.leaves), next(whole)))
            return thing if symbol is None else self.active.whole(symbol)
        if type(thing) is not float:
            return thing
        i = next(count)
        if i not in self.inputs:
            return thing
        setattr(self.given, f"n{i}", thing)
        return as_float(self.active.scalar(thing, ReadNumber(self.given, f"n{i}")))

    @contextmanager
    def _around_pause(self) -> Iterator[None]:
        # What a schedule does to its own counters and to the options of groups, and draws to generators, is done again
        # at each call: who reads such a number later on reads the one of his call.
        self._look_at_streams()
        places = [group for o in self.environment.optimizers for group in o.param_groups]
        places += map(vars, self.environment.schedulers)
        before = [dict(place) for place in places]
        yield
        for place, was in zip(places, before, strict=True):
            for key, now in place.items():
                if now is was.get(key, place) or (key == "lr" and isinstance(place, ParameterGroup)):
                    continue
                if type(now) in (int, float):
                    self.promoted.add((id(place), key))
                else:
                    self.observer.replayed.add((id(place), key))
        self._streams = {number: StreamState(state.stream) for number, state in self._streams.items()}

    def _look_at_streams(self) -> None:
        """Look whether a generator was left where the last draw left it."""
        self._seeded |= not all(state.holds() for state in self._streams.values())
        for stream in self.environment.streams:
            self._streams.setdefault(id(stream), StreamState(stream))

    def put_back(self) -> None:
        """Leave everything as it was before the run."""
        self.observer.undo()
        self.before.restore()

    def settled(self, part: Any) -> Any:
        """Return a part of the results, or of what is stored, as it is in this run."""
        if isinstance(part, Taken):
            return part.of((self.arguments.args, self.arguments.options))
        return self._settled[id(part)] if id(part) in self._settled else self._untraced(part)

    def _untraced(self, part: Any) -> Any:
        """Return a recorded array or number as the plain one it was in this run."""
        if isinstance(part, Traced):
            array = np.array(on_host(self.active.of_this_run(part)))
            return array.view(PlainArray if isinstance(part, PlainTraced) else np.ndarray)
        if isinstance(part, Same):
            return part.thing
        return part.concrete if isinstance(part, Number) else part

    def _settle_changes(self) -> None:
        """Do once more what the function has done to Python's objects: by the numbers and arrays of this run."""
        self.is_settled = True
        self.observer.undo()
        found = [self._untraced(each) for each in self.found]
        for i, (view, result) in enumerate(zip(self.views, self.found, strict=True)):
            if view is not None and isinstance(result, Node):
                view.lay(result, self.arguments.leaves, found)
            elif view is not None:
                found[i] = view.made(self.arguments.leaves, found)
            if isinstance(result, Traced):
                self._settled[id(result)] = found[i]
        for change, value in zip(self.observer.changes, self.stored, strict=True):
            change.redo(rebuilt(value, self.settled, self.made_plain))

    def what_changed(self, mode: Any) -> str:
        """Name something that the function relies on, and has changed itself; '' if there is nothing."""
        if current() != mode:
            return "whether gradients are recorded"
        self._look_at_streams()
        if self._seeded:
            return "the state of a random generator, set by hand (seed it outside)"
        self.environment.guards = [
            self._with_begun(guard) for guard in self.environment.guards if not self._is_written(guard)
        ]
        self.environment.add(self.observer.facts.values())
        return self.environment.violation()

    def _with_begun(self, guard: Condition) -> Condition:
        """Return a guard as it is where the states that an optimiser has begun were there before the call."""
        begun = self.active.begun.get(id(guard.operands[0]), 0) if guard.look == LENGTH else 0
        return replace(guard, expected=guard.expected + begun) if begun else guard

    def _is_written(self, guard: Condition) -> bool:
        operands = guard.operands
        return len(operands) == 2 and self.observer.is_written(*operands)

    def fed_back(self) -> list[tuple[int, Any]]:
        """Return the places of numbers that the function has both read and changed: inputs, from now on."""
        return [
            (id(f.holder), f.key)
            for f in self.observer.facts.values()
            if self.observer.is_written(f.holder, f.key)
            and (is_place_of_number(f) or (f.kind in ("item", "cell") and can_be_placed(f.value)))
        ]

    def _require_layouts(self, recorded: Recorded) -> None:
        """Give up a recording for any strides if it depends on them: on whether a part of an argument is a view."""
        touched = [recorded.sources[update.input] for update in recorded.updates]
        touched += [view.of for view in self.views if view is not None and not isinstance(view.of, int)]
        if any(isinstance(each, FromArgument) and each.position in self.strided for each in touched):
            self.fixed_layout = "it writes into an argument, or returns a part of it"
            raise SizeIsNeeded

    def without_symbols(self, why: str) -> RecordedCall:
        """Return what becomes of a call that could not be recorded, perhaps because its sizes vary."""
        self.observer.forget()
        fixed = {symbol.name: why for symbol in self.active.symbols.values()}
        return RecordedCall(fixed=fixed, sized=self.active.sized)

    def refused(self, error: CompileError) -> RecordedCall:
        """Return what becomes of a call that cannot be recorded, with guards on what was looked at so far."""
        error = self.observer.refusal or error
        error.__traceback__ = None  # it would keep everything alive that the function came across
        environment = Environment(self.promoted)
        environment.add(self.observer.facts.values())
        environment.finish()
        self.observer.forget()
        return RecordedCall(refused=error, relied_on=environment)

    def guards(self) -> tuple[Environment, list[tuple[Any, int]], list[tuple[int, Any]], dict[int, Any]]:
        """Return the guards of the program, and what it asks of the arguments.

        That is: facts that are about arguments, with their positions; arguments, by position, that were also found by
        Modules and optimisers, and so must be the same ones; and what no argument may be, by id.
        """
        environment = Environment(self.recorded.symbolic | self.promoted, self.observer.is_written)
        positions = {id(leaf): i for i, leaf in reversed(list(enumerate(self.arguments.leaves)))}
        facts = list(self.observer.facts.values())
        aliases = [(fact, positions[id(fact.value)]) for fact in facts if id(fact.value) in positions]
        environment.add(fact for fact in facts if id(fact.value) not in positions)
        given = set(positions)
        is_input = {id(s.tensor) for s in self.recorded.sources if isinstance(s, FromTensor)}
        unread = {id(tensor): tensor for tensor in self.active.unread}
        for thing in list(self.environment.met.values()):
            is_fresh = isinstance(thing, Node) and self.active.is_fresh(thing)
            if id(thing) in given or is_fresh or not can_be_met(thing) or id(thing) in self.active.placed:
                continue
            environment.look(thing)
            if isinstance(thing, Node) and id(thing) not in is_input:
                unread[id(thing)] = thing
        for source in self.recorded.sources:
            if isinstance(source, (FromTensor, FromGradient)) and id(source.tensor) not in given:
                environment.look(source.tensor)
        others = {
            id(s.tensor): s.tensor for s in self.recorded.sources if isinstance(s, (FromTensor, FromGradient))
        }
        for source, value in zip(self.recorded.sources, self.recorded.program.inputs, strict=True):
            if isinstance(source, FromPlace):
                environment.guards += conditions_on_place(source, value, others)
        for tensor in unread.values():
            environment.look(tensor)
            environment.add_layout(tensor)
        read = {id(s.tensor) for s in self.recorded.sources if isinstance(s, FromGradient)}
        for tensor, had_gradient in self.active.asked.values():
            if id(tensor) not in given and id(tensor) not in read:
                environment.add_gradient(tensor, had_gradient)
        for step in self.recorded.script:
            if isinstance(step, ReadNumber) and step.holder is not self.given:
                environment.add_number(step)
        environment.finish()
        found = {**self.environment.met, **environment.met}
        pinned = [(i, leaf) for i, leaf in enumerate(self.arguments.leaves) if id(leaf) in found]
        others = {
            **self.observer.compared,
            **{n: each for n, each in found.items() if isinstance(each, Node)},
        }
        for leaf in self.arguments.leaves:
            others.pop(id(leaf), None)
        return environment, aliases, pinned, others

    def begin_there(self, recorded: Recorded, backward: Backward | None) -> None:
        """Begin a device's program. What goes wrong is told by who asks for it: the function itself has to run."""
        assert self.active.memory is not None
        backend = backends.named(self.active.memory.backend)
        try:
            backend.require()
            here, numbers = self._lie_here(recorded), _number_inputs(recorded)
            kept_for = () if backward is None else backward.kept
            self.begun = program_there(backend, recorded, numbers, here, len(self.found), kept_for)
        except Exception as error:
            self.begun = error

    def _lie_here(self, recorded: Recorded) -> LieHere:
        """Return which inputs and outputs of a device's program lie on the host."""
        active = self.active
        inputs = {i for i, v in enumerate(recorded.program.inputs) if active.lies_on(v) is None}
        outputs = {
            i
            for i, result in enumerate(self.found)
            if isinstance(result, Node) and active.lies_on(recorded.program.outputs[i]) is None
        }
        for rebind in recorded.rebinds:
            node = self.arguments.leaves[rebind.tensor] if isinstance(rebind.tensor, int) else rebind.tensor
            if rebind.output is not None and device_of(node._array) is None:
                outputs.add(rebind.output)
        asked = {each.value for each in active.asked_here}
        return LieHere(inputs, outputs, [i for i, v in enumerate(recorded.program.outputs) if v in asked])

    def _refuse_what_is_split(self, found: list[Any], recorded: Recorded, backward: Backward | None) -> None:
        """Refuse, where arrays lie on a device, what is not made anew there as it is."""
        active = self.active
        if active.memory is None:
            return
        for result in found:
            if isinstance(result, PlainTraced) and active.lies_on(result.value) is not None:
                raise CompileError("compile: it returns an array on a device by itself; return a Tensor")
        if backward is not None:
            wanted = [self.arguments.leaves[w] if isinstance(w, int) else w for w in backward.wanted]
            if any(device_of(node._array) is None for node in wanted):
                raise CompileError("compile: gradients of its results go from a device to the host")

    def _refuse_what_is_not_made_anew(self, found: list[Any]) -> None:
        refused = _not_made_anew((self.results, self.stored), found, self.observer, self.active)
        for part in parts_of(self.stored):
            if (
                isinstance(part, Node)
                and self.active.is_fresh(part)
                and self.active.looks_outside(part._data)
            ):
                refused = (
                    f"it stores a view (shape {tuple(part._data.shape)}) of a tensor from before the call, which would "
                    "follow what is written into that; store a clone()"
                )
        if refused:
            raise CompileError(f"compile: {refused}")


def _given_by_program(part: Any) -> Any:
    return given_by_program(part) if isinstance(part, Number) else part


def _updates(recorded: Recorded) -> dict[int, int]:
    return {u.output: u.input for u in recorded.updates}


def _number_inputs(recorded: Recorded) -> list[int]:
    """Return which inputs are Python numbers, read at each call."""
    return [
        i
        for i, source in enumerate(recorded.sources)
        if isinstance(source, FromScript) and isinstance(recorded.script[source.step], ReadNumber)
    ]


def _result(result: Any, leaves: list[Any], active: Recording, view: View | None) -> Result:
    is_tensor = isinstance(result, Node)
    place = next((i for i, leaf in enumerate(leaves) if leaf is result), None)
    given: Any = place
    if place is None and is_tensor and not active.is_fresh(result):
        given = active.placed.get(id(result), result)
    used_up = is_tensor and result._operation is not None and is_consumed(result)
    is_plain = isinstance(result, PlainTraced)
    axes = None if place is not None or given is not None or view is not None else _order_in_memory(result)
    return Result(given, is_tensor, result._operation if used_up else None, is_plain, view, axes)


def _order_in_memory(result: Any) -> tuple[int, ...] | None:
    """Return in which order the axes of a result lie in memory; None if in their own, or with gaps between."""
    array = result.array if isinstance(result, Traced) else getattr(result, "_array", result)
    if type(array) is not np.ndarray or array.flags.c_contiguous:
        return None
    axes = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return axes if array.transpose(axes).flags.c_contiguous else None


def _not_made_anew(results: Any, found: list[Any], observer: CallObserver, active: Recording) -> str:
    """Say what among the results a program cannot make anew at each call; '' if it can make everything."""
    known = {id(each) for each in found}
    strange: list[str] = []

    def look(part: Any) -> None:
        if isinstance(part, (Number, Same, Taken)):
            return
        if id(part) in known:
            if isinstance(part, Node) and active.is_fresh(part):
                if type(part) is not Tensor:
                    strange.append(f"it returns a new {type(part).__name__}")
                elif part._requires_grad and part._operation is None:
                    strange.append("it returns a new leaf that requires grad; write requires_grad_() outside")
        elif not isinstance(
            part, (*PLAIN, type, types.FunctionType, types.ModuleType)
        ) and not observer.knows(part):
            strange.append(
                f"it returns, or stores, a {type(part).__name__}, which cannot be made anew at each call; use Tensors, "
                "or tuples, lists, dicts, namedtuples and dataclasses of them"
            )

    rebuilt(results, look)
    return strange[0] if strange else ""


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
