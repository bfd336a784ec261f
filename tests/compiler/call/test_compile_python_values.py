"""Python's values that change between calls: closures, globals, defaults, attributes, containers, arrays."""

import dataclasses
import functools

import numpy as np

import minitorch as mt
from scenarios import Holder, both

SCALE = 2.0
HELPER_SCALE = 3.0


def helper(x):
    return x * HELPER_SCALE


def test_closure_variable(compile):
    def scenario(compile):
        factor, results = 2.0, []
        f = compile(lambda x: x * factor)
        for factor in (2.0, 3.0, 3.0, -0.0, 0.0, 2, True):  # noqa: B007
            results += [1 / f(mt.ones(2))]
        return results

    both(scenario, compile)


def test_global(compile):
    def scenario(compile):
        global SCALE, HELPER_SCALE
        SCALE = HELPER_SCALE = 2.0
        f = compile(lambda x: helper(x) + SCALE)
        results = [f(mt.ones(2))]
        SCALE = 5.0
        results.append(f(mt.ones(2)))
        HELPER_SCALE = 7.0
        results.append(f(mt.ones(2)))
        return results

    both(scenario, compile)


def test_defaults(compile):
    def scenario(compile):
        def f(x, by=2.0, *, plus=1.0):
            return x * by + plus

        g = compile(f)
        results = [g(mt.ones(2))]
        f.__defaults__ = (3.0,)
        results.append(g(mt.ones(2)))
        f.__kwdefaults__ = {"plus": 4.0}
        results += [g(mt.ones(2)), g(mt.ones(2), 5.0), g(mt.ones(2), plus=6.0)]
        return results

    both(scenario, compile)


class Slotted:
    __slots__ = ("number",)


@dataclasses.dataclass
class Config:
    width: int = 2
    scale: float = 1.5
    names: list = dataclasses.field(default_factory=lambda: ["a"])


def test_attributes_of_objects(compile):
    def scenario(compile):
        holder, slotted, config = Holder(), Slotted(), Config()
        slotted.number = 1.0
        holder.nested = Holder()

        @compile
        def f(x):
            y = x * holder.number + holder.nested.number * slotted.number + holder.kind
            return y * config.scale if config.width == 2 else y * len(config.names)

        def call():
            return f(mt.ones(2))

        results = [call()]
        for change in (
            lambda: setattr(holder, "number", 3.0),
            lambda: setattr(holder.nested, "number", 4.0),
            lambda: setattr(slotted, "number", 5.0),
            lambda: setattr(config, "scale", 6.0),
            lambda: setattr(holder, "kind", 8.0),  # hides the class's
            lambda: setattr(config, "width", 3),
            lambda: config.names.append("b"),
            lambda: setattr(holder, "nested", holder),
        ):
            change()
            results += [call(), call()]
        return results

    both(scenario, compile)


def test_unused_attributes_do_not_matter(compile):
    holder = Holder()
    f = compile(lambda x: x * holder.number)
    for i in range(5):
        holder.unused = i
        f(mt.ones(2))
    assert f.compilations == 1


def test_class_attribute(compile):
    def scenario(compile):
        class Base:
            factor = 2.0

        class Derived(Base):
            def __init__(self):
                self.x = 1

        thing = Derived()
        f = compile(lambda x: x * thing.factor)
        results = [f(mt.ones(2))]
        Base.factor = 3.0
        results.append(f(mt.ones(2)))
        Derived.factor = 4.0
        results.append(f(mt.ones(2)))
        thing.factor = 5.0
        results.append(f(mt.ones(2)))
        return results

    both(scenario, compile)


def test_method_replaced(compile):
    def scenario(compile):
        class Thing:
            def scale(self, x):
                return x * 2

        thing = Thing()
        f = compile(lambda x: thing.scale(x))
        results = [f(mt.ones(2))]
        Thing.scale = lambda self, x: x * 3
        results.append(f(mt.ones(2)))
        thing.scale = lambda x: x * 4
        results.append(f(mt.ones(2)))
        return results

    both(scenario, compile)


def test_items_of_containers(compile):
    def scenario(compile):
        numbers, table, chosen = [1.0, 2.0], {"a": 1.0, "b": [3.0]}, {1, 2}
        nested = ([1.0], {"x": 2.0})

        @compile
        def f(x):
            y = x * numbers[0] + numbers[1] + table["a"] + table["b"][0] + nested[0][0] + nested[1]["x"]
            return y * (2 if 3 in chosen else 1)

        def call():
            return f(mt.ones(2))

        results = [call()]
        for change in (
            lambda: numbers.__setitem__(0, 5.0),
            lambda: numbers.append(1.0),
            lambda: numbers.__setitem__(1, 2),  # an int of the same value
            lambda: table.__setitem__("a", 7.0),
            lambda: table["b"].__setitem__(0, 8.0),
            lambda: nested[0].__setitem__(0, 9.0),
            lambda: nested[1].__setitem__("x", 10.0),
            lambda: (chosen.remove(2), chosen.add(3)),
        ):
            change()
            results.append(call())
        return results

    both(scenario, compile)


def test_attributes_read_by_computed_names(compile):
    def scenario(compile):
        holder = Holder()
        name = "num" + "ber"

        @compile
        def f(x):
            return x * getattr(holder, name) + sum(v for v in vars(holder).values() if isinstance(v, float))

        results = [f(mt.ones(2))]
        holder.number = 7.0
        return [*results, f(mt.ones(2))]

    both(scenario, compile)


def test_arrays_outside_are_read_anew(compile):
    def scenario(compile):
        table = np.ones(3, np.float32)
        weights = [mt.ones(3)]
        f = compile(lambda x: x * mt.tensor(table) + weights[0])
        results = [f(mt.ones(3))]
        table[1] = 5.0
        weights[0].data[2] = 9.0
        results.append(f(mt.ones(3)))
        weights[0] = mt.zeros(3)
        return [*results, f(mt.ones(3))]

    both(scenario, compile)


def test_a_function_decorated_by_the_library_is_looked_into(compile):
    def scenario(compile):
        factor = [2.0]

        @compile
        @mt.no_grad()
        def f(x):
            return x * factor[0]

        results = [f(mt.ones(2))]
        factor[0] = 3.0
        return [*results, f(mt.ones(2))]

    both(scenario, compile)


def test_partial_and_its_arguments(compile):
    def scenario(compile):
        factors = [2.0]

        def f(x, factors, plus):
            return x * factors[0] + plus

        g = compile(functools.partial(f, factors=factors, plus=1.0))
        results = [g(mt.ones(2))]
        factors[0] = 3.0
        return [*results, g(mt.ones(2)), g(mt.ones(2), plus=2.0)]

    both(scenario, compile)
