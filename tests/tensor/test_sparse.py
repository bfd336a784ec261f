"""Sparse tensors beside PyTorch's: made, asked, printed, computed with, differentiated; and what refuses them."""

import copy
import pickle

import numpy as np
import pytest

import minitorch
from minitorch.compiler.call.compiled import CompileError, CompileWarning
from pytorch import torch

# (PyTorch's own, about its sparse tensors: some are in beta, some old names will go.)
pytestmark = pytest.mark.filterwarnings("ignore:.*[Ss]parse.*:UserWarning")

PLACES = [[0, 1, 1, 0, 2], [2, 0, 2, 2, 1]]  # (0, 2) twice
VALUES = np.array([3.0, 4.0, 5.0, 1.0, -2.0])
DENSE = np.random.default_rng(0).normal(size=(3, 3))


def made(m, requires_grad=True):
    values = m.tensor(VALUES, requires_grad=requires_grad)
    return m.sparse_coo_tensor(m.tensor(PLACES), values, (3, 3)), values


def plain(x):
    """The numbers of a result: of a sparse one its indices and values too."""
    if not x.is_sparse:
        return [x.detach().numpy()]
    x = x.detach().coalesce()
    return [x.indices().numpy(), x.values().numpy(), x.to_dense().numpy()]


# Each: of the library, a sparse matrix, a dense one.
EXPRESSIONS = {
    "to_dense": lambda m, s, d: s.to_dense(),
    "coalesce": lambda m, s, d: s.coalesce(),
    "values": lambda m, s, d: s.coalesce().values(),
    "s @ d": lambda m, s, d: s @ d,
    "d @ s": lambda m, s, d: d @ s.t(),
    "s @ s": lambda m, s, d: s.coalesce() @ s.t(),
    "mv": lambda m, s, d: s @ d[:, 0],
    "mm": lambda m, s, d: m.mm(s, d),
    "spmm": lambda m, s, d: m.spmm(s, d),
    "sparse.mm": lambda m, s, d: m.sparse.mm(s, d),
    "sparse.addmm": lambda m, s, d: m.sparse.addmm(d, s, d, beta=2.0, alpha=3.0),
    "addmm": lambda m, s, d: m.addmm(d, s, d),
    "sum": lambda m, s, d: s.sum(),
    "sparse.sum": lambda m, s, d: m.sparse.sum(s),
    "sparse.sum(0)": lambda m, s, d: m.sparse.sum(s, dim=0),
    "sparse.sum(1)": lambda m, s, d: m.sparse.sum(s, 1),
    "sparse.sum both": lambda m, s, d: m.sparse.sum(s, dim=[0, 1]),
    "sparse.softmax": lambda m, s, d: m.sparse.softmax(s, 1),
    "sparse.log_softmax": lambda m, s, d: m.sparse.log_softmax(s, 0),
    "s * 2": lambda m, s, d: s * 2,
    "2 * s": lambda m, s, d: 2 * s,
    "s / 2": lambda m, s, d: s / 2,
    "-s": lambda m, s, d: -s,
    "s + s": lambda m, s, d: s + s.t(),
    "s - s": lambda m, s, d: s - 2 * s.t(),
    "d + s": lambda m, s, d: d + s,
    "s * d": lambda m, s, d: s * d.detach(),
    "t": lambda m, s, d: s.t(),
    "transpose": lambda m, s, d: s.transpose(0, 1),
    "double": lambda m, s, d: s.float().double(),
    "clone": lambda m, s, d: s.clone(),
    "cat": lambda m, s, d: m.cat([s.detach(), s.detach()]),
    "to_sparse": lambda m, s, d: d.to_sparse(),
    "to_sparse(1)": lambda m, s, d: d.to_sparse(1),
    "sparse_mask": lambda m, s, d: d.sparse_mask(s.detach().coalesce()),
    "s[1]": lambda m, s, d: s.detach()[1],
    "index_select": lambda m, s, d: s.detach().index_select(1, m.tensor([2, 0, 2])),
    "abs": lambda m, s, d: s.detach().abs(),
    "sqrt": lambda m, s, d: s.detach().abs().sqrt(),
    "pow": lambda m, s, d: s.detach() ** 2,
    "relu": lambda m, s, d: m.relu(s.detach()),
    "graph convolution": lambda m, s, d: m.relu(m.spmm(s, m.mm(d, d))),
}


