"""PyTorch's own operator samples, run on minitorch: who offers what, and does it agree?

Enters: `op_db`, the list of operators that PyTorch tests itself with, each with a generator of sample inputs.
Leaves: for each operator that minitorch offers under the same name, one verdict per sample: right, raised
(with the message) or wrong (with the difference). Run as a program it prints the figures:

    python tests/support/op_db.py [--all] [--raised] [PART OF A NAME]
"""

import collections
import dataclasses
import functools
import os
import re
import sys
import types
import warnings
from typing import Any

import numpy as np
import pytest

import minitorch
from op_db_reasons import DIFFERENT, LOOSE, REASONS, TIES, UNINITIALISED, UP_TO_SIGN
from pytorch import REASON, torch

op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations", reason=REASON).op_db
# Each list of samples looks through all frames and their files for the unittest it belongs to: two thirds of the time.
# (The list asks by a name of its own file.)
for module in (torch.testing._internal.common_utils, torch.testing._internal.opinfo.core):
    module.extract_test_fn = lambda: None
EVERYTHING = os.environ.get("MINITORCH_OP_DB") == "all"
DTYPES = {np.dtype(kind): getattr(torch, kind) for kind in (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128",
)}  # fmt: skip
TO_NUMPY = {theirs: ours for ours, theirs in DTYPES.items()}


DTYPES_TRIED = (torch.float64, torch.int64, torch.bool, torch.complex128)


class NotTranslated(Exception):
    """A sample that speaks of something minitorch has no word for: sparse layouts, generators."""


# --- operators and their spellings --------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Operator:
    """One entry of op_db, and the ways to call it on minitorch."""

    name: str
    info: Any
    spellings: tuple[tuple[str, Any], ...]


def find(path, root):
    """Return what a dotted name means below a module, or None."""
    for part in path.split("."):
        root = getattr(root, part, None)
        if root is None:
            return None
    return root


def translated(function):
    """Return a wrapper that op_db writes around an operator, calling minitorch in place of torch."""
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return None
    names = {**function.__globals__, "torch": minitorch, "wrapper_set_seed": with_seed}
    return types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)


def with_seed(call, *args, **options):
    """What op_db's wrapper of that name does: the same random numbers at each call."""
    minitorch.manual_seed(42)
    return call(*args, **options)


def spellings_of(info):
    """Return every way minitorch offers this operator: as a function, by other names, as a method."""
    found = []
    for path in [info.name, *(alias.name for alias in info.aliases)]:
        ours, theirs = find(path, minitorch), find(path, torch)
        if callable(ours) and callable(theirs) and not isinstance(ours, np.dtype):
            same = info.op is theirs or path != info.name or info.op in (find(path, torch), theirs)
            wrapper = None if same else translated(info.op)
            found.append((path, wrapper or ours))
        method = getattr(minitorch.Tensor, path, None) if "." not in path else None
        if method is not None and getattr(torch.Tensor, path, None) is not None:
            if isinstance(info.op, types.FunctionType) and info.op is not theirs and path == info.name:
                wrapper = translated(info.op)
                if wrapper is not None and not found:
                    found.append((f"x.{path}", wrapper))
            elif callable(method):
                found.append((f"x.{path}", method))
    return tuple(found)


@functools.cache
def operators():
    """Return every operator of op_db that minitorch offers."""
    chosen = []
    for info in op_db:
        name = info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")
        spellings = spellings_of(info)
        if spellings:
            chosen.append(Operator(name, info, spellings))
    return chosen


# --- samples ------------------------------------------------------------------------------------


def to_minitorch(value, made):
    """Translate an argument; tensors that require gradients are noted beside their twins."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.dtype not in TO_NUMPY:
            raise NotTranslated(f"a {value.dtype} tensor, {value.layout}")
        twin = minitorch.tensor(value.resolve_conj().resolve_neg().numpy(force=True))
        if value.requires_grad:
            twin.requires_grad_()
            made.append((value, twin))
        return twin
    if isinstance(value, torch.dtype):
        if value not in TO_NUMPY:
            raise NotTranslated(f"{value}")
        return TO_NUMPY[value]
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (torch.memory_format, torch.layout, torch.Generator)):
        raise NotTranslated(f"{value}")
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, dict):
        return {key: to_minitorch(each, made) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(to_minitorch(each, made) for each in value)
    if isinstance(value, torch.nn.Module):
        return find(type(value).__name__, minitorch.nn)()
    if callable(value):
        name = getattr(value, "__name__", "")
        return translated(value) or find(name, minitorch) or find(name, minitorch.nn.functional) or value
    return value


def samples_of(operator, dtype):
    """Yield PyTorch's sample inputs of an operator in a dtype."""
    info = operator.info
    if not info.supports_dtype(dtype, "cpu"):
        return
    torch.manual_seed(0)
    differentiable = dtype in (torch.float64, torch.complex128) and info.supports_autograd
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from info.sample_inputs("cpu", dtype, requires_grad=differentiable)


