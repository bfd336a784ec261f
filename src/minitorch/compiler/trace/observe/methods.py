"""What a class has under a name. Enters: an object. Leaves: its class's own method, and what that gives, observed."""

from __future__ import annotations

import collections
import types
from typing import Any

from minitorch.compiler.trace.observe.observer import MISSING
from minitorch.compiler.trace.observe.whose import is_trusted
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.node import Node

# What is recorded itself. (Any, for the type checker: what they have beside is the Tensor's concern.)
TENSORS: tuple[Any, ...] = (Node, Traced)
NODE: Any = Node
CONTAINERS = (list, dict, set, frozenset, collections.deque, bytearray, types.MappingProxyType)
PLAIN_TYPES = frozenset({int, float, complex, str, bytes, bool, type(None), slice, range, type(...)})
IMMUTABLE_TYPE = 1 << 8  # type flags of CPython
HEAP_TYPE = 1 << 9


def lookup(kind: type, name: str) -> Any:
    """Return what a class or its bases have under a name, as it stands there."""
    for base in kind.__mro__:
        found = base.__dict__.get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def own_method(thing: Any, name: str) -> Any:
    """Return a special method that is written in Python, and not by us or NumPy; None if there is none."""
    method = lookup(type(thing), name)
    if isinstance(method, types.FunctionType) and not is_trusted(method.__code__):
        return method
    return None


def observed_method(o: Any, thing: Any, name: str, *args: Any) -> Any:
    """Call such a method; NotImplemented where there is none."""
    method = own_method(thing, name)
    if method is None:
        return NotImplemented
    if o.is_outside(type(thing)):
        o.fact(f"{type(thing).__name__}.{name}", "type", type(thing), name, method)
    return o.calls(method, (thing, *args), {})
