"""torch.ops: operators by namespace. Enters: torch.ops.aten.add, torch.ops.mine.square. Leaves: the function.

`aten` is torch's own functions by their names; other namespaces hold what torch.library has defined.
"""

from __future__ import annotations

from typing import Any

import minitorch
from minitorch.face.names.library import DEFINED


class _Aten:
    """An operator of PyTorch's own: the function of that name; its overloads are one."""

    def __init__(self, name: str, function: Any) -> None:
        self.__name__, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute it."""
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self

    def overloads(self) -> list[str]:
        """Return the names of its overloads."""
        return ["default"]


class _Namespace:
    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found: Any = DEFINED.get(f"{self.name}::{name}")
        if found is None and self.name in ("aten", "prims"):
            function = getattr(minitorch, name, None) or getattr(minitorch.Tensor, name, None)
            found = None if function is None else _Aten(name, function)
        if found is None:
            raise AttributeError(
                f"torch.ops.{self.name}.{name}: there is no such operator: compiled extensions of PyTorch cannot be "
                "loaded here; torch.library.custom_op defines one in Python"
            )
        setattr(self, name, found)
        return found


def load_library(path: Any) -> None:
    """Refuse: compiled extensions are PyTorch's own."""
    raise OSError(f"torch.ops.load_library: {path}: compiled extensions of PyTorch cannot be loaded here")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    made = globals()[name] = _Namespace(name)
    return made
