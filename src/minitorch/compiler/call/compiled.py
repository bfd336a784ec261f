"""The front door: `minitorch.compile`.

Enters: a function over Tensors, Modules and optimisers. Leaves: a function that does the same, recorded once for each
kind of arguments and run as native code from then on.

The first call with new shapes runs the function itself, once, as always, and writes it down; its results are the
ones you get. The program is then made native and run beside it on copies of what it started from, and must agree.
From then on a call checks that nothing the recording relied on has changed (guards.py), reads the numbers and draws
that may differ, and runs the program.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import threading
import time
import types
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.compiler import backends
from minitorch.compiler.call import verify
from minitorch.compiler.call.containers import (
    Leaf,
    collect,
    exactly,
    filled,
    in_words,
    rebuilt,
    signature,
    take_apart,
    template,
)
from minitorch.compiler.call.guards import PLAIN, Standing, World, describe, same
from minitorch.compiler.call.undo import Aside, Before, StreamState, foreign_generators_untouched
from minitorch.compiler.ir.program import Program
from minitorch.compiler.trace.backward import Backward, differentiate, is_consumed
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.recorder import (
    Call,
    Draw,
    Effect,
    FromArgument,
    FromArray,
    FromGradient,
    FromScript,
    FromTensor,
    ReadNumber,
    Recorded,
    Recording,
    _Violated,
    record,
)
from minitorch.compiler.trace.refusal import CompileError, Refused
from minitorch.compiler.trace.traced import Traced
from minitorch.engine import recording, watch
from minitorch.engine.dtypes import get_default_dtype
from minitorch.engine.modes import current
from minitorch.engine.node import Node, new_tensor
from minitorch.random import default_generator
from minitorch.tensor import Tensor

MISS: Any = object()  # what the short way (entry.py) gives when it is not the way for a call
EAGER = "eager"  # the backend that runs the function itself
# Other spellings of backends, for code written for PyTorch.
_SYNONYMS = {"inductor": "native", "aot_eager": "numpy"}

# So many different kinds of arguments are compiled at their first call; later ones when they have come this often.
EAGER_TO_COMPILE, SEEN_BEFORE_COMPILING, MOST_KEPT = 4, 3, 32
MOST_OF_A_KIND = 8  # programs for one kind of arguments in different worlds, train() and eval() say
MOST_SEEN = 4096  # kinds of arguments that are counted
# What a program stops with: a check of its own, or an error of a NumPy function that it calls back.
_REFUSALS = (Refused, np.linalg.LinAlgError, ValueError, IndexError, FloatingPointError)
# A function that changes its own world at so many calls in a row is left to run as it is.
PATIENCE = 3


class Disagreement(UserWarning):
    """A compiled program did not give what the function itself gave, and is not used."""


# --- one recording, made a program --------------------------------------------------------------------------


class Given(threading.local):
    """The numbers among a call's arguments, for the steps that read them."""


