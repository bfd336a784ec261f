"""Every optimiser with every option, step by step beside PyTorch's."""

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

import minitorch
from minitorch import optim
from minitorch.optim.optimizer import BLOCK
from pytorch import torch

CASES = [
    ("SGD", {}),
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "maximize": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3}),
    ("Adam", {"lr": 0.05, "betas": (0.0, 0.0)}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "maximize": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3}),
    ("AdamW", {"lr": 0.05, "amsgrad": True}),
    ("AdamW", {"lr": 0.05, "maximize": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.0}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-2}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "momentum_decay": 0.1, "eps": 1e-2}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.05, "betas": (0.8, 0.9)}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "eps": 1e-2}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.05, "alpha": 0.9, "eps": 1e-2}),
    ("RMSprop", {"lr": 0.05, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.05, "centered": True}),
    ("RMSprop", {"lr": 0.05, "centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.05, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.05, "etas": (0.3, 1.5), "step_sizes": (0.01, 0.08)}),
    ("Rprop", {"lr": 0.05, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adagrad", {"lr": 0.05, "weight_decay": 0.1, "eps": 1e-2, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3}),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 4, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.05, "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-2, 1e-2), "d": 2.0}),
    ("Adafactor", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("LBFGS", {}),
    ("LBFGS", {"lr": 0.1, "max_iter": 3}),
    ("LBFGS", {"lr": 0.5, "max_iter": 4, "history_size": 2}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 2}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 3, "history_size": 3, "max_eval": 5}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "lr": 5.0, "max_iter": 2, "max_eval": 12}),
]
NAMES = sorted({name for name, _ in CASES})
ids = [f"{name}-{'-'.join(f'{k}={v}' for k, v in options.items())}" for name, options in CASES]
every_case = pytest.mark.parametrize(("name", "options"), CASES, ids=ids)


def start(dtype):
    """A matrix, a vector, a scalar, and a parameter the loss does not see."""
    numbers = np.random.default_rng(0)
    return [np.asarray(numbers.normal(size=shape), dtype=dtype) for shape in [(3, 4), (4,), (), (2,)]]


DATA = np.random.default_rng(1).normal(size=(5, 3))
TARGET = np.random.default_rng(2).normal(size=(5, 4))


class Run:
    """Training of one small problem, with minitorch or with PyTorch."""

    def __init__(self, library, name, options, dtype=np.float64, values=None):
        self.library = library
        self.dtype = dtype
        self.params = [
            library.tensor(v, requires_grad=True) for v in (start(dtype) if values is None else values)
        ]
        self.optimizer = getattr(library.optim, name)(self.params, **options)
        self.losses = []

    def closure(self):
        weight, bias, scale, _ = self.params
        x, y = (self.library.tensor(a.astype(self.dtype)) for a in (DATA, TARGET))
        self.optimizer.zero_grad()
        # Well conditioned, so that LBFGS does not blow rounding errors up; bounded, so that maximising can go on.
        loss = ((self.library.tanh(x @ weight + bias) * scale - y) ** 2).mean()
        loss = loss + self.library.cos(bias).sum() * 0.1 + 0.3 * self.library.tanh(weight**2).sum()
        loss.backward()
        return loss

    def steps(self, count):
        for _ in range(count):
            self.losses.append(self.optimizer.step(self.closure).item())
        return self

    def values(self):
        return [p.detach().numpy().copy() for p in self.params]


def assert_same(ours, theirs, rtol, atol):
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


@every_case
def test_twenty_steps_equal_pytorch(name, options):
    ours = Run(minitorch, name, options).steps(20)
    theirs = Run(torch, name, options).steps(20)
    # Twenty steps of LBFGS are up to 400 iterations, each amplifying the rounding before it.
    tolerance = 1e-8 if name == "LBFGS" else 1e-12
    assert_same(ours.values(), theirs.values(), tolerance, tolerance)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=tolerance, atol=tolerance)
    # … and they went somewhere, except where no gradient came.
    assert all((a != b).all() for a, b in zip(ours.values()[:3], start(np.float64)[:3], strict=True))
    np.testing.assert_array_equal(ours.values()[3], start(np.float64)[3])


