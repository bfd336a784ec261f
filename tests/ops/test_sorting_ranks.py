"""Places of some ranks, found without sorting the rest: equal to those that sorting gives, ties in their order."""

import itertools

import numpy as np
import pytest

import minitorch
from minitorch.ops import sorting

RANKS = [(0, 1), (0, 7), (3, 4), (99, 100), (0, 100), (0, 0), (50, 51)]


@pytest.mark.parametrize("kind", ["distinct", "ties", "integers", "truths", "infinite", "nan"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ranks_are_a_part_of_the_order(kind, descending, axis):
    random = np.random.default_rng(axis)
    x = random.normal(size=tuple(100 if i == axis else 8 for i in range(3)))
    x = {
        "ties": np.round(x), "integers": random.integers(0, 9, x.shape), "truths": x > 1,
        "infinite": np.where(x > 1, np.inf, np.where(x < -1, -np.inf, x)), "nan": np.where(x > 1, np.nan, x),
    }.get(kind, x)  # fmt: skip
    order = sorting.ARGSORT.forward(x, axis=axis, descending=descending)
    for start, stop in RANKS:
        part = sorting.ARGSORT.forward(x, axis=axis, descending=descending, ranks=(start, stop))
        np.testing.assert_array_equal(part, order.take(range(start, stop), axis=axis))


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i8", "u1", "u8", "?"])
@pytest.mark.parametrize("descending", [False, True])
def test_few_of_many(kind, descending):
    random = np.random.default_rng(0)
    chosen = 0
    for length, few, steps in itertools.product((300, 999, 2048), (1, 3, 8), (1, 30, 10_000)):
        x = np.round(np.absolute(random.normal(size=(3, 2, length))) * steps)
        with np.errstate(over="ignore"):
            x = (x % 200 if kind == "u1" else x).astype(kind)
        if kind[0] == "f":
            x[..., :2], x[..., 7:9] = np.inf, -np.inf
        found = sorting._among_few(x, few, descending)
        if found is not None:
            chosen += 1
            np.testing.assert_array_equal(found, sorting._stable(x, 2, descending)[..., :few])
        found = sorting.ARGSORT.forward(x, axis=2, descending=descending, ranks=(0, few))
        np.testing.assert_array_equal(found, sorting._stable(x, 2, descending)[..., :few])
    assert chosen or kind in ("?", "u1")


def test_values_and_gradients_of_large_tensors():
    data = np.random.default_rng(0).normal(size=(50, 200)).round(1)
    x = minitorch.tensor(data, requires_grad=True)
    ordered = np.sort(data, axis=1)
    top, middle, third = x.topk(5, dim=1), x.median(dim=1), x.kthvalue(3, dim=1)
    np.testing.assert_array_equal(top.values.detach().numpy(), ordered[:, :-6:-1])
    np.testing.assert_array_equal(middle.values.detach().numpy(), ordered[:, 99])
    np.testing.assert_array_equal(third.values.detach().numpy(), ordered[:, 2])
    (top.values.sum() + middle.values.sum() + third.values.sum()).backward()
    expected = np.zeros_like(data)
    for places in (top.indices, middle.indices[:, None], third.indices[:, None]):
        np.add.at(expected, (np.arange(50)[:, None], places.numpy()), 1)
    np.testing.assert_array_equal(x.grad, expected)


def awkward(dtype, shape, spread):
    """Numbers with equals, and what floats have beside numbers."""
    x = np.random.default_rng(0).normal(size=shape) * spread
    if dtype.kind == "f":
        x = np.round(x)
        x.flat[1::4], x.flat[2::5], x.flat[::9], x.flat[::11] = -0.0, 0.0, -np.inf, np.inf
        with np.errstate(over="ignore"):
            return x.astype(dtype)
    return x.astype(np.int64).astype(dtype)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.dtype(c) for c in "efdbBhHiIlL?"], ids=str)
def test_the_order_is_the_stable_one(dtype, descending):
    for shape, spread in itertools.product([(40,), (1,), (6, 30), (3, 4, 5), (0, 4), (4, 0)], [3, 1e10]):
        x = awkward(dtype, shape, spread)
        if dtype.kind == "f" and spread == 3:  # and with nan of either sign
            x = np.concatenate([x, np.full_like(x, np.nan), -np.full_like(x, np.nan)])
        for axis in range(x.ndim):
            found = sorting._argsort(x, axis=axis, descending=descending)
            expected = sorting._stable(x, axis, descending)
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == np.int64
            assert found.flags.c_contiguous
