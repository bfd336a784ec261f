"""What minitorch answers where mathematics leaves a choice: a table that runs.

Enters: nothing. Leaves: `KINKS`, `ZERO_SIZE`, `ERRORS`. Each row computes with a library given to it, so
that the suite can ask PyTorch too; docs/conventions.md is rendered from these rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

inf, nan = math.inf, math.nan


@dataclass(frozen=True)
class Kink:
    """A gradient at a kink, a tie, a zero or an infinity."""

    case: str
    inputs: tuple[list[float], ...]
    call: Callable[..., Any]
    gradients: tuple[list[float], ...]
    jax: str = "same"
    pytorch: str = "same"
    torch_call: Callable[..., Any] | None = None


def _activation(name: str, *args: Any) -> dict[str, Any]:
    return {
        "call": lambda m, x: getattr(m, name)(x, *args),
        "torch_call": lambda t, x: getattr(t.nn.functional, name)(x, *args),
    }


KINKS = [
    Kink("relu(0)", ([0.0],), lambda m, x: m.relu(x), ([0.0],)),
    Kink("sign(0)", ([0.0],), lambda m, x: m.sign(x), ([0.0],)),
    Kink("abs(0)", ([0.0],), lambda m, x: m.abs(x), ([0.0],), jax="1"),
    Kink("leaky_relu(0): the slope", ([0.0],), **_activation("leaky_relu", 0.1), gradients=([0.1],), jax="1"),
    Kink("maximum, tie", ([1.0], [1.0]), lambda m, x, y: m.maximum(x, y), ([0.5], [0.5])),
    Kink("minimum, tie", ([1.0], [1.0]), lambda m, x, y: m.minimum(x, y), ([0.5], [0.5])),
    Kink("max(), tie", ([2.0, 1.0, 2.0],), lambda m, x: m.max(x), ([0.5, 0.0, 0.5],)),
    Kink("min(), tie", ([1.0, 1.0, 2.0],), lambda m, x: m.min(x), ([0.5, 0.5, 0.0],)),
    Kink("amax(axis), tie", ([2.0, 1.0, 2.0],), lambda m, x: m.amax(x, 0), ([0.5, 0.0, 0.5],)),
    Kink("amin(axis), tie", ([1.0, 1.0, 2.0],), lambda m, x: m.amin(x, 0), ([0.5, 0.5, 0.0],)),
    Kink("max(axis).values, tie: the first", ([2.0, 1.0, 2.0],), lambda m, x: m.max(x, 0).values, ([1.0, 0.0, 0.0],), jax="–"),
    Kink("min(axis).values, tie: the first", ([1.0, 1.0, 2.0],), lambda m, x: m.min(x, 0).values, ([1.0, 0.0, 0.0],), jax="–"),
    Kink("topk, tie: the first", ([2.0, 1.0, 2.0],), lambda m, x: m.topk(x, 1).values, ([1.0, 0.0, 0.0],), jax="–"),
    Kink("clip at the lower bound", ([-1.0],), lambda m, x: m.clamp(x, -1, 1), ([0.0],), jax="½", pytorch="1 in 2.13, 0 in 2.14"),
    Kink("clip at the upper bound", ([1.0],), lambda m, x: m.clamp(x, -1, 1), ([0.0],), jax="½", pytorch="1 in 2.13, 0 in 2.14"),
    Kink("sqrt(0)", ([0.0],), lambda m, x: m.sqrt(x), ([inf],)),
    Kink("log(0)", ([0.0],), lambda m, x: m.log(x), ([inf],)),
    Kink("pow(0, 0)", ([0.0], [0.0]), lambda m, x, y: m.pow(x, y), ([0.0], [0.0]), jax="nan, 0"),
    Kink("pow(0, 2), to the exponent", ([0.0], [2.0]), lambda m, x, y: m.pow(x, y), ([0.0], [0.0])),
    Kink("x ** 0 at 0", ([0.0],), lambda m, x: x**0, ([0.0],)),
    Kink("2-norm at 0", ([0.0, 0.0],), lambda m, x: m.norm(x), ([0.0, 0.0],), jax="nan"),
    Kink("1-norm at 0", ([0.0, 0.0],), lambda m, x: m.norm(x, 1), ([0.0, 0.0],)),
    Kink("3-norm at 0", ([0.0, 0.0],), lambda m, x: m.norm(x, 3), ([0.0, 0.0],), jax="nan"),
    Kink("max-norm at 0", ([0.0, 0.0],), lambda m, x: m.norm(x, inf), ([0.0, 0.0],)),
    Kink("std of a constant", ([3.0, 3.0, 3.0],), lambda m, x: m.std(x), ([0.0, 0.0, 0.0],), jax="nan"),
    Kink("softmax, one -inf", ([0.0, -inf],), lambda m, x: m.softmax(x, 0)[0], ([0.0, 0.0],)),
    Kink("softmax, all -inf", ([-inf, -inf],), lambda m, x: m.softmax(x, 0)[0], ([nan, nan],)),
    Kink("logsumexp, one -inf", ([0.0, -inf],), lambda m, x: m.logsumexp(x, 0), ([1.0, 0.0],)),
    Kink("logsumexp, all -inf", ([-inf, -inf],), lambda m, x: m.logsumexp(x, 0), ([nan, nan],)),
    Kink("prod with one zero", ([0.0, 2.0, 3.0],), lambda m, x: m.prod(x), ([6.0, 0.0, 0.0],)),
    Kink("prod with two zeros", ([0.0, 2.0, 0.0],), lambda m, x: m.prod(x), ([0.0, 0.0, 0.0],)),
    Kink(
        "where: infinite slope in the branch not taken",
        ([0.0],),
        lambda m, x: m.where(x > 0, m.sqrt(x), 0 * x),
        ([nan],),
    ),
    Kink(
        "where: nan in the branch not taken",
        ([-1.0],),
        lambda m, x: m.where(x > 0, m.sqrt(x), 0 * x),
        ([nan],),
    ),
    Kink("atan2(0, 0)", ([0.0], [0.0]), lambda m, y, x: m.atan2(y, x), ([0.0], [0.0]), jax="nan"),
    Kink("sort: g follows the permutation", ([3.0, 1.0, 2.0],), lambda m, x: m.sort(x).values * m.tensor([1.0, 2.0, 3.0], dtype=m.float64), ([3.0, 1.0, 2.0],)),
    Kink("median(), tie", ([1.0, 1.0, 2.0],), lambda m, x: m.median(x), ([0.5, 0.5, 0.0],), jax="–"),
]  # fmt: skip


@dataclass(frozen=True)
class ZeroSize:
    """A reduction of nothing: its value, or the exception."""

    case: str
    call: Callable[..., Any]
    answer: Any
    pytorch: str = "same"


ZERO_SIZE = [
    ZeroSize("sum", lambda m, x: m.sum(x), 0.0),
    ZeroSize("prod", lambda m, x: m.prod(x), 1.0),
    ZeroSize("mean", lambda m, x: m.mean(x), nan),
    ZeroSize("var", lambda m, x: m.var(x, correction=0), nan),
    ZeroSize("std", lambda m, x: m.std(x, correction=0), nan),
    ZeroSize("logsumexp", lambda m, x: m.logsumexp(x, 0), -inf),
    ZeroSize("2-norm", lambda m, x: m.norm(x), 0.0),
    ZeroSize("all", lambda m, x: m.all(x), True),
    ZeroSize("any", lambda m, x: m.any(x), False),
    ZeroSize("softmax", lambda m, x: m.softmax(x, 0), []),
    ZeroSize("cumsum", lambda m, x: m.cumsum(x, 0), []),
    ZeroSize("max", lambda m, x: m.max(x), Exception),
    ZeroSize("min", lambda m, x: m.min(x), Exception),
    ZeroSize("argmax", lambda m, x: m.argmax(x), Exception),
]


@dataclass(frozen=True)
class Dtypes:
    """Which dtype a result has."""

    case: str
    call: Callable[..., Any]
    answer: str


DTYPES = [
    Dtypes("a list of Python floats", lambda m: m.tensor([1.0, 2.0]), "float32"),
    Dtypes("a list of Python ints", lambda m: m.tensor([1, 2]), "int64"),
    Dtypes("float32 · Python float", lambda m: m.ones(2) * 2.5, "float32"),
    Dtypes("float32 · 0-d float64", lambda m: m.ones(2) * m.tensor(2.5, dtype=m.float64), "float32"),
    Dtypes("float32 + float64", lambda m: m.ones(2) + m.ones(2, dtype=m.float64), "float64"),
    Dtypes("int64 + float32", lambda m: m.tensor([1, 2]) + m.ones(2), "float32"),
    Dtypes("int64 / int64", lambda m: m.tensor([1, 2]) / m.tensor([1, 2]), "float32"),
    Dtypes("int64 · Python float", lambda m: m.tensor([1, 2]) * 0.5, "float32"),
    Dtypes("sum of bools", lambda m: m.tensor([True, False]).sum(), "int64"),
    Dtypes("sum of int32", lambda m: m.tensor([1, 2], dtype=m.int32).sum(), "int64"),
    Dtypes("exp of ints", lambda m: m.exp(m.tensor([1, 2])), "float32"),
    Dtypes("comparison", lambda m: m.ones(2) > 0, "bool"),
]


@dataclass(frozen=True)
class Wrong:
    """A mistake, the exception it raises, and what its message names."""

    case: str
    call: Callable[..., Any]
    error: type[Exception]
    says: str


def _freed(m: Any) -> None:
    loss = (m.ones(2, requires_grad=True) ** 2).sum()
    loss.backward()
    loss.backward()


def _in_place(m: Any) -> None:
    x = m.ones(2, requires_grad=True)
    x += 1


def _overwritten(m: Any) -> None:
    y = m.ones(2, requires_grad=True).exp()
    y += 1
    y.sum().backward()


ERRORS = [
    Wrong("shapes that do not broadcast", lambda m: m.ones(3, 5) + m.ones(4), RuntimeError, r"add.*\(3, 5\).*\(4,\)"),
    Wrong("matmul of wrong shapes", lambda m: m.ones(3, 5) @ m.ones(3, 5), RuntimeError, r"matmul.*\(3, 5\)"),
    Wrong("reshape to a wrong size", lambda m: m.ones(3, 5).reshape(4, 4), RuntimeError, r"reshape.*\(3, 5\).*\(4, 4\)"),
    Wrong("cat of wrong shapes", lambda m: m.cat([m.ones(3, 5), m.ones(3, 4)]), RuntimeError, r"cat.*\(3, 5\).*\(3, 4\)"),
    Wrong("einsum of wrong shapes", lambda m: m.einsum("ij,jk", m.ones(2, 3), m.ones(4, 5)), RuntimeError, "einsum.*'j'"),
    Wrong("backward on many elements", lambda m: m.ones(3, requires_grad=True).exp().backward(), RuntimeError, "gradient="),
    Wrong("a second backward", _freed, RuntimeError, "retain_graph=True"),
    Wrong("backward on a constant", lambda m: m.ones(()).backward(), RuntimeError, "requires_grad=True"),
    Wrong("requires_grad on ints", lambda m: m.tensor([1], requires_grad=True), RuntimeError, "int64.*float"),
    Wrong("in place on a leaf that requires grad", _in_place, RuntimeError, r"x = x \+ y"),
    Wrong("in backward: an op needs values that were overwritten", _overwritten, RuntimeError, r"exp.*x \+= y|inplace"),
    Wrong("truth value of many elements", lambda m: bool(m.ones(2)), RuntimeError, r"any\(\) or x.all\(\)"),
    Wrong("index out of range", lambda m: m.ones(3)[5], IndexError, r"getitem.*\(3,\)"),
    Wrong("axis out of range", lambda m: m.ones(3).sum(axis=2), IndexError, "sum: axis 2"),
    Wrong("class label out of range", lambda m: m.cross_entropy(m.ones(1, 5), m.tensor([5])), IndexError, "target 5.*0 to 4"),
    Wrong("unknown reduction", lambda m: m.cross_entropy(m.ones(1, 5), m.tensor([0]), reduction="avg"), ValueError, "'mean'"),
    Wrong("batch mismatch in a loss", lambda m: m.cross_entropy(m.ones(2, 5), m.tensor([0])), ValueError, r"\(2, 5\).*\(1,\)"),
    Wrong("item() of many elements", lambda m: m.ones(2).item(), ValueError, r"item.*\(2,\)"),
    Wrong("an argument of a wrong type", lambda m: m.ones(2) + "text", TypeError, "str"),
]  # fmt: skip


def _list(values: list[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)


def markdown() -> str:
    """Render the tables for docs/conventions.md."""
    parts = [_INTRODUCTION, "## Gradients at kinks, ties and zeros\n"]
    parts.append("| case | at | gradient | PyTorch 2.13 | JAX 0.10 |\n|---|---|---|---|---|")
    for kink in KINKS:
        at = "; ".join(_list(v) for v in kink.inputs)
        found = "; ".join(_list(v) for v in kink.gradients)
        parts.append(f"| {kink.case} | {at} | {found} | {kink.pytorch} | {kink.jax} |")
    parts.append("\n## Reductions of nothing\n\n| reduction of an empty tensor | answer |\n|---|---|")
    parts += [f"| {row.case} | {'raises' if row.answer is Exception else row.answer} |" for row in ZERO_SIZE]
    parts.append("\n## dtypes\n\n| case | dtype of the result |\n|---|---|")
    parts += [f"| {row.case} | {row.answer} |" for row in DTYPES]
    parts.append("\nA gradient has its tensor's dtype and shape, always.\n")
    parts.append("## Errors\n\n| mistake | exception |\n|---|---|")
    parts += [f"| {row.case} | {row.error.__name__} |" for row in ERRORS]
    parts.append(_ENDING)
    return "\n".join(parts)


_INTRODUCTION = """\
# Conventions

