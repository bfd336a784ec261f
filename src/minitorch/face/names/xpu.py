"""torch.xpu: a device that is not here. Enters: questions. Leaves: no."""

from __future__ import annotations


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0
