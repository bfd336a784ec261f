"""Machine code for programs whose sizes vary: each at many sizes, beside NumPy and the program of that size alone.

Behind every array that a run is given, and behind all that lies in its own memory, stands a pattern that has to be there
afterwards.
"""

import numpy as np
import pytest

pytest.importorskip("llvmlite.binding")

from minitorch.compiler.backends.llvm.native import Llvm
from minitorch.compiler.ir.program import interpret
from random_ir import close
from varying import CASES, arrays_for, fixed, varying

SIZES = ((6, 5), (2, 2), (3, 17), (33, 2), (64, 64), (129, 50))
CANARY, BEHIND = 0xA5, 256  # bytes
# What NumPy computes in between: nothing else may be.
CALLED_BACK = {"sorts", "call_backs"}


def guarded(array):
    """An equal array, and the bytes behind it."""
    memory = np.full(array.nbytes + BEHIND, CANARY, np.uint8)
    inside = memory[: array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, memory[array.nbytes :]


def run_guarded(made, arrays):
    """Run a program on guarded arrays; return the outputs."""
    inputs, canaries = zip(*map(guarded, arrays), strict=True)
    sized = made.at(made.sizes_of(inputs))
    outputs, behind = zip(*(guarded(np.zeros(p.shape, p.dtype)) for p in sized.pools), strict=True)
    assert made.entry(*inputs, *outputs) is None
    assert all((canary == CANARY).all() for canary in (*canaries, *behind)), "wrote behind an array"
    return list(outputs)


@pytest.mark.parametrize("name", CASES)
def test_each_primitive_at_many_sizes(name):
    made = Llvm().compile(varying(CASES[name]), {})
    assert bool(made.report.called_back) == (name in CALLED_BACK)
    for n, m in SIZES:
        one = fixed(CASES[name], n, m)
        arrays = arrays_for(one)
        for got, want in zip(run_guarded(made, arrays), interpret(one, arrays), strict=True):
            close(got, np.asarray(want), f"{name} at {n}, {m}", 50)
