"""Threads that share one step's work. Enters: a step, its units. Leaves: all units done, or an error's code.

A pool of workers, each a Python thread that stays inside one native function (and so never holds Python's
lock). Work is handed over through one word of shared memory: the caller writes the job down and opens the
word, workers that see it enter by counting themselves into it, the caller closes it when no units are left
and waits for those inside. A worker that is asleep, or whose core is busy elsewhere, is never waited for:
the caller takes its units too. An idle worker watches the word for some 100 µs, then sleeps until woken.

Units are dealt in equal ranges, one per thread, so that a thread meets the same data in every step; who is
done early takes from the others' ranges, a grain at a time.
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
from typing import Any

from minitorch.compiler.backends.llvm.machine import MachineCode
from minitorch.compiler.backends.llvm.target import Target

MOST_THREADS = 64
SPIN_SECONDS = 100e-6  # waking a worker costs the caller some 6 µs, and the worker comes 20 µs late

# How a step's units may be divided, in the `flags` of a step.
SERIAL = 0  # one call, on the calling thread
PARALLEL = 1  # any ranges on any thread; the kernel's `thread` says on which, and may be called often
PARTS = 2  # exactly one call per part, in any order; `thread` is the part's number, not the thread's

# The pool's memory: offsets in bytes. What different threads write lies on different cache lines (and on
# different pairs of them, since processors fetch pairs).
_STATE = 0  # i32: who is inside, whether it is open, the number of the job; workers sleep on it
_SLEEPERS = 128  # i32: how many workers sleep
_OWNER = 256  # i32: 1 while a caller uses the pool
_JOB = 384  # function, table, slots, units, grain, flags, parts, threads: i64 each
_ERROR = 512  # i64: the first nonzero code a kernel returned
THREADS_OFFSET = 640  # i64: 0 not started, else threads including the caller
_SPINS = 648  # i64: how often an idle worker looks before it sleeps
_RANGES = 768  # per thread: the next unit, the end; i64 each
_RANGE = 128
_BYTES = _RANGES + MOST_THREADS * _RANGE

_LOOKS = 64  # how often an idle worker looks before it offers its core to others; a power of two

# The state: the lowest 7 bits count those inside.
_INSIDE = 127
_OPEN = 128
_STOP = 256
_JOB_NUMBER = 512  # and above


def text(target: Target) -> str:
    """Return the functions of the pool, as LLVM text.

    pool_step: do one step's units, alone or with the pool. pool_worker: what a worker's thread runs.
    pool_stop: send the workers home. mutex_lock, mutex_unlock: a lock on an i32. pauses: to time a pause.
    """
    attributes = target.attributes
    system = _system(target)
    kernel_call = "call i64 {function}(ptr {table}, ptr {slots}, i64 {start}, i64 {stop}, i64 {thread})"

    def field(name: str, kind: str, offset: int, base: str = "%pool") -> str:
        at = f"  %{name}_at = getelementptr i8, ptr {base}, i64 {offset}\n"
        return at + (f"  %{name} = load {kind}, ptr %{name}_at, align 8" if kind else "").rstrip()

    names = ("function", "table", "slots", "units", "grain", "flags", "parts", "threads")
    job = {name: ("ptr" if i < 3 else "i64", _JOB + 8 * i) for i, name in enumerate(names)}
    load_job = "\n".join(field(name, kind, offset) for name, (kind, offset) in job.items())
    store_job = "\n".join(
        f"{field('job_' + name, '', offset)}  store {kind} %{name}, ptr %job_{name}_at, align 8"
        for name, (kind, offset) in job.items()
    )
    part_bounds = """  %first_part = mul i64 {number}, %units
  %start{suffix} = udiv i64 %first_part, %parts
  %next_number = add i64 {number}, 1
  %last_part = mul i64 %next_number, %units
  %stop{suffix} = udiv i64 %last_part, %parts"""

    return f"""{system}
define void @pauses(i64 %count) {attributes} {{
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  call void @pause()
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %again, label %done
done:
  ret void
}}

