"""What runs kernels: a GPU, or this processor in its place. Enters: kernels and launches. Leaves: memory, and runs.

`Cuda` loads kernels through CuPy and replays what is launched as one CUDA graph. `Emulated` runs the very same phases,
thread after thread, where there is no GPU.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution, convolve
from minitorch.compiler.backends.cuda.cpu_text import cpu_shared, cpu_text
from minitorch.compiler.backends.cuda.cublas import Cublas
from minitorch.compiler.backends.cuda.cudnn import Cudnn
from minitorch.compiler.backends.cuda.cudnn import library as cudnn_library
from minitorch.compiler.backends.cuda.gpu_text import gpu_text
from minitorch.compiler.backends.cuda.operands import looked_up
from minitorch.compiler.backends.cuda.products import LibraryProduct, Matrix
from minitorch.compiler.backends.cuda.ptx import assembled, ptx
from minitorch.compiler.backends.cuda.words import ALIGNMENT, SHARED_BYTES, Kernel
from minitorch.compiler.backends.llvm.driver import aligned, array_at
from minitorch.compiler.backends.llvm.machine import compile_functions, cores
from minitorch.compiler.backends.llvm.target import host, require_llvmlite
from minitorch.engine.precision import convolutions_are, may_round

MULTIPLIES_IN_GROUPS = "90"  # compute capability: wgmma, which neither earlier nor later ones have
LEAST_FOR_TILES = 80  # compute capability: TF32, bfloat16 and copies while threads go on
MOST_DYNAMIC_SHARED = 8  # what the driver calls the limit of shared memory that a launch asks for


class Launch(NamedTuple):
    """A kernel that was loaded (or a product, for which there is a library), and the table entries of its operands.

    exact: what runs in its place while nothing may be rounded, if that is another.
    """

    function: Any
    kernel: Kernel | LibraryProduct | LibraryConvolution
    slots: list[int]
    exact: Any = None

    @property
    def rounds(self) -> bool:
        """Whether it matters if products may be rounded."""
        return not isinstance(self.kernel, Kernel) or self.exact is not None


def operands_of(slots: list[int], table: int, addresses: np.ndarray, moving: Collection[int]) -> list[int]:
    """Return what a kernel is given for its operands."""
    return [looked_up(table + 8 * slot) if slot in moving else int(addresses[slot]) for slot in slots]


class Sequence(Protocol):
    """Kernels that run one after the other."""

    def __call__(self) -> None:
        """Run them."""

    def measure(self) -> list[float]:
        """Run them one by one, and return how many seconds each takes."""


class Device(Protocol):
    """A device's memory, and how it runs kernels.

    ADDRESS: where an array on it begins, as an expression of {0}. ARRAYS: whose arrays they are, which compute what has
    no kernel. waits: whether a run is over when it returns. rounds: whether it multiplies in TF32 where it may.
    """

    ADDRESS: str
    ARRAYS: str
    waits: bool
    rounds: bool

    @property
    def convolves(self) -> bool:
        """Whether there is a library for convolutions."""

    @property
    def tile_bytes(self) -> int:
        """How much shared memory a block can have that multiplies tiles; 0: there is nothing to multiply them with."""

    @property
    def in_groups(self) -> bool:
        """Whether four warps can multiply together, what lies in shared memory."""

    def require(self) -> None:
        """Raise ImportError, and say what is missing, if there is no such device."""

    def loading(self, kernels: list[Kernel]) -> Callable[[], list[Any]]:
        """Begin to make kernels ready to be launched; return what waits for them."""

    def load(self, kernels: list[Kernel]) -> list[Any]:
        """Make kernels ready to be launched."""

    def sequence(
        self,
        launches: list[Launch],
        table: Any,
        addresses: np.ndarray,
        moving: Collection[int] = (),
        perhaps_once: bool = False,
    ) -> Sequence:
        """Return kernels as a sequence.

        addresses: of operands. moving: entries of it that kernels look up, when they run, in the table on the device
        (which is None if there are none). perhaps_once: whether it may well be that it runs only once.
        """

    def run(self, function: Any, kernel: Kernel, operands: list[int]) -> None:
        """Run a kernel that was loaded by itself, on operands by their addresses, in its turn."""

    def owns(self, array: Any) -> bool:
        """Whether an array lies on the device already."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array on the device."""

    def ready(self, array: Any) -> Any:
        """Return an array on the device, in C order: this one, if it is."""

    def address(self, array: Any) -> int:
        """Return where an array on the device begins."""

    def view(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return memory on the device as an array."""

    def read(self, array: Any) -> np.ndarray:
        """Return an array of the device's as NumPy's, when all that was begun is done."""

    def write(self, array: Any, content: np.ndarray) -> None:
        """Write to an array on the device."""

    def clear(self, array: Any) -> None:
        """Set an array on the device to zero, in its turn."""

    def copy(self, source: int, target: Any) -> None:
        """Copy from an address on the device to an array there, in its turn."""

    def words(self, count: int) -> np.ndarray:
        """Return numbers of the host's, all 0, that kernels can write to by their addresses."""

    def synchronize(self) -> None:
        """Wait until all that was begun is done."""

    def stream(self) -> Any:
        """Return what is current of the orders in which work is done: it has a `ptr`. None: there is one alone."""

    def let_wait(self, stream: Any, other: Any) -> None:
        """Let a stream wait for all that another was asked for so far."""

    @property
    def of_libraries(self) -> Turns:
        """The turns of those who let libraries compute in memory that these keep."""


class Turns:
    """Lets what uses the same memory go one after the other, whichever streams it is launched on."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._last: Any = None
        self.word = np.full(1, -1, np.int64)  # the last stream's number, so that machine code can read it

    def take(self, stream: Any) -> None:
        """Let what is launched from now on, on a stream, wait for all that was before, on another."""
        last = self._last
        if last is not None and stream is not last and stream.ptr != last.ptr:
            self._device.let_wait(stream, last)
        if stream is not last and stream is not None:
            self.word[0] = stream.ptr
        self._last = stream


class Emulated:
    """This processor in a GPU's place: blocks and threads one after the other (backwards: the last first)."""

    ADDRESS = "{0}.ctypes.data"
    ARRAYS = "NumPy"
    waits = True
    rounds = False
    tile_bytes = 227 << 10
    in_groups = True
    convolves = True

    def __init__(self, backwards: bool = False) -> None:
        self.backwards = backwards

    def require(self) -> None:
        """Raise ImportError, and say what to install, if llvmlite is missing."""
        require_llvmlite()

    def loading(self, kernels: list[Kernel]) -> Callable[[], list[Any]]:
        """Return what makes kernels ready: nothing is done meanwhile that could be waited for."""
        return functools.partial(self.load, kernels)

    def load(self, kernels: list[Kernel]) -> list[Any]:
        """Make kernels ready to be launched."""
        single = {id(each.items): each for kernel in kernels for each in _in_parts(kernel)}
        codes = compile_functions(
            [cpu_text(kernel, self.backwards) for kernel in single.values()],
            host(),
            "KERNEL",
            optimization=0,
        )
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        made = dict(zip(single, ((kind(code.address("KERNEL")), code) for code in codes), strict=True))
        return [[made[id(each.items)] for each in _in_parts(kernel)] for kernel in kernels]

    def sequence(
        self,
        launches: list[Launch],
        table: Any,
        addresses: np.ndarray,
        moving: Collection[int] = (),
        perhaps_once: bool = False,
    ) -> Sequence:
        """Return kernels as a sequence."""
        steps: list[Callable[[], Any]] = []
        for function, kernel, slots, _ in launches:
            if isinstance(kernel, LibraryProduct):
                steps.append(functools.partial(_multiply, kernel, addresses, slots))
            elif isinstance(kernel, LibraryConvolution):
                steps.append(functools.partial(_convolve, kernel, addresses, slots))
            else:
                operands = operands_of(slots, self.address(table) if moving else 0, addresses, moving)
                steps.append(self.step(function, kernel, operands))
        return OneByOne(steps)

    def step(self, function: Any, kernel: Kernel, operands: list[int]) -> Callable[[], None]:
        """Return a launch of a kernel that was loaded, on operands by their addresses."""
        shared = aligned(max(1, *map(cpu_shared, _in_parts(kernel))))
        shared[:] = 0xFF  # nothing that anybody wrote
        firsts = [part.operand for part in kernel.parts] or [0]
        blocks = [each.blocks for each in _in_parts(kernel)]
        given = [
            (np.array([*operands[first:], 0], np.int64), shared, count)
            for first, count in zip(firsts, blocks, strict=True)
        ]
        calls = list(zip(function, given, strict=True))
        return functools.partial(_run_kernel, calls[::-1] if self.backwards else calls)

    def run(self, function: Any, kernel: Kernel, operands: list[int]) -> None:
        """Run a kernel that was loaded by itself."""
        self.step(function, kernel, operands)()

    def owns(self, array: Any) -> bool:
        """Whether an array lies on the device: none does, all are copied there and back."""
        return False

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array that nobody has written to."""
        array = aligned(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        array[:] = 0xFF
        return array.view(dtype).reshape(shape)

    def ready(self, array: Any) -> Any:
        """Return a copy of an array, in C order."""
        copy = self.empty(array.shape, array.dtype)
        copy[...] = array
        return copy

    def address(self, array: Any) -> int:
        """Return where an array begins."""
        return array.ctypes.data

    def view(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return memory as an array."""
        return array_at(address, shape, dtype)

    def read(self, array: Any) -> np.ndarray:
        """Return a copy of an array."""
        return np.array(array)

    def write(self, array: Any, content: np.ndarray) -> None:
        """Write to an array."""
        array[...] = content

    def clear(self, array: Any) -> None:
        """Set an array to zero."""
        array[...] = 0

    def copy(self, source: int, target: Any) -> None:
        """Copy from an address to an array."""
        ctypes.memmove(self.address(target), source, target.nbytes)

    def words(self, count: int) -> np.ndarray:
        """Return numbers that kernels can write to."""
        return np.zeros(count, np.int64)

    def synchronize(self) -> None:
        """Nothing is begun that is not done."""

    def stream(self) -> Any:
        """Everything is done when it is asked for."""
        return None

    def let_wait(self, stream: Any, other: Any) -> None:
        """Nobody has to."""

    @functools.cached_property
    def of_libraries(self) -> Turns:
        """The turns of those who let NumPy compute."""
        return Turns(self)


class OneByOne:
    """A sequence of functions."""

    def __init__(self, steps: list[Callable[[], Any]]) -> None:
        self._steps = steps

    def __call__(self) -> None:
        """Run them."""
        for step in self._steps:
            step()

    def measure(self) -> list[float]:
        """Run them, and return how many seconds each takes."""
        seconds = []
        for step in self._steps:
            began = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began)
        return seconds


