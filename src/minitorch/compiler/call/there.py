"""A program whose arrays lie on a device. Enters: a recording, and what of it lies on the host. Leaves: an Executable.

Parameters, their gradients and the optimiser's state are the device's and stay there. What the host has, and the
program writes (an optimiser's counts of steps, say), is computed on the host, so that nobody waits for the device;
single numbers of the host's are sent along with each call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler import backends
from minitorch.compiler.backends.interface import Executable
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.compiler.ir.program import Program, Value, in_order
from minitorch.compiler.schedule.report import BuildReport
from minitorch.compiler.trace.recorded import Recorded
from minitorch.engine.gpu import DeviceMemory, let_tell, on_host

FEW_NUMBERS = 1 << 18  # bytes that small values touch, at most: those the host computes
_NUMBERS = (np.dtype(np.float32), np.dtype(np.float64))


class LieHere(NamedTuple):
    """Which inputs, and which outputs, of a device's program lie on the host.

    asked: outputs, of one element each, that it computes and the host asks about.
    """

    inputs: set[int]
    outputs: set[int]
    asked: Sequence[int] = ()


def computing(memory: DeviceMemory) -> Elsewhere:
    """Return what computes values of a recording on a device."""
    backend: Any = backends.named(memory.backend)
    try:
        backend.require()
    except (ImportError, RuntimeError):  # who compiles for it says so; meanwhile its library computes
        kernels = None
    else:
        kernels = backend.value_kernels
    return Elsewhere(memory.to_device, memory.to_host, FEW_NUMBERS, memory.erf, kernels)


def program_there(
    backend: Any,
    recorded: Recorded,
    numbers: Collection[int],
    here: LieHere,
    results: int,
    kept: Collection[int],
) -> DeviceProgram:
    """Return what was recorded as a program for a device, whose kernels are being made: it runs when it is loaded.

    numbers: inputs that are Python's. results, kept: how many outputs are the function's, and which a backward needs.
    """
    read = {*range(results), *kept, *(u.output for u in recorded.updates)}
    read |= {rebind.output for rebind in recorded.rebinds if rebind.output is not None} | {*here.asked}
    unread = [i for i in range(len(recorded.program.outputs)) if i not in read]
    return DeviceProgram(backend, recorded, numbers, here, unread)


class DeviceProgram:
    """A program on a device, and the little of it that is done on the host (an `Executable`)."""

    def __init__(
        self,
        backend: Any,
        recorded: Recorded,
        numbers: Collection[int],
        here: LieHere,
        unread: Collection[int],
    ) -> None:
        program = recorded.program
        self.updates = {u.output: u.input for u in recorded.updates}
        self.numbers = frozenset(numbers)
        self.here, self.unread = here, unread  # (what is unread is not computed)
        self._count = len(program.outputs)
        self.brought = sorted(here.outputs)  # outputs that are brought to the host
        self.asked = here.asked
        asked = {program.outputs[i] for i in here.asked}
        own = {
            output: target
            for output, target in self.updates.items()
            if target in here.inputs and _is_made_from(program, output, here.inputs, asked)
        }
        self._rest = [i for i in range(self._count) if i not in own]
        moved = {old: new for new, old in enumerate(self._rest)}
        updates = {moved[o]: target for o, target in self.updates.items() if o in moved}
        sent = set(numbers) | {
            i
            for i in here.inputs - set(updates.values())
            if not program.inputs[i].shape and program.inputs[i].dtype in _NUMBERS
        }
        there = Program(program.inputs, [program.outputs[i] for i in self._rest], program.guards)
        device: Any = backend.begin(there, updates, sorted(sent), [moved[i] for i in unread])
        self.device = device
        self.device.leaves_outputs = True  # (those that the host has are brought)
        # What a program's entry has to know: outputs that are no updates, those that may be written though it fails,
        # and whether something is written back to the host.
        self.given = [self._rest[i] for i in self.device.given]
        self.early = {self._rest[i] for i in self.device.schedule.early}
        self.brings_updates = not here.inputs.isdisjoint(updates.values())
        self.launch, self.fail = self.device.launch, self.device.fail
        self.reads: list[int] = []  # the inputs of what is done here
        self._here: Executable | None = None
        self._program, self._own = program, own

    def load(self) -> None:
        """Make it ready to run."""
        self.device.load()
        if self.may_fail:
            let_tell(self)
        if self._own:
            self._compile_here(self._program, self._own)

    def _compile_here(self, program: Program, own: dict[int, int]) -> None:
        outputs = [program.outputs[i] for i in own]
        asked = [program.outputs[i] for i in self.asked]
        needed = set(in_order(outputs, lambda v: () if v in asked else v.inputs))
        self.reads = [i for i, v in enumerate(program.inputs) if v in needed or i in own.values()]
        inputs, mapped = _inputs_of([*(program.inputs[i] for i in self.reads), *asked], outputs)
        updates = {number: self.reads.index(target) for number, target in enumerate(own.values())}
        numbers = [place for place, i in enumerate(self.reads) if i in self.numbers]
        self._here = backends.named("native").compile(Program(inputs, mapped), updates, numbers)

    def tell(self) -> None:
        """Raise what a run has found, if it has."""
        self.device.tell()

    @property
    def may_fail(self) -> bool:
        """Whether a run may be stopped."""
        return self.device.may_fail

    @property
    def report(self) -> BuildReport | None:
        """What became of the program."""
        return self.device.report

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run it. Inputs that are updated change in place; returns the outputs, None for updates."""
        made = self.device(inputs)
        outputs: list[Any] = [None] * self._count
        for i, array in zip(self._rest, made, strict=True):
            outputs[i] = array
        if self.reads:
            self.here_runs([*(inputs[i] for i in self.reads), *(on_host(outputs[i]) for i in self.asked)])
        for i in self.brought:
            if outputs[i] is not None:
                outputs[i] = on_host(outputs[i])
        return outputs

    def here_runs(self, inputs: list[Any]) -> None:
        """Do what is done on the host, when the device has begun. inputs: those that it reads, and what it asks."""
        assert self._here is not None
        self._here(inputs)

    def settle(self) -> None:
        """Give back the memory that nobody needs before the next run."""
        self.device.settle()

    def measure(self, inputs: list[Any], runs: int) -> None:
        """Run it some times, and note in the report how long each step takes."""
        self.device.measure(inputs, runs)

    def text(self) -> str:
        """Return the code that runs on the device, as text."""
        return self.device.text()


def _is_made_from(program: Program, output: int, inputs: Collection[int], asked: Collection[Value]) -> bool:
    """Tell whether an output is made from these inputs, and what is asked of the device, alone."""
    numbers = {v: i for i, v in enumerate(program.inputs)}
    made_from = in_order([program.outputs[output]], lambda v: () if v in asked else v.inputs)
    return all(numbers[v] in inputs for v in made_from if v in numbers)


def _inputs_of(read: list[Value], outputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return inputs of a program of their own, and the same outputs made from those."""
    made: dict[Any, Any] = {}
    for place, old in enumerate(read):
        made[old] = Value("input", (), {"index": place}, old.shape, old.dtype)
    for value in in_order(outputs, lambda v: () if v in made else v.inputs):
        if value not in made:
            made[value] = Value(
                value.primitive,
                tuple(made[i] for i in value.inputs),
                value.attributes,
                value.shape,
                value.dtype,
            )
    return [made[old] for old in read], [made[o] for o in outputs]
