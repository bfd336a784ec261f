"""Programs that alias, rebind, catch, reorder and mutate between calls: compiled, each does what it does eagerly.

A program is written once, with `compile` as its argument, and run twice (scenarios.py): what it returns, its printing and
the random stream must be the same. `refused` is what the warning says where a program is run as it is; without it, a
program must be compiled, every call of it.
"""

import collections
import contextvars
import dataclasses
import enum
import functools
import logging
import math
import os
import random
import types
import typing
import weakref

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from scenarios import both, mlp, parameters

PROGRAMS = {}


def program(kind, refused=None):
    """Enter a program in the table."""

    def enter(scenario):
        PROGRAMS[f"{kind}: {scenario.__name__}"] = scenario, refused
        return scenario

    return enter


def ones(scale=1.0):
    return mt.ones(3) * scale


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_program_and_its_eager_twin(name, backend, capsys):
    scenario, refused = PROGRAMS[name]
    pytest.importorskip("llvmlite") if backend == "native" else None
    both(scenario, functools.partial(mt.compile, backend=backend), refused)
    printed = capsys.readouterr().out
    half = len(printed) // 2
    assert printed[:half] == printed[half:]


# --- identity -----------------------------------------------------------------------------------------------------


@program("identity")
def argument_also_captured(compile):
    x0, y = ones(2), ones(3)
    g = compile(lambda a: a * 2 + x0)
    return [g(x0), g(y), g(y), g(x0), g(x0 * 1)]


@program("identity")
def array_also_captured(compile):
    x0, y = np.full(3, 2.0, np.float32), np.full(3, 3.0, np.float32)
    g = compile(lambda a: mt.tensor(a) * 2 + mt.tensor(x0))
    return [g(x0), g(y), g(y), g(x0)]


@program("identity")
def parameter_also_captured(compile):
    p = nn.Parameter(ones(2))
    q = nn.Parameter(ones(3))

    @compile
    def f(a):
        loss = (a * p).sum()
        loss.backward()
        return loss.detach()

    results = [f(p), f(q), f(q), f(p)]
    return results, p.grad, q.grad


@program("identity")
def is_decides(compile):
    x, y = ones(2), ones(3)
    f = compile(lambda a, b: a * 2 if a is b else a * 3)
    g = compile(lambda a: a * 2 if a is x else a * 3)
    return [f(x, x), f(x, y), f(y, y), f(x, y), g(x), g(y), g(x), g(y)]


@program("identity", refused="by its identity")
def looked_up_in_a_dict(compile):
    x, y = ones(2), ones(3)
    weights = {x: 5.0, y: 7.0}
    f = compile(lambda a: a * weights[a])
    return [f(x), f(y), f(y), f(x)]


@program("identity")
def written_and_captured(compile):
    x0 = ones(2)

    @compile
    def f(a):
        a.add_(1)
        return x0 * 2

    y = ones(5)
    return [f(y), f(x0), f(y), f(x0), x0, y]


@program("identity")
def one_list_two_names(compile):
    x, y = ones(2), ones(3)
    f = compile(lambda pair: pair[0] * 2 + pair[1])
    return [f([x, x]), f([x, y]), f([y, y]), f([y, x])]


@program("identity")
def result_is_the_argument(compile):
    x, y = ones(2), ones(3)
    f = compile(lambda a, flag: a if flag else a * 1)
    return [f(x, True) is x, f(y, True) is y, f(x, False) is x, f(y, True) is y]


@program("identity")
def result_is_captured(compile):
    box = types.SimpleNamespace(kept=ones(2))
    f = compile(lambda a: (a * 2, box.kept))
    results = [f(ones())[1] is box.kept, f(ones())[1] is box.kept]
    box.kept = ones(7)
    return results, f(ones())[1] is box.kept, f(ones())


@program("identity")
def one_parameter_in_two_layers(compile):
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)

    @compile
    def f(x):
        a.zero_grad()
        b.zero_grad()
        loss = b(a(x)).sum()
        loss.backward()
        return loss.detach()

    results = [f(ones()), f(ones())]
    b.weight = a.weight
    results += [f(ones()), f(ones())]
    return results, a.weight.grad, b.weight.grad, a.bias.grad


@program("identity")
def a_view_of_the_captured(compile):
    base = mt.zeros(4)
    view = base[1:3]
    f = compile(lambda x: view * x)
    results = [f(mt.ones(2)), f(mt.ones(2))]
    base.add_(3)
    return [*results, f(mt.ones(2)), f(mt.ones(2))]


# --- history --------------------------------------------------------------------------------------------------------


@program("history", refused="graph|before")
def backward_through_the_argument(compile):
    w = ones(2).requires_grad_()
    v = ones(3).requires_grad_()

    @compile
    def f(a):
        loss = (a * 2).sum()
        loss.backward()
        return loss.detach()

    return [f(w * 3), f(v * w), f(v * 5)], w.grad, v.grad


@program("history", refused="graph|before")
def gradient_of_a_captured_leaf(compile):
    w = ones(2).requires_grad_()
    f = compile(lambda a: mt.autograd.grad((a * 2).sum(), [w])[0])
    return [f(w * 3), f(w * w), f(w * 5)]


@program("history")
def graph_around(compile):
    w = ones(2).requires_grad_()
    f = compile(lambda a: (a * 2).tanh())
    results = []
    for power in (1, 2, 3):
        y = f(w**power).sum()
        y.backward()
        results.append(y.detach())
    return results, w.grad


