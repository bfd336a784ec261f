"""vmap that computes all examples at once: PyTorch's numbers, the sum for what is shared, and the loop where it must."""

import warnings

import numpy as np
import pytest

import minitorch
from minitorch.func.batched import Batched
from pytorch import torch

vmap, ones = minitorch.vmap, minitorch.ones


def numbers(tree):
    """Everything in a nested result, as arrays in order."""
    if isinstance(tree, (tuple, list, dict)):
        return [n for each in (tree.values() if isinstance(tree, dict) else tree) for n in numbers(each)]
    return [np.array(tree.detach().tolist())]


def agree(program):
    results = []
    for m in (minitorch, torch):
        m.manual_seed(0)
        with warnings.catch_warnings():
            if m is torch:
                warnings.simplefilter("ignore")  # its own deprecations, and ops it loops over
            results.append(numbers(program(m, m.func)))
    for mine, other in zip(*results, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)


def data(m, *shape, seed=0):
    return m.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def written(x):
    y = x.clone()
    y[0] = x[1]
    y[1:3] *= 2
    return y.add_(1).sum()


def per_sample(m, f, net, x, targets):
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(p, x, target):
        return m.nn.functional.cross_entropy(
            f.functional_call(net, p, (x.unsqueeze(0),)), target.unsqueeze(0)
        )

    return f.vmap(f.grad(loss), in_dims=(None, 0, 0))(parameters, x, m.tensor(targets))


def convolutional(m, f):
    net = m.nn.Sequential(
        m.nn.Conv2d(1, 2, 3), m.nn.ReLU(), m.nn.MaxPool2d(2), m.nn.Flatten(), m.nn.Linear(8, 3)
    )
    return per_sample(m, f, net, data(m, 4, 1, 6, 6), [0, 2, 1, 0])


def ensemble(m, f):
    models = [m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 2)) for _ in range(4)]
    parameters, _ = f.stack_module_state(models)
    parameters = {name: p.detach() for name, p in parameters.items()}
    loss = lambda p, x: f.functional_call(models[0], p, (x,)).pow(2).mean()
    return f.vmap(f.grad(loss), in_dims=(0, None))(parameters, data(m, 5, 3))


