"""Guards: the conditions, outside of its arguments, under which a recording holds.

Enters: facts that were observed while a function was recorded (trace/observe), and objects of this library that it came
across: Modules, optimisers, Tensors, which this library's own code reads without being observed. Leaves: an
`Environment`, whose guards say that all of it is as it was.

Numbers, strings and the like are compared by value, everything else by identity. Modules and parameter groups report
their own changes (recording.changes counts them), so that guards on all of them cost one comparison while nothing
changes.
"""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from minitorch.compiler.call.conditions import (
    ATTRIBUTE,
    CONTAINS,
    INDEX,
    ITEM,
    LENGTH,
    Condition,
    compiled,
    first_violation,
    same,
)
from minitorch.compiler.trace.observe.methods import lookup
from minitorch.compiler.trace.observe.observer import MISSING, PLAIN, Fact, brief, reported_places
from minitorch.compiler.trace.observe.whose import is_trusted, is_trusted_class
from minitorch.compiler.trace.recorded import FromPlace, ReadNumber, look_at
from minitorch.engine import recording
from minitorch.engine.gpu import device_of, is_writeable
from minitorch.engine.node import Node
from minitorch.engine.recording import GRADIENT
from minitorch.nn import functional
from minitorch.nn.hooks import everywhere
from minitorch.nn.module import Module
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.optim.optimizer import Optimizer
from minitorch.random import Generator
from minitorch.tensor import Tensor

_MEMBERS = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# How a fact is looked at again: an expression, and how what it gives is compared (None: as its value asks for).
_LOOKS: dict[str, tuple[str, str | None]] = {
    "index": (INDEX, None),
    "length": (LENGTH, "=="),
    "keys": ("tuple({0})", "alike"),
    "alike": ("{0}", "alike"),
    "members": ("[*{0}]", "alike"),
    "member": (ATTRIBUTE, None),
    "class": ("type({0})", "is"),
    "cell": ("{0}.cell_contents", None),
    "slot": ("getattr({0}, {1}, missing)", None),
    "contains": (CONTAINS, "is"),
    "subclass": ("issubclass({0}, {1})", "is"),
    "layout": ("({0}.shape, {0}.dtype, {0}.strides)", "=="),
    "content": ("{0}.tobytes()", "=="),
    "bytes": ("bytes({0})", "=="),
    "remembered": ("{0}(*{1}[0], **dict({1}[1]))", None),
    "context": ("{0}.get(*{1})", None),
}

# What the statements def, class and import give a name to.
_DEFINED = (
    type, staticmethod, classmethod, property, types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, np.ufunc,
)  # fmt: skip
MOST = 1 << 53  # the largest whole number of which all smaller ones are float64s


def is_object_of_ours(thing: Any) -> bool:
    """Tell whether a thing is an object of a class of this library's, or of one that is made from such a class: this
    library's code reads it unobserved.
    """
    if isinstance(thing, (*PLAIN, np.ndarray)) or not hasattr(thing, "__dict__"):
        return False
    classes = type(thing).__mro__
    return any(each.__module__.startswith("minitorch.") and is_trusted_class(each) for each in classes)


def is_place_of_number(fact: Fact) -> bool:
    """Tell whether a fact is about a number that can become an input, when it is seen to change."""
    if type(fact.value) not in (float, int):
        return False
    if fact.kind == "type":  # of the class itself, not of one that it is derived from
        return type(fact.holder) is type and fact.key in vars(fact.holder)
    return fact.kind in ("item", "cell", "slot") or (fact.kind == "index" and type(fact.holder) is list)


def is_lasting(fact: Fact) -> bool:
    """Tell whether a fact is of a kind that hardly ever changes: which function, class or constant a name means."""
    if fact.value is MISSING or isinstance(fact.value, _DEFINED):
        return True
    is_name = isinstance(fact.holder, (types.CellType, *_DEFINED)) or (
        isinstance(fact.holder, dict) and "__builtins__" in fact.holder
    )
    return is_name and isinstance(fact.value, (*PLAIN, types.CodeType))