@dataclass(eq=False)
class Specialisation:
    """One program: the recording, the world it relied on, and how it is run."""

    recorded: Recorded
    world: World
    key: Any
    shape: Any  # the template of its results
    leaves: list[Any]  # per result: None (new at each call), a Tensor from before, or an argument's position
    kinds: list[
        Any
    ]  # per result: None (an array), True (a Tensor), or the op of one whose graph was used up inside
    runner: Any  # runs the program on arrays: native, or NumPy
    backward: Backward | None
    seconds: float
    calls: int = 0
    free: tuple[int, ...] = ()  # which of the numbers among the arguments are inputs
    given: Given = field(default_factory=Given)
    reason: str = ""  # why it was compiled
    used: int = 0  # when, last
    seen: list[Any] = field(default_factory=list)  # the arguments, while decisions on them are taken
    fast: Any = MISS  # the short way into it (entry.py): MISS until it is asked for, None if there is none
    lock: threading.Lock = field(default_factory=threading.Lock)

    def usable(self) -> bool:
        """Tell whether everything it relied on is as it was."""
        if not self.world.holds():
            return False
        replaced = False
        for i, (source, shape, dtype) in enumerate(self._tensors):
            array = source.tensor._data if source.__class__ is FromTensor else source.tensor._grad
            if array is not self._arrays[i]:
                # Another array than last time. (A gradient is, at every call.)
                if array is None or array.shape != shape or array.dtype != dtype:
                    return False
                if source.__class__ is FromTensor:
                    self._arrays[i] = array
                    replaced = True
        return not replaced or self._takes_new_arrays()

    def _takes_new_arrays(self) -> bool:
        """Tell whether arrays that Tensors were given since the last call can be written to, each by itself."""
        self.fast = MISS  # it knows the arrays
        self._owners = self._written_owners()
        arrays = [a for a in self._arrays if a is not MISS]
        for i in self._written:
            mine = self._arrays[i]
            if not mine.flags.writeable or sum(np.may_share_memory(mine, a) for a in arrays) > 1:
                self._arrays[i] = MISS  # look again at the next call
                return False
        return True

    def overlaps(self, leaves: Sequence[Any]) -> bool:
        """Tell whether an argument shares memory with another array, and one of the two is written."""
        if not self.recorded.updates:
            return False
        arrays = [leaf._data if isinstance(leaf, Node) else leaf for leaf in leaves]
        owners = [id(a if a.base is None else watch.owner_of(a)) for a in arrays]
        if not self._writes_arguments:
            return not self._owners.isdisjoint(owners)
        others = self._owners | {id(watch.owner_of(a)) for a in self._arrays if a is not MISS}
        return len({id(leaf) for leaf in leaves}) != len(set(owners)) or not others.isdisjoint(owners)

    def _written_owners(self) -> set[int]:
        arrays = [self.recorded.sources[u.input] for u in self.recorded.updates]
        return {id(watch.owner_of(s.tensor._data)) for s in arrays if isinstance(s, FromTensor)}

    def __post_init__(self) -> None:
        recorded = self.recorded
        program = recorded.program
        updated = {u.input for u in recorded.updates}
        self._tensors: list[tuple[Any, Any, Any]] = []
        self._arrays: list[Any] = []
        self._written: set[int] = set()
        for number, (source, value) in enumerate(zip(recorded.sources, program.inputs, strict=True)):
            if isinstance(source, (FromTensor, FromGradient)):
                if number in updated:
                    self._written.add(len(self._tensors))
                self._tensors.append((source, value.shape, value.dtype))
                self._arrays.append(source.tensor._data if isinstance(source, FromTensor) else MISS)
        self._owners = self._written_owners()
        self._writes_arguments = any(isinstance(recorded.sources[i], FromArgument) for i in updated)
        self._updated = {u.output: u.input for u in recorded.updates}
        self._given = [i for i in range(len(program.outputs)) if i not in self._updated]
        self._effects = [step for step in recorded.script if isinstance(step, Effect)]
        self._streams = list(
            {id(s.source): s.source for s in recorded.script if isinstance(s, Draw)}.values()
        )

    def undo(self) -> Before | None:
        """Return what to restore if the next call is refused; None if nothing has to be."""
        if self._effects:
            return Before(self._streams, self.world)
        # A run may be given up after the draws: an index is out of range, a matrix singular.
        return Before(self._streams) if self._streams and self.runner.may_fail else None

    def run(self, arguments: list[Any], numbers: Sequence[float] = ()) -> Any:
        """Run it on one call's arguments; raises Refused, with nothing changed, if a check fails."""
        recorded = self.recorded
        call = Call(arguments)
        for i in self.free:
            setattr(self.given, f"n{i}", numbers[i])
        self._decide(arguments)
        before = self.undo()
        try:
            for step in recorded.script:
                call.script.append(step.run())
                if step.__class__ is Effect:
                    self._decide(arguments)
            inputs = [np.asarray(source.read(call)) for source in recorded.sources]
            with self.lock:
                outputs = self.runner(inputs)
        except BaseException as error:
            if before is not None:
                before.restore()
            if isinstance(error, _REFUSALS):
                raise Refused(str(error)) from error
            raise
        for update in recorded.updates:
            watch.touch(inputs[update.input])
        for rebind in recorded.rebinds:
            tensor = arguments[rebind.tensor] if isinstance(rebind.tensor, int) else rebind.tensor
            setattr(tensor, rebind.attribute, None if rebind.output is None else outputs[rebind.output])
            if rebind.attribute == "_grad":
                tensor._grad_is_shared = False
            else:
                watch.touch(tensor)
        self.calls += 1
        found: list[Any] = []
        for i, given in enumerate(self.leaves):
            if given is not None:
                found.append(arguments[given] if isinstance(given, int) else given)
            elif (kind := self.kinds[i]) is None:
                found.append(outputs[i])
            else:
                found.append(new_tensor(outputs[i]) if kind is True else new_tensor(outputs[i], kind))
        if self.backward is not None:
            self.backward.attach(found, outputs, arguments, inputs)
        return filled(self.shape, found)

    def _decide(self, arguments: list[Any]) -> None:
        # Asked again after every effect: a schedule may have changed the number the decision was about.
        if not self.recorded.decisions:
            return
        self.seen[:] = arguments
        try:
            for question, answer in self.recorded.decisions:
                if question() != answer:
                    raise Redecided
        except (IndexError, KeyError, AttributeError, TypeError):
            raise Redecided from None
        finally:
            self.seen.clear()


