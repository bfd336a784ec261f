"""The node and the engine: how a computation is recorded, and walked backwards.

Enters: an Op and its inputs (`apply`), or a result to differentiate (`backpropagate`).
Leaves: a new Tensor that remembers how it was made; gradients.

A node's graph is data (the op, its inputs, its attributes), not a closure over the result: a closure
that captures `out` while `out` holds the closure is a reference cycle, and nothing would be freed
without the garbage collector.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine import errors, plain, watch
from minitorch.engine.dtypes import get_default_dtype
from minitorch.engine.modes import Mode, current, switch
from minitorch.engine.quiet import hush, restore
from minitorch.engine.recording import changed, recordings
from minitorch.engine.watch import exposed, is_exposed, tick
from minitorch.ops.op import ANALYTIC, REFUSED, Array, Op, unbroadcast

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

# The class of results; tensor.py, which builds on this file, fills it in.
tensor_class: Any = None

ndarray = np.ndarray

# Assert the shape and dtype contract after every rule (see autograd/debug.py).
debug = False


class Node:
    """What every Tensor is to the engine: an array, its gradient, and how it was made.

    data: the array. grad: an array of the same shape and dtype, or None.
    requires_grad: whether gradients flow here. `_prev`: the parents, empty when not tracking.
    `_op`: the op's name. `_backward`: adds this node's contribution to its parents' grad.
    """

    __slots__ = (
        "__weakref__",
        "_array",  # what `_data` shows, unless a recording shows something in its place
        "_attributes",  # the op's keyword arguments
        "_grad_is_shared",  # `_grad` may be someone else's array too: copy before handing it out
        "_gradient",  # what `_grad` shows, likewise
        "_hooks",
        "_inputs",  # what the op was given: Tensors, Python numbers; empty when consumed
        "_operation",  # the Op, None for a leaf
        "_requires_grad",
        "_time",  # when it was made: parents are older than their children
    )

    _array: Any
    _attributes: dict[str, Any]
    _grad_is_shared: bool
    _gradient: Any
    _hooks: Hooks | None
    _inputs: tuple[Any, ...]
    _operation: Op | None
    _requires_grad: bool
    _time: int

    # Equality is element by element (tensor.py), so hashing must not follow it: two tensors of
    # equal content are two nodes of the graph.
    __hash__ = object.__hash__

    # While a function is being recorded (compiler/trace), the recording's own thread is shown a Traced in place of
    # each array. The engine's short paths read `_array` itself, after they saw that nobody records.

    @property
    def _data(self) -> Any:
        if recordings and (recorder := current().recorder) is not None:
            return recorder.read_data(self)
        return self._array

    @_data.setter
    def _data(self, array: Any) -> None:
        if recordings and (recorder := current().recorder) is not None:
            recorder.write_data(self, array)
        else:
            self._array = array

    @property
    def _grad(self) -> Any:
        if recordings and (recorder := current().recorder) is not None:
            return recorder.read_grad(self)
        return self._gradient

    @_grad.setter
    def _grad(self, gradient: Any) -> None:
        if recordings and (recorder := current().recorder) is not None:
            recorder.write_grad(self, gradient)
        else:
            self._gradient = gradient

    @property
    def data(self) -> np.ndarray:
        """The array itself: no copy. What is written into it is seen by the tensor."""
        watch.expose(self._data)
        return plain.handed_out(self._data)

    @data.setter
    def data(self, value: Any) -> None:
        array = value._data if isinstance(value, Node) else plain.taken_back(value)
        if not hasattr(array, "__array_function__") or isinstance(array, np.generic):
            array = np.asarray(array, dtype=self._data.dtype)
        _check_differentiable(self._requires_grad or array.dtype.kind == "c", array)
        # `p.data -= step` ends here with the same array: it was written into, not replaced.
        watch.touch(array if array is self._data else self)
        if not isinstance(value, Node):
            watch.share(array)
        self._data = array
        if self._grad is not None and (self._grad.shape != array.shape or self._grad.dtype != array.dtype):
            self._grad = None

    @property
    def grad(self) -> np.ndarray | None:
        """The gradient accumulated by backward(): an array like `data`, or None."""
        return plain.handed_out(own_gradient(self))

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._grad = None
            return
        gradient = plain.taken_back(value.data if isinstance(value, Node) else value)
        if not hasattr(gradient, "__array_function__"):
            gradient = np.asarray(gradient, dtype=self._data.dtype)
        if gradient.shape != self._data.shape:
            raise RuntimeError(
                f"grad: a gradient has its tensor's shape {self._data.shape}, but got {gradient.shape}; "
                "sum it over the broadcast axes first (minitorch.ops.unbroadcast)"
            )
        if gradient.dtype != self._data.dtype:
            gradient = gradient.astype(self._data.dtype)
        self._grad = gradient
        self._grad_is_shared = isinstance(gradient, np.generic)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow here."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        _check_differentiable(wanted, self._data)
        if self._operation is not None and not wanted:
            raise RuntimeError(
                "requires_grad: only a leaf's flag can be changed; write x.detach() to cut it off"
            )
        self._requires_grad = bool(wanted)
        changed()

    @property
    def _prev(self) -> tuple[Tensor, ...]:
        return tuple(i for i in self._inputs if isinstance(i, Node))  # type: ignore[misc]

    @property
    def _op(self) -> str:
        return "" if self._operation is None else self._operation.name

    def _backward(self) -> None:
        """Add this node's contribution to its parents' grad: one step of the chain rule."""
        if self._operation is not None and self._grad is not None:
            contributions: dict[Node, Array] = {}
            pull_back(self, own_gradient(self), contributions, check=current().gradient_check)
            for parent, contribution in contributions.items():
                accumulate(parent, contribution)

    @property
    def is_leaf(self) -> bool:
        """Whether a person made it, rather than a recorded op."""
        return self._operation is None


def own_gradient(node: Node) -> Any:
    """Return a node's gradient as an array that is nobody else's, or None."""
    if node._grad is not None and node._grad_is_shared:
        # The engine hands one array to several nodes (add gives the same g to both parents),
        # or a view of one. Whoever looks gets an array of their own to write into.
        alone = sys.getrefcount(node._grad) <= watch.ALONE
        gradient = node._grad
        if isinstance(gradient, np.generic):
            node._grad = np.asarray(gradient)
        elif not alone or getattr(gradient, "base", None) is not None:
            node._grad = gradient.copy()
        node._grad_is_shared = False
    return node._grad


def _check_differentiable(wanted: bool, array: Any) -> None:
    if wanted and array.dtype.kind != "f":
        if array.dtype.kind == "c":
            meet_complex()
            return
        raise RuntimeError(
            "requires_grad: only floating-point and complex tensors can require gradients, this one holds "
            f"{array.dtype}; write x.float() first"
        )


# Whether this process has met a complex tensor: a program of real numbers pays for no more than this question.
_complex = False


def meet_complex() -> None:
    """Note that there are complex tensors: from now on ops and backward look out for them."""
    global _complex
    _complex = True


def _check_complex(op: Op, arrays: Sequence[Any]) -> None:
    """Refuse complex numbers to an op that has no meaning for them (an order, a rounding)."""
    for array in arrays:
        if getattr(getattr(array, "dtype", None), "kind", "") == "c":
            raise RuntimeError(
                f"{op.name}: not offered for complex numbers ({array.dtype}); write it with x.real, x.imag or x.abs()"
            )


class Outputs(list[Any]):
    """The arrays, or the gradients (None: nobody asked yet), of an op with several results."""

    __slots__ = ()
    shape = dtype = None

    def __add__(self, other: Any) -> Outputs:
        return Outputs(
            b if a is None else a if b is None else a + b for a, b in zip(self, other, strict=True)
        )

    def copy(self) -> Outputs:
        """Return the same arrays in a list of their own."""
        return Outputs(self)


class Bundle(Node):
    """The hidden node of an op with several results; each result selects one item from it."""

    __slots__ = ()


# Its derivative is in `pull_back`: the gradient goes to one place of the Bundle's.
SELECT = Op("select", lambda bundle, *, index, count: bundle[index], joint=lambda *a, **k: (), register=False)


def apply(op: Op, *inputs: Any, **attributes: Any) -> Tensor:
    """Run `op` on Tensors and Python numbers, and record it if a gradient may be asked for."""
    tracked = watched = False
    arrays = []
    for each in inputs:
        if isinstance(each, Node):
            if exposed and is_exposed(each):
                watch.forget(each)
                watched = True
            arrays.append(each._data)
            if each._requires_grad:
                tracked = True
        else:
            arrays.append(each)
    if op.floating:
        for i, array in enumerate(arrays):
            if getattr(array, "dtype", _FLOAT).kind in "iub":
                arrays[i] = array.astype(get_default_dtype())
    if _complex and op.complex is REFUSED:
        _check_complex(op, arrays)
    try:
        data = op.forward(*arrays, **attributes)
    except _TROUBLE as error:
        data = second_try(op, arrays, attributes, error)
    mode = current()
    if tracked and mode.enabled and op.differentiable:
        out = new_tensor(data, op, inputs, attributes)
        if watched or (attributes and exposed):
            watch.recorded(out)
    else:
        out = new_tensor(data)
    if mode.observers:
        tell(mode, op, inputs, attributes, out)
    return out


# What a forward may raise that is ours to handle: arguments that do not fit, and NumPy's floating-point
# warnings where someone made them errors.
_TROUBLE = (*errors.EXPLAINED, RuntimeWarning, FloatingPointError)


def second_try(op: Op, arrays: Sequence[Any], attributes: dict[str, Any], error: Exception) -> Any:
    """After a forward failed: compute quietly what is merely infinite or nan, explain everything else."""
    if not isinstance(error, (RuntimeWarning, FloatingPointError)):
        raise errors.explain(op, arrays, attributes, error) from error
    token = hush()
    try:
        return op.forward(*arrays, **attributes)
    except errors.EXPLAINED as problem:
        raise errors.explain(op, arrays, attributes, problem) from problem
    finally:
        restore(token)


def tell(mode: Mode, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], out: Tensor) -> None:
    """Show a computed op to whoever looks on (detect_anomaly, checkpoint)."""
    for observer in mode.observers:
        observer(op, inputs, attributes, out)


_FLOAT = np.dtype(np.float64)
_NO_ATTRIBUTES: dict[str, Any] = {}
_new = object.__new__


def new_tensor(
    data: Any, op: Op | None = None, inputs: tuple[Any, ...] = (), attributes: dict[str, Any] = _NO_ATTRIBUTES
) -> Tensor:
    """Make a Tensor around an array, without the constructor's checks and copies."""
    out = _new(tensor_class)
    # NumPy gives a scalar where a result has no axes; a Tensor always holds an array.
    out._array = data if data.__class__ is ndarray or not isinstance(data, np.generic) else np.asarray(data)
    out._gradient = None
    out._hooks = None
    out._requires_grad = op is not None
    out._operation = op
    out._inputs = inputs
    out._attributes = attributes
    out._time = tick()
    if recordings and (recorder := current().recorder) is not None:
        recorder.write_data(out, out._array)
    return out


