"""The node: what every Tensor is to the engine.

Enters: an array, and how it was made. Leaves: a `Node`. Recording an op is in record.py, walking backwards in
backward.py.

A node's graph is data (the op, its inputs, its attributes), not a closure over the result: a closure
that captures `out` while `out` holds the closure is a reference cycle, and nothing would be freed
without the garbage collector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.engine.modes import current
from minitorch.engine.recording import recordings
from minitorch.engine.watch import tick
from minitorch.ops.native import large_was_met, meet_large
from minitorch.ops.op import Op

ndarray = np.ndarray
NO_ATTRIBUTES: dict[str, Any] = {}
# The class of results: whichever class of nodes says so (Tensor).
result_class: Any = None


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
        "_past",  # what writes made of it (versions.py); not set if it was never written into
        "_requires_grad",
        "_time",  # when it was made, or last written into: parents are older than their children
        "_view",  # whose memory it looks at, or that others look at its own (versions.py); else None
    )

    _array: Any
    _attributes: dict[str, Any]
    _grad_is_shared: bool
    _gradient: Any
    _hooks: Any
    _inputs: tuple[Any, ...]
    _operation: Op | None
    _past: Any
    _requires_grad: bool
    _time: int
    _view: Any

    # Equality is element by element (tensor.py), so hashing must not follow it: two tensors of
    # equal content are two nodes of the graph.
    __hash__ = object.__hash__

    def __init_subclass__(cls, results: bool = False, **options: Any) -> None:
        """Let a class say that results of ops are of it: `class Tensor(…, results=True)`."""
        global result_class
        super().__init_subclass__(**options)
        if results:
            result_class = cls

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow here."""
        return self._requires_grad

    # While a function is being recorded (compiler/trace), the recording's own thread is shown a Traced in place of
    # each array. Where only the shape and dtype matter, and on the engine's short paths, after they saw that nobody
    # records, `_array` itself is read: a recording leaves these as they are.

    @property
    def _data(self) -> Any:
        if recordings:
            if (recorder := current().recorder) is not None:
                return recorder.read_data(self)
            for each in recordings:
                each.looked_at(self)
        return self._array

    @_data.setter
    def _data(self, array: Any) -> None:
        if recordings and (recorder := current().recorder) is not None:
            recorder.write_data(self, array)
        else:
            self._array = array

    @property
    def _grad(self) -> Any:
        if recordings:
            if (recorder := current().recorder) is not None:
                return recorder.read_grad(self)
            for each in recordings:
                each.looked_at(self)
        return self._gradient

    @_grad.setter
    def _grad(self, gradient: Any) -> None:
        if recordings and (recorder := current().recorder) is not None:
            recorder.write_grad(self, gradient)
        else:
            self._gradient = gradient


def new_tensor(
    data: Any, op: Op | None = None, inputs: tuple[Any, ...] = (), attributes: dict[str, Any] = NO_ATTRIBUTES
) -> Any:
    """Make a Tensor around an array, without the constructor's checks and copies: an op's result, or a leaf."""
    out = object.__new__(result_class)
    # NumPy gives a scalar where a result has no axes; a Tensor always holds an array.
    data = data if data.__class__ is ndarray or not isinstance(data, np.generic) else np.asarray(data)
    if not large_was_met and data.__class__ is ndarray:
        meet_large(data.size)
    write_down(out, data, op, inputs, attributes)
    return out


def write_down(
    node: Any, data: Any, op: Op | None, inputs: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    """Fill in a new node: what it holds, and how it was made."""
    node._array = data
    node._gradient = None
    node._hooks = None
    node._requires_grad = op is not None
    node._operation = op
    node._inputs = inputs
    node._attributes = attributes
    node._time = tick()
    node._view = None
    if recordings and (recorder := current().recorder) is not None:
        recorder.write_data(node, data)