; A lock on an i32: 0 free, 1 held, 2 held and somebody waits.
define void @mutex_lock(ptr %word) {attributes} {{
entry:
  %first = cmpxchg ptr %word, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %first, 1
  br i1 %free, label %done, label %contended
contended:
  %old = atomicrmw xchg ptr %word, i32 2 acquire
  %mine = icmp eq i32 %old, 0
  br i1 %mine, label %done, label %wait
wait:
  call void @sleep_while(ptr %word, i32 2)
  br label %contended
done:
  ret void
}}

define void @mutex_unlock(ptr %word) {attributes} {{
entry:
  %old = atomicrmw xchg ptr %word, i32 0 release
  %waited_for = icmp eq i32 %old, 2
  br i1 %waited_for, label %wake, label %done
wake:
  call void @wake(ptr %word)
  br label %done
done:
  ret void
}}

; Take units, first of one's own range and then of the others', until none are left or a kernel fails.
define internal void @pool_take(ptr %pool, i64 %thread) {attributes} {{
entry:
{load_job}
{field("error", "", _ERROR)}
  %has_parts_bit = and i64 %flags, {PARTS}
  %has_parts = icmp ne i64 %has_parts_bit, 0
  br label %each_range
each_range:
  %offset = phi i64 [ 0, %entry ], [ %next_offset, %next_range ]
  %sum = add i64 %thread, %offset
  %owner = urem i64 %sum, %threads
  %range_bytes = mul i64 %owner, {_RANGE}
  %range_start = add i64 %range_bytes, {_RANGES}
  %range = getelementptr i8, ptr %pool, i64 %range_start
  %end_at = getelementptr i8, ptr %range, i64 8
  %end = load i64, ptr %end_at, align 8
  br label %look
look:
  ; Looking first is cheaper than taking in vain: it does not claim the cache line.
  %seen = load atomic i64, ptr %range monotonic, align 8
  %left = icmp ult i64 %seen, %end
  br i1 %left, label %take, label %next_range
take:
  %unit = atomicrmw add ptr %range, i64 %grain monotonic
  %got = icmp ult i64 %unit, %end
  br i1 %got, label %divide, label %next_range
divide:
  br i1 %has_parts, label %one_part, label %some_units
one_part:
{part_bounds.format(number="%unit", suffix="_of_part")}
  br label %work
some_units:
  %after = add i64 %unit, %grain
  %over = icmp ugt i64 %after, %end
  %stop_of_units = select i1 %over, i64 %end, i64 %after
  br label %work
work:
  %start = phi i64 [ %start_of_part, %one_part ], [ %unit, %some_units ]
  %stop = phi i64 [ %stop_of_part, %one_part ], [ %stop_of_units, %some_units ]
  %number = phi i64 [ %unit, %one_part ], [ %thread, %some_units ]
  %code = {
        kernel_call.format(
            function="%function",
            table="%table",
            slots="%slots",
            start="%start",
            stop="%stop",
            thread="%number",
        )
    }
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %fail, label %check
fail:
  %first_error = cmpxchg ptr %error_at, i64 0, i64 %code monotonic monotonic
  ret void
check:
  %known = load atomic i64, ptr %error_at monotonic, align 8
  %stopped = icmp ne i64 %known, 0
  br i1 %stopped, label %done, label %look
next_range:
  %next_offset = add i64 %offset, 1
  %more = icmp ult i64 %next_offset, %threads
  br i1 %more, label %each_range, label %done
done:
  ret void
}}

