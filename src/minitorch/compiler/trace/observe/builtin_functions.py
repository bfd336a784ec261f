"""Python's builtins, as a function that is being recorded calls them. Enters: their arguments. Leaves: what they give.

Those that look at an object's attributes, items, class or length, or go through an iterable, do it by the hooks
(hooks.py), so that what they look at is noted; what a builtin changes is repeated at each call, or refused.
"""

from __future__ import annotations

import abc
import collections
import functools
import itertools
import sys
import types
import warnings
from typing import Any

import numpy as np

from minitorch.compiler.ir.sizes import Size
from minitorch.compiler.trace.deferred import deferred
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.observe import attributes, hooks, items, operators
from minitorch.compiler.trace.observe.hooks import rewriter
from minitorch.compiler.trace.observe.methods import CONTAINERS, TENSORS, lookup, observed_method, own_method
from minitorch.compiler.trace.observe.observer import MISSING, PLAIN, brief
from minitorch.compiler.trace.observe.whose import is_trusted_class
from minitorch.compiler.trace.traced import Traced
from minitorch.compiler.trace.varying import as_number
from minitorch.engine.node import Node


def length(o: Any, thing: Any) -> int:
    """Return len(thing)."""
    found = observed_method(o, thing, "__len__")
    if found is not NotImplemented:
        return len(range(found))
    if o.is_outside(thing) and isinstance(thing, CONTAINERS):
        o.length_fact(thing)
    elif isinstance(thing, np.ndarray) and o.is_outside(thing):
        o.array(thing)
    elif (
        o.is_outside(thing)
        and not isinstance(thing, (*PLAIN, tuple, Node, Traced))
        and is_trusted_class(type(thing))
    ):
        o.meet(thing)
    if isinstance(thing, TENSORS) and thing.ndim and type(thing.shape[0]) is Size:
        return thing.shape[0]  # it may vary
    return len(thing)


def _isinstance(o: Any, thing: Any, kinds: Any) -> bool:
    if not isinstance(thing, (Number, Size, Node, type)):
        o.class_fact(thing)
    for each in kinds if type(kinds) is tuple else (kinds,):
        if type(each) is abc.ABCMeta and not is_trusted_class(each) and o.is_outside(each):
            known = issubclass(thing.__class__, each)  # others may be registered later on
            o.fact(f"whether it is a {each.__name__}", "subclass", thing.__class__, each, known)
    return isinstance(thing, kinds)


def _callable(o: Any, thing: Any) -> bool:
    kind = type(thing)
    if not is_trusted_class(kind):
        o.class_fact(thing)
        o.type_fact(kind, "__call__", lookup(kind, "__call__"))
    return callable(thing)


