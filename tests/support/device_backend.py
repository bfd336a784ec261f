"""A backend that takes a schedule at its word: every group by NumPy, over device arrays that refuse host arrays.

Enters: a schedule and a memory plan. Leaves: a program whose every value lies where the plan says, in one arena of bytes.
What is not stored is computed again by whoever reads it, in every pass; a pass's results reach memory when it is over,
and where an input is written over, every other row is done before the rest. So a wrong order, a wrong place, an update
made too early or a value that nobody wrote show as wrong numbers, whatever the CPU's own code would make of them. Its
figures are small, so that small programs are cut into many pieces.
"""

import itertools
import time

import numpy as np

from minitorch.compiler.backends.interface import ScheduledBackend, Task
from minitorch.compiler.call.explain import flops
from minitorch.compiler.ir.index import offset
from minitorch.compiler.ir.program import evaluate
from minitorch.compiler.ir.sizes import comparing_surely, evaluated, typical
from minitorch.compiler.schedule.groups import COPY, PARTIAL, PLACE, VIRTUAL, is_expressible
from minitorch.compiler.schedule.machine import Figures
from minitorch.compiler.schedule.report import StepReport, group_in_words, lines_of
from minitorch.compiler.schedule.schedule import call_numpy
from standin import DeviceArray, to_device

NEVER_WRITTEN = 0xFF  # in every byte: not a number, as a float


class Machine:
    """Computes every dtype, in blocks and groups that are small."""

    figures = Figures(
        serial_elements=12,
        most_blocks=3,
        column_bytes=64,
        largest_group=12,
        longest_epilogue=3,
        grained_elements=16,
        cheap=2.0,
        far_bytes=128,
        far_cost=30.0,
        few_bytes=16,
        alignment=16,
    )

    def computes(self, value):
        function = value.attributes.get("function")
        fails = function == "power" and value.dtype.kind in "iu"  # a negative one is an error of NumPy's
        return value.dtype.kind in "biufc" and is_expressible(value) and not fails

    def cost(self, function, dtype):
        return 1.0 if function in ("add", "subtract", "multiply", "negative", "where", "cast") else 10.0


class Device(ScheduledBackend):
    machine = Machine()
    sizes_may_vary = True

    def require(self):
        pass

    def tasks(self, schedule):
        return [Task(group, _touched(schedule, group)) for group in schedule.groups]

    def link(self, schedule, tasks, plan):
        report = schedule.report
        for task in tasks:
            words = group_in_words(task.group)
            operations = sum(map(flops, task.group.members))
            moved = typical(sum(value.nbytes for value in task.touches))
            step = StepReport(
                "", task.group.kind, words, flops=operations, bytes=moved, lines=lines_of(task.group)
            )
            report.steps.append(step)
            report.called_back += words if task.group.kind == "call" else []
        return DeviceProgram(schedule, plan)


def _touched(schedule, group):
    """What a group reads or writes in memory."""
    if group.kind == "call":
        read, written = schedule.call_operands(group)
        return [*read, *written]
    touched = {}

    def read(value):
        if value in members:
            return
        if schedule.lies_in_memory(value, group):
            touched[value] = None
        else:
            for operand in value.inputs:
                read(operand)

    members = set(group.members)
    for value in [i for m in group.members for i in m.inputs] if group.kind != "concatenate" else []:
        read(value)
    if group.check is not None:
        read(group.check.indices)
    for member in group.members:
        if member.primitive == PLACE:
            touched[member.attributes["into"]] = None
        elif member in schedule.stored:
            touched[member] = None
    return list(touched)


