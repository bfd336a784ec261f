"""torch.compiler: words to torch.compile. Enters: functions. Leaves: the same; the compiler finds out by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import minitorch

__all__ = ["allow_in_graph", "compile", "disable", "is_compiling", "reset"]


def compile(*args: Any, **kwargs: Any) -> Any:
    """Return torch.compile's answer."""
    return minitorch.compile(*args, **kwargs)


def is_compiling() -> bool:
    """Return False: a compiled call does what the eager one does, so a program need not tell them apart."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: Any = None) -> Any:
    """Return a function as it is: what cannot be compiled is found, and run eagerly.

    >>> disable(len) is len
    True
    """
    return fn if fn is not None else lambda each: each


def allow_in_graph(fn: Any) -> Any:
    """Return a function as it is."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return a function as it is; what it reads is looked at, at every call."""
    return fn


def substitute_in_graph(original_fn: Any, **options: Any) -> Any:
    """Decorate a function as it is; the original is recorded itself."""
    return lambda fn: fn


def reset() -> None:
    """Do nothing: what was compiled stays right."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no such graphs on the CPU."""


@contextlib.contextmanager
def set_stance(stance: Any = "default", **options: Any) -> Iterator[None]:
    """Do nothing: how is decided call by call."""
    yield


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of torch.compile's backends."""
    return ["inductor", "eager"]
