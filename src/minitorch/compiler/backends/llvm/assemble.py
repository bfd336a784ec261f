"""Kernels as one program. Enters: a Schedule, its kernels and where everything lies. Leaves: a `NativeProgram`.

What has no machine code is computed by NumPy in between, called back from the native program; nothing is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    array_at,
)
from minitorch.compiler.backends.llvm.loops import SCRATCH, Kernel
from minitorch.compiler.backends.llvm.lower import Lowering
from minitorch.compiler.backends.llvm.machine import compile_functions
from minitorch.compiler.backends.llvm.target import Target, host
from minitorch.compiler.backends.llvm.threads import threads as thread_count
from minitorch.compiler.ir.halves import widened
from minitorch.compiler.ir.program import Program, Value
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

    def link(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan) -> NativeProgram:
        """Return steps and the places of what they touch as one program."""
        report = schedule.report
        kernels = [task.kernel for task in tasks if task.kernel is not None]
        texts = {kernel.text: "\n".join([*kernel.externs.values(), kernel.text]) for kernel in kernels}
        codes = compile_functions(list(texts.values()), self.target, "KERNEL")
        names = {text: f"kernel{number}" for number, text in enumerate(texts)}
        addresses = {text: code.address("KERNEL") for text, code in zip(texts, codes, strict=True)}
        report.functions = len(names)
        if self.keep_text:
            report.text = "\n".join(t.replace("@KERNEL(", f"@{names[key]}(") for key, t in texts.items())
        report.tick("compile")

        table = _Table(schedule, plan)
        steps, callbacks = [], []
        for task in tasks:
            if task.kernel is None:
                callback = _callback(schedule, task.group)
                callbacks.append(callback)
                steps.append(self._call(task, callback, table, report))
            else:
                text = task.kernel.text
                steps.append(self._step(task, addresses[text], names[text], table, report))
        runner = Runner(
            table.places,
            steps,
            arena=plan.size,
            externals=schedule.argument_count,
            keep=[*codes, *callbacks],
            release=bool(callbacks) or sum(kernel.seconds for kernel in kernels) > LONG_SECONDS,
            threads=self.threads,
        )
        report.tick("link")
        return NativeProgram(runner, report, callbacks, schedule.early, schedule.may_fail)

    def _call(self, task: Task, callback: PythonKernel, table: _Table, report: BuildReport) -> Step:
        """Return the step in which NumPy computes a group."""
        words = group_in_words(task.group)
        report.called_back.extend(words)
        report.steps.append(StepReport("", "call", words, note="NumPy"))
        return Step(callback.address, [table.entry(value) for value in task.touches], label=words[0])

    def _step(self, task: Task, address: int, name: str, table: _Table, report: BuildReport) -> Step:
        """Return the step that runs a kernel."""
        group, kernel = task.group, task.kernel
        scratch = next((each for each in task.touches if isinstance(each, Scratch)), None)
        slots = [table.entry(scratch if operand == SCRATCH else operand) for operand in kernel.operands]
        parallel = kernel.units > 1 and kernel.seconds > PARALLEL_SECONDS and self.threads > 1
        words = group_in_words(group)
        label = words[0] if words else ""
        if group.check is not None:
            label = f"an index is outside of an axis of length {group.check.bound}"
        moved = sum(value.nbytes for value in set(task.touches) if isinstance(value, Value))
        report.steps.append(
            StepReport(name, group.kind, words, kernel.units, parallel, kernel.flops, moved, kernel.note)
        )
        return Step(address, slots, kernel.units, parallel, grain=self._grain(group, kernel), label=label)

    def _grain(self, group: Group, kernel: Kernel) -> int:
        """Return how many units a thread takes at once.

        A product prepares its operand once for neighbouring units: few large pieces, yet more than threads, so
        that one which is held up does not hold up all.
        """
        return max(1, -(-kernel.units // (GRAINS * self.threads))) if group.kind == "contract" else 1


class _Table:
    """The pointers that steps work on; equal ones are one entry."""

    def __init__(self, schedule: Schedule, plan: MemoryPlan) -> None:
        self.schedule, self.plan = schedule, plan
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
        if value == "table":
            return Constant(offset.array)
        argument = self.schedule.arguments.get(value)
        if argument is not None:
            as_float32 = argument in self.schedule.numbers and value.dtype.itemsize == 4
            return External(argument, offset + SCALAR_FLOAT32 * as_float32)
        if value.primitive == "constant":
            return Constant(np.ascontiguousarray(value.attributes["array"]), offset)
        return Arena(self.plan.offsets[value] + offset)


def _callback(schedule: Schedule, group: Group) -> PythonKernel:
    """Return a kernel that has NumPy compute a group."""
    read, written = schedule.call_operands(group)
    operands = [*read, *written]

    def run(addresses: list[int]) -> None:
        arrays = [array_at(a, v.shape, v.dtype) for v, a in zip(operands, addresses, strict=True)]
        known: dict[Value, Any] = dict(zip(read, arrays, strict=False))
        call_numpy(group, known)
        for value, array in zip(written, arrays[len(read) :], strict=True):
            array[...] = known[value]

    return PythonKernel(run, len(operands))
