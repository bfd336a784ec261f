"""The backend for GPUs. Enters: a program, then inputs on the device or elsewhere. Leaves: outputs, beside the inputs.

All kernels between two calls of CuPy (of NumPy, where that refuses) are one sequence, which a GPU replays as one CUDA
graph. Inputs may be other arrays at every call: for addresses that come up again there is a graph that knows them, and
if there are too many of them kernels look addresses up in a table on the device. Results are always new arrays.

Where sizes vary, the same kernels serve all of them: they are told the sizes, as they are told addresses. For the sizes
of a call there is a `_Sized`: all numbers that depend on them, found by one function, and the graphs of calls that have
come again. Sizes that the kernels are not made for (something is empty, or has too many elements) get their own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda import convolutions
from minitorch.compiler.backends.cuda.capabilities import Gpu
from minitorch.compiler.backends.cuda.channels_last import channels_last
from minitorch.compiler.backends.cuda.convolutions import (
    Convolution,
    LibraryConvolution,
    as_it_lies,
    has_aligned_channels,
    is_known,
    multiplications,
)
from minitorch.compiler.backends.cuda.devices import Cuda, Device, Launch, OneByOne, Sequence, Turns
from minitorch.compiler.backends.cuda.gpu_text import gpu_text
from minitorch.compiler.backends.cuda.in_turn import in_turn
from minitorch.compiler.backends.cuda.loop_writer import MOST_COUNTED
from minitorch.compiler.backends.cuda.lower import FAILED, GpuLowering
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.side_by_side import side_by_side
from minitorch.compiler.backends.cuda.value_kernels import ValueKernels
from minitorch.compiler.backends.cuda.with_attention import inside_attention, with_attention
from minitorch.compiler.backends.cuda.words import SIZE, Kernel
from minitorch.compiler.backends.interface import ScheduledBackend, Task, planned, tasks_of
from minitorch.compiler.ir.elsewhere import Elsewhere, lies_here
from minitorch.compiler.ir.halves import widened, with_products_of_halves
from minitorch.compiler.ir.program import VIEWS, Program, Value
from minitorch.compiler.ir.sizes import (
    Binding,
    Size,
    comparing_surely,
    evaluated,
    formulas,
    surely_less,
    typical,
)
from minitorch.compiler.schedule.groups import COPY, PLACE, Group
from minitorch.compiler.schedule.memory import MemoryPlan, Placed, Scratch
from minitorch.compiler.schedule.report import BuildReport, StepReport, group_in_words, lines_of
from minitorch.compiler.schedule.schedule import Schedule, call_numpy
from minitorch.engine.precision import precision

_MAY_BE_VIEWS = {*VIEWS, COPY, PLACE}
MOST_TABLES = 8  # of addresses that come up again, for one program
MOST_SIZES = 64  # for which a program whose sizes vary is kept ready
MOST_OF_THEIR_OWN = 8  # sizes with kernels of their own
# Memory for sizes that vary grows by so much at least: what is small, and what is not.
SMALL, GROWTH, LARGE_GROWTH = 1 << 28, 2.0, 1.25


class CudaBackend(ScheduledBackend):
    """The backend (see `backends.interface`). device: where kernels run; a GPU, unless another is given."""

    machine = Gpu()
    sizes_may_vary = True

    def __init__(self, device: Device | None = None, *, fuse: bool = True) -> None:
        self.device: Device = device or Cuda()
        self.fuse = fuse

    def require(self) -> None:
        """Raise ImportError, and say what to install, if something is missing."""
        self.device.require()

    def convolves(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is a library's."""
        large = multiplications(product, found) >= convolutions.LEAST_CONVOLVED
        return large and is_known(product, found) and self.device.convolves

    def turns(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is to have its channels last."""
        return has_aligned_channels(product, found) and self.convolves(product, found)

    @functools.cached_property
    def value_kernels(self) -> ValueKernels:
        """What computes values of a recording on the device, one by one."""
        return ValueKernels(self.device)

    def made_again(self, program: Program) -> Collection[Value]:
        """Return the values that a program of gradients had better compute itself: all between attention's factors."""
        if not self.fuse or not self.device.tile_bytes:
            return ()
        with comparing_surely(program.guards):
            return inside_attention(program)

    def build(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> Any:
        """Schedule a program."""
        program, rounds = widened(program), precision() != "highest"
        with comparing_surely(program.guards):
            if self.fuse:
                program = with_attention(program, self.device.tile_bytes, self.device.in_groups)
                program = channels_last(program, self.turns)
            program = with_products_of_halves(program, rounds, self._is_a_librarys)
        return super().build(narrowed(program, numbers), updates, numbers)

    def _is_a_librarys(self, product: Value) -> bool:
        """Whether a product of windows is a library's convolution, as it lies."""
        found = as_it_lies(product)
        return found is not None and self.convolves(product, found)

    def compile(
        self,
        program: Program,
        updates: Mapping[int, int],
        numbers: Collection[int] = (),
        unread: Collection[int] = (),
    ) -> GpuProgram:
        """Return a program as something that runs. unread: outputs that are there for their checks' sake alone."""
        made = self.begin(program, updates, numbers, unread)
        made.load()
        return made

    def begin(
        self,
        program: Program,
        updates: Mapping[int, int],
        numbers: Collection[int] = (),
        unread: Collection[int] = (),
    ) -> GpuProgram:
        """Return a program whose kernels are being made, and which runs when it is loaded."""
        made: GpuProgram = self.build(program, updates, numbers)
        with comparing_surely(program.guards):
            made.leave_out(unread)
            if self.fuse:
                made.merge(self.machine.figures.alignment)
            made.begin(lambda binding: self.compile(program.at(binding), updates, numbers, unread))
        return made

    def tasks(self, schedule: Schedule) -> list[Task]:
        """Return the steps of all groups, in their order."""
        return tasks_of(schedule, GpuLowering(schedule, self.convolves).kernels, _touched)

    def link(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan) -> GpuProgram:
        """Return kernels and the places of what they touch as one program."""
        return GpuProgram(schedule, tasks, plan, self.device)


def narrowed(program: Program, numbers: Collection[int]) -> Program:
    """Return a program in which numbers that are used in float32 alone are given so."""
    values = program.values()
    readers: dict[Value, list[Value]] = {}
    for value in values:
        for each in value.inputs:
            readers.setdefault(each, []).append(value)

    def is_cast(value: Value) -> bool:
        return value.attributes.get("function") == "cast" and value.dtype == np.float32

    inputs = list(program.inputs)
    made: dict[Value, Value] = {}
    for i in numbers:
        old = inputs[i]
        if old.dtype == np.float64 and old not in program.outputs and all(map(is_cast, readers.get(old, ()))):
            inputs[i] = Value("input", (), old.attributes, old.shape, np.dtype(np.float32))
            made |= dict.fromkeys([old, *readers.get(old, ())], inputs[i])
    if not made:
        return program
    for value in values:
        if value not in made and any(each in made for each in value.inputs):
            operands = tuple(made.get(each, each) for each in value.inputs)
            new = Value(value.primitive, operands, value.attributes, value.shape, value.dtype)
            new.line = value.line
            made[value] = new
    return Program(inputs, [made.get(each, each) for each in program.outputs], program.guards)


def _touched(kernel: Any) -> list[Placed]:
    """Return what a kernel finds in memory."""
    found = [operand[0] if isinstance(operand, tuple) else operand for operand in kernel.operands]
    return [thing for thing in found if isinstance(thing, (Value, Scratch))]


class GpuProgram:
    """A program on a device (an `Executable`).

    given: the outputs that are no updates, for which `launch` takes addresses. names: of sizes that vary, in the order
    in which it takes those.
    """

    def __init__(
        self,
        schedule: Schedule,
        tasks: list[Task],
        plan: MemoryPlan,
        device: Device,
    ) -> None:
        self.schedule, self.device = schedule, device
        self.report: BuildReport = schedule.report
        self.updates, self.numbers = dict(schedule.updates), frozenset(schedule.numbers)
        self.may_fail = schedule.may_fail
        outputs = schedule.program.outputs
        self.given = [number for number in range(len(outputs)) if number not in self.updates]
        self.tasks, self._plan, self._lock = tasks, plan, threading.Lock()
        self._symbols = list(schedule.program.symbols)
        self._of_symbols = list(schedule.program.symbols.values())
        self._binding: Binding = {}  # of the last run
        self.names = [symbol.name for symbol in self._symbols]
        self._checks = [task.group for task in tasks if task.group.kind == "check"]
        self.leaves_outputs = False  # on the device, where no input lies there either

    def leave_out(self, unread: Collection[int]) -> None:
        """Leave out what computes nothing but outputs that nobody reads."""
        program = self.schedule.program
        needed: set[Any] = {each for i, each in enumerate(program.outputs) if i not in unread}
        # An update that is computed beside its input is copied over it at the end: by a value that is no output.
        needed |= {v for v in self.schedule.arguments if v.primitive == COPY and v.inputs[0] in needed}
        kept = []
        for task in reversed(self.tasks):
            group = task.group
            written = {member for member in group.members if member in self.schedule.stored}
            places = any(member.primitive == PLACE for member in group.members)
            apart = any(isinstance(each, Scratch) for each in task.touches)
            if group.kind != "loop" or places or apart or not needed.isdisjoint(written):
                needed.update(task.touches)
                kept.append(task)
        self.tasks = kept[::-1]

    def merge(self, alignment: int) -> None:
        """Let small kernels that need not wait for each other run side by side, and others in turn."""
        merged = in_turn(side_by_side(self.tasks, self.schedule))
        if len(merged) == len(self.tasks):
            return
        self.tasks, self._plan = merged, planned(merged, self.schedule, alignment)
        self.report.arena, self.report.unshared = self._plan.size, self._plan.unshared

    def begin(self, for_one: Callable[[Binding], GpuProgram]) -> None:
        """Have its kernels made, by other threads; nothing is taken of the device's memory yet.

        for_one: makes the same program for some sizes alone.
        """
        self._for_one, self._own = for_one, dict[tuple[int, ...], GpuProgram]()
        self._kernels = _different(self.tasks, self.device.rounds)
        self._loading = self.device.loading(list(self._kernels.values())) if self._kernels else list

    def load(self) -> None:
        """Make it ready to run."""
        with comparing_surely(self.schedule.program.guards):
            self._load()

    def _load(self) -> None:
        device, tasks = self.device, self.tasks
        # Its memory is one for all calls, and so is that of libraries.
        self._turns = [Turns(device)]
        if any(isinstance(task.kernel, (LibraryProduct, LibraryConvolution)) for task in tasks):
            self._turns.append(device.of_libraries)
        self._take_turn()
        # Whether any check has failed, which kernels look at; and which, which the host does. Nobody clears them but
        # who has told of it.
        self._failed = device.empty((1,), np.int64)
        device.clear(self._failed)
        self._words = device.words(len(self._checks) + 1)
        self._error: Exception | None = None
        self._refused: set[Value] = set()  # by the library that computes what has no kernel
        self._seen, self._none = self._words.data.cast("B"), bytes(self._words.nbytes)
        self._memory = device.empty((0,), np.uint8)
        self._constants: dict[Value, Any] = {}
        self._entries: dict[Any, int] = {}
        self._slots = [
            [self._entry(o) for o in task.kernel.operands] if task.kernel is not None else []
            for task in tasks
        ]
        for task in tasks:
            if task.kernel is None:
                for value in task.touches:
                    self._entry(value)
        # Of every number among the arguments its float64 and its float32.
        self.order = sorted(self.numbers)
        self._sent: tuple[float, ...] | None = None
        self._pairs = np.zeros(max(1, len(self.order)), [("wide", "f8"), ("narrow", "f4"), ("", "f4")])
        self._device_numbers = device.empty((2 * len(self._pairs),), np.int64)
        self._find_places()
        self._functions: dict[int, Any] = dict(zip(self._kernels, self._loading(), strict=True))
        self.report.tick("compile")
        self._sized: dict[tuple[int, ...], _Sized] = {}
        self._note(tasks)
        self.report.tick("link")

    def tell(self) -> None:
        """Raise what a run has found, if it has."""
        if self._checks and self._seen != self._none:
            with self._lock:
                error = self._look(RuntimeError)
            if error is not None:
                raise error

    def _take_turn(self) -> None:
        """Let what comes wait for what this has begun on another stream."""
        stream = self.device.stream()
        for each in self._turns:
            each.take(stream)

    # --- the table of addresses ---

    def _entry(self, operand: Any) -> int:
        return self._entries.setdefault(operand, len(self._entries))

    def _number(self, n: int) -> int:
        """Return which of the numbers that depend on sizes one is."""
        return self._wanted.setdefault(n, len(self._wanted))

    def _find_places(self) -> None:
        """Find out what the entries of the table are: addresses that stay the same, and all others."""
        address, program = self.device.address, self.schedule.program
        self._wanted: dict[int, int] = {}  # with their places among all of them
        table = np.zeros(max(1, len(self._entries)), np.int64)
        moving: list[tuple[int, int, int]] = []  # entry, argument, bytes into it
        arena: list[tuple[int, Any]] = []  # entry, thing
        further: list[tuple[int, int]] = []  # entry, what is added to it
        for operand, entry in self._entries.items():
            value, offset = operand if isinstance(operand, tuple) else (operand, 0)
            argument = self.schedule.arguments.get(value)
            if value == SIZE:
                further.append((entry, self._number(offset)))
            elif value == FAILED:
                word = self._words.ctypes.data + 8 * offset
                table[entry] = word if offset else address(self._failed)
            elif argument in self.numbers and argument is not None:
                place = 2 * self.order.index(argument) + (value.dtype.itemsize == 4)
                table[entry] = address(self._device_numbers) + 8 * place + offset
            elif argument is not None:
                moving.append((entry, argument, self._number(offset)))
            elif isinstance(value, Value) and value.primitive == "constant":
                if value not in self._constants:
                    self._constants[value] = self.device.ready(np.asarray(value.attributes["array"]))
                table[entry] = address(self._constants[value])
                further.append((entry, self._number(offset)))
            else:
                arena.append((entry, value))
                further.append((entry, self._number(offset)))
        self._table, self._further = table, np.array(further, np.int64).reshape(-1, 2).T
        # What lies in memory of its own; where sizes vary, from the bottom up.
        things = [thing for thing, _ in self._plan.below] or list(self._plan.offsets)
        places_of = {thing: place for place, thing in enumerate(things)}
        self._offsets = [self._plan.offsets[thing] for thing in things]
        self._bytes = [self._number(thing.nbytes) for thing, _ in self._plan.below]
        self._arena = (
            np.array([[entry, places_of[thing]] for entry, thing in arena], np.int64).reshape(-1, 2).T
        )
        # The arguments whose addresses `launch` takes, and where these go.
        inputs = len(program.inputs)
        self.taken = [i for i in range(inputs + len(self.given)) if i not in self.numbers]
        places = {argument: place for place, argument in enumerate(self.taken)}
        self._moving = np.array([entry for entry, _, _ in moving], np.int64)
        self._from = np.array([places[argument] for _, argument, _ in moving], np.int64)
        self._shifts = np.array([number for _, _, number in moving], np.int64)
        fixed = {
            slot
            for task, slots in zip(self.tasks, self._slots, strict=True)
            if isinstance(task.kernel, (LibraryProduct, LibraryConvolution))
            for slot in slots
        }
        # Of those, the ones that a library's products are captured with.
        self._captured = sorted({places[a] for entry, a, _ in moving if entry in fixed})
        # Sizes for which the kernels are not made.
        lengths = {n for value in program.values() for n in value.shape if isinstance(n, Size)}
        self._lengths = [self._number(n) for n in lengths if not surely_less(0, n)]
        self._counts = [self._number(n) for task in self.tasks for n in _elements(task.kernel)]
        # Kernels whose sizes vary, with functions that fill those in.
        self._varying = {
            id(task.kernel): _sizing(task.kernel, self._number)
            for task in self.tasks
            if task.kernel is not None
        }
        self._formulas = formulas(list(self._wanted), self._symbols)

    # --- sizes ---

    def sizes_of(self, inputs: Collection[Any]) -> tuple[int, ...]:
        """Return what the sizes that vary are in a call."""
        given = list(inputs)
        return tuple(
            [int(given[i]) if axis is None else given[i].shape[axis] for i, axis in self._of_symbols]
        )

    def _at(self, sizes: tuple[int, ...]) -> _Sized | None:
        """Return what there is for some sizes; None if they are not for these kernels."""
        found = self._sized.pop(sizes, None)
        if found is not None:
            self._sized[sizes] = found  # (the one used last)
        elif sizes not in self._own:
            numbers = np.array(self._formulas(*sizes), np.int64)
            if (numbers[self._lengths] < 1).any() or (numbers[self._counts] > MOST_COUNTED).any():
                return None
            offsets, size = self._offsets, self._plan.size
            if self._bytes:
                offsets, size = self._plan.placed(numbers[self._bytes].tolist())
            if size > self._memory.nbytes:
                self._take_memory(size)
            if len(self._sized) == MOST_SIZES:
                self._sized.pop(next(iter(self._sized)))
            found = self._sized[sizes] = self._sized_by(sizes, numbers, np.array(offsets, np.int64))
        return found

    def _take_memory(self, size: int) -> None:
        """Take so much memory, or more, in place of what there is."""
        before = self._memory.nbytes
        if before:
            self.device.synchronize()
            size = max(size, int((GROWTH if before < SMALL else LARGE_GROWTH) * before))
        self._sized.clear()  # they know where it was
        self._memory = self.device.empty((0,), np.uint8)  # (not both at a time)
        self._memory = self.device.empty((size,), np.uint8)

    def _sized_by(self, sizes: tuple[int, ...], numbers: np.ndarray, offsets: np.ndarray) -> _Sized:
        table = self._table.copy()
        table[self._arena[0]] = self.device.address(self._memory) + offsets[self._arena[1]]
        table[self._further[0]] += numbers[self._further[1]]
        kernels = [
            None if task.kernel is None else self._varying[id(task.kernel)](numbers) for task in self.tasks
        ]
        binding = dict(zip(self._symbols, sizes, strict=True))
        return _Sized(binding, table, numbers[self._shifts], kernels)

    def _for_sizes(self, sizes: tuple[int, ...]) -> GpuProgram:
        """Return the program with kernels for some sizes alone."""
        if sizes not in self._own:
            if len(self._own) == MOST_OF_THEIR_OWN:
                self._own.pop(next(iter(self._own)))
            self._own[sizes] = self._for_one(dict(zip(self._symbols, sizes, strict=True)))
        return self._own[sizes]

    def _filled(self, sized: _Sized, addresses: tuple[int, ...]) -> np.ndarray:
        """Return the table with the addresses of a call."""
        table = sized.table.copy()
        if len(self._moving):
            table[self._moving] = np.array(addresses, np.int64)[self._from] + sized.shifts
        return table

    def _bind(self, sized: _Sized, addresses: tuple[int, ...]) -> _Bound:
        """Return the steps with a table of these addresses."""
        host = self._filled(sized, addresses)
        if len(sized.bound) == MOST_TABLES:
            # Addresses are others again and again: from now on kernels look them up.
            sized.misses += 1
            oldest = next(iter(sized.bound))
            bound = sized.bound.pop(oldest)
            if bound.moving and all(oldest[place] == addresses[place] for place in self._captured):
                bound.addresses[:] = host
                self.device.write(bound.table, host)
                sized.bound[addresses] = bound
                return bound
        moving = frozenset(self._moving.tolist()) if sized.misses else frozenset()
        table = None
        if moving:
            table = self.device.empty(host.shape, np.int64)
            self.device.write(table, host)
        bound = sized.bound[addresses] = _Bound(table, host, moving)
        bound.steps = self._linked(sized, bound)
        return bound

    def _stage(self, sized: _Sized, addresses: tuple[int, ...]) -> tuple[int, ...]:
        """Copy arguments that a library reads, and that are others at each call, to memory that stays."""
        inputs = self.schedule.program.inputs
        moved = list(addresses)
        for place in self._captured:
            argument = self.taken[place]
            if argument >= len(inputs) or argument in self.updates.values():
                continue
            if argument not in sized.staged:
                value = inputs[argument]
                shape = evaluated(value.shape, sized.binding)
                sized.staged[argument] = self.device.empty(shape, value.dtype)
            self.device.copy(addresses[place], sized.staged[argument])
            moved[place] = self.device.address(sized.staged[argument])
        return tuple(moved)

    # --- steps ---

    def _linked(self, sized: _Sized, bound: _Bound) -> list[Sequence]:
        """Return kernels as sequences, with calls of NumPy between them."""
        steps: list[Sequence] = []
        launches: list[Launch] = []
        checked = False
        varies = bool(self._symbols)

        def all_of(launches: list[Launch]) -> Sequence:
            return self.device.sequence(launches, bound.table, bound.addresses, bound.moving, varies)

        for task, kernel, places in zip(self.tasks, sized.kernels, self._slots, strict=True):
            if kernel is not None:
                is_ours = isinstance(kernel, Kernel)
                function = self._functions[id(kernel.items)] if is_ours else None
                exact = self._functions.get(id(kernel.exact.items)) if is_ours and kernel.exact else None
                launches.append(Launch(function, kernel, places, exact))
                checked = checked or (is_ours and _checks_indices(kernel))
                continue
            if launches:
                steps.append(all_of(launches))
            steps.append(OneByOne([self._call(task.group, checked, bound, sized.binding)]))
            launches, checked = [], False
        if launches:
            steps.append(all_of(launches))
        return steps

    def _call(self, group: Group, checked: bool, bound: _Bound, binding: Binding) -> Callable[[], None]:
        """Return a step in which the library of the device's arrays computes a group; what it refuses, NumPy.

        checked: whether indices were looked at since the last such step.
        """
        with comparing_surely(self.schedule.program.guards):
            read, written = self.schedule.call_operands(group)

        def at(value: Value) -> Any:
            shape = evaluated(value.shape, binding)
            return self.device.view(int(bound.addresses[self._entries[value]]), shape, value.dtype)

        def run() -> None:
            if checked:
                self.device.synchronize()
                if self._look(IndexError):
                    self.fail()
            known: dict[Value, Any] = {
                value: self._given_number(value) if value in self._of_numbers else at(value) for value in read
            }
            compute = Elsewhere(self.device.ready, self.device.read)
            compute.refused = self._refused
            call_numpy(group, known, binding, compute)
            if self._refused:
                self._tell_of_refused(group)
            # (Those that may lie in memory that is read are copied before anything is written.)
            made = [
                (v, known[v].copy() if v.primitive in _MAY_BE_VIEWS else known[v])
                for v in group.members
                if v in written or v.primitive == PLACE
            ]
            for value, array in made:
                if not math.prod(array.shape):
                    continue
                target = at(value.attributes["into"] if value.primitive == PLACE else value)
                place: Any = ...
                if value.primitive == PLACE:
                    begin, axis = evaluated(value.attributes["begin"], binding), value.attributes["axis"]
                    place = (slice(None),) * axis + (slice(begin, begin + array.shape[axis]),)
                if not lies_here(array):
                    target[place] = array
                elif place is ...:
                    self.device.write(target, np.asarray(array, value.dtype, order="C"))
                else:
                    target[place] = self.device.ready(np.asarray(array, value.dtype))

        return run

    def _tell_of_refused(self, group: Group) -> None:
        """Note in the report what is computed on the host."""
        for task, step in zip(self.tasks, self.report.steps, strict=True):
            if task.group is group and not self._refused.isdisjoint(group.members):
                step.note, self.report.called = "NumPy", f"{self.device.ARRAYS}, or NumPy from copies,"

    @functools.cached_property
    def _of_numbers(self) -> dict[Value, int]:
        inputs = self.schedule.program.inputs
        return {inputs[number]: place for place, number in enumerate(self.order)}

    def _given_number(self, value: Value) -> np.ndarray:
        assert self._sent is not None
        return np.asarray(self._sent[self._of_numbers[value]], value.dtype)

    def _look(self, kind: type[Exception]) -> Exception | None:
        """Return an error if a check has failed, and forget it."""
        if self._seen == self._none:
            return None
        check = self._checks[int(np.argmax(self._words[1:]))].check
        assert check is not None
        self.device.synchronize()
        self.device.clear(self._failed)
        self._words[:] = 0
        earlier = "" if kind is IndexError else " (in an earlier call of a compiled function)"
        bound = evaluated(check.bound, self._binding)
        self._error = kind(f"an index is outside of an axis of length {bound}{earlier}")
        return self._error

    def fail(self) -> None:
        """Raise what `launch` has returned."""
        assert self._error is not None
        raise self._error

    def _note(self, tasks: list[Task]) -> None:
        """Fill in the report."""
        self.report.functions = len(self._kernels)
        for task in tasks:
            words, lines = group_in_words(task.group), lines_of(task.group)
            moved = typical(sum(value.nbytes for value in set(task.touches)))
            if task.kernel is None:
                self.report.called_back += words
                self.report.called = self.device.ARRAYS
                self.report.steps.append(
                    StepReport("", "call", words, bytes=moved, note=self.device.ARRAYS, lines=lines)
                )
            elif isinstance(task.kernel, (LibraryProduct, LibraryConvolution)):
                self.report.steps.append(
                    StepReport(
                        "",
                        task.group.kind,
                        words,
                        1,
                        True,
                        task.kernel.flops,
                        moved,
                        "a library's",
                        lines=lines,
                    )
                )
            else:
                name = f"kernel{list(self._kernels).index(id(task.kernel.items))}"
                kernel = task.kernel
                self.report.steps.append(
                    StepReport(
                        name,
                        task.group.kind,
                        words,
                        typical(kernel.blocks),
                        True,
                        kernel.flops,
                        moved,
                        kernel.note,
                        lines=lines,
                    )
                )

    # --- running it ---

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it. Inputs that are updated change in place; returns the outputs, None for updates."""
        with self._lock:
            return self._run(inputs)

    def launch(
        self, addresses: tuple[int, ...], numbers: tuple[float, ...] = (), sizes: tuple[int, ...] = ()
    ) -> Exception | None:
        """Run it on arrays by their addresses: inputs that are no numbers, then outputs that are no updates.

        Returns what went wrong. Where the device does not wait, an index out of range is told at the next call, which
        then does nothing.
        """
        with self._lock:
            if self._checks and self._seen != self._none:
                return self._look(RuntimeError)
            self._take_turn()
            sized = self._at(sizes)
            if sized is None:
                self._error = self._for_sizes(sizes).launch(addresses, numbers)
                return self._error
            for step in self._ready_for(sized, addresses, numbers).steps:
                step()
            return self._look(IndexError) if self._checks and self.device.waits else None

    def _ready_for(self, sized: _Sized, addresses: tuple[int, ...], numbers: tuple[float, ...]) -> _Bound:
        if numbers != self._sent:
            with np.errstate(over="ignore"):
                self._pairs["wide"][: len(numbers)] = self._pairs["narrow"][: len(numbers)] = numbers
            self.device.write(self._device_numbers, self._pairs.view(np.int64))
            self._sent = numbers
        self._binding = sized.binding
        bound = sized.bound.get(addresses)
        if bound is None:
            if sized.misses >= MOST_TABLES and self._captured:
                addresses = self._stage(sized, addresses)
            bound = sized.bound.get(addresses) or self._bind(sized, addresses)
        return bound

    def _run(self, inputs: list[Any], times: list[float] | None = None) -> list[Any]:
        device, program, sizes = self.device, self.schedule.program, self.sizes_of(inputs)
        self._take_turn()
        sized = self._at(sizes)
        if sized is None:
            return self._for_sizes(sizes)(inputs)
        ready = [None if i in self.numbers else device.ready(a) for i, a in enumerate(inputs)]
        made = [
            device.empty(evaluated(program.outputs[i].shape, sized.binding), program.outputs[i].dtype)
            for i in self.given
        ]
        arrays = [*ready, *made]
        addresses = tuple([device.address(arrays[i]) for i in self.taken])
        numbers = tuple([float(inputs[i]) for i in self.order])
        on_device = self.leaves_outputs or any(device.owns(a) for a in inputs)
        if self._checks and self._look(RuntimeError):
            self.fail()
        for step in self._ready_for(sized, addresses, numbers).steps:
            if times is None:
                step()
            else:
                times += step.measure()
        if self._checks and (device.waits or not on_device):
            device.synchronize()
            if self._look(IndexError):
                self.fail()
        for target in set(self.updates.values()):
            if ready[target] is not inputs[target]:
                there = device.owns(inputs[target])
                inputs[target][...] = ready[target] if there else device.read(ready[target])
        outputs: list[Any] = [None] * len(program.outputs)
        for number, array in zip(self.given, made, strict=True):
            outputs[number] = array if on_device else device.read(array)
        return outputs

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run: there is none, addresses stay."""

    def measure(self, inputs: list[Any], runs: int) -> None:
        """Run it some times, kernel by kernel, and note in the report how long each step takes."""
        together = np.zeros(len(self.report.steps))
        for _ in range(runs):
            times: list[float] = []
            with self._lock:
                self._run(inputs, times)
            together += times
        for step, seconds in zip(self.report.steps, together / runs, strict=True):
            step.seconds = float(seconds)

    def text(self) -> str:
        """Return the LLVM text of all kernels."""
        return gpu_text(list(self._kernels.values()))


class _Sized:
    """A program at some sizes: its table without the addresses of a call, and its kernels.

    shifts: how far into an argument each operand lies that is one. bound: by the addresses of calls.
    """

    def __init__(self, binding: Binding, table: np.ndarray, shifts: np.ndarray, kernels: list[Any]) -> None:
        self.binding, self.table, self.shifts, self.kernels = binding, table, shifts, kernels
        self.bound: dict[tuple[int, ...], _Bound] = {}
        self.misses = 0
        self.staged: dict[int, Any] = {}  # arguments that are copied to memory that stays, and that memory


class _Bound:
    """The steps of a program with the addresses of some calls: on the device, and the same here.

    moving: entries that kernels look up there; the others they were given.
    """

    def __init__(self, table: Any, addresses: np.ndarray, moving: frozenset[int]) -> None:
        self.table, self.addresses, self.moving = table, addresses, moving
        self.steps: list[Sequence] = []


def _checks_indices(kernel: Kernel) -> bool:
    """Whether a kernel may say that an index is out of range."""
    return any(isinstance(each, tuple) and each[0] == FAILED and each[1] > 0 for each in kernel.operands)


def _different(tasks: list[Task], rounds: bool) -> dict[int, Kernel]:
    """Return the kernels of some steps; those with the same instructions once. rounds: also those that do not round."""
    kernels = [task.kernel for task in tasks if isinstance(task.kernel, Kernel)]
    exact = [kernel.exact for kernel in kernels if kernel.exact is not None and rounds]
    return {id(kernel.items): kernel for kernel in (*kernels, *exact)}


def at_sizes(kernel: Any, binding: Binding) -> Any:
    """Return a kernel for some sizes, whichever of its fields vary; None if it is not made for those."""
    if any(evaluated(n, binding) > MOST_COUNTED for n in _elements(kernel)):
        return None
    return _sizing(kernel, lambda n: n)(_Numbers(binding))


class _Numbers:
    """What sizes are, each by itself."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding

    def __getitem__(self, size: int) -> int:
        return evaluated(size, self._binding)


def _elements(kernel: Any) -> list[int]:
    """Return how many elements a kernel counts, where that varies."""
    if not isinstance(kernel, Kernel):
        return []
    found = [kernel.elements, *(part.kernel.elements for part in kernel.parts)]
    return [n for n in found if isinstance(n, Size)]


def _sizing(thing: Any, number: Callable[[int], int]) -> Callable[[Any], Any]:
    """Return a function of all numbers that gives a thing with its sizes filled in. number: which of them a size is.

    What a thing consists of may have sizes too: a library's product has matrices.
    """
    if isinstance(thing, Size):
        place = number(thing)
        return lambda numbers: int(numbers[place])
    if type(thing) is tuple and _varies(thing):
        parts = [_sizing(each, number) for each in thing]
        return lambda numbers: tuple([part(numbers) for part in parts])
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.name != "operands"}
        varying = {name: _sizing(each, number) for name, each in fields.items() if _varies(each)}
        if varying:
            return lambda numbers: _like(thing, {name: part(numbers) for name, part in varying.items()})
    return lambda numbers: thing


def _like(thing: Any, fields: dict[str, Any]) -> Any:
    """Return a thing with some fields replaced; `dataclasses.replace` would take ten times as long."""
    made = object.__new__(type(thing))
    vars(made).update(vars(thing), **fields)
    return made


def _varies(thing: Any) -> bool:
    """Whether there is a size that varies in something."""
    if dataclasses.is_dataclass(thing):
        return any(_varies(getattr(thing, field.name)) for field in dataclasses.fields(thing))
    return isinstance(thing, Size) or (type(thing) is tuple and any(map(_varies, thing)))
