"""One program for one key: the conditions under which it may be used, and how it is run.

Enters: a recording, made a runner by a backend. Leaves: a `Specialisation`, which tells whether it fits a call, and
does what the function did.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.compiler.call.audit import Audits
from minitorch.compiler.call.conditions import (
    GONE,
    MISS,
    TESTS,
    Condition,
    Let,
    Local,
    Requirement,
    SourceCode,
    compiled,
    first_violation,
    function_of,
)
from minitorch.compiler.call.containers import filled, takes_from_call
from minitorch.compiler.call.guards import Environment, condition_of
from minitorch.compiler.call.key import OF_ARRAY, Arguments, CacheKey, Spelled
from minitorch.compiler.call.shapes import places_of
from minitorch.compiler.call.undo import Before
from minitorch.compiler.call.views import View
from minitorch.compiler.ir.polynomial import GREATEST, LEAST
from minitorch.compiler.ir.sizes import Guard
from minitorch.compiler.trace.backward import Backward
from minitorch.compiler.trace.interrupts import Uninterrupted
from minitorch.compiler.trace.observe.observer import Change, Fact, brief
from minitorch.compiler.trace.recorded import (
    Call,
    Draw,
    Effect,
    FromArgument,
    FromArray,
    FromGradient,
    FromPlace,
    FromTensor,
    GivenNumbers,
    ReadNumber,
    Recorded,
    first_sharing,
    found_at,
    look_at,
)
from minitorch.compiler.trace.refusal import Refused
from minitorch.engine import watch
from minitorch.engine.backward import own_gradient
from minitorch.engine.gpu import device_of, is_laid_out, is_writeable, may_share_memory
from minitorch.engine.modes import Mode
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.recording import ARRAY, GRADIENT
from minitorch.tensor.plain import PlainArray

# What a program stops with: a check of its own, or an error of a NumPy function that it calls back.
REFUSALS = (Refused, np.linalg.LinAlgError, ValueError, IndexError, FloatingPointError)

# One call in so many is looked at for its sizes. Sizes that were met so often, and are three quarters of the last ones,
# get a program of their own; so many of them for each program whose sizes vary.
SAMPLED, OFTEN, MOST_OF_THEIR_OWN = 64, 64, 2

# Does an array lie in memory that is written? {1}: the ids of its owners.
SHARES = "(id(owner_of({0})) in {1})"
_shares = function_of(SHARES, 2)
# Is an array of a shape, {1}, and a dtype, {2}?
_LIKE = [
    TESTS[OF_ARRAY[what].test].format(OF_ARRAY[what].look, place)
    for what, place in (("shape", "{1}"), ("dtype", "{2}"))
]
_is_like = function_of(" and ".join(["({0} is not None)", *_LIKE]), 3)


class Redecided(Exception):
    """A decision on a number went the other way: the recording does not fit this call."""


class Captured:
    """The array, or the gradient, of a Tensor that the function found by itself: an input of the program.

    It may be another one at the next call, of the same shape and dtype; `known` is the one of the last call.
    """

    __slots__ = ("conditions", "dtype", "kind", "known", "name", "read", "shape", "tensor", "what", "written")

    def __init__(self, source: FromTensor | FromGradient, value: Any, number: int, written: bool) -> None:
        self.tensor = source.tensor
        self.what = ARRAY if isinstance(source, FromTensor) else GRADIENT
        self.shape, self.dtype = value.shape, value.dtype
        self.written = written
        self.read = function_of(self.what, 1)
        # A gradient is another one at each call.
        self.known: Any = self.read(self.tensor) if self.what is ARRAY else MISS
        self.kind = self.tensor._array.__class__
        self.name = Local(f"c{number}")
        words = "a tensor" if self.what is ARRAY else "the gradient of a tensor"
        gone = f"a gradient of shape {self.shape} was there and is none now"
        self.conditions = [Condition(words, "({0} is None)", (self.name,), False, told=gone)]
        of_array = {"array": self.kind, "shape": self.shape, "dtype": self.dtype}
        for fact, expected in ((OF_ARRAY[name], expected) for name, expected in of_array.items()):
            words_of = fact.words.format(words)
            self.conditions.append(Condition(words_of, fact.look, (self.name,), expected, fact.test))

    @property
    def is_written_into(self) -> bool:
        """Whether it is an array of a Tensor's, known from the last call, that is written."""
        return self.written and self.known is not MISS

    def violation(self, call: dict[str, Any]) -> str:
        """Say why the array cannot be an input; '' if it can."""
        call[self.name] = self.read(self.tensor)
        return first_violation(self.conditions, call)

    def write(self, source: SourceCode) -> None:
        """Write that it must be the array of the last call: for another one, the source is written anew."""
        now = self.what.format(source.bind(self.tensor))
        if self.known is not MISS:
            source.add(f"if {now} is not {source.bind(self.known)}: return MISS")
        else:
            source.add(f"{self.name} = {now}")
            source.require(self.conditions)