def apply_unary(op: Op, x: Node, attributes: dict[str, Any] = _NO_ATTRIBUTES) -> Tensor:
    """Do what `apply` does for one Tensor, at half its overhead.

    Arithmetic between small tensors is where a library like this spends its time outside NumPy; for
    this and the next function the common path is written out.
    """
    if recordings or (
        exposed and (attributes or is_exposed(x))
    ):  # attributes may hold an index others can write into
        return apply(op, x, **attributes)
    array = x._array
    if op.floating and array.dtype.kind not in "fc":
        return apply(op, x, **attributes)
    if _complex and op.complex is REFUSED:
        _check_complex(op, (array,))
    forward = op.forward  # in a name of its own: calling it as a method would look it up the slow way
    try:
        data = forward(array, **attributes) if attributes else forward(array)
    except _TROUBLE as error:
        data = second_try(op, (array,), attributes, error)
    mode = current()
    out = _new(tensor_class)
    out._array = data if data.__class__ is ndarray or not isinstance(data, np.generic) else np.asarray(data)
    out._gradient = None
    out._hooks = None
    if x._requires_grad and mode.enabled and op.differentiable:
        out._requires_grad = True
        out._operation = op
        out._inputs = (x,)
        out._attributes = attributes
    else:
        out._requires_grad = False
        out._operation = None
        out._inputs = ()
        out._attributes = _NO_ATTRIBUTES
    out._time = tick()
    if attributes and exposed and out._requires_grad:
        watch.recorded(out)  # an index array among them may be a person's
    if mode.observers:
        tell(mode, op, (x,), attributes, out)
    return out


