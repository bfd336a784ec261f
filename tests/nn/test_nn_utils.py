"""nn.utils beside PyTorch's: clipping, vectors of parameters, normed weights, parametrizations."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import minitorch
from minitorch.nn import utils
from minitorch.nn.utils import parametrizations, parametrize
from pytorch import torch

NORMS = [2.0, 1.0, 3, 0.5, 0.0, float("inf"), float("-inf")]


def gradients(seed=0, dtype=np.float64):
    numbers = np.random.default_rng(seed)
    return [numbers.normal(size=shape).astype(dtype) for shape in [(3, 4), (5,), (), (2, 1, 2)]]


def with_gradients(library, arrays):
    params = []
    for array in arrays:
        p = library.zeros(array.shape, dtype=getattr(library, str(array.dtype)), requires_grad=True)
        p.grad = torch.tensor(array) if library is torch else array.copy()
        params.append(p)
    return [*params, library.zeros(2, requires_grad=True)]


def grads_of(params):
    return [None if p.grad is None else np.asarray(p.grad) for p in params]


def assert_same_grads(ours, theirs, rtol):
    for a, b in zip(grads_of(ours), grads_of(theirs), strict=True):
        if b is None:
            assert a is None
        else:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=rtol)


@pytest.mark.parametrize("norm_type", NORMS)
@pytest.mark.parametrize("max_norm", [0.5, 100.0, 0.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_clip_grad_norm(norm_type, max_norm, dtype):
    ours, theirs = (with_gradients(library, gradients(dtype=dtype)) for library in (minitorch, torch))
    mine = utils.clip_grad_norm_(ours, max_norm, norm_type)
    other = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    assert isinstance(mine, minitorch.Tensor)
    assert mine.shape == ()
    assert str(mine.dtype) == str(other.dtype).removeprefix("torch.")
    np.testing.assert_allclose(mine.item(), other.item(), rtol=tolerance)
    assert_same_grads(ours, theirs, tolerance)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
def test_the_norm_of_halves_whose_squares_are_too_large_for_them(norm_type):
    array = (np.random.default_rng(0).normal(size=200) * 300).astype(np.float16)
    found = utils.get_total_norm([minitorch.tensor(array), minitorch.tensor(array[:50])], norm_type)
    other = torch.nn.utils.get_total_norm([torch.tensor(array), torch.tensor(array[:50])], norm_type)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.item(), other.item(), rtol=2e-3)


def test_clip_grad_norm_of_one_tensor_of_none_and_of_a_generator():
    (p, *_), (q, *_) = (with_gradients(library, gradients()) for library in (minitorch, torch))
    assert utils.clip_grad_norm_(p, 1.0).item() == pytest.approx(
        torch.nn.utils.clip_grad_norm_(q, 1.0).item()
    )
    assert_same_grads([p], [q], 1e-12)
    assert utils.clip_grad_norm_([minitorch.zeros(1)], 1.0).item() == 0.0
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    ours = with_gradients(minitorch, gradients())
    utils.clip_grad_norm_((each for each in ours), 0.5)
    assert utils.get_total_norm([each.grad for each in ours[:4]]).item() == pytest.approx(0.5, rel=1e-5)
    with pytest.warns(UserWarning, match="empty generator"):
        utils.clip_grad_norm_((each for each in []), 1.0)
    with pytest.raises(TypeError, match="str"):
        utils.clip_grad_norm_(["weight"], 1.0)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("norm_type", [2.0, float("inf")])
def test_gradients_that_are_not_finite(bad, norm_type):
    arrays = gradients()
    arrays[1][2] = bad
    ours, theirs = (with_gradients(library, arrays) for library in (minitorch, torch))
    for function, params in ((utils.clip_grad_norm_, ours), (torch.nn.utils.clip_grad_norm_, theirs)):
        with pytest.raises(RuntimeError, match="non-finite"):
            function(params, 1.0, norm_type, error_if_nonfinite=True)
    assert_same_grads(ours, theirs, 0)
    mine = utils.clip_grad_norm_(ours, 1.0, norm_type)
    other = torch.nn.utils.clip_grad_norm_(theirs, 1.0, norm_type)
    np.testing.assert_array_equal(mine.item(), other.item())
    assert_same_grads(ours, theirs, 1e-12)


def test_clip_grad_value():
    ours, theirs = (with_gradients(library, gradients()) for library in (minitorch, torch))
    utils.clip_grad_value_(ours, 0.3)
    torch.nn.utils.clip_grad_value_(theirs, 0.3)
    assert_same_grads(ours, theirs, 0)
    assert max(np.abs(g).max() for g in grads_of(ours)[:4]) == 0.3
    utils.clip_grad_value_(ours[0], 0.1)
    assert np.abs(ours[0].grad).max() == 0.1


def test_clipping_does_not_reach_arrays_that_others_hold():
    x, y = minitorch.ones(3, requires_grad=True), minitorch.ones(3, requires_grad=True)
    (x + y).sum().backward()  # one array of gradients for both
    utils.clip_grad_value_([x], 0.5)
    np.testing.assert_array_equal(x.grad, [0.5] * 3)
    np.testing.assert_array_equal(y.grad, [1.0] * 3)


@pytest.mark.parametrize("norm_type", NORMS)
def test_get_total_norm(norm_type):
    ours = utils.get_total_norm([minitorch.tensor(g) for g in gradients()], norm_type)
    theirs = torch.nn.utils.get_total_norm([torch.tensor(g) for g in gradients()], norm_type)
    np.testing.assert_allclose(ours.item(), theirs.item(), rtol=1e-12)
    mixed = [gradients()[0], gradients()[1].astype(np.float32)]
    assert utils.get_total_norm(mixed).dtype == np.float64
    assert utils.get_total_norm([]).item() == 0.0


def test_clip_grads_with_norm():
    ours, theirs = (with_gradients(library, gradients()) for library in (minitorch, torch))
    utils.clip_grads_with_norm_(ours, 2.0, minitorch.tensor(5.0, dtype=minitorch.float64))
    torch.nn.utils.clip_grads_with_norm_(theirs, 2.0, torch.tensor(5.0, dtype=torch.float64))
    assert_same_grads(ours, theirs, 1e-12)


def test_parameters_to_vector_and_back():
    layer, other = minitorch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    values = np.arange(8.0, dtype=np.float32)
    utils.vector_to_parameters(minitorch.tensor(values), layer.parameters())
    torch.nn.utils.vector_to_parameters(torch.tensor(values), other.parameters())
    for p, q in zip(layer.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    vector = utils.parameters_to_vector(layer.parameters())
    np.testing.assert_array_equal(vector.detach().numpy(), values)
    (vector**2).sum().backward()
    np.testing.assert_array_equal(layer.bias.grad, [12.0, 14.0])
    for wrong in (minitorch.zeros(9), minitorch.zeros(7), minitorch.zeros(2, 4)):
        with pytest.raises(RuntimeError, match="8 elements"):
            utils.vector_to_parameters(wrong, layer.parameters())
    with pytest.raises(TypeError, match="ndarray"):
        utils.vector_to_parameters(values, layer.parameters())
    with pytest.raises(ValueError, match="no parameters"):
        utils.parameters_to_vector([])


# --- normed weights -------------------------------------------------------------------------------

LAYERS = {
    "linear": (lambda nn: nn.Linear(3, 4), (5, 3)),
    "conv2d": (lambda nn: nn.Conv2d(2, 3, 3), (2, 2, 5, 5)),
    "conv1d": (lambda nn: nn.Conv1d(2, 4, 2), (2, 2, 6)),
    "transposed": (lambda nn: nn.ConvTranspose2d(2, 3, 2), (2, 2, 4, 4)),
}


def pair(make):
    """The same layer in both libraries, in float64."""
    ours, theirs = make(minitorch.nn).double(), make(torch.nn).double()
    ours.load_state_dict({k: v.detach().numpy() for k, v in theirs.state_dict().items()})
    return ours, theirs


def apply_both(function, ours, theirs, **options):
    """Apply a norm in both libraries with the same random start."""
    minitorch.manual_seed(3)
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch prefers its parametrizations
        other = torch.nn.utils
        mine: object = utils
        for part in function.split("."):
            mine, other = getattr(mine, part), getattr(other, part)
        return mine(ours, **options), other(theirs, **options)


def assert_same_state(ours, theirs):
    mine, other = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(other)
    for key, value in other.items():
        np.testing.assert_allclose(
            np.asarray(mine[key].detach()), value.numpy(), rtol=1e-10, atol=1e-12, err_msg=key
        )
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]


def assert_same_training(ours, theirs, shape, steps=3):
    """Outputs, gradients and parameters over a few steps of training, then in evaluation."""
    x = np.random.default_rng(5).normal(size=shape)
    mine = minitorch.optim.SGD(ours.parameters(), lr=0.05)
    other = torch.optim.SGD(theirs.parameters(), lr=0.05)
    for step in range(steps + 1):
        if step == steps:
            ours.eval()
            theirs.eval()
        a, b = minitorch.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        out_a, out_b = ours(a), theirs(b)
        np.testing.assert_allclose(out_a.detach().numpy(), out_b.detach().numpy(), rtol=1e-9, atol=1e-12)
        mine.zero_grad()
        other.zero_grad()
        (out_a**2).sum().backward()
        (out_b**2).sum().backward()
        np.testing.assert_allclose(a.grad, b.grad.numpy(), rtol=1e-9, atol=1e-12)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(p.grad, q.grad.numpy(), rtol=1e-8, atol=1e-10)
        mine.step()
        other.step()
        assert_same_state(ours, theirs)


WEIGHT_NORMS = ["weight_norm", "parametrizations.weight_norm"]
SPECTRAL_NORMS = ["spectral_norm", "parametrizations.spectral_norm"]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("function", WEIGHT_NORMS)
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(layer, function, dim):
    make, shape = LAYERS[layer]
    ours, theirs = apply_both(function, *pair(make), dim=dim)
    assert_same_state(ours, theirs)
    assert_same_training(ours, theirs, shape)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("function", SPECTRAL_NORMS)
@pytest.mark.parametrize("options", [{}, {"n_power_iterations": 3}, {"dim": 1, "eps": 1e-6}])
def test_spectral_norm(layer, function, options):
    make, shape = LAYERS[layer]
    ours, theirs = apply_both(function, *pair(make), **options)
    assert_same_state(ours, theirs)
    assert_same_training(ours, theirs, shape)


@pytest.mark.parametrize("function", [*WEIGHT_NORMS, *SPECTRAL_NORMS])
def test_removing_keeps_the_weight_and_gives_a_plain_layer(function):
    x = np.random.default_rng(0).normal(size=(5, 3))
    ours, theirs = apply_both(function, *pair(LAYERS["linear"][0]))
    ours.eval()
    theirs.eval()
    before = ours(minitorch.tensor(x)).detach().numpy()
    if "." in function:
        parametrize.remove_parametrizations(ours, "weight")
        torch.nn.utils.parametrize.remove_parametrizations(theirs, "weight")
    else:
        getattr(utils, f"remove_{function}")(ours)
        getattr(torch.nn.utils, f"remove_{function}")(theirs)
    assert type(ours) is minitorch.nn.Linear
    assert_same_state(ours, theirs)
    np.testing.assert_allclose(ours(minitorch.tensor(x)).detach().numpy(), before, rtol=1e-12)
    assert isinstance(ours.weight, minitorch.nn.Parameter)
    remove = getattr(utils, f"remove_{function}", parametrize.remove_parametrizations)
    with pytest.raises(ValueError, match="weight"):
        remove(ours, "weight")


@pytest.mark.parametrize("function", [*WEIGHT_NORMS, *SPECTRAL_NORMS])
def test_state_dicts_move_between_the_libraries(function):
    ours, theirs = apply_both(function, *pair(LAYERS["linear"][0]))
    fresh, _ = apply_both(function, *pair(LAYERS["linear"][0]))
    fresh.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    fresh.eval()
    theirs.eval()
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(
        fresh(minitorch.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-10
    )
    theirs.load_state_dict({k: torch.tensor(np.asarray(v.detach())) for k, v in ours.state_dict().items()})


def test_spectral_norm_reaches_the_largest_singular_value():
    layer = utils.spectral_norm(minitorch.nn.Linear(6, 4).double())
    parametrized = parametrizations.spectral_norm(minitorch.nn.Linear(6, 4).double())
    for _ in range(200):
        layer(minitorch.zeros(1, 6, dtype=minitorch.float64))
        parametrized.weight
    for weight in (layer.weight, parametrized.weight):
        assert np.linalg.svd(weight.detach().numpy())[1][0] == pytest.approx(1.0, rel=1e-9)


def test_two_forwards_before_backward():
    # The second forward moves u and v on; the first one's graph must not notice.
    for apply in (utils.spectral_norm, parametrizations.spectral_norm):
        layer = apply(minitorch.nn.Linear(3, 2))
        x = minitorch.ones(1, 3)
        (layer(x).sum() + layer(x).sum()).backward()
        assert all(p.grad is not None for p in layer.parameters())


def test_normed_weights_refuse_what_does_not_fit():
    for apply in (utils.weight_norm, utils.spectral_norm):
        with pytest.raises(ValueError, match="no parameter 'kernel'"):
            apply(minitorch.nn.Linear(2, 2), "kernel")
        with pytest.raises(ValueError, match="no parameter 'bias'"):
            apply(minitorch.nn.Linear(2, 2, bias=False), "bias")
        layer = apply(minitorch.nn.Linear(2, 2))
        with pytest.raises((ValueError, RuntimeError), match=r"no parameter|two"):
            apply(layer)
    for apply in (utils.spectral_norm, parametrizations.spectral_norm):
        with pytest.raises(ValueError, match="positive"):
            apply(minitorch.nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(IndexError, match="out of range"):
        parametrizations.spectral_norm(minitorch.nn.Linear(2, 2), dim=2)
    for apply in (parametrizations.spectral_norm, parametrizations.weight_norm):
        with pytest.raises(ValueError, match="kernel"):
            apply(minitorch.nn.Linear(2, 2), "kernel")


# --- parametrizations of one's own ----------------------------------------------------------------


def symmetric_of(library):
    class Symmetric(library.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    return Symmetric()


def scaled_of(library):
    class Scaled(library.nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, y):
            return y / 2

    return Scaled()


def test_a_parametrization_of_ones_own():
    ours, theirs = pair(lambda nn: nn.Linear(3, 3))
    x = np.random.default_rng(0).normal(size=(2, 3))
    for layer, library, register in (
        (ours, minitorch, parametrize.register_parametrization),
        (theirs, torch, torch.nn.utils.parametrize.register_parametrization),
    ):
        register(layer, "weight", symmetric_of(library))
        register(layer, "weight", scaled_of(library))
        register(layer, "bias", scaled_of(library))
    assert_same_state(ours, theirs)
    assert repr(ours) == repr(theirs)
    assert parametrize.is_parametrized(ours)
    assert parametrize.is_parametrized(ours, "weight")
    assert not parametrize.is_parametrized(ours, "other")
    assert_same_training(ours, theirs, x.shape)
    parametrize.remove_parametrizations(ours, "weight", leave_parametrized=False)
    torch.nn.utils.parametrize.remove_parametrizations(theirs, "weight", leave_parametrized=False)
    assert_same_state(ours, theirs)
    assert not parametrize.is_parametrized(minitorch.nn.Linear(3, 3))


def test_assigning_goes_through_the_right_inverse():
    layer = minitorch.nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", scaled_of(minitorch))
    layer.weight = minitorch.full((2, 2), 6.0)
    np.testing.assert_array_equal(
        layer.parametrizations.weight.original.detach().numpy(), np.full((2, 2), 3.0)
    )
    one_way = parametrize.register_parametrization(
        minitorch.nn.Linear(2, 2), "weight", symmetric_of(minitorch)
    )
    with pytest.raises(RuntimeError, match="right_inverse"):
        one_way.weight = minitorch.zeros(2, 2)


def test_buffers_can_be_parametrized_too():
    module = minitorch.nn.Module()
    module.register_buffer("scale", minitorch.tensor([1.0, 2.0]))
    parametrize.register_parametrization(module, "scale", scaled_of(minitorch))
    assert module.scale.tolist() == [1.0, 2.0]
    assert [name for name, _ in module.named_buffers()] == ["parametrizations.scale.original"]
    parametrize.remove_parametrizations(module, "scale")
    assert [name for name, _ in module.named_buffers()] == ["scale"]


def test_caching():
    layer = parametrizations.weight_norm(minitorch.nn.Linear(2, 3))
    assert layer.weight is not layer.weight
    with parametrize.cached():
        first = layer.weight
        with parametrize.cached():
            assert layer.weight is first
        assert layer.weight is first
    assert layer.weight is not first


def test_parametrized_layers_are_copied_but_not_pickled():
    layer = parametrizations.weight_norm(minitorch.nn.Linear(2, 3))
    copied = copy.deepcopy(layer)
    np.testing.assert_array_equal(copied.weight.detach().numpy(), layer.weight.detach().numpy())
    parametrize.remove_parametrizations(copied, "weight")
    assert parametrize.is_parametrized(layer)
    assert layer.weight.shape == (3, 2)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)


def test_other_layers_of_the_kind_stay_as_they_are():
    plain = minitorch.nn.Linear(2, 3)
    parametrizations.weight_norm(minitorch.nn.Linear(2, 3))
    assert isinstance(plain.weight, minitorch.nn.Parameter)
    assert type(plain) is minitorch.nn.Linear


def test_parametrizations_that_do_not_fit():
    class Flat(minitorch.nn.Module):
        def forward(self, x):
            return x.reshape(-1)

    layer = minitorch.nn.Linear(2, 3)
    with pytest.raises(ValueError, match="unsafe"):
        parametrize.register_parametrization(layer, "weight", Flat())
    assert isinstance(layer.weight, minitorch.nn.Parameter)
    assert parametrize.register_parametrization(layer, "weight", Flat(), unsafe=True).weight.shape == (6,)
    scaled = parametrize.register_parametrization(minitorch.nn.Linear(2, 3), "weight", scaled_of(minitorch))
    with pytest.raises(ValueError, match="unsafe"):
        parametrize.register_parametrization(scaled, "weight", Flat())
    with pytest.raises(ValueError, match="None"):
        parametrize.register_parametrization(minitorch.nn.Linear(2, 2, bias=False), "bias", Flat())
    with pytest.raises(ValueError, match="one tensor"):
        parametrize.remove_parametrizations(
            parametrizations.weight_norm(minitorch.nn.Linear(2, 3)), "weight", leave_parametrized=False
        )
