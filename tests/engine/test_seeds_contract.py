"""The node as the seeds define it: data, grad, _prev, _op, _backward, requires_grad."""

import numpy as np
import pytest

import minitorch
from minitorch import Tensor
from pytorch import torch


def leaf(*values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def walk_by_hand(root):
    """The seeds' backward(): build a topological order over _prev, then call _backward in reverse."""
    topo, visited = [], set()

    def build(v):
        if v in visited:
            return
        visited.add(v)
        for p in v._prev:
            build(p)
        topo.append(v)

    build(root)
    root.grad = np.ones_like(root.data)
    for v in reversed(topo):
        v._backward()


# --- the six fields -----------------------------------------------------------------------------


def test_a_leaf_has_the_six_fields():
    x = Tensor([1.0, 2.0])
    assert isinstance(x.data, np.ndarray)
    assert x.grad is None
    assert x._prev == ()
    assert x._op == ""
    assert x._backward() is None
    assert x.requires_grad is False
    assert Tensor([1.0], requires_grad=True).requires_grad is True


def test_a_result_remembers_its_parents_and_its_op():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    assert type(y._prev) is tuple
    assert [id(p) for p in y._prev] == [id(x), id(w)]
    assert y._op == "mul"
    assert (x + w)._op == "add"
    assert (x @ w)._op == "matmul"
    assert y.exp()._op == "exp"
    assert isinstance(y._op, str)


def test_a_number_is_no_parent():
    x = leaf(1.0)
    assert [id(p) for p in (x * 2)._prev] == [id(x)]


def test_a_parent_used_twice_is_listed_twice():
    x = leaf(3.0)
    assert [id(p) for p in (x * x)._prev] == [id(x), id(x)]


def test_data_is_the_array_itself():
    x = Tensor([1.0, 2.0])
    assert x.data is x.data
    x.data[0] = 7.0
    assert x.tolist() == [7.0, 2.0]


def test_the_constructor_copies():
    a = np.array([1.0, 2.0])
    x = Tensor(a)
    a[0] = 9.0
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (1.5, np.float32), ([1.5, 2], np.float32), (3, np.int64), ([1, 2], np.int64), (True, np.bool_),
        (np.ones(2), np.float64), (np.ones(2, np.float16), np.float16), (np.ones(2, np.int8), np.int8),
        ([], np.float32), ((1.0, 2.0), np.float32), (np.float64(2.0), np.float64), (range(3), np.int64),
    ],
)  # fmt: skip
def test_the_constructor_takes_any_dtype(given, dtype):
    assert Tensor(given).data.dtype == dtype


@pytest.mark.parametrize("kind", [np.matrix, np.ma.MaskedArray, np.memmap, np.recarray])
def test_special_kinds_of_numpy_arrays_become_plain_ones(kind):
    # A matrix's `*` is a matrix product: a rule written g * y would go wrong.
    x = Tensor(np.ones((2, 2)).view(kind), requires_grad=True)
    assert type(x._data) is np.ndarray
    (x * x).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_nonsense_is_refused_with_a_type_error():
    with pytest.raises(TypeError, match="tensor"):
        Tensor("words")
    with pytest.raises(TypeError, match="tensor"):
        Tensor([None, 1.0])
    with pytest.raises(ValueError, match="same length"):
        Tensor([[1.0, 2.0], [3.0]])


# --- requires_grad ------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_a_result_requires_grad_if_any_parent_does(a, b):
    x, y = Tensor([1.0], requires_grad=a), Tensor([2.0], requires_grad=b)
    for out in (x + y, x * y, x @ y, minitorch.cat([x, y]), minitorch.where(x > 0, x, y), x.lerp(y, 0.5)):
        assert out.requires_grad is (a or b)
        assert bool(out._prev) is (a or b)


def test_a_constant_result_has_no_graph():
    y = Tensor([1.0]) * Tensor([2.0])
    assert (y._prev, y._op, y.grad_fn) == ((), "", None)
    y._backward()
    assert y.grad is None


def test_parents_that_want_none_get_no_gradient():
    x, w = Tensor([1.0, 2.0]), leaf(3.0, 4.0)
    (x * w).sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 2.0]


def test_requires_grad_is_for_floats_only():
    for make in (
        lambda: Tensor([1, 2], requires_grad=True),
        lambda: Tensor([True], requires_grad=True),
        lambda: Tensor([1, 2]).requires_grad_(),
        lambda: setattr(Tensor([1, 2]), "requires_grad", True),
    ):
        with pytest.raises(RuntimeError, match="floating-point"):
            make()


