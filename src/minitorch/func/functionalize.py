"""A function without writes in place. Enters: a function. Leaves: the function.

What writes in place here makes a new version of a tensor and leaves the old one to whoever has recorded it, and
transforms follow it. So a function that writes computes what its form without writes computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return the function itself: in place or not, values and derivatives are the same.

    >>> double = functionalize(lambda x: x.clone().mul_(2))
    >>> double(minitorch.ones(2))
    tensor([2., 2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}"
        )
    return func
