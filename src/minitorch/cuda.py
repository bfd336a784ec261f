"""minitorch.cuda: what programs ask of GPUs. Enters: questions. Leaves: answers that hold without a GPU too.

A GPU is used through CuPy (`x.to("cuda")`, `zeros(3, device="cuda")`). Where there is none, `is_available()` says so,
what only waits or counts does nothing, and what needs one says what is missing.
"""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.amp import GradScaler, custom_bwd, custom_fwd
from minitorch.amp import autocast as _autocast
from minitorch.engine import gpu
from minitorch.engine.dtypes import bfloat16
from minitorch.engine.gpu import OutOfMemoryError as OutOfMemoryError
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.devices import device as Device
from minitorch.tensor.generator import generator_of, seed_devices


def device_count() -> int:
    """Return how many GPUs can be used.

    >>> device_count() >= 0
    True
    """
    return gpu.gpu_count()


def is_available() -> bool:
    """Tell whether there is a GPU.

    >>> is_available() == (device_count() > 0)
    True
    """
    return device_count() > 0


def is_initialized() -> bool:
    """Tell whether a GPU is in use.

    >>> is_initialized() == is_available()
    True
    """
    return is_available()


def _number(device: Any) -> int:
    """Return a GPU's number: of a name, a number, or None, which is the one in use."""
    if device is None:
        return current_device()
    number = device if isinstance(device, int) else Device(device).index
    return current_device() if number is None else number


def current_device() -> int:
    """Return the number of the GPU in use."""
    return int(gpu.library().cuda.Device().id)


def set_device(device: Any) -> None:
    """Choose the GPU that is used from now on."""
    cupy = gpu.library()
    if device != -1:  # which is none, as in PyTorch
        cupy.cuda.Device(_number(device)).use()


class device:
    """A context in which another GPU is in use; where there is none, an error that says so.

    >>> with device(-1):    # which is none, as in PyTorch
    ...     pass
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or device == -1 else _number(device)
        self._around: list[Any] = []

    def __enter__(self) -> None:
        entered = contextlib.nullcontext() if self.idx < 0 else gpu.library().cuda.Device(self.idx)
        entered.__enter__()
        self._around.append(entered)

    def __exit__(self, *exception: Any) -> None:
        self._around.pop().__exit__(*exception)


class device_of(device):
    """A context in which the GPU of a tensor is in use; for one on the CPU nothing changes."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device())


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done everything that was asked of it."""
    if is_available():
        gpu.library().cuda.Device(_number(device)).synchronize()
        gpu.tell()


# --- what a GPU is -------------------------------------------------------------------------------------------


def get_device_properties(device: Any = None) -> Any:
    """Return what the GPU is: name, total_memory, major, minor, multi_processor_count and more."""
    found = gpu.library().cuda.runtime.getDeviceProperties(_number(device))
    return SimpleNamespace(
        name=found["name"].decode(),
        total_memory=found["totalGlobalMem"],
        major=found["major"],
        minor=found["minor"],
        multi_processor_count=found["multiProcessorCount"],
        max_threads_per_multi_processor=found["maxThreadsPerMultiProcessor"],
        shared_memory_per_block=found["sharedMemPerBlock"],
        warp_size=found["warpSize"],
        L2_cache_size=found["l2CacheSize"],
    )


def get_device_name(device: Any = None) -> str:
    """Return what the GPU is called."""
    return str(get_device_properties(device).name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the GPU's generation: (9, 0) for an H200."""
    found = get_device_properties(device)
    return found.major, found.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Tell whether bfloat16 tensors can lie on the GPU: with CuPy from version 14 on, and the package ml_dtypes.

    Ops widen them to float32 and round what comes out, as on the CPU.

    >>> is_bf16_supported() <= is_available()
    True
    """
    if not is_available() or not isinstance(bfloat16, np.dtype):
        return False
    return int(gpu.library().__version__.partition(".")[0]) >= 14


# --- memory --------------------------------------------------------------------------------------------------


def _pool(device: Any = None) -> Any:
    """Return CuPy's memory of a GPU: what arrays use, and what is kept for later ones."""
    cupy = gpu.library()
    with cupy.cuda.Device(_number(device)):
        return cupy.get_default_memory_pool()


def _bytes(what: str, device: Any) -> int:
    if not is_available():
        return 0
    cupy = gpu.library()
    with cupy.cuda.Device(_number(device)):
        return int(getattr(cupy.get_default_memory_pool(), what)())


def memory_allocated(device: Any = None) -> int:
    """Return how many bytes of the GPU's memory arrays use.

    >>> memory_allocated() >= 0
    True
    """
    return _bytes("used_bytes", device)


