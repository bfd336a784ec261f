"""Recurrences on a device: a stretch of steps is one program, and has the host's numbers."""

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS
from device_eager import there
from minitorch.compiler.call import eager_backend
from minitorch.nn import functional as F
from minitorch.ops import recurrent
from standin import DeviceArray

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("length", [1, 3, 4])
def test_outputs_of_a_recurrence_may_be_written_into_at_any_call(launcher, kind, length, monkeypatch):
    monkeypatch.setattr(eager_backend, "CALLS", 3)
    minitorch.manual_seed(0)
    here = getattr(minitorch.nn, kind)(3, 4)
    layer = getattr(minitorch.nn, kind)(3, 4)
    layer.load_state_dict(here.state_dict())
    for p in layer.parameters():
        p.data = there(p.data)._data
    inputs = np.ones((length, 2, 3), np.float32)
    for _ in range(5):
        found = []
        for module, x in ((here, minitorch.tensor(inputs)), (layer, there(inputs))):
            module.zero_grad()
            output, _ = module(x)
            output.mul_(2.0)
            output.sum().backward()
            found.append([np.asarray(getattr(p.grad, "host", p.grad)) for p in module.parameters()])
        for expected, mine in zip(*found, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_step_of_a_recurrence_is_left_to_kernels(launcher, name, monkeypatch):
    """The library is asked for nothing at each of its steps, forward and backward, and the numbers are the host's."""
    minitorch.manual_seed(0)
    layer = getattr(minitorch.nn, name)(4, 8)
    asked = []
    for operator in ("__matmul__", "__add__", "__mul__"):
        of_library = getattr(DeviceArray, operator)
        noted = lambda a, b, of=of_library: asked.append(of) or of(a, b)
        monkeypatch.setattr(DeviceArray, operator, noted)

    def run(length, make):
        x = make(np.random.default_rng(1).normal(size=(length, 4, 4)).astype(np.float32))
        parameters = {name: make(p.data, True) for name, p in layer.named_parameters()}
        output, _ = minitorch.func.functional_call(layer, parameters, (x,))
        (output * output).sum().backward()
        return [each.get() if isinstance(each, DeviceArray) else each
                for each in (output.detach().data, *(p.grad for p in parameters.values()))]  # fmt: skip

    counts = []
    for length in (3, 7):
        expected = run(length, lambda a, g=False: minitorch.tensor(a, requires_grad=g))
        for _ in range(6):  # until all of it has kernels
            asked.clear()
            found = run(length, there)
        counts.append(len(asked))
        for ours, hosts in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, hosts, rtol=1e-5, atol=1e-6)
    assert counts[0] == counts[1]


GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


@pytest.fixture
def computed_by_library(monkeypatch):
    """The names of what a library is asked to compute: functions and operators whose results are no views."""
    asked = []

    def noting(name):
        old = getattr(DeviceArray, name)

        def call(self, *args):
            found = old(self, *args)
            what = args[0].__name__ if name in ("__array_function__", "__array_ufunc__") else name
            if not isinstance(found, DeviceArray) or found.base is None:
                asked.append(what)
            return found

        monkeypatch.setattr(DeviceArray, name, call)

    for name in (
        "array_function",
        "array_ufunc",
        "matmul",
        "add",
        "sub",
        "mul",
        "truediv",
        "neg",
        "gt",
        "pow",
    ):
        noting(f"__{name}__")
    return asked


