"""What the driver's management library tells of a GPU: how busy, how warm. Enters: a GPU. Leaves: figures.

The library (NVML) comes with the driver; it is asked directly, so that no package is needed for it.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from minitorch.cuda.devices import number_of
from minitorch.engine import gpu

LIBRARY = "libnvidia-ml.so.1"
_CELSIUS, _CLOCK_OF_PROCESSORS = 0, 1  # what the library calls them
_TOO_SMALL = 7  # its code for a list with too little room


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("_instance", ctypes.c_uint),
        ("_compute_instance", ctypes.c_uint),
    )


@functools.cache
def _library() -> Any:
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError:
        raise RuntimeError(
            f"cuda: the driver's management library, {LIBRARY}, is not installed; nvidia-smi comes with it"
        ) from None
    _check("nvmlInit_v2", found.nvmlInit_v2())
    return found


def _check(name: str, status: int) -> None:
    if status:
        raise RuntimeError(f"cuda: {name} of the driver's management library failed with status {status}")


def _ask(device: Any, name: str, *arguments: Any) -> None:
    """Ask the library something of a GPU; the answer is written into the last argument."""
    address = gpu.library().cuda.runtime.deviceGetPCIBusId(number_of(device))
    library, handle = _library(), ctypes.c_void_p()
    find = "nvmlDeviceGetHandleByPciBusId_v2"
    _check(find, getattr(library, find)(address.encode(), ctypes.byref(handle)))
    *first, answer = arguments
    _check(name, getattr(library, name)(handle, *first, ctypes.byref(answer)))


def _rates(device: Any) -> _Rates:
    rates = _Rates()
    _ask(device, "nvmlDeviceGetUtilizationRates", rates)
    return rates


def utilization(device: Any = None) -> int:
    """Return for how many percent of the last moments a kernel was running on a GPU."""
    return int(_rates(device).gpu)


def memory_usage(device: Any = None) -> int:
    """Return for how many percent of the last moments a GPU's memory was read or written."""
    return int(_rates(device).memory)


def temperature(device: Any = None) -> int:
    """Return how warm a GPU is, in degrees Celsius."""
    answer = ctypes.c_uint()
    _ask(device, "nvmlDeviceGetTemperature", _CELSIUS, answer)
    return answer.value


def power_draw(device: Any = None) -> int:
    """Return how much power a GPU takes, in milliwatts."""
    answer = ctypes.c_uint()
    _ask(device, "nvmlDeviceGetPowerUsage", answer)
    return answer.value


def clock_rate(device: Any = None) -> int:
    """Return the clock of a GPU's processors, in megahertz."""
    answer = ctypes.c_uint()
    _ask(device, "nvmlDeviceGetClockInfo", _CLOCK_OF_PROCESSORS, answer)
    return answer.value


def device_memory_used(device: Any = None) -> int:
    """Return how many bytes of a GPU's memory are in use, by all processes."""
    answer = _Memory()
    _ask(device, "nvmlDeviceGetMemoryInfo", answer)
    return int(answer.used)


def list_gpu_processes(device: Any = None) -> str:
    """Return the processes that use a GPU, and how much of its memory, as text."""
    lines, name = [f"GPU:{number_of(device)}"], "nvmlDeviceGetComputeRunningProcesses_v3"
    room = 64
    while True:
        processes, count = (_Process * room)(), ctypes.c_uint(room)
        try:
            _ask(device, name, ctypes.byref(count), processes)
            break
        except RuntimeError as error:
            if not str(error).endswith(f"status {_TOO_SMALL}"):
                raise
            room *= 4
    found = processes[: count.value]
    lines += [f"process {p.pid:>10d} uses {p.used / 2**20:>12.3f} MB GPU memory" for p in found]
    return "\n".join(lines if found else [*lines, "no processes are running"])
