"""Eager ops as native kernels: the numbers of NumPy, at any size and layout, and only where it is worth it."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import minitorch
from cases import floats, run_minitorch
from compiled import BACKENDS
from minitorch.compiler.call import kernels
from minitorch.compiler.call.function import Disagreement
from minitorch.engine.record import apply_many
from minitorch.nn import functional as F
from minitorch.ops import native
from minitorch.ops.op import OPS
from minitorch.proof.table import CASES
from minitorch.tensor import generator
from pytorch import torch
from tensors import weights

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")
NATIVE = {name for name, op in OPS.items() if hasattr(op.forward, "is_native")}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Every array is large, and nothing is met too seldom."""
    monkeypatch.setattr(native, "LARGE", 1)
    monkeypatch.setattr(native, "LARGE_IF_COSTLY", 1)
    monkeypatch.setattr(native, "MANY", 0)
    minitorch.set_native_ops(True)
    yield
    minitorch.set_native_ops(False)


@pytest.fixture
def used(monkeypatch):
    """What was computed by kernels, by the functions' names."""
    names = []

    def call(self, *arguments):
        names.append(self)
        return run(self, *arguments)

    run = kernels.Kernel.__call__
    monkeypatch.setattr(kernels.Kernel, "__call__", call)
    return names


def test_random_numbers_are_drawn_natively_from_then_on(monkeypatch):
    monkeypatch.setattr(generator, "_native", [])
    monkeypatch.setattr(kernels, "_kernels", {})
    minitorch.manual_seed(3)
    plain = minitorch.rand(1000).numpy()
    assert not generator._native
    F.gelu(minitorch.randn(50))
    F.gelu(minitorch.randn(50))
    assert generator._native
    minitorch.manual_seed(3)
    np.testing.assert_array_equal(minitorch.rand(1000).numpy(), plain)


def by_numpy(function):
    minitorch.set_native_ops(False)
    try:
        return function()
    finally:
        minitorch.set_native_ops(True)


