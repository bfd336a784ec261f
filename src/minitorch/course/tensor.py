"""Automatic differentiation in one file. Enters: arrays. Leaves: Tensors that know their own gradients.

Read it from top to bottom; it needs NumPy and nothing else, not even the rest of this library. Every operation has
the same four steps: compute with NumPy, make the result, write down how a gradient goes back through it, return.

    >>> w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> loss = (w * w).sum()
    >>> loss.backward()
    >>> w.grad
    array([2., 4., 6.], dtype=float32)

Left out: writing in place, derivatives of derivatives, devices, speed. A result and its closure hold each other, so
that graphs wait for Python's garbage collector. The large library does all of it, with the same mathematics.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Axis = int | tuple[int, ...] | None

# --- switching the recording off ----------------------------------------------------------------

_recording = True


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Compute without a graph: inside `with no_grad():` results remember nothing."""
    global _recording
    before, _recording = _recording, False
    try:
        yield
    finally:  # also after an error; and what was before, not True: these blocks can stand in one another
        _recording = before


# --- shapes -------------------------------------------------------------------------------------


def unbroadcast(grad: Any, shape: Shape) -> Any:
    """Undo broadcasting: sum `grad` over the axes along which `shape` was stretched.

    Why a sum: an element that was stretched took part in several results, and the chain rule adds up over them.
    """
    extra = grad.ndim - len(shape)  # axes that broadcasting put in front
    grad = grad.sum(axis=tuple(range(extra)))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(axis=stretched, keepdims=True)


def kept(shape: Shape, axis: Axis) -> Shape:
    """Return the shape that a reduction with keepdims leaves: (20, 3, 5) over (0, -1) becomes (1, 3, 1)."""
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    reduced = {a % len(shape) for a in axes}
    return tuple(1 if i in reduced else n for i, n in enumerate(shape))


# --- the node -----------------------------------------------------------------------------------


