"""Nodes made by hand, as a one-file engine makes them, inside the library's own graph."""

import numpy as np
import pytest

import minitorch
from minitorch import Tensor
from minitorch.ops import unbroadcast


def add(a, b):
    """The template of a first engine: compute, decide, construct, define _backward."""
    requires_grad = a.requires_grad or b.requires_grad
    out = Tensor(
        a.data + b.data, requires_grad=requires_grad, _prev=(a, b) if requires_grad else (), _op="my add"
    )
    if requires_grad:

        def _backward():
            if a.requires_grad:
                a.grad = (a.grad if a.grad is not None else 0) + unbroadcast(out.grad, a.data.shape)
            if b.requires_grad:
                b.grad = (b.grad if b.grad is not None else 0) + unbroadcast(out.grad, b.data.shape)

        out._backward = _backward
    return out


def mul(a, b):
    """The short form: parents and tag by position, grad added to in place."""
    out = Tensor(a.data * b.data, (a, b), "*")

    def _backward():
        if a.requires_grad:
            a.grad += unbroadcast(b.data * out.grad, a.shape)
        if b.requires_grad:
            b.grad += unbroadcast(a.data * out.grad, b.shape)

    out._backward = _backward
    return out


def exp(a):
    """And the shortest: nothing counts as 0."""
    out = Tensor(np.exp(a.data), (a,), "exp")

    def _backward():
        a.grad = (a.grad or 0) + out.data * out.grad

    out._backward = _backward
    return out


def leaves():
    x = Tensor(np.linspace(-1, 1, 6).reshape(2, 3), requires_grad=True)
    w = Tensor(np.array([0.5, -1.0, 2.0]), requires_grad=True)
    return x, w


def program(x, w, add, mul, exp):
    h = mul(x, w) if mul else x * w
    y = add(h, x) if add else h + x
    z = exp(y) if exp else y.exp()
    return (mul(z, h) if mul else z * h).sum() + (y * y).mean()


def test_by_hand_and_by_the_library_give_the_same():
    expected = leaves()
    program(*expected, None, None, None).backward()
    for ops in [(add, mul, exp), (add, None, None), (None, mul, None), (None, None, exp)]:
        found = leaves()
        program(*found, *ops).backward()
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.grad, b.grad, rtol=1e-12)


def test_what_such_a_node_says_of_itself():
    x, w = leaves()
    out = add(x, w)
    assert out._op == "my add"
    assert out._prev == (x, w)
    assert out.requires_grad
    assert not out.is_leaf
    assert mul(x, w)._op == "*"
    constant = Tensor([1.0])
    assert not add(constant, constant).requires_grad
    assert add(constant, constant)._prev == ()
    assert Tensor([1.0], (constant,), "+").is_leaf


def test_calling_backward_by_hand_adds_to_the_parents():
    x, w = leaves()
    out = mul(x, w)
    out.grad = np.ones((2, 3))
    out._backward()
    np.testing.assert_allclose(x.grad, np.broadcast_to(w.data, (2, 3)))
    np.testing.assert_allclose(w.grad, x.data.sum(0))
    out._backward()
    np.testing.assert_allclose(w.grad, 2 * x.data.sum(0))


def test_gradients_accumulate_and_the_graph_is_consumed():
    x, w = leaves()
    loss = mul(x, w).sum()
    loss.backward()
    once = x.grad.copy()
    mul(x, w).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_one_parent_twice():
    x, _ = leaves()
    mul(x, x).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * x.data)


def test_grad_as_a_result():
    x, w = leaves()
    (found,) = minitorch.autograd.grad(mul(x, w).sum(), [x])
    np.testing.assert_allclose(found.data, np.broadcast_to(w.data, (2, 3)))
    assert x.grad is None


def test_what_is_refused():
    x, w = leaves()
    with pytest.raises(RuntimeError, match="made by hand and has no _backward"):
        Tensor(x.data, (x,), "copy").sum().backward()
    with pytest.raises(RuntimeError, match=r"minitorch.op"):
        x._backward = lambda: None
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        minitorch.autograd.grad(mul(x, w).sum(), [x], create_graph=True)
    with pytest.raises(TypeError, match="minitorch.empty"):
        Tensor(2, 3)


def test_a_parent_keeps_the_gradient_it_had():
    x, w = leaves()
    x.grad = np.full((2, 3), 7.0)
    held = x.grad
    mul(x, w).sum().backward()
    assert x.grad is held
    np.testing.assert_allclose(held, 7.0 + np.broadcast_to(w.data, (2, 3)))
