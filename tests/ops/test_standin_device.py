"""Every case of the table with its arrays on a device that refuses host arrays: same numbers."""

import numpy as np
import pytest

import minitorch
from cases import floats, is_shared, run_minitorch
from minitorch.engine.node import new_tensor
from minitorch.ops import native
from minitorch.proof.table import CASES
from standin import DeviceArray
from tensors import weights


def on_device(array, requires_grad=False):
    tensor = new_tensor(DeviceArray(array.copy()))
    return tensor.requires_grad_() if requires_grad else tensor


class Library:
    """minitorch, whose tensor() makes tensors on the device: for constants inside a case."""

    def __getattr__(self, name):
        if name == "tensor":
            return lambda data, **kwargs: on_device(minitorch.tensor(data, **kwargs)._data)
        return getattr(minitorch, name)


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{i}-{c.op}") for i, c in enumerate(CASES)])
def test_same_numbers_on_the_device(case):
    arrays = case.arrays(6)
    expected, references = run_minitorch(case, arrays, case.differentiable)
    tensors = [on_device(a, requires_grad=case.differentiable and a.dtype.kind == "f") for a in arrays]
    outputs = floats(case.call(Library(), *tensors))
    for mine, other in zip(outputs, expected, strict=True):
        assert isinstance(mine._data, DeviceArray)
        # (Equal but for the error function, which is SciPy's there and ours here.)
        np.testing.assert_allclose(mine._data.host, other._data, rtol=1e-15, atol=1e-15)
    if not case.differentiable:
        return
    chosen = [o for o in outputs if o.requires_grad]
    minitorch.autograd.backward(chosen, [DeviceArray(weights(o.shape)) for o in chosen])
    for tensor, reference in zip(tensors, references, strict=True):
        if reference.grad is not None:
            assert isinstance(tensor.grad, DeviceArray)
            np.testing.assert_allclose(tensor.grad.host, reference.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{i}-{c.op}") for i, c in enumerate(CASES)])
def test_many_examples_at_once_stay_on_the_device(case):
    arrays = case.arrays(6)
    dims = tuple(None if is_shared(case, a) else 0 for a in arrays)
    given = [on_device(a if d is None else np.stack([a] * 3)) for a, d in zip(arrays, dims, strict=True)]
    expected, _ = run_minitorch(case, arrays, False)
    outputs = minitorch.vmap(lambda *xs: tuple(floats(case.call(Library(), *xs))), dims)(*given)
    for mine, other in zip(outputs, expected, strict=True):
        assert isinstance(mine._data, DeviceArray)
        np.testing.assert_allclose(mine._data.host, np.stack([other._data] * 3), rtol=1e-12, atol=1e-12)


def test_second_order_stays_on_the_device():
    x = on_device(np.array([0.5, -1.5, 2.0]), requires_grad=True)
    (slope,) = minitorch.autograd.grad((x**3).sum(), x, create_graph=True)
    (curvature,) = minitorch.autograd.grad(slope.sum(), x)
    assert isinstance(curvature._data, DeviceArray)
    np.testing.assert_allclose(curvature._data.host, 6 * np.array([0.5, -1.5, 2.0]))


@pytest.mark.parametrize("place", [on_device, minitorch.tensor])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: x.elu(n),
        lambda x, n: x.leaky_relu(n),
        lambda x, n: x.softplus(beta=n, threshold=n * 50),
        lambda x, n: x.norm(p=n),
    ],
)
def test_a_number_of_numpys_neither_widens_a_result_nor_is_an_array(call, place):
    x = np.linspace(-2, 2, 7).astype(np.float16)
    found, expected = (call(place(x), number) for number in (np.float32(0.5), 0.5))
    assert found.dtype == minitorch.float16
    assert found.tolist() == expected.tolist()


def test_the_standin_refuses_host_arrays():
    with pytest.raises(TypeError, match="host array"):
        DeviceArray(np.ones(3)) + np.ones(3)
    with pytest.raises(TypeError, match="host array"):
        np.where(DeviceArray(np.ones(3)) > 0, np.ones(3), 0)


