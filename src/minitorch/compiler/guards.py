"""What a recording relied on, and whether it still holds.

Enters: the function that is about to be recorded. Leaves: a `World`: everything its code can reach by name
(closed-over variables, defaults, globals, attributes, containers, Modules, optimisers), and a function that
tells whether any of it has changed.

Python does not tell us what a function reads, so we read its code: the names in it, and in the functions and
methods it names in turn. Numbers, strings and the like are compared by value, everything else by identity and
then looked into. Tensors and arrays are the program's inputs; here only their identity counts.
Modules and parameter groups report their own changes (recording.changes counts them), so that an unchanged world
costs one comparison for all of them.
"""

from __future__ import annotations

import enum
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minitorch import recording
from minitorch.node import Node
from minitorch.optim.optimizer import Optimizer, ParameterGroup

PLAIN = (int, float, complex, str, bytes, bool, type(None), enum.Enum, np.generic, np.dtype, slice, range, type(...))
_LIBRARIES = {Path(__file__).parent.parent.resolve(), Path(np.__file__).parent.resolve(), Path(types.__file__).parent.resolve()}
_MISSING: Any = object()


class World:
    """What was found, as it was found, and whether it is still so.

    tensors: every Tensor met. arrays: every NumPy array met, by id. reasons: what to say when something changed.
    """

    def __init__(self, function: Callable[..., Any], symbolic: set[tuple[int, str]]) -> None:
        self.symbolic = symbolic  # numbers that are inputs of the program, by holder and key: free to change
        self.arrays: dict[int, np.ndarray] = {}
        self.numbers: list[tuple[Any, str]] = []  # changeable numbers found, by holder and key
        self._conditions: dict[bool, list[str]] = {False: [], True: []}  # by: is it reported?
        self._readers: list[tuple[str, str, Any]] = []  # description, expression, what it was
        self._bound: dict[str, Any] = {"same": same, "missing": _MISSING}
        self._seen: set[int] = set()
        self._names: set[str] = set()
        self._code_seen: set[Any] = set()
        self._stack: list[tuple[str, Any]] = []
        self._changes = recording.changes[0]
        self._start(function)
        self._check_plain = self._compiled(False)
        self._check_reported = self._compiled(True)

    @property
    def size(self) -> int:
        """How many things are compared."""
        return len(self._readers)

    def holds(self) -> bool:
        """Tell whether everything is as it was."""
        if self._changes != recording.changes[0]:
            if not self._check_reported():
                return False
            self._changes = recording.changes[0]
        return self._check_plain()

    def what_changed(self) -> str:
        """Name the first thing that is not as it was."""
        for description, expression, was in self._readers:
            try:
                now = eval(expression, self._bound)
            except (KeyError, AttributeError, IndexError, ValueError, NameError) as error:
                return f"{description} is gone ({error})"
            if not same(now, was):
                return f"{description} was {_brief(was)} and is {_brief(now)}"
        return "nothing"

    # --- walking ------------------------------------------------------------------------------------

    def _start(self, function: Callable[..., Any]) -> None:
        for name in names_reachable(function):
            self._names |= name
        self._look(describe(function), function)
        while self._stack:
            description, thing = self._stack.pop()
            self._look(description, thing)

    def _bind(self, thing: Any) -> str:
        name = f"o{len(self._bound)}"
        self._bound[name] = thing
        return name

    def _compare(self, description: str, expression: str, was: Any, reported: bool = False) -> None:
        """Note that an expression must go on to give what it gave, and look into it."""
        expected = self._bind(was)
        if isinstance(was, PLAIN):
            self._conditions[reported].append(f"({expression} is {expected} or same({expression}, {expected}))")
        else:
            self._conditions[reported].append(f"{expression} is {expected}")
        self._readers.append((description, expression, was))
        if not isinstance(was, PLAIN):
            self._stack.append((description, was))

    def _compiled(self, reported: bool) -> Callable[[], bool]:
        conditions = self._conditions[reported]
        # One function of a few hundred conditions at a time: a single expression may not nest too deeply.
        parts = []
        for start in range(0, len(conditions), 200):
            source = "lambda: " + (" and ".join(conditions[start : start + 200]) or "True")
            parts.append(eval(source, self._bound))
        if len(parts) == 1:
            return _safely(parts[0])
        return _safely(lambda: all(part() for part in parts))

    def _look(self, description: str, thing: Any) -> None:
        if id(thing) in self._seen or isinstance(thing, (*PLAIN, Node)):
            return
        self._seen.add(id(thing))
        self._bind(thing)  # kept alive, so that its id stays its own
        if isinstance(thing, np.ndarray):
            self.arrays[id(thing)] = thing
        elif isinstance(thing, types.FunctionType):
            self._look_at_function(description, thing)
        elif isinstance(thing, types.MethodType):
            self._look(f"{description}.__self__", thing.__self__)
            self._look(description, thing.__func__)
        elif isinstance(thing, ParameterGroup):
            self._look_at_group(description, thing)
        elif isinstance(thing, Optimizer):
            self._look_at_optimizer(description, thing)
        elif isinstance(thing, (list, tuple, deque)):
            self._look_at_sequence(description, thing)
        elif isinstance(thing, (dict, OrderedDict, defaultdict)):
            self._look_at_dict(description, thing)
        elif isinstance(thing, (set, frozenset)):
            self._compare(f"len({description})", f"len({self._bind(thing)})", len(thing))
        elif isinstance(thing, types.ModuleType):
            if not is_library(getattr(thing, "__file__", None)):
                self._look_at_attributes(description, thing, vars(thing))
        elif isinstance(thing, type):
            if not is_library(getattr(sys.modules.get(thing.__module__), "__file__", None)):
                self._look_at_class(description, thing)
        elif type(thing).__name__ == "CompiledFunction":
            self._look(description, thing.function)
        elif hasattr(thing, "__dict__") and not getattr(thing, "_is_replayed", False):
            self._look_at_object(description, thing)

    def _look_at_function(self, description: str, function: types.FunctionType) -> None:
        if is_library(function.__code__.co_filename):
            return
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._look(description, wrapped)
        handle = self._bind(function)
        self._compare(f"the code of {description}", f"{handle}.__code__", function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self._compare(name, f"{self._bind(cell)}.cell_contents", content)
        if function.__defaults__:
            self._compare(f"the defaults of {description}", f"{handle}.__defaults__", function.__defaults__)
        if function.__kwdefaults__:
            self._compare(f"the defaults of {description}", f"{handle}.__kwdefaults__", function.__kwdefaults__)
        space = self._bind(function.__globals__)
        for name in sorted(names_in(function.__code__)):
            if name in function.__globals__:
                self._compare(name, f"{space}.get({name!r}, missing)", function.__globals__[name])

    def _look_at_class(self, description: str, kind: type) -> None:
        handle = self._bind(kind)
        for name, member in list(vars(kind).items()):
            member = getattr(member, "__func__", member)
            if isinstance(member, property):
                for part in (member.fget, member.fset):
                    if part is not None:
                        self._look(f"{description}.{name}", part)
            elif isinstance(member, types.FunctionType):
                self._compare(f"{description}.{name}", f"vars({handle}).get({name!r}, missing)", vars(kind)[name])
                self._look(f"{description}.{name}", member)
            elif name in self._names and not name.startswith("__"):
                self._compare(f"{description}.{name}", f"vars({handle}).get({name!r}, missing)", vars(kind)[name])
        for base in kind.__mro__[1:]:
            self._look(base.__name__, base)

    def _look_at_attributes(self, description: str, thing: Any, attributes: dict[str, Any], reported: bool = False) -> None:
        space = self._bind(attributes)
        for name, content in list(attributes.items()):
            if name not in self._names or (id(thing), name) in self.symbolic:
                continue
            if isinstance(content, float):
                self.numbers.append((thing, name))
            self._compare(f"{description}.{name}", f"{space}.get({name!r}, missing)", content, reported)

    def _look_at_object(self, description: str, thing: Any) -> None:
        self._look(type(thing).__name__, type(thing))
        reported = getattr(thing, "_reports_changes", False)
        attributes = vars(thing)
        self._look_at_attributes(description, thing, attributes, reported)
        if not reported:
            return
        # A Module: its parts, by name; hooks are Python code that runs.
        for part in ("_parameters", "_buffers", "_modules"):
            space = self._bind(attributes[part])
            for name, member in attributes[part].items():
                self._compare(f"{description}.{name}", f"{space}.get({name!r}, missing)", member, reported)
            self._compare(f"the number of {part} of {description}", f"len({space})", len(attributes[part]), reported)
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            space = self._bind(attributes[hooks])
            self._compare(f"the hooks of {description}", f"len({space})", len(attributes[hooks]), reported)
            for hook in attributes[hooks].values():
                self._look(f"a hook of {description}", hook)
        self._compare(f"{description}.training", f"{self._bind(attributes)}['training']", attributes["training"], reported)
        for name, member in type(thing).__dict__.items():  # classes of this library have no globals to look at
            if name == "forward":
                self._look(f"{description}.forward", getattr(member, "__func__", member))

    def _look_at_group(self, description: str, group: Any) -> None:
        space = self._bind(group)
        for key, content in group.items():
            if (id(group), key) in self.symbolic or key == "lr":
                continue
            if isinstance(content, float):
                self.numbers.append((group, key))
            self._compare(f"{description}[{key!r}]", f"{space}.get({key!r}, missing)", content, reported=True)

    def _look_at_optimizer(self, description: str, optimizer: Any) -> None:
        handle = self._bind(optimizer)
        self._compare(f"{description}.param_groups", f"{handle}.param_groups", optimizer.param_groups)
        self._compare(f"{description}.state", f"{handle}.state", optimizer.state)
        for hooks in ("_step_pre_hooks", "_step_post_hooks"):
            self._compare(f"the hooks of {description}", f"len({handle}.{hooks})", len(getattr(optimizer, hooks)))
        self._look(type(optimizer).__name__, type(optimizer))

    def _look_at_sequence(self, description: str, items: Any) -> None:
        handle = self._bind(items)
        self._compare(f"len({description})", f"len({handle})", len(items))
        if isinstance(items, tuple):
            for i, item in enumerate(items):  # a tuple cannot change, what is in it may
                self._look(f"{description}[{i}]", item)
            return
        if items and all(isinstance(i, PLAIN) for i in items):  # all at once
            was = self._bind(list(items))
            self._conditions[False].append(f"{handle} == {was}")
            self._readers.append((description, f"list({handle})", list(items)))
            return
        for i, item in enumerate(items):
            self._compare(f"{description}[{i}]", f"{handle}[{i}]", item)

    def _look_at_dict(self, description: str, items: Any) -> None:
        handle = self._bind(items)
        self._compare(f"len({description})", f"len({handle})", len(items))
        for key, item in list(items.items()):
            self._look(f"a key of {description}", key)
            if (id(items), key) in self.symbolic if isinstance(key, str) else False:
                continue
            name = repr(key) if isinstance(key, (str, int)) else self._bind(key)
            self._compare(f"{description}[{_brief(key)}]", f"{handle}.get({name}, missing)", item)


def _safely(check: Callable[[], bool]) -> Callable[[], bool]:
    def run() -> bool:
        try:
            return bool(check())
        except (KeyError, AttributeError, IndexError, ValueError):
            return False

    return run


def same(a: Any, b: Any) -> bool:
    """Tell whether two plain things are one and the same to a program: type, value, sign of zero; nan is nan."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, (*PLAIN, list)):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (a == b and str(a) == str(b)) or (a != a and b != b)
    return bool(a == b)


def is_library(file: str | None) -> bool:
    """Tell whether a file belongs to this library, to NumPy or to Python itself: code that stays as it is."""
    if file is None or file.startswith("<frozen"):
        return True
    if file.startswith("<"):
        return False  # typed at a prompt
    path = Path(file).resolve()
    return any(root in path.parents for root in _LIBRARIES) and "site-packages" not in str(path).replace(str(Path(np.__file__).parent.resolve()), "")


def names_in(code: types.CodeType) -> set[str]:
    """Return every name of a global or attribute in a piece of code, and in those inside it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_in(constant)
        elif isinstance(constant, str):
            names.add(constant)  # getattr(x, "name")
    return names


def names_reachable(function: Callable[..., Any]) -> Iterator[set[str]]:
    """Yield the names in a function's code and in all the code it names in turn."""
    seen: set[int] = set()
    stack: list[Any] = [function]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, (*PLAIN, Node, np.ndarray)):
            continue
        seen.add(id(thing))
        if isinstance(thing, types.MethodType):
            stack += [thing.__func__, thing.__self__]
        elif isinstance(thing, types.FunctionType):
            yield names_in(thing.__code__)
            if is_library(thing.__code__.co_filename):
                continue
            stack.append(getattr(thing, "__wrapped__", None))
            for cell in thing.__closure__ or ():
                try:
                    stack.append(cell.cell_contents)
                except ValueError:
                    continue
            space = thing.__globals__
            stack += [space[name] for name in names_in(thing.__code__) if name in space]
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
        elif type(thing).__name__ == "CompiledFunction":
            stack.append(thing.function)
        elif hasattr(thing, "__dict__") and not isinstance(thing, types.ModuleType):
            stack.append(type(thing))
            stack += list(vars(thing).values())
        elif isinstance(thing, types.ModuleType) and not is_library(getattr(thing, "__file__", None)):
            stack += [m for m in vars(thing).values() if isinstance(m, (types.FunctionType, type))]


def describe(function: Any) -> str:
    """Return a function's name."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def _brief(thing: Any) -> str:
    text = repr(thing) if isinstance(thing, PLAIN) else f"a {type(thing).__name__}"
    return text if len(text) < 60 else text[:57] + "…"
