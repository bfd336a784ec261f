"""What is asked of the library for convolutions, told by one that computes nothing: which of its ways is taken."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from minitorch import backends
from minitorch.compiler.backends.cuda import cudnn
from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution
from minitorch.engine.recording import rehearsal

CREATE, GET, EXECUTE = "cudnnBackendCreateDescriptor", "cudnnBackendGetAttribute", "cudnnBackendExecute"
TENSOR_CORES, HALF, WINOGRAD, AS_WRITTEN = 0, 1, 5, 9


class Library:
    """Proposes ways with notes, each of which takes some time."""

    def __init__(self, ways):
        self.ways, self.numbers, self.kinds, self.plans = ways, itertools.count(1), {}, {}
        self.configurations, self.engines, self.executed, self.clock = {}, {}, [], 0.0

    def __getattr__(self, name):
        return lambda *arguments: self.call(name, *arguments)

    def call(self, name, *arguments):
        if name in (CREATE, "cudnnCreate"):
            arguments[-1]._obj.value = next(self.numbers)
            self.kinds[arguments[-1]._obj.value] = arguments[0]
        elif name == "cudnnBackendSetAttribute" and arguments[1] == 401:
            self.plans[arguments[0].value] = self.configurations[arguments[4][0]]
        elif name == GET:
            self.get(*arguments)
        elif name == EXECUTE:
            self.executed.append(self.plans[arguments[1].value])
            self.clock += self.ways[self.executed[-1]][1]
        return 0

    def get(self, descriptor, attribute, kind, room, count, array):
        found = []
        if attribute == 202:
            found = range(len(self.ways))
            self.configurations.update(zip(array or (), found, strict=False))
        elif attribute == 300:
            found = [None]
            self.engines[array[0]] = self.configurations[descriptor.value]
        elif attribute == 1303:
            found = self.ways[self.engines[descriptor.value]][0]
            array[: len(found)] = found
        elif attribute == 402:
            found, array[0] = [None], 1 << 10
        count._obj.value = len(found)


def prepared(monkeypatch, ways, scale=1):
    """A library of some ways, what computes by it, and a convolution that it has prepared."""
    library = Library(ways)
    monkeypatch.setattr(cudnn, "library", lambda: library)
    event = lambda: SimpleNamespace(record=lambda stream: times.append(library.clock), synchronize=list)
    times = []
    cuda = SimpleNamespace(
        Event=event,
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        get_elapsed_time=lambda *both: times[-1] - times[-2],
    )
    memory = lambda shape, dtype: SimpleNamespace(data=SimpleNamespace(ptr=64), nbytes=0)
    found = cudnn.Cudnn(SimpleNamespace(cuda=cuda, empty=memory))
    sizes = ((2, 6 * scale, 7 * scale, 4), (8, 3, 3, 4), (2, 6 * scale, 7 * scale, 8))
    convolution = LibraryConvolution([], False, *sizes, (1, 1), (1, 1), (1, 1))
    found.prepare(convolution, (16, 32, 48))
    return library, found, convolution


@pytest.fixture
def chosen(monkeypatch):
    """Which way a convolution is computed by in the end, of some ways with notes and times."""
    how = backends.cudnn.allow_tf32

    def choose(*ways, scale=1):
        library, found, convolution = prepared(monkeypatch, ways, scale)
        found.launch(convolution, (16, 32, 48), 0)
        return library.executed[-1]

    yield choose
    backends.cudnn.allow_tf32 = how


def test_the_fastest_of_some_ways_is_taken(chosen):
    assert chosen(([TENSOR_CORES], 3.0), ([TENSOR_CORES], 2.0), ([HALF], 1.0), ([], 4.0)) == 1


def test_nothing_is_rounded_if_that_is_not_allowed(chosen):
    backends.cudnn.allow_tf32 = False
    assert chosen(([TENSOR_CORES], 1.0), ([WINOGRAD], 2.0), ([], 9.0), ([], 8.0)) == 3
    assert chosen(([TENSOR_CORES], 1.0), ([WINOGRAD], 2.0)) == 1  # there is no other


def test_nor_while_a_program_is_compared_with_its_function(chosen):
    with rehearsal():
        assert chosen(([TENSOR_CORES], 1.0), ([], 9.0), ([], 8.0)) == 1  # the first that does, untimed
        # Without a note some add and subtract more than is written: the filters' gradients are off in the fifth digit.
        assert chosen(([TENSOR_CORES], 1.0), ([], 2.0), ([AS_WRITTEN], 9.0)) == 2


def test_what_is_small_may_be_computed_without_tensor_cores(chosen):
    few = ([TENSOR_CORES], 3.0), ([TENSOR_CORES], 2.0), *[([TENSOR_CORES], 4.0)] * 3
    assert chosen(*few, ([], 1.0)) == 5
    assert chosen(*few, ([], 1.0), scale=1000) == 1


def test_what_no_way_computes_is_told(chosen):
    with pytest.raises(RuntimeError, match="no way to compute"):
        chosen(([HALF], 1.0))


def test_addresses_are_told_once_though_a_step_comes_back_to_them_late(monkeypatch):
    library, found, convolution = prepared(monkeypatch, [([], 1.0)])
    steps = [(16 * i, 16 * i + 8, 16 * i + 12) for i in range(1, 300)]
    for addresses in steps:
        found.compute(convolution, addresses, 0)
    made = len(library.kinds)
    for addresses in steps:
        found.compute(convolution, addresses, 0)
    assert len(library.kinds) == made


def test_the_table_of_numpys_numbers_is_what_a_library_has_to_give():
    random = np.random.default_rng(0)
    images, filters = random.normal(size=(2, 6, 7, 8)), random.normal(size=(6, 3, 3, 4))
    made = np.empty((2, 6, 7, 6))
    sizes = (images.shape, filters.shape, made.shape)
    cudnn.convolve(LibraryConvolution([], False, *sizes, (1, 1), (1, 1), (1, 1)), images, filters, made)
    expected = sum(
        np.einsum("c,oc->o", images[1, 1 + y, 2 + x, :4], filters[:3, y, x])
        for y, x in itertools.product(range(3), repeat=2)
    )
    np.testing.assert_allclose(made[1, 2, 3, :3], expected)
