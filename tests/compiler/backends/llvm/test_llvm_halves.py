"""float16 as machine code: every cast to the bit, elementwise functions as NumPy rounds them, whole steps without NumPy."""

import numpy as np
import pytest

import minitorch as mt
from compiled import assert_same
from minitorch import nn, optim
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.halves import widened
from minitorch.compiler.ir.program import Program, Value, interpret

native = pytest.importorskip("minitorch.compiler.backends.llvm.native")
pytest.importorskip("llvmlite")

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = HALVES[np.isfinite(HALVES)]


def run(program, *arrays):
    executable = native.Llvm().compile(program, {})
    return executable(list(arrays)), executable.report


def unary(make, array):
    x = Value("input", (), {"index": 0}, array.shape, array.dtype)
    return Program([x], [make(x)])


def same_bits(a, b):
    assert a.dtype == b.dtype
    unsigned = f"u{a.dtype.itemsize}"
    both_nan = np.isnan(a) & np.isnan(b)
    np.testing.assert_array_equal(
        np.where(both_nan, 0, a.view(unsigned)), np.where(both_nan, 0, b.view(unsigned))
    )


def test_every_float16_as_float32():
    (found,), report = run(unary(lambda x: builder.cast(x, np.float32), HALVES), HALVES)
    same_bits(found, HALVES.astype(np.float32))
    assert not report.called_back


def test_float32_as_the_nearest_float16():
    bits = FINITE.astype(np.float32).view(np.uint32)
    between = np.concatenate([bits + step for step in (0, 1, 0xFFF, 0x1000, 0x1001)])
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint64)
    numbers = np.concatenate([between, random]).astype(np.uint32).view(np.float32)
    (found,), report = run(unary(lambda x: builder.cast(x, np.float16), numbers), numbers)
    with np.errstate(all="ignore"):
        same_bits(found, numbers.astype(np.float16))
    assert not report.called_back


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, np.int64, np.float64])
def test_casts_from_and_to_others(dtype):
    small = FINITE[np.abs(FINITE) < 100]
    program = unary(lambda x: builder.cast(builder.cast(x, dtype), np.float16), small)
    (found,), _ = run(program, small)
    same_bits(found, small.astype(dtype).astype(np.float16))


def test_float64_is_rounded_once():
    middles = (FINITE[:-1].astype(float) + FINITE[1:]) / 2
    numbers = np.concatenate([middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e-300, 65519.999999999, 65520.0, 2.0**-25]
    numbers = np.concatenate([numbers, odd, 10 ** np.random.default_rng(0).uniform(-9, 6, 10000)])
    (found,), report = run(unary(lambda x: builder.cast(x, np.float16), numbers), numbers)
    with np.errstate(all="ignore"):
        same_bits(found, numbers.astype(np.float16))
    assert not report.called_back


@pytest.mark.parametrize("function", ["add", "subtract", "multiply", "divide", "maximum", "less"])
def test_arithmetic_is_numpys_to_the_bit(function):
    a, b = np.random.default_rng(1).choice(HALVES, (2, 20000))
    x, y = (Value("input", (), {"index": i}, a.shape, a.dtype) for i in range(2))
    program = Program([x, y], [builder.map_values(function, x, y)])
    (found,), report = run(program, a, b)
    with np.errstate(all="ignore"):
        expected = getattr(np, function)(a, b)
    if function == "less":
        np.testing.assert_array_equal(found, expected)
    else:
        same_bits(found, expected)
    assert not report.called_back


@pytest.mark.parametrize("function", ["exp", "log", "tanh", "sqrt", "sin", "floor", "negative"])
def test_functions_round_as_numpy_does(function):
    program = unary(lambda x: builder.map_values(function, x), FINITE)
    (found,), report = run(program, FINITE)
    with np.errstate(all="ignore"):
        expected = getattr(np, function)(FINITE)
    # The float32 before the last rounding may differ by its own last digits, and be rounded to the other side.
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1.1e-3, atol=6.1e-8)
    assert np.mean((found == expected) | np.isnan(expected)) > 0.98
    assert not report.called_back


def test_a_program_without_float16_stays_as_it_is():
    program = unary(lambda x: builder.map_values("exp", x), np.ones(3, np.float32))
    assert widened(program) is program


def test_the_program_in_float32_means_the_same():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 5)).astype(np.float16), rng.normal(size=(5, 6)).astype(np.float16)
    x, y = (Value("input", (), {"index": i}, each.shape, each.dtype) for i, each in enumerate((a, b)))
    product = builder.matmul(x, y)
    row = builder.reduce("add", builder.map_values("exp", product), (1,), keepdims=True)
    outputs = [
        builder.map_values("divide", builder.map_values("exp", product), row),
        builder.scan("add", x, 0),
    ]
    outputs += [builder.arg_reduce("argmax", product, 1), builder.pad(x, (1, 0), (0, 1), 0.5)]
    outputs += [builder.concatenate([builder.permute(x, (1, 0)), builder.permute(x, (1, 0))], 1)]
    program = Program([x, y], outputs)
    for found, expected in zip(interpret(widened(program), [a, b]), interpret(program, [a, b]), strict=True):
        assert_same(found, expected)


LAYERS = {
    "linear": lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 3, 2), nn.GELU(), nn.Flatten()
    ),
    "softmax": lambda: nn.Sequential(nn.Linear(8, 4), nn.Softmax(-1)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_training_step(name):
    def steps(compile):
        mt.manual_seed(0)
        model = LAYERS[name]().half()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        losses = [step(mt.randn(5, 8).half()).detach().numpy() for _ in range(4)]
        return [*losses, *(p.detach().numpy() for p in model.parameters())], step

    expected, _ = steps(lambda f: f)
    found, step = steps(lambda f: mt.compile(f, backend="native"))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == np.float16
        assert_same(a, b)
    programs = list(step.cache.all())
    assert any(program.calls for program in programs)
    assert not any(program.runner.report.called_back for program in programs)
