"""Programs of the compiler's primitives from a seed, arrays to run them on, and how close results must be."""

import numpy as np

from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Value

F4, F8, I8, I4, BOOL = (np.dtype(d) for d in ("f4", "f8", "i8", "i4", "?"))


def given(shape, dtype=F4):
    return Value("input", (), {"index": 0}, tuple(shape), np.dtype(dtype))


def some(rng, shape, dtype=F4):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def close(got, want, name="", factor=1.0, single=False):
    """Compare; `single`: float64 results that were float32 on the way."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if got.dtype.kind in "fc":
        width = got.dtype.itemsize if got.dtype.kind == "f" else got.dtype.itemsize // 2
        tolerance = factor * {2: 1e-2, 4: 2e-5, 8: 2e-5 if single else 1e-11}[width]
        scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=name)
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


class RandomProgram:
    """A program written from a seed: inputs, their arrays, outputs, and which outputs update which input."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.inputs, self.arrays, self.pool = [], [], []
        for _ in range(self.rng.integers(1, 4)):
            shape = tuple(int(n) for n in self.rng.choice([1, 2, 3, 4, 5, 8, 17], self.rng.integers(1, 4)))
            self.add(shape, self.rng.choice([F4, F4, F4, F8, I8]))
        for _ in range(self.rng.integers(10, 60)):
            made = self.step()
            if made is not None and 0 < made.size < 20_000 and made.ndim <= 5:
                self.pool.append(made)
        count = int(self.rng.integers(1, 6))
        self.outputs = [self.pool[i] for i in self.rng.integers(len(self.pool) // 2, len(self.pool), count)]
        self.updates = {}
        if self.rng.random() < 0.7:
            for number, value in enumerate(self.inputs):
                fitting = [v for v in self.pool if v.shape == value.shape and v.dtype == value.dtype]
                if fitting:
                    self.updates[len(self.outputs)] = number
                    self.outputs.append(fitting[self.rng.integers(len(fitting))])

    def add(self, shape, dtype):
        value = given(shape, dtype)
        self.inputs.append(value)
        self.arrays.append(some(self.rng, shape, dtype))
        self.pool.append(value)
        return value

    def pick(self):
        late = self.rng.random() < 0.7
        start = max(0, len(self.pool) - 6) if late else 0
        return self.pool[self.rng.integers(start, len(self.pool))]

    def fitted(self, value, shape):
        """Bring any value to a shape that broadcasts with `shape`, if it does."""
        try:
            np.broadcast_shapes(value.shape, shape)
        except ValueError:
            return None
        return value

    def step(self):
        rng = self.rng
        x = self.pick()
        kind = rng.choice(
            [
                "unary",
                "binary",
                "binary",
                "reduce",
                "softmax",
                "view",
                "view",
                "product",
                "product",
                "gather",
                "other",
            ]
        )
        if kind == "unary":
            if x.dtype.kind == "f":
                return b.map_values(str(rng.choice(["tanh", "sin", "negative", "absolute", "square"])), x)
            return b.cast(x, rng.choice([F4, F8]))
        if kind == "binary":
            for _ in range(5):
                y = self.fitted(self.pick(), x.shape)
                if y is not None:
                    break
            else:
                y = b.constant(np.asarray(rng.integers(1, 4), x.dtype))
            y = b.cast(y, x.dtype)
            if x.dtype.kind == "b":
                return b.map_values(str(rng.choice(["logical_and", "logical_or"])), x, y)
            name = str(rng.choice(["add", "subtract", "multiply", "maximum", "minimum", "less", "where"]))
            if name == "where":
                return b.where(b.map_values("less", x, y), y, x)
            made = b.map_values(name, x, y)
            if name == "multiply" and x.dtype.kind == "f":  # keep numbers small
                made = b.map_values("tanh", made)
            elif name in ("multiply", "add", "subtract") and x.dtype.kind == "i":
                made = b.map_values("remainder", made, b.constant(np.asarray(11, x.dtype)))
            return made
        if x.ndim == 0:
            return b.expand(x, tuple(int(n) for n in rng.integers(1, 5, 2)))
        axis = int(rng.integers(x.ndim))
        if kind == "reduce":
            axes = tuple(sorted({int(a) for a in rng.integers(0, x.ndim, rng.integers(1, x.ndim + 1))}))
            if x.dtype.kind == "b":
                return b.reduce("logical_or", x, axes, bool(rng.random() < 0.5))
            name = str(rng.choice(["add", "maximum", "minimum"]))
            made = b.reduce(name, x, axes, bool(rng.random() < 0.5))
            if x.dtype.kind == "i":
                made = b.map_values("remainder", made, b.constant(np.asarray(13, made.dtype)))
            return made
        if kind == "softmax" and x.dtype.kind == "f":
            high = b.reduce("maximum", x, (axis,), True)
            up = b.map_values("exp", b.map_values("subtract", x, high))
            return b.map_values("divide", up, b.reduce("add", up, (axis,), True))
        if kind == "view":
            return self.view(x, axis)
        if kind == "product" and x.dtype.kind == "f" and x.ndim >= 2:
            y = b.cast(self.pick(), x.dtype)
            n = x.shape[-1]
            m = min(y.size // n, int(rng.integers(2, 20)))
            if m < 2:
                return None
            y = b.crop(b.reshape(y, (y.size,)), 0, 0, n * m)
            y = b.reshape(y, (n, m)) if rng.random() < 0.5 else b.permute(b.reshape(y, (m, n)), (1, 0))
            return b.map_values("tanh", b.matmul(x, y))
        if kind == "gather":
            places = b.map_values("remainder", b.cast(self.pick(), I8), b.full((), x.shape[axis], I8))
            places = b.map_values("absolute", places)
            if places.ndim > 2 or places.size > 60:
                return None
            if rng.random() < 0.5 or x.dtype.kind == "b":
                return b.gather(x, places, axis)
            flat = b.reshape(places, (places.size,))
            shape = (*x.shape[:axis], places.size, *x.shape[axis + 1 :])
            updates = self.fitted(self.pick(), shape)
            if (
                updates is None
                or len(updates.shape) > len(shape)
                or np.broadcast_shapes(updates.shape, shape) != shape
            ):
                return None
            made = b.scatter("add", x, flat, b.cast(updates, x.dtype), axis)
            return b.map_values("tanh", made) if x.dtype.kind == "f" else made
        if kind == "other" and x.dtype.kind != "b":
            choice = rng.integers(3)
            if choice == 0:
                return b.arg_reduce("argmax", x, axis)
            if choice == 1 and x.dtype.kind == "f":
                return b.map_values("tanh", b.scan("add", x, axis))
            return b.concatenate([x, b.flip(x, (axis,))], axis)
        return None

    def view(self, x, axis):
        rng = self.rng
        choice = rng.integers(8)
        if choice == 0:
            return b.permute(x, tuple(int(a) for a in rng.permutation(x.ndim)))
        if choice == 1:
            sizes = [n for n in (1, 2, 3, 4, 5) if x.size % n == 0]
            n = int(rng.choice(sizes))
            return b.reshape(x, (n, x.size // n))
        if choice == 2:
            return b.flip(x, (axis,))
        if choice == 3:
            count = int(rng.integers(1, x.shape[axis] + 1))
            return b.crop(x, axis, int(rng.integers(0, x.shape[axis] - count + 1)), count)
        if choice == 4:
            low = [int(n) for n in rng.integers(0, 3, x.ndim)]
            return b.pad(x, low, low[::-1], 1)
        if choice == 5 and x.ndim < 4:
            size = int(rng.integers(1, x.shape[axis] + 1))
            return b.window(x, (axis,), (size,), (int(rng.integers(1, 3)),), (1,))
        if choice == 6 and x.ndim < 4:
            y = b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
            return b.expand(y, (*x.shape[:axis], 3, *x.shape[axis:]))
        return b.reshape(x, (x.size,))
