"""Joining, cutting, padding. Enters: tensors, or one to cut. Leaves: one tensor, or its pieces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply, apply_many
from minitorch.ops import joining as ops
from minitorch.ops.shape import PAD
from minitorch.tensor.convert import (
    as_tensor,
    choose,
    common_shape,
    one_axis,
    one_int,
    promoted,
    shape_of,
    tensor_for,
)
from minitorch.tensor.methods.arguments import fill_of, required_axis, tensor_list
from minitorch.tensor.methods.public import function

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Cutting(Node):
    """Pieces of a tensor."""

    __slots__ = ()

    def split(
        self, split_size: int | Sequence[int], axis: int | None = None, *, dim: int | None = None
    ) -> tuple[Tensor, ...]:
        """Pieces along `axis` (the first): of one size, the last shorter, or of the sizes listed.

        dx: the pieces' g joined

        >>> [len(piece) for piece in minitorch.zeros(20, 5).split(8)]
        [8, 8, 4]
        """
        at = _cut(self, axis, dim, "split")
        length = self._data.shape[at]
        if isinstance(split_size, (tuple, list)):
            sizes = list(shape_of(split_size, name="split")) if split_size else []
            if sum(sizes) != length or min(sizes, default=0) < 0:
                raise RuntimeError(f"split: sizes {sizes} do not add up to the axis' length {length}")
            if not sizes:
                return ()
        else:
            step = one_int(split_size, "split", "split_size")
            if step < 0 or (length and not step):
                raise RuntimeError(f"split: split_size must be positive, got {step}")
            more = 0  # pieces before the last, counted one by one: a length may be one that varies
            while (more + 1) * step < length:
                more += 1
            sizes = [step] * more + [length - more * step]
        return apply_many(ops.SPLIT, self, axis=at, cuts=list(itertools.accumulate(sizes))[:-1])

    def chunk(self, chunks: int, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, ...]:
        """At most this many pieces of equal size along `axis` (the first), the last shorter.

        >>> [len(piece) for piece in minitorch.zeros(20, 5).chunk(3)]
        [7, 7, 6]
        """
        at = _cut(self, axis, dim, "chunk")
        if one_int(chunks, "chunk", "chunks") < 1:
            raise RuntimeError(f"chunk: expects at least 1 chunk, got {chunks}")
        length = self._data.shape[at]
        size = -(-length // chunks)
        return self.split(size, at) if size else self.split([0] * chunks, at)

    def unbind(self, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, ...]:
        """The slices along `axis` (the first), one tensor each, as views.   dx: the slices' g stacked

        >>> [row.shape for row in minitorch.zeros(3, 5).unbind()]
        [(5,), (5,), (5,)]
        """
        at = required_axis(self, 0 if axis is None and dim is None else choose(axis, dim), "unbind")
        if self._array.ndim == 0:
            raise IndexError("unbind: a 0-d tensor has no axis to take apart")
        return apply_many(ops.UNBIND, self, axis=at) if self._data.shape[at] else ()

    def narrow(self: Any, dim: int, start: int, length: int) -> Tensor:
        """`length` elements of an axis from `start` on, as a view.

        >>> minitorch.arange(5.0).narrow(0, 1, 3)
        tensor([1., 2., 3.])
        """
        axis = _cut(self, dim, None, "narrow")
        size = self._data.shape[axis]
        begin, length = one_int(start, "narrow", "start"), one_int(length, "narrow", "length")
        if not -size <= begin <= size:
            raise IndexError(f"narrow: start {begin} is out of range for an axis of length {size}")
        begin = begin + size if begin < 0 else begin
        if length < 0 or begin + length > size:
            raise RuntimeError(
                f"narrow: {length} elements from {start} on do not fit an axis of length {size}"
            )
        return self[(slice(None),) * axis + (slice(begin, begin + length),)]

    def select(self: Any, dim: int, index: int) -> Tensor:
        """One slice of an axis, as a view.

        >>> minitorch.arange(6.0).reshape(2, 3).select(1, -1)
        tensor([2., 5.])
        """
        axis = required_axis(self, dim, "select")
        return self[(slice(None),) * axis + (one_int(index, "select", "index"),)]

    def tensor_split(
        self: Any, indices_or_sections: Any, dim: int = 0, **sections: Any
    ) -> tuple[Tensor, ...]:
        """Cut along an axis into so many nearly equal pieces, or before each index listed.   dx: the pieces' g joined

        >>> [piece.tolist() for piece in tensor_split(minitorch.tensor([1, 2, 3, 4, 5]), 2)]
        [[1, 2, 3], [4, 5]]
        """
        if not self.ndim:
            raise RuntimeError("tensor_split: a 0-d tensor has no axis to cut; write x.reshape(1)")
        at = one_axis(dim, self.ndim, "tensor_split")
        length = self.shape[at]
        given = indices_or_sections
        if isinstance(given, Node):
            given = given.tolist()  # type: ignore[attr-defined]
        if isinstance(given, int):
            if given < 1:
                raise RuntimeError(f"tensor_split: expects at least 1 section, got {given}")
            return self.split([(length + given - 1 - i) // given for i in range(given)], at)
        cuts = [slice(None, n).indices(length)[1] for n in given]
        bounds = zip([0, *cuts], [*cuts, length], strict=True)
        return tuple(self[(slice(None),) * at + (slice(a, max(a, b)),)] for a, b in bounds)

    def split_with_sizes(self: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Cut along an axis into pieces of the sizes listed.   dx: the pieces' g joined

        >>> [len(piece) for piece in split_with_sizes(minitorch.tensor([1, 2, 3]), [1, 2])]
        [1, 2]
        """
        return self.split(list(split_sizes), dim)

    def hsplit(self: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """Cut into pieces side by side: along the second axis, a vector along its only one.

        >>> [piece.shape for piece in hsplit(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), 2)]
        [(2, 1), (2, 1)]
        """
        return _even(self, indices_or_sections, 0 if self.ndim == 1 else 1, 1, "hsplit")

    def vsplit(self: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """Cut into pieces on top of each other: along the first axis.

        >>> [piece.shape for piece in vsplit(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), 2)]
        [(1, 2), (1, 2)]
        """
        return _even(self, indices_or_sections, 0, 2, "vsplit")

    def dsplit(self: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """Cut into pieces behind each other: along the third axis.

        >>> [piece.shape for piece in dsplit(minitorch.tensor([[[1.0, 2.0]]]), 2)]
        [(1, 1, 1), (1, 1, 1)]
        """
        return _even(self, indices_or_sections, 2, 3, "dsplit")


# --- joining -------------------------------------------------------------------------------------


def cat(tensors: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Join tensors along an existing axis.   Each gets its piece of g

    >>> minitorch.cat([minitorch.zeros(3, 5), minitorch.ones(2, 5)]).shape
    (5, 5)
    """
    parts = promoted(*tensor_list(tensors, "cat", ValueError))
    # PyTorch lets empty vectors stand anywhere in the list, whatever the others' shape.
    kept = [p for p in parts if p._data.shape != (0,)] or parts[:1]
    ndim = kept[0]._array.ndim
    if ndim == 0:
        raise RuntimeError("cat: 0-d tensors cannot be joined along an axis; write stack")
    at = one_axis(axis if dim is None else dim, ndim, "cat")
    reference = kept[0]._data.shape
    for p in kept[1:]:
        sizes = p._data.shape
        if len(sizes) != ndim or any(
            a != b for i, (a, b) in enumerate(zip(sizes, reference, strict=True)) if i != at
        ):
            raise RuntimeError(
                f"cat: shapes {reference} and {sizes} must agree on all axes but axis {at}; to join along a "
                "new axis write stack"
            )
    starts = [0]
    for p in kept:
        starts.append(starts[-1] + p._data.shape[at])
    return apply(ops.CAT, *kept, axis=at, starts=tuple(starts))


def stack(tensors: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Join tensors of one shape along a new axis.   Each gets its slice of g

    >>> minitorch.stack([minitorch.zeros(5), minitorch.ones(5)]).shape
    (2, 5)
    """
    parts = tensor_list(tensors, "stack", RuntimeError)
    at = one_axis(axis if dim is None else dim, parts[0]._array.ndim + 1, "stack")
    for p in parts[1:]:
        if p._data.shape != parts[0]._data.shape:
            raise RuntimeError(
                f"stack: every tensor must have the same shape, got {parts[0]._data.shape} and {p._data.shape}"
            )
    return apply(ops.STACK, *promoted(*parts), axis=at)


def hstack(tensors: Sequence[Any]) -> Tensor:
    """Side by side: along the second axis, vectors along their only one.

    >>> hstack([minitorch.tensor([1.0]), minitorch.tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """
    parts = atleast_1d(*tensor_list(tensors, "hstack", RuntimeError))
    parts = parts if isinstance(parts, tuple) else (parts,)
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Tensor:
    """On top of each other: along the first axis, vectors as rows.

    >>> vstack([minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0])]).shape
    (2, 2)
    """
    return cat([atleast_2d(t) for t in tensor_list(tensors, "vstack", RuntimeError)], 0)


def dstack(tensors: Sequence[Any]) -> Tensor:
    """Behind each other: along the third axis.

    >>> dstack([minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0])]).shape
    (1, 2, 2)
    """
    return cat([atleast_3d(t) for t in tensor_list(tensors, "dstack", RuntimeError)], 2)


def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Side by side, vectors as columns.

    >>> column_stack([minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0])])
    tensor([[1., 3.],
            [2., 4.]])
    """
    parts = tensor_list(tensors, "column_stack", RuntimeError)
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
        value = False if block._array.dtype.kind == "b" else 0
        rows.append(apply(PAD, block, widths=((0, 0), (before, after)), value=value))
        before += block.shape[1]
    return cat(rows, 0)


# --- cutting -------------------------------------------------------------------------------------


def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Cut along an axis into pieces of one size, the last shorter, or of the sizes listed.   See Tensor.split

    >>> [len(piece) for piece in split(as_tensor([1.0, 2.0, 3.0]), 2)]
    [2, 1]
    """
    return as_tensor(tensor).split(split_size_or_sections, dim)


def _cut(x: Any, axis: Any, dim: Any, name: str) -> int:
    """Return the axis to cut, the first unless named."""
    if not x._array.ndim:
        raise RuntimeError(f"{name}: a 0-d tensor has no axis to cut; write x.reshape(1)")
    return required_axis(x, 0 if axis is None and dim is None else choose(axis, dim), name)


def _even(x: Tensor, sections: Any, axis: int, ndim: int, name: str) -> tuple[Tensor, ...]:
    if x.ndim < ndim:
        raise RuntimeError(f"{name}: expects at least {ndim} axes, got shape {x.shape}")
    if isinstance(sections, int) and (not sections or x.shape[axis] % sections):
        raise RuntimeError(
            f"{name}: axis {axis} of shape {x.shape} cannot be cut into {sections} equal parts"
        )
    return tensor_split(x, sections, axis)


# --- padding -------------------------------------------------------------------------------------


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add to both ends of the last axes: pad = (left, right, top, bottom, …), the last axis first.

    mode: 'constant', 'reflect', 'replicate' or 'circular'; negative widths cut off.
    dx = g without the border; for the other modes g added where the border was copied from

    >>> pad(as_tensor([1.0, 2.0]), (1, 2))
    tensor([0., 1., 2., 0., 0.])
    >>> pad(as_tensor([[1.0, 2.0, 3.0]]), (1, 1), mode="reflect")
    tensor([[2., 1., 2., 3., 2.]])
    """
    x = as_tensor(input)
    widths = shape_of(pad if isinstance(pad, (tuple, list)) else (pad,), name="pad") if pad != () else ()
    if len(widths) % 2 or len(widths) // 2 > x.ndim:
        raise RuntimeError(f"pad: {tuple(pad)} must be pairs, at most one for each of the {x.ndim} axes")
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    if any(min(n + a, n + b, n + a + b) < 0 for (a, b), n in zip(pairs, x.shape, strict=True)):
        raise RuntimeError(
            f"pad: cutting {tuple(pad)} off a tensor of shape {x.shape} leaves a negative length"
        )
    if mode == "constant":
        fill = fill_of(0 if value is None else value, x.dtype, "pad")
        return apply(PAD, x, widths=tuple(pairs), value=fill)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}"
        )
    if value:
        raise RuntimeError(f"pad: mode {mode!r} copies what is there and takes no value, got {value!r}")
    # The border is made of elements that are there: an index along each axis.
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = x[(slice(None),) * axis + (_border(x, axis, before, after, mode),)]
    return x


def _border(x: Tensor, axis: int, before: int, after: int, mode: str) -> Any:
    """Return where each element of a padded axis comes from."""
    length = x.shape[axis]
    if length == 0:
        raise RuntimeError(f"pad: nothing to copy to the border: axis {axis} of shape {x.shape} is empty")
    if max(before, after) > {"reflect": length - 1, "circular": length}.get(mode, math.inf):
        raise RuntimeError(
            f"pad: {mode} padding of {before} and {after} is too wide for an axis of length {length}"
        )
    places = np.arange(-before, length + after, like=x._data)
    if mode == "replicate":
        return np.clip(places, 0, length - 1)
    if mode == "reflect":
        folded = np.absolute(places)
        return np.where(folded >= length, 2 * (length - 1) - folded, folded)
    # Round and round, in what a negative width leaves.
    first = max(-before, 0)
    return first + (places - first) % (length - first + min(after, 0))


# --- at least so many axes, common shapes --------------------------------------------------------


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


def _at_least(tensors: tuple[Any, ...], name: str, shape_for: Any) -> Any:
    made = [t.reshape(shape_for(t.shape)) for t in _given(tensors, name)]
    return made[0] if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)) else tuple(made)


def _given(tensors: tuple[Any, ...], name: str) -> list[Tensor]:
    """Return tensors given one by one or as a list."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    return [tensor_for(t, name) for t in tensors]


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Stretch tensors to their common shape, as views.

    >>> [t.shape for t in broadcast_tensors(as_tensor([1.0]), as_tensor([[1.0], [2.0]]))]
    [(2, 1), (2, 1)]
    """
    parts = [as_tensor(t) for t in tensors]
    shape = common_shape("broadcast_tensors", *(t.shape for t in parts))
    return tuple(t.broadcast_to(shape) for t in parts)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that several broadcast to.

    >>> broadcast_shapes((3, 1), (5,))
    (3, 5)
    """
    return common_shape("broadcast_shapes", *((s,) if isinstance(s, int) else tuple(s) for s in shapes))


# --- grids and choices ---------------------------------------------------------------------------


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
    return x[new_tensor(places).to(x.device)]


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

chunk = function(Cutting.chunk)
unbind = function(Cutting.unbind)
narrow = function(Cutting.narrow)
select = function(Cutting.select)
tensor_split = function(Cutting.tensor_split)
split_with_sizes = function(Cutting.split_with_sizes)
hsplit = function(Cutting.hsplit)
vsplit = function(Cutting.vsplit)
dsplit = function(Cutting.dsplit)

concat = concatenate = cat
row_stack = vstack
__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cat", "chunk", "column_stack", "combinations", "concat", "concatenate", "dsplit",
    "dstack", "hsplit", "hstack", "meshgrid", "narrow", "pad", "row_stack", "select", "split",
    "split_with_sizes", "stack", "tensor_split", "unbind", "vsplit", "vstack",
]  # fmt: skip
