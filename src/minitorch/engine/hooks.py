"""Hooks: functions that see a tensor's gradient on its way, when it is complete, or once it arrived.

Enters: a node and its gradient. Leaves: the gradient, as the hooks return it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine.modes import observed
from minitorch.engine.node import Node, new_tensor
from minitorch.ops.op import Array

# Filled when the first hook on complete gradients is made: from then on the walk looks for leaves that have one.
expected: list[bool] = []


class Hooks:
    """A tensor's hooks: those that see a gradient on its way, and those that run once it arrived.

    when_complete: given a leaf and what all of a walk gave it, while the walk goes on and before it is in `.grad`.
    retains: whether a non-leaf was asked to keep its gradient. gradient: a gradient that has a graph of its own.
    """

    __slots__ = ("gradient", "on_gradient", "retains", "when_accumulated", "when_complete")

    def __init__(self) -> None:
        self.on_gradient: dict[int, Callable[..., Any]] = {}
        self.when_accumulated: dict[int, Callable[..., Any]] = {}
        self.when_complete: dict[int, Callable[[Node, Array], None]] = {}
        self.retains = False
        self.gradient: Node | None = None


def run_hooks(node: Node, g: Array) -> Array:
    """Show a gradient to a tensor's hooks, each of which may replace it."""
    hooks = tuple(node._hooks.on_gradient.values())
    if hooks and not isinstance(g, Node):
        g = g.copy()  # the array may be other nodes' gradient too, and a hook may write into it or keep it
    for hook in hooks:
        answer = observed(hook)(g if isinstance(g, Node) else new_tensor(g))
        if answer is None:
            continue
        new = answer if isinstance(g, Node) else getattr(answer, "_data", answer)
        if isinstance(new, np.ndarray):
            new = np.asarray(new)
        if getattr(new, "shape", None) != g.shape:
            raise RuntimeError(
                f"a hook on a tensor of shape {g.shape} returned a gradient of shape "
                f"{getattr(new, 'shape', type(new).__name__)}; return one of the same shape, or None"
            )
        g = new.astype(g.dtype)
    for told in node._hooks.when_complete.values():
        told(node, g._data if isinstance(g, Node) else g)
    return g


def run_post_hooks(leaf: Node) -> None:
    """Tell a leaf's hooks that its `.grad` is ready."""
    for hook in tuple(leaf._hooks.when_accumulated.values()):
        observed(hook)(leaf)


def on_complete(leaf: Node, hook: Callable[[Node, Array], None]) -> None:
    """Have a function told of a leaf's gradient as soon as a walk has all of it. For this library's own use."""
    if leaf._hooks is None:
        leaf._hooks = Hooks()
    leaf._hooks.when_complete[id(hook)] = hook
    if not expected:
        expected.append(True)
