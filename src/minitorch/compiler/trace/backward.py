"""Differentiating through a compiled function from outside: its results are nodes of an eager graph.

Enters: a recording whose results require gradients. Leaves: a second program, from the gradients of the results (and
what the first one keeps for it) to the gradients of the Tensors it was computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from minitorch.compiler.ir.program import Program, Value, in_order
from minitorch.compiler.ir.sizes import Symbol, hints, symbols_of
from minitorch.compiler.trace.recorded import Recorded
from minitorch.compiler.trace.recorder import Recording
from minitorch.compiler.trace.traced import Traced
from minitorch.engine import watch
from minitorch.engine.backward import backpropagate
from minitorch.engine.gpu import device_of
from minitorch.engine.node import Node
from minitorch.engine.record import bundle_outputs
from minitorch.ops.op import Op

# Made again in the second program in place of being kept.
_VIEWS = {"expand", "reshape", "permute", "slice"}
_CHEAP = {"constant", "iota", *_VIEWS}


class Again(Protocol):
    """Runs the function itself as at a call, for gradients of gradients."""

    def __call__(
        self, args: tuple[Any, ...], options: dict[str, Any], drawn: Sequence[Any], time: int
    ) -> list[Any]:
        """Return the results that have a graph. time: when the call was made, drawn: what it drew."""

    def remember(self, arguments: Sequence[Any], time: int) -> None:
        """Remember the content of what a call at this time reads and a person may write into."""


class Conditions(Protocol):
    """What was found when the way back was recorded."""

    def holds(self) -> bool:
        """Tell whether it is as it was."""

    def violation(self) -> str:
        """Say what is not."""


class Backward:
    """The second program, what it needs of the first, and whose gradients it gives.

    roots: which results (by number) it starts from. wanted: Tensors, or arguments' positions.
    kept: outputs of the first program, in the order the second takes them as inputs, before the gradients.
    sizes: symbols that no length of those tells; they are inputs too, behind all others. given: where a call has them.
    read: which of the roots, by their order, lie in memory that is kept: nobody may write into those before.
    """

    def __init__(
        self,
        roots: list[int],
        wanted: list[Any],
        program: Program,
        kept: list[int],
        expected: list[np.ndarray],
        sizes: Sequence[Symbol] = (),
        given: Any = None,
        read: Iterable[int] = (),
    ) -> None:
        self.roots = roots
        self.wanted = wanted
        self.program = program
        self.kept = kept
        self.expected = expected  # the gradients in the recorded run, for gradients of 1
        self.sizes = sizes
        self.given = given
        self.runner: Callable[[list[np.ndarray]], list[Any]] | None = None
        self.again: Again | None = None
        self.relies_on: Conditions | None = None  # what a program's own code on the way back relies on
        self.op = Op("compiled", _forward, joint=_joint, reads=frozenset(read), register=False)

    def attach(
        self, found: list[Any], outputs: list[Any], arguments: list[Any], call: tuple[Any, ...]
    ) -> None:
        """Make the results nodes of the graph: replace them in `found`. call: its args, options, and what it drew."""
        tensors = tuple(arguments[w] if isinstance(w, int) else w for w in self.wanted)
        results = [outputs[i] for i in self.roots]
        kept = [outputs[i] for i in self.kept]
        sizes = self.sizes_now()
        now = watch.tick()
        if watch.exposed and self.again is not None:
            self.again.remember(arguments, now)
        attributes = {"backward": self, "kept": kept, "sizes": sizes, "call": (*call, now)}
        nodes = bundle_outputs(self.op, tensors, attributes, results)
        for i, each in zip(self.roots, nodes, strict=True):
            found[i] = each

    def sizes_now(self) -> list[np.ndarray]:
        """Return the sizes of the call that is being made, as inputs."""
        return [np.asarray(getattr(self.given, symbol.name), np.int64) for symbol in self.sizes]


def _forward(*inputs: Any, **attributes: Any) -> Any:
    raise RuntimeError("compiled: the forward of a compiled function cannot be run again by itself")


def _joint(
    g: Sequence[Any],
    out: Sequence[Any],
    *inputs: Any,
    backward: Backward,
    kept: list[Any],
    sizes: list[Any],
    call: tuple[Any, ...],
) -> Any:
    if any(isinstance(each, Node) for each in (*g, *inputs)):
        assert backward.again is not None
        roots, reached = backward.again(*call), dict.fromkeys(inputs)
        found = backpropagate(
            roots, g, wanted=reached, boundary=reached, retain_graph=True, create_graph=True
        )
        return [found.get(each) for each in inputs]
    assert backward.runner is not None
    if backward.relies_on is not None and not backward.relies_on.holds():
        raise RuntimeError(
            f"compiled: since the call, what its gradients rely on has changed: {backward.relies_on.violation()}; "
            "call backward() inside the compiled function, or before that changes"
        )
    # (A gradient without axes stays one, and of bfloat16 it comes in float32.)
    seeds = backward.program.inputs[len(kept) : len(kept) + len(g)]
    given = [_as_recorded(each, seed.dtype) for each, seed in zip(g, seeds, strict=True)]
    return backward.runner([*kept, *given, *sizes])


def _as_recorded(gradient: Any, dtype: np.dtype) -> Any:
    """Return a gradient as the program was recorded with it."""
    narrow = gradient if gradient.dtype == dtype else gradient.astype(dtype)
    return np.asarray(narrow, order="C") if device_of(narrow) is None else narrow


def differentiate(
    active: Recording,
    recorded: Recorded,
    results: list[Any],
    arguments: list[Any],
    made_again: Callable[[Program], Collection[Value]] = lambda program: (),
) -> Backward | None:
    """Record the way back, while the recording still runs; adds to the first program's outputs what is to be kept.

    made_again: tells which values of a program the second one computes itself.
    """
    numbers = [i for i, r in enumerate(results) if _has_graph(r, active) and not is_consumed(r)]
    if not numbers:
        return None
    roots = [results[i] for i in numbers]
    older = _older(roots, active)
    positions = {id(a): i for i, a in reversed(list(enumerate(arguments)))}
    seeds: list[Traced] = []
    for r in roots:
        value = Value("input", (), {"index": len(seeds)}, tuple(r.shape), r.dtype)
        seeds.append(Traced(value, np.ones(hints(r.shape), r.dtype)))
    reached = dict.fromkeys(older)
    found = backpropagate(roots, seeds, wanted=reached, boundary=reached, retain_graph=True)
    wanted = [node for node in older if node in found]
    gradients = [found[node].value for node in wanted]
    again = set(made_again(recorded.program))
    program, kept, sizes = _split(recorded, [s.value for s in seeds], gradients, again)
    expected = [found[node].array for node in wanted]
    outputs = recorded.program.outputs
    needed = {_memory_of(outputs[i]) for i in kept}
    read = [n for n, i in enumerate(numbers) if _memory_of(outputs[i]) in needed]
    given, wanted = active.assumed.given, [positions.get(id(w), w) for w in wanted]
    return Backward(numbers, wanted, program, kept, expected, sizes, given, read)


def _memory_of(value: Value) -> Value:
    """Return the value in whose memory another one may lie."""
    while value.primitive in _VIEWS:
        value = value.inputs[0]
    return value


def _has_graph(result: Any, active: Recording) -> bool:
    return isinstance(result, Node) and result._operation is not None and active.is_fresh(result)


def is_consumed(result: Any) -> bool:
    """Tell whether a backward inside the function has used up a result's graph: a loss, usually."""
    stack, seen = [result], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node._operation is not None and not node._inputs:
            return True
        stack += [p for p in node._inputs if isinstance(p, Node) and p._requires_grad]
    return False