; What one worker does all its life.
define i64 @pool_worker(ptr %pool, i64 %thread) {attributes} {{
entry:
{field("sleepers", "", _SLEEPERS)}
{field("spins", "i64", _SPINS)}
  br label %idle
idle:
  %last = phi i32 [ 0, %entry ], [ %last, %woken ], [ %done_job, %leave ]
  br label %watch
watch:
  %looked = phi i64 [ 0, %idle ], [ %looked_more, %wait ], [ %looked_more, %give_way ], [ %looked, %enter ]
  %state = load atomic i32, ptr %pool acquire, align 4
  %stop_bit = and i32 %state, {_STOP}
  %stop = icmp ne i32 %stop_bit, 0
  br i1 %stop, label %home, label %consider
consider:
  %open_bit = and i32 %state, {_OPEN}
  %open = icmp ne i32 %open_bit, 0
  %job = and i32 %state, {-_JOB_NUMBER}
  %new = icmp ne i32 %job, %last
  %work = and i1 %open, %new
  br i1 %work, label %enter, label %wait
wait:
  call void @pause()
  %looked_more = add i64 %looked, 1
  %round = and i64 %looked_more, {_LOOKS - 1}
  %round_done = icmp eq i64 %round, 0
  br i1 %round_done, label %rest, label %watch
rest:
  %tired = icmp uge i64 %looked_more, %spins
  br i1 %tired, label %sleep, label %give_way
give_way:
  ; On a busy machine this core may be the one the caller waits for.
  call void @yield()
  br label %watch
sleep:
  ; Count oneself asleep, and only then look a last time: a caller opens first and counts then, so that
  ; one of the two sees the other.
  %asleep = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  %again = load atomic i32, ptr %pool seq_cst, align 4
  %same = icmp eq i32 %again, %state
  br i1 %same, label %really, label %woken
really:
  call void @sleep_while(ptr %pool, i32 %state)
  br label %woken
woken:
  %awake = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %idle
enter:
  %inside = add i32 %state, 1
  %entry_try = cmpxchg ptr %pool, i32 %state, i32 %inside acquire monotonic
  %entered = extractvalue {{ i32, i1 }} %entry_try, 1
  br i1 %entered, label %in, label %watch
in:
{field("threads", "i64", job["threads"][1])}
  %invited = icmp ult i64 %thread, %threads
  br i1 %invited, label %join, label %leave
join:
  call void @pool_take(ptr %pool, i64 %thread)
  br label %leave
leave:
  %done_job = phi i32 [ %job, %in ], [ %job, %join ]
  %left = atomicrmw sub ptr %pool, i32 1 release
  br label %idle
home:
  ret i64 0
}}

