"""Checkpointing where PyTorch has it: memory for time. Enters: a function and its inputs. Leaves: its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch.autograd.checkpoint import checkpoint
from minitorch.nn import Sequential

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a chain of modules in segments, keeping only what lies between them; backward computes the rest again.

    >>> import minitorch.nn as nn
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    >>> checkpoint_sequential(net, 2, minitorch.ones(4, 2)).shape
    (4, 1)
    """
    parts: Sequence[Any] = (
        list(functions.children()) if isinstance(functions, Sequential) else list(functions)
    )
    size = len(parts) // segments
    starts = list(range(0, size * segments, size))
    for start in starts[:-1]:
        input = checkpoint(_run(parts[start : start + size]), input)
    return _run(parts[starts[-1] :])(input)


def _run(parts: Sequence[Any]) -> Any:
    def forward(x: Any) -> Any:
        for part in parts:
            x = part(x)
        return x

    return forward
