"""Losses against PyTorch in float64: values and gradients of every reduction and option, and the refusals."""

import inspect
import re
import warnings

import numpy as np
import pytest

import minitorch
import minitorch.nn.functional as F
from compiled import BACKENDS
from minitorch import nn
from minitorch.engine.node import new_tensor
from pytorch import torch
from same_as_torch import agree
from standin import DeviceArray

RNG = np.random.default_rng(3)
X, Y, Z = RNG.normal(size=(3, 4, 5))
P = RNG.uniform(0.05, 0.95, size=(4, 5))
Q = RNG.uniform(0.05, 0.95, size=(4, 5))
POSITIVE = RNG.uniform(0.3, 4.0, size=(4, 5))
SIGNS = np.where(RNG.uniform(size=(4, 5)) < 0.5, -1.0, 1.0)
ROW_SIGNS = np.array([1, -1, 1, -1])
LABELS = np.array([0, 4, 2, 2])
IMAGE = RNG.normal(size=(2, 5, 3, 2))
IMAGE_LABELS = RNG.integers(0, 5, size=(2, 3, 2))
MULTILABELS = np.array([[3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [2, 2, -1, -1, -1]])
CLASS_WEIGHT = RNG.uniform(0.2, 2.0, size=5)
LOG_P = np.log(P / P.sum(axis=1, keepdims=True))
DISTRIBUTION = Q / Q.sum(axis=1, keepdims=True)

# name, options, inputs: each row runs with every reduction, as a function and as a module where there is one.
ROWS = [
    ("mse_loss", {}, (X, Y)),
    ("mse_loss", {}, (X[0, 0], Y[0, 0])),
    ("mse_loss", {}, (X[:0], Y[:0])),
    ("mse_loss", {"weight": POSITIVE}, (X, Y)),
    ("l1_loss", {}, (X, Y)),
    ("l1_loss", {}, (X, X)),
    ("l1_loss", {"weight": POSITIVE}, (X, Y)),
    ("smooth_l1_loss", {}, (X, Y)),
    ("smooth_l1_loss", {"beta": 0.3}, (X, Y)),
    ("smooth_l1_loss", {"beta": 0.0}, (X, Y)),
    ("smooth_l1_loss", {"beta": 0.5}, (np.array([0.5, -0.5, 0.0]), np.zeros(3))),
    ("smooth_l1_loss", {"beta": -1.0}, (X, Y)),
    ("huber_loss", {}, (X, Y)),
    ("huber_loss", {"delta": 0.4}, (X, Y)),
    ("huber_loss", {"delta": 0.5}, (np.array([0.5, -0.5, 0.0]), np.zeros(3))),
    ("huber_loss", {"delta": 0.0}, (X, Y)),
    ("huber_loss", {"weight": POSITIVE}, (X, Y)),
    ("cross_entropy", {}, (X, LABELS)),
    ("cross_entropy", {"weight": CLASS_WEIGHT, "label_smoothing": 0.2}, (X, LABELS)),
    ("cross_entropy", {"ignore_index": 2}, (IMAGE, IMAGE_LABELS)),
    ("cross_entropy", {}, (X, DISTRIBUTION)),
    ("nll_loss", {}, (LOG_P, LABELS)),
    ("nll_loss", {"weight": CLASS_WEIGHT}, (LOG_P, LABELS)),
    ("nll_loss", {"ignore_index": 2, "weight": CLASS_WEIGHT}, (LOG_P, LABELS)),
    ("nll_loss", {"ignore_index": -7}, (LOG_P, np.array([-7, 0, -7, 1]))),
    ("nll_loss", {}, (LOG_P, np.full(4, -100))),
    ("nll_loss", {}, (X[:0], LABELS[:0])),
    ("nll_loss", {}, (X[0], np.array(3))),
    ("nll_loss", {"weight": CLASS_WEIGHT}, (X[0], np.array(3))),
    ("nll_loss", {}, (IMAGE, IMAGE_LABELS)),
    ("nll_loss", {"weight": CLASS_WEIGHT, "ignore_index": 1}, (IMAGE, IMAGE_LABELS)),
    ("nll_loss", {}, (IMAGE[:, :, :, 0], IMAGE_LABELS[:, :, 0])),
    ("nll_loss", {}, (LOG_P, LABELS[:3])),
    ("nll_loss", {}, (LOG_P, X[:, 0])),
    ("nll_loss", {}, (LOG_P, np.array([0, 1, 2, 5]))),
    ("nll_loss", {}, (LOG_P, np.array([0, 1, 2, -1]))),
    ("nll_loss", {"weight": CLASS_WEIGHT[:3]}, (LOG_P, LABELS)),
    ("nll_loss", {}, (np.array(1.0), np.array(0))),
    ("nll_loss", {}, (IMAGE, IMAGE_LABELS[:, :, :1])),
    ("binary_cross_entropy", {}, (P, Q)),
    ("binary_cross_entropy", {"weight": POSITIVE}, (P, Q)),
    ("binary_cross_entropy", {"weight": CLASS_WEIGHT}, (P, Q)),
    ("binary_cross_entropy", {}, (P, Q[0])),
    ("binary_cross_entropy", {}, (P + 1, Q)),
    ("binary_cross_entropy", {"weight": CLASS_WEIGHT[:2]}, (P, Q)),
    ("binary_cross_entropy_with_logits", {}, (X, Q)),
    ("binary_cross_entropy_with_logits", {}, (100 * X, Q)),
    ("binary_cross_entropy_with_logits", {"weight": POSITIVE}, (X, Q)),
    ("binary_cross_entropy_with_logits", {"pos_weight": CLASS_WEIGHT}, (X, Q)),
    ("binary_cross_entropy_with_logits", {"pos_weight": CLASS_WEIGHT, "weight": POSITIVE}, (X, Q)),
    ("binary_cross_entropy_with_logits", {}, (X, Q[0])),
    ("kl_div", {}, (LOG_P, DISTRIBUTION)),
    ("kl_div", {"log_target": True}, (LOG_P, np.log(DISTRIBUTION))),
    ("kl_div", {}, (LOG_P[0], DISTRIBUTION)),
    ("kl_div", {}, (LOG_P[:2], DISTRIBUTION)),
    ("poisson_nll_loss", {}, (X, POSITIVE)),
    ("poisson_nll_loss", {"full": True}, (X, POSITIVE)),
    ("poisson_nll_loss", {"log_input": False, "full": True, "eps": 1e-3}, (P, POSITIVE)),
    ("gaussian_nll_loss", {}, (X, Y, POSITIVE)),
    ("gaussian_nll_loss", {"full": True}, (X, Y, POSITIVE[:, 0])),
    ("gaussian_nll_loss", {}, (X, Y, POSITIVE[:, :1])),
    ("gaussian_nll_loss", {}, (X, Y, POSITIVE[:1])),
    ("gaussian_nll_loss", {"eps": 1.5}, (X, Y, POSITIVE)),
    ("gaussian_nll_loss", {}, (X, Y, -POSITIVE)),
    ("gaussian_nll_loss", {}, (X, Y, POSITIVE[:3])),
    ("hinge_embedding_loss", {}, (X, SIGNS)),
    ("hinge_embedding_loss", {"margin": 0.3}, (X, SIGNS)),
    ("hinge_embedding_loss", {}, (X, np.zeros((4, 5)))),
    ("margin_ranking_loss", {"margin": 0.4}, (X, Y, SIGNS)),
    ("margin_ranking_loss", {}, (X, Y, SIGNS)),
    ("margin_ranking_loss", {}, (X, Y, SIGNS[:1])),
    ("margin_ranking_loss", {}, (X, Y, SIGNS[0])),
    ("soft_margin_loss", {}, (X, SIGNS)),
    ("soft_margin_loss", {}, (X, SIGNS[:3])),
    ("multilabel_margin_loss", {}, (X, MULTILABELS)),
    ("multilabel_margin_loss", {}, (X[0], MULTILABELS[0])),
    ("multilabel_margin_loss", {}, (X, MULTILABELS[:, :3])),
    ("multilabel_soft_margin_loss", {}, (X, Q)),
    ("multilabel_soft_margin_loss", {}, (X[0], Q[0])),
    ("multilabel_soft_margin_loss", {"weight": CLASS_WEIGHT}, (X, Q)),
    ("multi_margin_loss", {}, (X, LABELS)),
    ("multi_margin_loss", {"p": 2, "margin": 0.5}, (X, LABELS)),
    ("multi_margin_loss", {"weight": CLASS_WEIGHT}, (X, LABELS)),
    ("multi_margin_loss", {"weight": CLASS_WEIGHT, "p": 2}, (X, LABELS)),
    ("multi_margin_loss", {}, (X[0], LABELS[0])),
    ("multi_margin_loss", {"p": 3}, (X, LABELS)),
    ("multi_margin_loss", {}, (X, LABELS[:2])),
    ("cosine_embedding_loss", {}, (X, Y, ROW_SIGNS)),
    ("cosine_embedding_loss", {"margin": 0.2}, (X, Y, ROW_SIGNS)),
    ("cosine_embedding_loss", {}, (X[0], Y[0], np.array(1))),
    ("cosine_embedding_loss", {}, (X, Y, SIGNS)),
    ("cosine_embedding_loss", {}, (X[0], Y[0], ROW_SIGNS)),
    ("triplet_margin_loss", {}, (X, Y, Z)),
    ("triplet_margin_loss", {"swap": True, "margin": 2.0}, (X, Y, Z)),
    ("triplet_margin_loss", {"p": 1.0, "eps": 1e-3}, (X, Y, Z)),
    ("triplet_margin_loss", {"p": 3.0}, (X[0], Y[0], Z[0])),
    ("triplet_margin_loss", {}, (X, Y, Z[0])),
    ("triplet_margin_with_distance_loss", {}, (X, Y, Z)),
    ("triplet_margin_with_distance_loss", {"swap": True, "margin": 2.0}, (X, Y, Z)),
]
MODULES = {
    "mse_loss": "MSELoss", "l1_loss": "L1Loss", "smooth_l1_loss": "SmoothL1Loss", "huber_loss": "HuberLoss",
    "cross_entropy": "CrossEntropyLoss", "nll_loss": "NLLLoss", "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "kl_div": "KLDivLoss",
    "poisson_nll_loss": "PoissonNLLLoss", "gaussian_nll_loss": "GaussianNLLLoss",
    "hinge_embedding_loss": "HingeEmbeddingLoss", "margin_ranking_loss": "MarginRankingLoss",
    "soft_margin_loss": "SoftMarginLoss", "multilabel_margin_loss": "MultiLabelMarginLoss",
    "multilabel_soft_margin_loss": "MultiLabelSoftMarginLoss", "multi_margin_loss": "MultiMarginLoss",
    "cosine_embedding_loss": "CosineEmbeddingLoss", "triplet_margin_loss": "TripletMarginLoss",
    "triplet_margin_with_distance_loss": "TripletMarginWithDistanceLoss", "ctc_loss": "CTCLoss",
}  # fmt: skip
REDUCTIONS = ("mean", "sum", "none", "batchmean", "average")


def options_of(library, options):
    """The options for one library: arrays become its tensors."""
    make = minitorch.tensor if library is minitorch else torch.tensor
    return {name: make(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("name", "options", "inputs"), ROWS)
@pytest.mark.filterwarnings("ignore:kl_div")
def test_a_loss_is_pytorchs(name, options, inputs, reduction):
    def function(m, *tensors):
        return getattr(m.nn.functional, name)(*tensors, reduction=reduction, **options_of(m, options))

    if name == "soft_margin_loss":  # PyTorch's target has no derivative there
        inputs = [inputs[0], inputs[1].astype(np.int64)]
    agree(function, *inputs)
    if name in ("mse_loss", "l1_loss", "huber_loss") and "weight" in options:
        return  # the modules have no weight

    def module(m, *tensors):
        return getattr(m.nn, MODULES[name])(reduction=reduction, **options_of(m, options))(*tensors)

    agree(module, *inputs)


@pytest.mark.parametrize("name", MODULES)
def test_signatures_are_pytorchs(name):
    def arguments(function):
        return [(p.name, p.default, p.kind) for p in inspect.signature(function).parameters.values()]

    assert arguments(getattr(F, name)) == arguments(getattr(torch.nn.functional, name))
    ours, theirs = getattr(nn, MODULES[name]), getattr(torch.nn, MODULES[name])
    assert arguments(ours) == arguments(theirs)
    assert arguments(ours.forward) == arguments(theirs.forward)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_a_stretched_target_is_warned_of(name):
    x, y = minitorch.tensor(X, requires_grad=True), minitorch.tensor(Y[0])
    with pytest.warns(
        UserWarning, match=re.escape("target size (5,) that is different to the input size (4, 5)")
    ):
        loss = getattr(F, name)(x, y)
    other = torch.tensor(X, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(torch.nn.functional, name)(other, torch.tensor(Y[0]))
    loss.backward()
    expected.backward()
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-12)
    np.testing.assert_allclose(x.grad, other.grad.numpy(), rtol=1e-12)
    with pytest.raises(RuntimeError), pytest.warns(UserWarning, match="target size"):
        getattr(F, name)(minitorch.zeros(4, 5), minitorch.zeros(3, 5))


def test_kl_div_warns_that_mean_is_not_the_divergence():
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(minitorch.tensor(LOG_P), minitorch.tensor(DISTRIBUTION))


@pytest.mark.parametrize(
    ("words", "reduction"),
    [
        ({"size_average": True}, "mean"),
        ({"size_average": False}, "sum"),
        ({"reduce": False}, "none"),
        ({"reduce": True, "size_average": False}, "sum"),
        ({"reduce": True}, "mean"),
    ],
)
def test_the_words_used_before_reduction_still_mean_what_they_did(words, reduction):
    x, y = minitorch.tensor(X), minitorch.tensor(Y)
    with pytest.warns(UserWarning, match=f"reduction='{reduction}'"):
        found = F.mse_loss(x, y, **words)
    assert found.equal(F.mse_loss(x, y, reduction=reduction))
    with pytest.warns(UserWarning, match=f"reduction='{reduction}'"):
        assert nn.CrossEntropyLoss(**words).reduction == reduction


def test_binary_cross_entropy_of_certainty_is_finite_and_so_is_its_slope():
    p = minitorch.tensor([0.0, 0.0, 1.0, 1.0], dtype=minitorch.float64, requires_grad=True)
    loss = F.binary_cross_entropy(p, minitorch.tensor([0.0, 1.0, 0.0, 1.0]), reduction="none")
    np.testing.assert_array_equal(loss.detach().numpy(), [0, 100, 100, 0])
    loss.sum().backward()
    np.testing.assert_allclose(p.grad, [0, -1e12, 1e12, 0])


def test_logits_of_any_size_give_finite_losses_and_slopes():
    x = minitorch.tensor([-1e4, 1e4, -1e4, 1e4], requires_grad=True)
    y = minitorch.tensor([0.0, 1.0, 1.0, 0.0])
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    np.testing.assert_array_equal(loss.detach().numpy(), [0, 0, 1e4, 1e4])
    loss.sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 0, -1, 1])
    assert F.soft_margin_loss(minitorch.tensor([-1e4]), minitorch.tensor([1.0])).item() == 1e4


