"""What one recorded run reads and changes outside of itself. Enters: looks and stores, as hooks report them. Leaves:
facts that the program relies on, effects that later calls repeat, and a way back.

Everything counts as outside unless it was made in this run. A fact is noted when something is looked at for the first
time, unless the run itself has written it before. Whoever cannot say what was looked at refuses the whole run.
"""

from __future__ import annotations

import enum
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from minitorch.compiler.trace.refusal import CompileError, where_in_user_code
from minitorch.engine.node import Node
from minitorch.engine.recording import changed

# Compared by value; everything else is by identity.
PLAIN = (
    int, float, complex, str, bytes, bool, type(None), enum.Enum, np.generic, np.dtype, slice, range, type(...),
)  # fmt: skip
MISSING: Any = object()  # what is found where there is nothing

# Places of which other programs are told when they change, each with how many programs there are.
reported_places: Counter[tuple[int, Any]] = Counter()
_OF_THE_WHOLE = {"length", "keys", "members"}  # kinds of facts that depend on which keys there are
_local = threading.local()


def current_observer() -> Any:
    """Return who observes this thread: a CallObserver (calls.py), or None."""
    return getattr(_local, "observer", None)


@contextmanager
def unobserved() -> Iterator[None]:
    """Let nobody observe this thread for a while."""
    with watched_by(None):
        yield


@contextmanager
def watched_by(observer: Observer | None) -> Iterator[None]:
    """Let this thread be observed by somebody for a while."""
    outer = current_observer()
    _local.observer = observer
    try:
        yield
    finally:
        _local.observer = outer


@dataclass(frozen=True, eq=False, slots=True)
class Fact:
    """Something was looked at, and found to be a value. kind: how to look again (call/guards.py)."""

    words: str
    kind: str
    holder: Any
    key: Any
    value: Any
    reported: bool = False  # whether the holder reports its changes itself


@dataclass(eq=False, slots=True)
class Change:
    """Something outside was changed, and is to be at each call.

    kind: "item", "attribute", "cell", "delete_item", "delete_attribute" or "call". value: what was stored, or a call's
    (args, options).
    """

    kind: str
    holder: Any
    key: Any
    value: Any

    def plainly(self) -> Change:
        """Return it without what was stored in this run."""
        return Change(self.kind, self.holder, self.key, None)

    def redo(self, value: Any) -> None:
        """Do it once more, with another value."""
        holder, key = self.holder, self.key
        if self.kind == "item":
            holder[key] = value
        elif self.kind == "space":
            dict.__setitem__(holder, key, value)
            if (id(holder), key) in reported_places:
                changed()
        elif self.kind == "attribute":
            object.__setattr__(holder, key, value)
        elif self.kind == "type_attribute":
            type.__setattr__(holder, key, value)
        elif self.kind == "cell":
            holder.cell_contents = value
        elif self.kind == "delete_item":
            holder.pop(key, None) if isinstance(holder, dict) else holder.__delitem__(key)
        elif self.kind == "delete_attribute":
            object.__delattr__(holder, key)
        else:
            args, options = value
            holder(*args, **options)


class Library(Protocol):
    """What the observer must know of this library's objects."""

    def meet(self, thing: Any) -> bool:
        """Be told of an object that was come across. Return whether it is from outside."""

    def was_there(self, thing: Any) -> None:
        """Take something for one from before the run."""

    def is_managed(self, thing: Any) -> bool:
        """Tell whether an object reports its changes itself."""

    def takes_plainly(self, thing: Any, name: str, value: Any) -> bool:
        """Tell whether storing an attribute of such an object is nothing but that."""

    def option(self, group: Any, key: Any) -> Any:
        """Return what stands for an option of a parameter group; MISSING if it is none."""

    def number(self, holder: Any, key: Any, value: Any) -> Any:
        """Make an input of a number that was seen to change."""

    def placed(self, holder: Any, key: Any, tensor: Any) -> bool:
        """Make an input of whatever Tensor is at a place; tell whether that can be done."""

    def shown(self, array: np.ndarray) -> Any:
        """Return what stands for an array from outside."""

    def is_fresh(self, tensor: Any) -> bool:
        """Tell whether a Tensor was made in this run."""

    def paused(self) -> AbstractContextManager[Any]:
        """Let something be done that is not recorded."""


