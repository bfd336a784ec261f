"""Eager ops on a GPU as kernels of our own. Enters: an op's forward or rule, and arrays there. Leaves: its results.

The function runs once on arrays that record (trace/) and of which only shapes are known; what it writes down becomes
one kernel, or a few, of the backend for GPUs, which are launched one after the other on the current stream. They are
kept by dtypes, shapes and attributes; where a function comes with other lengths again and again, the axes that differ
vary from then on, and the same kernels serve all their lengths. What they give the first time is compared with what
CuPy gives. None is the answer where CuPy is to compute: llvmlite is not installed, an order in memory that kernels do
not know, a part of the function for which there is no kernel.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import operator
import struct
import threading
import weakref
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
from minitorch.compiler.backends.cuda.lower import FAILED
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, SIZE, Kernel, gpu_text
from minitorch.compiler.backends.interface import Task
from minitorch.compiler.call.kernels import Fixed, Function, recorded, warn
from minitorch.compiler.call.update_kernels import FLOATS, NoKernel, changes, fixed_numbers
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.polynomial import LEAST
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import Binding, Size, evaluated, surely_less
from minitorch.compiler.schedule.memory import MemoryPlan
from minitorch.compiler.schedule.schedule import Schedule
from minitorch.compiler.trace.promised import NumbersMissing, promise
from minitorch.compiler.trace.refusal import CompileError
from minitorch.engine import recording
from minitorch.engine.dtypes import is_bfloat16, kind_of
from minitorch.engine.precision import may_round
from minitorch.ops.native import ELEMENTWISE

DTYPES = frozenset(np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.bool_)).union(HALVES)
CALLS = 3  # of one kind, before a kernel is made for it
MOST_SHAPES = 64  # that kernels of one function are made for
MOST_FLOPS = 1 << 28  # of a product, or a convolution, that is a kernel of our own
LEAST_CONVOLVED = 1 << 20  # multiplications of a library's convolution: below, its call takes longer
MOST_QUICK = 4096  # that are found without a second look
MOST_TRIES = 3  # to make kernels of a function for all lengths
MOST_NUMBERS = 8  # sets of numbers that are kept on the device

_met: dict[Any, int] = {}
_kernels: dict[Any, DeviceKernel | None] = {}
_shapes: dict[Any, int] = {}  # how many kernels a function has
# Kernels by the shapes, strides and dtypes of arrays alone; with them: the results' shape, whether all inputs are
# arrays, and of which class those are.
_quick: dict[Any, tuple[DeviceKernel, Any, bool, Any]] = {}
_lengths: dict[Any, _Lengths] = {}  # what is known of a function's lengths, by all but those
_sized: dict[Any, DeviceKernel] = {}  # kernels for all lengths, as they are for some
Shapes = tuple[tuple[int, ...], ...]
_NUMBERS = {float, int, bool, type(None)}
_making = threading.Lock()
_UNKNOWN: Any = object()


class _Arguments:
    """What the driver reads a kernel's arguments from. pack: puts them there. at: its address."""

    def __init__(self, count: int) -> None:
        self._values = (ctypes.c_int64 * count)()
        first = ctypes.addressof(self._values)
        self._places = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
        self.at = ctypes.addressof(self._places)
        self.pack = functools.partial(struct.Struct(f"{count}q").pack_into, self._values, 0)


