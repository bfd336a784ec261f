"""An engine in another style than the course's own: gradients begin as zeros, add in place, `_prev` is a set, and the walk
is recursive. A learner may well write it so, and it must pass."""

import math

import numpy as np

tracking = [True]


class no_grad:
    def __enter__(self):
        self.before, tracking[0] = tracking[0], False

    def __exit__(self, *error):
        tracking[0] = self.before


def unbroadcast(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(axis=0)
    for i, n in enumerate(shape):
        if n == 1 and grad.shape[i] != 1:
            grad = grad.sum(axis=i, keepdims=True)
    return grad


class Tensor:
    def __init__(self, data, requires_grad=False, _prev=(), _op=""):
        self.data = np.array(data)
        self.grad = np.zeros_like(self.data)
        self.requires_grad = requires_grad
        self._prev = set(_prev)
        self._op = _op
        self._backward = lambda: None

    def node(self, data, op, parts, *others):
        """parts: a function of the arriving gradient that gives one contribution for each parent."""
        parents = (self, *others)
        wanted = tracking[0] and any(p.requires_grad for p in parents)
        out = Tensor(data, wanted, parents if wanted else (), op)

        def _backward():
            for parent, part in zip(parents, parts(out.grad), strict=True):
                if parent.requires_grad:
                    parent.grad += unbroadcast(np.asarray(part), parent.data.shape)

        if wanted:
            out._backward = _backward
        return out

    def const(self, other):
        return other if isinstance(other, Tensor) else Tensor(np.asarray(other, self.data.dtype))

    def __add__(self, other):
        other = self.const(other)
        return self.node(self.data + other.data, "+", lambda g: (g, g), other)

    def __mul__(self, other):
        other = self.const(other)
        return self.node(self.data * other.data, "*", lambda g: (g * other.data, g * self.data), other)

    def __pow__(self, n):
        return self.node(self.data**n, "**", lambda g: (g * n * self.data ** (n - 1),))

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -self.const(other)

    def __truediv__(self, other):
        return self * self.const(other) ** -1

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return self.const(other) - self

    def __rtruediv__(self, other):
        return self.const(other) / self

    def backward(self):
        assert self.requires_grad
        assert self.data.shape == ()
        topo, seen = [], set()

        def build(v):
            if v not in seen:
                seen.add(v)
                for p in v._prev:
                    build(p)
                topo.append(v)

        build(self)
        self.grad = np.ones_like(self.data)
        for v in reversed(topo):
            v._backward()

    def sum(self, axis=None, keepdims=False):
        def back(g):
            if axis is not None and not keepdims:
                g = np.expand_dims(g, axis)
            return (np.broadcast_to(g, self.data.shape),)

        return self.node(self.data.sum(axis=axis, keepdims=keepdims), "sum", back)

    def mean(self, axis=None, keepdims=False):
        total = self.sum(axis, keepdims)
        return total * (total.data.size / self.data.size)

    def max(self, axis=None, keepdims=False):
        value = self.data.max(axis=axis, keepdims=True)

        def back(g):
            if axis is not None and not keepdims:
                g = np.expand_dims(g, axis)
            mask = (self.data == value).astype(self.data.dtype)
            return (g * mask / mask.sum(axis=axis, keepdims=True),)

        return self.node(self.data.max(axis=axis, keepdims=keepdims), "max", back)

    def reshape(self, *shape):
        return self.node(self.data.reshape(*shape), "reshape", lambda g: (g.reshape(self.data.shape),))

    def transpose(self, *axes):
        axes = axes or tuple(reversed(range(self.data.ndim)))
        return self.node(self.data.transpose(axes), "T", lambda g: (g.transpose(np.argsort(axes)),))

    def broadcast_to(self, shape):
        return self.node(np.broadcast_to(self.data, shape), "broadcast_to", lambda g: (g,))

    def __getitem__(self, index):
        def back(g):
            grad = np.zeros_like(self.data)
            np.add.at(grad, index, g)
            return (grad,)

        return self.node(self.data[index], "getitem", back)

    def exp(self):
        value = np.exp(self.data)
        return self.node(value, "exp", lambda g: (g * value,))

    def log(self):
        return self.node(np.log(self.data), "log", lambda g: (g / self.data,))

    def relu(self):
        return self.node(np.maximum(0, self.data), "relu", lambda g: ((self.data > 0) * g,))

    def tanh(self):
        value = np.tanh(self.data)
        return self.node(value, "tanh", lambda g: (g * (1 - value**2),))

    def gelu(self):  # the form by tanh, composed
        inner = (self + self * self * self * 0.044715) * math.sqrt(2 / math.pi)
        return self * (inner.tanh() + 1.0) * 0.5

    def __matmul__(self, other):
        a, b = self.data, other.data

        def back(g):
            if a.ndim == 1 and b.ndim == 1:
                return g * b, g * a
            left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
            g = g[..., None, :] if a.ndim == 1 else g[..., None] if b.ndim == 1 else g
            da, db = g @ np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2) @ g
            return unbroadcast(da, left.shape).reshape(a.shape), unbroadcast(db, right.shape).reshape(b.shape)

        return self.node(a @ b, "@", back, other)

    def softmax(self, axis=-1):
        powers = (self - Tensor(self.data.max(axis=axis, keepdims=True))).exp()
        return powers / powers.sum(axis=axis, keepdims=True)

    def detach(self):
        return Tensor(self.data)


def cat(tensors, axis=0):
    ends = np.cumsum([t.data.shape[axis] for t in tensors])[:-1]
    first, *others = tensors
    joined = np.concatenate([t.data for t in tensors], axis)
    return first.node(joined, "cat", lambda g: np.split(g, ends, axis), *others)


def stack(tensors, axis=0):
    first, *others = tensors
    joined = np.stack([t.data for t in tensors], axis)
    return first.node(joined, "stack", lambda g: [np.take(g, i, axis) for i in range(len(tensors))], *others)


def cross_entropy(logits, targets):
    shifted = logits - Tensor(logits.data.max(axis=1, keepdims=True))
    log_p = shifted - shifted.exp().sum(axis=1, keepdims=True).log()
    return -log_p[np.arange(len(targets)), targets].mean()
