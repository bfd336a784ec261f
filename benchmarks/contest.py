"""A contest of speed: each contender in a process of its own, all asked in turn, the best kept.

Why processes: one library's threads, allocator and imports must not disturb another's. Why in turn,
round after round: a busy machine slows all contenders alike, and the best round of each is the one
the machine did not disturb.

A worker's process knows only `serve` and the clocks below, and imports nothing but its own library. The one who
asks uses the same processes as `minitorch bench`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

# times[task][contender]: the seconds of each round
Times = dict[str, dict[str, list[float]]]


def version(package: str) -> str | None:
    """Return a package's version, or None where it is not installed; nothing is imported."""
    if package == "minitorch":  # its distribution has another name, and a checkout on the path has none
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        stated = re.search(r'^__version__ = "(.*)"$', Path(found.origin).read_text(encoding="utf-8"), re.M)
        assert stated is not None
        return stated[1]
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def serve(greeting: str | None, perform: Callable[[str], float]) -> None:
    """The worker's side: answer each task that arrives, until there are no more."""
    print(json.dumps(greeting), flush=True)
    for line in sys.stdin:
        print(json.dumps(perform(line.strip())), flush=True)


def hold(
    script: str, contenders: Iterable[str], tasks: Iterable[str], rounds: int, threads: int = 1
) -> tuple[dict[str, str], Times]:
    """Run the contest: return the contenders' versions, and the seconds of every round."""
    from minitorch.app.bench.measure import ContenderProcess

    workers = [ContenderProcess(script, name, threads) for name in contenders]
    for worker in workers:
        if worker.greeting is None:
            print(f"{worker.contender} is not installed here: left out", file=sys.stderr)
    present = [worker for worker in workers if worker.greeting is not None]
    times: Times = {task: {worker.contender: [] for worker in present} for task in tasks}
    for number in range(1, rounds + 1):
        for task, columns in times.items():
            print(f"\rround {number}/{rounds}: {task:32}", end="", file=sys.stderr, flush=True)
            for worker in present:
                columns[worker.contender].append(worker.ask(task))
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)
    for worker in workers:
        worker.close()
    return {worker.contender: worker.greeting for worker in present}, times


def seconds_per_call(
    function: Callable[[], object],
    at_least: float = 0.004,
    repeats: int = 8,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Time a function: the best of several repeats, each long enough for the clock."""
    function()
    start = clock()
    function()
    calls = max(1, round(at_least / (clock() - start)))
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        for _ in range(calls):
            function()
        best = min(best, (clock() - start) / calls)
    return best


def once(function: Callable[[], object]) -> float:
    """Time a single call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def spread(rounds: list[float]) -> float:
    """How far the middle round lies above the best one, as a fraction."""
    ordered = sorted(rounds)
    return ordered[len(ordered) // 2] / ordered[0] - 1


def machine() -> str:
    """The machine in a line: a time without it says little."""
    from minitorch.app.bench import results

    return results.in_a_line(results.machine())


def parser(description: str, rounds: int) -> argparse.ArgumentParser:
    """Return the options every contest has, for a contest that has more."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="how often to ask (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every round's seconds there")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


def arguments(description: str, rounds: int) -> argparse.Namespace:
    """Read the options every contest has."""
    return parser(description, rounds).parse_args()


def save(path: str | None, versions: dict[str, str], times: Times) -> None:
    """Write the numbers as JSON, if a path was given."""
    if path:
        with open(path, "w") as file:
            json.dump({"machine": machine(), "versions": versions, "seconds": times}, file, indent=1)
