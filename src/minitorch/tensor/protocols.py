"""NumPy's own functions on Tensors: np.exp(t), np.where(…), np.concatenate([…]) are differentiable.

Enters: a NumPy function and its arguments, at least one of them a Tensor. Leaves: Tensors.
This is also how derivative rules, written in NumPy, run on Tensors for higher derivatives.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import OPS
from minitorch.ops.activation import SIGMOID
from minitorch.ops.op import Op
from minitorch.ops.shape import PAD
from minitorch.ops.special import ERF
from minitorch.tensor.convert import as_tensor, binary, one_axis
from minitorch.tensor.methods.arithmetic import power, sgn
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.joining import cat, stack
from minitorch.tensor.methods.products import einsum, matmul, tensordot

Handler = Callable[..., Any]
_functions: dict[Any, Handler] = {}


@functools.cache
def _ufuncs() -> dict[Any, Handler]:
    """Map each ufunc that is some op's forward to that op."""
    table: dict[Any, Handler] = {}
    for op in OPS.values():
        if op.ufunc is not None:
            if op.ufunc.nin == 2:
                table[op.ufunc] = lambda a, b, op=op: binary(op, a, b)
            else:
                table[op.ufunc] = lambda a, op=op: apply(op, as_tensor(a))
    table[np.power] = table[np.float_power] = power
    table[np.matmul] = matmul
    table[np.positive] = as_tensor
    table[np.fabs] = table[np.absolute]
    table[np.reciprocal] = lambda a: as_tensor(a).reciprocal()
    table[np.sign] = sgn  # of complex numbers too, and then with a derivative
    table[np.rint] = lambda a: as_tensor(a).round()
    return table


_special_ufuncs: dict[str, Op] = {"erf": ERF, "expit": SIGMOID}
_reductions = {np.add: "sum", np.multiply: "prod", np.maximum: "amax", np.minimum: "amin"}


