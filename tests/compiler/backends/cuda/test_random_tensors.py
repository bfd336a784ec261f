"""Random programs over tensors of all dtypes on a GPU, or its stand-in: eager and compiled, against eager on the CPU."""

import contextlib
import warnings

import pytest

import random_tensors
from compiled import BACKENDS
from some_gpu import REAL

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")


# Each showed something: what a rule reads, masks made of indices, numbers written over a tensor, a quantile's number.
@pytest.mark.parametrize("seed", [6, 13, 16, 84, 1011, 1031])
def test_a_random_program(seed):
    with contextlib.nullcontext() if REAL else random_tensors.standin(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(random_tensors.differences(seed, calls=4))
    assert not found, "\n".join(said for said, _ in found)
