"""Sparse arrays: few places, their values, zeros elsewhere. Enters: indices and values. Leaves: a `Coo`, and ops on it.

A `Coo` (coordinates) is an array of another kind, which a Tensor may hold in an ndarray's place: it speaks NumPy's
protocols for what keeps zeros zeros (sums, products, transposing, functions with f(0) = 0) and refuses everything else.
A place may be named twice; its value is the sum. A gradient may be one too: then it is that of the dense array.
Indices and values lie on one device; what only SciPy has (a product of two sparse ones) is computed on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.ops.indexing import add_at
from minitorch.ops.op import Array, Op, zeros

# Functions that map 0 to 0, and so can be applied to the values alone.
_KEEPS_ZERO = {
    np.absolute, np.arcsin, np.arcsinh, np.arctan, np.arctanh, np.ceil, np.conjugate, np.expm1, np.floor,
    np.log1p, np.negative, np.positive, np.rint, np.sign, np.sin, np.sinh, np.sqrt, np.square, np.tan, np.tanh,
    np.trunc,
}  # fmt: skip
# Of these, what may be computed of each part of a sum by itself.
_LINEAR = {np.conjugate, np.negative, np.positive}


class Coo(np.lib.mixins.NDArrayOperatorsMixin):
    """A sparse array. indices: (sparse axes, n) integers; values: (n, …dense axes); coalesced: no place twice, sorted.

    by_rows: whether it is a matrix that tells where each row begins (CSR); it is coalesced then.

    >>> x = Coo(np.array([[0, 1, 1], [2, 0, 0]]), np.array([3.0, 4.0, 5.0]), (2, 3))
    >>> x.dense()
    array([[0., 0., 3.],
           [9., 0., 0.]])
    >>> (x * 2).coalesce().values
    array([ 6., 18.])
    """

    __slots__ = ("__weakref__", "by_rows", "coalesced", "indices", "shape", "values")

    base = None  # it is no view
    flags = np.empty(0).flags  # writable, and a copy of it lies in the order of its axes
    __array_priority__ = 500
    __hash__ = object.__hash__

    def __init__(
        self,
        indices: Array,
        values: Array,
        shape: tuple[int, ...],
        coalesced: bool = False,
        by_rows: bool = False,
    ) -> None:
        self.indices, self.values, self.shape, self.by_rows = indices, values, tuple(shape), by_rows
        self.coalesced = coalesced or indices.shape[1] == 0

    # --- what an array tells of itself ----------------------------------------------------------

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """The number of axes, sparse and dense."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, zeros counted."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of one value."""
        return int(self.values.itemsize)

    @property
    def nbytes(self) -> int:
        """The bytes of what is kept."""
        return int(self.values.nbytes + self.indices.nbytes)

    @property
    def sparse_axes(self) -> int:
        """How many axes the indices name; those behind them are dense."""
        return len(self.indices)

    @property
    def T(self) -> Coo:
        """The axes reversed."""
        return self.transpose(tuple(reversed(range(self.ndim))))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Coo({self.values.shape[0]} places of {self.shape}, {self.dtype})"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a sparse tensor has no {name!r}; write x.to_dense()")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("a sparse tensor is no NumPy array; write x.to_dense() first")

    @property
    def __minitorch_place__(self) -> Array:
        """The array that tells where this one lies."""
        return self.values

    def __minitorch_moved__(self, move: Callable[[Any], Any]) -> Coo:
        """Return it on another device, to which `move` brings an array."""
        return Coo(move(self.indices), move(self.values), self.shape, self.coalesced, self.by_rows)

    # --- other forms of it ------------------------------------------------------------------------

    def like(self, values: Array) -> Coo:
        """Return other values at the same places."""
        shape = (*self.shape[: len(self.indices)], *values.shape[1:])
        return Coo(self.indices, values, shape, self.coalesced, self.by_rows)

    def kept(self, by_rows: bool) -> Coo:
        """Return it as a matrix that is kept by rows, or by coordinates."""
        once = self.coalesce()
        return Coo(once.indices, once.values, once.shape, True, by_rows)

    def row_starts(self) -> Array:
        """Return how many values lie before each row, and how many there are in all."""
        counts = np.bincount(self.indices[0], minlength=self.shape[0])
        starts = zeros((self.shape[0] + 1,), self.indices)
        starts[1:] = np.cumsum(counts)
        return starts

    def keys(self) -> Array:
        """Return each place as one number, in the order of the axes."""
        if math.prod(self.shape[: self.sparse_axes]) >= 2**63:
            raise RuntimeError(f"a sparse tensor of shape {self.shape} has more places than can be counted")
        keys = zeros(self.indices.shape[1:], self.indices)
        # (Whether places are out of range was looked at when it was made.)
        for length, places in zip(self.shape, self.indices, strict=False):
            keys = keys * length + places
        return keys

    def coalesce(self) -> Coo:
        """Return the same with every place once, in order."""
        if self.coalesced:
            return self
        keys = self.keys()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        is_first = np.ones_like(keys, dtype=np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        first = np.flatnonzero(is_first)
        if type(keys) is np.ndarray:
            values = np.add.reduceat(self.values[order], first, axis=0).astype(self.dtype, copy=False)
        else:
            shape = (len(first), *self.values.shape[1:])
            values = _added_there(np.cumsum(is_first) - 1, self.values[order], shape)
        return Coo(self.indices[:, order[first]], values, self.shape, True)

    def dense(self) -> Array:
        """Return it as a dense array."""
        out = zeros(self.shape, self.values)
        self.add_to(out)
        return out

    def add_to(self, out: Array) -> None:
        """Add it to a dense array, in place."""
        once = self.coalesce()
        if self.sparse_axes:
            out[tuple(once.indices)] += once.values
        else:
            out += once.values.sum(axis=0, dtype=self.dtype)

    def at(self, indices: Array) -> Array:
        """Return the values at some places, zeros among them."""
        once = self.coalesce()
        keys, wanted = once.keys(), Coo(indices, self.values[:0], self.shape).keys()
        out = zeros((len(wanted), *self.values.shape[1:]), self.values)
        if len(keys):
            found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            there = keys[found] == wanted
            out[there] = once.values[found[there]]
        return out

    def copy(self, order: Any = None) -> Coo:
        """Return a copy."""
        return Coo(self.indices.copy(), self.values.copy(), self.shape, self.coalesced, self.by_rows)

    def astype(self, dtype: Any, order: Any = None, copy: bool = True) -> Coo:
        """Return it in another dtype."""
        return self.like(self.values.astype(dtype, copy=copy))

    def transpose(self, *axes: Any) -> Coo:
        """Return it with its axes in another order; sparse axes stay before dense ones."""
        order = tuple(axes[0]) if len(axes) == 1 else tuple(axes)
        order = tuple(a % self.ndim for a in order) or tuple(reversed(range(self.ndim)))
        n = self.sparse_axes
        if sorted(order[:n]) != list(range(n)):
            raise RuntimeError(f"permute: sparse axes {tuple(range(n))} cannot change places with dense ones")
        values = self.values.transpose(0, *(a - n + 1 for a in order[n:]))
        return Coo(self.indices[list(order[:n])], values, tuple(self.shape[a] for a in order))

    def swapaxes(self, first: int, second: int) -> Coo:
        """Return it with two axes exchanged."""
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.transpose(tuple(order))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Return the sum, dense."""
        return (
            self.values.sum() if axis is None and not keepdims else self.dense().sum(axis, keepdims=keepdims)
        )

    def __getitem__(self, key: Any) -> Coo:
        out, axis = self, 0
        for part in key if isinstance(key, tuple) else (key,):
            if part is Ellipsis and axis == 0:
                return self
            if isinstance(part, (int, np.integer)) and axis < out.sparse_axes:
                out = out._part(axis, int(part), None)
            elif isinstance(part, slice) and part.step in (None, 1) and axis < out.sparse_axes:
                out = out._part(axis, *part.indices(out.shape[axis])[:2])
                axis += 1
            elif getattr(part, "ndim", 0) == 1 and part.dtype.kind == "i" and axis < out.sparse_axes:
                out = out.taken(axis, part)
                axis += 1
            else:
                raise IndexError(
                    f"x[{key!r}]: sparse axes are indexed by numbers and slices; write x.to_dense()"
                )
        return out

    def taken(self, axis: int, index: Array) -> Coo:
        """Return what lies at some places along an axis, in their order."""
        n = self.shape[axis]
        if ((index < -n) | (index >= n)).any():
            raise IndexError(f"an index is out of range for an axis of length {n}")
        places = _on_host(self.indices[axis])
        order = np.argsort(places, kind="stable")
        where, wanted = places[order], _on_host(index) % max(n, 1)
        first, end = np.searchsorted(where, wanted, "left"), np.searchsorted(where, wanted, "right")
        found = np.concatenate([order[:0], *(order[a:b] for a, b in zip(first, end, strict=True))])
        found, numbers = (
            np.asarray(each, like=self.indices)
            for each in (found, np.repeat(np.arange(len(index)), end - first))
        )
        indices = self.indices[:, found]
        indices[axis] = numbers
        return Coo(indices, self.values[found], (*self.shape[:axis], len(index), *self.shape[axis + 1 :]))

    def _part(self, axis: int, start: int, stop: int | None) -> Coo:
        """Return what lies from `start` to `stop` along an axis, or, without `stop`, at `start`, without the axis."""
        n, where = self.shape[axis], self.indices[axis]
        if stop is None:
            if not -n <= start < n:
                raise IndexError(f"index {start} is out of range for an axis of length {n}")
            here = where == start % n
            indices = self.indices[:, here][[k for k in range(self.sparse_axes) if k != axis]]
            length: tuple[int, ...] = ()
        else:
            here = (where >= start) & (where < stop)
            indices, length = self.indices[:, here], (max(stop - start, 0),)
            indices[axis] -= start
        return Coo(indices, self.values[here], (*self.shape[:axis], *length, *self.shape[axis + 1 :]))

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not Ellipsis or not (isinstance(value, Coo) or (np.ndim(value) == 0 and value == 0)):
            raise RuntimeError(
                "a sparse tensor takes another sparse one, or 0 everywhere; nothing at single places"
            )
        new = value if isinstance(value, Coo) else Coo(self.indices[:, :0], self.values[:0], self.shape)
        if new.shape != self.shape:
            raise ValueError(f"could not broadcast sparse {new.shape} into {self.shape}")
        self.indices, self.values, self.coalesced = new.indices, new.values.astype(self.dtype), new.coalesced

    # --- NumPy's protocols --------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is not None and not isinstance(out[0], Coo):
            if ufunc in (np.add, np.subtract) and out[0] is inputs[0] and isinstance(inputs[1], Coo):
                _expect_one_shape(ufunc.__name__, *inputs)
                (inputs[1] if ufunc is np.add else -inputs[1]).add_to(out[0])
                return out[0]
            raise _refusal(ufunc.__name__)
        result = _computed(ufunc, inputs) if method == "__call__" and not options else NotImplemented
        if result is NotImplemented:
            raise _refusal(ufunc.__name__)
        if out is None:
            return result
        out[0][...] = result
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.zeros_like:
            if (shape := kwargs.get("shape", self.shape)) != self.shape:
                return zeros(shape, self.values)
            return Coo(self.indices[:, :0], self.values[:0], self.shape)
        if function is np.concatenate:
            return joined(*args, **kwargs)
        raise _refusal(function.__name__)


