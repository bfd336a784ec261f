"""A GPU's kernels on the arrays of a GPU that does not exist: thread after thread, where these lie.

Enters: pytest's monkeypatch. Leaves: CuPy's stand-in (standin_cupy.py), and a backend that computes on its arrays.
"""

import numpy as np

import standin_cupy
from minitorch.compiler import backends
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.devices import Emulated
from minitorch.compiler.backends.cuda.words import ALIGNMENT
from minitorch.compiler.backends.llvm.driver import array_at
from standin import DeviceArray

moved = []  # the bytes of everything that programs brought to the host, or sent, since somebody cleared this


class StandinGpu(Emulated):
    """Runs kernels on DeviceArrays, where they lie."""

    ADDRESS = "{0}.data.ptr"
    ARRAYS = "CuPy"

    def owns(self, array):
        return isinstance(array, DeviceArray)

    def empty(self, shape, dtype):
        return DeviceArray(super().empty(shape, dtype))

    def ready(self, array):
        if not self.owns(array):
            moved.append(array.nbytes)
        elif array.host.flags.c_contiguous and array.data.ptr % ALIGNMENT == 0:
            return array
        copy = self.empty(array.shape, array.dtype)
        copy.host[...] = array.host if self.owns(array) else array
        return copy

    def address(self, array):
        return array.data.ptr

    def view(self, address, shape, dtype):
        return DeviceArray(array_at(address, shape, dtype))

    def read(self, array):
        moved.append(array.host.nbytes)
        return np.array(array.host)

    def write(self, array, content):
        array.host[...] = content

    def clear(self, array):
        array.host[...] = 0

    def stream(self):
        return standin_cupy.current_stream()

    def let_wait(self, stream, other):
        event = standin_cupy.Event()
        event.record(other)
        stream.wait_event(event)


def installed(monkeypatch):
    """Let there be such a GPU, and programs for it, while a test runs."""
    cupy = standin_cupy.installed(monkeypatch)
    monkeypatch.setitem(backends._BACKENDS, "cuda", CudaBackend(StandinGpu()))
    return cupy