def _in_parts(kernel: Kernel) -> list[Kernel]:
    """Return the kernels that one runs side by side: itself, if it is one."""
    return [part.kernel for part in kernel.parts] or [kernel]


def _run_kernel(parts: list[tuple[Any, Any]]) -> None:
    """Run a kernel's parts by their addresses; with each comes what keeps its code alive."""
    for (function, _), (given, shared, blocks) in parts:
        function(given.ctypes.data, shared.ctypes.data, blocks)


def _multiply(product: LibraryProduct, addresses: np.ndarray, slots: list[int]) -> None:
    """Compute a product where a library would find and leave it."""
    p = product
    row = Matrix(0, 1, 0) if not p.c.is_transposed else Matrix(1, 0, 0)
    parts = [
        (p.a, (p.rows, p.summed), p.dtype),
        (p.b, (p.summed, p.columns), p.dtype),
        (p.c, (p.rows, p.columns), p.made),
        *([(p.addend, (p.rows, p.columns), p.made)] if p.addend is not None else []),
        *([(row, (p.rows, p.columns), p.made)] if p.has_row else []),
    ]
    found = []
    for slot, (matrix, shape, dtype) in zip(slots, parts, strict=True):
        steps = (matrix.batch, matrix.row, matrix.column)
        reach = 1 + sum((n - 1) * step for n, step in zip((p.batches, *shape), steps, strict=True))
        flat = array_at(int(addresses[slot]), (reach,), dtype)
        strides = [step * dtype.itemsize for step in steps]
        found.append(np.lib.stride_tricks.as_strided(flat, (p.batches, *shape), strides))
    summed = np.float64 if p.dtype == np.float64 else np.float32
    result = found[0].astype(summed) @ found[1].astype(summed)
    for added in [*found[3:], *([found[2]] if p.adds else [])]:
        result = result + added
    found[2][...] = result


