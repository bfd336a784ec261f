"""A module as a function of its parameters. Enters: a Module, and Tensors by the names of its parameters and buffers.

Leaves: what it computes with those. minitorch.func offers it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitorch.engine.node import Node
from minitorch.engine.recording import changed
from minitorch.nn.module import Module
from minitorch.tensor import Tensor

State = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameters_and_buffers: State | Sequence[State],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other Tensors in place of its parameters and buffers (see minitorch.func.functional_call).

    >>> functional_call(minitorch.nn.Linear(2, 1, bias=False), {"weight": minitorch.ones(1, 2)}, minitorch.ones(2))
    tensor([2.])
    """
    states = parameters_and_buffers
    dicts = [states] if isinstance(states, Mapping) else states
    given: dict[str, Any] = {}
    for each in dicts:
        twice = set(given) & set(each)
        if twice:
            raise ValueError(f"functional_call: {sorted(twice)} are given twice")
        given.update(each)
    for name, value in given.items():
        if not isinstance(value, Node):
            raise TypeError(f"functional_call: {name!r} must be a Tensor, got {type(value).__name__}")
    places = _places(module)
    unknown, missing = [n for n in given if n not in places], [n for n in places if n not in given]
    if unknown or (strict and missing):
        raise RuntimeError(
            f"functional_call: {type(module).__name__} has no {unknown}"
            if unknown
            else f"functional_call: with strict=True these are missing: {missing}"
        )
    if tie_weights:
        _tie(given, places)
    before = [(places[name][0], places[name][1], places[name][0][places[name][1]]) for name in given]
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    changed()
    for name, value in given.items():
        holder, key = places[name]
        holder[key] = value
    # A buffer that the module sets anew (a count, a running mean) is written into the dict it was given in.
    try:
        return module(*arguments, **(kwargs or {}))
    finally:
        for each in dicts:
            for name in each:
                holder, key = places[name]
                if isinstance(each, dict) and holder[key] is not each[name]:
                    each[name] = holder[key]
        for holder, key, value in before:
            holder[key] = value
        changed()


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Return where each parameter and buffer is held: by its name, the dictionary and the key in it."""
    places = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for holder in (part._parameters, part._buffers):
            for key, value in holder.items():
                if value is not None:
                    places[f"{prefix}.{key}" if prefix else key] = (holder, key)
    return places


def _tie(given: dict[str, Any], places: dict[str, tuple[dict[str, Any], str]]) -> None:
    """Give each name of a tensor that the module holds under several what one of them is given."""
    by_tensor: dict[int, list[str]] = {}
    for name, (holder, key) in places.items():
        by_tensor.setdefault(id(holder[key]), []).append(name)
    for names in by_tensor.values():
        values = [given[name] for name in names if name in given]
        if len(names) > 1 and values:
            if any(value is not values[0] for value in values):
                raise ValueError(
                    f"functional_call: {names} are one tensor in the module, but are given different ones"
                )
            given.update(dict.fromkeys(names, values[0]))
