"""erf and erfc against SciPy's and the exact functions: many points, both precisions, the ends; without SciPy's import."""

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.special

import minitorch
from minitorch.ops.error_function import erf, erfc

FUNCTIONS = [pytest.param(erf, math.erf, id="erf"), pytest.param(erfc, math.erfc, id="erfc")]
PRECISIONS = [np.float16, np.float32, np.float64]
# The largest distances that were found, in units of the last place, and a little more.
MOST = {
    ("erf", np.float16): 0.51, ("erf", np.float32): 1.5, ("erf", np.float64): 2.5,
    ("erfc", np.float16): 0.51, ("erfc", np.float32): 1.5, ("erfc", np.float64): 6.0,
}  # fmt: skip


def many(dtype):
    random = np.random.default_rng(0)
    parts = [
        np.linspace(-7, 28, 30_001),
        np.linspace(0.4, 1.1, 5_001),
        random.normal(size=10_000),
        10.0 ** random.uniform(-30, 0, 5_000),
        -(10.0 ** random.uniform(-30, 0, 5_000)),
    ]
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize(("ours", "exact"), FUNCTIONS)
def test_to_about_one_unit_in_the_last_place(ours, exact, dtype):
    x = many(dtype)
    found = ours(x)
    assert found.dtype == dtype
    wanted = np.array([exact(each) for each in x.tolist()])
    spacing = np.spacing(np.abs(wanted).astype(dtype)).astype(np.float64)
    distance = np.abs(found.astype(np.float64) - wanted) / spacing
    assert distance.max() <= MOST[ours.__name__, dtype], x[distance.argmax()]
    assert distance.mean() < 0.6


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("repeats", [1, 100], ids=["few", "many"])
def test_the_ends(dtype, repeats):
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    x = np.tile(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, huge, -huge, tiny, -tiny], dtype), repeats)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found, rest = erf(x)[-9:], erfc(x)[-9:]
    np.testing.assert_array_equal(found, np.array([0, -0.0, 1, -1, np.nan, 1, -1, tiny, -tiny], dtype))
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])
    np.testing.assert_array_equal(rest, np.array([1, 1, 0, 2, np.nan, 0, 2, 1, 1], dtype))
    assert not (np.abs(erf(many(dtype))) > 1).any()


def test_where_erfc_is_denormal():
    x = np.linspace(26.0, 27.3, 1001)
    wanted = np.array([math.erfc(each) for each in x])
    np.testing.assert_allclose(erfc(x), wanted, rtol=1e-13, atol=1e-323)
    assert (wanted < np.finfo(np.float64).tiny).any()


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (40, 50), (7, 20, 30)])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_shape_dtype_and_layout_are_the_arrays_own(shape, dtype):
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    for array in (x, x.T, x[..., ::2] if x.ndim else x, np.moveaxis(x, 0, -1) if x.ndim else x):
        for ours, theirs in ((erf, scipy.special.erf), (erfc, scipy.special.erfc)):
            found = ours(array)
            like = np.empty_like(array)
            assert (found.shape, found.dtype, found.strides) == (like.shape, like.dtype, like.strides)
            wanted = theirs(array.astype(np.float64))
            np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(dtype).eps, atol=1e-7)


def test_neither_erf_nor_gelu_loads_scipys_special_functions():
    program = """
import sys
import minitorch
from minitorch.nn import functional as F
x = minitorch.randn(40, 50, requires_grad=True)
(F.gelu(x).sum() + x.erf().sum() + x.erfc().sum()).backward()
assert "scipy.special" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_compiled_gelu_is_the_eager_one():
    x = minitorch.randn(300, dtype=minitorch.float64)
    f = minitorch.compile(lambda x: minitorch.nn.functional.gelu(x), backend="numpy")
    np.testing.assert_array_equal(f(x)._data, minitorch.nn.functional.gelu(x)._data)
    np.testing.assert_array_equal(f(x)._data, minitorch.nn.functional.gelu(x)._data)