def can_be_placed(thing: Any) -> bool:
    """Tell whether a Tensor is a bare one, so that another such may stand in its place at the next call."""
    if type(thing) is not Tensor:
        return False
    is_one = type(thing._array) is np.ndarray or device_of(thing._array) is not None
    return (
        is_one
        and not thing._requires_grad
        and thing._operation is None
        and thing._hooks is None
        and thing._array.flags.c_contiguous
        and is_writeable(thing._array)
    )


def conditions_on_place(source: FromPlace, value: Any, others: dict[int, Any]) -> list[Condition]:
    """Return the conditions on whatever Tensor is at a place. others: what it may not be, by id."""
    operands: tuple[Any, ...] = (source.holder, source.key)
    place = look_at(source.holder, source.key)
    operands = operands if "{1}" in place else operands[:1]
    words = f"the tensor at {brief(source.key)}"
    order = "carray" if source.kind is np.ndarray else "c_contiguous"
    conditions = [
        Condition(words, f"type({place})", operands, Tensor),
        Condition(f"{words}.requires_grad", f"{place}._requires_grad", operands, False),
        Condition(f"the graph of {words}", f"{place}._operation", operands, None),
        Condition(f"the hooks of {words}", f"{place}._hooks", operands, None),
        Condition(f"the array of {words}", f"type({place}._array)", operands, source.kind),
        Condition(f"the shape of {words}", f"{place}._array.shape", operands, value.shape, "=="),
        Condition(f"the dtype of {words}", f"{place}._array.dtype", operands, value.dtype, "=="),
        Condition(f"whether {words} is contiguous", f"{place}._array.flags.{order}", operands, True),
    ]
    last = f"{{{len(operands)}}}"
    return [
        *conditions,
        Condition(f"which {words} is", f"(id({place}) in {last})", (*operands, others), False),
    ]


def condition_of(fact: Fact, expected: Any = MISSING) -> Condition:
    """Return the condition that a fact still is one. expected: what in its place."""
    value = fact.value if expected is MISSING else expected
    look, test, operands = _look_of(fact)
    if look is CONTAINS:
        told = f"{fact.words} was not there and is now" if fact.kind == "item" else ""
        return Condition(
            fact.words, CONTAINS, operands, fact.kind != "item" and value, "is", fact.reported, told
        )
    if test is None:
        test = "same" if isinstance(value, PLAIN) else "is"
    return Condition(fact.words, look, operands, value, test, fact.reported)


def _look_of(fact: Fact) -> tuple[str, str | None, tuple[Any, ...]]:
    holder, key = fact.holder, fact.key
    if fact.kind == "item":
        if fact.value is MISSING:
            return CONTAINS, "is", (holder, key)
        return (INDEX if type(holder) is dict else ITEM), None, (holder, key)
    if fact.kind == "type":
        # What a class gives by itself is found at a tenth of the cost, where it is what stands there.
        direct = type(holder) is type and getattr(holder, key, None) is fact.value and key.isidentifier()
        return ("{0}." + key, "is", (holder,)) if direct else ("lookup({0}, {1})", None, (holder, key))
    if fact.kind == "attribute":
        return "{0}." + key, None, (holder,)
    look, test = _LOOKS[fact.kind]
    return look, test, (holder, key) if "{1}" in look else (holder,)


