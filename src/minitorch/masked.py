"""Reductions and normalisations over the elements that a mask keeps. Enters: Tensors and bool masks. Leaves: Tensors.

What the mask leaves out is put in the place of a number that changes nothing: 0 for a sum, 1 for a product, -inf for a
maximum. A result of nothing at all is that number, nan for a mean.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from minitorch.engine.dtypes import iinfo, kind_of
from minitorch.functions import where
from minitorch.tensor import Tensor
from minitorch.tensor.convert import tensor_for

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]  # fmt: skip

INF = float("inf")


def _prepared(input: Any, name: str, dtype: Any, mask: Any, fill: Any) -> tuple[Tensor, Any]:
    """Return the input with a number where the mask leaves it out, and the mask in the input's shape."""
    x = tensor_for(input, f"masked.{name}")
    x = x if dtype is None else x.to(dtype)
    if mask is None:
        return x, None
    kept = mask.expand(x.shape) if mask.ndim <= x.ndim else mask
    if kind_of(x.dtype) in "iub" and fill in (INF, -INF):
        fill = iinfo(x.dtype).max if fill > 0 else iinfo(x.dtype).min
    return where(kept, x, x.new_full((), fill)), kept


def _axes(x: Tensor, dim: Any) -> tuple[int, ...]:
    if dim is None or dim == ():
        return tuple(range(x.ndim))
    return tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


def _in_wide_integers(x: Tensor, dtype: Any) -> Any:
    return np.int64 if dtype is None and kind_of(x.dtype) in "iub" else dtype


