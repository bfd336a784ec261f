"""Layers and their functions against PyTorch in float64: outputs, every gradient, buffers, keys, printed form."""

import numpy as np
import pytest

import minitorch
import minitorch.nn as nn
import minitorch.nn.functional as F
from pytorch import torch
from same_as_torch import agree
from same_module import same_module

rng = np.random.default_rng(0)


def normal(*shape):
    x = rng.normal(size=shape)
    return x + 0.05 * np.where(x < 0, -1, 1)


def both(name, *args, **kwargs):
    """The same layer of both libraries."""
    return getattr(nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs)


# --- linear, embedding, shapes -------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (2, 1, 5, 3), (0, 3), (2, 0, 3)])
def test_linear(shape, bias):
    same_module(both("Linear", 3, 5, bias=bias), normal(*shape))


def test_linear_of_a_transposed_input():
    x = normal(3, 4, 2)
    ours, theirs = both("Linear", 3, 5)
    same_module((nn.Sequential(ours), torch.nn.Sequential(theirs)), x.transpose(2, 1, 0))


def test_linear_is_one_node_and_its_weight_gradient_is_contiguous():
    layer = nn.Linear(3, 5)
    y = layer(minitorch.ones(4, 3))
    assert y._op == "linear"
    y.sum().backward()
    assert layer.weight.grad.flags.c_contiguous


@pytest.mark.parametrize(
    ("x", "w", "b"), [((4, 3), (3,), None), ((3,), (3,), ()), ((2, 3), (5, 3), (1,)), ((2, 3), (5, 3), ())]
)
def test_linear_function_with_unusual_shapes(x, w, b):
    shapes = [x, w] if b is None else [x, w, b]
    agree(lambda m, *t: m.nn.functional.linear(*t), *(normal(*s) for s in shapes))


def test_linear_refuses_what_does_not_fit():
    with pytest.raises(RuntimeError, match=r"linear: an input of shape \(4, 2\) .* weight of shape \(5, 3\)"):
        nn.Linear(3, 5)(minitorch.ones(4, 2))
    with pytest.raises(RuntimeError, match="bias of shape"):
        F.linear(minitorch.ones(4, 3), minitorch.ones(5, 3), minitorch.ones(4))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lead", [(4,), (2, 3), ()])
def test_bilinear(lead, bias):
    same_module(both("Bilinear", 3, 4, 2, bias=bias), normal(*lead, 3), normal(*lead, 4))


@pytest.mark.parametrize(
    ("args", "shape"), [((), (2, 3, 4)), ((0,), (2, 3)), ((1, 2), (2, 3, 4, 5)), ((-2,), (2, 3, 4))]
)
def test_flatten(args, shape):
    same_module(both("Flatten", *args), normal(*shape))


def test_unflatten_and_identity():
    same_module(both("Unflatten", 1, (2, 3)), normal(4, 6))
    same_module(both("Identity", 3, anything=True), normal(4, 6))


INDICES = [
    np.array([[0, 3, 3], [6, 1, 0]]),
    np.array(2),
    np.zeros((0,), np.int64),
    np.zeros((2, 0), np.int64),
]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 3},
        {"padding_idx": -1},
        {"scale_grad_by_freq": True},
        {"scale_grad_by_freq": True, "padding_idx": 0},
        {"max_norm": 1.0},
        {"max_norm": 1.0, "norm_type": 1.0},
    ],
)
@pytest.mark.parametrize("index", INDICES, ids=["matrix", "number", "empty", "empty-matrix"])
def test_embedding(options, index):
    ours, theirs = both("Embedding", 7, 3, **options)
    same_module((ours, theirs), index)
    np.testing.assert_allclose(ours.weight.numpy(force=True), theirs.weight.detach().numpy(), atol=1e-12)


def test_embedding_padding_row_starts_at_zero_and_stays():
    layer = nn.Embedding(5, 2, padding_idx=-2)
    assert layer.padding_idx == 3
    assert not layer.weight.numpy(force=True)[3].any()
    layer(minitorch.tensor([3, 3, 1])).sum().backward()
    assert not layer.weight.grad[3].any()
    assert layer.weight.grad[1].all()


def test_embedding_twice_differentiable_with_padding():
    w = minitorch.tensor(normal(4, 2), requires_grad=True)
    out = F.embedding(minitorch.tensor([0, 2, 2]), w, padding_idx=2)
    (g,) = minitorch.autograd.grad((out**3).sum(), w, create_graph=True)
    (h,) = minitorch.autograd.grad(g.sum(), w)
    expected = np.zeros((4, 2))
    expected[0] = 6 * w.detach().numpy()[0]
    np.testing.assert_allclose(h.numpy(), expected)


