"""`compile`, as the tests of this room are given it: minitorch.compile with each backend in turn."""

import functools

import pytest

import minitorch
from compiled import BACKENDS


@pytest.fixture(params=[b for b in BACKENDS if b != "unfused"])
def compile(request):
    return functools.partial(minitorch.compile, backend=request.param)
