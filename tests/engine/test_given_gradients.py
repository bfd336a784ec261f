"""The gradient that a person gives backward() stays theirs: read without a copy, but never kept and never written into."""

import contextlib
import sys

import numpy as np
import pytest

import minitorch
from minitorch import autograd
from minitorch.engine import backward as walk
from minitorch.nn import functional as F
from minitorch.ops import native
from minitorch.tensor.torch_types import use_pytorchs_types
from some_gpu import REAL, gpu, numbers
from standin import DeviceArray

__all__ = ["gpu"]

# Few elements are copied, many are lent; on a device all are.
SIDES = {"few": 4, "many": 96, "on a device": 4}


@pytest.fixture(params=SIDES)
def make(request):
    """What makes a square tensor of numbers from a start on, or one like another."""
    side = SIDES[request.param]
    device, enabled = "cpu", minitorch.are_native_ops_enabled()
    if request.param == "on a device":
        request.getfixturevalue("gpu")
        device = "cuda"
        if not REAL:
            minitorch.set_native_ops(False)  # there is nothing to launch kernels on
            native.meet(DeviceArray)

    def make(start, requires_grad=False, like=None):
        shape = (side, side) if like is None else like.shape
        count = int(np.prod(shape))
        values = (np.arange(count, dtype=np.float32) % 7 + start).reshape(shape)
        return minitorch.tensor(values).to(device).detach().requires_grad_(requires_grad)

    yield make
    native.forget(DeviceArray)
    minitorch.set_native_ops(enabled)


@pytest.fixture(params=[False, True], ids=["own", "PyTorch's"])
def pytorchs(request):
    """Both faces."""
    use_pytorchs_types(request.param)
    yield request.param
    use_pytorchs_types(False)


PROGRAMS = {
    "sum": lambda x, y: x + y,
    "twice": lambda x, y: x + x + y,
    "difference": lambda x, y: x - y,
    "row": lambda x, y: x[0] + y,
    "leaf": lambda x, y: x,
    "clone": lambda x, y: x.clone(),
    "flat": lambda x, y: x.reshape(-1),
    "views": lambda x, y: (x + y).reshape(-1).view(2, -1).T,
    "rows": lambda x, y: x[1:],
    "expanded": lambda x, y: x.unsqueeze(0).expand(3, *x.shape),
    "cat": lambda x, y: minitorch.cat([x, y], 1),
    "stack": lambda x, y: minitorch.stack([x, y]),
    "one of several": lambda x, y: (x + y).split(2)[0],
    "gelu": lambda x, y: F.gelu(x) * y,
    "matmul": lambda x, y: x @ y,
    "written into": lambda x, y: (x + y).add_(x),
    "diagonal": lambda x, y: (x + y).diagonal(),
    "where": lambda x, y: minitorch.where(x > 2, x, y),
    "dropout": lambda x, y: F.dropout(x + y, 0.0),
}


def wanted(program, x, y, g):
    """The gradients, of copies of everything."""
    x, y = (each.detach().clone().requires_grad_() for each in (x, y))
    found = autograd.grad(program(x, y), [x, y], g.clone(), materialize_grads=True)
    return [numbers(each) for each in found]


def check(leaves, expected):
    for leaf, other in zip(leaves, expected, strict=True):
        mine = np.zeros(leaf.shape) if leaf.grad is None else numbers(leaf.grad)
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_neither_kept_nor_written_into(make, pytorchs, name):
    program = PROGRAMS[name]
    x, y = make(1, True), make(2, True)
    g = make(3, like=program(x, y))
    given, expected = numbers(g), wanted(program, x, y, g)
    root = program(x, y)
    root.backward(g)
    if not pytorchs:
        root_is_leaf = root is x
        np.testing.assert_array_equal(numbers(root.grad), expected[0] if root_is_leaf else given)
    for leaf in (x, y):
        if leaf.grad is not None:
            leaf.grad[...] = 99.0
    np.testing.assert_array_equal(numbers(g), given)

    x.grad = y.grad = None
    kept = program(x, y)
    kept.backward(g, retain_graph=True)
    g.mul_(0)  # the giver goes on with it
    check((x, y), expected)
    if not pytorchs and kept is not x:
        np.testing.assert_array_equal(numbers(kept.grad), given)
    program(x, y).backward(make(3, like=kept))  # and what was kept is added to
    check((x, y), [2 * each for each in expected])
    assert not numbers(g).any()


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_tensor_on_the_way_has_its_own(make, name):
    x, y = make(1, True), make(2, True)
    middle = PROGRAMS[name](x, y)
    g = make(3, like=middle)
    given = numbers(g)
    first = middle + 0
    views = first.reshape(-1), first.T
    views[0].reshape(middle.shape).backward(g)  # the last one is gone when this returns
    g.mul_(0)
    if middle is not x:
        np.testing.assert_array_equal(numbers(middle.grad), given)
    np.testing.assert_array_equal(numbers(first.grad), given)
    np.testing.assert_array_equal(numbers(views[0].grad), given.reshape(-1))
    assert views[1].grad is None
    views[0].grad[...] = 5.0
    np.testing.assert_array_equal(numbers(first.grad), given)
    first.grad[...] = 7.0
    if middle is not x:
        np.testing.assert_array_equal(numbers(middle.grad), given)


