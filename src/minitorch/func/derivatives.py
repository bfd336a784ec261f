"""Derivatives as functions: grad, vjp, jvp, jacrev, jacfwd, hessian.

Enters: a function of Tensors. Leaves: a function of the same arguments that returns its derivative.

Each runs the function on inputs of its own and differentiates what comes out. An input that already is part of a
graph (of an outer grad, or because a person asked for its gradient) enters as a view of itself, so that the result
can be differentiated again; where nothing outside is involved, the result is released from its graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.autograd.grad import grad as gradients
from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import enable_grad, is_grad_enabled, observed
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.tangents import push, reaches_beyond
from minitorch.engine.watch import owner_of
from minitorch.func.batching import vmap
from minitorch.func.trees import ends_of, flatten
from minitorch.ops.op import zeros
from minitorch.tensor import Tensor

Func = Callable[..., Any]
Argnums = int | tuple[int, ...]


class _Evaluation:
    """One run of a function on inputs of its own: what went in, what came out, and who else is involved."""

    def __init__(self, func: Func, primals: tuple[Any, ...], has_aux: bool, name: str) -> None:
        self.name = name
        self.recorded = is_grad_enabled()
        self.inputs: list[Tensor] = []
        with enable_grad():
            entered = [self._enter(primal) for primal in primals]
            result = observed(func)(*entered)
        self.aux: Any = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise RuntimeError(
                    f"{name}: with has_aux=True the function returns (output, aux), got {type(result).__name__}"
                )
            result, self.aux = result
        self.outputs, self.build = flatten(result)
        for output in self.outputs:
            if not isinstance(output, Node):
                raise RuntimeError(f"{name}: the function must return Tensors, got {type(output).__name__}")
        self.nested = self.recorded and reaches_beyond(self.outputs, self.inputs)

    def _enter(self, tree: Any) -> Any:
        ends, build = flatten(tree)
        ready = []
        for x in ends:
            if not isinstance(x, Node):
                raise RuntimeError(
                    f"{self.name}: expected Tensors to differentiate at, got {type(x).__name__}"
                )
            if kind_of(x._data.dtype) not in "fc":
                raise RuntimeError(
                    f"{self.name}: only floating-point inputs have derivatives, got {x._data.dtype}; write x.float()"
                )
            own = x.view(x._data.shape) if x._requires_grad else new_tensor(x._data).requires_grad_()  # type: ignore[attr-defined]
            ready.append(own)
        self.inputs += ready
        return build(ready)

    def released(self, tree: Any) -> Any:
        """Return a result as the caller may hold it: with a graph only where others are in it."""
        if self.nested:
            return tree
        ends, build = flatten(tree)
        return build([end.detach() if isinstance(end, Tensor) else end for end in ends])

    def pull(self, seeds: Sequence[Any], create_graph: bool, retain_graph: bool = True) -> list[Tensor]:
        """Return vᵀ·J for each input, given v for each output."""
        return _pulled(self.outputs, seeds, self.inputs, create_graph, retain_graph or create_graph)

    def push(self, moves: Sequence[Any]) -> list[Tensor]:
        """Return J·v for each output, given v for each input (or None for one that stays): forward mode."""
        graph = self.recorded and (self.nested or any(m is not None and m.requires_grad for m in moves))
        given: dict[Node, Any] = {
            x: m if graph else m._data for x, m in zip(self.inputs, moves, strict=True) if m is not None
        }
        found = push(self.outputs, given, graph)
        sources = {id(owner_of(m._array)) for m in moves if m is not None}
        return [_moved(t, o, sources) for t, o in zip(found, self.outputs, strict=True)]


def _moved(tangent: Any, output: Any, sources: set[int]) -> Tensor:
    """Return the tangent of an output as a Tensor of its own."""
    if tangent is None:
        return new_tensor(np.zeros_like(output._data))
    moved: Tensor = tangent if isinstance(tangent, Tensor) else new_tensor(tangent)
    return moved.clone() if id(owner_of(moved._array)) in sources else moved


def _pulled(
    outputs: Sequence[Any], seeds: Sequence[Any], inputs: list[Tensor], create_graph: bool, retain_graph: bool
) -> list[Tensor]:
    """Return vᵀ·J for each input, given v for each output; zeros where an input has no part in them."""
    used = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    found: tuple[Any, ...] = (None,) * len(inputs)
    if used:
        found = gradients(
            [o for o, _ in used],
            inputs,
            [s for _, s in used],
            create_graph=create_graph,
            retain_graph=retain_graph,
            allow_unused=True,
        )
    return [
        new_tensor(np.zeros_like(x._data)) if g is None else g for g, x in zip(found, inputs, strict=True)
    ]


def _at(func: Func, argnums: Argnums, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """Split arguments: return the function of those to differentiate by, and these."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    places = []
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"{name}: argnums={argnums}, but the function was given {len(args)} arguments")
        places.append(number % len(args))
    if len(set(places)) != len(places):
        raise RuntimeError(f"{name}: argnums={argnums} names an argument twice")

    def chosen(*primals: Any) -> Any:
        full = list(args)
        for place, primal in zip(places, primals, strict=True):
            full[place] = primal
        return observed(func)(*full, **kwargs)

    return chosen, tuple(args[place] for place in places)


