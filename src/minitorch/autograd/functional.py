"""Derivatives of functions: vjp, jvp, jacobian, hessian, hvp, vhp.

Enters: a function of Tensors and its inputs. Leaves: Tensors. One input gives one result, a tuple a
tuple. With create_graph=True the results can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.autograd.grad import grad
from minitorch.engine.modes import enable_grad, observed
from minitorch.engine.node import Node, new_tensor
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.methods.joining import stack

Func = Callable[..., Any]


def _prepare(inputs: Any, create_graph: bool) -> tuple[tuple[Tensor, ...], bool]:
    single = isinstance(inputs, Node)
    listed = (inputs,) if single else tuple(inputs)
    ready = []
    for i, x in enumerate(listed):
        if not isinstance(x, Node):
            raise TypeError(f"input {i} must be a Tensor, got {type(x).__name__}")
        if create_graph and x.requires_grad:
            ready.append(x.view(x._data.shape))  # type: ignore[attr-defined]
        else:
            ready.append(new_tensor(x._data).requires_grad_())
    return tuple(ready), single


def _call(func: Func, inputs: tuple[Tensor, ...], name: str) -> tuple[tuple[Tensor, ...], bool]:
    with enable_grad():
        output = observed(func)(*inputs)
    single = isinstance(output, Node)
    outputs = (output,) if single else tuple(output)
    for i, o in enumerate(outputs):
        if not isinstance(o, Node):
            raise TypeError(f"{name}: output {i} of the function must be a Tensor, got {type(o).__name__}")
    return outputs, single


def _unwrap(values: tuple[Any, ...], single: bool) -> Any:
    return values[0] if single else values


def _release(values: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    return values if create_graph else tuple(v.detach() for v in values)


def _vectors(v: Any, like: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{name}: v can be left out only for a single output (or input) of one element"
            )
        return (new_tensor(np.ones_like(like[0]._data)),)
    listed = (v,) if isinstance(v, Node) else tuple(as_tensor(each) for each in v)
    if [each.shape for each in listed] != [each.shape for each in like]:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name}: v has shapes {[each.shape for each in listed]}, expected {[each.shape for each in like]}"  # type: ignore[attr-defined]
        )
    return listed  # type: ignore[return-value]


def _gradients(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    seeds: tuple[Any, ...],
    create_graph: bool,
    strict: bool,
    name: str,
    retain_graph: bool | None = None,
) -> tuple[Tensor, ...]:
    used = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    found: tuple[Any, ...] = (None,) * len(inputs)
    if used:
        found = grad(
            [o for o, _ in used],
            inputs,
            [s for _, s in used],
            create_graph=create_graph,
            retain_graph=create_graph if retain_graph is None else retain_graph,
            allow_unused=True,
        )
    if strict and any(g is None for g in found):
        raise RuntimeError(f"{name}: with strict=True every output must depend on every input")
    return tuple(
        new_tensor(np.zeros_like(x._data)) if g is None else g for g, x in zip(found, inputs, strict=True)
    )


def vjp(
    func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and vᵀ·J, the vector times the Jacobian: what backward computes.

    >>> import minitorch
    >>> x = minitorch.tensor([1.0, 2.0])
    >>> vjp(lambda t: t * t, x, minitorch.tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    ready, single = _prepare(inputs, create_graph)
    outputs, one = _call(func, ready, "vjp")
    seeds = _vectors(v, outputs, "vjp")
    found = _gradients(outputs, ready, seeds, create_graph, strict, "vjp")
    return _unwrap(_release(outputs, create_graph), one), _unwrap(_release(found, create_graph), single)


def jvp(
    func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and J·v, the Jacobian times the vector: how the outputs move when inputs move by v.

    Computed by differentiating vᵀ·J with respect to v twice over: reverse mode, used twice.

    >>> import minitorch
    >>> x = minitorch.tensor([1.0, 2.0])
    >>> jvp(lambda t: t * t, x, minitorch.tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    ready, _ = _prepare(inputs, create_graph)
    moves = _vectors(v, ready, "jvp")
    outputs, one = _call(func, ready, "jvp")
    with enable_grad():
        dummies = tuple(new_tensor(np.zeros_like(o._data)).requires_grad_() for o in outputs)
        pulled = _gradients(outputs, ready, dummies, True, strict, "jvp")
    found = _gradients(pulled, dummies, moves, create_graph, False, "jvp")
    return _unwrap(_release(outputs, create_graph), one), _unwrap(_release(found, create_graph), one)


def jacobian(
    func: Func,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return d(output)/d(input) in full, of shape output.shape + input.shape.

    Several inputs give a tuple, several outputs a tuple of them.

    >>> import minitorch
    >>> jacobian(lambda t: t * t, minitorch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian: strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    ready, single = _prepare(inputs, create_graph)
    outputs, one = _call(func, ready, "jacobian")
    table = []
    for output in outputs:
        rows: list[list[Tensor]] = [[] for _ in ready]
        for k in range(output.numel()):
            seed = np.zeros_like(output._data, order="C")
            seed.reshape(-1)[k] = 1
            found = _gradients(
                (output,), ready, (new_tensor(seed),), create_graph, strict, "jacobian", retain_graph=True
            )
            for row, g in zip(rows, found, strict=True):
                row.append(g)
        blocks = []
        for x, row in zip(ready, rows, strict=True):
            shape = output.shape + x.shape
            blocks.append(stack(row).reshape(shape) if row else x.new_zeros(shape))
        table.append(_unwrap(_release(tuple(blocks), create_graph), single))
    return _unwrap(tuple(table), one)


def _scalar(func: Func, name: str) -> Func:
    def checked(*args: Any) -> Any:
        out = observed(func)(*args)
        if not isinstance(out, Node) or out._data.size != 1:
            raise RuntimeError(f"{name}: the function must return one Tensor with one element")
        return out.reshape(())  # type: ignore[attr-defined]

    return checked


def hessian(
    func: Func,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return all second derivatives of a function with one number as its result.

    >>> import minitorch
    >>> hessian(lambda t: (t**3).sum(), minitorch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    single = isinstance(inputs, Node)

    def slope(*values: Any) -> Any:
        with enable_grad():
            out = _scalar(func, "hessian")(*values)
        return _gradients((out,), values, (new_tensor(np.ones_like(out._data)),), True, strict, "hessian")

    table = jacobian(slope, (inputs,) if single else inputs, create_graph=create_graph)
    return table[0][0] if single else table


def hvp(
    func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and H·v, without building the Hessian.

    >>> import minitorch
    >>> hvp(lambda t: (t**3).sum(), minitorch.tensor([1.0, 2.0]), minitorch.tensor([1.0, 1.0]))[1]
    tensor([ 6., 12.])
    """
    ready, single = _prepare(inputs, create_graph)
    moves = _vectors(v, ready, "hvp")
    outputs, _ = _call(_scalar(func, "hvp"), ready, "hvp")
    seed = (new_tensor(np.ones_like(outputs[0]._data)),)
    with enable_grad():
        slopes = _gradients(outputs, ready, seed, True, strict, "hvp")
    # H is symmetric: the gradient of ⟨slopes, v⟩ is H·v.
    found = _gradients(slopes, ready, moves, create_graph, False, "hvp")
    return _release(outputs, create_graph)[0], _unwrap(_release(found, create_graph), single)


def vhp(
    func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and vᵀ·H; the Hessian being symmetric, the same numbers as hvp.

    >>> import minitorch
    >>> vhp(lambda t: (t**3).sum(), minitorch.tensor([1.0, 2.0]), minitorch.tensor([1.0, 1.0]))[1]
    tensor([ 6., 12.])
    """
    return hvp(func, inputs, v, create_graph, strict)
