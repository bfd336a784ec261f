"""Gradient clipping. Enters: parameters with gradients. Leaves: the same, their gradients bounded, in place."""

from __future__ import annotations

import types
import warnings
from typing import Any

import numpy as np

from minitorch.engine import gpu
from minitorch.engine.backward import own_gradient
from minitorch.engine.node import new_tensor
from minitorch.ops.native import is_of_device
from minitorch.ops.op import certain, violated
from minitorch.ops.scaling import factor_for, multiply_all, total_norm
from minitorch.tensor import Tensor


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all tensors together: the norm of their norms.

    >>> get_total_norm([minitorch.tensor([3.0]), minitorch.tensor([0.0, 4.0])])
    tensor(5.)
    """
    given = [tensors] if isinstance(tensors, (Tensor, np.ndarray)) else list(tensors)
    arrays = [each._data if isinstance(each, Tensor) else each for each in given]
    arrays = [np.absolute(array) if array.dtype.kind == "c" else array for array in arrays]
    if not arrays:
        return new_tensor(np.zeros((), np.float32))
    order = float(norm_type)
    with np.errstate(all="ignore"):  # an overflow is an answer here, and error_if_nonfinite asks for it
        dtype = np.result_type(*(array.dtype for array in arrays))
        total = _total_norm(arrays, order, dtype)
    if error_if_nonfinite and violated(~np.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite ({total}), so it cannot be "
            "clipped. To scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return new_tensor(total)


def _total_norm(arrays: list[Any], order: float, dtype: Any) -> Any:
    """Return the norm of all arrays together, where the first one lies, wherever the others do."""
    here = [array for array in arrays if isinstance(array, np.ndarray)]
    there = [array for array in arrays if not isinstance(array, np.ndarray)]
    if not (here and there and gpu.is_on_gpu(there[0])):
        return total_norm(arrays, order, dtype)
    norms = [np.asarray(total_norm(here, order, dtype), like=there[0]), total_norm(there, order, dtype)]
    total = total_norm(norms, order or 1.0, dtype)  # (of order 0 it is a count)
    return total if gpu.is_on_gpu(arrays[0]) else gpu.on_host(total)


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by max_norm/(total_norm + 1e-6), if that is less than 1.

    >>> w = minitorch.zeros(2, requires_grad=True); w.grad = np.array([3.0, 4.0])
    >>> clip_grads_with_norm_(w, 1.0, minitorch.tensor(10.0)); w.grad.round(3)
    array([0.3, 0.4], dtype=float32)
    """
    total = total_norm._data if isinstance(total_norm, Tensor) else np.asarray(total_norm)
    with np.errstate(all="ignore"):
        factor = factor_for(total, most=float(max_norm))
        gradients = _gradients(parameters)
        if len({gradient.__class__ for gradient in gradients}) > 1:  # on several devices
            here = np.asarray(gpu.on_host(factor))
            for gradient in gradients:
                there = np.asarray(here, like=gradient) if gpu.is_on_gpu(gradient) else here
                multiply_all([gradient], there)
        elif is_of_device(factor):  # (to look whether it is 1, the host would wait)
            multiply_all(gradients, factor)
        elif not certain(factor == 1):
            for gradient in gradients:
                np.multiply(gradient, factor.astype(gradient.dtype), out=gradient)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients down together, so that their norm is at most max_norm; return what it was.

    >>> w = minitorch.zeros(2, requires_grad=True); w.grad = np.array([3.0, 4.0])
    >>> clip_grad_norm_([w], max_norm=1.0)
    tensor(5.)
    >>> w.grad.round(3)
    array([0.6, 0.8], dtype=float32)
    """
    chosen = _listed(parameters)
    if isinstance(parameters, types.GeneratorType) and not chosen:
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur. Was it used before?",
            stacklevel=2,
        )
    total = get_total_norm(_gradients(chosen), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(chosen, max_norm, total)
    return total


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Bound every element of every gradient to [-clip_value, clip_value].

    >>> w = minitorch.zeros(2, requires_grad=True); w.grad = np.array([0.5, -4.0])
    >>> clip_grad_value_([w], 1.0); w.grad
    array([ 0.5, -1. ], dtype=float32)
    """
    bound = float(clip_value)
    for gradient in _gradients(parameters):
        if gradient.dtype.kind == "c":
            raise RuntimeError("clip_grad_value_: complex gradients have no order; write clip_grad_norm_")
        np.clip(gradient, -bound, bound, out=gradient)


def _listed(parameters: Any) -> list[Tensor]:
    chosen = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for p in chosen:
        if not isinstance(p, Tensor):
            raise TypeError(f"clip_grad: expects Tensors, got {type(p).__name__}; write model.parameters()")
    return chosen


def _gradients(parameters: Any) -> list[np.ndarray]:
    # p.grad gives each parameter an array of its own: the engine may share one among several.
    return [gradient for p in _listed(parameters) if (gradient := own_gradient(p)) is not None]


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """clip_grad_norm_ under its old name, which warns."""
    warnings.warn(
        "nn.utils.clip_grad_norm is deprecated; write nn.utils.clip_grad_norm_",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
