"""Layers and tools that programs meet now and then, beside PyTorch's: values, gradients, random draws, warnings."""

import warnings

import numpy as np
import pytest

import minitorch
from minitorch import nn
from minitorch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from minitorch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from pytorch import torch
from same_as_torch import agree
from same_module import same_draws, same_module

numbers = np.random.default_rng(0)
LIBRARIES = (minitorch, torch)


def normal(*shape):
    return numbers.normal(size=shape)


def plain(x):
    return np.asarray(x.detach().numpy() if hasattr(x, "detach") else x)


# --- the adaptive softmax -----------------------------------------------------------------------------------


@pytest.mark.parametrize("head_bias", [True, False])
def test_adaptive_softmax(head_bias):
    def build(m):
        return m.nn.AdaptiveLogSoftmaxWithLoss(16, 50, [10, 30], div_value=2.0, head_bias=head_bias)

    targets = np.array([0, 9, 10, 29, 30, 49, 5, 5])
    same_module((build(minitorch), build(torch)), normal(8, 16), targets)
    same_module((build(minitorch), build(torch)), normal(16), np.array(31))
    same_module((build(minitorch), build(torch)), normal(4, 16), call=lambda m, layer, x: layer.log_prob(x))
    same_module(
        (build(minitorch), build(torch)),
        3 * normal(20, 16),
        call=lambda m, layer, x: layer.predict(x) * x.sum(),
    )
    same_draws(build)


def test_adaptive_softmax_refuses_what_does_not_fit():
    for cutoffs in ([], [5, 3], [0, 4], [10]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence"):
            nn.AdaptiveLogSoftmaxWithLoss(4, 10, cutoffs)
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3])
    with pytest.raises(RuntimeError, match=r"should be in \[0, 9\], but values in range \[1, 10\]"):
        layer(minitorch.ones(2, 4), minitorch.tensor([1, 10]))
    with pytest.raises(RuntimeError, match="same size in the batch"):
        layer(minitorch.ones(2, 4), minitorch.tensor([1]))


# --- pooling and normalising ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "shape"), [(2, (2, 3, 9, 11)), (2, (3, 9, 11)), (3, (2, 2, 7, 9, 11))])
@pytest.mark.parametrize("how", [{"output_ratio": 0.6}, {"output_size": 3}])
def test_fractional_max_pool(rank, shape, how):
    name = f"FractionalMaxPool{rank}d"
    for indices in (False, True):
        same_module(
            [getattr(m.nn, name)(2, return_indices=indices, **how) for m in LIBRARIES],
            normal(*shape),
            seed=3,
            call=lambda m, layer, x: layer(x),
        )


def test_fractional_max_pool_as_a_function():
    samples = numbers.random((2, 3, 2))
    agree(
        lambda m, x, s: m.nn.functional.fractional_max_pool2d(x, (3, 2), (4, 5), _random_samples=s.detach()),
        normal(2, 3, 9, 11),
        samples,
    )
    agree(
        lambda m, x: m.nn.functional.fractional_max_pool3d_with_indices(
            x, 2, output_size=(2, 1, 3), _random_samples=m.full((1, 2, 3), 0.5, dtype=m.float64)
        ),
        normal(1, 2, 5, 4, 6),
    )
    for wrong in ({}, {"output_size": 2, "output_ratio": 0.5}, {"output_ratio": (2, 0.5)}):
        with pytest.raises(ValueError, match="output"):
            nn.FractionalMaxPool2d(2, **wrong)
    with pytest.raises(RuntimeError, match="do not fit"):
        nn.functional.fractional_max_pool2d(minitorch.ones(1, 1, 4, 4), 3, 4)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_cross_map_response_norm(size):
    x = normal(2, 7, 3, 3)
    ours, theirs = (m.nn.CrossMapLRN2d(size, alpha=0.5) for m in LIBRARIES)
    np.testing.assert_allclose(plain(ours(minitorch.tensor(x))), theirs(torch.tensor(x)).numpy(), rtol=1e-12)
    assert repr(ours) == repr(theirs)
    minitorch.gradcheck(
        ours, minitorch.tensor(x[:1], requires_grad=True)
    )  # PyTorch's derivative fails its own
    with pytest.raises(ValueError, match="4D"):
        ours(minitorch.ones(2, 3))