PROGRAMS = {
    "two levels": lambda m, f: f.vmap(f.vmap(lambda x, y: (x * y).sum() + x.max()))(
        data(m, 4, 3, 5), data(m, 4, 3, 5, seed=1)
    ),
    "levels that cross": lambda m, f: f.vmap(
        lambda x: f.vmap(lambda y: x @ y)(data(m, 3, 5, 2, seed=1)), out_dims=1
    )(data(m, 4, 6, 5)),
    "written in place": lambda m, f: f.vmap(written)(data(m, 4, 5)),
    "gradients of that": lambda m, f: f.vmap(f.grad(written))(data(m, 4, 5)),
    "jacobians": lambda m, f: f.vmap(f.jacrev(lambda x: m.softmax(x, -1)))(data(m, 4, 5)),
    "jacobians, forwards": lambda m, f: f.vmap(f.jacfwd(lambda x: m.softmax(x, -1)))(data(m, 4, 5)),
    "hessians": lambda m, f: f.vmap(f.hessian(lambda x: (x.sin() * x.prod()).sum()))(data(m, 4, 5)),
    "jacobian around": lambda m, f: f.jacrev(f.vmap(lambda x: (x**2).sum()))(data(m, 4, 5)),
    "hessian around": lambda m, f: f.hessian(lambda x: f.vmap(lambda y: (y**3).sum())(x).sin().sum())(
        data(m, 3, 2)
    ),
    "gradient around": lambda m, f: f.grad(
        lambda w: (f.vmap(f.grad(lambda x: (w * x).sin().sum()))(data(m, 4, 5)) ** 2).sum()
    )(data(m, 5, seed=2)),
    "over tangents": lambda m, f: f.vmap(lambda t: f.jvp(m.sin, (data(m, 5),), (t,))[1])(
        data(m, 4, 5, seed=1)
    ),
    "over cotangents": lambda m, f: f.vmap(f.vjp(lambda x: x.sin().cumsum(0), data(m, 5))[1])(
        data(m, 4, 5, seed=1)
    ),
    "rows of a table": lambda m, f: f.vmap(lambda i: m.nn.functional.embedding(i, data(m, 7, 3)))(
        m.tensor([[0, 1], [2, 6], [5, 5]])
    ),
    "an index of its own": lambda m, f: f.vmap(lambda x, i, j: x[:, i, 1:] + x[0, j, 1:])(
        data(m, 3, 5, 6, 2), m.tensor([[0, 3], [1, 1], [5, 2]]), m.tensor([0, 1, 5])
    ),
    "one number as an index": lambda m, f: f.vmap(lambda x, i: m.index_select(x, 1, i))(
        data(m, 3, 5, 6), m.tensor([[0], [1], [5]])
    ),
    "out of a shared tensor": lambda m, f: f.vmap(lambda i: m.gather(data(m, 5), 0, i))(
        m.tensor([[0, 3], [4, 2]])
    ),
    "masks": lambda m, f: f.vmap(lambda x: m.where(x > 0, x, x * 0.1).masked_fill(x < -1, 7.0))(
        data(m, 4, 5)
    ),
    "sorted": lambda m, f: f.vmap(lambda x: (m.sort(x)[0], *m.topk(x, 2)))(data(m, 4, 5)),
    "kernels": lambda m, f: f.vmap(
        lambda w: m.nn.functional.conv2d(data(m, 2, 2, 6, 6), w, padding=1, stride=2)
    )(data(m, 4, 3, 2, 3, 3)),
    "other axes": lambda m, f: f.vmap(lambda x: x.cumsum(0), in_dims=-1, out_dims=-1)(data(m, 4, 5)),
    "a result that is shared": lambda m, f: f.vmap(lambda x: (x * 2, m.ones(2)), out_dims=(0, None))(
        data(m, 4, 5)
    ),
    "a constant": lambda m, f: f.vmap(lambda x: m.ones(2))(data(m, 4, 5)),
    "in chunks": lambda m, f: f.vmap(
        lambda x: {"a": x.sum(), "b": (x * 2,)}, chunk_size=3, out_dims={"a": 0, "b": (1,)}
    )(data(m, 8, 5)),
    "attention": lambda m, f: f.vmap(
        lambda q: m.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    )(data(m, 4, 2, 5, 3)),
    "normalised": lambda m, f: f.vmap(lambda x: m.nn.functional.group_norm(x, 2))(data(m, 4, 2, 6, 3)),
    "batch norm in evaluation": lambda m, f: f.vmap(m.nn.BatchNorm1d(3).eval())(data(m, 4, 5, 3)),
    "batch norm that keeps nothing": lambda m, f: f.vmap(m.nn.BatchNorm1d(3, track_running_stats=False))(
        data(m, 4, 5, 3)
    ),
    "batch norm with buffers of its own": lambda m, f: f.vmap(
        lambda mean, var, x: (m.nn.functional.batch_norm(x, mean, var, training=True), mean, var)
    )(m.zeros(4, 3), m.ones(4, 3), data(m, 4, 5, 3)),
    "per-sample gradients": convolutional,
    "an ensemble": ensemble,
}
for _how in ("different", "same"):
    PROGRAMS[f"randn, {_how}"] = lambda m, f, how=_how: f.vmap(lambda x: x + m.randn(3), randomness=how)(
        data(m, 7, 3)
    )
    PROGRAMS[f"dropout, {_how}"] = lambda m, f, how=_how: f.vmap(
        lambda x: m.nn.functional.dropout(x), randomness=how
    )(data(m, 7, 3))
    PROGRAMS[f"fills, {_how}"] = lambda m, f, how=_how: f.vmap(
        lambda x: (x.clone().normal_(), x.clone().uniform_(), m.randint(0, 9, (3,)), m.randperm(4)),
        randomness=how,
    )(data(m, 7, 3))
    PROGRAMS[f"two levels of randn, {_how}"] = lambda m, f, how=_how: f.vmap(
        f.vmap(lambda x: x + m.randn(3), randomness=how), randomness=how
    )(data(m, 7, 2, 3))
