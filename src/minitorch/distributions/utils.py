"""What distributions are written with: broadcast_all, lazy_property, probabilities to logits and back.

Enters: parameters. Leaves: the same, in another form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.distributions.distribution import broadcast_all
from minitorch.distributions.distribution import sum_rightmost as _sum_rightmost
from minitorch.engine.dtypes import finfo
from minitorch.engine.modes import enable_grad
from minitorch.tensor import Tensor

__all__ = [
    "_standard_normal", "_sum_rightmost", "broadcast_all", "clamp_probs", "euler_constant", "lazy_property",
    "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060


def _standard_normal(shape: Any, dtype: Any, device: Any = None) -> Tensor:
    """Draw standard normal numbers, as the distributions draw them."""
    return creation.empty(tuple(shape), dtype=dtype, device=device).normal_()


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below a diagonal, row by row.

    >>> tril_matrix_to_vec(minitorch.tensor([[1.0, 9.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    rows, columns = np.tril_indices(mat.shape[-1], diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return numbers as the elements on and below a diagonal, row by row; 0 above.

    >>> vec_to_tril_matrix(minitorch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    count = vec.shape[-1]
    n = round((-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    rows, columns = np.tril_indices(n, diag)
    if len(rows) != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part"
        )
    matrix = vec.new_zeros((*vec.shape[:-1], n, n))
    matrix[..., rows, columns] = vec
    return matrix


def clamp_probs(probs: Tensor) -> Tensor:
    """Keep probabilities off 0 and 1, by the dtype's precision.

    >>> clamp_probs(minitorch.tensor([0.0, 0.5])).log()
    tensor([-15.9424,  -0.6931])
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities: a softmax along the last axis, or, of yes or no, a sigmoid.

    >>> logits_to_probs(minitorch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the logits: logarithms, or, of yes or no, log p - log (1 - p).

    >>> probs_to_logits(minitorch.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


class lazy_property:
    """Decorate a method whose result is computed when it is first asked for, and kept.

    >>> class Parameters:
    ...     @lazy_property
    ...     def probs(self):
    ...         print("computed")
    ...         return 0.5
    >>> parameters = Parameters()
    >>> parameters.probs, parameters.probs
    computed
    (0.5, 0.5)
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
