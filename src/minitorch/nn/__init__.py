"""Layers and models: Module, its containers, and the layers by family. Each has a twin in nn.functional.

Enters: Tensors. Leaves: Tensors, and the parameters that made them.
"""

# ruff: noqa: F401, F403
from __future__ import annotations

import importlib
from typing import Any

from minitorch.nn import functional, init
from minitorch.nn.activation import *
from minitorch.nn.adaptive import *
from minitorch.nn.containers import *
from minitorch.nn.conv import *
from minitorch.nn.dropout import *
from minitorch.nn.embedding import *
from minitorch.nn.lazy import *
from minitorch.nn.linear import *
from minitorch.nn.loss import *
from minitorch.nn.module import *
from minitorch.nn.normalization import *
from minitorch.nn.parameter import *
from minitorch.nn.pooling import *
from minitorch.nn.recurrent import *
from minitorch.nn.sync_norm import *
from minitorch.nn.transformer import *
from minitorch.nn.vision import *

from minitorch.nn import modules, parallel  # isort: skip (it is made of the above)
from minitorch.nn.parallel import DataParallel  # isort: skip


def __getattr__(name: str) -> Any:
    if name == "attention":  # opened at first use
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
