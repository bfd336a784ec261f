"""What the observer of a run must know of this library's objects.

Enters: objects that a function comes across. Leaves: how they are read. A Module, an optimiser, a Tensor or a generator
is guarded as a whole (guards.py), since this library's own code is not observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitorch.compiler.call.containers import parts_of
from minitorch.compiler.call.guards import Environment, can_be_placed, is_object_of_ours
from minitorch.compiler.call.undo import Before
from minitorch.compiler.trace.number import Number, as_float
from minitorch.compiler.trace.observe.observer import MISSING
from minitorch.compiler.trace.recorded import FromPlace, ReadNumber
from minitorch.compiler.trace.recorder import Recording
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.node import Node
from minitorch.nn.module import Module
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.optim.optimizer import Optimizer, ParameterGroup
from minitorch.random import Generator
from minitorch.tensor import Tensor
from minitorch.tensor.plain import PlainArray

_MEETABLE = (Node, Module, Optimizer, LRScheduler, Generator)


def can_be_met(thing: Any) -> bool:
    """Tell whether a thing is an object of this library's, which is guarded as a whole."""
    return isinstance(thing, _MEETABLE) or is_object_of_ours(thing)


class KnownObjects:
    """This library's objects, for an Observer (trace/observe/observer.py: Library)."""

    def __init__(self, active: Recording, environment: Environment, before: Before) -> None:
        self.active = active
        self.environment = environment
        self.before = before

    def meet(self, thing: Any) -> bool:
        """Guard an object that this library's code may read. Return whether it was there before the run."""
        if isinstance(thing, Node) and self.active.is_fresh(thing):
            return False
        if can_be_met(thing):
            known = self.environment
            met = known.optimizers, known.schedulers, known.objects, known.streams
            count = list(map(len, met))
            known.look(thing)
            if count != list(map(len, met)):
                self.before.look(self.environment)
        elif isinstance(thing, type(self.active)):
            raise AssertionError("a recording is observed by itself")
        return True

    def was_there(self, thing: Any) -> None:
        """Take Tensors for ones from before the run."""
        for part in parts_of(thing):
            if isinstance(part, Node):
                part._time = min(part._time, self.active.began)

    def is_managed(self, thing: Any) -> bool:
        """Tell whether an object reports its changes itself."""
        return isinstance(thing, (Module, Optimizer, ParameterGroup))

    def takes_plainly(self, thing: Any, name: Any, value: Any) -> bool:
        """Tell whether storing an attribute of such an object, or an option, is nothing but that."""
        if isinstance(thing, ParameterGroup):
            return not isinstance(value, (Node, Traced))
        if isinstance(value, (Module, Node)) and type(value) is not Tensor:
            return False
        if isinstance(thing, Optimizer):
            return name not in ("param_groups", "state")
        own = vars(thing)
        return name != "training" and not any(name in own[part] for part in ("_parameters", "_modules"))

    def option(self, group: Any, key: Any) -> Any:
        """Return what stands for an option of a parameter group; MISSING if it is none."""
        if not isinstance(group, ParameterGroup) or key not in group:
            return MISSING
        found = self.active.changeable(group, key)
        if isinstance(found, Number) and isinstance(group[key], np.floating):
            raise self.active.refusal(f"it reads {key!r}, which is a NumPy scalar; make it a float")
        return as_float(found) if isinstance(found, Number) else MISSING

    def number(self, holder: Any, key: Any, value: Any) -> Any:
        """Make an input of a number that was seen to change."""
        return self.active.promoted_number(ReadNumber(holder, key, type(value)), value)

    def placed(self, holder: Any, key: Any, tensor: Any) -> bool:
        """Make an input of whatever Tensor is at a place; tell whether that can be done."""
        if not can_be_placed(tensor):
            return False
        known = self.active.placed.setdefault(id(tensor), FromPlace(holder, key, type(tensor._array)))
        return known.holder is holder and known.key == key

    def shown(self, array: np.ndarray) -> Any:
        """Return what stands for an array from outside."""
        shown = self.active.foreign(array)
        return shown.__minitorch_plain__() if isinstance(array, PlainArray) else shown

    def is_fresh(self, tensor: Any) -> bool:
        """Tell whether a Tensor was made in this run."""
        return self.active.is_fresh(tensor)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let something be done that is neither recorded nor observed."""
        with self.active.paused():
            yield
