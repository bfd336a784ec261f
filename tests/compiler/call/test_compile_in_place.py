"""Compiled functions and writing in place: eager's numbers and gradients at every call, or a word and eager itself."""

import warnings

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn


def run(function, arguments, calls=3):
    """Results and gradients of several calls, each on new arguments."""
    found = []
    for i in range(calls):
        w = mt.tensor(np.linspace(0.5, 2.0, 3) + i, requires_grad=True)
        given = arguments(w)
        out = function(*given)
        (out.sum() + sum(g.sum() * 5 for g in given)).backward()
        found += [out.detach().numpy().copy(), np.array(w.grad)]
    return found


def add_one(x):
    x += 1
    return x * 3


def set_item(x):
    x[0] = 5.0
    return x * 3


def relu(x):
    x.relu_()
    return x * 3


def through_a_view(x):
    v = x[:1]
    v += 1
    return x * 3


def turned(x):
    x.unsqueeze_(0)
    return x * 3


@pytest.mark.parametrize("function", [add_one, set_item, relu, through_a_view, turned])
def test_writing_into_an_argument_with_a_graph(compile, function):
    expected = run(function, lambda w: (w * 2,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(compile(function), lambda w: (w * 2,))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


WRITES = """
y.diagonal().fill_(0)
y.diagonal(1).mul_(3)
y.diagonal().copy_(x[0])
y.diagonal()[1] = 3
y.diagonal().uniform_()
y.view(2, 2, 2, 2).diagonal(0, 1, 2).fill_(2)
y[:, 0].add_(1)
y.view(-1)[3] = 2
y.view(-1)[::5] += 1
y.t()[0] *= 2
y.select(0, 1).zero_()
y.narrow(1, 0, 2).zero_()
y.unsqueeze(0).add_(1)
y.permute(1, 0)[1].fill_(7)
y[1:3][:, 1].zero_()
y[1:3, 1:3].copy_(x[:2, :2])
y[::2, ::2] = x[::2, ::2]
v = y[0]; w = v[1:3]; w.zero_(); v.add_(1)
v = y.view(-1); y.add_(1); v[0] = 3
y[0].normal_()
y.data.T[0] = 1
np.fill_diagonal(y.data, 0)
np.put(y.data, [1, 2], 7.0)
np.std(y.data, axis=0, out=y.data[0])
""".strip().splitlines()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("into", ["new", "argument", "graph", "parameter", "buffer"])
def test_writing_through_views(compile, write, into):
    space = {"np": np}
    exec(f"def body(x, y):\n    {write}", space)
    body = space["body"]

    def steps(make):
        mt.manual_seed(0)
        p, buffer = nn.Parameter(mt.randn(4, 4)), mt.randn(4, 4)

        def function(x):
            y = {"new": x * 2, "argument": x, "graph": p * x, "parameter": p, "buffer": buffer}[into]
            with mt.set_grad_enabled(into != "parameter"):
                body(x.detach() if into == "argument" else x, y)
            if into == "graph":
                (y**2).sum().backward()
            return y * 1

        function = make(function)
        found = []
        for _ in range(4):
            p.grad, x = None, mt.randn(4, 4)
            found += [function(x).detach(), x, p.detach().clone(), buffer.clone()]
            found += [mt.zeros(1) if p.grad is None else mt.tensor(p.grad)]
        return found, function

    expected, _ = steps(lambda f: f)
    found, function = steps(compile)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert any(program.calls for program in function.cache.all())


def test_a_module_that_begins_in_place(compile):
    mt.manual_seed(0)
    first, rest = nn.Linear(3, 3), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2))
    x = mt.randn(4, 3)
    expected = rest(first(x)).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = compile(rest)
        for _ in range(3):
            out = compiled(first(x))
            np.testing.assert_allclose(out.tolist(), expected, rtol=1e-5)
            out.sum().backward()


def test_captured_state_that_gets_a_graph(compile):
    def steps(make):
        w, state = mt.ones(3, requires_grad=True), mt.zeros(3)

        def step():
            state.mul_(0.5)
            state.add_(w)
            return (state * 2).sum()

        step = make(step)
        return [step().item() for _ in range(3)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert steps(compile) == steps(lambda f: f)


def test_a_view_whose_base_was_written_into(compile):
    def gradients(function):
        found = []
        for _ in range(3):
            w = mt.tensor([1.0, 2.0, 3.0], requires_grad=True)
            x = w * 2
            v = x[:2]
            x *= w
            function(v).sum().backward()
            found.append(w.grad.tolist())
        return found

    assert gradients(compile(lambda v: v * 3)) == gradients(lambda v: v * 3)


def test_a_result_that_was_a_view_inside_is_written_into(compile):
    function = compile(lambda x: (x * 3).view(3, 1))
    w = mt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = function(w * 2)
    v = z[0]
    z += w[0]
    v *= 2
    z.sum().backward()
    assert w.grad.tolist() == [16.0, 6.0, 6.0]


def test_writing_inside_into_what_was_made_inside(compile):
    def function(x):
        y = x * 2
        y += 1
        part = y[1:]
        part *= x[:-1]
        y[0] = x[2]
        return y.relu_()

    expected, found = run(function, lambda w: (w,)), run(compile(function, fullgraph=True), lambda w: (w,))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_parts_of_complex_tensors_are_written_into(compile):
    def function(w):
        z = mt.complex(w, 2 * w)
        z.imag.zero_()
        z.real.mul_(3)
        part = z.imag
        part += w
        return z.abs()

    compiled = compile(function)
    for i in range(3):
        w = mt.tensor([1.0, 2.0 + i])
        np.testing.assert_allclose(compiled(w).numpy(), function(w).numpy(), rtol=1e-6)
