"""Indexing Traced arrays: x[key], x[key] = new, and np.add.at.

Enters: a Traced and a key of NumPy's kind. Leaves: slices, gathers and scatters.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import is_fixed, surely_at_most
from minitorch.compiler.trace.promised import run_or_promise
from minitorch.compiler.trace.refusal import CompileError, refuse, where_in_user_code
from minitorch.compiler.trace.traced import (
    HANDLERS,
    Traced,
    as_traced,
    concrete,
    is_known,
    operand_value,
    writable,
)


class Key:
    """An index, taken apart: first slices, integers and new axes, then arrays of integers."""

    def __init__(self, x: Traced, key: Any) -> None:
        parts = [_part(p) for p in (key if isinstance(key, tuple) else (key,))]
        self.place: Any = None  # which slice it is, where it is one
        self.mask: Any = None
        self.basic = False
        if len(parts) == 1 and _is_mask(parts[0]) and (isinstance(parts[0], Traced) or parts[0].ndim == 0):
            self.mask = as_traced(parts[0])  # only to be written through
            return
        for part in parts:
            if _is_mask(part) and (isinstance(part, Traced) or not part.ndim):
                raise _refuse_mask()
        # A number nobody knows yet selects as an integer does: NumPy makes a view then.
        self.key = tuple(int(p.array) if isinstance(p, Traced) and not p.ndim else concrete(p) for p in parts)
        self._take_apart(x, _complete(parts, x.ndim))

    def _take_apart(self, x: Traced, parts: list[Any]) -> None:
        self.arrays: list[tuple[int, Any]] = []  # axis after slicing, index
        starts, counts, steps = [], [], []
        shape: list[int] = []  # after slicing: integers drop their axis, None adds one
        axis = 0
        for part in parts:
            if part is None:
                shape.append(1)
                continue
            n = x.shape[axis]
            start, count, step = 0, n, 1
            if isinstance(part, slice):
                start, count, step = sliced(part, n)
                shape.append(count)
            elif isinstance(part, int):
                if not -n <= part < n:
                    raise IndexError(f"index {part} is out of bounds for axis {axis} with size {n}")
                start, count = part if part >= 0 else part + n, 1
            elif getattr(part, "dtype", np.dtype(object)).kind not in "iu":
                raise IndexError(
                    "only integers, slices, ellipsis, None and arrays of integers or bools are indices"
                )
            else:
                self.arrays.append((len(shape), part))
                shape.append(n)
            starts.append(start)
            counts.append(count)
            steps.append(step)
            axis += 1
        self.slices = (tuple(starts), tuple(counts), tuple(steps))
        self.shape = tuple(shape)
        self.basic = not self.arrays
        if self.basic:
            self.place = (self.slices, self.shape)
        # NumPy counts integers beside arrays as arrays when it asks whether the arrays stand together.
        advanced = [i for i, p in enumerate(parts) if not (p is None or isinstance(p, slice))]
        self.together = self.basic or advanced == list(range(advanced[0], advanced[-1] + 1))

    def _sliced(self, value: Value) -> Value:
        return make.reshape(make.slice_axes(value, *self.slices), self.shape)

    def _linear(self) -> tuple[Value, tuple[int, ...], tuple[int, ...]]:
        """Return one index into all indexed axes together, the index arrays' common shape, and those axes."""
        axes = tuple(axis for axis, _ in self.arrays)
        values = [_index_value(index) for _, index in self.arrays]
        shape = make.broadcast_shapes(*(v.shape for v in values))
        total: Value | None = None
        inside: Value | None = None
        for axis, value in zip(axes, values, strict=True):
            n = self.shape[axis]
            length = make.size(n)
            zero = make.constant(np.int64(0))
            checked = make.where(
                make.map_values("less", value, zero), make.map_values("add", value, length), value
            )
            if _within(value, n):
                checked = value
            else:
                refuse_outside(value, n)
            if len(axes) > 1 and not _within(value, n):
                ok = make.map_values(
                    "logical_and",
                    make.map_values("greater_equal", checked, zero),
                    make.map_values("less", checked, length),
                )
                inside = ok if inside is None else make.map_values("logical_and", inside, ok)
            total = (
                checked
                if total is None
                else make.map_values("add", make.map_values("multiply", total, length), checked)
            )
        assert total is not None
        if inside is not None:  # an index outside its own axis must not land inside another's
            total = make.where(inside, total, make.constant(np.int64(-1)))
        return make.expand(total, shape), shape, axes

    def _front(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        return axes + tuple(i for i in range(len(self.shape)) if i not in axes)

    def _result_order(self, index_ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Return how the result (index axes first, then the rest) is permuted to where NumPy puts the index axes."""
        rest = [i for i in range(len(self.shape)) if i not in axes]
        before = sum(i < axes[0] for i in rest) if self.together else 0
        order = [index_ndim + i for i in range(before)] + list(range(index_ndim))
        return (*order, *(index_ndim + i for i in range(before, len(rest))))

    def read(self, x: Traced) -> Traced:
        """Return x[key]."""
        if self.mask is not None:
            return HANDLERS["select by a mask"](x, self.mask)
        value = self._sliced(x.value)
        if self.basic:
            return Traced(value, np.asarray(x.array[self._view_key(x)]), x.known)
        index, shape, axes = self._linear()
        front = make.permute(value, self._front(axes))
        rest = front.shape[len(axes) :]
        rows = make.reshape(front, (math.prod(front.shape[: len(axes)]), *rest))
        taken = make.gather(rows, index, 0)
        known = x.known and all(is_known(i) for _, i in self.arrays)
        value = make.permute(taken, self._result_order(len(shape), axes))
        array = run_or_promise(_selected, (x.array, *self._view_key(x)), {}, value)
        return Traced(value, array, known)

    def _view_key(self, x: Traced) -> Any:
        # One integer per axis gives a number, which is a copy; with an ellipsis behind them it is a view.
        return self.key if any(p is Ellipsis for p in self.key) else (*self.key, ...)

    def write(self, x: Traced, new: Any, function: str) -> Traced:
        """Return x with x[key] set to `new`, or `new` added to it, as a handle of its own."""
        if self.mask is not None and function == "set" and _has_rows(new, x.ndim - self.mask.ndim):
            return HANDLERS["put by a mask"](x, self.mask, new)
        given = as_traced(new) if not isinstance(new, (int, float, bool)) else None
        value_of = (
            (lambda dtype: operand_value(new, dtype))
            if given is None
            else (lambda dtype: make.cast(given.value, dtype))
        )
        given_array = concrete(new)
        known = x.known and is_known(new)
        if self.mask is not None:
            if function != "set":
                raise refuse("adding through a mask", "write minitorch.where(mask, new, x)")
            if np.ndim(given_array) != 0:
                raise refuse("writing an array through a mask", "write minitorch.where(mask, new, x)")
            array = run_or_promise(_replaced, (x.array, given_array, self.mask.array), {}, x)
            mask = self.mask.value
            mask = make.reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))
            return Traced(make.where(mask, value_of(x.dtype), x.value), array, known and self.mask.known)
        change = _added if function == "add" else _replaced
        array = run_or_promise(change, (x.array, given_array, *self.key), {}, x)
        if self.basic:
            updates = _stretched(value_of(x.dtype), self.shape)
            if function == "add":
                updates = make.map_values("add", self._sliced(x.value), updates)
            return Traced(self._replaced(x.value, updates), array, known)
        known = known and all(is_known(i) for _, i in self.arrays)
        index, shape, axes = self._linear()
        order = self._result_order(len(shape), axes)
        inner = self._sliced(x.value)
        front = self._front(axes)
        rows = make.permute(inner, front)
        rest = rows.shape[len(axes) :]
        flat = make.reshape(rows, (math.prod(rows.shape[: len(axes)]), *rest))
        back = [int(i) for i in np.argsort(order)]
        result_shape = tuple((*shape, *rest)[i] for i in order)
        updates = make.permute(_stretched(value_of(x.dtype), result_shape), back)
        updates = make.reshape(updates, (math.prod(shape), *rest))
        done = make.scatter(function, flat, make.reshape(index, (math.prod(shape),)), updates, 0)
        done = make.permute(make.reshape(done, rows.shape), [int(i) for i in np.argsort(front)])
        return Traced(self._replaced(x.value, done), array, known)

    def _replaced(self, x: Value, updates: Value) -> Value:
        """Return x with its slice replaced."""
        starts, counts, steps = self.slices
        updates = make.reshape(updates, counts)
        backwards = [i for i, s in enumerate(steps) if s < 0]
        if backwards:
            updates = make.flip(updates, backwards)
            starts = tuple(
                a + (n - 1) * s if s < 0 else a for a, n, s in zip(starts, counts, steps, strict=True)
            )
            steps = tuple(map(abs, steps))
        if counts == x.shape:
            return updates
        if 0 in counts:
            return x
        axes = [i for i in range(x.ndim) if counts[i] != x.shape[i]]
        spans = [(counts[i] - 1) * steps[i] + 1 for i in range(x.ndim)]
        uniform = x.primitive == "expand" and x.inputs[0].primitive == "constant" and x.inputs[0].size == 1
        zero = uniform and not x.inputs[0].attributes["array"].any()
        if zero or (uniform and all(s == 1 for s in steps)):
            for i in axes:
                updates = make.spread(updates, i, steps[i])
            high = tuple(n - a - s for n, a, s in zip(x.shape, starts, spans, strict=True))
            return make.pad(updates, starts, high, x.inputs[0].attributes["array"].reshape(-1)[0])
        if all(s == 1 for s in steps):
            return _between(x, updates, starts, counts, axes)
        # Strided places of something that is not zero: where a place is met, the update; else what was there.
        met = make.constant(np.asarray(True))
        for i in axes:
            row = _is_met(x.shape[i], starts[i], spans[i], steps[i])
            met = make.map_values(
                "logical_and", met, make.reshape(row, (x.shape[i],) + (1,) * (x.ndim - i - 1))
            )
            updates = make.spread(updates, i, steps[i])
        high = tuple(n - a - s for n, a, s in zip(x.shape, starts, spans, strict=True))
        return make.where(met, make.pad(updates, starts, high), x)


def _is_met(n: int, start: int, span: int, step: int) -> Value:
    """Return where an axis is met by a slice, from its start on."""
    if is_fixed(n, start, span):
        row = np.zeros(n, dtype=bool)
        row[start : start + span : step] = True
        return make.constant(row)
    behind = make.map_values("subtract", make.iota(n), make.size(start))
    whole = make.map_values("remainder", behind, make.constant(np.int64(step)))
    tests = [
        make.map_values("greater_equal", behind, make.constant(np.int64(0))),
        make.map_values("less", behind, make.size(span)),
        make.map_values("equal", whole, make.constant(np.int64(0))),
    ]
    met = make.map_values("logical_and", *tests[:2])
    return make.map_values("logical_and", met, tests[2])


def sliced(part: slice, n: int) -> tuple[int, int, int]:
    """Return where a slice of an axis starts, how many elements it has, and its step.

    >>> sliced(slice(1, None, 2), 6), sliced(slice(-3, 100), 5), sliced(slice(None, None, -1), 3)
    ((1, 3, 2), (2, 3, 1), (2, 3, -1))
    """
    if is_fixed(n, *(b for b in (part.start, part.stop, part.step) if isinstance(b, int))):
        start, stop, step = part.indices(n)
        count = len(range(start, stop, step))
        return (start, count, step) if count else (0, 0, 1)
    step = 1 if part.step is None else operator.index(part.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    first, last = (0, n) if step > 0 else (-1, n - 1)  # between these all bounds are

    def bound(given: Any, otherwise: int) -> int:
        if given is None:
            return otherwise
        given = given if isinstance(given, int) else operator.index(given)
        given = given + n if given < 0 else given
        return first if given < first else last if given > last else given

    start, stop = (
        bound(part.start, first if step > 0 else last),
        bound(part.stop, last if step > 0 else first),
    )
    if (start >= stop) if step > 0 else (start <= stop):
        return 0, 0, 1
    return start, (stop - start + step - (1 if step > 0 else -1)) // step, step


def _selected(array: np.ndarray, *key: Any) -> np.ndarray:
    found = np.asarray(array[key])
    # (In the order of its axes, as GETITEM's result lies in memory.)
    return found if np.may_share_memory(found, array) else np.ascontiguousarray(found)


def _replaced(array: np.ndarray, new: Any, *key: Any) -> np.ndarray:
    array = array.copy()
    array[key] = new
    return array


def _added(array: np.ndarray, new: Any, *key: Any) -> np.ndarray:
    array = array.copy()
    np.add.at(array, key, new)
    return array


def _between(x: Value, updates: Value, starts: Any, counts: Any, axes: list[int]) -> Value:
    """Return x with a block replaced, as the block between what lies around it, axis by axis."""
    axis = axes[0]
    start, count, n = starts[axis], counts[axis], x.shape[axis]
    middle = make.crop(x, axis, start, count)
    inner = updates if len(axes) == 1 else _between(middle, updates, starts, counts, axes[1:])
    pieces = [make.crop(x, axis, 0, start), inner, make.crop(x, axis, start + count, n - start - count)]
    return make.concatenate([p for p in pieces if p.shape[axis]], axis)


def _stretched(value: Value, shape: tuple[int, ...]) -> Value:
    """Broadcast what is assigned; leading axes of length 1 are ignored."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = make.reshape(value, value.shape[1:])
    fixed = is_fixed(*value.shape, *shape)
    if value.ndim > len(shape) or (fixed and np.broadcast_shapes(value.shape, shape) != shape):
        raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")
    return make.expand(value, shape)


def _has_rows(new: Any, ndim: int) -> bool:
    """Tell whether what is written through a mask is rows of the mask, or one row, which has so many axes."""
    if isinstance(new, Traced) and new.is_masked:
        return True
    shape = np.shape(concrete(new))
    return bool(shape) and (len(shape) <= ndim or (len(shape) == ndim + 1 and shape[0] == 1))


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_


def _index_value(index: Any) -> Value:
    return make.cast(as_traced(index).value, np.int64)


def _within(value: Value, n: int) -> bool:
    """Tell whether an index is known to lie inside an axis."""
    while value.primitive in ("reshape", "expand", "permute"):
        value = value.inputs[0]
    if value.primitive == "iota":
        return surely_at_most(value.size, n)
    if "array" in value.attributes:  # a constant, or an input whose numbers are there
        array = value.attributes["array"]
        return not array.size or bool(array.min() >= 0 and surely_at_most(int(array.max()) + 1, n))
    return value.primitive == "arg_reduce" and surely_at_most(
        value.inputs[0].shape[value.attributes["axis"]], n
    )


def refuse_outside(value: Value, n: int) -> None:
    """Refuse an index whose numbers are there and do not lie inside an axis."""
    if not is_fixed(n):
        return
    while value.attributes.get("function") == "cast":
        (value,) = value.inputs
    array = value.attributes.get("array")
    if array is not None and array.size and (array.min() < -n or array.max() >= n):
        raise IndexError(f"an index is out of bounds for an axis of size {n}")


def _part(part: Any) -> Any:
    """Return one part of a key: numbers as ints, lists as arrays, and what may be written later as it is now."""
    if isinstance(part, list):
        part = np.asarray(part) if part else np.zeros(0, np.int64)
    if isinstance(part, bool):
        part = np.asarray(part)
    if isinstance(part, Traced):
        part = part.array if part.known else Traced(part.value, part.array)
    if isinstance(part, (np.integer, np.ndarray)) and part.ndim == 0 and part.dtype.kind in "iu":
        return int(part)
    return part


def _complete(parts: list[Any], ndim: int) -> list[Any]:
    """Write masks that are known as integers, and the ellipsis (or what is left out) as full slices."""
    parts = [i for p in parts for i in (np.nonzero(p) if _is_mask(p) else (p,))]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    place = next(i for i, p in enumerate(parts) if p is Ellipsis)
    parts[place : place + 1] = [slice(None)] * (ndim - used)
    return parts


def _refuse_mask() -> CompileError:
    return refuse(
        "indexing with a mask (the shape of the result)",
        "write minitorch.where(mask, x, 0) or masked_fill, which keep the shape",
    )


def _after_a_mask(key: Any) -> Any:
    """Return a mask that is not known and the index behind it, if that is what an index is; else None."""
    if not isinstance(key, tuple) or not key or not (isinstance(key[0], Traced) and _is_mask(key[0])):
        return None
    rest = key[1:]
    basic = all(part is None or isinstance(part, (int, slice)) for part in rest)
    return None if key[0].known or not rest or not basic else (key[0], (slice(None), *rest))


def read(x: Traced, key: Any) -> Traced:
    """Return x[key]: a view where NumPy makes one."""
    behind = _after_a_mask(key)
    if behind is not None:
        mask, rest = behind
        return read(x, mask)[rest]
    if isinstance(key, Traced) and key.is_masked and not _is_mask(key):
        return HANDLERS["take by rows"](x, key)
    plan = Key(x, key)
    out = plan.read(x)
    if plan.mask is not None:
        return out
    out.view_of(x, plan.read, lambda source, view: plan.write(source, view, "set"))
    out._place = plan.place
    return out


def write(x: Traced, key: Any, new: Any) -> None:
    """Do x[key] = new."""
    behind = _after_a_mask(key)
    if behind is not None:
        mask, rest = behind
        rows = read(x, mask)
        rows[rest] = new
        write(x, mask, rows)
        return
    plan = Key(x, key)
    if isinstance(new, Traced) and new._source is x and new._place is not None and new._place == plan.place:
        return  # the end of x[key] += …: the view was written, and x through it
    x.assign(plan.write(x, new, "set"))


def add_at(ufunc: Any, x: Any, key: Any, *new: Any) -> None:
    """Do np.add.at(x, key, new)."""
    if ufunc is not np.add:
        raise CompileError(
            f"compile: np.{ufunc.__name__}.at cannot be recorded; np.add.at can\n  {where_in_user_code()}"
        )
    target = writable(x)
    target.assign(Key(target, key).write(target, new[0], "add"))


HANDLERS["read"] = read
HANDLERS["write"] = write
HANDLERS["at"] = add_at
