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
    if not wrong:
        return []
    # How far do these outputs move when the inputs move by their own rounding error? Asked up to five times: not all
    # directions show it.
    part = Program(program.inputs, [program.outputs[i] for i in wrong])
    moved = [np.zeros(expected[i].shape) for i in wrong]
    for seed in range(5):
        for k, shaken in enumerate(interpret(part, _shaken(inputs, seed))):
            if shaken.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    apart = np.abs(shaken.astype(np.float64) - expected[wrong[k]])
                moved[k] = np.maximum(moved[k], np.nan_to_num(apart))
        if all(close(results[i], expected[i], _spread(m)) for i, m in zip(wrong, moved, strict=True)):
            return []
    return [i for i, m in zip(wrong, moved, strict=True) if not close(results[i], expected[i], _spread(m))]


def _shaken(inputs: list[Any], seed: int) -> list[Any]:
    noise = np.random.default_rng(seed)
    return [
        a * (1 + 4 * np.finfo(a.dtype).eps * noise.uniform(-1, 1, a.shape)).astype(a.dtype)
        if a.dtype.kind == "f"
        else a
        for a in inputs
    ]


def _spread(moved: np.ndarray) -> Any:
    # Where most elements are that sensitive (a gradient of 0 but for rounding, made ±1 by Adam) all are.
    return np.maximum(moved, np.median(moved)) if moved.size else moved


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
