"""Weights that are computed from other parameters before each forward: weight_norm and spectral_norm.

Enters: a Module. Leaves: the same Module, one weight replaced by what it is computed from; `remove_…` undoes that.
nn.utils.parametrizations has the same two as parametrizations, which also act when the weight is
only looked at.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from minitorch.engine.modes import no_grad
from minitorch.functions import dot
from minitorch.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.random import randn
from minitorch.tensor import Tensor

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """Return the 2-norms over all axes but one, which are kept; of the whole tensor for dim -1.

    >>> norm_except_dim(minitorch.tensor([[3.0, 4.0], [0.0, 2.0]]), 0)
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return v.norm()
    return v.norm(dim=[axis for axis in range(v.ndim) if axis != dim % v.ndim], keepdim=True)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return a weight as a matrix whose rows belong to one axis."""
    order = [dim, *(axis for axis in range(weight.ndim) if axis != dim)]
    return weight.permute(*order).reshape(weight.shape[dim], -1)


def unit(vector: Any, eps: float) -> Any:
    """Return an array's direction."""
    return vector / np.maximum(np.sqrt(vector @ vector), eps)


def random_unit(size: int, like: Tensor, eps: float) -> Tensor:
    """Return a random direction, in the dtype and on the device of a tensor."""
    start = randn(size, dtype=like.dtype).to(like.device)
    start._data = unit(start._data, eps)
    return start


def output_axis(module: Module, dim: int | None) -> int:
    """Return the axis of a weight that counts the outputs: 1 for transposed convolutions."""
    if dim is not None:
        return dim
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class WeightNorm:
    """The forward pre-hook of weight_norm."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute(self, module: Module) -> Tensor:
        """Return the weight."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    def __call__(self, module: Module, args: Any) -> None:
        """Compute the weight anew."""
        setattr(module, self.name, self.compute(module))


class SpectralNorm:
    """The forward pre-hook of spectral_norm."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def compute(self, module: Module, iterate: bool) -> Tensor:
        """Return the weight, after looking for its largest singular value a little further."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(unit(matrix._data.T @ u._data, self.eps))
                    u.copy_(unit(matrix._data @ v._data, self.eps))
        # Copies: the next forward changes u and v, and this one's graph needs them as they are.
        return weight / dot(u.clone(), matrix @ v.clone())

    def __call__(self, module: Module, args: Any) -> None:
        """Compute the weight anew."""
        setattr(module, self.name, self.compute(module, iterate=module.training))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace a weight by its length and direction:  w = g·v/‖v‖, with parameters `weight_g`, `weight_v`.

    dim: the axis along which each entry has a length of its own; None for one length in all.

    >>> layer = weight_norm(minitorch.nn.Linear(20, 40))
    >>> layer.weight_g.shape, layer.weight_v.shape
    ((40, 1), (40, 20))
    """
    weight = _parameter(module, name, "weight_norm")
    _refuse_second(module, name, WeightNorm)
    hook = WeightNorm(name, dim)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, hook.dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the weight a parameter again, with the value it has.

    >>> layer = remove_weight_norm(weight_norm(minitorch.nn.Linear(2, 3)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    hook = _taken_off(module, name, WeightNorm, "weight_norm")
    weight = hook.compute(module).detach()
    for attribute in (name, name + "_g", name + "_v"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value:  w = w_orig/σ,  σ = uᵀ·w_orig·v.

    u and v are found by power iteration, a step of it each time forward runs in training.

    >>> layer = spectral_norm(minitorch.nn.Linear(20, 40))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = _parameter(module, name, "spectral_norm")
    _refuse_second(module, name, SpectralNorm)
    if n_power_iterations <= 0:
        raise ValueError(
            f"spectral_norm: expected n_power_iterations to be positive, but got {n_power_iterations}"
        )
    hook = SpectralNorm(name, n_power_iterations, output_axis(module, dim), eps)
    rows, columns = as_matrix(weight.detach(), hook.dim).shape
    u, v = random_unit(rows, weight, eps), random_unit(columns, weight, eps)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the weight a parameter again, with the value it has.

    >>> layer = remove_spectral_norm(spectral_norm(minitorch.nn.Linear(2, 3)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    hook = _taken_off(module, name, SpectralNorm, "spectral_norm")
    weight = hook.compute(module, iterate=False).detach()
    for attribute in (name, name + "_u", name + "_v", name + "_orig"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module


def _parameter(module: Module, name: str, function: str) -> Parameter:
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(
            f"{function}: {type(module).__name__} has no parameter {name!r}; it has "
            f"{[key for key, value in module._parameters.items() if value is not None]}"
        )
    return weight


def _hooks(module: Module, name: str, kind: type) -> dict[Any, Any]:
    return {
        number: entry[0]
        for number, entry in module._forward_pre_hooks.items()
        if isinstance(entry[0], kind) and entry[0].name == name  # type: ignore[attr-defined]
    }


def _refuse_second(module: Module, name: str, kind: type) -> None:
    if _hooks(module, name, kind):
        raise RuntimeError(f"Cannot register two {kind.__name__} hooks on the same parameter {name}")


def _taken_off(module: Module, name: str, kind: type, function: str) -> Any:
    found = _hooks(module, name, kind)
    if not found:
        raise ValueError(f"{function} of {name!r} not found in {type(module).__name__}")
    ((number, hook),) = found.items()
    del module._forward_pre_hooks[number]
    return hook