def grad_and_value(func: Func, argnums: Argnums = 0, has_aux: bool = False) -> Func:
    """Return a function that gives the gradient of `func` and its value (and aux with it, where has_aux).

    >>> grad_and_value(lambda x: (x * x).sum())(minitorch.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        chosen, primals = _at(func, argnums, args, kwargs, "grad")
        run = _Evaluation(chosen, primals, has_aux, "grad")
        if len(run.outputs) != 1 or run.outputs[0]._data.ndim:
            shapes = [o.shape for o in run.outputs]
            raise RuntimeError(
                f"grad: the function must return one number, a 0-d Tensor, got shapes {shapes}"
            )
        output = run.outputs[0]
        slopes = run.pull([new_tensor(np.ones_like(output._data))], run.nested, retain_graph=False)
        _, build = flatten(primals)
        found = run.released(build(slopes))
        value = run.released(run.build([output]))
        result = found[0] if isinstance(argnums, int) else found
        return (result, (value, run.released(run.aux))) if has_aux else (result, value)

    return derivative


def grad(func: Func, argnums: Argnums = 0, has_aux: bool = False) -> Func:
    """Return a function that gives the gradient of `func`, which returns one number.

    argnums: the argument to differentiate by, or several; each may be a tuple, list or dict of Tensors.
    has_aux: `func` returns (number, anything else), and the new function (gradient, anything else).

    >>> grad(lambda x: x**3)(minitorch.tensor(2.0))
    tensor(12.)
    >>> grad(grad(lambda x: x**3))(minitorch.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return derivative


def _matched(given: Any, like: list[Any], name: str, what: str) -> list[Any]:
    ends = ends_of(given)
    if len(ends) != len(like) or any(not isinstance(end, Node) for end in ends):
        raise RuntimeError(f"{name}: expected {what} with {len(like)} Tensors, got {given!r}")
    shapes = [end.shape for end in ends], [each.shape for each in like]
    if shapes[0] != shapes[1]:
        raise RuntimeError(f"{name}: {what} have shapes {shapes[0]}, expected {shapes[1]}")
    return ends


def vjp(func: Func, *primals: Any, has_aux: bool = False) -> Any:
    """Return func(*primals), and the function v ↦ vᵀ·J, which gives a tuple with an entry per primal.

    >>> value, pull = vjp(lambda x: x * x, minitorch.tensor([1.0, 2.0]))
    >>> pull(minitorch.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    run = _Evaluation(func, primals, has_aux, "vjp")
    _, build = flatten(primals)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds = _matched(cotangents, run.outputs, "vjp", "cotangents")
        graph = (
            run.nested or any(seed.requires_grad for seed in seeds) if create_graph is None else create_graph
        )
        found = run.pull(seeds, graph, retain_graph)
        return build(found if graph else [each.detach() for each in found])

    value = run.released(run.build(run.outputs))
    return (value, pull, run.released(run.aux)) if has_aux else (value, pull)


def jvp(func: Func, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return func(*primals) and J·tangents: how the outputs move when the inputs move so.

    >>> jvp(lambda x, y: x * y, (minitorch.tensor(3.0), minitorch.tensor(4.0)),
    ...     (minitorch.tensor(1.0), minitorch.tensor(0.0)))
    (tensor(12.), tensor(4.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: primals and tangents must be tuples, with an entry per argument")
    run = _Evaluation(func, primals, has_aux, "jvp")
    moves = _matched(tangents, run.inputs, "jvp", "tangents")
    if strict and not all(o.requires_grad for o in run.outputs):
        raise RuntimeError("jvp: with strict=True every output must depend on the inputs")
    moved = run.push(moves)
    value = run.released(run.build(run.outputs))
    return (value, run.build(moved), run.released(run.aux)) if has_aux else (value, run.build(moved))


def linearize(func: Func, *primals: Any) -> Any:
    """Return func(*primals), and the function v ↦ J·v at this place.

    >>> value, push = linearize(lambda x: x * x, minitorch.tensor([1.0, 2.0]))
    >>> push(minitorch.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    run = _Evaluation(func, primals, False, "linearize")

    def tangent(*tangents: Any) -> Any:
        moves = _matched(tangents, run.inputs, "linearize", "tangents")
        return run.released(run.build(run.push(moves)))

    return run.released(run.build(run.outputs)), tangent


def _units(x: Any) -> Tensor:
    """Return the tensors like x with a 1 at one place and 0 elsewhere, one for each place, under one another."""
    size = x._data.size
    units, places = zeros((size, size), x._data), np.arange(size, like=x._data)
    units[places, places] = 1
    return new_tensor(units.reshape((size, *x._data.shape)))


def _jacobian(
    func: Func, argnums: Argnums, has_aux: bool, name: str, forward: bool, chunk_size: int | None
) -> Func:
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"{name}: chunk_size must be None or at least 1, got {chunk_size}")

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        chosen, primals = _at(func, argnums, args, kwargs, name)
        run = _Evaluation(chosen, primals, has_aux, name)
        _, build = flatten(primals)
        blocks = _columns(run) if forward else [_rows(run, o, chunk_size) for o in range(len(run.outputs))]
        trees = [build(run.released(block)) for block in blocks]
        result = run.build([tree[0] if isinstance(argnums, int) else tree for tree in trees])
        return (result, run.released(run.aux)) if has_aux else result

    return derivative


def _rows(run: _Evaluation, number: int, chunk_size: int | None) -> list[Any]:
    """Return d(one output)/d(each input): vᵀ·J for all v that are 1 at one place, at once or in chunks."""
    output = run.outputs[number]
    shapes = [(*output._data.shape, *x._data.shape) for x in run.inputs]
    if not output._data.size:
        return [new_tensor(zeros(shape, x._data)) for shape, x in zip(shapes, run.inputs, strict=True)]

    def row(unit: Any) -> tuple[Any, ...]:
        seeds = [
            unit if i == number else new_tensor(np.zeros_like(o._data)) for i, o in enumerate(run.outputs)
        ]
        return tuple(run.pull(seeds, run.nested))

    found = vmap(row, chunk_size=chunk_size)(_units(output))
    return [each.reshape(shape) for each, shape in zip(found, shapes, strict=True)]


def _columns(run: _Evaluation) -> list[list[Any]]:
    """Return d(each output)/d(each input), by output and input: J·v for all v that are 1 at one place, at once."""
    blocks: list[list[Any]] = [[] for _ in run.outputs]
    for number, x in enumerate(run.inputs):

        def column(unit: Any, number: int = number) -> tuple[Any, ...]:
            return tuple(run.push([unit if i == number else None for i in range(len(run.inputs))]))

        found = vmap(column, out_dims=-1)(_units(x)) if x._data.size else [None] * len(run.outputs)
        for block, output, each in zip(blocks, run.outputs, found, strict=True):
            shape = (*output._data.shape, *x._data.shape)
            block.append(new_tensor(zeros(shape, output._data)) if each is None else each.reshape(shape))
    return blocks


def jacrev(func: Func, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Func:
    """Return a function that gives d(output)/d(input) in full, of shape output.shape + input.shape, row by row.

    Several outputs or inputs (tuples, lists, dicts) give such a structure of them, the outputs' outside. All rows of an
    output are computed at once, or chunk_size at a time, which takes less memory.

    >>> jacrev(lambda x: x * x)(minitorch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return _jacobian(func, argnums, has_aux, "jacrev", False, chunk_size)


def jacfwd(func: Func, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Func:
    """Return a function that gives d(output)/d(input) in full, as jacrev does, but column by column.

    The better choice where the output has more elements than the input.

    >>> jacfwd(lambda x: x.sum() * x)(minitorch.tensor([1.0, 2.0]))
    tensor([[4., 1.],
            [2., 5.]])
    """
    return _jacobian(func, argnums, has_aux, "jacfwd", True, None)


def hessian(func: Func, argnums: Argnums = 0) -> Func:
    """Return a function that gives all second derivatives: the jacobian of the jacobian.

    >>> hessian(lambda x: (x**3).sum())(minitorch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
