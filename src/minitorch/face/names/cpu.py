"""torch.cpu: the device that is always there. Enters: questions. Leaves: yes."""

from __future__ import annotations

from typing import Any

from minitorch.face.extras import Stream


def is_available() -> bool:
    """Return True."""
    return True


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
