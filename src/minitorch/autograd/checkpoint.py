"""checkpoint: forget what a part of the forward computed, and compute it again in backward.

Enters: a function and its arguments. Leaves: its results, recorded as one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch import random
from minitorch.modes import current, enable_grad, is_grad_enabled, switch
from minitorch.node import Node, Outputs, backpropagate, bundle_outputs, new_tensor
from minitorch.ops.op import Op


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: Any = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Run `function(*args, **kwargs)` without keeping its intermediates; backward runs it again.

    Memory for time: only the arguments and results stay. The second run draws the same random
    numbers as the first. Gradients also reach tensors the function uses without taking them as
    arguments (a module's parameters).

    >>> import minitorch
    >>> x = minitorch.ones(3, requires_grad=True)
    >>> checkpoint(lambda t: (t * 2).exp(), x).sum().backward()
    >>> x.grad.round(3)
    array([14.778, 14.778, 14.778], dtype=float32)
    """
    if not is_grad_enabled():
        return function(*args, **kwargs)
    before = random.get_rng_state() if preserve_rng_state else None
    inner: set[Node] = set()
    used: dict[Node, None] = {}  # in the order of first use

    def observe(op: Op, inputs: tuple[Any, ...], out: Node) -> None:
        # Whatever an op inside reads that was not made inside comes from outside.
        for each in inputs:
            if isinstance(each, Node) and each.requires_grad and each not in inner:
                used.setdefault(each)
        inner.add(out)
        if outer.observer is not None:
            outer.observer(op, inputs, out)

    outer = current()
    switch(outer._replace(observer=observe))
    try:
        output = function(*args, **kwargs)
    finally:
        switch(outer)
    several = isinstance(output, (tuple, list))
    results = tuple(output) if several else (output,)
    for i, r in enumerate(results):
        if not isinstance(r, Node):
            raise TypeError(
                f"checkpoint: output {i} of the function must be a Tensor, got {type(r).__name__}"
            )
    for r in results:  # an argument handed straight back
        if r.requires_grad and r not in inner:
            used.setdefault(r)
    if not any(r.requires_grad for r in results):
        return output
    sources = tuple(used)
    arrays = [r._data for r in results]
    needed = [r.requires_grad for r in results]
    del output, results
    inner.clear()

    def joint(g: Any, out: Any, *inputs: Any) -> list[Any]:
        create_graph = any(isinstance(each, Node) for each in g)
        now = random.get_rng_state()
        if before is not None:
            random.set_rng_state(before)
        try:
            with enable_grad():
                again = function(*args, **kwargs)
        finally:
            random.set_rng_state(now)
        roots = tuple(again) if isinstance(again, (tuple, list)) else (again,)
        pairs = [(r, each) for r, each, need in zip(roots, g, needed, strict=True) if need]
        found = backpropagate(
            [r for r, _ in pairs],
            [each for _, each in pairs],
            wanted=set(sources),
            boundary=set(sources),
            retain_graph=create_graph,
            create_graph=create_graph,
        )
        return [found.get(s) for s in sources]

    recorded = Op("checkpoint", lambda *a, **k: None, joint=joint, register=False)
    outputs = bundle_outputs(recorded, sources, {}, Outputs(arrays))
    outputs = tuple(
        out if need else new_tensor(array) for out, array, need in zip(outputs, arrays, needed, strict=True)
    )
    return outputs if several else outputs[0]
