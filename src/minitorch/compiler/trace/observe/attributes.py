"""Attributes in instrumented code. Enters: an object and a name. Leaves: what is found there, or stored."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

from minitorch.compiler.ir.sizes import Size
from minitorch.compiler.trace.number import Number, settled
from minitorch.compiler.trace.observe.methods import IMMUTABLE_TYPE, NODE, PLAIN_TYPES, TENSORS, lookup
from minitorch.compiler.trace.observe.observer import MISSING, current_observer
from minitorch.compiler.trace.observe.whose import is_trusted, is_trusted_class
from minitorch.engine.node import Node


def attribute(thing: Any, name: str, *default: Any) -> Any:
    """Load an attribute."""
    o = current_observer()
    if o is None or type(thing) in PLAIN_TYPES:
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
    return of_object(o, thing, name)


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
    if not kind.__flags__ & IMMUTABLE_TYPE and o.is_outside(kind):
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
        if not base.__flags__ & IMMUTABLE_TYPE and not is_trusted_class(base):
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
    if isinstance(thing, NODE):
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


def of_object(o: Any, thing: Any, name: str) -> Any:
    """Return an attribute of an object, found as Python finds it: on its class, in its own dict, by __getattr__."""
    kind = type(thing)
    outside = o.is_outside(thing)
    reported = False
    if outside:
        o.meet(thing)
        reported = o.is_managed(thing)
        o.class_fact(thing)
    on_class = lookup(kind, name)
    if not kind.__flags__ & IMMUTABLE_TYPE and o.is_outside(kind):
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
    if not kind.__flags__ & IMMUTABLE_TYPE and o.is_outside(kind):
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
        note_store(o, "space", thing.__dict__, name, value, thing.__dict__.get(name, MISSING))
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
        note_store(o, "space", space, name, value, space.get(name, MISSING))
        dict.__setitem__(space, name, value)
    else:
        _note_space(o, thing, space)
        note_store(o, "space", space, name, value, space.get(name, MISSING))
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


def note_store(o: Any, kind: str, holder: Any, key: Any, value: Any, before: Any) -> None:
    """Tell the observer of a store, and how it is undone."""

    def undo() -> None:
        if before is MISSING:
            dict.pop(holder, key, None)
        else:
            dict.__setitem__(holder, key, before)

    if before is MISSING and isinstance(holder, dict):
        o.note_new_key(holder)
    o.wrote(kind, holder, key, value, undo)
