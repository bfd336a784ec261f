"""Kernels that are launched one after the other. Enters: a schedule's tasks. Leaves: a function of arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.backend import at_sizes
from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution
from minitorch.compiler.backends.cuda.in_turn import in_turn
from minitorch.compiler.backends.cuda.lower import FAILED
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.words import SIZE, Item, Kernel
from minitorch.compiler.backends.interface import Task
from minitorch.compiler.call.update_kernels import NoKernel
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import Binding, Size, evaluated, surely_less
from minitorch.compiler.schedule.memory import MemoryPlan
from minitorch.compiler.schedule.schedule import Schedule
from minitorch.engine import gpu
from minitorch.engine.dtypes import is_bfloat16
from minitorch.engine.recording import is_rehearsing

MOST_FLOPS = 1 << 28  # of a product, or a convolution, that is a kernel of our own
MOST_ROOM = 1 << 16  # bytes of scratch memory that a single launch keeps for the next one
Shapes = Sequence[tuple[int, ...]]
Operands = Sequence[tuple[int, int]]  # which address each lies at (-1: none), and how many bytes from there
Run = Callable[..., None]  # of a stream, and of addresses


class ManySizes:
    """Kernels that serve all sizes: `at` has them for some."""

    def __init__(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan, launcher: Any) -> None:
        self.symbols = list(schedule.program.symbols)
        self._made = schedule, tasks, plan, launcher
        self._loaded = Loaded(launcher)
        lengths = {n for v in schedule.program.values() for n in v.shape if isinstance(n, Size)}
        self._lengths = [n for n in lengths if not surely_less(0, n)]
        self._shapes: Shapes | None = None

    def returning(self, shapes: Shapes) -> ManySizes:
        """Return the same, whose outputs are arrays of these shapes, as long as what is computed."""
        self._shapes = shapes
        return self

    def at(self, sizes: Sequence[int]) -> Launches | None:
        """Return them for some sizes; None if they are not made for those."""
        schedule, tasks, plan, launcher = self._made
        binding = dict(zip(self.symbols, sizes, strict=True))
        kernels = [at_sizes(task.kernel, binding) for task in tasks]
        if any(each is None for each in kernels) or any(evaluated(n, binding) < 1 for n in self._lengths):
            return None
        mine = [dataclasses.replace(task, kernel=each) for task, each in zip(tasks, kernels, strict=True)]
        made = Launches(schedule, mine, plan.at(binding), launcher, binding, self._loaded)
        return made if self._shapes is None else made.returning(self._shapes)


class Loaded:
    """Kernels as the driver's functions, by their instructions; those with the same instructions once.

    texts: of kernels that are one because each of them takes one block: which those are depends on sizes.
    """

    def __init__(self, launcher: Any) -> None:
        self._launcher = launcher
        self.texts: dict[tuple[int, ...], list[Item]] = {}
        self.functions: dict[int, Any] = {}

    def load(self, tasks: Sequence[Task]) -> None:
        """Load the kernels of some steps, also those that do not round, if they are not loaded yet."""
        kernels = [task.kernel for task in tasks if isinstance(task.kernel, Kernel)]
        kernels += [each.exact for each in kernels if each.exact is not None]
        missing = {id(each.items): each for each in kernels if id(each.items) not in self.functions}
        if missing:
            found = self._launcher.load(list(missing.values()))
            self.functions |= dict(zip(missing, found, strict=True))


class Launches:
    """Kernels, one after the other. binding: what sizes that vary are here. loaded: kernels, if some were."""

    def __init__(
        self,
        schedule: Schedule,
        tasks: list[Task],
        plan: MemoryPlan,
        launcher: Any,
        binding: Binding | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        self.report = schedule.report
        self.launcher, self._binding = launcher, binding or {}
        outputs = enumerate(schedule.program.outputs)
        self._outputs = [
            # (Letters, where NumPy has them, are what CuPy takes the fastest.)
            (tuple(evaluated(o.shape, self._binding)), o.dtype if is_bfloat16(o.dtype) else o.dtype.char)
            for i, o in outputs
            if i not in schedule.updates
        ]
        self._scratch = plan.size
        self._kept: tuple[Any, int] | None = None  # scratch memory that is kept
        self._numbers = sorted(schedule.numbers)
        self._constants: list[Any] = []  # kept as long as this
        self._inputs = len(schedule.program.inputs)
        for task in tasks:
            if not isinstance(task.kernel, (Kernel, LibraryProduct, LibraryConvolution)):
                raise NoKernel(f"there is no kernel for {task.group.kind}")
            if (
                isinstance(task.kernel, Kernel)
                and task.group.kind == "contract"
                and task.kernel.flops > MOST_FLOPS
            ):
                raise NoKernel("CuPy's libraries multiply large matrices faster")
        self._checks = [task.group for task in tasks if task.group.kind == "check"]
        # Whether a check has failed, which kernels look at; and which, which the host sees without waiting.
        self._failed: Any = launcher.sent(np.zeros(1, np.int64)) if self._checks else None
        words: Any = launcher.words(len(self._checks) + 1) if self._checks else np.zeros(1, np.int64)
        self._words, self._seen, self._none = words, memoryview(words).cast("B"), bytes(words.nbytes)
        loaded = loaded or Loaded(launcher)
        tasks = in_turn(tasks, loaded.texts)
        loaded.load(tasks)
        functions = loaded.functions
        # What operands are found in: inputs, outputs, scratch if there is any.
        count = self._inputs + len(self._outputs) + bool(self._scratch)
        rounding, exact = [], []  # (the same, but for kernels that round factors)
        for task in tasks:
            kernel = task.kernel
            operands = [self._place(each, schedule, plan) for each in kernel.operands]
            if isinstance(kernel, LibraryProduct):
                exact.append(launcher.multiplying(kernel, operands, count, False))
                both = kernel.dtype == np.float32
                other = launcher.multiplying(kernel, operands, count, True) if both else exact[-1]
            elif isinstance(kernel, Kernel):
                other = launcher.step(functions[id(kernel.items)], kernel, operands, count)
                plain = kernel.exact
                step = launcher.step
                exact.append(
                    other if plain is None else step(functions[id(plain.items)], plain, operands, count)
                )
            else:
                other = launcher.convolving(kernel, operands, count)
                exact.append(other)
            rounding.append(other)
        steps = [a if a is b else launcher.either(a, b) for a, b in zip(rounding, exact, strict=True)]
        self._one = len(steps) == 1
        self._exact: Run = launcher.in_a_row(exact, count)
        self._run: Run = self._exact if steps == exact else launcher.in_a_row(steps, count)
        if self._constants or self._checks:
            launcher.settle()
        if self._checks:
            gpu.let_tell(self)

    def returning(self, shapes: Shapes) -> Launches:
        """Return the same, whose outputs are arrays of these shapes, as long as what is computed."""
        self._outputs = [
            (tuple(evaluated(shape, self._binding)), dtype)
            for shape, (_, dtype) in zip(shapes, self._outputs, strict=True)
        ]
        return self

    def _place(self, operand: Any, schedule: Schedule, plan: MemoryPlan) -> tuple[int, int]:
        """Return what an operand lies in, and how many bytes into it; -1, and its address, if that stays the same."""
        value, offset = operand if isinstance(operand, tuple) else (operand, 0)
        offset = evaluated(offset, self._binding)
        if value == SIZE:
            return -1, offset
        if value == FAILED:
            address = self.launcher.address
            return -1, self._words.ctypes.data + 8 * offset if offset else address(self._failed)
        argument = schedule.arguments.get(value)
        if argument is not None and argument in self._numbers:  # of each its float64 and its float32
            place = 16 * self._numbers.index(argument) + 8 * (value.dtype.itemsize == 4)
            return self._numbers[0], place + offset
        if argument is not None:
            return argument, offset
        if isinstance(value, Value) and value.primitive == "constant":
            self._constants.append(self.launcher.sent(np.ascontiguousarray(value.attributes["array"])))
            return -1, self.launcher.address(self._constants[-1]) + offset
        return self._inputs + len(self._outputs), plan.offsets[value] + offset

    def __call__(
        self, arrays: Sequence[Any], shape: Any = None, addresses: Sequence[int] | None = None
    ) -> list[Any]:
        """Run them; returns the outputs. shape: theirs, where the arrays were laid out in a row.

        addresses: of the arrays, if they are known. (Of numbers, there is one array for all.)
        """
        launcher = self.launcher
        if self._checks and self._seen != self._none:
            self._fail()
        made = [launcher.empty(own if shape is None else shape, dtype) for own, dtype in self._outputs]
        address = launcher.address
        if addresses is None:
            addresses = [0 if each is None else address(each) for each in arrays]
        given = [*addresses, *[address(each) for each in made]]
        stream = launcher.stream().ptr
        if self._scratch:
            _held, at = self._kept if stream == 0 and self._kept else self._room(stream)
            given.append(at)
        run = self._exact if self._exact is not self._run and is_rehearsing() else self._run
        run(stream, *given)
        return made

    def _room(self, stream: int) -> tuple[Any, int]:
        """Return scratch memory, and its address.

        A single launch's is kept for the next on the stream that is there from the beginning: its launches wait for
        each other, it never ends, and no graph is captured from it. Of any other stream not all of this is so.
        """
        found = self.launcher.scratch(self._scratch)
        if stream == 0 and self._one and self._scratch <= MOST_ROOM:
            self._kept = found
        return found

    def in_machine_code(self, shape: Any) -> tuple[Run, list[tuple[Any, Any]]] | None:
        """Return what runs them, and what arrays it takes besides those it is given: results, and memory meanwhile.

        shape: as of a call. None: indices are checked, which Python looks at.
        """
        if self._checks:
            return None
        made = [(own if shape is None else shape, dtype) for own, dtype in self._outputs]
        return self._run, made + ([((self._scratch,), "B")] if self._scratch else [])

    def tell(self) -> None:
        """Raise what a run has found, if it has."""
        if self._seen != self._none:
            self._fail()

    def _fail(self) -> None:
        """Raise what an earlier run has found."""
        check = self._checks[int(np.argmax(self._words[1:]))].check
        assert check is not None
        self._failed[...] = 0
        self._words[:] = 0
        raise IndexError(
            f"an index was outside of an axis of length {evaluated(check.bound, self._binding)}, in an earlier call "
            "on the GPU"
        )


class DeviceKernel:
    """A function of arrays as kernels. results, alone: as of call.kernels.Kernel."""

    def __init__(self, run: Launches, results: list[int | None], alone: bool) -> None:
        self.run, self.results, self.alone = run, results, alone
        # How many results are what is made, in that order (-1: one, which is returned alone); 0: some are not.
        made = [~i for i in range(len(results))]
        self.made = 0 if results != made else -1 if alone else len(made)

    def __call__(
        self, arrays: Sequence[Any], shape: tuple[int, ...] | None, addresses: Sequence[int] | None = None
    ) -> Any:
        """Run it. shape: of the results, where the arrays were laid out in a row. addresses: if they are known."""
        made = self.run(arrays, shape, addresses)
        if self.alone:
            (only,) = self.results
            if only is not None and only < 0:
                return made[~only]
        given = arrays if shape is None else [each.reshape(shape) for each in arrays]
        found = [None if i is None else given[i] if i >= 0 else made[~i] for i in self.results]
        return found[0] if self.alone else tuple(found)