# --- verdicts -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Verdict:
    """What came of one sample."""

    kind: str  # right, raised, different (on purpose), wrong; skipped: PyTorch refuses, or it cannot be translated
    detail: str = ""
    reason: str = ""


def flat(outputs):
    """Return the results of a call as a list of tensors and numbers."""
    if isinstance(outputs, (tuple, list)):
        return [leaf for each in outputs for leaf in flat(each)]
    if isinstance(outputs, dict):
        return [leaf for each in outputs.values() for leaf in flat(each)]
    return [outputs]


def weights(shape, kind="f"):
    """An irregular gradient to start from: a constant one hides mistakes that cancel."""
    places = 1.7 * np.arange(int(np.prod(shape))).reshape(shape)
    return np.cos(1.0 + places) + (1j * np.cos(2.0 + places) if kind == "c" else 0)


def gradients_of(outputs, inputs, library):
    """Return the gradients of a weighted sum of the differentiable results."""
    chosen = [o for o in outputs if getattr(o, "requires_grad", False)]
    if not chosen or not inputs:
        return None
    make = (
        (lambda o: torch.tensor(weights(o.shape, "c" if o.dtype.is_complex else "f"), dtype=o.dtype))
        if library is torch
        else (lambda o: minitorch.tensor(weights(o.shape, o.dtype.kind), dtype=o.dtype))
    )
    return library.autograd.grad(chosen, inputs, [make(o) for o in chosen], allow_unused=True)


def difference(ours, theirs, what, shapes_only=False, rtol=1e-7, atol=1e-8):
    """Return how two results differ, or nothing."""
    if not isinstance(theirs, torch.Tensor):
        if isinstance(ours, minitorch.Tensor):
            return f"{what} is a tensor, not {type(theirs).__name__}"
        if isinstance(theirs, (int, float, bool, complex)):
            return "" if ours == theirs or ours != ours else f"{what} is {ours}, not {theirs}"
        return ""
    if not isinstance(ours, minitorch.Tensor):
        return f"{what} is a {type(ours).__name__}, not a tensor"
    if ours.shape != tuple(theirs.shape):
        return f"{what} has shape {ours.shape}, not {tuple(theirs.shape)}"
    if theirs.dtype == torch.bfloat16 and ours.dtype == minitorch.bfloat16:
        return difference(
            ours.float(), theirs.float(), what, shapes_only, rtol, atol
        )  # NumPy's functions know no such
    if DTYPES.get(ours.dtype) != theirs.dtype:
        return f"{what} is {ours.dtype}, not {theirs.dtype}"
    if shapes_only:
        return ""
    mine, other = ours.detach().numpy(), theirs.resolve_conj().resolve_neg().numpy(force=True)
    size = other.dtype.itemsize // (2 if other.dtype.kind == "c" else 1)  # of a part
    if other.dtype.kind in "fc" and size < 8:
        rtol, atol = (1e-5, 1e-5) if size == 4 else (2e-3, 1e-3)
    if not np.allclose(mine, other, rtol=rtol, atol=atol, equal_nan=True):
        with np.errstate(all="ignore"):
            gap = np.nanmax(np.abs(mine.astype(complex) - other.astype(complex))) if mine.size else 0
        return f"{what} differs by {gap:.2g}: {mine.reshape(-1)[:4]} and {other.reshape(-1)[:4]}"
    return ""


def compare(operator, sample, ours, theirs, twins, process):
    """Compare values and gradients; return the first difference, or nothing."""
    if process is not None:
        ours, theirs = process(ours), process(theirs)
    mine, others = flat(ours), flat(theirs)
    if len(mine) != len(others):
        return f"{len(mine)} results, not {len(others)}"
    shapes_only = operator.info.name in UNINITIALISED
    precision = {"rtol": LOOSE[operator.name], "atol": LOOSE[operator.name]} if operator.name in LOOSE else {}
    for i, (a, b) in enumerate(zip(mine, others, strict=True)):
        if operator.name in TIES and i == len(mine) - 1:
            a, b = (picked(operator, sample, each) for each in (a, b))
        found = difference(a, b, f"result {i}", shapes_only, **precision)
        if found:
            return found
    if shapes_only or not twins:
        return ""
    expected = gradients_of(others, [theirs for theirs, _ in twins], torch)
    if expected is None:
        return ""
    received = gradients_of(mine, [ours for _, ours in twins], minitorch)
    if received is None:
        return "" if all(g is None or not g.any() for g in expected) else "no gradient at all"
    for i, (a, b) in enumerate(zip(received, expected, strict=True)):
        if b is None or (a is None and not b.any()):
            continue
        if a is None:
            return f"gradient {i} is missing"
        found = difference(a, b, f"gradient {i}", rtol=1e-6, atol=1e-7)
        if found:
            return found
    return ""


