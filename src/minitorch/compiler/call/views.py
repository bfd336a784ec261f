"""Results in memory that others see too: views of an argument, a parameter's `.data`, a loss and its detach().

Enters: the results of a recorded run. Leaves: for each of them None, if it has memory of its own, or a `View`, which
makes it anew at each call in the memory of what it is a view of: what is written into one is seen in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from minitorch.compiler.ir.program import Program, Value, interpret
from minitorch.compiler.ir.sizes import Binding, Symbol, evaluated, is_fixed, surely_at_most
from minitorch.compiler.trace.backward import sizes_as_inputs
from minitorch.compiler.trace.plain import PlainTraced
from minitorch.compiler.trace.recorded import FromArgument, FromArray, FromGradient, FromTensor
from minitorch.compiler.trace.recorder import Recording
from minitorch.compiler.trace.refusal import CompileError
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.gpu import device_of
from minitorch.engine.modes import no_grad
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.engine.versions import view_of
from minitorch.ops.op import Op
from minitorch.tensor import Tensor
from minitorch.tensor.plain import PlainArray, handed_out

Look = Callable[[Any, Binding], Any]
_VIEWS = {"input", "reshape", "permute", "expand", "slice"}
_MOST_WORK = 10_000  # steps in which two views of one memory must be told apart


@dataclass(frozen=True)
class View:
    """A result as a view. of: where it is a view of: another result, by its number, or as inputs are found.

    looks: how one looks at the other, step by step, given the sizes that vary. kind: what it is: Tensor, PlainArray or
    ndarray. keeps_graph: whether gradients go through it. sizes: what varies; given: where a call has it.
    """

    of: int | FromArgument | FromTensor | FromGradient | FromArray
    looks: Sequence[Look]
    kind: type
    keeps_graph: bool
    sizes: Sequence[Symbol] = ()
    given: Any = None

    def base(self, leaves: Sequence[Any], found: Sequence[Any]) -> Any:
        """Return what it is a view of: leaves are a call's arguments, found the results that are there already."""
        of = self.of
        if isinstance(of, int):
            return found[of]
        if isinstance(of, FromArray):
            return of.array
        if isinstance(of, FromTensor):
            return of.tensor
        thing = of.tensor if isinstance(of, FromGradient) else leaves[of.position]
        return thing.grad if isinstance(of, FromGradient) or of.gradient else thing

    def made(self, leaves: Sequence[Any], found: Sequence[Any]) -> Any:
        """Return the result of a call."""
        thing = self.base(leaves, found)
        if self.kind is not Tensor:
            shown = handed_out(thing._data, watched=True) if isinstance(thing, Tensor) else thing
            thing = shown.view(self.kind) if self.looks else shown
        elif not isinstance(thing, Tensor):
            thing = new_tensor(np.asarray(thing))
        elif not self.keeps_graph:
            thing = thing.detach()
        binding = {symbol: getattr(self.given, symbol.name) for symbol in self.sizes}
        for look in self.looks:
            thing = look(thing, binding)
        return thing

    def lay(self, result: Any, leaves: Sequence[Any], found: Sequence[Any]) -> None:
        """Let a Tensor that the recorded run has made lie where it belongs."""
        with no_grad():
            result._array = self.made(leaves, found)._array


def hidden_bases(results: list[Any], active: Recording) -> list[Any]:
    """Return arrays, or Tensors, that are no results but of which several are views, so that all are made from one."""
    traced = [_traced(each) for each in results]
    roots = _roots(results, traced, active)
    found: list[Any] = []
    known: set[tuple[int, bool]] = set()  # roots that are results, or found, and whether with their graph
    for each, root, result in zip(traced, roots, results, strict=True):
        if each is not None and each is root:
            known.add((id(each), _keeps_graph(result)))
    for i, (one, root, result) in enumerate(zip(traced, roots, results, strict=True)):
        if one is root:
            continue
        with_graph = _keeps_graph(result)
        if (id(root), True) in known or ((id(root), False) in known and not with_graph):
            continue
        if active.outside(root) is not None or not any(
            j != i and roots[j] is root and _may_overlap(one, other) for j, other in enumerate(traced)
        ):
            continue
        base = _node_of(result, root) if with_graph else root
        if base is not None:
            known.add((id(root), with_graph))
            found.append(base)
    return found


def _keeps_graph(result: Any) -> bool:
    return isinstance(result, Node) and result._requires_grad


def _node_of(result: Any, root: Any) -> Any:
    """Return the Tensor that a result is a view of; None if its graph is another one."""
    while result._data is not root:
        view = view_of(result)
        if view is None:
            return None
        result = view.base
    return result