def apply_binary(op: Op, a: Node, b: Node) -> Tensor:
    """Do what `apply` does for two Tensors of one dtype and no attributes, at half its overhead."""
    if recordings or (exposed and (is_exposed(a) or is_exposed(b))):
        return apply(op, a, b)
    array = a._array
    if op.floating and array.dtype.kind not in "fc":
        return apply(op, a, b)
    if _complex and op.complex is REFUSED:
        _check_complex(op, (array, b._array))
    forward = op.forward
    try:
        data = forward(array, b._array)
    except _TROUBLE as error:
        data = second_try(op, (array, b._array), {}, error)
    mode = current()
    out = _new(tensor_class)
    out._array = data if data.__class__ is ndarray or not isinstance(data, np.generic) else np.asarray(data)
    out._gradient = None
    out._hooks = None
    if (a._requires_grad or b._requires_grad) and mode.enabled and op.rules:
        out._requires_grad = True
        out._operation = op
        out._inputs = (a, b)
    else:
        out._requires_grad = False
        out._operation = None
        out._inputs = ()
    out._attributes = _NO_ATTRIBUTES
    out._time = tick()
    if mode.observers:
        tell(mode, op, (a, b), {}, out)
    return out


def apply_with_number(op: Op, a: Any, b: Any, tensor: Node) -> Tensor:
    """Do what `apply` does for a Tensor of floats, which is a or b, and a Python number, at less overhead."""
    if recordings or (exposed and is_exposed(tensor)):
        return apply(op, a, b)
    x, y = (tensor._array, b) if a is tensor else (a, tensor._array)
    forward = op.forward
    try:
        data = forward(x, y)
    except _TROUBLE as error:
        data = second_try(op, (x, y), {}, error)
    mode = current()
    tracked = tensor._requires_grad and mode.enabled and op.differentiable
    out = new_tensor(data, op, (a, b)) if tracked else new_tensor(data)
    if mode.observers:
        tell(mode, op, (a, b), {}, out)
    return out


