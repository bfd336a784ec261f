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

import builtins
import dis
import enum
import functools
import inspect
import io
import operator
import random
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.engine import recording
from minitorch.engine.node import Node
from minitorch.engine.watch import fingerprint
from minitorch.optim.optimizer import Optimizer, ParameterGroup
from minitorch.random import Generator

PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    bool,
    type(None),
    enum.Enum,
    np.generic,
    np.dtype,
    slice,
    range,
    type(...),
)
_OURS = (Path(__file__).parents[2].resolve(), Path(np.__file__).parent.resolve())
_PYTHON = Path(types.__file__).parent.resolve()
_MISSING: Any = object()
# Code with one of these names may look at any attribute of an object.
_ALL_ATTRIBUTES = {
    "__dict__",
    "vars",
    "asdict",
    "astuple",
    "fields",
    "getattr",
    "__getattribute__",
    "attrgetter",
}
# What an optimiser keeps for itself; the rest of its attributes are a subclass's own.
_OF_MODULES = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}
_OF_OPTIMIZERS = {"defaults", "state", "param_groups", "_scratch", "_in_step", "_opt_called"}


class Standing:
    """What stands for a function, and does what that does: its own attributes are nobody's concern here."""

    function: Callable[..., Any]


class World:
    """What was found, as it was found, and whether it is still so.

    function: whose names to follow. arguments: objects it is given, which are looked into as well.
    symbolic: numbers that are inputs of the program, by holder and key: free to change.
    without_gradient: Tensors whose gradient was asked for when they had none.
    inputs: arrays, by id, that are inputs of the program, and free to change; None before there is one: then names
    count that are only assigned to, because a function that does so changes its world.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        symbolic: set[tuple[int, str]],
        arguments: Sequence[Any] = (),
        without_gradient: Sequence[Any] = (),
        inputs: set[int] | None = None,
    ) -> None:
        self.symbolic = symbolic
        self._inputs = inputs
        self.arrays: dict[int, np.ndarray] = {}  # every NumPy array met, by id
        self.numbers: list[tuple[Any, str, float]] = []  # changeable numbers met: holder, key, what it was
        self.freed: list[tuple[Any, str, Any]] = []  # numbers not compared because they are `symbolic`
        self.rates: list[tuple[Any, Any]] = []  # parameter groups, and their learning rates
        self.optimizers: list[Any] = []
        self.iterators: list[str] = []  # what gives something else each time it is asked
        self.schedulers: list[Any] = []
        self.tensors: list[Any] = []
        self.streams: list[Any] = []  # this library's generators of random numbers
        self.generators: list[Any] = []  # NumPy's and Python's
        self._conditions: dict[bool, list[str]] = {False: [], True: []}  # by: is it reported?
        self._readers: list[tuple[str, str, Any]] = []  # description, expression, what it was
        self._bound: dict[str, Any] = {
            "same": same, "alike": alike, "content": content, "missing": _MISSING
        }  # fmt: skip
        self._seen: set[int] = set()
        self._names: set[str] = set()
        self._user_names: set[str] = set()  # those in code outside of this library
        self._stack: list[tuple[str, Any]] = []
        self._own_optimizer = False  # is there one whose code is not this library's?
        self._changes = recording.changes[0]
        self._start(function, arguments)
        for tensor in without_gradient:
            handle = self._bind(tensor)
            self._conditions[False].append(f"{handle}._grad is None")
            self._readers.append(
                (f"the gradient of a tensor of shape {tensor.shape}", f"{handle}._grad", None)
            )
        self._check_plain = self._compiled(False)
        self._check_reported = self._compiled(True)

    @property
    def size(self) -> int:
        """How many things are compared."""
        return len(self._readers)

    @property
    def names(self) -> list[str]:
        """What is compared, in words."""
        return [description for description, _, _ in self._readers]

    def knows(self, thing: Any) -> bool:
        """Tell whether an object is one that was there before the recording."""
        return id(thing) in self._seen

    def changed_numbers(self) -> Iterator[tuple[Any, str]]:
        """Yield the changeable numbers that are not what they were: holder and key."""
        for holder, key, was in self.numbers:
            now = holder.get(key) if isinstance(holder, dict) else getattr(holder, key, None)
            if type(now) is float and not same(now, was):
                yield holder, key

    def freed_changed(self, symbolic: set[tuple[int, str]]) -> str:
        """Name a number that was not compared, is no input either, and has changed; '' if there is none."""
        for holder, key, was in self.freed:
            now = holder.get(key) if isinstance(holder, dict) else getattr(holder, key, None)
            if (id(holder), key) not in symbolic and not same(now, was):
                return key
        return ""

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
        return ""

    # --- walking ------------------------------------------------------------------------------------

    def _start(self, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        for names, is_ours in names_reachable([function, *arguments], assigned=self._inputs is None):
            self._names |= names
            if not is_ours:
                self._user_names |= names
        self._look(describe(function), function)
        for thing in arguments:
            self._look(f"an argument ({type(thing).__name__})", thing)
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
            self._conditions[reported].append(
                f"({expression} is {expected} or same({expression}, {expected}))"
            )
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
        if id(thing) in self._seen or isinstance(thing, PLAIN):
            return
        self._seen.add(id(thing))
        self._bind(thing)  # kept alive, so that its id stays its own
        if isinstance(thing, Node):
            self._look_at_tensor(description, thing)
        elif isinstance(thing, np.ndarray):
            self.arrays[id(thing)] = thing
            handle, shape = self._bind(thing), self._bind(thing.shape)
            self._conditions[False].append(f"{handle}.shape == {shape}")
            self._readers.append((f"the shape of {description}", f"{handle}.shape", thing.shape))
            if self._inputs is None or id(thing) not in self._inputs:
                # NumPy's own functions may have read it: then it is a constant of the program.
                seen = content(thing)
                self._conditions[False].append(f"content({handle}) == {self._bind(seen)}")
                self._readers.append((f"the content of {description}", f"content({handle})", seen))
        elif isinstance(thing, Generator):
            self.streams.append(thing)
        elif isinstance(thing, (np.random.Generator, np.random.RandomState, random.Random)):
            self.generators.append(thing)
        elif isinstance(thing, functools.partial):
            self._look_at_partial(description, thing)
        elif isinstance(thing, Iterator) and not isinstance(thing, io.IOBase):
            if "." not in description or "next" in self._user_names:
                self.iterators.append(description)
        elif isinstance(thing, types.FunctionType):
            self._look_at_function(description, thing)
        elif isinstance(thing, types.MethodType):
            self._look("self", thing.__self__)
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
            was = self._bind(frozenset(thing))
            self._conditions[False].append(f"{self._bind(thing)} == {was}")
            self._readers.append((description, f"frozenset({self._bind(thing)})", frozenset(thing)))
            for item in thing:
                self._look(f"an item of {description}", item)
        elif isinstance(thing, types.ModuleType):
            if not is_fixed_module(thing):
                self._look_at_attributes(description, thing, vars(thing))
        elif isinstance(thing, type):
            if not is_library_class(thing):
                self._look_at_class(description, thing)
        elif isinstance(thing, Standing):
            self._look(description, thing.function)
        elif is_replayed(thing):
            self.schedulers.append(thing)
            self._look(f"{description}.optimizer", getattr(thing, "optimizer", None))
        elif hasattr(thing, "__dict__") or hasattr(type(thing), "__slots__"):
            self._look_at_object(description, thing)

    def _look_at_function(self, description: str, function: types.FunctionType) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._look(description, wrapped)
        if is_fixed_function(function):
            return
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
            self._compare(
                f"the defaults of {description}", f"{handle}.__kwdefaults__", function.__kwdefaults__
            )
        space = self._bind(function.__globals__)
        for name in sorted(globals_in(function.__code__, self._inputs is None)):
            if name in function.__globals__:
                self._compare(name, f"{space}.get({name!r}, missing)", function.__globals__[name])
            elif not hasattr(builtins, name):
                self._conditions[False].append(f"{name!r} not in {space}")
                self._readers.append((name, f"{space}.get({name!r}, missing)", _MISSING))
        self._look_at_attributes(description, function, vars(function))

    def _look_at_tensor(self, description: str, tensor: Any) -> None:
        self.tensors.append(tensor)
        handle = self._bind(tensor)
        for name in ("_requires_grad", "_hooks"):
            self._conditions[True].append(f"{handle}.{name} is {self._bind(getattr(tensor, name))}")
            self._readers.append(
                (f"{description}.{name.strip('_')}", f"{handle}.{name}", getattr(tensor, name))
            )
        if tensor._operation is None:
            self._conditions[True].append(f"{handle}._operation is None")
        for kind in ("on_gradient", "when_accumulated") if tensor._hooks is not None else ():
            hooks = getattr(tensor._hooks, kind)
            self._compare_hooks(f"the hooks of {description}", hooks)

    def _compare_hooks(self, description: str, hooks: dict[int, Any]) -> None:
        """Hooks are numbered, so that the numbers tell whether they are the same ones."""
        numbers = self._bind(tuple(hooks))
        handle = self._bind(hooks)
        self._conditions[True].append(f"tuple({handle}) == {numbers}")
        self._readers.append((description, f"len({handle})", len(hooks)))
        for hook in hooks.values():
            self._look(f"{description}", hook)

    def _look_at_partial(self, description: str, partial: Any) -> None:
        handle = self._bind(partial)
        for part in ("func", "args", "keywords"):
            self._compare(f"{description}.{part}", f"{handle}.{part}", getattr(partial, part))

    def _look_at_class(self, description: str, kind: type) -> None:
        handle = self._bind(kind)
        for name, member in list(vars(kind).items()):
            member = getattr(member, "__func__", member)
            if isinstance(member, property):
                for part in (member.fget, member.fset):
                    if part is not None:
                        self._look(f"{description}.{name}", part)
            elif isinstance(member, types.FunctionType):
                expression = f"vars({handle}).get({name!r}, missing)"
                self._compare(f"{description}.{name}", expression, vars(kind)[name])
                self._look(f"{description}.{name}", member)
            elif name in self._names and not name.startswith("__"):
                expression = f"vars({handle}).get({name!r}, missing)"
                self._compare(f"{description}.{name}", expression, vars(kind)[name])
        if self._inputs is None:
            count = len(vars(kind))
            self._compare(f"the number of attributes of {description}", f"len(vars({handle}))", count)
        self._compare_absent(description, f"vars({handle})", vars(kind), kind.__mro__[1:])
        for base in kind.__mro__[1:]:
            self._look(base.__name__, base)

    def _compare_absent(
        self, description: str, space: str, attributes: Any, bases: Sequence[type], reported: bool = False
    ) -> None:
        """An attribute that a class has must not be hidden later by one of the instance, or of a subclass."""
        inherited = {name for base in bases for name in vars(base) if not is_library_class(base)}
        for name in sorted(inherited & self._names - set(attributes)):
            if not name.startswith("__"):
                self._conditions[reported].append(f"{name!r} not in {space}")
                self._readers.append((f"{description}.{name}", f"{space}.get({name!r}, missing)", _MISSING))

    def _look_at_attributes(
        self, description: str, thing: Any, attributes: dict[str, Any], reported: bool = False
    ) -> None:
        space = self._bind(attributes)
        if self._inputs is None:  # an attribute that is made by the function itself
            self._compare(
                f"the number of attributes of {description}", f"len({space})", len(attributes), reported
            )
        everything = reported or bool(self._user_names & _ALL_ATTRIBUTES)
        for name, content in list(attributes.items()):
            if name not in self._names and (not everything or name.startswith("_")):
                continue
            if reported and (name in _OF_MODULES or name.endswith("_hooks")):
                continue  # looked at below, by name
            if (id(thing), name) in self.symbolic and name not in self._user_names:
                self.freed.append((thing, name, content))
                continue
            if type(content) is float:
                self.numbers.append((thing, name, content))
            self._compare(f"{description}.{name}", f"{space}.get({name!r}, missing)", content, reported)

    def _look_at_object(self, description: str, thing: Any) -> None:
        kind = type(thing)
        self._look(kind.__name__, kind)
        self._look_at_slots(description, thing)
        attributes = getattr(thing, "__dict__", None)
        if attributes is None:
            return
        reported = getattr(thing, "_reports_changes", False)
        self._look_at_attributes(description, thing, attributes, reported)
        self._compare_absent(description, self._bind(attributes), attributes, kind.__mro__, reported)
        wrapped = attributes.get("__wrapped__")
        if wrapped is not None:
            self._look(description, wrapped)
        if reported:
            self._look_at_module(description, thing, attributes)

    def _look_at_slots(self, description: str, thing: Any) -> None:
        slots = [
            vars(base).get("__slots__", ()) for base in type(thing).__mro__ if not is_library_class(base)
        ]
        names = [n for part in slots for n in ((part,) if isinstance(part, str) else part)]
        for name in names:
            if name in self._names and not name.startswith("__"):
                handle = self._bind(thing)
                expression = f"getattr({handle}, {name!r}, missing)"
                self._compare(f"{description}.{name}", expression, getattr(thing, name, _MISSING))

    def _look_at_module(self, description: str, thing: Any, attributes: dict[str, Any]) -> None:
        """A Module: its parts, by name; hooks are Python code that runs."""
        for part in ("_parameters", "_buffers", "_modules"):
            space = self._bind(attributes[part])
            for name, member in attributes[part].items():
                self._compare(f"{description}.{name}", f"{space}.get({name!r}, missing)", member, True)
            count = len(attributes[part])
            reported = part != "_modules"  # add_module() does not report itself
            self._compare(f"the number of {part} of {description}", f"len({space})", count, reported)
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            self._compare_hooks(f"the hooks of {description}", attributes[hooks])
        training = f"{self._bind(attributes)}['training']"
        self._compare(f"{description}.training", training, attributes["training"], True)
        for name, member in type(
            thing
        ).__dict__.items():  # classes of this library have no globals to look at
            if name == "forward":
                self._look(f"{description}.forward", getattr(member, "__func__", member))

    def _look_at_group(self, description: str, group: Any) -> None:
        space = self._bind(group)
        if "lr" in group:
            self.rates.append((group, group["lr"]))
        for key, content in group.items():
            # A learning rate changes as a matter of course: this library's optimisers read it anew at each call.
            free = (id(group), key) in self.symbolic or (key == "lr" and not self._own_optimizer)
            if free and key not in self._user_names:
                if key != "lr":
                    self.freed.append((group, key, content))
                continue
            if type(content) is float and key != "lr":
                self.numbers.append((group, key, content))
            expression = f"{space}.get({key!r}, missing)"
            self._compare(f"{description}[{key!r}]", expression, content, reported=key != "lr")
        self._compare(f"len({description})", f"len({space})", len(group))

    def _look_at_optimizer(self, description: str, optimizer: Any) -> None:
        handle = self._bind(optimizer)
        self.optimizers.append(optimizer)
        # One that a user wrote, or LBFGS, reads its learning rate as it is.
        step = inspect.unwrap(type(optimizer).step)
        code = getattr(step, "__code__", None)
        if code is None or not is_library(code.co_filename) or "lr" in names_in(code):
            self._own_optimizer = True
        self._compare(f"{description}.param_groups", f"{handle}.param_groups", optimizer.param_groups)
        self._compare(f"{description}.state", f"{handle}.state", optimizer.state)
        for hooks in ("_step_pre_hooks", "_step_post_hooks"):
            self._compare_hooks(f"the hooks of {description}", getattr(optimizer, hooks))
        own = {
            k: v for k, v in vars(optimizer).items() if k not in _OF_OPTIMIZERS and not k.endswith("_hooks")
        }
        for name, content in own.items():
            if name in self._user_names:
                expression = f"vars({handle}).get({name!r}, missing)"
                self._compare(f"{description}.{name}", expression, content)
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
            self._conditions[False].append(f"alike({handle}, {was})")
            self._readers.append((description, f"list({handle})", list(items)))
            return
        for i, item in enumerate(items):
            self._compare(f"{description}[{i}]", f"{handle}[{i}]", item)

    def _look_at_dict(self, description: str, items: Any) -> None:
        handle = self._bind(items)
        self._compare(f"len({description})", f"len({handle})", len(items))
        for key, item in list(items.items()):
            self._look(f"a key of {description}", key)
            name = repr(key) if type(key) in (str, int) else self._bind(key)
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
    if type(a) is not type(b) or not isinstance(a, (*PLAIN, list, frozenset)):
        return type(a) is tuple and a == b and all(isinstance(i, int) for i in (*a, *b))  # shapes
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (a == b and str(a) == str(b)) or (a != a and b != b)
    return bool(a == b)


def alike(a: Any, b: Any) -> bool:
    """Tell whether two sequences of plain things are the same, one by one."""
    return len(a) == len(b) and (all(map(operator.is_, a, b)) or all(map(same, a, b)))


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
    if not getattr(thing, "_is_replayed", False) or isinstance(thing, type):
        return False
    code = getattr(getattr(type(thing), "step", None), "__code__", None)
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


LARGE = 1 << 20  # bytes


def content(array: np.ndarray) -> int:
    """Return a number that changes when an array's content does; of a large array, when some thousand places do."""
    if array.dtype.kind not in "biufcMmSU":
        return 0
    if array.nbytes > LARGE:
        array = array.reshape(-1)[:: array.size // 8192] if array.flags.c_contiguous else array[:1]
    return fingerprint(array)


def names_reachable(roots: Sequence[Any], assigned: bool = False) -> Iterator[tuple[frozenset[str], bool]]:
    """Yield the names in functions' code and in all the code they name in turn, and whether that is a library's."""
    seen: set[int] = set()
    stack: list[Any] = list(roots)
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, (*PLAIN, np.ndarray)):
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
        elif isinstance(thing, Standing):
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


def _brief(thing: Any) -> str:
    text = repr(thing) if isinstance(thing, PLAIN) else f"a {type(thing).__name__}"
    return text if len(text) < 60 else text[:57] + "…"
