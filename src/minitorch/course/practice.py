"""What an engine is good for: proofs, networks, optimisers. Enters: a library with a Tensor. Leaves: trained networks.

The second file of the course, and its solutions. Every function is given the library it works on (`library.Tensor`), so
that the same lines run on the one-file engine, on a learner's own, and on minitorch itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

# --- gradcheck ------------------------------------------------------------------------------------


def gradcheck(
    f: Callable[..., Any], inputs: Sequence[Any], eps: float = 1e-6, tolerance: float = 1e-5
) -> bool:
    """Tell whether backward through f(*inputs).sum() agrees with central differences, for every element."""
    for x in inputs:
        x.grad = None  # whatever an earlier backward has left there
    f(*inputs).sum().backward()
    for x in inputs:
        got = np.zeros_like(x.data) if x.grad is None else x.grad
        for place in np.ndindex(x.data.shape):
            before = x.data[place]
            x.data[place] = before + eps
            up = f(*inputs).sum().data
            x.data[place] = before - eps
            down = f(*inputs).sum().data
            x.data[place] = before  # exactly as it was
            slope = (up - down) / (2 * eps)
            if abs(slope - got[place]) > tolerance * max(1.0, abs(slope)):
                return False
    return True


# --- properties -----------------------------------------------------------------------------------


def property_check(library: Any) -> None:
    """Raise AssertionError if the library differentiates wrongly, on shapes that nobody chose by hand."""
    from hypothesis import Phase, given, settings
    from hypothesis import strategies as st

    from minitorch.testing.strategies import axes_of, broadcast_pair, values

    def tensor(array: np.ndarray) -> Any:
        return library.Tensor(array, requires_grad=True)

    # Without shrinking: here the question is only whether there is a counterexample, not which is the smallest.
    quick = settings(max_examples=40, deadline=None, database=None, derandomize=True, phases=[Phase.generate])

    @quick
    @given(broadcast_pair())
    def partners(pair: Any) -> None:
        def f(x: Any, y: Any) -> Any:
            z = x * y
            return z * x + z  # z is used twice: a diamond

        assert gradcheck(f, [tensor(array) for array in pair])

    @quick
    @given(st.lists(st.integers(1, 3), max_size=3).map(tuple), st.booleans(), st.data())
    def reductions(shape: tuple[int, ...], keepdims: bool, data: st.DataObject) -> None:
        axis = data.draw(axes_of(len(shape)))
        x, factors = values(shape, 0), values(shape, 1)
        reduced = factors.sum(axis=axis, keepdims=keepdims)
        factor = library.Tensor(np.arange(1.0, 1.0 + reduced.size).reshape(reduced.shape))
        assert gradcheck(lambda t: t.sum(axis, keepdims) * factor, [tensor(x)])

    partners()
    reductions()


# --- networks -------------------------------------------------------------------------------------


class MLP:
    """A multi-layer perceptron: linear layers, and relu between them."""

    def __init__(self, library: Any, sizes: Sequence[int], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.layers = []
        for n, m in pairwise(sizes):
            # Scaled by √(2/n), so that what comes out of relu is about as large as what went in.
            weight = (rng.normal(size=(n, m)) * np.sqrt(2 / n)).astype(np.float32)
            bias = np.zeros(m, np.float32)
            self.layers.append(
                (library.Tensor(weight, requires_grad=True), library.Tensor(bias, requires_grad=True))
            )

    def __call__(self, x: Any) -> Any:
        """(batch, first size) → (batch, last size)."""
        *hidden, (weight, bias) = self.layers
        for w, b in hidden:
            x = (x @ w + b).relu()
        return x @ weight + bias

    def parameters(self) -> list[Any]:
        """Return every weight and bias."""
        return [parameter for layer in self.layers for parameter in layer]


def zero_grad(parameters: Sequence[Any]) -> None:
    """Forget the gradients of the last step; backward adds to what is there."""
    for p in parameters:
        p.grad = None


def train_step(loss_function: Callable[[], Any], parameters: Sequence[Any], learning_rate: float) -> float:
    """Take one step of gradient descent, and return the loss before it."""
    zero_grad(parameters)
    loss = loss_function()
    loss.backward()
    for p in parameters:
        p.data = p.data - learning_rate * p.grad
    return float(loss.data)


def train_xor(library: Any, steps: int = 600) -> np.ndarray:
    """Learn exclusive or with a network 2-8-1, and return its four answers, (4, 1)."""
    x = library.Tensor(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32))
    y = library.Tensor(np.array([[0], [1], [1], [0]], np.float32))
    model = MLP(library, (2, 8, 1))

    def loss() -> Any:
        difference = model(x) - y
        return (difference * difference).mean()

    for _ in range(steps):
        train_step(loss, model.parameters(), 0.1)
    return np.asarray(model(x).data)


def train_classifier(
    library: Any,
    inputs: np.ndarray,
    classes: np.ndarray,
    sizes: Sequence[int],
    steps: int,
    learning_rate: float,
) -> MLP:
    """Learn to name the class of each row of inputs; return the network."""
    model = MLP(library, sizes)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        batch = rng.integers(0, len(inputs), min(64, len(inputs)))
        x, targets = library.Tensor(inputs[batch]), classes[batch]
        loss = functools.partial(_classification_loss, library, model, x, targets)
        train_step(loss, model.parameters(), learning_rate)
    return model


def _classification_loss(library: Any, model: MLP, x: Any, targets: np.ndarray) -> Any:
    return library.cross_entropy(model(x), targets)


# --- exercises ------------------------------------------------------------------------------------


class Adam:
    """Gradient descent with a memory: the mean of the gradients, over the root of the mean of their squares."""

    def __init__(
        self,
        parameters: Sequence[Any],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.steps = 0
        self.means = [np.zeros_like(p.data) for p in self.parameters]
        self.squares = [np.zeros_like(p.data) for p in self.parameters]

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        self.steps += 1
        first, second = self.betas
        for i, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            self.means[i] = first * self.means[i] + (1 - first) * p.grad
            self.squares[i] = second * self.squares[i] + (1 - second) * p.grad**2
            # Both means began at 0; dividing makes up for it.
            mean = self.means[i] / (1 - first**self.steps)
            square = self.squares[i] / (1 - second**self.steps)
            p.data = p.data - self.lr * mean / (np.sqrt(square) + self.eps)


def conv2d(images: Any, kernels: Any) -> Any:
    """(N, C, H, W) and (O, C, h, w) → (N, O, H-h+1, W-w+1): every window as a row, then one product.

    Both are tensors. Indexing makes the rows (im2col), and its derivative puts gradients back (col2im), adding where
    windows overlap: nothing is left to derive.
    """
    n, channels, height, width = images.data.shape
    out, _, h, w = kernels.data.shape
    rows, columns = height - h + 1, width - w + 1
    i = np.arange(rows)[:, None, None, None] + np.arange(h)[None, None, :, None]  # (rows, 1, h, 1)
    j = np.arange(columns)[None, :, None, None] + np.arange(w)[None, None, None, :]  # (1, columns, 1, w)
    windows = images[:, :, i, j]  # (N, C, rows, columns, h, w)
    flat = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, channels * h * w)
    product = flat @ kernels.reshape(out, channels * h * w).transpose(1, 0)  # (N·rows·columns, O)
    return product.reshape(n, rows, columns, out).transpose(0, 3, 1, 2)


class Context:
    """What a Function's forward keeps for its backward."""

    def __init__(self) -> None:
        self.saved: tuple[Any, ...] = ()

    def save_for_backward(self, *values: Any) -> None:
        """Keep arrays."""
        self.saved = values


