"""Kernels as one program. Enters: a Schedule, its kernels and where everything lies. Leaves: a `NativeProgram`.

What has no machine code is computed by NumPy in between, called back from the native program; nothing is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.backends.interface import ScheduledBackend, Task
from minitorch.compiler.backends.llvm.capabilities import Cpu
from minitorch.compiler.backends.llvm.driver import (
    Arena,
    Constant,
    External,
    PythonKernel,
    Runner,
    Step,
    aligned,
    array_at,
)
from minitorch.compiler.backends.llvm.kernel import SCRATCH, SIZES, TABLE, Kernel
from minitorch.compiler.backends.llvm.lower import Lowering
from minitorch.compiler.backends.llvm.machine import compile_functions, discard
from minitorch.compiler.backends.llvm.target import Target, host
from minitorch.compiler.backends.llvm.threads import threads as thread_count
from minitorch.compiler.ir.halves import widened
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.ir.sizes import Binding, Symbol, comparing_surely, evaluated, typical
from minitorch.compiler.schedule.groups import Group
from minitorch.compiler.schedule.machine import Machine
from minitorch.compiler.schedule.memory import MemoryPlan, Placed, Scratch
from minitorch.compiler.schedule.report import BuildReport, StepReport, group_in_words
from minitorch.compiler.schedule.schedule import Schedule, call_numpy

GRAINS = 2  # pieces of a product that each thread takes, one after the other
PARALLEL_SECONDS = 20e-6  # steps that take less are not worth handing to other threads
LONG_SECONDS = 100e-6  # a program that takes more lets other Python threads run meanwhile
SCALAR_FLOAT32 = 8  # where a Python float among the arguments has its float32 (see `External`)


class NativeProgram:
    """A program that runs natively.

    Calling it takes the inputs, and an array for every output that is no update, in the order of the program.
    entry: the same as a builtin function of the arrays one after the other: all inputs, then those outputs. It
    returns None, or a number if the run was stopped: `explain_failure` raises what that was. No input is changed then.
    early: outputs, by number, whose arrays may be written by a run that is stopped. may_fail: whether one may be.
    """

    def __init__(
        self,
        runner: Runner,
        report: BuildReport,
        callbacks: Sequence[PythonKernel] = (),
        early: frozenset[int] = frozenset(),
        may_fail: bool = False,
    ) -> None:
        self.runner = runner
        self.early = early
        self.may_fail = may_fail
        self.entry = runner.entry
        self.report = report
        self._callbacks = {kernel.address: kernel for kernel in callbacks}

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run it; the outputs' arrays are written, the updated inputs changed."""
        if self.entry(*inputs, *outputs) is not None:
            self.explain_failure()

    def explain_failure(self) -> None:
        """Raise the error that stopped the last run."""
        failed = self.runner.failed
        callback = self._callbacks.get(failed.function)
        if callback is not None and callback.error is not None:
            raise callback.error
        raise IndexError(failed.label)

    def measure(self, inputs: Sequence[Any], outputs: Sequence[Any], runs: int = 10) -> BuildReport:
        """Run it some times (updates happen each time), and note how long each step takes."""
        self.runner.measure(True)
        for _ in range(runs):
            self(inputs, outputs)
        for step, seconds in zip(self.report.steps, self.runner.times, strict=True):
            step.seconds = seconds
        self.runner.measure(False)
        return self.report