def apply_many(op: Op, *inputs: Any, **attributes: Any) -> tuple[Tensor, ...]:
    """Run an op whose forward gives several arrays; its rules receive all their gradients at once."""
    arrays = []
    for each in inputs:
        if isinstance(each, Node):
            if exposed and is_exposed(each):
                watch.forget(each)
            arrays.append(each._data)
        else:
            arrays.append(each)
    if _complex and op.complex is REFUSED:
        _check_complex(op, arrays)
    try:
        results = tuple(op.forward(*arrays, **attributes))
    except _TROUBLE as error:
        results = tuple(second_try(op, arrays, attributes, error))
    mode = current()
    if mode.enabled and any(isinstance(i, Node) and i._requires_grad for i in inputs):
        outs = bundle_outputs(op, inputs, attributes, results)
    else:
        outs = tuple(new_tensor(data) for data in results)
    if mode.observers:
        for out in outs:
            tell(mode, op, inputs, attributes, out)
    return outs


plain.make_tensor, plain.tensor_class = (lambda array: new_tensor(array)), (lambda: tensor_class)


def bundle_outputs(
    op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], results: Sequence[Any]
) -> tuple[Tensor, ...]:
    """Record an op with several results: one Bundle, and a Tensor per result that selects from it."""
    bundle = Bundle()
    bundle._array = Outputs(results)
    bundle._gradient = None
    bundle._hooks = None
    bundle._requires_grad = True
    bundle._operation = op
    bundle._inputs = inputs
    bundle._attributes = attributes
    bundle._time = tick()
    if recordings and (recorder := current().recorder) is not None:
        recorder.write_data(bundle, bundle._array)
    if exposed:
        watch.recorded(bundle)
    return _select_all(bundle)


