"""Stacking, splitting, turning, and grids of indices, as functions and as Tensor methods.

Enters: tensors. Leaves: the same elements, arranged otherwise; compositions of the ops in ops/shape.py.
methods/families.py makes methods of those that PyTorch offers as methods too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import int64
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops.op import unbroadcast
from minitorch.ops.shape import PAD
from minitorch.tensor.convert import common_shape, one_axis, one_int, promoted, shape_of, tensor_for
from minitorch.tensor.methods.shape import _sequence, cat, stack

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


def _given(tensors: tuple[Any, ...], name: str) -> list[Tensor]:
    """Return tensors given one by one or as a list."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    return [tensor_for(t, name) for t in tensors]


# --- at least so many axes ----------------------------------------------------------------------


def _at_least(tensors: tuple[Any, ...], name: str, shape_for: Any) -> Any:
    made = [t.reshape(shape_for(t.shape)) for t in _given(tensors, name)]
    return made[0] if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)) else tuple(made)


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one axis.

    >>> atleast_1d(minitorch.tensor(1.0))
    tensor([1.])
    """
    return _at_least(tensors, "atleast_1d", lambda s: s or (1,))


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two axes, a vector as one row.

    >>> atleast_2d(minitorch.tensor([1.0, 2.0])).shape
    (1, 2)
    """
    return _at_least(tensors, "atleast_2d", lambda s: (1,) * (2 - len(s)) + s)


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three axes: (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1).

    >>> atleast_3d(minitorch.tensor([1.0, 2.0])).shape
    (1, 2, 1)
    """
    return _at_least(
        tensors, "atleast_3d", lambda s: {0: (1, 1, 1), 1: (1, *s, 1), 2: (*s, 1)}.get(len(s), s)
    )


# --- joining ------------------------------------------------------------------------------------


def hstack(tensors: Sequence[Any]) -> Tensor:
    """Side by side: along the second axis, vectors along their only one.

    >>> hstack([minitorch.tensor([1.0]), minitorch.tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """
    parts = atleast_1d(*_sequence(tensors, "hstack", RuntimeError))
    parts = parts if isinstance(parts, tuple) else (parts,)
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Tensor:
    """On top of each other: along the first axis, vectors as rows.

    >>> vstack([minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0])]).shape
    (2, 2)
    """
    return cat([atleast_2d(t) for t in _sequence(tensors, "vstack", RuntimeError)], 0)


def dstack(tensors: Sequence[Any]) -> Tensor:
    """Behind each other: along the third axis.

    >>> dstack([minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0])]).shape
    (1, 2, 2)
    """
    return cat([atleast_3d(t) for t in _sequence(tensors, "dstack", RuntimeError)], 2)


def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Side by side, vectors as columns.

    >>> column_stack([minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0])])
    tensor([[1., 3.],
            [2., 4.]])
    """
    parts = _sequence(tensors, "column_stack", RuntimeError)
    return cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in parts], 1)


def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given matrices along its diagonal, and zeros elsewhere.

    >>> block_diag(minitorch.tensor([[1.0, 2.0]]), minitorch.tensor([[3.0]]))
    tensor([[1., 2., 0.],
            [0., 0., 3.]])
    """
    parts = [tensor_for(t, "block_diag") for t in tensors]
    if any(t.ndim > 2 for t in parts):
        raise RuntimeError(f"block_diag: expects at most 2 axes each, got shapes {[t.shape for t in parts]}")
    blocks = promoted(*(atleast_2d(t) for t in parts))
    if not blocks:
        return new_tensor(np.zeros((1, 0), np.float32))
    width, before, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        after = width - before - block.shape[1]
        value = False if block._data.dtype.kind == "b" else 0
        rows.append(apply(PAD, block, widths=((0, 0), (before, after)), value=value))
        before += block.shape[1]
    return cat(rows, 0)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All tuples with one element of each vector, as rows.

    >>> cartesian_prod(minitorch.tensor([1, 2]), minitorch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    vectors = _given(tensors, "cartesian_prod")
    if len(vectors) == 1:
        return vectors[0]
    return stack([grid.reshape(-1) for grid in meshgrid(*vectors, indexing="ij")], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, in its order, as rows.

    >>> combinations(minitorch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    x = tensor_for(input, "combinations")
    if x.ndim != 1:
        raise RuntimeError(f"combinations: expects a vector, got shape {x.shape}")
    if one_int(r, "combinations", "r") < 0:
        raise RuntimeError(f"combinations: r must not be negative, got {r}")
    if r == 0:
        return x[:0]
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(len(x)), r)), dtype=np.int64).reshape(-1, r)
    return x[new_tensor(places)]


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Each vector stretched over a grid: its values vary along its own axis, 'xy' exchanges the first two.

    >>> [grid.tolist() for grid in meshgrid(minitorch.tensor([1, 2]), minitorch.tensor([3, 4, 5]), indexing="ij")]
    [[[1, 1, 1], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]]]
    """
    vectors = _given(tensors, "meshgrid")
    if not vectors:
        raise ValueError("meshgrid: expects at least one tensor")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    if any(v.ndim > 1 for v in vectors):
        raise RuntimeError(f"meshgrid: expects vectors, got shapes {[v.shape for v in vectors]}")
    shape = tuple(v.numel() for v in vectors)
    grids = [
        v.reshape([-1 if i == k else 1 for k in range(len(shape))]).broadcast_to(shape)
        for i, v in enumerate(vectors)
    ]
    return tuple(g.swapaxes(0, 1) if indexing == "xy" and len(shape) > 1 else g for g in grids)


