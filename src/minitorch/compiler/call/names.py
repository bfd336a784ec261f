"""Names of functions, and what stands for one. Enters: a function, or something called like it. Leaves: words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FunctionWrapper:
    """Stands for a function and does what that does."""

    function: Callable[..., Any]


def describe(function: Any) -> str:
    """Return a function's name."""
    return getattr(function, "__qualname__", None) or type(function).__name__
