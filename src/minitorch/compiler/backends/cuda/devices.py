"""What runs kernels: a GPU, or this processor in its place. Enters: kernels and launches. Leaves: memory, and runs.

`Cuda` loads kernels through CuPy and replays what is launched as one CUDA graph. `Emulated` runs the very same phases,
thread after thread, where there is no GPU.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from minitorch.compiler.backends.cuda.cublas import Cublas
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.words import Kernel, cpu_text, gpu_text
from minitorch.compiler.backends.llvm.driver import aligned, array_at
from minitorch.compiler.backends.llvm.machine import compile_functions
from minitorch.compiler.backends.llvm.target import host, require_llvmlite

ALIGNMENT = 16  # of arrays that kernels read
MOST_GRAPHS = 8  # of one sequence, for different addresses


class Launch(NamedTuple):
    """A kernel that was loaded (or a product, for which there is a library), and the table entries of its operands."""

    function: Any
    kernel: Kernel | LibraryProduct
    slots: Sequence[int]


class Device(Protocol):
    """A device's memory, and how it runs kernels."""

    def require(self) -> None:
        """Raise ImportError, and say what is missing, if there is no such device."""

    def load(self, kernels: Sequence[Kernel]) -> list[Any]:
        """Make kernels ready to be launched."""

    def sequence(self, launches: Sequence[Launch], table: Any, addresses: np.ndarray) -> Callable[[], None]:
        """Return a function that runs kernels one after the other.

        table: the addresses of operands, on the device. addresses: the same here.
        """

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


class Emulated:
    """This processor in a GPU's place: blocks and threads one after the other (backwards: the last first)."""

    def __init__(self, backwards: bool = False) -> None:
        self.backwards = backwards

    def require(self) -> None:
        """Raise ImportError, and say what to install, if llvmlite is missing."""
        require_llvmlite()

    def load(self, kernels: Sequence[Kernel]) -> list[Any]:
        """Make kernels ready to be launched."""
        codes = compile_functions(
            [cpu_text(kernel, self.backwards) for kernel in kernels], host(), "KERNEL", optimization=0
        )
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
        return [(kind(code.address("KERNEL")), code) for code in codes]

    def sequence(self, launches: Sequence[Launch], table: Any, addresses: np.ndarray) -> Callable[[], None]:
        """Return a function that runs kernels one after the other."""
        steps: list[Callable[[], Any]] = []
        for function, kernel, slots in launches:
            if isinstance(kernel, LibraryProduct):
                steps.append(functools.partial(_multiply, kernel, addresses, slots))
            else:
                shared = aligned(max(1, kernel.shared))
                shared[:] = 0xFF  # nothing that anybody wrote
                given = (table, np.array([*slots, 0], np.int64), shared)
                steps.append(functools.partial(_run_kernel, function, given))

        def run() -> None:
            for step in steps:
                step()

        return run

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


def _run_kernel(function: Any, given: tuple[np.ndarray, ...]) -> None:
    """Run a kernel by its address; with it comes what keeps its code alive."""
    function[0](*(array.ctypes.data for array in given))


def _multiply(product: LibraryProduct, addresses: np.ndarray, slots: Sequence[int]) -> None:
    """Compute a product where a library would find and leave it."""
    p, size = product, product.dtype.itemsize
    shapes = [(p.rows, p.summed), (p.summed, p.columns), (p.rows, p.columns)]
    found = []
    for slot, matrix, shape in zip(slots, (p.a, p.b, p.c), shapes, strict=True):
        steps = (matrix.batch, matrix.row, matrix.column)
        reach = 1 + sum((n - 1) * step for n, step in zip((p.batches, *shape), steps, strict=True))
        flat = array_at(int(addresses[slot]), (reach,), p.dtype)
        strides = [step * size for step in steps]
        found.append(np.lib.stride_tricks.as_strided(flat, (p.batches, *shape), strides))
    found[2][...] = found[0] @ found[1]


class Cuda:
    """A GPU of NVIDIA's, through CuPy."""

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
    def processor(self) -> str:
        """LLVM's name for the GPU."""
        return f"sm_{self.cupy.cuda.Device().compute_capability}"

    def load(self, kernels: Sequence[Kernel]) -> list[Any]:
        """Make kernels ready to be launched: as one module, which the driver assembles (and keeps on disk)."""
        module = self.cupy.cuda.function.Module()
        module.load(ptx(gpu_text(kernels), self.processor))
        return [module.get_function(f"kernel{number}") for number in range(len(kernels))]

    @functools.cached_property
    def library(self) -> Cublas:
        """The library for products."""
        return Cublas(self.cupy)

    def sequence(self, launches: Sequence[Launch], table: Any, addresses: np.ndarray) -> Callable[[], None]:
        """Return a function that replays kernels as one CUDA graph, on the stream that is current then.

        Kernels find their operands through the table; the library's products are captured with their addresses, so
        there is a graph for each set of these that comes up again.
        """
        cuda = self.cupy.cuda
        fixed = [s for launch in launches if isinstance(launch.kernel, LibraryProduct) for s in launch.slots]
        graphs: dict[tuple[int, ...], Any] = {}

        def run() -> None:
            key = tuple(int(addresses[slot]) for slot in fixed)
            graph = graphs.get(key)
            if graph is None:
                if len(graphs) == MOST_GRAPHS:
                    graphs.pop(next(iter(graphs)))
                graph = graphs[key] = self._captured(launches, table, addresses)
            graph.launch(cuda.get_current_stream())

        return run

    def _captured(self, launches: Sequence[Launch], table: Any, addresses: np.ndarray) -> Any:
        """Return launches as a graph. (It does not keep the code alive that it runs: the launches do.)"""
        # (Made before anything is captured: it takes memory.)
        library = self.library if any(isinstance(each.kernel, LibraryProduct) for each in launches) else None
        stream = self.cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            for function, kernel, slots in launches:
                if isinstance(kernel, LibraryProduct):
                    assert library is not None
                    library.launch(kernel, [int(addresses[slot]) for slot in slots], stream.ptr)
                    continue
                given = [np.int64(each) for each in (table.data.ptr, *slots)]
                function((kernel.blocks, 1, 1), (kernel.threads, 1, 1), given, stream=stream)
            return stream.end_capture()

    def owns(self, array: Any) -> bool:
        """Whether an array lies on the device already."""
        return isinstance(array, self.cupy.ndarray)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array on the device."""
        return self.cupy.empty(shape, dtype)

    def ready(self, array: Any) -> Any:
        """Return an array on the device, in C order and on an address that is a multiple of 16."""
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
        """Write to an array on the device."""
        array.set(content)

    def clear(self, array: Any) -> None:
        """Set an array on the device to zero, in its turn."""
        array.data.memset_async(0, array.nbytes, self.cupy.cuda.get_current_stream())
