"""Halves on a GPU: how they are rounded and widened, and that 16 bytes of them are read and written at once."""

import re

import numpy as np
import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda import arrangement
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.devices import Emulated
from minitorch.compiler.backends.cuda.ptx import assembled, assembler, ptx
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import Program
from minitorch.compiler.ir.sizes import Symbol
from minitorch.engine.dtypes import bfloat16
from random_ir import F4, given

pytestmark = [
    pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed"),
    pytest.mark.skipif(bfloat16 not in HALVES, reason="nothing gives NumPy a bfloat16"),
]
FLOAT16 = np.dtype(np.float16)
BOTH = [pytest.param(half, id=half.name) for half in (FLOAT16, bfloat16)]
LARGE = arrangement.ALL_THREADS * arrangement.MOST_NEIGHBOURS


@pytest.fixture
def few_are_many(monkeypatch):
    """Few elements are enough for what is done with many."""
    monkeypatch.setattr(arrangement, "BUSY_THREADS", 1)
    monkeypatch.setattr(arrangement, "ALL_THREADS", 1)


def made(inputs, outputs, backwards=False):
    return CudaBackend(Emulated(backwards)).compile(Program(inputs, outputs), {})


def numbers(size, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=size).astype(np.float32).astype(dtype)


def bits(array):
    return array.view(f"u{array.itemsize}")


def awkward_float32():
    """Float32 of all sizes, and what lies around ties, ends and nans."""
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16)
    upper = np.arange(1 << 16) << 16
    around = [upper + (lower << 12) + less for lower in range(16) for less in (-1, 0, 1)]
    return (np.concatenate([random, *around]) % (1 << 32)).astype(np.uint32).view(np.float32)


def nearest(number, half):
    """The nearest halves, to the bit: a nan keeps its sign, and nothing else."""
    with np.errstate(all="ignore"):
        found = bits(number.astype(half))
    quiet = 0x7FC0 if half == bfloat16 else 0x7E00
    signed = (bits(number) >> 16 & 0x8000 | quiet).astype(np.uint16)
    return np.where(np.isnan(number), signed, found)


@pytest.mark.parametrize("in_neighbours", [False, True])
@pytest.mark.parametrize("half", BOTH)
def test_float32_are_rounded_to_the_bit(half, in_neighbours, request):
    if in_neighbours:
        request.getfixturevalue(few_are_many.__name__)
    numbers = awkward_float32()
    x = given(numbers.shape, F4)
    runs = made([x], [b.cast(x, half), b.cast(b.cast(x, half), F4)])
    found, back = runs([numbers])
    np.testing.assert_array_equal(bits(found), nearest(numbers, half))
    np.testing.assert_array_equal(bits(back), widened(nearest(numbers, half), half))


def widened(halves, half):
    """The bits of halves as float32, of nans, too."""
    if half == bfloat16:
        return halves.astype(np.uint32) << 16
    wide = halves.astype(np.uint32)
    number = bits(halves.view(FLOAT16).astype(np.float32))
    nan = (wide & 0x8000) << 16 | 0x7F800000 | (wide & 0x3FF) << 13
    return np.where(np.isnan(halves.view(FLOAT16)), nan, number)


@pytest.mark.parametrize("in_neighbours", [False, True])
@pytest.mark.parametrize("half", BOTH)
def test_all_halves_are_widened_and_moved_to_the_bit(half, in_neighbours, request):
    if in_neighbours:
        request.getfixturevalue(few_are_many.__name__)
    every = np.arange(1 << 16, dtype=np.uint16)
    x = given(every.shape, half)
    runs = made([x], [b.cast(x, F4)])
    np.testing.assert_array_equal(bits(runs([every.view(half)])[0]), widened(every, half))


