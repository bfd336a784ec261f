"""Whole training steps, compiled: minitorch beside JAX and PyTorch.

    python benchmarks/compiled.py [--rounds 5] [--json FILE] [--only WORD] [--neighbours] [--threads N]

Each contender runs in a process of its own, all in turn, round after round, with the same number of threads; the
best round of each counts. minitorch compiles the step, JAX jits it (parameters donated, result awaited), PyTorch
runs it eagerly. Every step gives a loss that is ready to be read; parameters are updated in place by minitorch and
PyTorch, and donated by JAX. minitorch and PyTorch also leave every parameter's gradient in .grad; JAX does not.
The memory-bound functions (softmax, layer norm, gelu) write 32 or 64 MB of results: minitorch uses the memory of a
result again once nobody holds it any more, the others ask the system for fresh pages, which costs them most of the
time that is measured.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from typing import Any

import compiled_models as models
import contest

CONTENDERS = {"minitorch": "minitorch", "JAX": "jax", "PyTorch": "torch", "PyTorch compiled": "torch"}
# torch.compile needs a C++ compiler and a minute: `minitorch bench` asks it too, this script does not.
ASKED_HERE = ("minitorch", "JAX", "PyTorch")
# Its optimisers' steps are compiled again in the first few calls, while their state comes into being.
WARM_UP = {"PyTorch compiled": 12}
# What the compiler was built to reach, as a multiple of the best peer's speed.
GOALS = {
    "XOR": 5, "grammar": 6, "digits": 3.5, "GPT 4": 1.5, "transformer": 1.2, "CNN": 1, "softmax 8": 4,
    "layer norm 8": 4, "gelu": 4, "cross-entropy, forward and backward, 4": 4,
}  # fmt: skip


def work(contender: str, threads: int) -> None:
    """Answer tasks: a worker's whole life."""
    version = contest.version(CONTENDERS[contender])
    if version is None:
        return contest.serve(None, lambda task: 0.0)
    if CONTENDERS[contender] == "torch":
        import torch

        torch.set_num_threads(threads)
        torch._logging.set_logs(all=logging.ERROR)  # its compiler's warnings would cross the progress
    steps: dict[str, Any] = {}

    def perform(task: str) -> float:
        if task not in steps:
            steps.clear()  # one at a time: what an earlier task holds in memory is let go
            kind, options = {**models.TASKS, **models.NEIGHBOURS}[task]
            if contender == "JAX":
                steps[task] = models.jax_step(kind, options)
            else:
                torch_like = __import__(CONTENDERS[contender])
                plain = contender == "PyTorch"
                compile = (lambda f: f) if plain else torch_like.compile
                steps[task] = models.torch_like(torch_like, compile, kind, options)
            for _ in range(WARM_UP.get(contender, 3) if steps[task] else 0):
                steps[task]()
        step = steps[task]
        if step is None:
            return float("inf")
        begun = time.perf_counter()
        step()
        once = time.perf_counter() - begun
        return contest.seconds_per_call(step, at_least=min(0.02, 20 * once), repeats=5 if once > 0.02 else 20)

    return contest.serve(version, perform)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", metavar="WORD", help="only tasks with this word in their name")
    parser.add_argument("--neighbours", action="store_true", help="other sizes, depths, dtypes and layers")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, int(os.environ["OMP_NUM_THREADS"]))
        return
    tasks = [
        t for t in (models.NEIGHBOURS if options.neighbours else models.TASKS) if (options.only or "") in t
    ]
    versions, times = contest.hold(
        os.path.abspath(__file__), ASKED_HERE, tasks, options.rounds, threads=options.threads
    )
    contest.save(options.json, versions, times)
    print(
        contest.machine()
        + f", {options.threads} threads; "
        + ", ".join(f"{k} {v}" for k, v in versions.items())
    )
    peers = [c for c in versions if c != "minitorch"]
    title = f"µs per step (best of {options.rounds})"
    print(f"{title:64}" + "".join(f"{c:>12}" for c in versions) + "   best peer / minitorch")
    for task, columns in times.items():
        best = {c: min(seconds) for c, seconds in columns.items()}
        row = "".join(f"{1e6 * best[c]:12,.1f}" if best[c] < float("inf") else f"{'–':>12}" for c in versions)
        ratio = min((best[c] for c in peers), default=float("nan")) / best["minitorch"]
        goal = next((g for word, g in GOALS.items() if task.startswith(word)), None)
        print(f"{task:64}{row}{ratio:9.2f}×" + (f"   (goal {goal}×)" if goal else ""))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
