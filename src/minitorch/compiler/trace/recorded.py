"""What a recording leaves: a program, where its inputs come from at every call, and what it does to Tensors.

Enters: nothing; these are the words in which trace/ tells call/ what a function did. Leaves: `Recorded`.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Program
from minitorch.compiler.ir.sizes import evaluated, symbols_of
from minitorch.engine.gpu import bounds_of, shares_memory
from minitorch.engine.node import Node

# --- places ------------------------------------------------------------------------------------------


def look_at(holder: Any, key: Any) -> str:
    """Return how to look at a place, as an expression in which {0} is the holder, {1} the key."""
    if isinstance(holder, (dict, list)):
        return "{0}[{1}]"
    return "{0}.cell_contents" if isinstance(holder, types.CellType) else f"{{0}}.{key}"


def found_at(holder: Any, key: Any) -> Any:
    """Return what is at a place: an item of a dict or list, an attribute, the content of a cell."""
    if isinstance(holder, (dict, list)):
        return holder[key]
    return getattr(holder, "cell_contents" if isinstance(holder, types.CellType) else key)


def first_sharing(
    arrays: Sequence[np.ndarray], written: Collection[int]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two arrays that share memory, of which one is written; None if there are none. written: by number."""
    bounds = [bounds_of(array) for array in arrays]
    before: list[int] = []  # those that begin earlier and may reach further than where this one begins
    for i in sorted(range(len(bounds)), key=bounds.__getitem__):
        before = [j for j in before if bounds[j][1] > bounds[i][0]]
        for j in before:
            if (i in written or j in written) and shares_memory(arrays[i], arrays[j]):
                return arrays[i], arrays[j]
        before.append(i)
    return None


# --- where a program's inputs come from -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FromTensor:
    """The array of a Tensor that the function found by itself: a parameter, a buffer, optimiser state."""

    tensor: Any

    def read(self, call: Call) -> np.ndarray:
        """Return the array it has now."""
        return self.tensor._data


@dataclass(frozen=True, eq=False)
class FromPlace:
    """The array of whatever Tensor is at a place where another one was found at each call: a hidden state.

    kind: the class of its array. (After the call there may be something else at the place.)
    """

    holder: Any
    key: Any
    kind: type

    def read(self, call: Call) -> np.ndarray:
        """Return the array of the one that is there now."""
        return found_at(self.holder, self.key)._data


@dataclass(frozen=True, eq=False)
class FromGradient:
    """The gradient a Tensor had before the call."""

    tensor: Any

    def read(self, call: Call) -> np.ndarray:
        """Return the gradient it has now."""
        return self.tensor._grad


@dataclass(frozen=True, eq=False)
class FromArgument:
    """One of the arrays among the arguments, counted in the order they stand in nested containers."""

    position: int
    gradient: bool = False  # the gradient of the Tensor there

    def read(self, call: Call) -> np.ndarray:
        """Return the argument's array."""
        given = call.arguments[self.position]
        if self.gradient:
            return given._grad
        return given._data if isinstance(given, Node) else given


@dataclass(frozen=True, eq=False)
class FromArray:
    """A NumPy array the function found by itself; always the same object, read anew at each call."""

    array: np.ndarray

    def read(self, call: Call) -> np.ndarray:
        """Return it."""
        return self.array


@dataclass(frozen=True, eq=False)
class FromScript:
    """A number read, or random numbers drawn, at a step of the script that each call begins with."""

    step: int

    def read(self, call: Call) -> np.ndarray:
        """Return what that step gave."""
        return call.script[self.step]


Source = FromTensor | FromPlace | FromGradient | FromArgument | FromArray | FromScript


@dataclass
class Call:
    """What one call brings along."""

    arguments: list[Any]
    script: list[Any] = field(default_factory=list)


# --- what each call begins with, in this order -------------------------------------------------------


class GivenNumbers(threading.local):
    """The floats among a call's arguments, by their number, and the sizes that vary, by their symbols' names."""


@dataclass(frozen=True, eq=False)
class ReadNumber:
    """Read a number: an option of a parameter group, an attribute, an item, a variable that is closed over."""

    holder: Any
    key: Any
    kind: type = float

    def run(self) -> Any:
        """Return it as it is now."""
        return self.kind(self.find())

    def find(self) -> Any:
        """Return what is at its place."""
        return found_at(self.holder, self.key)


@dataclass(frozen=True, eq=False)
class Draw:
    """Draw random numbers from a generator."""

    source: Any
    method: Callable[..., Any]
    args: tuple[Any, ...]
    given: Any = None  # where the sizes of a call are, if as many are drawn as one of them says

    def run(self) -> Any:
        """Draw."""
        if self.given is None:
            return self.method(self.source, *self.args)
        sizes = {symbol: getattr(self.given, symbol.name) for symbol in symbols_of(self.args)}
        return self.method(self.source, *evaluated(self.args, sizes))

    def shape(self, drawn: Any) -> tuple[int, ...]:
        """Return the shape of what is drawn."""
        return drawn.shape if self.given is None else (self.args[0],)


@dataclass(frozen=True, eq=False)
class Effect:
    """Do something to Python's objects: step a scheduler."""

    method: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]

    def run(self) -> Any:
        """Do it."""
        self.method(*self.args, **self.options)


# --- what a program does to Tensors ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Update:
    """Output `output` is written into the memory of input `input`, in place."""

    output: int
    input: int


@dataclass(frozen=True, eq=False)
class Rebind:
    """A Tensor (or the one at an argument's position) gets output `output` (None: nothing) as data or grad."""

    tensor: Any  # a Node, or an argument's position
    attribute: str  # "_data" or "_grad"
    output: int | None
    in_place: bool = False  # whether it is written into the gradient that is there


@dataclass
class Recorded:
    """A function, written down. The program's first outputs are the function's results."""

    program: Program
    sources: list[Source]
    script: list[ReadNumber | Draw | Effect]
    decisions: list[tuple[Callable[[], Any], Any]]  # questions about numbers that must be answered the same
    updates: list[Update]
    rebinds: list[Rebind]
    symbolic: set[tuple[int, str]]  # numbers that are inputs, by holder and key