# --- names of before --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("uniform", ()), ("normal", (0.0, 2.0)), ("constant", (3.0,)), ("eye", ()), ("sparse", (0.3,))),
        *(("xavier_uniform", ()), ("xavier_normal", ()), ("kaiming_uniform", ()), ("kaiming_normal", ())),
        ("orthogonal", ()),
    ],
)
def test_old_names_of_initialisers_warn(name, args):
    drawn = []
    for m in LIBRARIES:
        m.manual_seed(0)
        with pytest.warns(FutureWarning, match=rf"nn\.init\.{name}\b.* deprecated.*nn\.init\.{name}_"):
            drawn.append(plain(getattr(m.nn.init, name)(m.empty(3, 5), *args)))
    np.testing.assert_allclose(*drawn, atol=1e-6)


def test_other_old_names_warn():
    with pytest.warns(FutureWarning, match="NLLLoss2d is deprecated"):
        loss = nn.NLLLoss2d(reduction="sum")
    assert loss(minitorch.zeros(1, 2, 1, 1) - 1, minitorch.zeros(1, 1, 1, dtype=minitorch.int64)).item() == 1
    w = minitorch.ones(4, requires_grad=True)
    (w * 3).sum().backward()
    with pytest.warns(FutureWarning, match="clip_grad_norm is deprecated"):
        assert nn.utils.clip_grad_norm([w], 1.0).item() == 6
    np.testing.assert_allclose(w.grad, 0.5, rtol=1e-5)


# --- tools ------------------------------------------------------------------------------------------------------


def test_making_and_laying_out():
    drawn = []
    for m in LIBRARIES:
        m.manual_seed(1)
        assert m.nn.utils.skip_init(m.nn.Linear, 3, 4, bias=False).weight.shape == (4, 3)
        drawn.append(plain(m.rand(3)))
        with pytest.raises(RuntimeError, match="Expected a Module"):
            m.nn.utils.skip_init(dict)
    np.testing.assert_array_equal(*drawn)
    net = nn.Sequential(nn.Conv2d(2, 3, 3))
    before = plain(net[0].weight).copy()
    nn.utils.convert_conv2d_weight_memory_format(net, minitorch.channels_last)
    assert net[0].weight.is_contiguous(memory_format=minitorch.channels_last)
    np.testing.assert_array_equal(plain(net[0].weight), before)


def test_a_prefix_is_taken_off():
    for m in LIBRARIES:
        state = {"module.0.weight": 1, "other": 2}
        place = consume_prefix_in_state_dict_if_present
        (place if m is minitorch else torch.nn.modules.utils.consume_prefix_in_state_dict_if_present)(
            state, "module."
        )
        assert sorted(state) == ["0.weight", "other"]


def test_parametrizations_are_transferred():
    for m in LIBRARIES:
        parametrize = m.nn.utils.parametrize
        a, b = (
            m.nn.utils.parametrizations.orthogonal(m.nn.Linear(3, 3)),
            m.nn.Linear(3, 3),
        )
        assert parametrize.type_before_parametrizations(b) is m.nn.Linear
        parametrize.transfer_parametrizations_and_params(a, b)
        assert parametrize.type_before_parametrizations(b) is m.nn.Linear
        np.testing.assert_array_equal(plain(a.weight), plain(b.weight))
        assert b.parametrizations.weight.original is a.parametrizations.weight.original