@every_case
def test_twenty_steps_in_float32(name, options):
    ours = Run(minitorch, name, options, np.float32).steps(20)
    if name == "LBFGS":  # far from exact arithmetic the line search may take another branch
        assert ours.losses[-1] < ours.losses[0]
        assert {v.dtype for v in ours.values()} == {np.dtype(np.float32)}
        return
    theirs = Run(torch, name, options, np.float32).steps(20)
    assert_same(ours.values(), theirs.values(), 2e-4, 2e-5)


@every_case
def test_resuming_from_a_state_dict_changes_nothing(name, options):
    whole = Run(minitorch, name, options).steps(20)
    first = Run(minitorch, name, options).steps(9)
    saved = pickle.loads(pickle.dumps(first.optimizer.state_dict()))
    second = Run(minitorch, name, {} if name != "LBFGS" else options, values=first.values())
    second.optimizer.load_state_dict(saved)
    first.steps(1)  # what was saved must not change with the optimiser it was saved from
    second.steps(11)
    assert_same(second.values(), whole.values(), 1e-12, 1e-12)


@every_case
def test_state_moves_from_pytorch_and_back(name, options):
    theirs = Run(torch, name, options).steps(7)
    ours = Run(minitorch, name, options, values=theirs.values())
    ours.optimizer.load_state_dict(theirs.optimizer.state_dict())
    again = ours.optimizer.state_dict()
    assert again["state"].keys() == theirs.optimizer.state_dict()["state"].keys()
    for key, entry in theirs.optimizer.state_dict()["state"].items():
        assert again["state"][key].keys() == entry.keys()
    assert again["param_groups"] == theirs.optimizer.state_dict()["param_groups"]
    theirs.steps(6)
    ours.steps(6)
    # mu_product of NAdam is kept in float32 by PyTorch.
    assert_same(ours.values(), theirs.values(), 1e-9, 1e-9)


@pytest.mark.parametrize(("name", "options"), [c for c in CASES if c[0] != "LBFGS"])
def test_the_layout_of_state_dict_is_pytorchs(name, options):
    ours = Run(minitorch, name, options).steps(2).optimizer.state_dict()
    theirs = Run(torch, name, options).steps(2).optimizer.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["param_groups"][0]) == list(theirs["param_groups"][0])
    assert ours["state"].keys() == theirs["state"].keys()
    for key, entry in theirs["state"].items():
        assert ours["state"][key].keys() == entry.keys()
        for k, value in entry.items():
            mine = ours["state"][key][k]
            assert mine.shape == tuple(value.shape), (key, k)
            assert str(mine.dtype) == str(value.dtype).removeprefix("torch."), (key, k)
            np.testing.assert_allclose(mine.numpy(), value.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_and_repr_are_pytorchs(name):
    ours, theirs = Run(minitorch, name, {}).optimizer, Run(torch, name, {}).optimizer
    assert ours.defaults == theirs.defaults
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "LBFGS"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided gradient"])
def test_large_and_oddly_laid_out_parameters(name, layout):
    numbers = np.random.default_rng(0)
    value = numbers.normal(size=(3, BLOCK + 7))
    options = {"lr": 0.01} | ({"momentum": 0.9} if name in ("SGD", "RMSprop") else {})
    mine = minitorch.tensor(value, requires_grad=True)
    if layout == "transposed":
        mine = minitorch.from_numpy(np.asfortranarray(value)).requires_grad_()
        assert not mine.is_contiguous()
    theirs = torch.tensor(value, requires_grad=True)
    ours, other = getattr(optim, name)([mine], **options), getattr(torch.optim, name)([theirs], **options)
    for _ in range(3):
        g = numbers.normal(size=value.shape)
        theirs.grad = torch.tensor(g)
        mine.grad = np.asfortranarray(g) if layout == "strided gradient" else g
        ours.step()
        other.step()
        np.testing.assert_array_equal(mine.grad, g)  # gradients are read, never written
    assert_same([mine.detach().numpy()], [theirs.detach().numpy()], 1e-12, 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_learning_rate_that_is_a_tensor(name):
    number = Run(minitorch, name, {"lr": 0.125}).steps(3)
    tensor = Run(minitorch, name, {"lr": minitorch.tensor(0.125)}).steps(3)
    assert_same(tensor.values(), number.values(), 0, 0)


def test_groups_have_their_own_options():
    a, b = start(np.float64)[:2]

    def train(library):
        p, q = (library.tensor(v, requires_grad=True) for v in (a, b))
        groups = [{"params": [p]}, {"params": q, "lr": 0.5, "momentum": 0.0}]
        optimizer = library.optim.SGD(groups, lr=0.1, momentum=0.9)
        for _ in range(4):
            optimizer.zero_grad()
            ((p @ q) ** 2).sum().backward()
            optimizer.step()
        return [v.detach().numpy() for v in (p, q)], optimizer

    ours, optimizer = train(minitorch)
    theirs, _ = train(torch)
    assert_same(ours, theirs, 1e-12, 1e-12)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.5]
    assert [g["params"] for g in optimizer.state_dict()["param_groups"]] == [[0], [1]]
    assert list(optimizer.state_dict()["state"]) == [0]


def test_named_parameters():
    p, q = minitorch.zeros(2, requires_grad=True), minitorch.zeros(3, requires_grad=True)
    optimizer = optim.SGD([("weight", p), ("bias", q)], lr=0.1)
    assert optimizer.param_groups[0]["params"] == [p, q]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    unnamed = optim.SGD([p, q], lr=0.3).state_dict()
    optimizer.load_state_dict(unnamed)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="names"):
        optim.SGD([("weight", p), q])
    with pytest.raises(ValueError, match="names"):
        optimizer.add_param_group({"params": [minitorch.zeros(1)]})


