"""Random tensors, drawn from generator.py. Enters: shapes. Leaves: leaves with random values.

The same seed gives the same numbers as PyTorch: bit for bit for uniforms and integers, to rounding for normals.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch.creation import laid_out
from minitorch.engine.bfloat16 import meet_bfloat16
from minitorch.engine.dtypes import get_default_dtype, kind_of
from minitorch.engine.node import new_tensor
from minitorch.engine.record import apply
from minitorch.ops.arithmetic import NORMAL
from minitorch.tensor import Tensor, move
from minitorch.tensor.convert import as_tensor, operand, promoted, shape_of
from minitorch.tensor.devices import CPU, gpu_of
from minitorch.tensor.generator import (
    Generator,
    default_generator,
    device_generators,
    seed_devices,
    source_for,
)
from minitorch.tensor.generator import use_own_stream as use_own_stream
from minitorch.tensor.memory_order import in_axis_order, laid_out_like
from minitorch.tensor.methods.random import bernoulli as bernoulli
from minitorch.tensor.methods.random import multinomial as multinomial


def manual_seed(seed: int) -> Generator:
    """Seed the generator all random functions use, and those of all GPUs; the same seed gives the same numbers.

    >>> generator = manual_seed(0); rand(2)
    tensor([0.4963, 0.7682])
    """
    seeded = default_generator.manual_seed(seed)
    seed_devices(int(seed))
    return seeded


def seed() -> int:
    """Seed the default generator from the system's randomness, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """Return the state of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: Any) -> None:
    """Continue the default generator from a state that get_rng_state returned."""
    default_generator.set_state(state)


def _source(generator: Generator | None, device: Any, name: str) -> Generator:
    """Return who draws numbers for a new tensor on a device (None: the generator's, or the default one)."""
    if generator is not None and device is None:
        return generator
    return source_for(generator, gpu_of(device) or CPU, name)


def _made(
    values: np.ndarray, shape: tuple[int, ...], device: Any, requires_grad: bool, options: Any = None
) -> Tensor:
    out = new_tensor(values.reshape(shape))
    if device is not None:
        out = move(out, device)
    if options:
        out = laid_out(out, **options)
    return out.requires_grad_() if requires_grad else out


