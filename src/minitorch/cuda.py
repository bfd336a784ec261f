"""minitorch.cuda: what programs ask about GPUs. Enters: questions. Leaves: answers that hold without a GPU too.

A GPU is used through CuPy (`x.to("cuda")`); where there is none, `is_available()` says so and the rest does nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

from minitorch.amp import GradScaler, custom_bwd, custom_fwd
from minitorch.amp import autocast as _autocast
from minitorch.tensor.devices import device as Device
from minitorch.tensor.devices import gpu_count

_ABSENT = (
    "cuda: no GPU can be used here. In minitorch's folder, on a machine with an NVIDIA GPU: pip install '.[gpu]'; "
    "or stay on 'cpu'"
)


def device_count() -> int:
    """Return how many GPUs can be used.

    >>> device_count() >= 0
    True
    """
    return gpu_count()


def is_available() -> bool:
    """Tell whether there is a GPU.

    >>> is_available() == (device_count() > 0)
    True
    """
    return device_count() > 0


def manual_seed(seed: int) -> None:
    """Do nothing: every random number is drawn by the CPU's generator, which minitorch.manual_seed seeds."""


def empty_cache() -> None:
    """Give memory that CuPy keeps for later back to the GPU."""
    if is_available():
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done everything that was asked of it."""
    if is_available():
        import cupy

        cupy.cuda.Device().synchronize()


def current_device() -> int:
    """Return the number of the GPU in use."""
    if not is_available():
        raise RuntimeError(_ABSENT)
    import cupy

    return int(cupy.cuda.Device().id)


def set_device(device: Any) -> None:
    """Choose the GPU that is used from now on."""
    if not is_available():
        raise RuntimeError(_ABSENT)
    import cupy

    number = device if isinstance(device, int) else Device(device).index
    cupy.cuda.Device(number or 0).use()


def get_device_name(device: Any = None) -> str:
    """Return what the GPU is called."""
    number = (
        current_device() if device is None else device if isinstance(device, int) else Device(device).index
    )
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(number or 0)["name"].decode())


def memory_allocated(device: Any = None) -> int:
    """Return how many bytes of the GPU's memory arrays use.

    >>> memory_allocated() >= 0
    True
    """
    if not is_available():
        return 0
    import cupy

    return int(cupy.get_default_memory_pool().used_bytes())


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Tell whether the GPU computes in bfloat16: CuPy does not, and so it is done on the CPU alone.

    >>> is_bf16_supported()
    False
    """
    return False


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


manual_seed_all = manual_seed
max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
reset_peak_memory_stats = reset_max_memory_allocated = ipc_collect = init = _nothing


def _cuda_autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> _autocast:
    """Return a context in which everything is computed in the dtype it has."""
    return _autocast("cuda", dtype, enabled, cache_enabled)


def is_initialized() -> bool:
    """Tell whether a GPU is in use.

    >>> is_initialized() == is_available()
    True
    """
    return is_available()


def get_device_properties(device: Any = None) -> Any:
    """Return what the GPU is: name, total_memory, major, minor, multi_processor_count."""
    number = current_device() if device is None else Device(device).index or 0
    import cupy

    found = cupy.cuda.runtime.getDeviceProperties(number)
    return SimpleNamespace(
        name=found["name"].decode(),
        total_memory=found["totalGlobalMem"],
        major=found["major"],
        minor=found["minor"],
        multi_processor_count=found["multiProcessorCount"],
    )


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the GPU's generation: (9, 0) for an H200."""
    found = get_device_properties(device)
    return found.major, found.minor


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return how many bytes of the GPU's memory are free, and how many there are."""
    current_device()
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def get_rng_state_all() -> list[Any]:
    """Return nothing: every random number is drawn by the CPU's generator."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Do nothing: every random number is drawn by the CPU's generator."""


def is_current_stream_capturing() -> bool:
    """Return False."""
    return False


# --- a GPU's streams: the CPU has one -----------------------------------------------------------------------


class Stream:
    """An order of work: that of the program."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        self.device, self.priority = Device("cpu"), priority

    def synchronize(self) -> None:
        """Do nothing: what was asked for is done."""

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: what was asked for is done."""

    wait_event = wait_stream

    def record_event(self, event: Any = None) -> Any:
        """Return a time."""
        made = Event() if event is None else event
        made.record()
        return made

    def query(self) -> bool:
        """Return True: all is done."""
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class Event:
    """A moment; two of them tell the milliseconds between."""

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **options: Any) -> None:
        self.time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Take the time."""
        self.time = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this moment to another."""
        if self.time is None or end_event.time is None:
            raise RuntimeError("elapsed_time: both events must be recorded first")
        return (end_event.time - self.time) * 1000

    def synchronize(self) -> None:
        """Do nothing: what was asked for is done."""

    def wait(self, stream: Any = None) -> None:
        """Do nothing: what was asked for is done."""

    def query(self) -> bool:
        """Return True: all is done."""
        return True


class CUDAGraph:
    """A recorded sequence of kernels, which PyTorch has; it can be named, not made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "CUDAGraph: kernels are not recorded one by one; write minitorch.compile(function)"
        )


class graph(CUDAGraph):
    """What records one, in PyTorch."""


class OutOfMemoryError(RuntimeError):
    """A GPU's memory is used up."""


def current_stream(device: Any = None) -> Stream:
    """Return the program's own order of work."""
    return Stream()


def stream(stream: Any) -> Any:
    """Return a context in which work keeps the program's own order."""
    return contextlib.nullcontext(stream)


class device(contextlib.nullcontext[Any]):
    """A context in which a GPU is chosen; where there is none, an error that says so.

    >>> with device(-1):    # which is none, as in PyTorch
    ...     pass
    """

    def __init__(self, device: Any) -> None:
        super().__init__()
        if device is not None and device != -1:
            set_device(device)


default_stream, StreamContext, device_of = current_stream, stream, device
current_blas_handle = _nothing


# The old address of mixed precision: `from torch.cuda.amp import autocast, GradScaler`.
amp = sys.modules[f"{__name__}.amp"] = ModuleType(
    f"{__name__}.amp", "autocast and GradScaler, at their old address."
)
vars(amp).update(autocast=_cuda_autocast, GradScaler=GradScaler, custom_fwd=custom_fwd, custom_bwd=custom_bwd)
vars(amp).update(__path__=[], autocast_mode=amp, grad_scaler=amp)
sys.modules[f"{__name__}.amp.autocast_mode"] = sys.modules[f"{__name__}.amp.grad_scaler"] = amp
