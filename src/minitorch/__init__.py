"""minitorch: the PyTorch you can read. A Tensor over NumPy arrays that differentiates itself.

>>> import minitorch
>>> x = minitorch.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
array([2., 4., 6.], dtype=float32)
"""

from __future__ import annotations

import importlib as _importlib
import math as _math
from typing import Any as _Any

from minitorch import autograd, creation, dtypes, functions, linalg, random
from minitorch.autograd import (
    detect_anomaly,
    enable_grad,
    gradcheck,
    gradgradcheck,
    inference_mode,
    is_grad_enabled,
    no_grad,
    op,
    set_grad_enabled,
)
from minitorch.creation import *
from minitorch.dtypes import (
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    set_default_dtype,
    short,
    uint8,
)
from minitorch.functions import *
from minitorch.printing import set_printoptions
from minitorch.random import (
    Generator,
    bernoulli,
    get_rng_state,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from minitorch.tensor import Tensor

__version__ = "0.1.0"

bool = dtypes.bool_
float = dtypes.float_
int = dtypes.int_
e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi

# Rooms that a program may never enter are opened at first use, so that `import minitorch` stays quick.
_ROOMS = ("nn", "optim", "utils")
_FROM_ROOMS = {"save": "serialization", "load": "serialization", "compile": "compiler.front"}


def __getattr__(name: str) -> _Any:
    if name in _ROOMS:
        return _importlib.import_module(f"minitorch.{name}")
    if name in _FROM_ROOMS:
        return getattr(_importlib.import_module(f"minitorch.{_FROM_ROOMS[name]}"), name)
    raise AttributeError(f"module 'minitorch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_FROM_ROOMS})
