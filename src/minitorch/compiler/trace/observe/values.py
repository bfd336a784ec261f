"""What a function that is being recorded looks at, and shows. Enters: containers, arrays, classes. Leaves: facts.

A container or an array from outside is compared at each call, or stands for an input; what cannot be is refused.
"""

from __future__ import annotations

import collections
import gc
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np

from minitorch.compiler.trace.number import settled
from minitorch.compiler.trace.observe import items
from minitorch.compiler.trace.observe.hooks import rewriter
from minitorch.compiler.trace.observe.methods import CONTAINERS, HEAP_TYPE, PLAIN_TYPES, TENSORS, own_method
from minitorch.compiler.trace.observe.observer import MISSING, PLAIN, Library, Observer, brief
from minitorch.compiler.trace.observe.whose import is_trusted, is_trusted_class
from minitorch.compiler.trace.refusal import CheckFailed, CompileError, Refused
from minitorch.compiler.trace.traced import Traced
from minitorch.compiler.trace.varying import SizeIsNeeded
from minitorch.engine.node import Node

MOST_COMPARED = 1 << 24  # bytes of an array that are compared at each call
_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))


class ValueObserver(Observer):
    """An Observer that knows what there is to see in things."""

    def __init__(self, given: dict[int, Any], promoted: set[tuple[int, Any]], library: Library) -> None:
        super().__init__(given, promoted, library)
        self.is_managed = library.is_managed
        self.takes_plainly = library.takes_plainly
        self._shown: list[tuple[Any, Any]] = []  # Tensors that are printed, or logged, and how they were then
        # What stands for an array, and the array, by the id of the first.
        self.originals: dict[int, tuple[Any, Any]] = {}

    def forget(self) -> None:
        """Let go of what was made, and of what was given, in this run."""
        super().forget()
        self._shown.clear()
        del self.is_managed, self.takes_plainly

    # --- looking at values ----------------------------------------------------------------------------

    def whole(self, things: Any) -> None:
        """Note that everything in a container is looked at."""
        if type(things) in PLAIN_TYPES or isinstance(things, (tuple, Node, Traced, str)):
            return
        if isinstance(things, types.GeneratorType):
            self.must_be_ours(things)
            return
        if not self.is_outside(things) or self.is_given(things):
            return
        if isinstance(things, (dict, types.MappingProxyType)):
            reported = self.is_managed(things)
            self.fact("the keys of a dict", "keys", things, "keys of it", tuple(things), reported)
            for key, value in list(things.items()):
                if self.library.option(things, key) is MISSING:
                    self.fact(f"[{brief(key)}]", "item", things, key, value, reported, by_value=True)
        elif isinstance(things, (list, collections.deque)):
            rewritten = any(self.is_written(things, i) for i in range(len(things)))
            if things and not rewritten and all(isinstance(i, PLAIN) for i in things):
                self.fact("a list", "alike", things, "all of it", list(things))
            else:
                self.length_fact(things)
                for i, each in enumerate(things):
                    self.fact(f"[{i}]", "index", things, i, each, by_value=True)
        elif isinstance(things, (set, frozenset)):
            if type(things) is not frozenset:
                self.fact("a set", "members", things, "all of it", list(things))
        elif isinstance(things, (bytearray, memoryview)):
            self.fact("some bytes", "bytes", things, "all of it", bytes(things))
        elif isinstance(things, np.ndarray):
            self.read_by_value(things)
        elif isinstance(things, (types.MethodType, types.FunctionType, type, types.ModuleType)):
            return
        elif isinstance(
            things, collections.abc.ItemsView | collections.abc.KeysView | collections.abc.ValuesView
        ):
            # Of a dict's own view, the dict itself, which is what is written and known by its place.
            self.whole(
                gc.get_referents(things)[0] if isinstance(things, _VIEWS) else cast(Any, things)._mapping
            )
        elif isinstance(things, Iterator):
            raise self.refuse_iterator(things)
        elif is_trusted_class(type(things)):
            self.meet(things)
        elif isinstance(things, collections.abc.Iterable) and own_method(things, "__iter__") is None:
            raise self.refuse(f"it looks through a {type(things).__name__}, which is not understood")

    def must_be_ours(self, generator: Any) -> None:
        """Refuse a generator that was begun outside."""
        if (
            not rewriter.is_instrumented(generator.gi_code)
            and not is_trusted(generator.gi_code)
            and self.is_outside(generator)
        ):
            raise self.refuse_iterator(generator)

    def refuse_iterator(self, thing: Any) -> CompileError:
        """Return the refusal of something that gives another thing at each call."""
        return self.refuse(
            f"it takes from an iterator ({type(thing).__name__}), which has something else at each call; take what it "
            "needs outside, and pass it as an argument"
        )

    def _refuse_draw(self) -> CompileError:
        return self.refuse(
            "it draws from Python's or NumPy's own random generator, whose numbers would be the same at every call; "
            "draw by minitorch.rand, randn, randint, or outside the function"
        )

    def array(self, array: np.ndarray) -> None:
        """Note that an array from outside was come across."""
        if id(array) not in self.given:
            self.arrays[id(array)] = array
            self.fact(
                "the layout of an array", "layout", array, "layout", (array.shape, array.dtype, array.strides)
            )

    def read_by_value(self, array: np.ndarray) -> None:
        """Note that the content of an array from outside was looked at."""
        if id(array) in self.given:
            return
        if array.dtype.hasobject:
            raise self.refuse("it looks into a NumPy array of objects, which cannot be compared")
        if array.nbytes > MOST_COMPARED:
            raise self.refuse(
                f"it looks into a NumPy array of {array.nbytes:,} bytes, too large to be compared at each call; make "
                "it a Tensor (from_numpy), which is an input"
            )
        self.array(array)
        self.fact("the content of an array", "content", array, "content", array.tobytes())

    def of_array(self, array: Any, look: Callable[[Any], Any], key: Any = None) -> Any:
        """Return what is found in an array from outside."""
        if isinstance(key, (Node, Traced)) or (
            type(key) is tuple and any(isinstance(k, (Node, Traced)) for k in key)
        ):
            return look(self.shown(array))
        if self.is_outside(array) and id(array) not in self.given:
            self.read_by_value(array)
        return look(array)

    def shown(self, thing: Any) -> Any:
        """Return what stands for an array from outside; anything else as it is."""
        if isinstance(thing, np.ndarray) and self.is_outside(thing) and id(thing) not in self.given:
            self.array(thing)
            shown = self.library.shown(thing)
            self.originals[id(shown)] = shown, thing
            return shown
        return thing

    def unshown(self, thing: Any) -> Any:
        """Return the array that something stands for; anything else as it is."""
        return self.originals.get(id(thing), (thing, thing))[1] if isinstance(thing, Traced) else thing

    def index(self, key: Any) -> Any:
        """Return an index with arrays from outside replaced by what stands for them."""
        if type(key) is tuple:
            return tuple([self.index(k) for k in key])
        if isinstance(key, list):
            self.whole(key)
        if type(key) is slice:
            return slice(*(settled(n, True) for n in (key.start, key.stop, key.step)))
        return self.shown(settled(key, True))

    def type_fact(self, kind: type, name: str, value: Any, by_value: bool = True) -> Any:
        """Note what a class has under a name; return what stands for it. by_value: that is the thing itself."""
        if not self.is_outside(kind):
            return value
        return self.fact(f"{kind.__name__}.{name}", "type", kind, name, value, by_value=by_value)

    def class_fact(self, thing: Any) -> None:
        """Note which class an object from outside is of, if that can be changed."""
        kind = type(thing)
        if kind.__flags__ & HEAP_TYPE and self.is_outside(thing):
            words = f"the class of a {kind.__name__}"
            self.fact(words, "class", thing, None, kind, self.is_managed(thing))

    def length_fact(self, container: Any) -> None:
        """Note how long a container from outside is."""
        words = f"the length of a {type(container).__name__}"
        self.fact(words, "length", container, None, len(container), self.is_managed(container))

    def is_fresh_tensor(self, thing: Any) -> bool:
        """Tell whether a Tensor was made in this run."""
        return self.library.is_fresh(thing)

    # --- what a call brings along ---------------------------------------------------------------------

    def is_given(self, thing: Any) -> bool:
        """Tell whether a container is among the arguments: known by the key, not by facts."""
        return id(thing) in self.given

    def is_outside(self, thing: Any) -> bool:
        """Tell whether a thing was there before the run, and is not among the arguments."""
        return id(thing) not in self.fresh and id(thing) not in self.given

    def hashed(self, key: Any, container: Any) -> None:
        """Note that a thing was looked up by its hash."""
        parts = key if type(key) is tuple else (key,)
        for part in parts:
            if isinstance(part, (Node, Traced)) and id(part) in self.given and self.is_outside(container):
                raise self.refuse(
                    "it looks an argument up in a dict, by its identity, which is another one at each call"
                )

    def compare_with(self, one: Any, others: Any) -> None:
        """Note that an argument was compared, by identity, with things from outside."""
        if id(one) in self.given:
            for other in others:
                if id(other) not in self.given and not isinstance(other, PLAIN) and self.is_outside(other):
                    self.compared[id(other)] = other

    # --- storing --------------------------------------------------------------------------------------

    def is_group(self, thing: Any) -> bool:
        """Tell whether a dict is a parameter group."""
        return type(thing) is not dict and self.is_managed(thing)

    def takes_option(self, group: Any, key: Any, value: Any) -> bool:
        """Tell whether a parameter group can be given an option at each call."""
        return self.library.takes_plainly(group, key, value)

    def group_option(self, group: Any, key: Any) -> Any:
        """Return what stands for an option of a parameter group."""
        return MISSING if self.is_written(group, key) else self.library.option(group, key)

    def note_new_key(self, holder: Any) -> None:
        """Note that a dict has a key more."""
        self._grown[id(holder)] = holder

    def note_written(self, holder: Any, key: Any) -> None:
        """Note that a place has another name."""
        self._written[id(holder), key] = (holder, key)

    def happens(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Print, or log: at the end of this run, and of each call."""
        for each in (*args, *options.values()):
            if isinstance(each, CONTAINERS):
                self.whole(each)
        self._note_shown((*args, *options.values()))
        args = tuple([items.copied(a) for a in args])
        self.happened(function, args, options)

    def _note_shown(self, things: Any) -> None:
        """Note how Tensors are that will be shown at the end of the call."""
        for each in things:
            if isinstance(each, (list, tuple, dict)):
                self._note_shown(each.values() if isinstance(each, dict) else each)
            elif isinstance(each, TENSORS):
                self._shown.append((each, _state_of(each)))

    def refuse_what_was_shown_and_changed(self) -> None:
        """Refuse a run that has changed a Tensor after it was printed, or logged: that happens at the end."""
        if any(_state_of(each) != state for each, state in self._shown):
            raise self.refuse("it changes a tensor after it has printed, or logged, it; print a clone()")

    def caught(self, error: BaseException) -> None:
        """Be told of an error that the function may be about to catch."""
        self.made(error)
        if isinstance(error, SizeIsNeeded):
            return  # the recording is made anew, whatever the function makes of it
        if isinstance(error, (CompileError, CheckFailed, Refused)):
            if self.refusal is None:
                self.refusal = (
                    error if isinstance(error, CompileError) else CompileError("compile: a check failed")
                )
        elif _raised_by_tensors(error):
            self.refuse(
                f"it catches an error of a Tensor operation ({type(error).__name__}), which later calls need not raise"
            )

    def paused(self) -> AbstractContextManager[Any]:
        """Let something be done that is not recorded, nor observed."""
        return self.library.paused()


def _state_of(thing: Any) -> tuple[Any, ...]:
    """Return what changes when a Tensor, or an array that is recorded, is written into."""
    array = thing._data if isinstance(thing, Node) else thing
    return id(array), getattr(array, "_version", None), getattr(thing, "_time", None)


def _raised_by_tensors(error: BaseException) -> bool:
    """Tell whether an error comes out of this library's or NumPy's code, and depends on numbers.

    Shapes and dtypes are part of the key: an error about them is raised at every such call.
    """
    if not isinstance(error, (ArithmeticError, IndexError, np.linalg.LinAlgError)):
        return False
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return (
        is_trusted(code) and "observe" not in code.co_filename and not code.co_filename.startswith("<frozen")
    )
