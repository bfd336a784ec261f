"""The command. Enters: options. Leaves: a table on the screen, JSON and a page in files, and an exit code."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from minitorch.app.bench import gpu, measure, plan, table
from minitorch.app.bench.page import page
from minitorch.app.bench.ranks import bench_ranks
from minitorch.app.bench.results import Results, busy, comparable, compare, load, machine
from minitorch.cuda import is_available
from minitorch.serialization import atomically

OF_GPUS = ("contenders", "seconds", "longest", "within")  # options


class StageLines:
    """Plain lines, for a log: one whenever a new stage begins."""

    def __init__(self, out: IO[str]) -> None:
        self.out = out
        self.total = 0
        self.last = ""

    def start(self, total: int) -> None:
        """Remember how many questions there are."""
        self.total = total

    def at(self, done: int, stage: str, question: str = "") -> None:
        """Print the stage, when it is a new one."""
        if stage != self.last:
            self.last = stage
            print(f"{done}/{self.total} {stage}", file=self.out, flush=True)

    def note(self, line: str) -> None:
        """Print it."""
        print(line, file=self.out, flush=True)

    def stop(self) -> None:
        """Nothing to tidy up."""


class Live:
    """A bar that rewrites itself, by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            Remaining(),
            TextColumn("{task.description}"),
        )
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2)
        self.task: Any = None

    def start(self, total: int) -> None:
        """Show the empty bar."""
        self.task = self.progress.add_task("", total=total)
        self.progress.start()

    def at(self, done: int, stage: str, question: str = "") -> None:
        """Move on."""
        room = max(20, self.progress.console.width - 62)  # what the other columns leave
        self.progress.update(self.task, completed=done, description=f"{stage}: {question}"[:room])

    def note(self, line: str) -> None:
        """Print above the bar."""
        self.progress.console.print(line, markup=False, highlight=False)

    def stop(self) -> None:
        """Take the bar away."""
        self.progress.stop()


def choose_progress() -> measure.BenchProgress:
    """A live bar where there is a terminal and rich, else plain lines."""
    if sys.stderr.isatty():
        try:
            return Live()
        except ImportError:
            pass
    return StageLines(sys.stderr)


