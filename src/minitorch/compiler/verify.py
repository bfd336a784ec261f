"""Is a program right? Enters: a new program and the run it was recorded from. Leaves: where they differ, if they do."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.compiler.program import Program, Value, evaluate, interpret
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
    # How far do these outputs move when the inputs and everything on the way move by some rounding errors? Asked up
    # to five times: not all directions show it.
    part = Program(program.inputs, [program.outputs[i] for i in wrong])
    moved = [np.zeros(expected[i].shape) for i in wrong]
    for seed in range(5):
        shake = _Shake(seed)
        for k, shaken in enumerate(interpret(part, [shake.moved(a) for a in inputs], shake)):
            if shaken.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    apart = np.abs(shaken.astype(np.float64) - expected[wrong[k]])
                moved[k] = np.maximum(moved[k], np.nan_to_num(apart))
        if all(close(results[i], expected[i], _spread(m)) for i, m in zip(wrong, moved, strict=True)):
            return []
    return [i for i, m in zip(wrong, moved, strict=True) if not close(results[i], expected[i], _spread(m))]


class _Shake:
    """Moves floats by some rounding errors: the inputs, and whatever is computed with rounding.

    A sum's error goes with the size of what is summed, not with the sum, which may be next to nothing.
    """

    def __init__(self, seed: int) -> None:
        self.noise = np.random.default_rng(seed)

    def __call__(self, value: Value, inputs: list[Any], array: Any) -> Any:
        if value.primitive not in ("map", "reduce", "contract", "scan", "scatter"):
            return array
        if value.attributes.get("function") in _EXACT:  # what is compared for equality later stays equal
            return array
        kind = (value.primitive, value.attributes.get("function"))
        summed = value.primitive == "contract" or kind == ("reduce", "add")
        if summed and getattr(array, "dtype", None) in _FLOATS:
            return self.moved(array, np.sqrt(evaluate(value, [np.square(i) for i in inputs])))
        return self.moved(array)

    def moved(self, array: Any, sized: Any = None) -> Any:
        """Return an array moved by some rounding errors of `sized`, or of itself."""
        if getattr(array, "dtype", None) not in _FLOATS:
            return array
        # Long sums in another order differ by tens of rounding errors.
        step = 128 * np.finfo(array.dtype).eps * self.noise.uniform(-1, 1, array.shape)
        with np.errstate(all="ignore"):
            moved = array + step * (array if sized is None else np.where(np.isfinite(sized), sized, 0))
        return np.where(np.isfinite(moved), moved, array).astype(array.dtype)


_FLOATS = (np.float32, np.float64)
_EXACT = {
    "maximum", "minimum", "where", "cast", "negative", "absolute", "sign", "copysign", "floor", "ceil", "trunc",
    "rint", "set",
}  # fmt: skip


def _spread(moved: np.ndarray) -> Any:
    # Where a quarter of the elements are that sensitive (a gradient of 0 but for rounding, made ±1 by Adam) all are.
    return np.maximum(moved, np.quantile(moved, 0.75)) if moved.size else moved


def close(a: Any, b: Any, spread: Any = 0.0) -> bool:
    """Tell whether two arrays agree to rounding (or within twenty times what rounding of the inputs can do)."""
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
        allowed = rtol * (np.abs(b) + 0.05 * scale) + 20 * spread
        fine = (apart <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
    return bool(fine.all())
