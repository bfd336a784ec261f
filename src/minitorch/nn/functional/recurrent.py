"""Recurrence: a state carried from one time step to the next. Enters: steps and a state. Leaves: the states.

The input's share of each step does not depend on the state: `project` computes it for all time steps in one
product, and a step then only adds the state's share. The four gates of an LSTM and the three of a GRU lie side
by side in one weight matrix, in PyTorch's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitorch.engine.modes import autocasting
from minitorch.engine.record import apply_many
from minitorch.functions import cat
from minitorch.nn.functional.linear import linear
from minitorch.ops.recurrent import CELLS, RECURRENCE
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor

State = tuple[Tensor, ...]
# The weight of the state's share, its bias, and the projection of an LSTM's output.
Weights = tuple[Tensor, Tensor | None, Tensor | None]
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
    if autocasting and total is not None:  # the product alone may be of half precision
        return linear(x, w_ih) + total
    return linear(x, w_ih, total)


def cell_step(cell: str, w_hh: Tensor, b_hh: Tensor | None = None, w_hr: Tensor | None = None) -> Step:
    """Return one step of a cell of ops/recurrent.py: 'tanh', 'relu', 'lstm' or 'gru'; then h' W_hrᵀ if given."""
    weight = w_hh.t()
    projection = None if w_hr is None else w_hr.t()
    forward = CELLS[cell].forward

    def step(x: Tensor, state: State) -> State:
        share = state[0] @ weight
        hidden, *others = forward(x, share if b_hh is None else share + b_hh, *state)
        return (hidden if projection is None else hidden @ projection), *others

    return step


def recurrence(
    cell: str, x: Tensor, w_hh: Tensor, b_hh: Tensor | None, state: State, backwards: bool = False
) -> tuple[Tensor, State]:
    """Carry a state through all time steps of x (T, N, …) by one op: what `scan` does for a batch that stays as it is.

    >>> outputs, (last,) = recurrence("tanh", minitorch.zeros(3, 1, 2), minitorch.eye(2), None, (minitorch.ones(1, 2),))
    >>> outputs.shape, last.shape
    ((3, 1, 2), (1, 2))
    """
    x = x.flip(0) if backwards else x
    output, *others = apply_many(RECURRENCE, x, w_hh, b_hh, *state, cell=cell)
    return (output.flip(0) if backwards else output), tuple(others[: len(state)])


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
    return cell_step("tanh", w_hh)(project(as_tensor(input), w_ih, b_ih, b_hh), (hx,))[0]


def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """relu(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh): one step of a plain recurrent network.

    >>> rnn_relu_cell(minitorch.zeros(2, 3), minitorch.zeros(2, 4), minitorch.ones(4, 3), minitorch.ones(4, 4)).shape
    (2, 4)
    """
    return cell_step("relu", w_hh)(project(as_tensor(input), w_ih, b_ih, b_hh), (hx,))[0]


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """One step of a gated recurrent unit; w_ih (3H, I) holds reset, update and new side by side.

    >>> gru_cell(minitorch.zeros(2, 3), minitorch.zeros(2, 4), minitorch.ones(12, 3), minitorch.ones(12, 4)).shape
    (2, 4)
    """
    return cell_step("gru", w_hh, b_hh)(project(as_tensor(input), w_ih, b_ih), (hx,))[0]


def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory; w_ih (4H, I) holds input, forget, cell and output gate.

    >>> state = minitorch.zeros(2, 4), minitorch.zeros(2, 4)
    >>> h, c = lstm_cell(minitorch.zeros(2, 3), state, minitorch.ones(16, 3), minitorch.ones(16, 4))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """
    hidden, cell = cell_step("lstm", w_hh)(project(as_tensor(input), w_ih, b_ih, b_hh), tuple(hx))
    return hidden, cell


__all__ = ["gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]
