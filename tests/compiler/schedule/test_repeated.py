"""Products that come again and again: a sum of them is one, and a factor of many is laid out once; results stay."""

import copy

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import Program, Value, interpret
from minitorch.compiler.ir.sizes import Symbol
from minitorch.compiler.schedule.repeated import without_repetition

STEPS, ROWS, WIDE, NARROW = 6, 8, 64, 48


def given(index, *shape):
    return Value("input", (), {"index": index}, shape, np.dtype(np.float32))


def products_of(program):
    return [v.attributes["spec"] for v in program.values() if v.primitive == "contract"]


def sum_of_products(rows=ROWS, extra=False, steps=STEPS):
    """Return Σ aᵢᵀ bᵢ, as the gradient of a weight is, and perhaps something more."""
    a = [given(i, rows, NARROW) for i in range(steps)]
    b = [given(steps + i, rows, WIDE) for i in range(steps)]
    terms = [make.contract("ab,bc->ac", make.permute(x, (1, 0)), y) for x, y in zip(a, b, strict=True)]
    inputs = [*a, *b]
    if extra:
        inputs.append(given(2 * steps, NARROW, WIDE))
        terms.insert(2, inputs[-1])
    total = terms[0]
    for term in terms[1:]:
        total = make.map_values("add", total, term)
    return Program(inputs, [total])


def arrays_for(program, rows=ROWS):
    rng = np.random.default_rng(0)
    shape = lambda value: [n if type(n) is int else rows for n in value.shape]
    return [rng.standard_normal(shape(value)).astype(np.float32) for value in program.inputs]


@pytest.mark.parametrize("extra", [False, True])
def test_a_sum_of_small_products_is_one_product(extra):
    program = sum_of_products(extra=extra)
    simpler = without_repetition(program, 0)
    assert len(products_of(simpler)) == 1
    arrays = arrays_for(program)
    (want,), (got,) = interpret(program, arrays), interpret(simpler, arrays)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_few_products_and_large_ones_are_left_alone():
    few, large = sum_of_products(steps=3), sum_of_products(rows=512)
    assert len(products_of(without_repetition(few, 0))) == 3
    assert len(products_of(without_repetition(large, 0))) == STEPS


def test_one_that_is_read_elsewhere_stays_a_product_of_its_own():
    program = sum_of_products()
    term = next(v for v in program.values() if v.primitive == "contract")
    program = Program(program.inputs, [*program.outputs, term])
    simpler = without_repetition(program, 0)
    assert len(products_of(simpler)) == 2
    arrays = arrays_for(program)
    for got, want in zip(interpret(simpler, arrays), interpret(program, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_factors_that_lie_side_by_side_are_not_laid_there_again():
    program = sum_of_products()
    columns = program.inputs[STEPS:]
    stacked = make.concatenate([make.reshape(c, (1, ROWS, WIDE)) for c in reversed(columns)], 0)
    program = Program(program.inputs, [*program.outputs, stacked])
    simpler = without_repetition(program, 0)
    assert sum(v.primitive == "concatenate" for v in simpler.values()) == 2
    arrays = arrays_for(program)
    np.testing.assert_allclose(
        interpret(simpler, arrays)[0], interpret(program, arrays)[0], rtol=1e-4, atol=1e-4
    )


def test_the_number_of_rows_may_vary():
    rows = Symbol("s0", ROWS).size
    program = sum_of_products(rows=rows)
    simpler = without_repetition(program, 0)
    assert len(products_of(simpler)) == 1
    for n in (2, 5, 9):
        arrays = arrays_for(program, n)
        np.testing.assert_allclose(
            interpret(simpler, arrays)[0], interpret(program, arrays)[0], rtol=1e-4, atol=1e-4
        )


def test_a_factor_of_many_products_is_laid_out_once():
    weight = given(0, 64, 128)
    x = first = given(1, ROWS, 64)
    outputs = []
    for _ in range(STEPS):
        x = make.map_values("tanh", make.contract("ab,bc->ac", x, weight))
        outputs.append(x)
        x = make.slice_axes(x, (0, 0), (ROWS, 64), (1, 1))
    program = Program([weight, first], outputs)
    assert set(products_of(without_repetition(program, 64))) == {"ab,dbe->ade"}
    assert set(products_of(without_repetition(program, 0))) == {"ab,bc->ac"}
    assert set(products_of(without_repetition(program, 96))) == {
        "ab,bc->ac"
    }  # columns are no multiple of that


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("hidden", [64, 20])
def test_recurrent_layers_train_as_eagerly(kind, hidden):
    pytest.importorskip("llvmlite")
    mt.manual_seed(0)
    layers = [kind(16, hidden)]
    layers.append(copy.deepcopy(layers[0]))
    steps = []
    for layer in layers:
        optimizer = mt.optim.SGD(layer.parameters(), lr=0.5, momentum=0.9)

        def step(x, layer=layer, optimizer=optimizer):
            optimizer.zero_grad()
            loss = layer(x)[0].square().mean()
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    compiled = mt.compile(steps[0])
    for batch in (5, 5, 5, 7, 3, 9):
        x = mt.randn(7, batch, 16)
        np.testing.assert_allclose(compiled(x).item(), steps[1](x).item(), rtol=1e-4)
    for mine, theirs in zip(layers[0].parameters(), layers[1].parameters(), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-3, atol=1e-5)
    if kind is nn.LSTM and hidden == 64:
        specs = products_of(without_repetition(compiled.cache.all()[0].recorded.program, 64))
        # forwards and back through time by one weight; gradients of both weights; the input
        assert specs.count("ab,dbe->ade") == 13