def sum(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The sum of what the mask keeps.

    >>> sum(minitorch.tensor([1.0, 2.0, 4.0]), 0, mask=minitorch.tensor([True, False, True]))
    tensor(5.)
    """
    x, _ = _prepared(input, "sum", _in_wide_integers(input, dtype), mask, 0)
    return x.sum(dim=_axes(x, dim), keepdim=keepdim) if x.ndim else x.sum()


def prod(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The product of what the mask keeps."""
    x, _ = _prepared(input, "prod", _in_wide_integers(input, dtype), mask, 1)
    if not x.ndim:
        return x
    for axis in sorted((a % x.ndim for a in _axes(x, dim)), reverse=True):
        x = x.prod(dim=axis, keepdim=keepdim)
    return x


def amax(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The largest of what the mask keeps; -inf of nothing."""
    x, _ = _prepared(input, "amax", dtype, mask, -INF)
    return x.amax(dim=_axes(x, dim), keepdim=keepdim)


def amin(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The least of what the mask keeps; inf of nothing."""
    x, _ = _prepared(input, "amin", dtype, mask, INF)
    return x.amin(dim=_axes(x, dim), keepdim=keepdim)


def argmax(
    input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Where the largest of what the mask keeps is: as numbers of x's dtype, as in PyTorch."""
    x, _ = _prepared(input, "argmax", dtype, mask, -INF)
    return x.argmax(dim=dim, keepdim=keepdim).to(x.dtype)


def argmin(
    input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Where the least of what the mask keeps is: as numbers of x's dtype, as in PyTorch."""
    x, _ = _prepared(input, "argmin", dtype, mask, INF)
    return x.argmin(dim=dim, keepdim=keepdim).to(x.dtype)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The sums so far of what the mask keeps."""
    return _prepared(input, "cumsum", _in_wide_integers(input, dtype), mask, 0)[0].cumsum(dim=dim)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The products so far of what the mask keeps."""
    return _prepared(input, "cumprod", _in_wide_integers(input, dtype), mask, 1)[0].cumprod(dim=dim)


def mean(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The mean of what the mask keeps; nan of nothing."""
    x = tensor_for(input, "masked.mean") if dtype is None else tensor_for(input, "masked.mean").to(dtype)
    if mask is None:
        return x.mean(dim=_axes(x, dim), keepdim=keepdim)
    count = mask.expand(x.shape).sum(dim=_axes(x, dim), keepdim=keepdim)
    return sum(x, dim, keepdim=keepdim, mask=mask) / count


def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The variance of what the mask keeps, divided by its number less the correction (1 without one)."""
    if unbiased is not None and correction is not None:
        raise ValueError("masked.var: give unbiased, or correction, not both")
    less = correction if correction is not None else float(unbiased is None or unbiased)
    x = tensor_for(input, "masked.var") if dtype is None else tensor_for(input, "masked.var").to(dtype)
    kept = x.new_ones(x.shape, dtype=np.bool_) if mask is None else mask.expand(x.shape)
    count = kept.sum(dim=_axes(x, dim), keepdim=keepdim)
    away = x - mean(x, dim, keepdim=True, mask=kept)
    total = sum(away * away.conj(), dim, keepdim=keepdim, mask=kept)
    return total / (count - less).clamp(min=0)


def std(input: Any, dim: Any = None, unbiased: bool | None = None, **options: Any) -> Tensor:
    """The root of var."""
    return var(input, dim, unbiased, **options).sqrt()


def norm(
    input: Any,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The norm of what the mask keeps."""
    order = 2.0 if ord is None else ord
    x, _ = _prepared(input, "norm", dtype, mask, INF if order == -INF else 0)
    return x.norm(order, dim=_axes(x, dim), keepdim=keepdim)


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The middle of what the mask keeps along an axis, of two the lower; nan of nothing."""
    x = tensor_for(input, "masked.median") if dtype is None else tensor_for(input, "masked.median").to(dtype)
    if kind_of(x.dtype) != "f":
        raise ValueError(f"masked.median: floating-point numbers are needed, got {x.dtype}")
    if mask is None:
        return x.median(dim=dim, keepdim=keepdim).values
    return where(mask.expand(x.shape), x, x.new_full((), np.nan)).nanmedian(dim=dim, keepdim=keepdim).values


def logsumexp(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """log Σ eˣ of what the mask keeps."""
    x, _ = _prepared(input, "logsumexp", dtype, mask, -INF)
    return x.logsumexp(dim=_axes(x, dim), keepdim=keepdim).to(x.dtype)  # of integers too, as in PyTorch


def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Tensor:
    """log(eˣ + eʸ), of what the masks keep."""
    x, _ = _prepared(input, "logaddexp", dtype, input_mask, -INF)
    y, _ = _prepared(other, "logaddexp", dtype, other_mask, -INF)
    return x.logaddexp(y)


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The softmax over what the mask keeps, 0 elsewhere; nan where it keeps nothing.

    >>> softmax(minitorch.zeros(3), 0, mask=minitorch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _prepared(input, "softmax", dtype, mask, -INF)[0].softmax(dim=dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """log of softmax: -inf where the mask leaves out."""
    return _prepared(input, "log_softmax", dtype, mask, -INF)[0].log_softmax(dim=dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The softmax of -x over what the mask keeps."""
    return (-_prepared(input, "softmin", dtype, mask, INF)[0]).softmax(dim=dim)


def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Tensor:
    """x divided by the norm of what the mask keeps, 0 elsewhere."""
    x, _ = _prepared(input, "normalize", dtype, mask, 0)
    return x / norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask).clamp(min=eps)


# --- tensors that carry their mask: absent --------------------------------------------------------------------------


class MaskedTensor:
    """PyTorch's Tensor with a mask, a prototype there; can be named, not made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _refuse()


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> NoReturn:
    """Refuse, and say what there is instead."""
    _refuse()


def as_masked_tensor(data: Any, mask: Any) -> NoReturn:
    """Refuse, and say what there is instead."""
    _refuse()


def is_masked_tensor(obj: Any) -> bool:
    """Tell whether a thing is a MaskedTensor: nothing is."""
    return False


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "MaskedTensor is absent; torch.masked's functions take mask=: torch.masked.mean(x, mask=mask)"
    )
