"""Kernels as one program. Enters: a Schedule, its kernels and where everything lies. Leaves: a `NativeProgram`.

What has no machine code is computed by NumPy in between, called back from the native program; nothing is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.interface import ScheduledBackend, Task, tasks_of
from minitorch.compiler.backends.llvm import linked as kept
from minitorch.compiler.backends.llvm.capabilities import Cpu
from minitorch.compiler.backends.llvm.driver import (
    Arena,
    Constant,
    External,
    Image,
    PythonKernel,
    Runner,
    Step,
    aligned,
    array_at,
)
from minitorch.compiler.backends.llvm.kernel import SCRATCH, SIZES, TABLE, Kernel
from minitorch.compiler.backends.llvm.linked import Linked
from minitorch.compiler.backends.llvm.lower import Lowering
from minitorch.compiler.backends.llvm.machine import (
    MachineCode,
    compile_functions,
    discard,
    kept_under,
    load_functions,
)
from minitorch.compiler.backends.llvm.products import KnownTable
from minitorch.compiler.backends.llvm.sized import Computed, Numbers, Place, Sizing, Weight, Within
from minitorch.compiler.backends.llvm.target import Target, host
from minitorch.compiler.backends.llvm.threads import threads as thread_count
from minitorch.compiler.ir.halves import widened
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.ir.sizes import (
    Binding,
    Symbol,
    comparing_surely,
    evaluated,
    is_fixed,
    spelled,
    typical,
)
from minitorch.compiler.schedule.groups import PLACE, Group
from minitorch.compiler.schedule.machine import Machine
from minitorch.compiler.schedule.memory import MemoryPlan, Placed, Scratch
from minitorch.compiler.schedule.report import BuildReport, StepReport, group_in_words, lines_of
from minitorch.compiler.schedule.schedule import Schedule, call_numpy

GRAINS = 2  # pieces of a product that each thread takes, one after the other
PARALLEL_SECONDS = 20e-6  # steps that take less are not worth handing to other threads
LONG_SECONDS = 100e-6  # a program that takes more lets other Python threads run meanwhile
GROWTH = 2  # memory for sizes that vary grows by so much at least
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
        callbacks: Iterable[PythonKernel] = (),
        early: frozenset[int] = frozenset(),
        may_fail: bool = False,
    ) -> None:
        self.runner = runner
        self.early = early
        self.may_fail = may_fail
        self.entry = runner.entry
        self.report = report
        self.linked: Linked | None = None  # what it was made from, if that can be kept
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
        raise IndexError(str(failed.label))

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
        """Make a native program, or load it if the same one was made before."""
        if type(self.machine) is Cpu:
            self.machine = self.machine.of(self.target)
        key = None
        if not self.keep_text and type(self.machine) is Cpu:  # (of others nobody knows what tells them apart)
            key = kept.key(program, updates, numbers, (self.target, self.threads, self.machine, self.fuse))
        loaded = None if key is None else self._loaded(key)
        if loaded is not None:
            return loaded
        with comparing_surely(program.guards):
            made = super().build(widened(program), updates, numbers)
        if key is not None and isinstance(made, NativeProgram) and made.linked is not None:
            kept.write(key, made.linked)
            made.linked = None
        return made

    def _loaded(self, key: str) -> NativeProgram | None:
        """Return a program that was linked before, if its kernels are there too."""
        report = BuildReport()
        linked = kept.read(key)
        codes = None if linked is None else load_functions(linked.kernels, "KERNEL")
        if linked is None or codes is None:
            return None
        report.tick("load")
        linked.report.seconds, linked.report.last = report.seconds, report.last
        return self._native(linked, codes)

    def _native(self, linked: Linked, codes: Sequence[MachineCode]) -> NativeProgram:
        """Return a linked program as one that runs."""
        addresses = [code.address("KERNEL") for code in codes]
        runner = Runner(
            linked.table,
            [replace(step, function=addresses[step.function]) for step in linked.steps],
            arena=linked.arena,
            externals=linked.externals,
            keep=codes,
            release=linked.release,
            threads=self.threads,
        )
        return NativeProgram(runner, linked.report, early=linked.early, may_fail=linked.may_fail)

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
        return tasks_of(schedule, Lowering(schedule, self.target).kernels, self._touched)

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

        places = {text: number for number, text in enumerate(texts)}
        for task in tasks:
            self._report(task, names, report)
        varies = bool(schedule.program.symbols)
        table = _Table(schedule)
        now: dict[Symbol, int] = {}
        callbacks = {
            task.group: _callback(schedule, task.group, now) for task in tasks if task.kernel is None
        }
        release = bool(callbacks) or sum(kernel.seconds for kernel in kernels) > LONG_SECONDS
        if not varies and not callbacks:
            steps = [self._step(task, places[task.kernel.text], table) for task in tasks]
            linked = Linked(
                [kept_under(text, self.target) for text in texts.values()],
                steps,
                table.arranged(plan),
                plan.size,
                schedule.argument_count,
                release,
                schedule.early,
                schedule.may_fail,
                report,
            )
            native = self._native(linked, codes)
            native.linked = linked
            report.tick("link")
            return native
        addresses = [code.address("KERNEL") for code in codes]
        steps = [
            self._step(task, addresses[places[task.kernel.text]], table)
            if task.kernel is not None
            else _call(task, callbacks[task.group], table)
            for task in tasks
        ]
        options: dict[str, Any] = {
            "externals": schedule.argument_count, "keep": [*codes, *callbacks.values()], "release": release,
            "threads": self.threads,
        }  # fmt: skip
        made: NativeProgram | VaryingProgram
        if varies:
            weights = [self._weight(task) for task in tasks]
            symbols = list(schedule.program.symbols)
            sizing = Sizing(table.places, steps, weights, plan, symbols, self.threads, PARALLEL_SECONDS)
            made = VaryingProgram(schedule, steps, sizing, callbacks.values(), now, options)
        else:
            runner = Runner(table.arranged(plan), steps, arena=plan.size, **options)
            made = NativeProgram(runner, report, callbacks.values(), schedule.early, schedule.may_fail)
        report.tick("link")
        return made

    def _step(self, task: Task, function: int, table: _Table) -> Step:
        """Return the step that runs a kernel."""
        group, kernel = task.group, task.kernel
        scratch = next((each for each in task.touches if isinstance(each, Scratch)), None)
        slots = [table.entry(scratch if operand == SCRATCH else operand) for operand in kernel.operands]
        label = _first_word(group) if group.check is None else OutOfRange(group.check.bound)
        if not is_fixed(kernel.units):
            return Step(function, slots, kernel.units, label=label)
        parallel = kernel.units > 1 and kernel.seconds > PARALLEL_SECONDS and self.threads > 1
        grain = max(1, -(-kernel.units // (GRAINS * self.threads))) if group.kind == "contract" else 1
        return Step(function, slots, kernel.units, parallel, grain=grain, label=label)

    def _weight(self, task: Task) -> Weight:
        """Return how long a step takes.

        A product prepares its operand once for neighbouring units: few large pieces, yet more than threads, so
        that one which is held up does not hold up all.
        """
        if task.kernel is None:
            return Weight(0.0, 1, 0)
        grains = GRAINS * self.threads if task.group.kind == "contract" else 0
        return Weight(task.kernel.seconds, task.kernel.work, grains)

    def _report(self, task: Task, names: dict[str, str], report: BuildReport) -> None:
        """Say what a step is; where sizes vary, with typical numbers."""
        words = group_in_words(task.group)
        kernel = task.kernel
        if kernel is None:
            report.called_back.extend(words)
            report.steps.append(StepReport("", "call", words, note="NumPy", lines=lines_of(task.group)))
            return
        moved = sum(value.nbytes for value in set(task.touches) if isinstance(value, Value))
        units = typical(kernel.units)
        parallel = units > 1 and kernel.seconds > PARALLEL_SECONDS and self.threads > 1
        report.steps.append(
            StepReport(
                names[kernel.text],
                task.group.kind,
                words,
                units,
                parallel,
                typical(kernel.flops),
                typical(moved),
                kernel.note,
                lines=lines_of(task.group),
            )
        )


def _call(task: Task, callback: PythonKernel, table: _Table) -> Step:
    """Return the step in which NumPy computes a group."""
    slots = [table.entry(value) for value in task.touches]
    return Step(callback.address, slots, label=_first_word(task.group))


def _first_word(group: Group) -> str:
    words = group_in_words(group)
    return words[0] if words else ""


class OutOfRange(NamedTuple):
    """What a failed check says."""

    bound: int

    def __str__(self) -> str:
        return f"an index is outside of an axis of length {self.bound}"


class VaryingProgram:
    """A program whose sizes vary: for all of them the same kernels and the same memory.

    It must not run twice at a time. now: the sizes of the run at hand, for what calls Python back. arena: the memory;
    it grows.
    """

    def __init__(
        self,
        schedule: Schedule,
        steps: Sequence[Step],
        sizing: Sizing,
        callbacks: Iterable[PythonKernel],
        now: dict[Symbol, int],
        options: dict[str, Any],
    ) -> None:
        self.report, self.early, self.may_fail = schedule.report, schedule.early, schedule.may_fail
        self._steps, self._sizing, self._options = steps, sizing, options
        self._symbols = list(schedule.program.symbols)
        self._callbacks, self._now = list(callbacks), now
        self.arena = aligned(0)
        self._native: NativeProgram | None = None

    def image(self, sizes: tuple[int, ...]) -> Image:
        """Return the program for some sizes. If memory has to grow for it, those made before keep what there was."""
        numbers = self._sizing.numbers(sizes)
        offsets, size = self._sizing.arena_bytes(numbers)
        if size > len(self.arena):  # (what is not used takes no memory)
            self.arena = aligned(max(size, GROWTH * len(self.arena)))
        return self._sizing.image(sizes, numbers, offsets, self.arena)

    def at(self, sizes: tuple[int, ...], image: Image) -> NativeProgram:
        """Return the program, for some sizes from now on."""
        if self._native is None:
            runner = Runner(image, self._steps, **self._options)
            self._native = NativeProgram(runner, self.report, self._callbacks, self.early, self.may_fail)
        self._native.runner.use(image)
        self._now.update(zip(self._symbols, sizes, strict=True))
        return self._native

    def explain_failure(self) -> None:
        """Raise the error that stopped the last run."""
        assert self._native is not None
        with spelled(lambda size: str(evaluated(size, self._now))):
            self._native.explain_failure()

    def settle(self) -> None:
        """Let the system have the memory until the next run."""
        discard(self.arena)


class _Table:
    """The pointers that steps work on; equal ones are one entry."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.places: list[Place] = []
        self._entries: dict[Any, int] = {}

    def entry(self, operand: Any) -> int:
        """Return the entry for an operand: a value, a place inside one, a table of numbers, or scratch memory."""
        if operand not in self._entries:
            self._entries[operand] = len(self.places)
            self.places.append(self._place(operand))
        return self._entries[operand]

    def _place(self, operand: Any) -> Place:
        if isinstance(operand, Scratch):
            return Within(operand, 0)
        value, offset = operand if isinstance(operand, tuple) else (operand, 0)
        if value == SIZES:
            return Numbers(offset)
        if value == TABLE:
            return Constant(offset.array) if isinstance(offset, KnownTable) else Computed(offset)
        argument = self.schedule.arguments.get(value)
        if argument is not None:
            as_float32 = argument in self.schedule.numbers and value.dtype.itemsize == 4
            return External(argument, offset + SCALAR_FLOAT32 * as_float32)
        if value.primitive == "constant":
            return Constant(np.ascontiguousarray(value.attributes["array"]), offset)
        return Within(value, offset)

    def arranged(self, plan: MemoryPlan) -> list[Arena | External | Constant]:
        """Return what each entry points to, where everything is known."""
        found: list[Arena | External | Constant] = []
        for place in self.places:
            assert not isinstance(place, (Numbers, Computed))
            if isinstance(place, Within):
                found.append(Arena(plan.offsets[place.thing] + place.offset))
            else:
                found.append(place)
        return found


def _callback(schedule: Schedule, group: Group, now: Binding) -> PythonKernel:
    """Return a kernel that has NumPy compute a group; now: has the sizes of the call that runs."""
    read, written = schedule.call_operands(group)
    operands = [*read, *written]

    def run(addresses: list[int]) -> None:
        shapes = [evaluated(v.shape, now) for v in operands]
        arrays = [array_at(a, n, v.dtype) for v, a, n in zip(operands, addresses, shapes, strict=True)]
        known: dict[Value, Any] = dict(zip(read, arrays, strict=False))
        call_numpy(group, known, now)
        memory = dict(zip(written, arrays[len(read) :], strict=True))
        # (What was computed may be a look at memory that is written here.)
        made = [(m, np.array(known[m])) for m in group.members if m in memory or m.primitive == PLACE]
        for value, array in made:
            if value.primitive == PLACE:
                begin, axis = evaluated(value.attributes["begin"], now), value.attributes["axis"]
                place = (slice(None),) * axis + (slice(begin, begin + array.shape[axis]),)
                memory[value.attributes["into"]][place] = array
            else:
                memory[value][...] = array

    return PythonKernel(run, len(operands))
