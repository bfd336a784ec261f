"""Recurrence: cells, and a whole sequence of their steps as one op. Enters: the input's share at all time steps, and a
state. Leaves: the states at all time steps.

A cell's `forward` gives the next state, from the input's share x, the state's share s = h Wᵀ + b, and the state itself.
On Tensors the same lines are recorded, op by op. As one op a sequence takes a fraction of the time: what the rule needs
of all steps (`slopes`) is computed at once, only what is carried from step to step (`back`) step by step, and the
gradient of the weight is one product over all of them. On a device, where to begin a step takes longer than to compute
it, a stretch of many steps is one program of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from minitorch.ops.activation import RELU, SIGMOID
from minitorch.ops.native import BATCH, compared_with, is_of_device, natively, natively_there
from minitorch.ops.op import Array, Op, in_axis_order


class Cell(NamedTuple):
    """One step of a recurrence.

    gates: how many parts of the state's length the shares have.
    forward(x, s, *state): the next state, of which the first part is multiplied by the weight in the next step.
    slopes(x, s, previous, following): what `back` needs, from the states before and after a step.
    back(g, *slopes): from the gradients of the state after a step those of x, s and the state before it (None: 0, but
    for what comes through s).
    """

    gates: int
    forward: Callable[..., tuple[Array, ...]]
    slopes: Callable[..., tuple[Array, ...]]
    back: Callable[..., tuple[Array, Array, Sequence[Array | None]]]


def _parts(x: Array, count: int) -> Sequence[Array]:
    """Return the parts of the last axis, `count` of equal length."""
    if hasattr(x, "chunk"):  # of a Tensor by one op: its gradient is put together once
        return x.chunk(count, -1)
    n = x.shape[-1] // count
    return [x[..., i * n : (i + 1) * n] for i in range(count)]


def _is_recorded(x: Array) -> bool:
    """Tell whether lines are written down, to become kernels: one for parts of one size computes all of them."""
    return hasattr(x, "expanded")


def _activated(x: Array, s: Array, count: int, new: int | None = None) -> list[Array]:
    """Return σ of each part of the last axis of x + s; of the part `new`, tanh."""
    if x.__class__ is np.ndarray:  # of all at once
        added = x + s
        n = x.shape[-1] // count
        done = SIGMOID.forward(added)
        if new is not None:
            part = slice(new * n, (new + 1) * n)
            np.tanh(added[..., part], out=done[..., part])
        return list(_parts(done, count))
    parts: Sequence[Array]
    if _is_recorded(x):
        parts = [a + b for a, b in zip(_parts(x, count), _parts(s, count), strict=True)]
    else:
        parts = _parts(x + s, count)
    return [np.tanh(part) if i == new else SIGMOID(part) for i, part in enumerate(parts)]


def _joined(*parts: Array) -> Array:
    return np.concatenate(parts, axis=-1)


# --- plain: h' = tanh(x + s), or relu of it ------------------------------------------------------------------------

TANH_CELL = Cell(
    1,
    lambda x, s, h: (np.tanh(x + s),),
    lambda x, s, before, after: (1 - after[0] * after[0],),
    lambda g, slope: ((share := g[0] * slope), share, (None,)),
)
RELU_CELL = Cell(
    1,
    lambda x, s, h: (RELU(x + s),),
    lambda x, s, before, after: (after[0] > 0,),
    lambda g, slope: ((share := np.where(slope, g[0], 0)), share, (None,)),
)

# --- LSTM: c' = σ(f)·c + σ(i)·tanh(g), h' = σ(o)·tanh(c'), with i, f, g, o = x + s -----------------------------------


def _lstm(x: Array, s: Array, h: Array, c: Array) -> tuple[Array, Array]:
    write, forget, new, read = _activated(x, s, 4, new=2)
    c = forget * c + write * new
    return read * np.tanh(c), c


def _lstm_slopes(x: Array, s: Array, before: Sequence[Array], after: Sequence[Array]) -> tuple[Array, ...]:
    """Return dh'/dc', dc'/dc, and the slopes of c' (of the output gate: of h') with respect to each gate."""
    write, forget, new, read = _activated(x, s, 4, new=2)
    seen = np.tanh(after[1])
    of_gates = new * write * (1 - write), before[1] * forget * (1 - forget), write * (1 - new * new)
    return read * (1 - seen * seen), forget, *of_gates, seen * read * (1 - read)


def _lstm_back(
    g: Sequence[Array | None],
    seen: Array,
    forget: Array,
    of_write: Array,
    of_forget: Array,
    of_new: Array,
    of_read: Array,
) -> tuple[Array, Array, Sequence[Array | None]]:
    g_hidden, g_cell = g
    if g_hidden is None:
        g_hidden = np.zeros_like(forget)
    carried = g_hidden * seen if g_cell is None else g_hidden * seen + g_cell
    share = _joined(carried * of_write, carried * of_forget, carried * of_new, g_hidden * of_read)
    return share, share, (None, carried * forget)


LSTM_CELL = Cell(4, _lstm, _lstm_slopes, _lstm_back)

# --- GRU: h' = n + σ(z)·(h - n), n = tanh(xₙ + σ(r)·sₙ), with r, z = x + s -------------------------------------------


def _gru_new(x: Array, s: Array) -> tuple[Array, Array, Array]:
    """Return σ(r), σ(z) and n."""
    size = x.shape[-1] // 3
    reset, update = _activated(x[..., : 2 * size], s[..., : 2 * size], 2)
    return reset, update, np.tanh(x[..., 2 * size :] + reset * s[..., 2 * size :])


def _gru(x: Array, s: Array, h: Array) -> tuple[Array]:
    _, update, new = _gru_new(x, s)
    return (new + update * (h - new),)


def _gru_slopes(x: Array, s: Array, before: Sequence[Array], after: Sequence[Array]) -> tuple[Array, ...]:
    """Return the slopes of h' with respect to h, to x, and to s."""
    reset, update, new = _gru_new(x, s)
    of_new = (1 - update) * (1 - new * new)
    of_update = (before[0] - new) * update * (1 - update)
    of_reset = of_new * s[..., -new.shape[-1] :] * reset * (1 - reset)
    return update, _joined(of_reset, of_update, of_new), _joined(of_reset, of_update, of_new * reset)


def _gru_back(
    g: Sequence[Array | None], of_h: Array, of_x: Array, of_s: Array
) -> tuple[Array, Array, Sequence[Array | None]]:
    if _is_recorded(of_h):
        share_x, share_s = (_joined(*[g[0] * part for part in _parts(each, 3)]) for each in (of_x, of_s))
    else:
        thrice = _joined(g[0], g[0], g[0])
        share_x, share_s = thrice * of_x, thrice * of_s
    return share_x, share_s, (g[0] * of_h,)


GRU_CELL = Cell(3, _gru, _gru_slopes, _gru_back)


def _natively(cell: Cell) -> Cell:
    """Return a cell whose large arrays native kernels compute, each in one pass (`back` has few steps already)."""
    gated = cell.gates > 1
    return cell._replace(
        forward=natively(cell.forward, BATCH, costly=gated), slopes=natively(cell.slopes, BATCH, costly=gated)
    )


CELLS = {
    name: _natively(cell)
    for name, cell in {"tanh": TANH_CELL, "relu": RELU_CELL, "lstm": LSTM_CELL, "gru": GRU_CELL}.items()
}

STATES = {"tanh": 1, "relu": 1, "lstm": 2, "gru": 1}  # of how many parts a cell's state is


# --- a sequence ------------------------------------------------------------------------------------------------------


# How many steps a stretch may have on a device. It is a program there, and takes the longer to make the more steps it
# has (of an LSTM half a second for 64 steps, as long again backward, a quarter of it for 16): few lengths serve all.
LENGTHS = (64, 32, 16, 8, 4, 2, 1)


def _stretches(x: Array) -> list[slice]:
    """Return the stretches of a sequence: all of it, or on a device pieces of a few lengths, the longest first."""
    total = x.shape[0]
    if not is_of_device(x):
        return [slice(0, total)]
    found, begin = [], 0
    for length in LENGTHS:
        while total - begin >= length:
            found.append(slice(begin, begin + length))
            begin += length
    return found


def _for_kernels(sequence: Array | None) -> Array | None:
    """Return a sequence whose stretches lie in one piece each, as kernels of a device want them."""
    return in_axis_order(sequence) if is_of_device(sequence) else sequence


def _end_to_end(parts: Sequence[Array]) -> Array:
    """Return what stretches gave, one after the other in time."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _sum(a: Array | None, b: Array | None) -> Array | None:
    """Return a + b; None is 0."""
    return b if a is None else a if b is None else a + b


def _each_by_itself(
    found: Sequence[Array],
    x: Array,
    weight: Array,
    bias: Array | None,
    *state: Array,
    cell: str,
    count: int,
) -> tuple[Array, ...]:
    """Return what `_steps` should have given, if each step began with the state that was found before it."""
    before = [each[:-1] for each in found[1 + len(state) : 1 + 2 * len(state)]]
    s = before[0] @ weight.swapaxes(0, 1)
    if bias is not None:
        s = s + bias
    after = CELLS[cell].forward(x, s, *before)
    kept = [np.concatenate([first[None], each]) for first, each in zip(state, after, strict=True)]
    return after[0], *[each[-1] for each in after], *kept, *([s] if CELLS[cell].gates > 1 else [])


@natively_there
@compared_with(_each_by_itself)  # (rounding may grow from step to step, as far as the numbers themselves)
def _steps(
    x: Array, weight: Array, bias: Array | None, *state: Array, cell: str, count: int
) -> tuple[Array, ...]:
    """Return h after each of some steps, and the last state; then the states before each step and after the last, and,
    of a cell with gates, s at each step.

    On a device a step is a product, and one kernel after it. Both write to where their results lie among those of all.
    """
    turned = weight.swapaxes(0, 1)
    states, shares = [state], []
    for t in range(count):
        s = state[0] @ turned
        if bias is not None:
            s = s + bias
        state = CELLS[cell].forward(x[t], s, *state)
        states.append(state)
        shares.append(s)
    kept = [np.stack(parts) for parts in zip(*states, strict=True)]
    if CELLS[cell].gates > 1:
        kept.append(np.stack(shares))
    return kept[0][1:].copy(), *state, *kept


@natively_there
def _steps_back(
    weight: Array,
    x: Array,
    s: Array | None,
    g_s: Array | None,
    *rest: Array | None,
    cell: str,
    count: int,
    has_bias: bool,
) -> tuple[Array | None, ...]:
    """Return the gradients of x and of the state before some steps, and of weight and bias, added to those of others.

    rest: the states before each step and after the last; the gradients that others gave of those after each step; what
    the steps that follow carried back to the last, and what they gave weight and bias. On a device a step is one
    kernel, and a product after it.
    """
    rule, parts = CELLS[cell], STATES[cell]
    states: Sequence[Array] = rest[:parts]
    arriving, carried = rest[parts : 2 * parts], rest[2 * parts : -2]
    before = [each[:-1] for each in states]
    slopes = rule.slopes(x, s, before, [each[1:] for each in states])
    shares_x, shares_s = [], []
    for t in reversed(range(count)):
        given = [None if each is None else each[t] for each in arriving]
        g = [_sum(a, c) for a, c in zip(given, carried, strict=True)]
        if g[0] is None:
            g[0] = np.zeros_like(before[0][0])
        share_x, share_s, direct = rule.back(g, *[slope[t] for slope in slopes])
        if g_s is not None:
            share_s = share_s + g_s[t]
        carried = (_sum(share_s @ weight, direct[0]), *direct[1:])
        shares_x.append(share_x)
        shares_s.append(share_s)
    dx = np.stack(shares_x[::-1])
    ds = dx if share_s is share_x else np.stack(shares_s[::-1])
    rows = ds.reshape((-1, ds.shape[-1]))
    d_weight = rows.swapaxes(0, 1) @ before[0].reshape((-1, before[0].shape[-1]))
    d_bias = rows.sum(axis=0) if has_bias else None
    return dx, *carried, _sum(d_weight, rest[-2]), _sum(d_bias, rest[-1])


def _recurrence(x: Array, weight: Array, bias: Array | None, *state: Array, cell: str) -> tuple[Array, ...]:
    """Return h after each step, (T, N, H), and the last state: nobody else reads these arrays, and a person may write
    into them. Then, for the rule, the states before each step and after the last, (T + 1, N, H), and s at each step.

    x: the input's share, (T, N, gates·H); weight (gates·H, H) and bias (gates·H): of the state's; state: (N, H) each.
    """
    parts = len(state)
    x = _for_kernels(x)
    found: list[Sequence[Array]] = []
    for steps in _stretches(x):
        length = steps.stop - steps.start
        output, *others = _steps(x[steps], weight, bias, *state, cell=cell, count=length)
        state, kept, shares = others[:parts], others[parts : 2 * parts], others[2 * parts :]
        if found:  # the state before a stretch is the one after the last
            kept = [each[1:] for each in kept]
        found.append([output, *kept, *shares])
    output, *kept = map(_end_to_end, zip(*found, strict=True))
    return output, *state, *kept


def _recurrence_rule(
    g: Sequence[Array | None],
    out: Sequence[Array],
    x: Array,
    weight: Array,
    bias: Array | None,
    *state: Array,
    cell: str,
) -> tuple[Array | None, ...]:
    """Walk back through the steps, from the last.

    dx is each step's own; dW = Σₜ dsₜᵀ hₜ₋₁ and db = Σₜ dsₜ; the state gets what reaches it directly, and ds W.
    """
    parts = len(state)
    gated = CELLS[cell].gates > 1
    states, s = out[1 + parts : 1 + 2 * parts], out[-1] if gated else None
    # (In derivatives of this rule, which reads them, these have gradients, too.)
    g_states, g_s = g[1 + parts : 1 + 2 * parts], g[-1] if gated else None
    arriving = [None if each is None else each[1:] for each in g_states]
    arriving[0] = _sum(arriving[0], g[0])
    x, g_s, *arriving = map(_for_kernels, (x, g_s, *arriving))
    carried: Sequence[Array | None] = [*g[1 : 1 + parts], None, None]  # the last two: of weight and bias
    found = []
    for steps in reversed(_stretches(x)):
        here = [None if each is None else each[steps] for each in (x, s, g_s)]
        around = [each[steps.start : steps.stop + 1] for each in states]
        given = [None if each is None else each[steps] for each in arriving]
        options = {"cell": cell, "count": steps.stop - steps.start, "has_bias": bias is not None}
        share, *carried = _steps_back(weight, *here, *around, *given, *carried, **options)
        found.append(share)
    *d_state, d_weight, d_bias = carried
    first = [None if each is None else each[0] for each in g_states]
    return _end_to_end(found[::-1]), d_weight, d_bias, *map(_sum, d_state, first)


RECURRENCE = Op("recurrence", _recurrence, joint=_recurrence_rule, takes_none=True)
