"""torch.return_types: the classes of results that have names. Enters: a name. Leaves: the class."""

from __future__ import annotations

from typing import Any

from minitorch.tensor.return_types import RETURN_TYPES


def __getattr__(name: str) -> Any:
    if name not in RETURN_TYPES:
        raise AttributeError(
            f"module 'torch.return_types' has no attribute {name!r}; there are {sorted(RETURN_TYPES)}"
        )
    return RETURN_TYPES[name]


def __dir__() -> list[str]:
    return sorted(RETURN_TYPES)