def test_kl_div_counts_impossible_targets_as_nothing():
    x = minitorch.tensor([[-1.0, -2.0]], requires_grad=True)
    loss = F.kl_div(x, minitorch.tensor([[0.0, 1.0]]), reduction="sum")
    assert loss.item() == 2.0
    loss.backward()
    np.testing.assert_array_equal(x.grad, [[0.0, -1.0]])


def test_hinges_are_flat_at_the_kink():
    # As relu, and as PyTorch from 2.14 on.
    x = minitorch.tensor([1.0], requires_grad=True)
    F.hinge_embedding_loss(x, minitorch.tensor([-1])).backward()
    assert x.grad == 0
    F.margin_ranking_loss(x, minitorch.tensor([1.0]), minitorch.tensor([1])).backward()
    assert x.grad == 0


def test_shapes_that_do_not_fit():
    agree(lambda m, x, y: m.nn.functional.multilabel_soft_margin_loss(x, y), X, Q[:, :2])


def test_a_variance_as_a_number():
    agree(lambda m, x, y: m.nn.functional.gaussian_nll_loss(x, y, 0.7), X, Y)
    agree(lambda m, x, y: m.nn.functional.gaussian_nll_loss(x, y, -0.7), X, Y)


def test_a_distance_of_ones_own():
    def loss(m, a, b, c):
        return m.nn.functional.triplet_margin_with_distance_loss(
            a, b, c, distance_function=lambda x, y: ((x - y) ** 2).sum(-1), swap=True, margin=3.0
        )

    agree(loss, X, Y, Z)
    for name in ("triplet_margin_loss", "triplet_margin_with_distance_loss"):
        agree(lambda m, a, b, c, n=name: getattr(m.nn.functional, n)(a, b, c, margin=-1.0), X, Y, Z)


