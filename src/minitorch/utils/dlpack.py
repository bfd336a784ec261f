"""torch.utils.dlpack: memory shared with other libraries. Enters: a tensor or a capsule. Leaves: the other."""

from __future__ import annotations

from typing import Any

from minitorch.creation import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """Return a capsule that shares a tensor's memory."""
    return tensor.__dlpack__()
