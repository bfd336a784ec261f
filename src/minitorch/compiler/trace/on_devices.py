"""Arrays on a device, in a function that is being recorded. Enters: they. Leaves: what stands for them on the host.

Where they are small they are copied here, and the function runs on the copies. Where they are large nobody computes
while the function runs: its arrays are promises, and what is asked for, or kept, is computed on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.ir.elsewhere import Elsewhere, lies_here
from minitorch.compiler.ir.program import VIEWS, Program, Value, in_order, interpret
from minitorch.compiler.ir.sizes import symbols_of
from minitorch.compiler.trace.observe.observer import unobserved
from minitorch.compiler.trace.promised import Promised
from minitorch.compiler.trace.refusal import CompileError, TooMuchHere
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.gpu import DeviceMemory, on_host

HOST = "host"  # where values lie that are made from the host's arrays


class OnDevices:
    """What a recording knows of devices: which array lies where, and how its numbers are come by.

    computing: what computes on a device whose arrays stay there, and here are only promised; None: at most `most_here`
    bytes of them are copied to the host, which computes.
    """

    collectives: Sequence[Any]  # what was exchanged with other ranks

    def __init__(self, computing: Callable[[DeviceMemory], Elsewhere] | None, most_here: float) -> None:
        self.inputs: list[Value] = []
        self.concrete: list[np.ndarray] = []  # their arrays in this run
        self.memory: DeviceMemory | None = None  # the device on which there are arrays, if there are
        self._lie: dict[
            Value, Any
        ] = {}  # where values lie, as far as it is known (None: wherever they are used)
        self._mirrors: dict[
            int, tuple[Any, np.ndarray]
        ] = {}  # a device's arrays, by id, and what stands for them here
        self.numbers_there, self._computing, self._room_here = computing is not None, computing, most_here
        self._there: dict[Value, Any] = {}  # inputs that are promised, and their arrays on the device
        self._promised: dict[
            Value, bool
        ] = {}  # which values are made from those, as far as somebody has asked
        self._made: dict[Value, Any] = {}  # what was computed there, for whoever keeps it
        self._handed: set[Value] = set()  # of it, what somebody has got

    def _mirror(self, array: Any, memory: DeviceMemory) -> np.ndarray:
        """Return a copy of a device's array here, laid out as it is; if this run computes there, a promise."""
        if id(array) not in self._mirrors:
            self._meet(memory)
            if self.numbers_there:
                mirror: np.ndarray = empty_laid_out(array).view(Promised)
            else:
                mirror = laid_out(self._brought(array, memory), array.strides)
            self._mirrors[id(array)] = array, mirror
        return self._mirrors[id(array)][1]

    def _meet(self, memory: DeviceMemory) -> None:
        if self.memory not in (None, memory):
            raise CompileError("compile: its tensors lie on different devices")
        self.memory = memory

    def _brought(self, array: Any, memory: DeviceMemory) -> np.ndarray:
        self._meet(memory)
        self._room_here -= array.nbytes
        if (
            self._room_here < 0 and not self.collectives
        ):  # (what was exchanged with other ranks is not done twice)
            raise TooMuchHere
        with unobserved():
            return memory.to_host(array)

    # --- numbers that are computed on a device ---

    def _computed(self, values: list[Value]) -> list[Any]:
        """Compute values of the program on the device, one by one; each has memory of its own."""
        needed = set(in_order(values))
        given = {
            v: self._there.get(v, array)
            for v, array in zip(self.inputs, self.concrete, strict=True)
            if v in needed
        }
        assert self.memory is not None
        assert self._computing is not None
        sizes = {s: s.hint for value in needed for s in symbols_of((value.shape, value.attributes))}
        with unobserved():
            there = self._computing(self.memory)
            there.prepare(needed)

            def compute(value: Value, inputs: Any, _: Any) -> Any:
                return there(value, inputs, sizes)

            found = interpret(Program(list(given), values), list(given.values()), compute=compute)
            return [
                _copied(array, there) if value.primitive in VIEWS or value in given else array
                for value, array in zip(values, found, strict=True)
            ]

    def note_promised(self, value: Value) -> None:
        """Note that nobody has computed a value, whatever it is made from."""
        self._promised[value] = True

    def is_promised(self, value: Value) -> bool:
        """Tell whether a value is made from inputs whose numbers are not here."""
        known = self._promised
        for each in in_order([value], lambda v: () if v in known else v.inputs) if self._there else ():
            if each not in known:
                known[each] = each in self._there or any(known[i] for i in each.inputs)
        return known.get(value, False)

    def numbers_of(self, traced: Traced) -> np.ndarray:
        """Return the numbers of an array in this run; if it is only promised, they are computed now."""
        value = traced.value
        if not self.is_promised(value):
            return traced.array
        if value not in self._made:
            self._made[value] = on_host(self._computed([value])[0])
        return on_host(self._made[value])

    def of_this_run(self, traced: Traced) -> Any:
        """Return what an array is in this run, where it was computed: for one to keep."""
        value = traced.value
        if value not in self._made:
            return traced.array
        if value in self._handed:
            return self._made[value].copy()
        self._handed.add(value)
        return self._made[value]

    def moved(self, traced: Traced, memory: DeviceMemory | None) -> Traced:
        """Return the same numbers as they are on a device, or (None) on the host."""
        before = traced.value
        value = Value("map", (before,), {"function": "cast", "to": before.dtype}, before.shape, before.dtype)
        self._lie[value] = memory or HOST
        self.memory = memory or self.memory
        return Traced(value, traced.array.copy(), traced.known)

    def beside(self, traced: Traced, like: Traced) -> Traced:
        """Return an array of the host's where another one lies: np.asarray(x, like=y)."""
        place = self.lies_on(like.value)
        if place is None or self.lies_on(traced.value) is not None or self._lie[traced.value] is None:
            return traced
        return self.moved(traced, place)

    def staying(self, new: Traced, before: Traced) -> Traced:
        """Return what is written over an array on a device there too, if it would lie anywhere: a number, say."""
        place = self.lies_on(before.value)
        if place is None or self.lies_on(new.value) is not None or self._lie[new.value] is not None:
            return new
        return self.moved(new, place)

    def let_follow(self, made: Traced, used: Iterable[Traced]) -> None:
        """Let what is the same at every call, and lies anywhere, lie where something was made with it."""
        place = self.lies_on(made.value)
        for each in used if place is not None else ():
            # (What has no axes may lie on the host beside a device's.)
            if each.ndim and self.lies_on(each.value) is None and self._lie[each.value] is None:
                self._lie[each.value] = place

    def lies_on(self, value: Value) -> DeviceMemory | None:
        """Return the device that a value would lie on: that of what it is made from."""
        if self.memory is None:
            return None
        stack = [value]
        while stack:
            each = stack.pop()
            if each in self._lie:
                continue
            unknown = [i for i in each.inputs if i not in self._lie]
            if unknown:
                stack += [each, *unknown]
                continue
            found = [self._lie[i] for i in each.inputs if self._lie[i] is not None]
            self._lie[each] = next((place for place in found if place is not HOST), (found or [None])[0])
        place = self._lie[value]
        return None if place is HOST else place

    def _refuse_mixed_devices(self, program: Program) -> None:
        """Refuse what is made from a device's tensors and the host's at once: the function itself says so."""
        for value in program.values() if self.memory is not None else ():
            self.lies_on(value)
            if len({self._lie[i] for i in value.inputs} - {None}) > 1:
                raise CompileError("compile: it is given tensors on different devices")


def _copied(array: Any, compute: Elsewhere) -> Any:
    """Return a copy of an array, wherever it lies."""
    in_order = lies_here(array) or array.flags.c_contiguous
    return array.copy() if in_order else compute.laid_out(array)


def empty_laid_out(array: Any) -> np.ndarray:
    """Return memory that nobody has written to, for an array of a device's: laid out as it is."""
    if not array.size or min(array.strides, default=0) < 0 or array.flags.c_contiguous:
        return np.empty(array.shape, array.dtype)
    reach = array.itemsize + sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
    return np.ndarray(array.shape, array.dtype, np.empty(reach, np.uint8), 0, array.strides)


def laid_out(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """Return an array whose elements lie in memory as far apart as strides say."""
    if array.strides == strides or not array.size or min(strides, default=0) < 0:
        return array
    reach = array.itemsize + sum((n - 1) * step for n, step in zip(array.shape, strides, strict=True))
    laid_out = np.ndarray(array.shape, array.dtype, np.zeros(reach, np.uint8), 0, strides)
    laid_out[...] = array
    return laid_out
