"""checkpoint: forget what a part of the forward computed, and compute it again in backward.

Enters: a function and its arguments. Leaves: its results, recorded as one node.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from minitorch import random
from minitorch.engine import watch
from minitorch.engine.backward import backpropagate
from minitorch.engine.modes import current, enable_grad, is_grad_enabled, switch, with_observers
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import Outputs, bundle_outputs, tell
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
    before = random.RandomStates() if preserve_rng_state else None
    inner: set[Node] = set()
    used: dict[Node, None] = {}  # in the order of first use
    constants: dict[int, weakref.ref[Node]] = {}

    def observe(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], out: Node) -> None:
        # Whatever an op inside reads that was not made inside comes from outside.
        for each in inputs:
            if isinstance(each, Node) and each not in inner:
                if each.requires_grad:
                    used.setdefault(each)
                else:  # from outside, or freshly made inside: then it will be gone
                    constants[id(each)] = weakref.ref(each)
        inner.add(out)

    now = watch.tick()  # before: what the function itself changes is changed when it runs again
    outer = current()
    switch(with_observers(outer, *outer.observers, observe))
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
    used.clear()
    watched = [weakref.ref(s) for s in sources] + list(constants.values())
    for reference in watched:
        tensor = reference()
        if tensor is not None:
            watch.read(tensor._data, watch.tick())

    def joint(g: Any, out: Any, *inputs: Any) -> list[Any]:
        _check_unchanged(watched, now)
        create_graph = any(isinstance(each, Node) for each in g)
        after = random.RandomStates()
        if before is not None:
            before.restore()
        try:
            with enable_grad():
                again = function(*args, **kwargs)
        finally:
            after.restore()
        roots = tuple(again) if isinstance(again, (tuple, list)) else (again,)
        pairs = [
            (r, each) for r, each, need in zip(roots, g, needed, strict=True) if need and each is not None
        ]
        found = backpropagate(
            [r for r, _ in pairs],
            [each for _, each in pairs],
            wanted=set(sources),
            boundary=set(sources),
            retain_graph=create_graph,
            create_graph=create_graph,
        )
        return [found.get(s) for s in sources]

    # Whether something was changed it looks for itself.
    recorded = Op(
        "checkpoint", lambda *a, **k: None, joint=joint, takes_none=True, reads=False, register=False
    )
    outputs = bundle_outputs(recorded, sources, {}, Outputs(arrays))
    outputs = tuple(
        out if need else new_tensor(array) for out, array, need in zip(outputs, arrays, needed, strict=True)
    )
    for out in outputs:
        tell(outer, recorded, sources, {}, out)
    return outputs if several else outputs[0]


def _check_unchanged(watched: list[weakref.ref[Node]], since: int) -> None:
    if watch.exposed:
        watch.look_again(since)
    for reference in watched:
        tensor = reference()
        if tensor is not None and (
            watch.changed_since(tensor, since) or watch.changed_since(tensor._data, since)
        ):
            raise RuntimeError(
                f"a tensor that the checkpointed function uses (shape {tuple(tensor._data.shape)}) was changed after "
                "the forward pass, and running the function again would give other values. Change it after "
                "backward(), or work on a copy: x.clone()"
            )
