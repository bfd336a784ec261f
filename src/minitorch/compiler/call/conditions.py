"""What must hold for a call, said once. Enters: what is looked at, and what it has to be. Leaves: two readings of it.

A `Condition` is data: a Python expression, the objects in it, what it must give, and words for people. Read one by one
(`violation`), conditions say which of them fails, and how. Written out together (`write`, `compiled`), they are
source: the check of a whole program's conditions is then one function without calls (entry.py).

Conditions on what a call brings along (its arguments, the mode) name it by a `Local`; a `Let` gives such names.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from minitorch.compiler.trace.observe.methods import lookup
from minitorch.compiler.trace.observe.observer import MISSING, PLAIN, brief
from minitorch.engine.modes import current
from minitorch.engine.watch import owner_of
from minitorch.tensor.devices import defaults_of_creation

MISS: Any = object()  # what a generated function gives for a call on which a condition does not hold
# What looking may raise where there is nothing any more.
GONE = (KeyError, AttributeError, IndexError, ValueError, TypeError)


def same(a: Any, b: Any) -> bool:
    """Tell whether two plain things are one and the same to a program: type, value, sign of zero; nan is nan."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, PLAIN) or hasattr(a, "__dict__"):
        return False  # (two that are equal may have other attributes)
    if isinstance(a, float):
        return (a == b and str(a) == str(b)) or (a != a and b != b)
    return bool(a == b)


def alike(a: Any, b: Any) -> bool:
    """Tell whether two sequences of plain things are the same, one by one."""
    return len(a) == len(b) and (all(map(operator.is_, a, b)) or all(map(same, a, b)))


# The names that expressions may use beside their operands.
NAMES: dict[str, Any] = {
    "__name__": __name__,  # whose code it is
    "same": same, "alike": alike, "lookup": lookup, "is_": operator.is_, "missing": MISSING, "owner_of": owner_of,
    "current": current, "defaults": defaults_of_creation, "MISS": MISS,
    "GONE": GONE,
}  # fmt: skip
# How what is found, {0}, is compared with what is expected, {1}.
TESTS = {
    "is": "{0} is {1}",
    "==": "{0} == {1}",
    "same": "({0} is {1} or same({0}, {1}))",  # plain things
    "alike": "alike({0}, {1})",  # lists of plain things
    "identical": "(len({0}) == len({1}) and all(map(is_, {0}, {1})))",  # lists of anything
}
# Expressions that are needed often.
ITEM = "{0}.get({1}, missing)"
INDEX = "{0}[{1}]"
LENGTH = "len({0})"
CONTAINS = "({1} in {0})"
ATTRIBUTE = "vars({0}).get({1}, missing)"


class Local(str):
    """The name of something that a call brings along."""

    __slots__ = ()


@functools.cache
def function_of(expression: str, count: int) -> Callable[..., Any]:
    """Return an expression with {0}, {1}, … in it as a function of so many operands."""
    names = [f"x{i}" for i in range(count)]
    return eval(f"lambda {', '.join(names)}: {expression.format(*names)}", dict(NAMES))


