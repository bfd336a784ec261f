"""The front door: `minitorch.compile`.

Enters: a function over Tensors, Modules and optimisers. Leaves: a function that does the same, recorded once for each
kind of arguments and run as native code from then on.

The first call with new shapes runs the function itself, once, as always, and writes it down; its results are the
ones you get. The program is then made native and run beside it on copies of what it started from, and must agree.
From then on a call checks that nothing the recording relied on has changed (guards.py), reads the numbers and draws
that may differ, and runs the program.
"""

from __future__ import annotations

import functools
import math
import os
import random as python_random
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch import recording, watch
from minitorch.compiler.backward import Backward, differentiate, is_consumed
from minitorch.compiler.guards import World, describe
from minitorch.compiler.program import Program, interpret
from minitorch.compiler.recorder import Call, CompileError, Draw, FromArgument, FromTensor, Recorded, Recording, record
from minitorch.dtypes import get_default_dtype
from minitorch.modes import current
from minitorch.node import Node, new_tensor
from minitorch.tensor import Tensor

BACKENDS = ("native", "unfused", "numpy", "eager")
# Other spellings of them, for code written for PyTorch.
_SYNONYMS = {"inductor": "native", "aot_eager": "numpy"}

# So many different kinds of arguments are compiled at their first call; later ones when they have come this often.
EAGER_TO_COMPILE, SEEN_BEFORE_COMPILING, MOST_KEPT = 4, 3, 32
# A function that changes its own world at so many calls in a row is left to run as it is.
PATIENCE = 3


class Disagreement(RuntimeWarning):
    """A compiled program did not give what the function itself gave, and is not used."""


# --- arguments and results -------------------------------------------------------------------------------


class Leaf:
    """Where an array stands in nested containers."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def take_apart(thing: Any, leaves: list[Any]) -> Any:
    """Return a container's structure, hashable, with its Tensors and arrays moved to `leaves`."""
    if isinstance(thing, (Node, np.ndarray)):
        leaves.append(thing)
        return _LEAF
    if isinstance(thing, (tuple, list)):
        return (type(thing), *(take_apart(i, leaves) for i in thing))
    if isinstance(thing, dict):
        return (type(thing), tuple((k, take_apart(v, leaves)) for k, v in thing.items()))
    if isinstance(thing, float):
        return (float, math.copysign(1, thing), thing) if thing == thing else (float, "nan")
    try:
        hash(thing)
    except TypeError:
        return (type(thing), id(thing))
    return (type(thing), thing)


_LEAF = ("leaf",)


def collect(thing: Any) -> list[Any]:
    """Return the Tensors and arrays among results, each once, in order."""
    found: dict[int, Any] = {}

    def walk(part: Any) -> None:
        if isinstance(part, (Node, np.ndarray)) or type(part).__name__ == "Traced":
            found.setdefault(id(part), part)
        elif isinstance(part, (tuple, list)):
            for i in part:
                walk(i)
        elif isinstance(part, dict):
            for i in part.values():
                walk(i)

    walk(thing)
    return list(found.values())


def template(thing: Any, numbers: dict[int, int]) -> Any:
    """Return results with Leaf(number) in place of each Tensor or array."""
    if id(thing) in numbers:
        return Leaf(numbers[id(thing)])
    if isinstance(thing, (tuple, list)):
        parts = [template(i, numbers) for i in thing]
        return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    if isinstance(thing, dict):
        return type(thing)((k, template(v, numbers)) for k, v in thing.items())
    return thing


def filled(shape: Any, leaves: list[Any]) -> Any:
    """Return results from their template and the arrays of a call."""
    if isinstance(shape, Leaf):
        return leaves[shape.number]
    if isinstance(shape, (tuple, list)):
        parts = [filled(i, leaves) for i in shape]
        return type(shape)(*parts) if hasattr(shape, "_fields") else type(shape)(parts)
    if isinstance(shape, dict):
        return type(shape)((k, filled(v, leaves)) for k, v in shape.items())
    return shape


def signature(leaf: Any) -> tuple[Any, ...]:
    """Return what a program depends on of an argument: kind, shape, dtype, layout, whether it wants a gradient."""
    if isinstance(leaf, Node):
        array = leaf._data
        return (
            type(leaf), array.shape, array.dtype, array.flags.c_contiguous, leaf._requires_grad,
            leaf._operation is None, leaf._grad is None, bool(leaf._hooks),
        )  # fmt: skip
    return (np.ndarray, leaf.shape, leaf.dtype, leaf.flags.c_contiguous)


