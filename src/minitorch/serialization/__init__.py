"""save and load: Tensors in containers to and from files, without pickle ever running.

Enters: a state dict, or any nest of dicts, lists and tuples of Tensors, arrays, numbers and strings.
Leaves: a .safetensors or .npz file, whole or not at all; and the nest again, from these or from a
checkpoint that PyTorch wrote. The rooms, in the order data walks: nest (a nest becomes arrays by name
and a JSON skeleton), npz and safetensors (arrays by name in a file), pytorch (its zip checkpoints, read
without PyTorch), atomic (a file is whole or untouched), front (save and load).
"""

import contextlib
from typing import Any

from minitorch.serialization.atomic import atomically
from minitorch.serialization.files import load, save

__all__ = ["atomically", "load", "save"]


class safe_globals(contextlib.nullcontext[None]):
    """A context in which classes may be loaded by name. Nothing that is loaded runs code, so it allows nothing more."""

    def __init__(self, safe_globals: Any) -> None:
        super().__init__()


_safe: list[Any] = []


def add_safe_globals(safe_globals: Any) -> None:
    """Remember classes; what is loaded is Tensors, containers and numbers, whichever are allowed."""
    _safe.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """Return what add_safe_globals was given."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Forget what add_safe_globals was given."""
    _safe.clear()


FILE_LIKE = MAP_LOCATION = Any