def _on_host(array: Array) -> Array:
    return array.get() if hasattr(array, "get") else array  # (what CuPy calls it)


def _refusal(name: str) -> NotImplementedError:
    return NotImplementedError(f"{name}: there is no such operation on sparse tensors; write x.to_dense()")


def _expect_one_shape(name: str, a: Any, b: Any) -> None:
    x, y = (getattr(each, "shape", ()) for each in (a, b))
    if x != y:
        raise RuntimeError(f"{name}: a sparse tensor is not broadcast: shapes {x} and {y}")


def _computed(ufunc: Any, inputs: tuple[Any, ...]) -> Any:
    """Return what a function of NumPy's gives on arrays of which one is sparse; NotImplemented: it is not known."""
    if len(inputs) == 1:
        (x,) = inputs
        x = x if ufunc in _LINEAR else x.coalesce()
        return x.like(ufunc(x.values)) if ufunc in _KEEPS_ZERO else NotImplemented
    a, b = inputs
    if ufunc is np.matmul:
        return product(a, b)
    if ufunc in (np.add, np.subtract):
        return _added(ufunc, a, b)
    if ufunc is np.multiply:
        return _multiplied(a, b) if isinstance(a, Coo) else _multiplied(b, a)
    if isinstance(a, Coo) and not isinstance(b, Coo) and np.ndim(b) == 0:
        if ufunc in (np.divide, np.true_divide):
            return a.like(a.values / b)
        if (ufunc is np.power and b > 0) or (ufunc is np.maximum and b == 0):
            once = a.coalesce()
            return once.like(ufunc(once.values, b))
    return NotImplemented


