"""An optimiser's rule as one native kernel: it leaves what NumPy leaves, whatever the options and the memory's order."""

import subprocess
import sys

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS
from minitorch.compiler.call import update_kernels
from minitorch.compiler.call.function import Disagreement
from minitorch.ops import native

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Every array is large, and nothing is met too seldom."""
    monkeypatch.setattr(native, "LARGE", 1)
    monkeypatch.setattr(native, "MANY", 0)
    minitorch.set_native_ops(True)
    yield
    minitorch.set_native_ops(False)


@pytest.fixture
def used(monkeypatch):
    """The lengths that kernels were run on."""
    lengths = []

    def call(self, rows, numbers):
        lengths.append(rows[0].size)
        return run(self, rows, numbers)

    run = update_kernels._Kernel.__call__
    monkeypatch.setattr(update_kernels._Kernel, "__call__", call)
    return lengths


def trained(make, arrays, steps=4):
    random = np.random.default_rng(1)
    parameters = [minitorch.nn.Parameter(minitorch.from_numpy(a.copy(order="K"))) for a in arrays]
    optimizer = make(parameters)
    for step in range(steps):
        for p in parameters:
            p.grad = random.normal(size=p.shape).astype(p.dtype).copy(order="K")
        if step == 2:
            optimizer.param_groups[0]["lr"] = 0.07
        optimizer.step()
    memory = [
        value.numpy()
        for p in parameters
        for value in optimizer.state[p].values()
        if isinstance(value, minitorch.Tensor)
    ]
    return [*(p.detach().numpy() for p in parameters), *memory]


def by_numpy(function, *arguments):
    minitorch.set_native_ops(False)
    try:
        return function(*arguments)
    finally:
        minitorch.set_native_ops(True)


optim = minitorch.optim
OPTIMISERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD with all": lambda p: optim.SGD(
        p, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.01, maximize=True
    ),
    "SGD, Nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.1, weight_decay=0.01),
    "AMSGrad": lambda p: optim.AdamW(p, lr=0.1, amsgrad=True),
    "Adamax": lambda p: optim.Adamax(p, lr=0.1),
    "NAdam": lambda p: optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: optim.RAdam(p, lr=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_by_kernels(name, dtype, used):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(dtype) for shape in ((7, 5), (64,), (3, 4, 5))]
    expected = by_numpy(trained, OPTIMISERS[name], arrays)
    close = {"rtol": 1e-12, "atol": 1e-14} if dtype == np.float64 else {"rtol": 2e-6, "atol": 1e-7}
    for mine, other in zip(trained(OPTIMISERS[name], arrays), expected, strict=True):
        np.testing.assert_allclose(mine, other, **close)
    assert {35, 64, 60} <= set(used)


def test_parameters_that_lie_the_other_way_in_memory(used):
    turned = np.random.default_rng(0).normal(size=(6, 9)).T
    expected = by_numpy(trained, OPTIMISERS["Adam"], [turned])
    for mine, other in zip(trained(OPTIMISERS["Adam"], [turned]), expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
        assert mine.strides == other.strides


def test_a_graph_from_before_is_refused():
    x = minitorch.nn.Parameter(minitorch.ones(40))
    optimizer = optim.SGD([x], lr=0.1)
    for _ in range(3):
        y = (x * x).sum()
        x.grad = np.ones(40, np.float32)
        optimizer.step()
        with pytest.raises(RuntimeError, match="changed|overwritten|written"):
            y.backward()


def test_a_kernel_that_differs_is_told_and_not_used(monkeypatch):
    monkeypatch.setattr(update_kernels, "_kernels", {})
    monkeypatch.setattr(update_kernels.verify, "differing", lambda *args: [0])
    x = minitorch.nn.Parameter(minitorch.ones(40))
    optimizer = optim.SGD([x], lr=0.5)
    x.grad = np.ones(40, np.float32)
    with pytest.warns(Disagreement, match="does not leave what NumPy does"):
        optimizer.step()
    optimizer.step()
    np.testing.assert_array_equal(x.detach().numpy(), np.zeros(40))


def test_the_compiler_is_not_imported_for_small_programs():
    program = """
import sys
import numpy as np
import minitorch
x = minitorch.randn(300, 300, requires_grad=True)
x.grad = np.ones((300, 300), np.float32)
minitorch.optim.Adam([x]).step()
assert not any(name.startswith("minitorch.compiler") for name in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
