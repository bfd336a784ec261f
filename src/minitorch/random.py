"""The only source of randomness: MT19937, drawn from as PyTorch's CPU generator is.

Enters: shapes. Leaves: leaves with random values. The same seed gives the same numbers as PyTorch:
bit for bit for uniforms and integers, to rounding for normals.
"""

from __future__ import annotations

import math
import secrets
from contextvars import ContextVar
from typing import Any

import numpy as np

from minitorch.convert import as_tensor, shape_of
from minitorch.dtypes import float16, float32, float64, get_default_dtype
from minitorch.node import new_tensor
from minitorch.recording import drawing
from minitorch.tensor import Tensor


class Generator:
    """A stream of random numbers with its own state.

    >>> g = Generator().manual_seed(0)
    >>> rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream anew from a seed."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError(f"manual_seed: {seed} does not fit 64 bits")
        self._seed = seed % 2**64
        legacy = np.random.MT19937()
        legacy._legacy_seeding(self._seed % 2**32)
        self._bits = legacy
        self._next_normal: float | None = None
        return self

    def seed(self) -> int:
        """Start the stream anew from a seed nobody can guess, and return it."""
        chosen = secrets.randbits(63)
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """Return the seed the stream was last started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """Return everything that determines the numbers to come; give it to set_state."""
        return {"seed": self._seed, "bits": self._bits.state, "next_normal": self._next_normal}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that get_state returned."""
        self._seed = state["seed"]
        self._bits.state = state["bits"]
        self._next_normal = state["next_normal"]

    @drawing
    def words(self, count: int) -> np.ndarray:
        """Draw `count` raw 32-bit words."""
        return self._bits.random_raw(count).astype(np.uint32) if count else np.empty(0, np.uint32)

    @drawing
    def words64(self, count: int) -> np.ndarray:
        """Draw `count` 64-bit words, each from two of 32 bits, the first one high."""
        pairs = self.words(2 * count).astype(np.uint64).reshape(count, 2)
        return (pairs[:, 0] << np.uint64(32)) | pairs[:, 1]

    @drawing
    def uniforms(self, count: int, dtype: Any) -> np.ndarray:
        """Draw from [0, 1): 24 random bits for float32, 53 for float64."""
        if dtype == float64:
            return (self.words64(count) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53
        drawn = (self.words(count) & np.uint32(2**24 - 1)).astype(np.float32) * np.float32(2.0**-24)
        if dtype == float32:
            return drawn
        rounded = drawn.astype(dtype)
        rounded[rounded == 1] = 0  # in half precision the largest ones round to 1, which is outside
        return rounded

    @drawing
    def normals(self, count: int, dtype: Any) -> np.ndarray:
        """Draw from the standard normal distribution, by Box and Muller's transformation."""
        if count >= 16:
            return self._normals_in_blocks(count, dtype)
        return np.array([self._one_normal() for _ in range(count)], dtype=dtype)

    def _one_normal(self) -> float:
        # Two uniforms give two normals; the second is kept for the next call.
        if self._next_normal is not None:
            kept, self._next_normal = self._next_normal, None
            return kept
        u, v = self.uniforms(2, float64)
        radius, angle = math.sqrt(-2 * math.log1p(-v)), 2 * math.pi * u
        self._next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)

    def _normals_in_blocks(self, count: int, dtype: Any) -> np.ndarray:
        # Blocks of 16 uniforms become 16 normals: the first half radii, the second half angles. When
        # the count is no multiple of 16, the last 16 are drawn anew.
        kind = float64 if dtype == float64 else float32
        whole = count - count % 16
        out = np.empty(count, kind)
        # Half precision draws no numbers for the elements that are drawn anew anyway.
        drawn = self.uniforms(whole if dtype == float16 else count, kind)
        out[:whole] = _box_muller(drawn[:whole])
        if whole != count:
            out[-16:] = _box_muller(self.uniforms(16, kind))
        return out.astype(dtype, copy=False)


def _box_muller(uniforms: np.ndarray) -> np.ndarray:
    blocks = uniforms.reshape(-1, 2, 8)
    kind = uniforms.dtype.type
    radius = np.sqrt(kind(-2) * np.log(kind(1) - blocks[:, 0]))
    angle = kind(2 * math.pi) * blocks[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)


# A thread that works beside others (a DataLoader's worker) draws from a stream of its own: from one
# that all share, who gets which number would depend on who comes first.
_own_stream: ContextVar[Generator | None] = ContextVar("minitorch_own_stream", default=None)


class _OfTheStream:
    """An attribute that lives in the stream the calling thread draws from."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return getattr(_own_stream.get() or instance._common, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(_own_stream.get() or instance._common, self._name, value)


class DefaultGenerator(Generator):
    """The generator of all random functions: one stream for the program, or the thread's own."""

    _bits: Any = _OfTheStream()
    _seed: Any = _OfTheStream()
    _next_normal: Any = _OfTheStream()

    def __init__(self) -> None:
        self.device = "cpu"
        self._common = Generator()


default_generator = DefaultGenerator()
default_generator.seed()


def use_own_stream(seed: int) -> None:
    """Let the calling thread draw from a stream of its own from now on, started from a seed.

    >>> import threading
    >>> def draw():
    ...     use_own_stream(0)
    ...     print(rand(2))
    >>> thread = threading.Thread(target=draw); thread.start(); thread.join()
    tensor([0.4963, 0.7682])
    """
    _own_stream.set(Generator().manual_seed(seed))


