"""Sums of many numbers: as accurate as PyTorch's over any axes, and float16 added up in float32."""

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS
from pytorch import torch
from strategies import values

SUMS = [
    ((4096, 64), 0), ((32, 128, 64), (0, 1)), ((64, 8, 14, 14), (0, 2, 3)), ((10007, 10), 0), ((3, 2003, 32), 1), ((3, 2003, 32), -2),
    ((50000, 8), 0), ((512, 129), 1), ((130, 3), 0), ((129, 2), 0), ((64, 64), None), ((0, 300), 0), ((300, 0), 0), ((2, 0, 300), 1),
]  # fmt: skip


def error(found, exact):
    return float(np.abs(np.asarray(found, np.float64) - exact).max(initial=0))


@pytest.mark.parametrize(("shape", "axis"), SUMS)
def test_errors_are_pytorchs(shape, axis):
    x = (values(shape, 1) + 0.5).astype(np.float32)
    exact = x.astype(np.float64).sum(axis=axis)
    theirs = error(torch.tensor(x).sum(axis) if axis is not None else torch.tensor(x).sum(), exact)
    allowed = 2 * theirs + 2 * np.finfo(np.float32).eps * float(np.abs(exact).max(initial=0))
    for keepdims in (False, True):
        found = minitorch.tensor(x).sum(axis, keepdims)
        assert found.shape == x.sum(axis=axis, keepdims=keepdims).shape
        assert error(found.numpy().reshape(exact.shape), exact) <= allowed
    for backend in {"numpy", "native"} & set(BACKENDS):
        fast = minitorch.compile(lambda t: t.sum(axis), backend=backend)
        fast(minitorch.tensor(x))
        assert error(fast(minitorch.tensor(x)).numpy(), exact) <= 4 * allowed, backend


def test_the_gradient_of_a_bias_is_as_accurate():
    x = (values((8192, 12), 1) + 0.5).astype(np.float32)
    exact = x.astype(np.float64).sum(axis=0)
    errors = []
    for m in (minitorch, torch):
        bias = m.zeros(12, requires_grad=True)
        (m.zeros(8192, 12) + bias).backward(m.tensor(x))
        errors.append(error(bias.grad, exact))
    assert errors[0] <= 2 * errors[1]


def test_infinities_and_nans_stay_in_their_columns():
    x = np.ones((1000, 4), np.float32)
    x[3, 0], x[500, 1], x[2, 2], x[900, 2] = np.inf, np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        assert str(minitorch.tensor(x).sum(0).tolist()) == "[inf, nan, nan, 1000.0]"


HALVES = [
    "x.sum(0)", "x.sum()", "x.sum((0, 1), keepdim=True)", "x.mean(0)", "x.mean()", "x.var(0)", "x.std(0)", "x.norm()", "x.norm(dim=0)",
    "x.cumsum(0)[-1]", "x.softmax(0)", "x.log_softmax(0)", "x.logsumexp(0)", "(x * 0 + 1).prod(0)", "x.sum(0).sum()",
]  # fmt: skip


@pytest.mark.parametrize("line", HALVES)
@pytest.mark.parametrize("rows", [3, 100, 5000])
def test_float16_is_added_up_in_float32(line, rows):
    x = np.tile(np.array([[1.0, 0.25, 0.5]], np.float16), (rows, 1))
    x[0] = 2.0
    mine, theirs = (eval(line, {"x": m.tensor(x)}) for m in (minitorch, torch))
    assert mine.dtype == np.float16
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2e-3)
