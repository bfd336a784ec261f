"""The same elements in another shape or order. Enters: tensors. Leaves: the same elements, arranged otherwise.

Views where NumPy can: reshape, transpose, permute, expand, diagonal, unfold share memory with their source.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine import watch
from minitorch.engine.fast import apply_unary
from minitorch.engine.modes import is_grad_enabled
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.engine.versions import COPY, note_view
from minitorch.ops import shape as ops
from minitorch.ops.native import is_on_gpu
from minitorch.ops.op import Op, unbroadcast, violated
from minitorch.tensor.convert import as_tensor, choose, one_axis, one_int, operand, shape_of, tensor_for
from minitorch.tensor.methods.arguments import required_axis
from minitorch.tensor.methods.public import function, in_place
from minitorch.tensor.torch_types import is_dtype

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Shapes(Node):
    """Reshaping, permuting, stretching, repeating, turning."""

    __slots__ = ()

    # --- other axes ------------------------------------------------------------------------------

    def reshape(self, *sizes: Any, shape: Any = None) -> Tensor:
        """The same elements in another shape; one length may be -1.   dx = g, in the old shape

        >>> minitorch.zeros(20, 3, 5).reshape(20, -1).shape
        (20, 15)
        """
        wanted = shape_of(sizes, shape, "reshape")
        if math.prod(wanted) != self._data.size or -1 in wanted:
            wanted = _complete(self, wanted, "reshape")
        return apply_unary(ops.RESHAPE, self, {"shape": wanted})

    def view(self, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
        """The same elements in another shape, or (given a dtype) the same bytes read as another dtype.

        >>> minitorch.zeros(3, 5).view(15).shape
        (15,)
        """
        if dtype is not None:
            shape = (dtype,)
        if len(shape) == 1 and is_dtype(shape[0]):
            try:
                return as_tensor(self._data.view(np.dtype(shape[0])))
            except ValueError as error:
                raise RuntimeError(
                    f"view: {self._data.shape} {self._array.dtype} cannot be read as {np.dtype(shape[0])}: {error}"
                ) from None
        out = apply_unary(
            ops.RESHAPE, self, {"shape": _complete(self, shape_of(shape, size, "view"), "view")}
        )
        in_memory = type(self._data) is np.ndarray or hasattr(self._data, "__minitorch_memory__")
        scattered = in_memory and not self._data.flags.c_contiguous and self._data.size
        if scattered and not np.may_share_memory(self._data, out._data):
            # PyTorch lays out most results in the order of their axes, NumPy like their inputs: as long as nobody
            # else looks at this memory it may be laid out anew.
            if self._view is not None or watch.is_exposed(self):
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
        at = required_axis(self, choose(axis, dim), "unflatten")
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

    # --- axes in another order -------------------------------------------------------------------

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
            return _swapped(self, *axes, "transpose")
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            return (
                self.permute(tuple(axes[0])) if axes[0] else self.T
            )  # NumPy's spelling: an order of the axes
        if not axes:
            return self.T
        if len(axes) == 2:
            return _swapped(self, *axes, "transpose")
        return self.permute(axes)

    def permute(self, *axes: Any, dims: Any = None) -> Tensor:
        """The axes in another order.   dx = g, permuted back

        >>> minitorch.zeros(20, 3, 5).permute(2, 0, 1).shape
        (5, 20, 3)
        """
        order = shape_of(axes, dims, "permute")
        ndim = self._array.ndim
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
        return _swapped(self, axis0, axis1, "swapaxes")

    def swapdims(self, dim0: int, dim1: int) -> Tensor:
        """Another name of swapaxes.

        >>> minitorch.zeros(3, 5).swapdims(0, 1).shape
        (5, 3)
        """
        return _swapped(self, dim0, dim1, "swapdims")

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Axes moved to other places, the rest staying in order.   dx = g, moved back

        >>> minitorch.zeros(20, 3, 5).movedim(0, -1).shape
        (3, 5, 20)
        """
        ndim = self._array.ndim
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

    moveaxis = movedim

    def t(self) -> Tensor:
        """A matrix transposed; a vector as it is.

        >>> minitorch.zeros(3, 5).t().shape
        (5, 3)
        """
        if self._array.ndim > 2:
            raise RuntimeError(
                f"t: expects at most 2 axes, but the tensor has shape {self._data.shape}; write x.mT"
            )
        return self.T

    @property
    def T(self) -> Tensor:
        """The axes reversed: a matrix transposed."""
        return apply_unary(ops.PERMUTE, self, {"axes": tuple(range(self._array.ndim - 1, -1, -1))})

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged: every matrix of a batch transposed."""
        if self._array.ndim < 2:
            raise RuntimeError(f"mT: expects matrices, but the tensor has shape {self._data.shape}")
        return self.swapaxes(-1, -2)

    # --- stretched, and summed back --------------------------------------------------------------

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
        if math.prod(full) == self._data.size and full[extra:] == have:
            return apply(
                ops.RESHAPE, self, shape=full
            )  # nothing is stretched: a view that may be written into
        return apply(ops.BROADCAST_TO, self, shape=full)

    def expand_as(self, other: Tensor) -> Tensor:
        """Stretched to another tensor's shape.

        >>> minitorch.zeros(5).expand_as(minitorch.zeros(3, 5)).shape
        (3, 5)
        """
        return self.expand(other._data.shape)

    def sum_to_size(self: Any, *size: Any) -> Tensor:
        """Summed over the axes along which `size` would be stretched to this shape.

        >>> sum_to_size(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, 2)
        tensor([[4., 6.]])
        """
        wanted = shape_of(size, name="sum_to_size") if size != ((),) else ()
        return unbroadcast(self, wanted) if wanted or self.ndim else self.sum()

    # --- diagonals, triangles, windows -----------------------------------------------------------

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
        first, second = (required_axis(self, a, "diagonal") for a in (dim1, dim2))
        return apply(ops.DIAGONAL, self, offset=offset, axis1=first, axis2=second)

    def diag(self, diagonal: int = 0) -> Tensor:
        """A matrix's diagonal, or a matrix with this vector as its diagonal.

        >>> minitorch.tensor([1.0, 2.0]).diag()
        tensor([[1., 0.],
                [0., 2.]])
        """
        diagonal = one_int(diagonal, "diag", "diagonal")
        if self._array.ndim == 1:
            return self.diag_embed(diagonal)
        if self._array.ndim != 2:
            raise RuntimeError(
                f"diag: expects a vector or a matrix, but the tensor has shape {self._data.shape}"
            )
        return self.diagonal(diagonal).clone()

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """The last axis laid along the diagonal of two new axes.   dx = g's diagonal

        >>> minitorch.ones(3, 2).diag_embed().shape
        (3, 2, 2)
        """
        ndim = self._array.ndim + 1
        offset = one_int(offset, "diag_embed", "offset")
        first, second = (one_axis(a, ndim, "diag_embed") for a in (dim1, dim2))
        length = self._data.shape[-1] + abs(offset)
        sizes = list(self._data.shape[:-1])
        for axis in sorted((first, second)):
            sizes.insert(axis, length)
        return apply(ops.PUT_DIAGONAL, self, shape=tuple(sizes), offset=offset, axis1=first, axis2=second)

    def diagflat(self: Any, offset: int = 0) -> Tensor:
        """A matrix with all elements along its diagonal.   dx = g's diagonal

        >>> diagflat(minitorch.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
        """
        return self.reshape(-1).diag_embed(offset)

    @in_place
    def tril(self, diagonal: int = 0) -> Tensor:
        """The lower triangle, 0 above the diagonal.   dx = g's lower triangle

        >>> minitorch.ones(2, 2).tril()
        tensor([[1., 0.],
                [1., 1.]])
        """
        return _triangle(self, ops.TRIL, diagonal)

    @in_place
    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle, 0 below the diagonal.   dx = g's upper triangle

        >>> minitorch.ones(2, 2).triu(1)
        tensor([[0., 1.],
                [0., 0.]])
        """
        return _triangle(self, ops.TRIU, diagonal)

    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """All windows of `size` along an axis, `step` apart, as a view with the window last.

        dx = g, added up where windows overlap

        >>> minitorch.arange(5.0).unfold(0, 3, 1)
        tensor([[0., 1., 2.],
                [1., 2., 3.],
                [2., 3., 4.]])
        """
        axis = required_axis(self, dimension, "unfold")
        size, step = one_int(size, "unfold", "size"), one_int(step, "unfold", "step")
        length = self._data.shape[axis] if self._array.ndim else 1
        if not 0 <= size <= length:
            raise RuntimeError(f"unfold: a window of {size} does not fit an axis of length {length}")
        if step < 1:
            raise RuntimeError(f"unfold: step must be at least 1, got {step}")
        if not self._array.ndim:  # one window, and no axis to count it
            return self.reshape(1).unfold(0, size, step)[0]
        how = {"axis": axis, "size": size, "step": step}
        out = apply(ops.UNFOLD, self, **how)
        if is_on_gpu(self._data) and size:
            # (CuPy's views by steps do not tell whose memory they look at.)
            watch.note_owner(watch.owner_of(out._data), self._data)
            note_view(out, self, ops.UNFOLD, how, is_grad_enabled())
        return out

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
        """A view by steps in memory: element (i, j, …) lies i·stride[0] + j·stride[1] + … after the first.

        storage_offset: where the first lies, from the start of the memory; without it, where x's first does.
        dx = g, added up where an element is seen several times. (On a GPU windows that overlap are copied.)

        >>> minitorch.arange(5.0).as_strided((3, 2), (1, 2))
        tensor([[0., 2.],
                [1., 3.],
                [2., 4.]])
        """
        shape, strides = tuple(map(operator.index, size)), tuple(map(operator.index, stride))
        if len(shape) != len(strides) or min((*shape, *strides), default=0) < 0:
            raise RuntimeError(
                f"as_strided: a size and a stride ≥ 0 for each axis, got size {shape} and stride {strides}"
            )
        offset = 0
        if storage_offset is not None:
            offset = one_int(storage_offset, "as_strided", "storage_offset") - ops.offset_in_memory(
                self._data
            )
        own = tuple(n // self._array.itemsize for n in self._data.strides)
        how = {"shape": shape, "strides": strides, "offset": offset, "own": own}
        out = apply(ops.AS_STRIDED, self, **how)
        if is_on_gpu(self._data) and watch.owner_of(out._data) is not watch.owner_of(self._data):
            out._view = COPY
        return out

    # --- repeated, turned, moved -----------------------------------------------------------------

    def tile(self, *times: Any, dims: Any = None) -> Tensor:
        """Copies side by side, axes counted from the right as NumPy does.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).tile(2)
        tensor([1., 2., 1., 2.])
        """
        return _tiled(self, shape_of(times, dims, "tile"), "tile")

    def repeat(self, *times: Any, repeats: Any = None) -> Tensor:
        """Copies side by side, one count per axis.   dx = g, summed over the copies

        >>> minitorch.tensor([1.0, 2.0]).repeat(3, 1).shape
        (3, 2)
        """
        times = shape_of(times, repeats, "repeat")
        if len(times) < self._array.ndim:
            raise RuntimeError(
                f"repeat: {len(times)} counts for a tensor with {self._array.ndim} axes; give one per axis"
            )
        return _tiled(self, times, "repeat")

    def repeat_interleave(
        self: Any,
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
        at = 0 if axis is None else required_axis(self, axis, "repeat_interleave")
        length = x._data.shape[at] if x._array.ndim else 1
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
        named = tuple(required_axis(self, a, "flip") for a in shape_of(axes, dims, "flip"))
        if len(set(named)) != len(named):
            raise RuntimeError(f"flip: {named} names an axis twice")
        return apply(ops.FLIP, self, axis=named if self._array.ndim else ())

    def fliplr(self: Any) -> Tensor:
        """The second axis reversed.

        >>> fliplr(minitorch.tensor([[1.0, 2.0]]))
        tensor([[2., 1.]])
        """
        if self.ndim < 2:
            raise RuntimeError(f"fliplr: expects at least 2 axes, got shape {self.shape}")
        return self.flip(1)

    def flipud(self: Any) -> Tensor:
        """The first axis reversed.

        >>> flipud(minitorch.tensor([1.0, 2.0]))
        tensor([2., 1.])
        """
        if not self.ndim:
            raise RuntimeError("flipud: expects at least 1 axis, got a 0-d tensor")
        return self.flip(0)

    def rot90(self: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """Turned by k times 90 degrees in the plane of two axes, from the first towards the second.

        >>> rot90(minitorch.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
        """
        if len(dims) != 2:
            raise RuntimeError(f"rot90: dims must be two axes, got {dims}")
        a, b = (one_axis(d, self.ndim, "rot90") for d in dims)
        if a == b or self.ndim < 2:
            raise RuntimeError(f"rot90: dims must be two different axes, got {dims} for shape {self.shape}")
        turns = one_int(k, "rot90", "k") % 4
        if turns == 2:
            return self.flip(a, b)
        if turns == 1:
            return self.flip(b).swapaxes(a, b)
        return self.flip(a).swapaxes(a, b) if turns else self.clone()

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
        return apply(ops.ROLL, self, shifts=moves, axis=tuple(required_axis(self, a, "roll") for a in axes))


def transpose(input: Any, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged; see Tensor.transpose for permuting.   dx = g, exchanged back

    >>> transpose(as_tensor([[1.0, 2.0]]), 0, 1).shape
    (2, 1)
    """
    return tensor_for(input, "transpose").transpose(dim0=dim0, dim1=dim1)


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (or slice of an axis) this many times in a row; given counts alone, their numbers.

    >>> repeat_interleave(as_tensor([1.0, 2.0]), 2)
    tensor([1., 1., 2., 2.])
    >>> repeat_interleave(as_tensor([1, 0, 2]))
    tensor([0, 2, 2])
    """
    x = as_tensor(input)
    if repeats is None:
        x, repeats = as_tensor(np.arange(x.numel(), like=x._data)), x
    return x.repeat_interleave(repeats, dim, output_size=output_size)


def _swapped(x: Any, first: Any, second: Any, name: str) -> Tensor:
    order = list(range(x._array.ndim))
    a, b = (one_axis(axis, len(order), name) for axis in (first, second))
    if order:
        order[a], order[b] = order[b], order[a]
    return apply_unary(ops.PERMUTE, x, {"axes": tuple(order)})


def _triangle(x: Any, op: Op, diagonal: Any) -> Tensor:
    k = one_int(diagonal, op.name, "diagonal")
    if x._array.ndim < 2:
        raise RuntimeError(f"{op.name}: expects a matrix or a batch of them, got shape {x._data.shape}")
    return apply(op, x, k=k)


def _tiled(x: Any, times: tuple[int, ...], name: str) -> Tensor:
    if min(times, default=0) < 0:
        raise RuntimeError(f"{name}: counts must not be negative, got {times}")
    return apply(ops.TILE, x, times=(1,) * (x._array.ndim - len(times)) + times)


def _complete(x: Any, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    size = x._data.size
    if math.prod(shape) == size and -1 not in shape:
        return shape  # the common case, quickly
    unknown = shape.count(-1)
    known = math.prod(shape) if not unknown else math.prod(n for n in shape if n != -1)
    if unknown == 1 and known and size % known == 0:
        shape = tuple(size // known if n == -1 else n for n in shape)
        known = size
    if known != size or any(n < 0 for n in shape):
        raise RuntimeError(
            f"{name}: {size} elements of shape {x._data.shape} do not fit shape {shape}"
            + ("; only one length may be -1" if unknown > 1 else "")
        )
    return shape


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


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

reshape = function(Shapes.reshape)
flatten = function(Shapes.flatten)
ravel = function(Shapes.ravel)
unflatten = function(Shapes.unflatten)
squeeze = function(Shapes.squeeze)
unsqueeze = function(Shapes.unsqueeze)
permute = function(Shapes.permute)
swapaxes = function(Shapes.swapaxes)
swapdims = function(Shapes.swapdims)
movedim = moveaxis = function(Shapes.movedim)
t = function(Shapes.t)
broadcast_to = function(Shapes.broadcast_to)
sum_to_size = function(Shapes.sum_to_size)
diagonal = function(Shapes.diagonal)
diag = function(Shapes.diag)
diag_embed = function(Shapes.diag_embed)
diagflat = function(Shapes.diagflat)
tril = function(Shapes.tril)
triu = function(Shapes.triu)
as_strided = function(Shapes.as_strided)
tile = function(Shapes.tile)
flip = function(Shapes.flip)
fliplr = function(Shapes.fliplr)
flipud = function(Shapes.flipud)
rot90 = function(Shapes.rot90)
roll = function(Shapes.roll)

__all__ = [
    "as_strided", "broadcast_to", "diag", "diag_embed", "diagflat", "diagonal", "flatten", "flip", "fliplr", "flipud",
    "moveaxis", "movedim", "permute", "ravel", "repeat_interleave", "reshape", "roll", "rot90", "squeeze",
    "sum_to_size", "swapaxes", "swapdims", "t", "tile", "transpose", "tril", "triu", "unflatten",
    "unsqueeze",
]  # fmt: skip