class Launcher:
    """How kernels are loaded and launched on a GPU, and where arrays come from."""

    def __init__(self) -> None:
        self.device = Cuda()
        self.device.require()
        self._cupy = self.device.cupy
        self._loaded: Any = (
            weakref.WeakKeyDictionary()
        )  # what `load` has returned, with the driver's functions
        self.empty: Any = self._cupy.ndarray  # makes an array, of a shape and a dtype

    def load(self, kernels: list[Kernel]) -> list[Any]:
        """Return kernels as functions of their operands' addresses and a stream."""
        module = self._cupy.cuda.function.Module()
        module.load(ptx(gpu_text(kernels), self.device.processor))
        names = [f"kernel{number}" for number in range(len(kernels))]
        return [self._run(module.get_function(n), each) for n, each in zip(names, kernels, strict=True)]

    def again(self, run: Any, kernel: Kernel) -> Any:
        """Return what `load` has returned for a kernel, for the same one with another number of blocks."""
        return self._run(self._loaded[run], kernel)

    def _run(self, function: Any, kernel: Kernel) -> Callable[[Sequence[int], int], None]:
        """Return one of them. (The driver is called as it is: what CuPy makes of arguments takes as long again.)"""
        driver = self._cupy.cuda.driver
        launch = driver.launchKernel
        blocks, threads, count = kernel.blocks, kernel.threads, len(kernel.operands)
        more = kernel.shared if kernel.shared > SHARED_BYTES else 0
        if more:
            driver.funcSetAttribute(function.ptr, MOST_DYNAMIC_SHARED, more)
        free: list[_Arguments] = []  # that no thread is using

        def run(addresses: Sequence[int], stream: int) -> None:
            try:
                arguments = free.pop()
            except IndexError:
                arguments = _Arguments(count)
            arguments.pack(*addresses)
            launch(function.ptr, blocks, 1, 1, threads, 1, 1, more, stream, arguments.at, 0)
            free.append(arguments)

        self._loaded[run] = function
        return run

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
        """Return a constant on the device."""
        return self._cupy.asarray(array)

    def stream(self) -> int:
        """Return the current stream."""
        return self._cupy.cuda.get_current_stream().ptr

    def words(self, count: int) -> np.ndarray:
        """Return numbers of the host's, all 0, that kernels can write to: the GPU sees pinned memory too."""
        words = np.frombuffer(self._cupy.cuda.alloc_pinned_memory(8 * count), np.int64, count)
        words[:] = 0
        return words


