"""minitorch.cuda: what programs ask of GPUs. Enters: questions. Leaves: answers that hold without a GPU too.

A GPU is used through CuPy (`x.to("cuda")`, `zeros(3, device="cuda")`). Where there is none, `is_available()` says so,
what only waits or counts does nothing, and what needs one says what is missing.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.amp import GradScaler, custom_bwd, custom_fwd
from minitorch.amp import autocast as _autocast
from minitorch.cuda import graphs, management, memory, random, streams
from minitorch.cuda.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from minitorch.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from minitorch.cuda.management import (
    clock_rate,
    device_memory_used,
    list_gpu_processes,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)
from minitorch.cuda.memory import (
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from minitorch.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from minitorch.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from minitorch.engine import gpu
from minitorch.engine.gpu import OutOfMemoryError
from minitorch.tensor.devices import device as Device
from minitorch.tensor.generator import generator_of


class AcceleratorError(RuntimeError):
    """What PyTorch raises for a GPU's errors; here they are CuPy's, which are RuntimeErrors too."""


class CudaError(RuntimeError):
    """What PyTorch raises for a code of the driver's (`check_error`)."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the CUDA runtime failed with status {code}")


DeferredCudaCallError = AcceleratorError
has_half, has_magma = True, False  # float16 there is; of linear algebra's libraries NVIDIA's are used


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


ipc_collect = init = current_blas_handle = _lazy_init = _nothing


def _lazy_call(callable: Any, **kwargs: Any) -> None:
    """Call a function: a GPU is met when it is first used, and nothing has to wait for it."""
    callable()


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return tuple(generator_of(Device("cuda", number)) for number in range(device_count()))
    raise AttributeError(f"module 'minitorch.cuda' has no attribute {name!r}")


def cudart() -> Any:
    """Return the functions of the CUDA runtime that programs call by name."""
    runtime = gpu.library().cuda.runtime
    return SimpleNamespace(
        cudaProfilerStart=lambda: _profiled(True),
        cudaProfilerStop=lambda: _profiled(False),
        cudaMemGetInfo=mem_get_info,
        cudaHostRegister=lambda address, size, flags=0: runtime.hostRegister(address, size, flags),
        cudaHostUnregister=lambda address: runtime.hostUnregister(address),
    )


def check_error(res: int) -> None:
    """Raise an error for a code that is not 0; None, which functions here return, is no error."""
    if res:
        raise CudaError(res)


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Remember nothing but "default": who waits for the GPU is not told here."""
    if debug_mode not in (0, "default"):
        warnings.warn(
            "set_sync_debug_mode: what waits for the GPU is not told here; torch.profiler measures it",
            stacklevel=2,
        )


def get_sync_debug_mode() -> int:
    """Return 0: nothing is told.

    >>> get_sync_debug_mode()
    0
    """
    return 0


_SLEEP = """
extern "C" __global__ void sleep(long long cycles) {
    const long long begun = clock64();
    while (clock64() - begun < cycles) { }
}
"""


def _sleep(cycles: int) -> None:
    """Keep the GPU busy for so many of its cycles, in the current stream: to see what runs beside."""
    gpu.library().RawKernel(_SLEEP, "sleep")((1,), (1,), (np.int64(cycles),))


# --- PyTorch's old names: FloatTensor(2, 3) ------------------------------------------------------------------


class _LegacyOnGpu(type):
    """The kind of cuda.FloatTensor and its like: called they make tensors on the GPU, asked they tell dtypes."""

    on_cpu: Any
    legacy_dtype = property(lambda cls: cls.on_cpu.legacy_dtype)

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


@contextlib.contextmanager
def _profile() -> Iterator[None]:
    _profiled(True)
    try:
        yield
    finally:
        _profiled(False)


# `torch.cuda.nvtx.range_push("forward")`: names in a profiler's picture.
nvtx = sys.modules[f"{__name__}.nvtx"] = ModuleType(f"{__name__}.nvtx", "Names for what a profiler shows.")
vars(nvtx).update(range_push=_range_push, range_pop=_range_pop, mark=_mark, range=_range)
profiler = sys.modules[f"{__name__}.profiler"] = ModuleType(
    f"{__name__}.profiler", "What a profiler is to see."
)
vars(profiler).update(
    start=lambda: _profiled(True),
    stop=lambda: _profiled(False),
    profile=_profile,
    cudart=cudart,
    init=_nothing,
)


def _cuda_autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> _autocast:
    """Return a context in which products are computed in half precision."""
    return _autocast("cuda", dtype, enabled, cache_enabled)


# The old address of mixed precision: `from torch.cuda.amp import autocast, GradScaler`.
amp = sys.modules[f"{__name__}.amp"] = ModuleType(
    f"{__name__}.amp", "autocast and GradScaler, at their old address."
)
vars(amp).update(autocast=_cuda_autocast, GradScaler=GradScaler, custom_fwd=custom_fwd, custom_bwd=custom_bwd)
vars(amp).update(__path__=[], autocast_mode=amp, grad_scaler=amp, common=amp)
vars(amp).update(amp_definitely_not_available=lambda: not is_available())
for _name in ("autocast_mode", "grad_scaler", "common"):
    sys.modules[f"{__name__}.amp.{_name}"] = amp

__all__ = [
    "AcceleratorError", "BoolTensor", "ByteTensor", "CUDAGraph", "CharTensor", "CudaError",
    "DeferredCudaCallError", "DoubleTensor", "Event", "ExternalStream", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "MemPool", "OutOfMemoryError", "ShortTensor", "Stream", "StreamContext", "amp",
    "caching_allocator_alloc", "caching_allocator_delete", "can_device_access_peer", "check_error",
    "clock_rate", "cudart", "current_device", "current_stream", "default_stream", "device", "device_count",
    "device_memory_used", "device_of", "empty_cache", "get_allocator_backend", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags",
    "get_per_process_memory_fraction", "get_rng_state", "get_rng_state_all", "get_stream_from_external",
    "get_sync_debug_mode", "graph", "graph_pool_handle", "graphs", "initial_seed", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "is_tf32_supported",
    "list_gpu_processes", "make_graphed_callables", "management", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory",
    "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "memory_usage", "nvtx", "power_draw", "profiler", "random",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_per_process_memory_fraction",
    "set_rng_state", "set_rng_state_all", "set_stream", "set_sync_debug_mode", "stream", "streams",
    "synchronize", "temperature", "use_mem_pool", "utilization",
]  # fmt: skip
