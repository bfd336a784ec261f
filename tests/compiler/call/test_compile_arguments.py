"""Arguments and results of every sort: containers, overlapping memory, layouts, scalars, empty arrays."""

import dataclasses
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.call.compiled import CompileError, CompileWarning
from scenarios import Holder, both, parameters, plain

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Batch:
    x: mt.Tensor
    y: mt.Tensor
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Output:
    loss: mt.Tensor
    parts: dict


def test_nested_containers(compile):
    def scenario(compile):
        @compile
        def f(batch, pair, things, *rest, **options):
            total = batch.x * batch.weight + batch.y + pair.first + things["a"][0] + rest[0] + options["z"]
            return Output(
                total, {"pair": Pair(pair.second, total), "ordered": OrderedDict(a=[total * 2], b=None)}
            )

        results = []
        for i in range(4):
            x = mt.ones(2) * i
            out = f(Batch(x, x), Pair(x, x), {"a": (x, [x])}, x, z=x + 1)
            assert type(out) is Output
            assert type(out.parts["pair"]) is Pair
            assert type(out.parts["ordered"]) is OrderedDict
            results.append([out.loss, out.parts["pair"], out.parts["ordered"]["a"]])
        if compile is not plain:
            assert f.compilations == 1
        return results

    both(scenario, compile)


def test_a_container_returned_is_the_users_own(compile):
    f = compile(lambda x: [x, {"a": 1}])
    for _ in range(3):
        out = f(mt.ones(2))
        out.append(3)
        out[1]["b"] = 2
        assert len(f(mt.ones(2))) == 2
        assert f(mt.ones(2))[1] == {"a": 1}


def test_an_unknown_object_returned_stays_eager(compile):
    class Box:
        def __init__(self, content):
            self.content = content

    f = compile(lambda x: Box(x * 2))
    with pytest.warns(CompileWarning, match="a Box, which cannot be made anew at each call"):
        f(mt.ones(2))
    for i in range(4):
        assert f(mt.ones(2) * i).content.tolist() == [2.0 * i] * 2
    assert "Box" in str(f.explain())
    assert f.compilations == 0


def test_objects_as_arguments_are_looked_into(compile):
    def scenario(compile):
        @compile
        def step(model, optimizer, config, x):
            optimizer.zero_grad()
            loss = (model(x) * config.number).sum()
            loss.backward()
            optimizer.step()
            return loss

        results = []
        config = Holder()
        one, two = (
            nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)),
            nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)),
        )
        for model in (one, two, one):
            optimizer = optim.SGD(model.parameters(), lr=0.1)
            results += [step(model, optimizer, config, mt.ones(2, 3)).detach() for _ in range(2)]
            config.number = config.number + 1
            results += [step(model, optimizer, config, mt.ones(2, 3)).detach() for _ in range(2)]
            model.eval()
            results += [step(model, optimizer, config, mt.ones(2, 3)).detach() for _ in range(2)]
            model.train()
        return results, parameters(one), parameters(two)

    both(scenario, compile)


def test_the_same_tensor_twice(compile):
    def scenario(compile):
        @compile
        def f(a, b):
            a.add_(1)
            return a + b

        x, y = mt.ones(2), mt.ones(2)
        return [f(x, y), f(x, x), f(y, y), f(x, y)], x, y

    both(scenario, compile)


def test_overlapping_arguments_of_which_one_is_written(compile):
    @compile
    def f(a, b):
        a.add_(1)
        return a + b

    x, y = mt.zeros(4), mt.zeros(4)
    for _ in range(2):
        f(x, y)
    z = mt.zeros(4)
    assert f(z, z[:]).tolist() == [2, 2, 2, 2]  # it was compiled for others: this one runs as it is
    whole = np.zeros(6, np.float32)
    a, b = mt.from_numpy(whole[:4]), mt.from_numpy(whole[2:])
    assert f(a, b).tolist() == [2, 2, 1, 1]


def test_overlapping_arguments_at_the_first_call_are_refused(compile):
    def f(a, b):
        a.add_(1)
        return a + b

    z = mt.zeros(4)
    with pytest.raises(CompileError, match="clone"):
        compile(f, fullgraph=True)(z, z[:])
    assert z.tolist() == [0, 0, 0, 0]
    compiled = compile(f)
    with pytest.warns(CompileWarning, match="share memory"):
        assert compiled(z, z[:]).tolist() == [2, 2, 2, 2]
    assert compiled(z, z[:]).tolist() == [4, 4, 4, 4]
    assert compiled.compilations == 0
    assert compiled(z, mt.zeros(4)).tolist() == [3, 3, 3, 3]
    assert compiled.compilations == 1


def test_an_argument_that_overlaps_a_parameter(compile):
    weight = mt.ones(4)

    @compile
    def f(x):
        weight.add_(1)
        return weight + x

    f(mt.zeros(4))
    f(mt.zeros(4))
    assert f(weight[:]).tolist() == [8, 8, 8, 8]
    assert f(weight).tolist() == [10, 10, 10, 10]


def test_parameters_that_come_to_overlap(compile):
    a, b = mt.ones(4), mt.ones(4)

    @compile
    def f(x):
        a.add_(x)
        return a + b

    f(mt.ones(4))
    f(mt.ones(4))
    b.data = a.data
    with pytest.warns(CompileWarning, match="clone"):
        assert f(mt.ones(4)).tolist() == [8, 8, 8, 8]
    assert f(mt.ones(4)).tolist() == [10, 10, 10, 10]
    b.data = np.zeros(4, np.float32)
    assert f(mt.ones(4)).tolist() == [6, 6, 6, 6]
    assert f.compilations == 1
    locked = np.zeros(4, np.float32)
    locked.setflags(write=False)
    a.data = locked
    with pytest.raises(Exception, match="read-only|may not write"):
        f(mt.ones(4))
    assert locked.tolist() == [0, 0, 0, 0]


