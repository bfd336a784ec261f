"""Results, and arguments as they are recorded: nested containers, taken apart and put together around other things.

Enters: tuples, lists, dicts, namedtuples and dataclasses, with Tensors in them. Leaves: the like of them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch.compiler.call.key import is_record
from minitorch.compiler.trace.deferred import Deferred
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.node import Node
from minitorch.optim.optimizer import ParameterGroup


class Leaf:
    """Where an array stands in nested containers."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Same:
    """In place of a container or an array from outside: the very one, whatever is in it."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing


class Taken:
    """In place of a container or an array among the arguments: the one of the call.

    path: the way to it from (args, options).
    """

    __slots__ = ("path",)

    def __init__(self, path: tuple[Any, ...]) -> None:
        self.path = path

    def of(self, call: Any) -> Any:
        """Return it. call: (args, options)."""
        for key in self.path:
            call = call[key] if isinstance(call, (tuple, list, dict)) else getattr(call, key)
        return call


def paths_of(thing: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the lists, dicts, dataclasses and arrays among arguments, and how each is reached."""
    if isinstance(thing, (list, tuple)):
        parts: Any = enumerate(thing)
    elif isinstance(thing, dict) and not isinstance(thing, ParameterGroup):
        parts = thing.items()
    elif is_record(thing):
        parts = [(each.name, getattr(thing, each.name)) for each in dataclasses.fields(thing)]
    elif isinstance(thing, (np.ndarray, Traced)):
        parts = ()
    else:
        return
    if not isinstance(thing, tuple):
        yield thing, path
    for key, part in parts:
        yield from paths_of(part, (*path, key))


def rebuilt(
    thing: Any,
    change: Callable[[Any], Any],
    known: dict[int, Any] | None = None,
    kept: Callable[[Any], Same | Taken | None] | None = None,
) -> Any:
    """Return nested containers with everything in them that is no container replaced by change(it).

    known: the new containers by the ids of the old ones, so that one that stands in two places is one in the new
    ones too. kept: what stands in place of a container that is not looked into; None for others.
    """
    known = {} if known is None else known
    again = lambda part: rebuilt(part, change, known, kept)
    if isinstance(thing, tuple):
        parts = [again(i) for i in thing]
        return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    if (not isinstance(thing, (list, dict)) and not is_record(thing)) or isinstance(thing, ParameterGroup):
        return change(thing)
    if id(thing) in known:
        return known[id(thing)]
    if kept is not None and (instead := kept(thing)) is not None:
        known[id(thing)] = instead
        return instead
    new: Any
    if isinstance(thing, list):
        parts = [again(i) for i in thing]
        new = parts if type(thing) is list else type(thing)(parts)
    elif isinstance(thing, dict):
        new = {k: again(v) for k, v in thing.items()}
        if type(thing) is not dict:
            content, new = new, copy.copy(thing)
            new.update(content)
    else:
        new = copy.copy(thing)
        for each in dataclasses.fields(thing):
            object.__setattr__(new, each.name, again(getattr(thing, each.name)))
    known[id(thing)] = new
    return new


def collect(thing: Any) -> list[Any]:
    """Return the Tensors and arrays among results, each once, in order, and those that numbers are computed from."""
    found: dict[int, Any] = {}

    def note(part: Any) -> None:
        if isinstance(part, Deferred):
            found.update((id(leaf), leaf) for leaf in part.leaves())
        elif isinstance(part, (Node, np.ndarray, Traced)):
            found.setdefault(id(part), part)

    rebuilt(thing, note)
    return list(found.values())


class _Computed:
    """Where a number stands that is computed from arrays."""

    __slots__ = ("compute",)

    def __init__(self, compute: Callable[[list[Any]], Any]) -> None:
        self.compute = compute


def parts_of(thing: Any) -> list[Any]:
    """Return everything in nested containers that is no container, in order."""
    parts: list[Any] = []
    rebuilt(thing, parts.append)
    return parts


def template(thing: Any, numbers: dict[int, int]) -> Any:
    """Return results with Leaf(number) in place of each Tensor or array."""

    def part_of_it(part: Any) -> Any:
        if isinstance(part, Deferred):
            return _Computed(part.computing(numbers))
        if isinstance(part, Number):
            read = part.read
            return _Computed(lambda arrays: read())
        return Leaf(numbers[id(part)]) if id(part) in numbers else part

    return rebuilt(thing, part_of_it)


def takes_from_call(shape: Any) -> bool:
    """Tell whether a template has containers or arrays of the call in it."""
    return any(part.__class__ is Taken for part in parts_of(shape))


def filled(shape: Any, leaves: list[Any], known: dict[int, Any] | None = None) -> Any:
    """Return results from their template and the arrays of a call; known: as of rebuilt.

    Behind the arrays stands (args, options), if the template takes containers from there.
    """

    def part_of_it(part: Any) -> Any:
        if part.__class__ is Leaf:
            return leaves[part.number]
        if part.__class__ is _Computed:
            return part.compute(leaves)
        if part.__class__ is Taken:
            return part.of(leaves[-1])  # the last of them is the call itself
        return part.thing if part.__class__ is Same else part

    return rebuilt(shape, part_of_it, known)