def test_requires_grad_can_be_assigned_to_a_leaf():
    x = Tensor([1.0])
    x.requires_grad = True
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0]
    x.requires_grad = False
    assert (x * 3).requires_grad is False


def test_requires_grad_of_a_result_cannot_be_taken_away():
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad_(False)
    y.requires_grad = True  # says nothing new


# --- the walk by hand ---------------------------------------------------------------------------


def diamond(x, y):
    shared = x * y
    return (shared.exp() + shared.sin() * x).sum()


def nested_diamonds(x, y):
    out = x + y
    for _ in range(5):
        out = out * 0.5 + (out * x).tanh()
    return out.sum()


def broadcasts(x, y):
    return ((x.reshape(3, 1) + y) * x).mean(axis=0).max()


def uses_itself(x, y):
    return (x * x * x + y - y).sum()


def many_results(x, y):
    a, b, c = (x * y).unbind()
    first, rest = y.split([1, 2])
    return a * b + c * first.sum() + (rest * rest).sum()


def sorted_values(x, y):
    return (x.sort().values * y).sum()


GRAPHS = [diamond, nested_diamonds, broadcasts, uses_itself, many_results, sorted_values]


@pytest.mark.parametrize("graph", GRAPHS)
def test_walking_prev_and_calling_backward_gives_what_backward_gives(graph):
    values = (0.3, -1.2, 0.7), (1.1, 0.4, -0.6)
    x, y = (leaf(*v) for v in values)
    graph(x, y).backward()
    a, b = (leaf(*v) for v in values)
    walk_by_hand(graph(a, b))
    np.testing.assert_allclose(a.grad, x.grad, rtol=1e-14)
    np.testing.assert_allclose(b.grad, y.grad, rtol=1e-14)


def test_a_hand_walk_leaves_the_graph_in_place():
    x = leaf(2.0)
    y = (x * x).sum()
    walk_by_hand(y)
    walk_by_hand(y)
    # The root's grad was set anew, the intermediate's accumulated: 1·4, then (1 + 1)·4 more.
    assert x.grad.tolist() == [12.0]


def test_one_step_of_backward_by_hand():
    x, w = leaf(2.0, 3.0), leaf(5.0, 7.0)
    y = x * w
    y._backward()  # without a gradient of its own there is nothing to hand on
    assert x.grad is None
    y.grad = np.array([1.0, 10.0])
    y._backward()
    assert x.grad.tolist() == [5.0, 70.0]
    assert w.grad.tolist() == [2.0, 30.0]
    y._backward()
    assert x.grad.tolist() == [10.0, 140.0]  # it contributes: adds, never replaces


# --- hashing and equality -----------------------------------------------------------------------


def test_tensors_hash_by_identity():
    a, b = Tensor([1.0, 2.0]), Tensor([1.0, 2.0])
    assert hash(a) == hash(a)
    assert len({a, b, a}) == 2
    assert a in {a}
    assert b not in {a}
    counts = {a: "first", b: "second"}
    assert (counts[a], counts[b]) == ("first", "second")


def test_a_large_set_of_equal_tensors_keeps_them_apart():
    tensors = [Tensor([1.0, 1.0]) for _ in range(1000)]
    assert len(set(tensors)) == 1000
    assert all(t in set(tensors) for t in tensors)


def test_equality_is_element_by_element():
    a, b = Tensor([1.0, 2.0, 3.0]), Tensor([1.0, 5.0, 3.0])
    same = a == b
    assert isinstance(same, Tensor)
    assert same.dtype == np.bool_
    assert same.tolist() == [True, False, True]
    assert (a != b).tolist() == [False, True, False]
    assert (a == 1).tolist() == [True, False, False]
    assert (a == [1.0, 0.0, 3.0]).tolist() == [True, False, True]
    assert (a == None) is False  # noqa: E711
    assert (a != None) is True  # noqa: E711
    assert (a == "text") is False


def test_equal_gives_one_bool():
    a = Tensor([1.0, 2.0])
    assert a.equal(Tensor([1.0, 2.0])) is True
    assert a.equal(Tensor([1.0, 3.0])) is False
    assert a.equal(Tensor([[1.0, 2.0]])) is False
    assert minitorch.equal(a, a) is True
    assert Tensor([float("nan")]).equal(Tensor([float("nan")])) is False
    assert Tensor([]).equal(Tensor([])) is True


