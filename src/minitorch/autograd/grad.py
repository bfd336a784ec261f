"""Gradients as results: `grad(outputs, inputs)` writes nothing, and can be differentiated again.

Enters: tensors of a graph. Leaves: gradient Tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.engine.backward import Lent, backpropagate, deposit
from minitorch.engine.node import Node, new_tensor
from minitorch.ops.native import copied
from minitorch.tensor import Tensor, seed_gradient
from minitorch.tensor.convert import is_array
from minitorch.tensor.methods.joining import stack
from minitorch.tensor.torch_types import keep_graphs, pytorchs

_UNRECORDED = (
    ": what it was computed from does not, or it was computed under no_grad() or after detach(), where nothing is "
    "recorded"
)


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, Node) or value is None or is_array(value) else list(value)


def _seeds(outputs: list[Any], grad_outputs: Any, create_graph: bool, name: str) -> list[Any]:
    given = _listed(grad_outputs) if grad_outputs is not None else [None] * len(outputs)
    if len(given) != len(outputs):
        raise RuntimeError(
            f"{name}: {len(outputs)} outputs but {len(given)} grad_outputs; give one (or None) each"
        )
    seeds = []
    for output, seed in zip(outputs, given, strict=True):
        array = seed_gradient(output, seed, name)
        if not create_graph:
            seeds.append(array)
        elif isinstance(seed, Node) and seed._data.dtype == output._data.dtype:
            seeds.append(seed)  # it may itself be a function of the inputs
        else:
            seeds.append(new_tensor(array))
    return seeds


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return d(outputs)/d(inputs) as a tuple of Tensors, one per input, without touching any `.grad`.

    create_graph: the gradients are recorded too, so that they can be differentiated again, to any
        order; the graph is then kept unless retain_graph says otherwise.
    only_inputs: accepted, and always so: no `.grad` is touched.
    is_grads_batched: grad_outputs have a first axis of their own, and so do the results: a gradient for each.
    allow_unused: an input that the outputs do not depend on gets None instead of an error.
    materialize_grads: such an input gets zeros.

    >>> import minitorch
    >>> x = minitorch.tensor(3.0, requires_grad=True)
    >>> (slope,) = grad(x**3, x, create_graph=True)
    >>> (curvature,) = grad(slope, x)
    >>> slope.item(), curvature.item()
    (27.0, 18.0)
    """
    roots, wanted = _listed(outputs), _listed(inputs)
    if is_grads_batched:
        return _batched(
            roots, wanted, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: materialize_grads=True fills unused inputs with zeros; leave allow_unused away"
        )
    for what, tensors in (("output", roots), ("input", wanted)):
        for i, t in enumerate(tensors):
            if not isinstance(t, Node):
                raise TypeError(f"grad: {what} {i} must be a Tensor, got {type(t).__name__}")
            if not t.requires_grad:
                raise RuntimeError(
                    f"grad: {what} {i} does not require grad"
                    + (_UNRECORDED if what == "output" else "; make it with requires_grad=True")
                )
    keep = create_graph if retain_graph is None else retain_graph
    seeds = _seeds(roots, grad_outputs, create_graph, "grad")
    found = backpropagate(roots, seeds, wanted=set(wanted), retain_graph=keep, create_graph=create_graph)
    del seeds
    owned = _owned(found)
    results: list[Any] = []
    given: set[Any] = set()
    for i, tensor in enumerate(wanted):
        if tensor not in owned:
            if not allow_unused and not materialize_grads:
                raise RuntimeError(
                    f"grad: input {i} (shape {tensor.shape}) was not used to compute the outputs; pass "
                    "allow_unused=True to get None for it"
                )
            results.append(new_tensor(np.zeros_like(tensor._data)) if materialize_grads else None)
        elif tensor in given and not create_graph:  # asked for twice
            results.append(new_tensor(owned[tensor]._data.copy()))
        else:
            results.append(owned[tensor])
            given.add(tensor)
    return tuple(results)


def _batched(
    roots: list[Any],
    wanted: list[Any],
    seeds: Any,
    retain_graph: bool | None,
    create_graph: bool,
    *unused: Any,
) -> tuple[Any, ...]:
    """Return the gradients for each of the seeds along their first axis, stacked."""
    each = _listed(seeds)
    count = len(each[0])
    rows = []
    for i in range(count):
        keep = True if i < count - 1 else retain_graph
        row = [None if seed is None else seed[i] for seed in each]
        allow, fill = unused
        rows.append(grad(roots, wanted, row, keep, create_graph, allow_unused=allow, materialize_grads=fill))
    return tuple(None if parts[0] is None else stack(parts) for parts in zip(*rows, strict=True))


def _owned(found: dict[Node, Any]) -> dict[Node, Tensor]:
    """Wrap gradients in Tensors of their own: the engine may have handed one array to several."""
    owned = {}
    while found:
        tensor, gradient = found.popitem()
        if not isinstance(gradient, Node):
            gradient = new_tensor(gradient)
        owned[tensor] = gradient
    return owned


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of several outputs into `.grad` in one walk.

    >>> import minitorch
    >>> x = minitorch.tensor(2.0, requires_grad=True)
    >>> backward([x * 3, x * x]); x.grad
    array(7., dtype=float32)
    """
    roots: Sequence[Any] = _listed(tensors)
    if (create_graph or inputs is not None) and not pytorchs.on:
        raise RuntimeError("backward: for create_graph or chosen inputs write minitorch.autograd.grad")
    for i, t in enumerate(roots):
        if not t.requires_grad:
            raise RuntimeError(f"backward: tensor {i} does not require grad{_UNRECORDED}")
    if create_graph:
        keep_graphs(roots, _seeds(list(roots), grad_tensors, True, "backward"), inputs, retain_graph)
        return
    if inputs is not None:
        found = grad(roots, inputs, grad_tensors, retain_graph, allow_unused=True)
        given = [(t, g._data, True) for t, g in zip(_listed(inputs), found, strict=True) if g is not None]
        deposit(given)
        return
    seeds = _seeds(list(roots), grad_tensors, False, "backward")
    if grad_tensors is None:
        backpropagate(roots, seeds, retain_graph=bool(retain_graph))
        return
    # The given arrays stay the giver's own.
    lent = Lent(seeds) if all(map(Lent.suits, seeds, roots)) else None
    try:
        given = seeds if lent is not None else [copied(seed) for seed in seeds]
        backpropagate(roots, given, retain_graph=bool(retain_graph), lent=lent)
    finally:
        if lent is not None:
            lent.give_back(drop=pytorchs.on)