@program("history")
def a_leaf_then_not(compile):
    w = ones(2).requires_grad_()

    @compile
    def f(a):
        return (a * a).sum()

    f(w).backward()
    f(w * 2).backward()
    f(w.detach())
    return w.grad


@program("history")
def gradients_of_the_argument(compile):
    f = compile(lambda a: mt.autograd.grad((a * a).sum(), [a])[0])
    return [f(ones(i).requires_grad_()) for i in range(4)]


# --- caught errors --------------------------------------------------------------------------------------------------


@program("caught")
def value_in_a_try(compile):
    @compile
    def f(x):
        try:
            n = float(x.sum())
        except Exception:
            n = 0.0
        return x * n

    return [f(ones()), f(ones(2)), f(ones(3))]


@program("caught", refused="number")
def truth_in_a_bare_except(compile):
    @compile
    def f(x):
        try:
            if x.sum() > 4:
                return x * 2
        except:  # noqa: E722
            return x * 3
        return x * 5

    return [f(ones()), f(ones(2)), f(ones(3))]


@program("caught")
def missing_key(compile):
    options = {}

    @compile
    def f(x):
        try:
            return x * options["scale"]
        except KeyError:
            return x

    results = [f(ones()), f(ones())]
    options["scale"] = 3.0
    results += [f(ones()), f(ones())]
    del options["scale"]
    return [*results, f(ones())]


@program("caught")
def missing_attribute(compile):
    box = types.SimpleNamespace()

    @compile
    def f(x):
        try:
            return x * box.scale
        except AttributeError:
            return x

    results = [f(ones()), f(ones())]
    box.scale = 3.0
    return [*results, f(ones()), f(ones())]


@program("caught")
def index_error(compile):
    scales = [2.0]

    @compile
    def f(x):
        try:
            return x * scales[1]
        except IndexError:
            return x * scales[0]

    results = [f(ones()), f(ones())]
    scales.append(5.0)
    return [*results, f(ones()), f(ones())]


@program("caught")
def raised_by_the_function(compile):
    box = types.SimpleNamespace(limit=3)

    @compile
    def f(x):
        try:
            if box.limit > 2:
                raise ValueError("too much")
            return x
        except ValueError as error:
            return x * len(str(error))

    results = [f(ones()), f(ones())]
    box.limit = 1
    return [*results, f(ones()), f(ones())]


@program("caught")
def shapes_that_do_not_fit(compile):
    weights = [ones(), mt.ones(4)]

    @compile
    def f(x, i):
        try:
            return x + weights[i]
        except RuntimeError:
            return x

    results = [f(ones(), 0), f(ones(), 1), f(ones(), 1), f(ones(), 0)]
    weights[1].data = np.full(ones().shape, 7, np.float32)
    return [*results, f(ones(), 1), f(ones(), 0), f(ones(), 1)]


@program("caught")
def finally_runs(compile):
    log = []

    @compile
    def f(x):
        try:
            return x * 2
        finally:
            log.append("done")

    return [f(ones()), f(ones()), f(ones())], log


@program("caught")
def suppressed(compile):
    import contextlib

    table = {}

    @compile
    def f(x):
        with contextlib.suppress(KeyError):
            return x * table["a"]
        return x

    results = [f(ones()), f(ones())]
    table["a"] = 4.0
    return [*results, f(ones()), f(ones())]


# --- absence, order, replacement --------------------------------------------------------------------------------------


@program("absence")
def default_of_getattr(compile):
    class Model(nn.Module):
        def forward(self, x):
            return x * getattr(self, "scale", 1.0)

    model = Model()
    f = compile(lambda x: model(x))
    results = [f(ones()), f(ones())]
    model.scale = 3.0
    results += [f(ones()), f(ones())]
    del model.scale
    return [*results, f(ones())]


@program("absence")
def hasattr_decides(compile):
    box = types.SimpleNamespace()
    f = compile(lambda x: x * 2 if hasattr(box, "flag") else x)
    results = [f(ones()), f(ones())]
    box.flag = None
    return [*results, f(ones()), f(ones())]


@program("absence")
def global_that_comes(compile):
    space = {}
    exec("def f(x):\n    return x * 2 if 'extra' in globals() else x\n", space)
    f = compile(space["f"])
    results = [f(ones()), f(ones())]
    space["extra"] = 1
    return [*results, f(ones()), f(ones())]


@program("absence")
def builtin_that_is_hidden(compile):
    space = {}
    exec("def f(x):\n    return x * len([1, 2])\n", space)
    f = compile(space["f"])
    results = [f(ones()), f(ones())]
    space["len"] = lambda things: 10
    return [*results, f(ones()), f(ones())]


@program("absence")
def default_of_a_dict(compile):
    options = collections.defaultdict(lambda: 2.0)
    f = compile(lambda x: x * options["a"])
    results = [f(ones()), f(ones()), f(ones())]
    options["a"] = 5.0
    return [*results, f(ones()), dict(options)]


@program("absence")
def get_with_a_default(compile):
    options = {}
    f = compile(lambda x: x * options.get("a", 2.0))
    results = [f(ones()), f(ones())]
    options["a"] = 5.0
    results += [f(ones())]
    options.clear()
    return [*results, f(ones())]