; Do all units of one step; return 0 or the first nonzero code. parts: how many numbers `thread` may take.
define i64 @pool_step(ptr %pool, ptr %function, ptr %table, ptr %slots, i64 %units, i64 %wish, i64 %flags,
                      i64 %parts) {attributes} {{
entry:
  %has_parts_bit = and i64 %flags, {PARTS}
  %has_parts = icmp ne i64 %has_parts_bit, 0
  %parallel_bit = and i64 %flags, {PARALLEL}
  %is_parallel = icmp ne i64 %parallel_bit, 0
  br i1 %is_parallel, label %count, label %alone
count:
{field("threads_here", "", THREADS_OFFSET)}
  %threads_here = load atomic i64, ptr %threads_here_at monotonic, align 8
  %fewer = icmp ult i64 %parts, %threads_here
  %threads = select i1 %fewer, i64 %parts, i64 %threads_here
  %several = icmp ugt i64 %threads, 1
  br i1 %several, label %claim, label %alone
claim:
{field("owner", "", _OWNER)}
  %claim_try = cmpxchg ptr %owner_at, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue {{ i32, i1 }} %claim_try, 1
  br i1 %claimed, label %count_again, label %alone
count_again:
  ; The pool may have been stopped since.
  %threads_now = load atomic i64, ptr %threads_here_at monotonic, align 8
  %still = icmp eq i64 %threads_now, %threads_here
  br i1 %still, label %deal, label %let_go
let_go:
  store atomic i32 0, ptr %owner_at release, align 4
  br label %alone
deal:
  %wished = icmp ne i64 %wish, 0
  %single = xor i1 %wished, true
  %by_one = or i1 %single, %has_parts
  %grain = select i1 %by_one, i64 1, i64 %wish
{store_job}
{field("error", "", _ERROR)}
  store i64 0, ptr %error_at, align 8
  %whole = select i1 %has_parts, i64 %parts, i64 %units
  br label %each_range
each_range:
  %number = phi i64 [ 0, %deal ], [ %next, %each_range ]
  %start = phi i64 [ 0, %deal ], [ %stop, %each_range ]
  %next = add i64 %number, 1
  %share = mul i64 %next, %whole
  %stop = udiv i64 %share, %threads
  %range_bytes = mul i64 %number, {_RANGE}
  %range_start = add i64 %range_bytes, {_RANGES}
  %range = getelementptr i8, ptr %pool, i64 %range_start
  %end_at = getelementptr i8, ptr %range, i64 8
  store atomic i64 %start, ptr %range monotonic, align 8
  store i64 %stop, ptr %end_at, align 8
  %more = icmp ult i64 %next, %threads
  br i1 %more, label %each_range, label %open
open:
{field("sleepers", "", _SLEEPERS)}
  %before = load atomic i32, ptr %pool monotonic, align 4
  %number_before = and i32 %before, {-_JOB_NUMBER}
  %number_now = add i32 %number_before, {_JOB_NUMBER}
  %opened = or i32 %number_now, {_OPEN}
  %replaced = atomicrmw xchg ptr %pool, i32 %opened seq_cst
  %sleeping = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %some_sleep = icmp ne i32 %sleeping, 0
  br i1 %some_sleep, label %wake, label %work
wake:
  call void @wake(ptr %pool)
  br label %work
work:
  call void @pool_take(ptr %pool, i64 0)
  %closing = atomicrmw and ptr %pool, i32 {~_OPEN} acq_rel
{field("spins", "i64", _SPINS)}
  br label %join
join:
  %looked = phi i64 [ 0, %work ], [ %looked_more, %stay ]
  %looked_more = add i64 %looked, 1
  %state = load atomic i32, ptr %pool acquire, align 4
  %inside = and i32 %state, {_INSIDE}
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %finish, label %wait
wait:
  %long = icmp ugt i64 %looked_more, %spins
  br i1 %long, label %give_way, label %breathe
breathe:
  call void @pause()
  br label %stay
give_way:
  ; Whoever is still inside may be waiting for this very core.
  call void @yield()
  br label %stay
stay:
  br label %join
finish:
  %code = load i64, ptr %error_at, align 8
  store atomic i32 0, ptr %owner_at release, align 4
  ret i64 %code

alone:
  br i1 %has_parts, label %each_part, label %in_one
in_one:
  %code_in_one = {
        kernel_call.format(
            function="%function", table="%table", slots="%slots", start="0", stop="%units", thread="0"
        )
    }
  ret i64 %code_in_one
each_part:
  %part = phi i64 [ 0, %alone ], [ %next_number, %part_done ]
{part_bounds.format(number="%part", suffix="_of_part")}
  %code_of_part = {
        kernel_call.format(
            function="%function",
            table="%table",
            slots="%slots",
            start="%start_of_part",
            stop="%stop_of_part",
            thread="%part",
        )
    }
  %failed = icmp ne i64 %code_of_part, 0
  br i1 %failed, label %fail, label %part_done
part_done:
  %more_parts = icmp ult i64 %next_number, %parts
  br i1 %more_parts, label %each_part, label %fine
fine:
  ret i64 0
fail:
  ret i64 %code_of_part
}}

; Wait until no step uses the pool, then send all workers home.
define void @pool_stop(ptr %pool) {attributes} {{
entry:
{field("owner", "", _OWNER)}
{field("threads", "", THREADS_OFFSET)}
  br label %claim
claim:
  %claim_try = cmpxchg ptr %owner_at, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue {{ i32, i1 }} %claim_try, 1
  br i1 %claimed, label %stop, label %wait
wait:
  call void @yield()
  br label %claim
stop:
  store atomic i64 0, ptr %threads_at monotonic, align 8
  %before = atomicrmw or ptr %pool, i32 {_STOP} seq_cst
  call void @wake(ptr %pool)
  store atomic i32 0, ptr %owner_at release, align 4
  ret void
}}
"""


def _system(target: Target) -> str:
    """What the pool needs of the processor and the system.

    pause: wait an instant. yield: let another thread have this core. sleep_while: sleep while a word has
    this value (or wake for no reason). wake: wake all who sleep on a word. clock: nanoseconds.
    """
    attributes = target.attributes
    if target.is_x86:
        pause = "declare void @llvm.x86.sse2.pause()"
        instruction = "call void @llvm.x86.sse2.pause()"
    elif target.is_arm:
        pause = "declare void @llvm.aarch64.hint(i32)"
        instruction = "call void @llvm.aarch64.hint(i32 1)"
    else:
        pause = instruction = ""
    windows, mac, linux = (word in target.triple for word in ("windows", "darwin", "linux"))
    futex = 202 if target.is_x86 else 98  # the number of the system call

    def function(name: str, parameters: str, body: str, result: str = "void") -> str:
        return f"define internal {result} @{name}({parameters}) {attributes} {{\nentry:\n  {body}\n}}"

    sleeping = """%first = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %first, %value
  br i1 %same, label %wait, label %done