def _drawn(draw: Any, count: int, dtype: Any, name: str, spread: float) -> np.ndarray:
    """Draw `count` numbers; of complex ones both parts, with `spread` times the deviation."""
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    if chosen.kind == "c":
        part = np.empty(0, chosen).real.dtype
        return (draw(2 * count, part) * spread).view(chosen)
    if kind_of(chosen) != "f":
        raise RuntimeError(f"{name}: dtype must be floating-point or complex, got {chosen}")
    meet_bfloat16(chosen)
    return draw(count, chosen)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return uniform numbers from [0, 1).

    >>> generator = manual_seed(0); rand(2, 2)
    tensor([[0.4963, 0.7682],
            [0.0885, 0.1320]])
    """
    shape = shape_of(size)
    values = _drawn(_source(generator, device, "rand").uniforms, math.prod(shape), dtype, "rand", 1.0)
    return _made(values, shape, device, requires_grad, options)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return standard normal numbers; complex ones have a variance of 1/2 in each part.

    >>> generator = manual_seed(0); randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    shape = shape_of(size)
    values = _drawn(
        _source(generator, device, "randn").normals, math.prod(shape), dtype, "randn", math.sqrt(0.5)
    )
    return _made(values, shape, device, requires_grad, options)


def rand_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
    **options: Any,
) -> Tensor:
    """Return uniform numbers in a tensor's shape, dtype and device.

    >>> rand_like(rand(2, 3)).shape
    (2, 3)
    """
    like = as_tensor(input)
    kind, place = dtype or like.dtype, device or like.device
    source = _source(generator, place, "rand_like")
    values = _drawn(source.uniforms, like.numel(), kind, "rand_like", 1.0)
    return _made(laid_out_like(values, like._data), like.shape, place, requires_grad, options)


def randn_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
    **options: Any,
) -> Tensor:
    """Return standard normal numbers in a tensor's shape, dtype and device.

    >>> randn_like(rand(2, 3)).shape
    (2, 3)
    """
    like = as_tensor(input)
    kind, place = dtype or like.dtype, device or like.device
    contiguous = in_axis_order(like._data)
    source = _source(generator, place, "randn_like")
    draw = lambda count, part: source.normals(count, part, contiguous)
    values = _drawn(draw, like.numel(), kind, "randn_like", math.sqrt(0.5))
    return _made(laid_out_like(values, like._data), like.shape, place, requires_grad, options)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
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
    source = _source(generator, device, "randint")
    count = math.prod(shape)
    # From 2**28 on, a remainder of 32 bits would be too uneven; PyTorch draws 64 there.
    words = source.words64(count) if span >= 2**28 else source.words(count).astype(np.uint64)
    values = (words % span).astype(np.int64) + int(low)
    return _made(
        values.astype(np.int64 if dtype is None else np.dtype(dtype)), shape, device, requires_grad, options
    )


def randint_like(
    input: Any,
    low: int | None = None,
    high: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    memory_format: Any = None,
) -> Tensor:
    """Return integers from low to high - 1 (from 0 to low - 1) in a tensor's shape, dtype and device.

    >>> randint_like(rand(2, 3), 5).shape
    (2, 3)
    """
    like = as_tensor(input)
    if low is None and high is None:
        raise TypeError("randint_like: expects high, or low and high")
    bounds = (0, low if high is None else high) if low is None or high is None else (low, high)
    drawn = randint(*bounds, (like.numel(),), dtype=dtype or like.dtype, device=device or like.device)
    return new_tensor(laid_out_like(drawn._data, like._data))


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    """Return the integers 0 to n - 1 in random order.

    >>> generator = manual_seed(0); randperm(4)
    tensor([0, 1, 3, 2])
    """
    order = _source(generator, device, "randperm").permutation(n)
    return _made(
        order.astype(np.int64 if dtype is None else np.dtype(dtype), copy=False), (n,), device, False, options
    )


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
    if device is None:  # a tensor's, if there is one
        device = next((each.device for each in (mean, std) if isinstance(each, Tensor)), None)
    noise = randn(shape, generator=generator, dtype=dtype, device=device)
    drawn = apply(NORMAL, *promoted(noise, operand(std, "normal"), operand(mean, "normal")))
    return drawn.requires_grad_() if requires_grad else drawn


def poisson(input: Any, generator: Generator | None = None) -> Tensor:
    """Return how often something of each element's rate happens.

    >>> generator = manual_seed(0); poisson(as_tensor([3.0, 3.0, 0.0]))
    tensor([6., 3., 0.])
    """
    rates = as_tensor(input)
    drawn = source_for(generator, rates.device, "poisson").poissons(rates._data.reshape(-1))
    return new_tensor(drawn.astype(rates.dtype).reshape(rates.shape))


def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Tensor:
    """Return how many of each element's count of trials succeed, each with its probability.

    >>> generator = manual_seed(0); binomial(as_tensor([10.0, 10.0]), as_tensor([0.0, 1.0]))
    tensor([ 0., 10.])
    """
    counts, chances = promoted(as_tensor(count), as_tensor(prob))
    if not bool(((chances >= 0) & (chances <= 1)).all()):
        raise RuntimeError("binomial: probabilities lie between 0 and 1")
    shape = np.broadcast_shapes(counts.shape, chances.shape)
    flat = [np.broadcast_to(each._data, shape).reshape(-1) for each in (counts, chances)]
    drawn = source_for(generator, counts.device, "binomial").binomials(*flat)
    return new_tensor(drawn.astype(counts.dtype).reshape(shape))


class RandomStates:
    """Where the default generator is, and those of the GPUs in use: to draw the same numbers again."""

    def __init__(self) -> None:
        self._here = get_rng_state()
        self._there = {number: each.get_state() for number, each in device_generators.items()}

    def restore(self) -> None:
        """Put them back; a GPU's that was made since, to where it began."""
        set_rng_state(self._here)
        for number, each in device_generators.items():
            if number in self._there:
                each.set_state(self._there[number])
            else:
                each.manual_seed(each.initial_seed())


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **ignored: Any) -> Iterator[None]:
    """Let what is drawn inside leave no trace in the stream outside, nor in those of GPUs that are in use.

    >>> with fork_rng():
    ...     generator = manual_seed(1)
    """
    states = RandomStates() if enabled else None
    try:
        yield
    finally:
        if states is not None:
            states.restore()