PROGRAMS["multinomial"] = lambda m, f: f.vmap(lambda x: m.multinomial(x.exp(), 2), randomness="different")(
    data(m, 7, 3)
)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_equals_pytorchs(program):
    agree(program)


def test_the_function_runs_once():
    seen = []
    vmap(lambda x: seen.append(x) or x * 2)(ones(256, 3))
    (x,) = seen
    assert isinstance(x._data, Batched)
    assert x.shape == (3,)
    assert x._data.array.shape == (256, 3)


def test_backward_inside_and_outside():
    w = minitorch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    xs = minitorch.arange(12.0).reshape(4, 3)
    (slopes,) = vmap(lambda x: minitorch.autograd.grad((w * x).sum(), w))(xs)
    assert slopes.tolist() == xs.tolist()  # asked for inside: each example's own
    vmap(lambda x: (w * x).sum().backward() or x)(xs)
    np.testing.assert_array_equal(w.grad, xs.numpy().sum(0))  # into what all share: the sum
    w.grad = None
    (vmap(lambda x: w * x * 2)(xs).sum()).backward()
    np.testing.assert_array_equal(w.grad, 2 * xs.numpy().sum(0))


def test_memory():
    xs = minitorch.zeros(4, 3)
    assert vmap(lambda x: x.add_(1))(xs).tolist() == xs.tolist() == [[1.0] * 3] * 4  # in place is in place
    out = vmap(lambda x: x)(xs)
    out += 1
    assert xs.sum() == 12  # but a result is nobody else's
    tracked = minitorch.zeros(4, 3, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match=r"x.clone\(\) first"):
        vmap(lambda x: x.add_(1))(tracked)


@pytest.mark.parametrize("tracked", [False, True])
def test_results_that_are_filled_in(tracked):
    def filling(x):
        out, other = minitorch.zeros(3), minitorch.ones(2, 3)
        for i in range(3):
            out[i] = x[i] * i
        other[1] = x + 1
        out.mul_(x.sum())
        return (out * other.sum(0)).sum()

    xs = minitorch.tensor([[1.0, 2.0, 3.0], [-1.0, -2.0, 1.0]])
    function = minitorch.func.grad(filling) if tracked else filling
    np.testing.assert_allclose(
        vmap(function)(xs).numpy(), np.stack([function(x).numpy() for x in xs]), rtol=1e-6
    )


def branching(x):
    return x * 2 if x.sum() > 0 else -x


SHARED = minitorch.zeros(2)


def filled(x):
    SHARED[0] = x[1]
    return SHARED.clone()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (branching, "a branch"),
        (lambda x: x * x.max().item(), ".item()"),
        (lambda x: x[x > -9], "mask"),
        (lambda x: minitorch.nonzero(x), "nonzero"),
        (lambda x: minitorch.zeros(3)[:].add_(x), "share"),
        (filled, "share"),
        (lambda x: SHARED.detach().add_(x[:2]) * 1, "share"),
        (lambda x: minitorch.tensor(np.interp(np.asarray(x), [0, 1], [0, 2])), "NumPy array"),
    ],
)
def test_what_needs_each_example_alone_is_computed_so(function, reason):
    xs = minitorch.tensor([[1.0, 2.0, 3.0], [-1.0, -2.0, 1.0]])
    SHARED.zero_()
    expected = [function(x).tolist() for x in xs]
    SHARED.zero_()
    with pytest.warns(UserWarning, match="one after the other") as told:
        out = vmap(function)(xs)
    assert reason in str(told[0].message)
    assert out.tolist() == expected


