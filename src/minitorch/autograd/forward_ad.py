"""Dual numbers: a tensor, and how it moves; torch.autograd.forward_ad's spelling of forward mode.

Enters: tensors and their tangents, inside `with dual_level():`. Leaves: results, which carry a tangent too. Ops record
their graph from the duals on, as for backward; asking for a result's tangent walks it forwards (engine/tangents.py), at
about the cost of the forward pass. What is detached, or computed under a no_grad inside the level, carries none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import enable_grad, is_grad_enabled
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.tangents import push, reaches_beyond
from minitorch.ops.op import Op
from minitorch.ops.tangents import linear

# A dual is its primal, with a place of its own in the graph.
DUAL = Op("make_dual", lambda x: x.view(), lambda g, out, x: g, register=False)
DUAL.tangent = linear(DUAL)


class UnpackedDualTensor(NamedTuple):
    """A tensor, and how it moves; None: it does not."""

    primal: Any
    tangent: Any


class _Level:
    """The tangents given in a level, by the dual; and whether results shall be part of a graph outside."""

    def __init__(self) -> None:
        self.tangents: dict[Node, Any] = {}
        self.recorded = is_grad_enabled()


_levels: list[_Level] = []  # the one that is open, if any


def enter_dual_level() -> int:
    """Begin a level, in which duals can be made; return its number.

    >>> level = enter_dual_level()
    >>> exit_dual_level(level=level)
    """
    if _levels:
        raise RuntimeError(
            "dual_level: levels do not nest; for derivatives of derivatives nest func.jvp, or use autograd.grad inside"
        )
    _levels.append(_Level())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: its duals carry no tangent any more."""
    if not _levels:
        raise RuntimeError("exit_dual_level: no level is open; write `with dual_level():` around it")
    _levels.pop()


class dual_level:
    """A context in which tensors may carry tangents.

    >>> import minitorch
    >>> with dual_level():
    ...     x = make_dual(minitorch.tensor([1.0, 2.0]), minitorch.tensor([1.0, 10.0]))
    ...     unpack_dual(x * x).tangent
    tensor([ 2., 40.])
    """

    def __enter__(self) -> int:
        number = enter_dual_level()
        self._recording = enable_grad()  # under no_grad, too: tangents go along what is recorded
        self._recording.__enter__()
        return number

    def __exit__(self, *exception: object) -> None:
        self._recording.__exit__(*exception)
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Return the tensor with a tangent, which must be of its shape and dtype."""
    if not _levels:
        raise RuntimeError("make_dual: no level is open; write `with dual_level():` around it")
    for what, given in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(given, Node) or kind_of(given._data.dtype) not in "fc":
            raise ValueError(f"make_dual: {what} must be a floating-point or complex Tensor, got {given!r}")
    if tensor._data.shape != tangent._data.shape or tensor._data.dtype != tangent._data.dtype:
        raise RuntimeError(
            f"make_dual: a tangent is like its tensor, of shape {tuple(tensor._data.shape)} and {tensor._data.dtype}; "
            f"got {tuple(tangent._data.shape)} and {tangent._data.dtype}"
        )
    dual = new_tensor(tensor._data, DUAL, (tensor,))
    _levels[-1].tangents[dual] = tangent
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a tensor, and its tangent; None if it does not depend on a dual."""
    if not isinstance(tensor, Node):
        raise TypeError(f"unpack_dual: expected a Tensor, got {type(tensor).__name__}")
    if not _levels or not _levels[-1].tangents or not tensor._requires_grad:
        return UnpackedDualTensor(tensor, None)
    duals, outside = _levels[-1].tangents, _levels[-1].recorded and is_grad_enabled()
    graph = outside and (reaches_beyond([tensor], ()) or any(t._requires_grad for t in duals.values()))
    (tangent,) = push([tensor], {d: t if graph else t._data for d, t in duals.items()}, graph)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tangent, Node):
        tangent = new_tensor(np.array(tangent) if tensor in duals else tangent)
    return UnpackedDualTensor(tensor if graph else new_tensor(tensor._data), tangent)


__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual",
]  # fmt: skip