def test_embedding_from_pretrained():
    table = minitorch.tensor(normal(4, 2))
    layer = nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    assert minitorch.equal(layer(minitorch.tensor([2])), table[2:3])
    with pytest.raises(AssertionError, match="must be"):
        nn.Embedding.from_pretrained(minitorch.ones(3))


def test_embedding_refuses_wrong_indices():
    layer = nn.Embedding(4, 2)
    with pytest.raises(IndexError, match="index 4 is out of range: weight has 4 rows"):
        layer(minitorch.tensor([0, 4]))
    with pytest.raises(IndexError, match="index -1"):
        layer(minitorch.tensor([-1]))
    with pytest.raises(RuntimeError, match=r"indices must be integers, got float32; write x.long"):
        layer(minitorch.tensor([1.0]))
    with pytest.raises(AssertionError, match="padding_idx"):
        nn.Embedding(4, 2, padding_idx=4)


# --- activations ---------------------------------------------------------------------------------

ACTIVATIONS = [
    ("ReLU",), ("ReLU6",), ("LeakyReLU",), ("LeakyReLU", 0.3), ("PReLU",), ("PReLU", 3), ("ELU",), ("ELU", 0.7),
    ("SELU",), ("CELU",), ("CELU", 1.7), ("GELU",), ("GELU", "tanh"), ("SiLU",), ("Mish",), ("Sigmoid",),
    ("LogSigmoid",), ("Tanh",), ("Tanhshrink",), ("Hardtanh",), ("Hardtanh", -0.4, 1.3), ("Hardsigmoid",),
    ("Hardswish",), ("Hardshrink",), ("Hardshrink", 0.9), ("Softshrink",), ("Softshrink", 0.2), ("Softplus",),
    ("Softplus", 2.0, 1.0), ("Softsign",), ("Softmin", -1), ("Softmin", 1), ("Softmax", 0), ("LogSoftmax", 1),
    ("GLU", 2), ("Threshold", 0.1, 20.0), ("RReLU",),
]  # fmt: skip


@pytest.mark.parametrize("spec", ACTIVATIONS, ids=str)
def test_activation(spec):
    ours, theirs = both(*spec)
    ours.eval(), theirs.eval()
    shape = (4, 3, 6)
    # PyTorch keeps 1/6 and 1/α in single precision in these two derivatives.
    tolerance = 1e-7 if spec[0] in ("CELU", "Hardsigmoid") else 1e-10
    same_module((ours, theirs), 2 * normal(*shape), tol=tolerance)
    same_module((ours, theirs), 30 * normal(2, 3, 2), tol=tolerance)


@pytest.mark.parametrize(
    "name", ["ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "SiLU", "Mish", "Hardtanh", "RReLU"]
)
def test_activation_with_inplace_looks_the_same(name):
    ours, theirs = both(name, inplace=True)
    assert repr(ours) == repr(theirs)
    x = minitorch.tensor([-1.0, 1.0], requires_grad=True)
    ours(x * 1.0).sum().backward()
    assert x.grad is not None


def test_softmax2d():
    same_module(both("Softmax2d"), normal(2, 3, 2, 2))
    with pytest.raises(ValueError, match="3D or 4D"):
        nn.Softmax2d()(minitorch.ones(2, 2))


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("hardswish", [-3.0, 3.0, 0.0]),
        ("hardsigmoid", [-3.0, 3.0]),
        ("hardtanh", [-1.0, 1.0]),
        ("relu6", [0.0, 6.0]),
        ("softshrink", [-0.5, 0.5]),
        ("hardshrink", [-0.5, 0.5]),
        ("selu", [0.0]),
        ("celu", [0.0]),
        ("elu", [0.0]),
        ("mish", [0.0]),
        ("logsigmoid", [0.0, -800.0, 800.0]),
        ("leaky_relu", [0.0]),
        ("softsign", [0.0]),
        ("relu", [0.0]),
    ],
)
def test_activation_at_its_kinks(name, points):
    agree(lambda m, x: getattr(m.nn.functional, name)(x), np.array(points))


def test_threshold_and_prelu_at_their_kinks():
    agree(lambda m, x: m.nn.functional.threshold(x, 0.5, 3.0), np.array([0.5, 0.4, 0.6]))
    agree(lambda m, x, w: m.nn.functional.prelu(x, w), np.array([0.0, -1.0, 1.0]), np.array([0.25]))
    agree(lambda m, x, w: m.nn.functional.prelu(x, w), normal(2, 3), np.array([0.25, 0.1, 0.3]))
    agree(lambda m, x, w: m.nn.functional.prelu(x, w), np.array(-2.0), np.array([0.25]))