class SourceCode:
    """Python source being written: its lines, and the objects it names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = dict(NAMES)
        self.globals: list[str] = []  # names that the function changes
        self._bound: dict[int, str] = {}

    def add(self, line: str) -> None:
        """Add a line to the function."""
        self.lines.append("    " + line)

    def bind(self, thing: Any) -> str:
        """Return a name for an object, the same one each time; a Local is one already."""
        if thing.__class__ is Local:
            return thing
        if thing is None or thing is True or thing is False:
            return repr(thing)
        if thing is MISSING:
            return "missing"
        name = self._bound.get(id(thing))
        if name is None:
            name = self._bound[id(thing)] = f"o{len(self._bound)}"
            self.names[name] = thing  # and keeps it alive: its id stays its own
        return name

    def write(self, thing: Any) -> str:
        """Return a constant as it is written in source, anything else by a name."""
        if thing.__class__ in (int, str) or (
            thing.__class__ is tuple and all(i.__class__ is int for i in thing)
        ):
            return repr(thing)
        return self.bind(thing)

    def require(
        self,
        conditions: Sequence[Condition],
        indent: str = "",
        unless: str = "",
        otherwise: str = "return MISS",
    ) -> None:
        """Write what to do with a call on which one of these does not hold. unless: what spares the look."""
        for start in range(0, len(conditions), MOST_AT_ONCE):
            holds = " and ".join(c.source(self) for c in conditions[start : start + MOST_AT_ONCE])
            self.add(f"{indent}if {f'{unless} and ' if unless else ''}not ({holds}): {otherwise}")


FEW = 8  # items of a list that are looked at one by one, without a call
MOST_AT_ONCE = 200  # conditions in one expression: it may not nest too deeply


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """`look` (an expression in which {0}, {1}, … are the operands) must give what is `expected`.

    words: what is looked at. test: how the two are compared, one of TESTS.
    reported: recording.changed() is called whenever it changes, so that it is looked at only then.
    told: what to say when it does not hold, where "… was … and is …" does not say it well.
    """

    words: str
    look: str
    operands: tuple[Any, ...]
    expected: Any
    test: str = "is"
    reported: bool = False
    told: str = ""

    def violation(self, call: dict[str, Any]) -> str:
        """Say in which way it does not hold; '' if it does. call: what the call brings along, by name."""
        operands = [call[o] if o.__class__ is Local else o for o in self.operands]
        try:
            now = function_of(self.look, len(operands))(*operands)
        except GONE as error:
            return f"{self.words} is gone ({error})"
        expected = call[self.expected] if self.expected.__class__ is Local else self.expected
        if function_of(TESTS[self.test], 2)(now, expected):
            return ""
        return self.told or f"{self.words} was {brief(expected)} and is {brief(now)}"

    def source(self, source: SourceCode) -> str:
        """Return it as an expression that is true if it holds."""
        found = self.look.format(*map(source.write, self.operands))
        if self.test == "identical" and len(self.expected) <= FEW:
            each = "".join(f" and {found}[{i}] is {source.bind(e)}" for i, e in enumerate(self.expected))
            return f"len({found}) == {len(self.expected)}{each}"
        expected = source.write(self.expected) if self.test == "==" else source.bind(self.expected)
        return TESTS[self.test].format(found, expected)

    def write(self, source: SourceCode) -> None:
        """Write it as a line of the check."""
        source.require([self])


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """Names for what an expression gives: one, or one for each item."""

    names: tuple[str, ...]
    look: str
    operands: tuple[Any, ...]
    unpack: bool = False

    def violation(self, call: dict[str, Any]) -> str:
        """Give the names; that always holds."""
        operands = [call[o] if o.__class__ is Local else o for o in self.operands]
        found = function_of(self.look, len(operands))(*operands)
        call.update(zip(self.names, found if self.unpack else (found,), strict=True))
        return ""

    def write(self, source: SourceCode) -> None:
        """Write it as an assignment."""
        if self.names:
            text = self.look.format(*map(source.write, self.operands))
            source.add(f"{', '.join(self.names)}{',' if self.unpack else ''} = {text}")


@dataclass(frozen=True, eq=False, slots=True)
class Remembered:
    """Conditions on one object, which need no second look while it is the object of the last call.

    known: the object for which they hold; None: that of the last call, remembered without being kept alive.
    """

    name: Local
    conditions: list[Condition]
    known: Any = None

    def violation(self, call: dict[str, Any]) -> str:
        """Say in which way one of them does not hold; '' if all do."""
        return first_violation(self.conditions, call)

    def write(self, source: SourceCode) -> None:
        """Write them, and the question that spares them."""
        if self.known is not None:
            source.require(self.conditions, unless=f"{self.name} is not {source.bind(self.known)}")
            return
        last = source.bind([_nothing])
        source.names["ref"] = weakref.ref
        source.add(f"if {last}[0]() is not {self.name}:")
        source.require(self.conditions, indent="    ")
        source.add(f"    {last}[0] = ref({self.name})")


def _nothing() -> Any:
    """What a weak reference to nothing gives."""
    return None


class Requirement(Protocol):
    """What a list of conditions consists of."""

    def violation(self, call: dict[str, Any]) -> str:
        """Say in which way it does not hold; '' if it does. call: what the call brings along, by name."""

    def write(self, source: SourceCode) -> None:
        """Write it as lines of a function that gives MISS where it does not hold."""


def first_violation(requirements: Iterable[Requirement], call: dict[str, Any] | None = None) -> str:
    """Say what does not hold, and how; '' if all does. call: what the call brings along, by name."""
    call = {} if call is None else call
    return next((reason for each in requirements if (reason := each.violation(call))), "")


def compiled(conditions: Sequence[Condition], *local: str) -> Callable[..., bool]:
    """Return one function that tells whether all of these hold. local: its parameters, what a call brings along."""
    source = SourceCode()
    source.lines.append(f"def check({', '.join(local)}):")
    source.add("try:")
    source.require(conditions, indent="    ", otherwise="return False")
    source.add("    return True")
    source.add("except GONE: return False")
    return compiled_from(source, "check", "<the conditions of a compiled function>")


def compiled_from(source: SourceCode, name: str, file: str) -> Any:
    """Return the function that was written."""
    text = "\n".join(source.lines)
    space = dict(source.names)
    exec(compile(text, file, "exec"), space)
    function = space.pop(name)  # not among its own globals: else only the garbage collector would free them
    function.source = text
    return function
