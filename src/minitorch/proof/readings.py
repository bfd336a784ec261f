"""A user's op in every other reading: many examples at once, forwards, compiled, on a GPU.

Enters: an op (minitorch.op) and inputs, of which gradcheck holds. Leaves: for each reading whether its numbers are the
same as eager execution's, and what is to be said. `UserOp.check` asks here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import minitorch
from minitorch.engine.node import Node

Arrays = list[Any]
Answer = tuple[bool, str]  # whether it is right, and what there is to say
EXAMPLES = 3


def readings(
    op: Callable[..., Any], arrays: Arrays, attributes: dict[str, Any]
) -> Iterator[tuple[str, bool, str]]:
    """Yield each reading that is possible here: its name, whether it is right, and why not (or how)."""
    function = lambda *xs: op(*xs, **attributes)
    for name, reading in (
        ("many examples at once (vmap)", _batched),
        ("forward mode", _forwards),
        ("compiled", _compiled),
        ("on a GPU", _on_a_gpu),
    ):
        try:
            answer = reading(function, arrays)
        except Exception as error:  # whatever a broken op raises is a finding
            answer = (False, f"{type(error).__name__}: {error}")
        if answer is not None:
            yield name, *answer


def _tensors(arrays: Arrays, device: Any = None) -> list[Any]:
    return [None if a is None else minitorch.tensor(a, device=device) for a in arrays]


def _weights(like: Any) -> Any:
    """Return irregular weights for an output: no two gradients cancel."""
    rows = np.sin(1.0 + np.arange(int(np.prod(like.shape)))).reshape(tuple(like.shape))
    return minitorch.tensor(rows.astype(like.dtype), device=like.device)


def _values_and_gradients(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Return the function that gives an op's results and, weighted, the gradients of its float inputs."""

    def both(*xs: Any) -> tuple[Any, ...]:
        own = [x.detach().clone().requires_grad_() if _is_float(x) else x for x in xs]
        out = function(*own)
        outputs = (out,) if isinstance(out, Node) else tuple(out)
        roots = [o for o in outputs if o.requires_grad]
        wanted = [x for x in own if _is_float(x)]
        found: tuple[Any, ...] = ()
        if roots and wanted:
            seeds = [_weights(o) for o in roots]
            found = minitorch.autograd.grad(roots, wanted, seeds, materialize_grads=True)
        return (*(o.detach() for o in outputs), *found)

    return both


def _is_float(x: Any) -> bool:
    return x is not None and x.dtype.kind == "f"


def _compare(mine: tuple[Any, ...], other: tuple[Any, ...], tolerance: float) -> str:
    """Return where two answers differ, or nothing."""
    for i, (a, b) in enumerate(zip(mine, other, strict=True)):
        a, b = (np.asarray(each.detach().cpu().numpy()) for each in (a, b))
        if a.shape != b.shape:
            return f"number {i} of results and gradients has shape {a.shape}, expected {b.shape}"
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"number {i} of results and gradients differs by {np.abs(a - b).max():.3g}"
    return ""


def _batched(function: Callable[..., Any], arrays: Arrays) -> Answer:
    both = _values_and_gradients(function)
    # Neighbouring inputs, so that they stay where the op is defined; integers are the same for all.
    nearby = [
        [a * (1 + 1e-3 * k) if a is not None and a.dtype.kind == "f" else a for a in arrays]
        for k in range(EXAMPLES)
    ]
    given = [
        None if each[0] is None else minitorch.tensor(np.stack(each)) for each in zip(*nearby, strict=True)
    ]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = minitorch.vmap(both, tuple(None if g is None else 0 for g in given))(*given)
    for k, each in enumerate(nearby):
        problem = _compare(tuple(f[k] for f in found), both(*_tensors(each)), 1e-9)
        if problem:
            return False, f"example {k}: {problem}"
    alone = [str(w.message) for w in told if "one after the other" in str(w.message)]
    return True, f"right, but {alone[0].removeprefix('vmap: ')}" if alone else ""


def _forwards(function: Callable[..., Any], arrays: Arrays) -> Answer:
    """Compare ⟨w, J·t⟩, by forward mode, with ⟨Jᵀ·w, t⟩, by the rules."""
    inputs = _tensors(arrays)
    floats = [i for i, x in enumerate(inputs) if _is_float(x)]
    if not floats:
        return True, ""

    def of_floats(*xs: Any) -> tuple[Any, ...]:
        given = list(inputs)
        for i, x in zip(floats, xs, strict=True):
            given[i] = x
        out: Any = function(*given)
        outputs: tuple[Any, ...] = (out,) if isinstance(out, Node) else tuple(out)
        return tuple(o for o in outputs if o.dtype.kind == "f")

    primals = tuple(inputs[i] for i in floats)
    rng = np.random.default_rng(0)
    for _ in range(3):
        draw = lambda x: minitorch.tensor(rng.normal(size=tuple(x.shape)).astype(x.dtype))
        tangents = tuple(draw(x) for x in primals)
        values, moved = minitorch.func.jvp(of_floats, primals, tangents)
        cotangents = tuple(draw(v) for v in values)
        pulled = minitorch.func.vjp(of_floats, *primals)[1](cotangents)
        ahead = sum(float((a * b).sum()) for a, b in zip(moved, cotangents, strict=True))
        back = sum(float((a * b).sum()) for a, b in zip(pulled, tangents, strict=True))
        if not np.isclose(ahead, back, rtol=1e-7, atol=1e-9):
            return False, f"w·J·t is {ahead:.9g} forwards and {back:.9g} backwards"
    return True, ""


def _compiled(function: Callable[..., Any], arrays: Arrays) -> Answer:
    both = _values_and_gradients(function)
    inputs = _tensors(arrays)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            compiled = minitorch.compile(both)
            answers = [compiled(*inputs) for _ in range(2)]
        except ImportError as error:
            return True, f"not tried: {error}"
    expected = both(*inputs)
    problem = next(filter(None, (_compare(a, expected, 1e-7) for a in answers)), "")
    if problem:
        return False, problem
    eager = [str(w.message) for w in told if "not compiled" in str(w.message)]
    return True, f"right, but {eager[0].splitlines()[0].removeprefix('compile: ')}" if eager else ""


def _on_a_gpu(function: Callable[..., Any], arrays: Arrays) -> Answer | None:
    if not minitorch.cuda.is_available():
        return None
    both = _values_and_gradients(function)
    problem = _compare(both(*_tensors(arrays, "cuda")), both(*_tensors(arrays)), 1e-7)
    return not problem, problem