def test_parallel_functions_on_one_device():
    net, x = nn.Linear(2, 3), minitorch.ones(4, 2)
    expected = plain(net(x))
    np.testing.assert_array_equal(plain(nn.parallel.data_parallel(net, x)), expected)
    np.testing.assert_allclose(plain(nn.parallel.data_parallel(net, (x,), ["cpu", "cpu"])), expected)
    one, two = nn.parallel.parallel_apply(
        nn.parallel.replicate(net, ["cpu"] * 2), nn.parallel.scatter(x, ["cpu"] * 2)
    )
    np.testing.assert_allclose(plain(nn.parallel.gather([one, two], "cpu")), expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_hooks_of_every_optimisers_steps(compiled):
    w, seen = minitorch.ones(2, requires_grad=True), []
    optimizer = minitorch.optim.SGD([w], lr=0.1)

    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    run = minitorch.compile(step) if compiled else step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a hook of the user's may refuse to be compiled
        run()
        run()
        handles = [
            register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append((o is optimizer, "before"))),
            register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append((o is optimizer, "after"))),
        ]
        optimizer.register_step_pre_hook(lambda *_: seen.append("own"))
        run()
        assert seen == [(True, "before"), "own", (True, "after")]
        for handle in handles:
            handle.remove()
        run()
    assert seen[3:] == ["own"]


# --- shapes that are learned from the first input -----------------------------------------------------------------


def lazy_net(m):
    return m.nn.Sequential(
        m.nn.LazyConv2d(4, 3, padding=1), m.nn.LazyBatchNorm2d(), m.nn.LazyConvTranspose2d(3, 2), m.nn.ReLU(),
        m.nn.Flatten(), m.nn.LazyLinear(5),
    )  # fmt: skip


def test_lazy_layers_have_parameters_before_they_have_shapes():
    losses, x = [], normal(2, 3, 4, 4)
    for m in LIBRARIES:
        m.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = lazy_net(m)
        assert isinstance(net[0], m.nn.Conv2d)
        assert isinstance(net[0].weight, m.nn.UninitializedParameter)
        said = repr(net), [repr(p) for p in net.parameters()], list(net.state_dict())
        optimizer = m.optim.Adam(net.parameters(), lr=0.1)
        net.double()
        weight, found = net[5].weight, []
        for _ in range(3):
            optimizer.zero_grad()
            loss = (net(m.tensor(x)) ** 2).sum()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        assert net[5].weight is weight
        assert type(net[5]) is m.nn.Linear
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = lazy_net(m).double()
        loaded.load_state_dict(net.state_dict())
        np.testing.assert_allclose(plain(loaded(m.tensor(x))), plain(net(m.tensor(x))))
        losses.append((said, found))
    assert losses[0][0] == losses[1][0]
    np.testing.assert_allclose(losses[0][1], losses[1][1], rtol=1e-5)


def test_tensors_without_a_shape():
    for m in LIBRARIES:
        w = m.nn.UninitializedParameter()
        assert (m.nn.parameter.is_lazy(w), w.requires_grad) == (True, True)
        with pytest.raises(RuntimeError, match="Can't access the shape"):
            _ = w.shape
        for use in (lambda: w.sum(), lambda: w + 1, lambda: w.numel(), lambda: w @ w):  # noqa: B023
            with pytest.raises(ValueError, match="uninitialized parameter"):
                use()
        w.materialize((2, 3))
        assert (type(w), tuple(w.shape), m.nn.parameter.is_lazy(w)) == (m.nn.Parameter, (2, 3), False)


def test_a_compiled_lazy_layer_is_made_by_its_first_call():
    net = nn.Sequential(nn.LazyLinear(3), nn.Tanh())
    compiled, x = minitorch.compile(net), minitorch.ones(2, 4)
    first = compiled(x)
    for _ in range(3):
        np.testing.assert_allclose(plain(compiled(x)), plain(first), rtol=1e-6)
    assert (type(net[0]), compiled.compilations) == (nn.Linear, 1)
    other = nn.LazyLinear(3)
    with pytest.warns(UserWarning, match="LazyLinear makes its parameters at its first call"):
        assert minitorch.compile(lambda v: other(v))(x).shape == (2, 3)


