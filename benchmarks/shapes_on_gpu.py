"""What it costs on a GPU that sizes vary. Enters: a GPU. Leaves: µs by a program for one size, and by one for all.

    python benchmarks/shapes_on_gpu.py [ROW ...] [--seconds 0.5] [--steps]

The rows are those of benchmarks/gpu.py, with other batches, or lengths, first: a program for one size alone, and one
for all, each at the table's own size, and how many launches they take. --steps: where both spend their time.
"""

from __future__ import annotations

import argparse
from typing import Any

import cupy
import gpu

import minitorch as mt
from minitorch.compiler.call import specialisation

ROWS = (
    "softmax",
    "cross-entropy",
    "block",
    "block bfloat16",
    "gpt",
    "digits",
    "wide",
    "lstm",
    "conv",
    "gelu",
)
AXES = {"gpt": (0, 1), "block": (0, 1), "block bfloat16": (0, 1), "lstm": (1,)}  # that vary; else the first


def given(row: str, shorter: bool) -> list[Any]:
    """Return what a step is given: of the table's size, or of a smaller one."""
    found = []
    for array in gpu.numbers(row):
        if array is not None and shorter:
            for axis in AXES.get(row, (0,)):
                if axis < array.ndim:
                    array = array.take(range(array.shape[axis] * 3 // 4), axis)
        found.append(None if array is None else mt.tensor(array).to("cuda"))
    if row == "cross-entropy":
        found[0].requires_grad_()
    return found


def measured(row: str, varies: bool, seconds: float, steps: bool) -> tuple[float, int]:
    """Return microseconds of a step, and its launches."""
    step = mt.compile(gpu.step_on(mt, row), verify=False, dynamic=None if varies else False)
    if varies:
        step(*given(row, True))
    arguments = given(row, False)
    contestant = gpu.Contestant(lambda: step(*arguments), cupy.cuda.Device().synchronize, lambda result: [])
    us = gpu.measured(contestant, seconds)["us"]
    program = next(p for p in step.cache.all() if bool(p.recorded.program.symbols) == varies)
    count = len(program.runner.report.steps)
    if steps:
        gpu.tell_steps_of(program, [each for each in arguments if each is not None])
    return us, count


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--steps", action="store_true")
    options = parser.parse_args()
    mt.backends.cuda.matmul.allow_tf32 = True
    specialisation.OFTEN = 1 << 60  # (or a size that comes often would get a program of its own)
    for row in options.rows or ROWS:
        gpu.forget()
        one, launches = measured(row, False, options.seconds, options.steps)
        gpu.forget()
        all_, more = measured(row, True, options.seconds, options.steps)
        both = f"{one:10.1f} us in {launches:3} launches, for all sizes {all_:10.1f} in {more:3}"
        print(f"{row:16} {both}: {all_ / one:5.2f}", flush=True)


if __name__ == "__main__":
    main()
