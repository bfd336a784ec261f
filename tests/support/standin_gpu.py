"""A GPU that does not exist: tensors on it are `DeviceArray`s, and a GPU's kernels run on their memory, thread by thread.

Importing this makes `.to("cuda")` and `device="cuda"` mean it, and `compile` choose it for such tensors.
"""

import numpy as np
from numpy.lib.array_utils import byte_bounds

import minitorch.compiler.backends
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.devices import ALIGNMENT, Emulated
from minitorch.compiler.backends.llvm.driver import array_at
from minitorch.engine import device_arrays
from standin import DeviceArray

moved = []  # the bytes of everything that was brought to the host, or sent, since somebody cleared this


class StandinMemory:
    """Where DeviceArrays lie."""

    name, backend, kind = "cuda", "standin", DeviceArray

    def require(self):
        pass

    def to_host(self, array):
        moved.append(array.host.nbytes)
        return np.array(array.host)

    def to_device(self, array):
        assert isinstance(array, np.ndarray | np.generic), type(array)
        moved.append(array.nbytes)
        return DeviceArray(np.array(array))

    def bounds(self, array):
        return byte_bounds(array.host)


class StandinGpu(Emulated):
    """Runs kernels on DeviceArrays, where they lie."""

    ADDRESS = "{0}.host.ctypes.data"

    def owns(self, array):
        return isinstance(array, DeviceArray)

    def empty(self, shape, dtype):
        return DeviceArray(super().empty(shape, dtype))

    def ready(self, array):
        if not self.owns(array):
            moved.append(array.nbytes)
        elif array.host.flags.c_contiguous and array.host.ctypes.data % ALIGNMENT == 0:
            return array
        copy = self.empty(array.shape, array.dtype)
        copy.host[...] = array.host if self.owns(array) else array
        return copy

    def address(self, array):
        return array.host.ctypes.data

    def view(self, address, shape, dtype):
        return DeviceArray(array_at(address, shape, dtype))

    def read(self, array):
        moved.append(array.host.nbytes)
        return np.array(array.host)

    def write(self, array, content):
        array.host[...] = content

    def clear(self, array):
        array.host[...] = 0


device_arrays.register(StandinMemory())
minitorch.compiler.backends.register("standin", CudaBackend(StandinGpu()))


def numbers(tensor):
    """The numbers of a Tensor, wherever it is."""
    array = tensor._data if hasattr(tensor, "_data") else tensor
    return np.array(array.host if isinstance(array, DeviceArray) else array)
