"""Batched arrays: NumPy's functions, indices and operators give each example what it would get alone."""

import random

import numpy as np
import pytest

from minitorch.func.batched import Batched, EachAlone, Level
from minitorch.func.batched.arrays import HANDLERS

EXAMPLES = 6
window = np.lib.stride_tricks.sliding_window_view


def square(x):
    return x[:, :3] + 3 * np.eye(3)


# By the functions that are called: on x and y of shape (3, 4), positive, and integers i of shape (3, 4), 0 to 2.
CALLS = {
    "where clip": lambda x, y, i: np.where(x > 1, np.clip(x, 0.5, y), np.clip(y, 0.2, None)),
    "round around fix": lambda x, y, i: np.round(x, 1) + np.around(y) + np.fix(x),
    "nan_to_num isclose isposinf isneginf": lambda x, y, i: (
        np.nan_to_num(x) * np.isclose(x, y, rtol=0.5) + np.isposinf(x) + np.isneginf(x)
    ),
    "sinc i0 angle": lambda x, y, i: np.sinc(x) + np.i0(y) + np.angle(x + 1j * y),
    "real imag": lambda x, y, i: np.real(x + 1j * y) * np.imag(x + 1j * y),
    "copyto empty_like zeros_like ones_like full_like": lambda x, y, i: written(x, y),
    "zeros ones empty full": lambda x, y, i: made(x),
    "arange asarray array copy": lambda x, y, i: (
        np.copy(x) + np.arange(4, like=x) + np.array([1.0, 2.0, 3.0, 4.0], like=y) + np.asarray(y, like=x)
    ),
    "asanyarray ascontiguousarray": lambda x, y, i: np.asanyarray(x, like=y) + np.ascontiguousarray([[1.0]], like=y),
    "reshape ravel": lambda x, y, i: np.reshape(x, (4, -1)) * np.ravel(y)[:3],
    "transpose permute_dims matrix_transpose": lambda x, y, i: (
        np.transpose(x) + np.permute_dims(y, (1, 0)) + np.matrix_transpose(x)
    ),
    "swapaxes moveaxis": lambda x, y, i: np.swapaxes(x, 0, -1) + np.moveaxis(y, 0, 1),
    "expand_dims squeeze": lambda x, y, i: np.squeeze(np.expand_dims(x, (0, -1))) + np.squeeze(y[None], 0),
    "broadcast_to broadcast_arrays": lambda x, y, i: np.broadcast_to(x[0], (2, 4)) + np.broadcast_arrays(y[0], x[:2])[0],
    "flip roll": lambda x, y, i: np.flip(x) + np.flip(y, 1) + np.roll(x, 2) + np.roll(y, (1, 2), (0, -1)),
    "tile repeat": lambda x, y, i: np.tile(x, (2, 1, 1))[..., :3] + np.repeat(y, 2, 0)[:3, :3] + np.repeat(x, 2)[:3],
    "pad": lambda x, y, i: np.pad(x, ((1, 0), (0, 2)), constant_values=7) + np.pad(y, ((0, 1), (1, 1)), "edge"),
    "tril triu": lambda x, y, i: np.tril(x, 1) * np.triu(y) + np.tril(x[0])[:3],
    "diagonal trace diag": lambda x, y, i: np.diagonal(x, 1) + np.trace(y) + np.diag(x) + np.diag(y[0], 1)[0, 1],
    "sliding_window_view": lambda x, y, i: window(x, 2, axis=1) + window(y, (2,), -1),
    "concatenate stack": lambda x, y, i: np.concatenate([x, y, np.ones((3, 4))], 1)[:, :4] + np.stack([x, y], -1).sum(-1),
    "split array_split": lambda x, y, i: np.split(x, 2, 1)[1] + np.array_split(y, [1, 3], 1)[1],
    "sum prod max min": lambda x, y, i: np.sum(x) + np.prod(x, 1) + np.max(y, (0, 1)) + np.min(y, 1),
    "all any count_nonzero": lambda x, y, i: np.all(x > 0.5, 0) | np.any(y > 1, axis=0) | (np.count_nonzero(i, 0) > 1),
    "mean std var median": lambda x, y, i: np.mean(x, 1) + np.std(y, 1) + np.var(x, axis=1) + np.median(y, 1),
    "argmax argmin": lambda x, y, i: np.argmax(x, 1) + np.argmin(y) + np.argmax(x, keepdims=True)[0],
    "cumsum cumprod nancumsum diff": lambda x, y, i: np.cumsum(x, 1) + np.cumprod(y, 0) + np.cumsum(x)[0] + np.nancumsum(y, 1),
    "diff": lambda x, y, i: np.diff(x) + np.diff(y, axis=1),
    "sort argsort": lambda x, y, i: np.sort(x, 0) + np.argsort(y) + np.sort(x, None)[0],
    "partition argpartition": lambda x, y, i: np.partition(x, 1)[:, 1] + np.argpartition(y, 1, axis=1)[:, 1],
    "take take_along_axis": lambda x, y, i: np.take(x, i[0], 1) + np.take_along_axis(y, i, 0) + np.take(x, i),
    "put_along_axis": lambda x, y, i: put(x, i),
    "searchsorted": lambda x, y, i: np.searchsorted(np.sort(x[0]), y) + np.searchsorted(np.arange(4.0), x, "right"),
    "matmul dot": lambda x, y, i: x @ y.T + np.dot(x, y[0])[0] + np.dot(x, y.T) + x[0] @ y[1] + np.matmul(np.ones(3), x)[0],
    "outer vdot inner": lambda x, y, i: np.outer(x[0], y[0])[:3] + np.inner(x[0], y[0]) + np.vdot(x[1], y[1]),
    "tensordot einsum": lambda x, y, i: np.tensordot(x, y, ((1,), (1,))) + np.einsum("ij,...j->i...", x, y),
    "cross": lambda x, y, i: np.cross(x[:, :3], y[:, :3]) + np.cross(x, y, axis=0)[:, :3],
    "inv det slogdet": lambda x, y, i: np.linalg.inv(square(x)) * np.linalg.det(square(y)) + np.linalg.slogdet(square(x))[1],
    "cholesky qr": lambda x, y, i: np.linalg.cholesky(square(x) @ square(x).mT) + np.abs(np.linalg.qr(square(y))[1]),
    "svd svdvals": lambda x, y, i: np.linalg.svd(x, full_matrices=False)[1] + np.linalg.svdvals(y),
    "eigh eigvalsh": lambda x, y, i: np.linalg.eigh(square(x))[0] + np.linalg.eigvalsh(square(y)),
    "eig eigvals": lambda x, y, i: np.sort(np.abs(np.linalg.eig(square(x))[0])) + np.sort(np.abs(np.linalg.eigvals(square(y)))),
    "pinv matrix_rank": lambda x, y, i: np.linalg.pinv(x) + np.linalg.matrix_rank(y),
    "matrix_power cond": lambda x, y, i: np.linalg.matrix_power(square(x), 3) + np.linalg.cond(square(y)),
    "solve norm": lambda x, y, i: (
        np.linalg.solve(square(x), y) + np.linalg.solve(square(x), y[:, 0])[0] + np.linalg.norm(x)
        + np.linalg.norm(y, 1, axis=1)[0] + np.linalg.norm(y, "nuc")
    ),
    "fftn ifftn": lambda x, y, i: np.fft.fftn(x) + np.fft.ifftn(y, axes=(0,)),
    "rfftn irfftn": lambda x, y, i: np.fft.irfftn(np.fft.rfftn(x), (3, 4), (0, 1)) + y,
    "fft ifft": lambda x, y, i: np.fft.fft(x, axis=0) + np.fft.ifft(y, 4),
    "rfft irfft": lambda x, y, i: np.fft.irfft(np.fft.rfft(x), n=4) + y,
    "hfft ihfft": lambda x, y, i: np.fft.hfft(x, 4) + np.abs(np.fft.ihfft(y)).sum(),
}  # fmt: skip