def test_zero_grad():
    p = minitorch.ones(2, requires_grad=True)
    optimizer = optim.SGD([p, minitorch.ones(1, requires_grad=True)])
    p.sum().backward()
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(p.grad, [0, 0])
    np.testing.assert_array_equal(kept, [0, 0])
    optimizer.zero_grad()
    assert p.grad is None


def test_closure_runs_with_gradients_even_under_no_grad():
    run = Run(minitorch, "SGD", {"lr": 0.1})
    with minitorch.no_grad():
        run.steps(2)
    assert run.losses[1] < run.losses[0]


def test_a_stale_graph_is_noticed():
    p = minitorch.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1)
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="changed"):
        loss.backward()


def test_parameters_keep_their_memory():
    p = minitorch.ones(2, requires_grad=True)
    array = p.data
    p.sum().backward()
    optim.Adam([p], lr=0.5).step()
    assert p.data is array
    np.testing.assert_allclose(array, 0.5)


def test_hooks_run_around_the_step_and_can_be_removed():
    p = minitorch.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=1.0)
    seen = []
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", p.tolist())))
    after = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", p.tolist())))
    p.sum().backward()
    optimizer.step()
    assert seen == [("before", [1, 1]), ("after", [0, 0])]
    before.remove()
    after.remove()
    optimizer.step()
    assert len(seen) == 2
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((lambda: "replaced",), {}))
    assert optimizer.step(lambda: "given") == "replaced"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="pre-hook"):
        optimizer.step()


def test_hooks_run_once_for_a_subclass_that_calls_super():
    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            return super().step(closure)

    p = minitorch.ones(1, requires_grad=True)
    p.sum().backward()
    optimizer = Twice([p], lr=0.25)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1]
    assert p.item() == 0.5