# --- one recording, made a program --------------------------------------------------------------------------


@dataclass(eq=False)
class Specialisation:
    """One program: the recording, the world it relied on, and how it is run."""

    recorded: Recorded
    world: World
    key: Any
    shape: Any  # the template of its results
    leaves: list[Any]  # per result: None (new at each call), a Tensor from before, or an argument's position
    kinds: list[Any]  # per result: None (an array), a Tensor (True), one whose graph was used up inside (its op)
    runner: Any  # runs the program on arrays: native, or NumPy
    backward: Backward | None
    seconds: float
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def usable(self) -> bool:
        """Tell whether everything it relied on is as it was."""
        if not self.world.holds():
            return False
        for source, shape, dtype in self._tensors:
            array = source.tensor._data
            if array.shape != shape or array.dtype is not dtype and array.dtype != dtype:
                return False
        return True

    def __post_init__(self) -> None:
        program = self.recorded.program
        self._tensors = [
            (source, value.shape, value.dtype)
            for source, value in zip(self.recorded.sources, program.inputs, strict=True)
            if isinstance(source, FromTensor)
        ]
        self._updated = {u.output: u.input for u in self.recorded.updates}
        self._given = [i for i in range(len(program.outputs)) if i not in self._updated]
        self._draws = any(isinstance(step, Draw) for step in self.recorded.script)

    def run(self, arguments: list[Any]) -> Any:
        """Run it on one call's arguments; raises Refused, with nothing changed, if a check fails."""
        recorded = self.recorded
        call = Call(arguments)
        for step in recorded.script:
            call.script.append(step.run())
        for question, answer in recorded.decisions:
            if question() != answer:
                raise Redecided
        inputs = [np.asarray(source.read(call)) for source in recorded.sources]
        with self.lock:
            outputs = self.runner(inputs)
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
        for i, same in enumerate(self.leaves):
            if same is not None:
                found.append(arguments[same] if isinstance(same, int) else same)
            elif (kind := self.kinds[i]) is None:
                found.append(outputs[i])
            else:
                found.append(new_tensor(outputs[i]) if kind is True else new_tensor(outputs[i], kind))
        if self.backward is not None:
            self.backward.attach(found, outputs, arguments, inputs)
        return filled(self.shape, found)


class Redecided(Exception):
    """A decision on a number went the other way: the recording does not fit this call."""


class Refused(Exception):
    """A check of the program failed before anything was changed: the function itself says what is wrong."""


# --- the compiled function ------------------------------------------------------------------------------------


class Cache:
    """The programs of one function (of one instance, for a method), and why there are so many."""

    def __init__(self) -> None:
        self.programs: dict[Any, list[Specialisation]] = {}
        self.seen: dict[Any, int] = {}
        self.reasons: list[str] = []
        self.promoted: set[tuple[int, str]] = set()
        self.compilations = 0
        self.restless = 0  # calls in a row that changed the function's own world
        self.eager_because: str | None = None
        self.lock = threading.RLock()

    def __reduce__(self) -> Any:
        return (Cache, ())  # machine code belongs to a process: a copy starts anew

    def __deepcopy__(self, memo: Any) -> Cache:
        return Cache()

    def all(self) -> list[Specialisation]:
        """Return all programs."""
        return [s for group in self.programs.values() for s in group]


