"""A program as machine code. Enters: a Program. Leaves: a `NativeProgram` to call with arrays.

Simplify, fuse, write every group's kernels, order them, plan the memory, compile. What has no machine code is
computed by NumPy in between, called back from the native program; nothing is refused.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.driver import (
    PARALLEL,
    SERIAL,
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
from minitorch.compiler.ir.index import Inexpressible, Split
from minitorch.compiler.ir.program import Program, Value, evaluate
from minitorch.compiler.ir.simplify import simplify
from minitorch.compiler.schedule import plan as memory
from minitorch.compiler.schedule.fuse import VIRTUAL, Blocked, Fuser, Group, compute_again, stored_values

GRAINS = 2  # pieces of a product that each thread takes, one after the other
# Kinds of groups that can stop a run: an index is out of range, NumPy raises an error.
MAY_FAIL = ("check", "call")
FEW_BYTES = 1 << 14  # what takes less memory may lie around
PARALLEL_SECONDS = 20e-6  # steps that take less are not worth handing to other threads


@dataclass
class StepReport:
    """One step: its values in words, how much work it is, and where it runs."""

    name: str
    kind: str
    values: list[str]
    units: int
    parallel: bool
    flops: float
    bytes: int
    note: str
    seconds: float = 0.0  # measured, if asked for
    function: str = ""


@dataclass
class Report:
    """What became of a program."""

    steps: list[StepReport] = field(default_factory=list)
    functions: int = 0  # different kernels
    arena: int = 0  # bytes
    unshared: int = 0  # bytes, if no two values shared a place
    called_back: list[str] = field(default_factory=list)  # what NumPy computes
    copied: list[str] = field(default_factory=list)  # updates that could not be made in place
    unfused: dict[str, list[str]] = field(
        default_factory=dict
    )  # values that go through memory, by the reason
    text: str = ""
    seconds: dict[str, float] = field(default_factory=dict)  # of compiling, by stage

    def __str__(self) -> str:
        lines = [
            f"{len(self.steps)} steps, {self.functions} different kernels, arena {self.arena:,} bytes "
            f"({self.unshared:,} without sharing)"
        ]
        for step in self.steps:
            how = "parallel" if step.parallel else "serial"
            timed = f" {step.seconds * 1e6:9.2f} µs" if step.seconds else ""
            lines.append(
                f"{timed} {step.kind:<11} {how:<8} {step.units:5} units {step.flops:12,.0f} flops "
                f"{step.bytes:12,} bytes  {step.note}: {', '.join(step.values)}"
            )
        return "\n".join(lines)


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
        report: Report,
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

    def measure(self, inputs: Sequence[Any], outputs: Sequence[Any], runs: int = 10) -> Report:
        """Run it some times (updates happen each time), and note how long each step takes."""
        self.runner.measure(True)
        for _ in range(runs):
            self(inputs, outputs)
        for step, seconds in zip(self.report.steps, self.runner.times, strict=True):
            step.seconds = seconds
        self.runner.measure(False)
        return self.report


def build(
    program: Program,
    *,
    updates: Mapping[int, int] | None = None,
    numbers: Collection[int] = (),
    target: Target | None = None,
    fuse: bool = True,
    threads: int | None = None,
    keep_text: bool = False,
) -> NativeProgram:
    """Compile a program.

    updates: {output: input}: this output is written into that input's own memory, after all reads of what was
    there. All other outputs go into arrays that a call is given.
    numbers: inputs without axes for which a call is given Python floats, not arrays.
    fuse: False gives every value a kernel of its own, to find out which room a mistake is in.
    threads: how many threads to use at most. keep_text: keep the LLVM text in the report.
    """
    given = (program, dict(updates or {}), numbers, target or host())
    try:
        return _Assembly(*given, fuse, threads, keep_text).build()
    except (AssertionError, Blocked, Inexpressible, Split) as problem:
        if not fuse:
            raise
        # Fusing contradicted itself, which it notices before anything is made: then each value gets its own kernel.
        plain = _Assembly(*given, False, threads, keep_text).build()
        plain.report.unfused = {
            f"fusing the program failed ({problem!r}); please report this": ["everything"]
        }
        return plain


class _Assembly:
    def __init__(
        self,
        program: Program,
        updates: dict[int, int],
        numbers: Collection[int],
        target: Target,
        fuse: bool,
        threads: int | None,
        keep_text: bool,
    ) -> None:
        self.updates, self.numbers, self.target = updates, set(numbers), target
        self.threads = thread_count() if threads is None else threads
        self.keep_text = keep_text
        self.report = Report()
        self.clock = time.perf_counter()
        self.program = _own_outputs(simplify(program))
        self._tick("simplify")
        self.fuser = Fuser(self.program, fuse)
        self.fuser.run()
        self.stored = stored_values(self.fuser)
        if fuse:
            compute_again(self.fuser, self.stored)
        self._tick("fuse")
        self.places: dict[Value, External] = {}
        self.kept: list[PythonKernel] = []

    def _tick(self, stage: str) -> None:
        now = time.perf_counter()
        self.report.seconds[stage] = now - self.clock
        self.clock = now

    def build(self) -> NativeProgram:
        self._place_results()
        order = self._order()
        self.early = self._written_early(order)
        self._tick("order")
        lowering = Lowering(self.fuser, self.stored, self.target)
        kernels: list[tuple[Group, Kernel | None]] = []
        for group in order:
            if group.kind == "call":
                kernels.append((group, None))
            else:
                kernels.extend((group, kernel) for kernel in lowering.kernels(group))
        self._tick("write")
        return self._link(kernels)

    # --- results --------------------------------------------------------------------------------------------

    def _place_results(self) -> None:
        """Give outputs their places in the callers' arrays; updates where nothing reads the old value later.

        A run that fails must leave its inputs as they were. So whatever can fail comes before the first update; what
        has to be known earlier than that is computed beside its input, and copied there in the end.
        """
        fuser = self.fuser
        inputs = self.program.inputs
        for number, value in enumerate(inputs):
            offset = 8 if number in self.numbers and value.dtype.itemsize == 4 else 0
            self.places[value] = External(number, offset)
        argument = len(inputs)
        for number, value in enumerate(self.program.outputs):
            if number not in self.updates:
                if value.size:
                    self.places[value] = External(argument)
                argument += 1
        self.arguments = argument
        failing = [g for g in fuser.groups if g.kind in MAY_FAIL]
        for number, value in enumerate(self.program.outputs):
            if number not in self.updates or not value.size:
                continue
            source = inputs[self.updates[number]]
            writer = fuser.group_of[value]
            too_early = writer.kind in MAY_FAIL or any(g.ancestors & writer.bit for g in failing)
            if too_early or not self._in_place(value, source):
                self.report.copied.append(repr(value))
                copy = Value("copy", (value,), {}, value.shape, value.dtype)
                fuser.fresh_map(copy, alone=True)
                self.stored.update((copy, value))
                value, writer = copy, fuser.group_of[copy]
            for reader in fuser.readers.get(source, ()):
                if reader is not writer:
                    fuser.after(writer, reader)
            for group in failing:
                fuser.after(writer, group)
            self.places[value] = self.places[source]

    def _in_place(self, value: Value, source: Value) -> bool:
        """Whether a result may be written over an input as soon as it is known."""
        fuser = self.fuser
        writer = fuser.group_of[value]
        readers = fuser.readers.get(source, ())
        if value.primitive == "concatenate":  # written by several groups
            return False
        if any(reader is not writer and reader.ancestors & writer.bit for reader in readers):
            return False
        if writer not in readers:
            return True
        if writer.kind not in ("loop", "contract"):
            return False
        index = writer.index[value]
        stages = fuser.stages(writer)
        if writer.inner is not None and fuser.level(writer, index) == "row":
            made_of = fuser.made_of(writer, value)  # read before the value is known, and kept for the row
        else:
            if stages[value] < max(stages.values()):  # a later pass would find the new numbers
                return False
            made_of = set(writer.members)
        for member in writer.members:
            if member.primitive == "gather" and fuser.gathered(member) is source:
                return False
            if member.primitive == "contract":
                if any(source in fuser.leaf_values(o, writer) for o in member.inputs):
                    return False
                continue
            for leaf, where, under in fuser.wanted(writer, member, writer):
                if leaf is source and (
                    under or where != index or leaf.shape != value.shape or member not in made_of
                ):
                    return False
        return True

    # --- order ----------------------------------------------------------------------------------------------

    def _order(self) -> list[Group]:
        """Return the groups in an order that respects everything; checks come as early as they can."""
        groups = [g for g in self.fuser.groups if g.members or g.kind == "check"]
        by_bit = {g.bit: g for g in groups}
        order: list[Group] = []
        done, left_out = 0, ~sum(by_bit)
        for root in sorted(groups, key=lambda g: (g.kind != "check", g.number)):
            stack = [root]
            while stack:
                group = stack[-1]
                waiting = group.ancestors & ~done & ~left_out
                if waiting:
                    assert not waiting & sum(g.bit for g in stack), "groups wait for each other"
                    stack.append(by_bit[waiting & -waiting])
                    continue
                stack.pop()
                if not done & group.bit:
                    done |= group.bit
                    order.append(group)
        assert len(order) == len(groups), "groups wait for each other"
        return self._released_early(order, ~left_out)

    def _released_early(self, order: list[Group], known: int) -> list[Group]:
        """Move up what leaves no more in memory than there was before: a weight's gradient and its update, say.

        Then a layer's arrays can go before the next layer's come, and are read while they are near.
        """
        fuser = self.fuser
        kept = {v for v in self.stored if v not in self.places and v.primitive != "constant"}
        large = {v for v in kept if v.nbytes > FEW_BYTES}  # (a small one may have hundreds of readers)
        reads: dict[int, list[Value]] = {}
        waiting: dict[Value, int] = {}
        for value, readers in fuser.readers.items():
            for group in readers:
                reads.setdefault(id(group), []).append(value)
            waiting[value] = len(readers)
        place = {id(group): i for i, group in enumerate(order)}
        done = 0
        moved: list[Group] = []

        def emit(group: Group) -> None:
            nonlocal done
            done |= group.bit
            moved.append(group)
            for value in reads.get(id(group), ()):
                waiting[value] -= 1

        def is_free(group: Group) -> bool:
            if done & group.bit or group.ancestors & known & ~done:
                return False
            made = sum(m.nbytes for m in group.members if m in kept)
            gone = sum(v.nbytes for v in reads.get(id(group), ()) if v in kept and waiting[v] == 1)
            return made <= gone + FEW_BYTES

        # First what is small: a learning rate in another dtype, say, that everything else would wait for.
        small = (group for group in order if is_free(group))
        for root in itertools.chain(small, order):
            if done & root.bit:
                continue
            emit(root)
            latest = [root]
            while latest:
                group = latest.pop()
                near = [v for v in (*reads.get(id(group), ()), *group.members) if v in large]
                others = {id(g): g for v in near for g in fuser.readers.get(v, ())}
                for other in sorted(others.values(), key=lambda g: place[id(g)]):
                    if is_free(other):
                        emit(other)
                        latest.append(other)
        return moved

    def _written_early(self, order: list[Group]) -> frozenset[int]:
        """Return which outputs may be written, in part or whole, before a run fails."""
        last = max((i for i, group in enumerate(order) if group.kind in MAY_FAIL), default=-1)
        makers = set(map(id, order[: last + 1]))
        return frozenset(
            number
            for number, value in enumerate(self.program.outputs)
            # (What is joined is written by whoever makes the pieces.)
            if number not in self.updates
            and value.size
            and (id(self.fuser.group_of[value]) in makers or (value.primitive == "concatenate" and makers))
        )

    # --- everything together ------------------------------------------------------------------------------

    def _link(self, kernels: list[tuple[Group, Kernel | None]]) -> NativeProgram:
        calls = {id(g): self._call_operands(g) for g, k in kernels if k is None}
        touched: list[list[Any]] = []
        buffers: dict[Any, int] = {}
        for step, (group, kernel) in enumerate(kernels):
            keys: list[Any] = []
            operands = calls[id(group)] if kernel is None else kernel.operands
            for operand in operands:
                if operand is SCRATCH or operand == SCRATCH:
                    assert kernel is not None
                    key: Any = (SCRATCH, step)
                    buffers[key] = kernel.scratch * max(1, self.threads)
                else:
                    key = operand[0] if isinstance(operand, tuple) else operand
                    if not isinstance(key, Value) or key in self.places or key.primitive == "constant":
                        continue
                    buffers[key] = key.nbytes
                keys.append(key)
            touched.append(keys)
        spans = memory.lives(touched, [()] * len(touched))
        plan = memory.place([memory.Buffer(k, n, *spans[k]) for k, n in buffers.items()])
        self.report.arena, self.report.unshared = plan.size, plan.unshared
        self._tick("plan")

        texts: dict[str, str] = {}
        for _, kernel in kernels:
            if kernel is not None and kernel.text not in texts:
                texts[kernel.text] = "\n".join([*kernel.externs.values(), kernel.text])
        codes = compile_functions(list(texts.values()), self.target, "KERNEL")
        names = {text: f"kernel{number}" for number, text in enumerate(texts)}
        addresses = {text: code.address("KERNEL") for text, code in zip(texts, codes, strict=True)}
        self.report.functions = len(names)
        if self.keep_text:
            self.report.text = "\n".join(t.replace("@KERNEL(", f"@{names[key]}(") for key, t in texts.items())
        self._tick("compile")

        table: list[Any] = []
        entries: dict[Any, int] = {}

        def entry(operand: Any, step: int) -> int:
            key = (SCRATCH, step) if isinstance(operand, str) else operand
            if key not in entries:
                entries[key] = len(table)
                table.append(self._place(key, plan))
            return entries[key]

        steps = []
        for number, (group, kernel) in enumerate(kernels):
            values = _words(group)
            if kernel is None:
                operands = calls[id(group)]
                function = self._callback(group, operands)
                self.kept.append(function)
                slots = [entry(o, number) for o in operands]
                steps.append(Step(function.address, slots, label=values[0]))
                self.report.called_back.extend(values)
                self.report.steps.append(StepReport("", "call", values, 1, False, 0.0, 0, "NumPy"))
                continue
            name = names[kernel.text]
            slots = [entry(o, number) for o in kernel.operands]
            parallel = kernel.units > 1 and kernel.seconds > PARALLEL_SECONDS and self.threads > 1
            label = values[0] if values else ""
            if group.check is not None:
                label = f"an index is outside of an axis of length {group.check[1]}"
            steps.append(
                Step(
                    addresses[kernel.text],
                    slots,
                    kernel.units,
                    PARALLEL if parallel else SERIAL,
                    grain=self._grain(group, kernel),
                    label=label,
                )
            )
            moved = sum(
                o.nbytes
                for o in {o[0] if isinstance(o, tuple) else o for o in kernel.operands}
                if isinstance(o, Value)
            )
            self.report.steps.append(
                StepReport(
                    name,
                    group.kind,
                    values,
                    kernel.units,
                    parallel,
                    kernel.flops,
                    moved,
                    kernel.note,
                    0.0,
                    name,
                )
            )
        self._note_unfused()
        runner = Runner(
            table,
            steps,
            arena=plan.size,
            externals=self.arguments,
            keep=[*codes, *self.kept],
            release=bool(self.report.called_back) or sum(k.seconds for _, k in kernels if k) > 100e-6,
            threads=self.threads,
        )
        self._tick("link")
        may_fail = any(group.kind in MAY_FAIL for group, _ in kernels)
        return NativeProgram(runner, self.report, self.kept, self.early, may_fail)

    def _note_unfused(self) -> None:
        """Say of each value that is written only to be read by another kernel why the two are not one."""
        outputs = set(self.program.outputs)
        for value in sorted(self.stored - outputs, key=lambda v: v.number):
            readers = [g for g in self.fuser.readers.get(value, ()) if g is not self.fuser.group_of[value]]
            if readers:
                reason = self._why_not_fused(value, readers)
                self.report.unfused.setdefault(reason, []).append(_word(value))

    def _why_not_fused(self, value: Value, readers: list[Group]) -> str:
        maker = self.fuser.group_of[value]
        if maker.kind == "call" or any(g.kind == "call" for g in readers):
            return "NumPy computes one of the two"
        if any(self._is_factor(value, g) for g in readers):
            return "a product reads its factors from memory"
        if maker.scope.get(value, "row") != "row":
            return "it is known only when all rows are done"
        if any(g.kind in ("scatter", "scan", "concatenate") for g in readers):
            return "a scatter, a running sum or a join reads it from memory"
        if len(readers) > 1:
            return "several kernels read it, and it costs more to compute than to read"
        return "the two go through their elements in different ways, or would wait for each other"

    def _is_factor(self, value: Value, group: Group) -> bool:
        products = [m for m in group.members if m.primitive == "contract"]
        return any(value in self.fuser.leaf_values(operand) for m in products for operand in m.inputs)

    def _grain(self, group: Group, kernel: Kernel) -> int:
        """Return how many units a thread takes at once.

        A product prepares its operand once for neighbouring units: few large pieces, yet more than threads, so
        that one which is held up does not hold up all.
        """
        return max(1, -(-kernel.units // (GRAINS * self.threads))) if group.kind == "contract" else 1

    def _place(self, key: Any, plan: memory.Plan) -> Any:
        """Return where an operand lies."""
        if isinstance(key, tuple) and key[0] == "table":
            return Constant(key[1].array)
        if isinstance(key, tuple) and key[0] == SCRATCH:
            return Arena(plan.offsets[key])
        value, offset = key if isinstance(key, tuple) else (key, 0)
        if value in self.places:
            there = self.places[value]
            return External(there.number, there.offset + offset)
        if value.primitive == "constant":
            return Constant(np.ascontiguousarray(value.attributes["array"]), offset)
        return Arena(plan.offsets[value] + offset)

    # --- what NumPy computes --------------------------------------------------------------------------------

    def _call_operands(self, group: Group) -> list[Value]:
        """Return what a call reads from memory, then what it writes there."""
        members = set(group.members)
        given: dict[Value, None] = {}
        stack = [i for m in group.members for i in m.inputs]
        while stack:
            value = stack.pop()
            if value in members or value.primitive == "constant":
                continue
            # A view that was written out for another group is there only for those that come after it.
            late = value in self.fuser.forced and not group.ancestors & self.fuser.group_of[value].bit
            if (value in self.stored and not late) or value.primitive == "input":
                given[value] = None
            else:
                stack.extend(value.inputs)
        written = [m for m in group.members if m in self.stored]
        return [*(v for v in given if v.size), *written]

    def _callback(self, group: Group, operands: list[Value]) -> PythonKernel:
        """Return a kernel that has NumPy compute a group."""
        members = list(group.members)
        written = [m for m in members if m in self.stored]

        def run(addresses: list[int]) -> None:
            known: dict[Value, Any] = {
                v: array_at(a, v.shape, v.dtype) for v, a in zip(operands, addresses, strict=True)
            }
            results = {v: known.pop(v) for v in written}
            with np.errstate(all="ignore"):
                for value in members:
                    known[value] = _compute(value, known)
            for value, array in results.items():
                array[...] = known[value]

        return PythonKernel(run, len(operands))


def _compute(value: Value, known: dict[Value, Any]) -> Any:
    """Compute a value by NumPy, with the views between it and what is known."""
    inputs = []
    for operand in value.inputs:
        if operand not in known:
            known[operand] = (
                np.empty(operand.shape, operand.dtype)
                if operand.primitive == "input"
                else _compute(operand, known)
            )
        inputs.append(known[operand])
    return evaluate(value, inputs)


def _own_outputs(program: Program) -> Program:
    """Give every output a value of its own, computed for it alone: inputs, constants, views and doubles are copied.

    (A view that is an output and is also read would otherwise be read back from where it is written to.)
    """
    seen: set[Value] = set()
    outputs = []
    for value in program.outputs:
        if value in seen or value.primitive in ("input", "constant") or value.primitive in VIRTUAL:
            value = Value("copy", (value,), {}, value.shape, value.dtype)
        seen.add(value)
        outputs.append(value)
    return Program(program.inputs, outputs)


def _words(group: Group) -> list[str]:
    """Name what a group computes."""
    if group.check is not None:
        return [f"indices below {group.check[1]}"]
    return [_word(member) for member in group.members]


def _word(value: Value) -> str:
    """Name a value by what makes it, and its shape."""
    shape = "×".join(map(str, value.shape)) or "scalar"
    what = value.attributes.get("function", value.attributes.get("spec", ""))
    what = getattr(what, "__name__", what)
    word = str(what) if value.primitive == "map" else f"{value.primitive} {what}".strip()
    return f"{word}[{shape}]"