class Redecided(Exception):
    """A decision on a number went the other way: the recording does not fit this call."""


# --- the compiled function ------------------------------------------------------------------------------------


class Cache:
    """The programs of one function (of one instance, for a method), and why there are so many."""

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner  # a weak reference to the instance
        self.programs: dict[Any, list[Specialisation]] = {}
        self.seen: dict[
            Any, deque[int]
        ] = {}  # when calls found no program: the last ones, by kind of arguments
        self.misses: dict[Any, int] = {}  # calls for which there were programs, but none that fitted
        self.first: dict[Any, tuple[float, ...]] = {}  # the first numbers among arguments, by kind
        self.free: dict[Any, tuple[int, ...]] = {}  # which of them have changed, and so are inputs
        self.stiff: set[Any] = set()  # kinds whose numbers cannot be inputs
        self.reasons: list[str] = []
        self.promoted: set[tuple[int, str]] = set()  # options and attributes that have changed: holder, key
        self.compilations = 0
        self.eager_calls = 0
        self.fast: Any = None  # the short way into the program used last (entry.py)
        self.latest: Specialisation | None = None  # that program
        self.restless: dict[Any, int] = {}  # calls in a row that changed the function's own world, by kind
        self.bound: CompiledFunction | None = None  # the method of the instance these programs are for
        self.eager_because: str | None = None
        self.lock = threading.RLock()

    def __reduce__(self) -> Any:
        return (Cache, ())  # machine code belongs to a process: a copy starts anew

    def __deepcopy__(self, memo: Any) -> Cache:
        return Cache()

    def all(self) -> list[Specialisation]:
        """Return all programs."""
        return [s for group in self.programs.values() for s in group]

    def is_worth_it(self, key: Any) -> bool:
        """Tell whether to compile for a call no program fits. What comes only once is not worth it.

        The first few kinds of arguments are compiled at once, later ones when they came three times. When there are
        too many programs, one that was not used while the new kind came three times makes room. Where guards
        fail again and again, it is tried ever more rarely: after 1, 2, 3, 4, 8, 16… failures.
        """
        sightings = self.seen.setdefault(key, deque(maxlen=SEEN_BEFORE_COMPILING))
        sightings.append(watch.tick())
        if len(self.seen) > MOST_SEEN:
            self.seen = {k: v for k, v in self.seen.items() if k in self.programs or k == key}
        if key in self.programs:
            self.misses[key] = misses = self.misses.get(key, 0) + 1
            return misses <= EAGER_TO_COMPILE or misses & (misses - 1) == 0
        if len(self.programs) < EAGER_TO_COMPILE:
            return True
        if len(sightings) < SEEN_BEFORE_COMPILING:
            return False
        if len(self.programs) < MOST_KEPT:
            return True
        idle, oldest = min((max(p.used for p in group), i) for i, group in enumerate(self.programs.values()))
        if idle > sightings[0]:
            return False
        self.drop(list(self.programs)[oldest])
        return True

    def drop(self, key: Any) -> None:
        """Forget the programs of a kind."""
        for program in self.programs.pop(key, ()):
            if program is self.latest:
                self.fast = self.latest = None
        self.misses.pop(key, None)


