"""The walk backwards: from a result to the leaves, applying the chain rule at each node.

Enters: results, and the gradient of each. Leaves: gradients, in `.grad` or returned.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from minitorch.engine import bfloat16, errors, fast_rules, gpu, versions
from minitorch.engine import complex as complex_numbers
from minitorch.engine.fast_rules import added_up, converted
from minitorch.engine.hooks import expected, run_hooks, run_post_hooks
from minitorch.engine.modes import current, switch
from minitorch.engine.node import Node
from minitorch.engine.quiet import hush, restore
from minitorch.engine.record import SELECT, Bundle, Outputs, select_all
from minitorch.engine.recording import recordings
from minitorch.engine.watch import owner_of, touch
from minitorch.ops.arithmetic import ADD
from minitorch.ops.narrow import widened
from minitorch.ops.native import LARGE, copied, is_of_device
from minitorch.ops.op import Array, Op, unbroadcast

_age = attrgetter("_time")
# What a gradient on its way may be checked by: the node it leaves, its gradient, the parent, what the parent gets.
Check = Callable[[Node, Array, Node, Array], None]


def backpropagate(
    roots: Sequence[Node],
    gradients: Sequence[Array],
    *,
    wanted: Collection[Node] | None = None,
    boundary: Collection[Node] = (),
    retain_graph: bool = False,
    create_graph: bool = False,
    lent: Lent | None = None,
) -> dict[Node, Array]:
    """Walk the graph from the roots to the leaves, applying the chain rule at each node.

    Without `wanted` every node keeps its gradient in `.grad`, accumulated. With it nothing is
    written: only the paths that lead to the wanted nodes are walked, and what arrives there is
    returned, as arrays of their own. The graph is consumed on the way unless it is to be retained. What lies on the
    `boundary` belongs to an outer walk, which runs its hooks and goes on from there. lent: the gradients are somebody's
    own arrays, which may be read, and are given back to by the caller.
    """
    order = collect(roots, boundary)
    if expected:
        order = _leaves_when_complete(order)
    errors.check_unchanged(order, boundary)
    if lent is not None and not lent.may_be_lent(order):
        gradients, lent = [copied(g) for g in gradients], None
    useful = None if wanted is None else _leading_to(wanted, order, boundary)
    if recordings and (recorder := current().recorder) is not None:
        passed = order if useful is None else [n for n in order if n in useful and _leads_on(n, useful)]
        recorder.walking(passed, boundary)
    rewritten = (
        [node for node in order if hasattr(node, "_past") and node._past.history] if versions.renewed else ()
    )
    walk = Walk(create_graph, useful)
    pending, own = walk.pending, walk.own
    # On arrays, for all nodes, nobody looking on, as nearly always: then there is a short path for the commonest ops.
    uncommon = recordings or complex_numbers.met
    plainly = not (create_graph or wanted is not None or uncommon or walk.check)
    for node, g in zip(roots, gradients, strict=True):
        if node._array.__class__ is not np.ndarray and hasattr(node._array, "__minitorch_seed__"):
            g = node._array.__minitorch_seed__(g)
        pending[node] = added_up(pending[node], g) if node in pending else g
    found: dict[Node, Array] = {}
    leaves: list[tuple[Node, Array, bool]] = []
    with rules_may_run(create_graph):
        while order:
            node = order.pop()  # and out of the list: a node nobody else holds is freed at once
            g = pending.pop(node, None)
            if g is None or (useful is not None and node not in useful):
                continue
            if g.__class__ is not np.ndarray and isinstance(g, np.generic):
                g = np.asarray(g)  # arithmetic on 0-d arrays gives NumPy scalars; rules expect arrays
            if node._hooks and node not in boundary:
                g = run_hooks(node, g)
                own.discard(node)  # a hook may have kept what it was shown
            if wanted is not None and node in wanted:
                found[node] = g if isinstance(g, Node) or node in own else copied(g)
            if node._operation is None:
                leaves.append((node, g, node in own))
            elif node not in boundary:
                if lent is not None:
                    lent.note(node, g)
                if plainly and node._gradient is None and not versions.renewed:
                    node._gradient, node._grad_is_shared = g, True  # what `keep` does
                elif wanted is None:
                    keep(node, g)
                if not (plainly and fast_rules.pull_back(node, g, pending, own)):
                    walk.pull_back(node, g)
                if not retain_graph:
                    node._inputs = ()
    for node in rewritten:
        versions.forget_consumed(node)
    # Leaves last: if a rule or a hook fails half-way, no parameter has half of its gradient.
    g = None
    if wanted is None:
        deposit(leaves)
    return found


class Lent:
    """Arrays that a person gives a walk as gradients, and may write into when it is done.

    Rules only read what they are given, a leaf gets a copy, and most nodes are gone after the walk: so mostly no other
    copy is needed. A node that keeps such an array, or a view of it, and that somebody holds when the walk is done,
    gets its copy then (`give_back`).
    """

    __slots__ = ("_arrays", "_keepers", "_owners")

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = arrays  # as long as this, so that the ids stay theirs
        self._owners = {id(owner_of(array)) for array in arrays}
        self._keepers: list[weakref.ref[Node]] = []

    @staticmethod
    def suits(array: Array, root: Node) -> bool:
        """Tell whether an array is one that rules compute on right away, and a copy would take longer than all this."""
        if array.__class__ is not root._array.__class__ or recordings:
            return False
        return array.size >= LARGE if array.__class__ is np.ndarray else is_of_device(array)

    def may_be_lent(self, order: Iterable[Node]) -> bool:
        """Tell whether these nodes leave the arrays as they are until the walk is done.

        Code of a person's, in hooks and rules, may write into what it gets or knows, and a leaf's `.grad` is added to.
        """
        for node in order:
            if node._hooks:
                return False
            if node._operation is None:
                if node._gradient is not None and id(owner_of(node._gradient)) in self._owners:
                    return False
            elif not node._operation.gives_own_arrays and node._operation is not SELECT:
                return False
        return True

    def note(self, node: Node, g: Array) -> None:
        """Note that a node keeps a gradient. (Nobody can ask for that of a Bundle, which is a list.)"""
        if id(owner_of(g)) in self._owners:
            self._keepers.append(weakref.ref(node))

    def give_back(self, drop: bool) -> None:
        """Let nodes that somebody holds keep copies instead; drop: nothing."""
        copies: dict[int, Array] = {}
        for keeper in self._keepers:
            node = keeper()
            g = None if node is None else node._gradient
            if node is None or g is None or id(owner_of(g)) not in self._owners:
                continue
            if drop:
                node._gradient = None
            else:
                if id(g) not in copies:
                    copies[id(g)] = copied(g)
                node._gradient = copies[id(g)]


def collect(roots: Iterable[Node], boundary: Collection[Node] = ()) -> list[Node]:
    """Return every node the roots depend on, parents before children; do not look past `boundary`.

    Why an order at all: a node may hand its gradient on only when all its children have given
    theirs. Why sorting by age gives one: an op's inputs exist before its result does.
    """
    seen = set(roots)
    stack = list(seen)
    order = []
    while stack:
        node = stack.pop()
        order.append(node)
        if node in boundary:
            continue
        inputs = versions.inputs_of(node) if versions.renewed else node._inputs
        if not inputs and node._operation is not None:
            raise RuntimeError(
                f"backward through {node._operation.name!r} a second time: the first backward() freed "
                "its graph. Run the forward again, or pass retain_graph=True to the first backward()"
            )
        for parent in inputs:
            if isinstance(parent, Node) and parent._requires_grad and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    order.sort(key=_age)
    return order


def _leaves_when_complete(order: list[Node]) -> list[Node]:
    """Return the same order with each leaf whose hooks wait for it behind the last that gives it a gradient.

    Leaves are the oldest of all, and would come last: but what is to be sent to other ranks shall leave early.
    """
    waiting = {n for n in order if n._operation is None and n._hooks and n._hooks.when_complete}
    moved: list[Node] = []
    for node in order:
        if node in waiting:
            continue
        for parent in node._inputs:
            if isinstance(parent, Node) and parent in waiting:
                waiting.remove(parent)
                moved.append(parent)
        moved.append(node)
    return [*waiting, *moved]


def _leading_to(wanted: Collection[Node], order: list[Node], boundary: Collection[Node]) -> set[Node]:
    """Return the nodes through which gradients reach the wanted ones."""
    useful = set(wanted)
    for node in order:
        if node not in boundary and _leads_on(node, useful):
            useful.add(node)
    return useful


def _leads_on(node: Node, useful: set[Node]) -> bool:
    return any(parent in useful for parent in node._inputs if isinstance(parent, Node))


class Walk:
    """One walk's state: the gradients that have arrived, by node, and which leaves' are nobody else's arrays.

    create_graph: rules run on Tensors instead of arrays, and so are recorded themselves.
    useful: only these nodes are served; None: all.
    """

    def __init__(self, create_graph: bool = False, useful: Collection[Node] | None = None) -> None:
        self.pending: dict[Node, Array] = {}
        self.own: set[Node] = set()
        self.create_graph = create_graph
        self.useful = useful
        self.check: Check | None = errors.gradient_check()

    def pull_back(self, node: Node, g: Array) -> None:
        """Give each parent that wants one its gradient, from `g`, the gradient of `node`."""
        op: Op = node._operation  # type: ignore[assignment]
        pending = self.pending
        if op is SELECT:
            self._give_to_bundle(node._inputs[0], node._attributes["index"], g)
            return
        for parent, contribution in zip(node._inputs, self.contributions(node, g), strict=False):
            if contribution is None:
                continue
            if contribution.__class__ is not np.ndarray:
                held = contribution._data if isinstance(contribution, Node) else contribution
                if hasattr(held, "__minitorch_gradient__"):  # of many examples (func/batched)
                    contribution = held.__minitorch_gradient__(contribution, parent, self.useful is not None)
            like, made = parent._data, contribution
            if contribution.ndim != like.ndim or contribution.shape != like.shape:
                contribution = _answer(op, "unbroadcast", unbroadcast, (contribution, like.shape), {})
            if contribution.dtype is not like.dtype and contribution.dtype != like.dtype:
                contribution = converted(complex_numbers.real_part(op, contribution, like.dtype), like.dtype)
            if self.check is not None:
                self.check(node, g, parent, contribution)
            # Out of place, because one rule may hand the same array to two parents.
            added = parent in pending
            pending[parent] = added_up(pending[parent], contribution) if added else contribution
            if parent._operation is None and (added or _is_new(op, g, made, contribution)):
                self.own.add(parent)

    def contributions(self, node: Node, g: Array) -> Sequence[Any]:
        """Return what the rules give each input, None where no gradient is wanted: for any op, in any mode."""
        op: Op = node._operation  # type: ignore[assignment]
        inputs, useful = node._inputs, self.useful
        wanted = [
            isinstance(i, Node) and i._requires_grad and (useful is None or i in useful) for i in inputs
        ]
        out: Any = node if self.create_graph else node._data
        arguments = inputs if self.create_graph else [i._data if isinstance(i, Node) else i for i in inputs]
        if isinstance(node, Bundle):
            out = select_all(node) if self.create_graph else node._data
            if not op.takes_none:
                g = Outputs(
                    np.zeros_like(o) if each is None else each for each, o in zip(g, out, strict=True)
                )
        # For an analytic function the gradient is g·conj(f'(z)) (ops/complex.py says why).
        conjugated = complex_numbers.met and complex_numbers.is_conjugated(op, g)
        if conjugated:
            g = complex_numbers.conjugate(g)
        given_to = (g, out, *arguments)
        rules = (op.joint,) if op.joint is not None else op.rules_for(len(inputs))
        if bfloat16.met and not self.create_graph and bfloat16.are_given_float32(op, rules, given_to):
            given_to = widened(given_to)
        if op.joint is not None:
            answers = _answer(op, "joint", op.joint, given_to, node._attributes)
        else:
            answers = [
                _answer(op, i, rule, given_to, node._attributes) if want and rule is not None else None
                for i, (rule, want) in enumerate(zip(rules, wanted, strict=False))
            ]
        given = [answer if want else None for answer, want in zip(answers, wanted, strict=False)]
        return [None if a is None else np.conjugate(a) for a in given] if conjugated else given

    def _give_to_bundle(self, bundle: Node, index: int, g: Array) -> None:
        """Put the gradient of one result where those of its siblings are gathered."""
        gathered = self.pending.setdefault(bundle, Outputs([None] * len(bundle._data)))
        gathered[index] = g if gathered[index] is None else added_up(gathered[index], g)


def _answer(
    op: Op, which: int | str, rule: Callable[..., Any], args: tuple[Any, ...], attributes: dict[str, Any]
) -> Any:
    """Run a rule; on arrays that cannot compute it as it is written, in their way."""
    try:
        if recordings and (active := current().recorder) is not None:
            return active.run_op(op, which, rule, args, attributes)
        return rule(*args, **attributes)
    except errors.AnotherWay as way:
        return way.run(rule, args, attributes, f"the derivative of {op.name}")


def _is_new(op: Op, g: Array, made: Array, contribution: Array) -> bool:
    """Tell whether nobody else holds what is given to a leaf: it is neither g (or one of them) nor a view of anything.

    made: what the rule has given; that may be summed up, cast, or looked at in another shape.
    """
    if not op.gives_own_arrays:
        return False
    if contribution is not made and getattr(contribution, "base", g) is None:
        return True
    if getattr(made, "base", g) is not None:
        return False
    return not any(made is each for each in (g if isinstance(g, list) else (g,)))


class rules_may_run:
    """Run rules quietly, and recorded only if asked for."""

    def __init__(self, create_graph: bool) -> None:
        self.create_graph = create_graph

    def __enter__(self) -> None:
        self.outer, self.token = current(), hush()
        switch(self.outer._replace(enabled=self.create_graph))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        switch(self.outer)
        restore(self.token)
        if isinstance(error, MemoryError):
            raise gpu.out_of_memory("backward", error) from None


# --- keeping gradients ------------------------------------------------------------------------------------


def keep(node: Node, g: Array) -> None:
    """Add a gradient to a node's own. Out of place: `g` may be another node's gradient too."""
    if recordings:
        node._grad = g if node._grad is None else node._grad + g
    elif not versions.renewed or not versions.is_old(node):
        # (Nobody can ask for the gradient of an old version.)
        node._gradient = g if node._gradient is None else added_up(node._gradient, g)
    node._grad_is_shared = True


_depositing = threading.RLock()


def deposit(gradients: list[tuple[Node, Array, bool]]) -> None:
    """Add gradients to the `.grad` of tensors, each with whether it is nobody else's array; tell their hooks."""
    tensors = [tensor for tensor, _, _ in gradients]
    with _depositing:  # threads may share parameters
        while gradients:
            tensor, g, own = gradients.pop()
            held = own_gradient(tensor)
            if held is None:
                tensor._grad = g if own else copied(g)
            elif hasattr(held, "__decide__") or (isinstance(held, np.ndarray) and held.flags.writeable):
                # In place, also where it is recorded: whoever holds the array sees the sum.
                np.add(held, g, out=held)
                if held.__class__ is np.ndarray:
                    touch(held, "x.grad += …")
            elif gpu.is_on_gpu(held) and all(
                step or n == 1 for step, n in zip(held.strides, held.shape, strict=True)
            ):
                if held.dtype.itemsize == 2:  # (of which bfloat16 is the kernels' alone)
                    held[...] = ADD.forward(held, g)
                else:
                    np.add(held, g, out=held)
                touch(held, "x.grad += …")
            else:
                tensor._grad = ADD.forward(held, g)
            tensor._grad_is_shared = False
    for tensor in tensors:
        if tensor._hooks:
            run_post_hooks(tensor)


def own_gradient(node: Node) -> Any:
    """Return a node's gradient as an array that is nobody else's, or None."""
    if node._grad is not None and node._grad_is_shared:
        # The engine hands one array to several nodes (add gives the same g to both parents),
        # or a view of one. Whoever looks gets an array of their own to write into.
        node._grad = copied(node._grad)
        node._grad_is_shared = False
    return node._grad


def step_back(node: Node) -> None:
    """Add a node's contribution to its parents' `.grad`: one step of the chain rule."""
    if node._operation is None or node._grad is None:
        return
    walk = Walk()
    g = own_gradient(node)
    if node._operation is SELECT:
        # One of several results: the op gets this gradient, and none for the others.
        walk.pull_back(node, g)
        node, g = walk.pending.popitem()
    versions.inputs_of(node)
    walk.pull_back(node, g)
    for parent, contribution in walk.pending.items():
        keep(parent, np.asarray(contribution) if isinstance(contribution, np.generic) else contribution)
