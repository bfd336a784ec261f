"""weight_norm and spectral_norm as parametrizations. Enters: a Module. Leaves: it, with a computed weight."""

from __future__ import annotations

from minitorch.functions import dot
from minitorch.modes import no_grad
from minitorch.nn.module import Module
from minitorch.nn.utils.normed import as_matrix, norm_except_dim, output_axis, random_unit, unit
from minitorch.nn.utils.parametrize import register_parametrization
from minitorch.tensor import Tensor


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: dim {dim} is out of range for a weight of shape {weight.shape}")
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            rows, columns = matrix.shape
            self.register_buffer("_u", random_unit(rows, weight, eps))
            self.register_buffer("_v", random_unit(columns, weight, eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(unit(matrix._data @ self._v._data, self.eps))
                self._v.copy_(unit(matrix._data.T @ self._u._data, self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return weight / weight.norm().clamp(min=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: the next forward changes both, and this one's graph needs them as they are.
        return weight / dot(self._u.clone(), matrix @ self._v.clone())

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into length and direction:  w = g·v/‖v‖.

    >>> layer = weight_norm(minitorch.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    ((40, 1), (40, 20))
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, found by power iteration.

    >>> layer = spectral_norm(minitorch.nn.Linear(20, 40))
    >>> for _ in range(50): weight = layer.weight
    >>> round(minitorch.linalg.matrix_norm(weight, 2).item(), 2)
    1.0
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter or buffer named {name!r}")
    axis = output_axis(module, dim)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))


__all__ = ["spectral_norm", "weight_norm"]
