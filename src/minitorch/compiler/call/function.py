"""A compiled function. Enters: a function over Tensors, Modules and optimisers, and its calls. Leaves: what it gives.

The first call with a new key (shapes, dtypes, Python values) runs the function itself and writes it down (record.py).
From then on a call finds a program by its key, looks whether the conditions hold under which it was recorded, reads the
numbers and draws that may differ, and runs it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import time
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.call.cache import PATIENCE, Cache
from minitorch.compiler.call.conditions import MISS
from minitorch.compiler.call.entry import make_entry
from minitorch.compiler.call.explain import STAYS_EAGER, Explanation, debug
from minitorch.compiler.call.key import Arguments, CacheKey, in_words, is_unobserved
from minitorch.compiler.call.names import describe
from minitorch.compiler.call.record import RecordedCall, record_call, run_plainly
from minitorch.compiler.call.shapes import places_of
from minitorch.compiler.call.specialisation import REFUSALS, Redecided, Specialisation
from minitorch.compiler.call.when_needed import MadeWhenNeeded
from minitorch.compiler.trace.interrupts import Uninterrupted
from minitorch.compiler.trace.observe.instrument import SUPPORTED
from minitorch.compiler.trace.recorded import FromTensor, ReadNumber
from minitorch.compiler.trace.refusal import CompileError, Refused
from minitorch.engine import watch
from minitorch.engine.gpu import device_of
from minitorch.engine.modes import Mode, current, observed
from minitorch.engine.node import Node
from minitorch.engine.versions import rebased, synced
from minitorch.ops.sparse import Coo

EAGER = "eager"  # the backend that runs the function itself
RARE_CALLS = 8  # so many calls run as they are, because their arguments came rarely, before that is told


class Disagreement(UserWarning):
    """A compiled program did not give what the function itself gave, and is not used."""


class CompileWarning(UserWarning):
    """A function, or a call of it, is run as it is and not compiled; the warning says which line is why."""


_warned: set[str] = set()  # what was said once


class CompiledFunction:
    """A function and its programs. Call it like the function; `explain()` tells what was made of it."""

    def __init__(
        self,
        function: Callable[..., Any],
        backend: str,
        verify: bool,
        cache: Cache | None = None,
        fullgraph: bool = False,
        dynamic: bool | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.backend = backend
        self.verify = verify
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.cache = Cache() if cache is None else cache

    def __reduce__(self) -> Any:
        # A decorated function is found by its name, as functions are.
        home: Any = sys.modules.get(getattr(self, "__module__", ""))
        for name in getattr(self, "__qualname__", "").split("."):
            home = inspect.getattr_static(home, name, None) if home is not None else None
        if home is self:
            return self.__qualname__
        return (CompiledFunction, (self.function, *self._options()))

    def _options(self, cache: Cache | None = None) -> tuple[Any, ...]:
        return self.backend, self.verify, cache, self.fullgraph, self.dynamic

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledFunction:
        if isinstance(self.function, types.FunctionType):
            return self  # as functions are
        function = copy.deepcopy(self.function, memo)
        return CompiledFunction(function, *self._options())

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
            cache.bound = CompiledFunction(method, *self._options(cache))
        return cache.bound

    def explain(self, html: str | None = None) -> Any:
        """Tell what was made of the function: programs, kernels, memory, what was recorded anew and why.

        html: also write a page to look at to this file.
        """
        explanation = Explanation(self)
        if html is not None:
            explanation.write_html(html)
        return explanation

    # --- calling ------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Do what the function does."""
        cache = self.cache
        if rebased:
            self._bring_views_up_to_date(args, options)
        program = cache.latest  # read once, as its entry: other threads may replace them
        if program is not None and (entry := program.entry) is not None:
            before = program.undo() if program.may_need_undoing else None
            try:
                if program.must_not_be_interrupted:
                    with Uninterrupted():
                        results = entry(args, options)
                else:
                    results = entry(args, options)
            except BaseException as error:
                if before is not None:
                    before.restore()
                if isinstance(error, REFUSALS):
                    return self._refused(program, Arguments(args, options, current()))
                if not isinstance(error, Redecided):
                    raise
                results = MISS
            if results is not MISS:
                return results
            earlier = cache.earlier
            if earlier is not None and (entry := earlier.entry) is not None and not earlier.may_need_undoing:
                results = self._enter_other(earlier, entry, args, options)
                if results is not MISS:
                    return results
        mode = current()
        if (
            mode.recorder is not None and not mode.recorder.repeats
        ):  # lazily: what is pending is computed first
            return mode.recorder.aside(self, args, options)
        if cache.eager_because is not None or self.backend == EAGER or not is_unobserved(mode):
            return observed(self.function)(*args, **options)
        if not SUPPORTED:
            cache.eager_because = (
                f"observing is not made for Python {sys.version_info[0]}.{sys.version_info[1]} yet"
            )
            self._stay_eager(cache.eager_because)
            return self.function(*args, **options)
        arguments = Arguments(args, options, mode)
        if any(type(leaf) is not np.ndarray and _is_foreign(leaf) for leaf in arguments.leaves):
            if any(isinstance(leaf, Node) and isinstance(leaf._array, Coo) for leaf in arguments.leaves):
                self._leave_out_sparse_tensors()
            return self.function(*args, **options)
        return self._find(arguments, mode)

    def _enter_other(self, program: Specialisation, entry: Any, args: tuple[Any, ...], options: Any) -> Any:
        """Run the program that was used before the last one; MISS if it does not fit either."""
        try:
            if program.must_not_be_interrupted:
                with Uninterrupted():
                    results = entry(args, options)
            else:
                results = entry(args, options)
        except REFUSALS:
            return self._refused(program, Arguments(args, options, current()))
        except Redecided:
            return MISS
        if results is not MISS:
            cache = self.cache
            program.used = watch.tick()
            cache.latest, cache.earlier = program, cache.latest
        return results

    def _leave_out_sparse_tensors(self) -> None:
        """Say once that calls with sparse tensors run as they are; others are compiled all the same."""
        because = (
            f"a sparse tensor is among the arguments of {describe(self.function)}, and those are not compiled"
        )
        if self.fullgraph:
            raise CompileError(f"compile: {because}")
        if STAYS_EAGER + because not in self.cache.reasons:
            self._stay_eager(because)

    def _bring_views_up_to_date(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Let views whose base was written into follow it, before anything is asked of them."""
        captured = (
            s.tensor for p in self.cache.all() for s in p.recorded.sources if isinstance(s, FromTensor)
        )
        for tensor in (*Arguments(args, options, current()).leaves, *captured):
            if isinstance(tensor, Node):
                synced(tensor, strictly=False)

    def _find(self, arguments: Arguments, mode: Mode) -> Any:
        """Run a program that fits a call; if there is none, make one or run the function."""
        cache = self.cache
        tried = self._programs_for(arguments)
        for program in tried:
            if program.fits(arguments):
                if program.overlaps(arguments.leaves):
                    return self.function(*arguments.args, **arguments.options)
                began = time.perf_counter()
                try:
                    if program.must_be_audited(arguments):
                        program.decide(arguments)
                        return self._audit(program, arguments)
                    results = program.run(arguments)
                except Redecided:
                    continue
                except Refused:
                    return self._refused(program, arguments)
                if program.audits.unmeasured:
                    program.audits.measured(time.perf_counter() - began, program.audit_seconds)
                if not program.entry_is_made:
                    program.may_be_apart &= self.dynamic is None
                    program.entry, program.entry_is_made = make_entry(program, mode), True
                cache.use(program)
                return results
        with cache.lock:
            key = cache.promote_numbers(arguments, self._key_for(arguments))
            group = cache.programs.get(key, [])
            for program in group:  # another thread may have compiled it meanwhile
                if program in tried or not program.fits(arguments):
                    continue
                if not program.overlaps(arguments.leaves):
                    try:
                        if isinstance(program.runner, MadeWhenNeeded):
                            program.decide(arguments)
                            return self._audit(program, arguments)
                        return program.run(arguments)
                    except (Redecided, Refused):
                        continue
            if cache.is_refused((key, arguments.sharing())):
                cache.eager_calls += 1
            elif cache.has_own_program(arguments):
                results = self._record(key, arguments, self._why(arguments, group))
                if key not in cache.programs:
                    cache.has_no_own_program(arguments)
                return results
            elif cache.is_worth_it(key):
                return self._record(key, arguments, self._why(arguments, group))
            else:
                cache.eager_calls += 1
                self._tell_of_eager_calls(arguments)
        return self.function(*arguments.args, **arguments.options)

    def _tell_of_eager_calls(self, arguments: Arguments) -> None:
        """Say once that calls run as they are because there are too many different ones."""
        self.cache.rare_calls += 1
        if self.cache.rare_calls != RARE_CALLS:
            return
        shapes = self.cache.shapes_of(arguments)
        fixed = [] if shapes is None else list(dict.fromkeys(shapes.fixed.values()))
        why = f"; sizes cannot vary here: {'; '.join(fixed)}" if fixed else ""
        warnings.warn(
            f"compile: {describe(self.function)} has {self.cache.compilations} programs for other arguments; calls "
            f"with arguments that come rarely run as they are, not compiled{why}",
            CompileWarning,
            stacklevel=_level_outside(),
        )

    def _programs_for(self, arguments: Arguments) -> tuple[Specialisation, ...]:
        """Return the programs for a call's very shapes; if there are none, those for shapes that vary."""
        cache, key = self.cache, arguments.key
        found = tuple(cache.programs.get(cache.key_of(arguments, key), ()))
        if not found and (varying := cache.varying_key(arguments)) is not None:
            found += tuple(cache.programs.get(cache.key_of(arguments, varying), ()))
        return found

    def _key_for(self, arguments: Arguments) -> CacheKey:
        """Return the key, but for floats, by which a call that no program fits is recorded."""
        self.cache.see_shapes(arguments, self.dynamic)
        varying = self.cache.varying_key(arguments)
        return arguments.key if varying is None or self.cache.has_own_program(arguments) else varying

    def _audit(self, program: Specialisation, arguments: Arguments) -> Any:
        """Run the function itself, and look whether it still does what a program does."""
        cache = self.cache
        began = time.perf_counter()
        program.runner.settle()  # the function itself needs as much memory as the program does
        # What was seen to change only after the program was recorded is a constant of it, which its guards look at.
        promoted = set(program.promoted)
        with cache.lock:
            outcome = record_call(
                self.function, arguments, program.key, promoted, self.backend, self.verify,
                "an audit", program.has_sized, program,
            )  # fmt: skip
            cache.promoted |= promoted
            program.audit_seconds = time.perf_counter() - began
            program.entry, program.entry_is_made = None, False  # its ticks are over
            if outcome.changed:
                return (
                    outcome.results
                )  # what a guard looks at, by the function itself: the next call is recorded
            if outcome.mistake and isinstance(program.runner, MadeWhenNeeded):
                cache.withdraw(program)
                self._leave(outcome.mistake)
                return outcome.results
            differs = outcome.differs or str(outcome.refused or "") or outcome.mistake
            if outcome.sizes_cannot_vary:
                why = "; ".join((*outcome.fixed.values(), *outcome.special.values())) or "two are compared"
                differs = f"its sizes cannot vary ({why})"
            if outcome.asks_for_floats:
                return self.function(*arguments.args, **arguments.options)
            if not differs:
                if outcome.program is not None:
                    cache.exchange(program, outcome.program)
                    program = outcome.program
                    self._tell(program.reason, program)
                program.audits.passed()
                program.audited_elsewhere |= program.sizes(arguments) != list(program.hints.values())
                program.runner.settle()
                cache.audits += 1
                return outcome.results
            if (outcome.refused is not None and not outcome.is_done) or outcome.sizes_cannot_vary:
                # Where it raises, this was why it could not be recorded: no fault of the program's.
                outcome.results = self.function(*arguments.args, **arguments.options)
            cache.forget(program)
            cache.reasons.append(f"an audit: {differs}")
            warnings.warn(
                f"compile: {describe(self.function)} did not do what its program did, as an audit found at call "
                f"{program.calls + 1}: {differs}. The program is used no more; please report this",
                Disagreement,
                stacklevel=_level_outside(),
            )
            if outcome.program is not None:
                cache.add(outcome.program)
            return outcome.results

    def _refused(self, program: Specialisation, arguments: Arguments) -> Any:
        """Let the function say in its own words what is wrong with a call; nothing was changed."""
        tensors = [each.tensor for each in program.captured]
        return run_plainly(self.function, program.environment, arguments, tensors)

    def _why(self, arguments: Arguments, group: list[Specialisation]) -> str:
        """Say why no program fits a call, and make numbers that changed inputs."""
        cache = self.cache
        if not group:
            if cache.has_own_program(arguments):
                return "sizes that come often: a program of their own"
            last = cache.latest or next(iter(cache.all()), None)
            words = ", ".join(in_words(arguments.key)) or "none"
            if last is None:
                return "the first call"
            return last.violation(arguments) or f"new arguments: {words}"
        for holder, name in group[0].environment.changed_numbers():
            cache.promoted.add((id(holder), name))
        return group[0].violation(arguments) or "its programs did not fit"

    def _record(self, key: CacheKey, arguments: Arguments, reason: str) -> Any:
        """Record a call, and keep the program if there is one."""
        cache = self.cache
        outcome = record_call(
            self.function,
            arguments,
            key,
            cache.promoted,
            self.backend,
            self.verify,
            reason,
            self._may_be_size,
        )
        if outcome.asks_for_floats:
            return self._record(cache.fix_numbers(arguments, key), arguments, reason)
        if outcome.sizes_cannot_vary:
            return self._record_anew(key, arguments, reason, outcome)
        if outcome.mistake and key.varies:
            self._fix_sizes(
                key, arguments, dict.fromkeys(places_of(key.shapes), outcome.mistake), outcome.mistake
            )
            text = (
                f"compile: {describe(self.function)} is compiled for each size by itself: {outcome.mistake}"
            )
            warnings.warn(f"{text}; please report this", Disagreement, stacklevel=_level_outside())
        elif outcome.changed:
            cache.eager_calls += 1
            cache.unstable[key] = cache.unstable.get(key, 0) + 1
            if cache.unstable[key] == PATIENCE:
                self._stay_eager(f"it changes what it relies on at every call: {outcome.changed}")
        elif outcome.refused is not None:
            if self.fullgraph:
                raise outcome.refused
            cache.refuse((key, arguments.sharing()), outcome.relied_on)
            cache.eager_calls += 1
            self._stay_eager(str(outcome.refused).removeprefix("compile: "))
            if not outcome.is_done:
                return self.function(*arguments.args, **arguments.options)
        elif outcome.mistake:
            self._leave(outcome.mistake)
        elif outcome.program is not None:
            cache.unstable.pop(key, None)
            cache.add(outcome.program)
            if not isinstance(outcome.program.runner, MadeWhenNeeded):
                self._tell(reason, outcome.program)
        return outcome.results

    def _record_anew(self, key: CacheKey, arguments: Arguments, reason: str, outcome: RecordedCall) -> Any:
        """Record a call again in which sizes varied that cannot, or two of them that have to be one."""
        with self.cache.unless_it_fails(arguments):
            self._fix_numbers(outcome)
            shapes = self.cache.shapes_of(arguments)
            places = places_of(key.shapes)
            if shapes is not None:
                for one, other in outcome.equal:
                    if one in places and other in places:
                        shapes.compare(places[one][0], places[other][0])
                for name, why in outcome.special.items():
                    shapes.except_for(places.get(name, ()), arguments.key.shapes, why)
            self._fix_sizes(key, arguments, outcome.fixed, outcome.fixed_layout)
            varying = self.cache.varying_key(arguments)
            again = arguments.key if varying is None else varying
            return self._record(self.cache.promote_numbers(arguments, again), arguments, reason)

    def _may_be_size(self, reading: ReadNumber, now: int) -> bool:
        """Tell whether an int that the function reads may be a size that varies."""
        return self.dynamic is not False and self.cache.numbers.may_vary(
            (id(reading.holder), reading.key), now
        )

    def _fix_numbers(self, outcome: RecordedCall) -> None:
        """Note which ints that the function reads are no sizes: never, or not as they are in this call."""
        compared = {name: "it is compared with a size" for pair in outcome.equal for name in pair}
        for name, reading in outcome.sized.items():
            place = (id(reading.holder), reading.key)
            if name in outcome.fixed:
                self.cache.numbers.fixed[place] = outcome.fixed[name]
            elif name in outcome.special or name in compared:
                why = {**compared, **outcome.special}[name]
                self.cache.numbers.except_for(place, reading.find(), why)

    def _fix_sizes(
        self, key: CacheKey, arguments: Arguments, fixed: dict[str, str], fixed_layout: str
    ) -> None:
        """Let sizes, or strides, not vary any more."""
        shapes = self.cache.shapes_of(arguments)
        if shapes is None:
            return  # nothing varies but ints that the function reads
        shapes.fixed_layout = shapes.fixed_layout or fixed_layout
        for name, why in fixed.items():
            shapes.fix(places_of(key.shapes).get(name, ()), why)

    def _stay_eager(self, because: str) -> None:
        """Tell that calls of a key are run as they are from now on: once for each line of source that is why."""
        self.cache.reasons.append(STAYS_EAGER + because)
        self._tell(STAYS_EAGER + because)
        if because not in _warned:
            _warned.add(because)
            text = f"compile: {describe(self.function)} runs as it is, not compiled: {because}"
            warnings.warn(text, CompileWarning, stacklevel=_level_outside())

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
            debug(self, reason, program, int(level) if level.isdigit() else 1)


def _is_foreign(leaf: Any) -> bool:
    """Tell whether an argument is one that programs do not take: of another kind of array, with hooks."""
    if not isinstance(leaf, Node):
        return True
    array = leaf._data
    return (type(array) is not np.ndarray and device_of(array) is None) or bool(leaf._hooks)


def _level_outside() -> int:
    """Return the stack level, as seen by the caller, of the line outside this package that led here."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("minitorch."):
        level, frame = level + 1, frame.f_back
    return level
