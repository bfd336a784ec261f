"""Functions of tensors that lie on a GPU, compiled: on a real one where there is one, else on a stand-in.

Everything is compared with the same lines run eagerly on the CPU.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS, assert_same, write_down_too_much
from minitorch import nn
from minitorch.compiler.backends.cuda import sorting, value_kernels
from minitorch.compiler.call import verify
from minitorch.compiler.call.compiled import Disagreement
from minitorch.compiler.call.there import computing
from minitorch.compiler.call.verify import differing
from minitorch.compiler.ir import builder, elsewhere
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import Program, Value, interpret
from minitorch.compiler.trace.recorder import Recording
from minitorch.nn import functional as F
from small_nets import ConvNet, Recurrent
from some_gpu import REAL, gpu, moved, numbers, there, trained

pytestmark = [
    pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed"),
    pytest.mark.usefixtures(gpu.__name__),
]


@pytest.fixture(autouse=True)
def no_audit_at_the_second_call():
    """Audits are a part of what is tested here: let them be."""


@pytest.fixture
def nothing_here(monkeypatch):
    """No array of a device's is small enough for the host."""
    monkeypatch.setattr(minitorch.compiler.call.record, "MOST_HERE", 0)


@pytest.fixture(params=["here", "there"])
def where(request):
    """Recordings compute on the host, or on the device."""
    if request.param == "there":
        request.getfixturevalue(nothing_here.__name__)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places(minitorch.arange(length).to(tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length).to(tokens.device)
        return self.head(self.norm(self.block(x, src_mask=mask, is_causal=True))).flatten(0, 1)


def mlp(dropout=0.0):
    return nn.Sequential(nn.Linear(9, 33), nn.ReLU(), nn.Dropout(dropout), nn.Linear(33, 4))


def classes(count, n, seed=0):
    return np.random.default_rng([seed, 5]).integers(0, count, n)


MODELS = {
    "mlp": (mlp, lambda i: (normal(20, 9, seed=i), classes(4, 20, i))),
    "conv": (ConvNet, lambda i: (normal(3, 2, 8, 8, seed=i), classes(3, 3, i))),
    "lstm": (Recurrent, lambda i: (normal(3, 6, 3, seed=i), classes(3, 3, i))),
    "gpt": (Gpt, lambda i: (classes(11, (3, 6), i), classes(11, 18, i + 1))),
}
OPTIMIZERS = {
    "sgd": lambda p: minitorch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: minitorch.optim.AdamW(p, lr=1e-2),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_training(model, optimizer):
    model, batch = MODELS[model]
    if model is Gpt and optimizer == "adamw":
        optimizer = (
            "sgd"  # the gradient of the keys' bias is 0 but for rounding, which Adam makes a whole step of
        )
    chosen = OPTIMIZERS[optimizer]
    losses, state, step = trained(model, chosen, map(batch, range(4)), True)
    expected, others, _ = trained(model, chosen, map(batch, range(4)), False)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for a, b in zip(state, others, strict=True):
        assert_same(a, b, slack=20, floor=1e-6)
    assert step.compilations == 1
    (program,) = step.cache.all()
    assert program.entry is not None
    assert not program.runner.report.called_back
    assert not moved or REAL  # the last step has sent nothing, and brought nothing back


@pytest.mark.parametrize("function", ["add", "sqrt"])
def test_a_recording_of_something_else_is_noticed(function, monkeypatch):
    """The host has computed what the function does: that is not what was written down."""
    write_down_too_much(function, monkeypatch, shape=(33, 9) if function == "sqrt" else None)
    model, batch = MODELS["mlp"]
    with pytest.warns(Disagreement, match="recording is wrong"):
        losses, state, step = trained(model, OPTIMIZERS["adamw"], map(batch, range(3)), True, False)
    assert step.compilations == 0
    expected, others, _ = trained(model, OPTIMIZERS["adamw"], map(batch, range(3)), False)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for a, b in zip(state, others, strict=True):
        assert_same(a, b, slack=20, floor=1e-6)


def test_dropout_draws_as_eager_on_the_device_does():
    def run(compiled):
        minitorch.manual_seed(3)
        model = mlp(dropout=0.5).to("cuda")
        step = minitorch.compile(model, fullgraph=True) if compiled else model
        return [numbers(step(minitorch.tensor(normal(20, 9)).to("cuda")).detach()) for _ in range(4)]

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_results_parts_and_gradients_outside(where):
    def function(x, w):
        y = (x * w).exp()
        return y.sum(), y[1:], {"as it is": x, "turned": x.T}, y.sum().item()

    run = minitorch.compile(function, fullgraph=True)
    for i in range(3):
        found = []
        for on_device, called in ((True, run), (False, function)):
            x, w = (minitorch.tensor(normal(*shape, seed=i)) for shape in ((4, 3), (3,)))
            if on_device:
                x, w = x.to("cuda"), w.to("cuda")
            x.requires_grad, w.requires_grad = True, True
            total, rest, views, number = called(x, w)
            assert all(there(each) == on_device for each in (total, rest, *views.values()))
            assert views["as it is"] is x
            total.backward()
            found.append([*map(numbers, (total, rest, *views.values(), x._grad, w._grad)), number])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    assert run.compilations == 1


def test_results_that_are_views_are_views_there(where):
    def function(x):
        return x.diagonal(), x.unfold(1, 2, 2), minitorch.einsum("iij->ij", x.reshape(3, 3, 2))

    run = minitorch.compile(function, fullgraph=True)
    for i in range(3):
        x = minitorch.tensor(normal(3, 6, seed=i))
        mine = x.to("cuda")
        views = run(mine)
        mine.mul_(2)
        for view, expected in zip(views, function(x), strict=True):
            assert there(view)
            np.testing.assert_allclose(numbers(view), 2 * numbers(expected))
    assert run.compilations == 1


def test_what_the_host_makes_of_a_device_s_numbers_goes_back_there(where):
    def function(scores, labels):
        return F.ctc_loss(scores.log_softmax(2), labels, minitorch.tensor([7, 6]), minitorch.tensor([3, 2]))

    run = minitorch.compile(function, fullgraph=True)
    for i in range(3):
        scores = minitorch.tensor(normal(7, 2, 5, seed=i))
        labels = minitorch.tensor(1 + classes(4, 6, i).reshape(2, 3))
        found = run(scores.to("cuda"), labels.to("cuda"))
        np.testing.assert_allclose(numbers(found), numbers(function(scores, labels)), rtol=1e-4)
    assert run.compilations == 1


def test_gradients_that_cancel_out_are_compared_closely(where):
    def step(x):
        (F.group_norm(x, 2) ** 2).sum().backward()
        return x * 2

    run = minitorch.compile(step, fullgraph=True)
    x = minitorch.tensor(normal(5, 4, 5)).to("cuda").requires_grad_()
    for _ in range(2):
        x.grad = None
        run(x)
        assert float(np.abs(numbers(x.grad)).max()) < 1e-2
    assert run.compilations == 1


def test_moving_inside(where):
    def function(x, table):
        y = (x.to("cuda") * table).sum(1)
        return y, y.cpu(), x + 1

    table = minitorch.tensor(normal(5)).to("cuda")
    run = minitorch.compile(function, fullgraph=True)
    for i in range(3):
        x = minitorch.tensor(normal(4, 5, seed=i))
        on_device, here, other = run(x, table)
        assert [there(each) for each in (on_device, here, other)] == [True, False, False]
        expected = (numbers(x) * numbers(table)).sum(1)
        for each in (on_device, here):
            np.testing.assert_allclose(numbers(each), expected, rtol=1e-5)
        np.testing.assert_allclose(numbers(other), numbers(x) + 1)


def test_an_index_out_of_range_changes_nothing_on_the_device(where):
    table = minitorch.tensor(normal(5, 3)).to("cuda")

    def step(index):
        with minitorch.no_grad():
            table.add_(table[index].sum(0))
        return table[index]

    run = minitorch.compile(step)
    for index in ([0, 1], [4, 1], [2, 2]):
        run(minitorch.tensor(index).to("cuda"))
    before = numbers(table)
    with pytest.raises(RuntimeError if REAL else IndexError):
        run(minitorch.tensor([0, 5]).to("cuda"))
        if REAL:  # the GPU does not wait: the next call tells
            minitorch.cuda.synchronize()
            run(minitorch.tensor([0, 1]).to("cuda"))
    np.testing.assert_array_equal(numbers(table), before)
    run(minitorch.tensor([0, 1]).to("cuda"))
    assert (numbers(table) != before).any()


@pytest.mark.skipif(REAL, reason="a GPU does not wait: it tells at the next call")
def test_a_step_that_fails_is_not_counted():
    table = nn.Embedding(5, 3).to("cuda")
    optimizer = minitorch.optim.AdamW(table.parameters())

    def step(index):
        optimizer.zero_grad()
        table(index).sum().backward()
        optimizer.step()

    run = minitorch.compile(step, fullgraph=True)
    for index in ([0, 1], [4, 1], [2, 2]):
        run(minitorch.tensor(index).to("cuda"))
    with pytest.raises(IndexError):
        run(minitorch.tensor([0, 5]).to("cuda"))
    assert optimizer.state[table.weight]["step"].item() == 3


def test_memory_that_two_tensors_share_is_refused_where_it_is_written():
    whole = minitorch.tensor(normal(6)).to("cuda")
    part = whole[1:4].detach()

    def step(x):
        with minitorch.no_grad():
            whole.mul_(2)
        return part + x

    run = minitorch.compile(step)
    x = minitorch.tensor(normal(3)).to("cuda")
    with pytest.warns(minitorch.compiler.call.compiled.CompileWarning, match="share memory"):
        first = numbers(run(x))
    np.testing.assert_allclose(first, numbers(part) + numbers(x), rtol=1e-6)


def test_tensors_of_host_and_device_together_are_refused():
    device, host = minitorch.tensor(normal(3)).to("cuda"), minitorch.tensor(normal(3))
    run = minitorch.compile(lambda a, b: a * b, fullgraph=True)
    with pytest.raises((minitorch.compiler.call.compiled.CompileError, RuntimeError, TypeError)):
        run(device, host)


def test_new_arrays_at_every_call_and_products_of_a_library():
    w = minitorch.tensor(normal(600, 9) * 0.05).to("cuda")
    run = minitorch.compile(lambda x: (x @ w).tanh(), fullgraph=True)
    kept = []  # so that each lies elsewhere
    for i in range(20):
        x = minitorch.tensor(normal(100, 600, seed=i)).to("cuda")
        kept.append((x, run(x)))
    for x, y in kept:
        np.testing.assert_allclose(numbers(y), np.tanh(numbers(x) @ numbers(w)), rtol=1e-3, atol=1e-4)
    assert "a library's" in str(run.explain())


# --- a device's functions as they are written -----------------------------------------------------------------


def batch(i, on_device, count=12):
    x, y = minitorch.tensor(normal(count, 9, seed=i)), minitorch.tensor(classes(4, count, i))
    return (x.to("cuda"), y.to("cuda")) if on_device else (x, y)


def gradients_that_are_added_to(model, compiled, on_device):
    optimizer = minitorch.optim.SGD(model.parameters(), lr=0.1)

    @compiled
    def half(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for i in range(6):
        yield half(*batch(i, on_device))
        if i % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=i == 3)


def a_schedule_and_clipped_gradients(model, compiled, on_device):
    optimizer = minitorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    schedule = minitorch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    @compiled
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        return loss

    for i in range(5):
        yield step(*batch(i, on_device))


def a_model_that_moves(model, compiled, on_device):
    run = compiled(lambda x: model(x).detach())
    for i, place in enumerate([on_device, on_device, False, False, on_device]):
        model.to("cuda" if place else "cpu")
        yield run(batch(i, place)[0])


def batches_of_several_sizes(model, compiled, on_device):
    run = compiled(lambda x: model(x).detach())
    for i, count in enumerate((4, 4, 5, 4)):
        yield run(batch(i, on_device, count)[0])


def tensors_made_inside(model, compiled, on_device):
    def function(x):
        more = minitorch.zeros(9, device=x.device) + minitorch.arange(9).to(x.device)
        return x * more, x.new_ones(2), minitorch.full((2,), 3.0)

    run = compiled(function)
    for i in range(3):
        first, second, third = run(batch(i, on_device)[0])
        assert [there(each) for each in (first, second, third)] == [on_device, on_device, False]
        yield first
        yield second


@pytest.mark.parametrize(
    "program",
    [
        gradients_that_are_added_to,
        a_schedule_and_clipped_gradients,
        a_model_that_moves,
        batches_of_several_sizes,
        tensors_made_inside,
    ],
)
def test_programs(program):
    found = []
    for on_device in (True, False):
        minitorch.manual_seed(0)
        model = mlp().to("cuda" if on_device else "cpu")
        compiled = minitorch.compile(fullgraph=True) if on_device else lambda function: function
        results = [numbers(each) for each in program(model, compiled, on_device)]
        found.append([*results, *map(numbers, model.parameters())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_a_long_recording_is_not_made_again_at_the_second_call(monkeypatch):
    monkeypatch.setattr(minitorch.compiler.call.record, "LONG", 0.0)
    run = minitorch.compile(lambda x: x * 2, fullgraph=True)
    for i in range(3):
        x = minitorch.tensor(normal(4, seed=i)).to("cuda")
        np.testing.assert_allclose(numbers(run(x)), 2 * numbers(x))
    assert run.cache.audits == 0


def test_what_has_no_kernel_runs_between_two_graphs_and_explain_says_so(monkeypatch):
    monkeypatch.setattr(sorting, "MOST_SCRATCH", 0)
    run = minitorch.compile(lambda x: (x * 2).sort(1)[0].exp(), fullgraph=True)
    for i in range(4):
        x = minitorch.tensor(normal(2, 5000, seed=i)).to("cuda")
        moved.clear()
        found = run(x)
        assert i < 2 or not moved  # (the first two calls are recorded)
        np.testing.assert_allclose(numbers(found), np.exp(np.sort(2 * numbers(x), 1)), rtol=1e-5)
    assert "CuPy computes" in str(run.explain())


def test_what_cupy_refuses_is_computed_on_the_host_and_explain_says_so(monkeypatch):
    def refused(*args, **options):
        raise TypeError("not here")

    monkeypatch.setattr(sorting, "MOST_SCRATCH", 0)
    if not REAL:
        monkeypatch.setattr(elsewhere, "PRIMITIVES", {**elsewhere.PRIMITIVES, "argsort": refused})
    run = minitorch.compile(lambda x: (x * 2).sort(1)[0].exp(), fullgraph=True)
    for i in range(4):
        x = minitorch.tensor(normal(2, 5000, seed=i)).to("cuda")
        np.testing.assert_allclose(numbers(run(x)), np.exp(np.sort(2 * numbers(x), 1)), rtol=1e-5)
    assert REAL or "or NumPy from copies, computes" in str(run.explain())


# --- recordings whose numbers stay on the device ---------------------------------------------------------------


@pytest.mark.parametrize("model", ["mlp", "conv", "gpt"])
def test_training_recorded_on_the_device(model, nothing_here, monkeypatch):
    model, batch = MODELS[model]
    modes = []
    begin = Recording.__init__
    monkeypatch.setattr(
        Recording, "__init__", lambda self, *given: modes.append(given[-2:]) or begin(self, *given)
    )
    losses, state, step = trained(model, OPTIMIZERS["sgd"], map(batch, range(4)), True)
    assert set(modes) == {(None, 0), (computing, np.inf)}  # nowhere but on the device, when that is known
    expected, others, _ = trained(model, OPTIMIZERS["sgd"], map(batch, range(4)), False)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for a, b in zip(state, others, strict=True):
        assert_same(a, b, slack=20, floor=1e-6)
    assert step.compilations == 1


def test_a_recording_that_needs_numbers_brings_them(nothing_here):
    def function(x, mask):
        try:
            return x[mask].sum() * 2
        except Exception:
            return x.sum()

    run = minitorch.compile(function, fullgraph=True)
    for i in range(3):
        x = minitorch.tensor(normal(6, seed=i))
        found = run(x.to("cuda"), (x > 0).to("cuda"))
        np.testing.assert_allclose(numbers(found), numbers(function(x, x > 0)), rtol=1e-5)
    assert run.compilations == 1


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_few_numbers_that_rounding_moves_are_compared_by_how_far(shape):
    """A sum next to nothing of large numbers, added up in another order."""
    x = Value("input", (), {"index": 0}, (1000,), np.dtype(np.float32))
    program = Program([x], [builder.expand(builder.reduce("add", x, (0,), False), shape)])
    array = normal(1000) * 1e3
    array[-1] -= array.sum(dtype=np.float64)
    inputs = [minitorch.tensor(array, device="cuda")._data]
    expected = [minitorch.full(shape, 1e-3, device="cuda")._data]
    runner = SimpleNamespace(settle=lambda: None)
    for found, wrong in ((2e-3, []), (1e3, [0])):
        results = [minitorch.full(shape, found, device="cuda")._data]
        assert differing(program, runner, inputs, results, expected) == wrong


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves_are_compared_on_the_device(dtype, monkeypatch):
    """As large ones are: a mistake that all elements share is noticed there, too."""
    monkeypatch.setattr(verify, "FEW_NUMBERS", 0)
    monkeypatch.setattr(verify, "_NOISE", 1 << 11)
    if not REAL:
        monkeypatch.setattr(value_kernels, "BLOCKS", 4)  # which a processor runs thread after thread
    x, y = (Value("input", (), {"index": i}, (40, 40), np.dtype(np.float32)) for i in (0, 1))
    rounded = builder.cast(builder.matmul(x, y), dtype)
    total = builder.reduce("add", builder.cast(rounded, np.float32), (1,), False)
    program = Program([x, y], [builder.cast(rounded, np.float32), rounded, total])
    inputs = [minitorch.tensor(normal(40, 40, seed=i), device="cuda")._data for i in (1, 2)]
    expected = interpret(program, [numbers(a) for a in inputs])
    there = lambda arrays: [minitorch.tensor(a).to("cuda")._data for a in arrays]
    runner, eps = SimpleNamespace(settle=lambda: None), float(minitorch.finfo(dtype).eps)
    for factor, wrong in ((1 + 0.3 * eps, []), (1 + 3 * eps, [0, 1])):
        found = [(a.astype(np.float32) * np.float32(factor)).astype(a.dtype) for a in expected[:2]]
        found.append(expected[2] + np.float32(0.1 * eps))
        assert differing(program, runner, inputs, there(found), there(expected)) == wrong


def test_only_what_the_rest_is_made_of_is_asked_for(monkeypatch):
    """A parameter moved by the sign of its gradient is right if the gradient is, and it is made of that."""
    monkeypatch.setattr(verify, "FEW_NUMBERS", 0)
    monkeypatch.setattr(verify, "_NOISE", 1 << 11)
    if not REAL:
        monkeypatch.setattr(value_kernels, "BLOCKS", 4)
    x, y, p = (Value("input", (), {"index": i}, (40, 40), np.dtype(np.float32)) for i in (0, 1, 2))
    product = builder.matmul(x, y)
    gradient = builder.cast(builder.cast(product, np.float16), np.float32)
    size = builder.map_values("absolute", gradient)
    sign = builder.map_values("divide", gradient, size)
    program = Program([x, y, p], [builder.map_values("subtract", p, sign), gradient])
    inputs = [minitorch.tensor(normal(40, 40, seed=i), device="cuda")._data for i in (1, 2, 3)]
    expected = interpret(program, [numbers(a) for a in inputs])
    there = lambda arrays: [minitorch.tensor(a).to("cuda")._data for a in arrays]
    asked, compute = [], verify.interpret
    monkeypatch.setattr(
        verify, "interpret", lambda part, *a, **k: asked.append(len(part.outputs)) or compute(part, *a, **k)
    )
    runner, place = (
        SimpleNamespace(settle=lambda: None),
        np.unravel_index(np.abs(expected[1]).argmin(), (40, 40)),
    )
    found = [a.copy() for a in expected]
    found[1] += np.float32(2e-4)
    found[1][place] *= -1
    found[0] = numbers(inputs[2]) - np.sign(found[1])
    assert (found[0] != expected[0]).any()
    assert differing(program, runner, inputs, there(found), there(expected), itself=True) == []
    assert asked == [1, 1]  # the parameter from its gradient; the gradient, shaken
    found[0][0] += 1  # another function of it
    assert 0 in differing(program, runner, inputs, there(found), there(expected))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_that_is_left_out_where_gradients_overflow(optimizer, where):
    """GradScaler asks nobody: nothing is brought back, and it is the eager CPU's step that counts, or does not."""

    def train(device):
        minitorch.manual_seed(0)
        model = mlp().to(device)
        step_by = OPTIMIZERS[optimizer](model.parameters())
        scaler = minitorch.amp.GradScaler(device, init_scale=4.0, growth_interval=2)

        def step(x, y, factor):
            step_by.zero_grad()
            loss = F.cross_entropy(model(x), y)
            scaler.scale(loss * factor).backward()
            scaler.unscale_(step_by)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(step_by)
            scaler.update()
            return loss

        run = minitorch.compile(step, fullgraph=True) if device == "cuda" else step
        seen = []
        for i, factor in enumerate((float("inf"), 1.0, 1.0, float("nan"), 2.0, float("inf"), 1.0, 1.0)):
            given = (*MODELS["mlp"][1](i), np.float32(factor))
            x, y, factor = (minitorch.tensor(each, device=device) for each in given)
            moved.clear()
            loss = run(x, y, factor)
            assert (
                i < 4 or sum(moved) <= 1 or REAL
            )  # whether it is left out: adamw counts its steps on the host
            states = step_by.state_dict()["state"]
            seen.append([numbers(loss), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]])
            seen[-1] += [numbers(p) for p in model.parameters()]
            seen[-1] += [numbers(each) for state in states.values() for each in state.values()]
        return seen, run

    (found, run), (expected, _) = train("cuda"), train("cpu")
    assert run.compilations == 1
    for ours, eager in zip(found, expected, strict=True):
        for one, other in zip(ours, eager, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backward_outside", [False, True])
def test_what_is_the_same_at_every_call_lies_where_it_is_used(backward_outside, where):
    """Numbers written over a tensor of the device's, and masks made of indices."""

    def function(x):
        overwritten = x.clone()
        overwritten[:] = 2
        filled = x * 0
        filled.fill_(3)
        places = minitorch.tensor([0, 2]).to(x.device)
        named = x.index_fill(0, places, 0.5)
        number = minitorch.tensor(1.5)
        loss = (named * overwritten + filled * x * number).sum() + (overwritten * 2).sum() / number
        if not backward_outside:
            loss.backward()
        assert number.device.type == "cpu"
        return loss, overwritten, filled, minitorch.cat([overwritten, filled])

    run = minitorch.compile(function, fullgraph=True)
    for i in range(3):
        given = [minitorch.tensor(normal(3, seed=i)) for _ in range(2)]
        x, other = given[0].to("cuda").requires_grad_(), given[1].requires_grad_()
        results, expected = run(x), function(other)
        if backward_outside:
            results[0].backward()
            expected[0].backward()
        for mine, wanted in zip(results, expected, strict=True):
            assert there(mine)
            np.testing.assert_allclose(numbers(mine.detach()), wanted.detach().numpy(), rtol=1e-6)
        np.testing.assert_allclose(numbers(x.grad), other.grad, rtol=1e-6)


@pytest.mark.skipif(REAL, reason="looks at what a stand-in's streams were told")
def test_calls_on_several_streams_wait_for_each_other():
    run = minitorch.compile(lambda x: (x.exp().cumsum(0) / 3).softmax(0))
    x = minitorch.tensor(normal(40)).to("cuda")
    first, second = minitorch.cuda.Stream(), minitorch.cuda.Stream()
    told = lambda stream: [each for each in stream.stream.log if each[0] == "wait"]
    for _ in range(3):
        run(x)
    with minitorch.cuda.stream(first):
        run(x)
        assert len(told(first)) == 1  # for what was launched before, on no stream of its own
        run(x)
    with minitorch.cuda.stream(second):
        run(x)
    assert [each[1] is first.stream for each in told(second)] == [True]
    assert len(told(first)) == 1


def test_what_is_made_there_of_nothing_stays_there():
    for function in (
        lambda: minitorch.zeros(3, device="cuda"),
        lambda: minitorch.arange(4, device="cuda") * 2.0,
        lambda: minitorch.eye(2, device="cuda").tril(),
    ):
        run = minitorch.compile(function, fullgraph=True)
        for _ in range(4):
            found = run()
            assert there(found)
            np.testing.assert_array_equal(numbers(found), numbers(function()))