def test_an_op_without_a_form_for_batches_is_computed_alone():
    @minitorch.op(lambda g, out, x: g * float(x.sum()) * 2)
    def odd(x):
        return x * float(x.sum())

    xs = minitorch.tensor([[1.0, 2.0], [3.0, -1.0]], requires_grad=True)
    with pytest.warns(UserWarning, match="odd: the number"):
        out = vmap(lambda x: odd(x) + 1)(xs)
    assert out.tolist() == [[4.0, 7.0], [7.0, -1.0]]
    with pytest.warns(UserWarning, match="the derivative of odd"):
        out.sum().backward()
    assert xs.grad.tolist() == [[6.0, 6.0], [4.0, 4.0]]

    @minitorch.op(lambda g, out, x: g * np.interp(x, [0.0, 1.0], [0.0, 2.0]))
    def table(x):
        return np.interp(x, [0.0, 1.0], [0.0, 2.0])

    with pytest.warns(UserWarning, match="interp"):
        assert vmap(table)(minitorch.tensor([[0.5], [1.0]])).tolist() == [[1.0], [2.0]]


def test_randomness_of_the_loop():
    minitorch.manual_seed(0)
    state = minitorch.get_rng_state()
    for how, count in (("different", 3), ("same", 1)):
        with pytest.warns(UserWarning, match="number"):
            drawn = vmap(lambda x: minitorch.rand(1) + float(x.sum() * 0), randomness=how)(ones(3, 2))
        assert len(set(drawn.flatten().tolist())) == count
        minitorch.set_rng_state(state)


def test_running_statistics_that_all_share_cannot_move():
    layer = minitorch.nn.BatchNorm1d(3)
    with pytest.raises(RuntimeError, match="running mean"):
        vmap(layer)(ones(2, 4, 3))


def test_out_dims_none_is_for_what_is_shared():
    with pytest.raises(ValueError, match="out_dims=None"):
        vmap(lambda x: x, out_dims=None)(ones(2, 3))
    with pytest.raises(IndexError, match="out_dims=3"):
        vmap(lambda x: x, out_dims=3)(ones(2, 3))
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(lambda x: x, chunk_size=0)


def test_inside_a_compiled_function():
    step = lambda x: vmap(minitorch.func.grad(lambda row: (row**3).sum()))(x)
    noisy = lambda x: vmap(lambda row: row + minitorch.rand(3), randomness="different")(x)
    x = minitorch.arange(6.0).reshape(2, 3)
    for function in (step, noisy):
        compiled = minitorch.compile(function, fullgraph=True)
        for seed in range(3):
            minitorch.manual_seed(seed)
            expected = function(x)
            minitorch.manual_seed(seed)
            np.testing.assert_allclose(compiled(x).numpy(), expected.numpy(), rtol=1e-6)


class Odd(minitorch.autograd.Function):
    """A square whose backward asks for a value."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x if x.sum().item() > -9 else g


@pytest.mark.filterwarnings("ignore:vmap")
def test_a_function_whose_backward_asks_for_values():
    xs = minitorch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert vmap(Odd.apply)(xs).tolist() == [[1.0, 4.0], [9.0, 16.0]]
    assert vmap(minitorch.func.grad(lambda x: Odd.apply(x).sum()))(xs).tolist() == [[2.0, 4.0], [6.0, 8.0]]
    jacobian = [[2.0, 0.0], [0.0, 4.0]]
    assert minitorch.func.jacrev(Odd.apply)(xs[0]).tolist() == jacobian
    assert minitorch.func.jacfwd(Odd.apply)(xs[0]).tolist() == jacobian
    assert minitorch.func.hessian(lambda x: Odd.apply(x).sum())(xs[0]).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    with pytest.raises(RuntimeError, match="take the gradient there"):
        vmap(Odd.apply)(xs.requires_grad_()).sum().backward()


def test_printing_inside():
    seen = []
    vmap(lambda x: seen.append(repr(x)) or x)(ones(2, 1))
    assert seen == ["each example of tensor([[1.],\n        [1.]])"]
