"""Versions: what a tensor was before it was written into, and views that follow their base.

Enters: nodes that are written into, and views as they are made. Leaves: for every op the very version of each
input that it was given.

A write into a tensor of the graph makes the same object the result of a new op, so every name for it sees the new
value. What it was lives on as a version: a node without a name, in the tensor's history. An op that was recorded
before the write still lists the tensor among its inputs; by its own time the walk backwards finds the version it
was given (`inputs_of`). Nothing depends on who else holds the tensor.

A view (a reshape, a slice) shares its base's memory, so a write into either is seen by both. Its place in the graph
follows when it is next used: if the base was written into since, the view becomes the same op on the base as it is
now (`synced`). The values a version had are gone; a rule that needs them is refused in backward, by name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from minitorch.engine.modes import attention
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.watch import owner_of, tick
from minitorch.ops.op import Op


class View(NamedTuple):
    """Whose memory a tensor looks at, and how: `op(base, **attributes)`.

    op: None for one of several results (split, unbind). recorded: whether it was made while ops were recorded.
    """

    base: Any
    op: Op | None
    attributes: dict[str, Any]
    recorded: bool


class Superseded(NamedTuple):
    """When an old version ended, whether its values are gone, and which node its views look at instead, if any."""

    time: int
    overwritten: bool
    base_of_views: Any


# Filled when a tensor of the graph is first written into, and when one is that others look at: from then on the walk
# looks for versions, and views are brought up to date when they are used. Other programs pay for neither.
renewed: list[bool] = []
rebased: list[bool] = []

_age = attrgetter("_time")


def note_view(out: Any, base: Any, op: Op | None, attributes: dict[str, Any], recorded: bool) -> None:
    """Note that a result looks at its input's memory, if it does."""
    memory, own = getattr(base, "_data", None), out._array
    if memory is not None and (own.base is memory or own.base is getattr(memory, "base", None)):
        out._view = (base, op, attributes, recorded)
        base._viewed = True


def view_of(node: Any) -> View | None:
    """Return whose memory a tensor looks at, and how; None if it is its own."""
    return View(*node._view) if hasattr(node, "_view") else None


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
    before._hooks, node._hooks = node._hooks, None  # they asked for the gradient of what it was
    node._operation = op
    node._inputs = inputs
    node._attributes = attributes
    node._requires_grad = op is not None
    node._time = tick()
    before._superseded = Superseded(node._time, overwritten, base_of_views)
    if hasattr(node, "_history"):
        node._history.append(before)
    else:
        node._history = [before]
    if not renewed:
        renewed.append(True)
    if not rebased and (hasattr(node, "_viewed") or hasattr(node, "_view")):
        rebased.append(True)
        attention.append("views")


def take_place(node: Any, before: Any, result: Any) -> None:
    """Give `node` the place that `result`, which was written into its memory, has in the graph."""
    renew(node, before, result._operation, result._inputs, result._attributes)


def look_anew(node: Any, op_on: Callable[[Any], Any]) -> None:
    """Let a node be another view of its memory: values stay, shape and place in the graph are the view's."""
    base = previous(node)  # from now on its other views look at this
    if hasattr(node, "_view"):
        base._view = node._view
    view = op_on(base)
    if view is not base:
        before = previous(node)
        node._data = view._data
        renew(node, before, view._operation, view._inputs, view._attributes, False, base)
        node._view = view._view


def as_of(node: Any, time: int) -> Any:
    """Return the version of a node that an op recorded at `time` was given."""
    version = node if node._time <= time else _old_version(node, time)
    if version is None:
        raise RuntimeError(
            f"backward through {node._operation.name!r} a second time: the first backward() freed this version of a "
            "tensor that was written into in place. Pass retain_graph=True to the first backward()"
        )
    return version


def _old_version(node: Any, time: int) -> Any:
    """Return what a node was at a time before it was last written into; None if a backward has freed it."""
    place = bisect_right(node._history, time, key=_age)
    version = node._history[place - 1] if place else None
    return None if version is None or version._superseded.time < time else version


def inputs_of(node: Any) -> tuple[Any, ...]:
    """Return what a node's op was given: of inputs that were written into since, the version of then."""
    time = node._time
    for each in node._inputs:
        if isinstance(each, Node) and each._time > time:
            node._inputs = tuple(as_of(i, time) if isinstance(i, Node) else i for i in node._inputs)
            break
    return node._inputs


def forget_consumed(node: Any) -> None:
    """Let go of versions that a backward has consumed."""
    history = node._history
    while history and history[-1]._operation is not None and not history[-1]._inputs:
        history.pop()


def synced(node: Any) -> Any:
    """Bring a view up to date: if its base was written into since, it is now the same view of the new version."""
    views = []
    base = node
    while hasattr(base, "_view"):
        views.append(base)
        base = base._view[0]
    while views:
        _follow(views.pop())
    return node


def _follow(node: Any) -> None:
    """Bring a view up to date with its base, which is."""
    view = View(*node._view)
    base = view.base
    if base._time <= node._time:
        return
    version = _old_version(base, node._time)
    ended = Superseded(0, True, None) if version is None else version._superseded
    if ended.base_of_views is not None:  # the base only changed its shape (unsqueeze_)
        node._view = view._replace(base=synced(ended.base_of_views))
        _follow(node)
    elif not ended.overwritten and not base._requires_grad:
        pass  # the base was cut off from its graph (detach_): the view was not
    elif owner_of(base._data) is not owner_of(node._data):
        del node._view  # the base was given other memory: a view no more
    else:
        check_may_follow(view, "its base, or another view of it, was written into in place")
        op, inputs = (view.op, (base,)) if base._requires_grad else (None, ())
        renew(node, previous(node), op, inputs, view.attributes)


def check_may_follow(view: View, why: str) -> None:
    """Refuse views whose place in the graph cannot follow a write, as PyTorch does."""
    if view.op is None:
        raise RuntimeError(
            f"in-place writing: this tensor is one of several results of one op (split, chunk, unbind, iterating over "
            f"a tensor), and {why}; take the part by an index (x[i], x[a:b]) instead, or clone() it"
        )
    if not view.recorded:
        raise RuntimeError(
            f"in-place writing: this tensor is a view made under no_grad, and {why} while ops are recorded; make the "
            "view outside no_grad, or write inside it"
        )
