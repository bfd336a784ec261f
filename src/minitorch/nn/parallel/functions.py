"""The steps of DataParallel as functions. Enters: a Module, or several, and inputs. Leaves: outputs.

There is one device, on which a Module's replicas are the Module itself and run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch.nn.module import Module
from minitorch.nn.parallel.scatter_gather import gather, scatter_kwargs
from minitorch.tensor.devices import device as device_of


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Return a Module for each device: the same one, as all of them are the device it is on."""
    first = next(iter([*network.parameters(), *network.buffers()]), None)
    for each in devices:
        if first is not None and device_of(each) != first.device:
            raise NotImplementedError(
                f"replicate: a copy on {device_of(each)} of a Module on {first.device} is absent; there is "
                "nn.parallel.DistributedDataParallel, a process for each device"
            )
    return [network for _ in devices]


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
) -> list[Any]:
    """Return each Module's output for its input, a tuple of arguments or one argument.

    >>> parallel_apply([minitorch.nn.ReLU(), minitorch.nn.Tanh()], [minitorch.ones(1), (minitorch.zeros(1),)])
    [tensor([1.]), tensor([0.])]
    """
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}"
        )
    named = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    given = [each if isinstance(each, (list, tuple)) else (each,) for each in inputs]
    return [module(*args, **more) for module, args, more in zip(modules, given, named, strict=True)]


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Run a Module on a batch cut for several devices, and put the outputs together; without devices: run it."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    named = module_kwargs or {}
    if not device_ids:
        return module(*given, **named)
    parts, more = scatter_kwargs(given, named, device_ids, dim)
    used = device_ids[: len(parts)]
    outputs = parallel_apply(replicate(module, used), parts, more, used)
    return gather(outputs, device_ids[0] if output_device is None else output_device, dim)