def test_large_depthwise_convolutions_stay_on_the_device():
    arrays = [np.random.default_rng(i).normal(size=s) for i, s in enumerate([(2, 4, 70, 70), (4, 1, 3, 3)])]
    grads = []
    for make in (on_device, minitorch.tensor):
        x, w = (make(array, requires_grad=True) for array in arrays)
        minitorch.nn.functional.conv2d(x, w, padding=1, groups=4).sum().backward()
        grads.append([x.grad, w.grad])
    for mine, other in zip(*grads, strict=True):
        assert isinstance(mine, DeviceArray)
        np.testing.assert_allclose(mine.host, other, rtol=1e-10)


@pytest.mark.parametrize("name", ["airy_ai", "chebyshev_polynomial_v", "hermite_polynomial_h", "digamma"])
def test_special_functions_that_a_device_lacks_are_computed_from_copies(name, monkeypatch):
    ufuncs = DeviceArray.__array_ufunc__

    def only_those_of_numpy(self, ufunc, *args, **options):
        return ufuncs(self, ufunc, *args, **options) if hasattr(np, ufunc.__name__) else NotImplemented

    monkeypatch.setattr(DeviceArray, "__array_ufunc__", only_those_of_numpy)
    degrees = (np.array([0.0, 2.0, 3.0]),) if "polynomial" in name else ()
    arrays = (np.array([0.5, 1.5, 2.0]), *degrees)
    function = getattr(minitorch.special, name)
    native.meet(DeviceArray)
    try:
        found = function(*map(on_device, arrays))
        of_batches = minitorch.vmap(function)(*map(on_device, arrays))
    finally:
        native.forget(DeviceArray)
    for each in (found, of_batches):
        assert isinstance(each._data, DeviceArray)
        np.testing.assert_array_equal(each._data.host, function(*map(minitorch.tensor, arrays))._data)


def test_eigenvalues_that_a_device_lacks_are_computed_from_copies(monkeypatch):
    functions = DeviceArray.__array_function__

    def without(self, function, *args):
        lacks = function in (np.linalg.eig, np.linalg.eigvals)
        return NotImplemented if lacks else functions(self, function, *args)

    monkeypatch.setattr(DeviceArray, "__array_function__", without)
    array = np.random.default_rng(0).normal(size=(4, 3, 3))
    native.meet(DeviceArray)
    try:
        a = on_device(array, requires_grad=True)
        values = minitorch.linalg.eigvals(a)
        values.abs().sum().backward()
        vectors = minitorch.linalg.eig(on_device(array)).eigenvectors
        of_batches = minitorch.vmap(minitorch.linalg.eigvals)(on_device(array))
    finally:
        native.forget(DeviceArray)
    b = minitorch.tensor(array, requires_grad=True)
    expected = minitorch.linalg.eigvals(b)
    expected.abs().sum().backward()
    assert isinstance(a.grad, DeviceArray)
    np.testing.assert_allclose(a.grad.host, b.grad, rtol=1e-12)
    np.testing.assert_array_equal(values._data.host, expected._data)
    np.testing.assert_array_equal(of_batches._data.host, expected._data)
    np.testing.assert_array_equal(vectors._data.host, minitorch.linalg.eig(b).eigenvectors._data)


def test_running_extremes_of_batches_do_without_functions_that_a_device_lacks(monkeypatch):
    ufuncs = DeviceArray.__array_ufunc__

    def without(self, ufunc, method, *args, **options):
        return NotImplemented if method == "accumulate" else ufuncs(self, ufunc, method, *args, **options)

    monkeypatch.setattr(DeviceArray, "__array_ufunc__", without)
    array = np.random.default_rng(0).normal(size=(3, 9))
    native.meet(DeviceArray)
    try:
        found = minitorch.vmap(lambda a: a.cummax(0).values + a.logcumsumexp(0))(on_device(array))
    finally:
        native.forget(DeviceArray)
    a = minitorch.tensor(array)
    np.testing.assert_allclose(found._data.host, (a.cummax(1).values + a.logcumsumexp(1))._data, rtol=1e-12)


def test_ones_of_batches_are_made_without_telling_of_a_device(monkeypatch):
    functions = DeviceArray.__array_function__

    def strict(self, function, types, args, kwargs):
        assert "device" not in kwargs, "CuPy's functions do not know it"
        return functions(self, function, types, args, kwargs)

    monkeypatch.setattr(DeviceArray, "__array_function__", strict)
    found = minitorch.vmap(lambda a: minitorch.ones_like(a) * 2)(on_device(np.zeros((2, 3))))
    np.testing.assert_array_equal(found._data.host, np.full((2, 3), 2.0))