def picked(operator, sample, indices):
    """Return the elements that indices name, for comparison where several are equal."""
    dim = sample.kwargs.get("dim", dict(enumerate(sample.args)).get(TIES[operator.name], -1))
    dim = dim if isinstance(dim, int) and not isinstance(dim, bool) else -1
    x = sample.input.detach()
    if isinstance(indices, minitorch.Tensor):
        x = minitorch.tensor(x.numpy())
    if not x.ndim:
        return x
    kept = indices.unsqueeze(dim) if indices.ndim < x.ndim else indices
    return x.gather(dim, kept).reshape(indices.shape)


def judge(operator, call, sample):
    """Run one sample on both libraries and compare."""
    twins = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(7)
            theirs = operator.info.op(
                *(copied(each) for each in (sample.input, *sample.args)),
                **{k: copied(v) for k, v in sample.kwargs.items()},
            )
    except Exception as error:
        return Verdict("skipped", f"PyTorch raises: {error}".splitlines()[0])
    if any(isinstance(o, torch.Tensor) and o.layout != torch.strided for o in flat(theirs)):
        return Verdict("skipped", "the result is sparse")
    try:
        arguments = to_minitorch((sample.input, *sample.args), twins)
        options = to_minitorch(sample.kwargs, twins)
    except NotTranslated as error:
        return Verdict("skipped", f"not translated: {error}")
    try:
        minitorch.manual_seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = call(*arguments, **options)
            found = compare(operator, sample, ours, theirs, twins, None)
            if found and operator.name in UP_TO_SIGN:
                torch.manual_seed(7)
                theirs = operator.info.op(sample.input, *sample.args, **sample.kwargs)
                ours = call(*arguments, **options)
                found = compare(operator, sample, ours, theirs, twins, sample.output_process_fn_grad)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return Verdict("raised", text, reason_for(operator, text, REASONS))
    if not found:
        return Verdict("right")
    reason = reason_for(operator, found, DIFFERENT)
    return Verdict("different" if reason else "wrong", found, reason)


def copied(value):
    """Leave tensors as they are (gradients are asked of them), and lists as their own."""
    return list(value) if isinstance(value, list) else value


def reason_for(operator, text, table):
    """Return the written reason for a message, or nothing."""
    for name, pattern, reason in table:
        if re.fullmatch(name, operator.name) and re.search(pattern, text):
            return reason
    return ""


def verdicts(operator, limit=None):
    """Yield (spelling, dtype, number, verdict) for the samples of an operator, in every spelling."""
    for dtype in DTYPES_TRIED:
        most = limit if dtype == torch.float64 or limit is None else max(1, limit // 2)
        for number, sample in enumerate(samples_of(operator, dtype)):
            if most is not None and number >= most:
                break
            for i, (spelling, call) in enumerate(operator.spellings):
                if i and number % 3 and limit is not None:
                    continue  # other names are the same function: some samples tell
                yield spelling, dtype, number, judge(operator, call, sample)


def main():
    """Print the figures, and every sample that is wrong or raised without a reason."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    limit = None if EVERYTHING or "--all" in sys.argv else 12
    totals, seen, raised = collections.Counter(), 0, collections.Counter()
    for operator in operators():
        if words and not any(word in operator.name for word in words):
            continue
        seen += 1
        shown = set()
        for spelling, dtype, number, verdict in verdicts(operator, limit):
            unexplained = verdict.kind == "raised" and not verdict.reason
            totals["raised without a reason" if unexplained else verdict.kind] += 1
            if verdict.kind in ("raised", "different", "skipped"):
                raised[f"{operator.name}: {verdict.kind}: {verdict.reason or verdict.detail[:80]}"] += 1
            loud = verdict.kind == "wrong" or unexplained
            key = (spelling, dtype, verdict.kind, verdict.detail[:60])
            if loud and key not in shown:
                shown.add(key)
                print(
                    f"{operator.name} [{spelling}, {dtype}, {number}] {verdict.kind}: {verdict.detail[:300]}"
                )
    if "--raised" in sys.argv:
        for text, count in raised.most_common():
            print(count, text)
    print(f"{seen} operators;", ", ".join(f"{count} {kind}" for kind, count in totals.most_common()))


if __name__ == "__main__":
    main()
