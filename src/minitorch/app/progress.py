"""What a person, or a program, sees of a training run. Enters: numbers. Leaves: a live line, plain lines, or JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitorch.app.train import Run

Record = dict[str, Any]


def percent(share: float) -> str:
    """Write a share as a percentage.

    >>> percent(0.98321)
    '98.3%'
    """
    return f"{100 * share:.1f}%"


def clock(seconds: float) -> str:
    """Write seconds as minutes and seconds.

    >>> clock(75.2)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Progress:
    """Shows nothing. The others show something at each of these moments."""

    def start(self, run: Run) -> None:
        """The run begins, or goes on."""

    def batch(
        self, *, epoch: float, loss: float, accuracy: float, samples_per_second: float, seconds_left: float
    ) -> None:
        """A batch is done; epoch counts fractions."""

    def epoch(self, record: Record) -> None:
        """An epoch is done."""

    def stop(self) -> None:
        """The loop has ended, well or not."""

    def end(self, report: Record) -> None:
        """The run is complete."""


class Quiet(Progress):
    """Shows nothing, for tests and programs."""


class JsonLines(Progress):
    """One JSON object a line, for a program that reads the output."""

    def __init__(self, out: IO[str]) -> None:
        self.out = out

    def _write(self, event: str, **content: Any) -> None:
        print(json.dumps({"event": event, **content}, ensure_ascii=False), file=self.out, flush=True)

    def start(self, run: Run) -> None:
        """Say what is trained, from where to where."""
        self._write(
            "start",
            experiment=run.experiment.name,
            seed=run.seed,
            from_epoch=run.epoch,
            to_epoch=run.epochs,
            goal=run.experiment.goal if run.stops_at_goal else "",
            resumed=run.resumed,
            parameters=parameters(run),
            folder=str(run.folder),
        )

    def epoch(self, record: Record) -> None:
        """Write the epoch's numbers."""
        self._write("epoch", **record)

    def end(self, report: Record) -> None:
        """Write the report."""
        self._write("end", **report)


class Lines(Progress):
    """A line an epoch and the report in words: for a file, a pipe, a log."""

    def __init__(self, out: IO[str]) -> None:
        self.out = out
        self.epochs = 0

    def say(self, text: str) -> None:
        """Write something that stays."""
        print(text, file=self.out, flush=True)

    def start(self, run: Run) -> None:
        """Say what is trained, from where to where."""
        self.epochs = run.epochs
        experiment = run.experiment
        self.say(f"{experiment.name}: {experiment.summary}")
        epochs = f"{run.epochs} epochs"
        if run.stops_at_goal:
            epochs = f"at most {epochs} (it stops when {experiment.goal})"
        if not run.resumed:
            self.say(f"{parameters(run):,} parameters, {epochs}, seed {run.seed}")
        elif run.done:
            self.say(f"already trained, {run.epoch} epochs; --epochs N goes on to N, --fresh starts anew")
        else:
            self.say(f"continues after epoch {run.epoch} of {epochs} (--fresh starts anew)")

    def epoch(self, record: Record) -> None:
        """Write the epoch's numbers."""
        parts = [f"epoch {record['epoch']}/{self.epochs}", f"loss {record['loss']:.4f}"]
        parts.append(f"accuracy {percent(record['accuracy'])}")
        if "val_accuracy" in record:
            parts.append(f"validation {percent(record['val_accuracy'])}")
        self.say("  ".join([*parts, f"{record['samples_per_second']:,.0f} samples/s"]))

    def end(self, report: Record) -> None:
        """Say why it stopped if it did, write the report in words, and where to look."""
        if report["stopped_by"]:
            self.say(f"stopped after epoch {report['epochs']} of {self.epochs}: {report['stopped_by']}")
        for line in report.get("text", []):
            self.say(line)
        if report["plot"]:
            self.say(f"curves: {report['plot']}")
        else:
            self.say("no plot: matplotlib is missing (pip install '.[app]' in minitorch's folder)")
        self.say(f"metrics and checkpoint: {report['folder']}")


class Terminal(Lines):
    """The same with a line that rewrites itself instead of one an epoch."""

    def __init__(self, out: IO[str]) -> None:
        super().__init__(out)
        self.last = 0.0
        self.validated = ""

    def batch(
        self, *, epoch: float, loss: float, accuracy: float, samples_per_second: float, seconds_left: float
    ) -> None:
        """Rewrite the line, ten times a second at most."""
        now = time.monotonic()
        if now - self.last < 0.1:
            return
        self.last = now
        self.show(
            epoch,
            [
                f"epoch {int(epoch - 1e-9) + 1}/{self.epochs}",
                f"loss {loss:.4f}",
                f"accuracy {percent(accuracy)}{self.validated}",
                f"{samples_per_second:,.0f} samples/s",
                f"{clock(seconds_left)} left",
            ],
        )

    def epoch(self, record: Record) -> None:
        """Remember how well the epoch before did on data it was not trained on."""
        if "val_accuracy" in record:
            self.validated = f" (validation {percent(record['val_accuracy'])})"

    def show(self, epoch: float, parts: list[str]) -> None:
        """Write one state of the line."""
        bar = "█" * int(20 * epoch / max(self.epochs, 1))
        self.out.write(f"\r\x1b[K{bar:░<20}  " + "  ".join(parts))
        self.out.flush()

    def stop(self) -> None:
        """Clear the line."""
        self.out.write("\r\x1b[K")
        self.out.flush()


class Rich(Terminal):
    """The same with rich: a bar in colour."""

    def __init__(self, out: IO[str]) -> None:
        super().__init__(out)
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        self.console = Console(file=out, highlight=False)
        self.bars: Any = Bars(
            TextColumn("[bold]{task.fields[epoch]}"),
            BarColumn(24),
            *(TextColumn(f"{{task.fields[{name}]}}") for name in ("loss", "accuracy", "speed", "left")),
            console=self.console,
            transient=True,
        )
        self.task: Any = None

    def start(self, run: Run) -> None:
        """Say what is trained, and show the bar."""
        super().start(run)
        if not run.done:
            blank = dict.fromkeys(("epoch", "loss", "accuracy", "speed", "left"), "")
            self.task = self.bars.add_task("", total=run.epochs, completed=run.epoch, **blank)
            self.bars.start()

    def show(self, epoch: float, parts: list[str]) -> None:
        """Move the bar."""
        names = ("epoch", "loss", "accuracy", "speed", "left")
        self.bars.update(self.task, completed=epoch, **dict(zip(names, parts, strict=True)))

    def say(self, text: str) -> None:
        """Write something that stays, above the bar."""
        self.console.print(text, markup=False, soft_wrap=True)

    def stop(self) -> None:
        """Take the bar away."""
        self.bars.stop()


def parameters(run: Run) -> int:
    """Count the numbers that are learned."""
    return sum(p.numel() for p in run.experiment.model.parameters())


def choose(out: IO[str] | None = None, json_lines: bool = False, plain: bool = False) -> Progress:
    """Return the display that fits: JSON on request; a live line on a terminal, with rich or without; else lines.

    plain: lines in any case. (What mpirun shows its ranks looks like a terminal, whatever it is.)
    """
    out = sys.stdout if out is None else out
    if json_lines:
        return JsonLines(out)
    if plain or not out.isatty():
        return Lines(out)
    try:
        return Rich(out)
    except ImportError:
        return Terminal(out)
