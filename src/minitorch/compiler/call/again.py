"""A call once more, by the function itself: gradients of gradients need a graph of ops.

Enters: a call that a program has run, and what it drew. Leaves: its results anew, as eager Tensors with their graph.
What the function writes on the way is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.call.containers import Leaf, parts_of
from minitorch.compiler.call.key import Arguments
from minitorch.compiler.call.names import describe
from minitorch.compiler.call.specialisation import Specialisation
from minitorch.compiler.call.undo import Aside
from minitorch.compiler.ir.program import in_order
from minitorch.compiler.trace.recorded import Effect, FromArray, FromGradient
from minitorch.engine import recording, watch
from minitorch.engine.modes import current, switch
from minitorch.engine.node import Node


class OnceMore:
    """Runs the function as it ran at a call of one program."""

    def __init__(self, function: Callable[..., Any], program: Specialisation) -> None:
        assert program.backward is not None
        self._function = function
        self._key = program.key
        self._environment = program.environment
        self._tensors = [each.tensor for each in program.captured]
        self._refused = _why_not(program)
        roots = () if self._refused else program.backward.roots
        self._places = [_place_of(number, program.template) for number in roots]

    def __call__(
        self, args: tuple[Any, ...], options: dict[str, Any], drawn: Sequence[Any], time: int
    ) -> list[Any]:
        """Return the results that have a graph. time: when the call was made, drawn: what it drew."""
        arguments = Arguments(args, options, current())
        reason = self._refused or self._what_changed(arguments, time)
        if reason:
            raise RuntimeError(
                f"compiled: for gradients of gradients {describe(self._function)} has to be run once more as it ran "
                f"then, but {reason}; compile the function that takes the first gradient too, or call the function "
                "itself (compiled.function)"
            )
        aside = Aside([t for t in {id(t): t for t in self._tensors}.values() if not t._requires_grad])
        outer = current()
        draws = _SameDraws(drawn)
        recording.begin(draws)
        switch(outer._replace(enabled=True, recorder=draws))
        try:
            results = self._function(*args, **options)
        finally:
            switch(outer)
            recording.end(draws)
            aside.restore()
        parts = parts_of(results)
        return [parts[place] for place in self._places]

    def remember(self, arguments: Sequence[Any], time: int) -> None:
        """Remember the content of what a call at this time reads and a person may write into."""
        for tensor in (*self._tensors, *arguments):
            if isinstance(tensor, Node):
                watch.read(tensor._data, time)

    def _what_changed(self, arguments: Arguments, time: int) -> str:
        if watch.exposed:
            watch.look_again(time)
        if not self._key.is_of(arguments):
            return "its arguments have other shapes now"
        if not self._environment.holds():
            return self._environment.violation()
        for tensor in (*self._tensors, *arguments.leaves):
            if not isinstance(tensor, Node):
                return "a NumPy array among its arguments may have been changed"
            if watch.changed_since(tensor, time) or watch.changed_since(tensor._data, time):
                return f"a tensor of shape {tuple(tensor._array.shape)} that it reads was changed since"
        return ""


def _why_not(program: Specialisation) -> str:
    """Say why a program's calls cannot be repeated by the function; '' if they can."""
    recorded, backward = program.recorded, program.backward
    assert backward is not None
    if program.change is not None:
        return "it changes Python's objects, or prints"
    if recorded.rebinds or any(isinstance(step, Effect) for step in recorded.script):
        return "it does more than to compute its results: it gives Tensors gradients or data, or steps a schedule"
    if any(isinstance(source, (FromArray, FromGradient)) for source in recorded.sources):
        return "it reads NumPy arrays, or gradients, which may have been changed"
    returned = {part.number for part in parts_of(program.template) if isinstance(part, Leaf)}
    if not returned.issuperset(backward.roots):
        return "it returns parts of a tensor that it does not return as a whole"
    outputs = [recorded.program.outputs[i] for i in (*backward.roots, *backward.kept)]
    needed = set(in_order(outputs))
    if any(recorded.program.inputs[update.input] in needed for update in recorded.updates):
        return "it has changed what it computes from (as spectral_norm does)"
    return ""


def _place_of(number: int, template: Any) -> int:
    """Return at which place among the results an array stands."""
    parts = parts_of(template)
    return next(i for i, part in enumerate(parts) if isinstance(part, Leaf) and part.number == number)


class _SameDraws:
    """In place of whoever records: everything is as it is, but what is drawn was drawn before."""

    kind = np.ndarray
    repeats = True

    def __init__(self, drawn: Sequence[Any]) -> None:
        self._drawn: Iterator[Any] = iter(drawn)

    def read_data(self, node: Any) -> Any:
        """Return a node's array."""
        return node._array

    def write_data(self, node: Any, new: Any) -> None:
        """Give a node another array."""
        node._array = new

    def looked_at(self, node: Any) -> None:
        """Nothing is kept aside."""

    def stepped(self) -> None:
        """Take no notice of steps."""

    def read_grad(self, node: Any) -> Any:
        """Return a node's gradient."""
        return node._gradient

    def write_grad(self, node: Any, new: Any) -> None:
        """Give a node another gradient."""
        node._gradient = new

    def renewing(self, node: Any) -> None:
        """Let a node have another place in the graph."""

    def observed(self, function: Any) -> Any:
        """Return a function as it is."""
        return function

    def walking(self, nodes: Any, boundary: Any) -> None:
        """Let gradients go through any node."""

    def flagging(self, node: Any) -> None:
        """Let any node's requires_grad change."""

    def refusal(self, why: str) -> Exception:
        """Return an error: what was recorded is not refused."""
        return AssertionError(why)

    def made(self, thing: Any) -> None:
        """Take no notice of what is made."""

    def changeable(self, holder: Any, key: str) -> Any:
        """Return a number."""
        return holder[key] if isinstance(holder, dict) else getattr(holder, key)

    def number(self, array: Any) -> Any:
        """Return the only element of an array."""
        return float(array)

    def run_op(self, op: Any, which: Any, function: Callable[..., Any], args: Any, attributes: Any) -> Any:
        """Run a function of an op."""
        return function(*args, **attributes)

    def beforehand(self, states: Any, begin: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a parameter's first state."""
        return begin()

    def fixed(self, array: Any) -> Any:
        """Return an array."""
        return array

    def draw(self, source: Any, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return what was drawn then."""
        return np.array(next(self._drawn))

    def exchange(self, exchange: Any, arrays: Any) -> Any:
        """Begin a collective."""
        return exchange.start_now(arrays)

    def unless(self, condition: Any, step: Callable[[], Any], states: Mapping[Any, Any]) -> Any:
        """Let an optimiser step, if a condition does not hold."""
        return None if bool(condition) else step()

    def replay(self, effect: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Do something to Python's objects."""
        return effect(*args, **options)