class DeviceProgram:
    """An Executable: inputs go to the device, outputs and updated inputs come back."""

    def __init__(self, schedule, plan):
        self.schedule, self.plan, self.report = schedule, plan, schedule.report
        self.numbers = frozenset(schedule.numbers)
        self.may_fail = schedule.may_fail
        self.updates = dict(schedule.updates)
        program = schedule.program
        given = iter(range(len(program.inputs), schedule.argument_count))
        self.output_arguments = [
            self.updates[number] if number in self.updates else next(given)
            for number in range(len(program.outputs))
        ]
        self.constants = {
            v: DeviceArray(np.array(v.attributes["array"]))
            for v in program.values()
            if v.primitive == "constant"
        }

    def __call__(self, inputs):
        program = self.schedule.program
        binding = program.binding(inputs)
        ready = [
            np.array(a, dtype=v.dtype if i in self.numbers else None, order="C")
            for i, (a, v) in enumerate(zip(inputs, program.inputs, strict=True))
        ]
        for array, value in zip(ready, program.inputs, strict=True):
            assert (array.shape, array.dtype) == (evaluated(value.shape, binding), value.dtype)
        outputs = [_never_written(o, binding) for i, o in enumerate(program.outputs) if i not in self.updates]
        plan = self.plan.at(binding) if binding else self.plan
        arena = np.full(plan.size, NEVER_WRITTEN, np.uint8)
        run = _Run(self, plan, DeviceArray(arena), [DeviceArray(a) for a in (*ready, *outputs)], binding)
        before = [a.tobytes() for a in (*ready, *outputs)]
        try:
            with comparing_surely(program.guards):
                run.all()
        except Exception:
            self._assert_untouched(run, before)
            raise
        for target in self.updates.values():
            inputs[target][...] = run.arguments[target].host
        return [run.arguments[i].host for i in self.output_arguments]

    def _assert_untouched(self, run, before):
        """A run that is stopped has changed no input, and only those outputs that it said it might."""
        early = {self.output_arguments[number] for number in self.schedule.early}
        for number, (array, was) in enumerate(zip(run.arguments, before, strict=True)):
            assert number in early or array.host.tobytes() == was, f"argument {number} was changed"

    def settle(self):
        pass

    def measure(self, inputs, runs):
        for _ in range(runs):
            self([np.array(a) for a in inputs])

    def text(self):
        return "\n".join(", ".join(group_in_words(group)) for group in self.schedule.groups)


def _never_written(value, binding):
    count, shape = evaluated((value.nbytes, value.shape), binding)
    return np.full(count, NEVER_WRITTEN, np.uint8).view(value.dtype).reshape(shape)


