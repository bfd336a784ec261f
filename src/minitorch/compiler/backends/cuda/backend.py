"""The backend for GPUs. Enters: a program, then inputs on the device or elsewhere. Leaves: outputs, beside the inputs.

All kernels between two calls of NumPy are one sequence, which a GPU replays as one CUDA graph. They find their operands
through a table of addresses on the device, so inputs may be other arrays at every call; results are always new ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.capabilities import Gpu
from minitorch.compiler.backends.cuda.devices import Cuda, Device, Launch, OneByOne, Sequence
from minitorch.compiler.backends.cuda.lower import FAILED, GpuLowering
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.words import Kernel, gpu_text
from minitorch.compiler.backends.interface import ScheduledBackend, Task
from minitorch.compiler.ir.halves import widened
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.schedule.groups import Group
from minitorch.compiler.schedule.memory import MemoryPlan, Placed
from minitorch.compiler.schedule.report import BuildReport, StepReport, group_in_words, lines_of
from minitorch.compiler.schedule.schedule import Schedule, call_numpy


class CudaBackend(ScheduledBackend):
    """The backend (see `backends.interface`). device: where kernels run; a GPU, unless another is given."""

    machine = Gpu()

    def __init__(self, device: Device | None = None, *, fuse: bool = True) -> None:
        self.device: Device = device or Cuda()
        self.fuse = fuse

    def require(self) -> None:
        """Raise ImportError, and say what to install, if something is missing."""
        self.device.require()

    def build(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> Any:
        """Schedule a program, and make it run."""
        return super().build(widened(program), updates, numbers)

    def tasks(self, schedule: Schedule) -> list[Task]:
        """Return the steps of all groups, in their order."""
        lowering = GpuLowering(schedule)
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


def _touched(kernel: Any) -> list[Placed]:
    """Return what a kernel finds in memory."""
    found = [operand[0] if isinstance(operand, tuple) else operand for operand in kernel.operands]
    return [thing for thing in found if isinstance(thing, Value)]


class GpuProgram:
    """A program on a device (an `Executable`)."""

    def __init__(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan, device: Device) -> None:
        self.schedule, self.device = schedule, device
        self.report: BuildReport = schedule.report
        self.updates, self.numbers = dict(schedule.updates), frozenset(schedule.numbers)
        self.may_fail = schedule.may_fail
        outputs = schedule.program.outputs
        self.given = [number for number in range(len(outputs)) if number not in self.updates]
        self._tasks, self._lock = tasks, threading.Lock()
        self._checks = [task.group for task in tasks if task.group.kind == "check"]
        self._flags = device.empty((len(self._checks) + 1,), np.int64)
        self._memory = device.empty((max(1, plan.size),), np.uint8)
        self._plan = plan
        self._constants: dict[Value, Any] = {}
        self._entries: dict[Any, int] = {}
        slots = [
            [self._entry(o) for o in task.kernel.operands] if task.kernel is not None else []
            for task in tasks
        ]
        for task in tasks:
            if task.kernel is None:
                for value in task.touches:
                    self._entry(value)
        # Addresses, then two numbers for every argument: of a Python float its float64 and its float32.
        self._host = np.zeros(len(self._entries) + 2 * len(schedule.program.inputs), np.int64)
        self._table = device.empty(self._host.shape, np.int64)
        self._fixed()
        self._sent: np.ndarray | None = None
        self._kernels = _different(tasks)
        self._steps = self._linked(tasks, slots)
        self._note(tasks)
        self.report.tick("link")

    # --- the table of addresses ---

    def _entry(self, operand: Any) -> int:
        return self._entries.setdefault(operand, len(self._entries))

    def _fixed(self) -> None:
        """Fill in the addresses that stay the same."""
        self._moving: list[tuple[int, int, int]] = []  # entry, argument, bytes into it
        for operand, entry in self._entries.items():
            value, offset = operand if isinstance(operand, tuple) else (operand, 0)
            argument = self.schedule.arguments.get(value)
            if value == FAILED:
                self._host[entry] = self.device.address(self._flags) + 8 * offset
            elif argument in self.numbers and argument is not None:
                place = len(self._entries) + 2 * argument + (value.dtype.itemsize == 4)
                self._host[entry] = self.device.address(self._table) + 8 * place + offset
            elif argument is not None:
                self._moving.append((entry, argument, offset))
            elif value.primitive == "constant":
                if value not in self._constants:
                    self._constants[value] = self.device.ready(np.asarray(value.attributes["array"]))
                self._host[entry] = self.device.address(self._constants[value]) + offset
            else:
                self._host[entry] = self.device.address(self._memory) + self._plan.offsets[value] + offset

    def _fill(self, arguments: list[Any]) -> None:
        """Fill in where the arguments of a call are, and send the table where it has changed."""
        addresses = [0 if isinstance(a, float) else self.device.address(a) for a in arguments]
        for entry, argument, offset in self._moving:
            self._host[entry] = addresses[argument] + offset
        for number in self.numbers:
            place = len(self._entries) + 2 * number
            self._host[place : place + 1].view(np.float64)[0] = arguments[number]
            self._host[place + 1 : place + 2].view(np.float32)[0] = arguments[number]
        if self._sent is None or not np.array_equal(self._sent, self._host):
            self._sent = self._host.copy()
            self.device.write(self._table, self._sent)

    # --- steps ---

    def _linked(self, tasks: list[Task], slots: list[list[int]]) -> list[Sequence]:
        """Return kernels as sequences, with calls of NumPy between them."""
        functions = dict(
            zip(self._kernels, self.device.load(list(self._kernels.values())), strict=True)
            if self._kernels
            else ()
        )
        self.report.tick("compile")
        steps: list[Sequence] = []
        launches: list[Launch] = []
        checked = False
        for task, places in zip(tasks, slots, strict=True):
            if task.kernel is not None:
                function = functions[id(task.kernel.items)] if isinstance(task.kernel, Kernel) else None
                launches.append(Launch(function, task.kernel, places))
                checked = checked or task.group.kind == "check"
                continue
            if launches:
                steps.append(self.device.sequence(launches, self._table, self._host))
            steps.append(OneByOne([self._call(task.group, checked)]))
            launches, checked = [], False
        if launches:
            steps.append(self.device.sequence(launches, self._table, self._host))
        self._ends_checked = checked
        return steps

    def _call(self, group: Group, checked: bool) -> Callable[[], None]:
        """Return a step in which NumPy computes a group, from and to the device's memory.

        checked: whether indices were looked at since the last such step.
        """
        read, written = self.schedule.call_operands(group)

        def at(value: Value) -> Any:
            return self.device.view(int(self._host[self._entries[value]]), value.shape, value.dtype)

        def run() -> None:
            if checked:
                self._raise_failed()
            known: dict[Value, Any] = {value: self.device.read(at(value)) for value in read}
            call_numpy(group, known)
            for value in written:
                if value.size:
                    self.device.write(at(value), np.asarray(known[value], value.dtype, order="C"))

        return run

    def _raise_failed(self) -> None:
        """Raise IndexError if a check has failed."""
        flags = self.device.read(self._flags)
        if flags[0]:
            check = self._checks[int(np.argmax(flags[1:]))].check
            assert check is not None
            raise IndexError(f"an index is outside of an axis of length {check.bound}")

    def _note(self, tasks: list[Task]) -> None:
        """Fill in the report."""
        self.report.functions = len(self._kernels)
        for task in tasks:
            words, lines = group_in_words(task.group), lines_of(task.group)
            moved = sum(value.nbytes for value in set(task.touches))
            if task.kernel is None:
                self.report.called_back += words
                self.report.steps.append(
                    StepReport("", "call", words, bytes=moved, note="NumPy", lines=lines)
                )
            elif isinstance(task.kernel, LibraryProduct):
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

    def _run(self, inputs: list[Any], times: list[float] | None = None) -> list[Any]:
        device, program = self.device, self.schedule.program
        ready = [float(a) if i in self.numbers else device.ready(a) for i, a in enumerate(inputs)]
        made = [device.empty(program.outputs[i].shape, program.outputs[i].dtype) for i in self.given]
        self._fill([*ready, *made])
        if self._checks:
            device.clear(self._flags)
        for step in self._steps:
            if times is None:
                step()
            else:
                times += step.measure()
        if self._ends_checked:
            self._raise_failed()
        for target in set(self.updates.values()):
            if ready[target] is not inputs[target]:
                there = device.owns(inputs[target])
                inputs[target][...] = ready[target] if there else device.read(ready[target])
        on_device = any(device.owns(a) for a in inputs)
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


def _different(tasks: list[Task]) -> dict[int, Kernel]:
    """Return the kernels of some steps; those with the same instructions once."""
    return {id(task.kernel.items): task.kernel for task in tasks if isinstance(task.kernel, Kernel)}
