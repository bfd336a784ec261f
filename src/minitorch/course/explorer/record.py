"""One backward pass, written down. Enters: a result with its graph. Leaves: every node with its values, its gradient,
and what it gave to each parent, before and after broadcasting was undone.

Nothing is changed by it: no `.grad` is written, the graph is kept. It works for minitorch's own Tensors, and for any
class with the course's fields (data, grad, _prev, _op, _backward), where what a closure gave is read off its parents.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.engine import versions
from minitorch.engine.backward import Walk
from minitorch.engine.modes import no_grad
from minitorch.engine.node import Node as EngineNode
from minitorch.engine.record import SELECT
from minitorch.ops import OPS
from minitorch.ops.op import unbroadcast
from minitorch.testing.fields import is_tensor, topological


@dataclass
class Contribution:
    """What a node gave one parent: as the rule made it, and summed back to the parent's shape."""

    parent: int
    before: np.ndarray | None  # None where only the outcome is known
    after: np.ndarray


@dataclass
class Recorded:
    """One tensor of the graph, and what happened to it."""

    number: int
    op: str
    tensor: Any
    parents: list[int]
    value: np.ndarray
    requires_grad: bool
    grad: np.ndarray | None = None
    contributions: list[Contribution] = field(default_factory=list)
    seconds: float = 0.0  # of its rules
    forward_seconds: float = 0.0  # of computing it once more; 0 where that is not the library's own code
    operation: Any = None  # the engine's Op, where there is one


def record(root: Any) -> list[Recorded]:
    """Return every tensor behind `root` and itself, parents before children, with the gradients of one backward."""
    if not is_tensor(root) or not hasattr(root, "_prev"):
        raise TypeError(f"explore: needs a tensor that was computed, got {type(root).__name__}")
    array = np.asarray(root.data)
    if array.size != 1:
        raise RuntimeError(
            f"explore: needs a single number, as backward() does; this is {array.shape}: sum it first"
        )
    if not root.requires_grad:
        raise RuntimeError("explore: no tensor with requires_grad=True took part in this result")
    order = topological(root)
    if len(order) == 1 and root._op:
        raise RuntimeError(
            "explore: this graph was freed by backward(); explore before it, or call backward(retain_graph=True)"
        )
    number = {id(tensor): i for i, tensor in enumerate(order)}
    nodes = [
        Recorded(
            i,
            tensor._op or "",
            tensor,
            [number[id(parent)] for parent in tensor._prev],
            np.asarray(tensor.data),
            bool(tensor.requires_grad),
        )
        for i, tensor in enumerate(order)
    ]
    nodes[-1].grad = np.ones_like(nodes[-1].value)
    pull = _pull_back if isinstance(root, EngineNode) else _pull_back_by_fields
    with np.errstate(all="ignore"), no_grad():
        for node in reversed(nodes):
            if node.grad is None or not node.parents:
                continue
            began = time.perf_counter()
            given = pull(node)
            node.seconds = time.perf_counter() - began - node.forward_seconds
            for parent, before, after in given:
                to = nodes[number[id(parent)]]
                node.contributions.append(Contribution(to.number, before, after))
                to.grad = after if to.grad is None else to.grad + after
    return nodes


Given = Sequence[tuple[Any, np.ndarray | None, np.ndarray]]


def _pull_back(node: Recorded) -> Given:
    """Apply the rules of a minitorch op, and undo broadcasting, step by step."""
    walk, engine_node, g = Walk(), node.tensor, node.grad
    if (
        engine_node._operation is SELECT
    ):  # one of several results: its op gets this gradient and none for the others
        walk.pull_back(engine_node, g)
        engine_node, g = walk.pending.popitem()
    inputs = versions.inputs_of(engine_node)
    node.operation = engine_node._operation
    node.forward_seconds = _time_forward(engine_node, inputs)
    given = []
    for parent, contribution in zip(inputs, walk.contributions(engine_node, g), strict=False):
        if contribution is None:
            continue
        before = np.asarray(contribution)
        like = np.asarray(parent.data)
        after = unbroadcast(before, like.shape) if before.shape != like.shape else before
        given.append((parent, before, np.asarray(after).astype(like.dtype, copy=False)))
    return given


def _time_forward(engine_node: Any, inputs: Sequence[Any]) -> float:
    """Compute an op of the library again, and look at the clock; a user's own may do more than compute."""
    operation = OPS.get(engine_node._operation.name)
    if operation is None or operation is not engine_node._operation:
        return 0.0
    arrays = [each._data if isinstance(each, EngineNode) else each for each in inputs]
    began = time.perf_counter()
    operation.forward(*arrays, **engine_node._attributes)
    return time.perf_counter() - began


def _pull_back_by_fields(node: Recorded) -> Given:
    """Run a closure, and read off its parents what it gave them; then put everything back."""
    parents = {id(parent): parent for parent in node.tensor._prev if parent.requires_grad}
    kept = {key: parent.grad for key, parent in parents.items()}
    own, node.tensor.grad = node.tensor.grad, node.grad
    try:
        for parent in parents.values():
            parent.grad = None
        try:
            node.tensor._backward()
        except TypeError:  # a class whose gradients begin as zeros
            for parent in parents.values():
                parent.grad = np.zeros_like(parent.data)
            node.tensor._backward()
        return [(p, None, np.array(p.grad)) for p in parents.values() if p.grad is not None]
    finally:
        node.tensor.grad = own
        for key, parent in parents.items():
            parent.grad = kept[key]