def _added(ufunc: Any, a: Any, b: Any) -> Any:
    name = ufunc.__name__
    _expect_one_shape(name, a, b)
    if not (isinstance(a, Coo) and isinstance(b, Coo)):
        return ufunc(*(x.dense() if isinstance(x, Coo) else x for x in (a, b)))
    if a.sparse_axes != b.sparse_axes:
        raise RuntimeError(f"{name}: tensors with {a.sparse_axes} and {b.sparse_axes} sparse axes do not fit")
    if a.indices.shape == b.indices.shape and (
        a.indices is b.indices or np.array_equal(a.indices, b.indices)
    ):
        return Coo(a.indices, ufunc(a.values, b.values), a.shape, a.coalesced, a.by_rows and b.by_rows)
    values = np.concatenate((a.values, b.values if ufunc is np.add else -b.values))
    both = Coo(np.concatenate((a.indices, b.indices), axis=1), values, a.shape)
    if a.by_rows and b.by_rows:
        return both.kept(by_rows=True)
    return both.coalesce() if a.coalesced and b.coalesced else both


def _multiplied(x: Coo, factor: Any) -> Coo:
    if isinstance(factor, Coo):
        _expect_one_shape("mul", x, factor)
        x = x.coalesce()
        both = np.isin(x.keys(), factor.keys())
        x = Coo(x.indices[:, both], x.values[both], x.shape, True)
        return x.like(x.values * factor.at(x.indices))
    if np.ndim(factor) == 0:
        return x.like(x.values * factor)
    if np.broadcast_shapes(x.shape, factor.shape) != x.shape:
        raise RuntimeError(f"mul: a sparse tensor is not broadcast: shapes {x.shape} and {factor.shape}")
    return x.like(x.values * np.broadcast_to(factor, x.shape)[tuple(x.indices)])


