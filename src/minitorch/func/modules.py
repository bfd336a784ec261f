"""A module as a function of its parameters: functional_call, stack_module_state.

Enters: a Module, and Tensors by the names of its parameters and buffers. Leaves: what it computes with those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minitorch.nn import Module
from minitorch.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from minitorch.nn.utils import stateless
from minitorch.tensor import Tensor
from minitorch.tensor.methods.joining import stack

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
    return stateless.functional_call(
        module, parameter_and_buffer_dicts, args, kwargs, tie_weights=tie_weights, strict=strict
    )


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