def test_class_labels_out_of_range_are_an_index_error():
    with pytest.raises(IndexError, match="multi_margin_loss: target 5 is out of range"):
        F.multi_margin_loss(minitorch.zeros(1, 5), minitorch.tensor([5]))
    with pytest.raises(IndexError, match="multilabel_margin_loss: target 5 is out of range"):
        F.multilabel_margin_loss(minitorch.zeros(1, 5), minitorch.tensor([[5, -1, -1, -1, -1]]))


@pytest.mark.parametrize(
    "name", ["CrossEntropyLoss", "NLLLoss", "BCELoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss"]
)
def test_class_weights_are_buffers_and_move_both_ways(name):
    ours = getattr(nn, name)(weight=minitorch.ones(5))
    theirs = getattr(torch.nn, name)(weight=torch.tensor(CLASS_WEIGHT, dtype=torch.float32))
    ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == ["weight"]
    np.testing.assert_array_equal(ours.weight.numpy(), theirs.weight.numpy())
    assert list(ours.parameters()) == []
    assert getattr(nn, name)().state_dict() == {}


def test_pos_weight_is_a_buffer():
    assert list(nn.BCEWithLogitsLoss(pos_weight=minitorch.ones(3)).state_dict()) == ["pos_weight"]


@pytest.mark.parametrize(
    ("name", "options", "inputs"),
    [row for row in ROWS if row[0] not in ("cross_entropy", "nll_loss", "soft_margin_loss")],
)
def test_float32_stays_float32(name, options, inputs):
    small = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in inputs]
    options = {k: v.astype(np.float32) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    agree(lambda m, *t: getattr(m.nn.functional, name)(*t, reduction="sum", **options_of(m, options)), *small)


# --- connectionist temporal classification ------------------------------------------------------

STEPS = RNG.normal(size=(7, 3, 4))
SPELLED = np.array([[1, 2, 2], [3, 1, 0], [2, 3, 1]])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("targets", "times", "lengths", "options"),
    [
        (SPELLED, [7, 5, 6], [3, 2, 3], {}),
        (SPELLED, [7, 5, 6], [0, 2, 1], {}),
        (SPELLED, [7, 7, 7], [0, 0, 0], {}),
        (np.array([1, 2, 2, 3, 1, 2]), [7, 5, 6], [3, 2, 1], {}),
        (SPELLED % 3, [7, 5, 6], [3, 2, 3], {"blank": 3}),
        (SPELLED, [3, 5, 6], [3, 2, 3], {"zero_infinity": True}),
        (SPELLED, [0, 5, 6], [3, 2, 3], {"zero_infinity": True}),
    ],
)
def test_ctc_is_pytorchs(targets, times, lengths, options, reduction):
    def function(m, logits):
        make = minitorch.tensor if m is minitorch else torch.tensor
        given = m.log_softmax(logits, -1), make(targets), make(times), make(lengths)
        return m.nn.functional.ctc_loss(*given, reduction=reduction, **options)

    def module(m, logits):
        make = minitorch.tensor if m is minitorch else torch.tensor
        given = m.log_softmax(logits, -1), make(targets), tuple(times), tuple(lengths)
        return m.nn.CTCLoss(reduction=reduction, **options)(*given)

    agree(function, STEPS, tol=1e-6)  # PyTorch's backward rounds to 1e-8
    agree(module, STEPS, tol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_of_one_sequence(reduction):
    def call(m, logits):
        make = minitorch.tensor if m is minitorch else torch.tensor
        given = m.log_softmax(logits, -1), make(SPELLED[0]), make(7), make(3)
        return m.nn.functional.ctc_loss(*given, reduction=reduction)

    agree(call, STEPS[:, 0].copy(), tol=1e-6)


@pytest.mark.slow
def test_ctc_sums_over_all_alignments():
    from itertools import product

    logp = minitorch.tensor(STEPS[:5, :1]).log_softmax(-1)
    table = logp[:, 0].numpy()

    def spells(path):
        merged = [a for i, a in enumerate(path) if i == 0 or a != path[i - 1]]
        return [a for a in merged if a != 0]

    total = sum(
        np.exp(sum(table[t, a] for t, a in enumerate(path)))
        for path in product(range(4), repeat=5)
        if spells(path) == [1, 2, 2]
    )
    loss = F.ctc_loss(logp, minitorch.tensor([[1, 2, 2]]), [5], [3], reduction="sum")
    np.testing.assert_allclose(loss.item(), -np.log(total), rtol=1e-12)
    # The gradient of log_probs themselves, which PyTorch does not give.
    logp = minitorch.tensor(STEPS[:5], requires_grad=True)
    given = minitorch.tensor(SPELLED), [5, 4, 5], [3, 2, 3]
    assert minitorch.gradcheck(lambda x: F.ctc_loss(x, *given, reduction="none"), (logp,))
    assert minitorch.gradgradcheck(lambda x: F.ctc_loss(x, *given, reduction="none"), (logp,))


IMPOSSIBLE = [([3, 7, 7], [3, 2, 3]), ([3, 1, 2], [3, 2, 3]), ([0, 7, 0], [3, 2, 0]), ([3, 7, 2], [3, 2, 1])]


@pytest.mark.parametrize(("times", "lengths"), IMPOSSIBLE)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_a_target_that_does_not_fit(times, lengths, reduction, zero_infinity):
    """Its loss is infinite, and its gradient nan at the steps it reads; those of the others in the batch are as ever."""

    def call(m, logits):
        given = m.log_softmax(logits, -1), m.tensor(SPELLED), m.tensor(times), m.tensor(lengths)
        return m.nn.functional.ctc_loss(*given, reduction=reduction, zero_infinity=zero_infinity)

    agree(call, STEPS, tol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctc_recorded_tells_what_does_not_fit(backend):
    def gradient(targets, logits):
        x = logits.detach().requires_grad_()
        F.ctc_loss(x.log_softmax(-1), targets, [4, 7, 7], [3, 2, 3], reduction="sum").backward()
        return minitorch.tensor(x.grad)

    fast = minitorch.compile(gradient, backend=backend)
    for targets in (SPELLED, SPELLED[[1, 0, 2]], np.array([[1, 1, 1], [1, 2, 0], [2, 3, 1]])):
        given = minitorch.tensor(targets), minitorch.tensor(STEPS)
        np.testing.assert_allclose(fast(*given).numpy(), gradient(*given).numpy(), atol=1e-9)
    assert np.isnan(fast(*given).numpy()[:4, 0]).all()


@pytest.mark.parametrize(
    ("targets", "times", "lengths", "options", "kind"),
    [
        (SPELLED, [8, 5, 6], [3, 2, 3], {}, RuntimeError),
        (SPELLED, [7, 5, 6], [4, 2, 3], {}, RuntimeError),
        (SPELLED, [7, 5], [3, 2, 3], {}, RuntimeError),
        (SPELLED, [7, 5, 6], [3, 2, 3], {"blank": 4}, RuntimeError),
        (SPELLED, [7, 5, 6], [3, 2, 3], {"reduction": "average"}, ValueError),
        (np.array([1, 2, 2, 3]), [7, 5, 6], [3, 2, 3], {}, RuntimeError),
        (SPELLED.astype(float), [7, 5, 6], [3, 2, 3], {}, RuntimeError),
        (SPELLED + 3, [7, 5, 6], [3, 2, 3], {}, IndexError),
    ],
)
def test_what_ctc_refuses(targets, times, lengths, options, kind):
    with pytest.raises(kind, match="ctc_loss"):
        F.ctc_loss(minitorch.tensor(STEPS), minitorch.tensor(targets), times, lengths, **options)


# --- on a device --------------------------------------------------------------------------------


def accepted(row):
    name, options, inputs = row
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(F, name)(*map(minitorch.tensor, inputs), **options_of(minitorch, options))
        except (RuntimeError, ValueError, IndexError):
            return False
    return True


@pytest.mark.parametrize(("name", "options", "inputs"), [row for row in ROWS if accepted(row)])
@pytest.mark.filterwarnings("ignore:kl_div")
def test_losses_stay_on_the_device(name, options, inputs):
    host = [minitorch.tensor(a, requires_grad=a.dtype.kind == "f") for a in inputs]
    expected = getattr(F, name)(*host, **options_of(minitorch, options))

    def moved(array, grad=False):
        return new_tensor(DeviceArray(array.copy())).requires_grad_(grad)

    device = [moved(a, a.dtype.kind == "f") for a in inputs]
    given = {k: moved(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    loss = getattr(F, name)(*device, **given)
    assert isinstance(loss._data, DeviceArray)
    np.testing.assert_array_equal(loss._data.host, expected.detach().numpy())
    expected.backward()
    loss.backward(DeviceArray(np.ones(())))
    for mine, other in zip(device, host, strict=True):
        if other.grad is not None:
            np.testing.assert_allclose(mine.grad.host, other.grad, rtol=1e-12, atol=1e-12)


def test_a_layer_made_from_its_settings_says_what_it_takes_and_who_asked():
    assert list(inspect.signature(nn.MaxPool2d).parameters)[:2] == ["kernel_size", "stride"]
    with pytest.raises(TypeError, match="MaxPool2d: missing a required argument: 'kernel_size'"):
        nn.MaxPool2d()
    with pytest.raises(TypeError, match="L1Loss: got an unexpected keyword argument 'nonsense'"):
        nn.L1Loss(nonsense=1)
    with pytest.warns(UserWarning, match="deprecated") as found:
        nn.L1Loss(size_average=False)
    assert found[0].filename == __file__
    assert list(inspect.signature(F.conv2d).parameters)[:3] == ["input", "weight", "bias"]
