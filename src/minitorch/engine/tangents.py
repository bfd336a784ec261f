"""Forward mode: tangents along a recorded graph, from where they are given to the results.

Enters: nodes, and how some nodes they depend on move. Leaves: how these nodes move. One walk in the order in which the
graph was recorded; each op's step is about as much work as its forward. How a step is found is in ops/tangents.py; an
op that says nothing there has its rules transposed: they are linear in g, and the derivative of Jᵀ·g by g, applied to a
tangent, is J times it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.engine import bfloat16, errors, versions
from minitorch.engine import complex as complex_numbers
from minitorch.engine.backward import backpropagate, rules_may_run
from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import enable_grad
from minitorch.engine.node import Node, new_tensor, write_down
from minitorch.engine.record import SELECT, Bundle, Outputs, select_all
from minitorch.ops.narrow import widened
from minitorch.ops.op import OWN, Op
from minitorch.ops.tangents import elementwise


def push(roots: Sequence[Node], tangents: Mapping[Node, Any], create_graph: bool) -> list[Any]:
    """Return the tangent of each root, given those of nodes it depends on; None for a root that does not move.

    create_graph: tangents are Tensors, and what is computed with them is recorded; else they are arrays.
    """
    order = _depending(roots, tangents)
    errors.check_unchanged(order, tangents)
    found: dict[Node, Any] = dict(tangents)
    with rules_may_run(create_graph):
        for node in order:
            if node in found or node._operation is None:
                continue
            ts = [found.get(each) if isinstance(each, Node) else None for each in node._inputs]
            if any(t is not None for t in ts):
                found[node] = _step(node, ts, create_graph)
    return [found.get(root) for root in roots]


def _depending(roots: Sequence[Node], sources: Collection[Node]) -> list[Node]:
    """Return the nodes between sources and roots, parents before children: nothing older can depend on a source."""
    oldest = min(source._time for source in sources)
    seen = set(roots)
    waiting, order = list(seen), []
    while waiting:
        node = waiting.pop()
        order.append(node)
        if node in sources or node._time < oldest:
            continue
        inputs = versions.inputs_of(node) if versions.renewed else node._inputs
        if not inputs and node._operation is not None:
            raise RuntimeError(
                f"a tangent through {node._operation.name!r}: a backward() has freed its graph; pass retain_graph=True"
            )
        for parent in inputs:
            if isinstance(parent, Node) and parent._requires_grad and parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    order.sort(key=lambda node: node._time)
    return order


def reaches_beyond(outputs: Sequence[Any], sources: Collection[Node]) -> bool:
    """Tell whether a graph leads to something that requires grad and is not one of the sources, if they are leaves."""
    seen = {id(x) for x in sources if x._operation is None}
    waiting = [o for o in outputs if o._requires_grad]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node._operation is None:
            return True
        waiting += [each for each in node._inputs if isinstance(each, Node) and each._requires_grad]
    return False


def _step(node: Node, ts: list[Any], create_graph: bool) -> Any:
    """Return the tangent of a node, from those of its inputs."""
    op: Op = node._operation  # type: ignore[assignment]
    if op is SELECT:
        return ts[0][node._attributes["index"]]
    tangent = op.tangent
    if tangent is None and op.ufunc is not None and op.rules and op.ufunc.signature is None:
        tangent = elementwise(op)
    if tangent is None or (complex_numbers.met and op.complex is OWN and _is_complex(node)):
        return _transposed(node, ts, create_graph)
    inputs = node._inputs if create_graph else [i._data if isinstance(i, Node) else i for i in node._inputs]
    out: Any = node if create_graph else node._data
    if isinstance(node, Bundle):
        out = select_all(node) if create_graph else node._data
    if bfloat16.met and not create_graph:
        ts, out, inputs = widened(ts), widened(out), widened(inputs)
    args = (tuple(ts), out, *inputs)
    try:
        moved = tangent(*args, **node._attributes)
    except errors.AnotherWay as way:
        moved = way.run(tangent, args, node._attributes, f"the forward derivative of {op.name}")
    if isinstance(node, Bundle):
        return [_fitted(t, o) for t, o in zip(moved, node._data, strict=True)]
    return _fitted(moved, node._data)


def _fitted(tangent: Any, out: Any) -> Any:
    """Return a tangent in the shape and dtype of what moves."""
    if tangent is None:
        return None
    if tangent.shape != out.shape:
        tangent = np.broadcast_to(tangent, out.shape)
    return tangent if tangent.dtype == out.dtype else tangent.astype(out.dtype)


def _is_complex(node: Node) -> bool:
    held = [node._data, *(i._data for i in node._inputs if isinstance(i, Node))]
    return any(getattr(getattr(each, "dtype", None), "kind", "") == "c" for each in held)


def _transposed(node: Node, ts: list[Any], create_graph: bool) -> Any:
    """Return the tangent of a node by its op's rules, transposed."""
    inputs = node._inputs
    moving = {i: t for i, t in zip(inputs, ts, strict=True) if t is not None}
    around = {i for i in inputs if isinstance(i, Node)}
    with enable_grad():
        # A node of its own: nobody's hooks are run, and no gradient is kept.
        if isinstance(node, Bundle):
            twin: Any = object.__new__(Bundle)
            write_down(twin, Outputs(node._data), node._operation, inputs, node._attributes)
            roots = [o for o in select_all(twin) if o._requires_grad]
        else:
            roots = [new_tensor(node._data, node._operation, inputs, node._attributes)]
        seeds = [new_tensor(np.zeros_like(root._data)).requires_grad_() for root in roots]
        pulled = backpropagate(
            roots, seeds, wanted=set(moving), boundary=around, retain_graph=True, create_graph=True
        )
    pairs = [(g, moving[i]) for i, g in pulled.items() if isinstance(g, Node) and g._requires_grad]
    found: dict[Node, Any] = {}
    if pairs:
        found = backpropagate(
            [g for g, _ in pairs],
            [t for _, t in pairs],
            wanted=set(seeds),
            boundary={*around, *roots},
            retain_graph=True,
            create_graph=create_graph,
        )
    for seed in seeds:
        seed._requires_grad = False  # what was found may refer to it, and asks for no gradient of it
    if not isinstance(node, Bundle):
        return found.get(seeds[0])
    moved = iter([found.get(seed) for seed in seeds])
    return [next(moved) if kind_of(o.dtype) in "fc" else None for o in node._data]