class CompiledFunction:
    """A function and its programs. Call it like the function; `explain()` tells what was made of it."""

    def __init__(self, function: Callable[..., Any], backend: str, verify: bool, cache: Cache | None = None) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.backend = backend
        self.verify = verify
        self.cache = Cache() if cache is None else cache

    def __reduce__(self) -> Any:
        return (CompiledFunction, (self.function, self.backend, self.verify))

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
        name = f"_compiled_{id(self):x}"
        own = getattr(instance, "__dict__", None)
        if own is None:
            cache = _caches.setdefault(instance, {}).setdefault(name, Cache())
        else:
            cache = own.get(name)
            if cache is None:
                cache = own.setdefault(name, Cache())
        return CompiledFunction(types.MethodType(self.function, instance), self.backend, self.verify, cache)

    def explain(self, html: str | None = None) -> Any:
        """Tell what was made of the function: programs, kernels, memory, what was recorded anew and why.

        html: also write a page to look at to this file.
        """
        from minitorch.compiler.explain import Explanation

        explanation = Explanation(self)
        if html is not None:
            explanation.write_html(html)
        return explanation

    # --- calling ------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **options: Any) -> Any:
        cache = self.cache
        if recording.recorders and recording.recorder() is not None:
            return self.function(*args, **options)  # inside another recording: part of it
        mode = current()
        if cache.eager_because is not None or mode.observers or mode.gradient_check or self.backend == "eager":
            return self.function(*args, **options)
        leaves: list[Any] = []
        structure = (take_apart(args, leaves), take_apart(options, leaves) if options else ())
        key = (structure, *map(signature, leaves), mode.enabled, get_default_dtype())
        identical = _identical(leaves)
        if identical:
            key = (*key, identical)
        candidates = cache.programs.get(key, ())
        for program in candidates:
            if program.usable():
                try:
                    return program.run(leaves)
                except Redecided:
                    continue
                except Refused:
                    return self._refused(program, args, options)
        return self._new(key, candidates, args, options, leaves)

    def _refused(self, program: Specialisation, args: Any, options: Any) -> Any:
        # Nothing was changed but the draws: they are undone, and the function fails in its own words.
        return self.function(*args, **options)

    def _new(self, key: Any, candidates: Any, args: Any, options: Any, leaves: list[Any]) -> Any:
        cache = self.cache
        with cache.lock:
            cache.seen[key] = cache.seen.get(key, 0) + 1
            if len(cache.seen) > EAGER_TO_COMPILE and cache.seen[key] < SEEN_BEFORE_COMPILING and key not in cache.programs:
                return self.function(*args, **options)
            if candidates:
                reason = candidates[-1].world.what_changed()
                cache.reasons.append(reason)
                for holder, name in candidates[-1].world.numbers:
                    if recorded_number_changed(candidates[-1].world, holder, name):
                        cache.promoted.add((id(holder), name))
            return self._record(key, args, options, leaves)

    def _record(self, key: Any, args: Any, options: Any, leaves: list[Any]) -> Any:
        cache = self.cache
        began = time.perf_counter()
        world = World(self.function, set())
        generators = _foreign_generators()
        results, recorded, active, backward = self._recorded(args, options, leaves, world)
        if _foreign_generators() != generators:
            raise CompileError(
                f"compile: {describe(self.function)} draws from Python's or NumPy's own random generator, whose numbers "
                "would be the same at every call; draw by minitorch.rand, randn, randint, or outside the function"
            )
        if not world.holds():
            cache.restless += 1
            if cache.restless >= PATIENCE:
                cache.eager_because = f"it changes what it relies on at every call: {world.what_changed()}"
            return results
        cache.restless = 0
        world = World(self.function, recorded.symbolic)
        found = collect(results)
        runner = self._runner(recorded.program, {u.output: u.input for u in recorded.updates})
        if backward is not None:
            backward.runner = self._runner(backward.program, {})
        program = Specialisation(
            recorded, world, key, template(results, {id(r): i for i, r in enumerate(found)}),
            [self._where(r, leaves, active) for r in found], [_kind(r) for r in found],
            runner, backward, time.perf_counter() - began,
        )  # fmt: skip
        if self.verify and not self._agrees(program, active):
            return results
        cache.compilations += 1
        group = cache.programs.setdefault(key, [])
        group.append(program)
        del group[:-8]
        if len(cache.programs) > MOST_KEPT:
            cache.programs.pop(next(iter(cache.programs)))
        return results

    def _recorded(self, args: Any, options: Any, leaves: list[Any], world: World) -> Any:
        def then(active: Recording, recorded: Recorded, found: list[Any]) -> Any:
            return differentiate(active, recorded, found, leaves)

        return record(self.function, args, options, leaves, world.arrays, self.cache.promoted, collect, then)

    def _where(self, result: Any, leaves: list[Any], active: Recording) -> Any:
        """Return where a result that was there before comes from: an argument's position, or the Tensor itself."""
        for i, leaf in enumerate(leaves):
            if leaf is result:
                return i
        return result if isinstance(result, Node) and not active.is_fresh(result) else None

    def _runner(self, program: Program, updates: dict[int, int]) -> Any:
        if self.backend == "numpy":
            return Interpreter(program, updates)
        from minitorch.compiler.native import Native

        return Native(program, updates, fuse=self.backend == "native")

    def _agrees(self, program: Specialisation, active: Recording) -> bool:
        """Run the program on what the function started from, and compare."""
        before = [np.array(a) for a in active.before]
        outputs = program.runner(before)
        results = [before[program._updated[i]] if i in program._updated else outputs[i] for i in range(len(active.after))]
        expected = list(active.after)
        inner = program.backward
        if inner is not None:
            assert inner.runner is not None
            ones = [np.ones_like(active.after[i]) for i in inner.roots]
            results += inner.runner([*(outputs[i] for i in inner.kept), *ones])
            expected += inner.expected
        wrong = [i for i, (a, b) in enumerate(zip(results, expected, strict=True)) if not close(a, b)]
        if wrong:
            spread = _sensitivity(program.recorded.program, active.before)
            wrong = [i for i in wrong if not close(results[i], active.after[i], spread[i])]
        if not wrong:
            return True
        i = wrong[0]
        reference = interpret(program.recorded.program, active.before)
        room = "recording" if not close(reference[i], active.after[i]) else f"the {self.backend} code"
        self.cache.eager_because = f"its compiled results differed from eager ones (output {i}, {room})"
        if os.environ.get("MINITORCH_DEBUG"):
            print(results[i], active.after[i])
        warnings.warn(
            f"compile: {describe(self.function)} is left uncompiled: output {i} of its program differs from what the "
            f"function gave ({room} is wrong); please report this",
            Disagreement,
            stacklevel=4,
        )
        return False