def bench(chosen: Any) -> int:
    """Measure (or read what was measured), show, write, compare; 1 if something became slower, 130 after Ctrl-C."""

    def refuse(message: str) -> int:
        print(f"minitorch bench: {message}", file=sys.stderr)
        return 2

    for path in (chosen.json, chosen.html):
        if path is not None and not path.parent.is_dir():
            return refuse(f"the folder {path.parent} does not exist")
    if getattr(chosen, "ranks", None):
        try:
            rounds = chosen.rounds or (2 if chosen.quick else 5)
            return bench_ranks(chosen.ranks, plan.folder(), rounds, 0.5 if chosen.quick else 2.0, chosen.json)
        except plan.NoWorkloads as error:
            return refuse(str(error))
    old = None
    try:
        # Read first: an unreadable file must not show after half an hour of measuring. It may also be the very file
        # that is about to be written.
        old = load(chosen.compare) if chosen.compare else None
        if chosen.given is not None:
            results = load(chosen.given)
    except (OSError, ValueError, TypeError, KeyError) as error:
        return refuse(f"cannot read it: {error}")
    code = 0
    shown = table.markdown if chosen.markdown else table.text
    if chosen.given is None:
        results = Results(
            machine(), {"quick": chosen.quick, "only": chosen.only, "command": _command(chosen)}
        )
        try:
            where = plan.folder()
        except plan.NoWorkloads as error:
            return refuse(str(error))
        on_gpu = getattr(chosen, "device", "cpu") == "cuda"
        if on_gpu and not is_available():
            return refuse("--device cuda needs a GPU, and CuPy (pip install '.[cuda]' in this folder)")
        if not on_gpu and any(getattr(chosen, name, None) for name in OF_GPUS):
            return refuse(f"--{', --'.join(OF_GPUS[:-1])} and --{OF_GPUS[-1]} are for --device cuda")
        if on_gpu:
            gpu.describe(results.machine)
        if old is not None and (reason := comparable(old, results)) is not None:
            return refuse(f"--compare: {reason}")
        rows = gpu.chosen_from(list(gpu.ROWS), chosen.only) if on_gpu else []
        asked = gpu.chosen_from(list(gpu.CONTENDERS), getattr(chosen, "contenders", None)) if on_gpu else []
        if on_gpu and not (rows and asked):
            return refuse(
                f"there are the rows {', '.join(gpu.ROWS)}; the contenders {', '.join(gpu.CONTENDERS)}"
            )
        groups = [] if on_gpu else plan.choose(plan.load(where), chosen.only, chosen.quick, chosen.rounds)
        if not groups and not on_gpu:
            return refuse(f"no group and no row has {chosen.only!r} in its name")
        target = chosen.json or default_json()
        if warning := busy(results.machine):
            print(f"minitorch bench: {warning}", file=sys.stderr)
        begun = time.monotonic()

        def save() -> None:
            results.options["seconds"] = round(time.monotonic() - begun)
            results.save(target)

        def save_and_draw() -> None:
            save()
            if chosen.html is not None:
                _draw(results, chosen.html)

        try:
            with _ended_as_by_ctrl_c():
                if on_gpu:
                    gpu.bench_gpu(
                        where,
                        results,
                        chosen.rounds or 1,
                        chosen.seconds or (0.2 if chosen.quick else 0.5),
                        save_and_draw,
                        StageLines(sys.stderr).note,
                        rows=rows,
                        contenders=asked,
                        longest=chosen.longest or gpu.LONGEST,
                        within=chosen.within,
                    )
                else:
                    measure.run(groups, where, results, choose_progress(), save)
                doubtful = {(c.section, c.row) for c in compare(old, results).slower} if old else set()
                if doubtful and not on_gpu:
                    # What was slower once may have met a bad moment. A regression is still there the second time.
                    print(f"{len(doubtful)} rows seem slower: they are measured once more", file=sys.stderr)
                    again = plan.with_rows(groups, doubtful)
                    measure.run(again, where, results, choose_progress(), save)
        except KeyboardInterrupt:
            code = 130
        save()
        print(shown(results))
        print(f"\n{'interrupted; what was measured is' if code else 'every round is'} in {target}")
    else:
        print(shown(results))
    if chosen.html is not None:
        _draw(results, chosen.html)
        print(f"page written to {chosen.html}")
    if old is not None:
        if (reason := comparable(old, results)) is not None:
            return refuse(f"--compare: {reason}")
        comparison = compare(old, results)
        print(f"\ncompared with {chosen.compare}, of {old.machine.get('date', 'an unknown day')}:")
        print(table.compared(comparison))
        if not comparison.changes:
            return code or refuse("--compare: the two runs have no row in common")
        code = code or int(bool(comparison.slower))
    return code


def _draw(results: Results, path: Path) -> None:
    with atomically(path) as file:
        file.write(page(results).encode())


@contextlib.contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Let a run that is told to end (as `timeout` does) end as by Ctrl-C: what was measured is kept."""
    if threading.current_thread() is not threading.main_thread():  # who alone may say what a signal does
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def default_json() -> Path:
    """Choose a new file, so that no older numbers are lost."""
    folder = Path("runs")
    folder.mkdir(exist_ok=True)
    return folder / f"bench-{datetime.now():%Y%m%d-%H%M%S}.json"


def _command(chosen: Any) -> str:
    words = ["minitorch bench"]
    words += ["--device cuda"] if getattr(chosen, "device", "cpu") == "cuda" else []
    words += ["--quick"] if chosen.quick else []
    words += [f"--only {chosen.only!r}"] if chosen.only else []
    words += [f"--rounds {chosen.rounds}"] if chosen.rounds else []
    for name in OF_GPUS:
        words += [f"--{name} {given!r}"] if (given := getattr(chosen, name, None)) else []
    return " ".join(words)
