"""What is called by a function that is being recorded. Enters: a callable and its arguments. Leaves: what it gives.

Functions written in Python are instrumented and run; this library's and NumPy's are run as they are. Of what is written
in C, this file says what it reads of its arguments: anything it says nothing about is refused.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import inspect
import io
import logging
import operator
import random
import re
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch.compiler.ir.sizes import Size
from minitorch.compiler.trace.deferred import deferred
from minitorch.compiler.trace.number import Number, as_size, of_math
from minitorch.compiler.trace.observe import attributes, items, operators
from minitorch.compiler.trace.observe.builtin_functions import (
    AS_ITEMS,
    SPECIAL_BUILTINS,
    SPECIAL_CLASSES,
    attribute_plainly,
    length,
    log,
    store_plainly,
)
from minitorch.compiler.trace.observe.hooks import rewriter
from minitorch.compiler.trace.observe.methods import (
    CONTAINERS,
    HEAP_TYPE,
    IMMUTABLE_TYPE,
    PLAIN_TYPES,
    lookup,
    observed_method,
    own_method,
)
from minitorch.compiler.trace.observe.observer import PLAIN, Library
from minitorch.compiler.trace.observe.values import ValueObserver
from minitorch.compiler.trace.observe.whose import is_trusted, is_trusted_class
from minitorch.compiler.trace.traced import Traced
from minitorch.compiler.trace.varying import as_number
from minitorch.engine.node import Node

# Functions in C of these modules give what follows from their arguments alone.
_PURE_MODULES = {
    "math", "cmath", "_operator", "itertools", "_functools", "_struct", "_bisect", "_string", "_collections",
    "_abc", "binascii", "unicodedata", "_statistics", "_json", "_typing", "_warnings", "_sre", "_locale", "_stat",
    "_codecs", "zlib", "_datetime", "_decimal", "_signal", "_symtable",
}  # fmt: skip
_PURE_BUILTINS = {
    abs, all, any, ascii, bin, callable, chr, divmod, format, hash, hex, issubclass, len, max, min, oct, ord, pow, repr,
    round, sorted, sum,
}  # fmt: skip
_READERS = {
    "get", "items", "values", "keys", "copy", "index", "count", "__getitem__", "__contains__", "__len__", "__iter__",
    "isdisjoint", "issubset", "issuperset", "union", "intersection", "difference", "symmetric_difference", "decode",
    "hex", "__eq__", "__ne__", "__repr__", "__reversed__", "__class_getitem__", "__sizeof__", "find", "startswith",
    "endswith", "split", "__or__", "__add__", "__mul__", "__length_hint__", "tolist", "fromkeys",
}  # fmt: skip
_ADDERS = {"append", "appendleft", "add", "extend", "extendleft", "update", "insert", "discard", "clear"}
_TAKE_ALL_OF_IT = {"extend", "extendleft", "update"}
_TAKERS = {
    "pop", "popitem", "popleft", "remove", "sort", "reverse", "rotate", "setdefault", "move_to_end", "__delitem__",
    "difference_update", "intersection_update", "symmetric_difference_update", "__ior__", "__iadd__",
}  # fmt: skip
_WRITES_ARRAY = {
    "fill", "sort", "put", "resize", "itemset", "partition", "setfield", "setflags", "__setitem__", "byteswap",
}  # fmt: skip
_TELLS_TIME = {"now", "today", "utcnow", "fromtimestamp"}
_RANDOM = (np.random.Generator, np.random.RandomState, random.Random, np.random.BitGenerator)
_SEEDED = (np.random.default_rng, np.random.RandomState)
_LOGGED = {
    logging.debug, logging.info, logging.warning, logging.error, logging.critical, logging.log,
    *(getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error", "critical", "log", "exception")),
}  # fmt: skip


class CallObserver(ValueObserver):
    """An Observer that follows calls."""

    def __init__(self, given: dict[int, Any], promoted: set[tuple[int, Any]], library: Library) -> None:
        super().__init__(given, promoted, library)
        self._of_functions: dict[int, Any] = {}

    def forget(self) -> None:
        """Let go of what was made, and of what was given, in this run."""
        super().forget()
        self._of_functions.clear()

    # --- calling --------------------------------------------------------------------------------------

    def calls(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call something and observe it."""
        kind = type(function)
        if kind is types.MethodType:
            return self.calls(function.__func__, (function.__self__, *args), options)
        if kind is types.FunctionType:
            return self._calls_function(function, args, options)
        if isinstance(function, type):
            return self._makes(function, args, options)
        if kind in _IN_C:
            return self._calls_c(function, args, options)
        if kind is _BY_CYTHON and _home_of(function).startswith(("numpy", "scipy")):
            return self._calls_trusted(function, args, options)
        if kind is functools.partial:
            parts = [
                self.fact("a partial function", "attribute", function, part, getattr(function, part))
                if self.is_outside(function)
                else getattr(function, part)
                for part in ("func", "args", "keywords")
            ]
            self.whole(parts[2])
            return self.calls(parts[0], (*parts[1], *args), {**parts[2], **options})
        if isinstance(function, weakref.ref):
            if (found := function()) is not None and self.is_outside(function):
                # A program that relied on it would keep it alive.
                raise self.refuse(
                    "it asks a weak reference, which may have nothing at the next call; pass what it refers to"
                )
            return found
        if kind in (operator.attrgetter, operator.itemgetter, operator.methodcaller):
            return self._calls_getter(function, args)
        if kind is _LRU_CACHE:
            return self._calls_cached(function, args, options)
        method = lookup(kind, "__call__")
        if isinstance(method, types.FunctionType):
            if not is_trusted(method.__code__):
                self.type_fact(kind, "__call__", method)
            return self.calls(method, (function, *args), options)
        if is_trusted_class(kind) and kind.__module__ != "builtins":
            return self._calls_trusted(function, args, options)
        raise self.refuse(f"it calls a {kind.__name__}, of which it is not known what it reads")

    def _calls_function(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if rewriter.is_instrumented(function.__code__):
            return function(*args, **options)
        if function in _LOGGED:
            return log(self, function, args, options)
        if is_trusted(function.__code__):
            return self._calls_trusted(function, args, options)
        return self.observed_function(function)(*args, **options)

    def observed_function(self, function: Any) -> Any:
        """Return a function that does the same, observed."""
        known = self._of_functions.get(id(function))
        if known is not None:
            return known[1]
        code = function.__code__
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise self.refuse(f"it calls {function.__qualname__}, which is a coroutine")
        if self.is_outside(function):
            for part in ("__code__", "__defaults__", "__kwdefaults__"):
                now = getattr(function, part)
                if part == "__code__" or now is not None:
                    self.fact(
                        f"{part.strip('_')} of {function.__qualname__}", "attribute", function, part, now
                    )
            if function.__kwdefaults__:
                self.whole(function.__kwdefaults__)
        new = types.FunctionType(
            rewriter.instrumented(code),
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        new.__kwdefaults__ = function.__kwdefaults__
        new.__dict__.update(function.__dict__)
        new.__qualname__ = function.__qualname__
        self._of_functions[id(function)] = (function, new)
        self.made(new)
        return new

    def observed(self, function: Any) -> Any:
        """Return what this library's own code shall call in place of something a program has given it."""
        kind = type(function)
        if kind is types.MethodType:
            inner = self.observed(function.__func__)
            return function if inner is function.__func__ else types.MethodType(inner, function.__self__)
        if kind is types.FunctionType and not is_trusted(function.__code__):
            return self.observed_function(function)
        if kind is functools.partial and self.observed(function.func) is not function.func:
            return functools.partial(self.observed(function.func), *function.args, **function.keywords)
        method = lookup(kind, "__call__")
        is_own = isinstance(method, types.FunctionType) and not is_trusted(method.__code__)
        if kind in _IN_C or is_own:  # (a list's append, or an object of one's own)
            return lambda *args, **options: self.calls(function, args, options)
        return function

    def _calls_trusted(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        home = _home_of(function)
        if home.startswith(("numpy.random", "mtrand")):
            return self._draws(function, args, options)
        by_value = home.startswith(("numpy", "scipy"))
        args = tuple([self._passed(a, by_value) for a in args])
        options = {k: self._passed(v, by_value) for k, v in options.items()}
        if isinstance(options.get("out"), np.ndarray) and self.is_outside(options["out"]):
            raise self.refuse(
                "it writes into a NumPy array from outside; make it a Tensor, or write into it outside"
            )
        return self._new(function(*args, **options))

    def _draws(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call something of NumPy's random numbers: from a generator made here with a seed they are always the same."""
        owner = args[0] if args and isinstance(args[0], _RANDOM) else getattr(function, "__self__", None)
        if isinstance(owner, _RANDOM) and not self.is_outside(owner):
            if not all(
                isinstance(a, (*PLAIN, tuple)) or not self.is_outside(a) for a in (*args, *options.values())
            ):
                raise self._refuse_draw()  # it may write into what it is given
            return self._new(function(*args, **options))
        if function in _SEEDED and args and not options and type(args[0]) is int:
            return self.made(function(*args))
        raise self._refuse_draw()

    def _passed(self, thing: Any, by_value: bool, depth: int = 0) -> Any:
        """Return what is given to this library's or NumPy's code in place of a thing."""
        kind = type(thing)
        if kind in PLAIN_TYPES or isinstance(thing, (Node, Traced)):
            if isinstance(thing, Node) and self.is_outside(thing):
                self.meet(thing)
            return thing
        if isinstance(thing, Number):
            return thing if by_value else as_size(thing)
        if isinstance(thing, np.ndarray):
            if self.is_outside(thing) and id(thing) not in self.given:
                if not by_value:
                    return self.shown(thing)
                self.read_by_value(thing)
            return thing
        if isinstance(thing, (types.FunctionType, types.MethodType, functools.partial)):
            return self.observed(thing)
        if isinstance(thing, type) and not is_trusted_class(thing):
            # Its methods may be called: an autograd.Function's forward and backward.
            for base in thing.__mro__:
                for name, value in vars(base).items() if not is_trusted_class(base) else ():
                    if isinstance(value, (types.FunctionType, staticmethod, classmethod)):
                        self.type_fact(thing, name, lookup(thing, name))
        if isinstance(thing, (list, tuple, set, frozenset, dict, collections.deque)) and depth < 4:
            self.whole(thing)
            parts = list(thing.values() if isinstance(thing, dict) else thing)
            new = [self._passed(part, by_value, depth + 1) for part in parts]
            if kind in (list, tuple) and any(a is not b for a, b in zip(new, parts, strict=True)):
                return self.made(kind(new))
            return thing
        if isinstance(thing, Iterator) and self.is_outside(thing):
            raise self.refuse_iterator(thing)
        if self.is_outside(thing):
            self.meet(thing)
        return thing

    def _new(self, thing: Any) -> Any:
        """Note that what a call gave was made by it, if nobody else holds it."""
        if (
            isinstance(thing, (*CONTAINERS, np.ndarray, Iterator))
            and sys.getrefcount(thing) <= _HELD_BY_A_CALL
        ):
            self.made(thing)
        return thing

    def _calls_getter(self, function: Any, args: tuple[Any, ...]) -> Any:
        _, parts = function.__reduce__()[:2]
        if isinstance(function, operator.attrgetter):
            found = [functools.reduce(attributes.attribute, name.split("."), args[0]) for name in parts]
        elif isinstance(function, operator.itemgetter):
            found = [items.item(args[0], key) for key in parts]
        else:
            raise self.refuse("it calls an operator.methodcaller; write the call")
        return found[0] if len(found) == 1 else tuple(found)

    def _calls_cached(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if any(isinstance(a, (Node, Traced)) for a in (*args, *options.values())):
            raise self.refuse("it calls a function that remembers its results (lru_cache) with a tensor")
        if any(isinstance(a, Number) for a in (*args, *options.values())):
            return self.calls(function.__wrapped__, args, options)  # what is remembered is of other numbers
        with self.paused():
            found = function(*args, **options)
        self.library.was_there(found)  # as it will be at the next call
        key = (args, tuple(options.items()))
        return self.fact(f"what {function.__name__} remembers", "remembered", function, key, found)

    # --- functions in C -------------------------------------------------------------------------------

    def _calls_c(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        try:
            special = SPECIAL_BUILTINS.get(function)
        except TypeError:
            special = None
        if special is not None:
            return special(self, *args, **options)
        kind = type(function)
        if kind in (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType):
            if not args:
                return function()
            if kind is types.MethodDescriptorType or isinstance(args[0], CONTAINERS):
                bound = function.__get__(args[0], type(args[0]))
                return self._calls_method(bound, args[0], args[1:], options)
            return self._calls_wrapper(function, args, options)
        owner = function.__self__
        if kind is types.MethodWrapperType:
            return self._calls_method(function, owner, args, options)
        if owner is None or isinstance(owner, types.ModuleType):
            return self._calls_module_function(function, owner, args, options)
        return self._calls_method(function, owner, args, options)

    def _calls_wrapper(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call a special method of C's as it stands in a class: object.__init__(self)."""
        if function.__name__ in (
            "__init__",
            "__new__",
            "__init_subclass__",
            "__repr__",
            "__str__",
            "__eq__",
            "__hash__",
        ):
            return function(*args, **options)
        return self._calls_method(function.__get__(args[0], type(args[0])), args[0], args[1:], options)

    def _calls_module_function(
        self, function: Any, owner: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        home = getattr(owner, "__name__", None) or getattr(function, "__module__", None) or ""
        if home.startswith(("numpy", "scipy")) or isinstance(function, np.ufunc):
            return self._calls_trusted(function, args, options)
        if home == "_random" or home.startswith("random"):
            raise self._refuse_draw()
        if home == "math" and (found := of_math(function, *map(as_number, args))) is not NotImplemented:
            return found
        if (home in _PURE_MODULES and function.__name__ not in _TELLS_TIME) or function in _PURE_BUILTINS:
            args = tuple([self.read(a) for a in args])
            return self._new(function(*args, **{k: self.read(v) for k, v in options.items()}))
        if home == "_thread" or home == "_weakref":
            return function(*args, **options)
        raise self.refuse(
            f"it calls {home}.{function.__name__}, of which it is not known what it reads; call it outside, and pass "
            "what it gives as an argument"
        )

    def read(self, thing: Any) -> Any:
        """Return what a function in C that looks at the whole of a thing is given in its place."""
        if type(thing) in PLAIN_TYPES or isinstance(thing, (Node, Traced, tuple)):
            return thing
        if isinstance(thing, np.ndarray):
            if self.is_outside(thing) and id(thing) not in self.given:
                self.read_by_value(thing)
            return thing
        if isinstance(thing, (types.FunctionType, types.MethodType, functools.partial)):
            return self.observed(thing)
        if own_method(thing, "__iter__") is not None or own_method(thing, "__next__") is not None:
            return items.iterator(thing)
        self.whole(thing)
        return thing

    def _calls_method(self, function: Any, owner: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        name = function.__name__
        if isinstance(owner, CONTAINERS):
            return self._calls_container(function, owner, name, args, options)
        if isinstance(owner, np.ndarray):
            return self._calls_array(function, owner, name, args, options)
        if isinstance(owner, _RANDOM):
            if self.is_outside(owner) or (name == "seed" and (not args or args[0] is None)):
                raise self._refuse_draw()
            return function(*args, **options)
        if isinstance(owner, io.IOBase):
            if name in ("write", "flush", "writelines"):
                return self.happens(function, args, options)
            raise self.refuse(f"it calls {name} of a file; do that outside")
        if isinstance(owner, contextvars.ContextVar):
            if name != "get":
                raise self.refuse(f"it calls {name} of a context variable")
            return self.fact("a context variable", "context", owner, args, owner.get(*args))
        if isinstance(owner, types.GeneratorType):
            self.must_be_ours(owner)
            return function(*args, **options)
        if isinstance(owner, type) and name in (
            "__new__",
            "mro",
            "__subclasses__",
            "__init_subclass__",
            "__prepare__",
        ):
            return self._calls_new(function, owner, args, options)
        if isinstance(owner, str) and name in ("format", "join"):
            parts = (*args, *options.values()) if name == "format" else tuple(items.iterator(args[0]))
            parts = tuple(map(as_number, parts))
            if any(isinstance(part, Number) for part in parts):
                count, names = len(args), tuple(options)

                def said(*texts: Any) -> Any:
                    if name == "join":
                        return function(texts)
                    return function(*texts[:count], **dict(zip(names, texts[count:], strict=True)))

                return deferred(said, *parts)
            args = args if name == "format" else (parts,)
        known = isinstance(owner, (*PLAIN, tuple, type, re.Pattern, re.Match, *_LOCKS)) or is_trusted_class(
            type(owner)
        )
        if isinstance(owner, type) and name in _TELLS_TIME:
            raise self.refuse(f"it asks for the time ({name}); ask outside, and pass it as an argument")
        if name in ("__setattr__", "__delattr__", "__getattribute__"):
            to: Any = {"__setattr__": store_plainly, "__getattribute__": attribute_plainly}.get(name)
            if to is None and not self.is_outside(owner):
                return function(*args)
            if to is None:
                raise self.refuse("it deletes an attribute of an object from outside")
            return to(self, owner, *args)
        if (
            known
            or not self.is_outside(owner)
            or name in ("__init__", "__repr__", "__str__", "__eq__", "__hash__", "__format__")
        ):
            args = tuple([self.read(a) for a in args])
            return self._new(function(*args, **options))
        raise self.refuse(
            f"it calls {name} of a {type(owner).__name__}, of which it is not known what it reads"
        )

    def _calls_new(self, function: Any, owner: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        found = function(*args, **options)
        return self.made(found) if function.__name__ == "__new__" else found

    def _calls_container(
        self, function: Any, owner: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        args = tuple(
            [
                self.read(a) if isinstance(a, (*CONTAINERS, Iterator)) or own_method(a, "__iter__") else a
                for a in args
            ]
        )
        if isinstance(owner, dict) and name in AS_ITEMS and (self.is_outside(owner) or self.is_given(owner)):
            return AS_ITEMS[name](self, owner, *args, **options)
        if name == "__contains__":
            return operators.contains(args[0], owner, False)
        if name == "__getitem__":
            return items.item(owner, args[0])
        if name == "__setitem__":
            return items.store_item((args[1], owner, args[0]))
        if name == "__len__":
            return length(self, owner)
        if self.is_given(owner) and name not in _READERS:
            raise self.refuse("it changes a container among its arguments; return the new one")
        if self.is_outside(owner):
            if name in _READERS or (
                name.startswith("__i") is False and name in ("__lt__", "__le__", "__gt__", "__ge__")
            ):
                self.whole(owner)
            elif name in _ADDERS:
                if is_trusted_class(type(owner)) and type(owner).__module__ not in (
                    "builtins",
                    "collections",
                ):
                    raise self.refuse(f"it changes a {type(owner).__name__} from outside; do that outside")
                given = tuple([items.copied(a) for a in args]) if name in _TAKE_ALL_OF_IT else args
                if isinstance(owner, collections.deque) and owner.maxlen is not None:
                    self.fact("the length of a deque", "attribute", owner, "maxlen", owner.maxlen)
                self.restructured(owner, function, given, options)
            elif name in _TAKERS:
                self.whole(owner)
                self.restructured(owner, function, args, options)
            elif name not in ("__repr__", "__str__", "__hash__", "__reduce_ex__", "__reduce__"):
                raise self.refuse(
                    f"it calls {name} of a {type(owner).__name__}, of which it is not known what it reads"
                )
        if "key" in options:
            options = {**options, "key": self.observed(options["key"])}
        return self._new(function(*args, **options))

    def _calls_array(
        self, function: Any, owner: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        if self.is_outside(owner) and id(owner) not in self.given:
            if name in _WRITES_ARRAY:
                raise self.refuse(
                    "it writes into a NumPy array from outside; make it a Tensor, or write into it outside"
                )
            self.read_by_value(owner)
        return self._calls_trusted(function, args, options)

    # --- classes --------------------------------------------------------------------------------------

    def _makes(self, kind: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        special = SPECIAL_CLASSES.get(kind)
        if special is not None:
            return special(self, kind, args, options)
        if issubclass(kind, BaseException) and not isinstance(lookup(kind, "__init__"), types.FunctionType):
            return self.made(kind(*args, **options))
        if kind in PLAIN_TYPES or kind in (object, property, np.ndarray):
            for name in (
                "__float__",
                "__int__",
                "__index__",
                "__str__",
                "__repr__",
                "__bool__",
                "__complex__",
            ):
                if args and name.strip("_") == kind.__name__ and own_method(args[0], name):
                    return kind(observed_method(self, args[0], name))
            if kind is bool and args:
                return operators.truth(args[0])
            if kind is str and args:
                return deferred(str, *map(as_number, args))
            if kind in (int, float) and len(args) == 1 and isinstance(args[0], (Node, Traced)):
                tensor: Any = args[0]
                args = (tensor.item(),)
            if kind in (int, float) and len(args) == 1 and type(args[0]) is Size:
                return args[0] if kind is int else args[0].number * 1.0
            if kind in (int, float) and len(args) == 1 and isinstance(args[0], Number):
                return deferred(kind, args[0]) if not args[0].decides else kind(args[0])
            args = tuple([self.read(a) for a in args])
            return kind(*args, **options)
        if kind in (threading.Lock, threading.RLock, *_LOCKS):
            return self.made(kind(*args, **options))
        meta_call = lookup(type(kind), "__call__")
        if isinstance(meta_call, types.FunctionType) and not is_trusted(meta_call.__code__):
            return self.calls(meta_call, (kind, *args), options)
        if is_trusted_class(kind):
            if kind.__module__.startswith("numpy.random"):
                return self._draws(kind, args, options)
            new = self._calls_trusted(kind, args, options)
            return new if isinstance(new, np.generic) else self.made(new)
        new, begin = lookup(kind, "__new__"), lookup(kind, "__init__")
        new = new.__func__ if isinstance(new, staticmethod) else new
        for name in ("__new__", "__init__"):
            if not kind.__flags__ & IMMUTABLE_TYPE and self.is_outside(kind):
                self.type_fact(kind, name, lookup(kind, name))
        if isinstance(new, types.FunctionType):
            thing = self.calls(new, (kind, *args), options)
        elif new is object.__new__:
            thing = (
                self.made(object.__new__(kind))
                if begin is not object.__init__ or not (args or options)
                else kind(*args, **options)
            )
        elif (
            isinstance(begin, types.FunctionType) or not kind.__flags__ & HEAP_TYPE or type(kind) is not type
        ):
            for each in (*args, *options.values()):
                self.read(each)
            thing = (
                self.made(kind.__new__(kind, *args, **options))
                if isinstance(begin, types.FunctionType)
                else self._new(kind(*args, **options))
            )
            if not isinstance(begin, types.FunctionType):
                return self.made(thing) if not isinstance(thing, PLAIN) else thing
        else:
            for each in (*args, *options.values()):
                self.read(each)
            return self.made(kind(*args, **options))
        if isinstance(thing, kind) and isinstance(begin, types.FunctionType):
            self.calls(begin, (thing, *args), options)
        elif isinstance(thing, kind) and begin is not object.__init__ and new is object.__new__:
            begin(thing, *args, **options)
        return thing


_IN_C = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
_BY_CYTHON = type(np.random.default_rng)
_LRU_CACHE = type(functools.lru_cache(lambda: None))
_LOCKS = (type(threading.Lock()), type(threading.RLock()))


def _home_of(function: Any) -> str:
    """Return the name of the module that a function, or the class of the object it is bound to, is from."""
    return getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__


def _held_by_a_call() -> int:
    return sys.getrefcount([])


_HELD_BY_A_CALL = _held_by_a_call() + 2
