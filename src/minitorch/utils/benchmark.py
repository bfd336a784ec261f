"""How long a statement takes. Enters: Python code as text. Leaves: measurements, and tables that compare them.

Timer("x @ x", globals={"x": minitorch.ones(64, 64)}).blocked_autorange()
"""

from __future__ import annotations

import math
import textwrap
import timeit
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from minitorch import cuda

__all__ = ["Compare", "Fuzzer", "Measurement", "Timer", "select_unit", "timer"]

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def timer() -> float:
    """Return the time in seconds, when what a GPU was asked for is done."""
    if cuda.is_available():
        cuda.synchronize()
    return timeit.default_timer()


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit in which a time is told, and its seconds.

    >>> select_unit(0.002)
    ('ms', 0.001)
    """
    scale = -9 if t <= 0 else max(int(math.log10(t) // 3) * 3, -9)
    name = {-9: "ns", -6: "us", -3: "ms"}.get(min(scale, 0), "s")
    return name, UNITS[name]


class Measurement:
    """Times of a statement. raw_times: of each run, of number_per_run times the statement.

    >>> found = Measurement(2, [0.2, 0.4], {"stmt": "f()"})
    >>> round(found.median, 6), round(found.mean, 6), found.times
    (0.15, 0.15, [0.1, 0.2])
    """

    def __init__(
        self, number_per_run: int, raw_times: Iterable[float], task_spec: Any, metadata: Any = None
    ) -> None:
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.task_spec, self.metadata = dict(task_spec), metadata

    @property
    def times(self) -> list[float]:
        """Seconds of one statement, of each run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, share: float) -> float:
        if not self.raw_times:
            raise ValueError("Measurement: nothing was measured")
        return float(np.quantile(self.times, share))

    @property
    def median(self) -> float:
        """The middle time."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean time."""
        return float(np.mean(self.times))

    @property
    def iqr(self) -> float:
        """The distance between the times that a quarter and three quarters are below."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits the spread of the times leaves: at least one, at most five."""
        low, high = self._quantile(0.16), self._quantile(0.84)
        if not high - low:
            return 5
        return min(max(int(math.log10(self.median / ((high - low) / 2))), 1), 5)

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread too far to be trusted: by more than a tenth."""
        return self.iqr > 0.1 * self.median

    def _setting(self, name: str) -> Any:
        return self.task_spec.get(name)

    @property
    def title(self) -> str:
        """What was measured."""
        named = (self._setting("label"), self._setting("sub_label"))
        return ": ".join(each for each in named if each) or str(self._setting("stmt"))

    @property
    def env(self) -> str:
        """The environment it was measured in, where that was said."""
        return str(self._setting("env") or "Unspecified env")

    @property
    def as_row_name(self) -> str:
        """Its name as a row of a table."""
        return str(self._setting("sub_label") or self._setting("stmt") or "[Unknown]")

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Return one Measurement for all that are of one task."""
        groups: dict[str, list[Measurement]] = {}
        for each in measurements:
            groups.setdefault(repr(sorted(each.task_spec.items(), key=str)), []).append(each)
        return [
            Measurement(1, [t for each in alike for t in each.times], alike[0].task_spec)
            for alike in groups.values()
        ]

    def __repr__(self) -> str:
        name, scale = select_unit(self.median)
        said = [f"<{__name__}.{type(self).__name__} object at {id(self):#x}>", self.title]
        said += [f"  {self._setting('description')}"] if self._setting("description") else []
        setup = (self._setting("setup") or "").strip()
        said += [f"setup: {setup}"] if setup not in ("", "pass") else []
        runs = len(self.raw_times)
        said.append(
            f"  {self.median / scale:.2f} {name}"
            if runs == 1
            else f"  Median: {self.median / scale:.2f} {name}\n  IQR:    {self.iqr / scale:.2f} {name}"
        )
        plural = "s" if runs != 1 else ""
        said.append(
            f"  {runs} measurement{plural}, {self.number_per_run} runs {'per measurement, ' if runs > 1 else ', '}"
            f"{self._setting('num_threads') or 1} thread{'s' if (self._setting('num_threads') or 1) > 1 else ''}"
        )
        return "\n".join(said)


