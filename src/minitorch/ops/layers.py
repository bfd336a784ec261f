"""What layers are made of: the affine map, and normalisation. Enters: activations. Leaves: activations.

Both could be composed of other ops; as one op each they write a fraction of the arrays.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.ops.narrow import in_float32, takes_narrow
from minitorch.ops.native import takes_looks
from minitorch.ops.op import Array, Op, count_of, in_axis_order, keep_axes, unchanged
from minitorch.ops.products import EINSUM, MATMUL
from minitorch.ops.sums import HALF, total

# --- y = x Wᵀ + b -------------------------------------------------------------------------------


def _rows(x: Array) -> Array:
    """Return (…, K) as (N, K): every row of every batch axis under the other."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


@takes_looks
def _linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    out = _rows(x) @ weight.swapaxes(0, 1)
    if bias is not None:
        out += bias  # into the product: nobody else has seen it yet
    return out.reshape((*x.shape[:-1], weight.shape[0]))


# dx = g W and dW = gᵀ x, summed over all rows; the engine sums g over the rows for db.
LINEAR = Op(
    "linear",
    _linear,
    takes_looks(lambda g, out, x, weight, bias=None: MATMUL(g, weight)),
    takes_looks(lambda g, out, x, weight, bias=None: _rows(g).swapaxes(0, 1) @ _rows(x)),
    unchanged,
    there=True,
)

# --- (x - mean) / √(variance + ε) · weight + bias -----------------------------------------------


def _sum_of_products(a: Array, b: Array, axes: Sequence[int]) -> Array:
    """Return Σ a·b over `axes`, which stay as 1s; products along the last axis are never written down."""
    if a.__class__ is np.ndarray and b.__class__ is np.ndarray and a.dtype == b.dtype != HALF:
        # One after the other: the last axes at once, the others in blocks of rows (see ops/sums.py).
        first = a.ndim
        while first - 1 in axes:
            first -= 1
        if first == a.ndim:
            return total(a * b, axis=tuple(axes), keepdims=True)
        rows = (*a.shape[:first], math.prod(a.shape[first:]))
        sums = np.vecdot(a.reshape(rows), b.reshape(rows))
        others = tuple(axis for axis in axes if axis < first)
        sums = total(sums, axis=others, keepdims=True) if others else sums
        return sums.reshape(keep_axes(a.shape, axes))
    letters = string.ascii_lowercase[: a.ndim]
    kept = "".join(letters[i] for i in range(a.ndim) if i not in axes)
    return EINSUM(a, b, subscripts=f"{letters},{letters}->{kept}").reshape(keep_axes(a.shape, axes))


