"""What some ops become in a program, where their own lines would not make a good one.

Enters: an op's operands as Traced arrays. Leaves: its result, with the value it has in this run computed by
the op's own forward. A convolution walks over the batch in steps that fit a cache and writes columns down;
as a program it is one contraction of windows, which are a view. Pooling picks elements out of windows by
masks and writes them back; as a program it chooses element by element. A gather of one element from each row
is a choice within the row, which fuses with whatever computes the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import Value
from minitorch.compiler.trace.indexing import refuse_outside
from minitorch.compiler.trace.promised import run_or_promise
from minitorch.compiler.trace.traced import LOWERINGS, Traced, as_traced, plainly
from minitorch.engine.gpu import memory
from minitorch.engine.recording import recorder
from minitorch.ops import conv, indexing, pool, special
from minitorch.ops.op import Op


def _lowers(op: Op) -> Any:
    """Register what an op becomes: a function of its operands' values, giving the result's value."""

    def note(lowering: Any) -> Any:
        def run(*inputs: Any, **attributes: Any) -> Any:
            operands = [as_traced(i) if i is not None else None for i in inputs]
            value = lowering(*(None if o is None else o.value for o in operands), **attributes)
            arrays = [None if o is None else o.array for o in operands]
            plain = {name: plainly(each) for name, each in attributes.items()}
            array = run_or_promise(op.forward, arrays, plain, value)
            return Traced(value, array, all(o is None or o.known for o in operands))

        LOWERINGS[op.name] = run
        return lowering

    return note


# --- the error function ---------------------------------------------------------------------------


@_lowers(special.ERF)
def _erf(x: Value) -> Value:
    return make.map_values("erf", x)


# --- devices --------------------------------------------------------------------------------------


def _to_device(x: Any, number: int | None = None, non_blocking: bool = False) -> Traced:
    active: Any = recorder()
    return active.moved(as_traced(x), memory())


def _to_host(x: Any) -> Traced:
    active: Any = recorder()
    return active.moved(as_traced(x), None)


LOWERINGS["to_cuda"], LOWERINGS["to_cpu"] = _to_device, _to_host


# --- convolution ----------------------------------------------------------------------------------


def _border(x: Value, padding: conv.Pairs, number: float = 0) -> Value:
    lead = (0,) * (x.ndim - len(padding))
    return make.pad(x, (*lead, *(a for a, _ in padding)), (*lead, *(b for _, b in padding)), number)


def _windows(x: Value, kernel: conv.Sizes, stride: conv.Sizes, dilation: conv.Sizes, groups: int) -> Value:
    """Return the windows of (N, C, …) as (N, G, C/G, places…, taps…)."""
    axes = tuple(range(2, x.ndim))
    view = make.window(x, axes, tuple(kernel), tuple(stride), tuple(dilation))
    return make.reshape(view, (view.shape[0], groups, view.shape[1] // groups, *view.shape[2:]))


# Indices: n batch, g group, c and o channels in and out, then places and taps per axis.
_PLACES, _TAPS, _RESTS = "uvw", "xyz", "pqr"


@_lowers(conv.CONVOLUTION)
def _convolution(
    x: Value, w: Value, bias: Value | None = None, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    dims = w.ndim - 2
    places, taps = _PLACES[:dims], _TAPS[:dims]
    kernel = w.shape[2:]
    view = _windows(_border(x, padding), kernel, stride, dilation, groups)
    weights = make.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
    out = make.contract(f"ngc{places}{taps},goc{taps}->ngo{places}", view, weights)
    out = make.reshape(out, (x.shape[0], w.shape[0], *out.shape[3:]))
    if bias is None:
        return out
    return make.map_values("add", out, make.reshape(bias, (bias.size, *(1,) * dims)))


@_lowers(conv.CONVOLUTION_TRANSPOSE)
def _convolution_transpose(
    y: Value, w: Value, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    # Zeros around the results: then it is a convolution with the kernel turned round. Where the stride jumped, tap
    # s·j + r of the kernel only meets places s·q + r of the image: those of each rest r are a convolution by itself,
    # of the same results with every s-th tap, and all of them are one with as many times the channels.
    dims = w.ndim - 2
    places, taps, rests = _PLACES[:dims], _TAPS[:dims], _RESTS[:dims]
    for axis, (step, d) in enumerate(zip(stride, dilation, strict=True)):
        if d != 1:  # neighbouring taps meet places of different rests: zeros between the results, too
            y = make.spread(y, axis + 2, step)
    steps = tuple(s if d == 1 else 1 for s, d in zip(stride, dilation, strict=True))
    more = tuple(
        -k % s for k, s in zip(w.shape[2:], steps, strict=True)
    )  # taps, up to a multiple of the stride
    w = make.pad(w, (0,) * w.ndim, (0, 0, *more))
    kernel = tuple(k // s for k, s in zip(w.shape[2:], steps, strict=True))
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    view = _windows(_border(y, tuple((r, r) for r in reach)), kernel, (1,) * dims, dilation, groups)
    apart = [n for pair in zip(kernel, steps, strict=True) for n in pair]
    weights = make.reshape(w, (groups, w.shape[0] // groups, w.shape[1], *apart))
    weights = make.flip(weights, range(3, weights.ndim, 2))
    mixed = "".join(t + r for t, r in zip(taps, rests, strict=True))
    out = make.contract(f"ngo{places}{taps},goc{mixed}->ngc{rests}{places}", view, weights)
    order = [3 + axis + dims * place for axis in range(dims) for place in (1, 0)]
    out = make.permute(out, (0, 1, 2, *order))
    whole = [q * s for q, s in zip(view.shape[3 : 3 + dims], steps, strict=True)]
    out = make.reshape(out, (out.shape[0], groups * w.shape[1], *whole))
    return _border(out, tuple((-a, -b - n) for (a, b), n in zip(padding, more, strict=True)))


@_lowers(conv.CONVOLUTION_WEIGHT)
def _convolution_weight(
    x: Value, y: Value, *, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    dims = len(kernel)
    places, taps = _PLACES[:dims], _TAPS[:dims]
    view = _windows(_border(x, padding), kernel, stride, dilation, groups)
    counts = y.shape[2:]
    for axis, count in enumerate(counts):  # windows beyond the last result took no part
        view = make.crop(view, axis + 3, 0, count)
    results = make.reshape(y, (y.shape[0], groups, y.shape[1] // groups, *counts))
    out = make.contract(f"ngc{places}{taps},ngo{places}->goc{taps}", view, results)
    return make.reshape(out, (y.shape[1], x.shape[1] // groups, *kernel))


# --- windows added back to where they were cut from ------------------------------------------------


def _tap_view(x: Value, tap: Any, count: Any, stride: Any, dilation: Any) -> Value:
    """Return the elements that one tap meets, window by window."""
    lead = x.ndim - len(count)
    starts = (0,) * lead + tuple(d * t for d, t in zip(dilation, tap, strict=True))
    return make.slice_axes(x, starts, (*x.shape[:lead], *count), (1,) * lead + tuple(stride))


def _interleaved(part: Callable[[Any], Value], stride: Any, rests: tuple[int, ...]) -> Value:
    """Return an image whose places of each rest by the stride are those of a part."""
    axis = len(rests) + 2
    if len(rests) == len(stride):
        return part(rests)
    some = [_interleaved(part, stride, (*rests, r)) for r in range(stride[len(rests)])]
    before, length, after = some[0].shape[:axis], some[0].shape[axis], some[0].shape[axis + 1 :]
    apart = [make.reshape(each, (*before, length, 1, *after)) for each in some]
    return make.reshape(make.concatenate(apart, axis + 1), (*before, length * len(some), *after))


def _are_side_by_side(kernel: Any, stride: Any, dilation: Any) -> bool:
    """Tell whether each element of an image belongs to one tap of one window."""
    return tuple(kernel) == tuple(stride) and all(d == 1 for d in dilation)


def _put_taps(per_tap: Value, size: Any, stride: Any, padding: Any, dilation: Any) -> Value:
    """Add windows (N, C, places…, taps…) up in an image of `size`."""
    dims = len(size)
    count, kernel = per_tap.shape[2 : 2 + dims], per_tap.shape[2 + dims :]
    lead = per_tap.shape[:2]
    if not _are_side_by_side(kernel, stride, dilation):

        def of_tap(tap: Any) -> Value:
            here = make.slice_axes(
                per_tap, (0,) * (2 + dims) + tuple(tap), (*lead, *count, *(1,) * dims), (1,) * per_tap.ndim
            )
            return make.reshape(here, (*lead, *count))

        return _added_taps(of_tap, kernel, size, stride, padding, dilation)
    grown = tuple(n + a + b for n, (a, b) in zip(size, padding, strict=True))
    order = (0, 1, *(i for axis in range(dims) for i in (2 + axis, 2 + dims + axis)))
    covered = tuple(n * k for n, k in zip(count, kernel, strict=True))
    image = make.reshape(make.permute(per_tap, order), (*lead, *covered))
    image = make.pad(image, (0,) * (dims + 2), (0, 0, *(g - c for g, c in zip(grown, covered, strict=True))))
    return _border(image, tuple((-a, -b) for a, b in padding))


def _added_taps(
    of_tap: Callable[[Any], Value], kernel: Any, size: Any, stride: Any, padding: Any, dilation: Any
) -> Value:
    """Add windows up, given as what each tap has of them: (N, C, places…).

    Tap t of window o meets place s·o + d·t = s·(o + q) + r: places of equal rests r get something from the same taps,
    and lie as densely as windows do. Each such part is added up by itself.
    """
    grown = tuple(n + a + b for n, (a, b) in zip(size, padding, strict=True))
    lengths = tuple(-(-g // s) for g, s in zip(grown, stride, strict=True))
    parts: dict[Any, Value] = {}
    for tap in np.ndindex(*kernel):
        here = of_tap(tap)
        steps = [divmod(d * t, s) for d, t, s in zip(dilation, tap, stride, strict=True)]
        low, rests = tuple(q for q, _ in steps), tuple(r for _, r in steps)
        high = tuple(n - q - c for n, q, c in zip(lengths, low, here.shape[2:], strict=True))
        here = make.pad(here, (0, 0, *low), (0, 0, *high))
        parts[rests] = make.map_values("add", parts[rests], here) if rests in parts else here
    nothing = make.full((*here.shape[:2], *lengths), 0, here.dtype)
    image = _interleaved(lambda rests: parts.get(rests, nothing), stride, ())
    for axis, length in enumerate(grown):
        image = make.crop(image, axis + 2, 0, length)
    return _border(image, tuple((-a, -b) for a, b in padding))


@_lowers(conv.COL2IM)
def _col2im(columns: Value, *, size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Value:
    count = conv.window_count(size, kernel, stride, padding, dilation)
    channels = columns.shape[1] // math.prod(kernel)
    windows = make.reshape(columns, (columns.shape[0], channels, *kernel, *count))
    dims = len(kernel)
    order = (0, 1, *range(2 + dims, 2 + 2 * dims), *range(2, 2 + dims))
    return _put_taps(make.permute(windows, order), size, stride, padding, dilation)


@_lowers(conv.IM2COL)
def _im2col(x: Value, *, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Value:
    view = _windows(_border(x, padding), kernel, stride, dilation, 1)  # (N, 1, C, places…, taps…)
    dims = len(kernel)
    order = (0, 1, 2, *range(3 + dims, 3 + 2 * dims), *range(3, 3 + dims))
    return make.reshape(
        make.permute(view, order),
        (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(view.shape[3 : 3 + dims])),
    )


# --- pooling --------------------------------------------------------------------------------------


def _fold_taps(function: str, x: Value, count: Any, kernel: Any, stride: Any, dilation: Any) -> Value:
    out = None
    for tap in np.ndindex(*kernel):
        here = _tap_view(x, tap, count, stride, dilation)
        out = here if out is None else make.map_values(function, out, here)
    assert out is not None
    return out


@_lowers(pool.MAX_POOL)
def _max_pool(x: Value, *, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Value:
    count = conv.window_count(x.shape[2:], kernel, stride, padding, dilation)
    lowest = -math.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return _fold_taps("maximum", _border(x, padding, lowest), count, kernel, stride, dilation)


@_lowers(pool.MAX_POOL_TAP)
def _max_pool_tap(
    x: Value, largest: Value, *, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Value:
    count = largest.shape[2:]
    floating = x.dtype.kind == "f"
    lowest = math.nan if floating else np.iinfo(x.dtype).min
    image = _border(x, padding, lowest)
    inside = _border(make.full(x.shape, True, np.bool_), padding, False) if floating else None
    taps = list(np.ndindex(*kernel))
    dtype = np.min_scalar_type(len(taps))
    chosen = make.full(largest.shape, len(taps), dtype)
    # From the last tap to the first, so that of equals the first stays; nan counts as the largest of all.
    for number, tap in reversed(list(enumerate(taps))):
        here = _tap_view(image, tap, count, stride, dilation)
        hit = make.map_values("equal", here, largest)
        if inside is not None:
            here_inside = _tap_view(inside, tap, count, stride, dilation)
            is_nan = make.map_values("logical_and", make.map_values("isnan", here), here_inside)
            hit = make.map_values("logical_or", hit, is_nan)
        chosen = make.where(hit, make.constant(np.asarray(number, dtype)), chosen)
    return chosen


def _tap_numbers(kernel: Any, dtype: Any) -> Value:
    return make.cast(make.reshape(make.iota(math.prod(kernel)), tuple(kernel)), dtype)


@_lowers(pool.POOL_PUT)
def _pool_put(
    y: Value, chosen: Value, *, size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Value:
    zero = make.constant(np.zeros((), y.dtype))
    if not _are_side_by_side(kernel, stride, dilation):
        numbers = {tap: make.constant(np.asarray(i, chosen.dtype)) for i, tap in conv.taps(kernel)}
        of_tap = lambda tap: make.where(make.map_values("equal", chosen, numbers[tap]), y, zero)
        return _added_taps(of_tap, kernel, size, stride, padding, dilation)
    ones = (1,) * len(kernel)
    here = make.map_values(
        "equal", make.reshape(chosen, (*chosen.shape, *ones)), _tap_numbers(kernel, chosen.dtype)
    )
    per_tap = make.where(here, make.reshape(y, (*y.shape, *ones)), zero)
    return _put_taps(per_tap, size, stride, padding, dilation)


@_lowers(pool.POOL_PICK)
def _pool_pick(x: Value, chosen: Value, *, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Value:
    image = _border(x, padding)
    out = make.full(chosen.shape, 0, x.dtype)
    for number, tap in enumerate(np.ndindex(*kernel)):
        hit = make.map_values("equal", chosen, make.constant(np.asarray(number, chosen.dtype)))
        out = make.where(hit, _tap_view(image, tap, chosen.shape[2:], stride, dilation), out)
    return out


def _divided(sums: Value, divisor: Any) -> Value:
    if not isinstance(divisor, tuple):
        return (
            sums if divisor == 1 else make.map_values("divide", sums, make.constant(sums.dtype.type(divisor)))
        )
    for axis, extents in enumerate(divisor):
        each = np.asarray(extents, dtype=sums.dtype).reshape((-1,) + (1,) * (len(divisor) - axis - 1))
        sums = make.map_values("divide", sums, make.constant(each))
    return sums


@_lowers(pool.AVG_POOL)
def _avg_pool(x: Value, *, kernel: Any, stride: Any, padding: Any, divisor: Any) -> Value:
    ones = (1,) * len(kernel)
    count = conv.window_count(x.shape[2:], kernel, stride, padding, ones)
    return _divided(_fold_taps("add", _border(x, padding), count, kernel, stride, ones), divisor)


@_lowers(pool.AVG_UNPOOL)
def _avg_unpool(y: Value, *, size: Any, kernel: Any, stride: Any, padding: Any, divisor: Any) -> Value:
    ones = (1,) * len(kernel)
    share = _divided(y, divisor)
    per_tap = make.expand(make.reshape(share, (*share.shape, *ones)), (*share.shape, *kernel))
    return _put_taps(per_tap, size, stride, padding, ones)


# --- one element of each row -----------------------------------------------------------------------


def _hits(index: Value, axis: int, length: int) -> Value:
    """Return where each row's index points, as bools over the row; an index outside is an error when it runs."""
    refuse_outside(index, length)
    # Looking the index up in 0, 1, 2, … changes nothing, and checks it.
    negative = make.map_values("less", index, make.constant(np.int64(0)))
    index = make.where(negative, make.map_values("add", index, make.size(length)), index)
    checked = make.gather(make.iota(length), index, 0)
    places = make.reshape(make.iota(length), (length,) + (1,) * (index.ndim - axis - 1))
    return make.map_values("equal", checked, places)


