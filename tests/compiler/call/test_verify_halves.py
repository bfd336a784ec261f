"""What passes through bfloat16 or float16 is compared by their rounding, and nothing else is."""

from types import SimpleNamespace

import numpy as np
import pytest

import minitorch
from minitorch.compiler.call.verify import differing
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.program import Program, Value, interpret

RUNNER = SimpleNamespace(settle=lambda: None)


def rounded_and_not(dtype, size=60):
    """A program of two products, one of which is rounded to a half on its way to float32, and what it gives."""
    a, b = (np.random.default_rng(n).normal(size=(size, size)).astype(np.float32) for n in (1, 2))
    x, y = (Value("input", (), {"index": i}, (size, size), np.dtype(np.float32)) for i in (0, 1))
    product = builder.matmul(x, y)
    half = builder.cast(builder.cast(product, np.dtype(dtype)), np.float32)
    program = Program([x, y], [half, product])
    return program, [a, b], interpret(program, [a, b])


@pytest.mark.parametrize("dtype", [minitorch.bfloat16, np.float16])
def test_a_neighbour_of_a_half_is_right(dtype):
    program, inputs, expected = rounded_and_not(dtype)
    eps = float(minitorch.finfo(np.dtype(dtype)).eps)
    found = [a.copy() for a in expected]
    found[0][3] *= 1 + eps  # one row of it
    assert differing(program, RUNNER, inputs, list(found), expected) == []
    found[0][5] *= 1 + 40 * eps
    assert differing(program, RUNNER, inputs, list(found), expected) == [0]


@pytest.mark.parametrize("dtype", [minitorch.bfloat16, np.float16])
def test_a_mistake_that_all_elements_share_is_noticed_sooner(dtype):
    """A single one may be 8 neighbours off; that most of them are 2 off is no rounding."""
    program, inputs, expected = rounded_and_not(dtype)
    eps = float(minitorch.finfo(np.dtype(dtype)).eps)
    for factor, wrong in ((1 + 0.5 * eps, []), (1 + 2 * eps, [0]), (1 - 2 * eps, [0])):
        found = [expected[0] * np.float32(factor), expected[1].copy()]
        assert differing(program, RUNNER, inputs, found, expected) == wrong
    narrow = Program(program.inputs, [program.outputs[0].inputs[0]])  # the half itself
    expected = interpret(narrow, inputs)
    for factor, wrong in ((1.0, []), (1 + 3 * eps, [0])):
        found = [(expected[0].astype(np.float32) * np.float32(factor)).astype(expected[0].dtype)]
        assert differing(narrow, RUNNER, inputs, found, expected) == wrong


@pytest.mark.parametrize("dtype", [minitorch.bfloat16, np.float16])
def test_what_was_never_a_half_is_compared_as_before(dtype):
    program, inputs, expected = rounded_and_not(dtype)
    found = [a.copy() for a in expected]
    found[1] *= 1 + 1e-3
    assert differing(program, RUNNER, inputs, found, expected) == [1]


def test_what_is_right_for_a_neighbour_of_a_half_is_right():
    program, inputs, _ = rounded_and_not(minitorch.bfloat16, size=300)
    rounded, _ = program.outputs
    border = 1.001  # between two neighbours
    rest = builder.map_values("subtract", rounded, builder.full(rounded.shape, border, np.float32))
    program = Program(program.inputs, [rounded, builder.map_values("sign", rest)])
    expected = interpret(program, inputs)
    found = [a.copy() for a in expected]
    found[0][found[0] == 1] = 1 + 2.0**-7
    found[1] = np.sign(found[0] - np.float32(border))
    assert (found[1] != expected[1]).any()
    assert differing(program, RUNNER, inputs, list(found), expected) == []
    found[1][0] *= -1
    assert differing(program, RUNNER, inputs, list(found), expected) == [1]


@pytest.mark.parametrize("dtype", [None, minitorch.bfloat16])
def test_what_is_made_of_a_vanished_number_is_noticed(dtype):
    """Where a square is next to nothing, 0 agrees with it; what is divided by its root tells that it is not."""
    size = 60
    x, y = (Value("input", (), {"index": i}, (size, size), np.dtype(np.float32)) for i in (0, 1))
    product = builder.matmul(x, y)
    if dtype is not None:
        product = builder.cast(builder.cast(product, np.dtype(dtype)), np.float32)
    square = builder.map_values("multiply", product, product)
    small = builder.full(square.shape, 1e-8, np.float32)
    root = builder.map_values("add", builder.map_values("sqrt", square), small)
    program = Program([x, y], [square, builder.map_values("divide", product, root)])
    inputs = [np.random.default_rng(n).normal(size=(size, size)).astype(np.float32) for n in (1, 2)]
    inputs[0][0] *= 5e-3
    expected = interpret(program, inputs)
    found = [a.copy() for a in expected]
    place = 0, int(np.argmin(np.abs(expected[0][0] - 3e-5 * size)))
    found[0][place] = 0
    found[1][place] *= np.sqrt(expected[0][place]) / 1e-8  # the right function of this 0
    assert differing(program, RUNNER, inputs, list(found), expected) == [1]


def test_a_product_with_halves_may_round_its_other_factor():
    half = np.dtype(minitorch.bfloat16)
    a, b = (np.random.default_rng(n).normal(size=(60, 60)).astype(np.float32) for n in (1, 2))
    x = Value("input", (), {"index": 0}, (60, 60), np.dtype(np.float32))
    y = Value("input", (), {"index": 1}, (60, 60), half)
    program = Program([x, y], [builder.matmul(x, builder.permute(builder.cast(y, np.float32), (1, 0)))])
    inputs = [a, b.astype(half)]
    expected = interpret(program, inputs)
    found = a.astype(half).astype(np.float32) @ inputs[1].astype(np.float32).T
    assert np.abs(found - expected[0]).max() > 1e-3
    assert differing(program, RUNNER, inputs, [found], expected) == []
    assert differing(program, RUNNER, inputs, [expected[0] * np.float32(1.05)], expected) == [0]


@pytest.mark.parametrize("dtype", [minitorch.bfloat16, np.float16])
def test_a_neighbour_is_right_among_many_smaller_ones(dtype):
    """Whether an element is moved to its neighbour is luck; where most are much smaller, others do not vouch for it."""
    program, (a, b), _ = rounded_and_not(dtype, size=400)
    half = program.outputs[0]
    scaled = builder.map_values("multiply", half, builder.full(half.shape, 0.25, np.float32))
    program = Program(program.inputs, [half, scaled])
    a[40:] *= 1e-3
    expected = interpret(program, [a, b])
    bits = expected[0].astype(dtype).view(np.int16)
    found = (bits + np.random.default_rng(3).integers(0, 2, bits.shape)).astype(np.int16).view(dtype)
    found = found.astype(np.float32)
    results = [np.where(np.random.default_rng(4).random(found.shape) < 0.1, found, expected[0])]
    results.append(results[0] * np.float32(0.25))
    assert differing(program, RUNNER, [a, b], list(results), expected) == []
    results[0][3, 5] *= 1 + 40 * float(minitorch.finfo(np.dtype(dtype)).eps)
    results[1] = results[0] * np.float32(0.25)
    assert differing(program, RUNNER, [a, b], list(results), expected) == [0, 1]
