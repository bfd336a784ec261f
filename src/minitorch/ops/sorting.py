"""Order: sorting, the middle, the commonest, places in sorted sequences.

Enters: an array and an axis. Leaves: an array. Where a result is some of the input's elements, the op here only
finds their places, and gather (ops/indexing.py) takes them, so that gradients go back to exactly these.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minitorch.ops import pieces
from minitorch.ops.fast import SMALL
from minitorch.ops.op import Array, Op
from minitorch.ops.reductions import accumulated, share_among_equals


def _argsort(x: Array, *, axis: int, descending: bool, ranks: tuple[int, int] | None = None) -> Array:
    """Return the places of the elements in their order; ranks (start, stop): only those of these ranks."""
    if ranks is not None:
        if _can_be_parted(x):
            few = _among_few(np.moveaxis(x, axis, -1), ranks[1], descending) if ranks[0] < ranks[1] else None
            if few is not None:
                return np.moveaxis(few[..., ranks[0] :], -1, axis)
            find = functools.partial(_parted, start=ranks[0], stop=ranks[1], descending=descending)
            return np.moveaxis(pieces.rows(find, np.moveaxis(x, axis, -1)), -1, axis)
        return _argsort(x, axis=axis, descending=descending)[(slice(None),) * axis + (slice(*ranks),)]
    if x.__class__ is np.ndarray and x.size and x.dtype.kind in "fiub":
        rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
        order = pieces.rows(functools.partial(_order, descending=descending), rows)
        return np.ascontiguousarray(np.moveaxis(order, -1, axis))
    return _stable(x, axis, descending)


def _stable(x: Array, axis: int, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # Stable also downwards: sort the mirrored array upwards and mirror the answer.
    mirrored = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - mirrored, axis)


def _order(rows: np.ndarray, descending: bool) -> np.ndarray:
    """Return what `_stable` does along the last axis, in a fraction of its time: NumPy sorts numbers by vectors."""
    keys = _with_places(rows, descending)
    if keys is not None:
        keys.sort(axis=-1)
        keys &= _PLACE
        return keys
    if rows.dtype.kind == "f":
        order = np.argsort(-rows if descending else rows, axis=-1)
        found = np.take_along_axis(rows, order, -1)
        before, after = found[..., :-1], found[..., 1:]
        if (
            before > after if descending else before < after
        ).all():  # nothing is equal, nor nan: one order alone
            return order
    return _stable(rows, rows.ndim - 1, descending)


_PLACE = (1 << 32) - 1


def _with_places(rows: np.ndarray, descending: bool) -> np.ndarray | None:
    """Return integers that lie in the rows' order, and those of equals in that of their places, which are their lower
    halves; None where a half does not hold an element.
    """
    if rows.dtype.kind == "f":
        if rows.itemsize > 4 or math.isnan(rows.max()):
            return None
        keys = (rows.astype(np.float32, copy=False) + np.float32(0)).view(
            np.int32
        )  # (-0 becomes 0, its equal)
        keys ^= keys >> 31 & 0x7FFFFFFF  # of negative numbers, the larger the bits, the smaller the number
    elif rows.dtype.kind == "b":
        keys = rows.astype(np.int32)
    else:
        lowest, highest = int(rows.min()), int(rows.max())
        if highest - lowest >= 1 << 31 or highest >= 1 << 63:
            return None
        keys = (rows.astype(np.int64) - lowest).astype(np.int32)
    packed = np.left_shift(~keys if descending else keys, 32, dtype=np.int64)
    packed |= np.arange(rows.shape[-1])
    return packed


def _can_be_parted(x: Array) -> bool:
    """Tell whether `_parted` gives the places of some ranks sooner than sorting; it does not know nan."""
    return (
        x.__class__ is np.ndarray
        and x.size >= SMALL
        and (x.dtype.kind in "iub" or (x.dtype.kind == "f" and not math.isnan(x.max())))
    )


def _parted(rows: np.ndarray, start: int, stop: int, descending: bool) -> np.ndarray:
    """Return the places of the ranks from start to stop along the last axis, without sorting what has other ranks.

    The element of the last rank is found by np.partition. Those before it, and as many of its equals as there is room
    for, the first ones, are chosen; they alone are sorted.
    """
    length = rows.shape[-1]
    at = length - stop if descending else stop - 1
    if start == stop:
        return np.empty((*rows.shape[:-1], 0), np.int64)
    last = np.partition(rows, at, axis=-1)[..., at : at + 1]
    equal = rows == last
    if stop - start == 1:  # of the equals the one of that rank
        before = np.count_nonzero(rows > last if descending else rows < last, axis=-1, keepdims=True)
        if np.count_nonzero(equal) != last.size:
            equal &= np.cumsum(equal, axis=-1) == stop - before
        return np.argmax(equal, axis=-1)[..., None]
    chosen = rows >= last if descending else rows <= last
    if np.count_nonzero(chosen) != stop * last.size:
        room = stop - np.count_nonzero(chosen & ~equal, axis=-1, keepdims=True)
        chosen &= ~equal | (np.cumsum(equal, axis=-1) <= room)
    places = (np.flatnonzero(chosen) % length).reshape((*rows.shape[:-1], stop))
    order = _argsort(np.take_along_axis(rows, places, -1), axis=rows.ndim - 1, descending=descending)
    return np.take_along_axis(places, order, -1)[..., start:]


def _among_few(rows: np.ndarray, stop: int, descending: bool) -> np.ndarray | None:
    """Return the places of the ranks up to a small `stop` along the last axis; None where another way is the shorter.

    A row is folded up into groups. The best of each group are elements too, so what has one of the ranks is at least
    as good as the last of the best groups: mostly these are hardly more than wanted, and they alone are sorted.
    """
    length = rows.shape[-1]
    halvings = min(6, (length // (4 * stop)).bit_length() - 1)
    if halvings < 3:
        return None
    flat = best = rows.reshape(-1, length)
    better = np.maximum if descending else np.minimum
    for _ in range(halvings):  # (of an odd number one is left out: the others' last is a bound all the same)
        half = best.shape[1] // 2
        best = better(best[:, :half], best[:, half : 2 * half])
    count = best.shape[1]
    at = count - stop if descending else stop - 1
    bound = np.partition(best, at, axis=-1)[:, at : at + 1]
    places = np.flatnonzero(flat >= bound if descending else flat <= bound)
    if places.size > 4 * stop * len(flat):  # many equals
        return None
    row, column = np.divmod(places, length)
    met = np.bincount(row, minlength=len(flat))
    first = np.cumsum(met) - met
    number = np.arange(places.size) - np.repeat(first, met)  # of a place among those of its row
    # What fills a row up is as bad as can be and stands last, so that none of it is chosen.
    values = np.full((len(flat), met.max()), _worst(rows.dtype, descending), rows.dtype)
    columns = np.zeros(values.shape, np.int64)
    values[row, number], columns[row, number] = flat[row, column], column
    order = _argsort(values, axis=1, descending=descending)[:, :stop]
    return np.take_along_axis(columns, order, -1).reshape((*rows.shape[:-1], stop))


def _worst(dtype: np.dtype, descending: bool) -> Any:
    """Return what no number of a dtype comes behind."""
    if dtype.kind == "f":
        return -np.inf if descending else np.inf
    if dtype.kind == "b":
        return not descending
    return np.iinfo(dtype).min if descending else np.iinfo(dtype).max


ARGSORT = Op("argsort", _argsort, there=True)


def _median(x: Array) -> Array:
    # The lower of the two middle elements, as PyTorch; nan if there is one (sorted to the end).
    flat = x.reshape(-1)
    count = flat.shape[0]
    if not count:
        return x.sum() / 0
    ordered = np.partition(flat, ((count - 1) // 2, count - 1))
    largest = ordered[count - 1]
    return np.where(largest != largest, largest, ordered[(count - 1) // 2])


MEDIAN = Op("median", _median, lambda g, out, x: share_among_equals(g, out, x, axis=None, keepdims=False))


def _mode_places(x: Array, *, axis: int) -> Array:
    """Return where, along an axis, the commonest element stands: of equally common ones the smallest, its last."""
    order = np.argsort(x, axis=axis, kind="stable")
    ordered = np.take_along_axis(x, order, axis)
    lead = (slice(None),) * axis
    length = x.shape[axis]
    places = np.arange(length, like=x).astype(np.int64).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    # A run starts where an element differs from the one before; a place's rank in its run is its count so far.
    differs = ordered[(*lead, slice(1, None))] != ordered[(*lead, slice(0, -1))]
    first = np.ones_like(ordered[(*lead, slice(0, 1))], dtype=bool)
    starts = np.where(np.concatenate([first, differs], axis=axis), places, 0)
    rank = places - accumulated(np.maximum, starts, axis)
    best = np.expand_dims(np.argmax(rank, axis=axis), axis)
    return np.take_along_axis(order, best, axis)


MODE_PLACES = Op("mode_places", _mode_places)


def _searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    # How many of the sequence stand before each value: all smaller ones, with `right` the equal ones too.
    # NumPy searches one sequence; several are searched row by row.
    side: Any = "right" if right else "left"
    recorded = hasattr(sequence, "__decide__") or hasattr(values, "__decide__")
    if recorded and type(sequence.shape[-1]) is int and 0 not in sequence.shape and values.size:
        return _by_halves(sequence, values, right)
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side=side)
    if 0 in values.shape:
        return values.astype(np.int64)
    rows = sequence.reshape(math.prod(sequence.shape[:-1]), sequence.shape[-1])
    wanted = values.reshape(rows.shape[0], -1)
    found = [np.searchsorted(row, each, side=side) for row, each in zip(rows, wanted, strict=True)]
    return np.stack(found).reshape(values.shape)


def _by_halves(sequence: Array, values: Array, right: bool) -> Array:
    """The same by steps that kernels know: how many stand before, from the largest power of two down to one more."""
    count, length = math.prod(sequence.shape[:-1]), sequence.shape[-1]
    elements = sequence.reshape(-1)
    first: Any = 0
    if sequence.ndim > 1:
        first = np.arange(count).reshape(-1, 1) * length
        first = np.broadcast_to(first, (count, math.prod(values.shape) // count)).reshape(values.shape)
    nowhere = np.isnan(values) if values.dtype.kind == "f" else None  # (nan stands behind all others)
    found: Any = np.zeros_like(values, dtype=np.int64)
    step = 1 << (length.bit_length() - 1)
    while step:
        more = found + step
        each = elements[first + np.minimum(more, length) - 1]
        before = each <= values if right else each < values
        if nowhere is not None:
            before = (
                before | nowhere if right or each.dtype.kind != "f" else before | (nowhere & ~np.isnan(each))
            )
        found = np.where(before & (more <= length), more, found)
        step >>= 1
    return found


SEARCHSORTED = Op("searchsorted", _searchsorted, there=True)
