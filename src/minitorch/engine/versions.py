"""Versions: what a tensor was before it was written into, and views that follow their base.

Enters: nodes that are written into, and views as they are made. Leaves: for every op the very version of each
input that it was given.

A write into a tensor of the graph makes the same object the result of a new op, so every name for it sees the new
value. What it was lives on as a version: a node without a name, in the tensor's history. An op that was recorded
before the write still lists the tensor among its inputs; by its own time the walk backwards finds the version it
was given (`inputs_of`). Nothing depends on who else holds the tensor.

A view (a reshape, a slice) shares its base's memory, so a write into either is seen by both. Its place in the graph
follows when it is next used: if the base was written into since, the view becomes the same op on the base as it is
now (`synced`). The values a version had are gone; a rule that needs them is refused in backward, by name. Where a leaf
is told to require grad after a view of it was taken, the view requires grad too, as a leaf of its own: it may not be
written into, and its gradient does not reach the base.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import attention, current
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.recording import recordings
from minitorch.engine.watch import owner_of, tick, touch
from minitorch.ops.op import Op


class View(NamedTuple):
    """Whose memory a tensor looks at, and how: `op(base, **attributes)`.

    op: None for one of several results (split, unbind). recorded: whether it was made while ops were recorded.
    """

    base: Any
    op: Op | None
    attributes: dict[str, Any]
    recorded: bool


class Past:
    """What writes made of a node: the versions it had, and how it ended, if it is an old version itself."""

    __slots__ = ("base_of_views", "ended", "history", "overwritten")

    def __init__(self) -> None:
        self.history: Any = ()  # when each version began, and the version
        self.ended: int | None = None  # when this version ended
        self.overwritten = True  # whether its values are gone then
        self.base_of_views: Any = None  # the node its views look at instead, if any


# Filled when a tensor of the graph is first written into, and when one is that others look at: from then on the walk
# looks for versions, and views are brought up to date when they are used. Other programs pay for neither.
renewed: list[bool] = []
rebased: list[int] = []  # the time of the latest such write

_first = itemgetter(0)
# In place of a view: others look at this node's memory, which is its own.
VIEWED = ()
# Likewise: this node looks at another's memory, and what is written through it is not noticed: PyTorch's `x.data`.
UNNOTICED = frozenset[Any]()
# Likewise: in PyTorch this would look at another's memory, here it is a copy, which nobody may write into.
COPY = "copy"


def note_view(out: Any, base: Any, op: Op | None, attributes: dict[str, Any], recorded: bool) -> None:
    """Note that a result looks at its input's memory, if it does."""
    memory, own = getattr(base, "_data", None), out._array
    if memory is not None and owner_of(own) is owner_of(memory):
        # The real part of a complex tensor has no op that leads back into it.
        op = op if own.dtype == memory.dtype else None
        # Of a recorded op the base is enough: the node itself knows the op.
        out._view = base if out._requires_grad and op is not None else (base, op, attributes, recorded)
        note_viewed(base)


def note_viewed(node: Any) -> None:
    """Note that others look at a tensor's memory."""
    if node._view is None:
        node._view = VIEWED


def is_view(node: Any) -> bool:
    """Tell whether a tensor looks at another's memory."""
    view = node._view
    return view is not None and view is not VIEWED and view is not UNNOTICED and view is not COPY


def note_write(node: Any, spelling: str) -> None:
    """Note that a tensor's memory was written into, unless that was through PyTorch's `x.data`, which tells nobody."""
    base = node
    while (view := view_of(base)) is not None:
        base = view.base
    if base._view is not UNNOTICED:
        touch(node._data, spelling)


def view_of(node: Any) -> View | None:
    """Return whose memory a tensor looks at, and how; None if it is its own."""
    if not is_view(node):
        return None
    view = node._view
    return View(view, node._operation, node._attributes, True) if isinstance(view, Node) else View(*view)


def _past_of(node: Any) -> Past:
    if not hasattr(node, "_past"):
        node._past = Past()
    return node._past


def is_old(node: Any) -> bool:
    """Tell whether a node is an old version of a tensor."""
    return hasattr(node, "_past") and node._past.ended is not None


def copy_past(node: Any, copied: Any) -> None:
    """Give the copy of a node a history of its own."""
    if hasattr(node, "_past"):
        past = copied._past = Past()
        past.history = list(node._past.history)


def previous(node: Any) -> Any:
    """Return a node that is what `node` is now: same array, same place in the graph. Hooks go with it."""
    before = new_tensor(node._data, node._operation, node._inputs, node._attributes)
    before._requires_grad = node._requires_grad
    before._time = node._time
    return before


def renew(
    node: Any,
    before: Any,
    op: Op | None,
    inputs: tuple[Any, ...],
    attributes: dict[str, Any],
    overwritten: bool = True,
    base_of_views: Any = None,
) -> None:
    """Give `node` another place in the graph: the result of `op`, or a leaf. What it was is now `before`."""
    if recordings and (recorder := current().recorder) is not None:
        recorder.renewing(node)
    before._hooks, node._hooks = node._hooks, None  # they asked for the gradient of what it was
    node._operation = op
    node._inputs = inputs
    node._attributes = attributes
    node._requires_grad = op is not None
    node._time = tick()
    end, past = _past_of(before), _past_of(node)
    end.ended, end.overwritten, end.base_of_views = node._time, overwritten, base_of_views
    past.history = past.history or []
    past.history.append((before._time, before))
    if not renewed:
        renewed.append(True)
    if node._view is not None:
        let_views_follow(node._time)


def let_views_follow(time: int) -> None:
    """Have views made before a time brought up to date when they are used."""
    if not rebased:
        attention.append("views")
    rebased[:] = [time]