def test_state_dict_hooks():
    p = minitorch.ones(1, requires_grad=True)
    optimizer = optim.SGD([p], lr=1.0)
    order = []
    optimizer.register_state_dict_pre_hook(lambda o: order.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: order.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, saved: saved | {"extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, saved: order.append(saved["extra"]))
    optimizer.register_load_state_dict_post_hook(lambda o: order.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert order == ["first", "second", 1, "loaded"]


def test_copies_and_pickles():
    run = Run(minitorch, "Adam", {"lr": 0.1}).steps(3)
    for copied in (copy.deepcopy(run.optimizer), pickle.loads(pickle.dumps(run.optimizer))):
        assert len(copied.state) == 3
        ours, theirs = copied.param_groups[0]["params"], run.params
        assert_same([p.detach().numpy() for p in ours], [p.detach().numpy() for p in theirs], 0, 0)
        assert ours[0] is not theirs[0]
        np.testing.assert_array_equal(
            copied.state[ours[0]]["exp_avg"].numpy(), run.optimizer.state[theirs[0]]["exp_avg"].numpy()
        )
        for p in ours:
            p.grad = np.ones_like(p.detach().numpy())
        copied.step()


def test_loading_what_does_not_fit_says_so_and_changes_nothing():
    run = Run(minitorch, "Adam", {"lr": 0.1}).steps(1)
    before = copy.deepcopy(run.optimizer.state_dict())
    good = run.optimizer.state_dict()
    with pytest.raises(ValueError, match="number of parameter groups"):
        run.optimizer.load_state_dict(good | {"param_groups": good["param_groups"] * 2})
    with pytest.raises(ValueError, match="doesn't match the size"):
        run.optimizer.load_state_dict(good | {"param_groups": [good["param_groups"][0] | {"params": [0]}]})
    with pytest.raises(KeyError, match="param_groups"):
        run.optimizer.load_state_dict({"state": {}})
    wrong = {0: good["state"][0] | {"exp_avg": minitorch.zeros(4, 3)}}
    with pytest.raises(ValueError, match=r"\(4, 3\).*\(3, 4\)"):
        run.optimizer.load_state_dict(good | {"state": wrong})
    assert run.optimizer.state_dict()["param_groups"] == before["param_groups"]
    assert run.optimizer.state_dict()["state"][0]["exp_avg"].equal(before["state"][0]["exp_avg"])


@pytest.mark.parametrize("name", NAMES)
def test_bad_arguments(name):
    cls = getattr(optim, name)
    p = minitorch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="empty parameter list"):
        cls([])
    with pytest.raises(TypeError, match="one Tensor"):
        cls(p)
    with pytest.raises(TypeError, match="set"):
        cls({p})
    with pytest.raises(TypeError, match="set"):
        cls([{"params": {p}}])
    with pytest.raises(TypeError, match="ndarray"):
        cls([np.ones(2)])
    model = minitorch.nn.Linear(1, 1)
    for wrong in (model, [model], minitorch.nn.Sequential(model)):
        with pytest.raises(
            TypeError, match=rf"{name}: .*got a Linear itself; write {name}\(model\.parameters\(\), …\)"
        ):
            cls(wrong)
    with pytest.raises(
        TypeError, match=rf"{name}: .*the method parameters itself; call it: {name}\(model\.parameters\(\)"
    ):
        cls(model.parameters)
    with pytest.raises(TypeError, match=r"got a dict; write .*\.values\(\)"):
        cls(dict(model.named_parameters()))
    with pytest.raises(TypeError, match=r"must be a list of Tensors, got int"):
        cls(3)
    cls(minitorch.nn.ParameterList([p]))
    with pytest.raises(ValueError, match="non-leaf"):
        cls([p * 2])
    with pytest.raises(ValueError, match="twice"):
        cls([p, p])
    with pytest.raises(ValueError, match="read-only"):
        cls([minitorch.ones(1).expand(3)])
    with pytest.raises(KeyError, match="params"):
        cls([{"lr": 0.1}])
    for bad in (-1.0, float("nan"), minitorch.tensor(-1.0)):
        with pytest.raises(ValueError, match="learning rate"):
            cls([p], lr=bad)
    with pytest.raises(TypeError, match="learning rate"):
        cls([p], lr="0.1")
    with pytest.raises(ValueError, match="one element"):
        cls([p], lr=minitorch.ones(2))
    if name != "LBFGS":
        with pytest.raises(TypeError, match="dict"):
            cls([{"params": p}, minitorch.ones(1)])
        with pytest.raises(ValueError, match="twice"):
            cls([{"params": [p]}, {"params": [p]}])
        if name != "Adafactor":  # where PyTorch has no such option
            with pytest.raises(ValueError, match="differentiable"):
                cls([p], differentiable=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": -1}),
        ("SGD", {"weight_decay": -1}),
        ("SGD", {"nesterov": True}),
        ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"betas": (0.9, -0.1)}),
        ("Adam", {"eps": -1}),
        ("AdamW", {"weight_decay": -1}),
        ("Adamax", {"eps": -1}),
        ("NAdam", {"momentum_decay": -1}),
        ("RAdam", {"betas": (0.9, 1.0)}),
        ("RMSprop", {"alpha": -1}),
        ("RMSprop", {"momentum": -1}),
        ("Rprop", {"etas": (1.2, 0.5)}),
        ("Adagrad", {"lr_decay": -1}),
        ("Adagrad", {"initial_accumulator_value": -1}),
        ("Adadelta", {"rho": 1.5}),
        ("Adafactor", {"beta2_decay": 0.1}),
        ("Adafactor", {"eps": (None, -1.0)}),
        ("Adafactor", {"d": 0.5}),
        ("ASGD", {"weight_decay": -1}),
        ("Muon", {"adjust_lr_fn": "none"}),
        ("Muon", {}),  # of a vector
        ("SparseAdam", {"betas": (1.0, 0.9)}),
    ],
)
def test_options_out_of_range(name, options):
    for library in (minitorch, torch):
        with pytest.raises(ValueError, match=r"."):
            getattr(library.optim, name)([library.ones(1)], **options)