def _select_all(bundle: Bundle) -> tuple[Tensor, ...]:
    outs = []
    for index, data in enumerate(bundle._data):
        differentiable = data.dtype.kind in "fc"
        recipe = (SELECT, (bundle,), {"index": index, "count": len(bundle._data)}) if differentiable else ()
        outs.append(new_tensor(data, *recipe))
    return tuple(outs)


def pull_back(
    node: Node,
    g: Array,
    pending: dict[Node, Array],
    create_graph: bool = False,
    useful: Collection[Node] | None = None,
    check: Callable[[Node, Array, Node, Array], None] | None = None,
) -> None:
    """Give each parent that wants one its gradient, from `g`, the gradient of `node`.

    The contributions are added up in `pending`, by parent; out of place, because one rule
    may hand the same array to two parents. With `create_graph` the rules run on Tensors instead of
    arrays, and so are recorded themselves. With `useful` only parents among these are served.
    `check` sees each gradient as it is computed.
    """
    op: Op = node._operation  # type: ignore[assignment]
    inputs = node._inputs
    attributes = node._attributes
    if op is SELECT:
        _give_to_bundle(inputs[0], attributes["index"], g, pending)
        return
    rules: Any = op.rules
    count = len(inputs)
    if _complex and op.complex is ANALYTIC and _is_complex(g):
        # For an analytic function the gradient is g·conj(f'(z)) (ops/complex.py says why).
        found = _contributions(node, _conjugate(g), create_graph, useful)
        contributions: Sequence[Any] = [None if each is None else np.conjugate(each) for each in found]
    elif (
        create_graph
        or useful is not None
        or recordings
        or not op.plain
        or count != len(rules)
        or node.__class__ is Bundle
    ):
        contributions = _contributions(node, g, create_graph, useful)
    elif count == 1:
        rule, x, out = rules[0], inputs[0]._array, node._array
        contributions = (rule(g, out, x, **attributes) if attributes else rule(g, out, x),)
    elif attributes:
        contributions = _contributions(node, g, create_graph, useful)
    else:
        # Two inputs, the commonest of all: without a list of arguments.
        a, b = inputs
        if isinstance(a, Node):
            x, first = a._array, a._requires_grad
        else:
            x, first = a, False
        if isinstance(b, Node):
            y, second = b._array, b._requires_grad
        else:
            y, second = b, False
        left, right = rules
        out = node._array
        contributions = (left(g, out, x, y) if first else None, right(g, out, x, y) if second else None)
    for position, contribution in enumerate(contributions):
        if contribution is None:
            continue
        parent = inputs[position]
        data = parent._array  # for its shape and dtype
        if contribution.shape != data.shape:
            contribution = unbroadcast(contribution, data.shape)
        if contribution.dtype is not data.dtype:
            contribution = _fitted(op, contribution, data.dtype)
        if debug:
            errors.check_contract(op, parent, contribution)
        if check is not None:
            check(node, g, parent, contribution)
        if parent in pending:
            pending[parent] = pending[parent] + contribution
        else:
            pending[parent] = contribution


