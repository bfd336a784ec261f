"""Depthwise convolution tap by tap, as native kernels compute it, against the columns by which NumPy does."""

import itertools

import numpy as np
import pytest

from minitorch.ops import conv, pieces

SIZES = [
    ((5,), (3,), (1,), ((1, 1),), (1,)),
    ((9,), (2,), (3,), ((0, 0),), (1,)),
    ((8, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((8, 7), (3, 2), (2, 2), ((1, 1), (0, 1)), (1, 1)),
    ((11, 9), (3, 3), (2, 3), ((2, 2), (1, 1)), (2, 1)),
    ((9, 9), (2, 2), (3, 3), ((0, 0), (0, 0)), (1, 1)),
    ((7, 8), (3, 3), (2, 1), ((0, 0), (-1, 1)), (1, 2)),
    ((5, 4, 6), (3, 1, 2), (2, 1, 2), ((1, 1), (0, 0), (1, 0)), (1, 1, 2)),
]


@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "dilation"), SIZES)
def test_taps_and_columns_agree(size, kernel, stride, padding, dilation):
    random = np.random.default_rng(0)
    x, w = random.normal(size=(2, 3, *size)), random.normal(size=(3, 1, *kernel))
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    y = conv._by_columns(x, w, groups=3, **how)
    flat = w.reshape(3, -1)
    np.testing.assert_allclose(conv._by_taps(x, flat, kernel=kernel, **how), y, rtol=1e-11, atol=1e-12)
    g = random.normal(size=y.shape)
    exact = conv._exactly(size, y.shape[2:], kernel, stride, padding, dilation)
    for pairs in {padding, exact}:
        options = {**how, "padding": pairs}
        back = conv._from_columns(g, w, groups=3, **options)
        found = conv._by_taps_transposed(g, flat, kernel=kernel, **options)
        np.testing.assert_allclose(found, back, rtol=1e-11, atol=1e-12)
    slopes = conv._columns_weight(x, g, kernel=kernel, groups=3, **how)
    found = conv._by_taps_weight(x, g, kernel=kernel, **how).reshape(slopes.shape)
    np.testing.assert_allclose(found, slopes, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "dilation"), SIZES)
def test_gradients_by_shorter_ways(monkeypatch, size, kernel, stride, padding, dilation):
    random = np.random.default_rng(0)
    x, w = random.normal(size=(3, 4, *size)), random.normal(size=(4, 1, *kernel))
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    monkeypatch.setattr(conv, "_LARGE_IMAGE", 1)
    monkeypatch.setattr(pieces, "threads", lambda: 2)
    y = conv._by_columns(x, w, groups=4, **how)
    exact = {**how, "padding": conv._exactly(size, y.shape[2:], kernel, stride, padding, dilation)}
    found = conv._depthwise_columns_transposed(y, w.reshape(4, -1), kernel=kernel, **exact)
    np.testing.assert_allclose(found, conv._from_columns(y, w, groups=4, **exact), rtol=1e-11, atol=1e-12)
    slopes = conv._columns_weight(x, y, kernel=kernel, groups=4, **how).reshape(4, -1)
    found = conv._depthwise_columns_weight(x, y, kernel=kernel, **how)
    np.testing.assert_allclose(found, slopes, rtol=1e-11, atol=1e-12)


def test_every_residue_is_tried():
    strides = set(itertools.chain.from_iterable(stride for _, _, stride, _, _ in SIZES))
    assert strides == {1, 2, 3}
