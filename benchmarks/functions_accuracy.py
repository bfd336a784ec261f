"""How exact and how fast the compiler's elementwise functions are, beside NumPy's.

    python benchmarks/functions_accuracy.py [exp log …] [--step 499] [--count 300000]

Errors are the largest found, in units of the last place, against the same function in float64 (for
float32) or long double (for float64), rounded nowhere. The sample: of float32 every step-th of all 2³²
bit patterns, which covers all exponents, denormals, inf and nan, and `count` numbers where functions
bend; of float64 `count` random bit patterns and the same again. `--step 1` tries every float32 there is.
"no fma" is the same code for a processor without multiply-add. Speed is elements per nanosecond on
arrays that fit in the first cache, best of many runs.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.functions import emit_function
from minitorch.compiler.backends.llvm.machine import compile_module
from minitorch.compiler.backends.llvm.target import Target, baseline, host
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, vector
from minitorch.compiler.ir import program

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
NAMES = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "sin", "cos", "tan", "arcsin", "arccos",
    "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "sqrt", "power", "arctan2", "hypot", "logaddexp",
    "remainder", "floor_divide", "maximum", "divide", "add",
]  # fmt: skip
# Where speed is measured: an interval inside every function's domain, if not this one.
INTERVALS = {"arccosh": (1.1, 9.0)}
CACHED = 4096  # elements


@functools.cache
def compiled(name: str, dtype: np.dtype, target: Target) -> tuple[Any, Any]:
    """A native loop over arrays with one function inside. The second result keeps the code in memory."""
    nin, lanes, e = operand_count(name), target.lanes(dtype), Emitter()
    element, kind = TYPES[dtype], vector(TYPES[dtype], target.lanes(dtype))
    places = [e.op(f"getelementptr {element}, ptr %a{n}, i64 %i") for n in range(nin + 1)]
    values = [e.op(f"load {kind}, ptr {place}, align {dtype.itemsize}") for place in places[:nin]]
    result = emit_function(e, name, values, dtype, lanes)
    e.line(f"store {kind} {result}, ptr {places[nin]}, align {dtype.itemsize}")
    parameters = ", ".join([*(f"ptr %a{n}" for n in range(nin + 1)), "i64 %count"])
    body, declarations = "\n".join(e.lines), "\n".join(e.externs.values())
    text = f"""