class EagerBackend(CudaBackend):
    """The backend for GPUs, whose programs are launched kernel by kernel: one more takes longer than a larger block."""

    # To launch another kernel takes longer than that one block goes through a few rows more.
    machine = Gpu(dataclasses.replace(GPU_FIGURES, rows_of_a_block=64))

    def __init__(self, launcher: Any) -> None:
        super().__init__(launcher.device)
        self.launcher = launcher

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
            (tuple(evaluated(o.shape, self._binding)), o.dtype)
            for i, o in outputs
            if i not in schedule.updates
        ]
        self._scratch = plan.size
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
        if loaded is None:
            functions = dict(zip(different, launcher.load(list(different.values())), strict=True))
        else:
            functions = {each: launcher.again(loaded[each], kernel) for each, kernel in different.items()}
        # What operands are found in: inputs, outputs, scratch if there is any, then addresses that stay the same, then
        # those that lie some bytes into others.
        self._fixed: list[int] = []
        first = self._inputs + len(self._outputs) + bool(self._scratch)
        places = [[self._place(each, schedule, plan, first) for each in t.kernel.operands] for t in tasks]
        inside = dict.fromkeys(place for each in places for place in each if place[1])
        self._inside = list(inside)
        numbers = {place: number for number, place in enumerate(inside, first + len(self._fixed))}
        self._steps: list[tuple[Any, Any]] = []  # functions, and which of these are their operands
        for task, found in zip(tasks, places, strict=True):
            kernel = task.kernel
            if isinstance(kernel, Kernel):
                function = functions[id(kernel.items)]
                if kernel.exact is not None:
                    function = functools.partial(_either, function, functions[id(kernel.exact.items)])
            else:
                library = launcher.multiply if isinstance(kernel, LibraryProduct) else launcher.convolve
                function = functools.partial(library, kernel)
            self._steps.append((function, _picked([numbers.get(place, place[0]) for place in found])))

    def _place(self, operand: Any, schedule: Schedule, plan: MemoryPlan, first: int) -> tuple[int, int]:
        """Return what an operand lies in, and how many bytes into it. first: of the addresses that stay the same."""
        value, offset = operand if isinstance(operand, tuple) else (operand, 0)
        offset = evaluated(offset, self._binding)
        if value == SIZE:
            self._fixed.append(offset)
            return first + len(self._fixed) - 1, 0
        if value == FAILED:
            address = self._launcher.address
            self._fixed.append(self._words.ctypes.data + 8 * offset if offset else address(self._failed))
            return first + len(self._fixed) - 1, 0
        argument = schedule.arguments.get(value)
        if argument is not None and argument in self._numbers:  # of each its float64 and its float32
            place = 16 * self._numbers.index(argument) + 8 * (value.dtype.itemsize == 4)
            return self._numbers[0], place + offset
        if argument is not None:
            return argument, offset
        if isinstance(value, Value) and value.primitive == "constant":
            self._constants.append(self._launcher.sent(np.asarray(value.attributes["array"])))
            self._fixed.append(self._launcher.address(self._constants[-1]) + offset)
            return first + len(self._fixed) - 1, 0
        return self._inputs + len(self._outputs), plan.offsets[value] + offset

    def __call__(
        self, arrays: Sequence[Any], shape: Any = None, addresses: Sequence[int] | None = None
    ) -> list[Any]:
        """Run them; returns the outputs. shape: theirs, where the arrays were laid out in a row.

        addresses: of the arrays, if they are known. (Of numbers, there is one array for all.)
        """
        empty, address = self._launcher.empty, self._launcher.address
        if self._checks and self._seen != self._none:
            self._fail()
        made = [empty(own if shape is None else shape, dtype) for own, dtype in self._outputs]
        if addresses is None:
            addresses = [0 if each is None else address(each) for each in arrays]
        given = [*addresses, *[address(each) for each in made]]
        if self._scratch:
            _held, at = self._launcher.scratch(self._scratch)
            given.append(at)
        given += self._fixed
        if self._inside:
            given += [given[place] + offset for place, offset in self._inside]
        stream = self._launcher.stream()
        for function, pick in self._steps:
            function(pick(given), stream)
        return made

    def only_step(self) -> tuple[Any, ...] | None:
        """Return what to do where that is one launch with whole arrays, of which one is made; None if it is more."""
        if len(self._steps) != 1 or len(self._outputs) != 1 or self._scratch or self._fixed or self._inside:
            return None
        launcher = self._launcher
        return launcher.empty, *self._outputs[0], launcher.address, launcher.stream, *self._steps[0]

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


def _either(rounding: Any, exact: Any, addresses: Sequence[int], stream: int) -> None:
    """Launch a kernel, or the one that rounds no factors."""
    (rounding if may_round() else exact)(addresses, stream)


