"""Schedules of programs whose sizes vary, carried out to the letter at many sizes by the device of the tests."""

import numpy as np
import pytest

from device_backend import Device
from minitorch.compiler.ir.program import interpret
from random_ir import close
from varying import CASES, arrays_for, fixed, varying

SIZES = ((6, 5), (2, 2), (3, 17), (33, 3))


@pytest.mark.parametrize("name", CASES)
def test_each_primitive_at_many_sizes(name):
    program = varying(CASES[name])
    made = Device().build(program, {})
    assert "failed" not in str(made.report.unfused)
    for n, m in SIZES:
        one = fixed(CASES[name], n, m)
        arrays = arrays_for(one)
        for got, want in zip(made(arrays), interpret(one, arrays), strict=True):
            close(np.asarray(got), np.asarray(want), f"{name} at {n}, {m}", 50)
