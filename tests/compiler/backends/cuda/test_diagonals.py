"""Masks whose lengths vary: what is known of their diagonals is what the mask is at every length."""

import itertools
import operator

import numpy as np
import pytest

from minitorch.compiler.backends.cuda.diagonals import Diagonals, diagonals_of
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.ir.sizes import Symbol, comparing_surely, evaluated

N, M = Symbol("s0", 5), Symbol("s1", 7)


def places(queries, keys):
    return b.reshape(b.iota(queries), (queries, 1)), b.reshape(b.iota(keys), (1, keys))


def number(n):
    return b.constant(np.int64(n))


def compare(name, x, y):
    return b.map_values(name, x, y)


def causal(i, j, n, m):
    return compare("greater", j, i)


def added(i, j, n, m):
    return b.where(compare("less_equal", j, i), b.constant(np.float32(0)), b.constant(np.float32(-np.inf)))


def window(i, j, n, m):
    return compare("greater", b.map_values("absolute", b.map_values("subtract", i, j)), number(3))


def shifted(i, j, n, m):
    return compare("less", b.map_values("add", i, b.size(m - n)), j)


def between(i, j, n, m):
    below = compare("less", j, b.map_values("subtract", i, number(2)))
    return b.map_values("logical_or", below, b.map_values("logical_not", compare("less_equal", j, i)))


def doubled(i, j, n, m):
    twice = [b.map_values("multiply", each, number(2)) for each in (i, j)]
    apart = b.map_values("negative", b.map_values("subtract", *twice))
    return compare("equal", apart, number(0))


def inside_out(i, j, n, m):
    return b.map_values("invert", causal(i, j, n, m))


def of_one(i, j, n, m):
    return b.expand(compare("less", j, number(3)), (n, m))


def of_a_batch(i, j, n, m):
    batch = b.reshape(b.iota(n), (n, 1, 1))
    return compare("greater", b.map_values("add", j, batch), i)


KNOWN = [causal, added, window, shifted, between, inside_out]


@pytest.mark.parametrize("mask", KNOWN, ids=lambda each: each.__name__)
def test_diagonals_are_those_of_the_mask_at_every_length(mask):
    value = mask(*places(N.size, M.size), N.size, M.size)
    wanted = -np.inf if mask is added else True
    with comparing_surely():
        found = diagonals_of(value, wanted)
        others = ~found
    for n, m in ((2, 2), (5, 7), (9, 4), (3, 12)):
        array = interpret(Program([], [mask(*places(n, m), n, m)]), [])[0]
        apart = np.arange(m) - np.arange(n)[:, None]
        for diagonals, where in ((found, array == wanted), (others, array != wanted)):
            np.testing.assert_array_equal(lies_in(apart, diagonals, {N: n, M: m}), where, err_msg=f"{n}, {m}")


def lies_in(apart, diagonals, binding):
    spans = [tuple(e if isinstance(e, float) else evaluated(e, binding) for e in s) for s in diagonals.spans]
    return np.any([(apart >= first) & (apart <= last) for first, last in spans], axis=0) & (apart == apart)


@pytest.mark.parametrize("mask", [doubled, of_one, of_a_batch], ids=lambda each: each.__name__)
def test_what_is_not_known(mask):
    with comparing_surely():
        assert diagonals_of(mask(*places(N.size, M.size), N.size, M.size), True) is None


@pytest.mark.parametrize("function", [operator.and_, operator.or_])
def test_sets_of_diagonals(function):
    some = [[], [(-3, 4)], [(-np.inf, -1), (2, 3)], [(0, np.inf)], [(-np.inf, np.inf)], [(1, 1), (4, 9)]]
    apart = np.arange(-20, 21)
    for one, two in itertools.product(map(Diagonals, some), repeat=2):
        found = lies_in(apart, function(one, two), {})
        expected = function(lies_in(apart, one, {}), lies_in(apart, two, {}))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(lies_in(apart, ~one, {}), ~lies_in(apart, one, {}))