class Tensor:
    """An array that remembers how it was made.

    data: the array. grad: d(loss)/d(data), an array of the same shape and dtype, or None as long as none has come.
    requires_grad: whether it wants a gradient. `_prev`: the tensors it was computed from. `_op`: by which operation.
    `_backward`: a function without arguments that hands this tensor's grad on to `_prev`.
    """

    def __init__(self, data: Any, requires_grad: bool = False, _prev: tuple[Tensor, ...] = (), _op: str = ""):
        array = np.asarray(data)
        if array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
            array = array.astype(np.float32)  # Python's numbers become float32; an array keeps its dtype
        self.data = array
        self.grad: Any = None
        self.requires_grad = requires_grad
        self._prev = _prev
        self._op = _op
        self._backward: Callable[[], None] = lambda: None

    # `==` is not redefined: two tensors are equal only if they are the same object, and so a set can hold them.

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return self.data.shape

    @property
    def T(self) -> Tensor:
        """All axes in reverse order."""
        return self.transpose()

    def item(self) -> float:
        """Return the only element as a Python number."""
        return self.data.item()

    def detach(self) -> Tensor:
        """Return the same values, without their past: no gradient goes through."""
        return Tensor(self.data)

    def __repr__(self) -> str:
        made = f", made by {self._op}" if self._op else ", requires_grad=True" if self.requires_grad else ""
        return f"Tensor({np.array2string(self.data, precision=4, separator=', ')}{made})"

    # --- backward -------------------------------------------------------------------------------

    def _accumulate(self, contribution: Any) -> None:
        """Add to this tensor's gradient; why add: it may be used several times, and every use counts."""
        if not self.requires_grad:
            return
        contribution = unbroadcast(np.asarray(contribution), self.shape)
        contribution = np.array(contribution, dtype=self.data.dtype)  # a copy: nobody else writes into it
        self.grad = contribution if self.grad is None else self.grad + contribution

    def _records(self, backward: Callable[[], None]) -> Tensor:
        """Keep the closure if a gradient may be asked for."""
        if self.requires_grad:
            self._backward = backward
        return self

    def backward(self) -> None:
        """Put d(self)/d(tensor) into the grad of every tensor that self was computed from."""
        if not self.requires_grad:
            raise RuntimeError("backward: no tensor with requires_grad=True took part in this result")
        if self.data.size != 1:
            raise RuntimeError(
                f"backward: needs a single number, this is {self.shape}; sum it or average it first"
            )
        order = self._topological_order()
        for node in order:
            if node._prev:  # a result starts afresh; a leaf adds up until somebody sets its grad to None
                node.grad = None
        self.grad = np.ones_like(self.data)  # d(self)/d(self)
        for node in reversed(order):
            node._backward()

    def _topological_order(self) -> list[Tensor]:
        """Return every tensor behind this one, each after all it was computed from.

        Why that order: a node may hand its gradient on only when everyone who used it has given theirs. A stack
        of our own instead of recursion: Python allows only about a thousand calls inside one another.
        """
        order: list[Tensor] = []
        visited: set[Tensor] = set()
        stack = [(self, False)]
        while stack:
            node, parents_done = stack.pop()
            if parents_done:
                order.append(node)
            elif node not in visited:
                visited.add(node)
                stack.append((node, True))
                stack.extend((parent, False) for parent in node._prev)
        return order

    # --- elementwise ----------------------------------------------------------------------------

    def _wrap(self, other: Any) -> Tensor:
        # A number takes this tensor's dtype: 2.0 must not turn float32 into float64.
        return other if isinstance(other, Tensor) else Tensor(np.asarray(other, dtype=self.data.dtype))

    def __add__(self, other: Any) -> Tensor:
        other = self._wrap(other)
        out = result(self.data + other.data, (self, other), "add")

        def _backward() -> None:
            self._accumulate(out.grad)
            other._accumulate(out.grad)

        return out._records(_backward)

    def __sub__(self, other: Any) -> Tensor:
        other = self._wrap(other)
        out = result(self.data - other.data, (self, other), "sub")

        def _backward() -> None:
            self._accumulate(out.grad)
            other._accumulate(-out.grad)

        return out._records(_backward)

    def __mul__(self, other: Any) -> Tensor:
        other = self._wrap(other)
        out = result(self.data * other.data, (self, other), "mul")

        def _backward() -> None:
            self._accumulate(out.grad * other.data)
            other._accumulate(out.grad * self.data)

        return out._records(_backward)

    def __truediv__(self, other: Any) -> Tensor:
        other = self._wrap(other)
        out = result(self.data / other.data, (self, other), "div")

        def _backward() -> None:
            self._accumulate(out.grad / other.data)
            other._accumulate(-out.grad * self.data / other.data**2)

        return out._records(_backward)

    def __neg__(self) -> Tensor:
        out = result(-self.data, (self,), "neg")
        return out._records(lambda: self._accumulate(-out.grad))

    def __pow__(self, exponent: float) -> Tensor:
        out = result(self.data**exponent, (self,), "pow")

        def _backward() -> None:
            # x⁰ is constant: its slope is 0, at 0 as well, where 0 · 0⁻¹ would be nan.
            self._accumulate(out.grad * (exponent * self.data ** (exponent - 1) if exponent else 0))

        return out._records(_backward)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Tensor:
        return self._wrap(other) - self

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._wrap(other) / self

    def exp(self) -> Tensor:
        """e^x; it is its own derivative."""
        out = result(np.exp(self.data), (self,), "exp")
        return out._records(lambda: self._accumulate(out.grad * out.data))

    def log(self) -> Tensor:
        """The natural logarithm; derivative 1 / x."""
        out = result(np.log(self.data), (self,), "log")
        return out._records(lambda: self._accumulate(out.grad / self.data))

    def relu(self) -> Tensor:
        """The larger of x and 0; derivative 1 above 0, else 0 (at 0 itself as well, by convention)."""
        out = result(np.maximum(self.data, 0), (self,), "relu")
        return out._records(lambda: self._accumulate(out.grad * (self.data > 0)))

    def tanh(self) -> Tensor:
        """The hyperbolic tangent; derivative 1 - tanh²."""
        out = result(np.tanh(self.data), (self,), "tanh")
        return out._records(lambda: self._accumulate(out.grad * (1 - out.data**2)))

    def gelu(self) -> Tensor:
        """x·Φ(x), with Φ the normal distribution's cumulative function and φ its density; derivative Φ + x·φ."""
        x = self.data
        erf = np.vectorize(math.erf, otypes=[x.dtype])  # NumPy has none: Python's own, element by element
        cumulative = 0.5 * (1 + erf(x / math.sqrt(2)))
        density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        out = result(x * cumulative, (self,), "gelu")
        return out._records(lambda: self._accumulate(out.grad * (cumulative + x * density)))

    # --- reductions -----------------------------------------------------------------------------

    # The gradient gets the reduced axes back, with length 1, and is stretched over them. The reshape does that
    # whether keepdims was asked for or not.

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Add up along `axis` (None: everything); every element takes part with weight 1."""
        out = result(self.data.sum(axis=axis, keepdims=keepdims), (self,), "sum")

        def _backward() -> None:
            grad = out.grad.reshape(kept(self.shape, axis))
            self._accumulate(np.broadcast_to(grad, self.shape))

        return out._records(_backward)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Average along `axis`: the sum, divided by how many there are. What is composed needs no derivative."""
        total = self.sum(axis, keepdims)
        return total / (self.data.size / max(total.data.size, 1))

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The largest along `axis`; the gradient goes to it alone, and equal ones share it evenly."""
        out = result(self.data.max(axis=axis, keepdims=keepdims), (self,), "max")

        def _backward() -> None:
            shape = kept(self.shape, axis)
            largest = self.data == out.data.reshape(shape)
            self._accumulate(out.grad.reshape(shape) * largest / largest.sum(axis=axis, keepdims=True))

        return out._records(_backward)

    # --- shapes ---------------------------------------------------------------------------------

    # They move elements and change none: the gradient makes the same way back.

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape: x.reshape(2, 3) or x.reshape((2, 3))."""
        out = result(self.data.reshape(*shape), (self,), "reshape")
        return out._records(lambda: self._accumulate(out.grad.reshape(self.shape)))

    def transpose(self, *axes: int) -> Tensor:
        """The axes in another order; without arguments, in reverse."""
        order = axes or tuple(reversed(range(self.data.ndim)))
        out = result(self.data.transpose(order), (self,), "transpose")
        # The way back is the inverse permutation: where did each axis go? argsort tells.
        return out._records(lambda: self._accumulate(out.grad.transpose(np.argsort(order))))

    def broadcast_to(self, shape: Shape) -> Tensor:
        """Stretch to `shape` by repeating."""
        out = result(np.broadcast_to(self.data, shape), (self,), "broadcast_to")
        return out._records(lambda: self._accumulate(out.grad))  # which sums over what was stretched

    def __getitem__(self, index: Any) -> Tensor:
        out = result(self.data[index], (self,), "getitem")

        def _backward() -> None:
            grad = np.zeros_like(self.data)
            np.add.at(grad, index, out.grad)  # `grad[index] += …` would count an index that repeats only once
            self._accumulate(grad)

        return out._records(_backward)

    # --- the three with the long derivations ----------------------------------------------------

    def __matmul__(self, other: Any) -> Tensor:
        """C = A·B: dA = dC·Bᵀ and dB = Aᵀ·dC; for vectors and stacks of matrices too."""
        a, b = self.data, other.data
        out = result(a @ b, (self, other), "matmul")

        def _backward() -> None:
            grad = out.grad
            left = a[None, :] if a.ndim == 1 else a  # a vector on the left is a row,
            right = b[:, None] if b.ndim == 1 else b  # one on the right a column
            if b.ndim == 1:
                grad = np.expand_dims(grad, -1)
            if a.ndim == 1:
                grad = np.expand_dims(grad, -2)
            to_left = unbroadcast(grad @ right.swapaxes(-1, -2), left.shape)
            to_right = unbroadcast(left.swapaxes(-1, -2) @ grad, right.shape)
            self._accumulate(to_left.reshape(a.shape))
            other._accumulate(to_right.reshape(b.shape))

        return out._records(_backward)

    def softmax(self, axis: int = -1) -> Tensor:
        """e^x / Σ e^x along `axis`: positive numbers that add up to 1."""
        # The largest is subtracted first: it cancels in the fraction, and e^x can no longer overflow.
        powers = np.exp(self.data - self.data.max(axis=axis, keepdims=True))
        p = powers / powers.sum(axis=axis, keepdims=True)
        out = result(p, (self,), "softmax")

        def _backward() -> None:
            # dpᵢ/dxⱼ = pᵢ·(1 if i = j else 0) - pᵢ·pⱼ, times the gradient, without ever writing that matrix down
            self._accumulate(p * (out.grad - (out.grad * p).sum(axis=axis, keepdims=True)))

        return out._records(_backward)


