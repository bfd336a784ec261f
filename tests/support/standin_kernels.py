"""A GPU's kernels of eager ops on `DeviceArray`s, run by this processor, thread after thread. For `device_kernels.use`."""

import numpy as np

from minitorch.compiler.backends.cuda.devices import Emulated, Launch
from minitorch.compiler.ir.elsewhere import Elsewhere
from standin import DeviceArray


class StandinLauncher:
    """In the place of device_kernels.Launcher; counts what it launches."""

    def __init__(self):
        self.device = Emulated()
        self.launched, self.loaded = 0, {}

    def load(self, kernels):
        return [self.function(*both) for both in zip(kernels, self.device.load(kernels), strict=True)]

    def again(self, run, kernel):
        return self.function(kernel, self.loaded[run])

    def function(self, kernel, loaded):
        def launch(addresses, stream):
            self.launched += 1
            self.device.step(loaded, kernel, list(addresses))()

        self.loaded[launch] = loaded
        return launch

    def multiply(self, product, addresses, stream):
        self.launched += 1
        self.device.sequence([Launch(None, product, [0, 1, 2])], None, np.array(addresses, np.int64))()

    convolve = multiply

    def scratch(self, size):
        memory = self.device.empty((size,), np.uint8)
        return memory, memory.ctypes.data

    def empty(self, shape, dtype):
        return DeviceArray(self.device.empty(shape, dtype))

    def address(self, array):
        return array.host.ctypes.data

    def stream(self):
        return 0

    def words(self, count):
        return np.zeros(count, np.int64)

    def computing(self):
        return Elsewhere(DeviceArray, DeviceArray.get)

    def sent(self, array):
        return DeviceArray(np.ascontiguousarray(array))
