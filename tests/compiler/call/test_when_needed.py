"""Programs wait for a second call before they are made native, and are verified then, as everything is that is used."""

import warnings

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.backends.llvm import native
from minitorch.compiler.call import verify, when_needed
from minitorch.compiler.call.compiled import Disagreement


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Let programs wait, as outside of tests; give what was made native."""
    monkeypatch.setattr(when_needed, "enabled", True)
    programs, compile = [], native.Llvm.compile

    def count(self, program, *more):
        programs.append(program)
        return compile(self, program, *more)

    monkeypatch.setattr(native.Llvm, "compile", count)
    return programs


def a_step(seed=0):
    mt.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def test_a_program_is_made_native_at_the_second_call_and_run_from_the_third_on(made):
    calls = []
    f = mt.compile(lambda x: (calls.append(1), x.tanh() * 2)[1])
    x = mt.randn(6)
    for count in (0, 1, 1, 1):
        np.testing.assert_allclose(f(x).data, np.tanh(x.data) * 2, rtol=1e-6)
        assert len(made) == count
    assert f.compilations == 1
    assert len(calls) == 4  # (what is appended is done at each call)
    assert f.cache.audits == 1


def test_what_comes_once_is_never_made_native(made):
    f = mt.compile(lambda x: x.exp().sum(), dynamic=False)
    for n in (3, 4, 5):
        f(mt.ones(n))
    assert (f.compilations, len(made)) == (3, 0)


def test_of_sizes_that_vary_the_program_for_all_is_made_at_once_and_that_for_the_first_never(made):
    step, model = a_step()
    eager, same = a_step()
    compiled = mt.compile(step)
    for n in (9, 4, 12, 5, 30, 2):
        x, y = mt.randn(n, 5), mt.randint(0, 3, (n,))
        np.testing.assert_allclose(compiled(x, y).item(), eager(x, y).item(), rtol=1e-5)
    assert len(made) == 1
    assert made[0].symbols
    for a, b in zip(model.parameters(), same.parameters(), strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-4, atol=1e-6)


def test_training_with_gradients_of_the_results_is_that_of_eager(made):
    def run(compile):
        mt.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 2))
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        forward = compile(model)
        x = mt.randn(8, 4)
        for _ in range(5):
            optimizer.zero_grad()
            forward(x).square().mean().backward()
            optimizer.step()
        return [np.array(p.data) for p in model.parameters()]

    for a, b in zip(run(mt.compile), run(lambda model: model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert len(made) == 2  # forwards, and the way back


def test_a_wrong_program_is_noticed_before_it_is_used(monkeypatch):
    f = mt.compile(lambda x: x * 3)
    monkeypatch.setattr(verify, "first_difference", lambda *arguments: (0, ""))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(mt.ones(2))
    with pytest.warns(Disagreement, match="differs"):
        assert f(mt.ones(2)).tolist() == [3, 3]
    assert f(mt.ones(2)).tolist() == [3, 3]
    assert f.compilations == 0
    assert "differs" in str(f.explain())


def test_an_error_in_llvm_is_told_and_the_function_runs(monkeypatch):
    f = mt.compile(lambda x: x - 1)
    f(mt.ones(2))

    def fail(*arguments):
        raise RuntimeError("no code")

    monkeypatch.setattr(native.Llvm, "compile", fail)
    with pytest.warns(Disagreement, match="no code"):
        assert f(mt.ones(2)).tolist() == [0, 0]


def test_another_function_at_the_second_call_is_found_out():
    scale = [2.0]
    f = mt.compile(lambda x: x * scale[0])
    f(mt.ones(2))
    scale[0] = 5.0
    for _ in range(3):
        assert f(mt.ones(2)).tolist() == [5, 5]


def test_explain_shows_kernels_after_one_call(made):
    f = mt.compile(lambda x: x.tanh().sum())
    f(mt.ones(5))
    assert "tanh" in str(f.explain())
    assert len(made) == 1
    assert f(mt.ones(5)).item() == pytest.approx(5 * np.tanh(1))
    assert f.compilations == 1


def test_unverified_programs_are_made_at_once(made):
    f = mt.compile(lambda x: x + 1, verify=False)
    f(mt.ones(2))
    assert len(made) == 1
    assert f(mt.ones(2)).tolist() == [2, 2]