def reduced(x):
    return ((x.to_dense() if x.is_sparse else x) * 1.5).tanh().sum()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_gradients(name):
    found = []
    for m in (minitorch, torch):
        (s, values), d = made(m), m.tensor(DENSE, requires_grad=True)
        result = EXPRESSIONS[name](m, s, d)
        gradients = []
        if result.requires_grad:
            reduced(result).backward()
            gradients = [None if t.grad is None else m.as_tensor(t.grad) for t in (values, d)]
        found.append([plain(result), [None if g is None else g.to_dense().numpy() for g in gradients]])
    (ours, our_gradients), (theirs, their_gradients) = found
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    for a, b in zip(our_gradients, their_gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: (
            s.is_sparse,
            repr(s.layout),
            tuple(s.shape),
            s.dim(),
            s.numel(),
            len(s),
            s._nnz(),
            s.sparse_dim(),
        ),
        lambda s: (
            s.dense_dim(),
            s.is_coalesced(),
            s.coalesce().is_coalesced(),
            s.t().is_coalesced(),
            s.is_leaf,
        ),
        lambda s: ((s + s)._nnz(), (s.coalesce() + s.coalesce()).is_coalesced(), (s @ s).is_coalesced()),
        lambda s: (s._indices().tolist(), s._values().tolist(), s.requires_grad, s.detach().requires_grad),
        lambda s: repr(s.detach().float()),
        lambda s: repr(s.detach().double()),
        lambda s: repr(s.detach().coalesce().float().to_dense().to_sparse(1)),
        lambda s: repr(s.detach().float() * 0.1),
        lambda s: s.detach().mul_(2)._values().tolist(),
        lambda s: s.detach().zero_()._nnz(),
        lambda s: (s.detach().zero_(), s._nnz())[1],
        lambda s: s.detach().to_dense().add_(s.detach(), alpha=-0.5).tolist(),
    ],
)
def test_what_a_sparse_tensor_tells(ask):
    ours, theirs = (ask(made(m)[0]) for m in (minitorch, torch))
    if isinstance(theirs, str):
        theirs = theirs.replace("dtype=torch.", "dtype=")  # dtypes are NumPy's here
    assert ours == theirs