class Timer:
    """Measures a statement, in Python's own way to run it many times.

    stmt, setup: code as text; globals: the names it knows; label, sub_label, description, env: what Compare writes.
    num_threads is told with the result; NumPy's threads are set where the process starts.

    >>> found = Timer("x + x", globals={"x": minitorch.ones(2)}).timeit(3)
    >>> found.number_per_run, len(found.raw_times), found.median > 0
    (3, 1, True)
    """

    _timer_cls: Any = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "py",
    ) -> None:
        if str(language).lower() not in ("py", "python", "language.python"):
            raise NotImplementedError("Timer: C++ is not measured; there is Python")
        if global_setup:
            raise ValueError("Timer: global_setup is for C++; write setup")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip() or "pass"
        self._globals = dict(globals or {})
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = {
            "stmt": stmt,
            "setup": setup,
            "global_setup": "",
            "label": label,
            "sub_label": sub_label,
            "description": description,
            "env": env,
            "num_threads": num_threads,
        }

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Run the statement that often, at once, after a hundredth as often to warm up."""
        self._timer.timeit(number=max(number // 100, 2))
        return self._measured(number, [self._timer.timeit(number=number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refuse, as PyTorch does: write blocked_autorange."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> NoReturn:
        """Refuse, as PyTorch does: write blocked_autorange."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """Return how often to run it between two looks at the clock, so that looking costs less than a thousandth."""
        looking = min(self._timer_cls("pass", timer=self._timer.timer).timeit(1) for _ in range(5))
        number = 1
        while True:
            took = self._timer.timeit(number)
            if looking / max(took, 1e-12) <= 1e-4 and took >= min_run_time / 1000:
                return number
            if took > min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Run it in blocks until the time is over, and keep each block's time."""
        number = self._block_size(min_run_time)
        return self._measured(number, self._blocks(number, min_run_time, callback))

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Run it in blocks until the quarters of the times are nearer than the threshold's share of the median."""
        number = self._block_size(0.05)
        found = self._measured(number, [])
        while sum(found.raw_times) < max_run_time:
            found.raw_times += self._blocks(number, min_run_time, callback)
            if len(found.raw_times) > 3 and found.iqr / found.median < threshold:
                break
        return found

    def _blocks(self, number: int, min_run_time: float, callback: Any) -> list[float]:
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return times

    def collect_callgrind(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse: instructions are not counted."""
        raise NotImplementedError("Timer.collect_callgrind: absent; there are timeit and blocked_autorange")


class Compare:
    """A table of measurements: a row for each sub_label (or statement), a column for each description.

    >>> runs = [Measurement(1, [t * 1e-3], {"label": "sum", "sub_label": "f()", "description": d})
    ...         for t, d in ((1.0, "old"), (2.0, "new"))]
    >>> print(Compare(runs))
    [------- sum -------]
             |  old | new
    1 threads: ----------
        f()  |  1.0 | 2.0
    <BLANKLINE>
    Times are in milliseconds (ms).
    <BLANKLINE>
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._colour = self._highlight = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for each in results:
            if not isinstance(each, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(each)} instead.")
            self._results.append(each)

    def trim_significant_figures(self) -> None:
        """Write only the digits that the spread leaves."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Refuse to colour: the least time of a row is marked by a star."""
        self._colour = True

    def highlight_warnings(self) -> None:
        """Mark times that spread far by a question mark."""
        self._highlight = True

    def print(self) -> None:
        """Print the table."""
        print(str(self))

    def __str__(self) -> str:
        tables: dict[Any, list[Measurement]] = {}
        for each in Measurement.merge(self._results):
            tables.setdefault(each.task_spec.get("label"), []).append(each)
        return "\n".join(self._table(label, found) for label, found in tables.items())

    def _table(self, label: Any, found: list[Measurement]) -> str:
        unit, scale = select_unit(min(each.median for each in found))
        columns = list(dict.fromkeys(each.task_spec.get("description") or "" for each in found))
        rows: dict[Any, dict[Any, dict[str, Measurement]]] = {}
        for each in found:
            threads = rows.setdefault(each.task_spec.get("num_threads") or 1, {})
            threads.setdefault((each.as_row_name, each.task_spec.get("env")), {})[
                each.task_spec.get("description") or ""
            ] = each
        cells = {id(each): self._cell(each, scale) for each in found}
        names = {
            key: key[0] if key[1] is None else f"{key[0]} ({key[1]})" for t in rows.values() for key in t
        }
        left = max(len(name) for name in names.values()) + 4
        widths = [
            max([len(c), *(len(cells[id(e)]) for e in found if (e.task_spec.get("description") or "") == c)])
            for c in columns
        ]

        def line(name: str, values: list[str]) -> str:
            body = " | ".join(v.rjust(w) for v, w in zip(values, widths, strict=True))
            return f"{name.ljust(left)}  |  {body}"

        head = line("", columns)
        title = f" {label or ''} ".center(len(head) - 2, "-")
        said = [f"[{title}]", head]
        for threads, kept in sorted(rows.items()):
            said.append(f"{threads} threads: ".ljust(len(head), "-"))
            for key, by_column in kept.items():
                least = min(each.median for each in by_column.values())
                values = []
                for column in columns:
                    one = by_column.get(column)
                    text = "" if one is None else cells[id(one)]
                    star = self._colour and one is not None and len(by_column) > 1 and one.median == least
                    values.append(text + "*" if star else text)
                said.append(line(f"    {names[key]}", values))
        long = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}[unit]
        return "\n".join([*said, "", f"Times are in {long} ({unit}).", ""])

    def _cell(self, each: Measurement, scale: float) -> str:
        time = each.median / scale
        digits = each.significant_figures if self._trim else 5
        shown = f"{float(f'{time:.{digits}g}'):.1f}"
        return shown + ("?" if self._highlight and each.has_warnings else "")


class Fuzzer:
    """PyTorch's maker of random inputs for measurements; can be named, not made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError("benchmark.Fuzzer: absent; write the inputs as a list of sizes")
