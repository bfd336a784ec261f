"""What hypothesis draws for tensors. Enters: limits. Leaves: strategies of shapes, arrays, axes, broadcast partners.

They give NumPy arrays, so that any library can be tested with them; `tensors(MyTensor)` wraps them in a class of yours.
hypothesis is imported when a strategy is asked for (`pip install hypothesis`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

MAX_SIZE = 300


def shapes(
    min_rank: int = 0, max_rank: int = 4, min_side: int = 0, max_side: int = 8, max_size: int = MAX_SIZE
) -> Any:
    """Shapes of rank 0 to 4 with sides 0 to 8, of not too many elements."""
    from hypothesis import strategies as st

    def small_enough(sides: list[int]) -> tuple[int, ...]:
        while math.prod(sides) > max_size:
            sides = [max(1, n // 2) for n in sides]
        return tuple(sides)

    return st.lists(st.integers(min_side, max_side), min_size=min_rank, max_size=max_rank).map(small_enough)


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return numbers from a seed: irregular, distinct, away from 0.

    >>> values((2,), 0).shape
    (2,)
    """
    rng = np.random.default_rng(seed)
    size = math.prod(shape)
    steps = rng.permutation(size) - size // 2
    numbers = (0.37 * steps + 0.23 + rng.uniform(0, 0.02, size)) * min(1.0, 8 / max(size, 1))
    return np.asarray(numbers.reshape(shape))


def arrays(**limits: Any) -> Any:
    """float64 arrays of drawn shapes; the limits are those of `shapes`."""
    from hypothesis import strategies as st

    return st.builds(values, shapes(**limits), st.integers(0, 2**20))


def broadcast_pair() -> Any:
    """Two arrays whose shapes broadcast against each other."""
    import hypothesis.extra.numpy as hnp
    from hypothesis import strategies as st

    def pair(found: Any, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        a, b = found.input_shapes
        if math.prod(found.result_shape) > MAX_SIZE:
            a, b = (tuple(min(n, 3) for n in s) for s in (a, b))
        return values(a, first), values(b, second)

    both = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=6)
    return st.builds(pair, both, st.integers(0, 2**20), st.integers(0, 2**20))


def axes_of(ndim: int) -> Any:
    """None, an int or a tuple of axes of an array with so many, negative ones too."""
    from hypothesis import strategies as st

    if ndim == 0:
        return st.none()
    each = st.integers(-ndim, ndim - 1)
    several = st.lists(each, min_size=1, max_size=ndim, unique_by=lambda axis: axis % ndim).map(tuple)
    return st.one_of(st.none(), each, several)


def tensors(make: Callable[..., Any], **limits: Any) -> Any:
    """Tensors of a class of yours that require grad: `make(array, requires_grad=True)`."""
    return arrays(**limits).map(lambda array: make(array, requires_grad=True))
