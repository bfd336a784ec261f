"""What tensors are called. Enters: a Module, or variables. Leaves: names by identity: "model.0.weight", "w"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitorch.nn.module import Module
from minitorch.testing.fields import is_tensor

LONGEST = 1000  # lists are looked into up to this length


def names_of_tensors(space: Mapping[str, Any] | Module | None) -> dict[int, str]:
    """Return the names of a Module's parameters and buffers, or of variables and what the Modules among them hold.

    >>> w = minitorch.ones(2)
    >>> names_of_tensors({"w": w, "layer": minitorch.nn.Linear(1, 1)})[id(w)]
    'w'
    """
    if isinstance(space, Module):
        return {id(tensor): name for name, tensor in [*space.named_parameters(), *space.named_buffers()]}
    found: dict[int, str] = {}
    for name, value in (space or {}).items():
        if name.startswith("_"):
            continue
        if isinstance(value, Module):
            for key, inner in names_of_tensors(value).items():
                found.setdefault(key, f"{name}.{inner}")
        elif is_tensor(value):
            found.setdefault(id(value), name)
        elif isinstance(value, (list, tuple)) and len(value) < LONGEST:
            for i, each in enumerate(value):
                if is_tensor(each):
                    found.setdefault(id(each), f"{name}[{i}]")
    return found