def _older(roots: list[Any], active: Recording) -> list[Any]:
    """Return the nodes from before the recording that the results were computed from, as the graph is walked: their
    order must not hang on their age, which is another one for each call's arguments.
    """
    found: dict[Any, None] = {}
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not active.is_fresh(node):
            found[node] = None
            continue
        stack += [p for p in node._inputs if isinstance(p, Node) and p._requires_grad]
    return list(found)


def sizes_as_inputs(program: Program) -> list[Value]:
    """Return inputs for the sizes that vary in a program and that none of its arrays tells."""
    bound = program.symbols
    used = symbols_of([(v.shape, v.attributes) for v in program.values()])
    attributes = [{"symbol": symbol} for symbol in used if symbol not in bound]
    count = len(program.inputs)
    return [
        Value("input", (), {"index": count + i, **each}, (), np.dtype(np.int64))
        for i, each in enumerate(attributes)
    ]


def _split(
    recorded: Recorded, seeds: list[Value], gradients: list[Value], again: set[Value]
) -> tuple[Program, list[int], list[Symbol]]:
    """Cut the way back off the way there: what crosses the cut is kept, unless it is cheap or made `again`."""
    there = set(in_order(recorded.program.outputs)) | set(recorded.program.inputs)
    depends = set(seeds)
    order = in_order(gradients)
    for value in order:
        if any(i in depends for i in value.inputs):
            depends.add(value)
    kept_values: list[Value] = []
    made: dict[Value, Value] = {}

    def crossing(value: Value) -> Value:
        """Return what stands in the second program for a value of the first."""
        if value in made:
            return made[value]
        several = (
            value.primitive == "item" and value.inputs[0] in there
        )  # a call's results are kept one by one
        elsewhere = value not in there and value.primitive != "input" and not several
        if value.primitive in _CHEAP or value in again or elsewhere:
            new = Value(
                value.primitive,
                tuple(crossing(i) for i in value.inputs),
                value.attributes,
                value.shape,
                value.dtype,
            )
        else:
            new = Value("input", (), {"index": -1}, value.shape, value.dtype)
            kept_values.append(value)
        made[value] = new
        return new

    for value in order:
        if value in seeds:
            made[value] = value
        elif value in depends:
            made[value] = Value(
                value.primitive,
                tuple(crossing(i) for i in value.inputs),
                value.attributes,
                value.shape,
                value.dtype,
            )
    outputs = [made[g] if g in made else crossing(g) for g in gradients]
    inputs = [made[v] for v in kept_values] + list(seeds)
    for index, value in enumerate(inputs):
        value.attributes = {"index": index}
    of_sizes = sizes_as_inputs(Program(inputs, outputs))
    sizes = [value.attributes["symbol"] for value in of_sizes]
    inputs += of_sizes
    all_outputs = list(recorded.program.outputs)
    kept = list(range(len(all_outputs), len(all_outputs) + len(kept_values)))
    recorded.program = Program(recorded.program.inputs, [*all_outputs, *kept_values])
    return Program(inputs, outputs), kept, sizes