class Observer:
    """Observes one run in one thread.

    given: the things a call brings along, by id: what is known of them is in the key. promoted: numbers that were seen
    to change, by place: inputs, as are Tensors of which others were found there. library: knows this library's objects.
    """

    def __init__(self, given: dict[int, Any], promoted: set[tuple[int, Any]], library: Library) -> None:
        self.library = library
        self.given = given
        self.promoted = promoted
        self.facts: dict[tuple[int, str, Any], Fact] = {}
        self.changes: list[Change] = []
        self.refusal: CompileError | None = None
        self.arrays: dict[int, np.ndarray] = {}  # from outside
        self.compared: dict[int, Any] = {}  # what something given was compared with by identity
        self.fresh: dict[int, Any] = {}  # made in this run; kept alive, so that an id stays its own
        self._met: dict[int, Any] = {}
        self._known: set[int] | None = None
        self._written: dict[tuple[int, Any], Any] = {}  # places written in this run
        self.replayed: set[tuple[int, Any]] = set()  # places that something replayed at each call has changed
        self._grown: dict[int, Any] = {}  # dicts that this run has given a key more
        self._restructured: dict[int, Any] = {}  # containers whose length or order this run has changed
        self._undo: list[Callable[[], None]] = []

    def refuse(self, why: str) -> CompileError:
        """Note that this run cannot be recorded. Return the error that says so."""
        if self.refusal is None:
            self.refusal = CompileError(f"compile: {why}\n  {where_in_user_code()}")
        return self.refusal

    # --- whose is it? ---------------------------------------------------------------------------------

    def is_outside(self, thing: Any) -> bool:
        """Tell whether a thing was there before the run."""
        return id(thing) not in self.fresh

    def made(self, thing: Any) -> Any:
        """Note that a thing was made in this run."""
        self.fresh[id(thing)] = thing
        return thing

    def knows(self, thing: Any) -> bool:
        """Tell whether a thing is known to have been there before the run."""
        if id(thing) in self.fresh:
            return False
        if self._known is None:
            self._known = {*self.given, *self._met}
            stack = [fact.value for fact in self.facts.values()]
            while stack:
                each = stack.pop()
                self._known.add(id(each))
                if type(each) is tuple:
                    stack += each
        return id(thing) in self._known

    def meet(self, thing: Any) -> None:
        """Come across an object that this library's own code reads."""
        if id(thing) not in self._met and id(thing) not in self.fresh and self.library.meet(thing):
            self._met[id(thing)] = thing

    # --- looking --------------------------------------------------------------------------------------

    def fact(
        self,
        words: str,
        kind: str,
        holder: Any,
        key: Any,
        value: Any,
        reported: bool = False,
        by_value: bool = False,
    ) -> Any:
        """Note what was found at a place; return what stands for it. by_value: who reads it gets the thing itself."""
        place = (id(holder), _hashable(key))
        if place in self._written:
            return value
        if id(holder) in self._restructured or (kind in _OF_THE_WHOLE and id(holder) in self._grown):
            raise self.refuse(
                f"it looks into a {type(holder).__name__} from outside that it has itself changed"
            )
        if place in self.replayed:
            raise self.refuse(f"it reads {words}, which a schedule has changed before in the same call")
        if place in self.promoted and id(value) not in self.given and not by_value:
            if type(value) in (float, int):
                return self.library.number(holder, key, value)
            if isinstance(value, Node) and self.library.placed(holder, key, value):
                return value
        name = (id(holder), kind, place[1])
        if name not in self.facts:
            self.facts[name] = Fact(words, kind, holder, key, value, reported)
        if isinstance(value, np.ndarray):
            self.arrays[id(value)] = value
        elif id(value) in self.given and not isinstance(value, (Node, tuple)):
            raise self.refuse(f"{words} is also among the arguments: a container reached in two ways")
        return value

    # --- changing -------------------------------------------------------------------------------------

    def wrote(self, kind: str, holder: Any, key: Any, value: Any, undo: Callable[[], None]) -> None:
        """Note that something was stored outside. undo: puts back what was there."""
        self._written[id(holder), _hashable(key)] = (holder, key)
        self.changes.append(Change(kind, holder, key, value))
        self._undo.append(undo)

    def restructured(
        self, container: Any, method: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        """Note that a method which changes a container's length or order is about to be called."""
        kind = type(container)
        if not hasattr(container, "copy"):
            raise self.refuse(f"it changes a {kind.__name__} from outside")
        before = container.copy()
        self._undo.append(lambda: _put_back(container, before))
        self._restructured[id(container)] = container
        self.changes.append(Change("call", method, None, (args, options)))

    def happened(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note something that is done at each call, and cannot be undone: printing."""
        self.changes.append(Change("call", function, None, (args, options)))

    def is_written(self, holder: Any, key: Any) -> bool:
        """Tell whether this run has written a place."""
        return (id(holder), _hashable(key)) in self._written or id(holder) in self._restructured

    def has_changed(self, container: Any) -> bool:
        """Tell whether this run has changed a container in any way."""
        return id(container) in self._restructured or any(
            holder is container for holder, _ in self._written.values()
        )

    def has_set(self, thing: Any, name: Any) -> bool:
        """Tell whether this run has given something an option or attribute of this name."""
        return self.is_written(thing, name) or self.is_written(getattr(thing, "__dict__", None), name)

    def undo(self) -> None:
        """Put back what was stored outside, as far as it can be."""
        while self._undo:
            self._undo.pop()()

    def forget(self) -> None:
        """Let go of what was made, and of what was given, in this run."""
        places = (self._met, self._written, self._grown, self._restructured)
        for each in (self.given, self.fresh, self.facts, self.arrays, *places):
            each.clear()
        self._undo.clear()
        del self.library


def brief(thing: Any) -> str:
    """Return a thing in few words."""
    parts = thing if isinstance(thing, (tuple, list, set, frozenset)) else (thing,)
    plain = isinstance(thing, type) or all(isinstance(part, PLAIN) for part in parts)
    text = repr(thing) if plain else f"a {type(thing).__name__}"
    return text if len(text) < 60 else text[:57] + "…"


def _hashable(key: Any) -> Any:
    if isinstance(key, (str, int)):
        return key
    try:
        hash(key)
    except TypeError:
        return id(key)
    return id(key) if isinstance(key, Node) else key


def _put_back(container: Any, before: Any) -> None:
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(before)
    else:
        container.extend(before)
