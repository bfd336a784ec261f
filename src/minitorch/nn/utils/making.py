"""Modules made without drawing, and weights laid out otherwise. Enters: a class, or a Module. Leaves: a Module."""

from __future__ import annotations

import inspect
from typing import Any

from minitorch.nn.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from minitorch.nn.module import Module
from minitorch.random import fork_rng


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """Make a Module whose parameters are not initialised: no random number is taken for them.

    >>> minitorch.nn.utils.skip_init(minitorch.nn.Linear, 5, 1)
    Linear(in_features=5, out_features=1, bias=True)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with fork_rng():
        return module_cls(*args, **kwargs)


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Lay the weights of all 2-d convolutions in a Module out in a memory format; their values stay."""
    return _laid_out(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Lay the weights of all 3-d convolutions in a Module out in a memory format; their values stay."""
    return _laid_out(module, (Conv3d, ConvTranspose3d), memory_format)


def _laid_out(module: Module, kinds: tuple[type, ...], memory_format: Any) -> Module:
    for each in module.modules():
        if isinstance(each, kinds):
            each.weight.data = each.weight.detach().clone().contiguous(memory_format=memory_format)._data
    return module
