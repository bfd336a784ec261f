"""What instrumented code calls in place of its instructions. Enters: operands. Leaves: what the instruction gives, and
what was looked at or changed, told to the thread's Observer (observer.py). Where nobody observes, the bare instruction.
"""

from __future__ import annotations

import collections
import functools
import operator
import sys
import types
from typing import Any

import numpy as np

from minitorch.compiler.ir.sizes import Size
from minitorch.compiler.trace.deferred import deferred
from minitorch.compiler.trace.number import Number, settled
from minitorch.compiler.trace.observe.instrument import EXPANDED, Rewriter
from minitorch.compiler.trace.observe.observer import MISSING, brief, current_observer
from minitorch.compiler.trace.observe.whose import is_trusted, is_trusted_class
from minitorch.compiler.trace.traced import Traced
from minitorch.compiler.trace.varying import as_number
from minitorch.engine.node import Node

# What is recorded itself. (Any, for the type checker: what they have beside is the Tensor's concern.)
TENSORS: tuple[Any, ...] = (Node, Traced)
_NODE: Any = Node
_CLASS: Any = type
CONTAINERS = (list, dict, set, frozenset, collections.deque, bytearray, types.MappingProxyType)
_PLAIN_TYPES = frozenset({int, float, complex, str, bytes, bool, type(None), slice, range, type(...)})
_IMMUTABLE_TYPE = 1 << 8  # type flags of CPython
_HEAP_TYPE = 1 << 9


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


# --- names ----------------------------------------------------------------------------------------------------


def global_(name: str) -> Any:
    """Load a global, or a builtin."""
    o = current_observer()
    space = sys._getframe(1).f_globals
    found = space.get(name, MISSING)
    if o is not None:
        found = o.fact(name, "item", space, name, found)
    if found is MISSING:
        builtin = space["__builtins__"]
        builtin = builtin if isinstance(builtin, dict) else builtin.__dict__
        found = builtin.get(name, MISSING)
        if o is not None:
            o.fact(name, "item", builtin, name, found)
        if found is MISSING:
            raise NameError(f"name {name!r} is not defined")
    return found


def store_global(value: Any, name: str) -> None:
    """Store a global."""
    space = sys._getframe(1).f_globals
    if (o := current_observer()) is not None:
        _note_store(o, "space", space, name, value, space.get(name, MISSING))
    space[name] = value


def cell(holder: Any, name: str) -> Any:
    """Load a variable that is closed over."""
    try:
        found = holder.cell_contents
    except ValueError:
        raise NameError(
            f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"
        ) from None
    o = current_observer()
    if o is not None and o.is_outside(holder):
        return o.fact(name, "cell", holder, None, found)
    return found


def store_cell(value: Any, holder: Any) -> None:
    """Store a variable that is closed over."""
    o = current_observer()
    if o is not None and o.is_outside(holder):
        try:
            before = holder.cell_contents
        except ValueError:
            before = MISSING
        o.wrote("cell", holder, None, value, lambda: _restore_cell(holder, before))
    holder.cell_contents = value


def _restore_cell(holder: Any, before: Any) -> None:
    if before is MISSING:
        del holder.cell_contents
    else:
        holder.cell_contents = before


def import_(level: int, names: Any, name: str) -> Any:
    """Import a module."""
    o = current_observer()
    space = sys._getframe(1).f_globals
    if o is None:
        return __import__(name, space, None, names, level)
    with o.paused():
        module = __import__(name, space, None, names, level)
    home = getattr(module, "__name__", name)
    o.fact(f"the module {home}", "item", sys.modules, home, module)
    return module


def imported(module: Any, name: str) -> Any:
    """Return what a module has under a name, or its part of that name."""
    try:
        return attribute(module, name)
    except AttributeError:
        home = getattr(module, "__name__", "<unknown module name>")
        if (
            part := item(sys.modules, f"{home}.{name}") if f"{home}.{name}" in sys.modules else None
        ) is not None:
            return part
        file = getattr(module, "__file__", None) or "unknown location"
        text = f"cannot import name {name!r} from {home!r} ({file})"
        raise ImportError(text, name=home, path=getattr(module, "__file__", None)) from None


# --- attributes -----------------------------------------------------------------------------------------------