define void @loop({parameters}) {target.attributes} {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{body}
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}}
{declarations}
"""
    code = compile_module(text, target, ["loop"])
    pointers = [ctypes.c_void_p] * (nin + 1)
    return ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(code.address("loop")), code


def operand_count(name: str) -> int:
    function: Any = program.numpy_function(name)
    return function.nin


def run(name: str, arrays: list[np.ndarray], target: Target) -> np.ndarray:
    dtype, count = arrays[0].dtype, len(arrays[0])
    padded = -(-count // 64) * 64
    arrays = [np.resize(a, padded) for a in arrays]
    out = np.empty(padded, dtype)
    compiled(name, dtype, target)[0](*(a.ctypes.data for a in arrays), out.ctypes.data, padded)
    return out[:count]


# --- errors -------------------------------------------------------------------------------------------


def bending(count: int, dtype: np.dtype, seed: int) -> np.ndarray:
    """Numbers of usual sizes, around 0 and 1, and up to where exponentials end."""
    random = np.random.default_rng(seed)
    part = count // 5
    parts = [random.normal(size=part) * scale for scale in (0.05, 1, 20)]
    parts += [1 + random.normal(size=part) * 0.2, random.uniform(-760, 760, part)]
    return random.permutation(np.concatenate(parts)).astype(dtype)


def samples(name: str, dtype: np.dtype, step: int, count: int) -> Any:
    """Yield lists of operands, a few million elements at a time."""
    nin = operand_count(name)
    yield [bending(count, dtype, seed) for seed in range(nin)]
    random = np.random.default_rng(7)
    kind = f"u{dtype.itemsize}"
    if nin == 1 and dtype == FLOAT32:
        chunk = step << 21
        for start in range(0, 1 << 32, chunk):
            stop = min(start + chunk, 1 << 32)
            yield [np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(dtype)]
    else:
        yield [random.integers(0, np.iinfo(kind).max, count, dtype=kind).view(dtype) for _ in range(nin)]


def exact(name: str, operands: list[np.ndarray]) -> np.ndarray:
    wide = np.float64 if operands[0].dtype == FLOAT32 else np.longdouble
    if name == "erf" and wide is np.longdouble:
        return long_erf(operands[0].astype(wide))
    if name in ("remainder", "floor_divide"):  # exact in its own dtype, and another function in a wider one
        return program.numpy_function(name)(*operands).astype(wide)
    return program.numpy_function(name)(*(o.astype(wide) for o in operands))


def long_erf(x: np.ndarray) -> np.ndarray:
    """erf x = 2/√π·e^(-x²)·Σ 2ⁿx²ⁿ⁺¹ / (2n + 1)!!: no term is negative, so nothing cancels."""
    size = np.minimum(np.abs(x), 7)
    total = term = size
    for n in range(1, 260):
        term = term * (2 * size * size / (2 * n + 1))
        total = total + term
    root_pi = np.sqrt(np.arctan2(np.longdouble(0), np.longdouble(-1)))
    return np.where(np.isnan(x), x, np.copysign(2 / root_pi * np.exp(-size * size) * total, x))


def largest_error(name: str, dtype: np.dtype, target: Target, step: int, count: int) -> float:
    """In units of the last place; inf where one of both is nan or infinite and the other is not."""
    largest = 0.0
    for operands in samples(name, dtype, step, count):
        got, want = run(name, operands, target), exact(name, operands)
        rounded = want.astype(dtype)
        size = np.abs(rounded)
        if name == "logaddexp":  # a sum: where it cancels, the last place is that of what is added
            size = np.maximum(size, np.abs(np.maximum(*operands)))
        spacing = np.spacing(np.minimum(size, np.finfo(dtype).max)).astype(want.dtype)
        error = np.abs(got.astype(want.dtype) - want) / spacing
        special = ~np.isfinite(rounded) | ~np.isfinite(got)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        largest = max(largest, float(np.where(special, np.where(same, 0, np.inf), error).max()))
    return largest


# --- speed --------------------------------------------------------------------------------------------


def speeds(name: str, dtype: np.dtype) -> tuple[float, float]:
    """Elements per nanosecond: ours, and NumPy's (SciPy's for erf)."""
    low, high = INTERVALS.get(name, (0.05, 0.95))
    random = np.random.default_rng(0)
    operands = [random.uniform(low, high, CACHED).astype(dtype) for _ in range(operand_count(name))]
    out = np.empty(CACHED, dtype)
    loop, _code = compiled(name, dtype, host())
    pointers = [*(o.ctypes.data for o in operands), out.ctypes.data]
    function = program.numpy_function(name)

    def ours(count: int) -> None:
        loop(*pointers, count)

    def theirs(count: int) -> None:
        function(*(o[:count] for o in operands), out=out[:count])

    return speed(ours), speed(theirs)


def speed(call: Callable[[int], None]) -> float:
    """Elements per nanosecond, from the difference between many elements and few: calling costs both the same."""
    few = 64
    shortest = {few: 1e9, CACHED: 1e9}
    for _ in range(300):
        for count in shortest:
            start = time.perf_counter_ns()
            call(count)
            shortest[count] = min(shortest[count], time.perf_counter_ns() - start)
    return (CACHED - few) / (shortest[CACHED] - shortest[few])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="functions; all if none is given")
    parser.add_argument("--step", type=int, default=499, help="try every step-th float32")
    parser.add_argument(
        "--count", type=int, default=300_000, help="numbers where functions bend; random float64s"
    )
    options = parser.parse_args()
    print(f"{host().name}, {host().vector_bytes} bytes a vector; NumPy {np.__version__}")
    print(
        f"errors over every {options.step}th float32 and {options.count:,} more; {2 * options.count:,} float64"
    )
    print(f"{'':14}{'error in ulp':^36}{'elements per ns, ours : NumPy':^36}")
    print(f"{'':14}{'float32':>8}{'no fma':>10}{'float64':>10}{'no fma':>8}{'float32':>17}{'float64':>17}")
    plain = baseline()
    for name in options.names or NAMES:
        cells = [f"{name:14}"]
        for dtype in (FLOAT32, FLOAT64):
            for target in (host(), plain):
                error = (
                    largest_error(name, dtype, target, options.step, options.count)
                    if target.runs_here
                    else np.nan
                )
                cells.append(f"{error:8.2f} ")
        for dtype in (FLOAT32, FLOAT64):
            ours, theirs = speeds(name, dtype)
            cells.append(f"{ours:9.2f} :{theirs:6.2f}")
        print("".join(cells), flush=True)


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