class CompiledFunction(Standing):
    """A function and its programs. Call it like the function; `explain()` tells what was made of it."""

    def __init__(
        self, function: Callable[..., Any], backend: str, verify: bool, cache: Cache | None = None
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.backend = backend
        self.verify = verify
        self.cache = Cache() if cache is None else cache

    def __reduce__(self) -> Any:
        # A decorated function is found by its name, as functions are.
        home: Any = sys.modules.get(getattr(self, "__module__", ""))
        for name in getattr(self, "__qualname__", "").split("."):
            home = inspect.getattr_static(home, name, None) if home is not None else None
        if home is self:
            return self.__qualname__
        return (CompiledFunction, (self.function, self.backend, self.verify))

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledFunction:
        if isinstance(self.function, types.FunctionType):
            return self  # as functions are
        return CompiledFunction(copy.deepcopy(self.function, memo), self.backend, self.verify)

    def __repr__(self) -> str:
        return f"<compiled {describe(self.function)}, {len(self.cache.all())} programs>"

    @property
    def compilations(self) -> int:
        """How many programs were compiled so far."""
        return self.cache.compilations

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: each instance has programs of its own."""
        if instance is None:
            return self
        own = getattr(instance, "__dict__", None)
        if type(own) is not dict:
            return types.MethodType(self, instance)  # a class, or an instance without attributes: an argument
        name = f"_compiled_{id(self):x}"
        cache = own.get(name)
        if cache is None or cache.owner is None or cache.owner() is not instance:
            # A copied instance has its original's attributes, but not its programs.
            try:
                cache = own[name] = Cache(weakref.ref(instance))
            except TypeError:
                return types.MethodType(self, instance)
        if cache.bound is None:
            method = types.MethodType(self.function, instance)
            cache.bound = CompiledFunction(method, self.backend, self.verify, cache)
        return cache.bound

    def explain(self, html: str | None = None) -> Any:
        """Tell what was made of the function: programs, kernels, memory, what was recorded anew and why.

        html: also write a page to look at to this file.
        """
        from minitorch.compiler.call.explain import Explanation

        explanation = Explanation(self)
        if html is not None:
            explanation.write_html(html)
        return explanation

    # --- calling ------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Do what the function does."""
        cache = self.cache
        if cache.fast is not None and not options:
            before = None if cache.latest is None else cache.latest.undo()
            try:
                found = cache.fast(args)
            except BaseException as error:
                if before is not None:
                    before.restore()
                if not isinstance(error, _REFUSALS):
                    raise
                return self._refused(cache.latest, args, options)
            if found is not MISS:
                return found
        if recording.recorder() is not None:
            return self.function(*args, **options)  # inside another recording: part of it
        mode = current()
        if cache.eager_because is not None or mode.observers or mode.gradient_check or self.backend == EAGER:
            return self.function(*args, **options)
        leaves: list[Any] = []
        numbers: list[float] = []
        structure = (
            take_apart(args, leaves, numbers),
            take_apart(options, leaves, numbers) if options else (),
        )
        if any(type(leaf) is not np.ndarray and _is_foreign(leaf) for leaf in leaves):
            return self.function(*args, **options)
        key = (structure, *map(signature, leaves), mode.enabled, get_default_dtype())
        identical = _identical(leaves)
        if identical:
            key = (*key, identical)
        kind = key
        if numbers:
            key = with_numbers(kind, numbers, cache.free.get(kind, ()))
        candidates = cache.programs.get(key, [])
        for program in tuple(candidates):
            if program.usable():
                if program.overlaps(leaves):
                    return self.function(*args, **options)
                try:
                    results = program.run(leaves, numbers)
                except Redecided:
                    continue
                except Refused:
                    return self._refused(program, args, options)
                if program is not candidates[0]:
                    with cache.lock:  # the one used last is tried first
                        candidates.sort(key=lambda each: each is not program)
                self._shorten(program, mode.enabled)
                return results
        return self._new(kind, key, args, options, leaves, numbers, tuple(candidates))

    def _shorten(self, program: Specialisation, enabled: bool) -> None:
        """Let the next call of this kind take the short way, if there is one."""
        cache = self.cache
        program.used = watch.tick()
        if self.backend in ("native", "unfused"):
            if program.fast is MISS:
                from minitorch.compiler.call.entry import make_entry

                program.fast = make_entry(program, enabled)
            if cache.latest is not None:
                cache.latest.used = program.used
            cache.latest, cache.fast = program, program.fast

    def _refused(self, program: Specialisation | None, args: Any, options: Any) -> Any:
        """Let the function say in its own words what is wrong with a call; nothing was changed."""
        leaves: list[Any] = []
        take_apart((args, options), leaves)
        world = World(self.function, set()) if program is None else program.world
        sources = () if program is None else program.recorded.sources
        leaves += [s.tensor for s in sources if isinstance(s, (FromTensor, FromGradient))]
        return self._plainly(world, args, options, leaves)

    def _plainly(self, world: World, args: Any, options: Any, leaves: list[Any]) -> Any:
        """Run the function itself; if it fails, leave everything as it was."""
        tensors = {id(t): t for t in (*world.tensors, *leaves) if isinstance(t, Node)}
        aside, before = Aside(list(tensors.values())), Before([default_generator, *world.streams], world)
        try:
            return self.function(*args, **options)
        except BaseException:
            aside.restore()
            before.restore()
            raise

    def _new(
        self,
        kind: Any,
        key: Any,
        args: Any,
        options: Any,
        leaves: list[Any],
        numbers: list[float],
        tried: tuple[Specialisation, ...],
    ) -> Any:
        """Compile for a call that no program fits, or run it as it is."""
        cache = self.cache
        with cache.lock:
            free = cache.free.get(kind, ())
            if numbers:
                key, free = self._free_numbers(kind, numbers)
            group = cache.programs.get(key, [])
            for program in group:  # another thread may have compiled it meanwhile
                if program not in tried and program.usable() and not program.overlaps(leaves):
                    try:
                        return program.run(leaves, numbers)
                    except (Redecided, Refused):
                        continue
            if cache.restless.get(key, 0) >= PATIENCE or not cache.is_worth_it(key):
                cache.eager_calls += 1
            else:
                return self._record(kind, key, args, options, leaves, numbers, free)
        return self.function(*args, **options)

    def _free_numbers(self, kind: Any, numbers: list[float]) -> tuple[Any, tuple[int, ...]]:
        """Make numbers that differ from those of the first call inputs. Return the key, and which are inputs."""
        cache = self.cache
        free = cache.free.get(kind, ())
        first = cache.first.setdefault(kind, tuple(numbers))
        changed = {i for i, n in enumerate(numbers) if exactly(n) != exactly(first[i])}
        if not changed <= set(free) and kind not in cache.stiff:
            cache.drop(with_numbers(kind, list(first), free))
            cache.reasons.append(
                f"a number among the arguments was {first[min(changed)]}: it is an input now"
            )
            free = cache.free[kind] = tuple(sorted(changed | set(free)))
        return with_numbers(kind, numbers, free), free

    def _why(self, key: Any, group: list[Specialisation]) -> str:
        """Say why no program of a kind fits, and make numbers that changed inputs."""
        if not group:
            if not self.cache.compilations:
                return "the first call"
            return f"a new kind of arguments: {', '.join(in_words(key)) or 'none'}"
        last = group[0]
        for holder, name in last.world.changed_numbers():
            self.cache.promoted.add((id(holder), name))
        changed = last.world.what_changed()
        if changed:
            return changed
        for source, shape, dtype in last._tensors:
            array = source.tensor._data if isinstance(source, FromTensor) else source.tensor._grad
            if array is None:
                return f"a gradient of shape {shape} was there and is none now"
            if array.shape != shape or array.dtype != dtype:
                return f"a tensor was {dtype}{list(shape)} and is {array.dtype}{list(array.shape)}"
        return "a decision on a number goes the other way"

    def _record(
        self, kind: Any, key: Any, args: Any, options: Any, leaves: list[Any], numbers: list[float],
        free: tuple[int, ...],
    ) -> Any:  # fmt: skip
        cache = self.cache
        group = cache.programs.get(key, [])
        reason = self._why(key, group)
        began = time.perf_counter()
        objects: list[Any] = []
        take_apart((args, options), [], [], objects)
        world = World(self.function, set(cache.promoted), objects)
        if world.iterators:
            cache.restless[key] = PATIENCE
            self._stay_eager(
                f"it takes from an iterator ({world.iterators[0]}), which has something else at each call; take what "
                "it needs outside, and pass it as an argument"
            )
            return self.function(*args, **options)
        bare = {id(t): t for t in world.tensors if t._grad is None}
        before = Before([default_generator, *world.streams], world)
        given = Given()
        extra = _Extra(self.function, world, numbers, free, given, cache.promoted)
        mode = current()
        try:
            with foreign_generators_untouched(self.function, world) as check:
                results, recorded, active, backward = self._recorded(
                    extra, args, options, leaves, world, check
                )
        except _Violated:
            before.restore()
            return self._plainly(world, args, options, leaves)
        except BaseException as error:
            before.restore()
            if free and isinstance(error, Exception) and not isinstance(error, CompileError):
                # Perhaps it asks for a float where it gets what stands for one.
                cache.stiff.add(kind)
                cache.free.pop(kind, None)
                key = with_numbers(kind, numbers, ())
                return self._record(kind, key, args, options, leaves, numbers, ())
            raise
        finally:
            _forget_scratch(world)
        if current() != mode:
            world_changed = "whether gradients are recorded"
        elif extra.changed_by_hand():
            world_changed = extra.changed_by_hand()
        else:
            world_changed = "" if world.holds() else world.what_changed()
            world_changed = world_changed or world.freed_changed(recorded.symbolic)
        if world_changed:
            cache.restless[key] = cache.restless.get(key, 0) + 1
            cache.eager_calls += 1
            if cache.restless[key] == PATIENCE:
                self._stay_eager(f"it changes what it relies on at every call: {world_changed}")
            return rebuilt(results, _untraced)
        cache.restless.pop(key, None)
        recorded_results, results = results, rebuilt(results, _untraced)
        found = collect(recorded_results)
        strange = _strange(recorded_results, found, world, active)
        if strange:
            cache.restless[key] = PATIENCE
            self._stay_eager(strange)
            return results
        without = [t for t in bare.values() if id(t) in active.asked]
        arguments = set(map(id, leaves))
        without += [t for t in active.without_gradient() if id(t) not in bare and id(t) not in arguments]
        inputs = {id(source.array) for source in recorded.sources if isinstance(source, FromArray)}
        world = World(self.function, recorded.symbolic, objects, without, inputs)
        read_anew = [
            i
            for i, source in enumerate(recorded.sources)
            if isinstance(source, FromScript) and isinstance(recorded.script[source.step], ReadNumber)
        ]
        try:
            runner = self._runner(recorded.program, {u.output: u.input for u in recorded.updates}, read_anew)
            if backward is not None:
                backward.runner = self._runner(backward.program, {}, [])
        except Exception as error:
            # The function itself has run: its results are there, whatever went wrong here.
            self._leave(f"its program could not be compiled ({type(error).__name__}: {error})")
            return results
        program = Specialisation(
            recorded, world, key, template(recorded_results, {id(r): i for i, r in enumerate(found)}),
            [self._where(r, leaves, active) for r in found], [_kind(r) for r in found],
            runner, backward, time.perf_counter() - began, free=free, given=given, reason=reason,
        )  # fmt: skip
        if self.verify and not self._agrees(program, active):
            return results
        active.forget()
        if backward is not None:
            backward.expected = []
        runner.settle()
        active.arguments = program.seen
        program.seconds = time.perf_counter() - began
        program.used = watch.tick()
        cache.compilations += 1
        cache.reasons.append(reason)
        group = cache.programs.setdefault(key, [])
        group.insert(0, program)
        del group[MOST_OF_A_KIND:]
        self._tell(reason, program)
        return results

    def _recorded(
        self,
        extra: _Extra,
        args: Any,
        options: Any,
        leaves: list[Any],
        world: World,
        check: Callable[[], None],
    ) -> Any:
        def then(active: Recording, recorded: Recorded, found: list[Any]) -> Any:
            # Before anything is written for real: what would fail then fails now.
            check()
            for update in recorded.updates:
                if not active.concrete[update.input].flags.writeable:
                    raise ValueError(
                        f"compile: {describe(self.function)} writes into an array of shape "
                        f"{active.concrete[update.input].shape} that is read-only; clone() it"
                    )
            return differentiate(active, recorded, found, leaves)

        return record(extra, args, options, leaves, world.arrays, self.cache.promoted, collect, then)

    def _stay_eager(self, because: str) -> None:
        """Run calls of a kind as they are from now on; all calls, if there is no other kind."""
        if not self.cache.programs:
            self.cache.eager_because = because
        self.cache.reasons.append(f"stays eager: {because}")
        self._tell(f"stays eager: {because}")

    def _leave(self, because: str) -> None:
        """Leave the function uncompiled, because of a mistake of ours."""
        self.cache.eager_because = because
        self._tell(f"stays eager: {because}")
        warnings.warn(
            f"compile: {describe(self.function)} is left uncompiled: {because}; please report this",
            Disagreement,
            stacklevel=_level_outside(),
        )

    def _tell(self, reason: str, program: Specialisation | None = None) -> None:
        """Print what MINITORCH_DEBUG asks for."""
        level = os.environ.get("MINITORCH_DEBUG", "0")
        if level not in ("", "0"):
            from minitorch.compiler.call.explain import debug

            debug(self, reason, program, int(level) if level.isdigit() else 1)

    def _where(self, result: Any, leaves: list[Any], active: Recording) -> Any:
        """Return where a result that was there before comes from: an argument's position, or the Tensor itself."""
        for i, leaf in enumerate(leaves):
            if leaf is result:
                return i
        return result if isinstance(result, Node) and not active.is_fresh(result) else None

    def _runner(self, program: Program, updates: dict[int, int], numbers: list[int]) -> Any:
        return backends.named(self.backend).compile(program, updates, numbers)

    def _agrees(self, program: Specialisation, active: Recording) -> bool:
        """Run the program on what the function started from, and compare."""
        try:
            wrong = verify.first_difference(program, active)
        except Exception as error:
            # As above: the function has run. A program that fails where the function did not is wrong.
            self._leave(f"its program could not be run ({type(error).__name__}: {error})")
            return False
        if wrong is None:
            return True
        output, room = wrong
        room = room or f"the {self.backend} code"
        self._leave(f"output {output} of its program differs from what the function gave ({room} is wrong)")
        return False


def _level_outside() -> int:
    """Return the stack level, as seen by the caller, of the line outside this package that led here."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("minitorch."):
        level, frame = level + 1, frame.f_back
    return level


class _Float(Number):
    """A number that passes for a Python float, wherever one is asked for."""

    __slots__ = ()

    __class__ = property(lambda self: float)

    def _with(self, ufunc: Any, *operands: Any) -> Any:
        return _as_float(Number._with(self, ufunc, *operands))


def _as_float(number: Any) -> Any:
    if type(number) is not Number:
        return number
    return _Float(number.value, number.concrete, number.read, number.decide)


class _Extra:
    """The function as it is recorded: with numbers among its arguments made inputs, and an eye on what it does."""

    def __init__(
        self,
        function: Any,
        world: World,
        numbers: list[float],
        free: tuple[int, ...],
        given: Given,
        promoted: set[tuple[int, str]],
    ) -> None:
        self.function = function
        self.numbers = numbers
        self.free = free
        self.given = given
        self.promoted = promoted
        self._rates = list(world.rates)
        self._streams = [StreamState(stream) for stream in (default_generator, *world.streams)]
        self._changed = ""

    def __call__(self, *args: Any, **options: Any) -> Any:
        active: Any = recording.recorder()
        active.around_pause = self._around_pause
        if self.free:
            args, options = self._with_inputs(active, args, options)
        if any(isinstance(given, np.ndarray) for given in active.arguments):
            args, options = rebuilt((args, options), active.shown)  # a copy of one must be recorded too
        return self.function(*args, **options)

    def _with_inputs(self, active: Any, args: Any, options: Any) -> Any:
        count = iter(range(len(self.numbers)))

        def change(thing: Any) -> Any:
            if type(thing) is not float:
                return thing
            i = next(count)
            if i not in self.free:
                return thing
            setattr(self.given, f"n{i}", thing)
            return _as_float(active.scalar(thing, ReadNumber(self.given, f"n{i}")))

        return rebuilt(args, change), rebuilt(options, change)

    @contextmanager
    def _around_pause(self) -> Iterator[None]:
        # What a schedule does to learning rates, and draws to generators, is done again at each call; what is done to
        # them otherwise is not.
        self.changed_by_hand()
        before = [dict(group) for group, _ in self._rates]
        yield
        for (group, _), was in zip(self._rates, before, strict=True):
            changed = (k for k, v in group.items() if type(v) is float and v is not was.get(k))
            self.promoted.update((id(group), key) for key in changed if key != "lr")
        self._rates = [(group, group["lr"]) for group, _ in self._rates]
        self._streams = [StreamState(state.stream) for state in self._streams]

    def changed_by_hand(self) -> str:
        """Name a learning rate or a generator that the function changed itself; '' if it did not."""
        if any(not (group.get("lr") is was or same(group.get("lr"), was)) for group, was in self._rates):
            self._changed = (
                "a learning rate, set by hand (a schedule of minitorch.optim.lr_scheduler may be stepped)"
            )
        if not all(state.holds() for state in self._streams):
            self._changed = "the state of a random generator, set by hand (seed it outside)"
        return self._changed


def with_numbers(kind: Any, numbers: Sequence[float], free: tuple[int, ...]) -> Any:
    """Return the key of a kind of arguments with the numbers that are no inputs."""
    return (*kind, free, *(exactly(n) for i, n in enumerate(numbers) if i not in free))


def _is_foreign(leaf: Any) -> bool:
    """Tell whether an argument is one that programs do not take: on a device, a subclass of array, with hooks."""
    if not isinstance(leaf, Node):
        return True
    return type(leaf._data) is not np.ndarray or bool(leaf._hooks)


def _strange(results: Any, found: list[Any], world: World, active: Recording) -> str:
    """Say what among the results a program cannot make anew at each call; '' if it can make everything."""
    known = {id(each) for each in found}
    strange: list[str] = []

    def look(part: Any) -> None:
        if id(part) in known:
            if isinstance(part, Node) and active.is_fresh(part):
                if type(part) is not Tensor:
                    strange.append(f"it returns a new {type(part).__name__}")
                elif part._requires_grad and part._operation is None:
                    strange.append("it returns a new leaf that requires grad; write requires_grad_() outside")
        elif not isinstance(part, (*PLAIN, type, types.FunctionType, types.ModuleType)) and not world.knows(
            part
        ):
            name = type(part).__name__
            strange.append(
                f"it returns a {name}, which cannot be made anew at each call; return Tensors, or tuples, lists, "
                "dicts, namedtuples and dataclasses of them"
            )

    rebuilt(results, look)
    return strange[0] if strange else ""


def _untraced(part: Any) -> Any:
    """Return a recorded array as the plain one it was in this run."""
    return np.array(part.array) if isinstance(part, Traced) else part


def _forget_scratch(world: World) -> None:
    """Take the recorded arrays from the optimisers that worked in them: they hold on to the whole recording."""
    for optimizer in world.optimizers:
        scratch = getattr(optimizer, "_scratch", {})
        for key in [key for key, room in scratch.items() if isinstance(room, Traced)]:
            del scratch[key]


def _kind(result: Any) -> Any:
    if not isinstance(result, Node):
        return None
    return result._operation if result._operation is not None and is_consumed(result) else True


def _identical(leaves: list[Any]) -> tuple[int, ...]:
    """Return which arguments are one and the same object, if any are."""
    if len({id(leaf) for leaf in leaves}) == len(leaves):
        return ()
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(leaf), i) for i, leaf in enumerate(leaves))


# --- the decorator ------------------------------------------------------------------------------------------------


def compile(
    function: Any = None,
    *,
    backend: str = "native",
    verify: bool = True,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Compile a function over Tensors, Modules and optimisers, or a Module: a forward pass or a whole training step.

    The first call with a new kind of arguments (shapes, dtypes, Python values) runs the function once and writes down
    what it computes; later calls run that. Everything else the function reads is watched: closed-over variables,
    globals, attributes, options, train() and eval(). When some of it changes, the function is recorded anew;
    learning rates, dropout rates, and floats among the arguments that turn out to change are read at each call instead.

    Python itself runs only while recording: print() prints then, and time.time() is the time of then. A function that
    changes what it relies on (a counter, a list it appends to) is run as it is, and `explain()` tells why. What is
    decided on a Tensor's values (if, while, int(), item(), tolist(), a mask as index) raises CompileError; so does
    drawing from NumPy's or Python's random generators. Results are always new arrays, also where the function itself
    would return a view of an argument; and only leaves and arguments get a .grad.

    backend: 'native' (the default); 'unfused' (native, one kernel per operation), 'numpy' (the recorded program run by
        NumPy) and 'eager' (the function itself) are for finding out where something goes wrong.
    verify: compare each new program with the function itself before it is used.
    disable: return the function as it is. fullgraph, dynamic, mode and options are accepted for PyTorch's sake.

    >>> import minitorch
    >>> @minitorch.compile(backend="numpy")
    ... def area(radius):
    ...     return minitorch.pi * radius**2
    >>> area(minitorch.tensor([1.0, 2.0]))
    tensor([ 3.1416, 12.5664])
    >>> area(minitorch.tensor([3.0, 4.0])), area.compilations
    (tensor([28.2743, 50.2655]), 1)
    """
    backend = _SYNONYMS.get(backend, backend)
    known = [*backends.names(), EAGER]
    if backend not in known:
        raise ValueError(f"compile: backend must be one of {', '.join(known)}, got {backend!r}")
    if function is None:
        return functools.partial(compile, backend=backend, verify=verify, disable=disable)
    if disable:
        return function
    if backend != EAGER:
        backends.named(backend).require()
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(compile(function.__func__, backend=backend, verify=verify))
    if isinstance(function, type):
        raise TypeError(
            f"compile: expects a function or a Module, got the class {function.__name__}; compile an instance, or "
            "one of its methods"
        )
    if hasattr(function, "named_parameters") and hasattr(function, "forward"):
        from minitorch.compiler.call.module import CompiledModule

        return CompiledModule(function, backend, verify)
    if isinstance(function, CompiledFunction):
        return function
    if not callable(function):
        raise TypeError(f"compile: expects a function or a Module, got {type(function).__name__}")
    inner = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    for is_one, what in (
        (inspect.isgeneratorfunction, "a generator function"),
        (inspect.iscoroutinefunction, "a coroutine function"),
        (inspect.isasyncgenfunction, "an asynchronous generator function"),
    ):
        if is_one(inner) or is_one(type(inner).__call__):
            raise TypeError(
                f"compile: {describe(function)} is {what}, which stops in the middle; compile the function that does "
                "one step, and call it from there"
            )
    return CompiledFunction(function, backend, verify)


__all__ = ["MISS", "CompileError", "CompiledFunction", "Disagreement", "Leaf", "compile", "filled"]
