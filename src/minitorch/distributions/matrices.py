"""Distributions of matrices, and of vectors by a covariance of low rank. Enters: parameters. Leaves: samples."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.distributions import constraints
from minitorch.distributions.continuous import Beta, Chi2, batch_mv
from minitorch.distributions.distribution import Distribution, broadcast_all, shape_of
from minitorch.engine.dtypes import finfo
from minitorch.engine.gpu import on_host
from minitorch.engine.modes import no_grad
from minitorch.functions import where
from minitorch.linalg import cholesky, inv, slogdet, solve_triangular
from minitorch.random import randn
from minitorch.special import digamma, lgamma
from minitorch.tensor import Tensor
from minitorch.tensor.convert import common_shape


def log_diagonal(lower: Tensor) -> Tensor:
    """Σ log of a triangle's diagonal: half the log-determinant of L Lᵀ."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance W Wᵀ + diag(D), of which only W's few columns are ever factored.

    >>> from minitorch import ones, zeros
    >>> LowRankMultivariateNormal(zeros(2), ones(2, 1), ones(2)).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.positive_vector,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        size = loc.shape[-1:]
        if loc.dim() < 1 or cov_factor.dim() < 2:
            raise ValueError("loc must be a vector and cov_factor a matrix, with optional leading batch axes")
        if tuple(cov_factor.shape[-2:-1]) != tuple(size) or tuple(cov_diag.shape[-1:]) != tuple(size):
            raise ValueError(
                f"LowRankMultivariateNormal: loc {tuple(loc.shape)}, cov_factor {tuple(cov_factor.shape)} and cov_diag "
                f"{tuple(cov_diag.shape)} do not fit: (…, n), (…, n, m) and (…, n)"
            )
        batch = np.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch, *size))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *size))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        weighted = cov_factor.mT / cov_diag.unsqueeze(-2)
        identity = creation.eye(cov_factor.shape[-1], dtype=loc.dtype, device=loc.device)
        self._capacitance_tril = cholesky(identity + weighted @ cov_factor)
        super().__init__(batch, size, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The covariance's diagonal."""
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    @property
    def covariance_matrix(self) -> Tensor:
        """W Wᵀ + diag(D)."""
        w = self._unbroadcasted_cov_factor
        whole = w @ w.mT + self._unbroadcasted_cov_diag.diag_embed()
        return whole.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @property
    def scale_tril(self) -> Tensor:
        """The covariance's Cholesky factor."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse."""
        w, d = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        a = solve_triangular(self._capacitance_tril, w.mT / d.unsqueeze(-2), upper=False)
        whole = d.reciprocal().diag_embed() - a.mT @ a
        return whole.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        shape = tuple(batch_shape)
        return LowRankMultivariateNormal(
            self.loc.expand((*shape, *self._event_shape)),
            self.cov_factor.expand((*shape, *self.cov_factor.shape[-2:])),
            self.cov_diag.expand((*shape, *self._event_shape)),
            validate_args=False,
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw μ + W ε + √D ε'."""
        shape = self._extended_shape(sample_shape)
        few = (*shape[:-1], self.cov_factor.shape[-1])
        first = creation.empty(few, dtype=self.loc.dtype, device=self.loc.device).normal_()
        second = creation.empty(shape, dtype=self.loc.dtype, device=self.loc.device).normal_()
        return (
            self.loc
            + batch_mv(self._unbroadcasted_cov_factor, first)
            + self._unbroadcasted_cov_diag.sqrt() * second
        )

    def _log_det(self) -> Tensor:
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Any) -> Tensor:
        """-½ (k log 2π + log |Σ| + Mahalanobis distance²)."""
        off = self._validate_sample(value) - self.loc
        d = self._unbroadcasted_cov_diag
        seen = batch_mv(self._unbroadcasted_cov_factor.mT / d.unsqueeze(-2), off)
        tall = self._capacitance_tril
        wide = common_shape("log_prob", tall.shape[:-2], seen.shape[:-1])
        solved = solve_triangular(
            tall.expand((*wide, *tall.shape[-2:])),
            seen.expand((*wide, seen.shape[-1])).unsqueeze(-1),
            upper=False,
        )
        distance = (off.pow(2) / d).sum(-1) - solved.squeeze(-1).pow(2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        """½ k (1 + log 2π) + ½ log |Σ|."""
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)


class Wishart(Distribution):
    """Covariances of `df` normal vectors, summed: positive definite matrices.

    >>> from minitorch import eye
    >>> Wishart(3.0, eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.positive,
    }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        named = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(named) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = named
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        df = (
            df
            if isinstance(df, Tensor)
            else creation.tensor(float(df), dtype=matrix.dtype, device=matrix.device)
        )
        batch = np.broadcast_shapes(matrix.shape[:-2], df.shape)
        size = matrix.shape[-2:]
        self.df = df.expand(batch)
        if bool((self.df <= size[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size[-1] - 1}.")
        if bool((self.df < size[-1]).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self.__dict__[name] = matrix.expand((*batch, *size))
        super().__init__(batch, size, validate_args=validate_args)
        lower = matrix if name == "scale_tril" else cholesky(matrix if name[0] == "c" else inv(matrix))
        self._unbroadcasted_scale_tril = lower

    def __getattr__(self, name: str) -> Any:
        # Of the three matrices the two that were not given are computed when asked for.
        if name.startswith("_") or "_unbroadcasted_scale_tril" not in self.__dict__:
            raise AttributeError(name)
        lower = self._unbroadcasted_scale_tril
        shape = (*self._batch_shape, *self._event_shape)
        if name == "scale_tril":
            return lower.expand(shape)
        if name == "covariance_matrix":
            return (lower @ lower.mT).expand(shape)
        if name == "precision_matrix":
            return inv(lower @ lower.mT).expand(shape)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _column(self, numbers: Tensor) -> Tensor:
        return numbers.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        """df·V."""
        return self._column(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """(df - n - 1)·V, nan where that is not positive."""
        factor = self.df - self._event_shape[-1] - 1
        return self._column(factor.masked_fill(factor <= 0, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """df·(Vᵢⱼ² + Vᵢᵢ·Vⱼⱼ)."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._column(self.df) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Wishart:
        """The same distribution for a larger batch."""
        shape = tuple(batch_shape)
        lower = self._unbroadcasted_scale_tril.expand((*shape, *self._event_shape))
        return Wishart(self.df.expand(shape), scale_tril=lower, validate_args=False)

    def _by_bartlett(self, sizes: Any) -> Tensor:
        n, like = self._event_shape[-1], self._unbroadcasted_scale_tril
        alike: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
        each = self.df.unsqueeze(-1) - creation.arange(n, **alike)
        roots = Chi2(each, validate_args=False).rsample(sizes).sqrt()
        noise = roots.clamp(min=finfo(like.dtype).eps).diag_embed()
        rows, columns = np.tril_indices(n, -1)
        below = creation.zeros_like(noise)
        below[..., rows, columns] = randn((*sizes, *self._batch_shape, n * (n - 1) // 2), **alike)
        lower = self._unbroadcasted_scale_tril @ (noise + below)
        return lower @ lower.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int = 10) -> Tensor:
        """Draw matrices by Bartlett's decomposition, through which gradients flow to the parameters.

        PyTorch draws again where a first draw is positive definite, and then until one is; so does this.
        """
        sizes = tuple(shape_of(sample_shape))
        batch = tuple(range(len(sizes), len(sizes) + len(self._batch_shape)))

        def some(marked: Any) -> Any:
            array = on_host(marked._data)
            return np.asarray(array.any(axis=batch) if batch else array)

        sample = self._by_bartlett(sizes)
        again = some(self.support.check(sample))
        for _ in range(max_try_correction if again.any() else 0):
            new = self._by_bartlett((int(again.sum()),))
            at = np.zeros(again.shape, dtype=np.int64)
            at[again] = np.arange(again.sum())
            inside = tuple(range(again.ndim, sample.ndim))
            chosen = new[at.reshape(-1)].reshape(sample.shape) if again.ndim else new[0]
            sample = where(
                creation.tensor(np.expand_dims(again, inside), device=sample.device), chosen, sample
            )
            marked = ~on_host(self.support.check(new)._data)
            singular = marked.any(axis=tuple(range(1, 1 + len(self._batch_shape)))) if batch else marked
            again = np.array(again)
            again[again] = singular
            if not again.any():
                break
        return sample

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        x = self._validate_sample(value)
        df, n = self.df, self._event_shape[-1]
        traced = (self.precision_matrix @ x).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -df * (n * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril))
            - (df / 2).mvlgamma(n)
            + (df - n - 1) / 2 * slogdet(x).logabsdet
            - traced / 2
        )

    def entropy(self) -> Tensor:
        """The entropy."""
        df, n = self.df, self._event_shape[-1]
        slope = digamma(
            (df / 2).unsqueeze(-1) - creation.arange(n, dtype=df.dtype, device=df.device) / 2
        ).sum(-1)
        scale = n * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril)
        return (n + 1) * scale + (df / 2).mvlgamma(n) - (df - n - 1) / 2 * slope + df * n / 2


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, likelier the larger det^(concentration - 1) (Lewandowski and others).

    >>> LKJCholesky(3, 1.0).sample().shape
    (3, 3)
    """

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw factors, row by row on spheres: the onion method."""
        n, dtype = self.dim, self.concentration.dtype
        alike: dict[str, Any] = {"dtype": dtype, "device": self.concentration.device}
        offset = creation.tensor([0.0, *range(n - 1)], **alike)
        first = self.concentration.unsqueeze(-1) + 0.5 * (n - 2) - 0.5 * offset
        with no_grad():
            y = Beta(offset + 0.5, first, validate_args=False).sample(sample_shape).unsqueeze(-1)
            u = randn(self._extended_shape(sample_shape), **alike).tril(-1)
            length = u.norm(dim=-1, keepdim=True)
            w = y.sqrt() * u / where(length == 0, 1.0, length)
            rest = (1 - (w**2).sum(dim=-1)).clamp(min=finfo(dtype).tiny).sqrt()
            return w + rest.diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        """Σ (2 (η - 1) + n - i) log Lᵢᵢ - log of the area."""
        x = self._validate_sample(value)
        n, eta = self.dim, self.concentration
        order = (
            2 * (eta - 1).unsqueeze(-1) + n - creation.arange(2, n + 1, dtype=eta.dtype, device=eta.device)
        )
        powers = (order * x.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(dim=-1)
        alpha = eta + 0.5 * (n - 1)
        area = 0.5 * (n - 1) * math.log(math.pi) + (alpha - 0.5).mvlgamma(n - 1) - lgamma(alpha) * (n - 1)
        return powers - area
