"""Initialisers: the same seed gives PyTorch's weights; default initialisation of layers too."""

import math

import numpy as np
import pytest

import minitorch
import minitorch.nn as nn
from pytorch import torch

# Uniforms are equal bit for bit; normals to the rounding of cos and log.
CASES = [
    ("uniform_", (3, 5), (), {}),
    ("uniform_", (7,), (-2.0, 3.0), {}),
    ("normal_", (3, 5), (), {}),
    ("normal_", (8, 5), (0.5, 2.0), {}),
    ("constant_", (3, 2), (0.3,), {}),
    ("ones_", (3, 2), (), {}),
    ("zeros_", (3, 2), (), {}),
    ("eye_", (3, 5), (), {}),
    ("eye_", (5, 3), (), {}),
    ("dirac_", (3, 2, 3), (), {}),
    ("dirac_", (4, 2, 3, 3), (), {"groups": 2}),
    ("dirac_", (2, 4, 2, 3, 4), (), {}),
    ("xavier_uniform_", (6, 5), (), {}),
    ("xavier_uniform_", (6, 5, 3), (2.0,), {}),
    ("xavier_normal_", (6, 5), (), {}),
    ("xavier_normal_", (4, 5, 2, 2), (0.5,), {}),
    ("kaiming_uniform_", (6, 5), (), {}),
    ("kaiming_uniform_", (6, 5, 3), (), {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_uniform_", (6, 5), (), {"a": 0.3}),
    ("kaiming_normal_", (6, 5), (), {}),
    ("kaiming_normal_", (6, 5, 3, 3), (), {"mode": "fan_out", "nonlinearity": "tanh"}),
    ("trunc_normal_", (9, 7), (), {}),
    ("trunc_normal_", (9, 7), (0.0, 1.0, -0.5, 2.0), {}),
    ("trunc_normal_", (9, 7), (0.0, 1.0, 1.0, 2.0), {}),
    ("orthogonal_", (5, 5), (), {}),
    ("orthogonal_", (4, 6), (), {"gain": 2.0}),
    ("orthogonal_", (7, 3, 2), (), {}),
    ("sparse_", (10, 4), (0.3,), {}),
    ("sparse_", (9, 4), (0.5,), {"std": 1.0}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "shape", "args", "kwargs"), CASES, ids=lambda v: str(v))
def test_initialiser_gives_pytorchs_numbers(name, shape, args, kwargs, dtype):
    mine = minitorch.zeros(shape, dtype=getattr(minitorch, dtype))
    other = torch.zeros(shape, dtype=getattr(torch, dtype))
    minitorch.manual_seed(7)
    torch.manual_seed(7)
    returned = getattr(nn.init, name)(mine, *args, **kwargs)
    getattr(torch.nn.init, name)(other, *args, **kwargs)
    assert returned is mine
    assert str(mine.dtype) == dtype
    tolerance = 3e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=tolerance, atol=tolerance)
    # Both generators stand at the same place afterwards.
    np.testing.assert_array_equal(minitorch.rand(2).numpy(), torch.rand(2).numpy())


def test_initialiser_with_its_own_generator():
    a = nn.init.uniform_(minitorch.zeros(20), generator=minitorch.Generator().manual_seed(3))
    b = torch.nn.init.uniform_(torch.zeros(20), generator=torch.Generator().manual_seed(3))
    np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("kind", "param"),
    [("relu", None), ("leaky_relu", None), ("leaky_relu", 0.2), ("tanh", None), ("selu", None), ("sigmoid", None),
     ("linear", None), ("conv2d", None), ("conv_transpose1d", None)],
)  # fmt: skip
def test_calculate_gain(kind, param):
    assert nn.init.calculate_gain(kind, param) == torch.nn.init.calculate_gain(kind, param)


def test_refusals():
    with pytest.raises(ValueError, match="Unsupported nonlinearity 'swish'"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match="not a number"):
        nn.init.calculate_gain("leaky_relu", "steep")
    with pytest.raises(ValueError, match="matrix"):
        nn.init.eye_(minitorch.zeros(3))
    with pytest.raises(ValueError, match="3, 4 or 5 axes"):
        nn.init.dirac_(minitorch.zeros(3, 3))
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.init.dirac_(minitorch.zeros(3, 3, 3), groups=2)
    with pytest.raises(ValueError, match="Fan in and fan out"):
        nn.init.xavier_uniform_(minitorch.zeros(3))
    with pytest.raises(ValueError, match="not supported"):
        nn.init.kaiming_uniform_(minitorch.zeros(3, 3), mode="fan")
    with pytest.raises(ValueError, match="2 or more axes"):
        nn.init.orthogonal_(minitorch.zeros(3))
    with pytest.raises(ValueError, match="matrix"):
        nn.init.sparse_(minitorch.zeros(3), 0.1)
    with pytest.raises(ValueError, match="std > 0"):
        nn.init.trunc_normal_(minitorch.zeros(3), std=-1.0)
    with pytest.warns(UserWarning, match="more than 2 std"):
        nn.init.trunc_normal_(minitorch.zeros(3), mean=9.0)
    with pytest.warns(UserWarning, match="does nothing"):
        nn.init.kaiming_uniform_(minitorch.zeros(0, 3))


def test_initialisers_write_parameters_and_are_seen_by_a_graph():
    p = nn.Parameter(minitorch.ones(3))
    y = (p * p).sum()
    nn.init.zeros_(p)
    assert p.requires_grad
    assert p.is_leaf
    with pytest.raises(RuntimeError, match="changed after the forward"):
        y.backward()


LAYERS = [
    ("Linear", (4, 7), {}),
    ("Linear", (30, 20), {"bias": False}),
    ("Linear", (1, 1), {}),
    ("Embedding", (6, 5), {}),
    ("Embedding", (6, 5), {"padding_idx": 2}),
    ("Embedding", (3, 2), {}),
    ("Bilinear", (3, 4, 5), {}),
    ("PReLU", (3,), {}),
    ("BatchNorm1d", (3,), {}),
    ("LayerNorm", ((2, 3),), {}),
    ("GroupNorm", (2, 4), {}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "args", "kwargs"), LAYERS, ids=str)
def test_layers_start_with_pytorchs_weights(name, args, kwargs, dtype):
    minitorch.manual_seed(0)
    ours = getattr(nn, name)(*args, **kwargs, dtype=getattr(minitorch, dtype))
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **kwargs, dtype=getattr(torch, dtype))
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    # Uniform float32 numbers are equal bit for bit; normals, and float64, to the last place.
    exact = dtype == "float32" and name != "Embedding"
    for key, value in ours.state_dict().items():
        expected = state[key].numpy()
        assert value.numpy().dtype == expected.dtype
        if exact:
            np.testing.assert_array_equal(value.numpy(), expected)
        else:
            np.testing.assert_allclose(value.numpy(), expected, atol=1e-6 if dtype == "float32" else 1e-14)


def test_linear_without_inputs_or_outputs():
    with pytest.warns(UserWarning, match="zero-element"):
        torch.nn.Linear(0, 3)
    assert nn.Linear(0, 3)(minitorch.ones(2, 0)).shape == (2, 3)
    assert nn.Linear(3, 0)(minitorch.ones(2, 3)).shape == (2, 0)


def test_kaiming_bound_of_linear():
    layer = nn.Linear(400, 50)
    assert abs(layer.weight.numpy(force=True)).max() <= 1 / math.sqrt(400)
    assert abs(layer.weight.numpy(force=True)).max() > 0.99 / math.sqrt(400)