def views_among(results: list[Any], active: Recording) -> list[View | None]:
    """Return which results are views, and of what; refuse what cannot be made anew as the view it is."""
    fresh = [not isinstance(each, Node) or active.is_fresh(each) for each in results]
    traced = [_traced(each) if new else None for each, new in zip(results, fresh, strict=True)]
    roots = _roots(results, traced, active)
    owners: dict[int, int] = {}  # by root: the result that is it, preferably one with a graph
    for i, (each, root) in enumerate(zip(traced, roots, strict=True)):
        if each is not None and each is root and (id(each) not in owners or _keeps_graph(results[i])):
            owners[id(each)] = i
    found: list[View | None] = []
    for i, (result, each, root) in enumerate(zip(results, traced, roots, strict=True)):
        of: Any = None
        if each is not None:
            of = active.outside(root)
            if of is None and owners.get(id(root), i) != i:
                of = owners[id(root)]
        found.append(None if of is None else _view(result, root, of, active))
    return found


def _traced(result: Any) -> Any:
    array = result._data if isinstance(result, Node) else result
    return array if isinstance(array, Traced) else None


def _root(traced: Any) -> Any:
    while traced.base is not None:
        traced = traced.base
    return traced


def _roots(results: list[Any], traced: list[Any], active: Recording) -> list[Any]:
    """Return the array in whose memory each result lies; None for what is not recorded.

    An op's result may be a view of something that the op alone knows (a product, in another shape). Where all others
    that lie there are views of that result, it is what they lie in: only it has the op's graph.
    """
    roots: list[Any] = [None if each is None else _root(each) for each in traced]
    found = list(roots)
    for result, each, root in zip(results, traced, roots, strict=True):
        if each is root or not _keeps_graph(result) or not active.is_fresh(result):
            continue
        if view_of(result) is not None or active.outside(root) is not None:
            continue
        there = [i for i, other in enumerate(roots) if other is root]
        if all(_leads_through(traced[i], each) for i in there):
            for i in there:
                found[i] = each
    return found


def _leads_through(traced: Any, other: Any) -> bool:
    """Tell whether an array is another one, or a view of it."""
    while traced is not other and traced.base is not None:
        traced = traced.base
    return traced is other


def _view(result: Any, root: Any, of: Any, active: Recording) -> View:
    is_tensor = isinstance(result, Node)
    array = result._data if is_tensor else result
    looks = _looks_by_ops(result, root) if is_tensor else None
    if isinstance(array, PlainTraced) and root.__minitorch_plain__() is array:
        looks = []  # what `.data` or `.grad` hands out: the same one to everybody
    if looks is None:
        looks = _looks_by_program(array, root)
    keeps_graph = _keeps_graph(result)
    if (
        looks is None
        or not isinstance(of, (int, FromArgument, FromTensor, FromGradient, FromArray))
        or (keeps_graph and not _is_view_by_graph(result, active, root))
    ):
        raise CompileError(
            f"compile: it returns something (shape {tuple(array.shape)}) that lies in the memory of a tensor from "
            "before the call, or of another result; return a clone()"
        )
    kind: type = Tensor if is_tensor else PlainArray if isinstance(array, PlainTraced) else np.ndarray
    return View(
        of, looks, kind, keeps_graph, tuple(dict.fromkeys(active.symbols.values())), active.assumed.given
    )


def _looks_by_ops(result: Any, root: Any) -> list[Look] | None:
    """Return the ops that lead from one Tensor to a view of it; None if something else does."""
    looks: list[Look] = []
    node = result
    while node._data is not root:
        view = view_of(node)
        if view is None or view.op is None:
            return None
        looks.append(partial(_apply, view.op, view.attributes, view.recorded))
        node = view.base
    return looks[::-1]


def _apply(op: Op, attributes: dict[str, Any], recorded: bool, tensor: Any, binding: Binding) -> Any:
    if binding:
        attributes = {name: _with_sizes(each, binding) for name, each in attributes.items()}
    with nullcontext() if recorded else no_grad():
        return apply(op, tensor, **attributes)


def _with_sizes(thing: Any, binding: Binding) -> Any:
    """Return an attribute of an op with the sizes of a call in it."""
    if isinstance(thing, slice):
        return slice(*(evaluated(n, binding) for n in (thing.start, thing.stop, thing.step)))
    if isinstance(thing, (tuple, list)):
        return type(thing)([_with_sizes(each, binding) for each in thing])
    return evaluated(thing, binding)


