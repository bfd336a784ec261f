"""CuPy where there is none: two GPUs that do not exist, whose arrays are `DeviceArray`s.

Enters: pytest's monkeypatch. Leaves: the module that `import cupy` finds then, with a limit for its memory.
"""

import ctypes
import re
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
from numpy.lib.array_utils import byte_bounds

from minitorch.engine import gpu
from minitorch.ops import native
from minitorch.tensor import generator, philox
from standin import DeviceArray


class CUDARuntimeError(RuntimeError):
    """What CuPy raises for the driver's errors."""


class OutOfMemoryError(MemoryError):
    """What CuPy raises when memory is used up."""


OutOfMemoryError.__module__ = "cupy.cuda.memory"


class Device:
    """A GPU; as a context, the one in use."""

    def __init__(self, id=None):
        self.id = DeviceArray.made_on.id if id is None else id

    def use(self):
        DeviceArray.made_on = self

    def __enter__(self):
        self.before, DeviceArray.made_on = DeviceArray.made_on, self

    def __exit__(self, *exception):
        DeviceArray.made_on = self.before

    def synchronize(self):
        pass


class Stream:
    """An order of work; what is done in which one is written down."""

    current: ClassVar = []

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.ptr, self.log, self.done = 0 if null else id(self), [], True

    def __enter__(self):
        Stream.current.append(self)

    def __exit__(self, *exception):
        Stream.current.pop()

    def synchronize(self):
        self.log.append("synchronize")

    def wait_event(self, event):
        self.log.append(("wait", event.stream))

    def is_capturing(self):
        return False


Stream.null = Stream(null=True)


def current_stream():
    return Stream.current[-1] if Stream.current else Stream.null


class Event:
    """A moment in a stream."""

    done = True

    def __init__(self, block=False, disable_timing=False):
        self.disable_timing, self.stream = disable_timing, None

    def record(self, stream=None):
        self.stream, self.time = stream or current_stream(), time.perf_counter()

    def synchronize(self):
        pass


class MemoryHook:
    """Told of memory that is taken and given back: here, when a test says so."""

    active: ClassVar = []

    def __enter__(self):
        MemoryHook.active.append(self)

    def __exit__(self, *exception):
        MemoryHook.active.remove(self)


class RawKernel:
    """A kernel in CUDA's language: Philox's, whose numbers NumPy draws here."""

    def __init__(self, source, name):
        self.is_told = {"draw": False, "draw_told": True}[name]
        kind, each, normal = (re.search(rf"#define {n} (.+)", source)[1] for n in ("KIND", "EACH", "NORMAL"))
        self.kind = {"unsigned int": "words", "unsigned long long": "words64", "bool": "kept"}.get(
            kind, ("normals" if int(normal) else "fractions") + ("64" if kind == "double" else "")
        )
        self.each, self.beside = int(each), int(re.search("#define BESIDE (.+)", source)[1])

    def __call__(self, grid, block, args):
        out, count, *start, threads, keep = args
        seed, first = start
        if self.is_told:
            seed, first = start[0].host[0], start[0].host[1] + start[1]
        assert (grid[0] * block[0], out.size) == (threads, count)
        plan = philox.Layout(threads, grid[1], self.each, self.beside)
        out.host[...] = philox.draw(self.kind, int(seed), 4 * int(first), count, plan, keep)


