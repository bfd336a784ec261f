"""PyTorch's other addresses of the layers: `from torch.nn.modules.batchnorm import _BatchNorm`.

Enters: nothing. Leaves: each of PyTorch's files of layers, as the room here that holds them.
"""

# ruff: noqa: F403
import sys as _sys
from types import ModuleType as _ModuleType

from minitorch.nn import (
    activation as _activation,
)
from minitorch.nn import (
    adaptive,
    containers,
    embedding,
    lazy,
    module,
    normalization,
    recurrent,
    vision,
)
from minitorch.nn import conv as _conv
from minitorch.nn import dropout as _dropout
from minitorch.nn import linear as _linear
from minitorch.nn import loss as _loss
from minitorch.nn import pooling as _pooling
from minitorch.nn import transformer as _transformer
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
from minitorch.nn.pooling import *
from minitorch.nn.recurrent import *
from minitorch.nn.sync_norm import *
from minitorch.nn.transformer import *
from minitorch.nn.vision import *

# There, attention is one of the activations.
_activations = _ModuleType(f"{__name__}.activation", _activation.__doc__)
vars(_activations).update({k: v for k, v in vars(_activation).items() if not k.startswith("__")})
vars(_activations)["MultiheadAttention"] = _transformer.MultiheadAttention

for _name, _room in {
    "activation": _activations,
    "adaptive": adaptive,
    "batchnorm": normalization,
    "container": containers,
    "conv": _conv,
    "distance": _linear,
    "dropout": _dropout,
    "flatten": _linear,
    "fold": _conv,
    "instancenorm": normalization,
    "lazy": lazy,
    "linear": _linear,
    "loss": _loss,
    "module": module,
    "normalization": normalization,
    "padding": vision,
    "pixelshuffle": vision,
    "pooling": _pooling,
    "rnn": recurrent,
    "sparse": embedding,
    "transformer": _transformer,
    "upsampling": vision,
}.items():
    globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _room
