"""minitorch.cpu: the device that is always there. Enters: questions. Leaves: yes."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any

from minitorch.amp import GradScaler
from minitorch.amp import autocast as _autocast
from minitorch.cuda.streams import Stream


def is_available() -> bool:
    """Return True."""
    return True


is_initialized = is_available


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return its name."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Do nothing: what was asked for is done."""


def current_stream(device: Any = None) -> Stream:
    """Return the program's own order."""
    return Stream()


def stream(stream: Any) -> Any:
    """Return a context in which nothing changes: everything is done when a function returns."""
    return contextlib.nullcontext(stream)


def _cpu_autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> _autocast:
    """Return a context in which products are computed in half precision."""
    return _autocast("cpu", dtype, enabled, cache_enabled)


# The old address of mixed precision: `torch.cpu.amp.autocast()`.
amp = sys.modules[f"{__name__}.amp"] = ModuleType(
    f"{__name__}.amp", "autocast and GradScaler, at their old address."
)
vars(amp).update(
    autocast=_cpu_autocast, GradScaler=lambda *args, **options: GradScaler("cpu", *args, **options)
)
__path__: list[str] = []