@program("absence")
def class_attribute_hidden_by_an_own_one(compile):
    class Thing:
        scale = 2.0

    thing = Thing()
    f = compile(lambda x: x * thing.scale)
    results = [f(ones()), f(ones())]
    thing.scale = 3.0
    results += [f(ones())]
    del thing.scale
    Thing.scale = 7.0
    return [*results, f(ones())]


@program("order")
def order_of_a_dict(compile):
    parts = {"double": 2.0, "more": 1.0}

    @compile
    def f(x):
        for name, value in parts.items():
            x = x * value if name == "double" else x + value
        return x

    results = [f(ones()), f(ones())]
    parts["double"] = parts.pop("double")
    return [*results, f(ones()), f(ones())]


@program("order")
def order_of_a_module_dict(compile):
    layers = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Tanh()})

    @compile
    def f(x):
        for layer in layers.values():
            x = layer(x)
        return x.detach()

    results = [f(ones()), f(ones())]
    first = layers.pop("a")
    layers["a"] = first
    return [*results, f(ones()), f(ones())]


@program("order")
def order_of_sequential(compile):
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    f = compile(lambda x: model(x).detach())
    results = [f(ones()), f(ones())]
    model[0], model[1] = model[1], model[0]
    return [*results, f(ones()), f(ones())]


@program("order")
def order_of_a_list(compile):
    functions = [mt.tanh, mt.exp]

    @compile
    def f(x):
        for each in functions:
            x = each(x)
        return x

    results = [f(ones()), f(ones())]
    functions.reverse()
    return [*results, f(ones()), f(ones())]


@program("order")
def order_of_keywords(compile):
    @compile
    def f(**options):
        return list(options), sum(options.values())

    return [f(a=ones(), b=ones(2)), f(b=ones(2), a=ones()), f(a=ones(), b=ones(2))]


@program("replacement")
def forward_of_an_instance(compile):
    model = nn.Linear(3, 3)
    f = compile(lambda x: model(x).detach())
    results = [f(ones()), f(ones())]
    model.forward = lambda x: x * 5
    results += [f(ones()), f(ones())]
    del model.forward
    return [*results, f(ones())]


@program("replacement")
def another_class(compile):
    class A:
        def scaled(self, x):
            return x * 2

    class B:
        def scaled(self, x):
            return x * 3

    thing = A()
    f = compile(lambda x: thing.scaled(x))
    results = [f(ones()), f(ones())]
    thing.__class__ = B
    return [*results, f(ones()), f(ones())]


@program("replacement")
def another_class_of_a_module(compile):
    class A(nn.Module):
        def forward(self, x):
            return x * 2

    class B(nn.Module):
        def forward(self, x):
            return x * 3

    model = A()
    f = compile(lambda x: model(x))
    results = [f(ones()), f(ones())]
    model.__class__ = B
    return [*results, f(ones()), f(ones())]


@program("replacement")
def patched_function_of_the_library(compile):
    f = compile(lambda x: F.relu(x - 1.5))
    results = [f(ones()), f(ones())]
    before = F.relu
    try:
        F.relu = lambda x: x * 7
        results += [f(ones()), f(ones())]
    finally:
        F.relu = before
    return [*results, f(ones())]


@program("replacement")
def patched_method_of_the_library(compile):
    model = nn.Linear(3, 3)
    f = compile(lambda x: model(x).detach())
    results = [f(ones()), f(ones())]
    before = nn.Linear.forward
    try:
        nn.Linear.forward = lambda self, x: x * 7
        results += [f(ones()), f(ones())]
    finally:
        nn.Linear.forward = before
    return [*results, f(ones())]


@program("replacement")
def patched_function_inside_a_layer(compile):
    model = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
    f = compile(lambda x: model(x).detach())
    results = [f(ones()), f(ones())]
    before = nn.ReLU.forward
    try:
        nn.ReLU.forward = lambda self, x: x * 7
        results += [f(ones()), f(ones())]
    finally:
        nn.ReLU.forward = before
    return [*results, f(ones())]


@program("replacement")
def method_of_a_class(compile):
    class Thing:
        def scaled(self, x):
            return x * 2

    thing = Thing()
    f = compile(lambda x: thing.scaled(x))
    results = [f(ones()), f(ones())]
    Thing.scaled = lambda self, x: x * 3
    results += [f(ones()), f(ones())]
    thing.scaled = lambda x: x * 4
    return [*results, f(ones())]


@program("replacement")
def special_method(compile):
    class Thing:
        def __call__(self, x):
            return x * 2

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return 10.0 * i

    thing = Thing()
    f = compile(lambda x: thing(x) * len(thing) + thing[2])
    results = [f(ones()), f(ones())]
    Thing.__len__ = lambda self: 5
    results += [f(ones())]
    Thing.__getitem__ = lambda self, i: 1.0
    results += [f(ones())]
    Thing.__call__ = lambda self, x: x
    return [*results, f(ones())]


@program("replacement")
def code_and_defaults(compile):
    def inner(x, a=2.0, *, b=3.0):
        return x * a + b

    f = compile(lambda x: inner(x))
    results = [f(ones()), f(ones())]
    inner.__defaults__ = (5.0,)
    results += [f(ones())]
    inner.__kwdefaults__["b"] = 7.0
    results += [f(ones())]
    inner.__code__ = (lambda x, a=0, *, b=0: x).__code__
    return [*results, f(ones())]


@program("replacement")
def base_method_by_super(compile):
    class A:
        def scaled(self, x):
            return x * 2

    class B(A):
        def scaled(self, x):
            return super().scaled(x) + 1

    thing = B()
    f = compile(lambda x: thing.scaled(x))
    results = [f(ones()), f(ones())]
    A.scaled = lambda self, x: x * 9
    return [*results, f(ones())]


