"""Products: of matrices and vectors, inner, outer, einsum; and products with something added.

Enters: tensors. Leaves: tensors.
"""

from __future__ import annotations

import math
import string
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.fast import apply_binary
from minitorch.engine.modes import autocasting
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.engine.recording import recordings
from minitorch.ops import products as ops
from minitorch.ops.sparse import Coo
from minitorch.tensor.convert import as_tensor, cast, one_axis, promoted, tensor_for
from minitorch.tensor.methods.arguments import expect_axes
from minitorch.tensor.methods.joining import cat, stack
from minitorch.tensor.methods.public import function, in_place
from minitorch.tensor.methods.sparse import product as sparse_product
from minitorch.tensor.precision import in_given_precision, in_lower_precision, lowered_by_autocast

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Products(Node):
    """Matrix products."""

    __slots__ = ()

    def matmul(self, other: Any) -> Tensor:
        """The matrix product: vectors, matrices, batches of matrices, broadcast.   dA = g Bᵀ, dB = Aᵀ g

        >>> grid = minitorch.zeros(20, 3, 5)         # verb × person × tense
        >>> (grid @ minitorch.zeros(5, 64)).shape    # projected to 64 hidden units
        (20, 3, 64)
        """
        return matmul(self, other)

    @in_given_precision
    def dot(self, other: Any) -> Tensor:
        """Σ xᵢ·yᵢ of two vectors.   dx = g·y, dy = g·x

        >>> minitorch.tensor([1.0, 2.0]).dot(minitorch.tensor([3.0, 4.0]))
        tensor(11.)
        """
        expect_axes("dot", (self, 1), (other, 1))
        return matmul(self, other)

    @in_lower_precision
    def mm(self, mat2: Any) -> Tensor:
        """The product of two matrices, nothing broadcast.   dA = g Bᵀ, dB = Aᵀ g

        >>> minitorch.zeros(3, 5).mm(minitorch.zeros(5, 2)).shape
        (3, 2)
        """
        expect_axes("mm", (self, 2), (mat2, 2))
        return matmul(self, mat2)

    @in_given_precision
    def mv(self, vec: Any) -> Tensor:
        """A matrix times a vector.   dA = g ⊗ v, dv = Aᵀ g

        >>> minitorch.zeros(3, 5).mv(minitorch.zeros(5)).shape
        (3,)
        """
        expect_axes("mv", (self, 2), (vec, 1))
        return matmul(self, vec)

    @in_lower_precision
    def bmm(self, mat2: Any) -> Tensor:
        """Products of two batches of matrices, nothing broadcast.   dA = g Bᵀ, dB = Aᵀ g

        >>> minitorch.zeros(20, 3, 5).bmm(minitorch.zeros(20, 5, 2)).shape
        (20, 3, 2)
        """
        expect_axes("bmm", (self, 3), (mat2, 3))
        if self._data.shape[0] != as_tensor(mat2)._data.shape[0]:
            raise RuntimeError(
                f"bmm: batches of {self._data.shape[0]} and {as_tensor(mat2)._data.shape[0]} matrices do not "
                "match; write matmul to broadcast"
            )
        if self._array.__class__ is Coo:
            return stack([matmul(self[i], mat2[i]) for i in range(len(self))])  # type: ignore[index,arg-type]
        return matmul(self, mat2)

    def outer(self, vec2: Any) -> Tensor:
        """xᵢ·yⱼ of two vectors.   dx = g y, dy = gᵀ x

        >>> minitorch.tensor([1.0, 2.0]).outer(minitorch.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
        """
        expect_axes("outer", (self, 1), (vec2, 1))
        column: Tensor = as_tensor(self)[:, None]
        return column * as_tensor(vec2)[None, :]

    ger = outer

    @in_lower_precision
    def inner(self: Any, other: Any) -> Tensor:
        """Sums over the last axes of both; a plain product where one has no axis.

        >>> inner(minitorch.tensor([1.0, 2.0]), minitorch.tensor([[3.0, 4.0], [5.0, 6.0]]))
        tensor([11., 17.])
        """
        y = tensor_for(other, "inner")
        if not self.ndim or not y.ndim:
            return self * y
        if self.shape[-1] != y.shape[-1]:
            raise RuntimeError(f"inner: the last axes of {self.shape} and {y.shape} must be equally long")
        return tensordot(self, y, ([-1], [-1]))

    def vdot(self: Any, other: Any) -> Tensor:
        """Σ xᵢ·yᵢ of two vectors (the first conjugated).   dx = g·y, dy = g·x

        >>> vdot(minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0]))
        tensor(11.)
        """
        return self.conj().dot(other)

    def kron(self: Any, other: Any) -> Tensor:
        """Kronecker's product: each element of x times all of y, as blocks.

        >>> kron(minitorch.tensor([1.0, 10.0]), minitorch.tensor([1.0, 2.0]))
        tensor([ 1.,  2., 10., 20.])
        """
        y = tensor_for(other, "kron")
        ndim = max(self.ndim, y.ndim)
        a = (1,) * (ndim - self.ndim) + self.shape
        b = (1,) * (ndim - y.ndim) + y.shape
        left = self.reshape([n for pair in zip(a, [1] * ndim, strict=True) for n in pair])
        right = y.reshape([n for pair in zip([1] * ndim, b, strict=True) for n in pair])
        return (left * right).reshape([m * n for m, n in zip(a, b, strict=True)])

    def cross(self, other: Any, dim: int | None = None) -> Tensor:
        """The vector perpendicular to two in space, x × y, along an axis of length 3 (the first such).

        >>> cross(minitorch.tensor([1.0, 0.0, 0.0]), minitorch.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
        """
        x, y = promoted(self, tensor_for(other, "cross"))
        if dim is None:
            dim = next((i for i, n in enumerate(x.shape) if n == 3), None)
            if dim is None:
                raise RuntimeError(f"cross: no axis of shape {x.shape} has length 3")
        at = one_axis(dim, max(x.ndim, y.ndim), "cross") - max(x.ndim, y.ndim)
        if x.ndim != y.ndim or x.shape[at] != 3 or y.shape[at] != 3:
            raise RuntimeError(
                f"cross: axis {dim} of both must have length 3, got shapes {x.shape} and {y.shape}"
            )
        # xᵢ₊₁·yᵢ₊₂ - xᵢ₊₂·yᵢ₊₁, the axes counted in a circle.
        return x.roll(-1, at) * y.roll(-2, at) - x.roll(-2, at) * y.roll(-1, at)

    # --- with something added --------------------------------------------------------------------

    @in_place
    @in_lower_precision
    def addmm(self, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """β·x + α·(A @ B).   dx = β·g, dA = α·g Bᵀ, dB = α·Aᵀ g

        >>> addmm(minitorch.tensor([[1.0]]), minitorch.tensor([[2.0, 3.0]]), minitorch.tensor([[4.0], [5.0]]))
        tensor([[24.]])
        """
        expect_axes("addmm", (mat1, 2), (mat2, 2))
        return _plus(self, matmul(mat1, mat2), beta, alpha, "addmm")

    @in_place
    @in_given_precision
    def addmv(self, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """β·x + α·(A @ v).

        >>> addmv(minitorch.tensor([1.0]), minitorch.tensor([[2.0, 3.0]]), minitorch.tensor([4.0, 5.0]))
        tensor([24.])
        """
        expect_axes("addmv", (mat, 2), (vec, 1))
        return _plus(self, matmul(mat, vec), beta, alpha, "addmv")

    @in_place
    def addr(self, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """β·x + α·(v ⊗ w).

        >>> addr(minitorch.tensor([[1.0, 1.0]]), minitorch.tensor([2.0]), minitorch.tensor([3.0, 4.0]))
        tensor([[7., 9.]])
        """
        return _plus(self, tensor_for(vec1, "addr").outer(vec2), beta, alpha, "addr")

    @in_place
    @in_lower_precision
    def baddbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """β·x + α·(A @ B), for batches of matrices.

        >>> baddbmm(minitorch.tensor([1.0]), minitorch.tensor([[[2.0]]]), minitorch.tensor([[[3.0]]]))
        tensor([[[7.]]])
        """
        return _plus(self, tensor_for(batch1, "baddbmm").bmm(batch2), beta, alpha, "baddbmm")

    @in_place
    @in_lower_precision
    def addbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """β·x + α·Σ (A @ B), summed over the batch.

        >>> addbmm(minitorch.tensor([1.0]), minitorch.tensor([[[2.0]], [[1.0]]]), minitorch.tensor([[[3.0]], [[1.0]]]))
        tensor([[8.]])
        """
        product = tensor_for(batch1, "addbmm").bmm(batch2)
        return _plus(self, cast(product.sum(0), product._array.dtype), beta, alpha, "addbmm")


# --- matmul, einsum, chains ----------------------------------------------------------------------


def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product of two tensors, after dtype promotion.   See Tensor.matmul

    >>> matmul(minitorch.ones(2, 3), minitorch.ones(3)).shape
    (2,)
    """
    if autocasting and (lowered := lowered_by_autocast(matmul, a, b)) is not None:
        return lowered
    if not (isinstance(a, Node) and isinstance(b, Node) and a._array.dtype is b._array.dtype):
        a, b = promoted(tensor_for(a, "matmul"), tensor_for(b, "matmul"))
    x, y = (a._data.shape, b._data.shape) if recordings else (a._array.shape, b._array.shape)
    if not x or not y:
        raise RuntimeError(f"matmul: both operands need an axis, got shapes {x} and {y}; write x * y")
    if x[-1] != y[0 if len(y) == 1 else -2]:
        raise RuntimeError(_product_misfit(x, y))
    if a._array.__class__ is Coo or b._array.__class__ is Coo:
        return sparse_product(a, b)
    if a._array.dtype.kind == "b":
        return cast(apply(ops.MATMUL, a, b), np.bool_)
    return apply_binary(ops.MATMUL, a, b)


_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _as_equation(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Write einsum(x, [0, 1], y, [1, 2], [0, 2]) as a text and the operands."""

    def letters(places: Any) -> str:
        if any(place is not Ellipsis and not 0 <= place < 52 for place in places):
            raise ValueError(f"einsum: indices in a list are whole numbers from 0 to 51, got {places}")
        return "".join("..." if place is Ellipsis else _LETTERS[place] for place in places)

    paired = len(operands) // 2 * 2
    left = ",".join(letters(places) for places in operands[1:paired:2])
    right = "->" + letters(operands[-1]) if len(operands) > paired else ""
    return left + right, operands[:paired:2]


@in_lower_precision
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Einstein's summation: `einsum("bi,ij->bj", x, w)`.   Each operand's gradient is an einsum too

    >>> grid, projection = minitorch.ones(20, 3, 5), minitorch.ones(5, 2)
    >>> minitorch.einsum("vpt,th->vph", grid, projection).shape
    (20, 3, 2)
    >>> minitorch.einsum(grid, [0, 1, 2], projection, [2, 3], [0, 1, 3]).shape      # the same, by numbers
    (20, 3, 2)
    """
    if len(operands) and isinstance(equation, Node) and isinstance(operands[0], (list, tuple)):
        equation, operands = _as_equation((equation, *operands))
    if not isinstance(equation, str):
        raise TypeError(
            f"einsum: the equation comes first, as text, got {equation!r}; write einsum('ij,jk->ik', x, y)"
        )
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    tensors = promoted(*(tensor_for(o, "einsum") for o in operands))
    try:
        explicit = ops.explicit_subscripts(equation, tuple(t._array.ndim for t in tensors))
    except ValueError as error:
        raise RuntimeError(f"einsum: {error}") from None
    sizes: dict[str, int] = {}
    for term, t in zip(explicit.partition("->")[0].split(","), tensors, strict=True):
        for letter, n in zip(term, t._data.shape, strict=True):
            if sizes.setdefault(letter, n) != n and 1 not in (n, sizes[letter]):
                raise RuntimeError(
                    f"einsum: in {equation!r} the index {letter!r} has length {sizes[letter]} in one operand "
                    f"and {n} in another"
                )
            sizes[letter] = max(n, sizes[letter]) if 0 not in (n, sizes[letter]) else 0
    stretched = []
    for term, t in zip(explicit.partition("->")[0].split(","), tensors, strict=True):
        wanted = tuple(sizes[c] for c in term)
        stretched.append(t if t._data.shape == wanted else t.broadcast_to(wanted))
    return apply(ops.EINSUM, *stretched, subscripts=explicit)


@in_lower_precision
def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Sum over `dims` axes: the last of a against the first of b, or the pairs listed.

    >>> minitorch.tensordot(minitorch.ones(20, 3, 5), minitorch.ones(3, 5, 2)).shape
    (20, 2)
    """
    x, y = tensor_for(a, "tensordot"), tensor_for(b, "tensordot")
    if isinstance(dims, int):
        mine, theirs = list(range(x._array.ndim - dims, x._array.ndim)), list(range(dims))
        if dims < 0 or dims > min(x._array.ndim, y._array.ndim):
            raise RuntimeError(
                f"tensordot: dims = {dims} does not fit shapes {x._data.shape} and {y._data.shape}"
            )
    else:
        if not isinstance(dims, (tuple, list)) or len(dims) != 2:
            raise TypeError(f"tensordot: dims must be an int, or two lists of axes, got {dims!r}")
        first, second = dims
        mine = [
            one_axis(i, x._array.ndim, "tensordot") for i in ([first] if isinstance(first, int) else first)
        ]
        theirs = [
            one_axis(i, y._array.ndim, "tensordot") for i in ([second] if isinstance(second, int) else second)
        ]
    for i, j in zip(mine, theirs, strict=False):  # an axis of length 1 is stretched: the other is summed
        if x._data.shape[i] == 1 != y._data.shape[j]:
            y = cast(y.sum(j, keepdim=True), y._array.dtype)
        elif y._data.shape[j] == 1 != x._data.shape[i]:
            x = cast(x.sum(i, keepdim=True), x._array.dtype)
    if len(mine) != len(theirs) or any(
        x._data.shape[i] != y._data.shape[j] for i, j in zip(mine, theirs, strict=True)
    ):
        raise RuntimeError(
            f"tensordot: axes {mine} of shape {x._data.shape} do not match axes {theirs} of shape {y._data.shape}"
        )
    kept = [i for i in range(x._array.ndim) if i not in mine]
    rest = [j for j in range(y._array.ndim) if j not in theirs]
    rows = tuple(x._data.shape[i] for i in kept)
    columns = tuple(y._data.shape[j] for j in rest)
    inner = math.prod(x._data.shape[i] for i in mine)
    left = x.permute((*kept, *mine)).reshape(math.prod(rows), inner)
    right = y.permute((*theirs, *rest)).reshape(inner, math.prod(columns))
    return matmul(left, right).reshape(rows + columns)


@in_lower_precision
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of several matrices, multiplied in the order that takes the fewest operations.

    >>> chain_matmul(minitorch.tensor([[1.0, 2.0]]), minitorch.tensor([[3.0], [4.0]]), minitorch.tensor([[5.0]]))
    tensor([[55.]])
    """
    return multiply_chain([tensor_for(m, "chain_matmul") for m in matrices], "chain_matmul")


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of each element as a row: xᴺ⁻¹ … x⁰, or x⁰ … xᴺ⁻¹ with increasing=True.

    >>> vander(minitorch.tensor([1.0, 2.0, 3.0]), 3, increasing=True)
    tensor([[1., 1., 1.],
            [1., 2., 4.],
            [1., 3., 9.]])
    """
    base = tensor_for(x, "vander")
    if base.ndim != 1:
        raise RuntimeError(f"vander: expects a vector, got shape {base.shape}; linalg.vander takes batches")
    powers = powers_of(base, len(base) if N is None else N, "vander")
    return powers if increasing else powers.flip(-1)


# --- parts ---------------------------------------------------------------------------------------


def _product_misfit(x: tuple[int, ...], y: tuple[int, ...]) -> str:
    """Say which axes of two shapes a matrix product brings together, and what would make them fit."""
    if len(x) == len(y) == 1:
        return (
            f"matmul: vectors of shapes {x} and {y} do not fit: a product of two vectors is the sum of x[i]·y[i], and "
            "needs equal lengths. For the matrix of all x[i]·y[j] write minitorch.outer(x, y)"
        )
    met = y[0 if len(y) == 1 else -2]
    message = (
        f"matmul: shapes {x} and {y} do not fit: the last axis of the first ({x[-1]}) meets the "
        f"{'only' if len(y) == 1 else 'second to last'} axis of the second ({met}), and they must be equal"
    )
    fitting = []
    if len(x) > 1 and x[-2] == met:
        fitting.append("x.mT @ y")
    if len(y) > 1 and y[-1] == x[-1]:
        fitting.append("x @ y.mT")
    return message + (f". Transposed they fit: {' or '.join(fitting)}" if fitting else "")


def _plus(input: Any, product: Tensor, beta: float, alpha: float, name: str) -> Tensor:
    """Return β·x + α·product; x is left out where β is 0, nan and all."""
    if product._array.dtype.kind in "iu" and not (isinstance(beta, int) and isinstance(alpha, int)):
        raise RuntimeError(f"{name}: beta and alpha must be ints between integer tensors")
    x = tensor_for(input, name)
    if product._array.dtype.kind == "b":
        kept = cast(x, product._array.dtype).logical_and(bool(beta))
        return kept.logical_or(product.logical_and(bool(alpha)))
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled.broadcast_to(product.shape)
    summed = (x if beta == 1 else x * beta) + scaled
    if summed.shape != product.shape:
        raise RuntimeError(f"{name}: an input of shape {x.shape} does not stretch to {product.shape}")
    return summed


def multiply_chain(matrices: list[Any], name: str) -> Tensor:
    """Multiply matrices in the cheapest order, found by dynamic programming."""
    if not matrices:
        raise RuntimeError(f"{name}: expects at least one matrix")
    if any(m.ndim != 2 for m in matrices):
        raise RuntimeError(f"{name}: expects matrices, got shapes {[m.shape for m in matrices]}")
    count = len(matrices)
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length - 1
            choices = [
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            ]
            cost[i][j], cut[i][j] = min(choices)

    def product(i: int, j: int) -> Any:
        return matrices[i] if i == j else matmul(product(i, cut[i][j]), product(cut[i][j] + 1, j))

    return product(0, count - 1)


def powers_of(x: Any, count: int, name: str) -> Tensor:
    """Return x⁰ … x^{count - 1} on a new last axis; integers stay integers."""
    if count < 0:
        raise RuntimeError(f"{name}: N must not be negative, got {count}")
    column = cast(x, "int64") if x._array.dtype.kind in "biu" else x
    column = column.unsqueeze(-1)
    if count == 0:
        return column[..., :0]
    ones = new_tensor(np.ones_like(column._data))
    if count == 1:
        return ones
    return cat([ones, column.broadcast_to((*column.shape[:-1], count - 1)).cumprod(-1)], -1)


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

dot = function(Products.dot)
mm = spmm = function(Products.mm)
mv = function(Products.mv)
bmm = function(Products.bmm)
outer = ger = function(Products.outer)
inner = function(Products.inner)
vdot = function(Products.vdot)
kron = function(Products.kron)
cross = function(Products.cross)
addmm = function(Products.addmm)
addmv = function(Products.addmv)
addr = function(Products.addr)
baddbmm = function(Products.baddbmm)
addbmm = function(Products.addbmm)

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "cross", "dot", "einsum", "ger",
    "inner", "kron", "matmul", "mm", "mv", "outer", "spmm", "tensordot", "vander", "vdot",
]  # fmt: skip
