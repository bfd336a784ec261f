"""The same elements in another shape or order: views where NumPy can, copies where it must.

Enters: an array. Leaves: an array holding (some of) the same values. Backward puts each gradient back where its
value came from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minitorch.ops.indexing import PUT_ADD
from minitorch.ops.native import copied, is_on_gpu
from minitorch.ops.op import Array, Op, in_axis_order, order_of, zeros


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `axes`.

    >>> inverse_permutation((2, 0, 1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


# --- views ---------------------------------------------------------------------------------------

RESHAPE = Op(
    "reshape",
    lambda x, *, shape: x.reshape(shape),
    lambda g, out, x, *, shape: g.reshape(x.shape),
)
PERMUTE = Op(
    "permute",
    lambda x, *, axes: x.transpose(axes),
    lambda g, out, x, *, axes: g.transpose(inverse_permutation(axes)),
)
# The rule returns g as it is: summing over stretched axes is what the engine does anyway.
BROADCAST_TO = Op(
    "broadcast_to",
    lambda x, *, shape: np.broadcast_to(x, shape),
    lambda g, out, x, *, shape: g,
)

# --- copies --------------------------------------------------------------------------------------

# An array of its own, as in PyTorch: NumPy's is a view from the other end, which few others can look through.
FLIP = Op(
    "flip", lambda x, *, axis: np.flip(x, axis).copy(order_of(x)), lambda g, out, x, *, axis: np.flip(g, axis)
)
# An array of its own: what a person gets from clone() can be written into without touching the source.
# It lies in memory as the source does, or in the order of its axes ("C").
CLONE = Op(
    "clone", lambda x, *, order=None: copied(x, order or order_of(x)), lambda g, out, x, *, order=None: g
)


def _tile_rule(g: Array, out: Array, x: Array, *, times: tuple[int, ...]) -> Array:
    # Each axis of length r·n is split into r copies of n; the copies are summed.
    lengths = (1,) * (len(times) - x.ndim) + tuple(x.shape)
    split = tuple(n for pair in zip(times, lengths, strict=True) for n in pair)
    return g.reshape(split).sum(axis=tuple(range(0, len(split), 2))).reshape(x.shape)


TILE = Op("tile", lambda x, *, times: np.tile(x, times), _tile_rule)
ROLL = Op(
    "roll",
    lambda x, *, shifts, axis: in_axis_order(np.roll(x, shifts, axis)),
    lambda g, out, x, *, shifts, axis: np.roll(
        g, tuple(-s for s in shifts) if isinstance(shifts, tuple) else -shifts, axis
    ),
)


def _pad(x: Array, *, widths: tuple[tuple[int, int], ...], value: float) -> Array:
    # A negative width crops.
    cropped = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True))]
    grow = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    return in_axis_order(np.pad(cropped, grow, constant_values=value)) if grow else cropped.copy()


PAD: Op = Op(
    "pad",
    _pad,
    lambda g, out, x, *, widths, value: PAD(g, widths=tuple((-a, -b) for a, b in widths), value=0.0),
)

# --- triangles, diagonals, windows ---------------------------------------------------------------

TRIL = Op(
    "tril", lambda x, *, k: in_axis_order(np.tril(x, k)), lambda g, out, x, *, k: np.tril(g, k), there=True
)
TRIU = Op(
    "triu", lambda x, *, k: in_axis_order(np.triu(x, k)), lambda g, out, x, *, k: np.triu(g, k), there=True
)


def _put_diagonal(x: Array, *, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> Array:
    """Zeros of `shape` with the last axis of `x` along a diagonal of two axes."""
    out = zeros(shape, x)
    places = np.arange(x.shape[-1], like=x).astype(np.int64)
    moved = np.moveaxis(out, (axis1, axis2), (-2, -1))
    moved[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return out


def _diagonal(x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    out = np.diagonal(x, offset, axis1, axis2)
    if isinstance(out, np.ndarray) and out.base is not None and isinstance(x, np.ndarray):
        # NumPy's view is read only; PyTorch's is written into.
        out.flags.writeable = x.flags.writeable
    return out


DIAGONAL = Op(
    "diagonal",
    _diagonal,
    lambda g, out, x, *, offset, axis1, axis2: PUT_DIAGONAL(
        g, shape=x.shape, offset=offset, axis1=axis1, axis2=axis2
    ),
    whole=True,
)
PUT_DIAGONAL: Op = Op(
    "put_diagonal",
    _put_diagonal,
    lambda g, out, x, *, shape, offset, axis1, axis2: np.diagonal(g, offset, axis1, axis2),
)


def _unfold(x: Array, *, axis: int, size: int, step: int) -> Array:
    # (Windows that do not overlap are written into.)
    options = {"writeable": True} if x.__class__ is np.ndarray and step >= size and x.flags.writeable else {}
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=axis, **options)
    return windows[(slice(None),) * axis + (slice(None, None, step),)]


def _fold(x: Array, *, axis: int, size: int, step: int, shape: tuple[int, ...]) -> Array:
    """Add overlapping windows (on the last axis) back to where they were cut from."""
    out = zeros(shape, x)
    count = x.shape[axis]
    for i in range(size):
        place = (slice(None),) * axis + (slice(i, i + step * (count - 1) + 1, step),)
        out[place] += x[..., i]
    return out


def places_in_memory(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, like: Array) -> Array:
    """Return where in memory each element lies, counted in elements."""
    places = np.zeros(shape, np.int64, like=like) + offset
    for axis, (n, step) in enumerate(zip(shape, strides, strict=True)):
        places = places + (np.arange(n, like=like) * step).reshape((n,) + (1,) * (len(shape) - axis - 1))
    return places


def _last_place(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> int:
    return offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def _memory_of(x: Array) -> Array:
    """Return the array that x is a view of."""
    while x.base.__class__ is x.__class__:
        x = x.base
    return x


def flattened(x: Array) -> Array | None:
    """Return all elements of an array in the order in which they lie, as a view; None if there are gaps."""
    flat = x.transpose(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))
    return flat.reshape(-1) if flat.flags.c_contiguous else None


def offset_in_memory(x: Array) -> int:
    """Return how many elements lie before an array's first in the memory that it looks at.

    >>> offset_in_memory(np.arange(5)[2:])
    2
    """
    if is_on_gpu(x):
        return (x.data.ptr - _memory_of(x).data.ptr) // x.itemsize
    if x.__class__ is not np.ndarray:
        return getattr(x, "offset_in_memory", 0)
    return (x.ctypes.data - _memory_of(x).ctypes.data) // x.itemsize


def view_by_steps(flat: Array, first: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array | None:
    """Return a view of elements in a row, from one on, by steps, made by slices alone; None: there is none.

    (CuPy's own views by steps do not tell whose memory they look at.)

    >>> view_by_steps(np.arange(12), 1, (2, 3), (1, 4)).tolist(), view_by_steps(np.arange(9), 0, (2, 2), (1, 1))
    ([[1, 5, 9], [2, 6, 10]], None)
    """
    order = sorted((axis for axis, n in enumerate(shape) if n > 1), key=lambda axis: -strides[axis])
    if 0 in shape or any(not strides[axis] for axis in order):
        return None
    out = flat
    for k, axis in enumerate(order):
        n, step = shape[axis], strides[axis]
        if axis == order[-1]:
            out = out[..., first : first + (n - 1) * step + 1 : step]
            break
        # Blocks of as many elements as a step is: all that lies at one place of this axis has to be in one of them.
        begin, first = first // step * step, first % step
        reach = first + sum((shape[inner] - 1) * strides[inner] for inner in order[k + 1 :])
        if reach >= step or begin + n * step > out.shape[-1]:
            return None
        out = out[..., begin : begin + n * step].reshape(*out.shape[:-1], n, step)
    if not order:
        return out[first : first + 1].reshape(shape)
    return out.transpose([order.index(axis) for axis in sorted(order)]).reshape(shape)


def _as_strided(
    x: Array, *, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, own: tuple[int, ...]
) -> Array:
    there = is_on_gpu(x)
    if x.__class__ is not np.ndarray and not there:  # as if it lay in the order of its axes
        return x.reshape(-1)[places_in_memory(shape, strides, offset, like=x)]
    whole, first = _memory_of(x), offset_in_memory(x) + offset
    last, room = _last_place(shape, strides, first), whole.nbytes // x.itemsize
    if 0 not in shape and not 0 <= first <= last < room:
        raise RuntimeError(
            f"as_strided: size {shape} with stride {strides} ends at element {last}, but the memory has {room}"
        )
    flat = flattened(whole)
    if flat is None:
        raise RuntimeError(
            f"as_strided: the memory beneath shape {tuple(x.shape)} has gaps; write x.contiguous() first"
        )
    if not there:
        steps = tuple(step * x.itemsize for step in strides)
        return np.ndarray(shape, x.dtype, flat.view(np.uint8), first * x.itemsize, steps)
    flat = flat.view(x.dtype)
    found = view_by_steps(flat, first, shape, strides)
    return flat[places_in_memory(shape, strides, first, like=x)] if found is None else found


# A shape, the strides of its axes in memory, in elements, and where the first element lies.
Layout = tuple[tuple[int, ...], tuple[int, ...], int]


def _sum_by_place(x: Array, *, source: Layout, target: Layout) -> Array:
    """Return, laid out as `target`, the sum of those elements of x that `source` lays at each place in memory."""
    given, wanted = places_in_memory(*source, like=x), places_in_memory(*target, like=x)
    if not given.size or not wanted.size:
        return zeros(target[0], x)
    first = min(source[2], target[2])
    length = max(_last_place(*source), _last_place(*target)) - first + 1
    return PUT_ADD(x.reshape(-1), key=(given - first).reshape(-1), shape=(length,))[wanted - first]


SUM_BY_PLACE: Op = Op(
    "sum_by_place",
    _sum_by_place,
    lambda g, out, x, *, source, target: SUM_BY_PLACE(g, source=target, target=source),
)
# own: the strides of x itself; offset: from its first element. Each place in memory gets what its readers send, and
# each element of x what its place got.
AS_STRIDED = Op(
    "as_strided",
    _as_strided,
    lambda g, out, x, *, shape, strides, offset, own: SUM_BY_PLACE(
        g, source=(shape, strides, offset), target=(x.shape, own, 0)
    ),
    whole=True,
)

UNFOLD = Op(
    "unfold",
    _unfold,
    lambda g, out, x, *, axis, size, step: FOLD(g, axis=axis, size=size, step=step, shape=x.shape),
)
FOLD: Op = Op(
    "fold_windows",
    _fold,
    lambda g, out, x, *, axis, size, step, shape: UNFOLD(g, axis=axis, size=size, step=step),
)
