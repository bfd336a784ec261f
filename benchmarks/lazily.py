"""The worker of lazy execution beside minitorch's other two ways to run: compiled, and eagerly.

Started by `minitorch bench`, once per contender: python benchmarks/lazily.py --worker CONTENDER. It answers the tasks
below, one a line, in seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import contest

import minitorch
from minitorch import nn, optim
from minitorch.nn import functional as F

CONTENDERS = ("minitorch lazy", "minitorch compiled", "minitorch eager")
SMALL, LARGE, OPS = 8, 4_000_000, 100
TASKS = (
    "one small op, recorded",
    "one small op, recorded and computed",
    "chain of 30 on 4M numbers",
    "digits MLP, a step with Adam",
)


def small(x: Any) -> Any:
    """A chain of 100 ops, on few numbers."""
    for _ in range(OPS // 2):
        x = x * 1.01 + 0.5
    return x


def large(x: Any) -> Any:
    """A chain of 30 ops, on many."""
    for _ in range(6):
        x = (x * 1.01 + 0.5).tanh() * 0.9 - 0.1
    return x


def training_step() -> Callable[[], Any]:
    """Return a step of a small model: forward, backward and update."""
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = optim.Adam(model.parameters())
    x, y = minitorch.randn(128, 64), minitorch.randint(0, 10, (128,))

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def work(contender: str) -> None:
    """Answer tasks: a worker's whole life."""
    lazily = contender == "minitorch lazy"
    compiled: Callable[[Any], Any] = minitorch.compile if contender == "minitorch compiled" else lambda f: f
    recording = minitorch.lazy(lazily)

    def perform(task: str) -> float:
        if task == TASKS[3]:
            step, divisor = compiled(training_step()), 1
            run: Callable[[], Any] = lambda: step().item()
        elif task == TASKS[2]:
            x, function, divisor = minitorch.randn(LARGE), compiled(large), 1
            run = lambda: function(x).data
        elif task == TASKS[1]:
            x, function, divisor = minitorch.randn(SMALL), compiled(small), OPS
            run = lambda: function(x).data
        elif not lazily:
            return float("inf")
        else:
            x, divisor = minitorch.randn(SMALL), OPS
            run = lambda: small(x)
        with recording:
            for _ in range(3):
                run()
            return contest.seconds_per_call(run, at_least=0.01, repeats=8) / divisor

    return contest.serve(minitorch.__version__, perform)


if __name__ == "__main__":
    work(sys.argv[sys.argv.index("--worker") + 1])