class Environment:
    """Guards on what a function has looked at.

    symbolic: numbers that are inputs of the program, by holder and key: free to change.
    written: tells whether the function itself has written a place; what it writes at each call is not guarded.
    """

    def __init__(
        self,
        symbolic: set[tuple[int, Any]],
        written: Callable[[Any, Any], bool] = lambda holder, key: False,
    ) -> None:
        self.symbolic = symbolic
        self.guards: list[Condition] = []
        self.numbers: list[tuple[Any, Any, Any]] = []  # changeable numbers met: holder, key, what it was
        self.optimizers: list[Any] = []
        self.schedulers: list[Any] = []
        self.objects: list[Any] = []  # others of this library's: scalers, distributions, datasets
        self.tensors: list[Any] = []
        self.streams: list[Any] = []  # this library's generators of random numbers
        self.met: dict[int, Any] = {}  # by id; kept alive, so that its id stays its own
        self._written = written
        self._methods: set[tuple[int, str]] = set()
        self._changes = recording.changes[0]
        self.finish()

    def finish(self) -> None:
        """Leave out guards that ask for the same, and say which places are guarded."""
        asked = {(g.look, g.test, *map(id, g.operands)): g for g in reversed(self.guards)}
        self.guards = list(reversed(asked.values()))
        self.unreported = [guard for guard in self.guards if not guard.reported]
        reported = [guard for guard in self.guards if guard.reported]
        # One function of each, when it is first asked: many environments never are.
        self._unreported_hold: Callable[[], bool] | None = None
        self._reported_hold: Callable[[], bool] | None = None
        places = [(id(g.operands[0]), g.operands[1]) for g in reported if len(g.operands) == 2]
        reported_places.update(places)
        weakref.finalize(self, _forget, places).atexit = False

    def changed_numbers(self) -> Iterator[tuple[Any, Any]]:
        """Yield the changeable numbers that are not what they were: holder and key."""
        for holder, key, was in self.numbers:
            now = _at(holder, key)
            if type(now) is type(was) and not (now is was if isinstance(was, Node) else same(now, was)):
                yield holder, key

    @property
    def unreported_hold(self) -> Callable[[], bool]:
        """One function that tells whether the guards hold on what does not report its changes."""
        if self._unreported_hold is None:
            self._unreported_hold = compiled(self.unreported)
        return self._unreported_hold

    def holds(self) -> bool:
        """Tell whether all guards hold."""
        if self._changes != recording.changes[0]:
            if self._reported_hold is None:
                self._reported_hold = compiled([guard for guard in self.guards if guard.reported])
            if not self._reported_hold():
                return False
            self._changes = recording.changes[0]
        return self.unreported_hold()

    def violation(self) -> str:
        """Say which guard does not hold, and how; '' if all do."""
        return first_violation(self.guards)

    # --- noting guards ------------------------------------------------------------------------------

    def add(self, facts: Iterable[Fact]) -> None:
        """Guard facts."""
        for fact in facts:
            if is_place_of_number(fact) or (fact.kind in ("item", "cell") and can_be_placed(fact.value)):
                self.numbers.append((fact.holder, fact.key, fact.value))
            self.guards.append(condition_of(fact))

    def add_gradient(self, tensor: Any, is_there: bool) -> None:
        """Guard whether a Tensor has a gradient."""
        words = f"the gradient of a tensor of shape {tensor.shape}"
        if is_there:
            self._guard(f"whether {words} is missing", f"({GRADIENT} is None)", tensor, expected=False)
        else:
            self._guard(words, GRADIENT, tensor, expected=None)

    def add_layout(self, tensor: Any) -> None:
        """Guard the shape and dtype of a Tensor whose numbers are not read."""
        for what in ("shape", "dtype"):
            now = getattr(tensor._data, what)
            self._guard(f"the {what} of a tensor", f"{{0}}._data.{what}", tensor, expected=now, test="==")

    def add_number(self, reading: ReadNumber) -> None:
        """Guard that a number which is read at each call is of the type that it was."""
        look = look_at(reading.holder, reading.key)
        operands = (reading.holder, reading.key) if "{1}" in look else (reading.holder,)
        self._guard(
            f"the type of the number {brief(reading.key)}",
            f"{look}.__class__",
            *operands,
            expected=reading.kind,
        )
        if reading.kind is int:  # the program computes in float64
            self._guard(
                f"whether {brief(reading.key)} is small",
                f"(-{MOST} <= {look} <= {MOST})",
                *operands,
                expected=True,
            )

    def _guard(
        self, words: str, look: str, *operands: Any, expected: Any, test: str = "is", reported: bool = False
    ) -> None:
        self.guards.append(Condition(words, look, operands, expected, test, reported))

    def _item(self, words: str, items: Any, key: Any, reported: bool = False) -> Any:
        """Guard what a dict has under a key; return it."""
        now = items[key]
        if not self._written(items, key) and (id(items), key) not in self.symbolic:
            self.guards.append(condition_of(Fact(words, "item", items, key, now, reported)))
        return now

    def _keys(self, words: str, items: Any, reported: bool = False) -> None:
        if not self._written(items, "keys of it"):
            self._guard(
                f"the keys of {words}",
                "tuple({0})",
                items,
                expected=tuple(items),
                test="alike",
                reported=reported,
            )

    # --- objects of this library --------------------------------------------------------------------

    def look(self, thing: Any) -> None:
        """Guard what this library's code reads of an object."""
        if id(thing) in self.met:
            return
        self.met[id(thing)] = thing
        if isinstance(thing, Node):
            self._look_at_tensor("a tensor", thing)
        elif isinstance(thing, Module):
            self._look_at_module(type(thing).__name__, thing)
        elif isinstance(thing, Optimizer):
            self._look_at_optimizer(type(thing).__name__, thing)
        elif isinstance(thing, Generator):
            self.streams.append(thing)
        elif isinstance(thing, LRScheduler):
            self.schedulers.append(thing)
            self.look(thing.optimizer)
            for inner in getattr(thing, "_schedulers", ()):
                self.look(inner)
        elif is_object_of_ours(thing):
            self.objects.append(thing)
            for name in list(vars(thing)):
                self._look_at_part(f"{type(thing).__name__}.{name}", vars(thing), name)

    def _look_at_part(self, words: str, holder: Any, key: Any) -> None:
        """Guard an attribute of an object, and what is in it."""
        now = self._item(words, holder, key)
        if type(now) is dict:
            self._keys(words, now)
            for each in list(now):
                self._look_at_part(f"{words}[{each!r}]", now, each)
        if type(now) is list:
            self._guard(words, "{0}", now, expected=list(now), test="identical")
        for each in now if type(now) in (list, tuple) else (now,):
            if isinstance(each, (Node, Module)):
                self._look_into(words, each)
            elif is_object_of_ours(each):
                self.look(each)

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
        self._guard(
            f"the hooks of {words}", "tuple({0})", hooks, expected=tuple(hooks), test="==", reported=True
        )

    def _method(self, kind: type, name: str) -> None:
        """Guard a method of a class that this library's code calls."""
        if (id(kind), name) not in self._methods:
            self._methods.add((id(kind), name))
            self.guards.append(
                condition_of(Fact(f"{kind.__name__}.{name}", "type", kind, name, lookup(kind, name)))
            )

    def _look_at_module(self, words: str, module: Any) -> None:
        kind = type(module)
        self._guard(f"the class of {words}", "type({0})", module, expected=kind, reported=True)
        self._method(kind, "forward")
        attributes = vars(module)
        if "forward" not in attributes:
            self.guards.append(
                condition_of(Fact(f"{words}.forward", "item", attributes, "forward", MISSING, True))
            )
        # What a class of this library reads of itself is not observed, and may be anything it has.
        ours = any(is_trusted_class(base) and base not in (Module, object) for base in kind.__mro__)
        if ours and (id(functional), "all") not in self._methods:
            self._methods.add((id(functional), "all"))
            self._guard(
                "the functions of nn.functional",
                "[*vars({0}).values()]",
                functional,
                expected=[*vars(functional).values()],
                test="identical",
                reported=True,
            )
        for name in list(attributes):
            if name in _MEMBERS or name.endswith("_hooks"):
                continue
            if ours or name == "training":
                if (id(attributes), name) in self.symbolic or (id(module), name) in self.symbolic:
                    continue
                now = self._item(f"{words}.{name}", attributes, name, reported=True)
                if type(now) is float:
                    self.numbers.append((module, name, now))
                if isinstance(now, (Node, Module)):
                    self.look(now)
        for part in _MEMBERS:
            members = attributes[part]
            self._keys(f"{part} of {words}", members, reported=True)
            for name in list(members):
                member = self._item(f"{words}.{name}", members, name, reported=True)
                if member is not None:
                    self._look_into(f"{words}.{name}", member)
        for hooks in _HOOKS:
            self._look_at_hooks(words, attributes[hooks])
        if (id(everywhere), "all") not in self._methods:
            self._methods.add((id(everywhere), "all"))
            self._look_at_hooks("every module", everywhere)

    def _look_into(self, words: str, member: Any) -> None:
        if id(member) in self.met:
            return
        self.met[id(member)] = member
        if isinstance(member, Node):
            self._look_at_tensor(words, member)
        else:
            self._look_at_module(words, member)

    def _look_at_optimizer(self, words: str, optimizer: Any) -> None:
        self.optimizers.append(optimizer)
        kind = type(optimizer)
        self._guard(f"the class of {words}", "type({0})", optimizer, expected=kind, reported=True)
        self._method(kind, "step")
        groups = optimizer.param_groups
        self._guard(f"{words}.param_groups", "{0}.param_groups", optimizer, expected=groups, reported=True)
        # LBFGS reads its learning rate as it is.
        step = getattr(inspect.unwrap(kind.step), "__code__", None)
        fixed_rate = step is not None and is_trusted(step) and "lr" in step.co_consts
        self._guard(f"{words}.param_groups", "{0}", groups, expected=list(groups), test="identical")
        for i, group in enumerate(groups):
            self._look_at_group(f"{words}.param_groups[{i}]", group, fixed_rate)
        self._guard(f"{words}.state", "{0}.state", optimizer, expected=optimizer.state, reported=True)
        self._look_at_state(f"{words}.state", optimizer.state)
        for hooks in ("_every_pre_hooks", "_step_pre_hooks", "_step_post_hooks", "_every_post_hooks"):
            self._look_at_hooks(words, getattr(optimizer, hooks))
        if is_trusted_class(kind):
            for name, now in vars(optimizer).items():
                if not name.startswith("_") and isinstance(now, PLAIN):
                    self._item(f"{words}.{name}", vars(optimizer), name, reported=True)

    def _look_at_group(self, words: str, group: Any, fixed_rate: bool) -> None:
        self._guard(f"len({words})", LENGTH, group, expected=len(group), test="==", reported=True)
        for key in list(group):
            if (id(group), key) in self.symbolic:
                continue
            # A learning rate changes as a matter of course: this library's optimisers read it, a float, at each call.
            if key == "lr" and not fixed_rate and type(group[key]) is float:
                self.add_number(ReadNumber(group, key))
                continue
            now = self._item(f"{words}[{key!r}]", group, key, reported=key != "lr")
            if type(now) is float and key != "lr":
                self.numbers.append((group, key, now))
            if key == "params":
                self._guard(f"{words}['params']", "{0}", now, expected=list(now), test="identical")
                for i, parameter in enumerate(now):
                    self._look_into(f"{words}['params'][{i}]", parameter)

    def _look_at_state(self, words: str, state: Any) -> None:
        self._guard(f"len({words})", LENGTH, state, expected=len(state), test="==")
        for key in list(state):
            now = self._item(f"{words}[…]", state, key)
            if isinstance(now, dict):
                self._look_at_state(f"{words}[…]", now)
            elif isinstance(now, Node):
                self._look_into(f"{words}[{brief(key)}]", now)


def _forget(places: list[tuple[int, Any]]) -> None:
    """Let changes to places be reported for one program less."""
    reported_places.subtract(places)
    for place in places:
        if reported_places[place] <= 0:
            del reported_places[place]


def _at(holder: Any, key: Any) -> Any:
    """Return what is at a place of a number; None if there is nothing."""
    if isinstance(holder, (dict, types.MappingProxyType)):
        return holder.get(key)
    if isinstance(holder, list):
        return holder[key] if -len(holder) <= key < len(holder) else None
    if key is None:
        return getattr(holder, "cell_contents", None)
    return getattr(holder, key, None)