def attribute(thing: Any, name: str, *default: Any) -> Any:
    """Load an attribute."""
    o = current_observer()
    if o is None or type(thing) in _PLAIN_TYPES:
        return getattr(thing, name, *default)
    if isinstance(thing, (Number, Size)):
        return getattr(settled(thing), name, *default)
    try:
        return _attribute(o, thing, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def _attribute(o: Any, thing: Any, name: str) -> Any:
    kind = type(thing)
    if isinstance(thing, types.ModuleType):
        return _of_module(o, thing, name)
    if isinstance(thing, type):
        return _of_class(o, thing, name)
    if kind is super:
        return _of_super(o, thing, name)
    if isinstance(thing, TENSORS) and _is_ours(lookup(kind, name)):
        return _of_tensor(o, thing, name)
    if isinstance(thing, np.ndarray):
        if o.is_outside(thing):
            o.array(thing)
        if is_trusted_class(kind) or lookup(kind, name) is lookup(np.ndarray, name) is not MISSING:
            return getattr(thing, name)
    getter = lookup(kind, "__getattribute__")
    if isinstance(getter, types.FunctionType) and not is_trusted(getter.__code__):
        return o.calls(getter, (thing, name), {})
    return _of_object(o, thing, name)


def _is_ours(member: Any) -> bool:
    member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return not isinstance(member, types.FunctionType) or is_trusted(member.__code__)


def _of_module(o: Any, module: Any, name: str) -> Any:
    found = o.fact(
        f"{module.__name__}.{name}", "item", module.__dict__, name, module.__dict__.get(name, MISSING)
    )
    if found is not MISSING:
        return found
    getter = module.__dict__.get("__getattr__", MISSING)
    if isinstance(getter, types.FunctionType) and not is_trusted(getter.__code__):
        return o.calls(getter, (name,), {})
    return getattr(module, name)


def _of_class(o: Any, kind: Any, name: str) -> Any:
    meta = type(kind)
    getter = lookup(meta, "__getattribute__")
    if isinstance(getter, types.FunctionType) and not is_trusted(getter.__code__):
        return o.calls(getter, (kind, name), {})
    if not kind.__flags__ & _IMMUTABLE_TYPE and o.is_outside(kind):
        found = o.type_fact(kind, name, lookup(kind, name), by_value=False)
        if isinstance(found, Number):
            return found
    on_meta = lookup(meta, name)
    if meta is not type and (on_meta is not MISSING or lookup(kind, name) is MISSING):
        o.type_fact(meta, name, on_meta)
    if isinstance(on_meta, property) and not _is_ours(on_meta):
        return o.calls(on_meta.fget, (kind,), {})
    return getattr(kind, name)


def _of_super(o: Any, thing: Any, name: str) -> Any:
    order = thing.__self_class__.__mro__
    for base in order[order.index(thing.__thisclass__) + 1 :]:
        found = base.__dict__.get(name, MISSING)
        if not base.__flags__ & _IMMUTABLE_TYPE and not is_trusted_class(base):
            o.fact(f"{base.__name__}.{name}", "member", base, name, found, by_value=True)
        if found is not MISSING:
            break
    if isinstance(found, property) and not _is_ours(found):
        return o.calls(found.fget, (thing.__self__,), {})
    return getattr(thing, name)


_ADDRESSES = {
    "data_ptr",
    "untyped_storage",
    "storage",
    "storage_offset",
    "_version",
    "__array_interface__",
    "ctypes",
}


def _of_tensor(o: Any, thing: Any, name: str) -> Any:
    if isinstance(thing, _NODE):
        if name in _ADDRESSES:
            raise o.refuse(f".{name} of a tensor is another one at each call; read it outside")
        if name in ("stride", "strides") and not o.is_fresh_tensor(thing) and not thing.is_contiguous():
            raise o.refuse(
                f".{name} of a tensor that is not contiguous may be another one at each call; read it outside"
            )
        o.type_fact(type(thing), name, lookup(type(thing), name))
        if o.is_outside(thing):
            o.meet(thing)
        space = getattr(thing, "__dict__", None)
        if space is not None and lookup(type(thing), name) is MISSING and o.is_given(thing):
            raise o.refuse(
                f"it reads .{name} of a tensor among its arguments, and the next call's may have another; pass it too"
            )
        if space is not None and lookup(type(thing), name) is MISSING and o.is_outside(thing):
            found = o.fact(f"a tensor's .{name}", "item", space, name, space.get(name, MISSING))
            if found is not MISSING:
                return found
    return getattr(thing, name)


def _of_object(o: Any, thing: Any, name: str) -> Any:
    kind = type(thing)
    outside = o.is_outside(thing)
    reported = False
    if outside:
        o.meet(thing)
        reported = o.is_managed(thing)
        o.class_fact(thing)
    on_class = lookup(kind, name)
    if not kind.__flags__ & _IMMUTABLE_TYPE and o.is_outside(kind):
        on_class = o.type_fact(kind, name, on_class, by_value=False)
    member = type(on_class)
    if member is property:
        if not _is_ours(on_class):
            return _or_else(o, thing, name, lambda: o.calls(on_class.fget, (thing,), {}))
        return getattr(thing, name)
    if member is types.MemberDescriptorType:
        found = getattr(thing, name, MISSING)
        if outside:
            found = o.fact(f"{kind.__name__}.{name}", "slot", thing, name, found)
        return found if found is not MISSING else _missing(o, thing, name)
    if member is types.GetSetDescriptorType:
        return _of_c_object(o, thing, name, outside)
    if on_class is not MISSING and (
        _python_method(member, "__set__") or _python_method(member, "__delete__")
    ):
        return _described(o, on_class, thing, kind)
    space = _space_of(thing)
    if space is not None:
        found = space.get(name, MISSING)
        if outside:
            _note_space(o, thing, space)
            found = o.fact(f"{kind.__name__}.{name}", "item", space, name, found, reported)
        if found is not MISSING:
            return found
    if on_class is not MISSING:
        if _python_method(member, "__get__"):
            return _described(o, on_class, thing, kind)
        return on_class if isinstance(on_class, Number) else getattr(thing, name)
    return _missing(o, thing, name)


def _or_else(o: Any, thing: Any, name: str, get: Any) -> Any:
    try:
        return get()
    except AttributeError:
        if lookup(type(thing), "__getattr__") is MISSING:
            raise
        return _missing(o, thing, name)


def _python_method(kind: type, name: str) -> Any:
    method = lookup(kind, name)
    return method if isinstance(method, types.FunctionType) else None


def _described(o: Any, descriptor: Any, thing: Any, kind: type) -> Any:
    getter = _python_method(type(descriptor), "__get__")
    return o.calls(getter, (descriptor, thing, kind), {})


def _missing(o: Any, thing: Any, name: str) -> Any:
    buffers = getattr(thing, "__dict__", {}).get("_buffers", ())
    if name in buffers and o.is_outside(thing) and o.is_managed(thing):
        return o.fact(f"{type(thing).__name__}.{name}", "item", buffers, name, buffers[name], True)
    getter = lookup(type(thing), "__getattr__")
    if isinstance(getter, types.FunctionType):
        if not is_trusted(getter.__code__):
            o.type_fact(type(thing), "__getattr__", getter)
        return o.calls(getter, (thing, name), {})
    return getattr(thing, name)


def _space_of(thing: Any) -> Any:
    try:
        space = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return None
    return space if isinstance(space, dict) else None


def _note_space(o: Any, thing: Any, space: dict[str, Any]) -> None:
    """Note which dict has the attributes of an object: it may be given another one."""
    getter = lookup(type(thing), "__getattribute__")
    if not o.is_managed(thing) and not isinstance(getter, types.FunctionType):
        o.fact(f"the attributes of a {type(thing).__name__}", "attribute", thing, "__dict__", space)


# What is read of objects made by C, and may be assigned.
_ASSIGNABLE = {
    "__code__",
    "__defaults__",
    "__kwdefaults__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__annotations__",
}


def _of_c_object(o: Any, thing: Any, name: str, outside: bool) -> Any:
    found = getattr(thing, name)
    if name == "__dict__" and not outside:
        return o.made(found)
    if name == "__class__" or not outside:
        return found
    if name == "__dict__":
        if o.is_managed(thing):
            o.whole(found)
        else:
            _note_space(o, thing, found)
        return found
    if isinstance(thing, (types.FunctionType, functools.partial, BaseException)) or name in _ASSIGNABLE:
        return o.fact(f"{type(thing).__name__}.{name}", "attribute", thing, name, found)
    return found


def store_attribute(value: Any, thing: Any, name: str) -> None:
    """Store an attribute."""
    o = current_observer()
    if o is None:
        setattr(thing, name, value)
        return
    setter, on_class = _how_it_changes(o, thing, "__setattr__", name)
    if isinstance(setter, types.FunctionType) and not is_trusted(setter.__code__):
        o.calls(setter, (thing, name, value), {})
        return
    if isinstance(on_class, property) and not _is_ours(on_class):
        if on_class.fset is None:
            setattr(thing, name, value)  # raises the error
        o.calls(on_class.fset, (thing, value), {})
        return
    if on_class is not MISSING and (method := _python_method(type(on_class), "__set__")):
        o.calls(method, (on_class, thing, value), {})
        return
    plain_store(o, thing, name, value)


def _how_it_changes(o: Any, thing: Any, method: str, name: str) -> tuple[Any, Any]:
    """Return a method, and what stands for an attribute, of a thing's class: at the next call both may be others."""
    kind = type(thing)
    by, on_class = lookup(kind, method), lookup(kind, name)
    if o.is_outside(thing) and not isinstance(thing, (Node, np.ndarray, type, types.ModuleType)):
        o.class_fact(thing)
    if not kind.__flags__ & _IMMUTABLE_TYPE and o.is_outside(kind):
        o.type_fact(kind, method, by)
        o.type_fact(kind, name, on_class, by_value=False)  # (of a number, that it is one is all that matters)
    return by, on_class


def plain_store(o: Any, thing: Any, name: str, value: Any) -> None:
    """Store an attribute where nothing in Python stands between."""
    if (
        isinstance(thing, Node)
        and _is_ours(lookup(type(thing), name))
        and lookup(type(thing), name) is not MISSING
    ):
        if name == "requires_grad" and o.is_outside(thing) and bool(value) != thing._requires_grad:
            raise o.refuse("it changes requires_grad of a tensor from outside; do that outside")
        setattr(thing, name, value)  # the recording's own concern
        return
    if o.is_given(thing) and not isinstance(thing, np.ndarray):
        raise o.refuse("it changes an object among its arguments; return a new one")
    if not o.is_outside(thing) or (isinstance(thing, np.ndarray) and not o.is_outside(thing)):
        setattr(thing, name, value)
        return
    if isinstance(thing, np.ndarray):
        raise o.refuse(f"it changes the {name} of a NumPy array from outside")
    if isinstance(thing, types.ModuleType):
        _note_store(o, "space", thing.__dict__, name, value, thing.__dict__.get(name, MISSING))
        setattr(thing, name, value)
        return
    if isinstance(thing, type):
        before = thing.__dict__.get(name, MISSING)
        undo = lambda: (
            type.__delattr__(thing, name) if before is MISSING else type.__setattr__(thing, name, before)
        )
        o.wrote("type_attribute", thing, name, value, undo)
        setattr(thing, name, value)
        return
    space = _space_of(thing)
    if isinstance(lookup(type(thing), name), types.MemberDescriptorType) or space is None:
        before = getattr(thing, name, MISSING)
        undo = lambda: delattr(thing, name) if before is MISSING else setattr(thing, name, before)
        o.wrote("attribute", thing, name, value, undo)
        setattr(thing, name, value)
        return
    if name in ("__class__", "__dict__"):
        raise o.refuse(f"it changes {name} of an object from outside")
    if o.is_managed(thing) and not o.takes_plainly(thing, name, value):
        raise o.refuse(f"it gives a {type(thing).__name__} from outside another {name}; do that outside")
    if o.is_managed(thing):
        members = space.get("_buffers", ())
        space = members if name in members else space
        _note_store(o, "space", space, name, value, space.get(name, MISSING))
        dict.__setitem__(space, name, value)
    else:
        _note_space(o, thing, space)
        _note_store(o, "space", space, name, value, space.get(name, MISSING))
        setattr(thing, name, value)


def delete_attribute(thing: Any, name: str) -> None:
    """Delete an attribute."""
    o = current_observer()
    if o is None:
        delattr(thing, name)
        return
    remover, _ = _how_it_changes(o, thing, "__delattr__", name)
    if isinstance(remover, types.FunctionType) and not is_trusted(remover.__code__):
        o.calls(remover, (thing, name), {})
        return
    if not o.is_outside(thing):
        delattr(thing, name)
        return
    space = _space_of(thing)
    if isinstance(remover, types.FunctionType) or space is None or name not in space:
        raise o.refuse(f"it deletes {name} of a {type(thing).__name__} from outside")
    before = space[name]
    o.wrote("delete_attribute", thing, name, None, lambda: space.__setitem__(name, before))
    o.note_written(space, name)
    delattr(thing, name)


def _note_store(o: Any, kind: str, holder: Any, key: Any, value: Any, before: Any) -> None:
    def undo() -> None:
        if before is MISSING:
            dict.pop(holder, key, None)
        else:
            dict.__setitem__(holder, key, before)

    if before is MISSING and isinstance(holder, dict):
        o.note_new_key(holder)
    o.wrote(kind, holder, key, value, undo)


# --- items ----------------------------------------------------------------------------------------------------


def item(container: Any, key: Any) -> Any:
    """Load an item, or a slice."""
    o = current_observer()
    if o is None:
        return container[key]
    key = settled(key, isinstance(container, TENSORS))
    kind = type(container)
    if kind in _PLAIN_TYPES or (
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
                _note_store(o, "item", container, key, new, MISSING)
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
        _note_store(o, "item", container, key, value, dict.get(container, key, MISSING))
        dict.__setitem__(container, key, value)
    elif isinstance(container, (list, collections.deque)) and isinstance(key, int):
        before = container[key]
        o.wrote("item", container, key % len(container), value, lambda: container.__setitem__(key, before))
        o.note_written(container, key)
        container[key] = value
    elif isinstance(container, list) and isinstance(key, slice) and key.step is None:
        value = o.made(list(iterator(value)))
        o.restructured(container, container.__setitem__, (key, _copied(value)), {})
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
            keys = list(_each(o, o.calls(attribute(things, "keys"), (), {})))
            return o.made({key: item(things, key) for key in keys})
        return o.made(list(_each(o, things)))
    o.whole(things)
    return things


def _each(o: Any, things: Any) -> Any:
    iterating = iterator(things)
    return iterating


def truth(thing: Any) -> bool:
    """Ask for the truth of something."""
    o = current_observer()
    if o is None or type(thing) in _PLAIN_TYPES:
        return bool(thing)
    for name in ("__bool__", "__len__"):
        found = observed_method(o, thing, name)
        if found is not NotImplemented:
            return bool(found)
        if lookup(type(thing), name) is not MISSING:
            break
    if o.is_outside(thing):
        if isinstance(thing, CONTAINERS) and not isinstance(thing, types.MappingProxyType):
            o.length_fact(thing)
        elif isinstance(thing, np.ndarray):
            return bool(o.of_array(thing, bool))
    return bool(thing)


def contains(key: Any, container: Any, negated: bool) -> bool:
    """Ask whether something is in a container."""
    o = current_observer()
    found: Any = NotImplemented
    if o is not None and type(container) not in _PLAIN_TYPES:
        found = observed_method(o, container, "__contains__", key)
        if (
            found is NotImplemented
            and own_method(container, "__iter__") is not None
            and lookup(type(container), "__contains__") is MISSING
        ):
            found = any(
                identical(each, key, False) or truth(compare(each, key, "eq")) for each in _each(o, container)
            )
        if found is NotImplemented:
            if isinstance(container, (dict, set, frozenset)):
                key = settled(key)
                o.hashed(key, container)
                if o.is_outside(container):
                    reported = o.is_managed(container)
                    o.fact(
                        f"whether {brief(key)} is in it",
                        "contains",
                        container,
                        key,
                        key in container,
                        reported,
                    )
            elif isinstance(container, (list, tuple, collections.deque)):
                whole(container)
                o.compare_with(key, container)
            elif isinstance(container, np.ndarray):
                found = o.of_array(container, lambda array: key in array)
            else:
                container = whole(container)
    answer = bool(key in container if found is NotImplemented else found)
    return not answer if negated else answer


def identical(a: Any, b: Any, negated: bool) -> bool:
    """Ask whether two things are one."""
    o = current_observer()
    if o is not None:
        o.compare_with(a, (b,))
        o.compare_with(b, (a,))
        a, b = o.unshown(a), o.unshown(b)
    return (a is not b) if negated else (a is b)


_COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "eq", "ne", "gt", "ge")}
_REFLECTED = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}


