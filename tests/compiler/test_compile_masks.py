"""x[mask] and masked_select where a fold consumes them: one program for any number of places; the rest is refused."""

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from minitorch.compiler.call.compiled import CompileError
from scenarios import arrays, assert_same

# Of x (6, 3) with a graph, y (6, 3), a mask m (6,), classes t (6,), out of range where m does not hold, and a weight w
# (3, 2) and a bias b (3,), both with a graph.
FOLDED = """
x[m].sum()
x[m].mean()
x[m].max()
x[m].amin()
x[m].norm()
x[m].sum(0).norm()
x[m].mean(0).sum()
x[m].sum(dim=-1).mean()
x[m].amax(0).sum()
x[m].max(1)[0].sum()
x[m].logsumexp(0).sum()
x[m].double().sum()
(x[m] + b).sum()
((x[m] - y[m]) * b).pow(2).mean()
(x[m] - x[m].mean(0)).pow(2).mean()
(x[m] @ w).tanh().pow(2).mean()
F.linear(x[m], w.t(), w[0]).relu().sum()
x[m][:, 1].sum() + x[m, 0].mean() + x[m][..., 2].sum()
x[m][:, 0] @ y[m][:, 0]
mt.cat([x[m], y[m]], 1).pow(2).sum()
x[m].view(-1).sum() + x[m].reshape(-1, 3, 1).mean() + x[m].unsqueeze(1).sum()
x[m].t().sum()
x[m].clamp(min=0).sum() + mt.where(x[m] > 0, x[m], 0).sum()
x[m].log_softmax(-1).sum()
F.mse_loss(x[m], y[m])
F.smooth_l1_loss(x[m], y[m], reduction="sum")
F.binary_cross_entropy_with_logits(x[m], y[m].sigmoid())
F.kl_div(x[m].log_softmax(-1), y[m].softmax(-1), reduction="batchmean")
F.cross_entropy(x[m], t[m])
F.cross_entropy(x[m], t[m], label_smoothing=0.1, reduction="sum")
F.cross_entropy(x[m], t[m], weight=mt.tensor([1.0, 2.0, 3.0]))
F.nll_loss(x[m].log_softmax(1), t[m])
x.masked_select(m[:, None]).sum()
x.masked_select(x > 0).mean()
x[x > 0].log().sum()
(x[x > 0] * y[x > 0]).sum()
x[~m].abs().sum()
x[m].sum() / x[m].shape[0] + x[m].sum() / x[m].numel()
x[m].mean() if x[m].shape[0] > 0 else x.sum()
x[m].mean() if x[m].size(0) != 0 else x.sum()
(x[m].argmax(1) == t[m]).float().mean()
(x[m] > 0).any()
x[m].shape[0]
x[m].sum().item()
"""
REFUSED = """
x[m]
x[m].cumsum(0).sum()
x[m].sort(0)[0].sum()
x[m].tolist()
x[m] * 1
mt.zeros(x[m].shape[0]).sum()
range(x[m].shape[0])
len(x[m])
x[m] + y[:3]
(x[m] - y[y[:, 0] > 0]).sum()
{x[m].shape[0]: 1}
mt.tensor(x[m].shape[0])
"""
NAMES = {"mt": mt, "F": nn.functional, "np": np}


def function_of(text, parameters):
    space = dict(NAMES)
    exec(f"def function({parameters}):\n    {text}", space)
    return space["function"]


def calls(function):
    """Results and gradients of calls with different masks: one with one place, one with none."""
    found = []
    for i in range(5):
        mt.manual_seed(i)
        x, w, b = (mt.randn(*shape, requires_grad=True) for shape in ((6, 3), (3, 2), (3,)))
        y, m = mt.randn(6, 3), mt.rand(6) > 0.4
        m = {3: mt.arange(6) == 2, 4: mt.zeros(6, dtype=mt.bool)}.get(i, m)
        t = mt.where(m, mt.randint(0, 3, (6,)), -7)
        try:
            out = function(x, y, m, t, w, b)
        except (RuntimeError, IndexError) as error:
            if isinstance(error, CompileError):
                raise
            found.append(str(error))
            continue
        if isinstance(out, mt.Tensor) and out.requires_grad:
            out.backward()
        found.append([out, *(each.grad for each in (x, w, b))])
    return arrays(found)


@pytest.mark.parametrize("text", FOLDED.strip().splitlines())
def test_folds(compile, text):
    function = function_of(f"return {text}", "x, y, m, t, w, b")
    compiled = compile(function)
    assert_same(calls(compiled), calls(function))
    assert compiled.compilations == 1
    assert any(program.calls for program in compiled.cache.all())


@pytest.mark.parametrize("text", REFUSED.strip().splitlines())
def test_what_needs_the_rows_is_refused(compile, text):
    with pytest.raises(CompileError, match="masked_fill|where"):
        calls(compile(function_of(f"return {text}", "x, y, m, t, w, b"), fullgraph=True))


WRITES = """
y[m] *= 2
y[m] += x[m]
y[m] = x[m] * 2
y[m] = b
y[m] = 0
y[m, 0] = 1
y[y > 0] *= 2
y[y > 0] += x[y > 0]
y[y > 0] = y[y > 0].sqrt()
y.data[y.data > 0] *= 0.5
"""


@pytest.mark.parametrize("text", WRITES.strip().splitlines())
def test_writes(compile, text):
    function = function_of(f"y = y * w[0, 0]; {text}; return y.pow(2).sum()", "x, y, m, t, w, b")
    compiled = compile(function)
    assert_same(calls(compiled), calls(function))
    assert any(program.calls for program in compiled.cache.all())


def test_a_step_on_masked_rows(compile):
    def steps(compile):
        mt.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
        optimizer = mt.optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x, m, t):
            out = model(x)
            loss = nn.functional.cross_entropy(out[m], t[m]) + (model[0](x[m]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        found = []
        for _ in range(5):
            x, m = mt.randn(6, 3), mt.rand(6) > 0.3
            found.append(step(x, m, mt.randint(0, 3, (6,))))
        return arrays([found, list(model.parameters())])

    assert_same(steps(compile), steps(lambda f: f))
