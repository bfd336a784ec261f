"""The programs of one function. Enters: the keys of its calls. Leaves: programs, and which keys are worth one.

What comes only once is not worth compiling: recording and compiling take as long as thousands of calls.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitorch.compiler.call.key import Arguments, CacheKey, exactly
from minitorch.compiler.call.shapes import VaryingNumbers, VaryingShapes
from minitorch.compiler.call.specialisation import Specialisation
from minitorch.engine import watch

# So many keys are compiled for at their first call; later ones when they have come this often.
EAGER_TO_COMPILE, SEEN_BEFORE_COMPILING, MOST_KEPT = 4, 3, 32
MOST_OF_A_KEY = 8  # programs for one key with different guards, train() and eval() say
MOST_SEEN = 4096  # keys that are counted
# A function that changes what it relies on at so many calls in a row is left to run as it is.
PATIENCE = 3


class Cache:
    """The programs of one function (of one instance, for a method), and why there are so many."""

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner  # a weak reference to the instance
        self.shapes: dict[CacheKey, VaryingShapes] = {}  # which sizes vary, by key without sizes
        self.numbers = VaryingNumbers()  # which ints beside the arguments do
        self.programs: dict[CacheKey, list[Specialisation]] = {}
        self.seen: dict[CacheKey, deque[int]] = {}  # when calls found no program: the last ones
        self.misses: dict[CacheKey, int] = {}  # calls for which there were programs, but none that fitted
        self.first_numbers: dict[
            CacheKey, tuple[float, ...]
        ] = {}  # the floats of the first call, by key without floats
        self.inputs: dict[CacheKey, tuple[int, ...]] = {}  # which of them have changed, and so are inputs
        self.fixed: set[CacheKey] = set()  # keys whose floats cannot be inputs
        self.refused: dict[Any, list[Any]] = {}  # guards on what calls relied on that cannot be recorded
        self.unstable: dict[CacheKey, int] = {}  # calls in a row that changed what the function relies on
        self.promoted: set[tuple[int, str]] = set()  # options and attributes that have changed: holder, key
        self.reasons: list[str] = []
        self.compilations = 0
        self.eager_calls = 0
        self.rare_calls = 0  # of those, the ones whose arguments came rarely
        self.audits = 0  # calls that were audited, and found to be right
        self.eager_because: str | None = None
        self.latest: Specialisation | None = (
            None  # the program used last, whose entry (entry.py) is tried first
        )
        self.earlier: Specialisation | None = (
            None  # the one before it, tried next: a smaller last batch's, say
        )
        self.bound: Any = None  # the compiled method of the instance these programs are for
        self.lock = threading.RLock()

    def __reduce__(self) -> Any:
        return (Cache, ())  # machine code belongs to a process: a copy starts anew

    def __deepcopy__(self, memo: Any) -> Cache:
        return Cache()

    def all(self) -> list[Specialisation]:
        """Return all programs."""
        return [program for group in self.programs.values() for program in group]

    def add(self, program: Specialisation) -> None:
        """Keep a new program, which is tried before the others of its key."""
        program.used = watch.tick()
        self.compilations += 1
        self.reasons.append(program.reason)
        group = self.programs.setdefault(program.key, [])
        group.insert(0, program)
        del group[MOST_OF_A_KEY:]

    def exchange(self, program: Specialisation, native: Specialisation) -> None:
        """Keep a program that is native now in place of the one that waited for that."""
        group = self.programs.get(program.key, [])
        group[:] = [native if each is program else each for each in group]
        native.used = program.used
        native.audit_seconds = program.seconds  # recording is what an audit takes
        self._use_no_more(program)

    def withdraw(self, program: Specialisation) -> None:
        """Forget a program that waited to be made native, and then was wrong: there never was one."""
        self.forget(program)
        self.compilations -= 1
        self.reasons.remove(program.reason)

    def forget(self, program: Specialisation) -> None:
        """Forget one program."""
        group = self.programs.get(program.key, [])
        if program in group:
            group.remove(program)
        if not group:
            self.programs.pop(program.key, None)
        self._use_no_more(program)

    def drop(self, key: CacheKey) -> None:
        """Forget the programs of a key."""
        for program in self.programs.pop(key, ()):
            self._use_no_more(program)
        self.misses.pop(key, None)

    def _use_no_more(self, program: Specialisation) -> None:
        if program is self.earlier:
            self.earlier = None
        if program is self.latest:
            self.latest, self.earlier = self.earlier, None

    def use(self, program: Specialisation) -> None:
        """Note that a program was used, and let the next call try it first."""
        program.used = watch.tick()
        if program is not self.latest:
            with self.lock:
                self.programs.get(program.key, []).sort(key=lambda each: each is not program)
                if self.latest is not None:
                    self.latest.used = program.used
                self.latest, self.earlier = program, self.latest

    def refuse(self, key: Any, relied_on: Any) -> None:
        """Note that a call cannot be recorded as long as what it relied on is as it is."""
        group = self.refused.setdefault(key, [])
        group.insert(0, relied_on)
        del group[MOST_OF_A_KEY:]
        if len(self.refused) > MOST_SEEN:
            del self.refused[next(iter(self.refused))]

    def is_refused(self, key: Any) -> bool:
        """Tell whether calls of a key are known to be such."""
        return any(relied_on.holds() for relied_on in self.refused.get(key, ()))

    def is_worth_it(self, key: CacheKey) -> bool:
        """Tell whether to compile for a call no program fits. What comes only once is not worth it.

        The first few keys are compiled for at once, later ones when they came three times. When there are
        too many programs, one that was not used while the new key came three times makes room. Where guards
        fail again and again, it is tried ever more rarely: after 1, 2, 3, 4, 8, 16… failures.
        """
        if self.unstable.get(key, 0) >= PATIENCE:
            return False
        sightings = self.seen.setdefault(key, deque(maxlen=SEEN_BEFORE_COMPILING))
        sightings.append(watch.tick())
        if len(self.seen) > MOST_SEEN:
            self.seen = {k: v for k, v in self.seen.items() if k in self.programs or k == key}
        if key in self.programs:
            self.misses[key] = misses = self.misses.get(key, 0) + 1
            return misses <= EAGER_TO_COMPILE or misses & (misses - 1) == 0
        if key.varies:
            return True
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

    # --- floats among the arguments -------------------------------------------------------------------

    def key_of(self, arguments: Arguments, key: CacheKey) -> CacheKey:
        """Return the key of a call, with the floats in it that are not known to change."""
        if not arguments.numbers:
            return key
        return arguments.key_with(self.inputs.get(key, ()), key=key)

    def promote_numbers(self, arguments: Arguments, key: CacheKey) -> CacheKey:
        """Make floats that differ from those of the first call inputs. Return the key of the call."""
        if not arguments.numbers:
            return key
        numbers = arguments.numbers
        inputs = self.inputs.get(key, ())
        first = self.first_numbers.setdefault(key, tuple(numbers))
        changed = {i for i, n in enumerate(numbers) if exactly(n) != exactly(first[i])}
        if not changed <= set(inputs) and key not in self.fixed:
            self.drop(arguments.key_with(inputs, first, key))
            self.reasons.append(f"a number among the arguments was {first[min(changed)]}: it is an input now")
            inputs = self.inputs[key] = tuple(sorted(changed | set(inputs)))
        return arguments.key_with(inputs, key=key)

    def fix_numbers(self, arguments: Arguments, key: CacheKey) -> CacheKey:
        """Note that no float can be an input here. Return the key of the call."""
        key = key._replace(inputs=(), numbers=())
        self.fixed.add(key)
        self.inputs.pop(key, None)
        return arguments.key_with((), key=key)

    # --- sizes that vary ------------------------------------------------------------------------------

    def shapes_of(self, arguments: Arguments) -> VaryingShapes | None:
        """Return what is known of the shapes of calls that are alike in all else."""
        return self.shapes.get(_without_shapes(arguments))

    def see_shapes(self, arguments: Arguments, dynamic: bool | None) -> None:
        """Look at the shapes of a call for which there is no program."""
        if dynamic is False or not all(arguments.layouts()):
            return
        key, alike = arguments.key, _without_shapes(arguments)
        known = self.shapes.get(alike)
        if known is None:
            known = self.shapes[alike] = VaryingShapes(
                key.shapes, all_of_them=dynamic is True, ints=len(key.leaves)
            )
            if len(self.shapes) > MOST_SEEN:
                del self.shapes[next(iter(self.shapes))]
        known.see(key.shapes, tuple([leaf.contiguous for leaf in key.leaves]))

    def varying_key(self, arguments: Arguments) -> CacheKey | None:
        """Return the key of a call, but for floats, with names for sizes that vary; None if nothing does."""
        shapes = self.shapes_of(arguments) if self.shapes else None
        named = None if shapes is None else shapes.named(arguments.key.shapes)
        return None if named is None else arguments.key.with_shapes(named, arguments.layouts())

    def has_own_program(self, arguments: Arguments) -> bool:
        """Tell whether a call's sizes come so often that they get a program of their own."""
        return any(tuple(program.sizes(arguments)) in program.apart for program in self._varying(arguments))

    def has_no_own_program(self, arguments: Arguments) -> None:
        """Let a call's sizes be run by the program for all sizes, there being none for them alone."""
        for program in self._varying(arguments):
            program.apart.discard(tuple(program.sizes(arguments)))
            program.may_be_apart = False

    def _varying(self, arguments: Arguments) -> list[Specialisation]:
        varying = self.varying_key(arguments)
        return [] if varying is None else self.programs.get(self.key_of(arguments, varying), [])

    @contextmanager
    def unless_it_fails(self, arguments: Arguments) -> Iterator[None]:
        """Note nothing about sizes if a call fails: that says nothing about others."""
        key = _without_shapes(arguments)
        shapes, numbers = copy.deepcopy((self.shapes.get(key), self.numbers))
        try:
            yield
        except Exception:
            if shapes is not None:
                self.shapes[key] = shapes
            self.numbers = numbers
            raise


def _without_shapes(arguments: Arguments) -> CacheKey:
    shapes = [(len(shape),) for shape in arguments.key.shapes]
    return arguments.key.with_shapes(shapes, arguments.layouts())
