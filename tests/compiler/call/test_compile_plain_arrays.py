"""What `.grad` and `.data` are inside a compiled function: what they are outside, in NumPy's and in PyTorch's words."""

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from scenarios import arrays, assert_same

# Each is done after a backward, with two parameters of one shape (4, 3), and may give a result.
STATEMENTS = """
p.grad.zero_()
p.grad.clamp_(-0.1, 0.1)
p.grad.mul_(0.5)
p.grad.add_(q.grad, alpha=0.5)
p.grad.add_(mt.randn(4, 3))
p.grad.copy_(q)
p.grad[0].zero_()
p.grad[:, 1].mul_(2)
p.grad[:, 0] += 1
p.grad.data.clamp_(-1, 1)
p.grad.detach_().zero_()
p.grad /= p.grad.norm()
p.grad.masked_fill_(p.grad > 0, 0)
p.data -= 0.1 * p.grad
p.data.add_(p.grad, alpha=-0.1)
p.data.add_(-0.1, p.grad)
p.data = p.data.sub(p.grad * 0.1)
p.data.mul_(0.9).add_(p.grad * 0.1)
p.data.copy_(q.data)
p.data.normal_(0, 1)
p.data.addcdiv_(p.grad, q.grad.abs() + 1e-3, value=-0.1)
np.clip(p.grad, -0.1, 0.1, out=p.grad)
x.data.mul_(2)
result = p.grad.norm()
result = p.grad.data.norm(2) ** 2
result = p.grad.view(-1)
result = p.grad.max(1)
result = p.grad.max(axis=1)
result = p.grad.std(), np.std(p.grad), p.grad.std(axis=0)
result = p.grad.sum(dim=0), p.grad.sum(axis=0), p.grad.mean(dim=1, keepdim=True)
result = p.grad.size(), p.grad.size(0), p.grad.size + 0, p.grad.numel(), len(p.grad)
result = p.grad.transpose(0, 1), p.grad.t(), p.grad.T, p.grad.flatten(0)
result = p.grad.isnan().any(), p.grad.isfinite().all()
result = np.where(p.grad > 0, p.grad, 0).max(1)
result = (p.grad * q).sum(), q * p.grad
result = p.grad @ q.data.T, p.grad.matmul(q.data.t())
result = mt.cat([w.grad.flatten() for w in (p, q)]).norm()
result = p.grad.gather(1, mt.tensor([[0], [1], [2], [0]])), p.grad.topk(2, dim=1)
result = p.grad.float().sum(), p.grad.astype(np.float64), p.grad.to(mt.float64), p.grad.numpy()
result = p.grad is p.grad, p.data is p.data, p.grad.data is p.grad
result = [row.sum() for row in p.grad]
result = p.grad.unbind(0), p.grad.chunk(2), p.grad.softmax(dim=-1), p.grad.sort(descending=True)
result = p.grad.view(7)
result = p.grad.add_(mt.ones(9))
result = p.grad.nothing()
""".strip().splitlines()


def steps(statement, compile):
    """Results, parameters and gradients of some steps; where one fails, the error's text."""
    mt.manual_seed(0)
    p, q = nn.Parameter(mt.randn(4, 3)), nn.Parameter(mt.randn(4, 3))
    body = compile_text(statement)

    @compile
    def step(x):
        loss = ((x @ p.t()).tanh() ** 2).sum() + (p * q).sum()
        loss.backward()
        return loss, body(p, q, x)

    found = []
    for i in range(4):
        if i == 2:
            p.grad = q.grad = None
        x = mt.randn(5, 3)
        try:
            found.append([step(x), x, p.data, p.grad, q.data, q.grad])
        except (RuntimeError, AttributeError, TypeError, ValueError) as error:
            found.append([type(error).__name__, str(error)])
        found[-1] = arrays(found[-1])
    return found, step


def compile_text(statement):
    space = {"mt": mt, "np": np}
    exec(f"def body(p, q, x):\n    result = None\n    {statement}\n    return result", space)
    return space["body"]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_as_outside(compile, statement):
    expected, _ = steps(statement, lambda f: f)
    found, step = steps(statement, compile)
    assert_same(found, expected)
    if not isinstance(expected[0][0], str):
        assert any(program.calls for program in step.cache.all())


@pytest.mark.parametrize("write", ["p.data.mul_(2)", "p.data[0] += 2"])
def test_values_that_a_graph_needs_are_not_changed_unnoticed(compile, write):
    statement = f"y = p * p; {write}; y.sum().backward()"
    expected, _ = steps(statement, lambda f: f)
    found, _ = steps(statement, compile)
    assert found[0] == expected[0]
    assert "was changed after the forward pass" in found[0][1]


def test_results_understand_both_spellings(compile):
    w = mt.tensor([3.0, 4.0], requires_grad=True)

    @compile
    def f(x):
        (w * x).sum().backward()
        return w.grad.mul(2), np.where(w.grad > 0, w.grad, 0)

    for i in range(4):
        plain, numpys = f(mt.ones(2) * i)
        assert plain.size() == (2,)
        assert type(numpys) is type(np.where(w.grad > 0, w.grad, 0))


@pytest.mark.parametrize(
    "write", ["p.grad.zero_()", "p.grad *= 0.5", "p.grad[0] = 0", "(p * x).sum().backward()", "p.grad = x"]
)
def test_whoever_holds_a_gradient_sees_what_is_written_into_it(compile, write):
    body = function_of(write)

    def run(compile):
        p = nn.Parameter(mt.ones(3))
        step = compile(lambda x: body(p, x))
        found = []
        for i in range(5):
            p.grad = np.full(3, 2.0 + i, np.float32)
            held = p.grad
            step(mt.ones(3) * i)
            found += [held.copy(), p.grad.copy(), p.grad is held]
        return found

    def same(a, b):
        return np.array_equal(a, b)

    assert all(map(same, run(compile), run(lambda f: f)))


def test_a_gradient_that_is_written_into_must_be_there(compile):
    p = nn.Parameter(mt.ones(3))
    step = compile(lambda: p.grad.zero_() is None)
    for _ in range(3):
        p.grad = np.ones(3, np.float32)
        step()
    p.grad = None
    with pytest.raises(AttributeError):
        step()


def function_of(statement):
    space = {"mt": mt, "np": np}
    exec(f"def body(p, x):\n    {statement}", space)
    return space["body"]
