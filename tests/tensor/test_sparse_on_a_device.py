"""Sparse tensors on a GPU, or on one that does not exist (tests/support/standin_cupy.py): what they give on the CPU."""

import numpy as np
import pytest

import minitorch
import standin_cupy
from minitorch import nn

cuda = pytest.fixture(autouse=True)(standin_cupy.gpu_or_standin)


def values(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def thin(d, seed=0, shape=(4, 5), requires_grad=False):
    array = values(*shape, seed=seed)
    array[np.abs(array) < 0.7] = 0
    return minitorch.tensor(array, device=d, requires_grad=requires_grad)


def twice_named(d, requires_grad=False):
    held = minitorch.tensor(values(6), device=d, requires_grad=requires_grad)
    return minitorch.sparse_coo_tensor([[0, 1, 1, 3, 1, 0], [2, 0, 0, 4, 1, 2]], held, (4, 5))


def dense(d, *shape, seed=1, requires_grad=False):
    return minitorch.tensor(values(*shape, seed=seed), device=d, requires_grad=requires_grad)


def gradients_of_a_product(d):
    x, y = thin(d, requires_grad=True), dense(d, 5, 3, requires_grad=True)
    (minitorch.sparse.mm(x.to_sparse(), y) * dense(d, 4, 3)).sum().backward()
    return [x.grad, y.grad]


def gradients_of_values(d):
    held = dense(d, 6, requires_grad=True)
    x = minitorch.sparse_coo_tensor([[0, 1, 1, 3, 1, 0], [2, 0, 0, 4, 1, 2]], held, (4, 5))
    ((x @ dense(d, 5, 2)).square().sum() + (x.coalesce().to_dense() ** 2).sum()).backward()
    return [held.grad]


def trained(optimiser):
    def run(d):
        minitorch.manual_seed(0)
        table = nn.Embedding(7, 3, sparse=True).to(d)
        updates = optimiser(table.parameters())
        for seed in range(4):
            rows = minitorch.tensor(np.random.default_rng(seed).integers(0, 7, 5), device=d)
            updates.zero_grad()
            table(rows).square().sum().backward()
            assert table.weight.grad.is_sparse
            updates.step()
        return [table.weight]

    return run


PROGRAMS = {
    "to_sparse": lambda d: [thin(d).to_sparse(), thin(d).to_sparse(1), thin(d).to_sparse(0)],
    "csr": lambda d: [thin(d).to_sparse_csr().crow_indices(), thin(d).to_sparse_csr().col_indices()],
    "made by rows": lambda d: [
        minitorch.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0], (2, 3), device=d)
    ],
    "made there": lambda d: [minitorch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (4,), device=d)],
    "made of tensors there": lambda d: [
        minitorch.sparse_coo_tensor(minitorch.tensor([[1, 0]], device=d), dense(d, 2, 3), (4, 3))
    ],
    "moved": lambda d: [thin("cpu").to_sparse().to(d), twice_named("cpu").to(d).coalesce()],
    "coalesce": lambda d: [twice_named(d).coalesce(), twice_named(d).coalesce().values()],
    "indices": lambda d: [twice_named(d).coalesce().indices()],
    "mm": lambda d: [minitorch.sparse.mm(twice_named(d), dense(d, 5, 3)), thin(d).to_sparse() @ dense(d, 5)],
    "dense @ sparse": lambda d: [dense(d, 3, 4) @ twice_named(d)],
    "sparse @ sparse": lambda d: [thin(d).to_sparse() @ thin(d, shape=(5, 4), seed=3).to_sparse()],
    "add": lambda d: [twice_named(d) + thin(d).to_sparse(), dense(d, 4, 5) + twice_named(d)],
    "mul": lambda d: [
        thin(d).to_sparse() * thin(d, seed=5).to_sparse(),
        thin(d).to_sparse() * dense(d, 4, 5),
        2 * twice_named(d),
    ],
    "sum": lambda d: [twice_named(d).sum(), minitorch.sparse.sum(twice_named(d), dim=0)],
    "softmax": lambda d: [
        minitorch.sparse.softmax(thin(d).to_sparse(), dim=1),
        minitorch.sparse.log_softmax(thin(d).to_sparse(), dim=0),
    ],
    "cat": lambda d: [minitorch.cat([thin(d).to_sparse(), twice_named(d)], 0)],
    "parts": lambda d: [
        twice_named(d)[1],
        thin(d).to_sparse().index_select(0, minitorch.tensor([2, 0], device=d)),
    ],
    "transposed": lambda d: [twice_named(d).t(), thin(d).to_sparse().transpose(0, 1)],
    "mask": lambda d: [dense(d, 4, 5).sparse_mask(thin(d).to_sparse())],
    "gradients of a product": gradients_of_a_product,
    "gradients of values": gradients_of_values,
    "SparseAdam": trained(lambda ps: minitorch.optim.SparseAdam(list(ps), lr=0.1)),
    "SGD": trained(lambda ps: minitorch.optim.SGD(ps, lr=0.1)),
    "SGD with momentum": trained(lambda ps: minitorch.optim.SGD(ps, lr=0.1, momentum=0.9)),
    "Adagrad": trained(lambda ps: minitorch.optim.Adagrad(ps, lr=0.1)),
    "spdiags": lambda d: [minitorch.sparse.spdiags(dense(d, 2, 3), minitorch.tensor([0, 1]), (3, 3))],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sparse_tensors_do_the_same_there(name):
    for mine, other in zip(PROGRAMS[name]("cuda"), PROGRAMS[name]("cpu"), strict=True):
        mine, other = map(minitorch.as_tensor, (mine, other))
        assert mine.is_cuda
        assert other.is_cpu
        assert mine.layout == other.layout
        if mine.layout == minitorch.sparse_coo:
            assert mine._indices().is_cuda
            assert mine._values().is_cuda
            assert mine.is_coalesced() == other.is_coalesced()
        mine, other = (each.detach().to_dense().cpu().numpy() for each in (mine, other))
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64", "complex64", "complex128")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_named_twice_is_added_up_in_any_dtype(kind):
    found = []
    for d in ("cuda", "cpu"):
        held = minitorch.tensor(np.array([1, 1, 1, 0, 100]).astype(kind), device=d)
        x = minitorch.sparse_coo_tensor([[0, 1, 1, 2, 1], [0, 0, 0, 1, 0]], held, (3, 3))
        into = minitorch.zeros(3, dtype=kind, device=d)
        added = into.index_add(0, minitorch.tensor([0, 0, 2, 1, 0], device=d), held)
        product = x @ minitorch.ones(3, 2, dtype=kind, device=d) if kind != "bool" else held
        found.append([each.cpu().numpy() for each in (x.coalesce().to_dense(), added, product)])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_halves_are_added_up_in_float32():
    ones = minitorch.ones(4096, device="cuda", dtype=minitorch.float16)
    row = ones[None].to_sparse()
    assert (row @ ones[:, None]).item() == 4096
    twice = minitorch.sparse_coo_tensor(np.zeros((1, 4096), np.int64), ones, (1,))
    assert twice.coalesce().values().item() == 4096


def test_more_places_than_can_be_counted_are_refused():
    x = minitorch.sparse_coo_tensor([[0, 2**31], [5, 5]], [1.0, 2.0], (2**33, 2**33))
    with pytest.raises(RuntimeError, match="more places than can be counted"):
        x.coalesce()


def test_where_they_are_made():
    with minitorch.device("cuda"):
        assert minitorch.sparse_coo_tensor((3,)).is_cuda
        assert minitorch.sparse_coo_tensor([[0]], [1.0], (2,)).is_cuda
    x = thin("cuda").to_sparse()
    np.testing.assert_array_equal(
        x[minitorch.tensor([2, 0])].to_dense().cpu().numpy(), thin("cpu").numpy()[[2, 0]]
    )
    for dense_axes in (0, 1):
        assert minitorch.tensor([True, False]).to_sparse(dense_axes).to_dense().tolist() == [True, False]


def test_they_come_back_and_tell_where_they_are():
    x = twice_named("cuda")
    assert str(x.device) == "cuda:0"
    assert "device='cuda:0'" in repr(x)
    back = x.cpu()
    assert back.is_cpu
    assert back.is_sparse
    np.testing.assert_array_equal(back.to_dense().numpy(), twice_named("cpu").to_dense().numpy())
