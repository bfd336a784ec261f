"""PyTorch's own operator samples on a GPU: eager there (by CuPy, value by value, by kernels), against eager here.

python -m op_db_there [--standin] [--calls 4] [--share 0/4] [--seconds 50] [PART OF A NAME]
"""

import argparse
import collections
import contextlib
import time
import traceback
import warnings

import numpy as np

import minitorch
import op_db
from minitorch.compiler.call.function import CompileWarning
from minitorch.engine.gpu import on_host
from pytorch import torch

SIZES = {4: (3e-4, 3e-5), 8: (1e-6, 1e-7), 2: (2e-2, 2e-2)}


def there(value, device):
    """The same argument with its tensors on a device."""
    if isinstance(value, minitorch.Tensor):
        moved = value.detach().to(device)
        return moved.requires_grad_() if value.requires_grad else moved
    if isinstance(value, str) and value == "cpu":
        return device
    if isinstance(value, dict):
        return {key: there(each, device) for key, each in value.items()}
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(there(each, device) for each in value)
    return value


def leaves(value):
    if isinstance(value, minitorch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return []


def numbers(thing):
    if isinstance(thing, minitorch.Tensor):
        return np.array(on_host(thing.detach()._data)), str(thing.device)[:4]
    return (None if thing is None else thing), ""


def outcome(call, arguments, options):
    """Results and gradients, as NumPy's; or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            minitorch.manual_seed(7)
            outputs = list(op_db.flat(call(*arguments, **options)))
            given = leaves((arguments, options))
            chosen = [o for o in outputs if isinstance(o, minitorch.Tensor) and o.requires_grad]
            grads = []
            if chosen and given:
                seeds = [
                    minitorch.tensor(op_db.weights(o.shape, o.dtype.kind)).to(o.dtype).to(o.device)
                    for o in chosen
                ]
                grads = minitorch.autograd.grad(chosen, given, seeds, allow_unused=True)
            return [numbers(o) for o in (*outputs, *grads)], len(outputs), ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None, 0, f"{type(error).__name__}: {error}\n{traceback.format_exc()[-700:]}"


def differs(mine, other, what):
    (a, where), (b, was) = mine, other
    if (where == "cuda") != (was == "cpu "[:3] or was == "cpu"):
        return f"{what} lies on {where or 'the host'!r}" if was else ""
    if not isinstance(b, np.ndarray):
        return "" if (a is None) == (b is None) else f"{what}: {a!r} instead of {b!r}"
    if not isinstance(a, np.ndarray):
        return f"{what} is missing"
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{what}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
    if b.dtype.kind in "fc" or b.dtype.kind == "V":
        size = b.dtype.itemsize // (2 if b.dtype.kind == "c" else 1)
        rtol, atol = SIZES[size]
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
        finite = np.abs(b[np.isfinite(b)])
        if not np.allclose(a, b, rtol=rtol, atol=atol * max(1.0, finite.max(initial=0.0)), equal_nan=True):
            at = tuple(np.argwhere(~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True))[0])
            return f"{what} differs at {[int(i) for i in at]}: {a[at]} instead of {b[at]}"
    elif not np.array_equal(a, b):
        at = tuple(np.argwhere(a != b)[0])
        return f"{what} differs at {[int(i) for i in at]}: {a[at]} instead of {b[at]}"
    return ""


RANDOM = (
    "rand",
    "normal",
    "multinomial",
    "dropout",
    "bernoulli",
    "exponential",
    "cauchy",
    "geometric",
    "uniform",
    "random",
    "empty",
    "log_normal",
    "poisson",
    "resize",
    "rrelu",
    "native_dropout",
    "fractional",
)


def judged(operator, call, sample, calls, compiled, samples=None):
    twins = []
    try:
        arguments = op_db.to_minitorch((sample.input, *sample.args), twins)
        options = op_db.to_minitorch(sample.kwargs, twins)
    except op_db.NotTranslated:
        return "skipped"
    want, count, _error = outcome(call, *(there((arguments, options), "cpu")))
    if want is None:
        return "skipped"
    runs = [(call, "eager", calls)]
    if compiled:
        runs.append((minitorch.compile(lambda a, o: call(*a, **o)), "compiled", 3))
    for run, way, times in runs:
        for turn in range(times):
            given = there((arguments, options), "cuda")
            got, _, said = outcome(run, *(given if way == "eager" else (given, {})))
            if got is None:
                return f"{way} call {turn}: {said}"
            if len(got) != len(want):
                return f"{way} call {turn}: {len(got)} results instead of {len(want)}"
            if any(word in operator.name for word in RANDOM):
                continue
            for i, (a, b) in enumerate(zip(got, want, strict=True)):
                if found := differs(a, b, f"result {i}" if i < count else f"gradient {i - count}"):
                    return f"{way} call {turn}: {found}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--standin", action="store_true")
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--compiled", action="store_true")
    o = parser.parse_args()
    part, parts = map(int, o.share.split("/"))
    began, totals = time.monotonic(), collections.Counter()
    warnings.simplefilter("ignore", CompileWarning)
    from random_tensors import standin

    with standin() if o.standin else contextlib.nullcontext():
        for number, operator in enumerate(op_db.operators()):
            if number % parts != part or (o.words and not any(w in operator.name for w in o.words)):
                continue
            if time.monotonic() - began > o.seconds:
                break
            totals["operators"] += 1
            shown = set()
            for dtype in (
                torch.float32,
                torch.int64,
                torch.bool,
                torch.complex64,
                torch.float64,
                torch.float16,
            ):
                if not operator.info.supports_dtype(dtype, "cpu"):
                    continue
                torch.manual_seed(0)
                differentiable = dtype.is_floating_point and operator.info.supports_autograd
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    samples = iter(operator.info.sample_inputs("cpu", dtype, requires_grad=differentiable))
                    taken = []
                    for sample in samples:
                        taken.append(sample)
                        if len(taken) >= 3 * o.samples:
                            break
                step = max(1, len(taken) // o.samples)
                for sample in taken[::step]:
                    for spelling, call in operator.spellings[:1]:
                        said = judged(operator, call, sample, o.calls, o.compiled)
                        totals[said if said == "skipped" else "wrong" if said else "right"] += 1
                        if said and said != "skipped" and said[:60] not in shown:
                            shown.add(said[:60])
                            print(f"{operator.name} [{spelling}, {str(dtype)[6:]}] {said}", flush=True)
    print(dict(totals), f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
