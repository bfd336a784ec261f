"""minitorch.func against torch.func: the same programs in both libraries, nested, over trees and batches."""

import warnings

import numpy as np
import pytest

import minitorch
from pytorch import torch

LIBRARIES = (minitorch, torch)


def numbers(tree):
    """Everything in a nested result, as arrays in order."""
    if isinstance(tree, dict):
        return [n for key in tree for n in numbers(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [n for each in tree for n in numbers(each)]
    return [np.array(tree.detach().tolist() if hasattr(tree, "detach") else tree)]


def agree(program):
    results = []
    for m in LIBRARIES:
        m.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's own deprecations
            results.append(numbers(program(m, m.func)))
    ours, theirs = results
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


PROGRAMS = {
    "grad": lambda m, f: f.grad(lambda x: x.sin().sum())(m.arange(3.0)),
    "third derivative": lambda m, f: f.grad(f.grad(f.grad(lambda x: x**4)))(m.tensor(2.0)),
    "several arguments": lambda m, f: f.grad(lambda x, y: (x * y**2).sum(), argnums=(1, 0))(
        m.ones(3), m.arange(3.0)
    ),
    "negative argnums": lambda m, f: f.grad(lambda x, y: (x * y**2).sum(), argnums=-1)(
        m.ones(3), m.arange(3.0)
    ),
    "keyword arguments": lambda m, f: f.grad(lambda x, *, power: (x**power).sum())(m.arange(3.0), power=3),
    "grad of a tree": lambda m, f: f.grad(lambda t: (t["a"] * t["b"][0]).sum() + t["b"][1])(
        {"a": m.arange(3.0), "b": [m.ones(3) * 2, m.tensor(1.0)]}
    ),
    "unused": lambda m, f: f.grad(lambda x, y: y.sum())(m.ones(2), m.ones(3)),
    "value": lambda m, f: f.grad_and_value(lambda x: (x**2).sum())(m.arange(3.0)),
    "aux": lambda m, f: f.grad(lambda x: ((x**2).sum(), {"twice": x * 2}), has_aux=True)(m.arange(3.0)),
    "value and aux": lambda m, f: f.grad_and_value(lambda x: ((x**2).sum(), x * 2), has_aux=True)(
        m.arange(3.0)
    ),
    "vjp": lambda m, f: f.vjp(lambda x: (x.sin(), x.cos()), m.arange(3.0))[1]((m.ones(3), m.arange(3.0))),
    "vjp of two": lambda m, f: f.vjp(lambda x, y: x * y, m.arange(3.0), m.ones(3))[1](m.arange(3.0)),
    "jvp": lambda m, f: f.jvp(
        lambda x, y: (x * y, x.sum()), (m.arange(3.0), m.ones(3)), (m.ones(3), m.arange(3.0))
    ),
    "jvp of a constant": lambda m, f: f.jvp(lambda x: m.ones(2) * 3, (m.ones(3),), (m.ones(3),)),
    "linearize": lambda m, f: f.linearize(lambda x: x.sin() * x.sum(), m.arange(3.0))[1](m.ones(3)),
    "jacrev": lambda m, f: f.jacrev(lambda x: x.outer(x))(m.arange(3.0)),
    "jacfwd": lambda m, f: f.jacfwd(lambda x: x.outer(x).sum(0))(m.arange(6.0).reshape(6)),
    "jacobian of trees": lambda m, f: f.jacrev(lambda d: {"x": d["p"] ** 2, "y": d["p"].sum() * d["q"]})(
        {"p": m.arange(3.0), "q": m.tensor(2.0)}
    ),
    "jacfwd of trees": lambda m, f: f.jacfwd(lambda a, b: (a * b.sum(), b**2), argnums=(0, 1))(
        m.arange(2.0), m.ones(3)
    ),
    "hessian": lambda m, f: f.hessian(lambda x: (x**3).prod())(m.arange(1.0, 4.0)),
    "hessian of two": lambda m, f: f.hessian(lambda x, y: (x**2 * y).sum(), argnums=(0, 1))(
        m.ones(2), m.arange(2.0)
    ),
    "hessian-vector product": lambda m, f: f.jvp(
        f.grad(lambda x: (x**3).sum()), (m.arange(3.0),), (m.ones(3),)
    )[1],
    "reverse over forward": lambda m, f: f.jacrev(f.jacfwd(lambda x: x.sin().prod()))(m.arange(1.0, 4.0)),
    "vmap": lambda m, f: f.vmap(lambda x, y: (x * y).sum())(m.ones(2, 3), m.arange(6.0).reshape(2, 3)),
    "vmap axes": lambda m, f: f.vmap(lambda x, y: x + y, in_dims=(1, None), out_dims=1)(
        m.arange(6.0).reshape(2, 3), m.ones(2)
    ),
    "vmap of a tree": lambda m, f: f.vmap(
        lambda d, y: (d["a"] + y, d["b"]), in_dims=({"a": 0, "b": None}, 0)
    )({"a": m.arange(3.0), "b": m.ones(2)}, m.ones(3)),
    "vmap in vmap": lambda m, f: f.vmap(f.vmap(m.dot))(m.arange(12.0).reshape(2, 2, 3), m.ones(2, 2, 3)),
    "vmap out_dims": lambda m, f: f.vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(
        m.arange(6.0).reshape(2, 3)
    ),
    "vmap of a keyword": lambda m, f: f.vmap(lambda x, y: x * y)(m.arange(3.0), y=m.arange(3.0)),
    "the same numbers for all": lambda m, f: f.vmap(lambda x: x + m.rand(2), randomness="same")(
        m.zeros(3, 2)
    ),
    "per-example gradients": lambda m, f: f.vmap(f.grad(lambda w, x: (w * x).sin().sum()), in_dims=(None, 0))(
        m.arange(3.0), m.arange(6.0).reshape(2, 3)
    ),
    "per-example jacobians": lambda m, f: f.vmap(f.jacrev(lambda x: x**2))(m.arange(6.0).reshape(2, 3)),
    "torch.vmap": lambda m, f: m.vmap(m.dot)(m.ones(2, 3), m.ones(2, 3)),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_transform_equals_pytorch(program):
    agree(program)


def test_a_gradient_inside_a_graph_is_part_of_it():
    def program(m, f):  # a step of learning to learn
        w = m.tensor([1.0, 2.0], requires_grad=True)
        scale = m.tensor(3.0, requires_grad=True)
        step = f.grad(lambda v: (v**3).sum() * scale)(w)
        assert step.requires_grad
        (w - 0.1 * step).pow(2).sum().backward()
        return [m.as_tensor(w.grad), m.as_tensor(scale.grad)]

    agree(program)
    x = minitorch.arange(3.0)
    assert not minitorch.func.grad(lambda v: (v**2).sum())(x).requires_grad
    assert not minitorch.func.vjp(lambda v: v**2, x)[0].requires_grad
    with minitorch.no_grad():
        w = minitorch.ones(2, requires_grad=True)
        assert not minitorch.func.grad(lambda v: (v**2).sum())(w).requires_grad


def test_a_module_as_a_function():
    def program(m, f):
        net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4), m.nn.Tanh(), m.nn.Linear(4, 2))
        parameters = {k: v.detach() * 2 for k, v in net.named_parameters()}
        buffers = {k: v.detach().clone() for k, v in net.named_buffers()}
        x = m.arange(15.0).reshape(5, 3)
        out = f.functional_call(net, (parameters, buffers), (x,))
        net.eval()
        slopes = f.grad(lambda p: f.functional_call(net, (p, buffers), (x,)).pow(2).mean())(parameters)
        return [
            out,
            slopes,
            buffers["1.running_mean"],
            buffers["1.num_batches_tracked"],
            net(x),
            net[1].running_mean,
        ]

    agree(program)


def test_functional_call_ties_and_refuses():
    class Tied(minitorch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = minitorch.nn.Linear(2, 2, bias=False)
            self.b = minitorch.nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    net, two = Tied(), minitorch.eye(2) * 2
    call = minitorch.func.functional_call
    assert call(net, {"a.weight": two}, minitorch.ones(2)).tolist() == [4, 4]
    assert net.a.weight is net.b.weight
    with pytest.raises(RuntimeError, match="has no"):
        call(net, {"c.weight": two}, minitorch.ones(2))
    with pytest.raises(RuntimeError, match="missing"):
        call(minitorch.nn.Linear(2, 2), {"weight": two}, minitorch.ones(2), strict=True)
    with pytest.raises(ValueError, match="different"):
        call(net, {"a.weight": two, "b.weight": two + 1}, minitorch.ones(2))
    with pytest.raises(TypeError, match="Tensor"):
        call(net, {"a.weight": 3}, minitorch.ones(2))
    layer = minitorch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError):
        call(layer, {"weight": minitorch.ones(3, 3)}, minitorch.ones(2))
    assert layer.weight.shape == (2, 2)  # put back after the failure
    stateless = minitorch.nn.utils.stateless.functional_call
    assert stateless(layer, {"weight": two, "bias": minitorch.zeros(2)}, minitorch.ones(2)).tolist() == [2, 2]


def test_an_ensemble():
    def program(m, f):
        models = [m.nn.Linear(3, 2) for _ in range(4)]
        parameters, buffers = f.stack_module_state(models)
        assert parameters["weight"].requires_grad
        assert parameters["weight"].is_leaf
        call = f.vmap(lambda p, b, x: f.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))
        return call(parameters, buffers, m.ones(2, 3))

    agree(program)