def test_layouts(compile):
    def scenario(compile):
        f = compile(lambda x: (x * 2 + 1).sum(0))
        base = np.arange(24, dtype=np.float32).reshape(4, 6)
        locked = base.copy()
        locked.setflags(write=False)
        given = [
            base,
            np.asfortranarray(base),
            base[::2],
            base[:, ::-1],
            base.T,
            locked,
            np.broadcast_to(base[0], (4, 6)),
        ]
        return [f(mt.from_numpy(a)) for _ in range(2) for a in given]

    both(scenario, compile)


def test_writing_into_layouts(compile):
    def scenario(compile):
        f = compile(lambda x: x.mul_(2))
        base = np.arange(24, dtype=np.float32).reshape(4, 6)
        for view in (base, np.asfortranarray(base), base[::2], base[:, ::-1], base.T):
            f(mt.from_numpy(view))
        return base

    both(scenario, compile)


def test_writing_into_what_is_read_only(compile):
    f = compile(lambda x: x.mul_(2))
    x = mt.ones(3)
    f(x)
    locked = np.ones(3, np.float32)
    locked.setflags(write=False)
    with pytest.raises(Exception, match="read-only|may not write"):
        f(mt.from_numpy(locked))
    f(x)
    assert x.tolist() == [4, 4, 4]
    assert locked.tolist() == [1, 1, 1]


def test_numpy_arrays_as_arguments(compile):
    def scenario(compile):
        f = compile(lambda x, y: mt.tensor(x) * 2 + y)
        results = [f(np.full(3, float(i), np.float32), mt.ones(3)) for i in range(3)]
        if compile is not plain:
            assert f.compilations == 1
        return results

    both(scenario, compile)


def test_numpy_arrays_as_results(compile):
    f = compile(lambda x: (x * 2).numpy())
    kept = [f(mt.ones(3) * i) for i in range(3)]
    assert [k.tolist() for k in kept] == [[0] * 3, [2] * 3, [4] * 3]
    assert all(type(k) is np.ndarray for k in kept)


def test_python_scalars(compile):
    def scenario(compile):
        f = compile(lambda x, n: x * n)
        return [f(mt.ones(2, dtype=mt.int64), n) for n in (2, 2.0, True, 3, np.float64(2.0), np.int32(2))]

    both(scenario, compile)


def test_a_float_that_keeps_changing_is_compiled_twice_at_most(compile):
    def scenario(compile):
        f = compile(lambda x, scale, power, half=0.5: (x * scale) ** power + half)
        results = [f(mt.ones(2) * 2, 0.1 * i, 2.0) for i in range(10)]
        if compile is not plain:
            assert f.compilations == 2
        results += [f(mt.ones(2) * 2, 0.1 * i, 2.0, half=i / 2) for i in range(10)]
        if compile is not plain:
            assert f.compilations == 4  # another way to call it
        return results

    both(scenario, compile)


def test_a_float_that_decides(compile):
    def scenario(compile):
        @compile
        def f(x, t):
            if t > 5:
                return x * t
            return x - t

        return [f(mt.ones(2), float(t)) for t in (1, 2, 3, 6, 7, 1, 9, 4)]

    both(scenario, compile)


def test_a_float_used_as_a_python_number(compile):
    import math

    def scenario(compile):
        f = compile(lambda x, t: x * math.exp(t) + mt.full((2,), t) + mt.tensor([t, 2 * t]) + round(t))
        return [f(mt.ones(2), t / 4) for t in range(12)]

    both(scenario, compile)


def test_zero_size_arguments(compile):
    def scenario(compile):
        f = compile(lambda x: (x * 2, x.sum(), x.reshape(-1)))
        return [f(mt.zeros(*shape)) for shape in ((0,), (0, 3), (3, 0), (0,))]

    both(scenario, compile)


def test_no_tensor_at_all(compile):
    def scenario(compile):
        f = compile(lambda n=3: [n + 1, "text", None])
        g = compile(lambda: None)
        h = compile(lambda: mt.arange(3) * 2)
        return [f(), f(4), f(), g(), g(), h(), h()]

    both(scenario, compile)


def test_results_of_every_type(compile):
    def scenario(compile):
        weight = nn.Parameter(mt.ones(3))

        def f(x):
            return (
                x,
                weight,
                weight.detach(),
                x.sum().detach(),
                3,
                2.5,
                "s",
                None,
                x.argmax(),
                weight * x,
                x.shape,
            )

        g = compile(f)
        results = []
        for i in range(3):
            x = mt.randn(3) + i
            out = g(x)
            assert out[0] is x
            assert out[1] is weight
            assert [t.requires_grad for t in out if isinstance(t, mt.Tensor)] == [0, 1, 0, 0, 0, 1]
            results.append(out)
        return results

    both(scenario, compile)


def test_a_new_leaf_as_result(compile):
    f = compile(lambda x: mt.zeros(3, requires_grad=True))
    with pytest.warns(CompileWarning, match="new leaf that requires grad"):
        f(mt.ones(1))
    for _ in range(3):
        leaf = f(mt.ones(1))
        assert leaf.requires_grad
        assert leaf.is_leaf
        leaf.sum().backward()
