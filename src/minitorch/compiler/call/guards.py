"""Guards: what a recording relied on outside of its arguments.

Enters: the function that is about to be recorded. Leaves: an `Environment`: everything its code can reach by name
(closed-over variables, defaults, globals, attributes, containers, Modules, optimisers), and guards, the conditions
under which all of it is as it was.

Numbers, strings and the like are compared by value, everything else by identity and then looked into. Tensors and
arrays are the program's inputs; here only their identity counts. Modules and parameter groups report their own changes
(recording.changes counts them), so that the guards on all of them cost one comparison while nothing changes.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import io
import random
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.call.conditions import (
    ATTRIBUTE,
    CONTAINS,
    INDEX,
    ITEM,
    LENGTH,
    MISSING,
    PLAIN,
    Condition,
    brief,
    compiled,
    content,
    first_violation,
    same,
)
from minitorch.compiler.call.names import (
    FunctionWrapper,
    describe,
    globals_in,
    is_fixed_function,
    is_fixed_module,
    is_library,
    is_library_class,
    is_replayed,
    names_in,
    names_reachable,
)
from minitorch.engine import recording
from minitorch.engine.node import Node
from minitorch.engine.recording import GRADIENT
from minitorch.nn.module import Module
from minitorch.optim.optimizer import Optimizer, ParameterGroup
from minitorch.random import Generator

# Code with one of these names may look at any attribute of an object.
_ALL_ATTRIBUTES = {
    "__dict__", "vars", "asdict", "astuple", "fields", "getattr", "__getattribute__", "attrgetter",
}  # fmt: skip
_OF_MODULES = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}
# What an optimiser keeps for itself; the rest of its attributes are a subclass's own.
_OF_OPTIMIZERS = {"defaults", "state", "param_groups", "_scratch", "_in_step", "_opt_called"}


class Environment:
    """What a function can reach, and the guards on it.

    function: whose names to follow. arguments: objects it is given, which are looked into as well.
    symbolic: numbers that are inputs of the program, by holder and key: free to change.
    without_gradient: Tensors whose gradient was asked for when they had none.
    inputs: arrays, by id, that are inputs of the program, and free to change; None before there is one: then names
    count that are only assigned to, because a function that does so changes its environment.
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
        self.guards: list[Condition] = []
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
        self._inputs = inputs
        self._seen: dict[int, Any] = {}  # by id; kept alive, so that its id stays its own
        self._names: set[str] = set()
        self._user_names: set[str] = set()  # those in code outside of this library
        self._stack: list[tuple[str, Any]] = []
        self._own_optimizer = False  # is there one whose code is not this library's?
        self._changes = recording.changes[0]
        self._start(function, arguments)
        for tensor in without_gradient:
            self._guard(f"the gradient of a tensor of shape {tensor.shape}", GRADIENT, tensor, expected=None)
        self.unreported = [guard for guard in self.guards if not guard.reported]
        self.unreported_hold = compiled(self.unreported)
        self._reported_hold = compiled([guard for guard in self.guards if guard.reported])

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
        """Tell whether all guards hold."""
        if self._changes != recording.changes[0]:
            if not self._reported_hold():
                return False
            self._changes = recording.changes[0]
        return self.unreported_hold()

    def violation(self) -> str:
        """Say which guard does not hold, and how; '' if all do."""
        return first_violation(self.guards)

    # --- noting guards ------------------------------------------------------------------------------

    def _guard(
        self, words: str, look: str, *operands: Any, expected: Any, test: str = "is", reported: bool = False
    ) -> None:
        """Note that an expression must go on to give what it gave."""
        self.guards.append(Condition(words, look, operands, expected, test, reported))

    def _follow(self, words: str, look: str, *operands: Any, now: Any, reported: bool = False) -> None:
        """Note that an expression must go on to give what it gives now, and look into that."""
        plain = isinstance(now, PLAIN)
        self._guard(words, look, *operands, expected=now, test="same" if plain else "is", reported=reported)
        if not plain:
            self._stack.append((words, now))

    def _follow_item(self, words: str, items: Any, key: Any, now: Any, reported: bool = False) -> None:
        """Note that what a dict has under a key must stay, and look into it."""
        # A dict is read at half the cost by [], which in other classes may do as it likes: a defaultdict makes an item.
        self._follow(words, INDEX if type(items) is dict else ITEM, items, key, now=now, reported=reported)

    def _count(self, words: str, things: Any, reported: bool = False) -> None:
        """Note that there must be as many of something as there are."""
        self._guard(words, LENGTH, things, expected=len(things), test="==", reported=reported)

    def _absent(self, words: str, space: Any, name: str, reported: bool = False) -> None:
        """Note that there must not be an attribute, or a global, of a name."""
        told = f"{words} was not there and is now"
        self.guards.append(Condition(words, CONTAINS, (space, name), False, "is", reported, told))

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
            words, thing = self._stack.pop()
            self._look(words, thing)

    def _look(self, words: str, thing: Any) -> None:
        if id(thing) in self._seen or isinstance(thing, PLAIN):
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, Node):
            self._look_at_tensor(words, thing)
        elif isinstance(thing, np.ndarray):
            self._look_at_array(words, thing)
        elif isinstance(thing, Generator):
            self.streams.append(thing)
        elif isinstance(thing, (np.random.Generator, np.random.RandomState, random.Random)):
            self.generators.append(thing)
        elif isinstance(thing, functools.partial):
            for part in ("func", "args", "keywords"):
                self._follow(f"{words}.{part}", "{0}." + part, thing, now=getattr(thing, part))
        elif isinstance(thing, Iterator) and not isinstance(thing, io.IOBase):
            if "." not in words or "next" in self._user_names:
                self.iterators.append(words)
        elif isinstance(thing, types.FunctionType):
            self._look_at_function(words, thing)
        elif isinstance(thing, types.MethodType):
            self._look("self", thing.__self__)
            self._look(words, thing.__func__)
        elif isinstance(thing, ParameterGroup):
            self._look_at_group(words, thing)
        elif isinstance(thing, Optimizer):
            self._look_at_optimizer(words, thing)
        elif isinstance(thing, (list, tuple, deque)):
            self._look_at_sequence(words, thing)
        elif isinstance(thing, dict):
            self._look_at_dict(words, thing)
        elif isinstance(thing, (set, frozenset)):
            self._guard(words, "{0}", thing, expected=frozenset(thing), test="==")
            for item in thing:
                self._look(f"an item of {words}", item)
        elif isinstance(thing, types.ModuleType):
            if not is_fixed_module(thing):
                self._look_at_attributes(words, thing, vars(thing))
        elif isinstance(thing, type):
            if not is_library_class(thing):
                self._look_at_class(words, thing)
        elif isinstance(thing, FunctionWrapper):
            self._look(words, thing.function)
        elif is_replayed(thing):
            self.schedulers.append(thing)
            self._look(f"{words}.optimizer", thing.optimizer)
        elif hasattr(thing, "__dict__") or hasattr(type(thing), "__slots__"):
            self._look_at_object(words, thing)

    def _look_at_array(self, words: str, array: np.ndarray) -> None:
        self.arrays[id(array)] = array
        self._guard(f"the shape of {words}", "{0}.shape", array, expected=array.shape, test="==")
        if self._inputs is None or id(array) not in self._inputs:
            # NumPy's own functions may have read it: then it is a constant of the program.
            self._guard(f"the content of {words}", "content({0})", array, expected=content(array), test="==")

    def _look_at_function(self, words: str, function: types.FunctionType) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._look(words, wrapped)
        if is_fixed_function(function):
            return
        self._follow(f"the code of {words}", "{0}.__code__", function, now=function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                inside = cell.cell_contents
            except ValueError:
                continue
            self._follow(name, "{0}.cell_contents", cell, now=inside)
        for part in ("__defaults__", "__kwdefaults__"):
            if getattr(function, part):
                self._follow(f"the defaults of {words}", "{0}." + part, function, now=getattr(function, part))
        space = function.__globals__
        for name in sorted(globals_in(function.__code__, self._inputs is None)):
            if name in space:
                self._follow_item(name, space, name, space[name])
            elif not hasattr(builtins, name):
                self._absent(name, space, name)
        self._look_at_attributes(words, function, vars(function))

    def _look_at_tensor(self, words: str, tensor: Any) -> None:
        self.tensors.append(tensor)
        for name in ("_requires_grad", "_hooks"):
            now = getattr(tensor, name)
            self._guard(f"{words}.{name.strip('_')}", "{0}." + name, tensor, expected=now, reported=True)
        if tensor._operation is None:
            self._guard(f"the graph of {words}", "{0}._operation", tensor, expected=None, reported=True)
        if tensor._hooks is not None:
            self._look_at_hooks(words, tensor._hooks.on_gradient)
            self._look_at_hooks(words, tensor._hooks.when_accumulated)

    def _look_at_hooks(self, words: str, hooks: dict[int, Any]) -> None:
        """Hooks are numbered, so that the numbers tell whether they are the same ones."""
        words = f"the hooks of {words}"
        self._guard(words, "tuple({0})", hooks, expected=tuple(hooks), test="==", reported=True)
        for hook in hooks.values():
            self._look(words, hook)

    def _look_at_class(self, words: str, kind: type) -> None:
        for name, member in list(vars(kind).items()):
            member = getattr(member, "__func__", member)
            if isinstance(member, property):
                for part in (member.fget, member.fset):
                    if part is not None:
                        self._look(f"{words}.{name}", part)
            elif isinstance(member, types.FunctionType) or (
                name in self._names and not name.startswith("__")
            ):
                self._follow(f"{words}.{name}", ATTRIBUTE, kind, name, now=vars(kind)[name])
                if isinstance(member, types.FunctionType):
                    self._look(f"{words}.{name}", member)
        if self._inputs is None:
            count = len(vars(kind))
            self._guard(
                f"the number of attributes of {words}", "len(vars({0}))", kind, expected=count, test="=="
            )
        self._look_at_absences(words, vars(kind), kind.__mro__[1:])
        for base in kind.__mro__[1:]:
            self._look(base.__name__, base)

    def _look_at_absences(
        self, words: str, attributes: Any, bases: Sequence[type], reported: bool = False
    ) -> None:
        """An attribute that a class has must not be hidden later by one of the instance, or of a subclass."""
        inherited = {name for base in bases for name in vars(base) if not is_library_class(base)}
        for name in sorted(inherited & self._names - set(attributes)):
            if not name.startswith("__"):
                self._absent(f"{words}.{name}", attributes, name, reported)

    def _look_at_attributes(
        self, words: str, thing: Any, attributes: dict[str, Any], reported: bool = False
    ) -> None:
        if self._inputs is None:  # an attribute that is made by the function itself
            self._count(f"the number of attributes of {words}", attributes, reported)
        everything = reported or bool(self._user_names & _ALL_ATTRIBUTES)
        for name, now in list(attributes.items()):
            if name not in self._names and (not everything or name.startswith("_")):
                continue
            if reported and (name in _OF_MODULES or name.endswith("_hooks")):
                continue  # looked at below, by name
            if (id(thing), name) in self.symbolic and name not in self._user_names:
                self.freed.append((thing, name, now))
                continue
            if type(now) is float:
                self.numbers.append((thing, name, now))
            self._follow_item(f"{words}.{name}", attributes, name, now, reported)

    def _look_at_object(self, words: str, thing: Any) -> None:
        kind = type(thing)
        self._look(kind.__name__, kind)
        self._look_at_slots(words, thing)
        attributes = getattr(thing, "__dict__", None)
        if attributes is None:
            return
        reported = isinstance(thing, Module)
        self._look_at_attributes(words, thing, attributes, reported)
        self._look_at_absences(words, attributes, kind.__mro__, reported)
        wrapped = attributes.get("__wrapped__")
        if wrapped is not None:
            self._look(words, wrapped)
        if reported:
            self._look_at_module(words, thing, attributes)

    def _look_at_slots(self, words: str, thing: Any) -> None:
        slots = [
            vars(base).get("__slots__", ()) for base in type(thing).__mro__ if not is_library_class(base)
        ]
        for name in [n for part in slots for n in ((part,) if isinstance(part, str) else part)]:
            if name in self._names and not name.startswith("__"):
                now = getattr(thing, name, MISSING)
                self._follow(f"{words}.{name}", "getattr({0}, {1}, missing)", thing, name, now=now)

    def _look_at_module(self, words: str, module: Any, attributes: dict[str, Any]) -> None:
        """A Module: its parts, by name; hooks are Python code that runs."""
        for part in ("_parameters", "_buffers", "_modules"):
            members = attributes[part]
            for name, member in members.items():
                self._follow_item(f"{words}.{name}", members, name, member, reported=True)
            reported = part != "_modules"  # add_module() does not report itself
            self._count(f"the number of {part} of {words}", members, reported)
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            self._look_at_hooks(words, attributes[hooks])
        forward = vars(type(module)).get("forward")  # classes of this library have no globals to look at
        if forward is not None:
            self._look(f"{words}.forward", getattr(forward, "__func__", forward))

    def _look_at_group(self, words: str, group: Any) -> None:
        if "lr" in group:
            self.rates.append((group, group["lr"]))
        for key, now in group.items():
            # A learning rate changes as a matter of course: this library's optimisers read it anew at each call.
            free = (id(group), key) in self.symbolic or (key == "lr" and not self._own_optimizer)
            if free and key not in self._user_names:
                if key != "lr":
                    self.freed.append((group, key, now))
                continue
            if type(now) is float and key != "lr":
                self.numbers.append((group, key, now))
            self._follow_item(f"{words}[{key!r}]", group, key, now, reported=key != "lr")
        self._count(f"len({words})", group)

    def _look_at_optimizer(self, words: str, optimizer: Any) -> None:
        self.optimizers.append(optimizer)
        # One that a user wrote, or LBFGS, reads its learning rate as it is.
        step = inspect.unwrap(type(optimizer).step)
        code = getattr(step, "__code__", None)
        if code is None or not is_library(code.co_filename) or "lr" in names_in(code):
            self._own_optimizer = True
        self._follow(f"{words}.param_groups", "{0}.param_groups", optimizer, now=optimizer.param_groups)
        self._follow(f"{words}.state", "{0}.state", optimizer, now=optimizer.state)
        for hooks in ("_step_pre_hooks", "_step_post_hooks"):
            self._look_at_hooks(words, getattr(optimizer, hooks))
        for name, now in vars(optimizer).items():
            if name in self._user_names and name not in _OF_OPTIMIZERS and not name.endswith("_hooks"):
                self._follow(f"{words}.{name}", ATTRIBUTE, optimizer, name, now=now)
        self._look(type(optimizer).__name__, type(optimizer))

    def _look_at_sequence(self, words: str, items: Any) -> None:
        if isinstance(items, tuple):
            for i, item in enumerate(items):  # a tuple cannot change, what is in it may
                self._look(f"{words}[{i}]", item)
            return
        self._count(f"len({words})", items)
        if items and all(isinstance(i, PLAIN) for i in items):  # all at once
            self._guard(words, "{0}", items, expected=list(items), test="alike")
        else:
            for i, item in enumerate(items):
                self._follow(f"{words}[{i}]", INDEX, items, i, now=item)

    def _look_at_dict(self, words: str, items: Any) -> None:
        self._count(f"len({words})", items)
        for key, item in list(items.items()):
            self._look(f"a key of {words}", key)
            self._follow_item(f"{words}[{brief(key)}]", items, key, item)
