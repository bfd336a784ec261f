"""Hooks: functions that see a tensor's gradient on its way, or once it arrived.

Enters: a node and its gradient. Leaves: the gradient, as the hooks return it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine.modes import observed
from minitorch.engine.node import Node, new_tensor
from minitorch.ops.op import Array


class Hooks:
    """A tensor's hooks: those that see a gradient on its way, and those that run once it arrived."""

    __slots__ = ("on_gradient", "when_accumulated")

    def __init__(self) -> None:
        self.on_gradient: dict[int, Callable[..., Any]] = {}
        self.when_accumulated: dict[int, Callable[..., Any]] = {}


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
    return g


def run_post_hooks(leaf: Node) -> None:
    """Tell a leaf's hooks that its `.grad` is ready."""
    for hook in tuple(leaf._hooks.when_accumulated.values()):
        observed(hook)(leaf)
