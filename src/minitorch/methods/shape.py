"""Tensor's shape methods. Enters: tensors. Leaves: the same elements, arranged otherwise.

Views where NumPy can: reshape, transpose, permute, expand, basic getitem, diagonal, unfold share
memory with their source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.convert import as_tensor, cast, choose, one_axis, operand, promoted, shape_of
from minitorch.methods.elementwise import select
from minitorch.node import Node, apply, apply_many
from minitorch.ops import shape as ops

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Shapes(Node):
    """Reshaping, permuting, cutting, joining, repeating, padding, indexing."""

    __slots__ = ()

    # --- views ----------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one length may be -1.   dx = g, in the old shape

        >>> minitorch.zeros(20, 3, 5).reshape(20, -1).shape
        (20, 15)
        """
        return apply(ops.RESHAPE, self, shape=self._complete(shape_of(shape), "reshape"))

    def view(self, *shape: Any) -> Tensor:
        """The same elements in another shape, or (given a dtype) the same bytes read as another dtype.

        >>> minitorch.zeros(3, 5).view(15).shape
        (15,)
        """
        if len(shape) == 1 and (isinstance(shape[0], (np.dtype, type))):
            return as_tensor(self._data.view(np.dtype(shape[0])))
        return apply(ops.RESHAPE, self, shape=self._complete(shape_of(shape), "view"))

    def view_as(self, other: Tensor) -> Tensor:
        """The same elements in another tensor's shape.

        >>> minitorch.zeros(15).view_as(minitorch.zeros(3, 5)).shape
        (3, 5)
        """
        return self.view(other._data.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """The same elements in another tensor's shape.

        >>> minitorch.zeros(15).reshape_as(minitorch.zeros(3, 5)).shape
        (3, 5)
        """
        return self.reshape(other._data.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Axes start_dim to end_dim made one.   dx = g, in the old shape

        >>> minitorch.zeros(20, 3, 5).flatten(1).shape
        (20, 15)
        """
        sizes = self._data.shape
        first, last = (one_axis(a, len(sizes), "flatten") for a in (start_dim, end_dim))
        if first > last:
            raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
        merged = (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :])
        return apply(ops.RESHAPE, self, shape=merged)

    def ravel(self) -> Tensor:
        """All elements on one axis.

        >>> minitorch.zeros(3, 5).ravel().shape
        (15,)
        """
        return apply(ops.RESHAPE, self, shape=(-1,))

    def unflatten(
        self, axis: int | None = None, sizes: Sequence[int] = (), *, dim: int | None = None
    ) -> Tensor:
        """One axis split into several.   dx = g, in the old shape

        >>> minitorch.zeros(20, 15).unflatten(1, (3, 5)).shape
        (20, 3, 5)
        """
        at = self._axis(choose(axis, dim), "unflatten")
        whole = self._data.shape
        length = whole[at]
        sizes = tuple(sizes)
        known = math.prod(n for n in sizes if n != -1)
        if -1 in sizes and known and length % known == 0:
            sizes = tuple(length // known if n == -1 else n for n in sizes)
        if math.prod(sizes) != length:
            raise RuntimeError(f"unflatten: axis {at} of length {length} cannot be split into {sizes}")
        return apply(ops.RESHAPE, self, shape=(*whole[:at], *sizes, *whole[at + 1 :]))

    def transpose(self, *axes: Any) -> Tensor:
        """Permute the axes: reversed without arguments; two ints swap these two unless there are just two.

        dx = g, permuted back

        >>> minitorch.zeros(20, 3, 5).transpose(1, 2).shape     # swaps, as PyTorch
        (20, 5, 3)
        >>> minitorch.zeros(20, 3, 5).transpose(2, 0, 1).shape  # permutes
        (5, 20, 3)
        >>> minitorch.zeros(3, 5).transpose().shape
        (5, 3)
        """
        ndim = self._data.ndim
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = tuple(axes[0] or ())
        if not axes:
            return self.permute(*range(ndim)[::-1])
        if len(axes) == 2 and (ndim != 2 or {a % 2 for a in axes if -2 <= a < 2} != {0, 1}):
            return self.swapaxes(*axes)
        return self.permute(*axes)

    def permute(self, *dims: Any) -> Tensor:
        """The axes in another order.   dx = g, permuted back

        >>> minitorch.zeros(20, 3, 5).permute(2, 0, 1).shape
        (5, 20, 3)
        """
        order = shape_of(dims)
        ndim = self._data.ndim
        if len(order) != ndim:
            raise RuntimeError(f"permute: {order} names {len(order)} axes, but the tensor has {ndim}")
        checked = tuple(one_axis(a, ndim, "permute") for a in order)
        if len(set(checked)) != ndim:
            raise RuntimeError(f"permute: {order} names an axis twice")
        return apply(ops.PERMUTE, self, axes=checked)

    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        """Two axes exchanged.   dx = g, exchanged back

        >>> minitorch.zeros(20, 3, 5).swapaxes(0, -1).shape
        (5, 3, 20)
        """
        order = list(range(self._data.ndim))
        if order:
            a, b = (one_axis(axis, len(order), "swapaxes") for axis in (axis0, axis1))
            order[a], order[b] = order[b], order[a]
        return apply(ops.PERMUTE, self, axes=tuple(order))

    def swapdims(self, dim0: int, dim1: int) -> Tensor:
        """Another name of swapaxes.

        >>> minitorch.zeros(3, 5).swapdims(0, 1).shape
        (5, 3)
        """
        return self.swapaxes(dim0, dim1)

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Axes moved to other places, the rest staying in order.   dx = g, moved back

        >>> minitorch.zeros(20, 3, 5).movedim(0, -1).shape
        (3, 5, 20)
        """
        ndim = self._data.ndim
        sources = [source] if isinstance(source, int) else list(source)
        targets = [destination] if isinstance(destination, int) else list(destination)
        if len(sources) != len(targets):
            raise RuntimeError(f"movedim: {source} and {destination} name different numbers of axes")
        sources = [one_axis(a, ndim, "movedim") for a in sources]
        targets = [one_axis(a, ndim, "movedim") for a in targets]
        if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
            raise RuntimeError(f"movedim: an axis is named twice in {source} → {destination}")
        order = [a for a in range(ndim) if a not in sources]
        for target, axis in sorted(zip(targets, sources, strict=True)):
            order.insert(target, axis)
        return apply(ops.PERMUTE, self, axes=tuple(order) if ndim else ())

    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Another name of movedim.

        >>> minitorch.zeros(20, 3, 5).moveaxis(2, 0).shape
        (5, 20, 3)
        """
        return self.movedim(source, destination)

    def t(self) -> Tensor:
        """A matrix transposed; a vector as it is.

        >>> minitorch.zeros(3, 5).t().shape
        (5, 3)
        """
        if self._data.ndim > 2:
            raise RuntimeError(
                f"t: expects at most 2 axes, but the tensor has shape {self._data.shape}; write x.mT"
            )
        return self.permute(*range(self._data.ndim)[::-1])

    @property
    def T(self) -> Tensor:
        """The axes reversed: a matrix transposed."""
        return apply(ops.PERMUTE, self, axes=tuple(range(self._data.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged: every matrix of a batch transposed."""
        if self._data.ndim < 2:
            raise RuntimeError(f"mT: expects matrices, but the tensor has shape {self._data.shape}")
        return self.swapaxes(-1, -2)

    def squeeze(self, axis: Any = None, *, dim: Any = None) -> Tensor:
        """Without axes of length 1 (all of them, or those named that have length 1).   dx = g, in the old shape

        >>> minitorch.zeros(1, 3, 1).squeeze().shape
        (3,)
        >>> minitorch.zeros(1, 3, 1).squeeze(0).shape
        (3, 1)
        """
        axis = choose(axis, dim)
        sizes = self._data.shape
        if axis is None:
            drop = {i for i, n in enumerate(sizes) if n == 1}
        else:
            named = axis if isinstance(axis, (tuple, list)) else (axis,)
            drop = {a for a in (one_axis(a, len(sizes), "squeeze") for a in named) if sizes and sizes[a] == 1}
        return apply(ops.RESHAPE, self, shape=tuple(n for i, n in enumerate(sizes) if i not in drop))

    def unsqueeze(self, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """A new axis of length 1 at this place.   dx = g, in the old shape

        >>> minitorch.zeros(3, 5).unsqueeze(1).shape
        (3, 1, 5)
        """
        sizes = self._data.shape
        at = one_axis(choose(axis, dim), len(sizes) + 1, "unsqueeze")
        return apply(ops.RESHAPE, self, shape=(*sizes[:at], 1, *sizes[at:]))

    def broadcast_to(self, *shape: Any) -> Tensor:
        """Stretched to a larger shape, as a view.   dx = g, summed over what was stretched

        >>> minitorch.zeros(5).broadcast_to(3, 5).shape
        (3, 5)
        """
        return apply(ops.BROADCAST_TO, self, shape=shape_of(shape))

    def expand(self, *sizes: Any) -> Tensor:
        """Stretched to a larger shape, as a view; -1 keeps a length.   dx = g, summed over what was stretched

        >>> minitorch.zeros(3, 1).expand(-1, 5).shape
        (3, 5)
        """
        wanted = shape_of(sizes)
        have = self._data.shape
        extra = len(wanted) - len(have)
        if extra < 0 or any(n == -1 for n in wanted[:extra]):
            raise RuntimeError(f"expand: a tensor of shape {have} cannot be expanded to {wanted}")
        full = tuple(have[i - extra] if n == -1 else n for i, n in enumerate(wanted))
        return apply(ops.BROADCAST_TO, self, shape=full)

    def expand_as(self, other: Tensor) -> Tensor:
        """Stretched to another tensor's shape.

        >>> minitorch.zeros(5).expand_as(minitorch.zeros(3, 5)).shape
        (3, 5)
        """
        return self.expand(other._data.shape)

    def diagonal(
        self,
        offset: int = 0,
        dim1: int = 0,
        dim2: int = 1,
    ) -> Tensor:
        """The diagonal of two axes, as the last axis of a view.   dx = g on the diagonal, 0 elsewhere

        >>> minitorch.arange(9.0).reshape(3, 3).diagonal()
        tensor([0., 4., 8.])
        """
        first, second = (self._axis(a, "diagonal") for a in (dim1, dim2))
        return apply(ops.DIAGONAL, self, offset=offset, axis1=first, axis2=second)

    def diag(self, diagonal: int = 0) -> Tensor:
        """A matrix's diagonal, or a matrix with this vector as its diagonal.

        >>> minitorch.tensor([1.0, 2.0]).diag()
        tensor([[1., 0.],
                [0., 2.]])
        """
        if self._data.ndim == 1:
            return self.diag_embed(diagonal)
        if self._data.ndim != 2:
            raise RuntimeError(
                f"diag: expects a vector or a matrix, but the tensor has shape {self._data.shape}"
            )
        return self.diagonal(diagonal)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """The last axis laid along the diagonal of two new axes.   dx = g's diagonal

        >>> minitorch.ones(3, 2).diag_embed().shape
        (3, 2, 2)
        """
        ndim = self._data.ndim + 1
        first, second = (one_axis(a, ndim, "diag_embed") for a in (dim1, dim2))
        length = self._data.shape[-1] + abs(offset)
        sizes = list(self._data.shape[:-1])
        for axis in sorted((first, second)):
            sizes.insert(axis, length)
        return apply(ops.PUT_DIAGONAL, self, shape=tuple(sizes), offset=offset, axis1=first, axis2=second)

    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """All windows of `size` along an axis, `step` apart, as a view with the window last.

        dx = g, added up where windows overlap

        >>> minitorch.arange(5.0).unfold(0, 3, 1)
        tensor([[0., 1., 2.],
                [1., 2., 3.],
                [2., 3., 4.]])
        """
        axis = self._axis(dimension, "unfold")
        length = self._data.shape[axis] if self._data.ndim else 1
        if not 0 <= size <= length:
            raise RuntimeError(f"unfold: a window of {size} does not fit an axis of length {length}")
        if step < 1:
            raise RuntimeError(f"unfold: step must be at least 1, got {step}")
        return apply(
            ops.UNFOLD, self if self._data.ndim else self.reshape(1), axis=axis, size=size, step=step
        )

    # --- cutting --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        return apply(ops.GETITEM, self, key=index_key(key))

    def split(
        self, split_size: int | Sequence[int], axis: int | None = None, *, dim: int | None = None
    ) -> tuple[Tensor, ...]:
        """Pieces along `axis` (the first): of one size, the last shorter, or of the sizes listed.   dx: the pieces' g joined

        >>> [len(piece) for piece in minitorch.zeros(20, 5).split(8)]
        [8, 8, 4]
        """
        at = self._axis(0 if axis is None and dim is None else choose(axis, dim), "split")
        length = self._data.shape[at]
        if isinstance(split_size, int):
            if split_size <= 0:
                if split_size or length:
                    raise RuntimeError(f"split: split_size must be positive, got {split_size}")
                split_size = 1
            sizes = [min(split_size, length - i) for i in range(0, length, split_size)] or [0]
        else:
            sizes = [int(n) for n in split_size]
            if sum(sizes) != length or min(sizes, default=0) < 0:
                raise RuntimeError(f"split: sizes {sizes} do not add up to the axis' length {length}")
        return apply_many(ops.SPLIT, self, axis=at, cuts=np.cumsum(sizes)[:-1].tolist())

    def chunk(self, chunks: int, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, ...]:
        """At most this many pieces of equal size along `axis` (the first), the last shorter.

        >>> [len(piece) for piece in minitorch.zeros(20, 5).chunk(3)]
        [7, 7, 6]
        """
        if chunks < 1:
            raise RuntimeError(f"chunk: expects at least 1 chunk, got {chunks}")
        at = self._axis(0 if axis is None and dim is None else choose(axis, dim), "chunk")
        length = self._data.shape[at]
        size = -(-length // chunks)
        return self.split(size, at) if size else self.split([0] * chunks, at)

    def unbind(self, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, ...]:
        """The slices along `axis` (the first), one tensor each, as views.   dx: the slices' g stacked

        >>> [row.shape for row in minitorch.zeros(3, 5).unbind()]
        [(5,), (5,), (5,)]
        """
        at = self._axis(0 if axis is None and dim is None else choose(axis, dim), "unbind")
        if self._data.ndim == 0:
            raise RuntimeError("unbind: a 0-d tensor has no axis to take apart")
        return apply_many(ops.UNBIND, self, axis=at) if self._data.shape[at] else ()

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """`length` elements of an axis from `start` on, as a view.

        >>> minitorch.arange(5.0).narrow(0, 1, 3)
        tensor([1., 2., 3.])
        """
        axis = self._axis(dim, "narrow")
        size = self._data.shape[axis]
        begin = int(start) + size if int(start) < 0 else int(start)
        if not 0 <= begin <= size or length < 0 or begin + length > size:
            raise RuntimeError(
                f"narrow: {length} elements from {start} on do not fit an axis of length {size}"
            )
        return self[(slice(None),) * axis + (slice(begin, begin + length),)]

    def select(self, dim: int, index: int) -> Tensor:
        """One slice of an axis, as a view.

        >>> minitorch.arange(6.0).reshape(2, 3).select(1, -1)
        tensor([2., 5.])
        """
        axis = self._axis(dim, "select")
        return self[(slice(None),) * axis + (int(index),)]

    # --- repeating and moving -------------------------------------------------------------------

    def tile(self, *dims: Any) -> Tensor:
        """Copies side by side, axes counted from the right as NumPy does.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).tile(2)
        tensor([1., 2., 1., 2.])
        """
        times = shape_of(dims)
        times = (1,) * (self._data.ndim - len(times)) + times
        return apply(ops.TILE, self, times=times)

    def repeat(self, *repeats: Any) -> Tensor:
        """Copies side by side, one count per axis.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).repeat(3, 1).shape
        (3, 2)
        """
        times = shape_of(repeats)
        if len(times) < self._data.ndim:
            raise RuntimeError(
                f"repeat: {len(times)} counts for a tensor with {self._data.ndim} axes; give one per axis"
            )
        return apply(ops.TILE, self, times=times)

    def repeat_interleave(self, repeats: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """Each element (or slice of `axis`) this many times in a row.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).repeat_interleave(2)
        tensor([1., 1., 2., 2.])
        """
        axis = choose(axis, dim)
        x = self.reshape(-1) if axis is None else self
        at = 0 if axis is None else self._axis(axis, "repeat_interleave")
        length = x._data.shape[at]
        counts = operand(repeats)
        if isinstance(counts, Node):
            counts = counts._data.reshape(-1)
            if counts.size not in (1, length):
                raise RuntimeError(
                    f"repeat_interleave: {counts.size} counts for an axis of length {length}; give one, or one each"
                )
        places = np.repeat(np.arange(length, like=x._data), counts)
        return x[(slice(None),) * at + (places,)]

    def flip(self, *dims: Any) -> Tensor:
        """The order along these axes reversed.   dx = g, reversed back

        >>> minitorch.arange(4.0).flip(0)
        tensor([3., 2., 1., 0.])
        """
        axes = tuple(self._axis(a, "flip") for a in shape_of(dims))
        return apply(ops.FLIP, self, axis=axes if self._data.ndim else ())

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Elements moved along, those pushed out at the end coming in at the front.   dx = g, moved back

        >>> minitorch.arange(4.0).roll(1)
        tensor([3., 0., 1., 2.])
        """
        axes: Any
        moves = tuple(shifts) if isinstance(shifts, (tuple, list)) else int(shifts)
        if dims is None:
            axes = None
        elif isinstance(dims, (tuple, list)):
            axes = tuple(self._axis(a, "roll") for a in dims)
        else:
            axes = self._axis(dims, "roll")
        if isinstance(moves, tuple) != isinstance(axes, tuple) and not (
            axes is None and isinstance(moves, int)
        ):
            if isinstance(moves, tuple) and len(moves) == 1:
                moves = moves[0]
            elif isinstance(axes, tuple) and len(axes) == 1:
                axes = axes[0]
            else:
                raise RuntimeError(f"roll: shifts {shifts} and dims {dims} must have the same length")
        return apply(ops.ROLL, self, shifts=moves, axis=axes)

    def tril(self, diagonal: int = 0) -> Tensor:
        """The lower triangle, 0 above the diagonal.   dx = g's lower triangle

        >>> minitorch.ones(2, 2).tril()
        tensor([[1., 0.],
                [1., 1.]])
        """
        return apply(ops.TRIL, self, k=diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle, 0 below the diagonal.   dx = g's upper triangle

        >>> minitorch.ones(2, 2).triu(1)
        tensor([[0., 1.],
                [0., 0.]])
        """
        return apply(ops.TRIU, self, k=diagonal)

    # --- indexing by tensors --------------------------------------------------------------------

    def gather(self, axis: int | None = None, index: Any = None, *, dim: int | None = None) -> Tensor:
        """out[i][j] = x[index[i][j]][j] for axis 0, and so on.   dx: g added where it was taken from

        >>> logits = minitorch.arange(15.0).reshape(3, 5)
        >>> logits.gather(1, minitorch.tensor([[4], [0], [2]]))
        tensor([[ 4.],
                [ 5.],
                [12.]])
        """
        at, places = self._along(choose(axis, dim), index, "gather")
        return apply(ops.GATHER, self, places, axis=at)

    def take_along_dim(self, indices: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """Gather, with the other axes of x and `indices` broadcast; without an axis on the flattened tensor.

        >>> minitorch.tensor([[3.0, 1.0, 2.0]]).take_along_dim(minitorch.tensor([[2, 0]]), 1)
        tensor([[2., 3.]])
        """
        axis = choose(axis, dim)
        if axis is None:
            return self.reshape(-1).gather(0, as_tensor(indices).reshape(-1))
        at = self._axis(axis, "take_along_dim")
        places = as_tensor(indices)
        if places._data.ndim != self._data.ndim:
            raise RuntimeError(
                f"take_along_dim: x has {self._data.ndim} axes but indices have {places._data.ndim}; "
                "they must be as many"
            )
        others = np.broadcast_shapes(
            *((*s[:at], 1, *s[at + 1 :]) for s in (self._data.shape, places._data.shape))
        )
        mine = (*others[:at], self._data.shape[at], *others[at + 1 :])
        theirs = (*others[:at], places._data.shape[at], *others[at + 1 :])
        return self.broadcast_to(mine).gather(at, places.broadcast_to(theirs))

    def scatter(
        self,
        axis: int | None = None,
        index: Any = None,
        src: Any = None,
        *,
        dim: int | None = None,
        value: Any = None,
        reduce: str | None = None,
    ) -> Tensor:
        """x with out[index[i][j]][j] = src[i][j] for axis 0, and so on.

        dx = g where nothing was written, dsrc = g where it was written

        >>> minitorch.zeros(1, 4).scatter(1, minitorch.tensor([[2, 0]]), minitorch.tensor([[5.0, 7.0]]))
        tensor([[7., 0., 5., 0.]])
        """
        if reduce == "add":
            return self.scatter_add(choose(axis, dim), index, choose(src, value, "src and value"))
        if reduce is not None:
            raise RuntimeError(f"scatter: reduce must be None or 'add', got {reduce!r}")
        at, places = self._along(choose(axis, dim), index, "scatter")
        source = operand(choose(src, value, "src and value"))
        if isinstance(source, Node):
            source = cast(source, self._data.dtype)
        return apply(ops.SCATTER, self, places, source, axis=at)

    def scatter_add(
        self, axis: int | None = None, index: Any = None, src: Any = None, *, dim: int | None = None
    ) -> Tensor:
        """x with src[i][j] added at out[index[i][j]][j] for axis 0, and so on.   dx = g, dsrc: g where it was added

        >>> minitorch.zeros(3).scatter_add(0, minitorch.tensor([0, 0, 2]), minitorch.ones(3))
        tensor([2., 0., 1.])
        """
        at, places = self._along(choose(axis, dim), index, "scatter_add")
        source = operand(src)
        if isinstance(source, Node):
            source = cast(source, self._data.dtype)
        return apply(ops.SCATTER_ADD, self, places, source, axis=at)

    def index_select(self, axis: int | None = None, index: Any = None, *, dim: int | None = None) -> Tensor:
        """The slices of an axis that `index` names, in its order.   dx: g added where it was taken from

        >>> minitorch.arange(15.0).reshape(3, 5).index_select(0, minitorch.tensor([2, 0])).shape
        (2, 5)
        """
        at = self._axis(choose(axis, dim), "index_select")
        places = as_tensor(index)._data
        if places.ndim > 1:
            raise IndexError(f"index_select: index must be a vector, but has shape {places.shape}")
        if self._data.ndim == 0:
            return self.reshape(1)[places.reshape(-1)].reshape(())
        return self[(slice(None),) * at + (places.reshape(-1),)]

    def index_add(
        self,
        axis: int | None = None,
        index: Any = None,
        source: Any = None,
        *,
        dim: int | None = None,
        alpha: float = 1,
    ) -> Tensor:
        """x with α·source[i] added to the slice index[i] of an axis.   dx = g, dsource = α·(those slices of g)

        >>> minitorch.zeros(3).index_add(0, minitorch.tensor([0, 0]), minitorch.ones(2))
        tensor([2., 0., 0.])
        """
        at = self._axis(choose(axis, dim), "index_add")
        places = as_tensor(index)
        added = cast(as_tensor(source), self._data.dtype)
        return apply(ops.INDEX_ADD, self, places, added, axis=at, alpha=alpha)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """x with `value` where the mask holds.   dx = g where it does not, dvalue = Σ g where it does

        >>> minitorch.zeros(3).masked_fill(minitorch.tensor([False, True, False]), -float("inf"))
        tensor([0., -inf, 0.])
        """
        value = operand(value)
        if isinstance(value, Node):
            value = cast(value, self._data.dtype)
        elif self._data.dtype.kind in "iu":
            value = int(value)
        return select(mask, value, self)

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where the mask holds, on one axis.   dx = g there, 0 elsewhere

        >>> minitorch.arange(4.0).masked_select(minitorch.tensor([True, False, True, False]))
        tensor([0., 2.])
        """
        where = as_tensor(mask)
        if where._data.dtype.kind != "b":
            raise RuntimeError(
                f"masked_select: mask must be bool, got {where._data.dtype}; write mask.bool()"
            )
        sizes = np.broadcast_shapes(self._data.shape, where._data.shape)
        return self.broadcast_to(sizes)[where.broadcast_to(sizes)]

    # --- helpers --------------------------------------------------------------------------------

    def _axis(self, axis: Any, name: str) -> int:
        if axis is None:
            raise TypeError(f"{name}: missing argument: axis (or dim)")
        return one_axis(axis, self._data.ndim, name)

    def _complete(self, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
        size = self._data.size
        known = math.prod(n for n in shape if n != -1)
        unknown = shape.count(-1)
        if unknown == 1 and known and size % known == 0:
            return tuple(size // known if n == -1 else n for n in shape)
        if unknown or known != size or min(shape, default=0) < 0:
            raise RuntimeError(
                f"{name}: {size} elements of shape {self._data.shape} do not fit shape {shape}"
                + ("; only one length may be -1" if unknown > 1 else "")
            )
        return shape

    def _along(self, axis: Any, index: Any, name: str) -> tuple[int, Tensor]:
        at = self._axis(axis, name)
        places = as_tensor(index)
        if places._data.dtype.kind not in "iu":
            raise RuntimeError(
                f"{name}: index must hold integers, got {places._data.dtype}; write index.long()"
            )
        if places._data.ndim != self._data.ndim and places._data.ndim and self._data.ndim:
            raise RuntimeError(
                f"{name}: index must have as many axes as x: shapes {places._data.shape} and {self._data.shape}"
            )
        length = self._data.shape[at] if self._data.ndim else 1
        if type(places._data) is np.ndarray and places._data.size:
            low, high = int(places._data.min()), int(places._data.max())
            if low < 0 or high >= length:
                raise IndexError(
                    f"{name}: index {low if low < 0 else high} is out of range for axis {at} of length {length}"
                )
        return at, places


def index_key(key: Any) -> Any:
    """Return an index as arrays understand it: Tensors become arrays, lists become arrays."""
    if isinstance(key, tuple):
        return tuple(_index_part(part) for part in key)
    return _index_part(key)


def _index_part(part: Any) -> Any:
    if isinstance(part, Node):
        array = part._data
        if array.dtype.kind not in "biu":
            raise IndexError(f"getitem: tensors used as indices must hold ints or bools, got {array.dtype}")
        return array
    if isinstance(part, (list, np.ndarray)):
        array = as_tensor(part)._data
        return array.astype(np.int64) if array.size == 0 and array.dtype.kind == "f" else array
    return part


def cat(tensors: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Join tensors along an existing axis.   Each gets its piece of g

    >>> minitorch.cat([minitorch.zeros(3, 5), minitorch.ones(2, 5)]).shape
    (5, 5)
    """
    parts = _sequence(tensors, "cat")
    # PyTorch lets empty vectors stand anywhere in the list, whatever the others' shape.
    kept = [p for p in parts if p._data.shape != (0,)] or parts[:1]
    ndim = kept[0]._data.ndim
    at = one_axis(axis if dim is None else dim, ndim, "cat")
    if ndim == 0:
        raise RuntimeError("cat: 0-d tensors cannot be joined along an axis; write stack")
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
    return apply(ops.CAT, *promoted(*kept), axis=at, starts=tuple(starts))


def stack(tensors: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Join tensors of one shape along a new axis.   Each gets its slice of g

    >>> minitorch.stack([minitorch.zeros(5), minitorch.ones(5)]).shape
    (2, 5)
    """
    parts = _sequence(tensors, "stack")
    at = one_axis(axis if dim is None else dim, parts[0]._data.ndim + 1, "stack")
    for p in parts[1:]:
        if p._data.shape != parts[0]._data.shape:
            raise RuntimeError(
                f"stack: every tensor must have the same shape, got {parts[0]._data.shape} and {p._data.shape}"
            )
    return apply(ops.STACK, *promoted(*parts), axis=at)


def _sequence(tensors: Any, name: str) -> list[Any]:
    if isinstance(tensors, Node):
        raise TypeError(f"{name}: expects a list or tuple of tensors, got one Tensor; write {name}([x, y])")
    parts = [as_tensor(t) for t in tensors]
    if not parts:
        raise RuntimeError(f"{name}: expects a non-empty list of tensors")
    return parts
