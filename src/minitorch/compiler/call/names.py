"""Names in code, and whose code it is. Enters: functions and what they use. Leaves: every name they could look up.

Python does not tell what a function reads, so its code is read: the names in it, and in the functions and methods it
names in turn. Code that stays as it is (this library's, NumPy's, Python's) is not looked into.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.compiler.call.conditions import PLAIN
from minitorch.engine.node import Node
from minitorch.optim.lr_scheduler import LRScheduler

_OURS = (Path(__file__).parents[2].resolve(), Path(np.__file__).parent.resolve())
_PYTHON = Path(types.__file__).parent.resolve()


class FunctionWrapper:
    """Stands for a function and does what that does: its own attributes are nobody's concern here."""

    function: Callable[..., Any]


class Bookkeeping:
    """What this room keeps beside a function or in an instance: nothing the function reads, so not looked into."""


@functools.lru_cache(maxsize=4096)
def is_library(file: str | None) -> bool | None:
    """Tell whether a file belongs to this library, to NumPy or to Python itself: code that stays as it is.

    None: to another package that is installed.
    """
    if file is None or file.startswith("<frozen"):
        return True
    if file.startswith("<"):
        return False  # typed at a prompt
    path = Path(file).resolve()
    if any(root in path.parents for root in _OURS):
        return True
    if not {"site-packages", "dist-packages"}.isdisjoint(path.parts):
        return None
    return _PYTHON in path.parents


def is_fixed(file: str | None, names: dict[str, Any]) -> bool:
    """Tell whether code stays as it is: a library's, or an installed package's that does not use this library.

    file: where it is. names: the globals there.
    """
    known = is_library(file)
    if known is None:
        ours = __name__.partition(".")[0]
        return not any(_home(member) == ours for member in list(names.values()))
    return known


def _home(thing: Any) -> str:
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None)
    return name.partition(".")[0] if isinstance(name, str) else ""


def is_fixed_function(function: types.FunctionType) -> bool:
    """Tell whether a function's code is some library's."""
    return is_fixed(function.__code__.co_filename, function.__globals__)


def is_fixed_module(module: Any) -> bool:
    """Tell whether a module is some library's."""
    return module is None or is_fixed(getattr(module, "__file__", None), vars(module))


def is_library_class(kind: type) -> bool:
    """Tell whether a class is some library's, or Python's own."""
    return kind.__module__ == "builtins" or is_fixed_module(sys.modules.get(kind.__module__))


def is_replayed(thing: Any) -> bool:
    """Tell whether an object is a schedule whose steps a compiled function repeats, not relying on its state."""
    if not isinstance(thing, LRScheduler):
        return False
    code = getattr(type(thing).step, "__code__", None)
    return code is not None and is_library(code.co_filename) is True


@functools.lru_cache(maxsize=8192)
def names_in(code: types.CodeType, assigned: bool = False) -> frozenset[str]:
    """Return every name of an attribute or global that a piece of code (and those inside it) reads.

    assigned: those that it only assigns to as well.
    """
    names = {c for c in code.co_consts if isinstance(c, str)}  # getattr(x, "name")
    for instruction in dis.get_instructions(code):
        is_name = isinstance(instruction.argval, str) and instruction.argval in code.co_names
        if is_name and (assigned or instruction.opname.startswith(("LOAD_", "IMPORT_"))):
            names.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_in(constant, assigned)
        elif isinstance(constant, tuple):
            names.update(part for part in constant if isinstance(part, str))
    return frozenset(names)


@functools.lru_cache(maxsize=8192)
def globals_in(code: types.CodeType, assigned: bool = False) -> frozenset[str]:
    """Return the names of globals that a piece of code (and those inside it) reads, or assigns to as well."""
    kinds = ("LOAD_GLOBAL", "LOAD_NAME", *(("STORE_GLOBAL", "DELETE_GLOBAL") if assigned else ()))
    names = {i.argval for i in dis.get_instructions(code) if i.opname in kinds}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= globals_in(constant, assigned)
    return frozenset(names)


def names_reachable(roots: Sequence[Any], assigned: bool = False) -> Iterator[tuple[frozenset[str], bool]]:
    """Yield the names in functions' code and in all the code they name in turn, and whether that is a library's."""
    seen: set[int] = set()
    stack: list[Any] = list(roots)
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, (*PLAIN, np.ndarray, Bookkeeping)):
            continue
        seen.add(id(thing))
        if isinstance(thing, Node):
            hooks = thing._hooks
            stack += [] if hooks is None else [*hooks.on_gradient.values(), *hooks.when_accumulated.values()]
        elif isinstance(thing, types.MethodType):
            stack += [thing.__func__, thing.__self__]
        elif isinstance(thing, types.FunctionType):
            ours = is_fixed_function(thing)
            yield names_in(thing.__code__, assigned), ours
            stack.append(getattr(thing, "__wrapped__", None))
            if ours:
                continue
            stack += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
            for cell in thing.__closure__ or ():
                try:
                    stack.append(cell.cell_contents)
                except ValueError:
                    continue
            space = thing.__globals__
            stack += [space[name] for name in globals_in(thing.__code__) if name in space]
            stack += vars(thing).values()
        elif isinstance(thing, functools.partial):
            stack += [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, property):
            stack += [thing.fget, thing.fset]
        elif isinstance(thing, type):
            if thing.__module__ != "builtins":
                stack += [getattr(m, "__func__", m) for m in vars(thing).values()]
                stack += thing.__mro__[1:]
        elif isinstance(thing, (list, tuple, set, frozenset, deque)):
            stack += list(thing)
        elif isinstance(thing, dict):
            stack += list(thing.values())
        elif isinstance(thing, FunctionWrapper):
            stack.append(thing.function)
        elif isinstance(thing, types.ModuleType):
            if not is_fixed_module(thing):
                stack += [m for m in vars(thing).values() if isinstance(m, (types.FunctionType, type))]
        else:
            stack.append(type(thing))
            stack += list(getattr(thing, "__dict__", {}).values())


def describe(function: Any) -> str:
    """Return a function's name."""
    return getattr(function, "__qualname__", None) or type(function).__name__