def compare(a: Any, b: Any, name: str) -> Any:
    """Compare two things."""
    o = current_observer()
    if o is not None and not (type(a) in _PLAIN_TYPES and type(b) in _PLAIN_TYPES):
        found = observed_method(o, a, f"__{name}__", b)
        if found is NotImplemented:
            found = observed_method(o, b, f"__{_REFLECTED[name]}__", a)
        if found is NotImplemented and name == "ne":
            found = observed_method(o, a, "__eq__", b)
            found = found if found is NotImplemented else not found
        if found is not NotImplemented:
            return found
        for one, other in ((a, b), (b, a)):
            if isinstance(one, CONTAINERS):
                whole(one)
            elif isinstance(one, np.ndarray) and o.is_outside(one) and not isinstance(other, TENSORS):
                o.read_by_value(one)
        o.compare_with(a, (b,))
    return _COMPARISONS[name](a, b)


_OPERATORS = {
    "add": "add", "and": "and_", "floor_divide": "floordiv", "lshift": "lshift", "matrix_multiply": "matmul",
    "multiply": "mul", "remainder": "mod", "or": "or_", "power": "pow", "rshift": "rshift", "subtract": "sub",
    "true_divide": "truediv", "xor": "xor",
}  # fmt: skip
_SPECIAL = {
    name: (getattr(operator, to), getattr(operator, "i" + to.rstrip("_")), to.rstrip("_"))
    for name, to in _OPERATORS.items()
}


