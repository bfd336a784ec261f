"""Muon against PyTorch's, which orthogonalises in bfloat16: to the precision of that."""

import numpy as np
import pytest

import minitorch
from minitorch.optim.muon import orthogonalised, rounded
from pytorch import torch


def trained(library, shape, dtype, **options):
    numbers = np.random.default_rng(0)
    w = library.tensor(numbers.normal(size=shape).astype(dtype), requires_grad=True)
    x = library.tensor(numbers.normal(size=(7, shape[0])).astype(dtype))
    optimizer = library.optim.Muon([w], **options)
    for _ in range(5):
        optimizer.zero_grad()
        (library.tanh(x @ w) ** 2).sum().backward()
        optimizer.step()
    return w.detach().numpy(), optimizer.state_dict()


@pytest.mark.parametrize("shape", [(3, 5), (6, 2), (4, 4)])
@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": False, "weight_decay": 0.0}, {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.8}],
)
def test_five_steps_follow_pytorch(shape, options):
    ours, saved = trained(minitorch, shape, np.float32, lr=0.02, **options)
    theirs, expected = trained(torch, shape, np.float32, lr=0.02, **options)
    np.testing.assert_allclose(ours, theirs, atol=3e-3)
    assert saved["param_groups"] == expected["param_groups"]
    assert list(saved["state"][0]) == list(expected["state"][0])
    np.testing.assert_allclose(
        saved["state"][0]["momentum_buffer"].numpy(),
        expected["state"][0]["momentum_buffer"].numpy(),
        atol=3e-2,
    )


def test_singular_values_come_near_one():
    x = np.random.default_rng(1).normal(size=(8, 5))
    values = np.linalg.svd(orthogonalised(x, (3.4445, -4.7750, 2.0315), 5, 1e-7))[1]
    assert ((values > 0.6) & (values < 1.3)).all()


def test_rounding_is_bfloat16s():
    x = np.random.default_rng(2).normal(size=1000).astype(np.float32)
    expected = torch.tensor(x).bfloat16().float().numpy()
    np.testing.assert_array_equal(rounded(x), expected)


def test_complex_matrices_are_refused():
    w = minitorch.tensor(np.eye(2) * 1j, requires_grad=True)
    w.grad = np.eye(2) * 1j
    with pytest.raises(RuntimeError, match="complex"):
        minitorch.optim.Muon([w]).step()
