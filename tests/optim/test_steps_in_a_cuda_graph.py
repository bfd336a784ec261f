"""What a captured graph is told before each replay, on a GPU that does not exist: there a replay is a list of calls."""

import numpy as np
import pytest

import minitorch
import standin_cupy
from minitorch.engine import capturing
from minitorch.ops import native
from minitorch.optim import optimizer as optimizer_module
from minitorch.tensor.generator import generator_of
from standin import DeviceArray

OPTIMIZERS = {
    "SGD": {"lr": 0.1},
    "momentum": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"lr": 0.1, "weight_decay": 0.01},
    "AdamW": {"lr": 0.1, "capturable": True},
    "NAdam": {"lr": 0.1},
    "Adamax": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "centered": True, "momentum": 0.5},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "Adadelta": {"lr": 1.0},
    "ASGD": {"lr": 0.1},
    "Rprop": {"lr": 0.1},
}


@pytest.fixture
def cupy(monkeypatch):
    made = standin_cupy.installed(monkeypatch)
    native.meet(DeviceArray)
    yield made
    native.forget(DeviceArray)


def optimizer_of(name, parameters):
    return getattr(minitorch.optim, {"momentum": "SGD"}.get(name, name))(parameters, **OPTIMIZERS[name])


def steps(name, device, graph):
    """Parameters after some steps with other gradients, and another learning rate in the end."""
    weights = [minitorch.tensor([[1.0, -2.0]], device=device), minitorch.tensor([0.5], device=device)]
    grads = [minitorch.ones_like(w) for w in weights]
    for w, g in zip(weights, grads, strict=True):
        w.requires_grad_()
        w.grad = g._data
    optimizer = optimizer_of(name, weights)
    replay = optimizer.step
    found = []
    for number in range(8):
        for g in grads:
            g.fill_(0.3 * number - 1)
        if number == 6:
            optimizer.param_groups[0]["lr"] = 0.05
        if number == 3 and graph is not None:
            replay = graph(optimizer.step)
        replay()
        found.append([w.detach().cpu().numpy().copy() for w in weights])
    return found


@pytest.fixture
def graph(cupy, monkeypatch):
    """Make a graph of a function: its updates are not done, but written down, and done at each replay."""

    def captured(function):
        capture, launches = capturing.Capture(cupy), []
        plain = optimizer_module._in_one_go

        def recording(*how):
            rule = plain(*how)
            return lambda arrays, numbers: launches.append((rule, arrays, numbers))

        with monkeypatch.context() as patch:
            patch.setattr(optimizer_module, "_in_one_go", recording)
            capturing.begin(capture)
            try:
                function()
            finally:
                capturing.end(capture)

        def replay():
            capture.tell()
            for rule, arrays, numbers in launches:
                rule(arrays, numbers)

        return replay

    return captured


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_replayed_steps_are_counted_and_follow_the_learning_rate(graph, name):
    for mine, other in zip(steps(name, "cuda", graph), steps(name, "cuda", None), strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", ["momentum", "Adam", "RMSprop"])
def test_a_first_step_is_not_captured(graph, name):
    w = minitorch.ones(2, device="cuda").requires_grad_()
    w.grad = minitorch.ones(2, device="cuda")._data
    optimizer = optimizer_of(name, [w])
    with pytest.raises(RuntimeError, match="no step yet.*before the capture"):
        graph(optimizer.step)
    assert not optimizer.state.get(w)
    assert capturing.current() is None


def test_a_state_that_was_loaded_after_the_capture(graph):
    w = minitorch.ones(2, device="cuda").requires_grad_()
    w.grad = minitorch.ones(2, device="cuda")._data
    optimizer = optimizer_of("Adam", [w])
    optimizer.step()
    replay = graph(optimizer.step)
    replay()
    optimizer.param_groups[0]["betas"] = (0.5, 0.9)
    with pytest.raises(RuntimeError, match="capture it again"):
        replay()


def test_rules_that_cannot_be_captured(graph):
    w = minitorch.ones(2, 2, device="cuda").requires_grad_()
    w.grad = minitorch.ones(2, 2, device="cuda")._data
    with pytest.raises(RuntimeError, match=r"Muon.step.*after graph.replay\(\)"):
        graph(minitorch.optim.Muon([w]).step)


def test_random_numbers_go_on_at_each_replay(cupy, monkeypatch):
    minitorch.manual_seed(5)
    source = generator_of(minitorch.device("cuda", 0))
    draw = lambda: [source.fractions(3, np.dtype("float32")), source.normals(5, np.dtype("float32"))]
    expected = [[each.host.copy() for each in draw()] for _ in range(3)]
    after = minitorch.cuda.get_rng_state().tolist()
    minitorch.manual_seed(5)
    capture, launches = capturing.Capture(cupy), []
    with monkeypatch.context() as patch:
        patch.setattr(standin_cupy.RawKernel, "__call__", lambda *launch: launches.append(launch))
        capturing.begin(capture)
        drawn = draw()
        capturing.end(capture)
    assert source.get_offset() == 0
    for numbers in expected:
        capture.tell()
        for kernel, *launch in launches:
            kernel(*launch)
        for mine, other in zip(drawn, numbers, strict=True):
            np.testing.assert_array_equal(mine.host, other)
    assert minitorch.cuda.get_rng_state().tolist() == after