def result(data: Any, parents: tuple[Tensor, ...], op: str) -> Tensor:
    """Make an operation's result; it requires a gradient if a parent does, and remembers parents only then."""
    wanted = _recording and any(parent.requires_grad for parent in parents)
    return Tensor(np.asarray(data), wanted, parents if wanted else (), op if wanted else "")


def cross_entropy(logits: Tensor, targets: Any) -> Tensor:
    """The mean of -log softmax(logits)[n, targets[n]], for logits (N, C) and N class numbers."""
    targets = np.asarray(targets.data if isinstance(targets, Tensor) else targets)
    rows = np.arange(len(targets))
    shifted = logits.data - logits.data.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    out = result(-log_p[rows, targets].mean(), (logits,), "cross_entropy")

    def _backward() -> None:
        grad = np.exp(log_p)  # softmax minus target, over the batch: the logarithm undoes the exponential
        grad[rows, targets] -= 1
        logits._accumulate(out.grad * grad / len(targets))

    return out._records(_backward)


def cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join along an axis that is there."""
    out = result(np.concatenate([t.data for t in tensors], axis=axis), tuple(tensors), "cat")
    ends = np.cumsum([t.shape[axis] for t in tensors])[:-1]

    def _backward() -> None:
        for tensor, piece in zip(tensors, np.split(out.grad, ends, axis=axis), strict=True):
            tensor._accumulate(piece)

    return out._records(_backward)


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join along a new axis."""
    out = result(np.stack([t.data for t in tensors], axis=axis), tuple(tensors), "stack")

    def _backward() -> None:
        for i, tensor in enumerate(tensors):
            tensor._accumulate(out.grad.take(i, axis=axis))

    return out._records(_backward)