def test_what_is_refused():
    f, ones = minitorch.func, minitorch.ones
    with pytest.raises(RuntimeError, match="one number"):
        f.grad(lambda x: x * 2)(ones(3))
    with pytest.raises(RuntimeError, match="argnums"):
        f.grad(lambda x: x.sum(), argnums=2)(ones(3))
    with pytest.raises(RuntimeError, match="floating-point"):
        f.grad(lambda x: x.sum())(minitorch.arange(3))
    with pytest.raises(RuntimeError, match="tuples"):
        f.jvp(lambda x: x, ones(3), ones(3))
    with pytest.raises(RuntimeError, match="shapes"):
        f.jvp(lambda x: x, (ones(3),), (ones(2),))
    with pytest.raises(RuntimeError, match="aux"):
        f.grad(lambda x: x.sum(), has_aux=True)(ones(3))
    with pytest.raises(RuntimeError, match="randomness='different'"):
        f.vmap(lambda x: x + minitorch.randn(2))(ones(3, 2))
    with pytest.raises(ValueError, match="different numbers"):
        f.vmap(minitorch.dot)(ones(2, 3), ones(3, 3))
    with pytest.raises(ValueError, match="None for all"):
        f.vmap(lambda x: x, in_dims=(None,))(ones(2))
    with pytest.raises(ValueError, match="structure"):
        f.vmap(lambda x, y: x, in_dims=(0,))(ones(2), ones(2))
    with pytest.raises(ValueError, match="axis 3"):
        f.vmap(lambda x: x, in_dims=3)(ones(2))
    with pytest.raises(ValueError, match="Tensors alone"):
        f.vmap(lambda x: 1)(ones(2))
    with pytest.raises(RuntimeError, match="randomness must be"):
        f.vmap(lambda x: x, randomness="maybe")
    drawn = f.vmap(lambda x: x + minitorch.rand(1), randomness="different")(minitorch.zeros(3))
    assert len(set(drawn.flatten().tolist())) == 3


def test_batch_norms_that_keep_nothing():
    net = minitorch.nn.Sequential(minitorch.nn.BatchNorm2d(3))
    minitorch.func.replace_all_batch_norm_modules_(net)
    before = net.state_dict()
    net.eval()
    out = net(minitorch.arange(24.0).reshape(2, 3, 2, 2))
    assert abs(out.mean().item()) < 1e-6
    assert list(net.state_dict()) == list(before)
