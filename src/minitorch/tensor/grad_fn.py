"""The graph seen from a result, in PyTorch's words: grad_fn, next_functions; and handles of hooks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from minitorch.engine.node import Node
from minitorch.engine.record import made_by
from minitorch.engine.recording import changed
from minitorch.engine.versions import inputs_of

_hook_number = itertools.count().__next__


class HookHandle:
    """What register_hook returns: remove() takes the hook off again.

    hooks: where the hook is kept, under the handle's id. hook: left away, whoever made the handle puts it there.
    """

    def __init__(
        self, hooks: dict[Any, Callable[..., Any]], hook: Callable[..., Any] | None = None, **extra: Any
    ) -> None:
        self._hooks = hooks
        self._number = _hook_number()
        if hook is not None:
            hooks[self._number] = hook
        changed()

    @property
    def id(self) -> Any:
        """The key under which the hook is kept."""
        return self._number

    def remove(self) -> None:
        """Take the hook off."""
        self._hooks.pop(self._number, None)
        changed()

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class GradFn:
    """A recorded op, seen from its result: its name, and the ops that made its inputs.

    >>> x = minitorch.Tensor([1.0, 2.0], requires_grad=True)
    >>> loss = (x * 2).sum()
    >>> loss.grad_fn
    <SumBackward0>
    >>> loss.grad_fn.next_functions[0][0]
    <MulBackward0>
    >>> loss.grad_fn.next_functions[0][0].next_functions
    ((<AccumulateGrad>, 0),)
    """

    __slots__ = ("_index", "_node")

    def __init__(self, made: Node, index: Any = 0) -> None:
        self._node = made
        self._index = index

    @classmethod
    def of(cls, tensor: Node) -> GradFn:
        """Return the op that made a tensor; for one result of several, the op that made them all."""
        made = made_by(tensor)
        return cls(made, tensor._attributes["index"] if made is not tensor else 0)

    def name(self) -> str:
        """The op's name, as PyTorch writes it: AddBackward0; AccumulateGrad for a leaf."""
        operation = self._node._operation
        if operation is None:
            return "AccumulateGrad"
        words = operation.name.replace(".", "_").split("_")
        return "".join(word[:1].upper() + word[1:] for word in words) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, Any], ...]:
        """For each Tensor the op was given: what made it (None if it needs no gradient), and its place there."""
        found: list[tuple[GradFn | None, Any]] = []
        for parent in inputs_of(self._node):
            if isinstance(parent, Node):
                made = GradFn.of(parent) if parent._requires_grad else None
                found.append((made, made._index if made is not None else 0))
        return tuple(found)

    @property
    def variable(self) -> Any:
        """The leaf whose gradient is accumulated here."""
        if self._node._operation is not None:
            raise AttributeError(f"{self.name()} has no variable: only AccumulateGrad, at a leaf, does")
        return self._node

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def __eq__(self, other: object) -> Any:
        return isinstance(other, GradFn) and self._node is other._node

    def __hash__(self) -> Any:
        return hash(self._node)
