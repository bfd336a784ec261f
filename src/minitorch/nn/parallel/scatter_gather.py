"""A batch cut for several devices, and put together. Enters: a nest of Tensors. Leaves: one each; one again."""

from __future__ import annotations

from typing import Any

from minitorch.functions import cat
from minitorch.tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """Return a nest for each device, with a part of each Tensor; what is no Tensor is in all of them.

    >>> scatter((minitorch.arange(4), "a"), ["cpu", "cpu"])
    [(tensor([0, 1]), 'a'), (tensor([2, 3]), 'a')]
    """
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return [part.to(device) for part, device in zip(parts, target_gpus, strict=False)]
    if isinstance(inputs, (tuple, list)) and inputs:
        each = list(zip(*(scatter(one, target_gpus, dim) for one in inputs), strict=False))
        if hasattr(inputs, "_fields"):
            return [type(inputs)(*part) for part in each]
        return [type(inputs)(part) for part in each]
    if isinstance(inputs, dict) and inputs:
        values = zip(*(scatter(one, target_gpus, dim) for one in inputs.values()), strict=False)
        return [type(inputs)(zip(inputs, part, strict=True)) for part in values]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[Any, Any]:
    """Return arguments by position and by keyword, for each device."""
    given = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    given += [() for _ in range(len(named) - len(given))]
    named += [{} for _ in range(len(given) - len(named))]
    return tuple(given), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Put the parts of several devices together on one."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return cat([each.to(target_device) for each in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)(
            (key, gather([each[key] for each in outputs], target_device, dim)) for key in first
        )
    made = [gather(parts, target_device, dim) for parts in zip(*outputs, strict=True)]
    return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
