"""What hypothesis draws: shapes (zeros and rank 0 included), values, axes, broadcast partners."""

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import strategies as st

MAX_SIZE = 300


@st.composite
def shapes(draw, min_rank=0, max_rank=4, min_side=0, max_side=8, max_size=MAX_SIZE):
    """A shape of rank 0 to 4 with sides 0 to 8, and not too many elements."""
    shape = draw(st.lists(st.integers(min_side, max_side), min_size=min_rank, max_size=max_rank).map(tuple))
    while np.prod(shape, dtype=int) > max_size:
        shape = tuple(max(1, n // 2) for n in shape)
    return shape


def values(shape, seed):
    """Numbers from a seed: irregular, distinct, away from 0."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape, dtype=int))
    steps = rng.permutation(size) - size // 2
    return ((0.37 * steps + 0.23 + rng.uniform(0, 0.02, size)) * min(1.0, 8 / max(size, 1))).reshape(shape)


@st.composite
def arrays(draw, **limits):
    """A float64 array of a drawn shape."""
    return values(draw(shapes(**limits)), draw(st.integers(0, 2**20)))


@st.composite
def broadcast_pair(draw):
    """Two arrays whose shapes broadcast against each other."""
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=6))
    a, b = found.input_shapes
    if np.prod(found.result_shape, dtype=int) > MAX_SIZE:
        a, b = (tuple(min(n, 3) for n in s) for s in (a, b))
    seeds = draw(st.tuples(st.integers(0, 2**20), st.integers(0, 2**20)))
    return values(a, seeds[0]), values(b, seeds[1])


@st.composite
def axes_of(draw, ndim):
    """None, an int or a tuple of axes, negative ones too."""
    kind = draw(st.sampled_from(["none", "int", "tuple"]))
    if kind == "none" or ndim == 0:
        return None
    if kind == "int":
        return draw(st.integers(-ndim, ndim - 1))
    chosen = draw(st.lists(st.integers(0, ndim - 1), min_size=1, max_size=ndim, unique=True))
    return tuple(a - ndim if draw(st.booleans()) else a for a in chosen)
