"""Sobol's sequences beside PyTorch's: the same numbers, scrambled too."""

import numpy as np
import pytest

import minitorch
from minitorch.quasirandom import SobolEngine
from pytorch import torch


@pytest.mark.parametrize("dimension", [1, 3, 40])
@pytest.mark.parametrize("scramble", [False, True])
def test_points_are_pytorchs(dimension, scramble):
    ours = SobolEngine(dimension, scramble, seed=5)
    theirs = torch.quasirandom.SobolEngine(dimension, scramble, seed=5)
    assert repr(ours) == repr(theirs)
    for draw in (
        lambda e, m: e.draw(5),
        lambda e, m: e.draw(),
        lambda e, m: e.draw(0) if e.num_generated else e.draw(1),
        lambda e, m: e.fast_forward(9).draw(3, dtype=m.float64),
        lambda e, m: e.reset().draw_base2(3),
        lambda e, m: e.draw_base2(3, out=m.empty(0)),
    ):
        a, b = draw(ours, minitorch), draw(theirs, torch)
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_scrambling_draws_from_the_global_stream():
    for m, engine in ((minitorch, SobolEngine), (torch, torch.quasirandom.SobolEngine)):
        m.manual_seed(0)
        drawn = engine(3, scramble=True).draw(4).numpy(), m.rand(1).numpy()
        if m is minitorch:
            mine = drawn
    for a, b in zip(mine, drawn, strict=True):
        np.testing.assert_array_equal(a, b)


def test_refusals():
    with pytest.raises(ValueError, match=r"\[1, 21201\]"):
        SobolEngine(21202)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match=r"after 3 points, 2\*\*2 more make 7"):
        engine.draw_base2(2)
