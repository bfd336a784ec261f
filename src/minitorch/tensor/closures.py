"""Nodes made by hand: a tensor with parents, and a `_backward` that adds to their grad, as a first engine has them.

Enters: a function without arguments that reads its result's grad and adds to its parents'. Leaves: an op that the
walk backwards treats as any other.

    out = Tensor(a.data * b.data, _prev=(a, b), _op="*")
    def _backward():
        a.grad += b.data * out.grad
        b.grad += a.data * out.grad
    out._backward = _backward

The function holds `out`, and `out` holds the function: a reference cycle, which the garbage collector must find.
The library's own ops have none (engine/node.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine import watch
from minitorch.engine.node import Node
from minitorch.ops.op import Op
from minitorch.tensor.plain import PlainArray


class NoGradientYet(PlainArray):
    """Zeros that count as nothing: `a.grad or 0`, `a.grad += …` and `a.grad is not None` all work with them."""

    def __bool__(self) -> bool:
        return bool(self.any())


class Closure(Op):
    """An op whose derivative is a function without arguments."""

    __slots__ = ("_result", "function")

    def __init__(self, name: str, result: Any) -> None:
        super().__init__(name, _not_computed, joint=self._contribute, reads=False, register=False)
        self.function: Callable[[], None] | None = None
        self._result = weakref.ref(result)

    def _contribute(self, g: Any, out: Any, *inputs: Any) -> list[Any]:
        """Let the function add to the grad of parents that have none yet, and return what it added."""
        result: Any = self._result()
        if isinstance(g, Node):
            raise RuntimeError(
                f"backward through {self.name!r}: a _backward that adds to .grad cannot be differentiated again; for "
                "higher derivatives write the op with minitorch.op(…) or autograd.Function"
            )
        if self.function is None:
            raise RuntimeError(
                f"backward through {self.name!r}: this tensor was made by hand and has no _backward; assign it one"
            )
        parents = result._inputs
        kept = {node: (node._grad, getattr(node, "_grad_is_shared", False)) for node in (*parents, result)}
        result._grad, result._grad_is_shared = g, False
        try:
            for node in parents:
                node._grad, node._grad_is_shared = _nothing_yet(node), False
            self.function()
            added = {node: node._grad for node in parents}
        finally:
            for node, before in kept.items():
                node._grad, node._grad_is_shared = before
        # A parent that is listed twice has been added to twice: it gets the sum once.
        return [np.asarray(added.pop(node)) if node in added else None for node in parents]


def _nothing_yet(node: Node) -> Any:
    return watch.memory_of(np.zeros_like(node._data)).view(NoGradientYet)


def _not_computed(*inputs: Any) -> Any:
    raise RuntimeError("the forward of a tensor made by hand was computed by hand")


def is_closure(op: Op | None) -> bool:
    """Tell whether a tensor was made by hand."""
    return isinstance(op, Closure)
