"""Derivatives of anybody's tensors, by their fields alone. Enters: a function of them. Leaves: True, or what disagrees.

A tensor is here whatever has the fields data, grad, requires_grad, _prev and _backward, and a class that is called with
an array and requires_grad: minitorch's own, the one-file engine's, and the one that a learner writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FIELDS = ("data", "grad", "requires_grad", "_prev", "_backward")


def is_tensor(value: Any) -> bool:
    """Tell whether a value has the fields of a tensor that a gradient can be asked of.

    >>> is_tensor(minitorch.ones(2)), is_tensor(np.ones(2))
    (True, False)
    """
    return hasattr(value, "requires_grad") and hasattr(value, "data")


def topological(root: Any) -> list[Any]:
    """Return every tensor behind `root` and itself, each after all it was computed from."""
    order: list[Any] = []
    visited: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            order.append(node)
        elif id(node) not in visited:
            visited.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent in node._prev)
    return order


def backward(root: Any, gradient: Any) -> None:
    """Walk back from `root` with this gradient, by `_prev` and `_backward` alone; root may have any shape.

    >>> x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    >>> backward(x * x, np.array([1.0, 10.0], dtype=np.float32))
    >>> x.grad
    array([ 2., 40.], dtype=float32)
    """
    missing = [field for field in FIELDS if not hasattr(root, field)]
    if missing:
        raise TypeError(
            f"a {type(root).__name__} is no tensor that can be walked back: it has no {', '.join(missing)}"
        )
    order = topological(root)
    root.grad = np.asarray(gradient, dtype=root.data.dtype)
    for node in reversed(order):
        node._backward()


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Check the gradients of `func` against central differences, for tensors of any class with the course's fields.

    inputs: a tensor or several, in float64; those that require grad are checked, whatever else is handed on as it is.
    The result may have any shape: the gradient of a weighted sum of its elements is compared, with irregular weights.

    >>> from minitorch.course.tensor import Tensor
    >>> x = Tensor(np.array([0.5, -1.5]), requires_grad=True)
    >>> gradcheck(lambda t: t.exp() * t, x)
    True
    >>> gradcheck(lambda t: t.detach() * t, x)
    Traceback (most recent call last):
    ...
    AssertionError: gradcheck: input 0, element (0,): backward gives 0.2..., differences give 0.5...
    """
    listed = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    found = disagreement(func, listed, eps, atol, rtol)
    if found and raise_exception:
        raise AssertionError(found)
    return found is None


def disagreement(
    func: Callable[..., Any], inputs: Sequence[Any], eps: float, atol: float, rtol: float
) -> str | None:
    """Return where backward and differences disagree, in words; None if nowhere."""
    checked = [i for i, each in enumerate(inputs) if is_tensor(each) and each.requires_grad]
    if not checked:
        raise ValueError("gradcheck: at least one input must be a tensor with requires_grad=True")

    def fresh(requires_grad: bool) -> list[Any]:
        return [
            type(each)(np.array(each.data), requires_grad=requires_grad and each.requires_grad)
            if is_tensor(each)
            else each
            for each in inputs
        ]

    leaves = fresh(True)
    out = func(*leaves)
    if not is_tensor(out):
        raise TypeError(f"gradcheck: the function must return a tensor, got {type(out).__name__}")
    weights = np.cos(1.0 + 1.7 * np.arange(out.data.size)).reshape(out.data.shape)
    if out.requires_grad:
        backward(out, weights)
    for i in checked:
        leaf = leaves[i]
        if leaf.data.dtype != np.float64:
            return f"gradcheck: input {i} is {leaf.data.dtype}; differences need float64 to mean anything"
        grad = np.zeros_like(leaf.data) if leaf.grad is None else np.asarray(leaf.grad)
        if grad.shape != leaf.data.shape:
            return f"gradcheck: input {i} has shape {leaf.data.shape}, and its gradient {grad.shape}"
        for place in np.ndindex(leaf.data.shape):
            totals = []
            for step in (eps, -eps):
                moved = fresh(False)
                moved[i].data[place] += step
                totals.append(float((np.asarray(func(*moved).data) * weights).sum()))
            slope = (totals[0] - totals[1]) / (2 * eps)
            if not np.isclose(grad[place], slope, rtol=rtol, atol=atol, equal_nan=True):
                return (
                    f"gradcheck: input {i}, element {place}: backward gives {grad[place]:.6g}, "
                    f"differences give {slope:.6g}"
                )
    return None