@dataclass(frozen=True)
class Result:
    """A Tensor or array among the results.

    given: None if it is made anew at each call; else a Tensor from before, a place where there is one, or an argument's
    position.
    used_up: the op of a Tensor whose graph a backward inside has used up.
    is_plain: an array that understands PyTorch's spelling too, as `.data` and `.grad` do.
    view: how it is made anew where its memory is not its own.
    axes: in which order its axes lie in memory, if not in their own: whether it can be looked at in another shape
    depends on it, and in which order it is filled with random numbers.
    """

    given: Any
    is_tensor: bool
    used_up: Any = None
    is_plain: bool = False
    view: View | None = None
    axes: tuple[int, ...] | None = None

    def given_at(self, leaves: Sequence[Any]) -> Any:
        """Return the Tensor that is given at a call with these arguments."""
        if isinstance(self.given, int):
            return leaves[self.given]
        return (
            found_at(self.given.holder, self.given.key) if isinstance(self.given, FromPlace) else self.given
        )


def laid_out(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return an array with its axes in some order in memory.

    >>> laid_out(np.zeros((2, 3), np.int8), (1, 0)).strides
    (1, 2)
    """
    return np.ascontiguousarray(array.transpose(axes)).transpose(
        sorted(range(len(axes)), key=axes.__getitem__)
    )


def _condition_on_sizes(guard: Guard) -> Condition:
    """Return what a recording took for granted about sizes as a condition on them, by their names."""
    names = [symbol.name for symbol in guard.size.symbols]
    look = re.sub(r"s\d+", lambda found: f"{{{names.index(found[0])}}}", f"({guard})")
    return Condition(str(guard), look, tuple(map(Local, names)), True, told=f"{guard} does not hold any more")


def _as_array(given: Any) -> Any:
    return np.asarray(given) if device_of(given) is None else given


def _reading(name: Local, reading: ReadNumber) -> Let:
    """Return what gives an int that the function reads its name."""
    look = look_at(reading.holder, reading.key)
    return Let((name,), look, (reading.holder, reading.key) if "{1}" in look else (reading.holder,))


def _may_vary(name: Local, reading: ReadNumber) -> Condition:
    """Return the condition on an int that the function reads that it is one of those for which there is one program."""
    told = f"{brief(reading.key)} is an int for which there are programs of their own"
    return Condition(f"{brief(reading.key)}", f"({LEAST} <= {{0}} <= {GREATEST})", (name,), True, told=told)


def _test_of(answer: Any) -> str:
    return "same" if type(answer) is float else "=="  # of zeros, the sign too


def _is_there(step: ReadNumber) -> bool:
    """Tell whether there is a number where one is to be read."""
    try:
        return isinstance(step.find(), (int, float))
    except GONE:
        return False


def _given_by(step: Any) -> Any:
    """Return what a step of the script gives; raise Redecided where a number is gone."""
    if not isinstance(step, ReadNumber):
        return step.run()
    try:
        return step.run()
    except GONE:
        raise Redecided from None


def changing(changes: list[Change], stored: list[Any]) -> Callable[[list[Any], dict[int, Any]], None] | None:
    """Return what does to Python's objects what a function did, given the Tensors and arrays among results.

    stored: the templates of what each change stores. What it returns takes containers that are among the results, too.
    """

    def change(found: list[Any], known: dict[int, Any]) -> None:
        values = [filled(part, found, known) for part in stored]  # all of them before the first is stored
        for each, value in zip(changes, values, strict=True):
            each.redo(value)

    return change if changes else None


@dataclass(eq=False)
class Specialisation:
    """One program: the recording, the conditions under which it holds, and how it is run."""

    recorded: Recorded
    environment: Environment
    key: CacheKey
    template: Any  # of its results
    results: list[Result]
    runner: Any  # runs the program on arrays
    backward: Backward | None
    given: GivenNumbers
    reason: str  # why it was compiled
    seconds: float = 0.0
    audit_seconds: float = 0.0  # what the last audit took
    used: int = 0  # when, last
    asked_about: list[Any] = field(default_factory=list)  # the arguments, while decisions on them are taken
    entry: Any = None  # the generated function (entry.py), if there is one, and it is made
    entry_is_made: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    changes: list[Change] = field(default_factory=list)  # to Python's objects, done at each call
    stored: list[Any] = field(default_factory=list)  # the templates of what they store
    audits: Audits = field(default_factory=lambda: Audits(wanted=False))
    promoted: frozenset[tuple[int, Any]] = frozenset()  # numbers seen to change by then
    aliases: list[tuple[Fact, int]] = field(default_factory=list)  # facts that found an argument, and which
    pinned: list[tuple[int, Any]] = field(
        default_factory=list
    )  # arguments that must be the same ones, by position
    compared: dict[int, Any] = field(default_factory=dict)  # what no argument may be, by id
    hints: dict[str, int] = field(default_factory=dict)  # the sizes that vary, as they were in the recording
    audited_elsewhere: bool = False  # whether it was found to be right for other sizes than those
    sized: dict[str, ReadNumber] = field(default_factory=dict)  # those that are ints which the function reads
    apart: set[tuple[int, ...]] = field(default_factory=set)  # sizes that have programs of their own
    may_be_apart: bool = True  # whether sizes that come often get one
    _seen: dict[tuple[int, ...], int] = field(default_factory=dict)  # how often sizes were met by samples

    def __post_init__(self) -> None:
        recorded = self.recorded
        self.places = places_of(self.key.shapes)  # where the sizes that vary are found
        self.names = [*self.places, *self.sized]
        conditions = [_condition_on_sizes(guard) for guard in recorded.program.guards]
        self.size_conditions = [each for each in conditions if not self.sized.keys() & set(each.operands)]
        # What is about ints that the function reads is looked at when it is known that they are there, and ints.
        self.readings = [_reading(Local(name), reading) for name, reading in self.sized.items()]
        self.number_conditions = [
            *(_may_vary(Local(name), reading) for name, reading in self.sized.items()),
            *(each for each in conditions if each not in self.size_conditions),
        ]
        both = [*self.size_conditions, *self.number_conditions]
        self._sizes_fit = compiled(both, *self.names) if both else None
        written = {u.input for u in recorded.updates}
        self.captured = [
            Captured(source, value, i, i in written)
            for i, (source, value) in enumerate(zip(recorded.sources, recorded.program.inputs, strict=True))
            if isinstance(source, (FromTensor, FromGradient))
        ]
        words = "a decision on a number goes the other way"
        self.decisions = [
            Condition("a number", "{0}()", (question,), answer, _test_of(answer), told=words)
            for question, answer in recorded.decisions
        ]
        self._decided = compiled(self.decisions) if self.decisions else lambda: True
        self.writes_arguments = any(isinstance(recorded.sources[i], FromArgument) for i in written)
        self._placed = [source for source in recorded.sources if isinstance(source, FromPlace)]
        # Tensors whose gradients are read, each with whether it is written. (An argument by its position.)
        self._with_gradient: dict[int, tuple[Any, bool]] = {}
        for i, source in enumerate(recorded.sources):
            if isinstance(source, FromGradient):
                self._with_gradient[id(source.tensor)] = source.tensor, i in written
            elif isinstance(source, FromArgument) and source.gradient:
                self._with_gradient[source.position] = source.position, i in written
        for rebind in recorded.rebinds:
            if rebind.in_place:
                given = isinstance(rebind.tensor, int)
                self._with_gradient[rebind.tensor if given else id(rebind.tensor)] = rebind.tensor, True
        self._writes_memory = bool(recorded.updates) or any(
            is_written for _, is_written in self._with_gradient.values()
        )
        self.draws = [i for i, step in enumerate(recorded.script) if isinstance(step, Draw)]
        self._numbers = [
            s for s in recorded.script if isinstance(s, ReadNumber) and s.holder is not self.given
        ]
        self.has_effects = any(isinstance(step, Effect) for step in recorded.script)
        self._streams = list(
            {id(s.source): s.source for s in recorded.script if isinstance(s, Draw)}.values()
        )
        # A run may be given up after the draws: an index is out of range, a matrix singular.
        self.may_need_undoing = self.has_effects or bool(self._streams and self.runner.may_fail)
        # Where the entry could not make up for an interrupt, Ctrl-C has to wait for it.
        self.must_not_be_interrupted = bool(self.has_effects or self._streams or self.changes)
        self._find_owners_of_written()
        self.change = changing(self.changes, self.stored)
        self.takes_from_call = takes_from_call((self.template, self.stored))
        self.audits.program = weakref.ref(self)
        if self.has_effects and self.decisions:
            # In the middle of a call a schedule may turn a decision: what the function then does is not this.
            self.audits.stop()
        others = [*self.compared.values(), *(each.tensor for each in self.captured)]
        others += [s.array for s in recorded.sources if isinstance(s, FromArray)]
        self.others = {id(each): each for each in others}
        names = [Local(f"x{i}") for i in range(len(self.key.leaves))]
        self.is_apart = compiled(self.identities(names), *names)

    @property
    def calls(self) -> int:
        """How many calls it has run."""
        return self.audits.calls

    # --- does it fit? ---------------------------------------------------------------------------------

    def spelled(self, usual: Mode | None = None) -> Spelled:
        """Return the conditions on a call's arguments. usual: a mode under which it fits."""
        return Spelled(self.key, self._memory if self._writes_memory else lambda words, name: [], usual)

    def identities(self, leaves: Sequence[Local]) -> list[Condition]:
        """Return the conditions on which things the arguments are. leaves: their names."""
        found = [condition_of(fact, leaves[position]) for fact, position in self.aliases]
        words = "which tensor an argument is, which a Module or an optimiser has as well"
        found += [Condition(words, "{0}", (leaves[i],), each) for i, each in self.pinned]
        for source in self.recorded.sources:
            if isinstance(source, FromPlace):
                look = look_at(source.holder, source.key).replace("{1}", "{2}").replace("{0}", "{1}")
                place = (source.holder, source.key) if "{2}" in look else (source.holder,)
                words = f"whether an argument is the tensor at {brief(source.key)}"
                found += [Condition(words, f"({{0}} is {look})", (leaf, *place), False) for leaf in leaves]
        if self.others:
            words = "whether an argument is something the function also finds by itself"
            found += [Condition(words, "(id({0}) in {1})", (leaf, self.others), False) for leaf in leaves]
        return found

    def requirements(self, spelled: Spelled) -> list[Requirement]:
        """Return everything that must hold for a call, in the order in which it is looked at."""
        identities = [*self.size_conditions, *self.identities(spelled.leaves)]
        guards: list[Requirement] = [*self.environment.guards, *self.readings, *self.number_conditions]
        return [*spelled.requirements, *identities, *guards, *self.captured, *self.decisions]

    def violation(self, arguments: Arguments) -> str:
        """Say why it does not fit a call; '' if it does."""
        call = {"args": arguments.args, "options": arguments.options}
        with self._asking(arguments):
            return first_violation(self.requirements(self.spelled()), call)

    def fits(self, arguments: Arguments) -> bool:
        """Tell whether a call that has its key can be run by it, but for decisions on numbers."""
        if (
            not self.environment.holds()
            or not all(map(_is_there, self._numbers))
            or not (self._sizes_fit is None or self._sizes_fit(*self.sizes(arguments)))
            or (self.apart and tuple(self.sizes(arguments)) in self.apart)
            or not self.is_apart(*arguments.leaves)
        ):
            return False
        replaced = False
        for each in self.captured:
            array = each.read(each.tensor)
            if array is not each.known:
                if not _is_like(array, each.shape, each.dtype) or array.__class__ is not each.kind:
                    return False
                if each.what is ARRAY:
                    each.known = array
                    replaced = True
        return not replaced or self._takes_new_arrays()

    def sizes(self, arguments: Arguments) -> list[int]:
        """Return the sizes and ints that vary, of a call that has its key."""
        shapes = arguments.key.shapes
        of_arguments = [shapes[leaf][axis] for (leaf, axis), *_ in self.places.values()]
        return [*of_arguments, *(reading.find() for reading in self.sized.values())]

    def has_sized(self, reading: ReadNumber, now: int) -> bool:
        """Tell whether an int that the function reads is a size in it."""
        return any(reading.holder is s.holder and reading.key == s.key for s in self.sized.values())

    @property
    def samples(self) -> bool:
        """Whether it is to be told now and then of the sizes it is used for."""
        return (
            self.may_be_apart and bool(self.places) and not self.sized and len(self.apart) < MOST_OF_THEIR_OWN
        )

    def sample(self) -> None:
        """Look at the sizes of a call. Those that nearly all calls have get a program of their own: it is faster."""
        sizes = tuple([getattr(self.given, name) for name in self.names])
        self._seen[sizes] = count = self._seen.get(sizes, 0) + 1
        if count >= OFTEN and 4 * count >= 3 * sum(self._seen.values()):
            self.apart.add(sizes)
            self.entry, self.entry_is_made = None, False  # it would go on without asking
        if count >= OFTEN or len(self._seen) > OFTEN:
            self._seen.clear()

    def _give_sizes(self, arguments: Arguments) -> None:
        for name, n in zip(self.names, self.sizes(arguments), strict=True):
            setattr(self.given, name, n)

    def must_be_audited(self, arguments: Arguments) -> bool:
        """Tell whether a call is to be audited: because it is time, or the first one with sizes of another kind."""
        if self.audits.due or not self.names or self.audited_elsewhere or not self.audits.wanted:
            return self.audits.due
        return self.sizes(arguments) != list(self.hints.values())

    def _takes_new_arrays(self) -> bool:
        """Tell whether arrays that Tensors were given since the last call can be written to, each by itself."""
        self.entry, self.entry_is_made = None, False  # it knows the arrays
        self._find_owners_of_written()
        arrays = [each.known for each in self.captured if each.known is not MISS]
        arrays += [source.array for source in self.recorded.sources if isinstance(source, FromArray)]
        for each in self.captured:
            if each.is_written_into and (
                not is_writeable(each.known) or sum(may_share_memory(each.known, a) for a in arrays) > 1
            ):
                each.known = MISS  # look again at the next call
                return False
        return True

    def _find_owners_of_written(self) -> None:
        """Note in whose memory captured arrays lie that are written. The entry's own also has gradients it writes."""
        self._written_owners = {
            id(watch.owner_of(each.known)) for each in self.captured if each.is_written_into
        }
        self._entry_owners = set(self._written_owners)

    def _memory(self, words: str, array: Local) -> list[Condition]:
        """Return the condition on an argument's array that what is written does not lie in its memory."""
        shares = f"whether {words} shares memory with what is written"
        return [Condition(shares, SHARES, (array, self._entry_owners), False)]

    def places_apart(self) -> list[Condition]:
        """Return the conditions that what is written does not lie in the memory of what is at some place."""
        if not self._writes_memory:
            return []
        found = []
        for source in self._placed:
            look = look_at(source.holder, source.key)
            place = (source.holder, source.key) if "{1}" in look else (source.holder,)
            shares = SHARES.format(f"{look}._array", f"{{{len(place)}}}")
            words = f"whether the tensor at {brief(source.key)} shares memory with what is written"
            found.append(Condition(words, shares, (*place, self._entry_owners), False))
        return found

    def takes_gradient(self, tensor: Any, output: Any, leaves: Sequence[Any]) -> bool:
        """Tell whether an output may be written right into a Tensor's gradient, from now on."""
        gradient = tensor._grad
        if tensor._grad_is_shared or not is_laid_out(gradient):
            return False
        if gradient.shape != output.shape or gradient.dtype != output.dtype or self.overlaps(leaves):
            return False
        self._entry_owners.add(id(watch.owner_of(gradient)))
        return True

    def overlaps(self, leaves: Sequence[Any]) -> bool:
        """Tell whether an array that may be another one at each call (an argument, what is at a place, a gradient)
        shares memory with another array, and one of the two is written."""
        if not self._writes_memory:
            return False
        arrays = [leaf._data if isinstance(leaf, Node) else leaf for leaf in leaves]
        others = [found_at(place.holder, place.key)._data for place in self._placed]
        gradients: list[Any] = []
        written: list[Any] = []
        for tensor, is_written in self._with_gradient.values():
            node = leaves[tensor] if isinstance(tensor, int) else tensor
            if node._grad is not None:
                # (One that the engine handed to several tensors is copied before it is written to.)
                (written if is_written and not node._grad_is_shared else gradients).append(node._grad)
        others += gradients
        if any(_shares(array, self._written_owners) for array in (*arrays, *others, *written)):
            return True
        captured = [each.known for each in self.captured if each.known is not MISS]
        if self.writes_arguments:
            owners = {id(watch.owner_of(a)) for a in arrays}
            if len(owners) != len({id(leaf) for leaf in leaves}):
                return True
            if any(_shares(array, owners) for array in (*captured, *others, *written)):
                return True
        together = [*written, *others, *arrays, *captured]
        return bool(written) and first_sharing(together, range(len(written))) is not None

    # --- running --------------------------------------------------------------------------------------

    def undo(self) -> Before | None:
        """Return what to restore if the next call is refused; None if nothing has to be."""
        if not self.may_need_undoing:
            return None
        return Before(self._streams, self.environment if self.has_effects else None)

    def run(self, arguments: Arguments) -> Any:
        """Run it on one call's arguments; raises Refused, with nothing changed, if a check fails."""
        with Uninterrupted():
            return self._run(arguments)

    def _run(self, arguments: Arguments) -> Any:
        recorded, leaves = self.recorded, arguments.leaves
        call = Call(leaves)
        self._give_sizes(arguments)
        self.decide(arguments)
        before = self.undo()
        try:
            for step in recorded.script:
                call.script.append(_given_by(step))
                if step.__class__ is Effect:
                    # A schedule may have changed the number a decision was about.
                    self.decide(arguments)
            for tensor, is_written in self._with_gradient.values():
                if is_written:
                    own_gradient(leaves[tensor] if isinstance(tensor, int) else tensor)
            inputs = [_as_array(source.read(call)) for source in recorded.sources]
            with self.lock:
                outputs = self.runner(inputs)
        except BaseException as error:
            if before is not None:
                before.restore()
            if isinstance(error, REFUSALS):
                raise Refused(str(error)) from error
            raise
        for update in recorded.updates:
            watch.touch(inputs[update.input])
        for rebind in recorded.rebinds:
            tensor = leaves[rebind.tensor] if isinstance(rebind.tensor, int) else rebind.tensor
            there = own_gradient(tensor) if rebind.in_place else None
            if there is not None and is_writeable(there):
                there[...] = outputs[rebind.output]
                continue
            setattr(tensor, rebind.attribute, None if rebind.output is None else outputs[rebind.output])
            if rebind.attribute == "_grad":
                tensor._grad_is_shared = False
            else:
                watch.touch(tensor)
        self.audits.tick()
        found: list[Any] = []
        for i, result in enumerate(self.results):
            if result.axes is not None:
                outputs[i] = laid_out(outputs[i], result.axes)
            if result.given is not None:
                found.append(result.given_at(leaves))
            elif result.is_tensor:
                found.append(new_tensor(outputs[i], result.used_up))
            else:
                found.append(outputs[i].view(PlainArray) if result.is_plain else outputs[i])
        if self.backward is not None:
            drawn = [call.script[i] for i in self.draws]
            self.backward.attach(found, outputs, leaves, (arguments.args, arguments.options, drawn))
        for i, result in enumerate(self.results):
            if result.view is not None:
                found[i] = result.view.made(leaves, found)
        known: dict[int, Any] = {}
        if self.takes_from_call:
            found.append((arguments.args, arguments.options))
        results = filled(self.template, found, known)  # numbers among them are read before they are changed
        if self.change is not None:
            self.change(found, known)
        return results

    def decide(self, arguments: Arguments) -> None:
        """Raise Redecided if a decision on a number goes another way than in the recording."""
        if self.decisions or self.key.inputs:
            with self._asking(arguments):
                if not self._decided():
                    raise Redecided

    @contextmanager
    def _asking(self, arguments: Arguments) -> Iterator[None]:
        """Let questions about numbers be about those of a call."""
        for i in self.key.inputs:
            if i < len(arguments.numbers):  # who asks why a program does not fit may have fewer
                setattr(self.given, f"n{i}", arguments.numbers[i])
        alike = [*map(len, arguments.key.shapes)] == [*map(len, self.key.shapes)]
        if alike and all(map(_is_there, self.sized.values())):
            self._give_sizes(arguments)
        self.asked_about[:] = arguments.leaves
        try:
            yield
        finally:
            self.asked_about.clear()
