"""Large arrays in pieces, by several threads: what one thread gives in one go."""

import multiprocessing
import sys
import threading

import numpy as np
import pytest

import minitorch
from minitorch.nn import functional as F
from minitorch.ops import pieces
from minitorch.ops.sorting import ARGSORT


@pytest.fixture
def three(monkeypatch):
    """Small pieces for three threads."""
    monkeypatch.setattr(pieces, "PIECE", 7)
    monkeypatch.setattr(pieces, "LARGE", 14)
    monkeypatch.setattr(pieces, "threads", lambda: 3)
    pieces._workers.cache_clear()
    yield
    pieces._workers().shutdown()
    pieces._workers.cache_clear()


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_piece_is_done_once(three, count):
    done = []
    pieces.share(done.append, range(count))
    assert sorted(done) == list(range(count))


def test_several_threads_are_at_work(three):
    met = threading.Barrier(3)
    pieces.share(lambda piece: met.wait(20), range(3))
    assert not met.broken


def test_pieces_inside_pieces(three):
    done = []
    pieces.share(lambda i: pieces.share(lambda j: done.append((i, j)), range(5)), range(5))
    assert len(set(done)) == 25


def test_an_error_is_the_callers(three):
    def fail(piece):
        raise ValueError(piece)

    with pytest.raises(ValueError, match=r"\d"):
        pieces.share(fail, range(20))
    pieces.share(str, range(20))


def test_numpys_warnings_are_the_callers(three):
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        pieces.elementwise(np.log, (np.zeros(100),), {})
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(pieces.elementwise(np.log, (np.zeros(100),), {}), np.full(100, -np.inf))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (13, 11), (3, 5, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elementwise(three, shape, dtype):
    x, y = (np.random.default_rng(i).normal(size=shape).astype(dtype) for i in (0, 1))
    whole = lambda x, y, *, k: np.exp(x) * y + k
    found = pieces.elementwise(whole, (x, y), {"k": 2})
    np.testing.assert_array_equal(found, whole(x, y, k=2))
    assert found.dtype == dtype
    turned = pieces.elementwise(whole, (x.T, y.T), {"k": 2})
    assert turned.strides == whole(x.T, y.T, k=2).strides


def test_an_activation_and_its_gradient(three):
    x = minitorch.tensor(np.random.default_rng(0).normal(size=(120, 100)), requires_grad=True)
    results = []
    for large in (14, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pieces, "LARGE", large)
            x.grad = None
            out = F.gelu(x)
            out.backward(x.detach())
            results.append((out.detach().numpy(), x.grad))
    for shared, alone in zip(*results, strict=True):
        np.testing.assert_allclose(shared, alone, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(9, 8), (2, 5, 6), (40, 1), (1, 40), (20, 0)])
def test_rows_are_sorted(three, shape):
    x = np.random.default_rng(0).integers(0, 5, size=shape).astype(np.float64)
    for axis in range(len(shape)):
        found = ARGSORT.forward(x, axis=axis, descending=False)
        np.testing.assert_array_equal(found, np.argsort(x, axis=axis, kind="stable"))


def _child(results):
    done = []
    pieces.share(done.append, range(9))
    results.put(sorted(done))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_process_has_threads_of_its_own(three):
    pieces.share(str, range(9))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_child, args=(results,))
    child.start()
    assert results.get(timeout=20) == list(range(9))
    child.join()