@program("replacement")
def property_of_a_class(compile):
    class Thing:
        base = 2.0

        @property
        def scale(self):
            return self.base

    thing = Thing()
    f = compile(lambda x: x * thing.scale)
    results = [f(ones()), f(ones())]
    thing.base = 3.0
    results += [f(ones())]
    Thing.scale = property(lambda self: 10.0)
    return [*results, f(ones())]


# --- state elsewhere ------------------------------------------------------------------------------------------------


@program("state")
def attribute_of_a_function(compile):
    def scale():
        pass

    scale.value = 2.0
    f = compile(lambda x: x * scale.value)
    results = [f(ones()), f(ones())]
    scale.value = 3.0
    return [*results, f(ones()), f(ones())]


@program("state")
def attribute_of_a_parameter(compile):
    p = nn.Parameter(ones())
    p.scale = 2.0
    f = compile(lambda x: (x * p * p.scale).detach())
    results = [f(ones()), f(ones())]
    p.scale = 3.0
    return [*results, f(ones()), f(ones())]


class Numbers(list):
    factor = 2.0


class Table(dict):
    pass


class Pair(tuple):
    pass


@program("state")
def attribute_of_a_list(compile):
    numbers = Numbers([1.0, 2.0])
    f = compile(lambda x: x * numbers[0] * numbers.factor)
    results = [f(ones()), f(ones())]
    numbers.factor = 3.0
    results += [f(ones())]
    numbers[0] = 5.0
    return [*results, f(ones())]


@program("state")
def attribute_of_a_dict(compile):
    table = Table(a=2.0)
    table.factor = 2.0
    f = compile(lambda x: x * table["a"] * table.factor)
    results = [f(ones()), f(ones())]
    table.factor = 3.0
    return [*results, f(ones()), f(ones())]


@program("state")
def attribute_of_a_tuple(compile):
    pair = Pair((2.0, 3.0))
    pair.factor = 2.0
    f = compile(lambda x: x * pair[0] * pair.factor)
    results = [f(ones()), f(ones())]
    pair.factor = 3.0
    return [*results, f(ones()), f(ones())]


@program("state")
def slots_by_computed_name(compile):
    class Thing:
        __slots__ = ("one", "two")

    thing = Thing()
    thing.one, thing.two = 2.0, 3.0
    f = compile(lambda x: x * sum(getattr(thing, name) for name in ("one", "two")))
    results = [f(ones()), f(ones())]
    thing.two = 10.0
    return [*results, f(ones()), f(ones())]


@program("state")
def module_imported_inside(compile):
    import sys

    settings = types.ModuleType("settings_of_a_closed_world")
    settings.factor = 2.0
    sys.modules[settings.__name__] = settings
    try:

        @compile
        def f(x):
            import settings_of_a_closed_world

            return x * settings_of_a_closed_world.factor

        results = [f(ones()), f(ones())]
        settings.factor = 3.0
        results += [f(ones())]
        other = types.ModuleType(settings.__name__)
        other.factor = 10.0
        sys.modules[settings.__name__] = other
        results += [f(ones())]
    finally:
        del sys.modules[settings.__name__]
    return results


@program("state")
def name_imported_from_inside(compile):
    before = math.tau

    @compile
    def f(x):
        from math import tau

        return x * tau

    try:
        results = [f(ones()), f(ones())]
        math.tau = 2.0
        results += [f(ones())]
    finally:
        math.tau = before
    return results


@program("state")
def globals_by_name(compile):
    space = {"factor": 2.0}
    exec("def f(x):\n    return x * globals()['factor']\n", space)
    f = compile(space["f"])
    results = [f(ones()), f(ones())]
    space["factor"] = 3.0
    return [*results, f(ones()), f(ones())]


@program("state", refused="eval")
def evaluated(compile):
    space = {"factor": 2.0}
    exec("def f(x):\n    return x * eval('factor')\n", space)
    f = compile(space["f"])
    results = [f(ones()), f(ones())]
    space["factor"] = 3.0
    return [*results, f(ones()), f(ones())]


@program("state", refused="weak reference")
def weak_reference(compile):
    kept = [nn.Identity()]
    reference = weakref.ref(kept[0])
    f = compile(lambda x: x if reference() is None else x * 2)
    results = [f(ones()), f(ones())]
    kept.clear()
    return [*results, f(ones()), f(ones())]


@program("state")
def single_dispatch(compile):
    @functools.singledispatch
    def scaled(n, x):
        return x

    scaled.register(int, lambda n, x: x * n)
    f = compile(lambda x: scaled(2, x))
    results = [f(ones()), f(ones())]
    scaled.register(int, lambda n, x: x * n * 10)
    return [*results, f(ones()), f(ones())]


@program("state")
def mapping_proxy(compile):
    inside = {"factor": 2.0}
    shown = types.MappingProxyType(inside)
    f = compile(lambda x: x * shown["factor"])
    results = [f(ones()), f(ones())]
    inside["factor"] = 3.0
    return [*results, f(ones()), f(ones())]


@program("state")
def byte_array(compile):
    raw = bytearray([2, 3])
    f = compile(lambda x: x * raw[0] + sum(raw))
    results = [f(ones()), f(ones())]
    raw[1] = 9
    results += [f(ones())]
    raw[0] = 5
    return [*results, f(ones())]


