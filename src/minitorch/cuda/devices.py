"""Which GPUs there are, what each is, and which is in use. Enters: names and numbers of GPUs. Leaves: answers."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from minitorch.engine import gpu
from minitorch.engine.dtypes import bfloat16
from minitorch.tensor.devices import device as Device


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


def number_of(device: Any) -> int:
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
        cupy.cuda.Device(number_of(device)).use()


class device:
    """A context in which another GPU is in use; where there is none, an error that says so.

    >>> with device(-1):    # which is none, as in PyTorch
    ...     pass
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or device == -1 else number_of(device)
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
        gpu.library().cuda.Device(number_of(device)).synchronize()
        gpu.tell()


class _CudaDeviceProperties(SimpleNamespace):
    """What a GPU is, printed as PyTorch prints it."""

    def __repr__(self) -> str:
        told = (
            f"name={self.name!r}, major={self.major}, minor={self.minor}, total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, "
            f"L2_cache_size={self.L2_cache_size >> 20}MB"
        )
        return f"_CudaDeviceProperties({told})"


def get_device_properties(device: Any = None) -> Any:
    """Return what the GPU is: name, total_memory, major, minor, multi_processor_count and more."""
    found = gpu.library().cuda.runtime.getDeviceProperties(number_of(device))
    return _CudaDeviceProperties(
        name=found["name"].decode(),
        total_memory=found["totalGlobalMem"],
        major=found["major"],
        minor=found["minor"],
        multi_processor_count=found["multiProcessorCount"],
        max_threads_per_multi_processor=found["maxThreadsPerMultiProcessor"],
        max_threads_per_block=found.get("maxThreadsPerBlock", 1024),
        regs_per_multiprocessor=found.get("regsPerMultiprocessor", 0),
        shared_memory_per_block=found["sharedMemPerBlock"],
        shared_memory_per_block_optin=found.get("sharedMemPerBlockOptin", 0),
        shared_memory_per_multiprocessor=found.get("sharedMemPerMultiprocessor", 0),
        warp_size=found["warpSize"],
        L2_cache_size=found["l2CacheSize"],
        memory_bus_width=found.get("memoryBusWidth", 0),
        is_integrated=found.get("integrated", 0),
        is_multi_gpu_board=found.get("isMultiGpuBoard", 0),
        pci_bus_id=found.get("pciBusID", 0),
        pci_device_id=found.get("pciDeviceID", 0),
        pci_domain_id=found.get("pciDomainID", 0),
        uuid=_uuid(found.get("uuid", bytes(16))),
    )


def _uuid(code: bytes) -> str:
    """Return the name by which nvidia-smi knows a GPU, as PyTorch writes it."""
    text = bytes(code)[:16].hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


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


def get_arch_list() -> list[str]:
    """Return the kinds of GPUs that kernels are for: those there are, as kernels are compiled when they are needed.

    >>> get_arch_list() if not is_available() else []
    []
    """
    numbers = range(device_count())
    return sorted({"sm_{}{}".format(*get_device_capability(number)) for number in numbers})


def get_gencode_flags() -> str:
    """Return the options by which a CUDA compiler is told of these kinds."""
    return " ".join(f"-gencode compute=compute_{each[3:]},code={each}" for each in get_arch_list())


def is_tf32_supported() -> bool:
    """Tell whether the GPU multiplies float32 in fewer digits where it may."""
    return is_available() and get_device_capability() >= (8, 0)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Tell whether a GPU can read another one's memory."""
    runtime = gpu.library().cuda.runtime
    return bool(runtime.deviceCanAccessPeer(number_of(device), number_of(peer_device)))