What minitorch answers where mathematics leaves a choice. Each row below is a test: it is executed by the
suite, on minitorch and (where the column says "same") on PyTorch in float64. This page is rendered from
`src/minitorch/proof/conventions.py`.
"""

_ENDING = """
A message names the operation, the shapes or dtypes that met, and what to write instead.

## In place

A first engine has no in-place writing, and says why: `c = relu(a)` remembers `a` to differentiate itself, and if `a` is
changed between forward and backward its closure reads the new values and gives a wrong gradient, silently. Programs
written for PyTorch write in place all the same (`out += shortcut`, `nn.ReLU(inplace=True)`, `outs[t] = h`), so this
library does what PyTorch does, and keeps the promise behind the rule: never a silently wrong gradient.

- A write into a tensor of the graph makes the same object the result of a new op, for every name it has. Ops recorded
  before the write keep the version they were given.
- A write into a view is one into its base, and the other way round. A view made before the write is a view of the
  new version.
- Where a derivative needs values that were overwritten, backward refuses, and names the op and the write. Writes through
  NumPy (`x.data[0] = 1`) are noticed too.
- Refused at once: writing into a leaf that requires grad or a view of one, into a result of split or unbind, and into
  a view that was made under no_grad.
- Allowed here and not in PyTorch: `x *= x`, and writing where input and output overlap in part (`x[1:] += x[:-1]`): the
  result is computed first, then written.