class Assembler(ScheduledBackend):
    """Makes native programs.

    target: the processor; this one, if none is given. threads: how many to use at most. keep_text: keep the LLVM
    text in the report.
    """

    def __init__(
        self,
        *,
        fuse: bool = True,
        machine: Machine | None = None,
        target: Target | None = None,
        threads: int | None = None,
        keep_text: bool = False,
    ) -> None:
        self.fuse = fuse
        self.machine = machine or Cpu()
        self._target, self._threads, self.keep_text = target, threads, keep_text

    def build(self, program: Program, updates: Mapping[int, int], numbers: Collection[int] = ()) -> Any:
        """Make a native program."""
        with comparing_surely(program.guards):
            return super().build(widened(program), updates, numbers)

    @property
    def target(self) -> Target:
        """The processor that code is made for."""
        return self._target or host()

    @property
    def threads(self) -> int:
        """How many threads a program may use."""
        return thread_count() if self._threads is None else self._threads

    def tasks(self, schedule: Schedule) -> list[Task]:
        """Return the steps of all groups, in their order."""
        lowering = Lowering(schedule, self.target)
        tasks = []
        for group in schedule.groups:
            if group.kind == "call":
                read, written = schedule.call_operands(group)
                tasks.append(Task(group, [*read, *written]))
            else:
                tasks += [Task(group, self._touched(k), k) for k in lowering.kernels(group)]
        return tasks

    def _touched(self, kernel: Kernel) -> list[Placed]:
        """Return what a kernel finds in memory, the operands' slots aside."""
        touched: list[Placed] = []
        for operand in kernel.operands:
            thing = operand[0] if isinstance(operand, tuple) else operand
            if thing == SCRATCH:
                touched.append(Scratch(kernel.scratch * max(1, self.threads)))
            elif isinstance(thing, Value):
                touched.append(thing)
        return touched

    def link(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan) -> NativeProgram | VaryingProgram:
        """Return steps and the places of what they touch as one program."""
        report = schedule.report
        kernels = [task.kernel for task in tasks if task.kernel is not None]
        texts = {kernel.text: "\n".join([*kernel.externs.values(), kernel.text]) for kernel in kernels}
        codes = compile_functions(list(texts.values()), self.target, "KERNEL")
        names = {text: f"kernel{number}" for number, text in enumerate(texts)}
        report.functions = len(names)
        if self.keep_text:
            report.text = "\n".join(t.replace("@KERNEL(", f"@{names[key]}(") for key, t in texts.items())
        report.tick("compile")

        for task in tasks:
            self._report(task, names, report)
        binding: dict[Symbol, int] = {}
        callbacks = [_callback(schedule, task.group, binding) for task in tasks if task.kernel is None]
        linked = _Linked(
            schedule,
            tasks,
            plan,
            {text: code.address("KERNEL") for text, code in zip(texts, codes, strict=True)},
            [*codes, *callbacks],
            callbacks,
            self.threads,
            sum(kernel.seconds for kernel in kernels) > LONG_SECONDS,
            binding,
        )
        if schedule.program.symbols:
            return VaryingProgram(linked)
        made = linked.bound({}, plan.size)
        report.tick("link")
        return made

    def _report(self, task: Task, names: dict[str, str], report: BuildReport) -> None:
        """Say what a step is; where sizes vary, with typical numbers."""
        words = group_in_words(task.group)
        kernel = task.kernel
        if kernel is None:
            report.called_back.extend(words)
            report.steps.append(StepReport("", "call", words, note="NumPy"))
            return
        moved = sum(value.nbytes for value in set(task.touches) if isinstance(value, Value))
        parallel = _is_parallel(kernel, kernel.seconds, typical(kernel.units), self.threads)
        report.steps.append(
            StepReport(
                names[kernel.text],
                task.group.kind,
                words,
                typical(kernel.units),
                parallel,
                typical(kernel.flops),
                typical(moved),
                kernel.note,
            )
        )


def _is_parallel(kernel: Kernel, seconds: float, units: int, threads: int) -> bool:
    return units > 1 and seconds > PARALLEL_SECONDS and threads > 1


