"""What a function finds outside, as inputs of its program. Enters: arrays, numbers, draws. Leaves: what shows them.

That is a Traced for an array, a Number or a Size for a number. Of each, a `Source` says where later calls find it; a
decision that the function makes on one is noted with its answer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.compiler.ir.polynomial import GREATEST, LEAST
from minitorch.compiler.ir.program import Program, Value, in_order, interpret
from minitorch.compiler.ir.sizes import Size, Symbol, hint, symbols_of
from minitorch.compiler.trace.number import Number, as_float, as_int
from minitorch.compiler.trace.observe.observer import unobserved
from minitorch.compiler.trace.on_devices import HOST, OnDevices, laid_out
from minitorch.compiler.trace.promised import Promised
from minitorch.compiler.trace.recorded import (
    Call,
    Draw,
    Effect,
    FromArgument,
    FromArray,
    FromScript,
    GivenNumbers,
    ReadNumber,
    Source,
)
from minitorch.compiler.trace.refusal import CompileError, refuse, where_in_user_code
from minitorch.compiler.trace.traced import Traced, is_known
from minitorch.compiler.trace.varying import Assumptions
from minitorch.engine import watch
from minitorch.engine.gpu import DeviceMemory, device_of, on_host
from minitorch.engine.modes import current, switch

# Numbers that change as a matter of course, so that they are inputs from the first recording on.
_ALWAYS = {"lr", "p"}


class Inputs(OnDevices):
    """What a recording knows of its inputs: where they come from, and what they are in this run.

    arguments: the Tensors and arrays among its arguments. live: arrays outside Tensors that may change, by id.
    promoted: numbers that were seen to change, by holder and key. around_pause: entered around everything that is done
    anew at each call (draws, and steps of schedules). symbols: the sizes that vary, by argument and axis. given: where
    each call puts them, and the floats among its arguments. may_be_size: tells whether an int that the function reads
    by itself, and that was seen to change, may be one of them. computing, most_here: see OnDevices.
    """

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
        self.symbolic: set[tuple[int, str]] = set()
        self.observer: Any = None  # observes the function, if anyone does
        self._around_pause = around_pause
        self._arrays: dict[int, Traced] = {}
        # What they stand for before anything is written, by the same ids.
        self._at_first: dict[int, Value] = {}
        self._numbers: dict[tuple[int, str], Number] = {}
        self._positions = {id(a): i for i, a in reversed(list(enumerate(arguments)))}
        self._asked_about: list[Value] = []  # what decisions are about
        for i, given in enumerate(arguments):
            if isinstance(given, np.ndarray):
                self._hold(given, FromArgument(i))

    # --- arrays -------------------------------------------------------------------------------------

    def _shape(self, position: int | None, array: Any) -> tuple[int, ...]:
        """Return the shape of an argument's array, with the sizes in it that vary."""
        if not self.symbols or position is None:
            return array.shape
        named = [self.symbols.get((position, axis)) for axis in range(array.ndim)]
        return tuple(n if s is None else s.size for n, s in zip(array.shape, named, strict=True))

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

    def constant(self, array: Any) -> Traced:
        """Return what stands for an array that is the same at every call."""
        memory = device_of(array)
        host = array if memory is None else laid_out(self._brought(array, memory), array.strides)
        traced = Traced(make.constant(host.copy()), host, known=True)
        if memory is not None:
            self._lie[traced.value] = memory
        return traced

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

    # --- numbers ------------------------------------------------------------------------------------

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

    # --- decisions ----------------------------------------------------------------------------------

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

    # --- what is done anew at each call -------------------------------------------------------------

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

    # --- what observes the function -----------------------------------------------------------------

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

    def _is_made_here(self, thing: Any) -> bool:
        """Tell whether something of Python's was made in this run: later calls make another one."""
        return self.observer is not None and not self.observer.is_outside(thing)
