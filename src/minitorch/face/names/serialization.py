"""torch.serialization: save and load by their long address."""

from minitorch.face.checkpoints import load, save
from minitorch.face.names._utils import _get_layout
from minitorch.serialization import (
    FILE_LIKE,
    MAP_LOCATION,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)

__all__ = [
    "FILE_LIKE", "MAP_LOCATION", "_get_layout", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load",
    "safe_globals", "save",
]  # fmt: skip
