"""Arguments and results. Enters: nested containers with Tensors in them. Leaves: their structure, and the Tensors.

Tuples, lists, dicts, namedtuples and dataclasses are taken apart. Plain things (numbers, strings) are known by their
value, everything else by identity.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.call.guards import PLAIN
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.node import Node
from minitorch.optim.optimizer import ParameterGroup


class Leaf:
    """Where an array stands in nested containers."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def take_apart(
    thing: Any, leaves: list[Any], numbers: list[float] | None = None, objects: list[Any] | None = None
) -> Any:
    """Return a container's structure, hashable, with its Tensors and arrays moved to `leaves`.

    numbers: gets the floats. objects: gets what the structure knows by identity only, to be looked into by guards.
    """
    if isinstance(thing, (Node, np.ndarray)):
        leaves.append(thing)
        return _LEAF
    kind = type(thing)
    if kind is float:
        if numbers is None:
            return (float, exactly(thing))
        numbers.append(thing)
        return (float,)
    if isinstance(thing, (tuple, list)):
        if kind not in (tuple, list) and objects is not None:
            objects.append(kind)
        return (kind, *[take_apart(i, leaves, numbers, objects) for i in thing])
    if isinstance(thing, dict) and not isinstance(thing, ParameterGroup):
        return (kind, tuple([(k, take_apart(v, leaves, numbers, objects)) for k, v in thing.items()]))
    if isinstance(thing, PLAIN):
        return (kind, repr(thing)) if kind.__hash__ is None or thing != thing else (kind, thing)
    if is_record(thing):
        if objects is not None:
            objects.append(kind)
        parts = [
            take_apart(getattr(thing, f.name), leaves, numbers, objects) for f in dataclasses.fields(thing)
        ]
        return (kind, *parts)
    if objects is not None:
        objects.append(thing)
    return (kind, id(thing))


_LEAF = ("leaf",)


def exactly(number: float) -> Any:
    """Return what tells a float from others: 0.0 from -0.0, and nan from nothing."""
    return (math.copysign(1, number), number) if number == number else "nan"


def is_record(thing: Any) -> bool:
    """Tell whether something is a dataclass's instance and nothing beyond its fields."""
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return False
    return set(getattr(thing, "__dict__", ())) <= {f.name for f in dataclasses.fields(thing)}


def rebuilt(thing: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested containers with everything in them that is no container replaced by change(it)."""
    if isinstance(thing, (tuple, list)):
        parts = [rebuilt(i, change) for i in thing]
        return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    if isinstance(thing, dict) and not isinstance(thing, ParameterGroup):
        new = {k: rebuilt(v, change) for k, v in thing.items()}
        if type(thing) is dict:
            return new
        other = copy.copy(thing)
        other.update(new)
        return other
    if is_record(thing):
        other = copy.copy(thing)
        for each in dataclasses.fields(thing):
            object.__setattr__(other, each.name, rebuilt(getattr(thing, each.name), change))
        return other
    return change(thing)


def collect(thing: Any) -> list[Any]:
    """Return the Tensors and arrays among results, each once, in order."""
    found: dict[int, Any] = {}

    def note(part: Any) -> None:
        if isinstance(part, (Node, np.ndarray, Traced)):
            found.setdefault(id(part), part)

    rebuilt(thing, note)
    return list(found.values())


def template(thing: Any, numbers: dict[int, int]) -> Any:
    """Return results with Leaf(number) in place of each Tensor or array."""
    return rebuilt(thing, lambda part: Leaf(numbers[id(part)]) if id(part) in numbers else part)


def filled(shape: Any, leaves: list[Any]) -> Any:
    """Return results from their template and the arrays of a call."""
    return rebuilt(shape, lambda part: leaves[part.number] if part.__class__ is Leaf else part)


def signature(leaf: Any) -> tuple[Any, ...]:
    """Return what a program depends on of an argument: kind, shape, dtype, layout, whether it wants a gradient."""
    array = leaf._data if isinstance(leaf, Node) else leaf
    flags = array.flags
    # None: read-only, for which contiguous or not is the same to us.
    layout = flags.c_contiguous if flags.writeable else None
    if isinstance(leaf, Node):
        return (
            type(leaf), array.shape, array.dtype, layout, leaf._requires_grad,
            leaf._operation is None, leaf._grad is None, bool(leaf._hooks),
        )  # fmt: skip
    return (type(leaf), array.shape, array.dtype, layout)


def in_words(key: Any) -> list[str]:
    """Say what arguments a program takes, from its key."""
    structure, *rest = key
    signatures = iter(rest)

    def words(part: Any) -> str:
        if part == ("leaf",):
            kind, shape, dtype, layout, *more = next(signatures)
            text = f"{kind.__name__} {dtype}[{'×'.join(map(str, shape))}]"
            text += "" if layout else " read-only" if layout is None else " strided"
            return text + (" requires grad" if more and more[0] else "")
        kind, *parts = part
        if kind is float:
            return "a float"
        if isinstance(kind, type) and issubclass(kind, dict):
            return "{" + ", ".join(f"{k!r}: {words(v)}" for k, v in parts[0]) + "}"
        if parts and all(isinstance(p, tuple) and p and isinstance(p[0], (type, str)) for p in parts):
            return f"{kind.__name__}({', '.join(map(words, parts))})"
        return f"{kind.__name__} {parts[0]!r}" if parts and kind in (int, bool, str) else kind.__name__

    positional, named = structure
    found = [words(p) for p in positional[1:]]
    return found + ([f"{k}={words(v)}" for k, v in named[1]] if named else [])