def joined(arrays: Any, axis: int = 0) -> Coo:
    """Return sparse arrays one behind the other along a sparse axis."""
    first = arrays[0]
    axis %= first.ndim
    if axis >= first.sparse_axes:
        raise RuntimeError(f"cat: axis {axis} is a dense one; sparse tensors are joined along sparse axes")
    moved, length = [x.indices.copy() for x in arrays], 0
    for indices, x in zip(moved, arrays, strict=True):
        indices[axis] += length
        length += x.shape[axis]
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    return Coo(np.concatenate(moved, axis=1), np.concatenate([x.values for x in arrays]), shape)


def from_dense(x: Array, sparse_axes: int) -> Coo:
    """Return what of a dense array is not 0, by its first axes."""
    if not sparse_axes:
        return Coo(np.zeros_like(x, shape=(0, 1), dtype=np.int64), x[None], x.shape, True)
    rest = tuple(range(sparse_axes, x.ndim))
    indices = np.stack(np.nonzero((x != 0).any(axis=rest) if rest else x != 0))
    return Coo(indices, x[tuple(indices)], x.shape, True)


# --- products -------------------------------------------------------------------------------------------


def product(a: Any, b: Any) -> Any:
    """Return the matrix product of arrays of which one is sparse, or both: then it is sparse too."""
    if not isinstance(a, Coo):
        return product(b.T, a.swapaxes(0, -1)).swapaxes(0, -1)
    if a.ndim != 2 or a.sparse_axes != 2 or b.ndim > 2:
        raise RuntimeError(
            f"matmul: a sparse matrix (2 sparse axes) is expected, got {a!r} and shape {b.shape}"
        )
    if type(a.values) is not np.ndarray:
        return _product_there(a, b)
    wide = _wide(a.dtype)
    if not isinstance(b, Coo):
        return (_rows_of(a, wide) @ b.astype(wide, copy=False)).astype(a.dtype, copy=False)
    out = (_rows_of(a, wide) @ _rows_of(b, wide)).tocoo()
    indices = np.array([out.row, out.col], np.int64)
    made = Coo(indices, out.data.astype(a.dtype, copy=False), (a.shape[0], b.shape[1]))
    return made.kept(a.by_rows and b.by_rows)


def _product_there(a: Coo, b: Any) -> Any:
    """Return what `product` does of arrays on a device."""
    if isinstance(b, Coo):
        bring = lambda array: np.asarray(array, like=a.values)
        return product(*(each.__minitorch_moved__(_on_host) for each in (a, b))).__minitorch_moved__(bring)
    i, j = a.indices
    wide = _wide(a.dtype)
    factors = a.values.astype(wide, copy=False)
    products = (factors if b.ndim == 1 else factors[:, None]) * b.astype(wide, copy=False)[j]
    return _added_there(i, products, (a.shape[0], *b.shape[1:])).astype(a.dtype, copy=False)


def _added_there(rows: Array, values: Array, shape: tuple[int, ...]) -> Array:
    """Return a device's zeros of a shape to whose rows values are added."""
    wide = values.astype(_wide(values.dtype), copy=False)
    out = zeros(shape, wide)
    add_at(out, rows, wide)
    return out.astype(values.dtype, copy=False)


