"""`minitorch bench --ranks N`: training by N ranks beside one, and beside PyTorch's. Enters: how many. Leaves: tables.

Contenders are asked in turn, round after round, each time in processes of their own with one thread each; the best
round of each counts. From what was measured here the cost model (docs/ranks.md) is carried on to more ranks.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitorch.app.ranks import command, mpirun

MODELS = ("gpt", "cnn")
CONTENDERS = ("compiled", "minitorch", "pytorch")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Found = dict[tuple[str, str, int], dict[str, Any]]


def ask(script: Path, contender: str, model: str, ranks: int, seconds: float) -> dict[str, Any]:
    """Measure one contender once, in processes of its own; {'error': why} if it cannot be."""
    words = command(ranks, [str(script), contender, model, str(seconds)])
    env = {**os.environ, **dict.fromkeys(THREADS, "1")}
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return {"error": "it took more than 300 s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def measure(script: Path, ranks: int, rounds: int, seconds: float, found: Found) -> Iterator[str]:
    """Ask everybody in turn; say what is asked, and add what was found by contender, model and ranks."""
    for number in range(rounds):
        for model in MODELS:
            asked = [(c, n) for c in CONTENDERS for n in (1, ranks)] + [("compiled-alone", 1)]
            for contender, count in asked:
                yield f"round {number + 1} of {rounds}: {model}, {contender}, {count} ranks"
                answer = ask(script, contender, model, count, seconds)
                known = found.setdefault((contender, model, count), {})
                for key, value in answer.items():
                    better = key in known and isinstance(value, float)
                    known[key] = min(known[key], value) if better else value


def table(found: Found, ranks: int) -> str:
    """Return what was measured as lines."""
    lines = [
        f"{'':26}{'1 rank':>14}{f'{ranks} ranks':>14}{'ratio':>8}{'hidden':>9}{'sent':>10}",
        f"{'':26}{'samples/s':>14}{'samples/s':>14}",
    ]
    for model in MODELS:
        for contender in CONTENDERS:
            one, many = found.get((contender, model, 1), {}), found.get((contender, model, ranks), {})
            if "step" not in one or "step" not in many:
                why = one.get("error") or many.get("error") or "not asked"
                lines.append(f"{model + ', ' + contender:26}{why}")
                continue
            alone, together = (n * each["samples"] / each["step"] for n, each in ((1, one), (ranks, many)))
            shown = hidden_share(many["step"], many["here"], many["sum"])
            part = "–" if shown is None else f"{shown:.0%}"
            lines.append(
                f"{model + ', ' + contender:26}{alone:14,.0f}{together:14,.0f}{together / alone:7.2f}×{part:>9}"
                f"{many['bytes'] / 1e6:7.2f} MB"
            )
        wrapped, bare = found.get(("compiled", model, 1), {}), found.get(("compiled-alone", model, 1), {})
        if "step" in wrapped and "step" in bare:
            more = wrapped["step"] / bare["step"] - 1
            lines.append(
                f"{model + ', compiled, 1 rank':26}with DistributedDataParallel {more:+.1%} time per step"
            )
    return "\n".join(lines)


def hidden_share(step: float, here: float, total: float) -> float | None:
    """Return how much of the sums over ranks costs no time of its own; None if there is nothing to hide.

    step: seconds with averaged gradients; here: with gradients that stay here; total: the sums by themselves.

    >>> hidden_share(1.2, 1.0, 0.4)
    0.5
    """
    return None if total <= 0 else round(min(1.0, max(0.0, 1 - (step - here) / total)), 6)


# --- the cost model ---------------------------------------------------------------------------------------------------


@dataclass
class Network:
    """How long a message takes: latency + bytes / bandwidth."""

    latency: float
    bandwidth: float


def fitted(sums: Mapping[str, float]) -> Network:
    """Return the network by which two ranks' sums took as long as they did: the smallest and the largest tell.

    A sum over two ranks sends all bytes once in each direction.
    """
    times = sorted((int(size), seconds) for size, seconds in sums.items())
    latency = times[0][1]
    size, seconds = times[-1]
    return Network(latency, size / max(seconds - latency, 1e-9))


def sum_seconds(network: Network, ranks: int, size: float, bucket: float) -> float:
    """Return how long the sums of `size` bytes over ranks take, in buckets.

    Each bucket costs a latency for each doubling of the ranks, there and back, and sends 2·(N - 1)/N of its bytes.

    >>> round(sum_seconds(Network(1e-5, 1e9), 2, 1e6, 1e6), 6)
    0.00102
    """
    if ranks == 1:
        return 0.0
    buckets = max(1, math.ceil(size / bucket))
    latency = buckets * 2 * math.ceil(math.log2(ranks)) * network.latency
    return latency + 2 * (ranks - 1) / ranks * size / network.bandwidth


def carried_on(step: float, size: float, network: Network, hidden: float, bucket: float = 25e6) -> str:
    """Return the cost model's table for 8 to 1,024 ranks. hidden: how much of the sums takes no time of its own."""
    lines = [f"{'ranks':>6}{'sums, ms':>12}{'step, ms':>12}{'efficiency':>12}"]
    for ranks in (1, 2, 8, 16, 64, 256, 1024):
        total = sum_seconds(network, ranks, size, bucket)
        whole = step + (1 - hidden) * total
        lines.append(f"{ranks:6}{total * 1e3:12.2f}{whole * 1e3:12.2f}{step / whole:12.1%}")
    return "\n".join(lines)


def bench_ranks(ranks: int, where: Path, rounds: int, seconds: float, out: Path | None) -> int:
    """Measure, show, and write what was measured."""
    if mpirun() is None:
        print(
            "minitorch bench: --ranks needs mpirun; in minitorch's folder: pip install '.[mpi]'",
            file=sys.stderr,
        )
        return 2
    found: Found = {}
    try:
        for question in measure(where / "ranks.py", ranks, rounds, seconds, found):
            print(question, file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted; what was measured:", file=sys.stderr)
    print(table(found, ranks))
    for model in MODELS:
        many = found.get(("compiled", model, ranks), {})
        sums = found.get(("compiled", "gpt", ranks), {}).get("sums")
        if sums and "step" in many:
            network = fitted(sums)
            hidden = hidden_share(many["step"], many["here"], many["sum"]) or 0.0
            print(
                f"\n{model}, compiled: {many['here'] * 1e3:.2f} ms to compute {many['samples']} samples, "
                f"{many['bytes'] / 1e6:.2f} MB of gradients; latency {network.latency * 1e6:.0f} µs, bandwidth "
                f"{network.bandwidth / 1e9:.2f} GB/s, {hidden:.0%} hidden. On paper (docs/ranks.md):"
            )
            print(carried_on(many["here"], many["bytes"], network, hidden))
    if out is not None:
        text = [{"contender": c, "model": m, "ranks": n, **each} for (c, m, n), each in found.items()]
        out.write_text(json.dumps({"ranks": ranks, "rounds": rounds, "found": text}, indent=1) + "\n")
        print(f"\nwritten to {out}")
    return 0
