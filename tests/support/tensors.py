"""Small tensors and arrays that many tests start from."""

import numpy as np

from minitorch import Tensor


def leaf(values, dtype=np.float64):
    """A tensor that requires grad, in float64 unless told."""
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def numbers(*shape, seed=0):
    """Normal numbers; the same for the same shape."""
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def weights(shape, dtype=np.float64):
    """An irregular gradient to start from: a constant one hides mistakes that cancel."""
    return np.cos(1.0 + 1.7 * np.arange(int(np.prod(shape)))).reshape(shape).astype(dtype)