@pytest.mark.parametrize("half", BOTH)
def test_large_arrays_are_read_and_written_16_bytes_at_once(half):
    def text(*sizes):
        x, y = (given(sizes, half) for _ in range(2))
        return made([x, y], [b.map_values("add", x, y)]).text()

    for sizes in ((LARGE,), (LARGE // 512, 512)):
        code = ptx(text(*sizes), "sm_90").decode()
        assert code.count("ld.global.v4.b32") == 2
        assert "st.global.v4.b32" in code
        assert re.search(r"cvt\.rn\.b?f16\.f32", code)
    # Fewer keep more threads at work with 8 bytes each.
    code = ptx(text(LARGE // 2), "sm_90").decode()
    assert code.count("ld.global.v2.b32") == 2


@pytest.mark.parametrize("half", BOTH)
def test_one_number_is_written_everywhere(half, few_are_many):
    x = given((), half)
    runs = made([x], [b.expand(x, (2051,))])
    assert "store <8 x i16>" in runs.text()
    np.testing.assert_array_equal(runs([np.asarray(1.5, half)])[0], np.full(2051, 1.5, half))
    assert "store <" not in made([given((), F4)], [b.expand(given((), F4), (2051,))]).text()


def test_earlier_processors_round_without_an_instruction_for_it():
    x = given((LARGE,), F4)
    text = made([x], [b.cast(x, bfloat16)]).text()
    assert "cvt.rn.bf16" not in ptx(text, "sm_75").decode()
    if assembler() is not None:
        assert assembled(text, "sm_75") is not None


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("half", BOTH)
@pytest.mark.parametrize("size", [8 * 256, 8 * 256 - 1, 8 * 256 + 1, 3 * 8 * 256 + 7, 8 * 128 + 8, 9, 7])
def test_elementwise_around_the_ends_of_blocks(size, half, backwards, few_are_many):
    x, y = given((size,), half), given((size,), half)
    total = b.map_values("add", b.cast(x, F4), b.cast(y, F4))
    dear = b.map_values("tanh", b.map_values("exp", b.map_values("sin", total)))
    arrays = [numbers(size, half), numbers(size, half, 1)]
    arrays[0][::5] = np.nan
    wide = [each.astype(np.float32) for each in arrays]
    expected = wide[0] + wide[1]
    rounded, less = made([x, y], [b.cast(total, half), b.map_values("less", x, y)], backwards)(arrays)
    np.testing.assert_array_equal(bits(rounded), nearest(expected, half))
    np.testing.assert_array_equal(less, wide[0] < wide[1])
    rounded, unrounded = made([x, y], [b.cast(total, half), total], backwards)(arrays)
    np.testing.assert_array_equal(bits(rounded), nearest(expected, half))
    np.testing.assert_array_equal(unrounded, expected)
    (found,) = made([x, y], [b.cast(dear, half)], backwards)(arrays)
    expected = np.tanh(np.exp(np.sin(expected)))
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2**-7)


@pytest.mark.parametrize("start", [0, 1, 4, 8, 12, 16])
def test_what_begins_inside_an_array(start, few_are_many):
    x = given((5, 1040), bfloat16)
    y = b.slice_axes(x, (0, start), (5, 1024), (1, 1))
    array = numbers((5, 1040), bfloat16)
    wide = array[:, start : start + 1024].astype(np.float32)
    doubles, sums = made([x], [b.map_values("add", y, y)]), made([x], summed(y, (1,)))
    for runs in (doubles, sums):
        assert ("load <4 x i32>" in runs.text()) == (start % 8 == 0)
    np.testing.assert_array_equal(bits(doubles([array])[0]), nearest(2 * wide, bfloat16))
    added, largest = sums([array])
    np.testing.assert_allclose(added, wide.sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(largest, wide.max(1))


def summed(x, axes):
    wide = b.cast(x, F4)
    return [b.reduce(name, wide, axes) for name in ("add", "maximum")]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("half", BOTH)
@pytest.mark.parametrize("length", [256, 264, 511, 512, 520, 1024, 1027, 2040, 3072])
def test_rows_are_summed_some_neighbours_at_once(length, half, backwards, few_are_many):
    rows = 5
    x = given((rows, length), half)
    wide = b.cast(x, F4)
    centre = b.map_values("subtract", wide, b.reduce("add", wide, (1,), True))
    spread = b.reduce("add", b.map_values("square", centre), (1,))
    runs = made([x], [*summed(x, (1,)), spread, b.arg_reduce("argmax", wide, 1)], backwards)
    assert ("load <4 x i32>" in runs.text()) == (length % 8 == 0)
    array = numbers((rows, length), half)
    sums, largest, spread, places = runs([array])
    wide = array.astype(np.float64)
    np.testing.assert_allclose(sums, wide.sum(1), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(largest, wide.max(1))
    centre = wide - wide.sum(1, keepdims=True)
    np.testing.assert_allclose(spread, (centre**2).sum(1), rtol=1e-4)
    np.testing.assert_array_equal(places, wide.argmax(1))


@pytest.mark.parametrize("half", BOTH)
@pytest.mark.parametrize("more", [0, 1, 8, 8191, 12345])
def test_all_of_a_large_array_is_summed_some_neighbours_at_once(more, half):
    size = (1 << 22) + more
    x = given((size,), half)
    runs = made([x], summed(x, (0,)), backwards=bool(more % 2))
    assert "load <4 x i32>" in runs.text()
    array = np.ones(size, half)
    array[::3] = 2
    found, largest = runs([array])
    assert found == size + len(array[::3])
    assert largest == 2


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("half", BOTH)
@pytest.mark.parametrize("length", [1024, 1032])
def test_many_rows_are_summed_by_blocks(length, half, backwards):
    rows = 600
    x, row = given((rows, length), half), given((length,), half)
    product = b.map_values("multiply", b.cast(x, F4), b.cast(row, F4))
    largest = b.reduce("maximum", product, (1,))
    outputs = [b.reduce("add", product, (0, 1)), b.reduce("add", largest, (0,))]
    runs = made([x, row], outputs, backwards)
    assert "load <4 x i32>" in runs.text()
    arrays = [numbers((rows, length), half), numbers((length,), half, 1)]
    product = arrays[0].astype(np.float64) * arrays[1].astype(np.float64)
    found = runs(arrays)
    np.testing.assert_allclose(found[0], product.sum(), rtol=1e-4)
    np.testing.assert_allclose(found[1], product.max(1).sum(), rtol=1e-5)


@pytest.mark.parametrize("half", BOTH)
def test_neighbours_of_sizes_that_vary(half):
    size = Symbol("s0", 1 << 23).size
    x, y = given((size,), half), given((size,), half)
    total = b.map_values("add", b.cast(x, F4), b.cast(y, F4))
    adds, sums = made([x, y], [b.cast(total, half)]), made([x], summed(x, (0,)))
    assert all("load <4 x i32>" in runs.text() for runs in (adds, sums))
    for length in (3, 8, 2047, 2048, 2049, 70001, (1 << 21) + 24):
        arrays = [numbers(length, half), numbers(length, half, 1)]
        wide = [each.astype(np.float32) for each in arrays]
        np.testing.assert_array_equal(bits(adds(arrays)[0]), nearest(wide[0] + wide[1], half))
        added, largest = sums(arrays[:1])
        np.testing.assert_allclose(added, wide[0].astype(np.float64).sum(), rtol=1e-5, atol=1e-2)
        assert largest == wide[0].max()


@pytest.mark.parametrize("half", BOTH)
@pytest.mark.parametrize("length", [64, 200, 256, 392, 768])
def test_rows_that_are_kept(length, half, monkeypatch):
    """Softmax: eight neighbours at once where no thread has more elements than it has with four."""
    monkeypatch.setattr(arrangement, "LEAST_THREADS_THAT_KEEP", 1)
    x = given((9, length), half)
    wide = b.cast(x, F4)
    up = b.map_values("exp", b.map_values("subtract", wide, b.reduce("maximum", wide, (1,), True)))
    share = b.map_values("divide", up, b.reduce("add", up, (1,), True))
    runs = made([x], [b.cast(share, half)])
    assert ("load <4 x i32>" in runs.text()) == (length in (64, 256, 392))
    array = numbers((9, length), half)
    array[3] = np.nan
    up = np.exp(array.astype(np.float64) - array.astype(np.float64).max(1, keepdims=True))
    found = runs([array])[0].astype(np.float32)
    np.testing.assert_allclose(found, up / up.sum(1, keepdims=True), rtol=2**-7)


def test_what_is_as_wide_as_a_float32_is_read_four_at_once():
    x = given((LARGE,), bfloat16)
    text = made([x], [b.cast(x, F4)]).text()
    assert "load <2 x i32>" in text
    assert "store <4 x float>" in text
    y = given((LARGE,), F4)
    assert "load <4 x float>" in made([y], [b.map_values("negative", y)]).text()
