"""Batches cut into parts and put together again. Enters: Tensors in containers. Leaves: the same, on one device."""

from __future__ import annotations

from typing import Any

from minitorch.functions import cat
from minitorch.tensor import Tensor


def gather(outputs: Any, target_device: Any = None, dim: int = 0) -> Any:
    """Put parts together along an axis: Tensors, and Tensors in lists, tuples and dicts.

    >>> gather([minitorch.ones(1), minitorch.zeros(2)])
    tensor([1., 0., 0.])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        return cat([each.reshape(1) if not each.ndim else each for each in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([each[key] for each in outputs], dim=dim)) for key in first)
    parts = (gather(each, dim=dim) for each in zip(*outputs, strict=True))
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """Return a batch as it is, in one part: there is one device."""
    return [inputs]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[list[Any], list[Any]]:
    """Return arguments as they are, in one part."""
    return [inputs], [kwargs or {}]
