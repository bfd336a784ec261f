"""Operators in instrumented code. Enters: operands. Leaves: what a comparison, a sum or a condition gives."""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

import numpy as np

from minitorch.compiler.trace.deferred import deferred
from minitorch.compiler.trace.number import Number, settled
from minitorch.compiler.trace.observe.items import copied, iterator, whole
from minitorch.compiler.trace.observe.methods import (
    CONTAINERS,
    PLAIN_TYPES,
    TENSORS,
    lookup,
    observed_method,
    own_method,
)
from minitorch.compiler.trace.observe.observer import MISSING, brief, current_observer
from minitorch.compiler.trace.varying import as_number


def truth(thing: Any) -> bool:
    """Ask for the truth of something."""
    o = current_observer()
    if o is None or type(thing) in PLAIN_TYPES:
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
    if o is not None and type(container) not in PLAIN_TYPES:
        found = observed_method(o, container, "__contains__", key)
        if (
            found is NotImplemented
            and own_method(container, "__iter__") is not None
            and lookup(type(container), "__contains__") is MISSING
        ):
            found = any(
                identical(each, key, False) or truth(compare(each, key, "eq")) for each in iterator(container)
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
    if o is not None and not (type(a) in PLAIN_TYPES and type(b) in PLAIN_TYPES):
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
    if o is None or (type(a) in PLAIN_TYPES and type(b) in PLAIN_TYPES):
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
        o.restructured(a, getattr(a, f"__i{special}__"), (copied(b),), {})
        return into(a, b)
    for each in (a, b):
        if isinstance(each, CONTAINERS):
            whole(each)
    found = (into if in_place else plain)(a, b)
    return o.made(found) if isinstance(found, CONTAINERS) and not (in_place and found is a) else found


def unary(thing: Any, name: str) -> Any:
    """Compute an operator of one operand."""
    o = current_observer()
    if o is not None and type(thing) not in PLAIN_TYPES:
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