def ufunc(function: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer `function(*inputs)`, called by NumPy because a Tensor is among the inputs."""
    out = kwargs.pop("out", None)
    if out is not None:
        return _into(function, method, inputs, kwargs, out)
    if method == "__call__" and not kwargs:
        handler = _ufuncs().get(function)
        if handler is not None:
            return handler(*inputs)
        if function.__name__ in _special_ufuncs:
            return apply(_special_ufuncs[function.__name__], as_tensor(inputs[0]))
    if method == "reduce" and function in _reductions and kwargs.keys() <= {"axis", "keepdims"}:
        axis, keepdims = kwargs.get("axis", 0), kwargs.get("keepdims", False)
        return getattr(inputs[0], _reductions[function])(axis=axis, keepdims=keepdims)
    call = f"np.{function.__name__}" + ("" if method == "__call__" else f".{method}")
    raise TypeError(
        f"{call} has no derivative here for these arguments ({', '.join(sorted(kwargs)) or 'none by keyword'}); "
        "to compute without a graph write it on x.detach().numpy()"
    )


def _into(
    function: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: tuple[Any, ...]
) -> Any:
    # `array += tensor`: allowed where no gradient would be lost.
    if any(isinstance(o, Node) for o in out) or any(isinstance(i, Node) and i.requires_grad for i in inputs):
        raise RuntimeError(
            f"np.{function.__name__} with out=: writing a result into an array loses its graph; write y = x + t "
            "instead of y += t, or use t.detach()"
        )
    arrays = [i._data if isinstance(i, Node) else i for i in inputs]
    return getattr(function, method)(*arrays, out=out, **kwargs)


def function(function: Any, args: Any, kwargs: Any, caller: Node) -> Any:
    """Answer `function(*args, **kwargs)`, called by NumPy because of the Tensor `caller`."""
    if function in (np.zeros, np.ones, np.empty, np.arange, np.full):
        # `np.zeros(…, like=tensor)`: NumPy has taken `like` away; the caller is what it was.
        return new_tensor(function(*args, like=caller._data, **kwargs))
    handler = _functions.get(function)
    if handler is None:
        raise TypeError(
            f"np.{function.__name__} is not differentiable here; use a Tensor method, or x.detach().numpy() to "
            "compute without a graph"
        )
    try:
        return handler(*args, **kwargs)
    except TypeError:
        try:
            inspect.signature(handler).bind(*args, **kwargs)
        except TypeError as misfit:
            raise TypeError(
                f"np.{function.__name__} on Tensors: {misfit}; leave it away, use a Tensor method, or "
                "x.detach().numpy() to compute without a graph"
            ) from None
        raise


def implements(*numpy_functions: Any) -> Callable[[Handler], Handler]:
    """Register the Tensor version of NumPy functions."""

    def register(handler: Handler) -> Handler:
        for each in numpy_functions:
            _functions[each] = handler
        return handler

    return register


def _reduction(name: str) -> Handler:
    def handler(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        _no_out(out)
        return getattr(as_tensor(a, dtype), name)(axis=axis, keepdims=bool(keepdims))

    return handler


def _no_out(out: Any) -> None:
    if out is not None:
        raise TypeError("out= cannot be a result of a recorded op; leave it away")


for _function, _name in {np.sum: "sum", np.mean: "mean", np.prod: "prod"}.items():
    implements(_function)(_reduction(_name))


def _plain_reduction(name: str) -> Handler:
    def handler(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        _no_out(out)
        return getattr(as_tensor(a), name)(axis=axis, keepdims=bool(keepdims))

    return handler


for _function, _name in {
    np.max: "amax", np.amax: "amax", np.min: "amin", np.amin: "amin", np.all: "all", np.any: "any",
    np.argmax: "argmax", np.argmin: "argmin",
}.items():  # fmt: skip
    implements(_function)(_plain_reduction(_name))


def _spread(name: str) -> Handler:
    def handler(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False
    ) -> Any:
        _no_out(out)
        return getattr(as_tensor(a, dtype), name)(axis=axis, correction=ddof, keepdims=bool(keepdims))

    return handler


implements(np.var)(_spread("var"))
implements(np.std)(_spread("std"))
implements(np.count_nonzero)(lambda a, axis=None: as_tensor(a).count_nonzero(axis))
implements(np.cumsum)(lambda a, axis=None: _flat(a, axis).cumsum(axis or 0))
implements(np.cumprod)(lambda a, axis=None: _flat(a, axis).cumprod(axis or 0))


def _flat(a: Any, axis: Any) -> Any:
    return as_tensor(a).reshape(-1) if axis is None else as_tensor(a)


# --- shape --------------------------------------------------------------------------------------

implements(np.reshape)(lambda a, shape: as_tensor(a).reshape(shape))
implements(np.ravel)(lambda a: as_tensor(a).reshape(-1))
implements(np.transpose)(lambda a, axes=None: as_tensor(a).permute(*(axes or range(a.ndim)[::-1])))
implements(np.swapaxes)(lambda a, axis1, axis2: as_tensor(a).swapaxes(axis1, axis2))
implements(np.moveaxis)(lambda a, source, destination: as_tensor(a).movedim(source, destination))
implements(np.squeeze)(lambda a, axis=None: as_tensor(a).squeeze(axis))
implements(np.broadcast_to)(lambda array, shape: as_tensor(array).broadcast_to(shape))
implements(np.flip)(lambda m, axis=None: as_tensor(m).flip(range_of(m, axis)))
implements(np.roll)(lambda a, shift, axis=None: as_tensor(a).roll(shift, axis))
implements(np.tile)(lambda A, reps: as_tensor(A).tile(reps))
implements(np.repeat)(lambda a, repeats, axis=None: as_tensor(a).repeat_interleave(repeats, axis))
implements(np.tril)(lambda m, k=0: as_tensor(m).tril(k))
implements(np.triu)(lambda m, k=0: as_tensor(m).triu(k))
implements(np.diagonal)(lambda a, offset=0, axis1=0, axis2=1: as_tensor(a).diagonal(offset, axis1, axis2))
implements(np.diag)(lambda v, k=0: as_tensor(v).diag(k))
implements(np.trace)(
    lambda a, offset=0, axis1=0, axis2=1: as_tensor(a).diagonal(offset, axis1, axis2).sum(axis=-1)
)
implements(np.concatenate)(lambda arrays, axis=0: cat([as_tensor(a) for a in arrays], axis))
implements(np.stack)(lambda arrays, axis=0: stack([as_tensor(a) for a in arrays], axis))
implements(np.split)(lambda ary, sections, axis=0: _split(ary, sections, axis))
implements(np.take_along_axis)(lambda arr, indices, axis: as_tensor(arr).take_along_dim(indices, axis))
implements(np.take)(lambda a, indices, axis=None: _take(a, indices, axis))
implements(np.sort)(lambda a, axis=-1: as_tensor(a).sort(axis).values)
implements(np.argsort)(lambda a, axis=-1, kind=None: as_tensor(a).argsort(axis))


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    out = as_tensor(a)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    ndim = out.ndim + len(axes)
    for each in sorted(one_axis(axis, ndim, "expand_dims") for axis in axes):
        out = out.unsqueeze(each)
    return out


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    if mode != "constant":
        raise TypeError(f"np.pad with mode={mode!r} is not offered on Tensors; write minitorch.pad")
    tensor = as_tensor(array)
    widths = tuple(map(tuple, np.broadcast_to(np.asarray(pad_width), (tensor.ndim, 2)).tolist()))
    return apply(PAD, tensor, widths=widths, value=constant_values)


def range_of(a: Any, axis: Any) -> tuple[int, ...]:
    """Return an axis argument as a tuple; None means all."""
    if axis is None:
        return tuple(range(as_tensor(a).ndim))
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def _split(ary: Any, sections: Any, axis: int) -> list[Any]:
    tensor = as_tensor(ary)
    length = tensor.shape[axis]
    if isinstance(sections, int):
        if length % sections:
            raise ValueError(
                f"np.split: an axis of length {length} cannot be split into {sections} equal parts"
            )
        return list(tensor.split(max(length // sections, 1), axis))
    cuts = [0, *sections, length]
    return list(tensor.split([b - a for a, b in itertools.pairwise(cuts)], axis))


def _take(a: Any, indices: Any, axis: int | None) -> Any:
    tensor = as_tensor(a)
    if axis is None:
        return tensor.reshape(-1)[as_tensor(indices)]
    return tensor[(slice(None),) * (axis % tensor.ndim) + (as_tensor(indices),)]


# --- elementwise, products, creation ------------------------------------------------------------

implements(np.nonzero)(lambda a: tuple(new_tensor(places) for places in np.nonzero(as_tensor(a)._data)))
implements(np.where)(
    lambda condition, *branches: (
        where(as_tensor(condition, np.bool_), *branches) if branches else np.nonzero(condition)
    )
)
implements(np.clip)(lambda a, a_min=None, a_max=None, *, min=None, max=None: as_tensor(a).clamp(
    a_min if min is None else min, a_max if max is None else max
))  # fmt: skip
implements(np.round, np.around)(lambda a, decimals=0: as_tensor(a).round(decimals=decimals))
implements(np.einsum)(lambda subscripts, *operands, optimize=None: einsum(subscripts, *operands))
implements(np.tensordot)(lambda a, b, axes=2: tensordot(a, b, axes))
implements(np.outer)(lambda a, b: as_tensor(a).reshape(-1).outer(as_tensor(b).reshape(-1)))


@implements(np.dot)
def _dot(a: Any, b: Any) -> Any:
    x, y = as_tensor(a), as_tensor(b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return tensordot(x, y, ([-1], [-1 if y.ndim == 1 else -2]))


def _like(name: str) -> Handler:
    maker = getattr(np, name)

    def handler(a: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return new_tensor(maker(a._data, *args, dtype=dtype, **kwargs))

    return handler


for _name in ("zeros_like", "ones_like", "full_like", "empty_like"):
    implements(getattr(np, _name))(_like(_name))


implements(np.shape)(lambda a: as_tensor(a).shape)
implements(np.ndim)(lambda a: as_tensor(a).ndim)
implements(np.size)(lambda a, axis=None: as_tensor(a).numel() if axis is None else as_tensor(a).shape[axis])
implements(np.array_equal)(lambda a1, a2, equal_nan=False: bool(
    np.array_equal(as_tensor(a1)._data, as_tensor(a2)._data, equal_nan)
))  # fmt: skip
implements(np.allclose)(lambda a, b, rtol=1e-05, atol=1e-08, equal_nan=False: bool(
    np.allclose(as_tensor(a)._data, as_tensor(b)._data, rtol, atol, equal_nan)
))  # fmt: skip
implements(np.isclose)(lambda a, b, rtol=1e-05, atol=1e-08, equal_nan=False: as_tensor(
    np.isclose(as_tensor(a)._data, as_tensor(b)._data, rtol, atol, equal_nan)
))  # fmt: skip