def _stretched(shape: tuple[int, ...], over: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of `over` along which `shape` is repeated when the two broadcast."""
    missing = len(over) - len(shape)
    return tuple(i for i in range(len(over)) if i < missing or shape[i - missing] == 1)


def _summed_over(g: Array, shape: tuple[int, ...]) -> Array:
    """Return g summed over what a shape is repeated along: the engine would do that too, in one more pass."""
    axes = _stretched(shape, g.shape)
    return total(g, axis=axes, keepdims=True) if axes else g


def _is_same_within(weight: Array, x: Array, axes: Sequence[int]) -> bool:
    """Tell whether all that is normalised together is scaled alike, as in batch norm."""
    stretched = _stretched(weight.shape, x.shape)
    return all(axis in stretched for axis in axes)


def _plus(a: Array, b: Array) -> Array:
    """Return a + b. An array is written over: only for one that nobody else has seen."""
    return np.add(a, b, out=a) if a.__class__ is np.ndarray else a + b


def _times(a: Array, b: Array) -> Array:
    """Return a·b, likewise."""
    return np.multiply(a, b, out=a) if a.__class__ is np.ndarray else a * b


def _normalize(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Sequence[int],
    eps: float,
    centre: bool,
    along: int | None = None,
) -> tuple[Array, Array, Array]:
    """Return x normalised over `axes`, scaled and shifted; and the mean and (biased) variance that were used.

    Without `centre` the mean is taken to be 0: what is left is RMS normalisation. along: which axis of x is that of
    weight and bias, which have one; None: they broadcast against x.
    """
    weight, bias = beside(x, weight, along), beside(x, bias, along)
    count = max(count_of(x.shape, axes), 1)
    if centre:
        mean = total(x, axis=axes, keepdims=True) / count
        out = x - mean
        variance = _sum_of_products(out, out, axes) / count
    else:
        variance = _sum_of_products(x, x, axes) / count
        mean = np.zeros_like(variance)
        out = x
    scale = 1 / np.sqrt(variance + eps)
    if weight is not None and _is_same_within(weight, x, axes):
        scale, weight = scale * weight, None
    out = np.multiply(out, scale, out=out) if centre else out * scale  # in place: nobody else has seen it yet
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return in_axis_order(out), mean, variance


def _normalize_rules(
    g: Sequence[Array | None],
    out: Sequence[Array],
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Sequence[int],
    eps: float,
    centre: bool,
    along: int | None = None,
) -> tuple[Array | None, ...]:
    """Pull back through y = (x - μ)·s with s = (v + ε)^-½, and through μ and v, which depend on x too.

    dx = s·(h - mean(h) - y·mean(h·y)) with h = g·weight: what moves all of x alike, or stretches it, does
    not change y. A gradient of μ adds 1/n everywhere, one of v adds 2(x - μ)/n = 2y/(s·n).
    dweight = Σ g·y and dbias = Σ g, over what they were repeated along.
    """
    given, g_mean, g_variance = g
    g_out: Array = np.zeros_like(x) if given is None else given
    _, mean, variance = out
    given_weight, weight = weight, beside(x, weight, along)
    # (Of the bias no more than its shape is read: a person may write into it before.)
    of_bias = () if bias is None else _shape_beside(x, bias, along)
    count = max(count_of(x.shape, axes), 1)
    s = 1 / np.sqrt(variance + eps)
    y = _times(x - mean, s) if centre else x * s  # again: cheaper than to keep it
    stretched = () if weight is None else _stretched(weight.shape, x.shape)
    alike = tuple(a for a in axes if a in stretched)
    d_weight = d_bias = None
    if weight is not None and alike:
        # What is scaled alike is summed up first: all other sums are of these few.
        of_g, of_products = total(g_out, axis=alike, keepdims=True), _sum_of_products(g_out, y, alike)
        others, further = (tuple(a for a in each if a not in alike) for each in (axes, stretched))
        sums, products = (_total(each * weight, others) for each in (of_g, of_products))
        d_weight = _total(of_products, further)
        dx = g_out * (s * weight)
        if bias is not None and of_bias == weight.shape:
            d_bias = _total(of_g, further)
    else:
        h = g_out
        if weight is not None:
            h = g_out * weight
            d_weight = _sum_of_products(g_out, y, stretched)
        sums = total(h, axis=axes, keepdims=True) if centre else 0
        products = _sum_of_products(h, y, axes)
        dx = h * s
    along_y = -(s * products) if g_variance is None else 2 * g_variance / s - s * products
    dx = _plus(dx, _times(y, along_y / count))
    if centre:
        dx = _plus(dx, (-(s * sums) if g_mean is None else g_mean - s * sums) / count)
    if bias is not None and d_bias is None:
        d_bias = _summed_over(g_out, of_bias)
    if along is not None:
        d_weight, d_bias = _like(d_weight, given_weight), _like(d_bias, bias)
    return dx, d_weight, d_bias


def beside(x: Array, member: Array | None, along: int | None) -> Array | None:
    """Return a weight or bias so that it broadcasts against x."""
    if member is None or along is None:
        return member
    return member.reshape(_shape_beside(x, member, along))


def _shape_beside(x: Array, member: Array, along: int | None) -> tuple[int, ...]:
    if along is None:
        return member.shape
    return tuple([n if axis == along else 1 for axis, n in enumerate(x.shape)])


def _like(gradient: Array | None, member: Array | None) -> Array | None:
    return None if gradient is None or member is None else gradient.reshape(member.shape)


def _total(x: Array, axes: tuple[int, ...]) -> Array:
    """Return x summed over axes, which stay as 1s; over none: x itself."""
    return total(x, axis=axes, keepdims=True) if axes else x


@takes_narrow
def _normalize_in_float32(x: Array, *scaling: Array | None, **how: Any) -> tuple[Array, Array, Array]:
    """Normalise halves in float32: the mean and variance, which the rules read, stay so."""
    if x.dtype.itemsize != 2:
        return _normalize(x, *scaling, **how)
    wide = [None if each is None else each.astype(np.float32) for each in (x, *scaling)]
    out, mean, variance = _normalize(*wide, **how)
    return out.astype(x.dtype), mean, variance


@takes_narrow
def _normalize_rules_in_float32(g: Any, out: Any, *inputs: Any, **how: Any) -> Sequence[Array | None]:
    """Do the same for the rules: each gradient in its input's dtype, where weights of halves may be float32's."""
    first = inputs[0]
    if hasattr(first, "requires_grad") or first.dtype.itemsize != 2:  # (ops of Tensors do so by themselves)
        return _normalize_rules(g, out, *inputs, **how)
    wide = [None if each is None else each.astype(np.float32) for each in (*g, *inputs)]
    found = zip(_normalize_rules(wide[:3], out, *wide[3:], **how), inputs, strict=False)
    return tuple([None if each is None else each.astype(like.dtype) for each, like in found])


NORMALIZE = Op(
    "normalize", _normalize_in_float32, joint=_normalize_rules_in_float32, takes_none=True, native=True
)

# The first of the three alone, where nobody asks for the others, nor for a gradient.
NORMALIZED = Op(
    "normalize",
    in_float32(lambda x, weight=None, bias=None, **how: _normalize(x, weight, bias, **how)[0]),
    native=True,
    register=False,
)

# --- x·scale + shift, both of a few numbers: normalisation whose mean and variance are known ------


def _affine(x: Array, scale: Array, shift: Array) -> Array:
    return _plus(x * scale, shift)


def _affine_rules(g: Array, out: Array, x: Array, scale: Array, shift: Array) -> tuple[Array, Array, Array]:
    # Σ g·x without the products.
    return g * scale, _sum_of_products(g, x, _stretched(scale.shape, x.shape)), _summed_over(g, shift.shape)


AFFINE = Op("affine", _affine, joint=_affine_rules, native=True)