def _convolve(convolution: LibraryConvolution, addresses: np.ndarray, slots: list[int]) -> None:
    """Compute a convolution where a library would find and leave it."""
    c = convolution
    shapes = (c.images, c.results, c.filters) if c.of_filters else (c.images, c.filters, c.results)
    images, factor, made = (
        array_at(int(addresses[slot]), shape, c.dtype) for slot, shape in zip(slots, shapes, strict=True)
    )
    sums = np.empty(made.shape, np.float32)
    convolve(c, images.astype(np.float32, copy=False), factor.astype(np.float32, copy=False), sums)
    made[...] = sums


def shared_out(lengths: list[int], most: int) -> list[list[int]]:
    """Share work out among so many workers at most: return who does what, who has most to do first.

    >>> shared_out([5, 90, 20, 30], 3)
    [[1], [3], [2, 0]]
    """
    parts: list[list[int]] = [[] for _ in range(max(1, min(most, len(lengths))))]
    totals = [0] * len(parts)
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        least = totals.index(min(totals))
        parts[least].append(i)
        totals[least] += lengths[i]
    return [parts[i] for i in sorted(range(len(parts)), key=lambda i: -totals[i])]


class Cuda:
    """A GPU of NVIDIA's, through CuPy."""

    ADDRESS = "{0}.data.ptr"
    ARRAYS = "CuPy"
    waits = False
    rounds = True

    @functools.cached_property
    def cupy(self) -> Any:
        """CuPy, which knows the driver, the memory and the streams."""
        try:
            import cupy
        except ImportError as error:
            raise ImportError(
                "compiling for a GPU needs CuPy, which is not installed; in minitorch's folder: pip install '.[cuda]'"
            ) from error
        return cupy

    def require(self) -> None:
        """Raise ImportError, and say what to install, if llvmlite or CuPy is missing, or RuntimeError without a GPU."""
        require_llvmlite()
        try:
            self.cupy.cuda.runtime.getDeviceCount()
        except self.cupy.cuda.runtime.CUDARuntimeError as error:
            raise RuntimeError(f"compiling for a GPU needs one, and there is none: {error}") from error

    @property
    def tile_bytes(self) -> int:
        """How much shared memory a block can have that multiplies tiles; 0: there is nothing to multiply them with."""
        device = self.cupy.cuda.Device()
        if int(device.compute_capability) < LEAST_FOR_TILES:
            return 0
        return int(device.attributes.get("MaxSharedMemoryPerBlockOptin", SHARED_BYTES))

    @property
    def in_groups(self) -> bool:
        """Whether four warps can multiply together, what lies in shared memory."""
        return self.cupy.cuda.Device().compute_capability == MULTIPLIES_IN_GROUPS

    @property
    def processor(self) -> str:
        """LLVM's name for the GPU (with an a: also what later ones no longer do)."""
        number = self.cupy.cuda.Device().compute_capability
        return f"sm_{number}a" if number == MULTIPLIES_IN_GROUPS else f"sm_{number}"

    def load(self, kernels: list[Kernel]) -> list[Any]:
        """Make kernels ready to be launched."""
        return self.loading(kernels)()

    def loading(self, kernels: list[Kernel]) -> Callable[[], list[Any]]:
        """Begin to make modules of kernels, which are assembled side by side; return what waits for them."""
        parts = shared_out([kernel.length for kernel in kernels], cores())
        there = (self.cupy.cuda.Device().id, self.processor)
        pool = ThreadPoolExecutor(len(parts))
        begun = [pool.submit(self._module, [kernels[i] for i in part], *there) for part in parts]
        pool.shutdown(wait=False)

        def finished() -> list[Any]:
            try:
                made = [each.result() for each in begun]
            except self.cupy.cuda.driver.CUDADriverError:  # (a driver that wants them in this very thread)
                made = [self._module([kernels[i] for i in part], *there) for part in parts]
            functions: list[Any] = [None] * len(kernels)
            for part, loaded in zip(parts, made, strict=True):
                for i, function in zip(part, loaded, strict=True):
                    functions[i] = function
            return functions

        return finished

    def _module(self, kernels: list[Kernel], number: int, processor: str) -> list[Any]:
        self.cupy.cuda.Device(number).use()  # (each thread has to say so)
        text, module = gpu_text(kernels), self.cupy.cuda.function.Module()
        code = assembled(text, processor)
        try:
            module.load(ptx(text, processor) if code is None else code)
        except self.cupy.cuda.driver.CUDADriverError:  # (of an assembler that is newer than the driver)
            if code is None:
                raise
            module.load(ptx(text, processor))
        functions = [module.get_function(f"kernel{number}") for number in range(len(kernels))]
        for function, kernel in zip(functions, kernels, strict=True):
            if kernel.shared > SHARED_BYTES:
                self.cupy.cuda.driver.funcSetAttribute(function.ptr, MOST_DYNAMIC_SHARED, kernel.shared)
        return functions

    @functools.cached_property
    def library(self) -> Cublas:
        """The library for products."""
        return Cublas(self.cupy)

    @functools.cached_property
    def convolutions(self) -> Cudnn:
        """The library for convolutions."""
        return Cudnn(self.cupy)

    @property
    def convolves(self) -> bool:
        """Whether there is a library for convolutions, and it is right."""
        return cudnn_library() is not None and self.convolutions.is_right

    def sequence(
        self,
        launches: list[Launch],
        table: Any,
        addresses: np.ndarray,
        moving: Collection[int] = (),
        perhaps_once: bool = False,
    ) -> Sequence:
        """Return kernels as a sequence."""
        return _Graph(self, launches, table, addresses, moving, perhaps_once)

    def launch(
        self, launch: Launch, table: Any, addresses: np.ndarray, moving: Collection[int], stream: Any
    ) -> None:
        """Launch a kernel or a product on a stream."""
        function, kernel, slots, exact = launch
        if isinstance(kernel, LibraryProduct):
            self.library.launch(kernel, [int(addresses[slot]) for slot in slots], stream.ptr)
        elif isinstance(kernel, LibraryConvolution):
            self.convolutions.launch(kernel, [int(addresses[slot]) for slot in slots], stream.ptr)
        else:
            if moving:
                given = [np.int64(each) for each in operands_of(slots, table.data.ptr, addresses, moving)]
            else:
                given = list(addresses[slots])
            function = function if exact is None or may_round() else exact
            more = kernel.shared if kernel.shared > SHARED_BYTES else 0
            function((kernel.blocks, 1, 1), (kernel.threads, 1, 1), given, more, stream)

    def run(self, function: Any, kernel: Kernel, operands: list[int]) -> None:
        """Run a kernel that was loaded by itself, on operands by their addresses, in its turn."""
        function((kernel.blocks, 1, 1), (kernel.threads, 1, 1), [np.int64(each) for each in operands])

    def owns(self, array: Any) -> bool:
        """Whether an array lies on the device already."""
        return isinstance(array, self.cupy.ndarray)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array on the device."""
        return self.cupy.empty(shape, dtype)

    def ready(self, array: Any) -> Any:
        """Return an array on the device, in C order and on an address that is a multiple of 16."""
        if isinstance(array, np.ndarray):
            array = np.atleast_1d(array)  # (to fill one without dimensions CuPy would have to make a kernel)
        array = self.cupy.ascontiguousarray(self.cupy.asarray(array))
        return array if array.data.ptr % ALIGNMENT == 0 else array.copy()

    def address(self, array: Any) -> int:
        """Return where an array on the device begins."""
        return array.data.ptr

    def view(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return memory on the device as an array."""
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self.cupy.cuda.UnownedMemory(address, count, None)
        return self.cupy.ndarray(shape, dtype, self.cupy.cuda.MemoryPointer(memory, 0))

    def read(self, array: Any) -> np.ndarray:
        """Return an array of the device's as NumPy's, when all that was begun is done."""
        return self.cupy.asnumpy(array)

    def write(self, array: Any, content: np.ndarray) -> None:
        """Write to an array on the device, in its turn. (The driver has a copy of the content when this returns.)"""
        stream = self.cupy.cuda.get_current_stream()
        array.data.copy_from_host_async(content.ctypes.data, content.nbytes, stream)

    def clear(self, array: Any) -> None:
        """Set an array on the device to zero, in its turn."""
        array.data.memset_async(0, array.nbytes, self.cupy.cuda.get_current_stream())

    def copy(self, source: int, target: Any) -> None:
        """Copy from an address on the device to an array there, in its turn."""
        runtime, stream = self.cupy.cuda.runtime, self.cupy.cuda.get_current_stream()
        runtime.memcpyAsync(target.data.ptr, source, target.nbytes, runtime.memcpyDeviceToDevice, stream.ptr)

    def words(self, count: int) -> np.ndarray:
        """Return numbers of the host's, all 0, that kernels can write to: the GPU sees pinned memory too."""
        memory = self.cupy.cuda.alloc_pinned_memory(8 * count)
        words = np.frombuffer(memory, np.int64, count)
        words[:] = 0
        return words

    def synchronize(self) -> None:
        """Wait until all that was begun is done."""
        self.cupy.cuda.get_current_stream().synchronize()

    def stream(self) -> Any:
        """Return the current stream."""
        return self.cupy.cuda.get_current_stream()

    def let_wait(self, stream: Any, other: Any) -> None:
        """Let a stream wait for all that another was asked for so far."""
        if stream.is_capturing():  # (a graph that a person makes: nothing outside of it can be waited for)
            return
        event = self.cupy.cuda.Event(disable_timing=True)
        try:
            event.record(other)
        except self.cupy.cuda.runtime.CUDARuntimeError:  # it was somebody else's, and is no more
            self.cupy.cuda.Device().synchronize()
        else:
            stream.wait_event(event)

    @functools.cached_property
    def of_libraries(self) -> Turns:
        """The turns of those who let cuBLAS and cuDNN compute in the memory that these keep."""
        return Turns(self)