def _wide(dtype: Any) -> Any:
    """Return in which dtype numbers of another are added up: halves in float32. (SciPy has no float16 either.)"""
    return np.result_type(dtype, np.float32) if dtype.itemsize < 4 and dtype.kind not in "iub" else dtype


def _rows_of(x: Coo, dtype: Any) -> Any:
    import scipy.sparse  # at first use: it takes a fifth of a second to import

    return scipy.sparse.csr_array((x.values.astype(dtype, copy=False), tuple(x.indices)), shape=x.shape)


def product_at(g: Array, y: Array, x: Coo) -> Coo:
    """Return (g @ yᵀ) at the places of x alone: what a sparse matrix's values get of a product's gradient."""
    once = x.coalesce()
    i, j = once.indices
    if isinstance(g, Coo) or isinstance(y, Coo):
        whole = product(g, y.T)
        return once.like(whole.at(once.indices) if isinstance(whole, Coo) else whole[i, j])
    return once.like(np.einsum("nk,nk->n", g[i], y[j]) if y.ndim == 2 else g[i] * y[j])


def values_at(g: Array, x: Coo) -> Array:
    """Return a dense or sparse array's values at the places of x."""
    return g.at(x.indices) if isinstance(g, Coo) else g[tuple(x.indices)]


# --- ops --------------------------------------------------------------------------------------------------


def _op(name: str, forward: Callable[..., Any], *rules: Any) -> Op:
    # Not listed: what is listed is proven on dense arrays of all kinds, compiled and batched.
    return Op(name, forward, *rules, register=False)


VALUES_AT: Op = _op(
    "values_at",
    values_at,
    lambda g, out, x, pattern: TO_DENSE(SPARSE_LIKE(g, pattern)),
    None,
)
SPARSE_LIKE: Op = _op(
    "sparse_like", lambda v, pattern: pattern.like(v), lambda g, out, v, pattern: VALUES_AT(g, pattern), None
)
MASK: Op = _op(
    "sparse_mask",
    lambda x, pattern: pattern.coalesce().like(values_at(x, pattern.coalesce())),
    lambda g, out, x, pattern: TO_DENSE(g),
    None,
)
TO_DENSE: Op = _op(
    "to_dense",
    lambda x: x.dense() if isinstance(x, Coo) else x,
    lambda g, out, x: MASK(g, x),
)
TO_SPARSE = _op(
    "to_sparse", lambda x, *, sparse_axes: from_dense(x, sparse_axes), lambda g, out, x, **_: TO_DENSE(g)
)
SPARSE: Op = _op(
    "sparse_coo_tensor",
    lambda v, *, indices, shape, coalesced=False: Coo(indices, v, shape, coalesced),
    lambda g, out, v, **_: VALUES_AT(g, out),
)
KEEP = _op("to_sparse", lambda x, *, by_rows: x.kept(by_rows), lambda g, out, x, **_: g)
COALESCE = _op("coalesce", lambda x: x.coalesce(), lambda g, out, x: g)
# Of an array that is coalesced, or whose indices name each place once.
VALUES = _op("values", lambda x: x.values, lambda g, out, x: SPARSE_LIKE(g, x))


def _product_left(g: Array, out: Array, x: Array, y: Array) -> Array:
    return PRODUCT_AT(g, y, x) if is_sparse(x) else g @ y.T


def _product_right(g: Array, out: Array, x: Array, y: Array) -> Array:
    return PRODUCT_AT(g.T, x.T, y.T).T if is_sparse(y) else x.T @ g


PRODUCT = _op("sparse_matmul", product, _product_left, _product_right)
PRODUCT_AT: Op = _op(
    "product_at", product_at, lambda g, out, a, y, x: g @ y, lambda g, out, a, y, x: g.T @ a, None
)


def _gradient_of_rows(g: Array, out: Array, table: Array, *, index: Array, padding_idx: int | None) -> Array:
    flat, rows = index.reshape(-1), g.reshape((-1, table.shape[1]))
    if padding_idx is not None:
        kept = np.flatnonzero(flat != padding_idx)
        flat, rows = flat[kept], rows[kept]
    return SPARSE(rows, indices=flat[None].astype(np.int64), shape=tuple(table.shape))


# An embedding whose gradient names the rows that were looked up.
LOOK_UP = _op("embedding", lambda table, *, index, padding_idx: table[index], _gradient_of_rows)


def is_sparse(x: Any) -> bool:
    """Tell whether an array is sparse, or a Tensor that holds one."""
    return isinstance(x, Coo) or isinstance(getattr(x, "_array", None), Coo)
