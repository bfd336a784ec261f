"""Tensor's shape methods. Enters: tensors. Leaves: the same elements, arranged otherwise.

Views where NumPy can: reshape, transpose, permute, expand, basic getitem, diagonal, unfold share
memory with their source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine import watch
from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node
from minitorch.engine.record import apply, apply_many
from minitorch.ops import shape as ops
from minitorch.ops.op import violated
from minitorch.tensor.convert import (
    as_tensor,
    cast,
    choose,
    common_shape,
    is_array,
    one_axis,
    one_int,
    operand,
    promoted,
    shape_of,
)
from minitorch.tensor.methods.elementwise import check_mask, fill_of, select

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Shapes(Node):
    """Reshaping, permuting, cutting, joining, repeating, padding, indexing."""

    __slots__ = ()

    # --- views ----------------------------------------------------------------------------------

    def reshape(self, *sizes: Any, shape: Any = None) -> Tensor:
        """The same elements in another shape; one length may be -1.   dx = g, in the old shape

        >>> minitorch.zeros(20, 3, 5).reshape(20, -1).shape
        (20, 15)
        """
        wanted = shape_of(sizes, shape, "reshape")
        if math.prod(wanted) != self._data.size or -1 in wanted:
            wanted = self._complete(wanted, "reshape")
        return apply_unary(ops.RESHAPE, self, {"shape": wanted})

    def view(self, *shape: Any, size: Any = None) -> Tensor:
        """The same elements in another shape, or (given a dtype) the same bytes read as another dtype.

        >>> minitorch.zeros(3, 5).view(15).shape
        (15,)
        """
        if len(shape) == 1 and (isinstance(shape[0], (np.dtype, type))):
            try:
                return as_tensor(self._data.view(np.dtype(shape[0])))
            except ValueError as error:
                raise RuntimeError(
                    f"view: {self._data.shape} {self._data.dtype} cannot be read as {np.dtype(shape[0])}: {error}"
                ) from None
        out = apply_unary(ops.RESHAPE, self, {"shape": self._complete(shape_of(shape, size, "view"), "view")})
        scattered = type(self._data) is np.ndarray and not self._data.flags.c_contiguous and self._data.size
        if scattered and not np.may_share_memory(self._data, out._data):
            # PyTorch lays out most results in the order of their axes, NumPy like their inputs: as long as nobody
            # else looks at this memory it may be laid out anew.
            if hasattr(self, "_view") or hasattr(self, "_viewed") or watch.is_exposed(self):
                raise RuntimeError(
                    f"view: the elements of shape {self._data.shape} lie too scattered to be seen as shape "
                    f"{out._data.shape}; write x.reshape(…), which copies them"
                )
            laid_out = np.ascontiguousarray(self._data)
            watch.moved(self._data, laid_out)
            self._data = laid_out
            out = apply_unary(ops.RESHAPE, self, {"shape": out._data.shape})
        return out

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
        if sizes and first == last:
            return as_tensor(self)  # itself, as in PyTorch
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
        sizes = shape_of(sizes, name="unflatten") if isinstance(sizes, (tuple, list)) and sizes else sizes
        if not isinstance(sizes, tuple):
            raise TypeError(f"unflatten: sizes must be a tuple of ints, got {sizes!r}")
        if not whole or not sizes:
            raise RuntimeError(f"unflatten: no axis of shape {whole} can be split into {sizes}")
        length = whole[at]
        known = math.prod(n for n in sizes if n != -1)
        if sizes.count(-1) == 1 and known and length % known == 0:
            sizes = tuple(length // known if n == -1 else n for n in sizes)
        if math.prod(sizes) != length or min(sizes) < 0:
            raise RuntimeError(f"unflatten: axis {at} of length {length} cannot be split into {sizes}")
        return apply(ops.RESHAPE, self, shape=(*whole[:at], *sizes, *whole[at + 1 :]))

    def transpose(self, *axes: Any, dim0: int | None = None, dim1: int | None = None) -> Tensor:
        """Two ints swap these two axes; more permute them all; without arguments they are reversed.

        dx = g, permuted back

        >>> minitorch.zeros(20, 3, 5).transpose(1, 2).shape     # swaps, as PyTorch
        (20, 5, 3)
        >>> minitorch.zeros(3, 5).transpose(0, 1).shape
        (5, 3)
        >>> minitorch.zeros(20, 3, 5).transpose(2, 0, 1).shape  # permutes
        (5, 20, 3)
        >>> minitorch.zeros(3, 5).transpose().shape
        (5, 3)
        """
        if dim0 is not None or dim1 is not None:
            axes = (*axes, *(d for d in (dim0, dim1) if d is not None))
            if len(axes) != 2:
                raise TypeError(f"transpose: dim0 and dim1 are two axes to swap, got {axes}")
            return self._swapped(*axes, "transpose")
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            return (
                self.permute(tuple(axes[0])) if axes[0] else self.T
            )  # NumPy's spelling: an order of the axes
        if not axes:
            return self.T
        if len(axes) == 2:
            return self._swapped(*axes, "transpose")
        return self.permute(axes)

    def permute(self, *axes: Any, dims: Any = None) -> Tensor:
        """The axes in another order.   dx = g, permuted back

        >>> minitorch.zeros(20, 3, 5).permute(2, 0, 1).shape
        (5, 20, 3)
        """
        order = shape_of(axes, dims, "permute")
        ndim = self._data.ndim
        if len(order) != ndim:
            raise RuntimeError(f"permute: {order} names {len(order)} axes, but the tensor has {ndim}")
        checked = tuple(one_axis(a, ndim, "permute") for a in order)
        if len(set(checked)) != ndim:
            raise RuntimeError(f"permute: {order} names an axis twice")
        return apply_unary(ops.PERMUTE, self, {"axes": checked})

    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        """Two axes exchanged.   dx = g, exchanged back

        >>> minitorch.zeros(20, 3, 5).swapaxes(0, -1).shape
        (5, 3, 20)
        """
        return self._swapped(axis0, axis1, "swapaxes")

    def swapdims(self, dim0: int, dim1: int) -> Tensor:
        """Another name of swapaxes.

        >>> minitorch.zeros(3, 5).swapdims(0, 1).shape
        (5, 3)
        """
        return self._swapped(dim0, dim1, "swapdims")

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Axes moved to other places, the rest staying in order.   dx = g, moved back

        >>> minitorch.zeros(20, 3, 5).movedim(0, -1).shape
        (3, 5, 20)
        """
        ndim = self._data.ndim
        if isinstance(source, int) != isinstance(destination, int):
            raise TypeError(
                f"movedim: {source!r} and {destination!r} must be two ints, or two tuples of ints"
            )
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
        return apply_unary(ops.PERMUTE, self, {"axes": tuple(order) if ndim else ()})

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
        return self.T

    @property
    def T(self) -> Tensor:
        """The axes reversed: a matrix transposed."""
        return apply_unary(ops.PERMUTE, self, {"axes": tuple(range(self._data.ndim))[::-1]})

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
            checked = [one_axis(a, len(sizes), "squeeze") for a in named]
            if len(set(checked)) != len(checked):
                raise RuntimeError(f"squeeze: axis {axis!r} names an axis twice")
            drop = {a for a in checked if sizes and sizes[a] == 1}
        return apply(ops.RESHAPE, self, shape=tuple(n for i, n in enumerate(sizes) if i not in drop))

    def unsqueeze(self, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """A new axis of length 1 at this place.   dx = g, in the old shape

        >>> minitorch.zeros(3, 5).unsqueeze(1).shape
        (3, 1, 5)
        """
        sizes = self._data.shape
        at = one_axis(choose(axis, dim), len(sizes) + 1, "unsqueeze")
        return apply(ops.RESHAPE, self, shape=(*sizes[:at], 1, *sizes[at:]))

    def broadcast_to(self, *shape: Any, size: Any = None) -> Tensor:
        """Stretched to a larger shape, as a view.   dx = g, summed over what was stretched

        >>> minitorch.zeros(5).broadcast_to(3, 5).shape
        (3, 5)
        """
        return apply(ops.BROADCAST_TO, self, shape=shape_of(shape, size, "broadcast_to"))

    def expand(self, *sizes: Any, size: Any = None) -> Tensor:
        """Stretched to a larger shape, as a view; -1 keeps a length.   dx = g, summed over what was stretched

        >>> minitorch.zeros(3, 1).expand(-1, 5).shape
        (3, 5)
        """
        wanted = shape_of(sizes, size, "expand")
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
        offset = one_int(offset, "diagonal", "offset")
        first, second = (self._axis(a, "diagonal") for a in (dim1, dim2))
        return apply(ops.DIAGONAL, self, offset=offset, axis1=first, axis2=second)

    def diag(self, diagonal: int = 0) -> Tensor:
        """A matrix's diagonal, or a matrix with this vector as its diagonal.

        >>> minitorch.tensor([1.0, 2.0]).diag()
        tensor([[1., 0.],
                [0., 2.]])
        """
        diagonal = one_int(diagonal, "diag", "diagonal")
        if self._data.ndim == 1:
            return self.diag_embed(diagonal)
        if self._data.ndim != 2:
            raise RuntimeError(
                f"diag: expects a vector or a matrix, but the tensor has shape {self._data.shape}"
            )
        return self.diagonal(diagonal).clone()

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """The last axis laid along the diagonal of two new axes.   dx = g's diagonal

        >>> minitorch.ones(3, 2).diag_embed().shape
        (3, 2, 2)
        """
        ndim = self._data.ndim + 1
        offset = one_int(offset, "diag_embed", "offset")
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
        size, step = one_int(size, "unfold", "size"), one_int(step, "unfold", "step")
        length = self._data.shape[axis] if self._data.ndim else 1
        if not 0 <= size <= length:
            raise RuntimeError(f"unfold: a window of {size} does not fit an axis of length {length}")
        if step < 1:
            raise RuntimeError(f"unfold: step must be at least 1, got {step}")
        if not self._data.ndim:  # one window, and no axis to count it
            return self.reshape(1).unfold(0, size, step)[0]
        return apply(ops.UNFOLD, self, axis=axis, size=size, step=step)

    # --- cutting --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        return apply_unary(ops.GETITEM, self, {"key": key if key.__class__ in _BASIC else index_key(key)})

    def split(
        self, split_size: int | Sequence[int], axis: int | None = None, *, dim: int | None = None
    ) -> tuple[Tensor, ...]:
        """Pieces along `axis` (the first): of one size, the last shorter, or of the sizes listed.

        dx: the pieces' g joined

        >>> [len(piece) for piece in minitorch.zeros(20, 5).split(8)]
        [8, 8, 4]
        """
        at = self._cut(axis, dim, "split")
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
            sizes = [min(step, length - i) for i in range(0, length, step or 1)] or [0]
        return apply_many(ops.SPLIT, self, axis=at, cuts=np.cumsum(sizes)[:-1].tolist())

    def chunk(self, chunks: int, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, ...]:
        """At most this many pieces of equal size along `axis` (the first), the last shorter.

        >>> [len(piece) for piece in minitorch.zeros(20, 5).chunk(3)]
        [7, 7, 6]
        """
        at = self._cut(axis, dim, "chunk")
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
        at = self._axis(0 if axis is None and dim is None else choose(axis, dim), "unbind")
        if self._data.ndim == 0:
            raise IndexError("unbind: a 0-d tensor has no axis to take apart")
        return apply_many(ops.UNBIND, self, axis=at) if self._data.shape[at] else ()

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """`length` elements of an axis from `start` on, as a view.

        >>> minitorch.arange(5.0).narrow(0, 1, 3)
        tensor([1., 2., 3.])
        """
        axis = self._cut(dim, None, "narrow")
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

    def select(self, dim: int, index: int) -> Tensor:
        """One slice of an axis, as a view.

        >>> minitorch.arange(6.0).reshape(2, 3).select(1, -1)
        tensor([2., 5.])
        """
        axis = self._axis(dim, "select")
        return self[(slice(None),) * axis + (one_int(index, "select", "index"),)]

    # --- repeating and moving -------------------------------------------------------------------

    def tile(self, *times: Any, dims: Any = None) -> Tensor:
        """Copies side by side, axes counted from the right as NumPy does.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).tile(2)
        tensor([1., 2., 1., 2.])
        """
        return self._tiled(shape_of(times, dims, "tile"), "tile")

    def repeat(self, *times: Any, repeats: Any = None) -> Tensor:
        """Copies side by side, one count per axis.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).repeat(3, 1).shape
        (3, 2)
        """
        times = shape_of(times, repeats, "repeat")
        if len(times) < self._data.ndim:
            raise RuntimeError(
                f"repeat: {len(times)} counts for a tensor with {self._data.ndim} axes; give one per axis"
            )
        return self._tiled(times, "repeat")

    def repeat_interleave(
        self,
        repeats: Any,
        axis: int | None = None,
        *,
        dim: int | None = None,
        output_size: int | None = None,
    ) -> Tensor:
        """Each element (or slice of `axis`) this many times in a row.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).repeat_interleave(2)
        tensor([1., 1., 2., 2.])
        """
        axis = choose(axis, dim)
        x = self.reshape(-1) if axis is None else self
        at = 0 if axis is None else self._axis(axis, "repeat_interleave")
        length = x._data.shape[at] if x._data.ndim else 1
        counts = operand(repeats, "repeat_interleave")
        if isinstance(counts, Node):
            counts = _counts(counts._data, length)
        elif one_int(counts, "repeat_interleave", "repeats") < 0:
            raise RuntimeError(f"repeat_interleave: repeats must not be negative, got {counts}")
        places = np.repeat(np.arange(length, like=x._data), counts)
        if output_size is not None and output_size != len(places):
            raise RuntimeError(f"repeat_interleave: output_size is {output_size}, but {len(places)} come out")
        return x[(slice(None),) * at + (places,)]

    def flip(self, *axes: Any, dims: Any = None) -> Tensor:
        """The order along these axes reversed.   dx = g, reversed back

        >>> minitorch.arange(4.0).flip(0)
        tensor([3., 2., 1., 0.])
        """
        named = tuple(self._axis(a, "flip") for a in shape_of(axes, dims, "flip"))
        if len(set(named)) != len(named):
            raise RuntimeError(f"flip: {named} names an axis twice")
        return apply(ops.FLIP, self, axis=named if self._data.ndim else ())

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Elements moved along, those pushed out at the end coming in at the front.   dx = g, moved back

        >>> minitorch.arange(4.0).roll(1)
        tensor([3., 0., 1., 2.])
        """
        if isinstance(shifts, (tuple, list)) and not shifts:
            raise RuntimeError("roll: shifts is empty; write by how much to move")
        moves = shape_of(shifts if isinstance(shifts, (tuple, list)) else (shifts,), name="roll")
        axes = () if dims is None else dims if isinstance(dims, (tuple, list)) else (dims,)
        if len(moves) != len(axes or (None,)):
            raise RuntimeError(f"roll: shifts {shifts} and dims {dims} must have the same length")
        if not axes:  # all elements, as if on one axis
            return apply(ops.ROLL, self, shifts=moves[0], axis=None)
        return apply(ops.ROLL, self, shifts=moves, axis=tuple(self._axis(a, "roll") for a in axes))

    def tril(self, diagonal: int = 0) -> Tensor:
        """The lower triangle, 0 above the diagonal.   dx = g's lower triangle

        >>> minitorch.ones(2, 2).tril()
        tensor([[1., 0.],
                [1., 1.]])
        """
        return self._triangle(ops.TRIL, diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle, 0 below the diagonal.   dx = g's upper triangle

        >>> minitorch.ones(2, 2).triu(1)
        tensor([[0., 1.],
                [0., 0.]])
        """
        return self._triangle(ops.TRIU, diagonal)

    # --- indexing by tensors --------------------------------------------------------------------

    def gather(
        self, axis: int | None = None, index: Any = None, *, dim: int | None = None, sparse_grad: bool = False
    ) -> Tensor:
        """out[i][j] = x[index[i][j]][j] for axis 0, and so on.   dx: g added where it was taken from

        >>> logits = minitorch.arange(15.0).reshape(3, 5)
        >>> logits.gather(1, minitorch.tensor([[4], [0], [2]]))
        tensor([[ 4.],
                [ 5.],
                [12.]])
        """
        at, places = self._along(choose(axis, dim), index, "gather")
        if places._data.ndim != self._data.ndim and not places._data.size:
            return self.reshape(-1)[:0].reshape(places._data.shape)
        return apply(ops.GATHER, self, places, axis=at)

    def take_along_dim(self, indices: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """Gather, with the other axes of x and `indices` broadcast; without an axis on the flattened tensor.

        >>> minitorch.tensor([[3.0, 1.0, 2.0]]).take_along_dim(minitorch.tensor([[2, 0]]), 1)
        tensor([[2., 3.]])
        """
        axis = choose(axis, dim)
        places = _places(indices, "take_along_dim")
        if axis is None:
            return self.reshape(-1).gather(0, places.reshape(-1))
        if places._data.ndim != self._data.ndim:
            raise RuntimeError(
                f"take_along_dim: x has {self._data.ndim} axes but indices have {places._data.ndim}; "
                "they must be as many"
            )
        at = self._axis(axis, "take_along_dim")
        if not self._data.ndim:
            return self.gather(at, places)
        length, count = self._data.shape[at], places._data.shape[at]
        others = common_shape(
            "take_along_dim", *((*s[:at], 1, *s[at + 1 :]) for s in (self._data.shape, places._data.shape))
        )
        places = select(places < 0, places + length, places)  # counted from the end, as in an index
        return self.broadcast_to((*others[:at], length, *others[at + 1 :])).gather(
            at, places.broadcast_to((*others[:at], count, *others[at + 1 :]))
        )

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
        if reduce not in (None, "add"):
            raise RuntimeError(f"scatter: reduce must be None or 'add', got {reduce!r}")
        op = ops.SCATTER if reduce is None else ops.SCATTER_ADD
        return self._scattered(op, choose(axis, dim), index, choose(src, value, "src and value"), "scatter")

    def scatter_add(
        self, axis: int | None = None, index: Any = None, src: Any = None, *, dim: int | None = None
    ) -> Tensor:
        """x with src[i][j] added at out[index[i][j]][j] for axis 0, and so on.   dx = g, dsrc: g where it was added

        >>> minitorch.zeros(3).scatter_add(0, minitorch.tensor([0, 0, 2]), minitorch.ones(3))
        tensor([2., 0., 1.])
        """
        if not isinstance(src, Node) and not is_array(src):
            raise TypeError(
                f"scatter_add: src must be a tensor, got {src!r}; write minitorch.full for a number"
            )
        return self._scattered(ops.SCATTER_ADD, choose(axis, dim), index, src, "scatter_add")

    def index_select(self, axis: int | None = None, index: Any = None, *, dim: int | None = None) -> Tensor:
        """The slices of an axis that `index` names, in its order.   dx: g added where it was taken from

        >>> minitorch.arange(15.0).reshape(3, 5).index_select(0, minitorch.tensor([2, 0])).shape
        (2, 5)
        """
        at, places = self._slices(choose(axis, dim), index, "index_select")
        _check_range(places._data, self._data.shape[at] if self._data.ndim else 1, at, "index_select")
        if self._data.ndim == 0:
            if places._data.size != 1:
                raise RuntimeError(f"index_select: a 0-d tensor has 1 slice, not {places._data.size}")
            return self.reshape(1)[places].reshape(())
        return self[(slice(None),) * at + (places,)]

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
        at, places = self._slices(choose(axis, dim), index, "index_add")
        added = self._same_dtype(source, "index_add", "source")
        x = self if self._data.ndim else self.reshape(1)
        added = added if added._data.ndim else added.reshape(1)
        sizes = x._data.shape
        if added._data.shape != (*sizes[:at], places._data.size, *sizes[at + 1 :]):
            raise RuntimeError(
                f"index_add: {places._data.size} slices of axis {at} of shape {self._data.shape} need a source of "
                f"shape {(*sizes[:at], places._data.size, *sizes[at + 1 :])}, got {added._data.shape}"
            )
        _check_range(places._data, sizes[at], at, "index_add")
        out = apply(ops.INDEX_ADD, x, places, added, axis=at, alpha=alpha)
        return out if self._data.ndim else out.reshape(())

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """x with `value` where the mask holds.   dx = g where it does not, dvalue = Σ g where it does

        >>> minitorch.zeros(3).masked_fill(minitorch.tensor([False, True, False]), -float("inf"))
        tensor([0., -inf, 0.])
        """
        where = check_mask(mask, "masked_fill")
        value = operand(value, "masked_fill")
        if not isinstance(value, Node):
            return select(where, fill_of(value, self._data.dtype, "masked_fill"), self)
        if value._data.ndim:
            raise RuntimeError(
                f"masked_fill: value must be one number, got shape {value._data.shape}; write where(mask, value, x)"
            )
        return select(where, cast(value, self._data.dtype), self)

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where the mask holds, on one axis.   dx = g there, 0 elsewhere

        >>> minitorch.arange(4.0).masked_select(minitorch.tensor([True, False, True, False]))
        tensor([0., 2.])
        """
        where = cast(check_mask(mask, "masked_select"), np.bool_)
        sizes = common_shape("masked_select", self._data.shape, where._data.shape)
        return self.broadcast_to(sizes)[where.broadcast_to(sizes)]

    # --- helpers --------------------------------------------------------------------------------

    def _swapped(self, first: Any, second: Any, name: str) -> Tensor:
        order = list(range(self._data.ndim))
        a, b = (one_axis(axis, len(order), name) for axis in (first, second))
        if order:
            order[a], order[b] = order[b], order[a]
        return apply_unary(ops.PERMUTE, self, {"axes": tuple(order)})

    def _cut(self, axis: Any, dim: Any, name: str) -> int:
        """Return the axis to cut, the first unless named."""
        if not self._data.ndim:
            raise RuntimeError(f"{name}: a 0-d tensor has no axis to cut; write x.reshape(1)")
        return self._axis(0 if axis is None and dim is None else choose(axis, dim), name)

    def _triangle(self, op: ops.Op, diagonal: Any) -> Tensor:
        k = one_int(diagonal, op.name, "diagonal")
        if self._data.ndim < 2:
            raise RuntimeError(
                f"{op.name}: expects a matrix or a batch of them, got shape {self._data.shape}"
            )
        return apply(op, self, k=k)

    def _tiled(self, times: tuple[int, ...], name: str) -> Tensor:
        if min(times, default=0) < 0:
            raise RuntimeError(f"{name}: counts must not be negative, got {times}")
        return apply(ops.TILE, self, times=(1,) * (self._data.ndim - len(times)) + times)

    def _axis(self, axis: Any, name: str) -> int:
        if axis is None:
            raise TypeError(f"{name}: missing argument: axis (or dim)")
        return one_axis(axis, self._data.ndim, name)

    def _complete(self, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
        size = self._data.size
        if math.prod(shape) == size and -1 not in shape:
            return shape  # the common case, quickly
        unknown = shape.count(-1)
        known = math.prod(shape) if not unknown else math.prod(n for n in shape if n != -1)
        if unknown == 1 and known and size % known == 0:
            shape = tuple(size // known if n == -1 else n for n in shape)
            known = size
        if known != size or min(shape, default=0) < 0:
            raise RuntimeError(
                f"{name}: {size} elements of shape {self._data.shape} do not fit shape {shape}"
                + ("; only one length may be -1" if unknown > 1 else "")
            )
        return shape

    def _along(self, axis: Any, index: Any, name: str) -> tuple[int, Tensor]:
        """Return the axis, and an index with as many axes as this tensor and nowhere longer, beside it."""
        at = self._axis(axis, name)
        places = _places(index, name)
        if not places._data.size:
            return at, places
        mine, theirs = self._data.shape or (1,), places._data.shape or (1,)
        if len(mine) != len(theirs) or any(
            n > limit for i, (n, limit) in enumerate(zip(theirs, mine, strict=True)) if i != at
        ):
            raise RuntimeError(
                f"{name}: index of shape {places._data.shape} and x of shape {self._data.shape}: index must have as "
                f"many axes, and except along axis {at} it may not be longer"
            )
        _check_range(places._data, mine[at], at, name)
        return at, places

    def _slices(self, axis: Any, index: Any, name: str) -> tuple[int, Tensor]:
        """Return the axis, and a vector of places along it."""
        at = self._axis(axis, name)
        places = _places(index, name)
        if places._data.ndim > 1:
            raise IndexError(f"{name}: index must be a vector, but has shape {places._data.shape}")
        return at, places.reshape(-1)

    def _same_dtype(self, source: Any, name: str, what: str) -> Tensor:
        tensor = as_tensor(operand(source, name))
        if tensor._data.dtype != self._data.dtype:
            raise RuntimeError(
                f"{name}: {what} is {tensor._data.dtype}, but x is {self._data.dtype}; write {what}.to(x.dtype)"
            )
        return tensor

    def _scattered(self, op: ops.Op, axis: Any, index: Any, source: Any, name: str) -> Tensor:
        at, places = self._along(axis, index, name)
        values = operand(source, name)
        if isinstance(values, Node):
            values = self._same_dtype(values, name, "src")
            have, need = values._data.shape or (1,), places._data.shape or (1,)
            if places._data.size and (
                len(have) != len(need) or any(n > h for n, h in zip(need, have, strict=True))
            ):
                raise RuntimeError(f"{name}: index of shape {need} needs a src at least as large, got {have}")
        else:
            values = fill_of(values, self._data.dtype, name)
        if places._data.ndim != self._data.ndim and not places._data.size:
            return self.clone()  # type: ignore[attr-defined]
        return apply(op, self, places, values, axis=at)


def index_key(key: Any) -> Any:
    """Return an index as arrays understand it: Tensors become arrays, lists become arrays."""
    if isinstance(key, tuple):
        return tuple(_index_part(part) for part in key)
    return _index_part(key)


_BASIC = (int, slice, type(None), type(...))


def _index_part(part: Any) -> Any:
    if part.__class__ in _BASIC:
        return part
    if isinstance(part, Node):
        array = part._data
        if array.dtype.kind not in "biu":
            raise IndexError(f"getitem: tensors used as indices must hold ints or bools, got {array.dtype}")
        return array
    if isinstance(part, (list, np.ndarray)):
        array = as_tensor(part)._data
        return array.astype(np.int64) if array.size == 0 and array.dtype.kind == "f" else array
    if isinstance(part, (str, bytes, dict, set)):
        raise TypeError(f"getitem: {part!r} is no index; use ints, slices, None, ..., or tensors of them")
    return part


def _places(index: Any, name: str) -> Tensor:
    """Return an index as a tensor of integers."""
    if not isinstance(index, (Node, int, list, tuple)) and not is_array(index):
        raise TypeError(f"{name}: index must be a tensor of integers, got {type(index).__name__}")
    places = as_tensor(index)
    if places._data.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: index must hold integers, got {places._data.dtype}; write index.long()")
    return places


def _check_range(places: Any, length: int, axis: int, name: str) -> None:
    # On a device the check would wait for the computation; it reports for itself.
    if places.size and not type(places).__module__.startswith("cupy"):
        low, high = places.min(), places.max()
        if violated((low < 0) | (high >= length)):
            raise IndexError(
                f"{name}: index {low if low < 0 else high} is out of range for axis {axis} of length {length}"
            )


def _counts(counts: Any, length: int) -> Any:
    """Return the counts of repeat_interleave, checked."""
    problem = None
    if counts.dtype.kind not in "iu":
        problem = f"repeats must be integers, got {counts.dtype}"
    elif counts.ndim > 1 or counts.size not in (1, length):
        problem = f"{counts.shape} counts for an axis of length {length}; give one, or one each"
    elif violated((counts < 0).any()):
        problem = "repeats must not be negative"
    if problem:
        raise RuntimeError(f"repeat_interleave: {problem}")
    return counts.reshape(-1)


def cat(tensors: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Join tensors along an existing axis.   Each gets its piece of g

    >>> minitorch.cat([minitorch.zeros(3, 5), minitorch.ones(2, 5)]).shape
    (5, 5)
    """
    parts = promoted(*_sequence(tensors, "cat", ValueError))
    # PyTorch lets empty vectors stand anywhere in the list, whatever the others' shape.
    kept = [p for p in parts if p._data.shape != (0,)] or parts[:1]
    ndim = kept[0]._data.ndim
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
    parts = _sequence(tensors, "stack", RuntimeError)
    at = one_axis(axis if dim is None else dim, parts[0]._data.ndim + 1, "stack")
    for p in parts[1:]:
        if p._data.shape != parts[0]._data.shape:
            raise RuntimeError(
                f"stack: every tensor must have the same shape, got {parts[0]._data.shape} and {p._data.shape}"
            )
    return apply(ops.STACK, *promoted(*parts), axis=at)


def _sequence(tensors: Any, name: str, empty: type[Exception]) -> list[Any]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}: expects a list or tuple of tensors, got one {type(tensors).__name__}; write {name}([x, y])"
        )
    parts = list(tensors)
    for i, part in enumerate(parts):
        if not isinstance(part, (Node, list, tuple)) and not is_array(part):
            raise TypeError(f"{name}: expects tensors, but element {i} is a {type(part).__name__}: {part!r}")
    if not parts:
        raise empty(f"{name}: expects a non-empty list of tensors")
    return [as_tensor(part) for part in parts]