def binary(a: Any, b: Any, name: str) -> Any:
    """Compute a binary operator, in place or not."""
    in_place, name = (True, name[8:]) if name.startswith("inplace_") else (False, name)
    plain, into, special = _SPECIAL[name]
    o = current_observer()
    if o is None or (type(a) in _PLAIN_TYPES and type(b) in _PLAIN_TYPES):
        return (into if in_place else plain)(a, b)
    if isinstance(a, str) and special == "mod":
        b = tuple(map(as_number, b)) if type(b) is tuple else as_number(b)
        if type(b) is dict and _is_late(tuple(b.values())):
            keys = tuple(b)
            return deferred(lambda text, *parts: text % dict(zip(keys, parts, strict=True)), a, *b.values())
        return (
            deferred(lambda text, *parts: text % parts, a, *(b if type(b) is tuple else (b,)))
            if _is_late(b)
            else a % b
        )
    names = [(a, f"__i{special}__", b)] if in_place else []
    names += [(a, f"__{special}__", b), (b, f"__r{special}__", a)]
    for one, method, other in names:
        found = observed_method(o, one, method, other)
        if found is not NotImplemented:
            return found
    if any(isinstance(x, Number) for x in (a, b)) and any(isinstance(x, np.generic) for x in (a, b)):
        raise o.refuse(
            "it computes with a number that changes and a NumPy scalar; make that a float or an int"
        )
    arrays = [x for x in (a, b) if isinstance(x, np.ndarray) and o.is_outside(x)]
    if arrays:
        if in_place and a is arrays[0]:
            raise o.refuse(
                "it writes into a NumPy array from outside; make it a Tensor, or write into it outside"
            )
        if isinstance(a, TENSORS) or isinstance(b, TENSORS):
            a, b = o.shown(a), o.shown(b)
        else:
            for each in arrays:
                o.read_by_value(each)
    if in_place and isinstance(a, CONTAINERS) and (o.is_outside(a) or o.is_given(a)):
        b = whole(b)
        if o.is_given(a):
            raise o.refuse("it changes a container among its arguments; return the new one")
        o.restructured(a, getattr(a, f"__i{special}__"), (_copied(b),), {})
        return into(a, b)
    for each in (a, b):
        if isinstance(each, CONTAINERS):
            whole(each)
    found = (into if in_place else plain)(a, b)
    return o.made(found) if isinstance(found, CONTAINERS) and not (in_place and found is a) else found


