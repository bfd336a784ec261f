"""Random tensors, drawn from generator.py. Enters: shapes. Leaves: leaves with random values.

The same seed gives the same numbers as PyTorch: bit for bit for uniforms and integers, to rounding for normals.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch.creation import zeros_like
from minitorch.engine.dtypes import float64, get_default_dtype
from minitorch.engine.node import apply, new_tensor
from minitorch.ops.arithmetic import NORMAL
from minitorch.ops.op import violated
from minitorch.tensor import Tensor, move
from minitorch.tensor.convert import as_tensor, operand, promoted, shape_of
from minitorch.tensor.generator import Generator, default_generator
from minitorch.tensor.generator import use_own_stream as use_own_stream


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


def _made(values: np.ndarray, shape: tuple[int, ...], device: Any, requires_grad: bool) -> Tensor:
    out = move(new_tensor(values.reshape(shape)), device)
    return out.requires_grad_() if requires_grad else out


def _drawn(draw: Any, count: int, dtype: Any, name: str, spread: float) -> np.ndarray:
    """Draw `count` numbers; of complex ones both parts, with `spread` times the deviation."""
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    if chosen.kind == "c":
        part = np.empty(0, chosen).real.dtype
        return (draw(2 * count, part) * part.type(spread)).view(chosen)
    if chosen.kind != "f":
        raise RuntimeError(f"{name}: dtype must be floating-point or complex, got {chosen}")
    return draw(count, chosen)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return uniform numbers from [0, 1).

    >>> generator = manual_seed(0); rand(2, 2)
    tensor([[0.4963, 0.7682],
            [0.0885, 0.1320]])
    """
    shape = shape_of(size)
    values = _drawn((generator or default_generator).uniforms, math.prod(shape), dtype, "rand", 1.0)
    return _made(values, shape, device, requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return standard normal numbers; complex ones have a variance of 1/2 in each part.

    >>> generator = manual_seed(0); randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    shape = shape_of(size)
    values = _drawn(
        (generator or default_generator).normals, math.prod(shape), dtype, "randn", math.sqrt(0.5)
    )
    return _made(values, shape, device, requires_grad)


def rand_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, generator: Any = None
) -> Tensor:
    """Return uniform numbers in a tensor's shape, dtype and device.

    >>> rand_like(rand(2, 3)).shape
    (2, 3)
    """
    like = as_tensor(input)
    kind, place = dtype or like.dtype, device or like.device
    return rand(like.shape, generator=generator, dtype=kind, device=place, requires_grad=requires_grad)


def randn_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, generator: Any = None
) -> Tensor:
    """Return standard normal numbers in a tensor's shape, dtype and device.

    >>> randn_like(rand(2, 3)).shape
    (2, 3)
    """
    like = as_tensor(input)
    kind, place = dtype or like.dtype, device or like.device
    return randn(like.shape, generator=generator, dtype=kind, device=place, requires_grad=requires_grad)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return integers from low to high - 1, as randint(high, size) or randint(low, high, size).

    >>> generator = manual_seed(0); randint(0, 5, (4,))     # tenses
    tensor([4, 4, 3, 0])
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    shape = shape_of((size,))
    span = int(high) - int(low)
    if span <= 0:
        raise RuntimeError(f"randint: expects low < high, got {low} and {high}")
    source = generator or default_generator
    count = math.prod(shape)
    # From 2**28 on, a remainder of 32 bits would be too uneven; PyTorch draws 64 there.
    words = source.words64(count) if span >= 2**28 else source.words(count).astype(np.uint64)
    values = (words % np.uint64(span)).astype(np.int64) + int(low)
    return _made(values.astype(np.int64 if dtype is None else np.dtype(dtype)), shape, device, requires_grad)


def randint_like(
    input: Any, low: int, high: int | None = None, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Return integers from low to high - 1 (from 0 to low - 1) in a tensor's shape, dtype and device.

    >>> randint_like(rand(2, 3), 5).shape
    (2, 3)
    """
    like = as_tensor(input)
    bounds = (0, low) if high is None else (low, high)
    return randint(*bounds, like.shape, dtype=dtype or like.dtype, device=device or like.device)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the integers 0 to n - 1 in random order.

    >>> generator = manual_seed(0); randperm(4)
    tensor([0, 1, 3, 2])
    """
    order = list(range(n))
    words = (generator or default_generator).words(max(n - 1, 0)).tolist()
    for i, word in enumerate(words):
        j = i + word % (n - i)
        order[i], order[j] = order[j], order[i]
    return _made(np.array(order, dtype=np.int64 if dtype is None else np.dtype(dtype)), (n,), device, False)


def bernoulli(input: Any, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """Return 1 with each element's probability (or all with p), else 0.

    >>> bernoulli(as_tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None:
        return zeros_like(input).bernoulli_(p, generator=generator)
    chance = as_tensor(input)
    if chance.dtype.kind != "f" or violated(((chance._data < 0) | (chance._data > 1)).any()):
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
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return normal numbers with this mean and standard deviation, numbers or tensors: dmean = dstd = 0.

    A drawn number is a constant, as in PyTorch. For a gradient draw from distributions.Normal by rsample, or
    write mean + std * randn_like(mean).

    >>> normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std)) if size is None else shape_of((size,))
    if dtype is None:
        dtype = next((each.dtype for each in (mean, std) if isinstance(each, Tensor)), None)
    noise = randn(shape, generator=generator, dtype=dtype, device=device)
    drawn = apply(NORMAL, *promoted(noise, operand(std, "normal"), operand(mean, "normal")))
    return drawn.requires_grad_() if requires_grad else drawn


def poisson(input: Any, generator: Generator | None = None) -> Tensor:
    """Return how often something of each element's rate happens.

    >>> generator = manual_seed(0); poisson(as_tensor([3.0, 3.0, 0.0]))
    tensor([6., 3., 0.])
    """
    rates = as_tensor(input)
    drawn = (generator or default_generator).poissons(rates._data.reshape(-1))
    return new_tensor(drawn.astype(rates.dtype).reshape(rates.shape))


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **ignored: Any) -> Iterator[None]:
    """Let what is drawn inside leave no trace in the stream outside.

    >>> with fork_rng():
    ...     generator = manual_seed(1)
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


# As methods too: p.multinomial(1), p.bernoulli(). They are defined here because drawing comes after Tensor.
Tensor.multinomial = multinomial  # type: ignore[attr-defined]
Tensor.bernoulli = bernoulli  # type: ignore[attr-defined]
