"""Programs of what was pending, kept by their structure.

Enters: values that are to be computed, over inputs whose numbers are there. Leaves: their arrays. Two rounds of a loop
give values of the same structure: primitives, shapes and dtypes, and how they hang together. The first one is compiled;
what differs between two rounds is an input: arrays, and single numbers such as learning rates.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from minitorch.compiler import backends
from minitorch.compiler.backends.numpy.interpreter import Interpreter
from minitorch.compiler.call import verify
from minitorch.compiler.call.function import Disagreement
from minitorch.compiler.ir.program import Program, Value, evaluate, interpret
from minitorch.compiler.trace.kinds import CONSTANT, INPUT, NUMBER, kind_of

MOST_KEPT = 256  # structures; those used longest ago go first
_number = attrgetter("number")


class Pattern:
    """Values to be computed, taken apart: their structure, and what may differ from one round to the next.

    order: all values that are needed, before those that need them. outputs, updates: as a Program's, an update being
    an output that goes into the memory of an input. single: the constants of one element, by their places in the order.
    """

    def __init__(self, outputs: Sequence[Value], targets: dict[int, np.ndarray]) -> None:
        """targets: outputs, by number, and the arrays that they are written into."""
        self.order = _needed(outputs)
        self.places = places = {value: i for i, value in enumerate(self.order)}
        self.outputs = [places[o] for o in outputs]
        self.inputs: list[np.ndarray] = []  # one for each different array
        self.single: list[int] = []
        self.input_of: dict[int, int] = {}  # by place
        known: dict[int, int] = {}
        parts: list[int] = []  # of each value its kind, and its inputs' places, or which input it is
        others: list[bytes] = []  # constants that are neither inputs nor single numbers
        for place, value in enumerate(self.order):
            kind = value.kind or kind_of(value)
            parts.append(kind)
            sort = kind % 4
            if not sort:
                parts += [places[each] for each in value.inputs]
            elif sort == NUMBER:
                self.single.append(place)
            elif sort == INPUT:
                array = value.attributes["array"]
                number = known.get(id(array))
                if number is None:
                    number = known[id(array)] = len(self.inputs)
                    self.inputs.append(array)
                self.input_of[place] = number
                parts.append(number)
            else:
                assert sort == CONSTANT
                others.append(value.attributes["array"].tobytes())
        self.updates = {i: known[id(target)] for i, target in targets.items() if id(target) in known}
        self.key = (tuple(parts), tuple(others), tuple(self.outputs), tuple(self.updates.items()))

    def program(self, promoted: frozenset[int]) -> Program:
        """Return it as a program of its own, which holds no arrays; promoted: constants that are inputs."""
        made: list[Value] = []
        inputs: list[Value] = [None] * (len(self.inputs) + len(promoted))  # type: ignore[list-item]
        further = len(self.inputs)
        for place, value in enumerate(self.order):
            number = self.input_of.get(place)
            if place in promoted:
                number, further = further, further + 1
            if number is None:
                parts = tuple(made[self.places[i]] for i in value.inputs)
                new = Value(value.primitive, parts, value.attributes, value.shape, value.dtype)
            elif inputs[number] is None:
                new = inputs[number] = Value("input", (), {"index": number}, value.shape, value.dtype)
            else:
                new = inputs[number]
            made.append(new)
        return Program(inputs, [made[i] for i in self.outputs])


def _needed(outputs: Sequence[Value]) -> list[Value]:
    """Return the outputs and all they are made from, in the order in which they were made."""
    seen = set(outputs)
    waiting = list(seen)
    while waiting:
        for each in waiting.pop().inputs:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return sorted(seen, key=_number)


def _may_be_inlined(array: np.ndarray) -> bool:
    """Tell whether a number is one that programs are simplified by: 0, 1, 2, a half. Others may be another one soon."""
    if array.dtype.kind not in "f":
        return True
    number = float(array.reshape(()))
    return not math.isfinite(number) or (abs(number) <= 64 and (2 * number).is_integer())


@dataclass
class Structure:
    """What is known of one structure: the programs made of it, by the numbers that stand in them.

    promoted: places of constants that are inputs, because they change.
    """

    promoted: frozenset[int]
    constants: tuple[bytes, ...] = ()  # of those that are not promoted, as they were last
    executables: dict[tuple[bytes, ...], Any] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)


class ProgramsByStructure:
    """The programs of a backend. compilations, runs: how many there were. templates: what ops write down."""

    def __init__(self, backend: str, verified: bool = True) -> None:
        self.backend = backend
        self.verified = verified
        self.compilations = 0
        self.runs = 0
        self.templates: dict[Any, Any] = {}  # by what lazy_templates.py finds them; None: there is none
        self._structures: OrderedDict[Any, Structure] = OrderedDict()
        self._lock = threading.Lock()

    def prepared(self, pattern: Pattern) -> tuple[Callable[[], list[Any]], Any, bool]:
        """Return what computes the outputs (it gives them; anything for updates), by what, and if that is new."""
        structure = self._structure(pattern)
        with structure.lock:
            executable = self._executable(structure, pattern)
            constants = [pattern.order[p].attributes["array"] for p in sorted(structure.promoted)]
            inputs = [*pattern.inputs, *constants]
            self.runs += 1
            if executable is None:
                return self._compiled(structure, pattern, inputs)

        def run() -> list[Any]:
            with structure.lock:  # an executable works in memory of its own
                return executable(inputs)

        return run, executable, False

    def _structure(self, pattern: Pattern) -> Structure:
        with self._lock:
            structure = self._structures.get(pattern.key)
            if structure is None:
                constant = lambda place: pattern.order[place].attributes["array"]
                promoted = frozenset(p for p in pattern.single if not _may_be_inlined(constant(p)))
                structure = self._structures[pattern.key] = Structure(promoted)
                if len(self._structures) > MOST_KEPT:
                    self._structures.popitem(last=False)
            else:
                self._structures.move_to_end(pattern.key)
            return structure

    def _executable(self, structure: Structure, pattern: Pattern) -> Any:
        """Return what runs it; None if there is nothing yet. A constant that has changed is an input from then on."""
        inlined = [p for p in pattern.single if p not in structure.promoted]
        now = tuple(pattern.order[p].attributes["array"].tobytes() for p in inlined)
        found = structure.executables.get(now)
        if found is None and structure.executables:
            changed = [p for p, a, b in zip(inlined, structure.constants, now, strict=True) if a != b]
            structure.promoted = structure.promoted.union(changed)
            structure.executables.clear()
            now = tuple(a for p, a in zip(inlined, now, strict=True) if p not in changed)
        structure.constants = now
        return found

    def _compiled(
        self, structure: Structure, pattern: Pattern, inputs: list[Any]
    ) -> tuple[Callable[[], list[Any]], Any, bool]:
        """Compile a program; when it first runs, look whether it gives what NumPy gives."""
        program = pattern.program(structure.promoted)
        self.compilations += 1
        try:
            executable = backends.named(self.backend).compile(program, pattern.updates)
        except Exception as problem:  # the numbers are there all the same
            executable = backends.named("numpy").compile(program, pattern.updates)
            _warn(pattern, f"could not be compiled ({type(problem).__name__}: {problem})")
        structure.executables[structure.constants] = executable
        if not self.verified or isinstance(executable, Interpreter):
            return lambda: executable(inputs), executable, True
        expected = [np.array(o) for o in interpret(program, inputs)]

        def run() -> list[Any]:
            targets = pattern.updates
            before = [a.copy() if i in targets.values() else a for i, a in enumerate(inputs)]
            results = executable(inputs)
            given = [inputs[targets[i]] if i in targets else r for i, r in enumerate(results)]
            if not verify.differing(program, executable, before, given, expected):
                return results
            _warn(pattern, "does not give what NumPy gives")
            structure.executables[structure.constants] = backends.named("numpy").compile(program, targets)
            for i, target in targets.items():
                inputs[target][...] = expected[i]
            return expected

        return run, executable, True


def _warn(pattern: Pattern, what: str) -> None:
    warnings.warn(
        f"lazy: a program of {len(pattern.order)} values {what}; it is run by NumPy. Please report this",
        Disagreement,
        stacklevel=2,
    )


def one_by_one(outputs: Sequence[Value]) -> list[Any]:
    """Compute outputs by NumPy, each as far as it goes: an array, or the error that stopped it."""
    found: dict[Value, Any] = {}
    with np.errstate(all="ignore"):
        for value in _needed(outputs):
            inputs = [found[i] for i in value.inputs]
            error = next((i for i in inputs if isinstance(i, Exception)), None)
            if error is not None or "error" in value.attributes:
                found[value] = error or value.attributes["error"]
            elif value.primitive == "input":
                found[value] = value.attributes["array"]
            else:
                try:
                    found[value] = evaluate(value, inputs)
                except Exception as problem:  # told to whoever asks for it
                    found[value] = problem
    return [found[o] for o in outputs]
