"""The table of docs/compiling.md, row by row: for each there are programs that do what it says."""

import contextlib
import io
import logging
import random
import re
import time
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.call.compiled import CompileWarning

PAGE = Path(__file__).parents[3] / "docs" / "compiling.md"
ROWS = {}


def row(text):
    """Enter programs for the row whose first cell begins with this."""

    def enter(function):
        ROWS.setdefault(text, []).append(function)
        return function

    return enter


def rows_of_the_page():
    part = PAGE.read_text(encoding="utf-8").split("## What it may rely on")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [re.split(r" \| ", line.strip("| "))[0] for line in lines[1:]]


def compiled(function):
    return mt.compile(function, backend="numpy")


def expect(function, calls, changes=(), compilations=1):
    """Compare calls with the function itself, with something done between them; return the compiled function."""
    f = compiled(function)
    for i, args in enumerate(calls):
        if i in dict(changes):
            dict(changes)[i]()
        state = mt.get_rng_state()
        found = f(*args)
        mt.set_rng_state(state)
        if isinstance(found, mt.Tensor):
            np.testing.assert_allclose(found.detach().numpy(), function(*args).detach().numpy(), rtol=1e-6)
        else:
            assert found == function(*args)
    assert f.compilations == compilations, f.cache.reasons
    return f


def expect_refusal(function, *args, match):
    f = compiled(function)
    with pytest.warns(CompileWarning, match=match):
        f(*args)
    assert f.compilations == 0


X = (mt.tensor([1.0, 2.0]),)


@row("values of Tensors")
def values_are_inputs():
    weight, array = nn.Parameter(mt.ones(2)), np.ones(2, np.float32)

    def change():
        with mt.no_grad():
            weight.mul_(3)
        array[0] = 7

    expect(lambda x: x * weight + array, [X] * 6, {3: change})


@row("the learning rate")
def rates_are_inputs():
    p = nn.Parameter(mt.ones(2))
    optimizer = optim.SGD([p], lr=0.5)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    f = compiled(step)
    for rate in (0.5, 0.5, 0.25, 0.125):
        optimizer.param_groups[0]["lr"] = rate
        before = p.tolist()
        f(mt.ones(2))
        assert p.tolist() == [b - rate for b in before]
    assert f.compilations == 1


@row("the learning rate")
def floats_among_arguments_become_inputs():
    expect(lambda x, n: x * n, [(*X, n) for n in (1.0, 2.0, 3.0, 4.0, 5.0)], compilations=2)


@row("a Python number")
def python_values_are_guarded():
    config = {"name": "a", "scale": 2}
    expect(
        lambda x: x * config["scale"] if config["name"] == "a" else -x,
        [X] * 8,
        {3: lambda: config.update(name="b"), 6: lambda: config.update(name="a")},
        compilations=2,
    )


@row("what is *not* there")
def absences_lengths_and_order_are_guarded():
    class Thing:
        pass

    thing, parts = Thing(), {"a": 2.0, "b": 3.0}

    def f(x):
        x = x * getattr(thing, "scale", 1.0)
        for value in parts.values():
            x = x * value + 1
        return x

    changes = {2: lambda: setattr(thing, "scale", 5.0), 4: lambda: parts.update(a=parts.pop("a"))}
    expect(f, [X] * 6, changes, compilations=3)


@row("a replaced method")
def replacements_are_guarded():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def replace():
        model[0] = nn.Linear(2, 2)

    changes = {2: replace, 4: model.eval, 6: lambda: setattr(model[1], "forward", lambda x: x * 2)}
    expect(lambda x: model(x), [(mt.ones(1, 2),)] * 8, changes, compilations=4)


@row("which arguments are one object")
def identity_belongs_to_a_program():
    known, other = mt.ones(2), mt.ones(2) * 2
    function = lambda a, b: a * 2 + known if a is b else a * 3 + known
    expect(
        function,
        [(known, other), (other, known), (other, other), (mt.ones(2), mt.ones(2)), (known, other)],
        compilations=4,
    )


@row("an argument, a gradient or a rebound Tensor that comes to share memory")
def shared_memory_is_seen():
    written, p = mt.ones(2), nn.Parameter(mt.ones(2))
    p.grad = np.ones(2, np.float32)

    @compiled
    def f(x):
        written.mul_(2)
        return x * 3 + mt.tensor(p.grad)

    assert f(mt.ones(2)).tolist() == f(mt.ones(2)).tolist() == [4, 4]
    assert f(written.detach()).tolist() == [25, 25]  # it is 8 when it is read
    p.grad = written.data
    assert f(mt.ones(2)).tolist() == [19, 19]
    assert f.compilations == 1


@row("a NumPy array read by value")
def contents_are_compared():
    array = np.ones(3)
    expect(lambda x: x * float(array.sum()), [X] * 4, {2: lambda: array.__setitem__(0, 9)}, compilations=2)


@row("`self.n += 1`")
def effects_happen_at_each_call():
    class Trainer:
        n, last = 0, None

    trainer, log, numbers = Trainer(), [], {}

    @compiled
    def step(x):
        trainer.n += 1
        trainer.last = x * 2
        log.append(x.sum())
        numbers["loss"] = x.mean().item()
        return x

    for i in range(6):
        step(mt.ones(2) * i)
        assert trainer.n == len(log) == i + 1
        assert trainer.last.tolist() == [2 * i] * 2
        assert log[-1].item() == 2 * i
        assert numbers == {"loss": float(i)}
    assert step.compilations == 1