class _Run:
    """One run: memory, and the groups one after the other."""

    def __init__(self, program, plan, arena, arguments, binding):
        self.schedule, self.plan, self.report = program.schedule, plan, program.report
        self.binding = binding
        self.constants = program.constants
        self.arena, self.arguments = arena, arguments

    def all(self):
        with np.errstate(all="ignore"):
            for group, step in zip(self.schedule.groups, self.report.steps, strict=True):
                began = time.perf_counter()
                self.group(group)
                step.seconds = time.perf_counter() - began

    def now(self, anything):
        """Sizes as they are in this run."""
        return evaluated(anything, self.binding) if self.binding else anything

    def memory(self, value):
        """The place of a value, as an array on the device."""
        number = self.schedule.arguments.get(value)
        if number is not None:
            return self.arguments[number]
        if value.primitive == "constant":
            return self.constants.setdefault(value, DeviceArray(np.array(value.attributes["array"])))
        begin = self.plan.offsets[value]
        end = begin + self.now(value.nbytes)
        return self.arena[begin:end].view(value.dtype).reshape(self.now(value.shape))

    def group(self, group):
        if group.kind == "call":
            self.call(group)
        elif group.kind == "check":
            indices = self.known_at(group.check.indices, group, {})
            bound = self.now(group.check.bound)
            if bool(np.any((indices < 0) | (indices >= bound))):
                raise IndexError(f"an index is outside of an axis of length {bound}")
        elif group.kind != "concatenate":
            self.passes(group)

    def call(self, group):
        read, written = self.schedule.call_operands(group)
        known = {value: np.array(self.memory(value).host) for value in read}  # to the host, and back
        call_numpy(group, known, self.binding)
        for value in written:
            self.memory(value)[...] = DeviceArray(np.array(known[value]))

    def passes(self, group):
        """Run a group; one that writes over an input half of the rows first, then the others with what is there now."""
        inputs = len(self.schedule.program.inputs)
        over_an_input = any(self.schedule.arguments.get(member, inputs) < inputs for member in group.members)
        if over_an_input and group.kind in ("loop", "contract"):
            sums = {}
            for half in (False, True):
                self.rows(group, half, sums)
        else:
            self.rows(group)

    def rows(self, group, half=None, sums=None):
        """Run all passes over some rows (half: None for all); `sums`: what folds over rows have come to so far."""
        passes = self.schedule.passes(group)
        kept = {}  # from one pass over a row to the next: what is known of the row as a whole
        for number in range(1 + max(passes.values())):
            known = dict(kept)
            now = [member for member in group.members if passes[member] == number]
            for member in now:
                if half is None or group.is_known_in_row(member):
                    known[member] = self.compute(member, group, known)
                else:
                    known[member] = sums[member] = self.continued(
                        member, group, known, half, sums.get(member)
                    )
            for member in now:
                where = ...
                if half is not None and group.is_known_in_row(member):
                    where = DeviceArray(self.rows_of(group, group.index[member], member.shape) == half)
                self.store(member, known[member], where)
                if group.kind == "loop" and (
                    member in group.source or group.level(group.index[member]) == "row"
                ):
                    kept[member] = known[member]

    def continued(self, fold, group, known, half, so_far):
        """A fold over rows, with half of them added to what there is."""
        source = self.known_at(fold.inputs[0], group, known)
        mine = self.rows_of(group, group.source[fold], fold.inputs[0].shape) == half
        function = fold.attributes["function"]
        masked = np.where(DeviceArray(mine), source, _nothing(function, source.dtype))
        made = self.fold(fold, masked)
        return made if so_far is None else getattr(np, function)(so_far, made)

    def store(self, member, array, where=...):
        if member.primitive == PLACE:
            begin, axis = self.now(member.attributes["begin"]), member.attributes["axis"]
            piece = (slice(None),) * axis + (slice(begin, begin + self.now(member.shape[axis])),)
            self.memory(member.attributes["into"])[piece][where] = array[where]
        elif member in self.schedule.stored:
            self.memory(member)[where] = array[where]

    def known_at(self, value, group, known):
        """A value as a group finds it: known in this pass, in memory, or to be computed (once more)."""
        if value in known:
            assert group.is_known_in_row(value), f"{value} is not known before all rows are done"
            return known[value]
        if value not in group.members and self.schedule.lies_in_memory(value, group):
            return self.memory(value)
        return self.compute(value, group, known)

    def compute(self, value, group, known):
        if value.primitive in ("iota", "size"):
            return to_device(evaluate(value, [], self.binding))
        inputs = [self.known_at(i, group, known) for i in value.inputs]
        if value.primitive in (COPY, PLACE):
            return inputs[0].copy()
        if value.primitive in (PARTIAL, "reduce"):
            return self.fold(value, inputs[0])
        result = evaluate(value, inputs, self.binding)
        if result.dtype != value.dtype:
            result = result.astype(value.dtype)
        return result.copy() if value.primitive in VIRTUAL else result

    def fold(self, value, source):
        return _in_blocks(value, source) if value.primitive == PARTIAL else evaluate(value, [source])

    def rows_of(self, group, index, shape):
        """Which half the row of each element belongs to, by its place in the group's space: like a board's squares."""
        start, terms = offset(index, shape)
        sizes = self.now([d.size for d, _ in terms])
        counters = dict(zip((d for d, _ in terms), np.indices(sizes), strict=True))
        places = self.now(start) + sum(counters[d] * self.now(factor) for d, factor in terms)
        rows = group.dims if group.inner is None else group.outer
        odd = sum(counters[d] for d in rows if d in counters) % 2 == 1
        shape = self.now(shape)
        found = np.zeros(max(1, np.prod(shape, dtype=int)), bool)
        found[places] = odd
        return found.reshape(shape)


def _nothing(function, dtype):
    """What changes nothing when it is folded in."""
    if function in ("add", "multiply"):
        return int(function == "multiply")
    if function in ("logical_and", "logical_or"):
        return function == "logical_and"
    if dtype.kind == "b":
        return function == "minimum"
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    lowest, highest = (-np.inf, np.inf) if limits is None else (limits.min, limits.max)
    return lowest if function == "maximum" else highest


def _in_blocks(value, source):
    """A reduction in as many pieces as the value has: along its first axis that is long enough, or all in one."""
    name, axes, blocks = value.attributes["function"], value.attributes["axes"], value.shape[0]
    function = getattr(np, name)
    axis = next((a for a in axes if source.shape[a] >= blocks), None)
    if axis is None:
        whole = function.reduce(source, axis=axes)
        return np.stack([whole] + [np.full_like(whole, _nothing(name, whole.dtype))] * (blocks - 1))
    bounds = [source.shape[axis] * i // blocks for i in range(blocks + 1)]
    keys = [(slice(None),) * axis + (slice(a, b),) for a, b in itertools.pairwise(bounds)]
    return np.stack([function.reduce(source[key], axis=axes) for key in keys])