# --- splitting ----------------------------------------------------------------------------------


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0, **sections: Any) -> tuple[Tensor, ...]:
    """Cut along an axis into so many nearly equal pieces, or before each index listed.   dx: the pieces' g joined

    >>> [piece.tolist() for piece in tensor_split(minitorch.tensor([1, 2, 3, 4, 5]), 2)]
    [[1, 2, 3], [4, 5]]
    """
    x = tensor_for(input, "tensor_split")
    if not x.ndim:
        raise RuntimeError("tensor_split: a 0-d tensor has no axis to cut; write x.reshape(1)")
    at = one_axis(dim, x.ndim, "tensor_split")
    length = x.shape[at]
    given = indices_or_sections
    if isinstance(given, Node):
        given = given.tolist()  # type: ignore[attr-defined]
    if isinstance(given, int):
        if given < 1:
            raise RuntimeError(f"tensor_split: expects at least 1 section, got {given}")
        each, more = divmod(length, given)
        sizes = [each + (i < more) for i in range(given)]
        return x.split(sizes, at)
    cuts = [slice(None, n).indices(length)[1] for n in given]
    bounds = zip([0, *cuts], [*cuts, length], strict=True)
    return tuple(x[(slice(None),) * at + (slice(a, max(a, b)),)] for a, b in bounds)


def hsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Cut into pieces side by side: along the second axis, a vector along its only one.

    >>> [piece.shape for piece in hsplit(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), 2)]
    [(2, 1), (2, 1)]
    """
    x = tensor_for(input, "hsplit")
    return _even(x, indices_or_sections, 0 if x.ndim == 1 else 1, 1, "hsplit")


def vsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Cut into pieces on top of each other: along the first axis.

    >>> [piece.shape for piece in vsplit(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), 2)]
    [(1, 2), (1, 2)]
    """
    return _even(tensor_for(input, "vsplit"), indices_or_sections, 0, 2, "vsplit")


def dsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Cut into pieces behind each other: along the third axis.

    >>> [piece.shape for piece in dsplit(minitorch.tensor([[[1.0, 2.0]]]), 2)]
    [(1, 1, 1), (1, 1, 1)]
    """
    return _even(tensor_for(input, "dsplit"), indices_or_sections, 2, 3, "dsplit")


def _even(x: Tensor, sections: Any, axis: int, ndim: int, name: str) -> tuple[Tensor, ...]:
    if x.ndim < ndim:
        raise RuntimeError(f"{name}: expects at least {ndim} axes, got shape {x.shape}")
    if isinstance(sections, int) and (not sections or x.shape[axis] % sections):
        raise RuntimeError(
            f"{name}: axis {axis} of shape {x.shape} cannot be cut into {sections} equal parts"
        )
    return tensor_split(x, sections, axis)


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Cut along an axis into pieces of the sizes listed.   dx: the pieces' g joined

    >>> [len(piece) for piece in split_with_sizes(minitorch.tensor([1, 2, 3]), [1, 2])]
    [1, 2]
    """
    return tensor_for(input, "split_with_sizes").split(list(split_sizes), dim)


# --- turning ------------------------------------------------------------------------------------


def fliplr(input: Any) -> Tensor:
    """The second axis reversed.

    >>> fliplr(minitorch.tensor([[1.0, 2.0]]))
    tensor([[2., 1.]])
    """
    x = tensor_for(input, "fliplr")
    if x.ndim < 2:
        raise RuntimeError(f"fliplr: expects at least 2 axes, got shape {x.shape}")
    return x.flip(1)


