"""Halves on a GPU: how they are rounded and widened."""

import numpy as np
import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.devices import Emulated
from minitorch.compiler.backends.cuda.ptx import assembled, assembler, ptx
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import Program
from minitorch.engine.dtypes import bfloat16
from random_ir import F4, given

pytestmark = [
    pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed"),
    pytest.mark.skipif(bfloat16 not in HALVES, reason="nothing gives NumPy a bfloat16"),
]
FLOAT16 = np.dtype(np.float16)
BOTH = [pytest.param(half, id=half.name) for half in (FLOAT16, bfloat16)]


def made(inputs, outputs, backwards=False):
    return CudaBackend(Emulated(backwards)).compile(Program(inputs, outputs), {})


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


@pytest.mark.parametrize("half", BOTH)
def test_float32_are_rounded_to_the_bit(half):
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


@pytest.mark.parametrize("half", BOTH)
def test_all_halves_are_widened_and_moved_to_the_bit(half):
    every = np.arange(1 << 16, dtype=np.uint16)
    x = given(every.shape, half)
    runs = made([x], [b.cast(x, F4)])
    np.testing.assert_array_equal(bits(runs([every.view(half)])[0]), widened(every, half))


def test_earlier_processors_round_without_an_instruction_for_it():
    x = given((4096,), F4)
    text = made([x], [b.cast(x, bfloat16)]).text()
    assert "cvt.rn.bf16" not in ptx(text, "sm_75").decode()
    if assembler() is not None:
        assert assembled(text, "sm_75") is not None
