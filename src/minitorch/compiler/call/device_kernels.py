"""Eager ops on a GPU as kernels of our own. Enters: an op's forward or rule, and arrays there. Leaves: its results.

The function runs once on arrays that record (trace/) and of which only shapes are known; what it writes down becomes
one kernel, or a few, of the backend for GPUs, which are launched one after the other on the current stream. They are
kept by dtypes, shapes and attributes; where a function comes with other lengths again and again, the axes that differ
vary from then on, and the same kernels serve all their lengths. The first calls are computed value by value, and what
kernels give the first time is compared with that. None is the answer where CuPy is to compute: llvmlite is not
installed, an order in memory that kernels do not know, a part of the function for which there is no kernel.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.backend import CudaBackend, at_sizes
from minitorch.compiler.backends.cuda.capabilities import GPU_FIGURES, Gpu
from minitorch.compiler.backends.cuda.convolutions import (
    Convolution,
    LibraryConvolution,
    is_known,
    multiplications,
)
from minitorch.compiler.backends.cuda.devices import ALIGNMENT, MOST_DYNAMIC_SHARED, Cuda
from minitorch.compiler.backends.cuda.in_turn import in_turn
from minitorch.compiler.backends.cuda.launching import DRIVER, Finder, address_of, launching
from minitorch.compiler.backends.cuda.lower import FAILED
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, SIZE, Kernel, gpu_text
from minitorch.compiler.backends.interface import Task
from minitorch.compiler.call import verify
from minitorch.compiler.call.kernels import Fixed, Function, recorded, warn
from minitorch.compiler.call.there import computing
from minitorch.compiler.call.update_kernels import FLOATS, Changes, NoKernel, changes, fixed_numbers
from minitorch.compiler.ir.elsewhere import Elsewhere, lies_here
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.polynomial import LEAST
from minitorch.compiler.ir.program import Program, Value, interpret
from minitorch.compiler.ir.sizes import Binding, Size, evaluated, surely_less
from minitorch.compiler.schedule.memory import MemoryPlan
from minitorch.compiler.schedule.schedule import Schedule
from minitorch.compiler.trace.promised import NumbersMissing, promise
from minitorch.compiler.trace.refusal import CompileError
from minitorch.engine import gpu, recording
from minitorch.engine.dtypes import is_bfloat16, kind_of
from minitorch.engine.precision import may_round
from minitorch.ops.native import ELEMENTWISE
from minitorch.ops.op import OPS, UNLISTED

DTYPES = frozenset(np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.bool_)).union(HALVES)
CALLS = 3  # of one kind, before a kernel is made for it
MOST_SHAPES = 64  # that kernels of one function are made for
NO_CONTEXT = 201  # the driver's code of a thread that has not met the GPU yet
MOST_FLOPS = 1 << 28  # of a product, or a convolution, that is a kernel of our own
LEAST_CONVOLVED = 1 << 20  # multiplications of a library's convolution: below, its call takes longer
MOST_QUICK = 4096  # that are found without a second look
MOST_TRIES = 3  # to make kernels of a function for all lengths
LARGE = 1 << 20  # elements, from which on a kernel takes longer than its launch
MUCH = 1 << 30  # elements, after which large arrays of the same lengths are worth a kernel of their own
MOST_NUMBERS = 8  # sets of numbers that are kept on the device
MOST_ROOM = 1 << 16  # bytes of scratch memory that a kernel keeps for a stream
MOST_ROOMS = 8  # for so many streams
EACH_THREADS = 2  # the name of a stream that is another one in each thread

_met: dict[Any, int] = {}
_kernels: dict[Any, DeviceKernel | None] = {}
_shapes: dict[Any, int] = {}  # how many kernels a function has
# Kernels by the classes, shapes and dtypes of arrays, which lie in the order of their axes; with them: the results'
# shape, and what to do where that is one launch: this, the shape and dtype of the array that it makes, what makes one,
# and what knows the stream.
_quick: dict[Any, tuple[DeviceKernel, Any, tuple[Step, Any, Any, Any, Any] | None]] = {}
_lengths: dict[Any, _Lengths] = {}  # what is known of a function's lengths, by all but those
_sized: dict[Any, DeviceKernel] = {}  # kernels for all lengths, as they are for some
_recorded: dict[Any, tuple[Program, list[int | None], bool] | None] = {}  # functions before they have kernels
_computed: dict[Any, int] = {}  # how many elements these have computed of some lengths
Shapes = tuple[tuple[int, ...], ...]
Step = Callable[..., None]  # a launch: of a stream, and of addresses
_NUMBERS = {float, int, bool, type(None)}
_making = threading.Lock()
_UNKNOWN: Any = object()


class Launcher:
    """How kernels are loaded and launched on a GPU, and where arrays come from."""

    def __init__(self) -> None:
        self.device = Cuda()
        self.device.require()
        self._cupy = self.device.cupy
        self._driver = address_of(ctypes.CDLL(DRIVER).cuLaunchKernel)
        self._fail: Any = self._cupy.cuda.driver.check_status  # raises what a code of the driver's means
        self.empty: Any = _maker(self._cupy.ndarray)  # makes an array, of a shape and a dtype
        self.stream: Any = self._cupy.cuda.get_current_stream  # which has a `ptr`
        # What does as `quick` does, in machine code; None: this CuPy makes its arrays in another way.
        kind = self._cupy.ndarray
        pointer = self._cupy.cuda.MemoryPointer
        self.finder = Finder(kind, self.stream, pointer) if hasattr(kind, "_init") else None

    def load(self, kernels: list[Kernel]) -> list[Any]:
        """Return kernels as the driver's functions."""
        module = self._cupy.cuda.function.Module()
        module.load(ptx(gpu_text(kernels), self.device.processor))
        found = [module.get_function(f"kernel{number}") for number in range(len(kernels))]
        for function, kernel in zip(found, kernels, strict=True):
            if kernel.shared > SHARED_BYTES:
                self._cupy.cuda.driver.funcSetAttribute(function.ptr, MOST_DYNAMIC_SHARED, kernel.shared)
        return found

    def step(self, function: Any, kernel: Kernel, operands: list[tuple[int, int]], count: int) -> Step:
        """Return a launch of what `load` has returned for a kernel, or for the same with another number of blocks.

        operands: which of the addresses each lies at (-1: none), and how many bytes from there. count: of addresses.
        """
        more = kernel.shared if kernel.shared > SHARED_BYTES else 0
        grid = kernel.blocks, kernel.threads, more
        prepare, fail = self._prepare, self._fail
        return launching(self._driver, function.ptr, grid, count, operands, prepare, fail, function)

    def _prepare(self, code: int) -> None:
        """Raise what a code of the driver's means; but a thread that has not met the GPU yet is introduced to it."""
        if code != NO_CONTEXT:
            self._fail(code)
        self._cupy.cuda.Device().use()
        self._cupy.cuda.runtime.memGetInfo()

    def multiply(self, product: LibraryProduct, addresses: Sequence[int], stream: int) -> None:
        """Let a library compute a product."""
        self.device.library.launch(product, list(addresses), stream)

    def convolve(self, convolution: LibraryConvolution, addresses: Sequence[int], stream: int) -> None:
        """Let a library compute a convolution."""
        self.device.convolutions.compute(convolution, addresses, stream)

    def scratch(self, size: int) -> tuple[Any, int]:
        """Return memory, and its address."""
        memory = self._cupy.cuda.alloc(size)
        return memory, memory.ptr

    def address(self, array: Any) -> int:
        """Return where an array begins."""
        return array.data.ptr

    def sent(self, array: np.ndarray) -> Any:
        """Return an array on the device. (The driver keeps a copy of it, and nobody waits.)"""
        found, runtime = self.empty(array.shape, array.dtype), self._cupy.cuda.runtime
        stream = self.stream().ptr
        runtime.memcpyAsync(
            found.data.ptr, array.ctypes.data, array.nbytes, runtime.memcpyHostToDevice, stream
        )
        return found

    def words(self, count: int) -> np.ndarray:
        """Return numbers of the host's, all 0, that kernels can write to: the GPU sees pinned memory too."""
        words = np.frombuffer(self._cupy.cuda.alloc_pinned_memory(8 * count), np.int64, count)
        words[:] = 0
        return words

    def computing(self) -> Elsewhere:
        """Return what computes values one by one."""
        return computing(gpu.memory())


