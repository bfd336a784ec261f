"""What layers compute, as functions without parameters of their own. Enters: Tensors. Leaves: Tensors."""

# ruff: noqa: F403
from __future__ import annotations

import sys as _sys

from minitorch.engine.recording import ReportingModule as _ReportingModule
from minitorch.nn.functional.activation import *
from minitorch.nn.functional.attention import *
from minitorch.nn.functional.conv import *
from minitorch.nn.functional.dropout import *
from minitorch.nn.functional.linear import *
from minitorch.nn.functional.loss import *
from minitorch.nn.functional.margin_loss import *
from minitorch.nn.functional.normalization import *
from minitorch.nn.functional.pooling import *
from minitorch.nn.functional.vision import *
from minitorch.tensor.torch_function import offer as _offer

_offer(globals(), [name for name in globals() if name[0] != "_"])
_sys.modules[__name__].__class__ = _ReportingModule
