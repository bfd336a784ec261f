"""A device whose arrays end where memory ends: who reads or writes beyond one of them does not live to tell."""

import ctypes
import mmap

import numpy as np

from minitorch.compiler.backends.cuda.devices import Emulated
from minitorch.compiler.backends.cuda.words import ALIGNMENT


class Fenced(Emulated):
    """Runs a GPU's kernels on this processor, on arrays with nothing behind them."""

    def empty(self, shape, dtype):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        used = -(-max(1, count) // ALIGNMENT) * ALIGNMENT
        pages = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = np.frombuffer(mmap.mmap(-1, pages + mmap.PAGESIZE), np.uint8)
        memory[:pages] = 0xFF
        fence = ctypes.c_void_p(memory.ctypes.data + pages)
        assert not ctypes.CDLL(None).mprotect(fence, ctypes.c_size_t(mmap.PAGESIZE), 0)
        return memory[pages - used : pages - used + count].view(dtype).reshape(shape)
