"""A program recorded with sizes that vary means, at each size, what the program recorded at that size does."""

import numpy as np
import pytest

from minitorch.compiler.backends.numpy.interpreter import Numpy
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.ir.simplify import simplify
from minitorch.compiler.ir.sizes import Symbol
from random_ir import close, given
from varying import CASES, arrays_for, fixed, varying

SIZES = ((2, 2), (6, 5), (3, 17), (40, 3), (2, 33))


@pytest.mark.parametrize("name", CASES)
def test_each_primitive_at_many_sizes(name):
    program = varying(CASES[name])
    assert list(program.symbols)
    assert program.guards == ()
    runs = Numpy().compile(program, {})
    for n, m in SIZES:
        one = fixed(CASES[name], n, m)
        arrays = arrays_for(one)
        want = interpret(one, arrays)
        for got in (interpret(program, arrays), runs(arrays)):
            for w, g in zip(want, got, strict=True):
                close(np.asarray(g), np.asarray(w), f"{name} at {n}, {m}")


def test_symbols_are_found_in_what_is_given():
    n, count = Symbol("s0", 4), Symbol("s1", 7)
    x, number = given((3, n.size)), given((), "i8")
    number.attributes["symbol"] = count
    program = Program([x, number], [x])
    assert program.symbols == {n: (0, 1), count: (1, None)}
    assert program.binding([np.zeros((3, 9)), np.int64(5)]) == {n: 9, count: 5}


def test_what_is_empty_at_every_size_keeps_the_sizes_that_vary():
    n = Symbol("s0", 5).size
    x = given((0, n, 4))
    program = Program([x], [b.reshape(b.map_values("tanh", x), (0, n, 2, 2)), b.reduce("add", x, (0,))])
    simple = simplify(program)
    assert [output.shape for output in simple.outputs] == [(0, n, 2, 2), (n, 4)]
    for count in (5, 13):
        empty, sums = interpret(simple, [np.empty((0, count, 4), np.float32)])
        assert empty.shape == (0, count, 2, 2)
        np.testing.assert_array_equal(sums, np.zeros((count, 4)))