wait:
  %delay = phi i32 [ 1, %entry ], [ %capped, %wait ]
  NAP
  %twice = mul i32 %delay, 2
  %long = icmp ugt i32 %twice, 1024
  %capped = select i1 %long, i32 1024, i32 %twice
  %now = load atomic i32, ptr %word acquire, align 4
  %still = icmp eq i32 %now, %value
  br i1 %still, label %wait, label %done
done:
  ret void"""
    if linux:
        declarations = "declare i64 @syscall(i64, ...)\ndeclare i32 @sched_yield()"
        call = f"call i64 (i64, ...) @syscall(i64 {futex}, ptr %word"
        nap = f"%slept = {call}, i32 128, i32 %value, ptr null, ptr null, i32 0)\n  ret void"
        wake = f"%woken = {call}, i32 129, i32 2147483647, ptr null, ptr null, i32 0)\n  ret void"
    else:  # look again and again, less and less often
        wake = "ret void"
        if windows:
            declarations = "declare void @Sleep(i32)\ndeclare i32 @SwitchToThread()"
            nap = sleeping.replace("NAP", "call void @Sleep(i32 1)")
        else:
            declarations = "declare i32 @usleep(i32)\ndeclare i32 @sched_yield()"
            nap = sleeping.replace("NAP", "%napped = call i32 @usleep(i32 %delay)")
    if windows:
        declarations += "\ndeclare i32 @QueryPerformanceCounter(ptr)"
        clock = """%place = alloca i64
  %known = call i32 @QueryPerformanceCounter(ptr %place)
  %ticks = load i64, ptr %place
  %nanoseconds = mul i64 %ticks, 100
  ret i64 %nanoseconds"""
    else:
        declarations += "\ndeclare i32 @clock_gettime(i32, ptr)"
        clock = f"""%place = alloca [2 x i64]
  %known = call i32 @clock_gettime(i32 {6 if mac else 1}, ptr %place)
  %seconds = load i64, ptr %place
  %rest_at = getelementptr i64, ptr %place, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %whole, %rest
  ret i64 %nanoseconds"""
    give_way = "SwitchToThread" if windows else "sched_yield"
    return "\n".join(
        [
            pause,
            declarations,
            function("pause", "", f"{instruction}\n  ret void"),
            function("yield", "", f"%gave = call i32 @{give_way}()\n  ret void"),
            function("sleep_while", "ptr %word, i32 %value", nap),
            function("wake", "ptr %word", wake),
            function("clock", "", clock, "i64"),
        ]
    )


EXPORTS = ["pool_step", "pool_worker", "pool_stop", "pauses", "mutex_lock", "mutex_unlock"]


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


class Pool:
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
                ctypes.c_int32.from_address(self.address + _STATE).value &= ~_STOP
                ctypes.c_int64.from_address(self.address + _SPINS).value = self._spins()
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

    def _forget(self) -> None:
        """In a forked child: the workers stayed with the parent, and the memory is as some step left it."""
        self._lock = threading.RLock()
        self._workers = []
        ctypes.memset(self.address, 0, _BYTES)


_pools: list[Pool] = []


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


def _each(action: str) -> Any:
    return lambda: [getattr(pool, action)() for pool in _pools]


if hasattr(os, "register_at_fork"):
    # Stopped before, and not only forgotten in the child: a fork beside running threads is what Python warns of.
    os.register_at_fork(before=_each("stop"), after_in_child=_each("_forget"))
atexit.register(_each("close"))
