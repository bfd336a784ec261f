"""The backend for CPUs. Enters: a program, then inputs of any layout. Leaves: outputs, in memory that is used again.

Fresh memory is dear: the first touch of each page costs more than the arithmetic done on it. So the arrays that
results were written to are used again, but only those that nobody else holds any more.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.assemble import Assembler, NativeProgram, VaryingProgram
from minitorch.compiler.backends.llvm.driver import Image
from minitorch.compiler.backends.llvm.target import require_llvmlite
from minitorch.compiler.ir.program import Program, Value, interpret
from minitorch.compiler.ir.sizes import Size, Symbol, evaluated, is_fixed, knowing, surely_less
from minitorch.engine.memory import release_freed

# Below this many bytes a fresh array costs less than looking for an old one.
SMALL = 1 << 15
# So many arrays are kept for one output, at most.
KEPT = 3
# A program is kept ready for sizes that were met before, as long as that takes no more bytes than this.
KEPT_BYTES = 1 << 24
# And for so many of those used last, its results' arrays.
KEPT_POOLS = 4


class ResultArrays:
    """Arrays for one output. `take` gives one that nobody else holds."""

    __slots__ = ("arrays", "dtype", "shape", "small")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.arrays: list[np.ndarray] = []
        self.small = int(np.prod(shape)) * dtype.itemsize < SMALL

    def take(self, spare: Any = None) -> np.ndarray:
        """Return an array; `spare` is one its holder is about to let go, and so may be given again."""
        if self.small:
            return np.empty(self.shape, self.dtype)
        arrays = self.arrays
        for i in range(len(arrays)):
            alone = sys.getrefcount(arrays[i])
            if alone == HELD_BY_POOL or (arrays[i] is spare and alone == HELD_BY_POOL + 2):
                return arrays[i]
        fresh = np.empty(self.shape, self.dtype)
        if len(arrays) < KEPT:
            arrays.append(fresh)
        return fresh


_probe = [np.empty(1)]
# What sys.getrefcount says of an array that only a list holds; measured, not assumed.
HELD_BY_POOL = sys.getrefcount(_probe[0])


class Llvm(Assembler):
    """The backend (see `backends.interface`)."""

    sizes_may_vary = True

    def require(self) -> None:
        """Raise ImportError, and say what to install, if llvmlite is missing."""
        require_llvmlite()

    def compile(
        self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()
    ) -> Native | VaryingNative:
        """Return a program as something that runs."""
        # A recorded run leaves holes that the program's own memory does not fit into, and LLVM leaves some more.
        release_freed()
        made = self.build(program, updates, numbers)
        release_freed()
        if isinstance(made, VaryingProgram):
            return VaryingNative(program, made, updates, numbers)
        return Native(program, made, updates, numbers)


class _Compiled:
    """What all programs have in common that are machine code.

    given: the outputs that are no updates, for which `entry` takes arrays.
    """

    def __init__(
        self,
        program: Program,
        native: NativeProgram | VaryingProgram,
        updates: Mapping[int, int],
        numbers: Collection[int],
    ) -> None:
        self.program = program
        self.report = native.report
        self.may_fail = native.may_fail
        self.updates = dict(updates)
        self.numbers = frozenset(numbers)
        self.given = [i for i in range(len(program.outputs)) if i not in updates]

    def _ready(self, inputs: list[Any]) -> list[Any]:
        return [
            float(a) if i in self.numbers else a if a.flags.c_contiguous else np.ascontiguousarray(a)
            for i, a in enumerate(inputs)
        ]

    def _write_back(self, ready: list[Any], inputs: list[Any]) -> None:
        """Bring updates of what was no array in order to where they belong."""
        for target in self.updates.values():
            if ready[target] is not inputs[target]:
                inputs[target][...] = ready[target]

    def text(self) -> str:
        """Return the LLVM text of all kernels."""
        return Llvm(keep_text=True).build(self.program, self.updates, sorted(self.numbers)).report.text


class Native(_Compiled):
    """A program as machine code, to be called with arrays (an `Executable`); `pools` has some for each output."""

    def __init__(
        self,
        program: Program,
        native: NativeProgram,
        updates: Mapping[int, int],
        numbers: Collection[int],
    ) -> None:
        super().__init__(program, native, updates, numbers)
        self.native = native
        self.entry = native.entry
        self.pools = {i: ResultArrays(program.outputs[i].shape, program.outputs[i].dtype) for i in self.given}

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it; inputs that are updated change in place. Returns the outputs, None for the updated ones."""
        ready = self._ready(inputs)
        outputs: list[Any] = [None] * len(self.program.outputs)
        for i in self.given:
            outputs[i] = self.pools[i].take()
        if self.entry(*ready, *(outputs[i] for i in self.given)) is not None:
            self.fail()
        self._write_back(ready, inputs)
        return outputs

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run."""
        for pool in self.pools.values():
            pool.arrays.clear()
        self.native.runner.settle()
        release_freed()

    def fail(self) -> None:
        """Raise what stopped the last run: a failed check, or an error of a function that was called back."""
        self.native.explain_failure()

    def measure(self, inputs: list[Any], runs: int) -> None:
        """Run it some times, and note in the report how long each step takes."""
        outputs = [np.empty(o.shape, o.dtype) for o in map(self.program.outputs.__getitem__, self.given)]
        self.native.measure(self._ready(inputs), outputs, runs)


class _Sized:
    """A program at some sizes: what it walks, and arrays for its outputs; fixed: for those whose sizes do not vary."""

    def __init__(
        self,
        image: Image,
        outputs: Sequence[Value],
        fixed: Mapping[int, ResultArrays],
        binding: dict[Symbol, int],
    ) -> None:
        self.image = image
        self.pools = [
            fixed.get(i) or ResultArrays(evaluated(o.shape, binding), o.dtype) for i, o in enumerate(outputs)
        ]


class VaryingNative(_Compiled):
    """A program whose sizes vary, as machine code (an `Executable`).

    It runs once at a time: all sizes share one memory.
    """

    def __init__(
        self,
        program: Program,
        native: VaryingProgram,
        updates: Mapping[int, int],
        numbers: Collection[int],
    ) -> None:
        super().__init__(program, native, updates, numbers)
        self.native = native
        self.lock = threading.Lock()
        self._symbols = list(program.symbols)
        self._places = list(program.symbols.values())
        one, *others = self._places
        self._only = None if others or one[1] is None else (one[0], one[1])
        self._sized: dict[tuple[int, ...], _Sized] = {}
        self.kept_bytes = 0  # that these take
        self.now: tuple[int, ...] = ()  # the sizes of the last run
        self.entry_now: Callable[..., int | None] = lambda *arguments: None  # runs it for those
        self._pools: list[ResultArrays] = []
        self._outputs = [program.outputs[i] for i in self.given]
        self._fixed = {
            i: ResultArrays(o.shape, o.dtype) for i, o in enumerate(self._outputs) if is_fixed(*o.shape)
        }
        self._recent: list[list[ResultArrays]] = []
        # Kernels go through at least one element: what may have none is left to NumPy.
        lengths = {n for value in program.values() for n in value.shape if isinstance(n, Size)}
        with knowing(program.guards):
            self._may_be_empty = [n for n in lengths if not surely_less(0, n)]
        self.is_never_empty = not self._may_be_empty
        _varying.add(self)

    def sizes_of(self, arrays: Sequence[Any]) -> tuple[int, ...]:
        """Return what the symbols are in a call, in the program's order."""
        if self._only is not None:
            i, axis = self._only
            return (arrays[i].shape[axis],)
        return tuple([int(arrays[i]) if axis is None else arrays[i].shape[axis] for i, axis in self._places])

    def at(self, sizes: tuple[int, ...]) -> _Sized:
        """Return the program for some sizes."""
        found = self._sized.get(sizes)
        if found is None:
            before = self.native.arena
            image = self.native.image(sizes)
            self.kept_bytes += image.nbytes
            if self.native.arena is not before:
                self._sized.clear()  # they would keep what memory there was
                self.kept_bytes = image.nbytes
            while self.kept_bytes > KEPT_BYTES and self._sized:
                self.kept_bytes -= self._sized.pop(next(iter(self._sized))).image.nbytes
            binding = dict(zip(self._symbols, sizes, strict=True))
            found = self._sized[sizes] = _Sized(image, self._outputs, self._fixed, binding)
        return found

    @property
    def names(self) -> list[str]:
        """The symbols' names, in the program's order."""
        return [symbol.name for symbol in self._symbols]

    def take(self, number: int, sizes: tuple[int, ...]) -> np.ndarray:
        """Return an array for one of the outputs that are given, for a call with these sizes."""
        with self.lock:
            return self.at(sizes).pools[number].take()

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it; inputs that are updated change in place. Returns the outputs, None for the updated ones."""
        sizes = self.sizes_of(inputs)
        if self._may_be_empty and self._is_empty(sizes):
            return self._by_numpy(inputs)
        ready = self._ready(inputs)
        outputs: list[Any] = [None] * len(self.program.outputs)
        with self.lock:
            if sizes != self.now:
                self.switch(sizes)
            given = [pool.take() for pool in self._pools]
            if self.entry_now(*ready, *given) is not None:
                self.fail()
        for i, array in zip(self.given, given, strict=True):
            outputs[i] = array
        self._write_back(ready, inputs)
        return outputs

    def entry(self, *arguments: Any) -> int | None:
        """Run it on arrays for all inputs, then for the outputs that are no updates; see `NativeProgram`."""
        sizes = self.sizes_of(arguments)
        if self._may_be_empty and self._is_empty(sizes):
            count = len(self.program.inputs)
            outputs = self._by_numpy(arguments[:count])
            for i, array in zip(self.given, arguments[count:], strict=True):
                array[...] = outputs[i]
            return None
        with self.lock:
            if sizes != self.now:
                self.switch(sizes)
            return self.entry_now(*arguments)

    def _by_numpy(self, inputs: Sequence[Any]) -> list[Any]:
        outputs = [np.array(o) for o in interpret(self.program, inputs)]
        for output, target in self.updates.items():
            inputs[target][...] = outputs[output]
        return outputs

    def switch(self, sizes: tuple[int, ...]) -> None:
        """Let it run for some sizes from now on. (Whoever calls this holds the lock until it has run.)"""
        sized = self.at(sizes)
        self.entry_now, self._pools = self.native.at(sizes, sized.image).entry, sized.pools
        self.now = sizes
        self._recent = [*(pools for pools in self._recent if pools is not sized.pools), sized.pools]
        if len(self._recent) > KEPT_POOLS:
            for i, pool in enumerate(self._recent.pop(0)):
                if i not in self._fixed:
                    pool.arrays.clear()

    def _is_empty(self, sizes: tuple[int, ...]) -> bool:
        binding = dict(zip(self._symbols, sizes, strict=True))
        return any(evaluated(n, binding) < 1 for n in self._may_be_empty)

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run."""
        with self.lock:
            for sized in self._sized.values():
                for pool in sized.pools:
                    pool.arrays.clear()
            self.native.settle()
        release_freed()

    def fail(self) -> None:
        """Raise what stopped the last run: a failed check, or an error of a function that was called back."""
        self.native.explain_failure()

    def measure(self, inputs: list[Any], runs: int) -> None:
        """Run it some times, and note in the report how long each step takes."""
        with self.lock:
            sizes = self.sizes_of(inputs)
            sized = self.at(sizes)
            outputs = [np.empty(pool.shape, pool.dtype) for pool in sized.pools]
            self.now = ()
            self.native.at(sizes, sized.image).measure(self._ready(inputs), outputs, runs)


_varying: weakref.WeakSet[VaryingNative] = weakref.WeakSet()


def _unlock_all() -> None:
    """In a forked child: a lock that another thread held is held by nobody now."""
    for program in _varying:
        program.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_all)
