"""Transposed convolutions, compiled: strides that divide the kernel and do not, at sizes that vary, against eager."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import minitorch as mt
from minitorch.nn import functional as F

# kernel, and what else the function takes
CASES = [
    (4, {"stride": 2, "padding": 1}),
    (3, {"stride": 2, "padding": 1, "output_padding": 1}),
    (3, {"stride": 2, "groups": 2}),
    (2, {"stride": 2}),
    (1, {"stride": 2}),
    (2, {"stride": 3, "padding": 1}),
    (5, {"stride": 3, "padding": 2, "output_padding": 2}),
    (3, {"padding": 1, "dilation": 2}),
    (3, {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2}),
    ((3, 4), {"stride": (2, 3), "padding": (1, 0), "dilation": (3, 1)}),
]


@pytest.mark.parametrize(("kernel", "how"), CASES, ids=str)
def test_forward_and_gradients_are_eagers(kernel, how):
    mt.manual_seed(0)
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    w = mt.randn(4, 3, *kernel, requires_grad=True)

    def step(x):
        x = x.detach().requires_grad_()
        w.grad = None
        y = F.conv_transpose2d(x, w, **how)
        return y, *mt.autograd.grad(y.sin().sum(), (x, w))

    compiled = mt.compile(step)
    for size in [(2, 4, 5, 4), (2, 4, 5, 4), (3, 4, 7, 5), (5, 4, 2, 9)]:
        x = mt.randn(*size)
        for got, expected in zip(compiled(x), step(x), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=2e-4, atol=2e-4)
    assert compiled.compilations == 2


def test_zeros_between_results_are_not_multiplied():
    layer = mt.nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1, bias=False)
    compiled = mt.compile(lambda x: layer(x))
    x = mt.randn(4, 8, 16, 16)
    compiled(x), compiled(x)
    needed = 2 * 4 * 8 * 8 * 16 * 17**2  # each result meets 16 taps; some more are cut off at the border
    contraction = next(line for line in str(compiled.explain()).splitlines() if "µs contract" in line)
    assert f"{needed:,} flops" in contraction
