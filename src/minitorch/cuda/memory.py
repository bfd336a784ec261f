"""How much of a GPU's memory is in use: CuPy's pools. Enters: questions. Leaves: figures, 0 where there is no GPU."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from minitorch.cuda.devices import is_available, number_of
from minitorch.cuda.management import list_gpu_processes as list_gpu_processes
from minitorch.engine import gpu


def _pool(device: Any = None) -> Any:
    """Return CuPy's memory of a GPU: what arrays use, and what is kept for later ones."""
    cupy = gpu.library()
    with cupy.cuda.Device(number_of(device)):
        return cupy.get_default_memory_pool()


def _bytes(what: str, device: Any) -> int:
    if not is_available():
        return 0
    cupy = gpu.library()
    with cupy.cuda.Device(number_of(device)):
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
    cupy, number = gpu.library(), number_of(device)
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
    if number_of(device) not in _peaks:
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
    with cupy.cuda.Device(number_of(device)):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the figures by PyTorch's names; empty where there is no GPU."""
    if not is_available():
        return {}
    used, taken, peak = memory_allocated(device), memory_reserved(device), max_memory_allocated(device)
    return {
        "allocated_bytes.all.current": used,
        "allocated_bytes.all.peak": peak,
        "active_bytes.all.current": used,
        "active_bytes.all.peak": peak,
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
    with gpu.library().cuda.Device(number_of(device)):
        _pool(device).set_limit(fraction=fraction)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return which part of the GPU's memory arrays may use."""
    limit = _pool(device).get_limit()
    return limit / mem_get_info(device)[1] if limit else 1.0


def get_allocator_backend() -> str:
    """Return "native": memory is kept in a pool, as PyTorch does by itself. (The pool is CuPy's.)

    >>> get_allocator_backend()
    'native'
    """
    return "native"


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Do nothing: how much was ever taken is not counted."""


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> Any:
    """Refuse: CuPy's pools do not tell where their pieces lie."""
    raise NotImplementedError(
        "memory_snapshot: CuPy's memory pools do not tell where their pieces lie; memory_stats() and "
        "max_memory_allocated() tell how much is in use"
    )


def _record_memory_history(*args: Any, **options: Any) -> None:
    if args[:1] == (None,) or options.get("enabled", True) is None:  # which ends it
        return
    memory_snapshot()


def _dump_snapshot(filename: str = "dump_snapshot.pickle", *args: Any) -> None:
    memory_snapshot()


_snapshot = memory_snapshot

# --- memory beside the usual --------------------------------------------------------------------------------------

_handed_out: dict[int, Any] = {}  # by address: what keeps it


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Return the address of some bytes of the GPU's memory, for another library."""
    with gpu.working_on(number_of(device), "caching_allocator_alloc") as cupy:
        memory = cupy.cuda.alloc(size)
    _handed_out[memory.ptr] = memory
    return int(memory.ptr)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back what caching_allocator_alloc returned."""
    del _handed_out[mem_ptr]


class MemPool:
    """Memory of its own for what is made in `with use_mem_pool(pool):`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.pool = gpu.library().cuda.MemoryPool()
        self.id = (0, id(self.pool))


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Return a context in which tensors are made in a pool."""
    with gpu.library().cuda.using_allocator(pool.pool.malloc):
        yield


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
