"""weight_norm, spectral_norm, orthogonal as parametrizations. Enters: a Module. Leaves: it, with a computed weight."""

from __future__ import annotations

import numpy as np

from minitorch import creation
from minitorch.engine.gpu import on_host
from minitorch.engine.modes import no_grad
from minitorch.functions import cat, dot
from minitorch.linalg import matrix_exp, solve
from minitorch.nn.module import Module
from minitorch.nn.utils.normed import as_matrix, norm_except_dim, output_axis, random_unit, unit
from minitorch.nn.utils.parametrize import register_parametrization
from minitorch.random import randn
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor


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


class _Orthogonal(Module):
    """Makes a matrix with orthonormal columns (or rows, if fewer) from any matrix of its shape."""

    base: Tensor | None

    def __init__(self, weight: Tensor, how: str, use_trivialization: bool) -> None:
        super().__init__()
        self.how = how
        if use_trivialization:
            self.register_buffer("base", None)  # filled by right_inverse, when registered

    def forward(self, weight: Tensor) -> Tensor:
        rows, columns = weight.shape[-2:]
        wide = rows < columns
        x = weight.swapaxes(-2, -1) if wide else weight
        rows, columns = x.shape[-2:]
        if self.how == "householder":
            q = _householder_product(x.tril(-1)) * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            lower = x.tril()
            if rows != columns:
                nothing = creation.zeros(
                    (*x.shape[:-2], rows, rows - columns), dtype=x.dtype, device=x.device
                )
                lower = cat([lower, nothing], -1)
            skew = lower - lower.swapaxes(-2, -1)  # e to a skew matrix is a rotation
            if self.how == "matrix_exp":
                q = matrix_exp(skew)
            else:
                one = creation.eye(rows, dtype=x.dtype, device=x.device)
                q = solve(one - 0.5 * skew, one + 0.5 * skew)
            q = q[..., :columns]
        base = getattr(self, "base", None)
        if base is not None:
            q = base @ q
        return q.swapaxes(-2, -1) if wide else q

    def right_inverse(self, value: Tensor) -> Tensor:
        wide = value.shape[-2] < value.shape[-1]
        q = (value.swapaxes(-2, -1) if wide else value).detach()
        rows, columns = q.shape[-2:]
        if not hasattr(self, "base"):
            if self.how != "householder":
                raise NotImplementedError(
                    f"orthogonal: with {self.how} a matrix can be assigned only if use_trivialization=True"
                )
            raw, tau = (np.asarray(part) for part in np.linalg.qr(on_host(q._data), mode="raw"))
            found = np.array(raw.swapaxes(-2, -1)).astype(value.dtype)
            diagonal = np.arange(columns)
            signs = np.sign(found[..., diagonal, diagonal])
            found[..., diagonal, diagonal] = np.where(tau == 0, -signs, signs)
            result = creation.as_tensor(found, device=q.device)
            return result.swapaxes(-2, -1) if wide else result
        if rows != columns:
            q = cat([q, randn(*q.shape[:-2], rows, rows - columns, dtype=q.dtype, device=q.device)], -1)
        self.base = _make_orthogonal(q)
        # Of -1 on the diagonal every map makes the identity, and so base itself is the start.
        start = np.zeros(value.shape, value.dtype)
        diagonal = np.arange(min(rows, columns))
        start[..., diagonal, diagonal] = -1
        return creation.as_tensor(start, device=value.device)


def _make_orthogonal(matrix: Tensor) -> Tensor:
    q, r = np.linalg.qr(matrix._data)
    signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
    return as_tensor((q * signs[..., None, :]).copy())


def _householder_product(lower: Tensor) -> Tensor:
    """The first columns of the product of reflections, each across the plane normal to a column (with a 1 on top)."""
    rows, columns = lower.shape[-2:]
    one = creation.eye(rows, columns, dtype=lower.dtype, device=lower.device)
    tau = 2.0 / (1.0 + (lower * lower).sum(dim=-2))
    vectors = lower + one
    q = one.expand(lower.shape)
    for i in range(columns - 1, -1, -1):
        v = vectors[..., i : i + 1]
        q = q - tau[..., i : i + 1].unsqueeze(-1) * (v @ (v.swapaxes(-2, -1) @ q))
    return q


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix orthogonal while it is learned: its columns (or rows, if fewer) stay at right angles, of length 1.

    orthogonal_map: 'matrix_exp', 'cayley' or 'householder'; by default the first for square matrices, else the last.

    >>> layer = orthogonal(minitorch.nn.Linear(3, 3))
    >>> minitorch.allclose(layer.weight.T @ layer.weight, minitorch.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"orthogonal: module {module} has no parameter or buffer with name {name!r}")
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: expected a matrix or batch of matrices, got shape {weight.shape}")
    square = weight.shape[-2] == weight.shape[-1]
    how = orthogonal_map or ("matrix_exp" if square else "householder")
    if how not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f"orthogonal: orthogonal_map must be 'matrix_exp', 'cayley' or 'householder', got {orthogonal_map!r}"
        )
    register_parametrization(module, name, _Orthogonal(weight, how, use_trivialization), unsafe=True)
    return module