def written(x, y):
    out = np.empty_like(x)
    np.copyto(out, 2.0)
    np.copyto(out, y, where=x > 1)
    return out + np.zeros_like(x, shape=(4,)) + np.ones_like(y) + np.full_like(x, 3)


def made(x):
    out = np.empty((3, 4), like=x)
    out[...] = np.full((3, 4), 2.0, like=x) + np.ones(4, like=x)
    out[0] += x[0]
    return out + np.zeros((3, 4), like=x)


def put(x, i):
    out = x.copy()
    np.put_along_axis(out, i[:1], 9.0, 0)
    return out


def inputs():
    g = np.random.default_rng(0)
    shape = (EXAMPLES, 3, 4)
    return g.uniform(0.2, 3, shape), g.uniform(0.2, 3, shape), g.integers(0, 3, shape)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_function_of_numpys(call):
    arrays, level = inputs(), Level(EXAMPLES)
    found = call(*(Batched(a, level) for a in arrays))
    alone = [np.asarray(call(*(a[e] for a in arrays))) for e in range(EXAMPLES)]
    assert found.shape == alone[0].shape
    np.testing.assert_allclose(found.array, np.stack(alone), rtol=1e-9, atol=1e-12)


def test_every_function_is_tried_or_asks_or_refuses():
    tried = {word for words in CALLS for word in words.split()}
    asks = {"shape", "ndim", "size", "result_type", "can_cast", "iscomplexobj", "isrealobj", "min_scalar_type",
            "shares_memory", "may_share_memory"}  # fmt: skip
    refuse = {"nonzero", "flatnonzero", "argwhere", "unique", "array_equal", "allclose", "array_equiv"}
    named = {function.__name__ for function in HANDLERS if callable(function)}
    assert named - tried - asks - refuse == set()
    x = Batched(np.ones((2, 3)), Level(2))
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 0)) == ((3,), 1, 3, 3)
    assert np.result_type(x, np.float32) == np.float64
    assert np.can_cast(x, np.float64)
    assert np.may_share_memory(x, x[:1])
    assert not np.iscomplexobj(x)
    for name in refuse:
        with pytest.raises(EachAlone):
            getattr(np, name)(*[x] * (2 if name in ("array_equal", "allclose", "array_equiv") else 1))


