"""Values computed by the library of a device's arrays: there, and what NumPy gives."""

import numpy as np
import pytest

from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.compiler.ir.program import evaluate
from random_ir import given, some
from standin import DeviceArray


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("function", ["add", "maximum"])
def test_folds_stay_on_the_device(function, axes):
    x = some(np.random.default_rng(0), (3, 4, 5))
    check(b.reduce(function, given(x.shape), axes), x)


@pytest.mark.parametrize("axis", [0, 1])
def test_adding_at_places_stays_on_the_device(axis):
    rng = np.random.default_rng(1)
    base, updates = some(rng, (4, 4)), some(rng, (4, 4))
    index = np.array([2, 0, 2, 3])
    values = [given(a.shape, a.dtype) for a in (base, index, updates)]
    check(b.scatter("add", *values, axis), base, index, updates)


def check(value, *arrays):
    compute = Elsewhere(DeviceArray, DeviceArray.get)
    found = compute(value, [DeviceArray(a) for a in arrays])
    assert not compute.refused
    assert isinstance(found, DeviceArray)
    np.testing.assert_allclose(found.host, evaluate(value, arrays), rtol=1e-6)
