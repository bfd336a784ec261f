"""cross_entropy: every reduction, target, weight, smoothing and shape, values and gradients against PyTorch."""

import itertools
import math

import numpy as np
import pytest

import minitorch
from same_as_torch import agree, line

C = 5
SHAPES = [(C,), (4, C), (4, C, 3), (2, C, 3, 2), (0, C), (4, C, 0), (1, C), (3, 1)]


def irregular(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def labels(shape, ignore=None, seed=1):
    """Class labels for logits of this shape; with `ignore`, about half of them replaced by it."""
    rng = np.random.default_rng(seed)
    classes = shape[min(len(shape) - 1, 1)]
    found = rng.integers(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    return found if ignore is None else np.where(rng.random(found.shape) < 0.5, ignore, found)


OPTIONS = list(itertools.product(["mean", "sum", "none"], [0.0, 0.1, 1.0], [False, True]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("reduction", "smoothing", "weighted"), OPTIONS)
def test_class_labels(shape, reduction, smoothing, weighted):
    weight = np.linspace(0.2, 1.7, shape[min(len(shape) - 1, 1)]) if weighted else None
    cases = [(labels(shape), -100), (labels(shape, -100), -100), (np.full_like(labels(shape), -100), -100)]
    cases += [(labels(shape), 0), (labels(shape, -1), -1), (labels(shape, 77), 77)]
    for (target, ignored), dtype in itertools.product(cases, ["float64", "float32"]):
        agree(
            lambda m, x, t=target, i=ignored, d=dtype: m.cross_entropy(
                x, m.tensor(t), weight if weight is None else m.tensor(weight.astype(d)),
                ignore_index=i, reduction=reduction, label_smoothing=smoothing,
            ),
            irregular(shape).astype(dtype),
            where=f"targets {target.tolist()}, ignored {ignored}:",
        )  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("reduction", "smoothing", "weighted"), OPTIONS)
def test_class_probabilities(shape, reduction, smoothing, weighted):
    weight = np.linspace(0.2, 1.7, shape[min(len(shape) - 1, 1)]) if weighted else None
    for dtype in ("float64", "float32"):
        agree(
            lambda m, x, t, d=dtype: m.cross_entropy(
                x, t, weight=weight if weight is None else m.tensor(weight.astype(d)),
                reduction=reduction, label_smoothing=smoothing,
            ),
            irregular(shape).astype(dtype),
            np.abs(irregular(shape, 2)).astype(dtype),
        )  # fmt: skip


def test_the_conventions_in_numbers():
    logits = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 2.0], [0.0, 0.0, 0.0]])
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    w, e = np.array([1.0, 2.0, 4.0]), 0.3
    x, y = minitorch.tensor(logits), minitorch.tensor([2, -100, 1])
    rows = [(0, 2), (2, 1)]
    nll = sum(-w[c] * logp[i, c] for i, c in rows)
    spread = sum((-w * logp[i]).sum() / 3 for i, _ in rows)
    total = sum(w[c] for _, c in rows)
    weight = minitorch.tensor(w)
    assert minitorch.cross_entropy(x, y, weight).item() == pytest.approx(nll / total)
    smoothed = minitorch.cross_entropy(x, y, weight, label_smoothing=e).item()
    assert smoothed == pytest.approx(((1 - e) * nll + e * spread) / total)
    assert minitorch.cross_entropy(x, y, reduction="none")[1].item() == 0
    nothing = minitorch.tensor([-100, -100, -100])
    assert math.isnan(minitorch.cross_entropy(x, nothing).item())
    assert minitorch.cross_entropy(x, nothing, reduction="sum").item() == 0


def test_large_logits_neither_overflow_nor_lose_the_gradient():
    agree(
        lambda m, x: m.cross_entropy(x, m.tensor([0, 1])),
        np.array([[1000.0, -1000.0, 0.0], [1000.0, -1000.0, 0.0]]),
    )
    agree(lambda m, x: m.cross_entropy(x, m.tensor([1])), np.array([[-np.inf, 0.0, 1.0]]))


def test_ignored_rows_stay_out_even_if_they_hold_nan():
    x = minitorch.tensor([[1.0, 2.0], [math.nan, 0.0]], requires_grad=True)
    loss = minitorch.cross_entropy(x, minitorch.tensor([0, -100]))
    loss.backward()
    assert math.isfinite(loss.item())
    assert np.isfinite(x.grad).all()


def test_integer_logits_are_computed_in_the_default_float():
    # PyTorch has no kernel for them.
    assert minitorch.cross_entropy(minitorch.tensor([[1, 2]]), minitorch.tensor([0])).dtype == np.float32


def test_targets_may_be_any_integers():
    x = minitorch.tensor(irregular((4, C)))
    expected = minitorch.cross_entropy(x, minitorch.tensor([0, 4, 2, 2])).item()
    for dtype in (np.int32, np.int16, np.int8, np.uint8):
        assert minitorch.cross_entropy(x, minitorch.tensor([0, 4, 2, 2], dtype=dtype)).item() == expected
    assert minitorch.cross_entropy(x, [0, 4, 2, 2]).item() == expected


REFUSED = [
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 5]))", IndexError, "target 5.*5 classes"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, -1]))", IndexError, "target -1"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2]))", ValueError, r"shape \(4,\).*got \(3,\)"),
    ("m.cross_entropy(x, m.tensor([[0, 4, 2, 1]]))", ValueError, r"\(1, 4\)"),
    ("m.cross_entropy(x[:, :, None], m.tensor([0, 1, 2, 3]))", ValueError, r"\(4, 1\)"),
    ("m.cross_entropy(x, m.tensor([0.0, 1.0, 2.0, 3.0]))", RuntimeError, r"float32.*long\(\)"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 2]), reduction='bad')", ValueError, "'mean', 'sum' or 'none'"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 2]), reduction=None)", ValueError, "reduction"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 2]), label_smoothing=1.5)", RuntimeError, "label_smoothing"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 2]), label_smoothing='a')", TypeError, "label_smoothing"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 2]), ignore_index='a')", TypeError, "ignore_index"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 2]), weight=m.ones(3))", RuntimeError, r"shape \(5,\), got \(3,\)"),
    ("m.cross_entropy(x, m.tensor([0, 4, 2, 2]), weight=x[0])", RuntimeError, "weight.*detach"),
    ("m.cross_entropy(x, m.ones(4, 5, dtype=m.int64))", RuntimeError, "probabilities"),
    ("m.cross_entropy(x, m.ones(5, 4))", ValueError, r"\(5, 4\)"),
    ("m.cross_entropy(x, m.ones(4, 5), ignore_index=1)", RuntimeError, "ignore_index"),
    ("m.cross_entropy(x[0, 0], m.tensor(0))", RuntimeError, "class axis"),
    ("m.cross_entropy(x, None)", TypeError, "cross_entropy"),
    ("m.cross_entropy('a', m.tensor([0]))", TypeError, "cross_entropy"),
    ("m.cross_entropy(x, m.tensor([0, 1, 2, 3]), size_average=False)", TypeError, "reduction="),
]  # fmt: skip


@pytest.mark.parametrize(("text", "error", "says"), REFUSED)
def test_refusals(text, error, says):
    x = minitorch.tensor(irregular((4, C)), requires_grad=True)
    with pytest.raises(error, match=says):
        line(text)(minitorch, x)
