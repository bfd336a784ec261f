"""Would we notice? Each test puts one mistake into the compiler, and the compiled function must find it by itself.

It warns, gives the function's own results, leaves the function eager, and nothing is wrong afterwards.
"""

import dataclasses
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import minitorch as mt
from compiled import write_down_too_much
from minitorch import nn, optim
from minitorch.compiler.backends.llvm import assemble, native
from minitorch.compiler.call.compiled import Disagreement
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.schedule import schedule

simplify, Step = schedule.simplify, assemble.Step


def a_step(optimizer=lambda p: optim.SGD(p, lr=0.1), sizes=(24, 40, 10)):
    """Return a training step, its model and a batch."""
    mt.manual_seed(0)
    n, m, k = sizes
    model = nn.Sequential(nn.Linear(n, m), nn.LayerNorm(m), nn.Tanh(), nn.Linear(m, k))
    steps = optimizer(model.parameters())
    x, y = mt.randn(32, n), mt.randint(0, k, (32,))

    def step(x, y):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        steps.step()
        return loss

    return step, model, (x, y)


def everything(model):
    return [np.array(p.data) for p in model.parameters()] + [np.array(p.grad) for p in model.parameters()]


def thrice(step, batch):
    for _ in range(3):
        step(*batch)


def assert_noticed(what="differs", **options):
    """Compile and run a step with the mistake that is in place now."""
    step, expected, batch = a_step(**options)
    thrice(step, batch)
    step, model, batch = a_step(**options)
    compiled = mt.compile(step)
    with pytest.warns(Disagreement, match=what):
        thrice(compiled, batch)
    assert compiled.compilations == 0
    for found, right in zip(everything(model), everything(expected), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def changed(program, victim, make):
    """Return a program in which one value is made in another way."""
    new = {}
    for value in program.values():
        inputs = tuple(new[i] for i in value.inputs)
        made = value
        if value.primitive != "input":
            made = Value(value.primitive, inputs, value.attributes, value.shape, value.dtype)
        new[value] = make(made) if value is victim else made
    return Program([new[i] for i in program.inputs], [new[o] for o in program.outputs])


def scaled(factor):
    """Make a value `factor` times what it is."""

    def make(value):
        by = Value(
            "constant", (), {"array": np.full(value.shape, factor, value.dtype)}, value.shape, value.dtype
        )
        return Value("map", (value, by), {"function": "multiply"}, value.shape, value.dtype)

    return make


def floats(program, *primitives):
    return [v for v in program.values() if v.primitive in primitives and v.dtype == np.float32 and v.size > 1]


def test_without_a_mistake_nothing_is_noticed():
    step, _, batch = a_step()
    compiled = mt.compile(step)
    thrice(compiled, batch)
    assert compiled.compilations == 1


@pytest.mark.parametrize("number", range(14))
def test_a_value_times_1_001(number, monkeypatch):
    """Every product and every sum of the program, one at a time. (A maximum is only subtracted before exp.)"""

    def wrong(program):
        program = simplify(program)
        candidates = [
            v for v in floats(program, "contract", "reduce") if v.attributes.get("function") != "maximum"
        ]
        assert len(candidates) == 14
        return changed(program, candidates[number], scaled(1.001))

    monkeypatch.setattr(schedule, "simplify", wrong)
    assert_noticed()


@pytest.mark.parametrize("function", ["add", "multiply", "divide", "sqrt", "tanh", "exp", "log"])
def test_a_function_times_1_001(function, monkeypatch):
    def wrong(program):
        program = simplify(program)
        made = [v for v in program.values() if v.attributes.get("function") == function]
        made = [v for v in made if v.primitive == "map" and v.dtype == np.float32]
        return changed(program, made[len(made) // 2], scaled(1.001))

    monkeypatch.setattr(schedule, "simplify", wrong)
    assert_noticed()


def test_a_dropped_epilogue(monkeypatch):
    """A product whose bias is not added, at one layer."""

    def wrong(program):
        program = simplify(program)
        product = floats(program, "contract")[0]
        reads = [v for v in program.values() if v.primitive == "map" and len(v.inputs) == 2]
        behind = next(v for v in reads if v.attributes["function"] == "add" and product in v.inputs)
        place = behind.inputs.index(product)
        return changed(
            program, behind, lambda value: Value("copy", (value.inputs[place],), {}, value.shape, value.dtype)
        )

    monkeypatch.setattr(schedule, "simplify", wrong)
    # A bias of a new Linear is not 0.
    assert_noticed()


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_loop_that_stops_too_early(which, monkeypatch):
    seen = []

    def short(*given, **options):
        step = Step(*given, **options)
        if step.units > 1:
            seen.append(step)
        wrong = {"first": 1, "middle": 3, "last": 5}[which]
        return (
            dataclasses.replace(step, units=step.units - 1)
            if len(seen) == wrong and step is seen[-1]
            else step
        )

    monkeypatch.setattr(assemble, "Step", short)
    assert_noticed(sizes=(96, 160, 64))
    assert seen


def test_a_program_that_fails(monkeypatch):
    def fail(self, inputs):
        raise IndexError("an index is outside of an axis of length 7")

    monkeypatch.setattr(native.Native, "__call__", fail)
    assert_noticed(what="could not be run")


def test_an_update_that_is_not_made(monkeypatch):
    """A parameter keeps its old value."""

    def wrong(program):
        program = simplify(program)
        outputs = list(program.outputs)
        weight = next(i for i in program.inputs if i.shape == (10, 40))
        place = next(i for i, o in enumerate(outputs) if o.shape == weight.shape)
        outputs[place] = weight
        return Program(program.inputs, outputs)

    monkeypatch.setattr(schedule, "simplify", wrong)
    assert_noticed()


def test_a_mistake_of_an_optimizer_that_divides_by_the_gradient(monkeypatch):
    """Adam's first step is ±lr whatever the gradient's size: the gradient itself gives the mistake away."""

    def wrong(program):
        program = simplify(program)
        return changed(program, floats(program, "contract")[-1], scaled(1.001))

    monkeypatch.setattr(schedule, "simplify", wrong)
    assert_noticed(optimizer=lambda p: optim.AdamW(p, lr=0.01))


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam])
@pytest.mark.parametrize("function", ["add", "multiply", "divide", "sqrt", "tanh", "exp"])
def test_a_recording_of_something_else(function, optimizer, monkeypatch):
    write_down_too_much(function, monkeypatch)
    assert_noticed(what="recording is wrong", optimizer=lambda p: optimizer(p, lr=0.01))


def test_a_recorded_update_of_something_else(monkeypatch):
    """The gradients are right, and what an optimiser makes of them is not."""
    write_down_too_much("sqrt", monkeypatch, shape=(10, 40))
    assert_noticed(what="recording is wrong", optimizer=lambda p: optim.Adam(p, lr=0.01))


NEARLY_NOTHING = {
    # The gradient of a logarithm of what keeps few of its digits has none that are right.
    "1 - exp(-small)": lambda z: (1 - (-(z**2) * 1e-4).exp()).log(),
    "1 - exp(-less small)": lambda z: (1 - (-(z**2) * 1e-2).exp()).log(),
    # Some rounding errors more, and it would be a logarithm of less than 0.
    "1 - tanh² + ε": lambda z: (1 - (2 * z).tanh() ** 2 + 1e-6).log().sum(),
}


@pytest.mark.parametrize("function", NEARLY_NOTHING)
@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_all_but_cancel_out_are_no_disagreement(seed, function):
    draw = np.random.default_rng(seed)
    weight = mt.tensor(draw.normal(size=(6, 6)).astype(np.float32)).requires_grad_()
    compiled = mt.compile(lambda x: NEARLY_NOTHING[function](x @ weight))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            compiled(mt.tensor(draw.normal(size=(8, 6)).astype(np.float32)))
    assert compiled.compilations == 1


def test_numbers_that_leave_before_what_they_were_read_from_is_written_into():
    """They are those from before, and the program that gives these is right."""

    def step(x, parameter):
        before = x[0].item(), x.sum(), parameter.grad.tolist()
        x.add_(1.0)
        (parameter * x).sum().backward()
        return before

    def given():
        x, parameter = mt.tensor([1.0, 2.0]), mt.tensor([3.0, 4.0], requires_grad=True)
        parameter.grad = np.array([5.0, 6.0], np.float32)
        return x, parameter

    theirs, mine = given(), given()
    compiled = mt.compile(step)
    for _ in range(3):
        expected, found = step(*theirs), compiled(*mine)
        assert found[0] == expected[0]
        assert found[2] == expected[2]
        np.testing.assert_array_equal(found[1].data, expected[1].data)
    assert compiled.compilations == 1


def test_gradients_that_vanish_on_the_way_are_no_disagreement():
    """128 layers leave gradients of 1e-40, where a rounding error is no longer small beside the number."""
    mt.manual_seed(0)
    layers = [part for _ in range(128) for part in (nn.Linear(8, 8), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(8, 3))
    optimiser = optim.SGD(model.parameters(), lr=0.1)

    @mt.compile
    def step(x):
        optimiser.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("error", Disagreement)
        step(mt.randn(4, 8))
    assert step.compilations == 1
    smallest = np.abs(model[0].weight.grad).max()
    assert 0 <= smallest < np.finfo(np.float32).tiny


def test_a_disagreement_is_shown_to_a_person_who_set_no_filters(tmp_path):
    program = tmp_path / "person.py"
    program.write_text(
        "import minitorch\n"
        "from minitorch.compiler.call import verify\n"
        "verify.first_difference = lambda *arguments: (0, '')\n"
        "double = minitorch.compile(lambda x: x * 2)\n"
        "double(minitorch.ones(3))\n"
        "print(double(minitorch.ones(3)).tolist())\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "[2.0, 2.0, 2.0]\n"
    assert "person.py:6: Disagreement" in done.stderr