@dataclass
class _Linked:
    """Compiled kernels and all that is known of a program before the sizes of a call are.

    addresses: of the kernels, by their text. keep: what must live as long as the program does. now: the sizes of the
    call that runs, for what calls Python back.
    """

    schedule: Schedule
    tasks: list[Task]
    plan: MemoryPlan
    addresses: dict[str, int]
    keep: list[Any]
    callbacks: list[PythonKernel]
    threads: int
    is_long: bool
    now: dict[Symbol, int]

    def bound(
        self, binding: Binding, arena: int | np.ndarray, plan: MemoryPlan | None = None
    ) -> NativeProgram:
        """Return the program for the sizes of a call."""
        schedule = self.schedule
        table = _Table(schedule, plan or self.plan, binding)
        callbacks = iter(self.callbacks)
        steps = [
            self._call(task, next(callbacks), table)
            if task.kernel is None
            else self._step(task, table, binding)
            for task in self.tasks
        ]
        runner = Runner(
            table.places,
            steps,
            arena=arena,
            externals=schedule.argument_count,
            keep=self.keep,
            release=bool(self.callbacks) or self.is_long,
            threads=self.threads,
        )
        return NativeProgram(runner, schedule.report, self.callbacks, schedule.early, schedule.may_fail)

    def _call(self, task: Task, callback: PythonKernel, table: _Table) -> Step:
        """Return the step in which NumPy computes a group."""
        words = group_in_words(task.group)
        return Step(callback.address, [table.entry(value) for value in task.touches], label=words[0])

    def _step(self, task: Task, table: _Table, binding: Binding) -> Step:
        """Return the step that runs a kernel."""
        group, kernel = task.group, task.kernel
        scratch = next((each for each in task.touches if isinstance(each, Scratch)), None)
        slots = [table.entry(scratch if operand == SCRATCH else operand) for operand in kernel.operands]
        units, seconds = kernel.units, kernel.seconds
        if binding:
            units = evaluated(units, binding)
            seconds *= evaluated(kernel.work, binding) / typical(kernel.work)
        parallel = _is_parallel(kernel, seconds, units, self.threads)
        words = group_in_words(group)
        label = words[0] if words else ""
        if group.check is not None:
            label = f"an index is outside of an axis of length {evaluated(group.check.bound, binding)}"
        # A product prepares its operand once for neighbouring units: few large pieces, yet more than threads, so
        # that one which is held up does not hold up all.
        grain = max(1, -(-units // (GRAINS * self.threads))) if group.kind == "contract" else 1
        address = self.addresses[kernel.text]
        return Step(address, slots, units, parallel, grain=grain, label=label)


class VaryingProgram:
    """A program whose sizes vary: one for each that was met lately, of the same kernels and in the same memory.

    It must not run twice at a time.
    """

    def __init__(self, linked: _Linked) -> None:
        schedule = linked.schedule
        self.report, self.early, self.may_fail = schedule.report, schedule.early, schedule.may_fail
        self._linked = linked
        self._arena = aligned(0)
        self.grew = False  # whether its memory had to, the last time

    def bound(self, binding: Binding) -> NativeProgram:
        """Return the program for some sizes; those made before are of no use if its memory had to grow."""
        plan = self._linked.plan.at(binding)
        self.grew = plan.size > len(self._arena)
        if self.grew:
            self._arena = aligned(plan.size)
        return self._linked.bound(binding, self._arena, plan)

    def settle(self) -> None:
        """Let the system have the memory until the next run."""
        discard(self._arena)

    def enter(self, binding: Binding) -> None:
        """Say which sizes the next run has."""
        if self._linked.callbacks:
            self._linked.now.clear()
            self._linked.now.update(binding)


class _Table:
    """The pointers that steps work on; equal ones are one entry."""

    def __init__(self, schedule: Schedule, plan: MemoryPlan, binding: Binding) -> None:
        self.schedule, self.plan, self.binding = schedule, plan, binding
        self.places: list[Arena | External | Constant] = []
        self._entries: dict[Any, int] = {}

    def entry(self, operand: Any) -> int:
        """Return the entry for an operand: a value, a place inside one, a table of numbers, or scratch memory."""
        if operand not in self._entries:
            self._entries[operand] = len(self.places)
            self.places.append(self._place(operand))
        return self._entries[operand]

    def _place(self, operand: Any) -> Arena | External | Constant:
        if isinstance(operand, Scratch):
            return Arena(self.plan.offsets[operand])
        value, offset = operand if isinstance(operand, tuple) else (operand, 0)
        if value == SIZES:
            return Constant(np.array([evaluated(size, self.binding) for size in offset], np.int64))
        if value == TABLE:
            return Constant(offset.at(self.binding))
        offset = evaluated(offset, self.binding)
        argument = self.schedule.arguments.get(value)
        if argument is not None:
            as_float32 = argument in self.schedule.numbers and value.dtype.itemsize == 4
            return External(argument, offset + SCALAR_FLOAT32 * as_float32)
        if value.primitive == "constant":
            return Constant(np.ascontiguousarray(value.attributes["array"]), offset)
        return Arena(self.plan.offsets[value] + offset)


def _callback(schedule: Schedule, group: Group, now: Binding) -> PythonKernel:
    """Return a kernel that has NumPy compute a group; now: has the sizes of the call that runs."""
    read, written = schedule.call_operands(group)
    operands = [*read, *written]

    def run(addresses: list[int]) -> None:
        shapes = [evaluated(v.shape, now) for v in operands]
        arrays = [array_at(a, n, v.dtype) for v, a, n in zip(operands, addresses, shapes, strict=True)]
        known: dict[Value, Any] = dict(zip(read, arrays, strict=False))
        call_numpy(group, known, now)
        for value, array in zip(written, arrays[len(read) :], strict=True):
            array[...] = known[value]

    return PythonKernel(run, len(operands))
