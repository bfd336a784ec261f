"""A module as a function of its parameters: functional_call, stack_module_state.

Enters: a Module, and Tensors by the names of its parameters and buffers. Leaves: what it computes with those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minitorch.engine.node import Node
from minitorch.engine.recording import changed
from minitorch.nn import Module
from minitorch.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from minitorch.tensor import Tensor
from minitorch.tensor.methods.shape import stack

State = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other Tensors in place of its parameters and buffers; it is left as it was.

    tie_weights: a Tensor that the module holds under several names is replaced under all of them.
    strict: every parameter and buffer must be given, and nothing else.

    >>> layer = minitorch.nn.Linear(2, 1)
    >>> functional_call(layer, {"weight": minitorch.ones(1, 2), "bias": minitorch.zeros(1)}, minitorch.ones(3, 2))
    tensor([[2.],
            [2.],
            [2.]])
    """
    states = parameter_and_buffer_dicts
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


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of several modules of one kind, stacked: for vmap over an ensemble.

    >>> parameters, buffers = stack_module_state([minitorch.nn.Linear(2, 3) for _ in range(5)])
    >>> parameters["weight"].shape
    (5, 3, 2)
    """
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model, got 0")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: all models must have the same training or evaluation mode")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: all models must be of one class")

    def stacked(states: Iterable[Iterable[tuple[str, Tensor]]]) -> dict[str, Any]:
        columns: dict[str, list[Tensor]] = {}
        for state in states:
            for name, value in state:
                columns.setdefault(name, []).append(value)
        return {
            name: stack([value.detach() for value in values]).requires_grad_(values[0].requires_grad)
            for name, values in columns.items()
        }

    return stacked(m.named_parameters() for m in models), stacked(m.named_buffers() for m in models)


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch norm in a module use the statistics of the batch alone, and keep none; in place.

    >>> net = minitorch.nn.Sequential(minitorch.nn.BatchNorm1d(3))
    >>> replace_all_batch_norm_modules_(net)[0].running_mean is None
    True
    """
    for part in root.modules():
        if isinstance(part, (BatchNorm1d, BatchNorm2d, BatchNorm3d)):
            part.running_mean = part.running_var = part.num_batches_tracked = None
            part.track_running_stats = False
    return root
