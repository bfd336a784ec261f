"""A GPU's kernels of eager ops on `DeviceArray`s, run by this processor, thread after thread. For `eager_backend.use`."""

import ctypes
from types import SimpleNamespace

import numpy as np

from minitorch.compiler.backends.cuda.devices import Emulated, Launch
from minitorch.compiler.backends.cuda.launching import Finder
from minitorch.compiler.backends.cuda.steps import (
    address_of,
    either_step,
    in_a_row,
    kernel_step,
    python_step,
)
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.engine import precision
from minitorch.engine.precision import may_round
from standin import DeviceArray


class StandinLauncher:
    """In the place of launcher.Launcher; counts what it launches."""

    finder = None  # (there is no machine code for DeviceArrays)

    def __init__(self):
        self.device = Emulated()
        self.launched = 0

    def load(self, kernels):
        return self.device.load(kernels)

    def step(self, function, kernel, operands, count):
        def launch(stream, *given):
            self.launched += 1
            addresses = [offset if at < 0 else given[at] + offset for at, offset in operands]
            self.device.step(function, kernel, addresses)()

        return launch

    def multiplying(self, product, operands, count, rounds=False):
        def compute(stream, *given):
            self.launched += 1
            addresses = [offset if at < 0 else given[at] + offset for at, offset in operands]
            launch = Launch(None, product, list(range(len(addresses))))
            self.device.sequence([launch], None, np.array(addresses, np.int64))()

        return compute

    convolving = multiplying

    def either(self, rounding, exact):
        return lambda *given: (rounding if may_round() else exact)(*given)

    def in_a_row(self, steps, count):
        def run(stream, *given):
            assert len(given) == count
            for step in steps:
                step(stream, *given)

        return run

    def scratch(self, size):
        memory = self.device.empty((size,), np.uint8)
        return memory, memory.ctypes.data

    def empty(self, shape, dtype):
        return DeviceArray(self.device.empty(shape, dtype))

    def address(self, array):
        return array.host.ctypes.data

    def stream(self):
        return SimpleNamespace(ptr=0)

    def words(self, count):
        return np.zeros(count, np.int64)

    def computing(self):
        return Elsewhere(DeviceArray, DeviceArray.get)

    def settle(self):
        pass

    def sent(self, array):
        return DeviceArray(np.ascontiguousarray(array))


WORDS = ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))
DRIVER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_int64, WORDS, ctypes.c_void_p
)


class MachineCodeLauncher(StandinLauncher):
    """The same, whose kernels are found and launched by machine code, as a GPU's are."""

    def __init__(self):
        super().__init__()
        self.finder = Finder(DeviceArray, self.stream)

    def step(self, function, kernel, operands, count):
        def launch(_, bx, by, bz, tx, ty, tz, shared, stream, given, extra):
            self.launched += 1
            self.device.step(function, kernel, [given[i][0] for i in range(len(operands))])()
            return 0

        driver = DRIVER(launch)
        grid = kernel.blocks, kernel.threads, 0
        return kernel_step(address_of(driver), 0, grid, operands, self.fail, self.fail, driver)

    def multiplying(self, product, operands, count, rounds=False):
        return python_step(super().multiplying(product, operands, count), count)

    convolving = multiplying

    def either(self, rounding, exact):
        return either_step(precision.rounds, rounding, exact)

    def in_a_row(self, steps, count):
        return in_a_row(steps, count)

    def fail(self, code):
        raise RuntimeError(code)