class Cupy(ModuleType):
    """The module. limit: the bytes that one array may have. used: what the pool says is in use."""

    __version__ = "14.0.0"
    ndarray = type("NoKernels", (), {})  # arrays of another class: CuPy alone computes
    RawKernel = RawKernel
    byte_bounds = staticmethod(lambda array: byte_bounds(array.host))
    __file__ = __file__  # whose code is this library's business, not a program's

    def __init__(self):
        super().__init__("cupy")
        self.limit, self.used, self.taken, self.copies = 1 << 30, 0, 0, []
        self.pinned = {}
        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDeviceCount=lambda: 2,
            getDeviceProperties=lambda number: {
                "name": f"Stand-in {number}".encode(), "totalGlobalMem": 1 << 34, "major": 9, "minor": 0,
                "multiProcessorCount": 132, "maxThreadsPerMultiProcessor": 2048, "sharedMemPerBlock": 49152,
                "warpSize": 32, "l2CacheSize": 1 << 25,
            },
            memGetInfo=lambda: (self.limit, 1 << 34),
            pointerGetAttributes=lambda address: SimpleNamespace(type=int(address in self.pinned)),
            memcpyHostToDevice=1,
            memcpyAsync=lambda target, source, size, kind, stream: ctypes.memmove(target, source, size),
        )  # fmt: skip
        self.cuda = SimpleNamespace(
            runtime=runtime, Device=Device, Stream=Stream, Event=Event, MemoryHook=MemoryHook,
            get_current_stream=current_stream, alloc_pinned_memory=self.alloc_pinned,
            get_elapsed_time=lambda a, b: (b.time - a.time) * 1000,
        )  # fmt: skip
        # (CuPy's do not tell whose memory they look at either.)
        as_strided = lambda array, *where: DeviceArray(np.lib.stride_tricks.as_strided(array.host, *where))
        self.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=as_strided))
        self.add = SimpleNamespace(at=_add_at)

    def get_default_memory_pool(self):
        return SimpleNamespace(
            used_bytes=lambda: self.used, total_bytes=lambda: self.taken, free_bytes=lambda: self.taken - self.used,
            free_all_blocks=lambda: setattr(self, "taken", self.used), set_limit=lambda fraction: None,
        )  # fmt: skip

    def alloc_pinned(self, size):
        memory = (ctypes.c_uint8 * size)()
        self.pinned[ctypes.addressof(memory)] = memory
        return memory

    def made(self, host):
        if host.nbytes > self.limit:
            raise OutOfMemoryError(
                f"Out of memory allocating {host.nbytes:,} bytes (allocated so far: 0 bytes)."
            )
        return DeviceArray(host)

    def empty(self, shape, dtype=float):
        return self.made(np.full(shape, 7, dtype))

    def zeros(self, shape, dtype=float):
        return self.made(np.zeros(shape, dtype))

    def ones(self, shape, dtype=float):
        return self.made(np.ones(shape, dtype))

    def full(self, shape, value, dtype=None):
        return self.made(np.full(shape, value, dtype))

    def asarray(self, array, blocking=False):
        if isinstance(array, np.ndarray):
            assert array.ndim, "CuPy would make a kernel to fill it"
            self.copies.append((array.nbytes, blocking))
            return self.made(array.copy())
        return array if array.device.id == DeviceArray.made_on.id else self.made(array.host.copy())

    def from_dlpack(self, source):
        class OnHost:
            __dlpack_device__ = lambda self: (1, 0)
            __dlpack__ = lambda self, **options: source.__dlpack__(stream=current_stream().ptr)

        return DeviceArray(np.from_dlpack(OnHost()))


def _add_at(array, key, values):
    if array.dtype.name not in ("int32", "float16", "float32", "float64", "uint32", "uint64"):
        raise TypeError(f"cupy.add.at does not support {array.dtype}")
    np.add.at(array.host, _hosts(key), _hosts(values))


def _hosts(key):
    return tuple(map(_hosts, key)) if isinstance(key, tuple) else getattr(key, "host", key)


def gpu_or_standin(monkeypatch):
    """For a fixture: the GPU that there is, or these, with what is written for devices but without kernels."""
    if gpu.gpu_count():
        yield
        return
    installed(monkeypatch)
    enabled = native.are_native_ops_enabled()
    native.set_native_ops(False)
    native.meet(DeviceArray)
    yield
    native.forget(DeviceArray)
    native.set_native_ops(enabled)


def installed(monkeypatch):
    """Let `import cupy` find this, and DeviceArrays be its arrays, while a test runs."""
    cupy = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(DeviceArray, "__module__", "cupy")
    monkeypatch.setattr(DeviceArray, "made_on", Device(0))
    monkeypatch.setattr(generator, "device_generators", generator.device_generators)
    generator.device_generators.clear()
    return cupy