def test_of_several_roots(make, pytorchs):
    x, y = make(1, True), make(2, True)
    g, h = make(3), make(4)
    given, other = numbers(g), numbers(h)
    roots = [x + y, x.reshape(x.shape), x - y]
    autograd.backward(roots, [g, g, h])
    g.zero_(), h.zero_()
    np.testing.assert_array_equal(numbers(x.grad), 2 * given + other)
    np.testing.assert_array_equal(numbers(y.grad), given - other)
    if not pytorchs:
        for root, seed in zip(roots, (given, given, other), strict=True):
            np.testing.assert_array_equal(numbers(root.grad), seed)


def test_a_retained_gradient_is_no_alias(make):
    use_pytorchs_types()
    try:
        x, g = make(1, True), make(3)
        given = numbers(g)
        middle = x + 0
        out = middle.reshape(-1)
        middle.retain_grad(), out.retain_grad()
        out.backward(g.reshape(-1))
        g.zero_()
        np.testing.assert_array_equal(numbers(middle.grad), given)
        np.testing.assert_array_equal(numbers(out.grad), given.reshape(-1))
        assert (x + 0).grad is None
    finally:
        use_pytorchs_types(False)


@pytest.mark.parametrize("where", ["leaf", "middle", "root"])
def test_hooks_get_arrays_of_their_own(make, pytorchs, where):
    x, g = make(1, True), make(3)
    given, seen = numbers(g), []
    middle = x + 0
    root = middle.reshape(-1)

    def hook(gradient):
        seen.append(gradient)
        gradient.mul_(2)
        g.zero_()  # and may write into what was given, which was read before

    {"leaf": x, "middle": middle, "root": root}[where].register_hook(hook)
    root.backward(g.reshape(-1))
    np.testing.assert_array_equal(numbers(seen[0]).reshape(given.shape), 2 * given)
    np.testing.assert_array_equal(numbers(x.grad), 2 * given)
    seen[0].zero_()
    np.testing.assert_array_equal(numbers(x.grad), 2 * given)
    assert not numbers(g).any()


def test_rules_of_a_persons_get_arrays_of_their_own(make, pytorchs):
    def rule(g, out, x):
        g *= 2
        return g

    doubled = minitorch.op(rule, name="doubled_there")(lambda x: x * 2)

    class Doubled(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.mul_(2)

    for program in (doubled, Doubled.apply, lambda x: Doubled.apply(x + 0).reshape(-1)):
        x = make(1, True)
        root = program(x)
        g = make(3, like=root)
        given = numbers(g)
        root.backward(g)
        np.testing.assert_array_equal(numbers(g), given)
        np.testing.assert_array_equal(numbers(x.grad), 2 * given.reshape(x.shape))


def test_it_may_be_a_gradient_that_is_added_to(make, pytorchs):
    x, y, g = make(1, True), make(2, True), make(3)
    given = numbers(g)
    (x + 0).backward(g)
    (x + y).backward(x.grad)
    np.testing.assert_array_equal(numbers(x.grad), 2 * given)
    np.testing.assert_array_equal(numbers(y.grad), given)
    (y + x.T).backward(x.grad)
    np.testing.assert_array_equal(numbers(y.grad), 3 * given)
    np.testing.assert_array_equal(numbers(x.grad), 2 * given + 2 * given.T)


def test_it_may_be_a_tensor_of_the_graph(make):
    x = make(1, True)
    root = x.exp()
    root.backward(root.detach())
    np.testing.assert_allclose(numbers(x.grad), np.exp(2 * numbers(x)), rtol=1e-4)
    x.grad[...] = 0.0
    root.grad[...] = 0.0
    np.testing.assert_allclose(numbers(root), np.exp(numbers(x)), rtol=1e-4)


def test_where_a_rule_fails_too(make, monkeypatch):
    x, g = make(1, True), make(3)
    given = numbers(g)
    middle = x + 0
    root = middle.reshape(-1)

    pull_back = walk.Walk.pull_back

    def fail(self, node, g):
        if node is middle:
            raise RuntimeError("half-way")
        pull_back(self, node, g)

    monkeypatch.setattr(walk.fast_rules, "pull_back", lambda *given: False)
    monkeypatch.setattr(walk.Walk, "pull_back", fail)
    with contextlib.suppress(RuntimeError):
        root.backward(g.reshape(-1))
    g.zero_()
    assert x.grad is None
    np.testing.assert_array_equal(numbers(root.grad), given.reshape(-1))
    np.testing.assert_array_equal(numbers(middle.grad), given)


@pytest.mark.parametrize("make", ["many", "on a device"], indirect=True)
def test_a_copy_is_made_where_somebody_can_see_it(make, monkeypatch):
    copies = []
    real = walk.copied
    for module in (walk, sys.modules[minitorch.Tensor.__module__]):
        monkeypatch.setattr(module, "copied", lambda array: copies.append(array) or real(array))
    x, g = make(1, True), make(3)

    def count(call):
        del copies[:]
        x.grad = None
        call()
        return len(copies)

    def kept():
        y = F.gelu(x)
        y.backward(g)

    assert count(lambda: (F.gelu(x) * 2.0).backward(g)) == 0
    assert count(lambda: (x * x).backward(g)) == 0
    assert count(lambda: (x + 0).backward(g)) == 1  # the leaf's
    assert count(kept) == 1
    use_pytorchs_types()
    try:
        assert count(kept) == 0  # nobody can ask for y.grad
    finally:
        use_pytorchs_types(False)
