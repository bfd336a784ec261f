"""Random numbers by machine code: NumPy's stream, word for word, and its state; eager draws and compiled ones alike."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import minitorch as mt
from minitorch import nn
from minitorch.compiler.backends.llvm import target
from minitorch.compiler.backends.llvm.stream import NAMES, NativeStream, native_stream
from minitorch.tensor import generator

TARGETS = [each for each in (target.host(), target.baseline(), target.avx512()) if each.runs_here]
COUNTS = [0, 1, 7, 8, 9, 311, 312, 313, 623, 624, 625, 1023, 1024, 1025, 5000]


def by_numpy(bits, dtype, count):
    """The numbers, from NumPy's words."""
    if dtype == np.float64:
        pairs = bits.random_raw(2 * count).reshape(count, 2) if count else np.empty((0, 2), np.uint64)
        return (((pairs[:, 0] << np.uint64(32)) | pairs[:, 1]) & np.uint64(2**53 - 1)) * 2.0**-53
    words = bits.random_raw(count).astype(np.uint32) if count else np.empty(0, np.uint32)
    if dtype == np.uint32:
        return words
    return (words & np.uint32(2**24 - 1)).astype(np.float32) * np.float32(2.0**-24)


@pytest.mark.parametrize("processor", TARGETS, ids=lambda each: each.name)
def test_the_stream_is_numpys(processor):
    native = NativeStream(processor)
    mine, theirs = np.random.MT19937(3), np.random.MT19937(3)
    chosen = np.random.default_rng(0)
    for _ in range(150):
        dtype, count = chosen.choice(list(NAMES)), int(chosen.choice(COUNTS))
        guarded = np.full(count + 8, 5, dtype)  # behind it nothing is written
        native.fill(dtype, mine.ctypes.state_address, guarded.ctypes.data, count)
        np.testing.assert_array_equal(guarded[:count], by_numpy(theirs, dtype, count))
        np.testing.assert_array_equal(guarded[count:], 5)
        ours, state = mine.state["state"], theirs.state["state"]
        np.testing.assert_array_equal(ours["key"], state["key"])
        assert ours["pos"] == state["pos"]


def test_a_generator_draws_the_same_either_way(monkeypatch):
    def drawn():
        source = mt.Generator().manual_seed(11)
        return [
            part
            for count in (5, 700, 255, 256, 2001)
            for part in (
                source.uniforms(count, np.dtype(np.float64)),
                source.words(count),
                source.normals(count, np.dtype(np.float32)),
                source.uniforms(count, np.dtype(np.float16)),
                source.permutation(count),
                source.words64(count),
            )
        ]

    monkeypatch.setattr(generator, "_native", [])
    plain = drawn()
    generator.draw_natively(native_stream())
    for one, other in zip(plain, drawn(), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_a_compiled_function_draws_eagers_numbers(monkeypatch):
    monkeypatch.setattr(generator, "_native", [])
    drop = nn.Dropout(0.3)
    step = lambda x: drop(x) + mt.rand(60, 50)
    x = mt.ones(60, 50)
    mt.manual_seed(5)
    expected = [step(x).numpy() for _ in range(5)]
    assert not generator._native
    mt.manual_seed(5)
    compiled = mt.compile(step)
    got = [compiled(x).numpy() for _ in range(5)]
    assert generator._native  # its entry has asked for it
    np.testing.assert_array_equal(got, expected)
