"""Running a function once, as usual, while writing down the program it is.

Enters: a function over Tensors and its arguments. Leaves: its results, and a `Recorded`: the program, where its
inputs come from at every call, and what it does to the Tensors it found (parameters, their gradients, running
statistics). This is the compiler's front room: the only one that knows Tensors.

While a function is recorded, a Tensor shows this thread a Traced in place of its array. Tensors from before
keep their arrays as they are: what is written to them is kept aside here, and is done for real only when the
function came to its end. So nothing is half-updated when it fails.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.compiler.ir.polynomial import GREATEST, LEAST
from minitorch.compiler.ir.program import Program, Value, in_order, interpret
from minitorch.compiler.ir.sizes import Size, Symbol, collecting, hint, symbols_of
from minitorch.compiler.trace import collectives
from minitorch.compiler.trace import deferred as deferred
from minitorch.compiler.trace import (
    indexing as indexing,  # these enter themselves in traced.py's tables
)
from minitorch.compiler.trace import lowerings as lowerings
from minitorch.compiler.trace import masked as masked
from minitorch.compiler.trace import numpy_functions as numpy_functions
from minitorch.compiler.trace import plain as plain
from minitorch.compiler.trace.interrupts import Uninterrupted
from minitorch.compiler.trace.number import Number, as_float, as_int
from minitorch.compiler.trace.observe.observer import unobserved
from minitorch.compiler.trace.on_devices import HOST, OnDevices, laid_out
from minitorch.compiler.trace.promised import NumbersMissing, Promised
from minitorch.compiler.trace.recorded import (
    Call,
    Draw,
    Effect,
    FromArgument,
    FromArray,
    FromGradient,
    FromPlace,
    FromScript,
    FromTensor,
    GivenNumbers,
    ReadNumber,
    Rebind,
    Recorded,
    Source,
    Update,
    first_sharing,
)
from minitorch.compiler.trace.refusal import (
    CheckFailed,
    CompileError,
    refuse,
    where_in_user_code,
)
from minitorch.compiler.trace.traced import Traced, as_traced, is_known
from minitorch.compiler.trace.varying import Assumptions
from minitorch.engine import recording, watch
from minitorch.engine.gpu import DeviceMemory, device_of, is_writeable, on_host
from minitorch.engine.modes import current, switch
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.versions import synced
from minitorch.ops.sparse import Coo


def _rank(source: Source) -> tuple[int, int]:
    """Return where an input stands among those whose order has no reason: arguments' gradients are met by age."""
    if isinstance(source, FromArgument) and source.gradient:
        return 1, source.position
    return (2 if isinstance(source, FromGradient) else 0), 0


