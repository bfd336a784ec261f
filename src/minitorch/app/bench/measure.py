"""Asking. Enters: groups. Leaves: results, filled round by round; each contender works in a process of its own.

Why processes: one library's threads, allocator and imports must not disturb another's. Why in turn, round after
round: a busy machine slows all contenders alike, and the best round of each is the one it did not disturb.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from minitorch.app.bench.plan import Ask, Questions
from minitorch.app.bench.results import Results, Row

THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
SAVE_EVERY = 2.0  # seconds; writing must not become part of what is measured


class WorkerEnded(RuntimeError):
    """A contender's process ended before it answered."""


class ContenderProcess:
    """A contender in its own process: `ask` sends it a line and waits for its answer."""

    def __init__(self, script: str, contender: str, threads: int = 1) -> None:
        self.contender = contender
        self._process = subprocess.Popen(
            [sys.executable, script, "--worker", contender],
            env={**os.environ, **dict.fromkeys(THREAD_SETTINGS, str(threads))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the one who asks; it ends its workers itself
        )
        try:
            self.greeting: str | None = self._read()  # its version, or None if it cannot be imported
        except BaseException:
            self.kill()
            raise

    def ask(self, text: str) -> Any:
        """Send a question, wait for the answer."""
        assert self._process.stdin is not None
        try:
            print(text, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerEnded(f"{self.contender}: its process ended (see the message above)") from None
        return self._read()

    def close(self) -> None:
        """Let it finish: its input ends."""
        self._process.communicate()

    def kill(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerEnded(f"{self.contender}: its process ended (see the message above)")
        return json.loads(line)


class BenchProgress(Protocol):
    """Who is told what happens."""

    def start(self, total: int) -> None:
        """So many questions will be asked."""

    def at(self, done: int, stage: str, question: str = "") -> None:
        """So many are answered; this stage has been reached, and this question is next."""

    def note(self, line: str) -> None:
        """A line that stays."""

    def stop(self) -> None:
        """No more will come."""


def run(
    groups: Sequence[Questions],
    where: Path,
    results: Results,
    progress: BenchProgress,
    save: Callable[[], None],
) -> None:
    """Ask everything, entering each answer as it comes, and save now and then; whatever happens, save at the end."""
    total = sum(len(g.asks) * len(g.contenders) * g.rounds for g in groups)
    progress.start(total)
    done = 0
    saved = time.monotonic()
    try:
        for group in groups:
            for line in group.left_out:
                if results.leave_out(line):
                    progress.note(line)
            begun = time.monotonic()
            with _Workers(group, where, results, progress) as workers:
                round_ = 1
                for number, ask, contender in order(group):
                    if number != round_ and not group.rounds_inside:
                        workers.end()
                    round_ = number
                    progress.at(done, stage(group, ask, number), f"{ask.parts[0].row}, {contender}")
                    enter(results, group, ask, contender, workers.answer(contender, ask))
                    done += 1
                    if time.monotonic() - saved > SAVE_EVERY:
                        save()
                        saved = time.monotonic()
            results.section(group).seconds = round(time.monotonic() - begun, 1)
        progress.at(done, "done")
        results.finished = True
    finally:
        progress.stop()
        save()


def stage(group: Questions, ask: Ask, number: int) -> str:
    """Name what a log should have a line for: a round, or a curve where the rounds lie inside."""
    if group.rounds_inside:
        return f"{group.name}: {ask.parts[0].curve or ask.parts[0].row}"
    return f"{group.name}, round {number} of {group.rounds}"


def order(group: Questions) -> Iterator[tuple[int, Ask, str]]:
    """Tell in which order to ask: contenders always side by side."""
    numbers = range(1, group.rounds + 1)
    if group.rounds_inside:
        pairs = [(number, ask) for ask in group.asks for number in numbers]
    else:
        pairs = [(number, ask) for number in numbers for ask in group.asks]
    for number, ask in pairs:
        for contender in group.contenders:
            yield number, ask, contender


def enter(results: Results, group: Questions, ask: Ask, contender: str, answer: Any) -> None:
    """Put an answer into its rows; what a contender cannot do (None) leaves no number."""
    if answer is None:
        return
    numbers = answer if isinstance(answer, dict) else {part.row: answer for part in ask.parts}
    for part in ask.parts:
        number = numbers.get(part.row)
        rows = results.section(group).rows
        row = rows.get(part.row)
        if row is None:
            row = rows[part.row] = Row(
                part.row, part.unit, part.curve, part.x, part.flops, part.traffic, part.headline
            )  # fmt: skip
        if number is not None and math.isfinite(number):
            row.values.setdefault(contender, []).append(number)


class _Workers(contextlib.AbstractContextManager["_Workers"]):
    """The processes of a group. One that cannot be imported, or that dies, is left out with a line that says so."""

    def __init__(self, group: Questions, where: Path, results: Results, progress: BenchProgress) -> None:
        self.group, self.results, self.progress = group, results, progress
        self.script = str(where / group.script)
        self.running: dict[str, ContenderProcess] = {}
        self.absent: set[str] = set()
        self.failed: set[tuple[str, str]] = set()  # not asked again in the next round

    def answer(self, contender: str, ask: Ask) -> Any:
        if contender in self.absent or (contender, ask.text) in self.failed:
            return None
        try:
            worker = self.running.get(contender) or self._start(contender)
            if worker is None:
                return None
            answer = worker.ask(ask.text)
        except WorkerEnded:
            self._note(
                f"{contender}: its process ended at {self.group.name}, {ask.parts[0].row}; left out there"
            )
            self.failed.add((contender, ask.text))
            dead = self.running.pop(contender, None)
            if dead is not None:
                dead.kill()
            return None
        if self.group.fresh:
            self.running.pop(contender).close()
        if isinstance(answer, dict) and "problem" in answer:
            self.failed.add((contender, ask.text))
            self._note(f"{contender}, {self.group.name}, {ask.parts[0].row}: {answer['problem']}")
            return None
        return answer

    def end(self) -> None:
        """Let all processes end; the next question starts new ones.

        Where things happen to lie in a process's memory moves its times, all of them: rounds show that only if they
        are not all of one process.
        """
        for worker in self.running.values():
            worker.close()
        self.running.clear()

    def _start(self, contender: str) -> ContenderProcess | None:
        worker = ContenderProcess(self.script, contender, self.group.threads)
        if worker.greeting is None:
            worker.close()
            self.absent.add(contender)
            self._note(f"{contender} is not installed here: left out")
            return None
        self.results.versions[contender] = worker.greeting
        self.running[contender] = worker
        return worker

    def _note(self, line: str) -> None:
        if self.results.leave_out(line):
            self.progress.note(line)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.end()
        for worker in self.running.values():
            worker.kill()
