"""Convolution in any number of dimensions: windows laid out as columns, then one matmul.

Enters: images (N, C, d1, …) and kernels (O, C/groups, k1, …). Leaves: their convolution, its transpose,
its gradient for the kernel; and the columns themselves (im2col) with the way back (col2im).

A convolution y = x ⋆ w is linear in x and in w, so three ops are each other's derivatives and every
order of differentiation stays among them:

    y = CONVOLUTION(x, w)              y[o, p] = Σ_{c,t} x[c, s·p + d·t - a] · w[o, c, t]
    x = CONVOLUTION_TRANSPOSE(y, w)    the gradient of ⟨y, x ⋆ w⟩ for x
    w = CONVOLUTION_WEIGHT(x, y)       the gradient of ⟨y, x ⋆ w⟩ for w

with s the stride, d the dilation, a the zeros added in front, t a tap of the kernel. `padding` is a pair
(before, after) per axis; a negative number cuts off instead of adding. In a transposed convolution the
same pair is taken away, so that output_padding is simply less taken away behind.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch.ops import pieces
from minitorch.ops.narrow import takes_narrow
from minitorch.ops.native import BATCH, FIRST, is_of_device, kernels_as_of, natively, natively_there
from minitorch.ops.op import Array, Op, zeros

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
Key = tuple[Any, ...]  # an index: `x[key]`

# How many numbers the columns of one step may hold: about what stays in a core's second-level cache
# while the matmul reads it. Measured best between 2**18 and 2**20.
_COLUMNS = 2**19


# --- where windows lie ----------------------------------------------------------------------------


def window_count(size: Sizes, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes) -> Sizes:
    """Return how many windows fit along each axis.

    >>> window_count((28, 28), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
    (14, 14)
    """
    return tuple(
        (n + a + b - d * (k - 1) - 1) // s + 1
        for n, k, s, (a, b), d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def covered_size(count: Sizes, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes) -> Sizes:
    """Return the size that `count` windows cover exactly, without the padding.

    >>> covered_size((14, 14), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
    (27, 27)
    """
    return tuple(
        s * (o - 1) + d * (k - 1) + 1 - a - b
        for o, k, s, (a, b), d in zip(count, kernel, stride, padding, dilation, strict=True)
    )


def _exactly(
    size: Sizes, count: Sizes, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Pairs:
    """Return the padding with which the windows end where the image does.

    With a stride, the last windows may stop short of the end. What they never saw is cut off.
    """
    covered = covered_size(count, kernel, stride, padding, dilation)
    return tuple((a, b - (n - c)) for (a, b), n, c in zip(padding, size, covered, strict=True))


def taps(kernel: Sizes) -> Iterator[tuple[int, Sizes]]:
    """Number the taps of a kernel: (0, (0, 0)), (1, (0, 1)), …"""
    return enumerate(np.ndindex(*kernel))


def places(tap: Sizes, count: Sizes, stride: Sizes, dilation: Sizes) -> Key:
    """Return the index of a padded image at which one tap meets the windows, window by window."""
    return (
        ...,
        *(
            slice(d * t, d * t + s * (o - 1) + 1, s)
            for t, o, s, d in zip(tap, count, stride, dilation, strict=True)
        ),
    )


def inside(size: Sizes, padding: Pairs) -> tuple[Key, Key]:
    """Return what an image and its padded form share: an index of the image, and one of the padded."""
    pairs = list(zip(size, padding, strict=True))
    of_image = (..., *(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in pairs))
    of_padded = (..., *(slice(max(a, 0), n + a + b - max(b, 0)) for n, (a, b) in pairs))
    return of_image, of_padded


def padded(x: Array, padding: Pairs, value: float = 0) -> Array:
    """Return `x` with a border around its last axes; `x` itself where there is none."""
    if not any(a or b for a, b in padding):
        return x
    lead = x.ndim - len(padding)
    size = x.shape[lead:]
    grown = tuple(n + a + b for n, (a, b) in zip(size, padding, strict=True))
    make = np.zeros if value == 0 else np.empty
    out = make((*x.shape[:lead], *grown), dtype=x.dtype, like=x)
    if value != 0:
        out[...] = value
    of_image, of_padded = inside(size, padding)
    out[of_padded] = x[of_image]
    return out


def unpadded(x: Array, size: Sizes, padding: Pairs) -> Array:
    """Undo `padded`: cut the border off again, give zeros for what had been cut off."""
    if not any(a or b for a, b in padding):
        return x
    of_image, of_padded = inside(size, padding)
    if not any(a < 0 or b < 0 for a, b in padding):
        return x[of_padded]
    out = np.zeros((*x.shape[: x.ndim - len(size)], *size), dtype=x.dtype, like=x)
    out[of_image] = x[of_padded]
    return out


# --- columns --------------------------------------------------------------------------------------


class _Grid:
    """How the windows of padded images are numbered, one column each.

    Two ways. Usually column p is window p. With stride 1 there is a faster one: number *every* place of
    the padded image up to the last window, row after row. Then the column of tap t is the flattened image
    shifted by a constant, one long run to copy instead of a short one per row; a few columns, at the
    end of each row, hold windows that wrap around, and are left out of the result.
    """

    def __init__(self, size: Sizes, kernel: Sizes, count: Sizes, stride: Sizes, dilation: Sizes) -> None:
        self.size, self.kernel, self.count = size, kernel, count
        self.stride, self.dilation = stride, dilation
        self.taps = math.prod(kernel)
        # How far apart in the flattened image are neighbours along each axis?
        self.steps = tuple(math.prod(size[i + 1 :]) for i in range(len(size)))
        self.run = 1 + sum((o - 1) * step for o, step in zip(count, self.steps, strict=True))
        self.by_runs = all(s == 1 for s in stride) and self.run <= 1.5 * math.prod(count)
        # The shape of the numbered places; windows are the corner `[:count]` of it.
        self.shape = (count[0], *size[1:]) if self.by_runs else count
        self.columns = math.prod(self.shape)
        self.corner: Key = (..., *(slice(o) for o in count))

    def shift(self, tap: Sizes) -> slice:
        start = sum(t * d * step for t, d, step in zip(tap, self.dilation, self.steps, strict=True))
        return slice(start, start + self.run)

    def cut(self, images: Array) -> Array:
        """Lay the windows of (C, B, *size) out as columns: (C, taps, B, columns)."""
        lead = images.shape[:2]
        if not self.by_runs:
            axes = tuple(range(2, images.ndim))
            spans = tuple(d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True))
            windows = np.lib.stride_tricks.sliding_window_view(images, spans, axes)  # (C, B, *count, *kernel)
            every = (
                *(slice(None, None, s) for s in self.stride),
                *(slice(None, None, d) for d in self.dilation),
            )
            windows = windows[(slice(None), slice(None), *every)]
            rank = len(self.size)
            order = (0, *range(2 + rank, 2 + 2 * rank), 1, *range(2, 2 + rank))
            # Until here all is a view; this reshape is the one copy.
            return windows.transpose(order).reshape((lead[0], self.taps, lead[1], self.columns))
        flat = images.reshape((*lead, -1))
        out = np.empty((lead[0], self.taps, lead[1], self.columns), dtype=images.dtype, like=images)
        out[..., self.run :] = 0
        for number, tap in taps(self.kernel):
            out[:, number, :, : self.run] = flat[:, :, self.shift(tap)]
        return out

    def add_up(self, columns: Array) -> Array:
        """Add columns (C, taps, B, columns) back into images (C, B, *size): the transpose of `cut`."""
        lead = (columns.shape[0], columns.shape[2])
        out = np.zeros((*lead, *self.size), dtype=columns.dtype, like=columns)
        flat = out.reshape((*lead, -1))
        for number, tap in taps(self.kernel):
            if self.by_runs:
                flat[:, :, self.shift(tap)] += columns[:, number, :, : self.run]
            else:
                place = places(tap, self.count, self.stride, self.dilation)
                out[place] += columns[:, number].reshape((*lead, *self.count))
        return out

    def spread(self, results: Array) -> Array:
        """Put results (B, O, *count) at their columns, zeros at the others: (O, B, columns)."""
        swapped = results.swapaxes(0, 1)
        lead = swapped.shape[:2]
        if not self.by_runs:
            return swapped.reshape((*lead, self.columns))
        out = np.zeros((*lead, *self.shape), dtype=results.dtype, like=results)
        out[self.corner] = swapped
        return out.reshape((*lead, self.columns))


def _steps(batch: int, rows: int, columns: int, like: Array) -> Iterator[slice]:
    """Cut a batch into parts whose columns fit the cache; elsewhere than on the CPU, into one."""
    step = max(1, _COLUMNS // max(1, rows * columns)) if isinstance(like, np.ndarray) else max(batch, 1)
    return (slice(start, start + step) for start in range(0, batch, step))


def _product(a: Array, b: Array) -> Array:
    """Multiply matrices; a column times a row, as in a depthwise convolution, is faster by broadcasting."""
    return a * b if a.shape[-1] == 1 else a @ b


def _is_plain(kernel: Sizes, stride: Sizes, padding: Pairs) -> bool:
    """Tell whether each window is one element, so that the image is its own columns: 1×1, stride 1."""
    return all(k == 1 for k in kernel) and all(s == 1 for s in stride) and not any(a or b for a, b in padding)


# --- depthwise: each channel has a kernel of its own ------------------------------------------------
#
# Nothing is shared between channels: there is no product of matrices, but for each tap one of the shifted images with a
# number per channel. Large batches go through memory once that way, by native kernels; NumPy takes columns here too.
# Weights are (C, taps).


def _each_tap(x: Array, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes) -> Iterator[Array]:
    """Give what each tap meets, window by window."""
    count = window_count(x.shape[2:], kernel, stride, padding, dilation)
    of_image, _ = inside(x.shape[2:], padding)
    border = [(max(a, 0), max(b, 0)) for a, b in padding]
    images = np.pad(x[of_image], ((0, 0), (0, 0), *border))  # (its first length may vary from call to call)
    return (images[places(tap, count, stride, dilation)] for _, tap in taps(kernel))


def _by_taps(x: Array, w: Array, bias: Array | None = None, *, kernel: Sizes, **how: Any) -> Array:
    ones = (1,) * len(kernel)
    products = [
        met * w[:, number].reshape((-1, *ones)) for number, met in enumerate(_each_tap(x, kernel, **how))
    ]
    found = sum(products[1:], products[0])
    return found if bias is None else found + bias.reshape((-1, *ones))


def _turned(kernel: Sizes, padding: Pairs, dilation: Sizes) -> Pairs:
    """Return the padding of the convolution, by the kernel turned round, that undoes one of stride 1."""
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return tuple((r - a, r - b) for r, (a, b) in zip(reach, padding, strict=True))


def _by_taps_transposed(
    y: Array, w: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    """Add up what each place of the image gets from the taps that have met it.

    Place i was met by tap t of window o if i = s·o + d·t. So places whose remainders by s are equal get something from
    the same taps, and lie as densely as the windows do: each such part of the image is computed by itself.
    """
    if all(s == 1 for s in stride):
        turned = _turned(kernel, padding, dilation)
        return _by_taps(y, w[:, ::-1], kernel=kernel, stride=stride, padding=turned, dilation=dilation)
    size = covered_size(y.shape[2:], kernel, stride, padding, dilation)
    length = [-(-(n + a + b) // s) for n, (a, b), s in zip(size, padding, stride, strict=True)]
    first = [d * (k - 1) // s for d, k, s in zip(dilation, kernel, stride, strict=True)]
    around = [(f, n - o) for f, n, o in zip(first, length, y.shape[2:], strict=True)]
    y = np.pad(y, ((0, 0), (0, 0), *around))
    parts: dict[Sizes, Array] = {}
    for number, tap in taps(kernel):
        steps = [divmod(d * t, s) for d, t, s in zip(dilation, tap, stride, strict=True)]
        met: Key = (
            ...,
            *(slice(f - q, f - q + n) for f, (q, _), n in zip(first, steps, length, strict=True)),
        )
        product = y[met] * w[:, number].reshape((-1,) + (1,) * len(kernel))
        remainders = tuple(r for _, r in steps)
        parts[remainders] = parts[remainders] + product if remainders in parts else product

    def joined(*remainders: int) -> Array:
        axis = len(remainders)
        if axis == len(stride):
            return parts[remainders] if remainders in parts else zeros((*y.shape[:2], *length), y)
        some = [joined(*remainders, r) for r in range(stride[axis])]
        if len(some) == 1:
            return some[0]
        shape = some[0].shape
        merged = (*shape[: axis + 2], shape[axis + 2] * len(some), *shape[axis + 3 :])
        return np.stack(some, axis=axis + 3).reshape(merged)

    _, of_padded = inside(size, padding)
    cut = [(max(-a, 0), max(-b, 0)) for a, b in padding]
    found = joined()[of_padded]
    return np.pad(found, ((0, 0), (0, 0), *cut)) if any(map(any, cut)) else found


def _by_taps_weight(
    x: Array, y: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    exact = _exactly(x.shape[2:], y.shape[2:], kernel, stride, padding, dilation)
    places_of_one = (0, *range(2, y.ndim))
    met = _each_tap(x, kernel, stride, exact, dilation)
    return np.stack([(each * y).sum(axis=places_of_one) for each in met], axis=-1)


def _with_kernel(w: Array, kernel: Sizes) -> Array:
    return w.reshape((w.shape[0], 1, *kernel))


# By NumPy: columns; and with stride 1, what takes half of their time.
_LARGE_IMAGE = 1 << 14  # elements: of smaller ones calls cost more than they save


def _depthwise_columns(x: Array, w: Array, bias: Array | None = None, *, kernel: Sizes, **how: Any) -> Array:
    return _by_columns(x, _with_kernel(w, kernel), bias, groups=x.shape[1], **how)


def _depthwise_columns_transposed(
    y: Array, w: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    if any(s != 1 for s in stride):
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": y.shape[1]}
        return _from_columns(y, _with_kernel(w, kernel), **how)
    turned = _turned(kernel, padding, dilation)
    return _depthwise_columns(y, w[:, ::-1], kernel=kernel, stride=stride, padding=turned, dilation=dilation)


def _depthwise_columns_weight(
    x: Array, y: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    channels = x.shape[1]
    size = tuple(n + a + b for n, (a, b) in zip(x.shape[2:], padding, strict=True))
    grid = _Grid(size, kernel, y.shape[2:], stride, dilation)
    if not grid.by_runs or channels * math.prod(size) < _LARGE_IMAGE or not isinstance(x, np.ndarray):
        how: Any = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        return _columns_weight(x, y, groups=channels, **how).reshape((channels, -1))
    # What a tap meets is a run of the flattened image (see _Grid): a product of rows for each tap.
    found = np.empty((len(x), channels, grid.taps), x.dtype)

    def compute(n: int) -> None:
        flat = padded(x[n], padding).reshape(channels, -1)
        slopes = grid.spread(y[n : n + 1]).reshape(channels, -1)[:, : grid.run]
        for number, tap in taps(kernel):
            found[n, :, number] = np.vecdot(flat[:, grid.shift(tap)], slopes)

    pieces.share(compute, range(len(x)))
    return found.sum(axis=0)


_depthwise = natively(_by_taps, BATCH, _depthwise_columns)
_depthwise_transposed = natively(_by_taps_transposed, BATCH, _depthwise_columns_transposed)
_depthwise_weight = natively(_by_taps_weight, BATCH, _depthwise_columns_weight)


# --- the three ops --------------------------------------------------------------------------------


def _but_groups(how: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in how.items() if name != "groups"}


# (What kernels of a device compute as a whole is handed on as it is given: they are known by that.)


def _convolution(x: Array, w: Array, *bias: Array | None, **how: Any) -> Array:
    kernel, groups = w.shape[2:], how["groups"]
    plain = _is_plain(kernel, how["stride"], how["padding"])
    if x.shape[1] == w.shape[0] == groups and not plain:
        taken = w.reshape((groups, math.prod(kernel)))
        return _depthwise(x, taken, *bias, kernel=kernel, **_but_groups(how))
    way = _by_columns if plain and not is_of_device(x) else _convolved
    return way(x, w, *bias, **how)


def _by_columns(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    groups: int,
) -> Array:
    batch, kernel = x.shape[0], w.shape[2:]
    count = window_count(x.shape[2:], kernel, stride, padding, dilation)
    matrices = w.reshape((groups, w.shape[0] // groups, w.shape[1] * math.prod(kernel)))  # (G, O/G, C/G·taps)
    out_shape = (batch, w.shape[0], *count)
    added = None if bias is None else bias.reshape((-1,) + (1,) * len(count))
    if _is_plain(kernel, stride, padding):
        out = (matrices @ x.reshape((batch, groups, w.shape[1], math.prod(count)))).reshape(out_shape)
        return out if added is None else out + added
    out = np.empty(out_shape, dtype=x.dtype, like=x)
    for part in _steps(batch, x.shape[1] * math.prod(kernel), math.prod(count), x):
        images = padded(x[part].swapaxes(0, 1), padding)  # (C, B, …)
        grid = _Grid(images.shape[2:], kernel, count, stride, dilation)
        columns = grid.cut(images).reshape((groups, matrices.shape[2], -1))
        result = (matrices @ columns).reshape((w.shape[0], images.shape[1], *grid.shape))[grid.corner]
        if added is None:
            out[part] = result.swapaxes(0, 1)
        else:
            np.add(result.swapaxes(0, 1), added, out=out[part])
    return out


def _convolution_transpose(y: Array, w: Array, **how: Any) -> Array:
    kernel, groups = w.shape[2:], how["groups"]
    plain = _is_plain(kernel, how["stride"], how["padding"])
    if y.shape[1] == w.shape[0] == groups and w.shape[1] == 1 and not plain:
        taken = w.reshape((groups, math.prod(kernel)))
        return _depthwise_transposed(y, taken, kernel=kernel, **_but_groups(how))
    way = _from_columns if plain and not is_of_device(y) else _convolved_transposed
    return way(y, w, **how)


def _from_columns(
    y: Array, w: Array, *, stride: Sizes, padding: Pairs, dilation: Sizes, groups: int
) -> Array:
    batch, count, kernel = y.shape[0], y.shape[2:], w.shape[2:]
    channels = groups * w.shape[1]
    size = covered_size(count, kernel, stride, padding, dilation)
    # (G, C/G·taps, O/G): each result goes to all taps of its window.
    matrices = w.reshape((groups, w.shape[0] // groups, w.shape[1] * math.prod(kernel))).swapaxes(1, 2)
    if _is_plain(kernel, stride, padding):
        return (matrices @ y.reshape((batch, groups, matrices.shape[2], math.prod(count)))).reshape(
            (batch, channels, *size)
        )
    out = np.empty((batch, channels, *size), dtype=y.dtype, like=y)
    grown = tuple(n + a + b for n, (a, b) in zip(size, padding, strict=True))
    grid = _Grid(grown, kernel, count, stride, dilation)
    for part in _steps(batch, channels * grid.taps, grid.columns, y):
        results = grid.spread(y[part])  # (O, B, columns)
        columns = _product(matrices, results.reshape((groups, matrices.shape[2], -1)))
        images = grid.add_up(columns.reshape((channels, grid.taps, results.shape[1], grid.columns)))
        out[part] = unpadded(images, size, padding).swapaxes(0, 1)
    return out


def _convolution_weight(x: Array, y: Array, **how: Any) -> Array:
    kernel, groups = how["kernel"], how["groups"]
    plain = _is_plain(kernel, how["stride"], how["padding"])
    if x.shape[1] == y.shape[1] == groups and not plain:
        return _depthwise_weight(x, y, **_but_groups(how)).reshape((groups, 1, *kernel))
    way = _columns_weight if plain and not is_of_device(x) else _convolved_weight
    return way(x, y, **how)


def _columns_weight(
    x: Array, y: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes, groups: int
) -> Array:
    batch, count = y.shape[0], y.shape[2:]
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    shape = (y.shape[1], inputs, *kernel)
    if _is_plain(kernel, stride, padding):
        flat = x.reshape((batch, groups, inputs, math.prod(count)))
        results = y.reshape((batch, groups, outputs, math.prod(count)))
        return (results @ flat.swapaxes(2, 3)).sum(axis=0).reshape(shape)
    total = np.zeros((groups, outputs, inputs * math.prod(kernel)), dtype=x.dtype, like=x)
    for part in _steps(batch, x.shape[1] * math.prod(kernel), math.prod(count), x):
        images = padded(x[part].swapaxes(0, 1), padding)
        grid = _Grid(images.shape[2:], kernel, count, stride, dilation)
        columns = grid.cut(images).reshape((groups, total.shape[2], -1))
        results = grid.spread(y[part]).reshape((groups, outputs, -1))
        total += results @ columns.swapaxes(1, 2)
    return total.reshape(shape)


# Large ones by native kernels, in which a product reads its windows where they lie; NumPy lays them out as columns. On
# a device those of single elements are kernels' too: a library for convolutions has other ways than one for products.
_convolved = natively(lambda *arrays, **how: CONVOLUTION(*arrays, **how), FIRST, _by_columns)
_convolved_transposed = natively(
    lambda *arrays, **how: CONVOLUTION_TRANSPOSE(*arrays, **how), FIRST, _from_columns
)
_convolved_weight = natively(
    lambda *arrays, **how: CONVOLUTION_WEIGHT(*arrays, **how), BATCH, _columns_weight
)


def _convolution_x(
    g: Array,
    out: Array,
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    groups: int,
) -> Array:
    exact = _exactly(x.shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation)
    return CONVOLUTION_TRANSPOSE(g, w, stride=stride, padding=exact, dilation=dilation, groups=groups)


def _convolution_w(g: Array, out: Array, x: Array, w: Array, bias: Array | None = None, **how: Any) -> Array:
    return CONVOLUTION_WEIGHT(x, g, kernel=w.shape[2:], **how)


@natively_there
def _summed(g: Array) -> Array:
    """Return the gradient of a bias."""
    return g.sum(axis=(0, *range(2, g.ndim)))


def _whole_there(rule: Callable[..., Array]) -> Callable[..., Array]:
    """Return a rule for which a device's kernels are known as a whole: the host looks up nothing else on the way.

    Not where each channel has a kernel of its own, nor where arrays lie in another order: parts of the rule have ways
    for these.
    """
    there = natively_there(lambda *arrays, **how: rule(*arrays, **how))

    @functools.wraps(there)
    def run(*arrays: Array, **how: Any) -> Array:
        lie_there = all(is_of_device(each) and each.flags.c_contiguous for each in arrays)
        if lie_there and how["groups"] < arrays[3].shape[0]:
            return there(*arrays, **how)
        return rule(*arrays, **how)

    return run


# All that they call are kernels on a device.
CONVOLUTION: Op = Op(
    "convolution",
    kernels_as_of(_convolved, _convolution),
    _whole_there(_convolution_x),
    _whole_there(_convolution_w),
    _whole_there(lambda g, out, x, w, bias, **how: _summed(g)),
    whole=True,
)
CONVOLUTION_TRANSPOSE: Op = Op(
    "convolution_transpose",
    kernels_as_of(_convolved_transposed, _convolution_transpose),
    _whole_there(lambda g, out, y, w, **how: CONVOLUTION(g, w, **how)),
    _whole_there(lambda g, out, y, w, **how: CONVOLUTION_WEIGHT(g, y, kernel=w.shape[2:], **how)),
    whole=True,
)


def _weight_x(
    g: Array,
    out: Array,
    x: Array,
    y: Array,
    *,
    kernel: Sizes,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    groups: int,
) -> Array:
    exact = _exactly(x.shape[2:], y.shape[2:], kernel, stride, padding, dilation)
    return CONVOLUTION_TRANSPOSE(y, g, stride=stride, padding=exact, dilation=dilation, groups=groups)


CONVOLUTION_WEIGHT: Op = Op(
    "convolution_weight",
    kernels_as_of(_convolved_weight, _convolution_weight),
    takes_narrow(_weight_x),
    takes_narrow(lambda g, out, x, y, *, kernel, **how: CONVOLUTION(x, g, **how)),
    whole=True,
)

# --- the columns by themselves --------------------------------------------------------------------


def _im2col(x: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes) -> Array:
    """Cut (N, C, …) into windows: (N, C·taps, windows)."""
    count = window_count(x.shape[2:], kernel, stride, padding, dilation)
    images = padded(x, padding)
    shape = (*x.shape[:2], math.prod(kernel), *count)
    out = np.empty(shape, dtype=x.dtype, like=x)
    for number, tap in taps(kernel):
        out[:, :, number] = images[places(tap, count, stride, dilation)]
    return out.reshape((x.shape[0], x.shape[1] * shape[2], math.prod(count)))


def _col2im(
    columns: Array, *, size: Sizes, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    """Add windows (N, C·taps, windows) back to where they were cut from: (N, C, *size)."""
    count = window_count(size, kernel, stride, padding, dilation)
    number_of_taps = math.prod(kernel)
    grown = tuple(n + a + b for n, (a, b) in zip(size, padding, strict=True))
    lead = (columns.shape[0], columns.shape[1] // number_of_taps)
    windows = columns.reshape((*lead, number_of_taps, *count))
    out = np.zeros((*lead, *grown), dtype=columns.dtype, like=columns)
    for number, tap in taps(kernel):
        out[places(tap, count, stride, dilation)] += windows[:, :, number]
    return unpadded(out, size, padding)


IM2COL: Op = Op("im2col", _im2col, lambda g, out, x, **how: COL2IM(g, size=x.shape[2:], **how), whole=True)
COL2IM: Op = Op("col2im", _col2im, lambda g, out, columns, *, size, **how: IM2COL(g, **how), whole=True)
