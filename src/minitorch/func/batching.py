"""vmap: a function of one example made a function of a batch.

Enters: a function of Tensors, and which axis of each counts the examples. Leaves: a function of the whole batch.

The function runs once. The Tensors it is given hold arrays of all examples that look like the array of one
(func/batched), and each op computes all of them at once, by the same lines of NumPy as ever; backward likewise. Where a
function asks for a value of its own for each example (a branch, `.item()`) they are computed one after the other.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from minitorch.engine.gpu import gpu_count
from minitorch.engine.modes import is_grad_enabled, observed
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.recording import refuse_inside_recording
from minitorch.engine.versions import note_viewed, synced
from minitorch.engine.watch import memory_of, owner_of
from minitorch.func.batched.arrays import FROM_BATCH, TO_BATCH, Batched, EachAlone, Level, warn_of_the_loop
from minitorch.func.trees import flatten, spread
from minitorch.tensor.devices import device
from minitorch.tensor.generator import StreamState, default_generator, device_generators, generator_of
from minitorch.tensor.methods.joining import cat, stack

Func = Callable[..., Any]


def vmap(
    func: Func,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Func:
    """Return the function that applies `func` to every example of a batch and stacks what it returns.

    in_dims: the axis of the examples in each argument, None for one that all of them share; a number for all
        arguments, or a tuple with an entry per argument, each of which may be nested as the argument is. What is
        given by keyword all of them share.
    out_dims: where that axis is put in the results; None for a result that all examples share.
    randomness: "error" refuses random numbers inside, "different" draws them for each example (one draw for all, the
        same numbers as PyTorch's vmap), "same" lets every example see the same.
    chunk_size: compute so many examples at a time, which takes less memory.

    >>> vmap(lambda x, y: (x * y).sum())(minitorch.ones(2, 3), minitorch.arange(6.0).reshape(2, 3))
    tensor([ 3., 12.])
    >>> vmap(minitorch.outer, in_dims=(None, 1), out_dims=2)(minitorch.ones(2), minitorch.ones(3, 4)).shape
    (2, 3, 4)
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size must be None or at least 1, got {chunk_size}")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        ends, build, axes = _inputs(args, in_dims)
        size = _size(ends, axes)
        call = lambda given: observed(func)(*build(given), **kwargs)
        if chunk_size is None or chunk_size >= size:
            results, rebuild, places = _computed(call, ends, axes, size, out_dims, randomness)
            return rebuild(results)
        chunks = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            part = [e if a is None else e.narrow(a, start, count) for e, a in zip(ends, axes, strict=True)]
            results, rebuild, places = _computed(call, part, axes, count, out_dims, randomness)
            chunks.append(results)
        joined = zip(zip(*chunks, strict=True), places, strict=True)
        return rebuild([parts[0] if place is None else cat(parts, place) for parts, place in joined])

    return batched


Call = Callable[[list[Any]], Any]
Computed = tuple[list[Any], Any, list[Any]]  # the results' ends, what builds a tree of them, and their axes


def _computed(
    call: Call, ends: list[Any], axes: list[Any], size: int, out_dims: Any, randomness: str
) -> Computed:
    """Compute all examples: at once, or, where the function does not allow that, one after the other."""
    before, level = _streams(), Level(size, randomness)
    try:
        return _at_once(call, ends, axes, level, out_dims)
    except EachAlone as error:
        if error.level is not level:
            raise
        why = error.why
    for stream in before:
        stream.restore()
    warn_of_the_loop(why, stacklevel=4)
    return _one_by_one(call, ends, axes, size, out_dims, randomness)


# --- at once --------------------------------------------------------------------------------------


def _at_once(call: Call, ends: list[Any], axes: list[Any], level: Level, out_dims: Any) -> Computed:
    given = [x if axis is None else _enter(x, axis, level) for x, axis in zip(ends, axes, strict=True)]
    with level:
        result = call(given)
    parts, rebuild, places = _outputs(result, out_dims)
    owners = {id(owner_of(x._array)) for x in ends if isinstance(x, Node)}
    return (
        [_leave(part, place, level, owners) for part, place in zip(parts, places, strict=True)],
        rebuild,
        places,
    )


def _enter(x: Any, axis: int, level: Level) -> Any:
    """Return a Tensor of all examples that looks like one; it sees x's memory, and writes into it if x has no graph."""
    data = TO_BATCH.forward(memory_of(synced(x)._data), level=level, axis=axis)
    if not (x._requires_grad and is_grad_enabled()):
        note_viewed(x)
        return new_tensor(data)
    if hasattr(data.array.flags, "writeable"):
        data.array = data.array.view()
        data.array.flags.writeable = False
    return new_tensor(data, TO_BATCH, (x,), {"level": level, "axis": axis})


def _leave(x: Any, place: Any, level: Level, owners: set[int]) -> Any:
    """Return the Tensor of all examples as what it is, with their axis at a place."""
    at_level = isinstance(x._data, Batched) and x._data.level is level
    if place is None:
        if at_level:
            raise ValueError(
                "vmap: out_dims=None is for a result that all examples share, but this one differs"
            )
        return x
    ndim = x._data.ndim + 1
    if not -ndim <= place < ndim:
        raise IndexError(f"vmap: out_dims={place} is no axis of a result with {ndim} axes")
    how = {"level": level, "axis": place % ndim}
    data = FROM_BATCH.forward(synced(x)._data, **how)
    if not at_level or id(owner_of(data)) in owners:
        data = data.copy()
    if x._requires_grad and is_grad_enabled():
        return new_tensor(data, FROM_BATCH, (x,), how)
    return new_tensor(data)


def _outputs(result: Any, out_dims: Any) -> Computed:
    parts, rebuild = flatten(result)
    for part in parts:
        if not isinstance(part, Node):
            raise ValueError(f"vmap: the function must return Tensors alone, got {type(part).__name__}")
    return parts, rebuild, spread(out_dims, result, "vmap: out_dims")


# --- one after the other ------------------------------------------------------------------------------


def _one_by_one(
    call: Call, ends: list[Any], axes: list[Any], size: int, out_dims: Any, randomness: str
) -> Computed:
    results: list[Any] = []
    if randomness != "different":
        refuse_inside_recording("the state of a random generator")
    if "cupy" in sys.modules:  # whose streams begin when they are first asked for: now
        for number in range(gpu_count()):
            generator_of(device("cuda", number))
    before = _streams()
    for i in range(size):
        if randomness == "same" and i:
            for stream in before:
                stream.restore()
        result = call(_example(ends, axes, i))
        parts, rebuild, places = _outputs(result, out_dims)
        results.append(parts)
        if randomness == "error" and not all(stream.holds() for stream in before):
            raise RuntimeError(
                "vmap: the function drew random numbers; say with randomness='different' or randomness='same' "
                "whether each example shall have its own"
            )
    gathered = zip(zip(*results, strict=True), places, strict=True)
    return [parts[0] if place is None else stack(parts, place) for parts, place in gathered], rebuild, places


# --- arguments ----------------------------------------------------------------------------------------


def _inputs(args: tuple[Any, ...], in_dims: Any) -> tuple[list[Any], Any, list[Any]]:
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap: in_dims must be an int, or a tuple with an entry per argument, got {in_dims!r}"
        )
    ends, build = flatten(args)
    axes = spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args, "vmap: in_dims")
    for end, axis in zip(ends, axes, strict=True):
        if axis is None:
            continue
        if not isinstance(axis, int):
            raise ValueError(f"vmap: in_dims holds ints and None, got {axis!r}")
        if not isinstance(end, Node):
            raise ValueError(
                f"vmap: in_dims={in_dims} asks for axis {axis} of a {type(end).__name__}; None is for what all share"
            )
        if not -end._data.ndim <= axis < end._data.ndim:
            raise ValueError(
                f"vmap: in_dims={in_dims} asks for axis {axis} of a tensor of shape {end._data.shape}"
            )
    return ends, build, axes


def _size(ends: list[Any], axes: list[Any]) -> int:
    sizes = {end._data.shape[axis] for end, axis in zip(ends, axes, strict=True) if axis is not None}
    if not sizes:
        raise ValueError("vmap: no argument has an axis of examples: in_dims is None for all")
    if len(sizes) > 1:
        raise ValueError(f"vmap: the arguments hold different numbers of examples: {sorted(sizes)}")
    (size,) = sizes
    if size == 0:
        raise ValueError("vmap: there are no examples, so the results' shapes are not known")
    return int(size)


def _example(ends: list[Any], axes: list[Any], i: int) -> list[Any]:
    return [end if axis is None else end.select(axis, i) for end, axis in zip(ends, axes, strict=True)]


def _streams() -> list[StreamState]:
    """Return where the streams of random numbers are: the CPU's, and those of devices."""
    return [StreamState(stream) for stream in (default_generator, *device_generators.values())]