def flipud(input: Any) -> Tensor:
    """The first axis reversed.

    >>> flipud(minitorch.tensor([1.0, 2.0]))
    tensor([2., 1.])
    """
    x = tensor_for(input, "flipud")
    if not x.ndim:
        raise RuntimeError("flipud: expects at least 1 axis, got a 0-d tensor")
    return x.flip(0)


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k times 90 degrees in the plane of two axes, from the first towards the second.

    >>> rot90(minitorch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    x = tensor_for(input, "rot90")
    if len(dims) != 2:
        raise RuntimeError(f"rot90: dims must be two axes, got {dims}")
    a, b = (one_axis(d, x.ndim, "rot90") for d in dims)
    if a == b or x.ndim < 2:
        raise RuntimeError(f"rot90: dims must be two different axes, got {dims} for shape {x.shape}")
    turns = one_int(k, "rot90", "k") % 4
    if turns == 2:
        return x.flip(a, b)
    if turns == 1:
        return x.flip(b).swapaxes(a, b)
    return x.flip(a).swapaxes(a, b) if turns else x.clone()


def diagflat(input: Any, offset: int = 0) -> Tensor:
    """A matrix with all elements along its diagonal.   dx = g's diagonal

    >>> diagflat(minitorch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return tensor_for(input, "diagflat").reshape(-1).diag_embed(offset)


def sum_to_size(input: Any, *size: Any) -> Tensor:
    """Summed over the axes along which `size` would be stretched to this shape.

    >>> sum_to_size(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, 2)
    tensor([[4., 6.]])
    """
    x = tensor_for(input, "sum_to_size")
    wanted = shape_of(size, name="sum_to_size") if size != ((),) else ()
    return unbroadcast(x, wanted) if wanted or x.ndim else x.sum()


def adjoint(input: Any) -> Tensor:
    """Each matrix transposed, and conjugated.   dx = g, likewise

    >>> adjoint(minitorch.tensor([[1.0, 2.0]])).shape
    (2, 1)
    """
    return tensor_for(input, "adjoint").mH


# --- indices ------------------------------------------------------------------------------------


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0: a row each, or a vector per axis with as_tuple=True.

    >>> nonzero(minitorch.tensor([0.0, 3.0, 0.0, 5.0]))
    tensor([[1],
            [3]])
    """
    x = tensor_for(input, "nonzero")
    places = np.nonzero(x._data.reshape(1) if not x.ndim else x._data)
    if as_tuple:
        return tuple(new_tensor(p) for p in places)
    if not x.ndim:
        return new_tensor(np.zeros((len(places[0]), 0), np.int64))
    return new_tensor(np.stack(places, axis=1))


def argwhere(input: Any) -> Tensor:
    """The indices of the elements that are not 0, a row each.

    >>> argwhere(minitorch.tensor([[0, 1], [1, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return nonzero(input)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and columns of a lower triangle's elements.

    >>> tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return new_tensor(np.stack(np.tril_indices(row, offset, col)).astype(dtype))


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and columns of an upper triangle's elements.

    >>> triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return new_tensor(np.stack(np.triu_indices(row, offset, col)).astype(dtype))


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The index per axis that numbers in a flattened tensor stand for.

    >>> unravel_index(minitorch.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    numbers = tensor_for(indices, "unravel_index")
    if numbers._data.dtype.kind not in "iu":
        raise ValueError(f"unravel_index: expects integers, got {numbers._data.dtype}")
    sizes = (
        (shape,) if isinstance(shape, int) else tuple(one_int(n, "unravel_index", "length") for n in shape)
    )
    found, block = [], math.prod(sizes)
    for size in sizes:
        block //= size
        found.append(numbers // block % size)
    return tuple(found)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that several broadcast to.

    >>> broadcast_shapes((3, 1), (5,))
    (3, 5)
    """
    return common_shape("broadcast_shapes", *((s,) if isinstance(s, int) else tuple(s) for s in shapes))


row_stack = vstack

__all__ = [
    "adjoint", "argwhere", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "cartesian_prod", "column_stack", "combinations", "diagflat", "dsplit", "dstack", "fliplr", "flipud", "hsplit",
    "hstack", "meshgrid", "nonzero", "rot90", "row_stack", "split_with_sizes", "sum_to_size", "tensor_split",
    "tril_indices", "triu_indices", "unravel_index", "vsplit", "vstack",
]  # fmt: skip
