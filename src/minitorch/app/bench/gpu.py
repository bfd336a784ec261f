"""`minitorch bench --device cuda`: training steps on a GPU beside the peers that are installed. Leaves: `Results`.

Enters: the folder of the workloads. Contenders are asked in turn, round after round, each time in a process of its own
(benchmarks/gpu.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minitorch.app.bench.results import Results, Row, Section
from minitorch.cuda import get_device_name

# By their names there: what they are called, and what they need.
CONTENDERS = {
    "compiled": ("minitorch", "cupy"),
    "minitorch": ("minitorch eager", "cupy"),
    "pytorch": ("PyTorch", "torch"),
    "torch.compile": ("torch.compile", "torch"),
    "pytorch graph": ("PyTorch, CUDA graph", "torch"),
    "jax": ("JAX", "jax"),
}
ROWS = {
    "grammar": "MLP 60×23-64-5, SGD",
    "digits": "MLP 128×64-256-10, SGD",
    "wide": "MLP 8192×1024-4096-1000, SGD",
    "block": "transformer block 16×1024×768",
    "block bfloat16": "the block in bfloat16",
    "gpt": "GPT 6×512, 8×512 tokens, AdamW",
    "lstm": "LSTM 256, 64 steps × 128",
    "conv": "convolution 3×3 64-64, 256×56×56",
    "cross-entropy": "cross-entropy 8192×50257",
    "softmax": "softmax 65536×1024",
    "gelu": "gelu(x)·2 + tanh(x), 2²⁸",
}
LONGEST = 180  # seconds that a contender may take for a row, its first call included


def ask(script: Path, contender: str, row: str, seconds: float) -> dict[str, Any]:
    """Measure one contender once, in a process of its own; {'error': why} if it cannot be."""
    words = [sys.executable, str(script), contender, row, "--seconds", str(seconds)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"it took more than {LONGEST} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def bench_gpu(
    where: Path,
    results: Results,
    rounds: int,
    seconds: float,
    only: str | None,
    save: Callable[[], None],
    tell: Callable[[str], None],
) -> None:
    """Ask everybody in turn, and add what was found to the results, and the time of each first call."""
    results.machine["gpu"] = get_device_name()
    steps = results.sections["gpu"] = Section("gpu", f"steps on one {results.machine['gpu']}")
    firsts = results.sections["gpu first"] = Section("gpu first", "the first call, compilation included")
    for number in range(rounds):
        for row, title in ROWS.items():
            if only and only not in f"{row} {title}":
                continue
            for contender, (name, needed) in CONTENDERS.items():
                if find_spec(needed) is None:
                    results.leave_out(f"{name}: {needed} is not installed")
                    continue
                tell(f"round {number + 1} of {rounds}: {row}, {name}")
                answer = ask(where / "gpu.py", contender, row, seconds)
                if "error" in answer:
                    results.leave_out(f"{title}, {name}: {answer['error']}")
                    continue
                _add(steps, title, name, answer["us"] / 1e6)
                _add(firsts, title, name, answer["first"])
                save()
    results.finished = True


def _add(section: Section, title: str, name: str, seconds: float) -> None:
    row = section.rows.setdefault(title, Row(title, headline=section.name == "gpu"))
    row.values.setdefault(name, []).append(seconds)
