"""The graph as something to look at: every node behind a tensor, as text or in Graphviz's language."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from minitorch.tensor import Tensor

FREED = "freed by backward(); backward(retain_graph=True) keeps it"


def nodes(root: Tensor) -> list[Tensor]:
    """Return every tensor that `root` was computed from and itself, parents before children.

    >>> import minitorch
    >>> x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    >>> [n._op or "leaf" for n in nodes((x * x).sum())]
    ['leaf', 'mul', 'sum']
    """
    seen, stack = {root}, [root]
    while stack:
        for parent in stack.pop()._prev:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=lambda n: n._time)


def describe(root: Tensor) -> str:
    """Return the graph as a table: one line per node, with its number, op, shape and parents.

    >>> import minitorch
    >>> x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    >>> print(describe((x * 3).sum()))
    0  leaf   (2,) float32  requires grad
    1  mul    (2,) float32  from 0
    2  sum    () float32    from 1

    A backward consumes the graph it walks, and what is left says so:

    >>> loss = (x * 3).sum()
    >>> loss.backward(); print(describe(loss))
    0  sum    () float32  its graph was freed by backward(); backward(retain_graph=True) keeps it
    """
    order = nodes(root)
    number = {n: i for i, n in enumerate(order)}
    rows = []
    for n in order:
        shape = f"{n._data.shape} {n._data.dtype}" if n._data.shape is not None else "several"
        if n._prev:
            origin = "from " + ", ".join(str(number[p]) for p in n._prev)
        elif n._op and n.requires_grad:
            origin = f"its graph was {FREED}"
        else:
            origin = "requires grad" * n.requires_grad
        rows.append((str(number[n]), n._op or "leaf", shape, origin))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    widths[1] = max(widths[1], 5)
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip() for r in rows
    )


def dot(root: Tensor) -> str:
    """Return the graph in Graphviz's language: `dot -Tsvg` draws it."""
    order = nodes(root)
    number = {n: i for i, n in enumerate(order)}
    lines = ["digraph {", "  rankdir=LR; node [shape=box, fontname=monospace];"]
    for n in order:
        shape = tuple(n._data.shape) if n._data.shape is not None else "several"
        style = ", style=filled, fillcolor=lightblue" if n._operation is None and n.requires_grad else ""
        freed = f"\\n{FREED}" if n._op and n.requires_grad and not n._prev else ""
        lines.append(f'  {number[n]} [label="{n._op or "leaf"}\\n{shape}{freed}"{style}];')
        lines += [f"  {number[p]} -> {number[n]};" for p in n._prev]
    return "\n".join([*lines, "}"])


class save_on_cpu(contextlib.nullcontext[None]):
    """Compute as outside: a graph keeps the tensors themselves, and they stay where they lie.

    Gradients are PyTorch's, which copies to the CPU what a GPU's graph keeps; `autograd.checkpoint` keeps less.

    >>> with save_on_cpu():
    ...     y = minitorch.ones(2, requires_grad=True).exp()
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__()


_disabled: ContextVar[str | None] = ContextVar("minitorch_saved_tensors_hooks", default=None)


class saved_tensors_hooks(contextlib.nullcontext[None]):
    """Refuse: a graph here keeps the tensors themselves, and no copies that hooks could pack and unpack."""

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        if (message := _disabled.get()) is not None:
            raise RuntimeError(message)
        raise NotImplementedError(
            "saved_tensors_hooks: a graph keeps the tensors themselves, there is nothing to pack; write "
            "autograd.checkpoint(function, ...), which keeps less, or an autograd.Function, which keeps what it likes"
        )


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, saved_tensors_hooks raises a RuntimeError with a message.

    >>> with disable_saved_tensors_hooks("not here"):
    ...     saved_tensors_hooks(lambda x: x, lambda x: x)
    Traceback (most recent call last):
    RuntimeError: not here
    """
    token = _disabled.set(error_message)
    try:
        yield
    finally:
        _disabled.reset(token)