def _one_per_row(x: Value, index: Value, axis: int) -> bool:
    """Tell whether a gather takes one element of each full row of something that has rows."""
    rest = lambda s: s[:axis] + s[axis + 1 :]
    return (
        bool(x.ndim)
        and x.ndim == index.ndim
        and index.shape[axis] == 1
        and rest(x.shape) == rest(index.shape)
    )


_gather_forward = indexing.GATHER.forward.__wrapped__  # type: ignore[attr-defined]
_scatter_add_forward = indexing.SCATTER_ADD.forward.__wrapped__  # type: ignore[attr-defined]


def _lower_gather(x: Any, index: Any, *, axis: int) -> Any:
    x, index = as_traced(x), as_traced(index)
    axis = axis % max(x.ndim, 1)
    if not _one_per_row(x.value, index.value, axis) or x.dtype.kind not in "fiu":
        return _gather_forward(x, index, axis=axis)
    hits = _hits(make.cast(index.value, np.int64), axis, x.shape[axis])
    # The largest of the one and of what is never larger: the one itself, be it nan, infinite or -0.
    lowest = -math.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    others = make.constant(np.asarray(lowest, x.dtype))
    picked = make.reduce("maximum", make.where(hits, x.value, others), (axis,), keepdims=True)
    array = run_or_promise(_gather_forward, (x.array, index.array), {"axis": axis}, picked)
    return Traced(picked, array, x.known and index.known)


def _lower_scatter_add(x: Any, index: Any, source: Any, *, axis: int) -> Any:
    x, index, source = as_traced(x), as_traced(index), as_traced(source)
    axis = axis % max(x.ndim, 1)
    if not _one_per_row(x.value, index.value, axis) or source.shape != index.shape:
        return _scatter_add_forward(x, index, source, axis=axis)
    hits = _hits(make.cast(index.value, np.int64), axis, x.shape[axis])
    added = make.map_values("add", x.value, make.cast(source.value, x.dtype))
    value = make.where(hits, added, x.value)
    array = run_or_promise(_scatter_add_forward, (x.array, index.array, source.array), {"axis": axis}, value)
    return Traced(value, array, x.known and index.known and source.known)


LOWERINGS[indexing.GATHER.name] = _lower_gather
LOWERINGS[indexing.SCATTER_ADD.name] = _lower_scatter_add
