"""The rarer operators beyond PyTorch's samples: names of results, other spellings, refusals, second order."""

import numpy as np
import pytest

import minitorch
from minitorch.autograd import gradcheck, gradgradcheck
from pytorch import torch


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (lambda m, x: m.cummax(x, 1), ("values", "indices")),
        (lambda m, x: x.kthvalue(2), ("values", "indices")),
        (lambda m, x: m.mode(x), ("values", "indices")),
        (lambda m, x: x.nanmedian(0), ("values", "indices")),
        (lambda m, x: m.aminmax(x), ("min", "max")),
        (lambda m, x: m.frexp(x), ("mantissa", "exponent")),
        (lambda m, x: m.histogram(x, 3), ("hist", "bin_edges")),
        (lambda m, x: m.linalg.lu(x), ("P", "L", "U")),
        (lambda m, x: m.linalg.lu_factor(x), ("LU", "pivots")),
        (lambda m, x: m.linalg.lu_factor_ex(x), ("LU", "pivots", "info")),
        (lambda m, x: m.linalg.inv_ex(x), ("inverse", "info")),
        (lambda m, x: m.linalg.cholesky_ex(x @ x.mT), ("L", "info")),
        (lambda m, x: m.linalg.lstsq(x, x), ("solution", "residuals", "rank", "singular_values")),
    ],
)
def test_results_have_pytorchs_names(call, fields):
    x = np.random.default_rng(0).normal(size=(3, 3))
    ours, theirs = call(minitorch, minitorch.tensor(x)), call(torch, torch.tensor(x))
    for field in fields:
        mine, other = getattr(ours, field), getattr(theirs, field).numpy()
        assert mine.shape == other.shape
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine.numpy(), other, atol=1e-12)


def test_axis_and_dim_are_two_names():
    x = minitorch.tensor([[3.0, float("nan"), 1.0], [2.0, 5.0, 4.0]])
    assert x.nansum(axis=1, keepdims=True).shape == x.nansum(dim=1, keepdim=True).shape == (2, 1)
    assert x.nanquantile(0.5, axis=0).equal(x.nanquantile(0.5, dim=0))
    assert x.cummin(axis=0).indices.equal(x.cummin(dim=0).indices)
    with pytest.raises(TypeError, match="axis and dim"):
        x.nansum(axis=0, dim=0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m, x: m.quantile(x, 0.5, interpolation="cubic"), RuntimeError),
        (lambda m, x: m.kthvalue(x, 9), RuntimeError),
        (lambda m, x: m.frac(x.long()), RuntimeError),
        (lambda m, x: m.gcd(x, x), RuntimeError),
        (lambda m, x: m.cross(x, x), RuntimeError),
        (lambda m, x: m.take(x, m.tensor([7])), IndexError),
        (lambda m, x: m.index_copy(x, 0, m.tensor([7]), x[:1]), IndexError),
        (lambda m, x: m.masked_scatter(x, x == x, x[:1]), RuntimeError),
        (lambda m, x: m.select_scatter(x, x, 0, 1), RuntimeError),
        (lambda m, x: m.scatter_reduce(x, 0, m.tensor([0]), x, "median"), RuntimeError),
        (lambda m, x: m.linalg.matrix_exp(x), RuntimeError),
        (lambda m, x: m.meshgrid(x, indexing="zz"), RuntimeError),
        (lambda m, x: m.bincount(x), RuntimeError),
        (lambda m, x: m.vsplit(x, 2), RuntimeError),
        (lambda m, x: m.addmm(x, x, x), RuntimeError),
        (lambda m, x: m.cdist(x, x), RuntimeError),
    ],
)
def test_what_does_not_fit_is_refused_with_pytorchs_kind_of_error(call, error):
    for library in (minitorch, torch):
        with pytest.raises(error):
            call(library, library.tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.quantile(0.3, 1),
        lambda x: minitorch.cov(x),
        lambda x: minitorch.corrcoef(x),
        lambda x: minitorch.renorm(x, 2, 0, 1.0),
        lambda x: minitorch.cdist(x, x + 1),
        lambda x: minitorch.trapezoid(x, minitorch.tensor([0.0, 1.0, 3.0, 4.0], dtype=minitorch.float64)),
        lambda x: minitorch.kron(x, x),
        lambda x: x.scatter_reduce(1, minitorch.tensor([[0, 0, 1, 3]]), x[:1], "mean"),
        lambda x: minitorch.linalg.householder_product(x.mT, x[:, 0]),
        lambda x: minitorch.linalg.lu_solve(*minitorch.linalg.lu_factor(x[:, :3]), x),
        lambda x: minitorch.linalg.cond(x),
        lambda x: minitorch.addcdiv(x, x, x + 5),
        lambda x: minitorch.special.ndtr(x),
        lambda x: minitorch.mvlgamma(x.abs() + 2, 3),
    ],
)
def test_compositions_have_derivatives_of_every_order(call):
    x = minitorch.tensor(np.random.default_rng(1).normal(size=(3, 4)), requires_grad=True)
    assert gradcheck(call, [x])
    assert gradgradcheck(call, [x], atol=1e-4)


@pytest.mark.parametrize("upper", [False, True])
def test_a_factor_has_its_gradient_in_the_triangle_that_is_read(upper):
    # PyTorch gives the other triangle one too, which moves nothing.
    numbers = np.random.default_rng(2).normal(size=(3, 3)) + 3 * np.eye(3)
    right = np.random.default_rng(3).normal(size=(3, 2))
    triangle = np.triu if upper else np.tril
    for call in (lambda m, b, f: m.cholesky_solve(b, f, upper), lambda m, b, f: m.cholesky_inverse(f, upper)):
        ours = minitorch.tensor(triangle(numbers), requires_grad=True)
        theirs = torch.tensor(triangle(numbers), requires_grad=True)
        call(minitorch, minitorch.tensor(right), ours).square().sum().backward()
        call(torch, torch.tensor(right), theirs).square().sum().backward()
        np.testing.assert_allclose(np.asarray(ours.grad), triangle(theirs.grad.numpy()), atol=1e-12)


SPREADS = [
    f"x.{name}({arguments})"
    for name in ("std", "var")
    for arguments in ("correction=9", "correction=10", "1, correction=3", "1, correction=4", "1, correction=3.5", "(0, 1), correction=9")
] + ["x[0, 0].std()", "x[:1].var(0)", "x[1].std(correction=3)", "m.std_mean(x, 1, correction=4)[0]"]  # fmt: skip


@pytest.mark.parametrize("line", SPREADS)
def test_spreads_without_degrees_of_freedom(line):
    """nan or inf, with PyTorch's gradient and a warning."""
    found = []
    for m in (minitorch, torch):
        x = m.tensor(
            [[1.0, 2.0, 4.0], [3.0, 3.0, 3.0], [0.0, -1.0, 5.0]], dtype=m.float64, requires_grad=True
        )
        with pytest.warns(UserWarning, match="degrees of freedom"), np.errstate(all="ignore"):
            out = eval(line, {"m": m, "x": x})
        with np.errstate(all="ignore"):
            out.sum().backward()
        found.append((out.detach().numpy(), np.asarray(x.grad)))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs)
