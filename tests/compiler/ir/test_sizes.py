"""Sizes that vary: arithmetic, what is sure about them, guards, and printing, each against plain numbers."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitorch.compiler.ir.sizes import (
    USUAL,
    Guard,
    Size,
    Symbol,
    Undecided,
    collecting,
    comparing_surely,
    evaluated,
    formulas,
    hint,
    knowing,
    limits,
    spelled,
    surely_equal,
    surely_less,
    surely_multiple,
    symbols_of,
    typical,
)

S, T = Symbol("s0", 5), Symbol("s1", 7)
s, t = S.size, T.size


def test_a_size_is_the_int_that_was_met() -> None:
    assert isinstance(s, int)
    assert (hint(s), hint(s * t + 3), hint(4)) == (5, 38, 4)
    assert str(s * 4 + 2) == "4*s0 + 2"
    assert str((s + 1) // 2) == "(s0 + 1)//2"
    assert str(s * t - t + s * s) == "s0*s0 + s0*s1 - s1"


def test_symbols_that_cancel_leave_plain_ints() -> None:
    for number in (s - s, (s + 3) - s, (s * 4) % 4, (s * 8 + 3) % 4, 0 * s, (s * t) // (t * s)):
        assert type(number) is int
    assert (s * t) // t is not None
    assert surely_equal((s * t) // t, s)
    assert surely_equal(((s + 1) * t * 6) // (t * 3), 2 * s + 2)
    assert surely_equal(math.prod((s, 3, t)), 3 * t * s)
    assert surely_equal(sum([s, t, 1]), t + s + 1)
    assert surely_equal(s * t + s, s * (t + 1))
    assert hash(s * t + s) == hash(s * (t + 1))


def test_what_ranges_say_is_decided_without_a_guard() -> None:
    assert s == s
    assert s != 1
    assert s > 0
    assert s + 1 > s
    assert s * t >= s
    assert s * t != 0
    assert bool(s)
    assert not s < 2
    assert not s * 4 % 4
    assert 2 * s != 3
    assert 2 * s != 2 * t + 1
    assert s * t - s >= 2
    assert s // 2 <= s
    assert (s // 2) * 2 <= s < (s // 2) * 2 + 2
    assert s // 2 >= 1
    bounded = Symbol("s2", 5, least=3, greatest=8).size
    assert bounded < 9
    assert bounded // 9 == 0
    assert bounded // 3 >= 1
    assert limits(bounded * 2 - 1) == (5, 15)


def test_what_depends_on_the_size_needs_someone_who_notes_it() -> None:
    for question in (lambda: s == t, lambda: s < t, lambda: s > 4, lambda: s == 5, lambda: s % 2 == 1):
        with pytest.raises(Undecided):
            question()
    for number in (lambda: int(s), lambda: float(s), lambda: s / 2, lambda: 2**s, lambda: s & 1):
        with pytest.raises(Undecided):
            number()


def test_guards_say_what_was_taken_for_granted() -> None:
    with collecting([]) as guards:
        assert s > 4
        assert not s > 10
        assert s != t
        assert s % 2
        assert s > 4
        assert s > 3
        assert s < 11
        assert [str(g) for g in guards] == ["s0 >= 5", "10 >= s0", "s0 != s1", "s0 != 2*(s0//2)"]
        assert int(t) == 7
        assert str(guards[-1]) == "s1 == 7"
    assert all(g.holds({S: 5, T: 7}) for g in guards)
    assert [g.holds({S: 4, T: 4}) for g in guards] == [False, True, False, False, False]
    with knowing(guards):
        assert s > 4
        assert s != t
        assert surely_less(s, 11)
        assert not surely_less(s, 10)
    with pytest.raises(Undecided):
        assert s > 4


def test_equality_that_is_known_decides() -> None:
    with knowing([Guard("==", s - t)]):
        assert s == t
        assert s <= t
        assert not s < t
        assert s + 1 > t
        assert s != t + 1


def test_questions_without_an_answer_are_no() -> None:
    assert not surely_equal(s, t)
    assert not surely_less(s, t)
    assert not surely_multiple(s, 2)
    assert surely_multiple(s * 6, 3)
    assert surely_less(s, s * t)
    assert surely_equal((s, 3), (s, 3))


def test_replacing_symbols() -> None:
    assert evaluated({"shape": (s * 4, 3), "axis": 1}, {S: 2}) == {"shape": (8, 3), "axis": 1}
    assert surely_equal(evaluated(s + t, {S: t, T: t}), 2 * t)
    assert symbols_of([(t // (s + 1)), 4]) == [T, S]
    with pytest.raises(KeyError, match="s1"):
        evaluated(s + t, {S: 2})


def test_spelling_in_text() -> None:
    with spelled(lambda size: f'%"{size!s}"'):
        assert f"mul i64 {s * 2}, 3" == 'mul i64 %"2*s0", 3'
    assert f"{s * 2}" == "2*s0"


def test_what_is_typical_is_no_less_than_usual_unless_it_is_said() -> None:
    assert typical(Symbol("n", 3).size * 2) == 2 * USUAL
    assert typical(Symbol("n", 300).size + 1) == 301
    assert typical(Symbol("n", 3, typical=5).size) == 5
    assert typical(7) == 7


def test_equal_whatever_the_symbols_are() -> None:
    with comparing_surely([Guard(">=", s - 6)]):
        assert s == s
        assert s != t
        assert (s == t) is False
        assert s != 5
        assert s > 5
        with pytest.raises(Undecided):
            assert s > 6


def expressions() -> st.SearchStrategy[Any]:
    leaves = st.one_of(st.sampled_from(["s0", "s1"]), st.integers(-6, 6))
    operators = st.sampled_from(["add", "sub", "mul", "floordiv", "mod"])
    return st.recursive(leaves, lambda x: st.tuples(operators, x, x), max_leaves=7)


def value(expression: Any, names: dict[str, int]) -> int:
    if isinstance(expression, str):
        return names[expression]
    if isinstance(expression, int):
        return expression
    name, left, right = expression
    return getattr(operator, name)(value(left, names), value(right, names))


@given(expressions(), st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), min_size=1, max_size=6))
def test_any_expression_is_what_it_is_in_numbers(expression: Any, sizes: list[tuple[int, int]]) -> None:
    with collecting([]) as guards:
        try:
            size = value(expression, {"s0": s, "s1": t})
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                value(expression, {"s0": 5, "s1": 7})
            return
    assert hint(size) == value(expression, {"s0": 5, "s1": 7})
    low, high = limits(size)
    for a, b in sizes:
        binding = {S: a, T: b}
        if all(guard.holds(binding) for guard in guards):
            number = value(expression, {"s0": a, "s1": b})
            assert evaluated(size, binding) == number
            assert formulas([size, 3], [S, T])(a, b) == (number, 3)
            assert guards or low <= number <= high
            if isinstance(size, Size):
                assert isinstance(str(size), str)
