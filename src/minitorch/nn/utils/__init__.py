"""Around layers: gradient clipping, parameters as a vector, normed weights, sequences of different lengths."""

import importlib
from typing import Any

from minitorch.nn.utils import parametrizations, parametrize, rnn, stateless
from minitorch.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from minitorch.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from minitorch.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from minitorch.nn.utils.making import (
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
    skip_init,
)
from minitorch.nn.utils.normed import (
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector",
    "parametrizations", "parametrize", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init",
    "spectral_norm", "stateless", "vector_to_parameters", "weight_norm",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "prune":  # opened at first use
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