def memory_reserved(device: Any = None) -> int:
    """Return how many bytes of the GPU's memory are taken: by arrays, and for later ones.

    >>> memory_reserved() >= memory_allocated()
    True
    """
    return _bytes("total_bytes", device)


_peaks: dict[int, Any] = {}  # by the GPU's number: who counts


def _counter(device: Any) -> Any:
    """Return who counts the bytes in use from now on; counting each array that is made takes a little time."""
    cupy, number = gpu.library(), _number(device)
    if number not in _peaks:

        class Peak(cupy.cuda.MemoryHook):  # type: ignore[name-defined]
            """Called whenever memory is taken or given back."""

            name = "minitorch_peak"
            used = peak = reserved = 0

            def malloc_postprocess(self, **told: int) -> None:
                """Count what is taken."""
                if told["device_id"] == number:
                    self.used += told["mem_size"]
                    self.peak = max(self.peak, self.used)

            def free_postprocess(self, **told: int) -> None:
                """Count what is given back."""
                if told["device_id"] == number:
                    self.used -= told["mem_size"]

        _peaks[number] = Peak()
        _peaks[number].used = _peaks[number].peak = memory_allocated(number)
        _peaks[number].__enter__()  # for good
    return _peaks[number]


def max_memory_allocated(device: Any = None) -> int:
    """Return how many bytes arrays used at most since the last reset_peak_memory_stats().

    It is counted from the first time on that this or reset_peak_memory_stats is called; the first answer is what CuPy
    has taken so far, which is never less.
    """
    if not is_available():
        return 0
    if _number(device) not in _peaks:
        _counter(device).peak = memory_reserved(device)
    return int(_counter(device).peak)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Count from now on how many bytes are in use at most."""
    if is_available():
        counter = _counter(device)
        counter.used = counter.peak = memory_allocated(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return how many bytes of the GPU's memory are free, and how many there are."""
    cupy = gpu.library()
    with cupy.cuda.Device(_number(device)):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the figures by PyTorch's names; empty where there is no GPU."""
    if not is_available():
        return {}
    used, taken = memory_allocated(device), memory_reserved(device)
    return {
        "allocated_bytes.all.current": used,
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": taken,
        "reserved_bytes.all.peak": taken,
        "inactive_split_bytes.all.current": taken - used,
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the figures as text."""
    return "\n".join(f"{name:36}{figure:>20,}" for name, figure in memory_stats(device).items())


def empty_cache() -> None:
    """Give memory that CuPy keeps for later back to the GPU."""
    if is_available():
        gpu.library().get_default_memory_pool().free_all_blocks()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let arrays use no more than a part of the GPU's memory."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"set_per_process_memory_fraction: expects a number from 0 to 1, got {fraction}")
    with gpu.library().cuda.Device(_number(device)):
        _pool(device).set_limit(fraction=fraction)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return memory_stats, with a dict for each word before a dot."""
    nest: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *words, last = name.split(".")
        inner = nest
        for word in words:
            inner = inner.setdefault(word, {})
        inner[last] = value
    return nest


def _renamed(old: str, function: Any) -> Any:
    def call(device: Any = None) -> Any:
        new = function.__name__
        warnings.warn(
            f"`torch.cuda.{old}` has been renamed to `torch.cuda.{new}`", FutureWarning, stacklevel=2
        )
        return function(device)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"{function.__name__} under its old name, which warns."
    return call


memory_cached = max_memory_cached = _renamed("memory_cached", memory_reserved)
reset_max_memory_cached = _renamed("reset_max_memory_cached", reset_peak_memory_stats)
max_memory_reserved = memory_reserved  # (it is given back by empty_cache alone)
reset_max_memory_allocated = reset_peak_memory_stats
ipc_collect = init = current_blas_handle = _nothing


def get_arch_list() -> list[str]:
    """Return the GPUs that kernels were compiled for beforehand: none, they are compiled when they are needed."""
    return []


def get_gencode_flags() -> str:
    """Return the options they were compiled with: none."""
    return ""


def is_tf32_supported() -> bool:
    """Tell whether the GPU multiplies float32 in fewer digits where it may."""
    return is_available() and get_device_capability() >= (8, 0)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Tell whether a GPU can read another one's memory."""
    runtime = gpu.library().cuda.runtime
    return bool(runtime.deviceCanAccessPeer(_number(device), _number(peer_device)))


def set_stream(stream: Any) -> None:
    """From now on, ask for everything on a stream."""
    if stream is not None and is_available():
        stream.stream.use()


# --- PyTorch's old names: FloatTensor(2, 3) ------------------------------------------------------------------


class _LegacyOnGpu(type):
    """The kind of cuda.FloatTensor and its like: called they make tensors on the GPU, asked they tell dtypes."""

    on_cpu: Any

    def __call__(cls, *args: Any) -> Any:
        """Make a tensor from data, or of a shape."""
        if not is_available():
            raise TypeError(
                f"type torch.cuda.{cls.__name__} not available: there is no GPU, or no CuPy; write "
                f"torch.{cls.__name__}, or torch.tensor(…, device=device)"
            )
        return cls.on_cpu(*args).to("cuda")

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.on_cpu) and instance.is_cuda


