"""torch.accelerator: whichever device there is beside the CPU. Enters: questions. Leaves: answers about the GPU."""

from __future__ import annotations

from typing import Any

import minitorch
from minitorch.cuda import (
    current_device,
    device_count,
    empty_cache,
    is_available,
    max_memory_allocated,
    memory_allocated,
    set_device,
    synchronize,
)

__all__ = [
    "current_device", "device_count", "empty_cache", "is_available", "max_memory_allocated", "memory_allocated",
    "set_device", "synchronize",
]  # fmt: skip
current_device_index, set_device_index = current_device, set_device


def current_accelerator(check_available: bool = False) -> Any:
    """Return the GPU's device; None where there is none."""
    return minitorch.device("cuda") if is_available() else None
