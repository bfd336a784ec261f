"""The training loop. Enters: an experiment and a folder. Leaves: a trained model, its metrics, its plot.

Each epoch ends with a checkpoint that holds everything the next epoch depends on: model, optimiser,
scheduler, the state of the random generator, and the history. Killed at any moment, a run goes on from
the last whole epoch, and ends as it would have ended.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import minitorch
from minitorch import nn
from minitorch.app import plots
from minitorch.app.experiment import Experiment, Outcome, Record
from minitorch.app.progress import Progress, Quiet
from minitorch.app.ranks import LOGS, Alone, weighed
from minitorch.serialization import atomically

CHECKPOINT, METRICS, PLOT, REPORT = "checkpoint.npz", "metrics.jsonl", "curves.png", "report.json"


class CannotTrain(Exception):
    """Something the person at the command line can put right; the message says how."""


def refuse_stale_gradients(model: nn.Module) -> None:
    """Raise if a gradient of an earlier step is still there: backward() would add to it.

    It is the most common mistake in a training loop, and a silent one: the loss falls, but badly.

    >>> model = nn.Linear(1, 1)
    >>> model(minitorch.ones(1, 1)).sum().backward()
    >>> refuse_stale_gradients(model)
    Traceback (most recent call last):
    ...
    RuntimeError: weight.grad still holds the gradient of an earlier step. backward() adds to what is there...
    >>> model.zero_grad(); refuse_stale_gradients(model)
    """
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and bool((parameter.grad != 0).any()):
            raise RuntimeError(
                f"{name}.grad still holds the gradient of an earlier step. backward() adds to what is there, so "
                "this step would follow the sum of both: call optimizer.zero_grad() at the start of every step "
                "(and give the optimizer all of model.parameters())"
            )


def step(experiment: Experiment, batch: Any) -> Outcome:
    """Take one step of training: clear, judge, differentiate, improve."""
    experiment.optimizer.zero_grad()
    outcome = experiment.loss(batch)
    refuse_stale_gradients(experiment.model)
    outcome.loss.backward()
    experiment.optimizer.step()
    return outcome


def step_together(experiment: Experiment, batch: Any) -> Outcome:
    """Take one step on this rank's part of a batch; return the whole batch's outcome."""
    experiment.optimizer.zero_grad()
    here = experiment.loss(batch)
    refuse_stale_gradients(experiment.model)
    loss, outcome = weighed(here)
    loss.backward()
    experiment.optimizer.step()
    return outcome


class TrainingReport(Record):
    """What a run came to, by name; in a notebook a table with the curves."""

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
            f"<td style='text-align:left'><pre style='margin:0'>{html.escape(_shown(value))}</pre></td></tr>"
            for name, value in self.items()
            if name not in ("plot", "stopped_by") or value
        ]
        plot = self.get("plot")
        drawn = ""
        if plot and Path(plot).exists():
            picture = base64.b64encode(Path(plot).read_bytes()).decode()
            drawn = (
                f"<img alt='curves of the run' style='max-width:100%' src='data:image/png;base64,{picture}'>"
            )
        return f"<table>{''.join(rows)}</table>{drawn}"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False, default=str)


class Run:
    """One experiment in one folder: started, or found there and continued."""

    def __init__(
        self,
        make: Callable[..., Experiment],
        folder: Path,
        *,
        seed: int = 0,
        epochs: int | None = None,
        device: str = "cpu",
        compiled: bool = False,
        progress: Progress | None = None,
        team: Alone | None = None,
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.team = Alone() if team is None else team
        self.progress = Quiet() if progress is None or not self.team.leads else progress
        minitorch.manual_seed(seed)
        self.experiment = make(device)
        self.model = self.experiment.model
        self.trained = self.team.wrapped(self.model)  # what a step calls: the model, or a wrapper around it
        one_step = step if self.team.size == 1 else step_together
        self.step: Callable[[Any], Outcome] = functools.partial(one_step, self.experiment)
        if compiled:
            self.step = minitorch.compile(self.step)
        # Who names an epoch wants to get there, past the goal too.
        self.stops_at_goal = bool(self.experiment.goal) and epochs is None
        self.epochs = self.experiment.epochs if epochs is None else epochs
        self.epoch = 0
        self.history: list[Record] = []
        self.resumed = False
        kept = self.team.shared((folder / CHECKPOINT).exists() if self.team.leads else None)
        if kept:
            self._restore()

    @property
    def stopped_by(self) -> str:
        """Why there are epochs left that need no training, or ''."""
        reached = self.stops_at_goal and bool(self.history) and self.experiment.finished(self.history[-1])
        return self.experiment.goal if reached and self.epoch < self.epochs else ""

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train."""
        return self.epoch >= self.epochs or bool(self.stopped_by)

    def go(self) -> Record:
        """Train to the end, write the plot, and return the report."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.team.logs_to(self.folder)
        if self.team.leads:
            for part in self.folder.glob(".*.part"):  # left by a run that was killed while writing
                part.unlink(missing_ok=True)
            self._write_metrics()
            if not self.resumed:
                self.save()
        self.progress.start(self)
        try:
            began, first = time.perf_counter(), self.epoch
            while not self.done:
                record = self._one_epoch(began, first)
                self.epoch += 1
                self.history.append(record)
                if self.team.leads:
                    self.save()
                    with open(self.folder / METRICS, "a", encoding="utf-8") as file:
                        file.write(json.dumps(record) + "\n")
                self.progress.epoch(record)
        finally:
            self.progress.stop()
        return self._finish() if self.team.leads else {}

    def save(self) -> None:
        """Write the checkpoint: whole, or the one before stays. It says nothing of how many ranks have made it."""
        experiment = self.experiment
        state = {
            "experiment": experiment.name,
            "seed": self.seed,
            "epoch": self.epoch,
            "history": self.history,
            "model": self.model.state_dict(),
            "optimizer": experiment.optimizer.state_dict(),
            "scheduler": None if experiment.scheduler is None else experiment.scheduler.state_dict(),
            "random": minitorch.get_rng_state(),
        }
        minitorch.save(state, self.folder / CHECKPOINT)

    def _restore(self) -> None:
        path, experiment = self.folder / CHECKPOINT, self.experiment
        try:
            # Read by one rank: the others may be on machines that do not have the file.
            found = minitorch.load(path, map_location=experiment.device) if self.team.leads else None
            state = self.team.shared(found)
            if (state["experiment"], state["seed"]) != (experiment.name, self.seed):
                raise CannotTrain(
                    f"{self.folder} holds a run of {state['experiment']} with seed {state['seed']}; continue it with "
                    "that seed, start anew with --fresh, or choose another folder with --out"
                )
            self.model.load_state_dict(state["model"])
            experiment.optimizer.load_state_dict(state["optimizer"])
            if experiment.scheduler is not None:
                experiment.scheduler.load_state_dict(state["scheduler"])
            minitorch.set_rng_state(state["random"])
            self.epoch, self.history = state["epoch"], state["history"]
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise CannotTrain(f"cannot continue from {path}: {error}\nstart anew with --fresh") from error
        self.resumed = True

    def _one_epoch(self, began: float, first: int) -> Record:
        experiment, team = self.experiment, self.team
        experiment.model = self.trained.train()
        rate = experiment.optimizer.param_groups[0]["lr"]
        total_loss, right, seen = 0.0, 0, 0
        start = time.perf_counter()
        rows = 0
        for number, (batch, shard) in enumerate(team.batches(experiment.batches), 1):
            with team.drawing(shard):
                outcome = self.step(batch)
            team.after(shard)
            rows += 0 if shard is None else shard.mine
            loss = outcome.loss.item()
            if not math.isfinite(loss):
                raise CannotTrain(
                    f"the loss became {loss} in epoch {self.epoch + 1}; a smaller learning rate may help, and "
                    "`with minitorch.detect_anomaly():` names the line where the first nan is made"
                )
            total_loss += loss * outcome.samples
            right += outcome.correct
            seen += outcome.samples
            now = time.perf_counter()
            done = self.epoch - first + number / len(experiment.batches)
            self.progress.batch(
                epoch=self.epoch + number / len(experiment.batches),
                loss=total_loss / seen,
                accuracy=right / seen,
                samples_per_second=seen / (now - start),
                seconds_left=(now - began) / done * (self.epochs - first - done),
            )
        seconds = time.perf_counter() - start
        if experiment.scheduler is not None:
            experiment.scheduler.step()
        experiment.model = self.model.eval()
        with minitorch.no_grad():
            judged = experiment.validate()
        team.log(
            f"epoch {self.epoch + 1}: {rows} rows here, {seconds:.3f} s, loss of all {total_loss / seen:.6f}"
        )
        return {
            "epoch": self.epoch + 1,
            "loss": total_loss / seen,
            "accuracy": right / seen,
            **judged,
            "learning_rate": rate,
            "seconds": round(seconds, 4),
            "samples_per_second": round(seen / seconds, 1),
        }

    def _write_metrics(self) -> None:
        # From the history in the checkpoint, so that the two agree again after a kill.
        lines = "".join(json.dumps(record) + "\n" for record in self.history)
        with atomically(self.folder / METRICS) as file:
            file.write(lines.encode())

    def _finish(self) -> Record:
        experiment = self.experiment
        self.model.eval()
        # The report may draw random numbers (samples of text): from the seed, so that it can be repeated.
        state = minitorch.get_rng_state()
        minitorch.manual_seed(self.seed)
        with minitorch.no_grad():
            report = TrainingReport(
                experiment=experiment.name,
                epochs=self.epoch,
                stopped_by=self.stopped_by,
                seed=self.seed,
                **experiment.report(self.history[-1] if self.history else {}),
            )
        minitorch.set_rng_state(state)
        with atomically(self.folder / REPORT) as file:
            file.write(json.dumps(report, indent=1, ensure_ascii=False).encode())
        report["folder"] = str(self.folder)
        report["plot"] = plots.curves(self.history, experiment.name, self.folder / PLOT)
        self.progress.end(report)
        return report


def forget(folder: Path) -> None:
    """Remove what an earlier run left in its folder, and nothing else."""
    for name in (
        CHECKPOINT,
        METRICS,
        PLOT,
        REPORT,
        *(f"{LOGS}/{log.name}" for log in folder.glob(f"{LOGS}/rank-*.log")),
    ):
        (folder / name).unlink(missing_ok=True)