def recurrence(
    make,
    cell,
    length,
    batch=4,
    size=8,
    bias=True,
    given=True,
    dtype=np.float64,
    wanted="output last",
    scale=0.1,
):
    """The outputs of a recurrence, and the gradients of what it is made of, from gradients of what is wanted."""
    draw = np.random.default_rng(0)
    gates, parts = GATES[cell], 2 if cell == "lstm" else 1
    shapes = [
        (length, batch, gates * size),
        (gates * size, size),
        *[(gates * size,)] * bias,
        *[(batch, size)] * parts,
    ]
    tensors = [make((scale * draw.normal(size=shape)).astype(dtype)).requires_grad_() for shape in shapes]
    x, weight, *others = tensors
    b = others.pop(0) if bias else None
    if not given:
        others = [make(np.zeros((batch, size), dtype)) for _ in range(parts)]
    output, last = F.recurrent.recurrence(cell, x, weight, b, tuple(others))
    named = {"output": [output], "hidden": [last[0]], "cell": [last[-1]], "last": list(last)}
    chosen = [each for name in wanted.split() for each in named[name]]
    seeds = [make(draw.normal(size=each.shape).astype(dtype))._data for each in chosen]
    minitorch.autograd.backward(chosen, seeds)
    return [output._data, *[each._data for each in last], *[each.grad for each in tensors]]


def same(found, expected, rtol=1e-9, atol=1e-11):
    for mine, other in zip(found, expected, strict=True):
        assert (mine is None) == (other is None)
        if other is not None:
            host = mine.get() if isinstance(mine, DeviceArray) else mine
            np.testing.assert_allclose(host.astype(np.float64), other, rtol=rtol, atol=atol)


@pytest.mark.parametrize("length", [1, 3, 16, 37])
@pytest.mark.parametrize("cell", GATES)
def test_a_recurrence_is_a_few_programs(launcher, computed_by_library, cell, length):
    """Two launches for each step, forward and back, and the library joins stretches, if there are several."""
    stretches = len(recurrent._stretches(there(np.ones((length, 1)))._data))
    for batch, size in (
        ((4, 8), (8, 128)) if length == 16 else ((4, 8),)
    ):  # (of the larger one a library multiplies)
        options = {"batch": batch, "size": size, "dtype": np.float32}
        expected = recurrence(minitorch.tensor, cell, length, **options)
        for _ in range(6):
            computed_by_library.clear()
            before = launcher.launched
            same(recurrence(there, cell, length, **options), expected, rtol=1e-3, atol=1e-4)
        assert launcher.launched - before <= 4 * length + 6 * stretches
        joined = 0 if stretches == 1 else {"tanh": 3, "relu": 3, "lstm": 5, "gru": 4}[cell]
        assert computed_by_library == ["concatenate"] * joined


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("wanted", ["output", "hidden", "cell", "output cell"])
def test_a_recurrence_has_the_numbers_of_the_host(launcher, cell, bias, given, wanted):
    options = {"bias": bias, "given": given, "wanted": wanted}
    expected = recurrence(minitorch.tensor, cell, 7, **options)
    for _ in range(3):
        same(recurrence(there, cell, 7, **options), expected)


