"""Tests that are themselves tested: mistakes are injected on purpose, and the proof must notice each.

The four mistakes everyone makes once (a missing +=, a wrong order, a missing sum over broadcast axes,
a wrong axis in a reduction), and two wrong rules for every input of every op.
"""

import inspect
import textwrap

import numpy as np
import pytest

import minitorch
from minitorch.engine import backward, bfloat16, fast_rules
from minitorch.engine import complex as complex_numbers
from minitorch.ops import OPS, reductions
from minitorch.proof import certificate
from minitorch.proof.table import CASES


def noticed(cases):
    """Whether the certificate refuses at least one of the cases."""
    return any(not line.ok for case in cases for line in certificate.certify(trials=1, cases=[case]))


def mutate(monkeypatch, holder, name, old, new):
    """Replace one line of a function's source (of a module, or a method of Walk's), and the function by the result."""
    source = textwrap.dedent(inspect.getsource(getattr(holder, name)))
    assert source.count(old) == 1, f"{old!r} is not in {name} once: adapt this control"
    namespace = {}
    space = vars(fast_rules if holder is fast_rules else backward)
    exec(compile(source.replace(old, new), f"<mutated {name}>", "exec"), space, namespace)
    monkeypatch.setattr(holder, name, namespace[name])


def cases_of(*ops):
    return [case for case in CASES if case.op in ops]


def diamond_gradient():
    """d/dx of x·x + exp(x)·x, where x and y are used several times along paths of different length."""
    x = minitorch.tensor([0.5, -1.5], dtype=minitorch.float64, requires_grad=True)
    y = x.exp()
    (x * x + y * x + y.exp() * y).sum().backward()
    v, e = np.array([0.5, -1.5]), np.exp([0.5, -1.5])
    expected = 2 * v + e * v + e + (np.exp(e) * e + np.exp(e)) * e
    return np.allclose(x.grad, expected)


def test_the_unmutated_engine_passes_what_the_mutants_must_fail():
    assert diamond_gradient()
    assert not noticed(cases_of("add", "mul", "sum"))


@pytest.fixture(params=["plain", "short"])
def path(request, monkeypatch):
    """Where the walk's arithmetic stands: in backward.py, and once more on the short path; each is mutated."""
    if request.param == "short":
        for uncommon in (bfloat16, complex_numbers):  # with such numbers about it is not taken
            monkeypatch.setattr(uncommon, "met", [])
        return fast_rules
    monkeypatch.setattr(fast_rules, "pull_back", lambda *arguments: False)
    return backward.Walk


def test_missing_accumulation_is_caught(monkeypatch, path):
    otherwise = "" if path is fast_rules else " if added else contribution"
    mutate(
        monkeypatch,
        path,
        "pull_back",
        f"= added_up(pending[parent], contribution){otherwise}",
        "= contribution",
    )
    assert not diamond_gradient()


def test_wrong_order_is_caught(monkeypatch):
    mutate(monkeypatch, backward, "collect", "order.sort(key=_age)", "order.reverse()")
    assert not diamond_gradient()


def test_missing_unbroadcast_is_caught(monkeypatch, path):
    mutate(
        monkeypatch,
        path,
        "pull_back",
        "unbroadcast(contribution, like.shape)"
        if path is fast_rules
        else '_answer(op, "unbroadcast", unbroadcast, (contribution, like.shape), {})',
        "contribution",
    )
    if path is fast_rules:  # which grad() and the asserted contract do not take
        x = minitorch.ones(3, requires_grad=True)
        (x + minitorch.ones(4, 3)).sum().backward()
        assert x.grad.shape != (3,)
        return
    assert noticed(cases_of("add"))
    with minitorch.autograd.debug(), pytest.raises(AssertionError, match="gave a gradient of shape"):
        (minitorch.ones(3, requires_grad=True) + minitorch.ones(4, 3)).sum().backward()


def test_wrong_axis_in_a_reduction_is_caught(monkeypatch):
    # keepdims forgotten: the reduced axis comes back at the front, wherever it was.
    monkeypatch.setattr(
        reductions, "_restore", lambda g, shape, axis: g.reshape((1,) * (len(shape) - g.ndim) + g.shape)
    )
    assert noticed(cases_of("sum"))
    assert noticed(cases_of("mean"))


def scaled(rule):
    return lambda *args, **kwargs: 1.1 * rule(*args, **kwargs)


def shifted(rule):
    # Catches also the rules that give 0.
    return lambda *args, **kwargs: rule(*args, **kwargs) + 0.05


def mutants():
    for name, op in sorted(OPS.items()):
        for i, rule in enumerate(op.rules):
            if rule is not None:
                yield pytest.param(name, "rules", i, shifted, id=f"{name}-{i}-shifted")
                if name not in ALWAYS_ZERO:
                    yield pytest.param(name, "rules", i, scaled, id=f"{name}-{i}-scaled")
        if op.each is not None:
            yield pytest.param(name, "each", None, scaled, id=f"{name}-each-scaled")
            yield pytest.param(name, "each", None, shifted, id=f"{name}-each-shifted")
        if op.joint is not None:
            for i in range(2):
                yield pytest.param(name, "joint", i, scaled, id=f"{name}-joint-{i}-scaled")


ALWAYS_ZERO = ("sign", "floor", "ceil", "trunc", "round", "det_sign", "copysign", "nextafter")


@pytest.mark.parametrize(("name", "kind", "position", "mutation"), list(mutants()))
def test_a_wrong_rule_is_caught(monkeypatch, name, kind, position, mutation):
    op = OPS[name]
    if kind == "rules":
        wrong = list(op.rules)
        wrong[position] = mutation(wrong[position])
        monkeypatch.setattr(op, "rules", tuple(wrong))
    elif kind == "each":
        monkeypatch.setattr(op, "each", mutation(op.each))
    else:
        right = op.joint

        def joint(*args, **kwargs):
            answers = list(right(*args, **kwargs))
            answers[position] = 1.1 * answers[position]
            return answers

        monkeypatch.setattr(op, "joint", joint)
    assert noticed(cases_of(name)), f"nobody noticed a wrong rule of {name}"