FACTOR = contextvars.ContextVar("factor", default=2.0)


@program("state")
def context_variable(compile):
    f = compile(lambda x: x * FACTOR.get())
    results = [f(ones()), f(ones())]
    token = FACTOR.set(3.0)
    results += [f(ones()), f(ones())]
    FACTOR.reset(token)
    return [*results, f(ones())]


@program("state")
def environment(compile):
    f = compile(lambda x: x * float(os.environ.get("MINITORCH_TEST_FACTOR", "2")))
    results = [f(ones()), f(ones())]
    os.environ["MINITORCH_TEST_FACTOR"] = "3"
    try:
        results += [f(ones())]
    finally:
        del os.environ["MINITORCH_TEST_FACTOR"]
    return [*results, f(ones())]


@program("state")
def last_epoch_of_a_scheduler(compile):
    optimizer = optim.SGD([nn.Parameter(ones())], lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
    f = compile(lambda x: x * (scheduler.last_epoch + 1))
    results = [f(ones()), f(ones())]
    optimizer.step()
    scheduler.step()
    results += [f(ones())]
    optimizer.step()
    scheduler.step()
    return [*results, f(ones())]


@program("state")
def base_lrs_of_a_scheduler(compile):
    optimizer = optim.SGD([nn.Parameter(ones())], lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
    f = compile(lambda x: x * scheduler.base_lrs[0])
    results = [f(ones()), f(ones())]
    scheduler.base_lrs[0] = 0.5
    return [*results, f(ones()), f(ones())]


@program("state")
def base_lrs_read_by_the_step(compile):
    p = nn.Parameter(ones())
    optimizer = optim.SGD([p], lr=0.1)
    scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0 / (1 + epoch))

    @compile
    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()
        scheduler.step()

    for i in range(5):
        if i == 3:
            scheduler.base_lrs[0] = 1.0
        step(ones())
    return p, scheduler.last_epoch, optimizer.param_groups[0]["lr"]


@program("state")
def defaults_of_an_optimiser(compile):
    optimizer = optim.SGD([nn.Parameter(ones())], lr=0.1)
    f = compile(lambda x: x * optimizer.defaults["lr"])
    results = [f(ones()), f(ones())]
    optimizer.defaults["lr"] = 0.5
    return [*results, f(ones()), f(ones())]


@program("state")
def array_read_by_value(compile):
    table = np.arange(6.0)
    f = compile(lambda x: x * float(table[2]))
    results = [f(ones()), f(ones())]
    table[2] = 7.0
    return [*results, f(ones()), f(ones())]


@program("state")
def strided_array_read_by_value(compile):
    table = np.arange(12.0).reshape(3, 4)[:, ::2]
    f = compile(lambda x: x * float(table[1, 1]))
    results = [f(ones()), f(ones())]
    table[1, 1] = 7.0
    return [*results, f(ones()), f(ones())]


@program("state")
def structured_array(compile):
    table = np.zeros(2, [("a", "f4"), ("b", "f4")])
    f = compile(lambda x: x * float(table["a"][0]) + 1)
    results = [f(ones()), f(ones())]
    table["a"][0] = 3.0
    return [*results, f(ones()), f(ones())]


@program("state", refused="array of objects")
def array_of_objects(compile):
    table = np.array([2.0, None], dtype=object)
    f = compile(lambda x: x * table[0])
    results = [f(ones()), f(ones())]
    table[0] = 3.0
    return [*results, f(ones()), f(ones())]


@program("state", refused="too large")
def large_array(compile):
    table = np.zeros(3_000_000)
    f = compile(lambda x: x * (1 + float(table[7])))
    results = [f(ones()), f(ones())]
    table[7] = 3.0
    return [*results, f(ones()), f(ones())]


@program("state")
def shape_of_an_array(compile):
    table = np.zeros((2, 3), np.float32)
    f = compile(lambda x: x * table.shape[0] + table.strides[0])
    results = [f(ones()), f(ones())]
    table.shape = (3, 2)
    return [*results, f(ones()), f(ones())]


@program("state")
def dtype_of_an_array(compile):
    table = np.zeros(2, np.float32)
    f = compile(lambda x: x * table.dtype.itemsize)
    results = [f(ones()), f(ones())]
    table = np.zeros(2, np.float64)
    return [*results, f(ones()), f(ones())]


@program("state", refused="not contiguous")
def strides_of_an_argument(compile):
    f = compile(lambda x: x * x.stride()[0] + x.stride()[1])
    return [f(mt.ones(2, 3)), f(mt.ones(3, 2).T), f(mt.ones(2, 3)), f(mt.ones(3, 2).T)]


@program("state")
def shape_of_a_captured_tensor(compile):
    w = mt.zeros(2, 3)
    f = compile(lambda x: x * w.shape[0])
    results = [f(ones()), f(ones())]
    w.data = np.zeros((5, 3), np.float32)
    return [*results, f(ones()), f(ones())]


@program("state")
def dataclass_as_config(compile):
    @dataclasses.dataclass
    class Config:
        scale: float = 2.0
        layers: list = dataclasses.field(default_factory=lambda: [1.0, 2.0])

    config = Config()
    f = compile(lambda x: x * config.scale + sum(config.layers))
    results = [f(ones()), f(ones())]
    config.scale = 3.0
    results += [f(ones())]
    config.layers.append(5.0)
    return [*results, f(ones())]


class Mode(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


@program("state")
def enumeration(compile):
    box = types.SimpleNamespace(mode=Mode.DOUBLE)
    f = compile(lambda x: x * box.mode.value if box.mode is Mode.DOUBLE else x + box.mode.value)
    results = [f(ones()), f(ones())]
    box.mode = Mode.TRIPLE
    return [*results, f(ones()), f(ones())]


class Options(typing.NamedTuple):
    scale: float
    shift: float


@program("state")
def named_tuple_rebound(compile):
    box = [Options(2.0, 1.0)]
    f = compile(lambda x: x * box[0].scale + box[0].shift)
    results = [f(ones()), f(ones())]
    box[0] = box[0]._replace(shift=5.0)
    return [*results, f(ones()), f(ones())]


@program("state")
def closure_of_a_closure(compile):
    factor = 2.0

    def inner():
        return lambda x: x * factor

    f = compile(lambda x: inner()(x))
    results = [f(ones()), f(ones())]
    factor = 3.0
    return [*results, f(ones()), f(ones())]


@program("state")
def set_of_names(compile):
    names = {"a"}
    f = compile(lambda x: x * 2 if "b" in names else x)
    results = [f(ones()), f(ones())]
    names.add("c")
    results += [f(ones())]
    names.add("b")
    return [*results, f(ones())]


@program("state")
def cached_by_lru_cache(compile):
    box = [2.0]

    @functools.lru_cache
    def factor(n):
        return box[0] * n

    f = compile(lambda x: x * factor(2))
    results = [f(ones()), f(ones())]
    box[0] = 3.0
    results += [f(ones())]
    factor.cache_clear()
    return [*results, f(ones()), f(ones())]


@program("state")
def getattr_that_answers_everything(compile):
    class Anything:
        def __init__(self):
            object.__setattr__(self, "table", {"scale": 2.0})

        def __getattr__(self, name):
            return self.table.get(name, 1.0)

    thing = Anything()
    f = compile(lambda x: x * thing.scale + thing.other)
    results = [f(ones()), f(ones())]
    thing.table["other"] = 5.0
    return [*results, f(ones()), f(ones())]


@program("state")
def getattr_that_raises(compile):
    class Strict:
        scale = 2.0

        def __getattr__(self, name):
            raise RuntimeError(f"nothing called {name}")

    thing = Strict()
    f = compile(lambda x: x * thing.scale)
    results = [f(ones()), f(ones())]
    Strict.scale = 3.0
    return [*results, f(ones()), f(ones())]


@program("state")
def training_flag(compile):
    class Model(nn.Module):
        def forward(self, x):
            return x * 2 if self.training else x

    model = Model()
    f = compile(lambda x: model(x))
    results = [f(ones()), f(ones())]
    model.eval()
    results += [f(ones())]
    model.train()
    return [*results, f(ones())]


@program("state")
def frozen_parameter(compile):
    model = nn.Linear(3, 2)

    @compile
    def f(x):
        model.zero_grad()
        model(x).sum().backward()
        return [p.grad is None for p in model.parameters()]

    results = [f(ones()), f(ones())]
    model.weight.requires_grad_(False)
    return [*results, f(ones()), f(ones())], model.bias.grad


@program("state")
def gradient_that_was_not_there(compile):
    p = nn.Parameter(ones())
    f = compile(lambda x: x * 2 if p.grad is None else x * 3)
    results = [f(ones()), f(ones())]
    p.grad = np.ones(3, np.float32)
    results += [f(ones()), f(ones())]
    p.grad = None
    return [*results, f(ones())]


@program("state")
def hook_on_a_parameter(compile):
    p = nn.Parameter(ones())

    @compile
    def f(x):
        p.grad = None
        (p * x).sum().backward()

    f(ones())
    f(ones())
    handle = p.register_hook(lambda g: g * 10)
    f(ones())
    first = p.grad.copy()
    handle.remove()
    f(ones())
    return first, p.grad


# --- randomness -----------------------------------------------------------------------------------------------------


@program("randomness", refused="generator that it makes itself")
def generator_made_inside(compile):
    @compile
    def f(x):
        return x + mt.rand(3, generator=mt.Generator().manual_seed(3))

    return [f(ones()) for _ in range(4)], mt.rand(2)


@program("randomness")
def seeded_inside(compile):
    @compile
    def f(x):
        mt.manual_seed(5)
        return x + mt.rand(3)

    results = [f(ones()), mt.rand(1), f(ones()), mt.rand(1)]
    mt.manual_seed(9)
    return [*results, f(ones()), mt.rand(2)]


@program("randomness")
def own_generator_seeded_inside(compile):
    own = mt.Generator()

    @compile
    def f(x):
        own.manual_seed(5)
        return x + mt.rand(3, generator=own)

    results = [f(ones()), mt.rand(2, generator=own), f(ones()), mt.rand(2, generator=own)]
    return [*results, f(ones())]


@program("randomness", refused="random generator")
def state_put_back_inside(compile):
    @compile
    def f(x):
        with mt.random.fork_rng():
            y = mt.rand(3)
        return x + y + mt.rand(3)

    return [f(ones()) for _ in range(4)], mt.rand(2)


@program("randomness")
def numpys_generator_made_inside(compile):
    f = compile(lambda x: x * np.random.default_rng(3).normal())
    return [f(ones()) for _ in range(3)]


@program("randomness")
def pythons_generator_made_inside(compile):
    f = compile(lambda x: x * random.Random(3).random())
    return [f(ones()) for _ in range(3)]


@program("randomness", refused="random generator")
def numpy_seeded_inside(compile):
    @compile
    def f(x):
        np.random.seed(3)
        return x * np.random.rand()

    return [f(ones()) for _ in range(3)]


@program("randomness", refused="random generator")
def pythons_generator_captured(compile):
    own = random.Random(3)
    f = compile(lambda x: x * own.random() + own.gauss(0, 1))
    return [f(ones()) for _ in range(4)], own.random()


@program("randomness", refused="random generator")
def numpys_generator_captured(compile):
    own = np.random.default_rng(3)
    f = compile(lambda x: x * own.normal())
    return [f(ones()) for _ in range(4)], own.normal()


@program("randomness")
def another_generator(compile):
    box = types.SimpleNamespace(source=mt.Generator().manual_seed(1))
    f = compile(lambda x: x + mt.rand(3, generator=box.source))
    results = [f(ones()), f(ones())]
    box.source = mt.Generator().manual_seed(2)
    return [*results, f(ones()), f(ones())]


@program("randomness")
def dropout_rate_that_changes(compile):
    drop = nn.Dropout(0.5)
    f = compile(lambda x: drop(x))
    results = [f(ones()), f(ones())]
    drop.p = 0.1
    results += [f(ones()), f(ones())]
    drop.eval()
    return [*results, f(ones()), mt.rand(1)]


@program("randomness", refused="random generator")
def refused_after_a_draw(compile):
    own = mt.Generator().manual_seed(4)

    @compile
    def f(x):
        y = mt.rand(3) + mt.rand(3, generator=own)
        return x + y * random.Random.random(PYTHONS)

    results = [f(ones()) for _ in range(3)]
    return [len(results), mt.rand(2), mt.rand(2, generator=own)]


PYTHONS = random.Random(1)


# --- effects --------------------------------------------------------------------------------------------------------


@program("effects", refused="requires_grad")
def flag_set_on_an_argument(compile):
    @compile
    def f(x):
        x.requires_grad_()
        return (x * 2).sum()

    results = []
    for _ in range(3):
        x = ones()
        f(x).backward()
        results.append([x.requires_grad, x.grad])
    return results


@program("effects")
def learning_rate_set_inside(compile):
    p = nn.Parameter(ones())
    optimizer = optim.SGD([p], lr=1.0)

    @compile
    def step(x, lr):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    found = []
    for i in range(5):
        step(ones(), 0.5 / (i + 1))
        found.append(
            [optimizer.param_groups[0]["lr"], type(optimizer.param_groups[0]["lr"]) is float, p.tolist()]
        )
    return found


@program("effects")
def constant_rate_set_inside(compile):
    p = nn.Parameter(ones())
    optimizer = optim.SGD([p], lr=1.0)

    @compile
    def step(x):
        optimizer.param_groups[0]["lr"] = 0.25
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    step(ones())
    step(ones())
    optimizer.param_groups[0]["lr"] = 5.0
    step(ones())
    step(ones())
    return p, optimizer.param_groups[0]["lr"]


@program("effects")
def rate_kept_before_a_step(compile):
    p = nn.Parameter(ones())
    optimizer = optim.SGD([p], lr=1.0)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    @compile
    def step(x):
        rate = optimizer.param_groups[0]["lr"]
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()
        scheduler.step()
        return rate

    return [step(ones()) for _ in range(5)], p


class Trainer:
    """What trainers are like: a config, a model, callbacks, a log, counters on self."""

    def __init__(self, verbose=False):
        self.config = types.SimpleNamespace(clip=1.0, log_every=2, verbose=verbose)
        self.model = mlp()
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.01)
        self.callbacks = []
        self.log = []
        self.metrics = {}
        self.n = 0
        self.total = 0.0
        self.last = None

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = ((self.model(x) - y) ** 2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.n += 1
        self.last = loss.detach()
        self.log.append(loss.detach())
        self.metrics["loss"] = loss.detach()
        for callback in self.callbacks:
            callback(self, loss)
        if self.config.verbose:
            print("step", self.n, round(loss.item(), 3))
        return loss.detach()


def trained(compile, trainer, count=6):
    step = compile(trainer.step)
    results = [step(mt.randn(5, 3), mt.randn(5, 2)) for _ in range(count)]
    return results, trainer.n, trainer.last, trainer.log, trainer.metrics, parameters(trainer.model)


@program("effects")
def trainer(compile):
    return trained(compile, Trainer())


@program("effects")
def trainer_that_prints(compile):
    return trained(compile, Trainer(verbose=True))


@program("effects")
def trainer_with_callbacks(compile):
    trainer = Trainer()
    seen = []
    trainer.callbacks.append(lambda t, loss: seen.append(loss.detach()))
    results = trained(compile, trainer)
    trainer.callbacks.append(lambda t, loss: setattr(t, "extra", loss.detach() * 2))
    return results, trained(compile, trainer), seen, trainer.extra


@program("effects")
def trainer_that_sums_up(compile):
    class Summing(Trainer):
        def step(self, x, y):
            loss = super().step(x, y)
            self.total += loss.item()
            return loss

    trainer = Summing()
    return trained(compile, trainer), trainer.total


@program("effects")
def counters(compile):
    class Count:
        def __init__(self):
            self.n = 0
            self.x = 0.5

        def step(self, x):
            self.n += 1
            self.x *= 2
            return x * self.n, self.n, self.x

    one = Count()
    f = compile(one.step)
    results = [f(ones()) for _ in range(5)]
    one.n = 100
    return results, [f(ones()) for _ in range(3)], one.n, one.x


@program("effects")
def nonlocal_and_global_counters(compile):
    count = 0
    space = {"total": 0, "__name__": "a program"}
    exec("def g(x):\n    global total\n    total += 2\n    return x * total\n", space)

    @compile
    def f(x):
        nonlocal count
        count += 1
        return x * count

    g = compile(space["g"])
    results = [[f(ones()), g(ones())] for _ in range(5)]
    count = 50
    space["total"] = 100
    return results, f(ones()), g(ones()), count, space["total"]


@program("effects")
def appended_and_stored(compile):
    log, table = [], {}

    @compile
    def f(x):
        log.append((x * 2).sum().detach())
        table["last"] = x * 3
        table.setdefault("first", x * 5)
        return x

    results = [f(ones(i)) for i in range(5)]
    return results, log, table


@program("effects")
def a_list_that_is_replaced(compile):
    box = types.SimpleNamespace(log=[])

    @compile
    def f(x):
        box.log.append(x.sum())
        return x * 2

    f(ones())
    f(ones(2))
    first, box.log = box.log, []
    f(ones(3))
    f(ones(4))
    return first, box.log


@program("effects")
def a_window_of_losses(compile):
    recent = collections.deque(maxlen=3)

    @compile
    def f(x):
        recent.append(x.sum())
        return x * 2

    results = [f(ones(i)) for i in range(6)]
    return results, list(recent)


@program("effects")
def printing(compile):
    @compile
    def f(x, name):
        y = x.sum()
        print(name, y.item(), f"{y.item():.2f}", x.shape, sep=" | ")
        return y

    return [f(ones(i), "sum") for i in range(5)]


@program("effects")
def logging_at_each_call(compile):
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    logger = logging.Logger("a program")
    logger.addHandler(Handler())

    @compile
    def f(x):
        logger.info("sum %.2f", x.sum().item())
        return x * 2

    results = [f(ones(i)) for i in range(5)]
    return results, seen


@program("effects")
def number_that_leaves(compile):
    @compile
    def f(x):
        loss = (x * 2).sum()
        return loss.item(), float(loss), {"loss": loss.item()}

    return [f(ones(i)) for i in range(5)]


@program("effects")
def a_result_and_the_same_stored(compile):
    box = types.SimpleNamespace(last=None)

    @compile
    def f(x):
        box.last = x * 2
        return box.last

    return [[f(ones(i)) is box.last, box.last] for i in range(4)]


@program("effects")
def a_list_returned_and_stored(compile):
    box = types.SimpleNamespace(last=None)

    @compile
    def f(x):
        found = [x * 2]
        box.last = found
        return found

    return [[f(ones(i)) is box.last, box.last] for i in range(4)]


@program("effects")
def state_read_back(compile):
    class Ema:
        def __init__(self):
            self.value = None

        def step(self, x):
            self.value = x if self.value is None else self.value * 0.9 + x * 0.1
            return self.value

    ema = Ema()
    f = compile(ema.step)
    return [f(ones(i)) for i in range(6)], ema.value


@program("effects")
def buffer_of_a_module(compile):
    model = nn.BatchNorm1d(3)
    f = compile(lambda x: model(x).detach())
    results = [f(mt.randn(4, 3)) for _ in range(4)]
    return results, model.running_mean, model.running_var, model.num_batches_tracked


@program("effects")
def deleted_attribute(compile):
    box = types.SimpleNamespace(cache=1.0)

    @compile
    def f(x):
        if hasattr(box, "cache"):
            del box.cache
            return x * 2
        return x

    results = [f(ones()), f(ones()), f(ones())]
    box.cache = 2.0
    return [*results, f(ones()), f(ones()), hasattr(box, "cache")]


@program("effects")
def result_containers_are_new(compile):
    f = compile(lambda x: ([], {"a": 1}, [x * 2]))
    results = []
    for i in range(4):
        empty, table, full = f(ones(i))
        empty.append(i)
        table["b"] = i
        full.append(i)
        results.append([empty, table, full])
    return results


@program("effects", refused="changes a container among its arguments")
def argument_that_is_changed(compile):
    @compile
    def f(x, log):
        log.append(x.sum())
        return x * 2

    log = []
    return [f(ones(i), log) for i in range(4)], log


@program("effects")
def an_outside_dict_returned(compile):
    table = {"a": 1.0}

    @compile
    def f(x):
        table["loss"] = x.sum()
        return table

    results = []
    for i in range(4):
        found = f(ones(i))
        found["seen"] = i
        results.append([found is table, dict(table)])
    return results


@program("effects")
def an_outside_list_returned(compile):
    log = [1.0]
    f = compile(lambda x: (log, x * log[0]))
    results = []
    for i in range(4):
        found, y = f(ones(i))
        results.append([found is log, y])
    log[0] = 5.0
    return results, f(ones())


@program("effects")
def a_config_returned(compile):
    @dataclasses.dataclass
    class Config:
        scale: float = 2.0

    config = Config()
    f = compile(lambda x: (config, x * config.scale))
    results = [[f(ones())[0] is config, f(ones())[1]] for _ in range(3)]
    config.scale = 4.0
    return results, f(ones())[0] is config, f(ones())[1]
