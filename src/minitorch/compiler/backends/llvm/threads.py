"""Threads that share one step's work. Enters: a step, its units. Leaves: all units done, or an error's code.

A pool of workers, each a Python thread that stays inside one native function (and so never holds Python's
lock). Work is handed over through one word of shared memory: the caller writes the job down and opens the
word, workers that see it enter by counting themselves into it, the caller closes it when no units are left
and waits for those inside. A worker that is asleep, or whose core is busy elsewhere, is never waited for:
the caller takes its units too. An idle worker watches the word for some 100 µs, then sleeps until woken.

Units are dealt in equal ranges, one per thread, so that a thread meets the same data in every step; who is
done early takes from the others' ranges, a grain at a time. The native half of this is `templates/pool.ll`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable

from minitorch.compiler.backends.llvm.machine import MachineCode
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.templates import fill

MOST_THREADS = 64
SPIN_SECONDS = 100e-6  # waking a worker costs the caller some 6 µs, and the worker comes 20 µs late

# Where what lies in the pool's memory, in bytes. What different threads write lies on different cache lines (and on
# different pairs of them, since processors fetch pairs).
_MEMORY = {
    "state": 0,  # i32: who is inside, whether it is open, the number of the job; workers sleep on it
    "sleepers": 128,  # i32: how many workers sleep
    "owner": 256,  # i32: 1 while a caller uses the pool
    "job_function": 384,  # the job: these five, 8 bytes each
    "job_table": 392,
    "job_slots": 400,
    "job_grain": 408,
    "job_threads": 416,
    "error": 512,  # i64: the first nonzero code a kernel returned
    "threads": 640,  # i64: 0 not started, else threads including the caller
    "spins": 648,  # i64: how often an idle worker looks before it sleeps
    "ranges": 768,  # for each thread the next unit and the end, i64 each
}
_RANGE_BYTES = 128
_BYTES = _MEMORY["ranges"] + MOST_THREADS * _RANGE_BYTES
THREADS_OFFSET = _MEMORY["threads"]

# The state: its lowest 7 bits count those inside.
_INSIDE = 127
_OPEN = 128
_STOP = 256
_JOB_NUMBER = 512  # and above

_LOOKS = 64  # how often an idle worker looks before it offers its core to others; a power of two

# An instruction that waits an instant, by processor: its declaration and its call.
_PAUSE = {
    "x86": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "arm": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    "other": ("", ""),
}
# Numbers that systems give to things.
_FUTEX = {"x86": 202, "arm": 98, "other": 98}
_MONOTONIC_CLOCK = {"darwin": 6, "other": 1}

EXPORTS = ["pool_step", "pool_worker", "pool_stop", "pauses", "mutex_lock", "mutex_unlock"]


def text(target: Target) -> str:
    """Return the functions of the pool and what they need of the system, as LLVM text.

    pool_step: do one step's units, alone or with the pool. pool_worker: what a worker's thread runs.
    pool_stop: send the workers home. mutex_lock, mutex_unlock: a lock on an i32. pauses: to time a pause.
    """
    attributes = target.attributes
    processor = "x86" if target.is_x86 else "arm" if target.is_arm else "other"
    if "linux" in target.triple:
        wait = fill("wait_futex.ll", attributes=attributes, system_call=_FUTEX[processor])
    else:
        wait = fill("wait_polling.ll", attributes=attributes)
    if "windows" in target.triple:
        system = fill("system_windows.ll", attributes=attributes)
    else:
        clock = _MONOTONIC_CLOCK["darwin" if "darwin" in target.triple else "other"]
        system = fill("system_posix.ll", attributes=attributes, clock=clock)
    declaration, pause = _PAUSE[processor]
    pool = fill(
        "pool.ll",
        **_MEMORY,
        attributes=attributes,
        pause_declaration=declaration,
        pause=pause,
        inside=_INSIDE,
        open=_OPEN,
        not_open=~_OPEN,
        stop=_STOP,
        next_job=_JOB_NUMBER,
        job_mask=-_JOB_NUMBER,
        looks_mask=_LOOKS - 1,
        range_size=_RANGE_BYTES,
    )
    return "\n".join([wait, system, pool])


# --- how many -----------------------------------------------------------------------------------------------

_chosen: int | None = None


def set_threads(count: int | None) -> None:
    """Say how many threads compiled programs may use, the caller's included; None: as many as there are cores.

    Programs compiled before keep to the number of then where it is the smaller one.
    """
    global _chosen
    if count is not None and not 1 <= count <= MOST_THREADS:
        raise ValueError(f"the number of threads must be between 1 and {MOST_THREADS}, not {count}")
    _chosen = count
    for pool in _pools:
        pool.stop()


def threads() -> int:
    """Return how many threads compiled programs may use."""
    return _default_threads() if _chosen is None else _chosen


@functools.cache
def _default_threads() -> int:
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if given.isdigit() and int(given) > 0:
        return min(int(given), MOST_THREADS)
    return max(1, min(8, len(_cores()), _quota()))


def _cores() -> list[int]:
    """The processors this process may use, one for each core."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    allowed = sorted(os.sched_getaffinity(0))
    seen, cores = set(), []
    for cpu in allowed:
        siblings = str(cpu)
        with contextlib.suppress(OSError):
            path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            with open(path, encoding="ascii") as file:
                siblings = file.read().strip()
        if siblings not in seen:
            seen.add(siblings)
            cores.append(cpu)
    return cores


