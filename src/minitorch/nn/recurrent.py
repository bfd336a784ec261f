"""Recurrent layers and cells: RNN, LSTM, GRU. Enters: sequences (T, N, I). Leaves: states (T, N, H), last state.

A layer runs over time, once or (bidirectional) once each way; layers are stacked, each reading the one below.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

from minitorch.creation import empty
from minitorch.engine.modes import autocasting, current
from minitorch.engine.node import new_tensor
from minitorch.engine.recording import fixed, recorder
from minitorch.functions import cat, stack
from minitorch.nn import init
from minitorch.nn.functional import recurrent as F
from minitorch.nn.functional.dropout import dropout
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.nn.utils.rnn import PackedSequence
from minitorch.ops.op import zeros
from minitorch.ops.recurrent import CELLS
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, cast

CELL_OF = {"RNN_TANH": "tanh", "RNN_RELU": "relu", "LSTM": "lstm", "GRU": "gru"}
GATES = {mode: CELLS[cell].gates for mode, cell in CELL_OF.items()}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters, checks, layers and directions.

    Layer k has weight_ih_lk (gates·H, input), weight_hh_lk (gates·H, H), bias_ih_lk, bias_hh_lk; the backward
    direction the same with _reverse at the end.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options(dropout)
        directions = 2 if bidirectional else 1
        # What a layer hands on: the hidden state, or its projection.
        handed_on = proj_size or hidden_size
        gates = GATES[mode] * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else handed_on * directions
            for direction in range(directions):
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates, width),
                    "weight_hh": (gates, handed_on),
                }
                if bias:
                    shapes.update({"bias_ih": (gates,), "bias_hh": (gates,)})
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    made = Parameter(empty(shape, device=device, dtype=dtype))
                    self.register_parameter(_full_name(name, layer, direction), made)
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        kind = type(self).__name__
        for name in ("input_size", "hidden_size", "num_layers"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{kind}: {name} should be an int, got {type(value).__name__}")
            if value <= 0:
                raise ValueError(f"{kind}: {name} must be greater than zero, got {value}")
        for name in ("bias", "batch_first", "bidirectional"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{kind}: {name} should be a bool, got {type(getattr(self, name)).__name__}")
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= self.dropout <= 1:
            raise ValueError(
                f"{kind}: dropout should be a number in range [0, 1], the share of elements zeroed, got {dropout!r}"
            )
        if self.proj_size and self.mode != "LSTM":
            raise ValueError(f"{kind}: proj_size is only there for LSTM")
        if not 0 <= self.proj_size < self.hidden_size:
            raise ValueError(
                f"{kind}: proj_size has to be at least 0 and smaller than hidden_size {self.hidden_size}, got "
                f"{self.proj_size}"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                f"{kind}: dropout acts between layers, after all but the last one, so dropout={self.dropout} does "
                "nothing with num_layers=1",
                stacklevel=4,
            )

    def reset_parameters(self) -> None:
        """Draw every parameter from U(-1/√H, 1/√H)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: PyTorch needs it to lay weights out for its GPU kernels."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction, in order.

        >>> len(LSTM(3, 4, num_layers=2).all_weights)
        2
        """
        names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
        return [
            [self._parameters[_full_name(n, k, d)] for n in names if _full_name(n, k, d) in self._parameters]  # type: ignore[misc]
            for k in range(self.num_layers)
            for d in range(2 if self.bidirectional else 1)
        ]

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not at their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Run over a sequence (T, N, I), or (N, T, I) with batch_first, or (T, I), or a PackedSequence.

        hx: the state to begin with, (layers·directions, N, H), zeros if left out; an LSTM's is a pair (h, c).
        Return the last layer's states at all times, and every layer's last state.
        """
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        x, hx = self._under_autocast(as_tensor(input)), self._under_autocast(hx)
        if x.ndim not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: expects input (T, N, {self.input_size}), (N, T, {self.input_size}) with "
                f"batch_first, or (T, {self.input_size}), got shape {x.shape}"
            )
        alone = x.ndim == 2
        if alone:
            states = self._initial_states(x, hx, 1, alone=True)
            x = x.unsqueeze(1)
            time_axis = 0
        else:
            time_axis = 1 if self.batch_first else 0
            states = self._initial_states(x, hx, x.shape[1 - time_axis])
        if x.shape[time_axis] == 0:
            raise RuntimeError(
                f"{type(self).__name__}: a sequence needs at least one time step, got {x.shape}"
            )
        by_one_op = not self.proj_size and recorder() is None  # a program goes step by step
        if time_axis:  # from here on time comes first; for one op in memory, too
            x = x.swapaxes(0, 1)
            x = x.contiguous() if by_one_op else x
        output, last = self._run_layers(x, states, self._in_one if by_one_op else self._step_by_step)
        if time_axis:
            output = output.swapaxes(0, 1)
        if alone:
            output, last = output.squeeze(1), tuple(part.squeeze(1) for part in last)
        return output, self._as_given(last)

    def _run_packed(self, input: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, order, back = input
        data, hx = self._under_autocast(data), self._under_autocast(hx)
        sizes = fixed(batch_sizes._data).tolist()
        states = self._initial_states(data, hx, sizes[0])
        if order is not None and hx is not None:
            states = tuple(part[:, order] for part in states)
        run = functools.partial(self._step_by_step, take_apart=lambda share: share.split(sizes), join=cat)
        output, last = self._run_layers(data, states, run)
        if back is not None:
            last = tuple(part[:, back] for part in last)
        return PackedSequence(output, batch_sizes, order, back), self._as_given(last)

    def _step_by_step(
        self,
        share: Tensor,
        weights: F.Weights,
        state: F.State,
        backwards: bool,
        take_apart: Any = Tensor.unbind,
        join: Any = stack,
    ) -> tuple[Tensor, F.State]:
        step = F.cell_step(CELL_OF[self.mode], *weights)
        outputs, last = F.scan(step, take_apart(share), state, backwards)
        return join(outputs), last

    def _in_one(
        self, share: Tensor, weights: F.Weights, state: F.State, backwards: bool
    ) -> tuple[Tensor, F.State]:
        weight, bias, _ = weights
        return F.recurrence(CELL_OF[self.mode], share, weight, bias, state, backwards)

    def _run_layers(self, x: Tensor, states: F.State, run: Any) -> Any:
        directions = 2 if self.bidirectional else 1
        starts = list(zip(*(part.unbind(0) for part in states), strict=True))
        last: list[F.State] = []
        for layer in range(self.num_layers):
            found = []
            for direction in range(directions):
                share, weights = self._layer(x, layer, direction)
                output, end = run(share, weights, starts[layer * directions + direction], bool(direction))
                found.append(output)
                last.append(end)
            x = found[0] if directions == 1 else cat(found, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = dropout(x, self.dropout, self.training)
        if len(last) == 1 and run == self._in_one:  # which gives last states that nobody else reads
            return x, tuple(part.unsqueeze(0) for part in last[0])
        return x, tuple(stack(list(parts)) for parts in zip(*last, strict=True))

    def _layer(self, x: Tensor, layer: int, direction: int) -> tuple[Tensor, F.Weights]:
        """Return the input's share at all time steps, and the weights of the state's."""

        def weight(name: str) -> Any:
            return self._parameters.get(_full_name(name, layer, direction))

        b_ih, b_hh = weight("bias_ih"), weight("bias_hh")
        if self.mode == "GRU":
            # The reset gate multiplies the state's share with its bias: it cannot be added beforehand.
            return F.project(x, weight("weight_ih"), b_ih), (weight("weight_hh"), b_hh, None)
        share = F.project(x, weight("weight_ih"), b_ih, b_hh)
        return share, (weight("weight_hh"), None, weight("weight_hr"))

    def _under_autocast(self, given: Any) -> Any:
        """Return what other layers gave in half precision under autocast in the parameters' dtype: all stays in it."""
        if not autocasting or current().precision is None:
            return given
        if isinstance(given, (tuple, list)):
            return tuple(map(self._under_autocast, given))
        is_half = isinstance(given, Tensor) and given.is_floating_point() and given.itemsize == 2
        return cast(given, self.weight_ih_l0.dtype) if is_half else given

    def _as_given(self, last: F.State) -> Any:
        return last if self.mode == "LSTM" else last[0]

    def _initial_states(self, x: Tensor, hx: Any, batch: int, alone: bool = False) -> F.State:
        """Return the state to begin with, checked, as (layers·directions, N, H) each."""
        kind = type(self).__name__
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{kind}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]}"
            )
        dtype = self.weight_ih_l0.dtype
        if x.dtype != dtype:
            raise ValueError(
                f"{kind}: input is {x.dtype} but the parameters are {dtype}; write input.to(minitorch.{dtype}) or "
                f"module.to(minitorch.{x.dtype})"
            )
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size]
        if self.mode == "LSTM":
            sizes.append(self.hidden_size)
        if hx is None:
            zeros_of = {size: _zeros((count, batch, size), x) for size in set(sizes)}
            return tuple(zeros_of[size] for size in sizes)
        if self.mode == "LSTM":
            if not isinstance(hx, (tuple, list)) or len(hx) != 2:
                raise TypeError(f"{kind}: the state is a pair (h_0, c_0), got {type(hx).__name__}")
            given = [as_tensor(part) for part in hx]
        else:
            given = [as_tensor(hx)]
        expected = [(count, size) if alone else (count, batch, size) for size in sizes]
        if [part.shape for part in given] != expected:
            names = "(h_0, c_0)" if self.mode == "LSTM" else "h_0"
            raise RuntimeError(
                f"{kind}: input of shape {x.shape} needs {names} of shape {', '.join(map(str, expected))}, got "
                f"{', '.join(str(part.shape) for part in given)}"
            )
        return tuple(part.unsqueeze(1) if alone else part for part in given)


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros of another tensor's dtype, where it is."""
    return new_tensor(zeros(shape, like._data))


