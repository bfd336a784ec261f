"""torch.profiler: where the time goes. Enters: a block of a program. Leaves: how long its named parts took.

What is measured is what a program names by `record_function`, and the whole; single operators are not. To see where
Python spends its time, run `python -m cProfile -m minitorch run script.py`.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any


class ProfilerActivity(enum.Enum):
    """What PyTorch can look at."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class FunctionEventAvg:
    """What was measured of one name: how often, and how many microseconds."""

    def __init__(self, key: str, count: int, microseconds: float) -> None:
        self.key = self.name = key
        self.count = count
        self.cpu_time_total = self.self_cpu_time_total = microseconds
        self.device_time_total = self.self_device_time_total = 0.0

    @property
    def cpu_time(self) -> float:
        """The microseconds of one time."""
        return self.cpu_time_total / self.count


class EventList(list[FunctionEventAvg]):
    """What was measured, by name."""

    def table(self, sort_by: Any = None, row_limit: int = 100, **options: Any) -> str:
        """Return it as text."""
        rows = sorted(self, key=lambda each: -each.cpu_time_total)[: row_limit if row_limit >= 0 else None]
        lines = [f"{'Name':40} {'CPU total':>14} {'CPU time avg':>14} {'# of Calls':>12}"]
        lines += [
            f"{r.key:40} {r.cpu_time_total / 1e3:12.3f}ms {r.cpu_time / 1e3:12.3f}ms {r.count:12}"
            for r in rows
        ]
        return "\n".join(lines)

    def total_average(self) -> FunctionEventAvg:
        """Return everything as one."""
        return FunctionEventAvg("Total", sum(e.count for e in self), sum(e.cpu_time_total for e in self))


_active: list[profile] = []


class record_function(contextlib.ContextDecorator):
    """A block, or a function, with a name under which its time is measured.

    >>> with profile() as measured, record_function("work"):
    ...     sum(range(10))
    45
    >>> [(each.key, each.count) for each in measured.key_averages()]
    [('work', 1)]
    """

    def __init__(self, name: str, args: Any = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        self.began = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        ended = time.perf_counter()
        for each in _active:
            each.note(self.name, self.began, ended)


class profile:
    """A block that is measured; `key_averages().table()` tells what took how long."""

    def __init__(
        self, activities: Any = None, schedule: Any = None, on_trace_ready: Any = None, **options: Any
    ) -> None:  # fmt: skip
        self.activities, self.schedule, self.on_trace_ready = activities, schedule, on_trace_ready
        self.found: list[tuple[str, float, float]] = []
        self.step_num = 0

    def note(self, name: str, began: float, ended: float) -> None:
        """Take down that something took from one time to another."""
        self.found.append((name, began, ended))

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin."""
        _active.append(self)

    def stop(self) -> None:
        """End, and hand over what was found."""
        _active.remove(self)
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Count a step."""
        self.step_num += 1

    def key_averages(self, *args: Any, **options: Any) -> EventList:
        """Return what was measured, by name."""
        together: dict[str, list[float]] = {}
        for name, began, ended in self.found:
            together.setdefault(name, []).append((ended - began) * 1e6)
        return EventList([FunctionEventAvg(name, len(took), sum(took)) for name, took in together.items()])

    events = key_averages

    def export_chrome_trace(self, path: str) -> None:
        """Write what was measured as a file that chrome://tracing shows."""
        events = [
            {"name": n, "ph": "X", "ts": b * 1e6, "dur": (e - b) * 1e6, "pid": 0, "tid": 0}
            for n, b, e in self.found
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: Any
) -> Callable[[int], ProfilerAction]:
    """Return which steps PyTorch would look at; here all are."""

    def action(step: int) -> ProfilerAction:
        place = step - skip_first
        if place < 0:
            return ProfilerAction.NONE
        round_, place = divmod(place, wait + warmup + active)
        if (repeat and round_ >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return (
            ProfilerAction.RECORD_AND_SAVE if place == wait + warmup + active - 1 else ProfilerAction.RECORD
        )

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: Any = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """Return a function that writes what was measured into a folder."""

    def write(measured: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        measured.export_chrome_trace(os.path.join(dir_name, f"{worker_name or 'minitorch'}.pt.trace.json"))

    return write


@contextlib.contextmanager
def emit_nvtx(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Do nothing: there is no such tool for NumPy."""
    yield


def kineto_available() -> bool:
    """Return False."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """Return what is looked at: the CPU."""
    return {ProfilerActivity.CPU}