def _quota() -> int:
    """How many processors' worth of time a container grants (a spinning worker spends it)."""
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
        quota, period = file.read().split()
        return max(1, int(quota) // int(period))  # "max": a ValueError, and no limit
    return MOST_THREADS


# --- the workers --------------------------------------------------------------------------------------------


class ThreadPool:
    """The workers and the memory they share with callers. There is one in a process."""

    def __init__(self, code: MachineCode) -> None:
        buffer = ctypes.create_string_buffer(_BYTES + 128)
        self._lock = threading.RLock()
        self._workers: list[threading.Thread] = []
        self._closed = False
        self.address = -(-ctypes.addressof(buffer) // 128) * 128
        self._threads = ctypes.c_int64.from_address(self.address + THREADS_OFFSET)
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        self._work = function(code.address("pool_worker"))
        self._stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("pool_stop"))
        self._pauses = ctypes.CFUNCTYPE(None, ctypes.c_int64)(code.address("pauses"))
        # Never freed: a worker may still sleep in this code, on this memory, while Python shuts down.
        for kept in (buffer, code):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        _pools.append(self)

    @property
    def started(self) -> int:
        """How many threads there are now, callers' included; 0 before the first use."""
        return self._threads.value

    def start(self) -> None:
        """Start the workers, unless they are there."""
        with self._lock:
            if self.started:
                return
            wanted = 1 if self._closed else threads()
            if wanted > 1:
                ctypes.c_int32.from_address(self.address + _MEMORY["state"]).value &= ~_STOP
                ctypes.c_int64.from_address(self.address + _MEMORY["spins"]).value = self._spins()
                cores = _places(wanted)
                for number in range(1, wanted):
                    place = cores[number - 1] if cores else None
                    worker = threading.Thread(
                        target=self._run, args=(number, place), name=f"minitorch-{number}", daemon=True
                    )
                    try:
                        worker.start()
                    except RuntimeError:  # the system has no more threads for us
                        break
                    self._workers.append(worker)
            self._threads.value = 1 + len(self._workers)

    def _run(self, number: int, place: int | None) -> None:
        if place is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {place})  # 0: this thread alone
        self._work(self.address, number)

    def _spins(self) -> int:
        """How many pauses make up the time an idle worker waits awake."""
        count, best = 500, 1.0
        for _ in range(5):
            begin = time.perf_counter()
            self._pauses(count)
            best = min(best, time.perf_counter() - begin)
        return max(100, int(SPIN_SECONDS * count / best))

    def stop(self) -> None:
        """Let the workers finish what they do, and wait until they are gone; the next use starts new ones."""
        with self._lock:
            if self._workers:
                self._stop(self.address)
                for worker in self._workers:
                    worker.join()
                self._workers.clear()
            self._threads.value = 0

    def close(self) -> None:
        """Stop for good: from now on every program runs on its caller's thread alone."""
        with self._lock:
            self._closed = True
            self.stop()
            self._threads.value = 1

    def forget(self) -> None:
        """In a forked child: the workers stayed with the parent, and the memory is as some step left it."""
        self._lock = threading.RLock()
        self._workers = []
        ctypes.memset(self.address, 0, _BYTES)


_pools: list[ThreadPool] = []


def _places(wanted: int) -> list[int]:
    """Where to put the workers: a core each, and not the one this thread is on; [] to let the system choose."""
    if not hasattr(os, "sched_setaffinity") or not sys.platform.startswith("linux"):
        return []
    cores = _cores()
    if len(cores) < wanted or len(cores) < 2:
        return []
    here = _current_processor()
    others = [cpu for cpu in cores if cpu != here]
    return others[: wanted - 1] if len(others) >= wanted - 1 else []


def _current_processor() -> int:
    try:
        return ctypes.CDLL(None).sched_getcpu()
    except AttributeError:
        return -1


def _each(action: Callable[[ThreadPool], None]) -> Callable[[], None]:
    def act() -> None:
        for pool in _pools:
            action(pool)

    return act


if hasattr(os, "register_at_fork"):
    # Stopped before, and not only forgotten in the child: a fork beside running threads is what Python warns of.
    os.register_at_fork(before=_each(ThreadPool.stop), after_in_child=_each(ThreadPool.forget))
atexit.register(_each(ThreadPool.close))
