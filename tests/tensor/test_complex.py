"""Complex tensors: values and gradients are PyTorch's, ops without a meaning for them say so.

PyTorch's own complex samples of every operator run in test_op_db.py; the rows of the table in test_table.py.
"""

import numpy as np
import pytest

import minitorch
from minitorch import nn
from pytorch import torch

Z = np.array([1 + 2j, -0.5 + 0.3j, 0.25 - 1j])
W = np.array([0.5 - 1j, 2 + 0.1j, -1 - 0.7j])
X = np.array([0.5, -1.5, 2.0])

PROGRAMS = {
    "arithmetic": lambda m, z, w, x: (z * w - z / w + 2j * z - (1 - z) ** 2 + z**1.5).abs(),
    "real beside complex": lambda m, z, w, x: (x * z + x / w + x * 2j + (3 - 1j) ** x).abs() + x,
    "power": lambda m, z, w, x: m.view_as_real(z**w + x.abs() ** w),
    "functions": lambda m, z, w, x: m.view_as_real(
        z.exp() + w.log() + z.sqrt() + w.sin() * z.cos() + z.tanh() + w.reciprocal() + z.rsqrt() + w.sigmoid()
    ),
    "parts": lambda m, z, w, x: z.real * w.imag + z.angle() + w.conj().imag + m.sgn(z).real,
    "polar": lambda m, z, w, x: m.polar(z.abs(), x) * w,
    "products": lambda m, z, w, x: m.stack(
        [m.dot(z, w), m.vdot(z, w), z.prod(), z.mean(), m.einsum("i,i->", z, w)]
    ),
    "matmul": lambda m, z, w, x: m.outer(z, w) @ m.outer(w, z).mH @ x.to(z.dtype),
    "shapes": lambda m, z, w, x: m.cat([z, w.flip(0), z[1:]]).view(2, 4).t().unbind(1)[1],
    "where": lambda m, z, w, x: m.where(x > 0, z, w * 2).cumsum(0),
    "norms": lambda m, z, w, x: z.norm() + w.norm(1) + (z * 2).norm(3),
    "fft": lambda m, z, w, x: m.fft.fft(z) * m.fft.ifft(w, norm="ortho") + m.fft.fft(x),
    "spectrum": lambda m, z, w, x: m.fft.irfft(m.fft.rfft(x, 8) * z.sum(), 8) + m.fft.hfft(w, 8),
    "filter": lambda m, z, w, x: m.fft.ifftshift(m.fft.fftshift(m.fft.fft2(m.outer(z, w)))),
    "written": lambda m, z, w, x: written(m, z, w),
    "cast": lambda m, z, w, x: x.to(m.complex128) * z,
}


def written(m, z, w):
    out = z * 2
    out[0] = w[1] ** 2
    return out


def run(m, program, weights=None):
    make = torch.tensor if m is torch else minitorch.tensor
    inputs = [make(a, requires_grad=True) for a in (Z, W, X)]
    out = program(m, *inputs)
    rng = np.random.default_rng(0)
    start = rng.normal(size=tuple(out.shape))
    if m.is_complex(out):
        start = start + 1j * rng.normal(size=tuple(out.shape))
    gradients = m.autograd.grad(out, inputs, make(start), allow_unused=True)
    return out, gradients


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_pytorchs(name):
    ours, mine = run(minitorch, PROGRAMS[name])
    theirs, others = run(torch, PROGRAMS[name])
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().resolve_conj().numpy(), rtol=1e-12)
    for a, b in zip(mine, others, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.dtype == b.numpy().dtype
            np.testing.assert_allclose(a.numpy(), b.resolve_conj().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_their_gradients_agree_with_differences(name):
    inputs = tuple(minitorch.tensor(a, requires_grad=True) for a in (Z, W, X))

    def function(z, w, x):
        return PROGRAMS[name](minitorch, z, w, x)

    assert minitorch.gradcheck(function, inputs)
    assert minitorch.gradgradcheck(function, inputs)


def test_gradcheck_sees_a_missing_conjugate():
    wrong = minitorch.op(lambda g, out, z: g * 2 * z, name="wrong")(lambda z: z * z)
    z = minitorch.tensor(Z, requires_grad=True)
    assert not minitorch.gradcheck(wrong, z, raise_exception=False)
    right = minitorch.op(lambda g, out, z: g * 2 * np.conjugate(z), name="right")(lambda z: z * z)
    assert minitorch.gradcheck(right, z)


def test_the_gradient_goes_downhill():
    target = minitorch.tensor(W)
    z = minitorch.tensor(Z, requires_grad=True)
    optimizer = minitorch.optim.SGD([z], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        (z - target).abs().square().sum().backward()
        optimizer.step()
    np.testing.assert_allclose(z.detach().numpy(), W, atol=1e-4)
    assert z.grad.dtype == np.complex128


def test_a_complex_loss_needs_a_gradient_to_start_from():
    z = minitorch.tensor(Z, requires_grad=True)
    (z * 2).sum().backward(minitorch.tensor(1j))
    np.testing.assert_allclose(z.grad, np.full(3, 2j))


@pytest.mark.parametrize(
    "call",
    [
        lambda z: z.relu(), lambda z: z.max(), lambda z: z.sort(), lambda z: z.floor(), lambda z: z > 0,
        lambda z: z.clamp(min=0), lambda z: z.softmax(0), lambda z: z.var(), lambda z: z.argmax(),
        lambda z: minitorch.linalg.svd(z.reshape(1, 3)), lambda z: nn.functional.gelu(z), lambda z: z.maximum(z),
    ],
)  # fmt: skip
def test_what_has_no_meaning_for_complex_numbers_is_refused(call):
    for tracked in (True, False):
        with pytest.raises(RuntimeError, match="not offered for complex numbers"):
            call(minitorch.tensor(Z, requires_grad=tracked))


def test_other_refusals():
    z = minitorch.tensor(Z, requires_grad=True)
    with pytest.raises(RuntimeError, match="imaginary part is 0"):
        minitorch.tensor(X).imag
    with pytest.raises(RuntimeError, match="real signal"):
        minitorch.fft.rfft(z)
    with pytest.raises(RuntimeError, match="norm is"):
        minitorch.fft.fft(z, norm="other")
    with pytest.raises(RuntimeError, match="length 2"):
        minitorch.view_as_complex(minitorch.zeros(3))
    with pytest.raises(RuntimeError, match="complex"):
        minitorch.zeros(2, dtype=minitorch.complex64).normal_()


def test_infinite_parts_stay_where_they_are():
    z = minitorch.complex(minitorch.tensor([1.0, np.inf]), minitorch.tensor([np.inf, 2.0]))
    assert z.tolist() == [complex(1, np.inf), complex(np.inf, 2)]


@pytest.mark.parametrize("n", [4, 5])
def test_frequencies(n):
    for name in ("fftfreq", "rfftfreq"):
        ours, theirs = getattr(minitorch.fft, name)(n, 0.5), getattr(torch.fft, name)(n, 0.5)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        assert ours.dtype == np.float32


def test_the_length_of_all_gradients_together():
    z = minitorch.tensor(np.array([3 + 4j]), requires_grad=True)
    (z.abs() * 10).sum().backward()
    assert nn.utils.clip_grad_norm_([z], 1.0).item() == pytest.approx(10)
    np.testing.assert_allclose(abs(z.grad), 1.0, rtol=1e-5)