def _is_complex(g: Any) -> bool:
    if isinstance(g, Outputs):
        return any(each is not None and each.dtype.kind == "c" for each in g)
    return g.dtype.kind == "c"


def _conjugate(g: Any) -> Any:
    if isinstance(g, Outputs):
        return Outputs(None if each is None else _conjugate(each) for each in g)
    conjugate = np.conjugate(g)
    return np.asarray(conjugate) if isinstance(conjugate, np.generic) else conjugate


def _fitted(op: Op, contribution: Array, dtype: Any) -> Array:
    """Return a gradient in its tensor's dtype; a real tensor gets the real part of a complex one."""
    if contribution.dtype.kind == "c" and dtype.kind != "c":
        if not _complex or op.complex is REFUSED:
            raise errors.unexpected_complex(op)
        contribution = contribution.real
    return contribution.astype(dtype)


def _contributions(
    node: Node, g: Array, create_graph: bool, useful: Collection[Node] | None
) -> Sequence[Any]:
    """Return what the rules give each input, None where no gradient is wanted: for any op, in any mode."""
    op: Op = node._operation  # type: ignore[assignment]
    inputs = node._inputs
    attributes = node._attributes
    wanted = [isinstance(i, Node) and i._requires_grad and (useful is None or i in useful) for i in inputs]
    out: Any = node if create_graph else node._data
    arguments = inputs if create_graph else [i._data if isinstance(i, Node) else i for i in inputs]
    if node.__class__ is Bundle:
        out = _select_all(node) if create_graph else node._data
        if not getattr(op.joint, "takes_none", False):
            g = [np.zeros_like(o) if each is None else each for each, o in zip(g, out, strict=True)]
    if op.joint is not None:
        gradients = op.joint(g, out, *arguments, **attributes)
        return [gradients[i] if want else None for i, want in enumerate(wanted)]
    rules = op.rules_for(len(inputs))
    return [
        rule(g, out, *arguments, **attributes) if want and rule is not None else None
        for rule, want in zip(rules, wanted, strict=False)
    ]


def _give_to_bundle(bundle: Node, index: int, g: Array, pending: dict[Node, Array]) -> None:
    """Put the gradient of one result where those of its siblings are gathered."""
    if bundle not in pending:
        pending[bundle] = Outputs([None] * len(bundle._data))
    gathered = pending[bundle]
    gathered[index] = g if gathered[index] is None else gathered[index] + g


def accumulate(node: Node, contribution: Array) -> None:
    """Add to a node's grad. Out of place: `contribution` may be another node's gradient too."""
    if node._grad is None:
        node._grad = contribution
        node._grad_is_shared = True
    else:
        node._grad = node._grad + contribution
        node._grad_is_shared = isinstance(node._grad, np.generic)


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
        inputs = node._inputs
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


_age = attrgetter("_time")


