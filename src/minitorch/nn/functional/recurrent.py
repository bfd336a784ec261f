"""Recurrence: a state carried from one time step to the next. Enters: steps and a state. Leaves: the states.

The input's share of each step does not depend on the state: `project` computes it for all time steps in one
product, and a step then only adds the state's share. The four gates of an LSTM and the three of a GRU lie side
by side in one weight matrix, in PyTorch's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitorch.functions import cat
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State], State]


def project(x: Tensor, w_ih: Tensor, *biases: Tensor | None) -> Tensor:
    """Return x Wᵀ + b, for one time step or for all of them at once.

    >>> project(minitorch.zeros(7, 2, 5), minitorch.ones(4, 5), minitorch.ones(4)).shape
    (7, 2, 4)
    """
    total: Any = None
    for bias in biases:
        if bias is not None:
            total = bias if total is None else total + bias
    product = x @ w_ih.t()
    return product if total is None else product + total


def rnn_step(w_hh: Tensor, nonlinearity: str) -> Step:
    """h' = tanh(x + h Wᵀ), or relu of it."""
    weight = w_hh.t()
    if nonlinearity == "tanh":
        return lambda x, state: ((x + state[0] @ weight).tanh(),)
    return lambda x, state: ((x + state[0] @ weight).relu(),)


def lstm_step(w_hh: Tensor, w_hr: Tensor | None = None) -> Step:
    """c' = σ(f)·c + σ(i)·tanh(g), h' = σ(o)·tanh(c') with i, f, g, o = x + h Wᵀ; then h' W_hrᵀ if given."""
    weight = w_hh.t()
    projection = None if w_hr is None else w_hr.t()

    def step(x: Tensor, state: State) -> State:
        hidden, cell = state
        i, f, g, o = (x + hidden @ weight).chunk(4, -1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        return (hidden if projection is None else hidden @ projection), cell

    return step


def gru_step(w_hh: Tensor, b_hh: Tensor | None) -> Step:
    """n = tanh(xₙ + σ(r)·hₙ), h' = n + σ(z)·(h - n) with r, z the sums of x's and h's shares."""
    weight = w_hh.t()
    size = w_hh.shape[1]

    def step(x: Tensor, state: State) -> State:
        (hidden,) = state
        share = hidden @ weight
        if b_hh is not None:
            share = share + b_hh
        x_gates, x_new = x.split([2 * size, size], -1)
        h_gates, h_new = share.split([2 * size, size], -1)
        reset, update = (x_gates + h_gates).sigmoid().chunk(2, -1)
        new = (x_new + reset * h_new).tanh()
        return (new + update * (hidden - new),)

    return step


def scan(
    step: Step, inputs: Sequence[Tensor], state: State, backwards: bool = False
) -> tuple[list[Tensor], State]:
    """Carry a state through time steps: return the first part of each state, in order, and the last state.

    A batch may shrink from step to step, as in a PackedSequence, whose sequences are sorted by length: the
    rows that end keep their last state. Backwards, rows join in where their sequence begins.

    >>> double = lambda x, state: (x + 2 * state[0],)
    >>> outputs, (last,) = scan(double, minitorch.ones(3, 1).unbind(), (minitorch.zeros(1),))
    >>> [o.item() for o in outputs], last.item()
    ([1.0, 3.0, 7.0], 7.0)
    """
    steps = list(inputs)[::-1] if backwards else list(inputs)
    first = state
    ended: list[State] = []
    outputs = []
    if backwards and steps[0].shape[0] < first[0].shape[0]:
        state = tuple(part[: steps[0].shape[0]] for part in first)
    for x in steps:
        have, want = state[0].shape[0], x.shape[0]
        if want < have:
            ended.append(tuple(part[want:] for part in state))
            state = tuple(part[:want] for part in state)
        elif want > have:
            state = tuple(cat([part, start[have:want]]) for part, start in zip(state, first, strict=True))
        state = step(x, state)
        outputs.append(state[0])
    if ended:
        state = tuple(cat(list(parts)) for parts in zip(state, *reversed(ended), strict=True))
    return (outputs[::-1] if backwards else outputs), state


# --- one step, in PyTorch's words ---------------------------------------------------------------


def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """tanh(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh): one step of a plain recurrent network.

    >>> rnn_tanh_cell(minitorch.zeros(2, 3), minitorch.zeros(2, 4), minitorch.ones(4, 3), minitorch.ones(4, 4)).shape
    (2, 4)
    """
    return rnn_step(w_hh, "tanh")(project(as_tensor(input), w_ih, b_ih, b_hh), (hx,))[0]


def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """relu(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh): one step of a plain recurrent network.

    >>> rnn_relu_cell(minitorch.zeros(2, 3), minitorch.zeros(2, 4), minitorch.ones(4, 3), minitorch.ones(4, 4)).shape
    (2, 4)
    """
    return rnn_step(w_hh, "relu")(project(as_tensor(input), w_ih, b_ih, b_hh), (hx,))[0]


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """One step of a gated recurrent unit; w_ih (3H, I) holds reset, update and new side by side.

    >>> gru_cell(minitorch.zeros(2, 3), minitorch.zeros(2, 4), minitorch.ones(12, 3), minitorch.ones(12, 4)).shape
    (2, 4)
    """
    return gru_step(w_hh, b_hh)(project(as_tensor(input), w_ih, b_ih), (hx,))[0]


def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory; w_ih (4H, I) holds input, forget, cell and output gate.

    >>> state = minitorch.zeros(2, 4), minitorch.zeros(2, 4)
    >>> h, c = lstm_cell(minitorch.zeros(2, 3), state, minitorch.ones(16, 3), minitorch.ones(16, 4))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """
    hidden, cell = lstm_step(w_hh)(project(as_tensor(input), w_ih, b_ih, b_hh), tuple(hx))
    return hidden, cell


__all__ = ["gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]
