"""`minitorch bench --device cuda`: training steps on a GPU beside the peers that are installed. Leaves: `Results`.

Enters: the folder of the workloads. Contenders are asked in turn, round after round, each in a process of its own
(benchmarks/gpu.py) that answers row after row, and finds nothing that was compiled before. A row that takes too long,
or ends the process, is left out, with the reason; another process is asked for the rest. So is one whose first steps do
not give what they give in float64.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.app.bench.results import Results, Row, Section
from minitorch.cuda import get_device_name, get_device_properties

# By their names there: what they are called, and what they need. Those that matter most are asked first.
CONTENDERS = {
    "compiled": ("minitorch", "cupy"),
    "pytorch graph": ("PyTorch graph", "torch"),
    "pytorch": ("PyTorch", "torch"),
    "jax": ("JAX", "jax"),
    "torch.compile": ("PyTorch compiled", "torch"),
    "minitorch": ("minitorch eager", "cupy"),
}
COMPILERS = (
    "compiled",
    "jax",
    "torch.compile",
)  # whose first calls are compared: eager kernels are there already
REFERENCE = "float64"  # the contender that all others are compared with
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
# What was aimed at on one H200, in microseconds.
GOALS = {
    "grammar": 15, "digits": 20, "wide": 1400, "block": 5000, "block bfloat16": 2100, "gpt": 9500, "lstm": 1200,
    "conv": 1064, "cross-entropy": 1300, "softmax": 130, "gelu": 560,
}  # fmt: skip
AIMED_AT = "NVIDIA H200"
LONGEST = 120.0  # seconds that a contender may take for a row, its first call included
# Where libraries keep what they compiled: each contender has a new folder, so that its first calls are first ones.
CACHES = (
    "MINITORCH_CACHE",
    "CUPY_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
)
# How far what a step gives may be from float64's, relative to that; and how far a loss falls, likewise.
NEAR, FALLEN = {"block bfloat16": 1e-2}, {"block bfloat16": 0.2}
NEAR_ELSE, FALLEN_ELSE = 2e-3, 0.05


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


def disagreement(row: str, shown: list[Any], expected: list[Any]) -> str:
    """Say how what a row's first steps gave differs from float64's; '' if it is near enough.

    shown, expected: for each step, of each of its results some elements. Of a loss the fall counts too: it tells of the
    gradients and of the optimiser.

    >>> disagreement("gpt", [[[4.0]], [[3.0]]], [[[4.001]], [[3.001]]])
    ''
    >>> disagreement("gpt", [[[4.0]], [[3.0]]], [[[4.0]], [[3.2]]])
    'wrong: step 2 gives 3, in float64 3.2'
    >>> disagreement("gpt", [[[4.0]], [[3.985]]], [[[4.0]], [[3.99]]])
    'wrong: its loss falls by 0.015 in 2 steps, in float64 by 0.01'
    """
    near, fallen = NEAR.get(row, NEAR_ELSE), FALLEN.get(row, FALLEN_ELSE)
    if [[len(each) for each in step] for step in shown] != [[len(each) for each in s] for s in expected]:
        return "wrong: its results have other sizes than in float64"
    for step, (ours, theirs) in enumerate(zip(shown, expected, strict=True), 1):
        for a, b in zip(map(np.array, ours), map(np.array, theirs), strict=True):
            apart, size = float(np.max(np.abs(a - b))), float(np.max(np.abs(b)))
            if not apart <= near * size:
                what = f"{a[0]:.6g}, in float64 {b[0]:.6g}" if a.size == 1 else f"up to {apart:.3g} off"
                return f"wrong: step {step} gives {what}"
    falls = [(first[0] - last[0], ref[0] - end[0])
             for first, last, ref, end in zip(shown[0], shown[-1], expected[0], expected[-1], strict=True)
             if len(first) == 1]  # fmt: skip
    for ours, theirs in falls:
        if abs(ours - theirs) > fallen * abs(theirs) + 1e-5 * abs(expected[0][0][0]):
            return f"wrong: its loss falls by {ours:.3g} in {len(shown)} steps, in float64 by {theirs:.3g}"
    return ""


@dataclass
class Asker:
    """Asks contenders, each in processes of its own. ends: when the time for all of them is over."""

    script: Path
    seconds: float
    longest: float
    ends: float | None = None
    _caches: dict[str, tempfile.TemporaryDirectory[str]] = field(default_factory=dict)

    def answers(self, contender: str, rows: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield what a contender says of each row: {'error': why} if it says nothing."""
        left = list(rows)
        while left:
            if self._left() <= 0:
                yield from ({"row": row, "error": "there was no time left"} for row in left)
                return
            with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
                late = yield from self._ask(contender, left, said)
                if left:
                    said.seek(0)
                    why = (said.read().strip().splitlines() or ["its process ended without a word"])[-1]
                    yield {"row": left.pop(0), "error": late or why}

    def close(self) -> None:
        """Forget what contenders have compiled."""
        for each in self._caches.values():
            each.cleanup()

    def _left(self) -> float:
        return self.longest if self.ends is None else min(self.longest, self.ends - time.monotonic())

    def _ask(self, contender: str, left: list[str], said: Any) -> Generator[dict[str, Any], None, str]:
        """Yield a process's answers; return why it was ended, if it was."""
        words = [sys.executable, str(self.script), contender, *left, "--seconds", str(self.seconds)]
        if contender not in self._caches:
            self._caches[contender] = tempfile.TemporaryDirectory(prefix="minitorch-bench-")
        kept = {name: str(Path(self._caches[contender].name, name.lower())) for name in CACHES}
        why = ""
        with subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=os.environ | kept,
            start_new_session=True,  # it and what it has started end together
        ) as process:
            assert process.stdout is not None

            def end(limit: float) -> None:
                nonlocal why
                short = limit < self.longest
                why = "there was no time left" if short else f"it took more than {limit:.0f} s"
                _kill(process)

            try:
                while left:
                    limit = max(0.1, self._left())
                    line = _next_answer(process.stdout, threading.Timer(limit, end, [limit]))
                    if not line:
                        break
                    answer = json.loads(line)
                    answer["row"] = left.pop(0)
                    yield answer
            finally:
                _kill(process)
        return why


