"""The backend for GPUs. Enters: a program, then inputs on the device or elsewhere. Leaves: outputs, beside the inputs.

All kernels between two calls of CuPy (of NumPy, where that refuses) are one sequence, which a GPU replays as one CUDA
graph. Inputs may be other arrays at every call: for addresses that come up again there is a graph that knows them, and
if there are too many of them kernels look addresses up in a table on the device. Results are always new arrays.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.capabilities import Gpu
from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution
from minitorch.compiler.backends.cuda.devices import Cuda, Device, Launch, OneByOne, Sequence
from minitorch.compiler.backends.cuda.lower import FAILED, GpuLowering
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.side_by_side import side_by_side
from minitorch.compiler.backends.cuda.value_kernels import ValueKernels
from minitorch.compiler.backends.cuda.words import Kernel, gpu_text
from minitorch.compiler.backends.interface import ScheduledBackend, Task
from minitorch.compiler.ir.elsewhere import Elsewhere, lies_here
from minitorch.compiler.ir.halves import widened
from minitorch.compiler.ir.program import VIEWS, Program, Value
from minitorch.compiler.schedule.groups import COPY, PLACE, Group
from minitorch.compiler.schedule.memory import MemoryPlan, Placed, Scratch, plan_memory
from minitorch.compiler.schedule.report import BuildReport, StepReport, group_in_words, lines_of
from minitorch.compiler.schedule.schedule import Schedule, call_numpy

_MAY_BE_VIEWS = {*VIEWS, COPY, PLACE}
MOST_TABLES = 8  # of addresses that come up again, for one program


class CudaBackend(ScheduledBackend):
    """The backend (see `backends.interface`). device: where kernels run; a GPU, unless another is given."""

    machine = Gpu()

    def __init__(self, device: Device | None = None, *, fuse: bool = True) -> None:
        self.device: Device = device or Cuda()
        self.fuse = fuse

    def require(self) -> None:
        """Raise ImportError, and say what to install, if something is missing."""
        self.device.require()

    @property
    def convolves(self) -> bool:
        """Whether there is a library for convolutions."""
        return self.device.convolves

    @functools.cached_property
    def value_kernels(self) -> ValueKernels:
        """What computes values of a recording on the device, one by one."""
        return ValueKernels(self.device)

    def build(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> Any:
        """Schedule a program."""
        return super().build(narrowed(widened(program), numbers), updates, numbers)

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
        made.leave_out(unread)
        if self.fuse:
            made.merge(self.machine.figures.alignment)
        made.begin()
        return made

    def tasks(self, schedule: Schedule) -> list[Task]:
        """Return the steps of all groups, in their order."""
        lowering = GpuLowering(schedule, lambda: self.convolves)
        tasks = []
        for group in schedule.groups:
            if group.kind == "call":
                read, written = schedule.call_operands(group)
                tasks.append(Task(group, [*read, *written]))
            else:
                tasks += [Task(group, _touched(k), k) for k in lowering.kernels(group)]
        return tasks

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

    given: the outputs that are no updates, for which `launch` takes addresses.
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
        self._checks = [task.group for task in tasks if task.group.kind == "check"]

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
        """Let small kernels that need not wait for each other run side by side."""
        merged = side_by_side(self.tasks, self.schedule)
        if len(merged) == len(self.tasks):
            return
        self.tasks, needs_place = merged, self.schedule.needs_place
        touched = [
            [each for each in task.touches if not isinstance(each, Value) or needs_place(each)]
            for task in merged
        ]
        self._plan = plan_memory(touched, alignment)
        self.report.arena, self.report.unshared = self._plan.size, self._plan.unshared

    def begin(self) -> None:
        """Have its kernels made, by other threads; nothing is taken of the device's memory yet."""
        self._kernels = _different(self.tasks)
        self._loading = self.device.loading(list(self._kernels.values())) if self._kernels else list

    def load(self) -> None:
        """Make it ready to run."""
        device, tasks, plan = self.device, self.tasks, self._plan
        # Whether any check has failed, which kernels look at; and which, which the host does. Nobody clears them but
        # who has told of it.
        self._failed = device.empty((1,), np.int64)
        device.clear(self._failed)
        self._words = device.words(len(self._checks) + 1)
        self._error: Exception | None = None
        self._refused: set[Value] = set()  # by the library that computes what has no kernel
        self._seen, self._none = self._words.data.cast("B"), bytes(self._words.nbytes)
        self._memory = device.empty((max(1, plan.size),), np.uint8)
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
        self._host = np.zeros(max(1, len(self._entries)), np.int64)
        self._fixed()
        self._functions: dict[int, Any] = dict(zip(self._kernels, self._loading(), strict=True))
        self.report.tick("compile")
        self._bound: dict[tuple[int, ...], _Bound] = {}
        self._misses = 0
        self._staged: dict[int, Any] = {}  # arguments that are copied to memory that stays, and that memory
        self._note(tasks)
        self.report.tick("link")

    # --- the table of addresses ---

    def _entry(self, operand: Any) -> int:
        return self._entries.setdefault(operand, len(self._entries))

    def _fixed(self) -> None:
        """Fill in the addresses that stay the same."""
        address = self.device.address
        moving: list[tuple[int, int, int]] = []  # entry, argument, bytes into it
        for operand, entry in self._entries.items():
            value, offset = operand if isinstance(operand, tuple) else (operand, 0)
            argument = self.schedule.arguments.get(value)
            if value == FAILED:
                word = self._words.ctypes.data + 8 * offset
                self._host[entry] = word if offset else address(self._failed)
            elif argument in self.numbers and argument is not None:
                place = 2 * self.order.index(argument) + (value.dtype.itemsize == 4)
                self._host[entry] = address(self._device_numbers) + 8 * place + offset
            elif argument is not None:
                moving.append((entry, argument, offset))
            elif isinstance(value, Value) and value.primitive == "constant":
                if value not in self._constants:
                    self._constants[value] = self.device.ready(np.asarray(value.attributes["array"]))
                self._host[entry] = address(self._constants[value]) + offset
            else:
                self._host[entry] = address(self._memory) + self._plan.offsets[value] + offset
        # The arguments whose addresses `launch` takes, and where these go.
        inputs = len(self.schedule.program.inputs)
        self.taken = [i for i in range(inputs + len(self.given)) if i not in self.numbers]
        places = {argument: place for place, argument in enumerate(self.taken)}
        self._moving = np.array([entry for entry, _, _ in moving], np.int64)
        self._from = np.array([places[argument] for _, argument, _ in moving], np.int64)
        self._shifts = np.array([offset for _, _, offset in moving], np.int64)
        fixed = {
            slot
            for task, slots in zip(self.tasks, self._slots, strict=True)
            if isinstance(task.kernel, (LibraryProduct, LibraryConvolution))
            for slot in slots
        }
        # Of those, the ones that a library's products are captured with.
        self._captured = sorted({places[a] for entry, a, _ in moving if entry in fixed})

    def _table(self, addresses: tuple[int, ...]) -> np.ndarray:
        table = self._host.copy()
        if len(self._moving):
            table[self._moving] = np.array(addresses, np.int64)[self._from] + self._shifts
        return table

    def _bind(self, addresses: tuple[int, ...]) -> _Bound:
        """Return the steps with a table of these addresses."""
        host = self._table(addresses)
        if len(self._bound) == MOST_TABLES:
            # Addresses are others again and again: from now on kernels look them up.
            self._misses += 1
            oldest = next(iter(self._bound))
            bound = self._bound.pop(oldest)
            if bound.moving and all(oldest[place] == addresses[place] for place in self._captured):
                bound.addresses[:] = host
                self.device.write(bound.table, host)
                self._bound[addresses] = bound
                return bound
        table = self.device.empty(host.shape, np.int64)
        self.device.write(table, host)
        moving = frozenset(self._moving.tolist()) if self._misses else frozenset()
        bound = self._bound[addresses] = _Bound(table, host, moving)
        bound.steps = self._linked(bound)
        return bound

    def _stage(self, addresses: tuple[int, ...]) -> tuple[int, ...]:
        """Copy arguments that a library reads, and that are others at each call, to memory that stays."""
        inputs = self.schedule.program.inputs
        moved = list(addresses)
        for place in self._captured:
            argument = self.taken[place]
            if argument >= len(inputs) or argument in self.updates.values():
                continue
            if argument not in self._staged:
                value = inputs[argument]
                self._staged[argument] = self.device.empty(value.shape, value.dtype)
            self.device.copy(addresses[place], self._staged[argument])
            moved[place] = self.device.address(self._staged[argument])
        return tuple(moved)

    # --- steps ---

    def _linked(self, bound: _Bound) -> list[Sequence]:
        """Return kernels as sequences, with calls of NumPy between them."""
        steps: list[Sequence] = []
        launches: list[Launch] = []
        checked = False
        for task, places in zip(self.tasks, self._slots, strict=True):
            if task.kernel is not None:
                is_ours = isinstance(task.kernel, Kernel)
                function = self._functions[id(task.kernel.items)] if is_ours else None
                launches.append(Launch(function, task.kernel, places))
                checked = checked or (is_ours and _checks_indices(task.kernel))
                continue
            if launches:
                steps.append(self.device.sequence(launches, bound.table, bound.addresses, bound.moving))
            steps.append(OneByOne([self._call(task.group, checked, bound)]))
            launches, checked = [], False
        if launches:
            steps.append(self.device.sequence(launches, bound.table, bound.addresses, bound.moving))
        return steps

    def _call(self, group: Group, checked: bool, bound: _Bound) -> Callable[[], None]:
        """Return a step in which the library of the device's arrays computes a group; what it refuses, NumPy.

        checked: whether indices were looked at since the last such step.
        """
        read, written = self.schedule.call_operands(group)

        def at(value: Value) -> Any:
            return self.device.view(int(bound.addresses[self._entries[value]]), value.shape, value.dtype)

        def run() -> None:
            if checked:
                self.device.synchronize()
                if self._look(IndexError):
                    self.fail()
            known: dict[Value, Any] = {
                value: self._number(value) if value in self._of_numbers else at(value) for value in read
            }
            compute = Elsewhere(self.device.ready, self.device.read)
            compute.refused = self._refused
            call_numpy(group, known, compute=compute)
            if self._refused:
                self._tell_of_refused(group)
            # (Those that may lie in memory that is read are copied before anything is written.)
            made = [known[v].copy() if v.primitive in _MAY_BE_VIEWS else known[v] for v in written]
            for value, array in zip(written, made, strict=True):
                if value.size and lies_here(array):
                    self.device.write(at(value), np.asarray(array, value.dtype, order="C"))
                elif value.size:
                    at(value)[...] = array

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

    def _number(self, value: Value) -> np.ndarray:
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
        self._error = kind(f"an index is outside of an axis of length {check.bound}{earlier}")
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
            moved = sum(value.nbytes for value in set(task.touches))
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
                        kernel.blocks,
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

    def launch(self, addresses: tuple[int, ...], numbers: tuple[float, ...] = ()) -> Exception | None:
        """Run it on arrays by their addresses: inputs that are no numbers, then outputs that are no updates.

        Returns what went wrong. Where the device does not wait, an index out of range is told at the next call, which
        then does nothing.
        """
        with self._lock:
            if self._checks and self._seen != self._none:
                return self._look(RuntimeError)
            for step in self._ready_for(addresses, numbers).steps:
                step()
            return self._look(IndexError) if self._checks and self.device.waits else None

    def _ready_for(self, addresses: tuple[int, ...], numbers: tuple[float, ...]) -> _Bound:
        if numbers != self._sent:
            with np.errstate(over="ignore"):
                self._pairs["wide"][: len(numbers)] = self._pairs["narrow"][: len(numbers)] = numbers
            self.device.write(self._device_numbers, self._pairs.view(np.int64))
            self._sent = numbers
        bound = self._bound.get(addresses)
        if bound is None:
            if self._misses >= MOST_TABLES and self._captured:
                addresses = self._stage(addresses)
            bound = self._bound.get(addresses) or self._bind(addresses)
        return bound

    def _run(self, inputs: list[Any], times: list[float] | None = None) -> list[Any]:
        device, program = self.device, self.schedule.program
        ready = [None if i in self.numbers else device.ready(a) for i, a in enumerate(inputs)]
        made = [device.empty(program.outputs[i].shape, program.outputs[i].dtype) for i in self.given]
        arrays = [*ready, *made]
        addresses = tuple([device.address(arrays[i]) for i in self.taken])
        numbers = tuple([float(inputs[i]) for i in self.order])
        on_device = any(device.owns(a) for a in inputs)
        if self._checks and self._look(RuntimeError):
            self.fail()
        for step in self._ready_for(addresses, numbers).steps:
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


def _different(tasks: list[Task]) -> dict[int, Kernel]:
    """Return the kernels of some steps; those with the same instructions once."""
    return {id(task.kernel.items): task.kernel for task in tasks if isinstance(task.kernel, Kernel)}