def take_place(node: Any, before: Any, result: Any) -> None:
    """Give `node` the place that `result`, which was written into its memory, has in the graph."""
    _refer_to(before, node, result)
    renew(node, before, result._operation, result._inputs, result._attributes)


def _refer_to(before: Any, node: Any, result: Any) -> None:
    """Let the ops behind `result` that were given `node` refer to what it was: in `x -= x.mean()` the mean.

    They would find it by their time; but x would hold itself, and be freed by the garbage collector alone. Views of x
    among them (`x[0] = x[1]`) hold it too, as their base: a version of each takes its place, which does not.
    """
    instead: dict[int, Any] = {id(node): before}
    waiting, seen = [result], set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, Node) or each._time <= before._time or each is node or id(each) in seen:
            continue
        seen.add(id(each))
        for i in inputs_of(each):
            if isinstance(i, Node) and id(i) not in instead and not i._hooks and view_of(i) is not None:
                instead[id(i)] = previous(i) if base_of(i) is base_of(node) else i
        if any(id(i) in instead for i in each._inputs):
            each._inputs = tuple(instead.get(id(i), i) for i in each._inputs)
        waiting += each._inputs


def base_of(node: Any) -> Any:
    """Return the tensor whose own memory a node looks at."""
    while (view := view_of(node)) is not None:
        node = view.base
    return node


def look_anew(node: Any, op_on: Callable[[Any], Any]) -> None:
    """Let a node be another view of its memory: values stay, shape and place in the graph are the view's."""
    base = previous(node)  # what it was; from now on its other views look at this
    base._view = view_of(node)
    view = op_on(base)
    if view is not base:
        node._data = view._data
        renew(node, base, view._operation, view._inputs, view._attributes, False, base)
        node._view = view_of(view)


def as_of(node: Any, time: int) -> Any:
    """Return the version of a node that an op recorded at `time` was given."""
    version = _old_version(node, time)
    if version is None:
        raise RuntimeError(
            "backward a second time: the first backward() freed the version that an op was given of a tensor of shape "
            f"{tuple(node._array.shape)}, which was written into since. Pass retain_graph=True to the first backward()"
        )
    return version


def _ended(node: Any, time: int) -> Any:
    """Return the version in a node's history that was at a time; None if a backward has freed it."""
    history = node._past.history
    place = bisect_right(history, time, key=_first)
    version = history[place - 1][1] if place else None
    return None if version is None or version._past.ended < time else version


def _old_version(node: Any, time: int) -> Any:
    """Return what a node was at a time before it was last written into; None if a backward has freed it."""
    # More than once: a base of views may have been written into since.
    while node is not None and node._time > time:
        node = _ended(node, time)
    return node


def inputs_of(node: Any) -> tuple[Any, ...]:
    """Return what a node's op was given: of inputs that were written into since, the version of then."""
    time = node._time
    for each in node._inputs:
        if isinstance(each, Node) and (each._time > time or (rebased and synced(each, False)._time > time)):
            node._inputs = tuple(as_of(i, time) if isinstance(i, Node) else i for i in node._inputs)
            break
    return node._inputs


def forget_consumed(node: Any) -> None:
    """Let go of versions that a backward has consumed, and of constants from before these."""
    history = node._past.history
    consumed = [i for i, (_, v) in enumerate(history) if v._operation is not None and not v._inputs]
    if consumed:
        node._past.history = [
            entry
            for i, entry in enumerate(history)
            if (entry[1]._operation is None and (i == 0 or i > consumed[-1])) or entry[1]._inputs
        ]


def synced(node: Any, strictly: bool = True) -> Any:
    """Bring a view up to date: if its base was written into since, it is now the same view of the new version.

    strictly: refuse views that cannot follow; else they are left as they are.
    """
    views = []
    base = node
    while rebased and base._time < rebased[0] and (view := view_of(base)) is not None:
        views.append(base)
        base = view.base
    while views:
        _follow(views.pop(), strictly)
    return node


def _follow(node: Any, strictly: bool) -> None:
    """Bring a view up to date with its base, which is."""
    view: Any = view_of(node)
    base = view.base
    if base._time <= node._time:
        # The base of a view that was never recorded may have been told to require grad since: then the view does too.
        if node._operation is None and base._requires_grad and kind_of(node._array.dtype) in "fc":
            node._requires_grad = True
        return
    version = _ended(base, node._time)
    ended = Past() if version is None else version._past
    if ended.base_of_views is not None:  # the base only changed its shape (unsqueeze_)
        node._view = view._replace(base=synced(ended.base_of_views, strictly))
        _follow(node, strictly)
    elif not ended.overwritten and not base._requires_grad:
        pass  # the base was cut off from its graph (detach_): the view was not
    elif owner_of(base._data) is not owner_of(node._data):
        node._view = None  # the base was given other memory: a view no more
    elif strictly or (view.op is not None and view.recorded):
        check_may_follow(view, "its base, or another view of it, was written into in place")
        op, inputs = (view.op, (base,)) if base._requires_grad else (None, ())
        node._view = view
        renew(node, previous(node), op, inputs, view.attributes)


def check_may_follow(view: View, why: str) -> None:
    """Refuse views whose place in the graph cannot follow a write, as PyTorch does."""
    if view.op is None:
        raise RuntimeError(
            f"in-place writing: this tensor is one of several results of one op (split, chunk, unbind, iterating over "
            f"a tensor) or a part of a complex one, and {why}; take it by an index (x[i], x[a:b]), or clone() it"
        )
    if not view.recorded:
        raise RuntimeError(
            f"in-place writing: this tensor is a view made under no_grad, and {why} while ops are recorded; make the "
            "view outside no_grad, or write inside it"
        )