NATIVE_CASES = [
    pytest.param(c, id=f"{i}-{c.op}")
    for i, c in enumerate(CASES)
    if c.op in NATIVE or c.op.startswith("convolution")
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", NATIVE_CASES)
def test_the_table_by_kernels(case, dtype):
    arrays = case.arrays(6)
    close = {"rtol": 1e-11, "atol": 1e-12} if dtype == np.float64 else {"rtol": 2e-5, "atol": 2e-6}
    expected, references = by_numpy(lambda: run_minitorch(case, arrays, dtype=dtype))
    for _ in range(2):  # the kernel is made, and used
        outputs, tensors = run_minitorch(case, arrays, dtype=dtype)
        for mine, other in zip(outputs, expected, strict=True):
            assert (mine.shape, mine.dtype, mine._data.strides) == (
                other.shape,
                other.dtype,
                other._data.strides,
            )
            np.testing.assert_allclose(mine._data, other._data, **close)
        for tensor, reference in zip(tensors, references, strict=True):
            assert (tensor.grad is None) == (reference.grad is None)
            if reference.grad is not None:
                np.testing.assert_allclose(tensor.grad, reference.grad, **close)


@pytest.mark.parametrize("case", NATIVE_CASES)
def test_second_derivatives_by_kernels(case):
    arrays = case.arrays(6)

    def run():
        tensors = [minitorch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        wanted = [t for t in tensors if t.requires_grad]
        outputs = [o for o in floats(case.call(minitorch, *tensors)) if o.requires_grad]
        if not outputs:
            return []
        loss = sum((weights(o.shape, o.dtype) * o * o).sum() for o in outputs)
        slopes = minitorch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
        again = sum((s * s).sum() for s in slopes if s is not None)
        return [
            None if c is None else c.detach().numpy()
            for c in minitorch.autograd.grad(again, wanted, allow_unused=True)
        ]

    expected = by_numpy(run)
    for _ in range(2):
        for mine, other in zip(run(), expected, strict=True):
            assert (mine is None) == (other is None)
            if other is not None:
                np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


def test_every_native_op_has_a_case():
    assert {case.op for case in CASES} >= NATIVE
    assert {"gelu", "softmax", "normalize", "relu", "tanh", "erfc", "leaky_relu", "max_pool"} <= NATIVE


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "call",
    [F.relu, F.leaky_relu, F.gelu, F.silu, F.elu, F.softplus, minitorch.tanh, minitorch.erf, minitorch.erfc],
)
def test_arrays_of_every_kind(call, dtype):
    square = np.linspace(-3, 3, 56).reshape(7, 8).astype(dtype)
    for x in (square[:0], np.array(square[0, 0]), square.T, square[::2, ::3], square[::-1]):
        given = lambda x=x: minitorch.from_numpy(x).requires_grad_()

        def run(given=given):
            x = given()
            out = call(x)
            out.backward(minitorch.ones_like(out))
            return out._data, np.asarray(x.grad)

        expected = by_numpy(run)
        for _ in range(2):
            for mine, other in zip(run(), expected, strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-5 if dtype == np.float32 else 1e-12)
                assert (mine.shape, mine.strides, mine.dtype) == (other.shape, other.strides, other.dtype)


def gradients(call, *arrays):
    tensors = [minitorch.tensor(a, requires_grad=True) for a in arrays]
    out = call(*tensors)
    out.backward(minitorch.tensor(np.cos(np.arange(out.numel(), dtype=np.float64)).reshape(out.shape)))
    return [out._data, *(t.grad for t in tensors)]


def test_one_kernel_serves_all_sizes(used):
    random = np.random.default_rng(0)
    shapes = [(40, 30), (7, 5), (3, 200), (64, 64), (2, 3, 4)]
    made = len(kernels._kernels)
    for shape in shapes * 2:
        x = random.normal(size=shape)
        expected = by_numpy(lambda x=x: gradients(F.silu, x))
        for mine, other in zip(gradients(F.silu, x), expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12)
    assert len(kernels._kernels) <= made + 2  # the function and its rule
    assert len({id(kernel) for kernel in used}) == 2


@pytest.mark.parametrize("shape", [(6, 8), (8, 8), (1, 9), (9, 1)])
def test_norms_whose_lengths_are_equal_or_one(shape):
    random = np.random.default_rng(0)
    x, w, b = (random.normal(size=s) for s in (shape, shape[-1:], shape[-1:]))
    call = lambda x, w, b: F.layer_norm(x, shape[-1:], w, b)
    expected = by_numpy(lambda: gradients(call, x, w, b))
    for _ in range(2):
        for mine, other in zip(gradients(call, x, w, b), expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_another_order_in_memory(used, order):
    random = np.random.default_rng(0)
    turned = random.normal(size=(5, 7, 4)).transpose(order)
    line = lambda g, x: g * np.tanh(x) * np.exp(-x * x) + (0.5 - x)
    run, short = (native.natively(each, native.ELEMENTWISE) for each in (line, lambda g, x: g * x + 0.5))
    plain = np.ascontiguousarray(turned)
    for g in (turned * 2, plain * 3, np.broadcast_to(random.normal(size=turned.shape[-1]), turned.shape)):
        for pair in ((g, turned), (turned, g))[: 2 if all(g.strides) else 1]:
            expected = line(*pair)
            for _ in range(2):
                found = run(*pair)
                np.testing.assert_allclose(found, expected, rtol=1e-12)
                assert found.strides == expected.strides
                assert found.base is None
    assert len(used) > 6
    before = len(used)
    for _ in range(3):  # few steps: NumPy needs no copies for them
        np.testing.assert_array_equal(short(plain, turned), plain * turned + 0.5)
    assert len(used) == before
    with_gaps = np.zeros((20, 30))[::2, ::3].T
    assert run(with_gaps, with_gaps).strides == (with_gaps * with_gaps).strides


def test_a_gradient_that_is_one_number_everywhere(used):
    x = minitorch.tensor(np.linspace(-3, 3, 50), requires_grad=True)
    for _ in range(2):
        x.grad = None
        F.gelu(x).sum().backward()
    theirs = torch.tensor(x.detach().numpy(), requires_grad=True)
    torch.nn.functional.gelu(theirs).sum().backward()
    np.testing.assert_allclose(x.grad, theirs.grad.numpy(), rtol=1e-12)
    assert len(used) >= 2


def test_results_are_nobody_elses_arrays():
    x = minitorch.tensor(np.linspace(-3, 3, 50))
    first, second, third = (x.reshape(5, 10).sigmoid() for _ in range(3))
    assert second._data.base is None
    kept = second._data.copy()
    third += 1
    np.testing.assert_array_equal(second._data, kept)
    assert not np.shares_memory(second._data, third._data)
    assert not np.shares_memory(first._data, second._data)


def test_second_derivatives_are_recorded():
    x = minitorch.tensor(np.linspace(-2, 2, 20), requires_grad=True)
    for _ in range(2):
        (slope,) = minitorch.autograd.grad(F.silu(x).sum(), x, create_graph=True)
        (curvature,) = minitorch.autograd.grad(slope.sum(), x)
    theirs = torch.tensor(x.detach().numpy(), requires_grad=True)
    (slope,) = torch.autograd.grad(torch.nn.functional.silu(theirs).sum(), theirs, create_graph=True)
    (wanted,) = torch.autograd.grad(slope.sum(), theirs)
    np.testing.assert_allclose(curvature.detach().numpy(), wanted.numpy(), rtol=1e-11, atol=1e-12)


def test_kernels_are_made_when_many_elements_were_met(monkeypatch, used):
    monkeypatch.setattr(native, "LARGE", 100)
    monkeypatch.setattr(native, "MANY", 1000)
    run = native.natively(lambda x: np.exp(-x * 0.25) + 1, native.ELEMENTWISE)
    x, small = np.linspace(0, 1, 400), np.linspace(0, 1, 99)
    for _ in range(20):
        run(small)
    for _ in range(3):  # 400, 800, 1200: then it is made
        run(x)
    assert not used
    np.testing.assert_allclose(run(x), np.exp(-x * 0.25) + 1, rtol=1e-14)
    run(small)
    minitorch.set_native_ops(False)
    assert not minitorch.are_native_ops_enabled()
    run(x)
    assert len(used) == 1


def test_a_thread_does_not_mind_what_another_computes(used):
    entered, leave = threading.Event(), threading.Event()

    def slow(x):
        entered.set()
        assert leave.wait(20)
        return x + 1

    x = np.linspace(0, 1, 400)
    thread = threading.Thread(target=native.natively(slow), args=(x,))
    thread.start()
    assert entered.wait(20)
    run = native.natively(lambda x: np.exp(-x * 0.5) + 1, native.ELEMENTWISE)
    for _ in range(2):
        np.testing.assert_allclose(run(x), np.exp(-x * 0.5) + 1, rtol=1e-14)
    assert len(used) == 1
    leave.set()
    thread.join()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_arithmetic(used, dtype):
    random = np.random.default_rng(0)
    x, y, row = (1 + random.random(size=s).astype(dtype) for s in ((300, 250), (300, 250), (250,)))
    call = lambda x, y, row: (x / y).exp() * (x.sqrt() + 2 * row) + (minitorch.maximum(x, y) - x * row).sin()
    expected = by_numpy(lambda: gradients(call, x, y, row))
    for _ in range(2):
        for mine, other in zip(gradients(call, x, y, row), expected, strict=True):
            # The gradient of `row` is sums whose terms nearly cancel: what is left of them is rounding of the terms.
            bound = 1e-12 if dtype == np.float64 else 1e-5
            np.testing.assert_allclose(mine, other, rtol=bound, atol=bound)
    assert used
    whole = minitorch.tensor(np.arange(9, dtype=np.uint8))
    np.testing.assert_array_equal((whole * whole).numpy(), np.arange(9, dtype=np.uint8) ** 2)


def test_what_is_compiled_does_not_ask_how_large_arrays_are(used):
    x = minitorch.ones(300, 250)
    (x * x + x).exp()  # from here on large arithmetic is looked out for
    f = minitorch.compile(lambda x, m: (x[m] * 2 + 1).sum(), backend="numpy")
    for count in (3, 500, 40):
        x, m = minitorch.ones(count, 200, requires_grad=True), minitorch.arange(count) % 2 == 0
        f(x, m).backward()
        np.testing.assert_array_equal(x.grad, np.where(m.numpy(), 2.0, 0.0)[:, None] * np.ones(200))
    assert 1 <= f.compilations <= 2


def test_a_kernel_that_differs_is_told_and_not_used(monkeypatch, used):
    monkeypatch.setattr(kernels.verify, "differing", lambda *args: [0])
    run = native.natively(lambda x: np.exp(-x * 0.125) + 1, native.ELEMENTWISE)
    x = np.linspace(0, 1, 400)
    with pytest.warns(Disagreement, match="does not give what NumPy gives"):
        run(x)
    np.testing.assert_array_equal(run(x), np.exp(-x * 0.125) + 1)
    assert not used


def test_what_only_holds_for_some_lengths_is_left_to_numpy(used):
    run = native.natively(lambda x: x * 2 if len(x) > 10 else x * 3)
    for n in (20, 5, 20, 5):
        np.testing.assert_array_equal(run(np.ones(n)), np.full(n, 2.0 if n > 10 else 3.0))
    assert not used


def test_an_attribute_that_cannot_be_a_key_is_left_to_numpy(used):
    run = native.natively(lambda x, *, weights: x * weights[0])
    for _ in range(2):
        np.testing.assert_array_equal(run(np.ones(9), weights=[3.0]), np.full(9, 3.0))
    assert not used


def test_a_users_error_is_numpys():
    x = minitorch.ones(4, 6)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="normalize|shape"):
            apply_many(OPS["normalize"], x, minitorch.ones(5), None, axes=(1,), eps=1e-5, centre=True)


def test_the_compiler_is_not_imported_for_small_programs():
    program = """
import sys
import minitorch
x = minitorch.randn(300, 300, requires_grad=True)
minitorch.nn.functional.gelu(x).sum().backward()
assert not any(name.startswith("minitorch.compiler") for name in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("batch", [1, 4])
def test_depthwise_convolutions(used, stride, batch):
    random = np.random.default_rng(0)
    x, w, b = (random.normal(size=s) for s in ((batch, 6, 9, 8), (6, 1, 3, 3), (6,)))
    call = lambda x, w, b: F.conv2d(x, w, b, stride=stride, padding=1, groups=6)
    expected = by_numpy(lambda: gradients(call, x, w, b))
    for _ in range(2):
        for mine, other in zip(gradients(call, x, w, b), expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)
    assert len(used) >= 3  # forward and two rules


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(used, kind, dtype):
    minitorch.manual_seed(0)
    layer = getattr(minitorch.nn, kind)(5, 4, dtype=dtype)
    x = np.random.default_rng(0).normal(size=(6, 3, 5)).astype(dtype)

    def run():
        given = minitorch.tensor(x, requires_grad=True)
        layer.zero_grad()
        out = layer(given)[0]
        (out * out).sum().backward()
        return [out.detach().numpy(), given.grad, *(p.grad for p in layer.parameters())]

    expected = by_numpy(run)
    close = {"rtol": 1e-10, "atol": 1e-12} if dtype == np.float64 else {"rtol": 2e-5, "atol": 2e-6}
    for _ in range(2):
        for mine, other in zip(run(), expected, strict=True):
            np.testing.assert_allclose(mine, other, **close)
    assert used
