"""How results that have names are printed. Enters: a named tuple. Leaves: its text, PyTorch's under its types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minitorch.tensor.torch_types import pytorchs

# By PyTorch's names: what torch.return_types offers.
RETURN_TYPES: dict[str, type] = {}


C = TypeVar("C", bound=type)


def shown_as(name: str) -> Callable[[C], C]:
    """Decorate a class of named tuples that PyTorch has as torch.return_types.name."""

    def decorate(kind: C) -> C:
        kind.__repr__ = _text_as(name)  # type: ignore[assignment, method-assign]
        RETURN_TYPES[name] = kind
        return kind

    return decorate


def _text_as(name: str) -> Callable[[Any], str]:
    def text(self: Any) -> str:
        parts = [f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True)]
        if pytorchs.on:
            return f"torch.return_types.{name}(\n" + ",\n".join(parts) + ")"
        kind = type(self) if "_plain" not in vars(type(self)) else type(self)._plain
        return f"{kind.__name__}({', '.join(parts)})"

    return text


def return_type(plain: type, name: str) -> Any:
    """Return a class of named tuples of its own for one function, where several share one.

    >>> from typing import NamedTuple
    >>> class Pair(NamedTuple):
    ...     values: int
    ...     indices: int
    >>> return_type(Pair, "first")(1, 2)
    Pair(values=1, indices=2)
    """
    body = {"__slots__": (), "__repr__": _text_as(name), "_plain": plain, "__reduce__": _reduce}
    made = type(name, (plain,), {**body, "__module__": plain.__module__, "n_fields": len(plain._fields)})  # type: ignore[attr-defined]
    RETURN_TYPES[name] = made
    return made


def _reduce(self: Any) -> Any:
    return (_made, (type(self).__name__, tuple(self)))


def _made(name: str, parts: tuple[Any, ...]) -> Any:
    return RETURN_TYPES[name](*parts)