@pytest.mark.parametrize("cell", ["tanh", "gru"])
def test_rounding_that_grows_from_step_to_step_is_no_mistake(launcher, cell):
    for _ in range(3):
        before = launcher.launched
        recurrence(there, cell, 16, size=64, dtype=np.float32, scale=2.0)
    assert 0 < launcher.launched - before <= 70


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_recurrence_of_halves(launcher, cell, name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    minitorch.zeros(1, dtype=getattr(minitorch, name))
    half = np.dtype(getattr(minitorch, name))

    def of_halves(array):
        return there(array.astype(half))

    wide = recurrence(
        lambda a: minitorch.tensor(a.astype(half).astype(np.float32)), cell, 6, dtype=np.float32
    )
    for _ in range(3):
        found = recurrence(of_halves, cell, 6, dtype=np.float32)
        assert all(each.dtype == half for each in found)
        same(found, wide, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("cell", GATES)
def test_a_recurrence_is_differentiated_twice(launcher, cell):
    def run(make):
        draw = np.random.default_rng(0)
        gates, parts = GATES[cell], 2 if cell == "lstm" else 1
        shapes = [(5, 2, gates * 4), (gates * 4, 4), (gates * 4,), *[(2, 4)] * parts]
        x, weight, bias, *state = tensors = [
            make(draw.normal(size=shape)).requires_grad_() for shape in shapes
        ]
        output, last = F.recurrent.recurrence(cell, x, weight, bias, tuple(state))
        total = (output * output).sum() + (last[-1] ** 3).sum()
        slopes = minitorch.autograd.grad(total, tensors, create_graph=True)
        sum((slope * slope).sum() for slope in slopes).backward()
        return [each.grad for each in tensors]

    expected = run(minitorch.tensor)
    for _ in range(3):
        same(run(there), expected)


def test_sequences_of_other_lengths_are_made_of_the_same_programs(launcher, monkeypatch):
    monkeypatch.setattr(recurrent, "LENGTHS", (4, 2, 1))
    for length in (*range(1, 14), 9, 10, 11, 12):
        recurrence(there, "lstm", length, dtype=np.float32)
    built = []
    build = eager_backend.EagerBackend.build
    monkeypatch.setattr(
        eager_backend.EagerBackend, "build", lambda self, *args: built.append(args) or build(self, *args)
    )
    for length in (14, 23, 31, 40):
        expected = recurrence(minitorch.tensor, "lstm", length, dtype=np.float32)
        same(recurrence(there, "lstm", length, dtype=np.float32), expected, rtol=1e-3, atol=1e-4)
    assert not built


@pytest.mark.parametrize("both_ways", [False, True])
def test_sequences_that_lie_in_another_order_have_kernels_too(launcher, computed_by_library, both_ways):
    """Where the batch comes first, or a sequence is gone through backwards; gradients lie there so as well."""
    minitorch.manual_seed(0)
    layer = minitorch.nn.GRU(4, 8, batch_first=True, bidirectional=both_ways)
    array = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(np.float32)

    def run(make):
        parameters = {name: make(p.data).requires_grad_() for name, p in layer.named_parameters()}
        x = make(array).requires_grad_()
        output, _ = minitorch.func.functional_call(layer, parameters, (x,))
        (output * output).sum().backward()
        return [output._data, x.grad, *[each.grad for each in parameters.values()]]

    expected = run(minitorch.tensor)
    for _ in range(6):
        computed_by_library.clear()
        same(run(there), expected, rtol=1e-4, atol=1e-5)
    assert not {"tanh", "exp", "negative", "where"}.intersection(computed_by_library)
    assert both_ways or "__matmul__" not in computed_by_library  # (else of gradients that are turned round)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_what_a_recurrence_gives_may_be_written_into(launcher, name):
    """As in PyTorch: neither the outputs nor the last state are what the gradients are computed from."""
    minitorch.manual_seed(0)
    layer = getattr(minitorch.nn, name)(4, 8)
    array = np.random.default_rng(0).normal(size=(5, 2, 4)).astype(np.float32)

    def run(make, writes):
        parameters = {name: make(p.data).requires_grad_() for name, p in layer.named_parameters()}
        output, last = minitorch.func.functional_call(layer, parameters, (make(array),))
        last = last if isinstance(last, tuple) else (last,)
        total = (output * 2).sum() + sum((each * 3).sum() for each in last)
        if writes:
            for each in (output, *last):
                each.detach().zero_()
                assert not each.detach().any()
            assert all(each.shape == (1, 2, 8) for each in last)
        total.backward()
        return [each.grad for each in parameters.values()]

    for make in (minitorch.tensor, there, there, there):
        same(run(make, True), run(minitorch.tensor, False), rtol=1e-4, atol=1e-5)


def test_batches_of_other_sizes_have_the_same_kernels(launcher):
    for cell in ("lstm", "gru"):
        for batch in (8, 8, 8, 10, 12, 14, 16, 18, 8, 20):
            expected = recurrence(minitorch.tensor, cell, 4, batch=batch, dtype=np.float32)
            before = launcher.launched
            same(recurrence(there, cell, 4, batch=batch, dtype=np.float32), expected, rtol=1e-3, atol=1e-3)
            launched = launcher.launched - before
        assert 0 < launched <= 22