# --- the seeds' rules and programs --------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (4, 1), (4, 3), (2, 4, 3), (0, 3), (1, 0, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_grad_shape_always_equals_data_shape(shape, dtype):
    partner_shape = np.broadcast_shapes(shape, (2, 4, 3)) if 0 not in shape else shape
    x = Tensor(np.full(shape, 0.5), requires_grad=True, dtype=dtype)
    partner = Tensor(np.full(partner_shape, 0.25), requires_grad=True, dtype=dtype)
    ((x + partner) * x - partner / (x + 2)).sum().backward()
    for t in (x, partner):
        assert t.grad.shape == t.data.shape
        assert t.grad.dtype == t.data.dtype == dtype


def test_bug_3_the_broadcast_axis_is_summed():
    a, b = Tensor(np.ones(3), requires_grad=True), Tensor(np.ones((4, 3)), requires_grad=True)
    (a + b).sum().backward()
    assert a.grad.tolist() == [4.0, 4.0, 4.0]
    assert b.grad.tolist() == np.ones((4, 3)).tolist()


def test_forgetting_to_clear_gradients_accumulates_them():
    w = leaf(2.0)
    for n in (1, 2, 3):
        (w * 5).sum().backward()
        assert w.grad.tolist() == [5.0 * n]
    w.grad = None
    (w * 5).sum().backward()
    assert w.grad.tolist() == [5.0]
    w.grad = np.zeros_like(w.data)
    (w * 5).sum().backward()
    assert w.grad.tolist() == [5.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_lab_against_pytorch(dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(dtype) for s in [(20, 5), (5, 7), (7,), (7, 3), (3,)]]
    x, *ours = [Tensor(a, requires_grad=i > 0) for i, a in enumerate(arrays)]
    W1, b1, W2, b2 = ours
    f = x @ W1 + b1
    g = f.relu()
    h = g @ W2 + b2
    loss = h.sum()
    loss.backward()

    tx, *theirs = [torch.tensor(a, requires_grad=i > 0) for i, a in enumerate(arrays)]
    tW1, tb1, tW2, tb2 = theirs
    expected = (torch.relu(tx @ tW1 + tb1) @ tW2 + tb2).sum()
    expected.backward()
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=rtol)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad, other.grad.numpy(), rtol=rtol, atol=rtol)


def test_the_xor_tutorial_trains_and_agrees_with_pytorch():
    rng = np.random.RandomState(42)
    X = Tensor(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32), requires_grad=False)
    y = Tensor(np.array([[0], [1], [1], [0]], dtype=np.float32), requires_grad=False)
    W1 = Tensor(rng.randn(2, 8).astype(np.float32) * 0.5, requires_grad=True)
    b1 = Tensor(np.zeros((1, 8), dtype=np.float32), requires_grad=True)
    W2 = Tensor(rng.randn(8, 1).astype(np.float32) * 0.5, requires_grad=True)
    b2 = Tensor(np.zeros((1, 1), dtype=np.float32), requires_grad=True)
    parameters = [W1, b1, W2, b2]
    losses = []
    for _ in range(1000):
        h = (X @ W1 + b1).relu()
        pred = h @ W2 + b2
        diff = pred + (-y)
        loss = (diff * diff).mean()
        losses.append(loss.data.item())
        for p in parameters:
            p.grad = np.zeros_like(p.data)
        loss.backward()
        for p in parameters:
            p.data -= 0.1 * p.grad
    assert losses[0] > 0.2
    assert losses[-1] < 0.01
    assert all(p.data.dtype == p.grad.dtype == np.float32 for p in parameters)

    twins = [torch.tensor(p.data, requires_grad=True) for p in parameters]
    hidden = torch.relu(torch.tensor(X.data) @ twins[0] + twins[1])
    (hidden @ twins[2] + twins[3] - torch.tensor(y.data)).square().mean().backward()
    for p in parameters:
        p.grad = None
    ((X @ W1 + b1).relu() @ W2 + b2 - y).square().mean().backward()
    for p, twin in zip(parameters, twins, strict=True):
        np.testing.assert_allclose(p.grad, twin.grad.numpy(), atol=1e-5)


def test_walking_grad_fn_by_hand():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    loss = (x * w).exp().sum()
    assert loss.grad_fn.name() == "SumBackward0"
    exp = loss.grad_fn.next_functions[0][0]
    mul = exp.next_functions[0][0]
    assert (exp.name(), mul.name()) == ("ExpBackward0", "MulBackward0")
    (to_x, place_x), (to_w, place_w) = mul.next_functions
    assert (to_x.name(), place_x, place_w) == ("AccumulateGrad", 0, 0)
    assert to_x.variable is x
    assert to_w.variable is w
    assert to_x.next_functions == ()