def _full_name(name: str, layer: int, direction: int) -> str:
    return f"{name}_l{layer}" + ("_reverse" if direction else "")


class RNN(RNNBase):
    """hₜ = tanh(xₜ W_ihᵀ + b_ih + hₜ₋₁ W_hhᵀ + b_hh), in layers, one way or both; or relu for tanh.

    >>> output, last = RNN(5, 8, num_layers=2)(minitorch.zeros(7, 3, 5))     # T × N × I
    >>> output.shape, last.shape
    ((7, 3, 8), (2, 3, 8))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: a cell that gates write to, erase and read.

    cₜ = σ(f)·cₜ₋₁ + σ(i)·tanh(g), hₜ = σ(o)·tanh(cₜ); proj_size > 0 hands on hₜ W_hrᵀ instead.

    >>> output, (h, c) = LSTM(5, 8, bidirectional=True, batch_first=True)(minitorch.zeros(3, 7, 5))
    >>> output.shape, h.shape, c.shape
    ((3, 7, 16), (2, 3, 8), (2, 3, 8))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # RNNBase's, from input_size on
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit: hₜ = n + σ(z)·(hₜ₋₁ - n), n = tanh(xₙ + σ(r)·hₙ).

    >>> output, last = GRU(5, 8)(minitorch.zeros(7, 3, 5))
    >>> output.shape, last.shape
    ((7, 3, 8), (1, 3, 8))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # RNNBase's, from input_size on
        super().__init__("GRU", *args, **kwargs)


# --- cells: one step at a time ------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share: weight_ih (gates·H, I), weight_hh (gates·H, H), bias_ih, bias_hh."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(gates, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(gates, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(empty(gates, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter from U(-1/√H, 1/√H)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not at their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _prepared(self, input: Any, states: tuple[Any, ...]) -> tuple[Tensor, list[Tensor], bool]:
        """Return input and states as batches, checked, and whether there was only one example."""
        kind = type(self).__name__
        x = as_tensor(input)
        if x.ndim not in (1, 2):
            raise ValueError(
                f"{kind}: expects input (N, {self.input_size}) or ({self.input_size},), got shape {x.shape}"
            )
        if x.shape[-1] != self.input_size:
            raise RuntimeError(f"{kind}: input_size is {self.input_size}, but the input has shape {x.shape}")
        shape = (*x.shape[:-1], self.hidden_size)
        found = []
        for state in states:
            h = _zeros(shape, x) if state is None else as_tensor(state)
            if h.ndim not in (1, 2):
                raise ValueError(f"{kind}: expects a state of shape {shape}, got {h.shape}")
            if h.shape != shape:
                raise RuntimeError(
                    f"{kind}: input of shape {x.shape} needs a state of shape {shape}, got {h.shape}"
                )
            found.append(h if x.ndim == 2 else h.unsqueeze(0))
        alone = x.ndim == 1
        return (x.unsqueeze(0) if alone else x), found, alone


class RNNCell(RNNCellBase):
    """One step: h' = tanh(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh), or relu for tanh.

    >>> cell = RNNCell(5, 8)
    >>> cell(minitorch.zeros(3, 5), minitorch.zeros(3, 8)).shape
    (3, 8)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """Return the next state from input (N, I) or (I,) and a state (N, H) or (H,), zeros if left out."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', got {self.nonlinearity!r}")
        x, (h,), alone = self._prepared(input, (hx,))
        cell = F.rnn_tanh_cell if self.nonlinearity == "tanh" else F.rnn_relu_cell
        h = cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return h.squeeze(0) if alone else h


class LSTMCell(RNNCellBase):
    """One step of an LSTM: from (h, c) to (h', c').

    >>> h, c = LSTMCell(5, 8)(minitorch.zeros(3, 5))
    >>> h.shape, c.shape
    ((3, 8), (3, 8))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Tensor, Tensor]:
        """Return the next (h, c) from input (N, I) or (I,) and a pair of states, zeros if left out."""
        if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
            raise TypeError(f"LSTMCell: the state is a pair (h, c), got {type(hx).__name__}")
        x, states, alone = self._prepared(input, (None, None) if hx is None else tuple(hx))
        h, c = F.lstm_cell(x, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h.squeeze(0), c.squeeze(0)) if alone else (h, c)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    >>> GRUCell(5, 8)(minitorch.zeros(5)).shape
    (8,)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """Return the next state from input (N, I) or (I,) and a state (N, H) or (H,), zeros if left out."""
        x, (h,), alone = self._prepared(input, (hx,))
        h = F.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return h.squeeze(0) if alone else h


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