def _maker(kind: Any) -> Callable[[Any, Any], Any]:
    """Return what makes a CuPy array of a shape and a dtype."""
    start = getattr(kind, "_init", None)
    if start is None:  # (a CuPy without it)
        return kind
    new = kind.__mro__[1].__new__

    def make(shape: Any, dtype: Any) -> Any:  # what kind(shape, dtype) does, in two thirds of the time
        array = new(kind)
        array._init(shape, dtype)
        return array

    return make


class EagerBackend(CudaBackend):
    """The backend for GPUs, whose programs are launched kernel by kernel: one more takes longer than a larger block."""

    # To launch another kernel takes longer than that one block goes through a few rows more.
    machine = Gpu(dataclasses.replace(GPU_FIGURES, rows_of_a_block=64))

    def __init__(self, launcher: Any) -> None:
        super().__init__(launcher.device)
        self.launcher = launcher

    @functools.cached_property
    def by_values(self) -> Elsewhere:
        """What computes values one by one, by kernels that know no lengths."""
        return self.launcher.computing()

    def convolves(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is a library's: it takes one launch."""
        large = multiplications(product, found) >= LEAST_CONVOLVED
        return large and is_known(product, found) and self.device.convolves

    def turns(self, product: Value, found: Convolution) -> bool:
        """Whether a convolution is to have its channels last: its arrays are given and wanted with channels first."""
        return False

    def link(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan) -> Any:
        """Return kernels as something that runs."""
        if schedule.program.symbols:
            return ManySizes(schedule, tasks, plan, self.launcher)
        return Launches(schedule, tasks, plan, self.launcher)


class ManySizes:
    """Kernels that serve all sizes: `at` has them for some."""

    def __init__(self, schedule: Schedule, tasks: list[Task], plan: MemoryPlan, launcher: Any) -> None:
        self.symbols = list(schedule.program.symbols)
        self._made = schedule, tasks, plan, launcher
        different = {id(task.kernel.items): task.kernel for task in tasks if isinstance(task.kernel, Kernel)}
        self._loaded = dict(zip(different, launcher.load(list(different.values())), strict=True))
        lengths = {n for v in schedule.program.values() for n in v.shape if isinstance(n, Size)}
        self._lengths = [n for n in lengths if not surely_less(0, n)]

    def at(self, sizes: Sequence[int]) -> Launches | None:
        """Return them for some sizes; None if they are not made for those."""
        schedule, tasks, plan, launcher = self._made
        binding = dict(zip(self.symbols, sizes, strict=True))
        kernels = [at_sizes(task.kernel, binding) for task in tasks]
        if any(each is None for each in kernels) or any(evaluated(n, binding) < 1 for n in self._lengths):
            return None
        mine = [dataclasses.replace(task, kernel=each) for task, each in zip(tasks, kernels, strict=True)]
        return Launches(schedule, mine, plan.at(binding), launcher, binding, self._loaded)


class Launches:
    """Kernels, one after the other. binding: what sizes that vary are here. loaded: the kernels, if they were."""

    def __init__(
        self,
        schedule: Schedule,
        tasks: list[Task],
        plan: MemoryPlan,
        launcher: Any,
        binding: Binding | None = None,
        loaded: dict[int, Any] | None = None,
    ) -> None:
        self.report = schedule.report
        self._launcher, self._binding = launcher, binding or {}
        outputs = enumerate(schedule.program.outputs)
        self._outputs = [
            # (Letters, where NumPy has them, are what CuPy takes the fastest.)
            (tuple(evaluated(o.shape, self._binding)), o.dtype if is_bfloat16(o.dtype) else o.dtype.char)
            for i, o in outputs
            if i not in schedule.updates
        ]
        self._scratch = plan.size
        self._rooms: dict[int, tuple[Any, int]] = {}  # scratch memory that is kept, by the stream
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
        if loaded is None:
            tasks = in_turn(tasks)
        kernels = [task.kernel for task in tasks if isinstance(task.kernel, Kernel)]
        kernels += [each.exact for each in kernels if each.exact is not None]
        different = {id(kernel.items): kernel for kernel in kernels}
        functions = loaded
        if functions is None:
            functions = dict(zip(different, launcher.load(list(different.values())), strict=True))
        # What operands are found in: inputs, outputs, scratch if there is any.
        count = self._inputs + len(self._outputs) + bool(self._scratch)
        self._steps: list[Step] = []
        for task in tasks:
            kernel = task.kernel
            operands = [self._place(each, schedule, plan) for each in kernel.operands]
            if isinstance(kernel, Kernel):
                step = launcher.step(functions[id(kernel.items)], kernel, operands, count)
                if kernel.exact is not None:
                    exact = launcher.step(functions[id(kernel.exact.items)], kernel.exact, operands, count)
                    step = functools.partial(_either, step, exact)
            else:
                library = launcher.multiply if isinstance(kernel, LibraryProduct) else launcher.convolve
                step = functools.partial(_by_library, library, kernel, operands)
            self._steps.append(step)

    def _place(self, operand: Any, schedule: Schedule, plan: MemoryPlan) -> tuple[int, int]:
        """Return what an operand lies in, and how many bytes into it; -1, and its address, if that stays the same."""
        value, offset = operand if isinstance(operand, tuple) else (operand, 0)
        offset = evaluated(offset, self._binding)
        if value == SIZE:
            return -1, offset
        if value == FAILED:
            address = self._launcher.address
            return -1, self._words.ctypes.data + 8 * offset if offset else address(self._failed)
        argument = schedule.arguments.get(value)
        if argument is not None and argument in self._numbers:  # of each its float64 and its float32
            place = 16 * self._numbers.index(argument) + 8 * (value.dtype.itemsize == 4)
            return self._numbers[0], place + offset
        if argument is not None:
            return argument, offset
        if isinstance(value, Value) and value.primitive == "constant":
            self._constants.append(self._launcher.sent(np.ascontiguousarray(value.attributes["array"])))
            return -1, self._launcher.address(self._constants[-1]) + offset
        return self._inputs + len(self._outputs), plan.offsets[value] + offset

    def __call__(
        self, arrays: Sequence[Any], shape: Any = None, addresses: Sequence[int] | None = None
    ) -> list[Any]:
        """Run them; returns the outputs. shape: theirs, where the arrays were laid out in a row.

        addresses: of the arrays, if they are known. (Of numbers, there is one array for all.)
        """
        launcher = self._launcher
        if self._checks and self._seen != self._none:
            self._fail()
        made = [launcher.empty(own if shape is None else shape, dtype) for own, dtype in self._outputs]
        address = launcher.address
        if addresses is None:
            addresses = [0 if each is None else address(each) for each in arrays]
        given = [*addresses, *[address(each) for each in made]]
        stream = launcher.stream().ptr
        if self._scratch:
            _held, at = self._rooms.get(stream) or self._room(stream)
            given.append(at)
        for step in self._steps:
            step(stream, *given)
        return made

    def _room(self, stream: int) -> tuple[Any, int]:
        """Return scratch memory, and its address: a single launch's is kept for the next on its stream, which waits."""
        found = self._launcher.scratch(self._scratch)
        if len(self._steps) == 1 and self._scratch <= MOST_ROOM and stream != EACH_THREADS:
            if len(self._rooms) >= MOST_ROOMS:
                self._rooms.clear()
            self._rooms[stream] = found
        return found

    def only_step(self) -> tuple[Step, Any, Any] | None:
        """Return the launch, where it is the only one and makes one array, of which shape and dtype; else None."""
        if len(self._steps) != 1 or len(self._outputs) != 1 or self._scratch or self._checks:
            return None
        return self._steps[0], *self._outputs[0]

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


def _either(rounding: Step, exact: Step, *given: int) -> None:
    """Launch a kernel, or the one that rounds no factors."""
    (rounding if may_round() else exact)(*given)


def _by_library(
    library: Callable[..., None], what: Any, operands: list[tuple[int, int]], stream: int, *given: int
) -> None:
    """Let a library compute something."""
    library(what, [offset if at < 0 else given[at] + offset for at, offset in operands], stream)


class DeviceKernel:
    """A function of arrays as kernels. results, alone: as of call.kernels.Kernel."""

    def __init__(self, run: Launches, results: list[int | None], alone: bool) -> None:
        self.run, self.results, self.alone = run, results, alone
        # The launch, where it is the only one, with the shape and the dtype of the array that it makes.
        self.only = run.only_step() if alone and results == [-1] else None

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


# --- functions that change arrays: an optimiser's rule ---------------------------------------------------------


def update(function: Callable[..., None], arrays: list[Any], numbers: tuple[Any, ...]) -> bool:
    """Do function(arrays, numbers), which changes some of the arrays, by a kernel; return whether it was done."""
    kind, shape, dtype = arrays[0].__class__, arrays[0].shape, arrays[0].dtype
    addresses = []
    for array in arrays:
        if array.__class__ is not kind or array.shape != shape or array.dtype != dtype:
            return False
        address = array.data.ptr
        if address % ALIGNMENT or not array._c_contiguous:
            return False
        addresses.append(address)
    fixed = fixed_numbers(numbers)
    key = (function, dtype, shape, len(arrays), fixed)
    try:
        kernel = _updates.get(key, _UNKNOWN)
    except TypeError:
        return False
    if kernel is None:
        return False
    if kernel is _UNKNOWN:
        return _update_later(key, function, arrays, numbers, fixed)
    kernel(addresses, numbers)
    return True


class Update:
    """Kernels that change arrays. changed: which. tells: how each number that they are told is computed."""

    def __init__(self, run: Launches, changed: list[int], tells: list[Callable[..., float]]) -> None:
        self.run, self.changed, self.tells = run, changed, tells

    def __call__(self, addresses: list[int], numbers: tuple[Any, ...]) -> None:
        """Run it, on arrays that begin at these addresses."""
        if self.tells:
            held = self._sent(tuple([tell(numbers) for tell in self.tells]))
            address = self.run._launcher.address(held)
            addresses = addresses + [address] * len(self.tells)  # (they are all in one array)
        self.run((), None, addresses)

    def _sent(self, numbers: tuple[float, ...]) -> Any:
        """Return numbers on the device, in one array."""
        launcher = self.run._launcher
        key = (launcher.stream().ptr, numbers)
        found = _numbers.get(key)
        if found is None:
            if len(_numbers) >= MOST_NUMBERS:
                _numbers.clear()
            pairs = np.zeros(len(numbers), [("wide", "f8"), ("narrow", "f4"), ("", "f4")])
            pairs["wide"] = pairs["narrow"] = numbers
            found = _numbers[key] = launcher.sent(pairs.view(np.int64))
        return found


_updates: dict[Any, Update | None] = {}
_changes: dict[Any, Changes] = {}  # what has no kernels yet
_numbers: dict[Any, Any] = {}  # sent lately: the parameters of a group are told the same


def _update_later(
    key: Any,
    function: Callable[..., None],
    arrays: list[Any],
    numbers: tuple[Any, ...],
    fixed: tuple[Any, ...],
) -> bool:
    """Do it value by value, there being no kernel yet; make one at the last of some calls."""
    met = _met[key] = _met.get(key, 0) + 1
    with _making:
        backend, _updates[key] = _backend(), None
        if backend is None or _shapes.get(function, 0) >= MOST_SHAPES or arrays[0].dtype not in FLOATS:
            return False
        kernel = copies = None
        try:
            found = _recorded_change(key, function, arrays, numbers, fixed)
            if met >= CALLS:
                _shapes[function] = _shapes.get(function, 0) + 1
                kernel = Update(
                    backend.build(found.program, found.updates, found.numbers), found.changed, found.tells
                )
        except (NoKernel, NumbersMissing, CompileError):
            return False
        compute = backend.by_values
        if kernel is not None:
            copies = [a.copy() for a in arrays]
            sizes = [(_largest(a, compute), a.size) for a in arrays]
            kernel([each.data.ptr for each in copies], numbers)
        told = [np.asarray(tell(numbers), arrays[0].dtype) for tell in found.tells]
        rows = [array.reshape(-1) for array in arrays]
        try:
            compute.prepare(found.program.values())
            outputs = interpret(found.program, [*rows, *told], compute=compute)
        except MemoryError:  # CuPy takes less
            return False
        for i, made in zip(found.changed, outputs, strict=True):
            np.copyto(rows[i], compute.to_device(made) if lies_here(made) else made)
        if copies is None:
            del _updates[key]
        elif all(_close(copies[i], arrays[i], sizes, compute) for i in found.changed):
            _updates[key] = kernel
            del _changes[key]
        else:
            warn(function, "does not give what its steps give", "CuPy")
        return True


def _recorded_change(
    key: Any, function: Callable[..., None], arrays: list[Any], numbers: Any, fixed: Any
) -> Changes:
    """Return a function that changes arrays as a program."""
    if key not in _changes:
        shape = (arrays[0].size,)
        inputs = [Value("input", (), {"index": i}, shape, a.dtype) for i, a in enumerate(arrays)]
        promised = [promise(shape, a.dtype) for a in arrays]
        _changes[key] = changes(function, inputs, promised, numbers, fixed)
    return _changes[key]


# --- what they are made by ------------------------------------------------------------------------------------

_backends: list[EagerBackend] = []


def use(launcher: Any) -> None:
    """Choose what kernels are launched by, from now on: a GPU, unless somebody says otherwise."""
    _backends[:] = [EagerBackend(launcher)]
    if launcher.finder is not None:
        for op in (*OPS.values(), *UNLISTED):
            op.shorten(launcher.finder.shortcut)
    for each in (
        _met,
        _kernels,
        _shapes,
        _quick,
        _lengths,
        _sized,
        _recorded,
        _computed,
        _updates,
        _changes,
        _numbers,
    ):
        each.clear()


def _backend() -> EagerBackend | None:
    if not _backends:
        try:
            use(Launcher())
        except (ImportError, RuntimeError):
            return None
    return _backends[0]


def quick(function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return what a function gives of arrays of which it has met the like, as they are."""
    key: list[Any] = [function]
    addresses = []
    try:
        for each in inputs:
            kind = each.__class__
            if kind in _NUMBERS:
                key += kind, each if each or each is None else str(each)  # (0.0 is no -0.0)
                continue
            address = each.data.ptr
            if address % ALIGNMENT or not each._c_contiguous:  # (`flags` would take five times as long)
                return None
            addresses.append(address)
            key += kind, each.shape, each.dtype
        if attributes:
            key += _apart(attributes)
        found = _quick.get(tuple(key))
    except (AttributeError, TypeError):  # a list of arrays; an attribute that cannot be a part of a key
        return None
    if found is None:
        return None
    kernel, shape, only = found
    if only is None:
        return kernel([each for each in inputs if each.__class__ not in _NUMBERS], shape, addresses)
    step, shape, dtype, empty, stream = only
    out = empty(shape, dtype)
    step(stream().ptr, *addresses, out.data.ptr)
    return out


def _keep_for_quick(
    function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any], kernel: DeviceKernel, shape: Any
) -> None:
    """Let `quick` find a kernel. shape: of the results, where the arrays were laid out in a row."""
    launcher = kernel.run._launcher
    finder = launcher.finder
    if len(_quick) >= MOST_QUICK:
        _quick.clear()
        if finder is not None:
            finder.entries.clear()
    key: list[Any] = [function]
    for each in inputs:
        kind = each.__class__
        if kind in _NUMBERS:
            key += kind, each if each or each is None else str(each)
        else:
            key += kind, each.shape, each.dtype
    only = None
    if kernel.only is not None:
        step, own, dtype = kernel.only
        made = own if shape is None else shape
        only = step, made, dtype, launcher.empty, launcher.stream
        told = attributes.values()
        if finder is not None and not any(
            [each.__class__ in _NUMBERS for each in inputs] + [_is_zero(each) for each in told]
        ):
            named = [part for name, each in attributes.items() for part in (name, each, type(each))]
            parts = [part for each in inputs for part in (each.shape, each.dtype)]
            finder.keep((function, *parts, *named), step, made, dtype)
    _quick[*key, *_apart(attributes)] = kernel, shape, only


def _apart(attributes: dict[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a part of a key, in which 1, True and 1.0 differ, and 0.0 and -0.0."""
    told = (
        attributes.items()
    )  # (what `_is_zero` tells stands here: a call of it for each would take as long as the rest)
    return tuple(
        [
            (name, each.__class__, str(each) if each.__class__ is float and not each else each)
            for name, each in told
        ]
    )


def _is_zero(each: Any) -> bool:
    return each.__class__ is float and not each


def compute(
    function: Function, plain: Function, inputs: tuple[Any, ...], attributes: dict[str, Any], lengths: str
) -> Any:
    """Return what a function gives, by kernels; None if that is left to CuPy, which computes it by `plain`."""
    first = inputs[1] if inputs[0].__class__ is float else inputs[0]
    kind = (first[0] if isinstance(first, list) else first).__class__
    arrays: list[Any] = []
    tree: list[Any] = []
    for each in inputs:
        if each.__class__ is kind:
            tree.append(-1)
            arrays.append(each)
        elif each is None:
            tree.append(None)
        elif isinstance(each, (list, tuple)):
            tree.append(len(each))
            arrays += each
        elif each.__class__ in (float, int, bool):
            tree.append(Fixed(each, each.__class__ if each else str(each)))
        else:
            return None
    pattern = []
    as_they_are = True
    for i, array in enumerate(arrays):
        if array.__class__ is not kind or not array.size:
            return None
        if not array.flags.c_contiguous:
            if 0 not in array.strides:  # a result of CuPy's would lie in memory as the array does
                return None
            arrays[i] = array = array.copy(order="C")
            as_they_are = False
        pattern.append((array.dtype, array.shape))
    flat = lengths == ELEMENTWISE and all(shape == pattern[0][1] for _, shape in pattern)
    shape = None
    if flat and len(pattern[0][1]) != 1:
        shape = pattern[0][1]
        pattern = [(dtype, arrays[0].size) for dtype, _ in pattern]
    key = (function, tuple(tree), tuple(pattern), _apart(attributes) if attributes else ())
    try:
        kernel = _kernels.get(key, _UNKNOWN)
    except TypeError:  # an attribute that cannot be a part of a key
        return None
    if kernel is None:
        return None
    if kernel is _UNKNOWN:
        kernel = _for_all_lengths(key, arrays, shape)
        if kernel is not _UNKNOWN and max([array.size for array in arrays]) >= LARGE:
            as_they_are = False  # (what is found quickly is not counted)
            kernel = _of_its_own(key, arrays, attributes, shape, kernel)
    if kernel is not _UNKNOWN:
        address = kernel.run._launcher.address
        for array in arrays:
            if address(array) % ALIGNMENT:
                return None
        if as_they_are and not any(isinstance(each, (list, tuple)) for each in inputs):
            _keep_for_quick(function, inputs, attributes, kernel, shape)
        return kernel(arrays, shape)
    return _later(key, function, plain, inputs, arrays, tuple(tree), attributes, shape)


def _later(
    key: Any,
    function: Function,
    plain: Function,
    inputs: tuple[Any, ...],
    arrays: list[Any],
    tree: Any,
    attributes: dict[str, Any],
    shape: Any,
) -> Any:
    """Count a call for which there is no kernel; make one at the last of some, whose results are CuPy's still."""
    if recording.recorder() is not None:  # arrays that record would go to somebody else's program
        return None
    met = _met[key] = _met.get(key, 0) + 1
    lengths = _in_a_row(arrays, shape)
    known = _lengths.setdefault(_without_lengths(key, arrays, lengths), _Lengths(lengths))
    vary = known.vary(lengths)
    expected = _value_by_value(key, arrays, attributes, shape)
    if met < CALLS and not vary:
        return expected
    if expected is None:
        expected = plain(*inputs, **attributes)
    with _making:
        kernel, before = None, known.many
        if _shapes.get(function, 0) < MOST_SHAPES and all(a.dtype in DTYPES for a in arrays):
            _shapes[function] = _shapes.get(function, 0) + 1
            named = known.named(lengths) if vary else lengths
            kernel = _made(function, arrays, tree, attributes, lengths, named, known)
            if kernel is not None and not _is_right(function, kernel, arrays, shape, expected):
                kernel, known.many = None, before
        if kernel is not None and known.many is not before:
            _sized[key] = kernel
        elif kernel is not None or not vary:
            _kernels[key] = kernel
        if kernel is not None:
            _recorded.pop(key, None)
    return expected


def _value_by_value(key: Any, arrays: list[Any], attributes: dict[str, Any], shape: Any) -> Any:
    """Return what a function gives, each value by a kernel that knows no lengths; None if CuPy is to compute it.

    CuPy's kernels are made when they are first called, each in a tenth of a second.
    """
    backend, (function, tree, *_) = _backend(), key
    if backend is None or not all(array.dtype in DTYPES for array in arrays):
        return None
    if key not in _recorded:
        lengths = _in_a_row(arrays, shape)
        promised = [promise(length, a.dtype) for length, a in zip(lengths, arrays, strict=True)]
        try:
            _recorded[key] = recorded(function, promised, [list(n) for n in lengths], tree, attributes)
        except Exception:  # if anything is wrong, CuPy says so
            _recorded[key] = None
    before = _recorded[key]
    if before is None:
        return None
    program, results, alone = before
    given = arrays if shape is None else [array.reshape(-1) for array in arrays]
    compute = backend.by_values
    try:
        compute.prepare(program.values())
        found = interpret(program, given, compute=compute)
    except (IndexError, MemoryError):  # CuPy's way tells which, or takes less
        return None
    except Exception as problem:  # CuPy computes it all the same
        warn(function, f"could not be computed value by value ({type(problem).__name__}: {problem})", "CuPy")
        _recorded[key] = None
        return None
    made = [compute.to_device(array) if lies_here(array) else array for array in found]
    if shape is not None:
        made = [array.reshape(shape) for array in made]
    outputs = [None if i is None else arrays[i] if i >= 0 else made[~i] for i in results]
    return outputs[0] if alone else tuple(outputs)


class _Lengths:
    """The lengths that a function is met with, all else being alike, and kernels for all of them, if there are some."""

    def __init__(self, first: Shapes) -> None:
        self._seen = [first]
        self._met = self._tries = 0
        self.many: tuple[ManySizes, list[int | None], bool, Sequence[Sequence[int]]] | None = None

    def vary(self, lengths: Shapes) -> bool:
        """Note a call for which there is no kernel; tell whether it is time to make some for all lengths."""
        self._met += lengths != self._seen[0]
        return self._met >= CALLS and self._tries < MOST_TRIES and lengths != self._seen[0]

    def named(self, lengths: Shapes) -> list[list[int]]:
        """Return lengths with a negative number for those that have differed; equal ones were always equal."""
        self._tries, self._met = self._tries + 1, 0
        self._seen.append(lengths)
        names: dict[tuple[int, ...], int] = {}
        found = []
        for all_of_one in zip(*self._seen, strict=True):
            named = []
            for different in zip(*all_of_one, strict=True):
                varies = len(set(different)) > 1 and min(different) >= LEAST
                named.append(names.setdefault(different, ~len(names)) if varies else different[-1])
            found.append(named)
        return found

    def kernel(self, lengths: Shapes) -> DeviceKernel | None:
        """Return the kernels for all lengths as they are for some; None if there are none."""
        if self.many is None:
            return None
        made, results, alone, all_named = self.many
        sizes: dict[str, int] = {}
        for named, shape in zip(all_named, lengths, strict=True):
            for n, length in zip(named, shape, strict=True):
                if n != length if n >= 0 else length < LEAST or sizes.setdefault(f"s{~n}", length) != length:
                    return None
        run = made.at([sizes[symbol.name] for symbol in made.symbols])
        return None if run is None else DeviceKernel(run, results, alone)


def _in_a_row(arrays: list[Any], shape: Any) -> Shapes:
    """Return the shapes of arrays as kernels see them. shape: given where they were laid out in a row."""
    return tuple([(a.size,) if shape is not None else a.shape for a in arrays])


def _without_lengths(key: Any, arrays: list[Any], lengths: Shapes) -> Any:
    function, tree, _, attributes = key
    return (
        function,
        tree,
        tuple([(a.dtype, len(n)) for a, n in zip(arrays, lengths, strict=True)]),
        attributes,
    )


def _for_all_lengths(key: Any, arrays: list[Any], shape: Any) -> Any:
    """Return the kernels for all lengths as they are for those of a call; _UNKNOWN if there are none."""
    kernel = _sized.get(key)
    if kernel is None:
        lengths = _in_a_row(arrays, shape)
        known = _lengths.get(_without_lengths(key, arrays, lengths))
        kernel = None if known is None else known.kernel(lengths)
        if kernel is None:
            return _UNKNOWN
        if len(_sized) >= MOST_QUICK:
            _sized.clear()
        _sized[key] = kernel
    return kernel


def _of_its_own(
    key: Any, arrays: list[Any], attributes: dict[str, Any], shape: Any, general: DeviceKernel
) -> DeviceKernel:
    """Return the kernels for all lengths; when they have computed much of the same ones, kernels for these alone."""
    function, tree, *_ = key
    met = _computed[key] = _computed.get(key, 0) + max([array.size for array in arrays])
    if met < MUCH or recording.recorder() is not None:
        return general
    with _making:
        kernel = None
        if _shapes.get(function, 0) < MOST_SHAPES:
            _shapes[function] = _shapes.get(function, 0) + 1
            lengths = _in_a_row(arrays, shape)
            kernel = _made(function, arrays, tree, attributes, lengths, lengths, _Lengths(lengths))
            with recording.rehearsal():
                expected = general(arrays, shape)
            if kernel is not None and not _is_right(function, kernel, arrays, shape, expected):
                kernel = None
        kernel = _kernels[key] = general if kernel is None else kernel
    return kernel


def _made(
    function: Function,
    arrays: list[Any],
    tree: Any,
    attributes: dict[str, Any],
    lengths: Shapes,
    named: Sequence[Sequence[int]],
    known: _Lengths,
) -> DeviceKernel | None:
    """Return a function as kernels; None if it cannot be. named: lengths, of which the negative ones vary."""
    backend = _backend()
    if backend is None:
        return None
    promised = [promise(length, a.dtype) for length, a in zip(lengths, arrays, strict=True)]
    try:
        found = recorded(function, promised, [list(length) for length in named], tree, attributes)
        if found is None:
            return None
        program, results, alone = found
        if not program.outputs or any(value.dtype not in DTYPES for value in program.outputs):
            return None
        made = backend.build(program, {})
        if isinstance(made, Launches):
            return DeviceKernel(made, results, alone)
        known.many = made, results, alone, named
        return known.kernel(lengths)
    except (NoKernel, NumbersMissing, CompileError):
        return None
    except Exception as problem:  # the numbers are there all the same
        warn(function, f"could not be compiled ({type(problem).__name__}: {problem})", "CuPy")
        return None


def _is_right(function: Function, kernel: DeviceKernel, arrays: list[Any], shape: Any, expected: Any) -> bool:
    """Tell whether a kernel runs and gives what is expected; if not, say so."""
    try:
        right = _agrees(kernel, arrays, shape, expected)
    except Exception as problem:  # the numbers are there all the same
        warn(function, f"could not be run ({type(problem).__name__}: {problem})", "CuPy")
        return False
    if not right:
        warn(function, "does not give what its steps give", "CuPy")
    return right


def _agrees(kernel: DeviceKernel, arrays: list[Any], shape: Any, expected: Any) -> bool:
    """Tell whether a kernel gives what is expected, but for rounding, looked at on the device."""
    wanted: Sequence[Any] = [expected] if kernel.alone else expected
    with recording.rehearsal():  # (CuPy rounds no factors)
        found = kernel(arrays, shape)
    compute = kernel.run._launcher.computing()
    sizes = [(_largest(_widened(a), compute), a.size) for a in arrays if kind_of(a.dtype) == "f"]
    for mine, other in zip([found] if kernel.alone else found, wanted, strict=True):
        if mine is None and other is None:
            continue
        if mine is None or other is None or mine.dtype != other.dtype or mine.shape != other.shape:
            return False
        if not _close(mine, other, sizes, compute):
            return False
    return True


def _widened(array: Any) -> Any:
    """Return an array whose numbers can be compared: bfloat16 is told by NumPy to be none."""
    return array.astype(np.float32) if is_bfloat16(array.dtype) else array


def _largest(array: Any, compute: Elsewhere) -> float:
    """Return the largest finite number of an array, by its size."""
    largest = float(compute.map("absolute", array).max())
    return largest if np.isfinite(largest) else _largest(_finite(array, array, compute), compute)


def _finite(array: Any, where: Any, compute: Elsewhere) -> Any:
    """Return an array with 0 where another is not finite."""
    zero = np.broadcast_to(compute.to_device(np.zeros((), array.dtype)), array.shape)
    return compute.map("where", compute.map("isfinite", where), array, zero)


@np.errstate(all="ignore")
def _close(mine: Any, other: Any, sizes: Sequence[tuple[float, int]], compute: Elsewhere) -> bool:
    """Tell whether two arrays differ by rounding alone.

    sizes: of what they were computed from, the largest number, and how many there are.
    """
    if kind_of(other.dtype) != "f" or not other.size:
        return verify.close(mine, other, 0.0, compute)
    rough = {2: 1e-2, 4: 1e-4, 8: 1e-10}[other.dtype.itemsize]
    mine, other = _widened(mine), _widened(other)
    # What cancels out may leave the rounding of what it was; the more, the more was added up.
    scale = _largest(other, compute) + sum(s * max(1, n / other.size) ** 0.5 for s, n in sizes) / 10
    apart = compute.map("subtract", mine, other)
    if not np.isfinite(float(apart.sum())):
        finite = [compute.map("isfinite", each) for each in (mine, other)]
        if not verify.close(finite[0], finite[1], 0.0, compute):
            return False
        mine, other = _finite(mine, other, compute), _finite(other, other, compute)
        apart = compute.map("subtract", mine, other)
    factor = np.broadcast_to(compute.to_device(np.asarray(rough, other.dtype)), other.shape)
    allowed = compute.map("multiply", compute.map("absolute", other), factor)
    return float(compute.map("subtract", compute.map("absolute", apart), allowed).max()) <= rough * scale
