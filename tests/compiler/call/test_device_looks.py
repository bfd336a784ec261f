"""Arrays on a device that are not laid out in the order of their axes: kernels are told what they are looks at."""

import itertools

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS
from minitorch.compiler.backends.cuda import finding_attention
from minitorch.compiler.call import eager_backend
from minitorch.compiler.call.device_looks import look_of
from minitorch.nn import functional as F
from minitorch.ops import native
from standin import DeviceArray
from standin_kernels import StandinLauncher


def whole(*shape, dtype=np.float32):
    return DeviceArray(np.random.default_rng(0).normal(size=shape).astype(dtype))


def seen_again(look, array):
    return look.at(look.taken_from(array))


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_axes_in_another_order(axes):
    array = whole(2, 3, 4).transpose(axes)
    look = look_of(array, gaps=False)
    if axes == (0, 1, 2):
        assert look is None
        return
    assert look.shape is None
    assert look.taken_from(array).host.flags.c_contiguous
    np.testing.assert_array_equal(seen_again(look, array).host, array.host)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_of_equal_parts(axis, which, parts):
    """As queries, keys and values are parts of one product, cut into heads."""
    base = whole(6, 12, 18)
    length = base.shape[axis] // parts
    part = base[(slice(None),) * axis + (slice(which % parts * length, (which % parts + 1) * length),)]
    heads = part.reshape(*part.shape[:2], 3, part.shape[2] // 3)
    for array in (part, part.transpose(1, 0, 2), heads.transpose(0, 2, 1, 3), heads.transpose(2, 0, 3, 1)):
        look = look_of(array, gaps=True)
        if array.host.flags.c_contiguous:
            assert look is None
            continue
        assert look_of(array, gaps=False) is None or look.shape is None
        given = look.taken_from(array)
        assert given.host.flags.c_contiguous
        assert np.may_share_memory(given.host, base.host)
        np.testing.assert_array_equal(seen_again(look, array).host, array.host)


@pytest.mark.parametrize(
    "make",
    [
        lambda base: base[:, 1:4],  # of no equal parts
        lambda base: base[:, :, ::2],  # neighbours lie apart
        lambda base: base[:, ::-1],
        lambda base: np.broadcast_to(base[:, :1], (6, 12, 18)),
        lambda base: base[2:3, 3:4, 4:5].transpose(2, 1, 0),
        lambda base: base[:, :6].view(np.int32),
    ],
)
def test_what_is_no_such_look(make):
    array = make(whole(6, 12, 18))
    look = look_of(array, gaps=True)
    if look is not None:  # (an array of one element may be anything)
        np.testing.assert_array_equal(seen_again(look, array).host, array.host)
        assert array.size == 1


def test_a_part_of_a_buffer_that_is_longer():
    """Keys that were kept so far, of a buffer for more: where they are a half of it, say."""
    buffer = whole(2, 3, 8, 4)
    for length in range(1, 9):
        array = buffer[:, :, :length]
        look = look_of(array, gaps=True)
        assert (look is None) == (length in (3, 5, 6, 7, 8))
        if look is not None:
            np.testing.assert_array_equal(seen_again(look, array).host, array.host)


@pytest.fixture
def launcher(monkeypatch):
    found = StandinLauncher()
    eager_backend.use(found)
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    native.meet(DeviceArray)
    minitorch.set_native_ops(True)
    yield found
    native.forget(DeviceArray)
    minitorch.set_native_ops(False)
    eager_backend.forget()


@pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("where", ["parts", "turned", "plain", "mixed"])
def test_attention_lies_as_its_queries_do_from_the_first_call_on(where, rounds, launcher, monkeypatch):
    """What a person may do with a result, a view of another shape, must not change when there are kernels."""
    monkeypatch.setattr(minitorch.backends.cuda.matmul, "allow_tf32", rounds)
    draw = np.random.default_rng(1)
    numbers = [draw.normal(size=(2, 20, 3 * 64)).astype(np.float32) for _ in range(6)]
    weight = draw.normal(size=(2, 2, 20, 32)).astype(np.float32)

    def run(given, on_device):
        leaf = minitorch.tensor(given)
        if on_device:
            leaf = minitorch.Tensor(DeviceArray(given.copy()))
        leaf.requires_grad_()
        parts = leaf.split(64, dim=2)
        if where == "plain":
            q, k, v = (p.view(2, 20, 2, 32).transpose(1, 2).contiguous() for p in parts)
        elif where == "turned":
            q, k, v = (p.contiguous().view(2, 20, 2, 32).transpose(1, 2) for p in parts)
        else:
            q, k, v = (p.view(2, 20, 2, 32).transpose(1, 2) for p in parts)
            k = k.contiguous() if where == "mixed" else k
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        seed = minitorch.tensor(weight)
        (out * (minitorch.Tensor(DeviceArray(weight)) if on_device else seed)).sum().backward()
        return out, leaf.grad

    for given in numbers:
        (out, grad), (expected, expected_grad) = run(given, True), run(given, False)
        lies = out._data.host.transpose(0, 2, 1, 3) if where != "plain" else out._data.host
        assert lies.flags.c_contiguous
        np.testing.assert_allclose(out._data.host, expected.data, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(grad.host, expected_grad, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")
def test_a_look_that_was_met_is_not_taken_for_another(launcher):
    """Of one shape, and as far apart in memory: another part, of a longer array, or of one whose elements are others."""
    draw = np.random.default_rng(0)
    base = DeviceArray(draw.normal(size=(4, 6, 16)).astype(np.float32))
    longer = DeviceArray(draw.normal(size=(8, 6, 16)).astype(np.float32))
    whole_numbers = DeviceArray(draw.integers(1, 9, (4, 6, 16)).astype(np.int32))
    parts = [slice(0, 8), slice(8, 16)]
    arrays = [each[first : first + 4, :, part] for each, first in ((base, 0), (longer, 4)) for part in parts]
    arrays += [whole_numbers.view(np.float32)[:, :, part] for part in parts]
    for _ in range(6):
        for a, b in itertools.permutations(arrays, 2):
            x, y = minitorch.Tensor(a), minitorch.Tensor(b)
            np.testing.assert_allclose((x @ y.mT)._data.host, a.host @ b.host.mT, rtol=1e-5, atol=1e-5)
            silu = F.silu(x.transpose(0, 2))._data.host
            np.testing.assert_allclose(silu, (a.host / (1 + np.exp(-a.host))).transpose(2, 1, 0), rtol=1e-5)