def backpropagate(
    roots: Sequence[Node],
    gradients: Sequence[Array],
    *,
    wanted: Collection[Node] | None = None,
    boundary: Collection[Node] = (),
    retain_graph: bool = False,
    create_graph: bool = False,
) -> dict[Node, Array]:
    """Walk the graph from the roots to the leaves, applying the chain rule at each node.

    Without `wanted` every node keeps its gradient in `.grad`, accumulated. With it nothing is
    written: only the paths that lead to the wanted nodes are walked, and what arrives there is
    returned. The graph is consumed on the way unless it is to be retained. What lies on the
    `boundary` belongs to an outer walk, which runs its hooks and goes on from there.
    """
    order = collect(roots, boundary)
    oldest = next((node._time for node in order if node._operation is not None), None)
    if oldest is not None:
        if exposed:
            watch.look_again(oldest)
        if oldest < watch.last_change():
            errors.check_unchanged(order, oldest, boundary)
    useful: set[Node] | None = None
    if wanted is not None:
        useful = set(wanted)
        for node in order:
            if node not in boundary and any(parent in useful for parent in node._prev):
                useful.add(node)
    pending: dict[Node, Array] = {}
    for node, g in zip(roots, gradients, strict=True):
        if g.dtype.kind == "c":
            meet_complex()
        pending[node] = pending[node] + g if node in pending else g
    found: dict[Node, Array] = {}
    leaves: list[tuple[Node, Array]] = []
    outer = current()
    check = outer.gradient_check
    token = hush()
    try:
        switch(outer._replace(enabled=create_graph))
        while order:
            node = order.pop()  # and out of the list: a node nobody else holds is freed at once
            g = pending.pop(node, None)
            if g is None:
                continue
            if g.__class__ is not ndarray and isinstance(g, np.generic):
                g = np.asarray(g)  # a sum of 0-d arrays is a NumPy scalar; rules expect arrays
            if useful is not None:
                if node not in useful:
                    continue
                useful.discard(node)
            if node._hooks and node not in boundary:
                g = run_hooks(node, g)
            if wanted is None:
                if node._operation is None:
                    leaves.append((node, g))
                    continue
                if node._gradient is None and not recordings:  # what `accumulate` does, without the call
                    node._gradient = g
                    node._grad_is_shared = True
                else:
                    accumulate(node, g)
            elif node in wanted:
                found[node] = g
            if node._operation is None or node in boundary:
                continue
            pull_back(node, g, pending, create_graph, useful, check)
            if not retain_graph:
                node._inputs = ()
    finally:
        switch(outer)
        restore(token)
    # Leaves last: if a rule or a hook fails half-way, no parameter has half of its gradient.
    g = None
    deposit(leaves)
    return found


_depositing = threading.RLock()


def deposit(gradients: list[tuple[Node, Array]]) -> None:
    """Add gradients to the `.grad` of tensors, each an array of its own, and tell their hooks."""
    tensors = [tensor for tensor, _ in gradients]
    with _depositing:  # threads may share parameters
        while gradients:
            accumulate(*gradients.pop())
        for tensor in tensors:
            own_gradient(tensor)
    for tensor in tensors:
        if tensor._hooks:
            run_post_hooks(tensor)


class Hooks:
    """A tensor's hooks: those that see a gradient on its way, and those that run once it arrived."""

    __slots__ = ("on_gradient", "when_accumulated")

    def __init__(self) -> None:
        self.on_gradient: dict[int, Callable[..., Any]] = {}
        self.when_accumulated: dict[int, Callable[..., Any]] = {}


def run_hooks(node: Node, g: Array) -> Array:
    """Show a gradient to a tensor's hooks, each of which may replace it."""
    hooks = tuple(node._hooks.on_gradient.values())  # type: ignore[union-attr]
    if hooks and not isinstance(g, Node):
        g = g.copy()  # the array may be other nodes' gradient too, and a hook may write into it or keep it
    for hook in hooks:
        answer = hook(g if isinstance(g, Node) else new_tensor(g))
        if answer is None:
            continue
        new = answer if isinstance(g, Node) else plain.taken_back(getattr(answer, "_data", answer))
        if getattr(new, "shape", None) != g.shape:
            raise RuntimeError(
                f"a hook on a tensor of shape {g.shape} returned a gradient of shape "
                f"{getattr(new, 'shape', type(new).__name__)}; return one of the same shape, or None"
            )
        g = new.astype(g.dtype)
    return g


def run_post_hooks(leaf: Node) -> None:
    """Tell a leaf's hooks that its `.grad` is ready."""
    for hook in tuple(leaf._hooks.when_accumulated.values()):  # type: ignore[union-attr]
        hook(leaf)