def unary(thing: Any, name: str) -> Any:
    """Compute an operator of one operand."""
    o = current_observer()
    if o is not None and type(thing) not in _PLAIN_TYPES:
        found = observed_method(o, thing, f"__{name}__")
        if found is not NotImplemented:
            return found
        if isinstance(thing, np.ndarray) and o.is_outside(thing):
            o.read_by_value(thing)
            return o.made(getattr(operator, name)(thing))
    return getattr(operator, name)(thing)


def _is_late(thing: Any) -> bool:
    """Tell whether something is, or holds, a number that the program gives."""
    return any(isinstance(part, Number) for part in (thing if type(thing) is tuple else (thing,)))


def _copied(things: Any) -> Any:
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


# --- calls and the rest ---------------------------------------------------------------------------------------


def call(function: Any, *args: Any, **options: Any) -> Any:
    """Call something."""
    if args and args[-1] is EXPANDED:
        args, options = args[0], dict(whole(args[1])) if len(args) > 2 else {}
        args = tuple(_each_of(args))
    o = current_observer()
    if o is not None:
        return o.calls(function, args, options)
    if id(function) in _OF_THE_FRAME:
        frame = sys._getframe(1)
        if function is globals or function is locals:
            return frame.f_globals if function is globals else frame.f_locals
        if len(args) == 1:
            args = (*args, frame.f_globals, frame.f_locals)
    return function(*args, **options)


