"""All parameters as one vector, and back. Enters: parameters. Leaves: a vector; or parameters filled from one."""

from __future__ import annotations

from collections.abc import Iterable

from minitorch.engine.modes import no_grad
from minitorch.functions import cat
from minitorch.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters one after another; gradients flow back to them.

    >>> parameters_to_vector(minitorch.nn.Linear(2, 3).parameters()).shape
    (9,)
    """
    parts = [p.reshape(-1) for p in parameters]
    if not parts:
        raise ValueError("parameters_to_vector: got no parameters")
    return cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write a vector's elements into the parameters, in their order.

    >>> layer = minitorch.nn.Linear(1, 2)
    >>> vector_to_parameters(minitorch.arange(4.0), layer.parameters()); layer.bias
    Parameter containing:
    tensor([2., 3.], requires_grad=True)
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor, but got {type(vec).__name__}")
    chosen = list(parameters)
    total = sum(p.numel() for p in chosen)
    if vec.shape != (total,):
        raise RuntimeError(
            f"vector_to_parameters: the parameters have {total} elements together, but the vector has shape {vec.shape}"
        )
    start = 0
    with no_grad():
        for p in chosen:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
