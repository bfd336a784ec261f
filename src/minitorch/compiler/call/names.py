"""What to call a function. Enters: a function, or something called like it. Leaves: its name, for people."""

from __future__ import annotations

from typing import Any


def describe(function: Any) -> str:
    """Return a function's name."""
    return getattr(function, "__qualname__", None) or type(function).__name__
