"""Tensors, in a function that is being recorded. Enters: a Tensor that is read or written. Leaves: what it shows.

Tensors from before keep their arrays as they are: what is written to them, and to their gradients, is kept aside here.
What later calls could not do to another Tensor in its place is refused.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Value
from minitorch.compiler.trace.inputs import Inputs
from minitorch.compiler.trace.recorded import FromArgument, FromGradient, FromPlace, FromTensor, Source
from minitorch.compiler.trace.refusal import CompileError, where_in_user_code
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.gpu import device_of, is_writeable
from minitorch.engine.node import Node
from minitorch.engine.versions import synced
from minitorch.ops.sparse import Coo


class Tensors(Inputs):
    """What a recording knows of Tensors: what they show now, those from before and those made on the way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._data: dict[int, _Held] = {}
        self._grads: dict[int, _Held] = {}
        self._fresh: list[weakref.ref[Any]] = []
        # Tensors whose gradient was asked for, and whether they had one.
        self.asked: dict[int, tuple[Any, bool]] = {}
        # Tensors, by id, that are found at places where others were before.
        self.placed: dict[int, FromPlace] = {}

    def is_fresh(self, node: Node) -> bool:
        """Tell whether a node was made during this recording."""
        return getattr(node, "_time", math.inf) > self.began  # none yet: it is just being made

    def _nodes_made(self) -> Iterator[Any]:
        """Yield the nodes that were made on the way and that somebody keeps."""
        for reference in self._fresh:
            if (node := reference()) is not None:
                yield node

    def renewing(self, node: Node) -> None:
        """Refuse to give a node from before another place in the graph: later calls could not do the same."""
        if not self.is_fresh(node):
            raise CompileError(
                f"it writes into a tensor from before the call (shape {tuple(node._array.shape)}) where its graph, or "
                "that of what is written, is recorded; write out of place (x = x + y), or into a tensor made inside"
            )

    def looks_outside(self, array: Any) -> bool:
        """Tell whether an array lies in the memory of a Tensor, or an array, from before the recording."""
        while isinstance(array, Traced) and array.base is not None:
            array = array.base
        outside = (*(held.at_first for held in self._data.values()), *self._arrays.values())
        return isinstance(array, Traced) and any(array is each for each in outside)

    def outside(self, root: Traced) -> Source | None:
        """Return where an array is found outside, from the beginning of this run or, of gradients, from now on."""
        for held in self._data.values():
            if root is held.at_first or root is held.now:
                if held.at_first is not held.now:
                    raise CompileError(
                        f"compile: it returns a part of the memory that it gives to, or takes from, a tensor (shape "
                        f"{tuple(held.node._array.shape)}); return a clone()"
                    )
                place = self._positions.get(id(held.node))
                return (
                    self.placed.get(id(held.node), FromTensor(held.node))
                    if place is None
                    else FromArgument(place)
                )
        for key, array in self._arrays.items():
            if root is array:
                return self.sources[self._at_first[key].attributes["index"]]
        for held in self._grads.values():
            if root is held.now:
                place = self._positions.get(id(held.node))
                return FromGradient(held.node) if place is None else FromArgument(place, gradient=True)
        return None

    def walking(self, nodes: Iterable[Node], boundary: Collection[Node]) -> None:
        """Refuse to go backward through a graph from before the recording: later calls bring another one."""
        for node in nodes:
            if node._operation is not None and node not in boundary and not self.is_fresh(node):
                raise CompileError(
                    "compile: backward goes through the graph of a tensor from before the call (shape "
                    f"{node._array.shape}, made by {node._operation.name}), which is another one at each call\n"
                    f"  {where_in_user_code()}\ncompute it inside, or detach() it and go on outside"
                )

    def flagging(self, node: Node) -> None:
        """Refuse to change requires_grad of a tensor from before the recording."""
        if not self.is_fresh(node):
            raise CompileError(
                f"compile: it changes requires_grad of a tensor from before the call (shape {node._array.shape})\n"
                f"  {where_in_user_code()}\ndo that outside"
            )

    def read_data(self, node: Node) -> Any:
        """Return what a node shows as its array."""
        array = node._array
        if isinstance(array, (Traced, list)) or hasattr(
            array, "__minitorch_gradient__"
        ):  # recorded, or a vmap's
            return array
        if isinstance(array, Coo):
            raise self.refusal("a sparse tensor is used, and those are not compiled; it runs eagerly")
        if type(array) is not np.ndarray and device_of(array) is None:
            raise CompileError(f"compile: tensors of {type(array).__name__} are not compiled")
        if self.is_fresh(node):
            held = self._arrays.get(id(array))
            traced = held if held is not None else self.constant(array)
            self.write_data(node, traced)
            return traced
        held_data = self._data.get(id(node))
        if held_data is None:
            with self.paused():
                synced(node, strictly=False)
            place = self._positions.get(id(node))
            found = self.placed.get(id(node), FromTensor(node))
            source = found if place is None else FromArgument(place)
            traced = self.add_input(source, array)
            held_data = self._data[id(node)] = _Held(node, traced, traced, traced.value)
        return held_data.now

    def looked_at(self, node: Node) -> None:
        """Whoever is not recorded sees Tensors as they were before."""

    def write_data(self, node: Node, new: Any) -> None:
        """Give a node another array: aside, if it is from before."""
        if self.is_fresh(node):
            node._array = new
            if isinstance(new, (Traced, list)):
                self._fresh.append(weakref.ref(node))
            return
        if (
            new.shape != self._shape(self._positions.get(id(node)), node._array)
            or new.dtype != node._array.dtype
        ):
            raise CompileError(
                f"it gives a tensor from before it (shape {node._array.shape}, dtype {node._array.dtype}) data of "
                f"shape {new.shape} and dtype {new.dtype}; do that outside"
            )
        self.read_data(node)
        self._data[id(node)].now = new if isinstance(new, Traced) else self.foreign(new)

    def read_grad(self, node: Node) -> Any:
        """Return what a node shows as its gradient."""
        gradient = node._gradient
        held = self._grads.get(id(node))
        if held is None:
            if not self.is_fresh(node):
                self.asked[id(node)] = (node, gradient is not None)
            if gradient is None or isinstance(gradient, (Traced, list)) or self.is_fresh(node):
                return gradient
            if isinstance(gradient, Coo):
                raise self.refusal(
                    "a gradient is sparse, and sparse tensors are not compiled; it runs eagerly"
                )
            held = self._hold_gradient(node)
        return held.now

    def _hold_gradient(self, node: Node) -> _Held:
        if node._grad_is_shared and node._gradient is not None:
            # As whoever looks at it would get it: then a sum is written into it, in every recording alike.
            node._gradient, node._grad_is_shared = node._gradient.copy(), False
        place = self._positions.get(id(node))
        source = FromGradient(node) if place is None else FromArgument(place, gradient=True)
        gradient = node._gradient
        traced = self.add_input(source, gradient if device_of(gradient) else np.asarray(gradient))
        held = self._grads[id(node)] = _Held(node, traced, traced, traced.value)
        return held

    def write_grad(self, node: Node, new: Any) -> None:
        """Give a node another gradient: aside, if it is from before."""
        if self.is_fresh(node):
            node._gradient = new
            if new is not None:
                self._fresh.append(weakref.ref(node))
            return
        if id(node) not in self._grads:
            if node._gradient is not None:
                self._hold_gradient(node)
            else:
                self._grads[id(node)] = _Held(node, None, None, None)
        if new is not None and not isinstance(new, Traced):
            new = self.foreign(new if device_of(new) else np.asarray(new))
        self._grads[id(node)].now = new


@dataclass
class _Held:
    """A Tensor from before: what it showed first, what it shows now, and the input that is."""

    node: Any
    at_first: Any
    now: Any
    value: Value | None

    @property
    def number(self) -> int:
        """Of the input."""
        assert self.value is not None
        return self.value.attributes["index"]

    @property
    def is_written(self) -> bool:
        """Whether what it showed first was written into."""
        return self.value is not None and self.at_first.value is not self.value

    @property
    def is_left_written(self) -> bool:
        """Whether a gradient was written into, and then replaced: whoever holds it sees what was written."""
        return self.is_written and self.now is not self.at_first and is_writeable(self.node._gradient)
