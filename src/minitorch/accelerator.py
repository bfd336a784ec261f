"""minitorch.accelerator: whichever device there is beside the CPU. Enters: questions. Leaves: answers about the GPU.

`torch.accelerator` is how PyTorch's programs ask without naming a kind of device.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from minitorch import cpu, cuda
from minitorch.cuda import (
    current_device,
    current_stream,
    device_count,
    empty_cache,
    get_device_capability,
    is_available,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_device,
    set_stream,
    synchronize,
)
from minitorch.cuda import device as device_index
from minitorch.cuda import mem_get_info as get_memory_info
from minitorch.engine import gpu
from minitorch.tensor.devices import device

current_device_index = current_device_idx = current_device
set_device_index = set_device_idx = set_device


def current_accelerator(check_available: bool = False) -> Any:
    """Return the GPU's device; None where there is none.

    >>> current_accelerator() is None or is_available()
    True
    """
    return device("cuda") if is_available() else None


def empty_host_cache() -> None:
    """Give pinned memory that CuPy keeps for later back to the host."""
    if is_available():
        gpu.library().get_default_pinned_memory_pool().free_all_blocks()


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a kind of device: minitorch.cuda, minitorch.cpu; without one, of the accelerator.

    >>> get_device_module("cpu").__name__
    'minitorch.cpu'
    """
    kind = current_accelerator() if device is None else Device(device)
    if kind is None or kind.type == "cpu":
        return cpu
    if kind.type != "cuda":
        raise RuntimeError(f"get_device_module: there are 'cpu' and 'cuda', not {device!r}")
    return cuda


Device = device
# Its part about memory has an address too: `torch.accelerator.memory.empty_cache()`.
memory = sys.modules[f"{__name__}.memory"] = sys.modules[__name__]
__path__: list[str] = []

__all__ = [
    "current_accelerator", "current_device", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_device_module",
    "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved", "memory", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device",
    "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip
