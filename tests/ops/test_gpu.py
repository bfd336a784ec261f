"""Every case of the table on a real GPU: the same numbers as on the CPU. Skipped where there is none."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minitorch
from cases import floats, run_minitorch
from minitorch.nn import functional as F
from minitorch.proof.table import CASES
from tensors import weights

cupy = pytest.importorskip("cupy")
try:
    cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError:
    pytest.skip("CuPy finds no GPU", allow_module_level=True)


class OnGpu:
    """minitorch, whose tensor() makes tensors on the GPU: for constants inside a case."""

    def __getattr__(self, name):
        if name == "tensor":
            return lambda data, **kwargs: minitorch.tensor(data, **kwargs).cuda()
        return getattr(minitorch, name)


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{i}-{c.op}") for i, c in enumerate(CASES)])
def test_same_numbers_on_the_gpu(case):
    arrays = case.arrays(6)
    expected, references = run_minitorch(case, arrays, case.differentiable)
    tensors = [minitorch.tensor(a).cuda() for a in arrays]
    for tensor in tensors:
        if case.differentiable and tensor.is_floating_point():
            tensor.requires_grad_()
    outputs = floats(case.call(OnGpu(), *tensors))
    for mine, other in zip(outputs, expected, strict=True):
        assert mine.device == "cuda:0"
        np.testing.assert_allclose(mine._data.get(), other._data, rtol=1e-8, atol=1e-8)
    if not case.differentiable:
        return
    chosen = [o for o in outputs if o.requires_grad]
    minitorch.autograd.backward(chosen, [cupy.asarray(weights(o.shape)) for o in chosen])
    for tensor, reference in zip(tensors, references, strict=True):
        if reference.grad is not None:
            np.testing.assert_allclose(tensor.grad.get(), reference.grad, rtol=1e-7, atol=1e-7)


def test_moving_there_and_back_is_differentiable():
    x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    (x.cuda().exp().cpu() * 2).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * np.exp([1.0, 2.0]), rtol=1e-6)


def test_second_order_on_the_gpu():
    x = minitorch.tensor([0.5, -1.5, 2.0], dtype=minitorch.float64).cuda().requires_grad_()
    (slope,) = minitorch.autograd.grad((x**3).sum(), x, create_graph=True)
    (curvature,) = minitorch.autograd.grad(slope.sum(), x)
    np.testing.assert_allclose(curvature._data.get(), 6 * np.array([0.5, -1.5, 2.0]))


def test_printing_and_item_on_the_gpu():
    x = minitorch.tensor([1.0, 2.0]).cuda()
    assert repr(x) == "tensor([1., 2.], device='cuda:0')"
    assert x.sum().item() == 3.0
    assert x.cpu().numpy().tolist() == [1.0, 2.0]


SMALL_OPS = {
    "add": lambda x, w, labels: x + x,
    "number": lambda x, w, labels: x * 2.5,
    "exp": lambda x, w, labels: x.exp(),
    "gelu": lambda x, w, labels: F.gelu(x),
    "softmax": lambda x, w, labels: minitorch.softmax(x, -1),
    "layer_norm": lambda x, w, labels: F.layer_norm(x, x.shape[-1:], w[0, : x.shape[1]].contiguous()),
    "sum": lambda x, w, labels: x.sum(),
    "rows": lambda x, w, labels: x.sum(dim=-1),
    "columns": lambda x, w, labels: x.mean(0, keepdim=True),
    "matmul": lambda x, w, labels: x @ w[: x.shape[1]],
    "linear": lambda x, w, labels: F.linear(x, w[:5, : x.shape[1]].contiguous(), w[0, :5]),
    "cross_entropy": lambda x, w, labels: F.cross_entropy(x, labels[: len(x)]),
}


@pytest.mark.parametrize("name", SMALL_OPS)
def test_small_ops_again_and_again(name):
    call, draw = SMALL_OPS[name], np.random.default_rng(0)
    host = [minitorch.tensor(draw.normal(size=shape).astype(np.float32)) for shape in ((60, 64), (64, 64))]
    labels = minitorch.tensor(draw.integers(0, 60, 60))
    (x, w), there = (each.cuda() for each in host), labels.cuda()
    stream = minitorch.cuda.Stream()

    def as_expected(cut):
        found = call(cut(x), w, there)
        np.testing.assert_allclose(
            found._data.get(), call(cut(host[0]), host[1], labels)._data, rtol=2e-4, atol=2e-5
        )
        return found

    with ThreadPoolExecutor(1) as pool:  # (a thread that has not met the GPU)
        for turn in range(6):
            kept = [as_expected(lambda t: t), as_expected(lambda t: t)]
            assert kept[0]._data.data.ptr != kept[1]._data.data.ptr
            as_expected(lambda t: t[1:, 1:])  # neither in order nor aligned
            as_expected(lambda t: t.reshape(-1)[2 : 2 + 59 * 64].reshape(59, 64))  # not aligned
            as_expected(lambda t: t.T.contiguous().T[:, :60])
            if turn > 3:
                pool.submit(as_expected, lambda t: t).result()
                with minitorch.cuda.stream(stream):
                    as_expected(lambda t: t)
                    stream.synchronize()
