"""vmap: a function of one example made a function of a batch.

Enters: a function of Tensors, and which axis of each counts the examples. Leaves: a function of the whole batch.

The examples are computed one after another and stacked. PyTorch rewrites each op for the batch instead: the
results are the same, this way is slower, and everything may be called inside, branches on values too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitorch.engine.modes import observed
from minitorch.engine.node import Node
from minitorch.func.trees import flatten, spread
from minitorch.tensor.generator import default_generator
from minitorch.tensor.methods.joining import stack

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
    out_dims: where that axis is put in the results.
    randomness: "error" refuses random numbers inside, "different" draws them for each example, "same" lets every
        example see the same.
    chunk_size: accepted; the examples are computed one at a time.

    >>> vmap(lambda x, y: (x * y).sum())(minitorch.ones(2, 3), minitorch.arange(6.0).reshape(2, 3))
    tensor([ 3., 12.])
    >>> vmap(minitorch.outer, in_dims=(None, 1), out_dims=2)(minitorch.ones(2), minitorch.ones(3, 4)).shape
    (2, 3, 4)
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        ends, build, axes = _inputs(args, in_dims)
        size = _size(ends, axes)
        results, rebuild = [], None
        start = default_generator.get_state() if randomness != "different" else None
        for i in range(size):
            if randomness == "same" and i:
                default_generator.set_state(start)  # type: ignore[arg-type]
            result = observed(func)(*build(_example(ends, axes, i)), **kwargs)
            parts, rebuild = flatten(result)
            for part in parts:
                if not isinstance(part, Node):
                    raise ValueError(
                        f"vmap: the function must return Tensors alone, got {type(part).__name__}"
                    )
            results.append(parts)
            if randomness == "error" and _moved(start):
                raise RuntimeError(
                    "vmap: the function drew random numbers; say with randomness='different' or randomness='same' "
                    "whether each example shall have its own"
                )
        places = spread(out_dims, result, "vmap: out_dims")
        return rebuild(  # type: ignore[misc]
            [_gathered(parts, place) for parts, place in zip(zip(*results, strict=True), places, strict=True)]
        )

    return batched


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


def _gathered(parts: tuple[Any, ...], place: Any) -> Any:
    if place is None:
        return parts[0]
    return stack(parts, place)


def _moved(state: Any) -> bool:
    return not _same(default_generator.get_state(), state)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_same(a[key], b[key]) for key in a)
    return bool((a == b).all()) if hasattr(a, "shape") else bool(a == b)
