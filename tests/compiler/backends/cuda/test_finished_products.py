"""What a library adds to a product on the way, and what it does not: run where there is no GPU."""

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS, assert_same
from minitorch.compiler.backends.cuda import products as products_module
from minitorch.compiler.backends.cuda.products import LibraryProduct

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

A, W, ROW, C = (
    np.random.default_rng(n).normal(size=shape).astype(np.float32)
    for n, shape in enumerate([(90, 80), (96, 80), (96,), (90, 96)])
)


@pytest.fixture(autouse=True)
def small_ones_are_a_librarys_too(monkeypatch):
    monkeypatch.setattr(products_module, "LEAST_FOR_A_LIBRARY", 1)


def library_products(run):
    (program,) = run.cache.all()
    tasks = program.runner.tasks
    return [t.kernel for t in tasks if isinstance(t.kernel, LibraryProduct)], len(tasks)


CASES = {
    "a row": (lambda a, w, row, c: a @ w.T + row, (True, False), 1),
    "a row first": (lambda a, w, row, c: row + (a @ w.T).reshape(9, 10, 96), (True, False), 1),
    "an array": (lambda a, w, row, c: c + a @ w.T, (False, True), 1),
    "both": (lambda a, w, row, c: c + minitorch.nn.functional.linear(a, w, row), (True, True), 1),
    "a piece": (lambda a, w, row, c: a[:75] @ w.T + c[15:], (False, True), 1),
    "another product": (lambda a, w, row, c: a @ w.T + (a * 2) @ w.T, (False, True), 3),
    "a turned result": (lambda a, w, row, c: (w @ a.T).T + row, (False, False), 2),
    "a column": (lambda a, w, row, c: a @ w.T + c[:, :1], (False, False), 2),
    "a turned array": (lambda a, w, row, c: a @ w.T + c.reshape(96, 90).T, (False, False), 2),
    "what is read twice": (lambda a, w, row, c: ((y := a @ w.T) + row, y * 2), (False, False), 2),
    "what is computed": (lambda a, w, row, c: a @ w.T + c.exp(), (False, False), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_added_on_the_way(name):
    function, expected, kernels = CASES[name]
    run = minitorch.compile(function, backend="gpu", fullgraph=True)
    for scale in (1.0, 0.5):
        given = [minitorch.tensor(scale * x) for x in (A, W, ROW, C)]
        found, wanted = (f if isinstance(f, tuple) else (f,) for f in (run(*given), function(*given)))
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b, name)
    products, count = library_products(run)
    assert (products[-1].has_row, products[-1].addend is not None) == expected
    assert count == kernels


def test_a_parameter_that_is_moved_by_a_product_is_moved_in_the_end():
    w = minitorch.tensor(np.ones((80, 80), np.float32))

    def step(a):
        w.add_(a @ w)
        return w.sum()

    run = minitorch.compile(step, backend="gpu", fullgraph=True)
    for _ in range(2):
        before = w.numpy().copy()
        a = minitorch.tensor(A[:80] * 0.01)
        run(a)
        np.testing.assert_allclose(w.numpy(), before + a.numpy() @ before, rtol=1e-5, atol=1e-5)


def test_a_recurrent_layers_steps_need_no_additions_of_their_own():
    net = minitorch.nn.LSTM(64, 64)
    x = minitorch.tensor(np.random.default_rng(0).normal(size=(3, 64, 64)).astype(np.float32))
    run = minitorch.compile(lambda x: net(x)[0], backend="gpu")
    run(x)
    with minitorch.no_grad():
        assert_same(run(x * 2), net(x * 2)[0])
    for program in run.cache.all():
        products = [t.kernel for t in program.runner.tasks if isinstance(t.kernel, LibraryProduct)]
        assert [p.addend is not None for p in products] == [False, True, True, True]
        assert products[0].has_row
