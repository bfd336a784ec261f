"""What can be compiled besides functions: methods of every sort, callable objects, copied and deleted instances."""

import copy
import gc
from collections import namedtuple

import pytest

import minitorch as mt
from minitorch import optim
from scenarios import batches, both, mlp, parameters


def test_two_instances_of_one_class(compile):
    def scenario(compile):
        class Trainer:
            def __init__(self, rate):
                self.model = mlp()
                self.optimizer = optim.SGD(self.model.parameters(), lr=rate)

            @compile
            def step(self, x, y):
                self.optimizer.zero_grad()
                loss = ((self.model(x) - y) ** 2).mean()
                loss.backward()
                self.optimizer.step()
                return loss

        a, b = Trainer(0.1), Trainer(0.5)
        for x, y in batches(4):
            a.step(x, y)
            b.step(x, y)
        return parameters(a.model), parameters(b.model)

    both(scenario, compile)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copied_instance_has_its_own_programs(compile, how):
    def scenario(compile):
        class Thing:
            def __init__(self):
                self.weight = mt.ones(2)
                self.factor = 2.0

            @compile
            def double(self, x):
                self.weight.add_(1)
                return x * self.factor + self.weight

        a = Thing()
        results = [a.double(mt.ones(2)), a.double(mt.ones(2))]
        b = how(a)
        b.weight, b.factor = mt.zeros(2), 5.0
        results += [b.double(mt.ones(2)), b.double(mt.ones(2)), a.double(mt.ones(2))]
        return results, a.weight, b.weight

    both(scenario, compile)


def test_methods_of_every_sort(compile):
    def scenario(compile):
        class Thing:
            factor = 2.0

            @staticmethod
            @compile
            def fixed(x):
                return x + 1

            @compile
            @staticmethod
            def fixed_too(x):
                return x + 2

            @classmethod
            @compile
            def of_class(cls, x):
                return x * cls.factor

            @compile
            @classmethod
            def of_class_too(cls, x):
                return x * cls.factor + 1

            @compile
            def __call__(self, x):
                return x * self.factor

        class Other(Thing):
            factor = 5.0

        results = []
        for kind in (Thing, Other, Thing, Other):
            thing = kind()
            x = mt.ones(2)
            results += [kind.fixed(x), thing.fixed(x), kind.fixed_too(x), thing.fixed_too(x)]
            results += [
                kind.of_class(x),
                thing.of_class(x),
                kind.of_class_too(x),
                thing(x),
                kind.__call__(thing, x),
            ]
        Other.factor = 7.0
        return [*results, Other.of_class(mt.ones(2)), Other()(mt.ones(2))]

    both(scenario, compile)


def test_a_callable_object_and_a_bound_method(compile):
    def scenario(compile):
        class Scale:
            def __init__(self):
                self.by = 2.0

            def __call__(self, x):
                return self.scaled(x)

            def scaled(self, x):
                return x * self.by

        scale = Scale()
        f, g = compile(scale), compile(scale.scaled)
        results = [f(mt.ones(2)), g(mt.ones(2))]
        scale.by = 3.0
        return [*results, f(mt.ones(2)), g(mt.ones(2))]

    both(scenario, compile)


def test_methods_of_instances_without_attributes(compile):
    class Point(namedtuple("Point", "x y")):
        __slots__ = ()

        @compile
        def total(self):
            return self.x + self.y

    for i in range(3):
        assert Point(mt.ones(2) * i, mt.ones(2)).total().tolist() == [i + 1.0] * 2


def test_method_of_a_deleted_instance(compile):
    class Thing:
        def __init__(self):
            self.weight = mt.ones(2)

        @compile
        def scale(self, x):
            return x * self.weight

    scale = Thing().scale
    gc.collect()
    assert scale(mt.ones(2)).tolist() == [1, 1]
    assert scale(mt.ones(2) * 2).tolist() == [2, 2]
