"""What cannot be compiled is refused with line and remedy: decisions on values, generators; and wrong programs."""

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from minitorch.compiler.backends.numpy import interpreter
from minitorch.compiler.call.compiled import CompileError, CompileWarning, Disagreement
from scenarios import arrays, assert_same


def _while(x):
    while x.sum() > 0:
        x = x - 1
    return x


DECISIONS = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "while": _while,
    "int": lambda x: x * int(x.sum()),
    "float": lambda x: x if float(x[0]) > 0 else -x,
    "item": lambda x: x if x[0].item() > 0 else -x,
    "tolist": lambda x: sorted(x.tolist()),
    "hash": lambda x: {x[0].item(): 1},
    "index": lambda x: x[x.long()[0].item() + 0],
    "mask": lambda x: x[x > 0],
    "bool": lambda x: bool(x[0]),
    "and": lambda x: x[0] and x[1],
    "range": lambda x: list(range(x.long()[0])),
    "numpy": lambda x: np.linalg.norm(x.numpy()) if False else np.asarray(x.numpy()).tolist(),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_on_values_are_refused(compile, name):
    f = compile(DECISIONS[name], fullgraph=True)
    x = mt.tensor([1.0, -2.0, 3.0])
    with pytest.raises(CompileError) as error:
        f(x)
    text = str(error.value)
    assert "test_compile_refusals.py:" in text
    assert "compile:" in text
    assert any(word in text for word in ("where", "move this line", "masked_fill", "outside", "write")), text
    assert x.tolist() == [1, -2, 3]


@pytest.mark.parametrize("name", DECISIONS)
def test_or_run_as_they_are_with_one_warning(compile, name):
    f = compile(DECISIONS[name])
    x = mt.tensor([1.0, -2.0, 3.0])
    with pytest.warns(CompileWarning, match=r"runs as it is[^$]*test_compile_refusals.py:\d+: ") as told:
        found = f(x)
    assert len(told) == 1
    assert_same(arrays(found), arrays(DECISIONS[name](x)))
    assert_same(arrays(f(x + 1)), arrays(DECISIONS[name](x + 1)))
    assert f.compilations == 0


def test_generators_and_coroutines(compile):
    def generator(x):
        yield x

    async def coroutine(x):
        return x

    async def asynchronous(x):
        yield x

    for function in (generator, coroutine, asynchronous):
        with pytest.raises(TypeError, match=function.__name__):
            compile(function)
    with pytest.raises(TypeError, match="class"):
        compile(nn.Linear)
    with pytest.raises(TypeError, match="int"):
        compile(3)
    with pytest.raises(ValueError, match="backend"):
        mt.compile(lambda x: x, backend="nonsense")


def test_a_wrong_program_is_not_used(monkeypatch):
    f = mt.compile(lambda x: x * 2, backend="numpy")

    class Wrong(interpreter.Interpreter):
        def __call__(self, inputs):
            return [o + 1 for o in super().__call__(inputs)]

    monkeypatch.setattr(interpreter, "Interpreter", Wrong)
    with pytest.warns(Disagreement, match="differs"):
        f(mt.ones(2))
    monkeypatch.undo()
    assert f(mt.ones(2)).tolist() == [2, 2]
    assert "differs" in str(f.explain())