def _picked(places: list[int]) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return a function that picks some of what it is given."""
    if len(places) == 1:
        return lambda given: (given[places[0]],)
    return operator.itemgetter(*places)


class DeviceKernel:
    """A function of arrays as kernels. results, alone: as of call.kernels.Kernel."""

    def __init__(self, run: Launches, results: list[int | None], alone: bool) -> None:
        self.run, self.results, self.alone = run, results, alone
        self._only = run.only_step() if alone and results == [-1] else None

    def __call__(
        self, arrays: Sequence[Any], shape: tuple[int, ...] | None, addresses: Sequence[int] | None = None
    ) -> Any:
        """Run it. shape: of the results, where the arrays were laid out in a row. addresses: if they are known."""
        if self._only is not None:
            empty, own, dtype, address, stream, function, pick = self._only
            out = empty(own if shape is None else shape, dtype)
            if addresses is None:
                addresses = [address(each) for each in arrays]
            function(pick((*addresses, address(out))), stream())
            return out
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
    for array in arrays:
        if array.__class__ is not kind or array.shape != shape or array.dtype != dtype:
            return False
        if not array.flags.c_contiguous:
            return False
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
    for array in arrays:
        if kernel.address(array) % ALIGNMENT:
            return False
    kernel(arrays, numbers)
    return True


class Update:
    """Kernels that change arrays. changed: which. tells: how each number that they are told is computed."""

    def __init__(self, run: Launches, changed: list[int], tells: list[Callable[..., float]]) -> None:
        self.run, self.changed, self.tells = run, changed, tells
        self.address = run._launcher.address

    def __call__(self, arrays: list[Any], numbers: tuple[Any, ...]) -> None:
        """Run it."""
        given = tuple([tell(numbers) for tell in self.tells])
        self.run([*arrays, *self._sent(given)])

    def _sent(self, numbers: tuple[float, ...]) -> list[Any]:
        """Return numbers on the device, in one array, which stands first."""
        if not numbers:
            return []
        launcher = self.run._launcher
        key = (launcher.stream(), numbers)
        found = _numbers.get(key)
        if found is None:
            if len(_numbers) >= MOST_NUMBERS:
                _numbers.clear()
            pairs = np.zeros(len(numbers), [("wide", "f8"), ("narrow", "f4"), ("", "f4")])
            pairs["wide"] = pairs["narrow"] = numbers
            found = _numbers[key] = launcher.sent(pairs.view(np.int64))
        return [found, *[None] * (len(numbers) - 1)]


_updates: dict[Any, Update | None] = {}
_numbers: dict[Any, Any] = {}  # sent lately: the parameters of a group are told the same


def _update_later(
    key: Any,
    function: Callable[..., None],
    arrays: list[Any],
    numbers: tuple[Any, ...],
    fixed: tuple[Any, ...],
) -> bool:
    """Count a call for which there is no kernel; make one at the last of some."""
    met = _met[key] = _met.get(key, 0) + 1
    if met < CALLS:
        return False
    with _making:
        _updates[key] = None
        backend = _backend()
        if backend is None or _shapes.get(function, 0) >= MOST_SHAPES or arrays[0].dtype not in FLOATS:
            return False
        _shapes[function] = _shapes.get(function, 0) + 1
        try:
            kernel = _made_update(backend, function, arrays, numbers, fixed)
        except (NoKernel, NumbersMissing, CompileError):
            return False
        copies = [a.copy() for a in arrays]
        sizes = [(_largest(a), a.size) for a in arrays]
        kernel(copies, numbers)
        function(arrays, numbers)
        if all(bool(_close(copies[i], arrays[i], sizes)) for i in kernel.changed):
            _updates[key] = kernel
        else:
            warn(function, "does not give what CuPy gives", "CuPy")
        return True


def _made_update(
    backend: EagerBackend, function: Callable[..., None], arrays: list[Any], numbers: Any, fixed: Any
) -> Update:
    """Return a function that changes arrays as kernels."""
    shape = (arrays[0].size,)
    inputs = [Value("input", (), {"index": i}, shape, a.dtype) for i, a in enumerate(arrays)]
    promised = [promise(shape, a.dtype) for a in arrays]
    found = changes(function, inputs, promised, numbers, fixed)
    return Update(backend.build(found.program, found.updates, found.numbers), found.changed, found.tells)


# --- what they are made by ------------------------------------------------------------------------------------

_backends: list[EagerBackend] = []


def use(launcher: Any) -> None:
    """Choose what kernels are launched by, from now on: a GPU, unless somebody says otherwise."""
    _backends[:] = [EagerBackend(launcher)]
    for each in (_met, _kernels, _shapes, _quick, _lengths, _sized, _updates, _numbers):
        each.clear()


def _backend() -> EagerBackend | None:
    if not _backends:
        try:
            use(Launcher())
        except (ImportError, RuntimeError):
            return None
    return _backends[0]


def _quick_key(function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    key = [(x.__class__, x) if x.__class__ in _NUMBERS else (x.shape, x.strides, x.dtype) for x in inputs]
    return (function, *key, *attributes.items()) if attributes else (function, *key)


def quick(function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return what a function gives of arrays of which it has met the like, as they are."""
    try:
        found = _quick.get(_quick_key(function, inputs, attributes))
    except (AttributeError, TypeError):  # a list of arrays; an attribute that cannot be a part of a key
        return None
    if found is None:
        return None
    kernel, shape, are_arrays, kind = found
    if not are_arrays:
        inputs = tuple([each for each in inputs if each.__class__ not in _NUMBERS])
    addresses = []
    for array in inputs:
        if array.__class__ is not kind:
            return None
        address = array.data.ptr
        if address % ALIGNMENT:
            return None
        addresses.append(address)
    return kernel(inputs, shape, addresses)


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
            tree.append(Fixed(each, each.__class__))
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
    key = (function, tuple(tree), tuple(pattern), tuple(attributes.items()) if attributes else ())
    try:
        kernel = _kernels.get(key, _UNKNOWN)
    except TypeError:  # an attribute that cannot be a part of a key
        return None
    if kernel is None:
        return None
    if kernel is _UNKNOWN:
        kernel = _for_all_lengths(key, arrays, shape)
    if kernel is not _UNKNOWN:
        address = kernel.run._launcher.address
        for array in arrays:
            if address(array) % ALIGNMENT:
                return None
        if as_they_are and not any(isinstance(each, (list, tuple)) for each in inputs):
            if len(_quick) >= MOST_QUICK:
                _quick.clear()
            are_arrays = len(arrays) == len(inputs)
            _quick[_quick_key(function, inputs, attributes)] = kernel, shape, are_arrays, kind
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
    if met < CALLS and not vary:
        return None
    expected = plain(*inputs, **attributes)
    with _making:
        kernel, before = None, known.many
        if _shapes.get(function, 0) < MOST_SHAPES and all(a.dtype in DTYPES for a in arrays):
            _shapes[function] = _shapes.get(function, 0) + 1
            named = known.named(lengths) if vary else lengths
            kernel = _made(function, arrays, tree, attributes, lengths, named, known)
            if kernel is not None and not _is_right(function, kernel, arrays, shape, expected):
                kernel, known.many = None, before
        if kernel is not None or not vary:
            _kernels[key] = kernel
    return expected


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
        warn(function, "does not give what CuPy gives", "CuPy")
    return right


