"""Is a program right? Enters: a new program and the run it was recorded from. Leaves: where they differ, if they do."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.compiler.program import Program, interpret
from minitorch.compiler.recorder import Recording


def first_difference(program: Any, active: Recording) -> tuple[int, str] | None:
    """Run a Specialisation on what the function started from.

    Returns the first output that is not what the function gave, and 'recording' if that is what went wrong ('' if it
    is how the program is run); None if all agree.
    """
    before = [np.array(a) for a in active.before]
    outputs = program.runner(before)
    updated = {u.output: u.input for u in program.recorded.updates}
    results = [before[updated[i]] if i in updated else outputs[i] for i in range(len(active.after))]
    wrong = _differing(program.recorded.program, active.before, results, active.after)
    if wrong:
        reference = interpret(program.recorded.program, active.before)
        return wrong[0], "" if close(reference[wrong[0]], active.after[wrong[0]]) else "recording"
    back = program.backward
    if back is None:
        return None
    given = [*(outputs[i] for i in back.kept), *(np.ones_like(active.after[i]) for i in back.roots)]
    wrong = _differing(back.program, given, back.runner([np.array(a) for a in given]), back.expected)
    if not wrong:
        return None
    reference = interpret(back.program, given)
    room = "" if close(reference[wrong[0]], back.expected[wrong[0]]) else "recording"
    return len(active.after) + wrong[0], room


def _differing(program: Program, inputs: list[Any], results: list[Any], expected: list[Any]) -> list[int]:
    wrong = [i for i, (a, b) in enumerate(zip(results, expected, strict=True)) if not close(a, b)]
    if wrong:
        spread = _sensitivity(program, inputs)
        wrong = [i for i in wrong if not close(results[i], expected[i], spread[i])]
    return wrong


def close(a: Any, b: Any, spread: Any = 0.0) -> bool:
    """Tell whether two arrays agree to rounding (or within thirty times what rounding of the inputs can do)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    if not a.size:
        return True
    rtol = {2: 1e-2, 4: 2e-4, 8: 1e-9}.get(a.dtype.itemsize, 2e-4)
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
        apart = np.abs(a - b)
        allowed = rtol * (np.abs(b) + 0.05 * scale) + 30 * spread
        fine = (apart <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
    return bool(fine.all())


def _sensitivity(program: Program, inputs: list[np.ndarray]) -> list[Any]:
    """Return how far each output moves when the inputs move by their own rounding error."""
    plain = interpret(program, inputs)
    moved = [np.zeros(p.shape) for p in plain]
    for seed in range(5):
        noise = np.random.default_rng(seed)
        shaken = [
            a * (1 + 4 * np.finfo(a.dtype).eps * noise.uniform(-1, 1, a.shape)).astype(a.dtype)
            if a.dtype.kind == "f"
            else a
            for a in inputs
        ]
        for i, p in enumerate(interpret(program, shaken)):
            if p.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    apart = np.abs(p.astype(np.float64) - plain[i])
                    moved[i] = np.maximum(moved[i], np.nan_to_num(apart))
    # Where most elements are that sensitive (a gradient of 0 but for rounding, made ±1 by Adam) all are.
    return [np.maximum(each, np.median(each)) if each.size else each for each in moved]
