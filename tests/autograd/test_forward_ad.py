"""Dual numbers against PyTorch's: the same programs in both libraries."""

import warnings

import numpy as np
import pytest

import minitorch
from pytorch import torch


def duals(m, forward_ad, program):
    x, t = m.tensor([1.0, 2.0, -0.5]), m.tensor([1.0, 10.0, 0.25])
    with forward_ad.dual_level(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own deprecations
        return forward_ad.unpack_dual(program(m, forward_ad.make_dual(x, t)))


def written(m, x):
    y = x.clone()
    y[0] = x[1] * 3
    view = y[1:]
    view *= x[:2]
    return y.add_(x)


PROGRAMS = {
    "the dual itself": lambda m, x: x,
    "a product": lambda m, x: x * x.sin() + x.sum(),
    "written in place": written,
    "several results": lambda m, x: m.cat(m.split(x, [1, 2])[::-1]) * x,
    "a layer": lambda m, x: m.nn.functional.layer_norm(x.reshape(1, 3), (3,)).log_softmax(-1),
    "rules that are transposed": lambda m, x: m.linalg.cholesky(m.outer(x, x) + m.eye(3)),
    "cut off": lambda m, x: x.detach() * 2,
    "a constant": lambda m, x: m.ones(2),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_duals_move_as_pytorchs(program):
    mine = duals(minitorch, minitorch.autograd.forward_ad, program)
    other = duals(torch, torch.autograd.forward_ad, program)
    np.testing.assert_allclose(mine.primal.detach().numpy(), other.primal.numpy(), rtol=1e-5, atol=1e-6)
    assert (mine.tangent is None) == (other.tangent is None)
    if mine.tangent is not None:
        np.testing.assert_allclose(mine.tangent.numpy(), other.tangent.numpy(), rtol=1e-5, atol=1e-6)


def test_backwards_through_a_tangent():
    for m in (minitorch, torch):
        forward_ad = m.autograd.forward_ad
        w = m.tensor([1.0, 2.0], requires_grad=True)
        with forward_ad.dual_level():
            x = forward_ad.make_dual(w, m.tensor([1.0, 0.0]))
            value, tangent = forward_ad.unpack_dual(x**3 * w)
        (slope,) = m.autograd.grad(tangent.sum(), w)
        assert value.tolist() == [1.0, 16.0]
        assert slope.tolist() == [9.0, 0.0]  # the tangent is 3·x²·w·t


def test_under_no_grad():
    for m in (minitorch, torch):
        forward_ad = m.autograd.forward_ad
        w = m.tensor([1.0, 2.0], requires_grad=True)
        with m.no_grad(), forward_ad.dual_level():
            value, tangent = forward_ad.unpack_dual(forward_ad.make_dual(w, m.tensor([1.0, 0.0])) * w)
        assert (value.tolist(), tangent.tolist()) == ([1.0, 4.0], [1.0, 0.0])
        assert not value.requires_grad
        assert not tangent.requires_grad
        assert m.is_grad_enabled()


def test_levels():
    forward_ad, x = minitorch.autograd.forward_ad, minitorch.ones(2)
    with pytest.raises(RuntimeError, match="no level"):
        forward_ad.make_dual(x, x)
    with pytest.raises(RuntimeError, match="no level"):
        forward_ad.exit_dual_level()
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, x) * 2
        with pytest.raises(RuntimeError, match="do not nest"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match="like its tensor"):
            forward_ad.make_dual(x, minitorch.ones(3))
        with pytest.raises(ValueError, match="floating-point"):
            forward_ad.make_dual(minitorch.arange(2), x)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="freed"):
            forward_ad.unpack_dual(y)
    assert forward_ad.unpack_dual(y).tangent is None
    with pytest.raises(TypeError, match="expected a Tensor"):
        forward_ad.unpack_dual(1.0)
