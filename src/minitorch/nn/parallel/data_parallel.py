"""DataParallel, on the one device that a Module is on. Enters: a Module. Leaves: one that computes the same."""

from __future__ import annotations

from typing import Any

from minitorch.nn.module import Module
from minitorch.nn.parallel.scatter_gather import scatter_kwargs


class DataParallel(Module):
    """PyTorch's wrapper for several GPUs: it runs the module as it is, on the GPU it is on, and brings inputs there.

    >>> net = DataParallel(minitorch.nn.Sequential(minitorch.nn.Linear(2, 3)))
    >>> list(net.state_dict()), net(minitorch.ones(1, 2)).shape
    (['module.0.weight', 'module.0.bias'], (1, 3))
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module."""
        held = next(iter([*self.module.parameters(), *self.module.buffers()]), None)
        if held is not None and held.is_cuda:
            (inputs, *_), (kwargs, *_) = scatter_kwargs((*inputs, None), kwargs, [held.device], self.dim)
            inputs = inputs[:-1]
        return self.module(*inputs, **kwargs)
