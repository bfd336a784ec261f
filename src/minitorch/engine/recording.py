"""What a recording (compiler/) must be told: numbers that may change, draws, effects, conditions on values.

Enters: such things, where they happen. Leaves: the plain thing, or what stands for it while a function is
being recorded. Without a recording in this thread every function here is one comparison.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from minitorch.engine.modes import attention, current
from minitorch.ops.native import busy

F = TypeVar("F", bound=Callable[..., Any])


class Around:
    """A kind of array that stands around others, which may be recorded: what is done to both is its own to do."""

    __slots__ = ()


class Recorder(Protocol):
    """Whoever is recording."""

    kind: Any  # the class of the arrays that write down what is done to them
    repeats: bool  # whether what is recorded is run again without Python's own lines (a compiled function)

    def read_data(self, node: Any) -> Any:
        """Return what a node shows as its array."""

    def write_data(self, node: Any, new: Any) -> None:
        """Give a node another array, as far as this thread sees."""

    def looked_at(self, node: Any) -> None:
        """Be told that somebody who is not recorded looks at a node's array, or gradient."""

    def read_grad(self, node: Any) -> Any:
        """Return what a node shows as its gradient."""

    def write_grad(self, node: Any, new: Any) -> None:
        """Give a node another gradient, as far as this thread sees."""

    def renewing(self, node: Any) -> None:
        """Be told that a node gets another place in the graph: refuse it for one from before."""

    def refusal(self, why: str) -> Exception:
        """Return the error which says why the function that is recorded cannot be."""

    def changeable(self, holder: Any, key: str) -> Any:
        """Return what stands for a number that may be another one at the next call."""

    def number(self, array: Any) -> Any:
        """Return the only element of an array as a number."""

    def observed(self, function: Any) -> Any:
        """Return what to call in place of a function that a program has given to this library."""

    def walking(self, nodes: Any, boundary: Any) -> None:
        """Be told that gradients are about to go through nodes; refuse it for a graph from before."""

    def flagging(self, node: Any) -> None:
        """Be told that a node's requires_grad is about to change; refuse it for one from before."""

    def made(self, thing: Any) -> None:
        """Be told of an object that this library has made and a program will be given."""

    def fixed(self, array: Any) -> Any:
        """Return the numbers of an array, which must be the same at every call."""

    def beforehand(self, states: Any, begin: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a parameter's first state, made among an optimiser's `states` as if it had been there before."""

    def run_op(self, op: Any, which: Any, function: Callable[..., Any], args: Any, attributes: Any) -> Any:
        """Return what a function of an op gives: its forward, or which of its rules."""

    def draw(self, source: Any, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Draw random numbers now, and again at every call."""

    def exchange(self, exchange: Any, arrays: Any) -> Any:
        """Begin a collective (distributed/exchange.py) now, and at every call; return what gives its results."""

    def stepped(self) -> None:
        """Be told that an optimiser has made a step."""

    def unless(self, condition: Any, step: Callable[[], Any], states: Mapping[Any, Any]) -> Any:
        """Let an optimiser step, or not, as a condition says at each call. states: the optimiser's."""

    def replay(self, effect: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Do something to Python's objects now, and again at every call."""


# True while a program is only tried, to see whether it is right: then nobody outside is asked or told anything.
_rehearsing: ContextVar[bool] = ContextVar("rehearsing", default=False)


@contextlib.contextmanager
def rehearsal() -> Iterator[None]:
    """Inside, this thread's programs are tried: a collective gives what it gave before, no other rank takes part."""
    mine, before = object(), _rehearsing.get()
    try:  # (One thing to each `finally`, and all of it inside: Ctrl-C may come between any two calls.)
        try:
            _rehearsing.set(True)
            busy.append(mine)  # machine code does not ask who rehearses
            yield
        finally:
            if mine in busy:
                busy.remove(mine)
    finally:
        _rehearsing.set(before)


def is_rehearsing() -> bool:
    """Tell whether this thread's programs are only tried."""
    return _rehearsing.get()


# How generated source (compiler/call) reads a node's array and its gradient, and gives it one: {0} is the node. It does
# so only where nobody records.
ARRAY = "{0}._array"
GRADIENT = "{0}._gradient"
GIVE_GRADIENT = "{0}._gradient = {1}; {0}._grad_is_shared = False"
TAKE_GRADIENT = "{0}._gradient = None"

# What compiles a function, for rooms below the compiler: the package offers minitorch.compile, alone.
compilers: list[Callable[..., Any]] = []

# How often anything changed of which compiled functions are told: Modules' attributes, parameter groups' options.
changes = [0]


def changed() -> None:
    """Report a change: compiled functions look again at what they rely on."""
    changes[0] += 1


class ReportingModule(types.ModuleType):
    """A module whose functions this library's layers look up by name: who replaces one reports it."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        changed()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        changed()


# Recordings under way in any thread; nearly always none. Whose thread this is, the mode says.
recordings: list[Recorder] = []


def begin(active: Recorder) -> None:
    """Note that a recording begins; the mode says in which thread."""
    recordings.append(active)
    attention.append(active)


def end(active: Recorder) -> None:
    """Note that a recording has ended."""
    recordings.remove(active)
    attention.remove(active)


def recorder() -> Recorder | None:
    """Return who is recording in this thread."""
    return current().recorder if recordings else None


def changeable(holder: Any, key: str) -> Any:
    """Return a number that may change between two calls of a compiled function: an option, an attribute.

    >>> changeable({"lr": 0.1}, "lr")
    0.1
    """
    if (active := recorder()) is not None:
        return active.changeable(holder, key)
    return holder[key] if isinstance(holder, dict) else getattr(holder, key)


def number(array: Any) -> Any:
    """Return the only element of an array as a Python number.

    >>> import numpy as np
    >>> number(np.array(3.0))
    3.0
    """
    if (active := recorder()) is not None:
        return active.number(array)
    return float(array)


def made(thing: Any) -> Any:
    """Return an object that this library has just made, to be given to a program's own code."""
    if (active := recorder()) is not None:
        active.made(thing)
    return thing


def fixed(array: Any) -> Any:
    """Return an array whose numbers Python needs: lengths of sequences, which decide what is computed.

    A compiled function looks at each call whether they are the same.

    >>> import numpy as np
    >>> fixed(np.array([3, 1]))
    array([3, 1])
    """
    if (active := recorder()) is not None:
        return active.fixed(array)
    return array


def unless(condition: Any, step: Callable[[], Any], states: Mapping[Any, Any]) -> Any:
    """Let an optimiser step, unless an array of one element is true. states: the optimiser's, by parameter.

    >>> import numpy as np
    >>> unless(np.array(False), lambda: "stepped", {})
    'stepped'
    """
    if (active := recorder()) is not None:
        return active.unless(condition, step, states)
    return None if bool(condition) else step()


def drawing(method: F) -> F:
    """Decorate a generator's method that returns random numbers."""

    @functools.wraps(method)
    def draw(self: Any, *args: Any) -> Any:
        if (level := current().level) is not None:
            return level.draw(self, method, args)
        if (active := recorder()) is not None:
            return active.draw(self, method, args)
        return method(self, *args)

    return draw  # type: ignore[return-value]


def replayed(method: F) -> F:
    """Decorate a method that changes Python's objects and must do so at every call of a compiled function."""

    @functools.wraps(method)
    def run(*args: Any, **options: Any) -> Any:
        if (active := recorder()) is not None:
            return active.replay(method, args, options)
        return method(*args, **options)

    return run  # type: ignore[return-value]


def refuse_inside_recording(what: str) -> None:
    """Refuse to answer what would be another answer at the next call of a compiled function."""
    active = recorder()
    if active is not None and active.repeats:
        raise active.refusal(
            f"{what} would be the same at every call of the compiled function; do that outside"
        )
