"""How time and memory grow with the length of a graph: a thousand to a million ops on 8-element tensors.

    python benchmarks/growth.py [--longest 1000000] [--json FILE]

Twice the graph must cost twice the time: no recursion, no search. It is measured with Python's garbage
collector off and on: a graph has no cycles, but the collector, when on, walks over a long one a few times
while it is being built. Each length runs in a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import contest


def measure(length: int) -> dict[str, float]:
    """Build a chain of `length` ops, mul and add in turn, and differentiate it; the best of a few."""
    import minitorch

    x = minitorch.ones(8, requires_grad=True)
    w = minitorch.full((8,), 0.999, requires_grad=True)
    before = resident()
    best: dict[str, float] = {}
    for collector in ("off", "on"):
        (gc.enable if collector == "on" else gc.disable)()
        for _ in range(max(2, 20_000 // length)):
            start = time.perf_counter()
            y: Any = x
            for _ in range(length // 2):
                y = y * w + w
            middle = time.perf_counter()
            y.sum().backward()
            end = time.perf_counter()
            for name, seconds in (("forward", middle - start), ("backward", end - middle)):
                key = f"{name}, {collector}"
                best[key] = min(best.get(key, seconds), seconds)
    return {**best, "bytes": resident() - before}


def resident() -> int:
    """Return the most memory this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def main() -> None:
    """Print a line per length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longest", type=int, default=1_000_000, help="ops in the longest chain")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker)))
        return
    from minitorch.app.bench.measure import THREAD_SETTINGS

    print(contest.machine())
    print(f"{'':10}{'collector off, µs per op':>30}{'collector on, µs per op':>30}{'peak memory,':>16}")
    print(f"{'ops':>10}" + f"{'forward':>15}{'backward':>15}" * 2 + f"{'bytes per op':>16}")
    found = {}
    lengths = [n for power in range(3, 9) for n in (10**power, 3 * 10**power) if n <= options.longest]
    for length in lengths:
        print(f"{length} ops …", end="\r", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, "--worker", str(length)]
        environment = {**os.environ, **dict.fromkeys(THREAD_SETTINGS, "1")}
        answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        row = found[length] = json.loads(answer.stdout)
        times = "".join(f"{1e6 * row[name] / length:15.2f}" for name in row if name != "bytes")
        print(f"{length:10,}{times}{row['bytes'] / length:16,.0f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": contest.machine(), "lengths": found}, file, indent=1)


if __name__ == "__main__":
    main()