def test_lbfgs_needs_a_closure_and_one_group():
    p = minitorch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([p]).step()
    with pytest.raises(ValueError, match="line_search_fn"):
        optim.LBFGS([p], line_search_fn="armijo")
    with pytest.raises(ValueError, match="groups"):
        optim.LBFGS([{"params": [p]}, {"params": [minitorch.ones(1)]}])


def test_lbfgs_finds_the_minimum_of_rosenbrocks_function():
    def run(library):
        x = library.tensor([-1.5, 2.0], dtype=library.float64, requires_grad=True)
        optimizer = library.optim.LBFGS([x], max_iter=60, line_search_fn="strong_wolfe")

        def closure():
            optimizer.zero_grad()
            loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
            loss.backward()
            return loss

        optimizer.step(closure)
        return x.detach().numpy(), optimizer.state[x]["func_evals"]

    (ours, evaluations), (theirs, theirs_evaluations) = run(minitorch), run(torch)
    np.testing.assert_allclose(ours, [1, 1], atol=1e-5)
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    assert evaluations == theirs_evaluations


@pytest.mark.slow
def test_memory_stays_flat():
    run = Run(minitorch, "Adam", {"lr": 0.01, "weight_decay": 0.1})
    run.steps(20)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        run.optimizer.step(run.closure)
    run.optimizer.zero_grad()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000


def test_zeros_are_written_into_the_very_gradient():
    """Whoever holds it sees them, and what is added to it later."""
    for forget in (
        lambda m, p: m.optim.SGD([p], lr=0.1).zero_grad(set_to_none=False),
        lambda m, p: zeroed_by_module(m, p),
    ):
        for m in (minitorch, torch):
            p = m.nn.Parameter(m.ones(3))
            (p * 2).sum().backward()
            held = p.grad
            forget(m, p)
            assert held.tolist() == [0, 0, 0]
            assert held is p.grad
            (p * 5).sum().backward()
            assert held.tolist() == [5, 5, 5]


def zeroed_by_module(m, p):
    module = m.nn.Module()
    module.p = p
    module.zero_grad(set_to_none=False)


@every_case
def test_complex_parameters(name, options):
    start = np.random.default_rng(2).normal(size=(2, 3, 4)).view(np.complex128)
    found = []
    for m in (minitorch, torch):
        w = m.tensor(start, requires_grad=True)
        turned = m.tensor(start[0].T.copy(), requires_grad=True)
        optimizer = getattr(m.optim, name)([w, turned], **options)

        def closure(w=w, turned=turned, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (w - (1 + 2j)).abs().sum() + (turned * turned.conj()).real.sum() + w.real.square().sum()
            loss.backward()
            return loss

        if name == "Adafactor":  # which PyTorch has for real numbers only
            with pytest.raises(RuntimeError, match="does not support complex"):
                optimizer.step(closure)
        for _ in range(0 if name == "Adafactor" else 5):
            optimizer.step(closure)
        found.append([w.detach().numpy(), turned.detach().numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
