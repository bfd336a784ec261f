"""torch.nn.utils.fusion: normalisation folded into the layer before it. Enters: both. Leaves: one layer."""

from __future__ import annotations

import copy
from typing import Any

from minitorch.creation import ones_like, zeros_like
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check(layer: Any, norm: Any, name: str) -> None:
    if layer.training or norm.training:
        raise AssertionError(f"{name}: both must be in eval mode; write model.eval() first")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that does what a convolution and the BatchNorm after it do, both in eval mode.

    >>> conv, bn = minitorch.nn.Conv2d(1, 2, 3).eval(), minitorch.nn.BatchNorm2d(2).eval()
    >>> x = minitorch.ones(1, 1, 4, 4)
    >>> minitorch.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    _check(conv, bn, "fuse_conv_bn_eval")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Return the weight and bias of the convolution that does both."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a Linear that does what a Linear and the BatchNorm after it do, both in eval mode."""
    _check(linear, bn, "fuse_linear_bn_eval")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "fuse_linear_bn_eval: the BatchNorm must have the Linear's number of features, or 1"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of the Linear that does both."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fused(w: Any, b: Any, mean: Any, var: Any, eps: float, scale: Any, shift: Any, axis: int) -> Any:
    # y = (w·x + b - mean) / sqrt(var + eps)·scale + shift, gathered by x.
    b = zeros_like(mean) if b is None else b
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    shape = [1] * w.ndim
    shape[axis] = -1
    weight = (w * factor.reshape(shape)).to(w.dtype)
    bias = (b - mean) * factor + shift
    return Parameter(weight.detach(), w.requires_grad), Parameter(bias.detach().to(b.dtype), b.requires_grad)