def _agrees(kernel: DeviceKernel, arrays: list[Any], shape: Any, expected: Any) -> bool:
    """Tell whether a kernel gives what is expected, but for rounding, looked at on the device."""
    wanted: Sequence[Any] = [expected] if kernel.alone else expected
    with recording.rehearsal():  # (CuPy rounds no factors)
        found = kernel(arrays, shape)
    sizes = [(_largest(_widened(a)), a.size) for a in arrays if kind_of(a.dtype) == "f"]
    for mine, other in zip([found] if kernel.alone else found, wanted, strict=True):
        if mine is None and other is None:
            continue
        if mine is None or other is None or mine.dtype != other.dtype or mine.shape != other.shape:
            return False
        if not bool(_close(mine, other, sizes)):
            return False
    return True


def _widened(array: Any) -> Any:
    """Return an array whose numbers can be compared: bfloat16 is told by NumPy to be none."""
    return array.astype(np.float32) if is_bfloat16(array.dtype) else array


def _largest(array: Any) -> Any:
    """Return the largest finite number of an array, by its size."""
    return np.where(np.isfinite(array), np.absolute(array), 0).max()


def _close(mine: Any, other: Any, sizes: Sequence[tuple[Any, int]]) -> Any:
    """Tell whether two arrays differ by rounding alone.

    sizes: of what they were computed from, the largest number, and how many there are.
    """
    if kind_of(other.dtype) != "f":
        return (mine == other).all()
    rough = {2: 1e-2, 4: 1e-4, 8: 1e-10}[other.dtype.itemsize]
    mine, other = _widened(mine), _widened(other)
    finite = np.isfinite(other)
    # What cancels out may leave the rounding of what it was; the more, the more was added up.
    scale = _largest(other) + sum(size * max(1, count / other.size) ** 0.5 for size, count in sizes) / 10
    apart = np.absolute(np.where(finite, mine - other, 0))
    near = apart <= rough * (np.absolute(np.where(finite, other, 0)) + scale)
    return (near & (np.isfinite(mine) == finite)).all()
