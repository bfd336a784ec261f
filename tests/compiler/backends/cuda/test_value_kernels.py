"""Values one by one, by kernels that know no lengths: what NumPy gives."""

import numpy as np
import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.gpu_text import gpu_text
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.value_kernels import (
    BLOCKS,
    THREADS,
    ValueKernels,
    write_add,
    write_copy,
    write_gather,
    write_map,
    write_shaken,
)
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import COMPARISONS, evaluate
from minitorch.engine.dtypes import finfo
from random_ir import BOOL, F4, F8, I4, I8, given, some
from standin import DeviceArray
from standin_gpu import StandinGpu

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

CASES = [
    ("add", (F4, F4)), ("divide", (F8, F8)), ("exp", (F4,)), ("erf", (F4,)), ("tanh", (F8,)), ("sin", (F4,)),
    ("maximum", (I8, I8)), ("less", (F4, F4)), ("equal", (I4, I4)), ("logical_and", (BOOL, BOOL)),
    ("where", (BOOL, F4, F4)), ("isfinite", (F4,)), ("bitwise_or", (BOOL, BOOL)), ("sqrt", (F8,)),
]  # fmt: skip
STAND_IN = StandinGpu()


@pytest.fixture(scope="module")
def kernels():
    return CudaBackend(STAND_IN).value_kernels


@pytest.mark.parametrize(("function", "dtypes"), CASES, ids=lambda case: str(case))
def test_a_function_is_what_numpy_gives(function, dtypes, kernels):
    rng = np.random.default_rng(0)
    arrays = [some(rng, (3, 7), dtype) for dtype in dtypes]
    value = b.map_values(function, *(given(a.shape, a.dtype) for a in arrays))
    kernels.prepare([value])
    found = kernels.map(function, [DeviceArray(a) for a in arrays], value.dtype)
    assert found.dtype == value.dtype
    assert (value.dtype == BOOL) == (function in COMPARISONS | {"isfinite", "logical_and", "bitwise_or"})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.host, evaluate(value, arrays), rtol=2e-6)


OF_HALVES = [
    "add",
    "divide",
    "exp",
    "erf",
    "tanh",
    "less",
    "where",
    "isfinite",
    "maximum",
    "sqrt",
    "negative",
]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("function", OF_HALVES)
def test_a_function_of_halves_is_rounded_once(function, dtype, kernels):
    count = {"where": 3, "add": 2, "divide": 2, "less": 2, "maximum": 2}.get(function, 1)
    arrays = [some(np.random.default_rng(n), (3, 7), F4).astype(dtype) for n in range(count)]
    wide = [a.astype(F4) for a in arrays]
    if function == "where":
        arrays[0] = wide[0] = wide[0] > 0
    value = b.map_values(function, *(given(a.shape, a.dtype) for a in wide))
    to = value.dtype if value.dtype == BOOL else dtype
    found = kernels.map(function, [DeviceArray(a) for a in arrays], to)
    assert found.dtype == to
    with np.errstate(all="ignore"):
        expected = evaluate(value, wide).astype(to)
    apart = found.host.astype(F4), expected.astype(F4)
    np.testing.assert_allclose(
        *apart, rtol=float(finfo(dtype).eps)
    )  # (a neighbour, where it lies in the middle)
    assert np.mean(apart[0] == apart[1]) > 0.9 or np.isnan(apart[1]).any()


@pytest.mark.parametrize("dtype", [F4, F8, *HALVES], ids=str)
def test_numbers_are_moved_by_noise(dtype, kernels):
    rng, wide = np.random.default_rng(0), F8 if dtype == F8 else F4
    x = some(rng, (13, 70), F4).astype(dtype)
    x[0, :4] = 0.0, np.inf, -np.inf, np.nan
    sizes = some(rng, (70, 13), F4).astype(dtype).T  # (in another order in memory)
    sizes[1, :3] = 0.0
    noise = (rng.random(100) - 0.5).astype(wide)
    found = kernels.shaken(DeviceArray(x), DeviceArray(sizes), DeviceArray(noise), 90, 0.25, 1e-3)
    size = np.abs(sizes.astype(wide))
    size = np.where(x != 0, np.maximum(size, wide.type(1e-3)), size)
    moved = x.astype(wide) + np.resize(np.roll(noise, -90), x.shape) * wide.type(0.5) * size
    expected = np.where(np.isfinite(moved), moved, x.astype(wide)).astype(dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.host.astype(F8), expected.astype(F8), rtol=2 * float(finfo(dtype).eps))
    assert kernels.shaken(*[DeviceArray(np.ones(3, np.complex128))] * 3, 0, 0.1, 0.1) is None


@pytest.mark.parametrize("to", [F8, I8, BOOL])
def test_casts(to, kernels):
    x = np.array([0.0, 1.5, -2.25, 3.0], F4)
    np.testing.assert_array_equal(kernels.map("cast", [DeviceArray(x)], to).host, x.astype(to))


