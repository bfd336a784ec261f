"""torch.profiler: where the time goes. Enters: a block of a program. Leaves: how long its parts took, and how often.

Three kinds of parts are measured, and only inside the block: what a program names by `record_function`; each function
of torch and method of Tensor (`aten::linear`), shown by a mode (tensor/torch_function.py); and each op's share of the
way backwards (`MulBackward0`), from one gradient to the next. Compiled functions run as they are meanwhile.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from minitorch.engine.modes import current, switch
from minitorch.tensor import Tensor
from minitorch.tensor.grad_fn import GradFn
from minitorch.tensor.torch_function import Mode


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

    def __init__(self, key: str, count: int, microseconds: float, own: float | None = None) -> None:
        self.key = self.name = key
        self.count = count
        self.cpu_time_total = microseconds
        self.self_cpu_time_total = microseconds if own is None else own  # without what it called
        self.device_time_total = self.self_device_time_total = 0.0

    @property
    def cpu_time(self) -> float:
        """The microseconds of one time."""
        return self.cpu_time_total / self.count


class EventList(list[FunctionEventAvg]):
    """What was measured, by name."""

    def table(self, sort_by: Any = None, row_limit: int = 100, **options: Any) -> str:
        """Return it as text, the largest first. sort_by: the name of what is large, as "self_cpu_time_total"."""
        by = str(sort_by or "cpu_time_total").replace("cuda", "device")
        rows = sorted(self, key=lambda each: -getattr(each, by))[: row_limit if row_limit >= 0 else None]
        total = sum(each.self_cpu_time_total for each in self) or 1.0
        heads = ("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
        lines = ["".join(f"{head:>14}" if k else f"{head:40}" for k, head in enumerate(heads))]
        for r in rows:
            times = (r.self_cpu_time_total, r.cpu_time_total, r.cpu_time)
            shares = f"{r.self_cpu_time_total / total:>14.2%}" + "".join(f"{t / 1e3:>12.3f}ms" for t in times)
            lines.append(f"{r.key:40}{shares}{r.count:>14}")
        return "\n".join([*lines, f"Self CPU time total: {total / 1e3:.3f}ms"])

    def total_average(self) -> FunctionEventAvg:
        """Return everything as one."""
        own = sum(e.self_cpu_time_total for e in self)
        return FunctionEventAvg("Total", sum(e.count for e in self), own, own)


class _Clock(Mode):
    """Looks at the clock before and after each function and method, and at each gradient."""

    watched = Tensor

    def __init__(self, profiler: profile) -> None:
        self.profiler = profiler
        self.since = 0.0
        self.last: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            with _Part("aten::" + func.__name__.strip("_")):
                return func(*args, **(kwargs or {}))
        finally:
            self.since = time.perf_counter()

    def see_gradient(self, node: Any, g: Any, parent: Any, contribution: Any) -> None:
        """Take down how long an op took backwards: since the gradient before, or since the last function ended."""
        now = time.perf_counter()
        if self.last is not node:  # (an op of two operands gives two gradients)
            _Part.ended(GradFn.of(node).name(), self.since, now, 0.0)
        self.since, self.last = now, node

    def __enter__(self) -> _Clock:
        super().__enter__()
        switch(current()._replace(gradient_check=self.see_gradient))
        return self

    def __exit__(self, *exception: object) -> None:
        switch(current()._replace(gradient_check=None))
        super().__exit__(*exception)


_active: list[profile] = []
_nesting = threading.local()


class _Part:
    """Something that takes time, inside another such thing or not."""

    def __init__(self, name: str) -> None:
        self.name, self.began, self.inside, self.outer = name, 0.0, 0.0, None

    def __enter__(self) -> Any:
        self.outer, self.inside = getattr(_nesting, "innermost", None), 0.0
        _nesting.innermost = self
        self.began = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        now = time.perf_counter()
        _nesting.innermost = self.outer
        self.ended(self.name, self.began, now, self.inside)

    @staticmethod
    def ended(name: str, began: float, now: float, inside: float) -> None:
        """Tell whoever measures, and what it was a part of."""
        if (outer := getattr(_nesting, "innermost", None)) is not None:
            outer.inside += now - began
        for each in _active:
            each.note(name, began, now, now - began - inside)


class record_function(_Part, contextlib.ContextDecorator):
    """A block, or a function, with a name under which its time is measured.

    >>> with profile() as measured, record_function("work"):                     # doctest: +SKIP
    ...     total = (minitorch.ones(3) * 2).sum()
    >>> sorted((each.key, each.count) for each in measured.key_averages())       # doctest: +SKIP
    [('aten::mul', 1), ('aten::ones', 1), ('aten::sum', 1), ('work', 1)]
    """

    def __init__(self, name: str, args: Any = None) -> None:
        super().__init__(name)

    def _recreate_cm(self) -> record_function:
        return record_function(self.name)


class profile:
    """A block that is measured; `key_averages().table()` tells what took how long."""

    def __init__(
        self, activities: Any = None, schedule: Any = None, on_trace_ready: Any = None, **options: Any
    ) -> None:  # fmt: skip
        self.activities, self.schedule, self.on_trace_ready = activities, schedule, on_trace_ready
        self.found: list[tuple[str, float, float, float]] = []
        self.step_num = 0
        self._clock = _Clock(self)

    def note(self, name: str, began: float, ended: float, own: float) -> None:
        """Take down that something took from one time to another, and how much of it without its parts."""
        self.found.append((name, began, ended, own))

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin."""
        _active.append(self)
        self._clock.__enter__()

    def stop(self) -> None:
        """End, and hand over what was found."""
        self._clock.__exit__()
        _active.remove(self)
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Count a step."""
        self.step_num += 1

    def key_averages(self, *args: Any, **options: Any) -> EventList:
        """Return what was measured, by name."""
        together: dict[str, list[tuple[float, float]]] = {}
        for name, began, ended, own in self.found:
            together.setdefault(name, []).append(((ended - began) * 1e6, own * 1e6))
        sums = {name: [sum(times) for times in zip(*took, strict=True)] for name, took in together.items()}
        return EventList([FunctionEventAvg(name, len(together[name]), *both) for name, both in sums.items()])

    events = key_averages

    def export_chrome_trace(self, path: str) -> None:
        """Write what was measured as a file that chrome://tracing shows."""
        events = [
            {"name": n, "ph": "X", "ts": b * 1e6, "dur": (e - b) * 1e6, "pid": 0, "tid": 0}
            for n, b, e, _ in self.found
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
