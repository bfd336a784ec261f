"""Items in instrumented code. Enters: a container. Leaves: one of its items, or all of them, one after the other."""

from __future__ import annotations

import collections
import types
from typing import Any

import numpy as np

from minitorch.compiler.trace.number import settled
from minitorch.compiler.trace.observe.attributes import attribute, note_store
from minitorch.compiler.trace.observe.methods import (
    CONTAINERS,
    PLAIN_TYPES,
    TENSORS,
    lookup,
    observed_method,
    own_method,
)
from minitorch.compiler.trace.observe.observer import MISSING, brief, current_observer
from minitorch.compiler.trace.observe.whose import is_trusted_class

_CLASS: Any = type


def item(container: Any, key: Any) -> Any:
    """Load an item, or a slice."""
    o = current_observer()
    if o is None:
        return container[key]
    key = settled(key, isinstance(container, TENSORS))
    kind = type(container)
    if kind in PLAIN_TYPES or (
        isinstance(container, (*TENSORS, tuple)) and not own_method(container, "__getitem__")
    ):
        return container[o.index(key)] if isinstance(container, TENSORS) else container[key]
    if isinstance(container, _CLASS):
        return container[key]  # list[int]
    found = observed_method(o, container, "__getitem__", key)
    if found is not NotImplemented:
        return found
    if isinstance(container, np.ndarray):
        return o.of_array(container, lambda array: array[key], key)
    if not o.is_outside(container):
        o.hashed(key, container)
        found = container[key]
        return o.made(found) if type(key) is slice and isinstance(found, list) else found
    if isinstance(container, (dict, types.MappingProxyType)):
        o.hashed(key, container)
        if (number := o.group_option(container, key)) is not MISSING:
            return number
        reported = o.is_managed(container)
        found = (
            container.get(key, MISSING)
            if isinstance(container, types.MappingProxyType)
            else dict.get(container, key, MISSING)
        )
        if found is MISSING and lookup(kind, "__missing__") is not MISSING:
            if (
                isinstance(container, collections.defaultdict)
                and kind.__missing__ is collections.defaultdict.__missing__
            ):
                o.fact(f"[{brief(key)}]", "item", container, key, MISSING, reported)
                if container.default_factory is None:
                    raise KeyError(key)
                new = o.calls(container.default_factory, (), {})
                note_store(o, "item", container, key, new, MISSING)
                dict.__setitem__(container, key, new)
                return new
            o.fact(f"[{brief(key)}]", "item", container, key, MISSING, reported)
            o.type_fact(kind, "__missing__", lookup(kind, "__missing__"))
            return o.calls(lookup(kind, "__missing__"), (container, key), {})
        found = o.fact(f"[{brief(key)}]", "item", container, key, found, reported)
        if found is MISSING:
            raise KeyError(key)
        return found
    if isinstance(container, (list, bytearray, collections.deque)):
        if not isinstance(key, int):
            o.whole(container)
            return o.made(container[key])
        try:
            found = container[key]
        except IndexError:
            o.length_fact(container)
            raise
        return o.fact(f"[{key}]", "index", container, key, found)
    if is_trusted_class(kind):
        o.meet(container)
        return container[key]
    raise o.refuse(f"it looks into a {kind.__name__}, which is not understood")


def store_item(operands: tuple[Any, Any, Any]) -> None:
    """Store an item."""
    value, container, key = operands
    o = current_observer()
    if o is None:
        container[key] = value
        return
    key = settled(key, isinstance(container, TENSORS))
    if isinstance(container, TENSORS):
        container[o.index(key)] = o.shown(value)
        return
    done = observed_method(o, container, "__setitem__", key, value)
    if done is not NotImplemented:
        return
    if o.is_given(container):
        raise o.refuse("it changes a container among its arguments; return the new one")
    if not o.is_outside(container):
        container[key] = value
        return
    if isinstance(container, dict):
        o.hashed(key, container)
        if o.is_group(container) and not o.takes_option(container, key, value):
            raise o.refuse(f"it sets {key!r} of a parameter group; do that outside")
        note_store(o, "item", container, key, value, dict.get(container, key, MISSING))
        dict.__setitem__(container, key, value)
    elif isinstance(container, (list, collections.deque)) and isinstance(key, int):
        before = container[key]
        o.wrote("item", container, key % len(container), value, lambda: container.__setitem__(key, before))
        o.note_written(container, key)
        container[key] = value
    elif isinstance(container, list) and isinstance(key, slice) and key.step is None:
        value = o.made(list(iterator(value)))
        o.restructured(container, container.__setitem__, (key, copied(value)), {})
        container[key] = value
    elif isinstance(container, np.ndarray):
        raise o.refuse(
            "it writes into a NumPy array from outside; make it a Tensor (from_numpy), or write into it outside"
        )
    elif is_trusted_class(type(container)):
        raise o.refuse(f"it changes a {type(container).__name__} from outside; do that outside")
    else:
        raise o.refuse(f"it stores into a {type(container).__name__} from outside, which is not understood")


def delete_item(container: Any, key: Any) -> None:
    """Delete an item."""
    o = current_observer()
    if o is None:
        del container[key]
        return
    key = settled(key)
    if observed_method(o, container, "__delitem__", key) is not NotImplemented:
        return
    if o.is_given(container):
        raise o.refuse("it changes a container among its arguments; return the new one")
    if o.is_outside(container) and isinstance(container, list) and isinstance(key, slice):
        o.restructured(container, container.__delitem__, (key,), {})
    elif o.is_outside(container):
        if not isinstance(container, dict) or (
            is_trusted_class(type(container)) and type(container) is not dict
        ):
            raise o.refuse(f"it deletes from a {type(container).__name__} from outside")
        found = o.fact(f"[{brief(key)}]", "item", container, key, container.get(key, MISSING))
        if found is MISSING:
            raise KeyError(key)
        o.restructured(container, container.__delitem__, (key,), {})
    del container[key]


def whole(things: Any) -> Any:
    """Everything in a container is looked at, in its order; of other iterables, what they give."""
    o = current_observer()
    if o is None:
        return things
    if type(things) in (tuple, str) or (not o.is_outside(things) and isinstance(things, CONTAINERS)):
        return things
    if own_method(things, "__iter__") is not None:
        if isinstance(things, dict) or own_method(things, "keys") is not None:
            keys = list(iterator(o.calls(attribute(things, "keys"), (), {})))
            return o.made({key: item(things, key) for key in keys})
        return o.made(list(iterator(things)))
    o.whole(things)
    return things


def copied(things: Any) -> Any:
    """Return a container as it is now, and all else as it is."""
    return things.copy() if isinstance(things, (list, dict, set, collections.deque)) else things


def iterator(things: Any) -> Any:
    """Begin to go through something."""
    o = current_observer()
    if o is None:
        return iter(things)
    found = observed_method(o, things, "__iter__")
    if found is NotImplemented:
        if isinstance(things, np.ndarray) and o.is_outside(things) and not o.is_given(things):
            things = o.shown(things)
        elif lookup(type(things), "__iter__") is MISSING and own_method(things, "__getitem__") is not None:
            return _by_index(o, things)
        else:
            o.whole(things)
        found = iter(things)
        if found is not things:
            o.made(found)
    return _steps(o, found) if own_method(found, "__next__") is not None else found


def _steps(o: Any, iterating: Any) -> Any:
    while True:
        try:
            found = observed_method(o, iterating, "__next__")
        except StopIteration:
            return
        yield found


def _by_index(o: Any, things: Any) -> Any:
    index = 0
    while True:
        try:
            yield item(things, index)
        except IndexError:
            return
        index += 1
