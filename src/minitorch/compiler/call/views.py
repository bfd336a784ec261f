"""Results in memory that others see too: views of an argument, a parameter's `.data`, a loss and its detach().

Enters: the results of a recorded run. Leaves: for each of them None, if it has memory of its own, or a `View`, which
makes it anew at each call in the memory of what it is a view of: what is written into one is seen in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Program, Value, interpret
from minitorch.compiler.ir.sizes import Symbol, is_fixed, surely_at_most
from minitorch.compiler.trace.backward import sizes_as_inputs
from minitorch.compiler.trace.plain import PlainTraced
from minitorch.compiler.trace.recorded import FromArgument, FromArray, FromGradient, FromTensor
from minitorch.compiler.trace.recorder import Recording
from minitorch.compiler.trace.refusal import CompileError
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.versions import view_of
from minitorch.tensor import Tensor
from minitorch.tensor.plain import PlainArray

_VIEWS = {"input", "reshape", "permute", "expand", "slice"}
_MOST_WORK = 10_000  # steps in which two views of one memory must be told apart


@dataclass(frozen=True)
class View:
    """A result as a view. of: where it is a view of: another result, by its number, or as inputs are found.

    program: from one to the other. kind: what it is: Tensor, PlainArray or ndarray. keeps_graph: whether gradients go
    through it. sizes: those that vary and the array does not tell, which are inputs too. given: where a call has them.
    """

    of: int | FromArgument | FromTensor | FromGradient | FromArray
    program: Program
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
            thing = (thing.data if isinstance(thing, Tensor) else thing).view(self.kind)
        elif not isinstance(thing, Tensor):
            thing = new_tensor(np.asarray(thing))
        elif not self.keeps_graph:
            thing = thing.detach()
        return self._of(thing)

    def _of(self, thing: Any) -> Any:
        return interpret(self.program, [thing, *(getattr(self.given, s.name) for s in self.sizes)])[0]

    def lay(self, result: Any, leaves: Sequence[Any], found: Sequence[Any]) -> None:
        """Let a Tensor that the recorded run has made lie where it belongs."""
        base = self.base(leaves, found)
        result._array = self._of(base._array if isinstance(base, Node) else np.asarray(base))


def views_among(results: list[Any], active: Recording) -> list[View | None]:
    """Return which results are views, and of what; refuse what cannot be made anew as the view it is."""
    arrays = [result._data if isinstance(result, Node) else result for result in results]
    traced = [array if isinstance(array, Traced) else None for array in arrays]
    roots = [None if each is None else _root(each) for each in traced]
    fresh = [not isinstance(each, Node) or active.is_fresh(each) for each in results]
    owners: dict[int, int] = {}  # by root: the result that is it, preferably one with a graph
    for i, (root, result) in enumerate(zip(roots, results, strict=True)):
        if root is None or not fresh[i] or not isinstance(result, Node) or result._data is not root:
            continue
        if id(root) not in owners or (result._requires_grad and not results[owners[id(root)]]._requires_grad):
            owners[id(root)] = i
    found: list[View | None] = []
    for i, (result, root) in enumerate(zip(results, roots, strict=True)):
        of: Any = None
        if root is not None and fresh[i]:
            of = active.outside(root)
            if of is None and owners.get(id(root), i) != i:
                of = owners[id(root)]
        found.append(None if of is None else _view(result, root, of, active))
    _refuse_overlaps([t for t, view, new in zip(traced, found, fresh, strict=True) if view is None and new])
    return found


def _root(traced: Any) -> Any:
    while traced.base is not None:
        traced = traced.base
    return traced


def _view(result: Any, root: Any, of: Any, active: Recording) -> View:
    is_tensor = isinstance(result, Node)
    array = result._data if is_tensor else result
    program = _program(array, root)
    keeps_graph = is_tensor and result._requires_grad
    if (
        program is None
        or not isinstance(of, (int, FromArgument, FromTensor, FromGradient, FromArray))
        or (keeps_graph and not _is_view_by_graph(result, active, of))
    ):
        raise CompileError(
            f"compile: it returns something (shape {tuple(array.shape)}) that lies in the memory of a tensor from "
            "before the call, or of another result; return a clone()"
        )
    kind: type = Tensor if is_tensor else PlainArray if isinstance(array, PlainTraced) else np.ndarray
    sizes = [value.attributes["symbol"] for value in program.inputs[1:]]
    return View(of, program, kind, keeps_graph, sizes, active.assumed.given)


def _program(array: Any, root: Any) -> Program | None:
    """Return the way from one array to a view of it; None if that is none of a few views."""
    chain = []
    while array is not root:
        chain.append(array)
        array = array.base
    given = Value("input", (), {"index": 0}, root.shape, root.dtype)
    view = Traced(given, root.array)
    for each in reversed(chain):
        view = each.refreshed(view)
    program = Program([given], [view.value])
    of_sizes = sizes_as_inputs(program)
    program = Program([given, *of_sizes], [view.value])
    return program if all(value.primitive in _VIEWS for value in program.values()) else None


def _is_view_by_graph(result: Any, active: Recording, of: Any) -> bool:
    """Tell whether a result's graph is that of its views."""
    node = result
    while active.is_fresh(node):
        view = view_of(node)
        if view is None:
            return isinstance(of, int)
        node = view.base
    return True


def _refuse_overlaps(traced: list[Any]) -> None:
    """Refuse results that are made anew though they look at the same memory."""
    views = [each for each in traced if each is not None and each.base is not None]
    for i, one in enumerate(views):
        for other in views[:i]:
            if _root(one) is _root(other) and (
                _overlap(one.array, other.array) or not _surely_apart(one, other)
            ):
                raise CompileError(
                    f"compile: it returns two views (shapes {tuple(one.shape)} and {tuple(other.shape)}) of the same "
                    "memory; return a clone() of one"
                )


def _surely_apart(one: Any, other: Any) -> bool:
    """Tell whether two views that do not overlap in this run never do; if not, sizes that vary are decided on."""
    sizes = [n for each in (one, other, _root(one)) for n in each.shape if not is_fixed(n)]
    if not sizes:
        return True
    if one.place is not None and other.place is not None and one.base is other.base:
        (starts, counts, steps), (others, more, strides) = one.place[0], other.place[0]
        for a, n, s, b, m, t in zip(starts, counts, steps, others, more, strides, strict=True):
            if s == t == 1 and (surely_at_most(a + n, b) or surely_at_most(b + m, a)):
                return True
    for n in sizes:
        int(n)
    return True


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return bool(np.shares_memory(a, b, _MOST_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