_caches: weakref.WeakKeyDictionary[Any, dict[str, Cache]] = weakref.WeakKeyDictionary()


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


def recorded_number_changed(world: World, holder: Any, name: str) -> bool:
    """Tell whether a number a world was built on is another one now."""
    for description, expression, was in world._readers:
        del description
        if isinstance(was, float) and expression.endswith(f".get({name!r}, missing)"):
            return True
    return False


def _foreign_generators() -> Any:
    state: Any = np.random.get_state()
    return hash(python_random.getstate()), state[2], hash(state[1].tobytes())


def close(a: Any, b: Any, spread: Any = 0.0) -> bool:
    """Tell whether two arrays agree to rounding (or within ten times what rounding of the inputs can do)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    if not a.size:
        return True
    rtol = {2: 1e-2, 4: 2e-4, 8: 1e-9}.get(a.dtype.itemsize, 2e-4)
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
        apart = np.abs(a - b)
        allowed = rtol * (np.abs(b) + 0.05 * scale) + 10 * spread
        fine = (apart <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
    return bool(fine.all())


def _sensitivity(program: Program, inputs: list[np.ndarray]) -> list[Any]:
    """Return how far each output moves when the inputs move by their own rounding error."""
    plain = interpret(program, inputs)
    moved = [np.zeros(p.shape) for p in plain]
    for seed in range(3):
        noise = np.random.default_rng(seed)
        shaken = [
            (a * (1 + 4 * np.finfo(a.dtype).eps * noise.uniform(-1, 1, a.shape))).astype(a.dtype) if a.dtype.kind == "f" else a
            for a in inputs
        ]
        for i, p in enumerate(interpret(program, shaken)):
            if p.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    apart = np.abs(p.astype(np.float64) - plain[i])
                    # Where one element is that sensitive its neighbours of the same kind are too.
                    moved[i] = np.maximum(moved[i], np.nan_to_num(apart))
    return moved


class Interpreter:
    """Runs a recorded program by NumPy."""

    def __init__(self, program: Program, updates: dict[int, int]) -> None:
        self.program = program
        self.updates = updates

    def __call__(self, inputs: list[np.ndarray]) -> list[Any]:
        try:
            outputs = [np.array(o) for o in interpret(self.program, inputs)]
        except IndexError:
            raise Refused from None
        for output, target in self.updates.items():
            inputs[target][...] = outputs[output]
        return outputs


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
    if backend not in BACKENDS:
        raise ValueError(f"compile: backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if function is None:
        return functools.partial(compile, backend=backend, verify=verify, disable=disable)
    if disable:
        return function
    if backend in ("native", "unfused"):
        from minitorch.compiler.llvm.target import require_llvmlite

        require_llvmlite()
    if hasattr(function, "named_parameters") and hasattr(function, "forward"):
        from minitorch.compiler.module import CompiledModule

        return CompiledModule(function, backend, verify)
    if isinstance(function, CompiledFunction):
        return function
    if not callable(function):
        raise TypeError(f"compile: expects a function or a Module, got {type(function).__name__}")
    return CompiledFunction(function, backend, verify)


__all__ = ["CompileError", "CompiledFunction", "Disagreement", "FromArgument", "Tensor", "compile"]
