"""What random histories (tests/support/histories.py) have found, each as a few lines."""

from contextlib import nullcontext

import numpy as np
import pytest

import minitorch as mt
from minitorch.compiler.call.compiled import CompileWarning
from scenarios import both, plain


def test_a_container_from_outside_is_returned_itself(compile):
    def scenario(compile):
        log, tensors, table = [], [mt.ones(2)], {"a": 1.0}

        @compile
        def f(x):
            log.append(1)
            return x * 2, log, {"inside": [tensors, table]}

        found = [f(mt.ones(2)) for _ in range(4)]
        assert all(log is same for _, same, _ in found)
        assert all(d["inside"][0] is tensors and d["inside"][1] is table for *_, d in found)
        if compile is not plain:
            assert f.compilations == 1
        return log, [h for h, *_ in found]

    both(scenario, compile)


def test_a_container_from_outside_is_stored_itself(compile):
    def scenario(compile):
        class Box:
            pass

        box, shared = Box(), [1, 2]

        @compile
        def f(x):
            box.held = shared
            return x * 2

        for _ in range(3):
            f(mt.ones(2))
            assert box.held is shared
        if compile is not plain:
            assert f.compilations == 1
        return shared

    both(scenario, compile)


def test_an_object_is_given_another_dict_of_attributes(compile):
    def scenario(compile):
        class Box:
            def __init__(self):
                self.k, self.count = 0.5, 0

        box = Box()

        @compile
        def f(x):
            box.count += 1
            return x * box.k

        found = [f(mt.ones(2)) for _ in range(3)]
        box.__dict__ = {"k": 0.25, "count": 7}
        found += [f(mt.ones(2)) for _ in range(3)]
        return found, box.count

    both(scenario, compile)


def test_a_new_container_that_stands_in_two_places_is_one(compile):
    def scenario(compile):
        class Box:
            pass

        box, log = Box(), []

        @compile
        def f(x):
            out = {"x": x * 2, "n": [1]}
            box.last = out
            log.append(out)
            return out, out["n"]

        for i in range(4):
            out, numbers = f(mt.ones(2) * i)
            assert out is box.last is log[-1]
            assert out["n"] is numbers
        return log

    both(scenario, compile)


@pytest.mark.parametrize("how", ["item", "in place", "fill", "out", "view", "from_numpy"])
def test_an_array_among_the_arguments_is_written_into(compile, how):
    def write(y):
        if how == "item":
            y[0] = 0.25
        elif how == "in place":
            y += 1
        elif how == "fill":
            y.fill(3)
        elif how == "out":
            np.add(y, 1, out=y)
        elif how == "view":
            y.T[0] = 7
        else:
            mt.from_numpy(y).add_(1)

    def scenario(compile):
        @compile
        def f(x, y):
            write(y)
            return x + mt.tensor(y)

        found = []
        for i in range(4):
            y = np.arange(6.0).reshape(2, 3) * i
            found += [f(mt.ones(3), y), y]
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


def test_a_method_that_cannot_be_recorded_of_an_array_among_the_arguments(compile):
    def scenario(compile):
        @compile
        def f(x, y):
            y.sort()
            return x * 2

        y = np.array([3.0, 1.0, 2.0])
        with pytest.warns(CompileWarning) if compile is not plain else nullcontext():
            return f(mt.ones(2), y), y

    both(scenario, compile)


def test_a_key_that_a_dict_makes_up(compile):
    def scenario(compile):
        class Odd(dict):
            def __missing__(self, key):
                return 0.5

        odd = Odd()
        f = compile(lambda x: x * odd["q"])
        found = [f(mt.ones(2)), f(mt.ones(2))]
        odd["q"] = 0.8
        found.append(f(mt.ones(2)))
        del odd["q"]
        Odd.__missing__ = lambda self, key: 0.25
        return [*found, f(mt.ones(2))]

    both(scenario, compile)


def test_numbers_seen_through_a_view_of_a_dict(compile):
    def scenario(compile):
        table = {1: 0.5, "a": 1.5}
        f = compile(lambda x: x * sum(v for v in table.values()))
        found = [f(mt.ones(2))]
        table[1] = 0.75
        found.append(f(mt.ones(2)))
        table[1] = mt.ones(2)
        return [*found, f(mt.ones(2))]

    both(scenario, compile)


@pytest.mark.parametrize("other", [1, True, np.float32(0.5), "tensor"])
def test_a_number_that_becomes_one_of_another_type(compile, other):
    def scenario(compile):
        numbers = [0.5]
        f = compile(lambda x: x * numbers[0])
        found = []
        for i in range(6):
            numbers[0] = 0.5 + i if i < 4 else mt.ones(2) if other == "tensor" else other
            found.append(f(mt.ones(2, dtype=mt.int64)))
        return found

    both(scenario, compile)
