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

from minitorch import autograd, creation, functions, linalg, random
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
from minitorch.engine import dtypes, memory
from minitorch.engine.dtypes import (
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    set_default_dtype,
    short,
    uint8,
    uint16,
    uint32,
    uint64,
)
from minitorch.functions import *
from minitorch.random import (
    Generator,
    bernoulli,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    poisson,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from minitorch.tensor import Tensor
from minitorch.tensor.devices import Size, device
from minitorch.tensor.methods.arrange import *
from minitorch.tensor.methods.complex import *
from minitorch.tensor.methods.indexing import *
from minitorch.tensor.methods.matrices import OLDER as _OLDER
from minitorch.tensor.methods.pointwise import *
from minitorch.tensor.methods.products import *
from minitorch.tensor.methods.statistics import *
from minitorch.tensor.printing import set_printoptions

__version__ = "0.1.0"

bool = dtypes.bool_
float = dtypes.float_
int = dtypes.int_
dtype = type(dtypes.float32)
newaxis = None
e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi

globals().update(_OLDER)

# Rooms that a program may never enter are opened at first use, so that `import minitorch` stays quick.
_ROOMS = (
    "amp",
    "backends",
    "cuda",
    "distributions",
    "fft",
    "func",
    "nn",
    "optim",
    "signal",
    "special",
    "testing",
    "utils",
)
_FROM_ROOMS = {
    "save": "serialization",
    "load": "serialization",
    "compile": "compiler.call.compiled",
    "vmap": "func",
}
_FROM_ROOMS |= dict.fromkeys(("autocast", "GradScaler"), "amp") | dict.fromkeys(
    ("istft", "stft"), "signal.spectrogram"
)
_FROM_ROOMS |= {
    f"{name}_window": "signal.windows" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")
}
_FROM_ROOMS |= dict.fromkeys(
    """are_deterministic_algorithms_enabled bfloat16 can_cast channels_last channels_last_3d
    contiguous_format detach get_default_device get_float32_matmul_precision get_num_interop_threads get_num_threads
    is_complex is_floating_point is_inference_mode_enabled is_nonzero mps preserve_format result_type set_default_device
    set_default_tensor_type set_float32_matmul_precision set_num_interop_threads set_num_threads strided
    use_deterministic_algorithms""".split(),  # noqa: SIM905
    "settings",
)
_FROM_ROOMS |= dict.fromkeys(
    """adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear
    binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cosine_embedding_loss cosine_similarity ctc_loss dropout embedding embedding_bag
    feature_alpha_dropout group_norm hardshrink hinge_embedding_loss instance_norm kl_div layer_norm
    margin_ranking_loss max_pool1d max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle
    poisson_nll_loss prelu rms_norm rrelu selu threshold triplet_margin_loss""".split(),  # noqa: SIM905
    "nn.functional",
)


def __getattr__(name: str) -> _Any:
    if name in _ROOMS:
        return _importlib.import_module(f"minitorch.{name}")
    if name in _FROM_ROOMS:
        return getattr(_importlib.import_module(f"minitorch.{_FROM_ROOMS[name]}"), name)
    if name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name):
        return getattr(Tensor, name)  # minitorch.relu_(x) is x.relu_()
    raise AttributeError(f"module 'minitorch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_FROM_ROOMS})
