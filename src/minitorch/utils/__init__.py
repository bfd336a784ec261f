"""Helpers around training: `minitorch.utils.data` feeds it, `checkpoint` trades memory for time."""

import importlib
from typing import Any

from minitorch.utils import checkpoint, data

__all__ = ["checkpoint", "data"]


def __getattr__(name: str) -> Any:
    if name in ("_pytree", "benchmark", "dlpack", "hooks", "weak"):  # opened at first use
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
