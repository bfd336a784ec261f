"""Audits: a guard that is missing is found out, whatever its kind; what is right passes, and costs little."""

import abc
import functools
import types
from collections import deque

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.call import audit, guards
from minitorch.compiler.call.compiled import Disagreement


class Thing:
    pass


class Slotted:
    __slots__ = ("scale",)


def _dict(scale):
    d = {"a": scale}
    return (lambda x: x * d["a"]), lambda: d.update(a=5.0)


def _absent(scale):
    thing = Thing()
    return (lambda x: x * getattr(thing, "scale", scale)), lambda: setattr(thing, "scale", 5.0)


def _list(scale):
    values = [scale, "x"]
    return (lambda x: x * values[0]), lambda: values.__setitem__(0, 5.0)


def _length(scale):
    values = [None]
    return (lambda x: x * scale * len(values)), lambda: values.append(None)


def _order(scale):
    d = {"a": scale, "b": 3.0}

    def f(x):
        for value in d.values():
            x = x * value + 1
        return x

    return f, lambda: d.update(a=d.pop("a"))


def _plain_list(scale):
    values = [scale, 3.0]
    return (lambda x: sum(values) * x), lambda: values.append(1.0)


def _members(scale):
    values = {scale}
    return (lambda x: x * sum(values)), lambda: values.add(5.0)


def _cell(scale):
    def change():
        nonlocal scale
        scale = 5.0

    return (lambda x: x * scale), change


def _slot(scale):
    thing = Slotted()
    thing.scale = scale
    return (lambda x: x * thing.scale), lambda: setattr(thing, "scale", 5.0)


def _type(scale):
    class Kind:
        def scale(self):
            return scale

    thing = Kind()
    return (lambda x: x * thing.scale()), lambda: setattr(Kind, "scale", lambda self: 5.0)


def _class(scale):
    class A:
        factor = scale

    class B(A):
        factor = 5.0

    thing = A()
    return (lambda x: x * thing.factor), lambda: setattr(thing, "__class__", B)


def _super(scale):
    class A:
        def scale(self):
            return scale

    class B(A):
        def scale(self):
            return super().scale() * 1

    thing = B()
    return (lambda x: x * thing.scale()), lambda: setattr(A, "scale", lambda self: 5.0)


def _code(scale):
    def factor():
        return 2.0

    def other():
        return 5.0

    return (lambda x: x * factor()), lambda: setattr(factor, "__code__", other.__code__)


def _contains(scale):
    known = {"a"}
    return (lambda x: x * (scale if "a" in known else 5.0)), known.clear


def _content(scale):
    array = np.full(3, scale)
    return (lambda x: x * float(array.sum())), lambda: array.__setitem__(0, 5.0)


def _layout(scale):
    array = np.ones(6)
    return (lambda x: x * array.shape[0]), lambda: setattr(array, "shape", (2, 3))


def _bytes(scale):
    array = bytearray([2, 3])
    return (lambda x: x * sum(array)), lambda: array.__setitem__(0, 5)


def _remembered(scale):
    box = [scale]

    @functools.lru_cache
    def factor():
        return box[0]

    factor()

    def change():
        box[0] = 5.0
        factor.cache_clear()

    return (lambda x: x * factor()), change


def _proxy(scale):
    d = {"a": scale}
    view = types.MappingProxyType(d)
    return (lambda x: x * view["a"]), lambda: d.update(a=5.0)


def _deque(scale):
    values = deque([scale, None])
    return (lambda x: x * values[0]), lambda: values.__setitem__(0, 5.0)


def _registered(scale):
    class Kind(metaclass=abc.ABCMeta):  # noqa: B024
        pass

    class Other:
        pass

    other = Other()
    return (lambda x: x * (5.0 if isinstance(other, Kind) else scale)), lambda: Kind.register(Other)


# How facts of a kind are lost, and a program that then lies.
KINDS = {
    "item": [_dict, _absent, _proxy],
    "index": [_list, _deque],
    "length": [_length],
    "keys": [_order],
    "alike": [_plain_list],
    "members": [_members],
    "cell": [_cell],
    "slot": [_slot],
    "type": [_type],
    "class": [_class],
    "member": [_super],
    "attribute": [_code],
    "contains": [_contains],
    "content": [_content],
    "layout": [_layout],
    "bytes": [_bytes],
    "remembered": [_remembered],
    "subclass": [_registered],
}