@row("a Tensor attribute or buffer rebound")
def rebound_tensors_are_inputs():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", mt.zeros(2))
            self.hidden = mt.zeros(2)

        def forward(self, x):
            self.mean = 0.5 * self.mean + x
            self.hidden = (self.hidden + self.mean).detach()
            return self.hidden * 2

    net, twin = Net(), Net()
    f = mt.compile(net, backend="numpy")
    for i in range(6):
        np.testing.assert_allclose(f(X[0] * i).numpy(), twin(X[0] * i).numpy(), rtol=1e-6)
    assert net.mean.tolist() == twin.mean.tolist()
    assert f.compilations == 1


@row("`print`, `logging`")
def texts_are_said_at_each_call():
    out = io.StringIO()
    logger = logging.Logger("here")
    logger.addHandler(logging.StreamHandler(out))

    @compiled
    def f(x):
        print("sum", x.sum().item())
        logger.warning("mean %.1f", x.mean().item())
        print(f"{x.sum():.2f}")
        return x

    with contextlib.redirect_stdout(out):
        for i in range(4):
            f(mt.ones(2) * i)
    assert out.getvalue() == "".join(f"sum {2.0 * i}\nmean {i:.1f}\n{2 * i:.2f}\n" for i in range(4))
    assert f.compilations == 1


@row("`loss.item()`")
def numbers_may_leave():
    expect(
        lambda x: (x.sum().item() * 2, f"{x.sum().item():.1f}", float(x.mean())),
        [(mt.ones(2) * i,) for i in range(5)],
    )


@row("randomness")
def draws_are_made_at_each_call():
    layer = nn.Dropout(0.5)
    expect(lambda x: layer(x) + mt.rand(2) + mt.randn(2), [X] * 5)


@row("an error of the function's own")
def errors_leave_what_eager_leaves():
    counts = {"calls": 0}
    buffer = mt.zeros(2)

    @compiled
    def f(x):
        counts["calls"] += 1
        buffer.add_(x)
        if counts["calls"] == 3:
            raise KeyError("on purpose")
        return buffer.sum()

    for i in range(5):
        with pytest.raises(KeyError) if i == 2 else contextlib.nullcontext():
            f(mt.ones(2))
    assert counts == {"calls": 5}
    assert buffer.tolist() == [5, 5]


@row("an error of the function's own")
def errors_are_the_functions_own():
    table = mt.arange(3.0)
    f = compiled(lambda i: table[i])
    for _ in range(3):
        f(mt.tensor([0, 2]))
    with pytest.raises(IndexError):
        f(mt.tensor([0, 3]))
    assert f(mt.tensor([1, 1])).tolist() == [1, 1]


@row("`if`, `while`")
def decisions_on_values_are_refused():
    expect_refusal(lambda x: x if x.sum() > 0 else -x, *X, match="only known when the program runs")

    def caught(x):
        try:
            return x[mt.tensor(7)]
        except IndexError:
            return x

    expect_refusal(caught, *X, match="catches|check failed")


@row("Python's or NumPy's own random generators")
def what_is_not_known_is_refused():
    thing = nn.ReLU()
    reference, source = weakref.ref(thing), iter([1.0, 2.0])
    for function, match in (
        (lambda x: x * random.random(), "random generator"),
        (lambda x: x * np.random.rand(), "random generator|not known what it reads"),
        (lambda x: x * time.time(), "not known what it reads|time"),
        (lambda x: x * eval("2"), "eval"),
        (lambda x: x * len(Path(__file__).read_text(encoding="utf-8")), "open"),
        (lambda x: reference()(x), "weak reference"),
        (lambda x: x * next(source), "iterator"),
    ):
        expect_refusal(function, *X, match=match)


@row("hooks, and the backward of Functions")
def what_runs_after_the_call_is_refused_if_it_looks_outside():
    p, seen = nn.Parameter(mt.ones(2)), []

    def hooked(x):
        h = p * x
        h.register_hook(seen.append)
        return h.sum()

    expect_refusal(hooked, *X, match="call backward\\(\\) inside as well")


@row("backward through a graph")
def what_is_of_one_call_alone_is_refused():
    p = nn.Parameter(mt.ones(2))
    expect_refusal(lambda y: y.sum().backward(), p * 2, match="from before the call")
    expect_refusal(lambda x: x.requires_grad_().sum(), mt.ones(2), match="requires_grad")
    expect_refusal(lambda d: d.update(a=1), {"a": 2}, match="container among its arguments")


@pytest.mark.parametrize("text", rows_of_the_page(), ids=lambda text: text[:40])
def test_the_row_is_true(text):
    programs = [program for start, group in ROWS.items() if text.startswith(start) for program in group]
    assert programs, f"no program for the row {text!r}"
    for program in programs:
        mt.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            program()


def test_every_program_has_its_row():
    rows = rows_of_the_page()
    assert len(rows) >= 15
    assert all(any(text.startswith(start) for text in rows) for start in ROWS)