def test_any_length_and_any_order_in_memory(kernels):
    x = some(np.random.default_rng(1), (5, BLOCKS * THREADS // 4 + 3))
    three = DeviceArray(np.broadcast_to(np.float32(3), x.T.shape))
    found = kernels.map("multiply", [DeviceArray(x.T), three], F4)
    np.testing.assert_array_equal(found.host, x.T * np.float32(3))
    assert kernels.map("negative", [DeviceArray(x[:0])], F4).shape == (0, x.shape[1])


def test_what_has_no_kernel_is_left_to_the_library(kernels):
    of_complex, halves = (DeviceArray(np.ones(2, dtype)) for dtype in (np.complex128, np.float16))
    assert kernels.map("add", [of_complex, of_complex], of_complex.dtype) is None
    assert kernels.map("gcd", [halves, halves], halves.dtype) is None
    assert kernels.copied(DeviceArray(np.ones((2, 3), np.complex128).T)) is None
    assert kernels.copied(DeviceArray(np.ones((2,) * 8).T)) is None


@pytest.mark.parametrize("dtype", [F4, F8, BOOL, np.dtype(np.float16)], ids=str)
@pytest.mark.parametrize(
    "view",
    [lambda x: x.T, lambda x: x[::-1, :, ::2], lambda x: x[:, 1:2], lambda x: x[None, 0]],
    ids=range(4),
)
def test_copies(view, dtype, kernels):
    x = view(some(np.random.default_rng(2), (3, 4, 5), F8).astype(dtype))
    found = kernels.copied(DeviceArray(x))
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found.host, x)


def test_a_copy_of_a_stretched_array(kernels):
    x = np.broadcast_to(np.arange(3, dtype=F4)[:, None], (2, 3, 4))
    np.testing.assert_array_equal(kernels.copied(DeviceArray(x)).host, x)


INDEX = np.array([2, 0, 2, 3])
RNG = np.random.default_rng(3)
VALUES = {
    "gather rows": (lambda x, i: b.gather(x, i, 0), some(RNG, (4, 5)), INDEX),
    "gather columns": (
        lambda x, i: b.gather(x, i, 1),
        some(RNG, (3, 4, 2)).transpose(2, 1, 0),
        INDEX.reshape(2, 2),
    ),
    "add rows": (lambda x, i, u: b.scatter("add", x, i, u, 0), some(RNG, (4, 3)), INDEX, some(RNG, (4, 3))),
    "add columns": (
        lambda x, i, u: b.scatter("add", x, i, u, 1),
        some(RNG, (2, 4)),
        INDEX,
        some(RNG, (2, 4)),
    ),
    "set": (lambda x, i, u: b.scatter("set", x, i, u, 1), some(RNG, (2, 4)), INDEX, some(RNG, (2, 4))),
    "concatenate": (
        lambda *xs: b.concatenate(xs, 1),
        some(RNG, (2, 4)),
        some(RNG, (3, 2)).T,
        some(RNG, (2, 1)),
    ),
    "product": (lambda x, y: b.contract("ab,cb->ac", x, y), some(RNG, (3, 4)), some(RNG, (2, 4))),
    "products": (lambda x, y: b.contract("abc,cda->bad", x, y), some(RNG, (2, 3, 4)), some(RNG, (4, 5, 2))),
    "sum": (lambda x: b.reduce("add", x, (0, 2)), some(RNG, (2, 3, 4))),
    "any": (lambda x: b.reduce("logical_or", x, (1,)), some(RNG, (2, 3), BOOL)),
}


@pytest.mark.parametrize("by", ["kernels", "the library"])
@pytest.mark.parametrize("name", VALUES)
def test_values_stay_on_the_device(name, by, kernels):
    make, *arrays = VALUES[name]
    value = make(*(given(a.shape, a.dtype) for a in arrays))
    compute = Elsewhere(DeviceArray, DeviceArray.get, kernels=kernels if by == "kernels" else None)
    compute.prepare([value])
    found = compute(value, [DeviceArray(a) for a in arrays])
    assert not compute.refused
    assert isinstance(found, DeviceArray)
    np.testing.assert_allclose(found.host, evaluate(value, arrays), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("few_here", [0, 1 << 18])
@pytest.mark.parametrize("name", ["product", "products"])
def test_products_lie_in_the_order_of_their_axes(name, few_here):
    """As kernels leave them: what is computed next meets the same order from the first call on."""
    make, *arrays = VALUES[name]
    value = make(*(given(a.shape, a.dtype) for a in arrays))
    compute = Elsewhere(DeviceArray, DeviceArray.get, few_here)
    found = compute(value, [DeviceArray(a) for a in arrays])
    there = found if isinstance(found, DeviceArray) else compute.to_device(found)
    assert there.host.flags.c_contiguous
    assert compute.to_device(np.ones((2, 3)).T).host.flags.c_contiguous
    assert compute.to_device(np.float32(2)).host.shape == ()


def test_ptx():
    halves = [("exp", (half,)) for half in HALVES] + [("less", (half, half)) for half in HALVES]
    cases = [*CASES[:8], *halves, ("cast", (BOOL,)), ("not_equal", (F4, F4))]
    results = {"less": BOOL, "not_equal": BOOL, "cast": F8}
    maps = [write_map((f, dtypes, results.get(f, dtypes[-1]))) for f, dtypes in cases]
    others = [write_copy(4), write_gather(2), write_add(F4), write_shaken(HALVES[0])]
    code = ptx(gpu_text([*maps, *others]), "sm_90")
    assert code.count(b".visible .entry") == len(maps) + 4
    assert b".approx" not in code  # a quick instruction


def test_kernels_are_made_once(kernels):
    own, loaded = ValueKernels(STAND_IN), []
    own._device = StandinGpu()
    own._device.load = lambda made: loaded.extend(made) or STAND_IN.load(made)
    value = b.map_values("add", given((2,)), given((2,)))
    own.prepare([value, value])
    own.prepare([value])
    assert own.map("add", [DeviceArray(np.ones(2, F4))] * 2, F4).host.tolist() == [2, 2]
    assert len(loaded) == 2  # that, and a copy