_OF_THE_FRAME = {id(each) for each in (globals, locals, eval, exec)}  # they look at who calls them


def _each_of(args: Any) -> Any:
    return args if type(args) is tuple else iterator(args)


def super_of(parts: tuple[Any, Any, Any]) -> Any:
    """Make a super object."""
    made, kind, thing = parts
    return made(kind, thing)


def enter(manager: Any) -> tuple[Any, Any]:
    """Enter a with block; return its value, and what leaves it."""
    kind = type(manager)
    o = current_observer()
    if o is None:
        enters, leaves = kind.__enter__, kind.__exit__
        value = enters(manager)
    else:
        enters, leaves = attribute(kind, "__enter__"), attribute(kind, "__exit__")
        value = o.calls(enters, (manager,), {})

    def leave(*error: Any) -> Any:
        return call(leaves, manager, *error)

    return value, leave


def caught(error: BaseException) -> None:
    """Be told that an error is about to be handled."""
    o = current_observer()
    if o is not None:
        o.caught(error)


def refuse(why: str) -> None:
    """Refuse an instruction that is not understood."""
    o = current_observer()
    if o is not None:
        raise o.refuse(why)


def made(thing: Any, cells: tuple[str, ...] = ()) -> None:
    """Something was made. cells: of a function, those of its variables that live in the frame which makes it."""
    o = current_observer()
    if o is not None:
        o.made(thing)
        if cells and thing.__closure__:
            for name, each in zip(thing.__code__.co_freevars, thing.__closure__, strict=True):
                if name in cells:
                    o.made(each)


_CONVERSIONS: dict[str, Any] = {"": lambda thing: thing, "s": str, "r": repr, "a": ascii}


def format_(thing: Any, spec: str, how: str) -> str:
    """Format a part of a text."""
    if current_observer() is None:
        return format(_CONVERSIONS[how](thing), spec)
    if isinstance(thing, _NODE) and not how and thing.ndim == 0:
        thing = thing.item()  # what its own __format__ shows
    return deferred(lambda value, form: format(_CONVERSIONS[how](value), form), as_number(thing), spec)


def joined(parts: tuple[str, ...]) -> str:
    """Join the parts of a text."""
    return deferred(lambda *texts: "".join(texts), *parts)


HOOKS = {
    function.__name__: function
    for function in (
        global_, store_global, cell, store_cell, import_, imported, attribute, store_attribute, delete_attribute, item,
        store_item, delete_item, whole, truth, contains, identical, compare, binary, iterator, call, super_of, enter,
        caught, refuse, made, format_, joined, unary,
    )
}  # fmt: skip
rewriter = Rewriter(HOOKS)
