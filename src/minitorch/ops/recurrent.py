"""Recurrence: cells, and a whole sequence of their steps as one op. Enters: the input's share at all time steps, and a
state. Leaves: the states at all time steps.

A cell's `forward` gives the next state, from the input's share x, the state's share s = h Wᵀ + b, and the state itself.
On Tensors the same lines are recorded, op by op. As one op a sequence takes a fraction of the time: what the rule needs
of all steps (`slopes`) is computed at once, only what is carried from step to step (`back`) step by step, and the
gradient of the weight is one product over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from minitorch.ops.activation import RELU, SIGMOID
from minitorch.ops.native import BATCH, natively, natively_there
from minitorch.ops.op import Array, Op


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


def _activated(x: Array, count: int, new: int | None = None) -> list[Array]:
    """Return σ of each part of the last axis; of the part `new`, tanh."""
    if x.__class__ is np.ndarray:  # of all at once
        n = x.shape[-1] // count
        done = SIGMOID.forward(x)
        if new is not None:
            part = slice(new * n, (new + 1) * n)
            np.tanh(x[..., part], out=done[..., part])
        return list(_parts(done, count))
    return [np.tanh(part) if i == new else SIGMOID(part) for i, part in enumerate(_parts(x, count))]


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
    write, forget, new, read = _activated(x + s, 4, new=2)
    c = forget * c + write * new
    return read * np.tanh(c), c


def _lstm_slopes(x: Array, s: Array, before: Sequence[Array], after: Sequence[Array]) -> tuple[Array, ...]:
    """Return dh'/dc', dc'/dc, and the slopes of c' (of the output gate: of h') with respect to the gates."""
    write, forget, new, read = _activated(x + s, 4, new=2)
    seen = np.tanh(after[1])
    of_cell = _joined(new * write * (1 - write), before[1] * forget * (1 - forget), write * (1 - new * new))
    return read * (1 - seen * seen), forget, of_cell, seen * read * (1 - read)


def _lstm_back(
    g: Sequence[Array | None], seen: Array, forget: Array, of_cell: Array, of_hidden: Array
) -> tuple[Array, Array, Sequence[Array | None]]:
    g_hidden, g_cell = g
    if g_hidden is None:
        g_hidden = np.zeros_like(forget)
    carried = g_hidden * seen if g_cell is None else g_hidden * seen + g_cell
    share = _joined(_joined(carried, carried, carried) * of_cell, g_hidden * of_hidden)
    return share, share, (None, carried * forget)


LSTM_CELL = Cell(4, _lstm, _lstm_slopes, _lstm_back)

# --- GRU: h' = n + σ(z)·(h - n), n = tanh(xₙ + σ(r)·sₙ), with r, z = x + s -------------------------------------------


def _gru_new(x: Array, s: Array) -> tuple[Array, Array, Array]:
    """Return σ(r), σ(z) and n."""
    size = x.shape[-1] // 3
    reset, update = _activated(x[..., : 2 * size] + s[..., : 2 * size], 2)
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
    thrice = _joined(g[0], g[0], g[0])
    return thrice * of_x, thrice * of_s, (g[0] * of_h,)


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


@natively_there
def _step(x: Array, weight: Array, bias: Array | None, *state: Array, cell: str) -> tuple[Array, ...]:
    """Return the state after one step, and s. On a device this is a product, and one kernel after it."""
    s = state[0] @ weight.swapaxes(0, 1)
    if bias is not None:
        s = s + bias
    return *CELLS[cell].forward(x, s, *state), s


@natively_there
def _step_back(weight: Array, g_s: Array | None, *rest: Array | None, cell: str) -> tuple[Array | None, ...]:
    """Return the gradients of x, of s (None: the same), and of the state before one step.

    rest: the gradients of the state after it that others gave, those that the following step carried, and the slopes.
    On a device this is one kernel, and a product after it.
    """
    rule = CELLS[cell]
    count = STATES[cell]
    arriving, carried, slopes = rest[:count], rest[count : 2 * count], rest[2 * count :]
    g = [c if a is None else a if c is None else a + c for a, c in zip(arriving, carried, strict=True)]
    share_x, share_s, direct = rule.back(g, *slopes)
    is_same = share_s is share_x
    if g_s is not None:
        share_s, is_same = share_s + g_s, False
    through = share_s @ weight
    if direct[0] is not None:
        through = through + direct[0]
    return share_x, None if is_same else share_s, through, *direct[1:]


def _recurrence(x: Array, weight: Array, bias: Array | None, *state: Array, cell: str) -> tuple[Array, ...]:
    """Return h after each step, (T, N, H), for others to write into; then, for the rule, the states and s at each.

    x: the input's share, (T, N, gates·H); weight (gates·H, H) and bias (gates·H): of the state's; state: (N, H) each.
    """
    states = []
    for t in range(x.shape[0]):
        *state, s = _step(x[t], weight, bias, *state, cell=cell)
        states.append((*state, s))
    kept = [np.stack(parts) for parts in zip(*states, strict=True)]
    return kept[0].copy(), *kept


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
    _, *after, s = out
    g_output, g_hidden, *g_others, g_s = g
    if g_output is None or g_hidden is None:
        g_hidden = g_output if g_hidden is None else g_hidden
    else:
        g_hidden = g_hidden + g_output
    arriving = [g_hidden, *g_others]
    before = [np.concatenate([first[None], each[:-1]]) for first, each in zip(state, after, strict=True)]
    slopes = CELLS[cell].slopes(x, s, before, after)
    carried: list[Array | None] = [None] * len(state)
    shares_x, shares_s = [], []
    for t in reversed(range(x.shape[0])):
        given = [None if each is None else each[t] for each in arriving]
        if given[0] is None and carried[0] is None:
            given[0] = np.zeros_like(state[0])
        more = None if g_s is None else g_s[t]  # in derivatives of this rule, which reads s
        of_step = [slope[t] for slope in slopes]
        share_x, share_s, *carried = _step_back(weight, more, *given, *carried, *of_step, cell=cell)
        shares_x.append(share_x)
        shares_s.append(share_s)
    dx = np.stack(shares_x[::-1])
    ds = dx if shares_s[0] is None else np.stack(shares_s[::-1])
    rows = ds.reshape((-1, ds.shape[-1]))
    d_weight = rows.swapaxes(0, 1) @ before[0].reshape((-1, before[0].shape[-1]))
    return dx, d_weight, None if bias is None else rows.sum(axis=0), *carried


RECURRENCE = Op("recurrence", _recurrence, joint=_recurrence_rule, takes_none=True)
