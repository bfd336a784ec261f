"""minitorch.cuda: what programs ask about GPUs. Enters: questions. Leaves: answers that hold without a GPU too.

A GPU is used through CuPy (`x.to("cuda")`); where there is none, `is_available()` says so and the rest does nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
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


# The old address of mixed precision: `from torch.cuda.amp import autocast, GradScaler`.
amp = sys.modules[f"{__name__}.amp"] = ModuleType(
    f"{__name__}.amp", "autocast and GradScaler, at their old address."
)
vars(amp).update(autocast=_cuda_autocast, GradScaler=GradScaler, custom_fwd=custom_fwd, custom_bwd=custom_bwd)
