"""Products of bfloat16 and float16 for tensor cores: halves as factors, sums in float32, run where there is no GPU."""

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS
from minitorch.compiler.backends.cuda import products
from minitorch.compiler.backends.cuda.products import LibraryProduct

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

HALVES = [minitorch.bfloat16, minitorch.float16]
EPS = {minitorch.bfloat16: 2.0**-7, minitorch.float16: 2.0**-10}


def numbers(*shape):
    return np.random.default_rng([5, *shape]).normal(size=shape).astype(np.float32)


def library_products(run):
    (program,) = run.cache.all()
    return [task.kernel for task in program.runner.tasks if isinstance(task.kernel, LibraryProduct)]


def assert_near(found, expected, eps):
    found, expected = (x.detach().float().numpy() for x in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=2 * eps, atol=eps * np.abs(expected).max())


@pytest.mark.parametrize("dtype", HALVES)
def test_a_perceptron_under_autocast_multiplies_halves(dtype):
    x, u, v = (numbers(*shape) for shape in [(96, 80), (112, 80), (72, 112)])

    def function(x, u, v):
        with minitorch.autocast("cpu", dtype=dtype):
            y = minitorch.relu(x @ u.T) @ v.T
        loss = y.float().square().mean()
        return y, *minitorch.autograd.grad(loss, [x, u, v])

    run = minitorch.compile(function, backend="gpu", fullgraph=True)
    for scale in (0.1, 0.2):
        given = [minitorch.tensor(scale * a, requires_grad=True) for a in (x, u, v)]
        for found, expected in zip(run(*given), function(*given), strict=True):
            assert found.dtype == expected.dtype
            assert_near(found, expected, EPS[dtype])
    products = library_products(run)
    assert len(products) == 6
    assert {p.dtype for p in products} == {p.made for p in products} == {np.dtype(dtype)}


def test_the_sums_of_halves_may_be_wanted_in_float32():
    a, b = (minitorch.tensor(numbers(90, 90)).bfloat16() for _ in range(2))
    run = minitorch.compile(lambda a, b: (a.float() @ b.float()).exp(), backend="gpu")
    run(a, b)
    assert_near(run(a, b), (a.float() @ b.float()).exp(), 1e-5)
    (product,) = library_products(run)
    assert product.dtype == minitorch.bfloat16
    assert product.made == np.float32


@pytest.mark.parametrize("precision", ["high", "highest"])
def test_attention_under_autocast_rounds_its_weights_where_products_may_round(precision, monkeypatch):
    monkeypatch.setattr(products, "LEAST_FOR_A_LIBRARY", 1)
    q, k, v = (minitorch.tensor(numbers(2, 2, 96, 32), requires_grad=True) for _ in range(3))

    def function(q, k, v):
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16):
            y = minitorch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.25, is_causal=True)
        return y, *minitorch.autograd.grad(y.float().square().sum(), [q, k, v])

    before = minitorch.get_float32_matmul_precision()
    minitorch.set_float32_matmul_precision(precision)
    try:
        run = minitorch.compile(function, backend="gpu", fullgraph=True)
        run(q, k, v)
        found = run(q, k, v)
    finally:
        minitorch.set_float32_matmul_precision(before)
    for made, expected in zip(found, function(q, k, v), strict=True):
        assert_near(made, expected, EPS[minitorch.bfloat16])
    (program,) = run.cache.all()
    scores = [v for v in program.runner.schedule.stored if v.shape == (2, 2, 96, 96)]
    rounded = [v for v in scores if v.dtype == minitorch.bfloat16]
    assert len(rounded) == (2 if precision == "high" else 0)  # the weights, and what comes back to the scores
    dtypes = [product.dtype.name for product in library_products(run)]
    assert dtypes.count("bfloat16") == (6 if precision == "high" else 2)
    assert len(dtypes) == 6


def test_between_kernels_halves_lie_in_memory_as_such():
    x = minitorch.tensor(numbers(300, 400))

    def function(x):
        y = x.erf().exp().erf().exp().bfloat16().float()  # it costs more to compute than to read
        return minitorch.softmax(y, 1), minitorch.softmax(y, 0)

    run = minitorch.compile(function, backend="gpu")
    run(x)
    for found, expected in zip(run(x), function(x), strict=True):
        assert_near(found, expected, 1e-5)
    (program,) = run.cache.all()
    stored = [v for v in program.runner.schedule.stored if v.attributes.get("function") == "cast"]
    assert [v.dtype for v in stored] == [minitorch.bfloat16]


def test_rows_of_halves_lie_apart_where_their_length_is_odd():
    def function(x, w, y):
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16):
            scores = x @ w.T
            loss = minitorch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y)
        return loss, *minitorch.autograd.grad(loss, [x, w])

    y = minitorch.tensor(np.arange(40) * 7 % 301)
    run = minitorch.compile(function, backend="gpu")
    for scale in (1.0, 0.5):
        x, w = (minitorch.tensor(scale * numbers(*s), requires_grad=True) for s in ((4, 10, 64), (301, 64)))
        for found, expected in zip(run(x, w, y), function(x, w, y), strict=True):
            assert_near(found, expected, EPS[minitorch.bfloat16])
    assert {max(p.c.apart, p.a.apart, p.b.apart) for p in library_products(run)} == {304}