def _looks_by_program(array: Any, root: Any) -> list[Look] | None:
    """Return the way from one array to a view of it, as a program or by places in memory; None if there is none."""
    chain = []
    while array is not root:
        chain.append(array)
        array = array.base
    given, view = _seen_through(chain, root.array, root.shape)
    program = Program([given], [view.value])
    if all(value.primitive in _VIEWS for value in program.values()):
        sizes = sizes_as_inputs(program)
        program = Program([given, *sizes], [view.value])
        symbols = [value.attributes["symbol"] for value in sizes]
        return [lambda thing, binding: interpret(program, [thing, *(binding[s] for s in symbols)])[0]]
    for n in (*root.shape, *view.shape):
        int(n)  # where it lies is known for these sizes
    if not view.size or not np.may_share_memory(view.array, root.array):
        return None
    if view.dtype != root.dtype:
        return _look_at_a_part(view.array, root.array)
    shape = root.array.shape
    numbers = _seen_through(chain, np.arange(root.array.size).reshape(shape), root.shape)[1].array
    places = np.stack(np.unravel_index(numbers, shape)) if shape else np.zeros((0, *numbers.shape), np.int64)
    # From one element to the next along an axis of the view, so far along each axis of what it is a view of.
    first = (0,) * numbers.ndim
    start = places[(slice(None), *first)]
    moves = np.zeros((numbers.ndim, len(shape)), np.int64)
    for axis, length in enumerate(numbers.shape):
        if length > 1:
            moves[axis] = places[(slice(None), *first[:axis], 1, *first[axis + 1 :])] - start
    found = start.reshape(-1, *(1,) * numbers.ndim) + np.einsum(
        "vb,v...->b...", moves, np.indices(numbers.shape)
    )
    if not (found == places).all():
        return None
    return [partial(_by_places, start.tolist(), moves.tolist(), numbers.shape, view.flags.writeable)]


def _look_at_a_part(view: np.ndarray, root: np.ndarray) -> list[Look] | None:
    """Return the way to the real or the imaginary part of an array, if that is what a view of another dtype is."""
    lies = lambda array: (array.dtype, array.shape, array.strides, byte_bounds(array))
    for part in ("real", "imag") if root.dtype.kind == "c" else ():
        if lies(view) == lies(getattr(root, part)):
            return [partial(_part, part)]
    return None


def _part(name: str, thing: Any, binding: Binding) -> Any:
    return getattr(thing, name)


def _seen_through(chain: list[Any], array: np.ndarray, shape: tuple[int, ...]) -> tuple[Value, Any]:
    """Return an array of a shape as an input, and what a chain of views (the last one first) gives of it."""
    given = Value("input", (), {"index": 0}, shape, array.dtype)
    view = Traced(given, array)
    for each in reversed(chain):
        view = each.refreshed(view)
    return given, view


def _by_places(
    start: list[int],
    moves: list[list[int]],
    shape: tuple[int, ...],
    writeable: bool,
    thing: Any,
    binding: Binding,
) -> Any:
    """Return the view of an array that starts at an element, and goes on by moves along its axes."""
    array = thing._array if isinstance(thing, Node) else thing
    strides = [sum(n * stride for n, stride in zip(move, array.strides, strict=True)) for move in moves]
    begin = array[tuple(slice(i, None) for i in start)]
    memory = device_of(begin)
    if memory is not None:
        view = memory.strided(begin, shape, strides)
    else:
        view = np.lib.stride_tricks.as_strided(begin, shape, strides, subok=True, writeable=writeable)
    return new_tensor(view) if isinstance(thing, Node) else view


def _is_view_by_graph(result: Any, active: Recording, root: Any) -> bool:
    """Tell whether a result's graph is that of its views: of a Tensor from before, or of another result."""
    node = result
    while active.is_fresh(node):
        if node._data is root:
            return node._requires_grad
        view = view_of(node)
        if view is None:
            return False
        node = view.base
    return True


def _may_overlap(one: Any, other: Any) -> bool:
    """Tell whether two views of the same memory overlap, or might with other sizes."""
    # (One that was written into has an array of its own: where they lie in their memory is looked at anew.)
    if _overlap(one.taken_again().array, other.taken_again().array):
        return True
    if is_fixed(*one.shape, *other.shape, *_root(one).shape):
        return False
    if one.place is None or other.place is None or one.base is not other.base:
        return True
    places = zip(*one.place[0], *other.place[0], strict=True)
    return not any(
        s == t == 1 and (surely_at_most(a + n, b) or surely_at_most(b + m, a)) for a, n, s, b, m, t in places
    )


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return bool(np.shares_memory(a, b, _MOST_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