def test_it_is_made_by_old_and_new_names():
    for m in (minitorch, torch):
        index, value = m.tensor([[0, 1], [1, 0]]), m.tensor([2.0, 3.0])
        old = m.sparse.FloatTensor(index, value, m.Size([2, 2]))
        new = m.sparse_coo_tensor(index, value)
        assert new.to_dense().tolist() == [[0, 2], [3, 0]]
        assert old.to_dense().tolist() == new.to_dense().tolist()
        assert m.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0, 0, 0], [0, 0, 0]]
        rows = m.sparse_coo_tensor([[2, 0]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
        assert (rows.sparse_dim(), rows.dense_dim()) == (1, 1)
        assert rows.to_dense().tolist() == [[3, 4], [0, 0], [1, 2]]
        band = m.sparse.spdiags(m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), m.tensor([0, 1]), (3, 3))
        assert band.to_dense().tolist() == [[1, 5, 0], [0, 2, 6], [0, 0, 3]]
        with pytest.raises(RuntimeError):
            m.sparse_coo_tensor([[0, 1]], [1.0], (2,))
        for name, dtype in (("DoubleTensor", "float64"), ("LongTensor", "int64")):
            kind = getattr(m.sparse, name)
            made_so = kind(index, value.double() if "Double" in name else value.long(), m.Size([2, 2]))
            assert str(made_so.dtype).endswith(dtype)
    assert minitorch.sparse.FloatTensor(2, 3).shape == (2, 3)
    for wrong in ([[5], [0]], [[-1], [0]]):  # which PyTorch looks at only if it is asked to
        with pytest.raises(RuntimeError, match="out of range"):
            minitorch.sparse_coo_tensor(wrong, [1.0], (2, 2))


def test_a_leaf_gets_a_sparse_gradient():
    for m in (minitorch, torch):
        leaf = m.sparse_coo_tensor(PLACES, VALUES, (3, 3), requires_grad=True)
        m.sparse.mm(leaf, m.tensor(DENSE)).sum().backward()
        assert leaf.is_leaf
        assert leaf.grad.is_sparse
        np.testing.assert_allclose(leaf.grad.to_dense()[0, 2].item(), DENSE[2].sum())
        assert leaf.grad.coalesce().indices().tolist() == [[0, 1, 1, 2], [2, 0, 2, 1]]


def test_a_gradient_penalty_through_a_product():
    found = []
    for m in (minitorch, torch):
        s, d = made(m, requires_grad=False)[0], m.tensor(DENSE, requires_grad=True)
        (g,) = m.autograd.grad(m.tanh(m.sparse.mm(s, d)).sum(), d, create_graph=True)
        (g**2).sum().backward()
        found.append(m.as_tensor(d.grad).numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def test_what_keeps_no_zeros_is_refused():
    s = made(minitorch)[0].detach()
    for wrong in (s.exp, s.cos, lambda: s + 1, lambda: s == s, lambda: s.softmax(1), s.inverse):
        with pytest.raises((RuntimeError, AttributeError), match="to_dense|broadcast"):
            wrong()
    with pytest.raises(TypeError, match="to_dense"):
        s.numpy()
    with pytest.raises(TypeError, match="to_dense"):
        np.asarray(s)
    with pytest.raises(RuntimeError, match="coalesce"):
        s.values()
    with pytest.raises(RuntimeError, match="dense"):
        minitorch.ones(2).coalesce()


def test_copies_and_pickles():
    s = made(minitorch)[0].detach()
    for again in (copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.clone()):
        assert again.is_sparse
        again.mul_(0)
        np.testing.assert_array_equal(s._values().numpy(), VALUES)


def test_a_compiled_function_refuses_and_runs_eagerly():
    d = minitorch.tensor(DENSE)
    adjacency = made(minitorch)[0].detach()
    eager = lambda a, x: (a @ x).relu().sum()
    compiled = minitorch.compile(eager)
    dense = adjacency.to_dense()
    assert compiled(dense, d).item() == pytest.approx(eager(dense, d).item())
    assert compiled.compilations == 1
    with pytest.warns(CompileWarning, match="sparse"):
        assert compiled(adjacency, d).item() == eager(adjacency, d).item()
    with pytest.raises(CompileError, match="sparse"):
        minitorch.compile(eager, fullgraph=True)(adjacency, d)
    assert compiled(dense, d).item() == pytest.approx(eager(dense, d).item())
    closing = minitorch.compile(lambda x: adjacency @ x)
    with pytest.warns(CompileWarning, match="sparse"):
        np.testing.assert_array_equal(closing(d).numpy(), (adjacency @ d).numpy())
    making = minitorch.compile(lambda x: x.to_sparse().to_dense() + 1)
    with pytest.warns(CompileWarning, match="sparse"):
        np.testing.assert_array_equal(making(d).numpy(), DENSE + 1)


# --- by rows --------------------------------------------------------------------------------------------------


def test_matrices_kept_by_rows():
    dense = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], np.float32)
    ours, theirs = (m.tensor(dense).to_sparse_csr() for m in (minitorch, torch))
    assert repr(ours) == repr(theirs)
    assert (ours.is_sparse, ours.is_sparse_csr, repr(ours.layout)) == (False, True, "torch.sparse_csr")
    for part in ("crow_indices", "col_indices", "values", "to_dense"):
        np.testing.assert_array_equal(getattr(ours, part)().numpy(), getattr(theirs, part)().numpy())
    assert [repr(x.layout) for x in (ours * 2, ours + ours, ours.to_sparse(), ours.double(), ours.detach())] == [
        "torch.sparse_csr", "torch.sparse_csr", "torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csr",
    ]  # fmt: skip
    assert ours.to_dense().to_sparse(layout=minitorch.sparse_csr).is_sparse_csr
    for refused in (
        lambda: ours.indices(),
        lambda: minitorch.ones(2).to_sparse_csr(),
        lambda: ours.to_sparse().crow_indices(),
    ):
        with pytest.raises(RuntimeError):
            refused()
    with pytest.raises(NotImplementedError, match="to_sparse_csr"):
        ours.to_sparse_csc()


def test_products_of_matrices_kept_by_rows():
    results = []
    for m in (minitorch, torch):
        values, d = (
            m.tensor([2.0, 3.0, 4.0], requires_grad=True),
            m.arange(6.0).reshape(3, 2).requires_grad_(),
        )
        a = m.sparse_csr_tensor(m.tensor([0, 1, 3]), m.tensor([1, 0, 2]), values, (2, 3))
        out = a @ d
        (out**2).sum().backward()
        square = (a.detach() @ a.detach().to_dense().T.to_sparse_csr()).to_dense()
        more = m.sparse.mm(a.detach(), d.detach()), a.detach().matmul(m.ones(3))
        results.append(
            [np.asarray(t.detach()) for t in (out, square, *more)] + [np.asarray(t.grad) for t in (values, d)]
        )
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)


def test_batches_of_sparse_matrices():
    results = []
    for m in (minitorch, torch):
        x, y = m.arange(24.0).reshape(2, 3, 4).to_sparse(), m.arange(16.0).reshape(2, 4, 2).requires_grad_()
        out = m.bmm(x, y)
        (out * m.arange(12.0).reshape(2, 3, 2)).sum().backward()
        results.append([np.asarray(out.detach()), np.asarray(y.grad)])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
