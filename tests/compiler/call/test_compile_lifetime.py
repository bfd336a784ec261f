"""Threads, copying, pickling and freeing of compiled functions."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import minitorch as mt
from minitorch import optim
from scenarios import batches, mlp, trainer


@pytest.mark.parametrize("same_shape", [True, False])
def test_threads(compile, same_shape):
    weight = mt.randn(7)
    f = compile(lambda x: (x * weight).exp().sum(0) + 1)
    failures = []

    def work(number):
        rows = 3 if same_shape else 2 + number
        for i in range(12):
            x = mt.full((rows, 7), number + i / 10)
            expected = np.exp(x.data * weight.data).sum(0) + 1
            if not np.allclose(f(x).data, expected, rtol=1e-4):
                failures.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    if same_shape:
        assert f.compilations == 1


@mt.compile(backend="numpy")
def at_module_level(x):
    return x * 2


class Pickled:
    def __init__(self):
        self.factor = 3.0

    @mt.compile(backend="numpy")
    def scale(self, x):
        return x * self.factor


def test_pickling():
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level
    assert copy.deepcopy(at_module_level) is at_module_level
    assert copy.copy(at_module_level) is at_module_level
    thing = Pickled()
    thing.scale(mt.ones(2))
    for other in (pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing), copy.copy(thing)):
        other.factor = 5.0
        assert other.scale(mt.ones(2)).tolist() == [5, 5]
        assert thing.scale(mt.ones(2)).tolist() == [3, 3]
    bound = pickle.loads(pickle.dumps(thing.scale))
    assert bound(mt.ones(2)).tolist() == [3, 3]


@pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_copies_of_a_compiled_module(compile, how):
    model = compile(mlp())
    x = mt.ones(2, 3)
    expected = model(x).tolist()
    other = how(model)
    with mt.no_grad():
        other[0].weight.mul_(0) if hasattr(type(other), "__getitem__") else other._orig_mod[0].weight.mul_(0)
    assert model(x).tolist() == [pytest.approx(row, rel=1e-4) for row in expected]
    assert not np.allclose(other(x).data, expected)
    assert list(other.state_dict()) == list(model.state_dict())


def test_dropping_a_compiled_function_frees_everything(compile):
    step, model, optimizer = trainer(compile, optimizer=lambda m: optim.RAdam(m.parameters(), lr=0.1))
    x, y = batches(1)[0]
    for _ in range(3):
        step(x, y)
    watched = [weakref.ref(t) for t in (step, model, optimizer, x, model[0].weight, *step.cache.all())]
    assert len(watched) > 5
    del step, model, optimizer, x, y
    gc.collect()
    assert [w() for w in watched] == [None] * len(watched)


def test_dropping_an_instance_frees_its_programs(compile):
    class Thing:
        def __init__(self):
            self.weight = mt.ones(2)

        @compile
        def scale(self, x):
            return x * self.weight

    thing = Thing()
    thing.scale(mt.ones(2))
    program = weakref.ref(thing.scale.cache.all()[0])
    watched = weakref.ref(thing)
    del thing
    gc.collect()
    assert watched() is None
    assert program() is None


def test_arguments_are_not_kept(compile):
    f = compile(lambda x: x * 2)
    x = mt.ones(3)
    f(x)
    f(x)
    watched = weakref.ref(x)
    del x
    gc.collect()
    assert watched() is None