@pytest.fixture
def always(monkeypatch):
    """Audit as many calls as there are."""
    monkeypatch.setattr(audit, "SHARE", float("inf"))


@pytest.mark.parametrize(
    ("kind", "make"),
    [(k, m) for k, makes in KINDS.items() for m in makes],
    ids=lambda p: getattr(p, "__name__", p),
)
def test_a_missing_guard_is_told(kind, make, always, monkeypatch):
    add = guards.Environment.add
    monkeypatch.setattr(
        guards.Environment, "add", lambda self, facts: add(self, [f for f in facts if f.kind != kind])
    )
    function, change = make(2.0)
    f = mt.compile(function, backend="numpy")
    x = mt.tensor([1.0, 2.0])
    for _ in range(4):
        assert f(x).tolist() == function(x).tolist()
    assert f.compilations == 1
    before = function(x).tolist()
    change()
    assert function(x).tolist() != before, "the change must matter"
    with pytest.warns(Disagreement, match="as an audit found") as told:
        results = [f(x).tolist() for _ in range(4)]
    assert len(told) == 1
    assert results[-2:] == [function(x).tolist()] * 2


def test_every_kind_of_fact_has_a_program():
    kinds = {"item", "type", "attribute", *guards._LOOKS} - {"context"}
    assert kinds <= set(KINDS)


def test_a_context_variable_that_is_not_guarded_is_told(always, monkeypatch):
    import contextvars

    variable = contextvars.ContextVar("scale", default=2.0)
    add = guards.Environment.add
    monkeypatch.setattr(
        guards.Environment, "add", lambda self, facts: add(self, [f for f in facts if f.kind != "context"])
    )
    f = mt.compile(lambda x: x * variable.get(), backend="numpy")
    for _ in range(4):
        assert f(mt.ones(1)).item() == 2
    variable.set(5.0)
    with pytest.warns(Disagreement, match="as an audit found"):
        assert [f(mt.ones(1)).item() for _ in range(4)][-1] == 5


def test_what_is_right_passes_and_counts_once(compile, always):
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    log = []

    class Trainer:
        steps = 0

    trainer = Trainer()

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        trainer.steps += 1
        log.append(loss.item())
        return loss

    f = compile(step)
    for _ in range(9):
        f(mt.randn(5, 3))
    assert f.compilations == 1
    assert f.cache.audits >= 2
    assert trainer.steps == len(log) == 9


def test_a_number_seen_to_change_elsewhere_is_no_mistake(compile, always):
    """Both programs took `factors[0]` for a constant; then the first one's call learnt that it changes."""
    factors = [0.5, 1.5]

    @compile
    def f(x, other):
        return x * factors[0] + factors[1]

    tensor, array = mt.zeros(2), np.zeros(2, np.float32)
    assert f(mt.ones(2), tensor).tolist() == [2.0, 2.0]
    factors[0] = 3.5
    assert f(mt.ones(2), array).tolist() == [5.0, 5.0]  # another kind of argument: a program of its own
    assert f(mt.ones(2), tensor).tolist() == [5.0, 5.0]  # which makes the number an input
    assert f(mt.ones(2), array).tolist() == [5.0, 5.0]  # the audit of the second
    assert f.cache.audits == 1
    factors[0] = 4.5
    assert f(mt.ones(2), array).tolist() == f(mt.ones(2), tensor).tolist() == [6.0, 6.0]


def test_the_second_call_is_audited_and_then_few(compile, monkeypatch):
    monkeypatch.setattr(audit, "SHARE", 1e-9)
    f = compile(lambda x: x * 2)
    for _ in range(50):
        f(mt.ones(3))
    assert f.cache.audits == 1
    assert sum(program.calls for program in f.cache.all()) == 49


def test_without_verifying_there_are_none(compile):
    f = compile(lambda x: x * 2, verify=False)
    for _ in range(5):
        f(mt.ones(3))
    assert f.cache.audits == 0


def test_a_call_that_raises_is_no_disagreement(compile):
    table = mt.arange(5.0)

    def pick(index):
        with mt.no_grad():  # which sees the error pass
            return table[index] * 2

    run = compile(pick)
    run(mt.tensor([0, 1]))
    with pytest.raises(IndexError, match="out of bounds"):  # in the call that is audited
        run(mt.tensor([0, 5]))
    assert run(mt.tensor([4, 1])).tolist() == [8.0, 2.0]
    assert run.compilations == 1