def test_rrelu_draws_pytorchs_slopes():
    same_module(both("RReLU", 0.1, 0.6), normal(5, 7), seed=3)


def test_refusals_of_activations():
    with pytest.raises(RuntimeError, match="even length"):
        F.glu(minitorch.ones(3))
    with pytest.raises(RuntimeError, match="2 elements"):
        F.prelu(minitorch.ones(2, 3), minitorch.ones(2))
    with pytest.raises(ValueError, match="max_val"):
        nn.Hardtanh(1.0, 0.0)
    with pytest.raises(RuntimeError, match="lambd"):
        F.softshrink(minitorch.ones(2), -1.0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_without_dim_warns_and_chooses_as_pytorch(name):
    for shape in [(3,), (2, 3), (2, 3, 4), (2, 3, 4, 2)]:
        x = normal(*shape)
        with pytest.warns(UserWarning, match="implicit dim"):
            ours = getattr(F, name)(minitorch.tensor(x))
        with pytest.warns(UserWarning, match="Implicit dimension"):
            theirs = getattr(torch.nn.functional, name)(torch.tensor(x))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-12)


def test_softmax_in_another_dtype():
    assert F.softmax(minitorch.ones(3), dim=0, dtype=minitorch.float64).dtype == np.float64


def test_gumbel_softmax():
    minitorch.manual_seed(0)
    logits = minitorch.tensor(np.log([0.1, 0.2, 0.7]), requires_grad=True)
    drawn = F.gumbel_softmax(logits.expand(4000, 3), tau=0.5, hard=True)
    np.testing.assert_allclose(drawn.detach().numpy().mean(0), [0.1, 0.2, 0.7], atol=0.03)
    assert set(np.round(drawn.detach().numpy().reshape(-1), 12)) == {0.0, 1.0}
    drawn[:, 0].sum().backward()
    assert np.isfinite(logits.grad).all()
    assert logits.grad.any()
    soft = F.gumbel_softmax(minitorch.zeros(5, 4))
    np.testing.assert_allclose(soft.sum(dim=1).numpy(), 1.0, rtol=1e-6)


# --- dropout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(7,), (40, 50), (3, 4, 5)])
def test_dropout_drops_what_pytorch_drops(p, shape):
    same_module(both("Dropout", p), normal(*shape), seed=1)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Dropout1d", (3, 4, 5)),
        ("Dropout1d", (4, 5)),
        ("Dropout2d", (3, 4, 5, 2)),
        ("Dropout3d", (2, 3, 4, 2, 2)),
        ("Dropout3d", (3, 4, 2, 2)),
        ("AlphaDropout", (4, 5)),
        ("FeatureAlphaDropout", (3, 4, 5)),
    ],
)
@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_dropout_family(name, shape, p):
    same_module(both(name, p), normal(*shape), seed=2)


def test_dropout_does_nothing_after_eval():
    x = minitorch.tensor(normal(4, 5))
    for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout"):
        assert minitorch.equal(getattr(nn, name)(0.5).eval()(x), x)


def test_dropout_in_float32_draws_the_same():
    minitorch.manual_seed(5)
    torch.manual_seed(5)
    ours, theirs = F.dropout(minitorch.ones(1000), 0.2), torch.nn.functional.dropout(torch.ones(1000), 0.2)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    # … and leaves the generator where PyTorch leaves it.
    np.testing.assert_array_equal(minitorch.rand(3).numpy(), torch.rand(3).numpy())


def test_dropout_refuses_wrong_probabilities():
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        nn.Dropout(1.5)
    with pytest.raises(ValueError, match=r"between 0 and 1, got -0\.1"):
        F.dropout(minitorch.ones(2), -0.1)
    with pytest.raises(RuntimeError, match="axes"):
        F.dropout1d(minitorch.ones(2), 0.1)


# --- normalisation -------------------------------------------------------------------------------

BATCH = [
    ("BatchNorm1d", (6, 3)),
    ("BatchNorm1d", (4, 3, 5)),
    ("BatchNorm2d", (4, 3, 2, 5)),
    ("BatchNorm3d", (2, 3, 2, 3, 2)),
]
OPTIONS = [
    {}, {"momentum": None}, {"momentum": 0.4}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.1},
    {"bias": False}, {"affine": False, "track_running_stats": False},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("name", "shape"), BATCH)
