"""Checkpointing where PyTorch has it: memory for time. Enters: a function and its inputs. Leaves: its result."""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from minitorch import cuda
from minitorch.autograd.checkpoint import checkpoint
from minitorch.nn import Sequential
from minitorch.tensor import Tensor

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "check_backward_validity", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable", "get_device_states",
    "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """What PyTorch raises where the second pass differs from the first."""


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


class CheckpointFunction:
    """checkpoint as PyTorch's old class: `CheckpointFunction.apply(function, preserve_rng_state, *inputs)`."""

    @staticmethod
    def apply(run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function; backward computes what is inside again."""
        return checkpoint(run_function, *args, use_reentrant=True, preserve_rng_state=preserve_rng_state)


class CheckpointPolicy(enum.Enum):
    """What a selective checkpoint does with an op's result, in PyTorch."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that change nothing: what checkpoint's context_fn is without one."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def create_selective_checkpoint_contexts(*args: Any, **options: Any) -> NoReturn:
    """Refuse: a checkpoint keeps its inputs alone."""
    raise NotImplementedError(
        "create_selective_checkpoint_contexts: a checkpoint keeps nothing but its inputs here; checkpoint smaller parts"
    )


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return each Tensor cut off from its graph, requiring grad as it did; what is no Tensor as it is."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad: then a reentrant checkpoint has none to give."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "checkpoint: no input requires a gradient, so none comes back; pass one, or use_reentrant=False",
            stacklevel=2,
        )


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Return the GPUs that arguments lie on, and the states of their random generators."""
    numbers = sorted({x.get_device() for x in args if isinstance(x, Tensor) and x.is_cuda})
    return numbers, [cuda.get_rng_state(n) for n in numbers]


def set_device_states(devices: Sequence[int], states: Sequence[Any], *, device_type: Any = None) -> None:
    """Set the states of GPUs' random generators."""
    for number, state in zip(devices, states, strict=True):
        cuda.set_rng_state(state, number)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """In PyTorch: whether the second pass stops when all is known. It costs time alone, and here it goes to the end."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """In PyTorch: whether an error tells the ops of both passes. Here errors are told as they are."""
    yield