- A leaf's `.grad` is added to in place: whoever holds that array sees the sum.
- A view taken before its base was told to require grad requires grad too, as a leaf of its own.

## Indexing

Integers are applied first, then it counts whether the index arrays stand side by side: `x[0, :, idx]` is `x[0][:, idx]`. (For
NumPy an integer is an index array.) A tensor of one integer is an integer, and makes a view; a tensor of uint8 is a mask,
with a warning; a list that holds sequences is a tuple of indices, with a warning. Steps may be negative.

## `.data` and `.grad`

Arrays of NumPy that know PyTorch's methods. Where both libraries have a method of one name, NumPy's words (`axis=`) mean
NumPy's and PyTorch's words (`dim=`) PyTorch's. With neither it is NumPy's, except for `std`, `var`, `max` and `min` along an
axis, `sort` (values and indices; `sort(axis=-1)` sorts in place), `transpose` of two axes, and `repeat` with a count for each
axis. Arithmetic with integers gives PyTorch's dtypes: `x.data / 2` is float32. NumPy's functions (`np.divide`) are NumPy's.

## Accuracy

Sums over any axes are as accurate as PyTorch's, in eager and in compiled programs: many rows are added up in blocks, float16 in
float32.

## cross_entropy

- Index targets, mean: divided by the sum of weight[target] over what is not ignored.
- Smoothing e: (1 - e)·nll + (e / C)·Σ w_c·(-log p_c), with the same denominator.
- Probability targets, mean: divided by N.
- 'none' gives 0 at ignored targets; the mean over nothing is nan, the sum 0.

## gradcheck

eps 1e-6, atol 1e-5, rtol 1e-3, as in PyTorch; float64 is expected, and a float32 input gets a warning that
says so. At a kink the report gives the slope on the left, the slope on the right and what backward returns.
"""
