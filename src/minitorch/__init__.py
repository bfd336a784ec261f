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
from minitorch.engine.precision import versions_of_cudnn as _versions_of_cudnn
from minitorch.engine.recording import compilers as _compilers
from minitorch.functions import *
from minitorch.ops import native as _native
from minitorch.ops.native import are_native_ops_enabled, set_native_ops
from minitorch.random import (
    Generator,
    bernoulli,
    binomial,
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
from minitorch.settings import *
from minitorch.tensor import Tensor
from minitorch.tensor.devices import Size, device
from minitorch.tensor.printing import set_printoptions
from minitorch.tensor.torch_function import offer as _offer

__version__ = "0.1.0"

bool = dtypes.bool_
float = dtypes.float_
int = dtypes.int_
dtype = type(dtypes.float32)
newaxis = None
e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi

# Methods that are functions of rooms which a program may never enter.
_METHODS = {
    "nn.functional": ("hardshrink", "prelu"),
    "rare": (
        "as_strided_scatter", "conj_physical_", "dim_order", "eig", "geqrf", "is_distributed", "is_neg", "is_set_to",
        "lstsq", "map2_", "map_", "narrow_copy", "new_empty_strided", "nonzero_static", "ormqr", "resize_as_", "smm",
        "solve", "symeig", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
    ),
    "signal.spectrogram": ("istft", "stft"),
}  # fmt: skip


def _method(room: str, name: str) -> _Any:
    def call(self: Tensor, *args: _Any, **kwargs: _Any) -> _Any:
        return getattr(_importlib.import_module(f"minitorch.{room}"), name)(self, *args, **kwargs)

    call.__name__, call.__qualname__ = name, f"Tensor.{name}"
    call.__doc__ = f"See minitorch.{room}.{name}."
    return call


for _room, _names in _METHODS.items():
    for _name in _names:
        setattr(Tensor, _name, _method(_room, _name))

# Every in-place method, too: minitorch.relu_(x) is x.relu_().
globals().update({name: getattr(Tensor, name) for name in dir(Tensor) if name[0] != "_" and name[-1] == "_"})

# Functions that are no methods ask classes and modes too, where there are such (tensor/torch_function.py).
_offer(globals(), vars(functions))
_offer(
    globals(),
    (*creation.__all__, *(name for name in vars(random) if name.startswith(("rand", "normal", "bern")))),
)
_offer(vars(linalg), linalg.__all__)

# Rooms that a program may never enter are opened at first use, so that `import minitorch` stays quick: the rooms
# themselves, and the names that are offered here from inside one.
_ROOMS = {
    "accelerator": ("get_device_module",),
    "amp": (
        "GradScaler", "autocast", "clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_dtype",
        "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
    ),
    "autograd.anomaly": ("is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_anomaly_enabled"),
    "backends": (),
    "compiler.call.compiled": ("compile",),
    "compiler.call.lazy": ("is_lazy", "lazy", "set_lazy"),
    "cpu": (),
    "cuda": (),
    "course": (),
    "course.explorer": ("explore",),
    "distributed": (),
    "distributions": (),
    "engine.dtypes": ("bfloat16",),
    "face": ("install_as_torch",),
    "fft": (),
    "func": ("vmap",),
    "masked": (),
    "nn": (),
    "nn.functional": (
        "adaptive_avg_pool1d", "adaptive_max_pool1d", "celu_", "max_pool1d_with_indices", "rrelu_", "selu_",
        "threshold_", "alpha_dropout", "avg_pool1d", "batch_norm",
        "bilinear", "binary_cross_entropy_with_logits", "celu", "channel_shuffle", "conv1d", "conv2d",
        "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss",
        "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "embedding", "embedding_bag",
        "feature_alpha_dropout", "group_norm", "hardshrink", "hinge_embedding_loss", "instance_norm",
        "kl_div", "layer_norm", "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d",
        "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu",
        "rms_norm", "rrelu", "selu", "threshold", "triplet_margin_loss",
    ),
    "optim": (),
    "quasirandom": (),
    "rare": (
        "affine_grid_generator", "alias_copy", "alpha_dropout_", "as_strided_copy", "as_strided_scatter", "cond",
        "constant_pad_nd", "conv_tbc", "convolution", "detach_copy", "diagonal_copy", "dropout_", "dsmm", "eig",
        "empty_permuted", "empty_strided", "expand_copy", "feature_alpha_dropout_", "feature_dropout",
        "feature_dropout_", "frobenius_norm", "geqrf", "get_device", "grid_sampler", "grid_sampler_2d",
        "grid_sampler_3d", "gru", "gru_cell", "has_lapack", "has_mkl", "has_openmp", "has_spectral", "histogramdd",
        "is_conj", "is_distributed", "is_inference", "is_neg", "is_same_size", "is_signed", "is_storage", "lstm",
        "lstm_cell", "lstsq", "matrix_rank", "narrow_copy", "native_channel_shuffle", "native_dropout",
        "native_group_norm", "native_layer_norm", "nonzero_static", "norm_except_dim", "nuclear_norm", "ormqr",
        "pca_lowrank", "permute_copy", "range", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell",
        "select_copy", "set_flush_denormal", "slice_copy", "smm", "solve", "split_copy", "split_with_sizes_copy",
        "squeeze_copy", "svd_lowrank", "symeig", "t_copy", "transpose_copy", "unbind_copy", "unfold_copy",
        "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze_copy", "view_as_complex_copy",
        "view_as_real_copy", "view_copy", "while_loop",
    ),
    "serialization": ("load", "save"),
    "signal": (),
    "signal.spectrogram": ("istft", "stft"),
    "signal.windows": ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"),
    "sparse": (),
    "special": (),
    "testing": (),
    "utils": (),
    "version": (),
    "vision": (),
}  # fmt: skip
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def _explore(self: Tensor, path: _Any = None, **options: _Any) -> _Any:
    """Write a page on which the backward pass can be stepped through; see minitorch.explore."""
    return _importlib.import_module("minitorch.course.explorer").explore(self, path, **options)


Tensor.explore = _explore  # type: ignore[attr-defined]


def _kernel(*call: _Any) -> _Any:
    """Compute an op on large arrays by a native kernel; None: by NumPy."""
    return _importlib.import_module("minitorch.compiler.call.kernels").compute(*call)


def _device_kernel(*call: _Any) -> _Any:
    """Compute an op on a GPU's arrays by a kernel of our own; None: by CuPy."""
    kernels = _importlib.import_module("minitorch.compiler.call.device_kernels")
    _native.offer_there(kernels.compute, kernels.quick)  # from now on without this step
    return kernels.compute(*call)


def _update(*call: _Any) -> _Any:
    """Change large arrays by a native kernel; return whether that was done."""
    kernels = _importlib.import_module("minitorch.compiler.call.update_kernels")
    _native.offer_updates(kernels.update)  # from now on without this step
    return kernels.update(*call)


def _device_update(*call: _Any) -> _Any:
    """Change a GPU's arrays by a kernel of our own; return whether that was done."""
    kernels = _importlib.import_module("minitorch.compiler.call.device_updates")
    _native.offer_updates_there(kernels.update)
    return kernels.update(*call)


def _compile(*args: _Any, **options: _Any) -> _Any:
    """Compile a function; see minitorch.compile."""
    return _importlib.import_module("minitorch.compiler.call.compiled").compile(*args, **options)


def _cudnn_version() -> _Any:
    """Return the version of NVIDIA's library for convolutions; None where it is not installed."""
    return _importlib.import_module("minitorch.compiler.backends.cuda.cudnn").version()


_compilers.append(_compile)
_versions_of_cudnn.append(_cudnn_version)
_native.offer(_kernel)
_native.offer_updates(_update)
_native.offer_there(_device_kernel)
_native.offer_updates_there(_device_update)


def __getattr__(name: str) -> _Any:
    if name in _ROOM_OF:
        return getattr(_importlib.import_module(f"minitorch.{_ROOM_OF[name]}"), name)
    if name in _ROOMS:
        return _importlib.import_module(f"minitorch.{name}")
    raise AttributeError(f"module 'minitorch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(room for room in _ROOMS if "." not in room), *_ROOM_OF})