def _type_of(o: Any, kind: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if len(args) != 1:
        raise o.refuse("it makes a class")
    thing = args[0]
    if isinstance(thing, (Number, Size)):
        return thing.__class__
    if not isinstance(thing, (Node, type)):
        o.class_fact(thing)
    return type(thing)


def _hasattr(o: Any, thing: Any, name: str) -> bool:
    try:
        attributes.attribute(thing, name)
    except AttributeError:
        return False
    return True


def _next(o: Any, iterating: Any, *default: Any) -> Any:
    if own_method(iterating, "__next__") is not None:
        try:
            return observed_method(o, iterating, "__next__")
        except StopIteration:
            if default:
                return default[0]
            raise
    if isinstance(iterating, types.GeneratorType):
        o.must_be_ours(iterating)
    elif o.is_outside(iterating):
        raise o.refuse_iterator(iterating)
    return next(iterating, *default)


def _iter(o: Any, thing: Any, *sentinel: Any) -> Any:
    if sentinel:
        raise o.refuse("it calls iter with two arguments")
    return items.iterator(thing)


def _vars(o: Any, *thing: Any) -> Any:
    if not thing:
        return _locals(o)
    return attributes.attribute(thing[0], "__dict__")


def _caller(level: int = 1) -> Any:
    """Return the frame of the instrumented code that is being run; level 2: of its caller, if there is one."""
    frame: Any = None
    outer: Any = sys._getframe(1)
    while outer is not None and level > 0:
        if rewriter.is_instrumented(outer.f_code):
            frame, level = outer, level - 1
        outer = outer.f_back
    return frame


def _locals(o: Any) -> Any:
    return o.made(dict(_caller().f_locals))


def _globals(o: Any) -> Any:
    return _caller().f_globals


def _id(o: Any, thing: Any) -> int:
    is_new = not o.is_outside(thing) or (isinstance(thing, Node) and o.is_fresh_tensor(thing))
    if id(thing) in o.given or (is_new and not isinstance(thing, PLAIN)):
        raise o.refuse("it asks for the id of something that is another one at each call")
    o.meet(thing)
    return id(thing)


def _repr(o: Any, thing: Any) -> Any:
    found = observed_method(o, thing, "__repr__")
    return deferred(repr, as_number(thing)) if found is NotImplemented else found


def _hash(o: Any, thing: Any) -> int:
    found = observed_method(o, thing, "__hash__")
    if found is not NotImplemented:
        return found
    if isinstance(thing, (Node, Traced)) or lookup(type(thing), "__hash__") is object.__hash__:
        return _id(o, thing) and hash(thing)
    return hash(thing)


def _over(function: Any) -> Any:
    """Return how a builtin that goes through an iterable is called."""

    def run(o: Any, *args: Any, **options: Any) -> Any:
        if "key" in options and options["key"] is not None:
            options["key"] = o.observed(options["key"])
        if function is sum:
            total = args[1] if len(args) > 1 else options.get("start", 0)
            for each in items.iterator(args[0]):
                total = operators.binary(total, each, "add")
            return total
        if function in (any, all):
            for each in items.iterator(args[0]):
                if operators.truth(each) is (function is any):
                    return function is any
            return function is all
        if len(args) == 1:
            args = (items.iterator(args[0]),)
        found = function(*args, **options)
        return o.made(found) if function is sorted else found

    return run


def _reduce(o: Any, function: Any, things: Any, *start: Any) -> Any:
    return functools.reduce(lambda a, b: o.calls(function, (a, b), {}), items.iterator(things), *start)


def _setattr(o: Any, thing: Any, name: str, value: Any) -> None:
    attributes.store_attribute(value, thing, name)


def _delattr(o: Any, thing: Any, name: str) -> None:
    attributes.delete_attribute(thing, name)


def store_plainly(o: Any, thing: Any, name: str, value: Any) -> None:
    """Do object.__setattr__(thing, name, value)."""
    if not o.is_outside(thing):
        object.__setattr__(thing, name, value)
    else:
        attributes.plain_store(o, thing, name, value)


def attribute_plainly(o: Any, thing: Any, name: str) -> Any:
    """Return object.__getattribute__(thing, name)."""
    return attributes.of_object(o, thing, name)


def _super(o: Any, kind: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if not args:
        frame = _caller()
        first = frame.f_code.co_varnames[0]
        return super(frame.f_locals["__class__"], frame.f_locals[first])
    return super(*args)


def _print(o: Any, *args: Any, **options: Any) -> None:
    o.happens(print, args, options)


def _may_be_error(kind: Any) -> bool:
    """Tell whether Python's filters may make an error of a warning of some kind."""
    for action, text, category, module, line in warnings.filters:
        if issubclass(kind, category):
            if action == "error":
                return True
            if text is None and module is None and not line:
                return False
    return False


def _warn(
    o: Any,
    message: Any,
    category: Any = None,
    stacklevel: int = 1,
    source: Any = None,
    **options: Any,
) -> None:
    """Warn at each call, as from the line that does."""
    kind = category or (type(message) if isinstance(message, Warning) else UserWarning)
    if source is not None or options or _may_be_error(kind):
        raise o.refuse("it warns, where a warning may be an error; do that outside")
    o.fact("whether a warning may be an error", "remembered", _may_be_error, ((kind,), ()), False)
    frame = _caller(stacklevel)
    space, file, line = frame.f_globals, frame.f_code.co_filename, frame.f_lineno

    def told(text: Any) -> None:
        registry = space.setdefault("__warningregistry__", {})
        warnings.warn_explicit(text, kind, file, line, space.get("__name__"), registry)

    o.happens(told, (message,), {})


def log(o: Any, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Log at each call, as from the line that does. function: one of logging's."""
    if options.get("exc_info") or options.get("stack_info") or function.__name__ == "exception":
        raise o.refuse("it logs an error, or where it is called from, which is known at its line only")
    frame = _caller(options.get("stacklevel", 1))
    told = types.FunctionType(_code_at(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name), {})
    options = {name: each for name, each in options.items() if name != "stacklevel"}
    o.happens(told, (function, *args), options)


@functools.lru_cache(maxsize=1024)
def _code_at(file: str, line: int, name: str) -> types.CodeType:
    """Return code that calls a function, for whoever looks from which line and function it is called."""
    code = (lambda function, *args, **options: function(*args, **options)).__code__
    return code.replace(co_filename=file, co_firstlineno=line, co_name=name)


def _refused(why: str) -> Any:
    def run(o: Any, *args: Any, **options: Any) -> Any:
        raise o.refuse(why)

    return run


def _container(o: Any, kind: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make a container or an iterator of what is in others."""
    if kind is dict and args and not isinstance(args[0], dict) and hasattr(args[0], "keys"):
        keys = list(items.iterator(o.calls(attributes.attribute(args[0], "keys"), (), {})))
        return o.made({key: items.item(args[0], key) for key in keys} | options)
    if kind in (map, filter):
        function, *things = args
        each = [items.iterator(thing) for thing in things]
        if kind is map:
            return o.made(map(lambda *parts: o.calls(function, parts, {}), *each))
        test = (
            operators.truth
            if function is None
            else lambda part: operators.truth(o.calls(function, (part,), {}))
        )
        return o.made(filter(test, *each))
    if kind is reversed:
        found = observed_method(o, args[0], "__reversed__")
        if found is not NotImplemented:
            return found
    options = dict(options)
    first = args[1:] if kind is collections.defaultdict else args
    read = [
        o.read(a) if isinstance(a, CONTAINERS) or own_method(a, "__iter__") is None else items.iterator(a)
        for a in first
    ]
    return o.made(kind(*(args[:1] if kind is collections.defaultdict else ()), *read, **options))


def _of_items(o: Any, things: Any, options: dict[str, Any]) -> dict[Any, Any]:
    """Return what dict.update is given as one dict."""
    new = _container(o, dict, (things,), {}) if things is not None else {}
    return {**new, **options}


def _update(o: Any, owner: Any, things: Any = None, /, **options: Any) -> None:
    for key, value in _of_items(o, things, options).items():
        items.store_item((value, owner, key))


def _setdefault(o: Any, owner: Any, key: Any, default: Any = None) -> Any:
    if not operators.contains(key, owner, False):
        items.store_item((default, owner, key))
    return items.item(owner, key)


def _get(o: Any, owner: Any, key: Any, default: Any = None) -> Any:
    try:
        if not dict.__contains__(owner, key) and lookup(type(owner), "__missing__") is not MISSING:
            o.fact(f"[{brief(key)}]", "item", owner, key, MISSING, o.is_managed(owner))
            return default
        return items.item(owner, key)
    except KeyError:
        return default


def _pop(o: Any, owner: Any, key: Any, *default: Any) -> Any:
    if not operators.contains(key, owner, False):
        if default:
            return default[0]
        raise KeyError(key)
    found = items.item(owner, key)
    items.delete_item(owner, key)
    return found


AS_ITEMS: dict[str, Any] = {"update": _update, "setdefault": _setdefault, "get": _get, "pop": _pop}

SPECIAL_BUILTINS: dict[Any, Any] = {
    getattr: lambda o, *args: attributes.attribute(*args),
    hasattr: _hasattr,
    setattr: _setattr,
    delattr: _delattr,
    len: length,
    isinstance: _isinstance,
    issubclass: lambda o, *args: issubclass(*args),
    next: _next,
    iter: _iter,
    vars: _vars,
    globals: _globals,
    locals: _locals,
    id: _id,
    hash: _hash,
    callable: _callable,
    print: _print,
    warnings.warn: _warn,
    object.__setattr__: store_plainly,
    object.__getattribute__: attribute_plainly,
    functools.reduce: _reduce,
    repr: _repr,
    format: lambda o, thing, spec="": hooks.format_(thing, spec, ""),
    round: lambda o, number, *digits: (
        deferred(round, number, *digits) if type(number) in (int, float) else round(number, *digits)
    ),
    **{each: _over(each) for each in (sum, min, max, sorted, any, all)},
    **{
        each: _refused(f"it calls {each.__name__}; call it outside")
        for each in (eval, exec, compile, open, input, breakpoint, dir, __import__, memoryview, sys._getframe)
    },
}
SPECIAL_CLASSES: dict[Any, Any] = {
    type: _type_of,
    super: _super,
    **dict.fromkeys(
        (
            list, tuple, set, frozenset, dict, enumerate, zip, reversed, map, filter, collections.deque,
            collections.OrderedDict, collections.defaultdict, itertools.chain, itertools.islice, itertools.product,
            itertools.repeat, itertools.accumulate, itertools.permutations, itertools.combinations, itertools.count,
            itertools.cycle, itertools.zip_longest, itertools.takewhile, itertools.dropwhile, itertools.starmap,
        ),
        _container,
    ),
}  # fmt: skip