class Recording(OnDevices):
    """One function being written down while it runs; the mode (engine/modes.py) shows this to the rest of the library.

    arguments: the Tensors and arrays among its arguments. live: arrays outside Tensors that may change, by id.
    promoted: numbers that were seen to change, by holder and key. around_pause: entered around everything that is done
    anew at each call (draws, and steps of schedules). symbols: the sizes that vary, by argument and axis. given: where
    each call puts them, and the floats among its arguments. may_be_size: tells whether an int that the function reads
    by itself, and that was seen to change, may be one of them. computing, most_here: see OnDevices.
    """

    kind = Traced  # what writes down what is done to it
    repeats = True

    def __init__(
        self,
        arguments: list[Any],
        live: dict[int, np.ndarray],
        promoted: set[tuple[int, str]],
        around_pause: Callable[[], AbstractContextManager[Any]] = nullcontext,
        symbols: Mapping[tuple[int, int], Symbol] | None = None,
        given: GivenNumbers | None = None,
        may_be_size: Callable[[ReadNumber, int], bool] = lambda reading, value: False,
        computing: Callable[[DeviceMemory], Elsewhere] | None = None,
        most_here: float = math.inf,
    ) -> None:
        super().__init__(computing, most_here)
        self.began = watch.tick()
        self.symbols = dict(symbols or {})
        self.sized: dict[str, ReadNumber] = {}  # those that are no sizes of arguments, but ints that are read
        self._may_be_size = may_be_size
        self.assumed = Assumptions(given)
        for symbol in self.symbols.values():
            setattr(given, symbol.name, symbol.hint)
        self.arguments = arguments
        self.live = live
        self.promoted = promoted
        self.sources: list[Source] = []
        self.script: list[ReadNumber | Draw | Effect] = []
        self.decisions: list[tuple[Callable[[], Any], Any]] = []
        self.checks: list[Traced] = []
        self.asked_here: list[Traced] = []  # conditions of a device's that the host asks about
        self.symbolic: set[tuple[int, str]] = set()
        self.asked: dict[
            int, tuple[Any, bool]
        ] = {}  # Tensors whose gradient was asked for, and whether they had one
        self.unread: list[Any] = []  # Tensors from before of which nothing but the shape was read
        self.observer: Any = None  # observes the function, if anyone does
        self._around_pause = around_pause
        self._data: dict[int, _Held] = {}
        self._grads: dict[int, _Held] = {}
        self._arrays: dict[int, Traced] = {}
        self._at_first: dict[
            int, Value
        ] = {}  # what they stand for before anything is written, by the same ids
        self._numbers: dict[tuple[int, str], Number] = {}
        self._positions = {id(a): i for i, a in reversed(list(enumerate(arguments)))}
        self.placed: dict[
            int, FromPlace
        ] = {}  # Tensors, by id, that are found at places where others were before
        self._asked_about: list[Value] = []  # what decisions are about
        self.begun: dict[
            int, int
        ] = {}  # how many of an optimiser's states were made in this run, by their dict's id
        self._fresh: list[weakref.ref[Any]] = []
        self._outputs: dict[int, int] = {}  # of updated Tensors, by their _Held's id: which output they get
        self.collectives: list[collectives.Collective] = []
        # The latest start is an output: each collective is begun, whether its result is read or not.
        self._last_start: Traced | None = None
        self.is_finished = False  # whether everything is written down
        self.is_over = False
        self.masks: dict[Any, Any] = {}  # how many places masks hold (masked.py)
        self._conditions: list[Traced] = []  # that must not hold, and are computed there
        self.before: list[np.ndarray] = []
        self.after: list[np.ndarray] = []
        for i, given in enumerate(arguments):
            if isinstance(given, np.ndarray):
                self._hold(given, FromArgument(i))

    def _shape(self, position: int | None, array: Any) -> tuple[int, ...]:
        """Return the shape of an argument's array, with the sizes in it that vary."""
        if not self.symbols or position is None:
            return array.shape
        named = [self.symbols.get((position, axis)) for axis in range(array.ndim)]
        return tuple(n if s is None else s.size for n, s in zip(array.shape, named, strict=True))

    def run(
        self,
        function: Callable[[], Any],
        collect: Callable[[Any], list[Any]],
        then: Callable[[Recorded, list[Any]], Any] = lambda recorded, found: None,
        settle: Callable[[], None] = lambda: None,
        begin: Callable[[Recorded, Any], None] = lambda recorded, more: None,
    ) -> tuple[Any, Recorded, Any]:
        """Run a function and write it down; return its results, what was written, and what `then` gave.

        collect: finds the Tensors and arrays among the results. then: what else to do while they are still being
        recorded; if it fails, nothing was changed. settle: what else is changed for real, when the Tensors are: all of
        it, or, if the function was interrupted before, nothing. begin: what may go on while a device computes.
        """
        try:
            with self._shown():
                results = function()
                found = collect(results)
                recorded = self.finish([as_traced(r._data if isinstance(r, Node) else r) for r in found])
                more = then(recorded, found)
            begin(recorded, more)
            self._compute_what_is_kept(recorded)
            with Uninterrupted():
                self.commit()
                self.release()
                settle()
        finally:
            self.release()
            self._around_pause = nullcontext  # whoever gave it may hold this, and would not be freed
        return results, recorded, more

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """Show Traced arrays in place of real ones."""
        outer = current()
        inner = outer._replace(recorder=self)

        def hide() -> None:
            now = current()  # the function may leave another mode than it found: set_grad_enabled(False)
            if now.recorder is self:
                switch(outer if now is inner else now._replace(recorder=outer.recorder))
            if self in recording.recordings:
                recording.end(self)

        try:  # (Twice: Ctrl-C may come while it is hidden, too.)
            try:
                recording.begin(self)
                switch(inner)
                with collecting(self.assumed):
                    yield
            finally:
                hide()
        finally:
            hide()

    # --- inputs -----------------------------------------------------------------------------------

    def add_input(self, source: Source, array: Any) -> Traced:
        """Make an array an input of the program."""
        memory, there = device_of(array), array
        if memory is not None:
            array = self._mirror(array, memory)
        position = source.position if isinstance(source, FromArgument) else None
        shape = self._shape(position, array)
        if isinstance(source, FromScript) and isinstance(step := self.script[source.step], Draw):
            shape = step.shape(array)
        value = Value("input", (), {"index": len(self.inputs)}, shape, array.dtype)
        self.inputs.append(value)
        self.sources.append(source)
        self.concrete.append(array)
        self._lie[value] = HOST if memory is None and array.ndim else memory
        if array.__class__ is Promised:
            self._there[value] = there
        return Traced(value, array)

    # --- devices ------------------------------------------------------------------------------------

    def _compute_what_is_kept(self, recorded: Recorded) -> None:
        """Compute all that this run leaves: nothing is changed yet."""
        if not self._there:
            return
        kept = [*recorded.program.outputs, *(traced.value for traced in self._conditions)]
        for node in self._nodes_made():
            for thing in (node._array, node._gradient, node._inputs, node._attributes):
                _plain(thing, lambda traced: kept.append(_value_of(traced)))
        wanted = [value for value in dict.fromkeys(kept) if self.is_promised(value)]
        self._made = dict(zip(wanted, self._computed(wanted), strict=True))
        if any(bool(self._made[traced.value]) for traced in self._conditions):
            raise CheckFailed
        outputs = recorded.program.outputs
        self.after = [self._made.get(o, a) for o, a in zip(outputs, self.after, strict=False)]

    def constant(self, array: Any) -> Traced:
        """Return what stands for an array that is the same at every call."""
        memory = device_of(array)
        host = array if memory is None else laid_out(self._brought(array, memory), array.strides)
        traced = Traced(make.constant(host.copy()), host, known=True)
        if memory is not None:
            self._lie[traced.value] = memory
        return traced

    def settled(self, traced: Traced) -> Any:
        """Return the array of this run, where it belongs, for whoever keeps it."""
        memory = None if self.memory is None else self.lies_on(traced.value)
        if self._made:
            array = self.of_this_run(traced)
            settled = _own(array)
        else:
            settled = traced.settled()
        return on_host(settled) if memory is None else memory.to_device(settled)

    def foreign(self, array: np.ndarray) -> Traced:
        """Return what stands for an array that is no Tensor's: an input if it may change, else a constant."""
        held = self._arrays.get(id(array))
        if held is None:
            if id(array) in self.live:
                held = self._hold(array, FromArray(array))
            else:
                return self.constant(array)
        return held

    def _hold(self, array: np.ndarray, source: Source) -> Traced:
        if id(array) not in self._arrays:
            held = self._arrays[id(array)] = self.add_input(source, array)
            self._at_first[id(array)] = held.value
        return self._arrays[id(array)]

    def _written_arrays(self) -> Iterator[tuple[Traced, int]]:
        """Yield arrays that are no Tensors', and were written into, and their numbers among the inputs."""
        for key, held in self._arrays.items():
            if held.value is not self._at_first[key]:
                yield held, self._at_first[key].attributes["index"]

    def shown(self, part: Any) -> Any:
        """Return what stands for an array among the arguments, or the thing itself."""
        return self._arrays.get(id(part), part)

    def changeable(self, holder: Any, key: str) -> Any:
        """Return what stands for a number that may change."""
        value = holder[key] if isinstance(holder, dict) else getattr(holder, key)
        name = (id(holder), key)
        if isinstance(value, Number) or (self.observer is not None and self.observer.has_set(holder, key)):
            return value  # the function itself has just set it
        if self._is_made_here(holder):
            return value
        if not isinstance(value, float) or (key not in _ALWAYS and name not in self.promoted):
            return value
        if name not in self._numbers:
            reading = ReadNumber(holder, key, type(value))
            self.symbolic.add(name)
            # (A float64 of NumPy's computes otherwise.)
            self._numbers[name] = self.scalar(float(value), reading)
        return self._numbers[name]

    def scalar(self, value: float, reading: Any) -> Number:
        """Make a Python number an input, read by a step of the script."""
        self.script.append(reading)
        traced = self.add_input(FromScript(len(self.script) - 1), np.asarray(value, dtype=np.float64))
        return Number(traced.value, value, reading.run, self.decide)

    def whole(self, symbol: Symbol) -> Size:
        """Return what stands for an int that varies among the arguments: an input, unless a length tells it."""
        if symbol not in Program(self.inputs, []).symbols:
            self.script.append(ReadNumber(self.assumed.given, symbol.name, int))
            source = FromScript(len(self.script) - 1)
            read = self.add_input(source, np.asarray(symbol.hint, dtype=np.float64))
            read.value.attributes["symbol"] = symbol
        return symbol.size

    def promoted_number(self, reading: ReadNumber, value: Any) -> Any:
        """Return what stands for a number that a function reads by itself, and that was seen to change."""
        name = (id(reading.holder), reading.key)
        if name not in self._numbers:
            self.symbolic.add(name)
            number = self.scalar(value, reading)
            self._numbers[name] = as_float(number)
            if type(value) is int:
                later = any(isinstance(step, Effect) for step in self.script)  # than sizes have to be known
                size = functools.cache(lambda: None if later else self._size_of(number.value, value, reading))
                self._numbers[name] = as_int(number, size)
        return self._numbers[name]

    def _size_of(self, number: Value, now: int, reading: ReadNumber) -> Size | None:
        """Return an input that is an int as a size; None if it cannot be one."""
        if not LEAST <= now <= GREATEST or not self._may_be_size(reading, now):
            return None
        name = f"s{len({symbol.name for symbol in self.symbols.values()})}"
        symbol = Symbol(name, now, greatest=GREATEST, typical=now)
        self.symbols[(-1, len(self.sized))] = number.attributes["symbol"] = symbol
        self.sized[name] = reading
        setattr(self.assumed.given, name, now)
        return symbol.size

    def observed(self, function: Any) -> Any:
        """Return what to call in place of a function that a program has given to this library."""
        return function if self.observer is None else self.observer.observed(function)

    def refusal(self, why: str) -> CompileError:
        """Return the error which says why the function cannot be recorded."""
        if self.observer is not None:
            return self.observer.refuse(why)
        return CompileError(f"compile: {why}\n  {where_in_user_code()}")

    def made(self, thing: Any) -> None:
        """Note that an object was made in this run."""
        if self.observer is not None:
            self.observer.made(thing)

    def run_op(self, op: Any, which: Any, function: Callable[..., Any], args: Any, attributes: Any) -> Any:
        """Run a function of an op."""
        return function(*args, **attributes)

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

    def _is_made_here(self, thing: Any) -> bool:
        """Tell whether something of Python's was made in this run: later calls make another one."""
        return self.observer is not None and not self.observer.is_outside(thing)

    def decide(self, question: Callable[[], Any], answer: Any) -> None:
        """Remember a decision on a number: it must be the same at every call."""
        self.decisions.append((question, answer))

    def number(self, array: Any) -> Any:
        """Return the only element of an array as a number."""
        if not isinstance(array, Traced):
            return float(array)
        if array.known:
            return float(array.array)
        value = make.reshape(make.cast(array.value, np.float64), ())
        read = self._reader(value)
        return Number(value, float(self.numbers_of(array)), lambda: float(read()), self.decide)

    def fixed(self, array: Any) -> Any:
        """Return the numbers of an array, which must be the same at every call."""
        if not isinstance(array, Traced):
            return array
        if not array.known:
            read, content = self._reader(array.value), self.numbers_of(array).tobytes()
            self.decide(lambda: read().tobytes(), content)
        return self.numbers_of(array).copy()

    def _reader(self, value: Value) -> Callable[[], np.ndarray]:
        """Return a function that computes a value of the program from the inputs' arrays as they are then."""
        made_from = in_order([value])
        needed = [v for v in made_from if v.primitive == "input"]
        bound = Program(needed, [value]).symbols
        # The length of an argument may be needed of which nothing else is read.
        sizes = [s for s in symbols_of([(v.shape, v.attributes) for v in made_from]) if s not in bound]
        needed += [next(v for v in self.inputs if size in Program([v], []).symbols) for size in sizes]
        program = Program(needed, [value])
        if any(isinstance(self.sources[v.attributes["index"]], FromScript) for v in needed):
            raise refuse(
                "a decision on a random number, or on one that a schedule changes,", "decide it outside"
            )

        self._asked_about.append(value)

        def read() -> np.ndarray:
            call = Call(self.arguments)
            arrays = [self.sources[v.attributes["index"]].read(call) for v in needed]
            return interpret(program, [on_host(array) for array in arrays])[0]

        return read

    def draw(self, source: Any, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Draw now, and at every call."""
        if self.observer is not None and not self.observer.is_outside(source):
            raise self.observer.refuse("it draws from a generator that it makes itself, anew at each call")
        if any(isinstance(each, (Number, Traced)) and not is_known(each) for each in args):
            raise CompileError(
                "it draws as many random numbers as the values of the call ask for: by rejection (gamma, poisson), or "
                "for the places that a mask holds"
            )
        sized = [each for each in args if type(each) is Size]
        step = Draw(source, method, args, self.assumed.given if sized else None)
        with self.paused():
            drawn = step.run()
        if sized and not (sized[0] is args[0] and drawn.shape == (hint(args[0]),)):
            for each in sized:
                int(each)
        self.script.append(step)
        return self.add_input(FromScript(len(self.script) - 1), drawn)

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

    # --- Tensors ------------------------------------------------------------------------------------

    def is_fresh(self, node: Node) -> bool:
        """Tell whether a node was made during this recording."""
        return getattr(node, "_time", math.inf) > self.began  # none yet: it is just being made

    def renewing(self, node: Node) -> None:
        """Refuse to give a node from before another place in the graph: later calls could not do the same."""
        if not self.is_fresh(node):
            raise CompileError(
                f"it writes into a tensor from before the call (shape {tuple(node._array.shape)}) where its graph, or "
                "that of what is written, is recorded; write out of place (x = x + y), or into a tensor made inside"
            )

    def looks_outside(self, array: Any) -> bool:
        """Tell whether an array lies in the memory of a Tensor, or an array, from before the recording."""
        while isinstance(array, Traced) and array.base is not None:
            array = array.base
        outside = (*(held.at_first for held in self._data.values()), *self._arrays.values())
        return isinstance(array, Traced) and any(array is each for each in outside)

    def outside(self, root: Traced) -> Source | None:
        """Return where an array is found outside, from the beginning of this run or, of gradients, from now on."""
        for held in self._data.values():
            if root is held.at_first or root is held.now:
                if held.at_first is not held.now:
                    raise CompileError(
                        f"compile: it returns a part of the memory that it gives to, or takes from, a tensor (shape "
                        f"{tuple(held.node._array.shape)}); return a clone()"
                    )
                place = self._positions.get(id(held.node))
                return (
                    self.placed.get(id(held.node), FromTensor(held.node))
                    if place is None
                    else FromArgument(place)
                )
        for key, array in self._arrays.items():
            if root is array:
                return self.sources[self._at_first[key].attributes["index"]]
        for held in self._grads.values():
            if root is held.now:
                place = self._positions.get(id(held.node))
                return FromGradient(held.node) if place is None else FromArgument(place, gradient=True)
        return None

    def walking(self, nodes: Iterable[Node], boundary: Collection[Node]) -> None:
        """Refuse to go backward through a graph from before the recording: later calls bring another one."""
        for node in nodes:
            if node._operation is not None and node not in boundary and not self.is_fresh(node):
                raise CompileError(
                    "compile: backward goes through the graph of a tensor from before the call (shape "
                    f"{node._array.shape}, made by {node._operation.name}), which is another one at each call\n"
                    f"  {where_in_user_code()}\ncompute it inside, or detach() it and go on outside"
                )

    def flagging(self, node: Node) -> None:
        """Refuse to change requires_grad of a tensor from before the recording."""
        if not self.is_fresh(node):
            raise CompileError(
                f"compile: it changes requires_grad of a tensor from before the call (shape {node._array.shape})\n"
                f"  {where_in_user_code()}\ndo that outside"
            )

    def read_data(self, node: Node) -> Any:
        """Return what a node shows as its array."""
        array = node._array
        if isinstance(array, (Traced, list)) or hasattr(
            array, "__minitorch_gradient__"
        ):  # recorded, or a vmap's
            return array
        if isinstance(array, Coo):
            raise self.refusal("a sparse tensor is used, and those are not compiled; it runs eagerly")
        if type(array) is not np.ndarray and device_of(array) is None:
            raise CompileError(f"compile: tensors of {type(array).__name__} are not compiled")
        if self.is_fresh(node):
            held = self._arrays.get(id(array))
            traced = held if held is not None else self.constant(array)
            self.write_data(node, traced)
            return traced
        held_data = self._data.get(id(node))
        if held_data is None:
            with self.paused():
                synced(node, strictly=False)
            place = self._positions.get(id(node))
            found = self.placed.get(id(node), FromTensor(node))
            source = found if place is None else FromArgument(place)
            traced = self.add_input(source, array)
            held_data = self._data[id(node)] = _Held(node, traced, traced, traced.value)
        return held_data.now

    def looked_at(self, node: Node) -> None:
        """Whoever is not recorded sees Tensors as they were before."""

    def write_data(self, node: Node, new: Any) -> None:
        """Give a node another array: aside, if it is from before."""
        if self.is_fresh(node):
            node._array = new
            if isinstance(new, (Traced, list)):
                self._fresh.append(weakref.ref(node))
            return
        if (
            new.shape != self._shape(self._positions.get(id(node)), node._array)
            or new.dtype != node._array.dtype
        ):
            raise CompileError(
                f"it gives a tensor from before it (shape {node._array.shape}, dtype {node._array.dtype}) data of "
                f"shape {new.shape} and dtype {new.dtype}; do that outside"
            )
        self.read_data(node)
        self._data[id(node)].now = new if isinstance(new, Traced) else self.foreign(new)

    def read_grad(self, node: Node) -> Any:
        """Return what a node shows as its gradient."""
        gradient = node._gradient
        held = self._grads.get(id(node))
        if held is None:
            if not self.is_fresh(node):
                self.asked[id(node)] = (node, gradient is not None)
            if gradient is None or isinstance(gradient, (Traced, list)) or self.is_fresh(node):
                return gradient
            if isinstance(gradient, Coo):
                raise self.refusal(
                    "a gradient is sparse, and sparse tensors are not compiled; it runs eagerly"
                )
            held = self._hold_gradient(node)
        return held.now

    def _hold_gradient(self, node: Node) -> _Held:
        if node._grad_is_shared and node._gradient is not None:
            # As whoever looks at it would get it: then a sum is written into it, in every recording alike.
            node._gradient, node._grad_is_shared = node._gradient.copy(), False
        place = self._positions.get(id(node))
        source = FromGradient(node) if place is None else FromArgument(place, gradient=True)
        gradient = node._gradient
        traced = self.add_input(source, gradient if device_of(gradient) else np.asarray(gradient))
        held = self._grads[id(node)] = _Held(node, traced, traced, traced.value)
        return held

    def write_grad(self, node: Node, new: Any) -> None:
        """Give a node another gradient: aside, if it is from before."""
        if self.is_fresh(node):
            node._gradient = new
            if new is not None:
                self._fresh.append(weakref.ref(node))
            return
        if id(node) not in self._grads:
            if node._gradient is not None:
                self._hold_gradient(node)
            else:
                self._grads[id(node)] = _Held(node, None, None, None)
        if new is not None and not isinstance(new, Traced):
            new = self.foreign(new if device_of(new) else np.asarray(new))
        self._grads[id(node)].now = new

    # --- the end ------------------------------------------------------------------------------------

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run something as if nothing were recorded."""
        with self._around_pause(), unobserved():
            outer = current()
            switch(outer._replace(recorder=None))
            try:
                yield
            finally:
                switch(outer)

    def finish(self, results: list[Traced]) -> Recorded:
        """Return what was written down, with these as the function's results."""
        outputs = [r.value for r in results]
        self.after = [r.array for r in results]  # what the outputs are in this run
        updates: list[Update] = []
        rebinds: list[Rebind] = []
        for held in self._data.values():
            place = self._positions.get(id(held.node), held.node)
            if held.is_written:
                updates.append(Update(len(outputs), held.number))
                self._outputs[id(held)] = len(outputs)
                outputs.append(held.at_first.value)
                self.after.append(held.at_first.array)
            if held.now is not held.at_first:
                rebinds.append(Rebind(place, "_data", len(outputs)))
                outputs.append(held.now.value)
                self.after.append(held.now.array)
        for array, number in self._written_arrays():
            if isinstance(self.sources[number], FromArray):
                raise CompileError(
                    "compile: it writes into a NumPy array from outside; make it a Tensor, or write into it outside"
                )
            updates.append(Update(len(outputs), number))
            self._outputs[id(array)] = len(outputs)
            outputs.append(array.value)
            self.after.append(array.array)
        # A walk backwards meets leaves by their age, and arguments are of any: theirs come by their positions.
        first = lambda held: self._positions.get(id(held.node), len(self._positions))
        for held in sorted(self._grads.values(), key=first):
            place = self._positions.get(id(held.node), held.node)
            if held.is_left_written:
                updates.append(Update(len(outputs), held.number))
                outputs.append(held.at_first.value)
                self.after.append(held.at_first.array)
            if held.now is None:
                rebinds.append(Rebind(place, "_grad", None))
            elif held.now.value is not held.value:
                rebinds.append(Rebind(place, "_grad", len(outputs), held.now is held.at_first))
                outputs.append(held.now.value)
                self.after.append(held.now.array)
        last = [] if self._last_start is None else [self._last_start]
        more = (*self.checks, *last, *self.asked_here)
        outputs += [each.value for each in more]
        self.after += [each.array for each in more]
        self.is_finished = True
        moved = self._drop_unread(outputs, {u.input for u in updates})
        updates = [Update(u.output, moved[u.input]) for u in updates]
        written = {u.input for u in updates}
        for held in self._grads.values():
            if held.value is not None and held.now is held.at_first:
                written.add(held.value.attributes["index"])
        before = [self._there.get(v, a) for v, a in zip(self.inputs, self.concrete, strict=True)]
        self.before = [a.copy() if i in written else a for i, a in enumerate(before)]
        program = Program(self.inputs, outputs)
        recorded = Recorded(
            program, self.sources, self.script, self.decisions, updates, rebinds, self.symbolic
        )
        self._refuse_mixed_devices(program)
        self._refuse_shared_memory(recorded)
        self._refuse_writing_into_places(recorded)
        return recorded

    def _drop_unread(self, outputs: list[Value], written: set[int]) -> dict[int, int]:
        """Leave out Tensors of which nothing but the shape was read, and gradients that were replaced without being
        read. Return the inputs' new numbers."""
        needed = set(in_order([*outputs, *self._asked_about]))
        found = lambda s: (
            isinstance(s, (FromTensor, FromGradient)) or (isinstance(s, FromArgument) and s.gradient)
        )
        needed.update(self.inputs[i] for i in written)
        unread = [
            s
            for i, s in enumerate(self.sources)
            if isinstance(s, FromTensor) and self.inputs[i] not in needed
        ]
        self.unread = [source.tensor for source in unread]
        kept = [i for i, s in enumerate(self.sources) if self.inputs[i] in needed or not found(s)]
        kept.sort(key=lambda i: _rank(self.sources[i]))
        for new, old in enumerate(kept):
            self.inputs[old].attributes["index"] = new
        self.inputs = [self.inputs[i] for i in kept]
        self.sources = [self.sources[i] for i in kept]
        self.concrete = [self.concrete[i] for i in kept]
        return {old: new for new, old in enumerate(kept)}

    def _refuse_writing_into_places(self, recorded: Recorded) -> None:
        written = [self.sources[u.input] for u in recorded.updates]
        rebound = [id(r.tensor) for r in recorded.rebinds if not isinstance(r.tensor, int)]
        if any(isinstance(source, FromPlace) for source in written) or not self.placed.keys().isdisjoint(
            rebound
        ):
            raise CompileError("compile: it writes into a tensor where it finds another one at each call")

    def _refuse_shared_memory(self, recorded: Recorded) -> None:
        """Arrays that overlap are one in NumPy and two in a program: if one of them is written, refuse."""
        arrays = dict(zip(self.inputs, self.concrete, strict=True))
        written = [self.inputs[u.input] for u in recorded.updates]
        for held in self._grads.values():  # a gradient that is written into, even if it is not read
            if held.is_written and held.value is not None:
                arrays[held.value] = held.node._gradient
                written.append(held.value)
        if not written:
            return
        there = {id(mirror): array for array, mirror in self._mirrors.values()}
        places = {value: number for number, value in enumerate(arrays)}
        found = first_sharing(
            [there.get(id(array), array) for array in arrays.values()], {places[value] for value in written}
        )
        if found is not None:
            mine, other = found
            raise CompileError(
                f"compile: two tensors of shapes {mine.shape} and {other.shape} share memory, and the function "
                "writes into one of them; clone() one of the two"
            )

    def commit(self) -> None:
        """Do to the Tensors from before what the function did, by the arrays of this run.

        No more memory is taken than has to be: a step of a large model holds its parameters several times already.
        """
        given = {id(watch.owner_of(array)) for array in self.concrete}
        is_given = lambda array: isinstance(array, np.ndarray) and id(watch.owner_of(array)) in given
        written = []
        for held in self._data.values():
            if held.is_written:
                new = self.of_this_run(held.at_first)
                written.append((held, held.node._array, new.copy() if is_given(new) else new))
            if held.now is not held.at_first:
                held.node._array = self._beside(held.node, _own(self.of_this_run(held.now)))
                watch.touch(held.node)
        for held in self._grads.values():
            if held.is_left_written:
                there, new = held.node._gradient, self.of_this_run(held.at_first)
                there[...] = self._beside(
                    held.node, new.copy() if is_given(new) else new
                )  # whoever holds it sees it
            if held.now is None or held.now is not held.at_first or held.now.value is not held.value:
                gradient = None if held.now is None else self.of_this_run(held.now)
                if gradient is not None and is_given(gradient):
                    gradient = gradient.copy()
                there = held.node._gradient
                if gradient is not None:
                    gradient = self._beside(held.node, gradient)
                if held.now is held.at_first and there is not None and is_writeable(there):
                    there[...] = gradient  # whoever holds it sees the new one
                else:
                    held.node._gradient = gradient
                    held.node._grad_is_shared = gradient is not None  # whoever looks gets a copy if it is
        for traced, number in self._written_arrays():
            array, new = self.concrete[number], on_host(self.of_this_run(traced))
            array[...] = new.copy() if is_given(new) else new
            watch.touch(array)
            self.after[self._outputs[id(traced)]] = array
        while written:
            held, array, new = written.pop()
            np.copyto(array, self._beside(held.node, new))  # (of a device's arrays that takes no kernel)
            watch.touch(array)
            if device_of(array) is None:
                # It is what the function gave: the other one may go.
                self.after[self._outputs[id(held)]] = held.at_first._array = array

    def _beside(self, node: Any, array: np.ndarray) -> Any:
        """Return an array of this run where a node's own array lies."""
        memory = device_of(node._array)
        return on_host(array) if memory is None else memory.to_device(array)

    def forget(self, arguments: list[Any]) -> None:
        """Let go of the arrays of this run. arguments: where decisions on numbers find those of a call from now on."""
        self.arguments = arguments
        self.concrete, self.before, self.after, self._fresh = [], [], [], []
        self.checks, self.asked_here = [], []
        self.live = {}
        held_things = (self._data, self._grads, self.asked, self._arrays, self._at_first, self._numbers)
        there = (
            self._lie,
            self._mirrors,
            self._there,
            self._promised,
            self._made,
            self._handed,
            self._conditions,
        )
        for held in (*held_things, self.begun, self.masks, *there):
            held.clear()
        for collective in self.collectives:
            collective.forget()

    def _nodes_made(self) -> Iterator[Any]:
        """Yield the nodes that were made on the way and that somebody keeps."""
        for reference in self._fresh:
            if (node := reference()) is not None:
                yield node

    def release(self) -> None:
        """Give the nodes made on the way, as far as somebody keeps them, plain arrays."""
        self.is_over = True
        for node in reversed(list(self._nodes_made())) if self.memory is not None else ():
            used: list[Traced] = []
            _plain([node._inputs, node._attributes], used.append)
            used += [i._array for i in node._inputs if isinstance(i, Node) and isinstance(i._array, Traced)]
            if isinstance(node._array, Traced):
                self.let_follow(node._array, used)
        for node in self._nodes_made():
            for slot in ("_array", "_gradient"):
                content = getattr(node, slot)
                if isinstance(content, Traced):
                    setattr(node, slot, self.settled(content))
                elif isinstance(content, list):
                    content[:] = [self.settled(c) if isinstance(c, Traced) else c for c in content]
            node._view = None  # each has memory of its own now
            # The first call's results have a graph as any: it must not go on recording.
            if node._operation is not None:
                node._inputs = _plain(node._inputs, self.settled)
                node._attributes = _plain(node._attributes, self.settled)
        for node in self._nodes_made() if self.memory is not None else ():
            memory = device_of(node._array)
            if node._operation is not None and memory is not None:
                node._inputs = tuple([_beside_others(each, memory) for each in node._inputs])


def _beside_others(thing: Any, memory: DeviceMemory) -> Any:
    """Return what an op on a device was given there: single numbers without a gradient may have lain on the host."""
    array = thing._array if isinstance(thing, Node) else thing
    if getattr(thing, "_requires_grad", False) or not isinstance(array, np.ndarray) or array.ndim:
        return thing
    moved = memory.to_device(array)
    if not isinstance(thing, Node):
        return moved
    made = new_tensor(moved)
    made._time = thing._time  # (it was there before the op)
    return made


def _own(array: Any) -> Any:
    """Return a copy of an array of the host's; what a device has computed is nobody else's."""
    return np.array(array) if isinstance(array, np.ndarray) else array


def _lengths(states: Mapping[Any, Any]) -> list[int]:
    """Return how many states there are, and how much is in each."""
    return [len(states), *(len(state) for state in states.values() if isinstance(state, dict))]


def _value_of(traced: Traced) -> Value:
    if traced.is_masked:  # which rows a mask has chosen nobody knows before
        raise NumbersMissing("rows that a mask has chosen")
    return traced.value


def _plain(thing: Any, settled: Callable[[Traced], Any]) -> Any:
    """Return what an op was given with the arrays and numbers of this run in it."""
    if isinstance(thing, Traced):
        return settled(thing)
    if isinstance(thing, Number):
        return thing.concrete
    if type(thing) is Size:
        return hint(thing)
    if type(thing) is slice:
        return slice(*(_plain(part, settled) for part in (thing.start, thing.stop, thing.step)))
    if isinstance(thing, (tuple, list)) and not hasattr(thing, "_fields"):
        return type(thing)(_plain(i, settled) for i in thing)
    return {k: _plain(v, settled) for k, v in thing.items()} if type(thing) is dict else thing


@dataclass
class _Held:
    """A Tensor from before: what it showed first, what it shows now, and the input that is."""

    node: Any
    at_first: Any
    now: Any
    value: Value | None

    @property
    def number(self) -> int:
        """Of the input."""
        assert self.value is not None
        return self.value.attributes["index"]

    @property
    def is_written(self) -> bool:
        """Whether what it showed first was written into."""
        return self.value is not None and self.at_first.value is not self.value

    @property
    def is_left_written(self) -> bool:
        """Whether a gradient was written into, and then replaced: whoever holds it sees what was written."""
        return self.is_written and self.now is not self.at_first and is_writeable(self.node._gradient)


# Numbers that change as a matter of course, so that they are inputs from the first recording on.
_ALWAYS = {"lr", "p"}
