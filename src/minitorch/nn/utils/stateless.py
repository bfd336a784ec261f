"""The old address of functional_call, which is in minitorch.func."""

from __future__ import annotations

import importlib
from typing import Any


def functional_call(
    module: Any, parameters_and_buffers: Any, args: Any = None, kwargs: Any = None, **how: Any
) -> Any:
    """Call a module with other Tensors in place of its parameters and buffers (see minitorch.func.functional_call).

    >>> functional_call(minitorch.nn.Linear(2, 1, bias=False), {"weight": minitorch.ones(1, 2)}, minitorch.ones(2))
    tensor([2.])
    """
    func = importlib.import_module("minitorch.func")  # a room above this one
    return func.functional_call(module, parameters_and_buffers, args, kwargs, **how)