def _rounding() -> tuple[bool, str]:
    return may_round(), convolutions_are()


class _Graph:
    """A sequence that is replayed as one CUDA graph, on the stream that is current then.

    one_by_one: whether its kernels are launched one after the other the first time: to make a graph takes longer.
    (A graph does not keep the code alive that it runs: the launches do.)
    """

    def __init__(
        self,
        device: Cuda,
        launches: list[Launch],
        table: Any,
        addresses: np.ndarray,
        moving: Collection[int],
        one_by_one: bool = False,
    ) -> None:
        self._device, self._launches, self._one_by_one = device, launches, one_by_one
        self._where = table, addresses, moving
        self._rounds = any(launch.rounds for launch in launches)
        self._captured_with: Any = None  # how products and convolutions are computed: see _rounding
        self._graph: Any = None

    def __call__(self) -> None:
        """Run them."""
        if self._one_by_one:
            self._one_by_one = False
            self._prepare()
            stream = self._device.cupy.cuda.get_current_stream()
            for launch in self._launches:
                self._device.launch(launch, *self._where, stream)
            return
        if self._graph is None or (self._rounds and self._captured_with != _rounding()):
            self._graph = self._captured()
        self._graph.launch()  # (on the current stream)

    def _prepare(self) -> None:
        """Let libraries take what they need, while nothing is captured."""
        if self._rounds:
            self._device.library.prepare()
            self._prepare_convolutions()
            self._captured_with = _rounding()

    def _captured(self) -> Any:
        self._prepare()
        stream = self._device.cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            for launch in self._launches:
                self._device.launch(launch, *self._where, stream)
            return stream.end_capture()

    def _prepare_convolutions(self) -> None:
        _, addresses, _ = self._where
        for _, kernel, slots, _ in self._launches:
            if isinstance(kernel, LibraryConvolution):
                self._device.convolutions.prepare(kernel, [int(addresses[slot]) for slot in slots])

    def measure(self) -> list[float]:
        """Launch them one by one, and return how many seconds each takes."""
        cuda = self._device.cupy.cuda
        stream = cuda.get_current_stream()
        seconds = []
        for launch in self._launches:
            began, ended = cuda.Event(), cuda.Event()
            began.record(stream)
            self._device.launch(launch, *self._where, stream)
            ended.record(stream)
            ended.synchronize()
            seconds.append(cuda.get_elapsed_time(began, ended) * 1e-3)
        return seconds