def test_batch_norm(name, shape, options):
    ours, theirs = both(name, 3, **options)
    same_module((ours, theirs), 2 * normal(*shape) + 1, calls=3)
    ours.eval(), theirs.eval()
    ours.zero_grad(), theirs.zero_grad()
    same_module((ours, theirs), 2 * normal(*shape) + 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_batch_norm_of_halves_moves_its_averages(dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = normal(6, 3).astype(np.float32) + 5
    mine = nn.BatchNorm1d(3).to(getattr(minitorch, dtype))
    theirs = torch.nn.BatchNorm1d(3).to(getattr(torch, dtype))
    for _ in range(3):
        mine(minitorch.tensor(x).to(getattr(minitorch, dtype)))
        theirs(torch.tensor(x).to(getattr(torch, dtype)))
    for name in ("running_mean", "running_var"):
        found, expected = getattr(mine, name), getattr(theirs, name)
        assert found.dtype == getattr(minitorch, dtype)
        np.testing.assert_allclose(found.float().data, expected.float().numpy(), rtol=2e-2)


def test_batch_norm_refuses():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(minitorch.ones(1, 3))
    with pytest.raises(ValueError, match=r"expected 4D input \(got 3D input\)"):
        nn.BatchNorm2d(3)(minitorch.ones(2, 3, 4))
    with pytest.raises(RuntimeError, match="num_features is 3"):
        nn.BatchNorm1d(3)(minitorch.ones(2, 4))
    nn.BatchNorm1d(3).eval()(minitorch.ones(1, 3))
    layer = nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match="more than 1 value"):
        F.batch_norm(minitorch.ones(1, 3), layer.running_mean, layer.running_var, training=True)
    assert not layer.running_mean.numpy().any()


def test_batch_norm_function_with_and_without_running_statistics():
    x, mean, var = normal(5, 3, 2), normal(3), np.abs(normal(3))
    w, b = normal(3), normal(3)
    agree(lambda m, x, w, b: m.nn.functional.batch_norm(x, None, None, w, b, True, 0.1, 1e-3), x, w, b)
    agree(lambda m, x, w: m.nn.functional.batch_norm(x, m.tensor(mean), m.tensor(var), w, None, False), x, w)
    with pytest.raises(RuntimeError, match="running mean and variance are needed"):
        F.batch_norm(minitorch.ones(2, 3), None, None)


def test_a_state_dict_without_the_counter_loads():
    layer = nn.BatchNorm1d(2)
    old = {k: v.numpy() for k, v in layer.state_dict().items() if k != "num_batches_tracked"}
    assert not any(layer.load_state_dict(old))
    theirs = torch.nn.BatchNorm1d(2)
    state = theirs.state_dict()
    assert not any(layer.load_state_dict(state))


def test_batch_norm_resets():
    layer = nn.BatchNorm1d(2)
    layer(minitorch.tensor(normal(4, 2)).float())
    assert layer.num_batches_tracked.item() == 1
    layer.reset_parameters()
    assert layer.num_batches_tracked.item() == 0
    assert not layer.running_mean.numpy().any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"affine": True},
        {"track_running_stats": True, "affine": True},
        {"eps": 0.1, "affine": True, "bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("InstanceNorm1d", (4, 3, 5)),
        ("InstanceNorm1d", (3, 5)),
        ("InstanceNorm2d", (4, 3, 2, 5)),
        ("InstanceNorm2d", (3, 2, 5)),
        ("InstanceNorm3d", (2, 3, 2, 3, 2)),
    ],
)
def test_instance_norm(name, shape, options):
    ours, theirs = both(name, 3, **options)
    same_module((ours, theirs), 2 * normal(*shape) + 1, calls=2)
    ours.eval(), theirs.eval()
    ours.zero_grad(), theirs.zero_grad()
    same_module((ours, theirs), normal(*shape))


def test_instance_norm_refuses():
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        nn.InstanceNorm1d(3)(minitorch.ones(2, 3, 1))
    with pytest.raises(ValueError, match="to match num_features"):
        nn.InstanceNorm1d(3, affine=True)(minitorch.ones(2, 4, 5))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((5,), {}),
        (((4, 5),), {}),
        (([3, 4, 5],), {"eps": 0.1}),
        ((5,), {"elementwise_affine": False}),
        ((5,), {"bias": False}),
    ],
)
@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_layer_and_rms_norm(name, args, kwargs):
    if name == "RMSNorm":
        kwargs = {k: v for k, v in kwargs.items() if k != "bias"}
    same_module(both(name, *args, **kwargs), 2 * normal(2, 3, 4, 5) + 1)


