"""`minitorch bench --device cuda`: training steps on a GPU beside the peers that are installed. Leaves: `Results`.

Enters: the folder of the workloads. Contenders are asked in turn, round after round, each in a process of its own
(benchmarks/gpu.py) that answers row after row. A row that takes too long, or ends the process, is left out, with the
reason; another process is asked for the rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
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
LONGEST = 120.0  # seconds that a contender may take for a row, its first call included


def chosen_from(names: Sequence[str], words: str | None) -> list[str]:
    """Return the names that some words, with commas between them, choose: a name itself, else all that have it in them.

    >>> chosen_from(["block", "block bfloat16", "gpt"], "gpt,block"), chosen_from(["softmax", "gelu"], "G")
    (['block', 'gpt'], ['gelu'])
    """
    if words is None:
        return list(names)
    asked = [word.strip().lower() for word in words.split(",")]
    exact = {word for word in asked if word in names}
    return [n for n in names if n in exact or any(w in n.lower() for w in asked if w and w not in exact)]


def answers(
    script: Path, contender: str, rows: Sequence[str], seconds: float, longest: float
) -> Iterator[dict[str, Any]]:
    """Ask one contender, in processes of its own; yield what it says of each row: {'error': why} if it says nothing."""
    left = list(rows)
    while left:
        words = [sys.executable, str(script), contender, *left, "--seconds", str(seconds)]
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True) as process,
        ):
            assert process.stdout is not None
            late = threading.Event()

            def end(process: Any = process, late: Any = late) -> None:
                late.set()
                process.kill()

            try:
                while left and (line := _next_answer(process.stdout, threading.Timer(longest, end))):
                    answer = json.loads(line)
                    answer["row"] = left.pop(0)
                    yield answer
            finally:
                process.kill()
            if left:
                said.seek(0)
                why = (said.read().strip().splitlines() or ["its process ended without a word"])[-1]
                why = f"it took more than {longest:.0f} s" if late.is_set() else why
                yield {"row": left.pop(0), "error": why}


def _next_answer(out: Any, limit: threading.Timer) -> str:
    limit.start()
    try:
        return next((line for line in out if line.startswith("{")), "")
    finally:
        limit.cancel()


def bench_gpu(
    where: Path,
    results: Results,
    rounds: int,
    seconds: float,
    save: Callable[[], None],
    tell: Callable[[str], None],
    *,
    rows: Sequence[str] = tuple(ROWS),
    contenders: Sequence[str] = tuple(CONTENDERS),
    longest: float = LONGEST,
) -> None:
    """Ask everybody in turn, and add what was found to the results, and the time of each first call."""
    results.machine["gpu"] = get_device_name()
    steps = results.sections["gpu"] = Section("gpu", f"steps on one {results.machine['gpu']}")
    firsts = results.sections["gpu first"] = Section("gpu first", "the first call, compilation included")
    for number in range(rounds):
        for contender in contenders:
            name, needed = CONTENDERS[contender]
            if find_spec(needed) is None:
                results.leave_out(f"{name}: {needed} is not installed")
                continue
            tell(f"round {number + 1} of {rounds}: {name}")
            for answer in answers(where / "gpu.py", contender, rows, seconds, longest):
                title = ROWS[answer["row"]]
                if "error" in answer:
                    results.leave_out(f"{title}, {name}: {answer['error']}")
                    tell(f"  {answer['row']}: {answer['error']}")
                    continue
                if answer.get("version"):
                    results.versions[name] = answer["version"]
                tell(f"  {answer['row']}: {answer['us']:,.1f} µs, the first call {answer['first']:.1f} s")
                _add(steps, title, name, answer["us"] / 1e6)
                _add(firsts, title, name, answer["first"])
                save()
    results.finished = True


def _add(section: Section, title: str, name: str, seconds: float) -> None:
    row = section.rows.setdefault(title, Row(title, headline=section.name == "gpu"))
    row.values.setdefault(name, []).append(seconds)