def test_a_lazy_module_of_ones_own():
    for m in LIBRARIES:
        mixin = m.nn.modules.lazy.LazyModuleMixin

        class Scale(mixin, m.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = m.nn.UninitializedParameter()  # noqa: B023

            def initialize_parameters(self, input):
                if self.has_uninitialized_params():
                    self.weight.materialize(input.shape[-1:])
                    m.nn.init.ones_(self.weight)  # noqa: B023

            def forward(self, x):
                return x * self.weight

        scale = Scale()
        assert scale.has_uninitialized_params()
        assert scale(m.ones(2, 3)).sum().item() == 6
        assert (scale.has_uninitialized_params(), tuple(scale.weight.shape)) == (False, (3,))


# --- pruning ----------------------------------------------------------------------------------------------------

PRUNINGS = [
    "p.l1_unstructured(net[0], 'weight', 0.4)",
    "p.l1_unstructured(net[0], 'weight', 5, importance_scores=m.arange(30.0).reshape(5, 6))",
    "p.random_unstructured(net[0], 'weight', 0.3)",
    "p.random_structured(net[0], 'weight', 2, 1)",
    "p.ln_structured(net[0], 'weight', 0.4, 2, 0)",
    "p.ln_structured(net[0], 'weight', 1, float('inf'), -1)",
    "p.custom_from_mask(net[0], 'bias', m.tensor([1, 0, 1, 0, 1]))",
    "p.identity(net[0], 'weight')",
    "(p.l1_unstructured(net[0], 'weight', 0.4), p.random_unstructured(net[0], 'weight', 3), "
    "p.ln_structured(net[0], 'weight', 0.4, 1, 0), p.random_structured(net[0], 'weight', 2, 1))",
    "p.global_unstructured([(net[0], 'weight'), (net[2], 'weight')], p.L1Unstructured, amount=0.5)",
    "p.global_unstructured([(net[0], 'weight'), (net[2], 'bias')], p.RandomUnstructured, amount=7)",
    "p.L1Unstructured(0.5).prune(net[2].weight)",
]


@pytest.mark.parametrize("call", PRUNINGS)
def test_pruning(call):
    results = []
    for m in LIBRARIES:
        m.manual_seed(0)
        net = m.nn.Sequential(m.nn.Linear(6, 5), m.nn.ReLU(), m.nn.Linear(5, 2))
        prune = __import__(f"{m.__name__}.nn.utils.prune", fromlist=["prune"])
        answer = eval(call, {"p": prune, "net": net, "m": m})
        optimizer = m.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(2):
            optimizer.zero_grad()
            loss = (net(m.ones(3, 6)) ** 2).sum()
            loss.backward()
            optimizer.step()
            losses.append(plain(loss))
        state = {name: plain(value).copy() for name, value in net.state_dict().items()}
        pruned = prune.is_pruned(net)
        for layer in (net[0], net[2]):
            for name in ("weight", "bias"):
                if hasattr(layer, f"{name}_mask"):
                    prune.remove(layer, name)
        after = {name: plain(value) for name, value in net.state_dict().items()}
        answer = [plain(answer)] if hasattr(answer, "numpy") else []
        assert not prune.is_pruned(net)
        results.append((losses, state, after, answer, pruned))
    (losses, state, after, answer, pruned), theirs = results
    np.testing.assert_allclose(losses, theirs[0], rtol=1e-5)
    assert pruned == theirs[4]
    for mine, other in ((state, theirs[1]), (after, theirs[2])):
        assert list(mine) == list(other)
        for name, value in mine.items():
            np.testing.assert_allclose(value, other[name], atol=1e-6, err_msg=name)
    for one, other in zip(answer, theirs[3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_pruning_refuses_what_does_not_fit():
    from minitorch.nn.utils import prune

    layer = nn.Linear(3, 4)
    for wrong, kind, words in (
        (lambda: prune.l1_unstructured(layer, "weight", 1.5), ValueError, "a float in the range"),
        (lambda: prune.l1_unstructured(layer, "weight", 99), ValueError, "smaller than the number"),
        (lambda: prune.l1_unstructured(layer, "weight", "a"), TypeError, "Invalid type"),
        (lambda: prune.remove(layer, "bias"), ValueError, "has to be pruned"),
        (lambda: prune.ln_structured(layer, "weight", 0.5, 2, 7), IndexError, "Invalid dim"),
        (lambda: prune.ln_structured(layer, "bias", 0.5, 2, 0), ValueError, "multidimensional"),
        (lambda: prune.global_unstructured(layer, prune.L1Unstructured, amount=0.2), TypeError, "Iterable"),
    ):
        with pytest.raises(kind, match=words):
            wrong()
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
