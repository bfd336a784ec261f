"""What loads and launches kernels on a GPU, outside of graphs. Enters: kernels. Leaves: launches, and arrays there."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution
from minitorch.compiler.backends.cuda.devices import MOST_DYNAMIC_SHARED, Cuda
from minitorch.compiler.backends.cuda.gpu_text import gpu_text
from minitorch.compiler.backends.cuda.launching import DRIVER, Finder
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.steps import (
    Step,
    address_of,
    either_step,
    in_a_row,
    kernel_step,
    python_step,
)
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, Kernel
from minitorch.compiler.call.launches import Operands, Run
from minitorch.compiler.call.there import computing
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.engine import gpu, precision

NO_CONTEXT = 201  # the driver's code of a thread that has not met the GPU yet


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

    def step(self, function: Any, kernel: Kernel, operands: Operands, count: int) -> Step:
        """Return a launch of what `load` has returned for a kernel, or for the same with another number of blocks.

        operands: which of so many addresses each lies at (-1: none), and how many bytes from there.
        """
        more = kernel.shared if kernel.shared > SHARED_BYTES else 0
        grid = kernel.blocks, kernel.threads, more
        return kernel_step(self._driver, function.ptr, grid, operands, self._prepare, self._fail, function)

    def _prepare(self, code: int) -> None:
        """Raise what a code of the driver's means; but a thread that has not met the GPU yet is introduced to it."""
        if code != NO_CONTEXT:
            self._fail(code)
        self._cupy.cuda.Device().use()
        self._cupy.cuda.runtime.memGetInfo()

    def multiplying(self, product: LibraryProduct, operands: Operands, count: int, rounds: bool) -> Step:
        """Return what lets a library compute a product. rounds: whether it rounds factors of float32."""
        turns, stream_now = self.device.of_libraries, self.stream
        return self.device.library.step(
            product, operands, count, rounds, lambda: turns.take(stream_now()), turns.word
        )

    def convolving(self, convolution: LibraryConvolution, operands: Operands, count: int) -> Step:
        """Return what lets a library compute a convolution."""
        compute = functools.partial(self.device.convolutions.compute, convolution)

        def convolve(stream: int, *given: int) -> None:
            compute([offset if at < 0 else given[at] + offset for at, offset in operands], stream)

        return python_step(convolve, count)

    def either(self, rounding: Step, exact: Step) -> Step:
        """Return a step where factors may be rounded, else another one."""
        return either_step(precision.rounds, rounding, exact)

    def in_a_row(self, steps: Sequence[Step], count: int) -> Run:
        """Return what goes through steps, of so many addresses."""
        return in_a_row(steps, count)

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

    def settle(self) -> None:
        """Wait until what was sent has arrived: it may be read on other streams."""
        stream = self.stream()
        if not stream.is_capturing():
            stream.synchronize()

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