def _kill(process: Any) -> None:
    """End a process and those that it has started (torch.compile starts some that compile)."""
    if not hasattr(os, "killpg"):
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _next_answer(out: Any, limit: threading.Timer) -> str:
    limit.start()
    try:
        return next((line for line in out if line.startswith("{")), "")
    finally:
        limit.cancel()


def describe(machine: dict[str, Any]) -> None:
    """Note what the GPU is."""
    found = get_device_properties()
    machine["gpu"] = f"{get_device_name()}, {found.total_memory / 2**30:.0f} GiB"


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
    within: float | None = None,
) -> None:
    """Ask everybody in turn, and add what was found to the results, and the time of each first call.

    within: after so many seconds nobody is asked any more.
    """
    steps = results.sections["gpu"] = Section("gpu", "Steps on a GPU", 0, about=ABOUT, why=WHY)
    firsts = results.sections["gpu first"] = Section(
        "gpu first", "First calls, which compile", 0, about=FIRST
    )
    goals = GOALS if AIMED_AT in results.machine.get("gpu", "") else {}
    began = time.monotonic()
    asker = Asker(where / "gpu.py", seconds, longest, None if within is None else began + within)
    expected: dict[str, Any] = {}
    try:
        tell("in float64, to compare with")
        for answer in asker.answers(REFERENCE, rows):
            if "error" in answer:
                results.leave_out(f"{ROWS[answer['row']]} was compared with nothing: {answer['error']}")
                tell(f"  {answer['row']}: {answer['error']}")
            else:
                expected[answer["row"]] = answer["shown"]
        for number in range(rounds):
            for contender in contenders:
                name, needed = CONTENDERS[contender]
                if find_spec(needed) is None:
                    results.leave_out(f"{name}: {needed} is not installed")
                    continue
                tell(f"round {number + 1} of {rounds}, {time.monotonic() - began:.0f} s: {name}")
                for answer in asker.answers(contender, rows):
                    row, title = answer["row"], ROWS[answer["row"]]
                    if "error" not in answer and row in expected:
                        answer |= _judged(row, answer["shown"], expected[row])
                    if "error" in answer:
                        results.leave_out(f"{title}, {name}: {answer['error']}")
                        tell(f"  {row}: {answer['error']}")
                        continue
                    if answer.get("version"):
                        results.versions[name] = answer["version"]
                    tell(f"  {row}: {answer['us']:,.1f} µs, the first call {answer['first']:.2f} s")
                    _add(steps, title, name, answer["us"] / 1e6, goals.get(row))
                    if contender in COMPILERS:
                        _add(firsts, title, name, answer["first"])
                    save()
                steps.seconds = round(time.monotonic() - began, 1)
    finally:
        asker.close()
    results.finished = True


def _judged(row: str, shown: Any, expected: Any) -> dict[str, str]:
    problem = disagreement(row, shown, expected)
    return {"error": problem} if problem else {}


def _add(section: Section, title: str, name: str, seconds: float, goal: float | None = None) -> None:
    row = section.rows.setdefault(title, Row(title, headline=section.name == "gpu"))
    row.goal = None if goal is None else goal / 1e6
    row.values.setdefault(name, []).append(seconds)


ABOUT = (
    "Forward, backward and the optimiser (of softmax and gelu: forward), as a user waits for them: steps are begun one "
    "after the other for some tenths of a second, and then waited for; the middle of several such times."
)
WHY = "Where a library's own kernel (cuDNN's, cuBLAS's) is all there is to a row, nobody is far ahead of the others."
FIRST = (
    "From the call to its result on the device, libraries imported, tensors there, and nothing kept on disk: minitorch "
    "also compares the program with the function in it. (PyTorch's eager kernels are compiled when it is built.)"
)