class Function:
    """An operation as a class: subclasses write forward and backward on arrays, `apply` puts it into the graph."""

    @staticmethod
    def forward(context: Context, *arrays: Any) -> Any:
        """Compute the result's array."""
        raise NotImplementedError

    @staticmethod
    def backward(context: Context, grad: Any) -> Any:
        """Return the gradient of each input: an array, or a tuple of them."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *tensors: Any) -> Any:
        """Run it on tensors."""
        context = Context()  # one for each call: the same operation may be used twice
        data = np.asarray(cls.forward(context, *(t.data for t in tensors)))
        wanted = any(t.requires_grad for t in tensors)
        out = type(tensors[0])(data, requires_grad=wanted, _prev=tensors if wanted else (), _op=cls.__name__)

        def _backward() -> None:
            grads = cls.backward(context, out.grad)
            for t, grad in zip(tensors, grads if isinstance(grads, tuple) else (grads,), strict=True):
                if t.requires_grad and grad is not None:
                    t.grad = grad if t.grad is None else t.grad + grad

        if wanted:
            out._backward = _backward
        return out


class Dual:
    """A number (or array) and how fast it changes: forward mode, without any graph."""

    def __init__(self, value: Any, tangent: Any = 0.0) -> None:
        self.value, self.tangent = value, tangent

    @staticmethod
    def _wrap(other: Any) -> Dual:
        return other if isinstance(other, Dual) else Dual(other)

    def __add__(self, other: Any) -> Dual:
        other = self._wrap(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __sub__(self, other: Any) -> Dual:
        other = self._wrap(other)
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __mul__(self, other: Any) -> Dual:
        other = self._wrap(other)
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    def __truediv__(self, other: Any) -> Dual:
        other = self._wrap(other)
        value = self.value / other.value
        return Dual(value, (self.tangent - value * other.tangent) / other.value)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Dual:
        return self._wrap(other) - self

    def __rtruediv__(self, other: Any) -> Dual:
        return self._wrap(other) / self

    def exp(self) -> Dual:
        """e^x."""
        return Dual(np.exp(self.value), np.exp(self.value) * self.tangent)

    def log(self) -> Dual:
        """The natural logarithm."""
        return Dual(np.log(self.value), self.tangent / self.value)

    def tanh(self) -> Dual:
        """The hyperbolic tangent."""
        value = np.tanh(self.value)
        return Dual(value, (1 - value**2) * self.tangent)

    def sum(self) -> Dual:
        """All elements added up."""
        return Dual(np.sum(self.value), np.sum(self.tangent + np.zeros_like(self.value)))


def jvp(f: Callable[[Any], Any], x: np.ndarray, direction: np.ndarray) -> tuple[Any, Any]:
    """Return f(x), and how fast it changes when x moves along `direction`: one pass, no backward."""
    out = f(Dual(x, direction))
    return out.value, out.tangent


def network_gradients(library: Any, x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> list[Any]:
    """Return the mean squared error of a network 2-8-1 and its four gradients, as arrays."""
    parameters = [library.Tensor(array, requires_grad=True) for array in (w1, b1, w2, b2)]
    hidden = (library.Tensor(x) @ parameters[0] + parameters[1]).relu()
    difference = hidden @ parameters[2] + parameters[3] - library.Tensor(y)
    loss = (difference * difference).mean()
    loss.backward()
    return [np.asarray(loss.data), *(np.asarray(p.grad) for p in parameters)]