def part_of_a_key(draw, g, length, shape):
    """One part of an index into an axis, for all examples: itself if they share it, else a list."""
    kind = draw.choice("sia*0")
    if kind == "s":
        return slice(draw.choice([None, 0, 1, -1]), draw.choice([None, length, -1]), draw.choice([None, 2]))
    if kind == "i":
        return draw.randint(-length, length - 1)
    if kind == "a":
        return g.integers(-length, length, size=shape)
    return list(g.integers(-length, length, size=(EXAMPLES, *(shape if kind == "*" else ()))))


@pytest.mark.parametrize("seed", range(150))
def test_an_index(seed):
    draw, g, level = random.Random(seed), np.random.default_rng(seed), Level(EXAMPLES)
    shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(1, 4)))
    index_shape = draw.choice([(), (2,), (3, 2)])
    parts = [part_of_a_key(draw, g, n, index_shape) for n in shape[: draw.randint(1, len(shape))]]
    if draw.random() < 0.5:
        parts.insert(
            draw.randint(0, len(parts)), draw.choice([None, ...]) if len(parts) == len(shape) else None
        )
    key = tuple(Batched(np.stack(p), level) if isinstance(p, list) else p for p in parts)
    keys = [tuple(np.asarray(p[e]) if isinstance(p, list) else p for p in parts) for e in range(EXAMPLES)]
    x = g.normal(size=(EXAMPLES, *shape))
    batched = Batched(x.copy(), level)
    alone = [x[e][keys[e]] for e in range(EXAMPLES)]
    np.testing.assert_array_equal(batched[key].array, np.stack(alone))
    values = g.normal(size=(EXAMPLES, *np.shape(alone[0])))
    for e in range(EXAMPLES):
        x[e][keys[e]] = values[e]
        np.add.at(x[e], keys[e], values[e])
    batched[key] = Batched(values, level)
    np.add.at(batched, key, Batched(values, level))
    np.testing.assert_allclose(batched.array, x)


def test_operators_and_what_is_shared():
    level = Level(2)
    x = Batched(np.arange(6.0).reshape(2, 3), level)
    shared = np.array([1.0, 2.0, 3.0])
    for found in (x + shared, shared + x, 2 * x, x**2, -x, x > 1, x @ shared, abs(x), divmod(x, 2)[1]):
        assert found.array.shape[0] == 2
    x += shared
    assert x.array[1].tolist() == [4.0, 6.0, 8.0]
    with pytest.raises(EachAlone):
        shared += x
    with pytest.raises(EachAlone):
        shared[:1] = x[:1]
    assert shared.tolist() == [1.0, 2.0, 3.0]
    inner = Level(4)
    both = x + Batched(np.ones((4, 3)), inner)
    assert both.shape == (3,)
    assert both.level is inner
    assert both.array.level is level
    assert both.sum().array.array.shape == (2, 4)
