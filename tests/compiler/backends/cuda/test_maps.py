"""Elementwise functions of a device's arrays by kernels that know no lengths: what NumPy gives."""

import numpy as np
import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.maps import BLOCKS, THREADS, Kind, Maps, written
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.words import gpu_text
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import COMPARISONS, evaluate
from random_ir import BOOL, F4, F8, I4, I8, given, some
from standin import DeviceArray
from standin_gpu import StandinGpu

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

CASES = [
    ("add", (F4, F4)), ("divide", (F8, F8)), ("exp", (F4,)), ("erf", (F4,)), ("tanh", (F8,)), ("sin", (F4,)),
    ("maximum", (I8, I8)), ("less", (F4, F4)), ("equal", (I4, I4)), ("logical_and", (BOOL, BOOL)),
    ("where", (BOOL, F4, F4)), ("isfinite", (F4,)), ("bitwise_or", (BOOL, BOOL)), ("sqrt", (F8,)),
]  # fmt: skip
STAND_INS = StandinGpu()


@pytest.fixture(scope="module")
def maps():
    return CudaBackend(STAND_INS).maps


@pytest.mark.parametrize(("function", "dtypes"), CASES, ids=lambda case: str(case))
def test_a_function_is_what_numpy_gives(function, dtypes, maps):
    rng = np.random.default_rng(0)
    arrays = [some(rng, (3, 7), dtype) for dtype in dtypes]
    value = b.map_values(function, *(given(a.shape, a.dtype) for a in arrays))
    maps.prepare([value])
    found = maps(function, [DeviceArray(a) for a in arrays], value.dtype)
    assert found.dtype == value.dtype
    assert (value.dtype == BOOL) == (function in COMPARISONS | {"isfinite", "logical_and", "bitwise_or"})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.host, evaluate(value, arrays), rtol=2e-6)


@pytest.mark.parametrize("to", [F8, I8, BOOL])
def test_casts(to, maps):
    x = np.array([0.0, 1.5, -2.25, 3.0], F4)
    np.testing.assert_array_equal(maps("cast", [DeviceArray(x)], to).host, x.astype(to))


def test_any_length_and_any_order_in_memory(maps):
    x = some(np.random.default_rng(1), (5, BLOCKS * THREADS // 4 + 3))
    found = maps("multiply", [DeviceArray(x.T), DeviceArray(np.broadcast_to(np.float32(3), x.T.shape))], F4)
    np.testing.assert_array_equal(found.host, x.T * np.float32(3))
    assert maps("negative", [DeviceArray(x[:0])], F4).shape == (0, x.shape[1])


def test_what_has_no_kernel_is_left_to_the_library():
    assert Maps(STAND_INS)("add", [DeviceArray(np.ones(2, np.complex64))] * 2, np.dtype(np.complex64)) is None
    assert Maps(STAND_INS)("exp", [DeviceArray(np.ones(2, np.float16))], np.dtype(np.float16)) is None


def test_ptx():
    kinds = [
        Kind(function, dtypes, BOOL if function == "less" else dtypes[-1]) for function, dtypes in CASES[:8]
    ]
    code = ptx(gpu_text([written(kind) for kind in kinds]), "sm_90")
    assert code.count(b".visible .entry") == len(kinds)
    assert b".approx" not in code  # a quick instruction