def test_layer_norm_of_nothing_and_of_one():
    same_module(both("LayerNorm", 5), normal(0, 5))
    same_module(both("LayerNorm", 1), normal(3, 1))
    with pytest.raises(RuntimeError, match=r"normalized_shape=\[5\]"):
        nn.LayerNorm(5)(minitorch.ones(2, 4))


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"eps": 0.1}, {"bias": False}], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3), (2, 6, 2, 3)])
def test_group_norm(shape, groups, options):
    if groups == 6 and shape == (4, 6):  # one value per group: nothing is left of it but the bias
        layer = nn.GroupNorm(6, 6, **options)
        assert not layer(minitorch.tensor(normal(4, 6))).detach().numpy().any()
        return
    same_module(both("GroupNorm", groups, 6, **options), normal(*shape))


def test_group_norm_refuses():
    with pytest.raises(ValueError, match="divisible"):
        nn.GroupNorm(4, 6)
    with pytest.raises(RuntimeError, match="divisible"):
        F.group_norm(minitorch.ones(2, 6), 4)
    for m in (minitorch, torch):
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            m.nn.functional.group_norm(m.ones(1, 6), 6)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4, 3, 2), (1, 3, 2, 2, 2)])
def test_local_response_norm(shape, size):
    same_module(both("LocalResponseNorm", size, alpha=0.5, beta=0.6, k=1.5), normal(*shape))


def test_normalize_and_distances():
    for p in (1.0, 2.0, 3.0):
        for dim in (0, 1, -1):
            agree(lambda m, x, p=p, dim=dim: m.nn.functional.normalize(x, p=p, dim=dim), normal(3, 4, 2))
            agree(lambda m, x, y, p=p: m.nn.functional.pairwise_distance(x, y, p), normal(3, 4), normal(3, 4))
    agree(lambda m, x: m.nn.functional.normalize(x), np.zeros((2, 3)))
    for dim in (0, 1):
        agree(
            lambda m, x, y, dim=dim: m.nn.functional.cosine_similarity(x, y, dim), normal(3, 4), normal(3, 4)
        )
    agree(lambda m, x, y: m.nn.functional.cosine_similarity(x, y), normal(3, 4), normal(1, 4))
    short = [1e-3 * normal(3, 4), normal(3, 4)]  # PyTorch's gradient disregards the bound, ours does not
    np.testing.assert_allclose(
        F.cosine_similarity(*map(minitorch.tensor, short), eps=0.1).numpy(),
        torch.cosine_similarity(*map(torch.tensor, short), eps=0.1).numpy(),
    )
    agree(lambda m, x, y: m.nn.functional.pairwise_distance(x, y, keepdim=True), normal(3, 4), normal(4))
    agree(lambda m, x: m.nn.functional.pdist(x), normal(4, 3))
    same_module(both("CosineSimilarity", 0), normal(3, 4), normal(3, 4))
    same_module(both("PairwiseDistance", 1.0), normal(3, 4), normal(3, 4))


def test_one_hot():
    agree(lambda m, i: m.nn.functional.one_hot(i, 5), np.array([[0, 4], [2, 2]]))
    agree(lambda m, i: m.nn.functional.one_hot(i), np.array([0, 1, 2]))


# --- together ------------------------------------------------------------------------------------


def mlp(m):
    return m.Sequential(
        m.Flatten(), m.Linear(12, 8), m.BatchNorm1d(8), m.GELU(), m.Dropout(0.2), m.Linear(8, 6, bias=False),
        m.LayerNorm(6), m.PReLU(6), m.Sequential(m.Linear(6, 3), m.LogSoftmax(dim=1)),
    )  # fmt: skip


def test_a_model_of_all_kinds():
    same_module((mlp(nn), mlp(torch.nn)), normal(5, 3, 4), seed=4, calls=3)


def test_a_seeded_model_gives_pytorchs_outputs():
    minitorch.manual_seed(11)
    ours = mlp(nn)
    torch.manual_seed(11)
    theirs = mlp(torch.nn)
    x = normal(4, 3, 4).astype(np.float32)
    np.testing.assert_allclose(
        ours(minitorch.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), atol=2e-5
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_stay(dtype):
    model = mlp(nn).to(dtype)
    x = minitorch.tensor(normal(4, 3, 4), dtype=dtype, requires_grad=True)
    y = model(x)
    assert y.dtype == dtype
    y.sum().backward()
    assert x.grad.dtype == dtype
    assert all(p.grad.dtype == dtype for p in model.parameters())
