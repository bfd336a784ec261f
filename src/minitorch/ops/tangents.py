"""Forward mode: how an op's result moves when its inputs do. Enters: tangents of the inputs. Leaves: the result's.

A rule is linear in g: it is Jᵀ·g. Most ops need nothing else to give J·t, because their J has a form that is known:

- elementwise: J is diagonal, so Jᵀ = J, and the rule itself, given the tangent in place of g, is the answer;
- linear: J·t is the op itself, of the tangents;
- a product: the sum over its factors of the product with the tangent in that factor's place;
- a reduction: each element counts towards one result alone, by what the rule gives it for g = 1.

The others have a line of their own here, or none: then the engine transposes the rules (engine/tangents.py).

A tangent function receives a tuple with a tangent for each input (None for one that does not move), the output, all
inputs, and the attributes by keyword. Like rules it runs on arrays and on Tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.ops.arithmetic import FLOOR_QUOTIENT, NORMAL, TRUNC_QUOTIENT
from minitorch.ops.conv import CONVOLUTION
from minitorch.ops.indexing import INDEX_PUT, WRITE
from minitorch.ops.layers import LINEAR as AFFINE
from minitorch.ops.layers import beside
from minitorch.ops.op import OPS, Array, Op, axes_of, count_of
from minitorch.ops.pool import MAX_POOL_TAP, POOL_PICK
from minitorch.ops.shape import PAD
from minitorch.ops.views import WRITE_THROUGH, places_of

Tangents = Sequence[Any]


def total_of(parts: Sequence[Any]) -> Any:
    """Return the sum of what there is; None if there is nothing."""
    found = None
    for part in parts:
        if part is not None:
            found = part if found is None else found + part
    return found


# --- the forms --------------------------------------------------------------------------------------


def elementwise(op: Op) -> Any:
    """Return the tangent function of an op whose rules multiply g by a slope, element by element."""

    def tangent(ts: Tangents, out: Array, *inputs: Array, **attributes: Any) -> Any:
        rules = op.rules_for(len(inputs))
        fitted = [t if t is None or t.shape == out.shape else np.broadcast_to(t, out.shape) for t in ts]
        return total_of(
            [
                None if t is None or rule is None else rule(t, out, *inputs, **attributes)
                for t, rule in zip(fitted, rules, strict=False)
            ]
        )

    return tangent


def linear(op: Op, itself: Op | None = None) -> Any:
    """Return the tangent function of an op that is linear in all inputs that have a derivative, together."""
    itself = itself or op

    def tangent(ts: Tangents, out: Array, *inputs: Array, **attributes: Any) -> Any:
        rules = [True] * len(inputs) if op.each is not None else op.rules
        moved = [
            x if rule is None else t if t is not None else np.zeros_like(x) if hasattr(x, "dtype") else 0
            for t, x, rule in zip(ts, inputs, rules, strict=False)
        ]
        return itself(*moved, **attributes)

    return tangent


def product(op: Op) -> Any:
    """Return the tangent function of an op that is linear in each of its inputs."""

    def tangent(ts: Tangents, out: Array, *inputs: Array, **attributes: Any) -> Any:
        return total_of(
            [
                None if t is None else op(*inputs[:i], t, *inputs[i + 1 :], **attributes)
                for i, t in enumerate(ts)
            ]
        )

    return tangent


def reduction(op: Op, axis: Any = "axis") -> Any:
    """Return the tangent function of a reduction; axis: which are reduced, or the attribute that says it."""

    def tangent(ts: Tangents, out: Array, x: Array, *others: Array, **attributes: Any) -> Any:
        slopes = op.rules[0](np.ones_like(out), out, x, *others, **attributes)  # type: ignore[misc]
        chosen = axes_of(attributes.get(axis) if isinstance(axis, str) else axis, x.ndim)
        return (slopes * ts[0]).sum(axis=chosen).reshape(out.shape)

    return tangent


# --- those with a form of their own -------------------------------------------------------------------


def _affine(ts: Tangents, out: Array, x: Array, weight: Array, bias: Array | None = None) -> Any:
    moved = [*ts, None]
    return total_of(
        [
            None if moved[0] is None else AFFINE(moved[0], weight),
            None if moved[1] is None else AFFINE(x, moved[1]),
            None if moved[2] is None else np.broadcast_to(moved[2], out.shape),
        ]
    )


def _convolution(
    ts: Tangents, out: Array, x: Array, weight: Array, bias: Array | None = None, **how: Any
) -> Any:
    moved = [*ts, None]
    lead = (-1,) + (1,) * (out.ndim - 2)
    return total_of(
        [
            None if moved[0] is None else CONVOLUTION(moved[0], weight, **how),
            None if moved[1] is None else CONVOLUTION(x, moved[1], **how),
            None if moved[2] is None else np.broadcast_to(moved[2].reshape(lead), out.shape),
        ]
    )


def _log_softmax(ts: Tangents, out: Array, x: Array, *, axis: int) -> Array:
    return ts[0] - (np.exp(out) * ts[0]).sum(axis=axis, keepdims=True)


def _normalize(
    ts: Tangents,
    out: Sequence[Array],
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axes: Sequence[int],
    eps: float,
    centre: bool,
    along: int | None = None,
) -> list[Any]:
    """Differentiate y = (x - μ)·s·weight + bias with s = (v + ε)^-½, and μ and v, forwards."""
    t, *of_members = (*ts, None, None)[:3]
    weight, t_weight, t_bias = (beside(x, each, along) for each in (weight, *of_members))
    y, mean, variance = out
    count, axes = max(count_of(x.shape, axes), 1), tuple(axes)
    s = 1 / np.sqrt(variance + eps)
    centred = x - mean if centre else x
    if t is None:
        moved, of_mean, of_variance = None, np.zeros_like(mean), np.zeros_like(variance)
    else:
        of_mean = t.sum(axis=axes, keepdims=True) / count if centre else np.zeros_like(mean)
        of_variance = (2 / count) * (centred * t).sum(axis=axes, keepdims=True)
        moved = (t - of_mean) * s - centred * (0.5 * s * s * s * of_variance)
        moved = moved if weight is None else moved * weight
    parts = [
        moved,
        None if t_weight is None else centred * s * t_weight,
        None if t_bias is None else np.broadcast_to(t_bias, y.shape),
    ]
    return [total_of(parts), of_mean, of_variance]


def _max_pool(ts: Tangents, out: Array, x: Array, **how: Any) -> Array:
    return POOL_PICK(ts[0], MAX_POOL_TAP(x, out, **how), **how)


def _inv(ts: Tangents, out: Array, a: Array) -> Array:
    return -(out @ ts[0] @ out)


def _write_through(ts: Tangents, out: Array, base: Array, values: Array, *, path: Any) -> Any:
    # The forward has nothing left to do, since memory was written to already; a tangent has memory of its own.
    of_base, of_values = ts
    of_base = np.zeros_like(base) if of_base is None else of_base
    of_values = np.zeros_like(values) if of_values is None else of_values
    return INDEX_PUT(of_base.reshape(-1), of_values, key=places_of(base.shape, path)).reshape(base.shape)


# --- the table ----------------------------------------------------------------------------------------

_ELEMENTWISE = """
lgamma digamma polygamma igamma igammac zeta erf erfc erfinv erfcx ndtri log_ndtr i0 i1 i0e i1e xlogy xlog1py entr logit
sinc sigmoid silu softplus relu leaky_relu elu hardswish gelu gelu_tanh reciprocal lerp pow sign clip where rsqrt
frexp_mantissa round cast binary_cross_entropy
"""
_LINEAR = """
getitem put_add gather scatter_add scatter index_put cat stack im2col col2im trace sum mean cumsum
reshape permute broadcast_to flip clone tile roll tril triu diagonal put_diagonal unfold fold_windows real imag conj
complex fft pool_put pool_pick avg_pool avg_unpool index_add
"""
_PRODUCTS = "matmul einsum convolution_transpose convolution_weight"
_REDUCTIONS = "var std amax amin prod norm logsumexp median"

for _op in OPS.values():
    if _op.ufunc is not None and _op.differentiable:
        _op.tangent = elementwise(_op)
for _name in _ELEMENTWISE.split():
    OPS[_name].tangent = elementwise(OPS[_name])
for _op in (FLOOR_QUOTIENT, TRUNC_QUOTIENT, NORMAL):
    _op.tangent = elementwise(_op)
for _name in _LINEAR.split():
    OPS[_name].tangent = linear(OPS[_name])
for _name in _PRODUCTS.split():
    OPS[_name].tangent = product(OPS[_name])
for _name in _REDUCTIONS.split():
    OPS[_name].tangent = reduction(OPS[_name])
for _name in ("det", "det_sign", "logabsdet"):
    OPS[_name].tangent = reduction(OPS[_name], axis=(-2, -1))
_BY_ROWS, _BY_ALL = (reduction(OPS["cross_entropy"], axis=axis) for axis in (1, None))
OPS["cross_entropy"].tangent = lambda *given, **options: (_BY_ALL if options.get("mean") else _BY_ROWS)(
    *given, **options
)
OPS["linear"].tangent = _affine
OPS["convolution"].tangent = _convolution
OPS["softmax"].tangent = elementwise(OPS["softmax"])  # its J, diag(s) - s·sᵀ, is no diagonal, but symmetric
OPS["log_softmax"].tangent = _log_softmax
OPS["normalize"].tangent = _normalize
OPS["max_pool"].tangent = _max_pool
OPS["inv"].tangent = _inv
OPS["pad"].tangent = lambda ts, out, x, *, widths, value: PAD(ts[0], widths=widths, value=0.0)
# (Their lines are indices alone, which Tensors take too.)
for _name in ("split", "unbind"):
    OPS[_name].tangent = lambda ts, out, x, _op=OPS[_name], **how: _op.forward(ts[0], **how)
WRITE.tangent = linear(WRITE, INDEX_PUT)
WRITE_THROUGH.tangent = _write_through