def manual_seed(seed: int) -> Generator:
    """Seed the generator all random functions use; the same seed gives the same numbers.

    >>> generator = manual_seed(0); rand(2)
    tensor([0.4963, 0.7682])
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the system's randomness, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> dict[str, Any]:
    """Return the state of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: dict[str, Any]) -> None:
    """Continue the default generator from a state that get_rng_state returned."""
    default_generator.set_state(state)


def _made(values: np.ndarray, shape: tuple[int, ...], requires_grad: bool) -> Tensor:
    out = new_tensor(values.reshape(shape))
    return out.requires_grad_() if requires_grad else out


def _floats(dtype: Any, name: str) -> Any:
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    if chosen.kind != "f":
        raise RuntimeError(f"{name}: dtype must be floating-point, got {chosen}")
    return chosen


def rand(
    *size: Any, generator: Generator | None = None, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return uniform numbers from [0, 1).

    >>> generator = manual_seed(0); rand(2, 2)
    tensor([[0.4963, 0.7682],
            [0.0885, 0.1320]])
    """
    shape = shape_of(size)
    values = (generator or default_generator).uniforms(math.prod(shape), _floats(dtype, "rand"))
    return _made(values, shape, requires_grad)


def randn(
    *size: Any, generator: Generator | None = None, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return standard normal numbers.

    >>> generator = manual_seed(0); randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    shape = shape_of(size)
    values = (generator or default_generator).normals(math.prod(shape), _floats(dtype, "randn"))
    return _made(values, shape, requires_grad)


def rand_like(input: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return uniform numbers in a tensor's shape and dtype.

    >>> rand_like(rand(2, 3)).shape
    (2, 3)
    """
    like = as_tensor(input)
    return rand(like.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randn_like(input: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return standard normal numbers in a tensor's shape and dtype.

    >>> randn_like(rand(2, 3)).shape
    (2, 3)
    """
    like = as_tensor(input)
    return randn(like.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, generator: Generator | None = None, dtype: Any = None
) -> Tensor:
    """Return integers from low to high - 1, as randint(high, size) or randint(low, high, size).

    >>> generator = manual_seed(0); randint(0, 5, (4,))     # tenses
    tensor([4, 4, 3, 0])
    """
    if size is None:
        low, high, size = 0, low, high
    shape = shape_of((size,))
    span = int(high) - int(low)
    if span <= 0:
        raise RuntimeError(f"randint: expects low < high, got {low} and {high}")
    source = generator or default_generator
    count = math.prod(shape)
    # From 2**28 on, a remainder of 32 bits would be too uneven; PyTorch draws 64 there.
    words = source.words64(count) if span >= 2**28 else source.words(count).astype(np.uint64)
    values = (words % np.uint64(span)).astype(np.int64) + int(low)
    return new_tensor(values.reshape(shape).astype(np.int64 if dtype is None else np.dtype(dtype)))


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None) -> Tensor:
    """Return the integers 0 to n - 1 in random order.

    >>> generator = manual_seed(0); randperm(4)
    tensor([0, 1, 3, 2])
    """
    order = list(range(n))
    words = (generator or default_generator).words(max(n - 1, 0)).tolist()
    for i, word in enumerate(words):
        j = i + word % (n - i)
        order[i], order[j] = order[j], order[i]
    return new_tensor(np.array(order, dtype=np.int64 if dtype is None else np.dtype(dtype)))


def bernoulli(input: Any, *, generator: Generator | None = None) -> Tensor:
    """Return 1 with each element's probability, else 0.

    >>> bernoulli(as_tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    chance = as_tensor(input)
    if chance.dtype.kind != "f" or ((chance._data < 0) | (chance._data > 1)).any():
        raise RuntimeError("bernoulli: probabilities must be floats between 0 and 1")
    drawn = (generator or default_generator).uniforms(chance.numel(), chance.dtype)
    return new_tensor((drawn.reshape(chance.shape) < chance._data).astype(chance.dtype))


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Draw indices with these probabilities, which need not sum to 1; a matrix gives a draw per row.

    >>> multinomial(as_tensor([0.0, 3.0, 0.0]), 4, replacement=True)
    tensor([1, 1, 1, 1])
    """
    weights = as_tensor(input)._data
    if weights.dtype.kind != "f":
        raise RuntimeError(f"multinomial: the weights must be floating-point, got {weights.dtype}")
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: the weights must have 1 or 2 axes, got shape {weights.shape}")
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot draw {num_samples} samples")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError(
            f"multinomial: cannot draw {num_samples} of {weights.shape[-1]} without replacement; write replacement=True"
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise RuntimeError("multinomial: a weight is negative, inf or nan")
    if not (weights.sum(axis=-1) > 0).all():
        raise RuntimeError("multinomial: the weights sum to 0, so there is nothing to draw")
    source = generator or default_generator
    rows = weights.reshape(-1, weights.shape[-1])
    if replacement and num_samples > 1:
        drawn = source.uniforms(len(rows) * num_samples, float64).reshape(len(rows), num_samples)
        heights = rows.cumsum(axis=-1)
        heights /= heights[:, -1:]
        chosen = np.stack([np.searchsorted(h, u) for h, u in zip(heights, drawn, strict=True)])
    else:
        # Waiting times: each index rings after an exponential time at its rate, the first ones win.
        waits = -np.log1p(-source.uniforms(rows.size, float64)).astype(rows.dtype).reshape(rows.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-(rows / waits), axis=-1, kind="stable")
        chosen = order[:, :num_samples]
    return new_tensor(chosen.astype(np.int64).reshape(*weights.shape[:-1], num_samples))


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
) -> Tensor:
    """Return normal numbers with this mean and standard deviation, numbers or tensors.

    >>> normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std)) if size is None else shape_of((size,))
    noise = randn(shape, generator=generator, dtype=dtype)
    return noise * std + mean