(
    FloatTensor,
    DoubleTensor,
    HalfTensor,
    LongTensor,
    IntTensor,
    ShortTensor,
    ByteTensor,
    CharTensor,
    BoolTensor,
) = (
    _LegacyOnGpu(
        kind.__name__,
        (),
        {"on_cpu": kind, "__doc__": f"PyTorch's old way to a {kind.__name__} on a GPU."},
    )
    for kind in (
        *(
            creation.FloatTensor,
            creation.DoubleTensor,
            creation.HalfTensor,
            creation.LongTensor,
            creation.IntTensor,
        ),
        *(creation.ShortTensor, creation.ByteTensor, creation.CharTensor, creation.BoolTensor),
    )
)


# --- random numbers ------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seed the generator of the GPU in use; where there is none yet, those of all that are used later."""
    if is_available():
        generator_of(Device("cuda", current_device())).manual_seed(seed)
    else:
        seed_devices(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    seed_devices(int(seed))


def seed() -> None:
    """Seed the generator of the GPU in use from the system's randomness."""
    if is_available():
        generator_of(Device("cuda", current_device())).seed()


def seed_all() -> None:
    """Seed the generators of all GPUs from the system's randomness, all alike."""
    if is_available():
        seed_devices(generator_of(Device("cuda", 0)).seed())


def initial_seed() -> int:
    """Return the seed of the generator of the GPU in use."""
    return generator_of(Device("cuda", current_device())).initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """Return the state of a GPU's generator: the 16 bytes of its seed and its offset, as in PyTorch."""
    return as_tensor(generator_of(Device("cuda", _number(device))).get_state())


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continue a GPU's generator from a state that get_rng_state returned."""
    generator_of(Device("cuda", _number(device))).set_state(new_state.cpu().numpy())


def get_rng_state_all() -> list[Any]:
    """Return the states of all GPUs' generators."""
    return [get_rng_state(number) for number in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Continue all GPUs' generators from states that get_rng_state_all returned."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


# --- streams and events --------------------------------------------------------------------------------------


class Stream:
    """An order of work on a GPU: what is asked for inside `with stream(s):` runs beside that of other streams.

    Where there is no GPU, everything is done when a function returns, and a stream has nothing to order.
    """

    def __init__(self, device: Any = None, priority: int = 0, *, wraps: Any = None, **options: Any) -> None:
        self.priority = priority
        self._entered: list[Any] = []
        if wraps is None and is_available():
            with gpu.working_on(_number(device), "Stream") as cupy:
                wraps = cupy.cuda.Stream(non_blocking=True, priority=priority or None)
        self.stream = wraps  # CuPy's
        self.device = Device("cpu" if wraps is None else f"cuda:{_number(device)}")

    @property
    def cuda_stream(self) -> int:
        """Its address, for other libraries."""
        return 0 if self.stream is None else int(self.stream.ptr)

    def synchronize(self) -> None:
        """Wait until all is done that was asked for in it."""
        if self.stream is not None:
            self.stream.synchronize()
            gpu.tell()

    def query(self) -> bool:
        """Tell whether all is done that was asked for in it."""
        return self.stream is None or bool(self.stream.done)

    def wait_stream(self, stream: Any) -> None:
        """Let what is asked for here from now on wait for what was asked for in another stream until now."""
        self.wait_event(stream.record_event())

    def wait_event(self, event: Any) -> None:
        """Let what is asked for here from now on wait for an event."""
        if self.stream is not None and event.event is not None:
            self.stream.wait_event(event.event)

    def record_event(self, event: Any = None) -> Any:
        """Note a moment in it: an event that has come when all is done that was asked for until now."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def __enter__(self) -> Stream:
        entered = contextlib.nullcontext() if self.stream is None else self.stream
        entered.__enter__()
        self._entered.append(entered)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._entered.pop().__exit__(*exception)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<minitorch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def current_stream(device: Any = None) -> Stream:
    """Return the stream that work is asked for in.

    >>> current_stream().query()
    True
    """
    return Stream(device, wraps=gpu.library().cuda.get_current_stream() if is_available() else None)


def default_stream(device: Any = None) -> Stream:
    """Return the stream that work is asked for in where no other was chosen."""
    return Stream(device, wraps=gpu.library().cuda.Stream.null if is_available() else None)


@contextlib.contextmanager
def stream(stream: Any) -> Iterator[Any]:
    """Return a context in which work is asked for in a stream (None: nothing changes)."""
    with contextlib.nullcontext() if stream is None else stream:
        yield stream


StreamContext = stream


class Event:
    """A moment in a stream; two of them tell the milliseconds between.

    enable_timing: whether it can tell. blocking: whether waiting for it leaves the processor to others.

    >>> begin, end = Event(enable_timing=True), Event(enable_timing=True)
    >>> begin.record(); end.record(); end.synchronize(); begin.elapsed_time(end) >= 0
    True
    """

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, **options: Any
    ) -> None:
        self.time: float | None = None
        self._is_timed = enable_timing
        self.event: Any = None  # CuPy's
        if is_available():
            self.event = gpu.library().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Any = None) -> None:
        """Note this moment, in the current stream or in another."""
        self.time = time.perf_counter()
        if self.event is not None:
            self.event.record(None if stream is None else stream.stream)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this moment to another."""
        if self.time is None or end_event.time is None:
            raise RuntimeError("elapsed_time: both events must be recorded first")
        if self.event is None:
            return (end_event.time - self.time) * 1000
        if not (self._is_timed and end_event._is_timed):
            raise RuntimeError("elapsed_time: both events must be made with enable_timing=True")
        end_event.synchronize()
        return float(gpu.library().cuda.get_elapsed_time(self.event, end_event.event))

    def synchronize(self) -> None:
        """Wait until it has come."""
        if self.event is not None:
            self.event.synchronize()

    def wait(self, stream: Any = None) -> None:
        """Let what is asked for in a stream (the current one) from now on wait for it."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Tell whether it has come."""
        return self.event is None or bool(self.event.done)


def is_current_stream_capturing() -> bool:
    """Tell whether what is asked for is being recorded as a graph."""
    return is_available() and bool(gpu.library().cuda.get_current_stream().is_capturing())


class CUDAGraph:
    """A recorded sequence of kernels, which PyTorch has; it can be named, not made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "CUDAGraph: kernels are not recorded one by one; write minitorch.compile(function)"
        )


class graph(CUDAGraph):
    """What records one, in PyTorch."""


def make_graphed_callables(*args: Any, **options: Any) -> Any:
    """Say what there is instead of functions whose kernels are recorded as a graph."""
    return CUDAGraph()


class ExternalStream(Stream):
    """Another library's stream, by its address."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(device, wraps=gpu.library().cuda.ExternalStream(stream_ptr))


# --- for profilers ---------------------------------------------------------------------------------------------


def _range_push(msg: str) -> None:
    if is_available():
        gpu.library().cuda.nvtx.RangePush(msg)


def _range_pop() -> None:
    if is_available():
        gpu.library().cuda.nvtx.RangePop()


def _mark(msg: str) -> None:
    if is_available():
        gpu.library().cuda.nvtx.Mark(msg)


@contextlib.contextmanager
def _range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    _range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        _range_pop()


def _profiled(begins: bool) -> None:
    if is_available():
        profiler = gpu.library().cuda.runtime
        profiler.profilerStart() if begins else profiler.profilerStop()


# `torch.cuda.nvtx.range_push("forward")`: names in a profiler's picture.
nvtx = sys.modules[f"{__name__}.nvtx"] = ModuleType(f"{__name__}.nvtx", "Names for what a profiler shows.")
vars(nvtx).update(range_push=_range_push, range_pop=_range_pop, mark=_mark, range=_range)
profiler = sys.modules[f"{__name__}.profiler"] = ModuleType(
    f"{__name__}.profiler", "What a profiler is to see."
)
vars(profiler).update(start=lambda: _profiled(True), stop=lambda: _profiled(False))


def _cuda_autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> _autocast:
    """Return a context in which products are computed in half precision."""
    return _autocast("cuda", dtype, enabled, cache_enabled)


# The old address of mixed precision: `from torch.cuda.amp import autocast, GradScaler`.
amp = sys.modules[f"{__name__}.amp"] = ModuleType(
    f"{__name__}.amp", "autocast and GradScaler, at their old address."
)
vars(amp).update(autocast=_cuda_autocast, GradScaler=GradScaler, custom_fwd=custom_fwd, custom_bwd=custom_bwd)
vars(amp).update(__path__=[], autocast_mode=amp, grad_scaler=amp)
sys.modules[f"{__name__}.amp.autocast_mode"] = sys.modules[f"{__name__}.amp.grad_scaler"] = amp
