"""What a Tensor is: its shape, dtype, device and memory; and new tensors of its dtype and device.

Enters: a tensor. Leaves: facts about it, or another tensor like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from minitorch.engine import gpu, watch
from minitorch.engine.dtypes import DType, kind_of
from minitorch.engine.meta import Meta
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.engine.recording import recordings
from minitorch.ops.op import like_of
from minitorch.ops.shape import CLONE
from minitorch.tensor.conversions import move
from minitorch.tensor.convert import as_array, shape_of
from minitorch.tensor.devices import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    gpu_of,
    making_on,
    place_of,
    preserve_format,
)
from minitorch.tensor.storage import TypedStorage, UntypedStorage, storage_of, tensor_over
from minitorch.tensor.torch_types import pytorchs, shown

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

# The class has methods of these names, which inside it would hide the types.
Bool: TypeAlias = bool
Int: TypeAlias = int
Device: TypeAlias = device
# In which order the axes lie in memory.
CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


class Facts(Node):
    """What of a Tensor tells what it is."""

    __slots__ = ()

    @property
    def shape(self) -> Size:
        """The length of each axis: a tuple, which can count its product with numel()."""
        return Size(self._data.shape if recordings else self._array.shape)

    @property
    def dtype(self) -> DType:
        """The dtype of its elements: NumPy's. (Under PyTorch's types: PyTorch's.)"""
        return shown(self._array.dtype) if pytorchs.on else self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self._array.ndim)

    @property
    def device(self) -> Device:
        """Where the array lives: 'cpu', or 'cuda:0' for a CuPy array."""
        return place_of(self._data)

    @property
    def is_cuda(self) -> Bool:
        """Whether it lives on a GPU."""
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> Bool:
        """Whether it lives in the computer's own memory."""
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> Bool:
        """Whether it has no numbers: only a shape and a dtype.

        >>> minitorch.empty(2, 3, device="meta").is_meta
        True
        """
        return self._data.__class__ is Meta

    @property
    def itemsize(self) -> Int:
        """The bytes of one element."""
        return int(self._array.itemsize)

    @property
    def nbytes(self) -> Int:
        """The bytes of all elements."""
        return self._data.nbytes

    # What PyTorch has other kinds of, and here there is one kind: answers for code that asks.
    is_quantized = is_mps = is_nested = is_mkldnn = is_xpu = False
    is_ipu = is_maia = is_mtia = is_vulkan = is_xla = False

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one axis.

        >>> minitorch.Tensor([[1.0, 2.0]]).size(), minitorch.Tensor([[1.0, 2.0]]).size(-1)
        ((1, 2), 2)
        """
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of axes.

        >>> minitorch.Tensor([[1.0]]).dim()
        2
        """
        return self.ndim

    def numel(self) -> int:
        """The number of elements.

        >>> minitorch.Tensor([[1.0, 2.0]]).numel()
        2
        """
        return self._data.size

    nelement = numel
    ndimension = dim

    def element_size(self) -> Int:
        """The bytes of one element.

        >>> minitorch.Tensor([1.0]).element_size()
        4
        """
        return int(self._array.itemsize)

    def stride(self, dim: Int | None = None) -> Any:
        """How many elements further the next one along each axis lies in memory, or along one axis.

        >>> minitorch.Tensor([[1.0, 2.0], [3.0, 4.0]]).T.stride()
        (1, 2)
        """
        steps = tuple(n // self._array.itemsize for n in self._data.strides)
        return steps if dim is None else steps[dim]

    def untyped_storage(self) -> UntypedStorage:
        """The memory beneath it, as bytes.

        >>> minitorch.ones(2, 3)[1].untyped_storage().nbytes()
        24
        """
        return storage_of(self._data)

    def storage(self) -> TypedStorage:
        """The memory beneath it, as numbers of its dtype.

        >>> minitorch.tensor([[1, 2], [3, 4]])[1].storage().tolist()
        [1, 2, 3, 4]
        """
        return TypedStorage(wrap_storage=storage_of(self._data), dtype=self._array.dtype)

    def storage_offset(self) -> Int:
        """How many elements of the memory beneath it lie before its first.

        >>> minitorch.ones(2, 3)[1].storage_offset()
        3
        """
        return (self.data_ptr() - storage_of(self._data).data_ptr()) // int(self._array.itemsize)

    def set_(
        self, source: Any = None, storage_offset: Int = 0, size: Any = None, stride: Any = None
    ) -> Tensor:
        """Let this very tensor look at another's memory, or at a storage.

        >>> x, y = minitorch.zeros(2), minitorch.ones(3)
        >>> x.set_(y)
        tensor([1., 1., 1.])
        """
        if source is None:
            self._data = np.empty(0, self._array.dtype)
        elif isinstance(source, Node) and size is None:
            self._data = source._data
        else:
            memory = source.untyped_storage() if isinstance(source, Node) else source  # type: ignore[attr-defined]
            self._data = tensor_over(memory, self._array.dtype, storage_offset, size, stride)._data
        watch.touch(self, "x.set_()")
        return self  # type: ignore[return-value]

    def data_ptr(self) -> Int:
        """The address of its first element.

        >>> x = minitorch.Tensor([1.0]); x.data_ptr() == x.detach().data_ptr()
        True
        """
        if self.is_meta:
            return 0  # as in PyTorch
        array = watch.memory_of(self._data)
        return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)

    @property
    def _version(self) -> Int:
        """A number that is another after each write into it."""
        return self._time

    def is_inference(self) -> bool:
        """Whether it was made for inference alone, and may never get a graph: none is.

        >>> minitorch.Tensor([1.0]).is_inference()
        False
        """
        return False

    def get_device(self) -> Int:
        """The GPU's number; -1 for the CPU.

        >>> minitorch.Tensor([1.0]).get_device()
        -1
        """
        place = self.device
        return place.index if place.type == "cuda" and place.index is not None else -1

    def is_signed(self) -> Bool:
        """Whether its dtype has negative numbers.

        >>> minitorch.Tensor([1.0]).is_signed()
        True
        """
        return self._array.dtype.kind not in "bu"

    def is_same_size(self, other: Tensor) -> Bool:
        """Whether two tensors have one shape.

        >>> minitorch.Tensor([1.0]).is_same_size(minitorch.Tensor([2]))
        True
        """
        return self.shape == other.shape

    def is_nonzero(self) -> Bool:
        """Whether its only element is not 0.

        >>> minitorch.Tensor([2.0]).is_nonzero()
        True
        """
        return bool(self)

    def is_pinned(self, device: Any = None) -> Bool:
        """Whether its memory is pinned: kept where it is, so that a GPU fetches from it by itself."""
        return gpu.is_pinned(self._data)

    def pin_memory(self, device: Any = None) -> Tensor:
        """A copy in pinned memory, from which x.to("cuda", non_blocking=True) does not wait.

        Itself if it is pinned, and where there is no GPU that could fetch from it.

        >>> x = minitorch.Tensor([1.0]).pin_memory(); x
        tensor([1.])
        """
        if gpu.is_on_gpu(self._data):
            raise RuntimeError(
                f"pin_memory: only memory of the CPU can be pinned, this is on '{self.device}'"
            )
        if self.is_pinned() or not gpu.gpu_count():
            return self  # type: ignore[return-value]
        return new_tensor(gpu.pinned(watch.memory_of(self._data)))

    def record_stream(self, stream: Any) -> None:
        """Say that another stream uses it: nobody gets its memory until what was asked for there is done."""
        if gpu.is_on_gpu(self._data):
            gpu.keep_for(self._data, stream.stream)

    def is_shared(self) -> Bool:
        """Whether others can see its memory: threads do, with or without share_memory_().

        >>> minitorch.Tensor([1.0]).is_shared()
        True
        """
        return True

    def share_memory_(self) -> Tensor:
        """Itself: threads share its memory as it is."""
        return self  # type: ignore[return-value]

    def apply_(self, function: Callable[[Any], Any]) -> Tensor:
        """Write function(element) in each element's place; slow, and for tensors no graph needs.

        >>> minitorch.Tensor([1.0, 2.0]).apply_(lambda v: v * 10)
        tensor([10., 20.])
        """
        values = [function(v) for v in self._data.reshape(-1).tolist()]
        self[...] = new_tensor(np.array(values, self._array.dtype).reshape(self._data.shape))  # type: ignore[index]
        return self  # type: ignore[return-value]

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Bool = False
    ) -> Tensor:
        """A leaf with a copy of `data`, in this tensor's dtype and device.

        >>> minitorch.Tensor([1.0]).new_tensor([1, 2])
        tensor([1., 2.])
        """
        chosen = self.dtype if dtype is None else dtype
        made = move(new_tensor(as_array(data, chosen, copy=True)), self.device if device is None else device)
        return made.requires_grad_(requires_grad)

    def _new(
        self,
        name: str,
        sizes: tuple[Any, ...],
        *,
        size: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Bool = False,
    ) -> Tensor:
        chosen = self._array.dtype if dtype is None else np.dtype(dtype)
        shape = shape_of(sizes, size, f"new_{name}")
        where = gpu_of(self.device if device is None else device)
        if where is not None:
            with making_on(where, f"new_{name}{shape}") as maker:
                made = new_tensor(getattr(maker, name)(shape, chosen))
        elif (like := like_of(shape)) is not None:
            made = new_tensor(getattr(np, f"{name}_like")(like, dtype=chosen, shape=shape))
        else:
            made = new_tensor(getattr(np, name)(shape, chosen))
        return made.requires_grad_(requires_grad)

    def new_zeros(self, *sizes: Any, **options: Any) -> Tensor:
        """Zeros of another shape, in this tensor's dtype and device; options: size, dtype, device, requires_grad.

        >>> minitorch.Tensor([1]).new_zeros(2)
        tensor([0, 0])
        """
        return self._new("zeros", sizes, **options)

    def new_ones(self, *sizes: Any, **options: Any) -> Tensor:
        """Ones of another shape, in this tensor's dtype and device; options as for new_zeros.

        >>> minitorch.Tensor([1]).new_ones(2)
        tensor([1, 1])
        """
        return self._new("ones", sizes, **options)

    def new_empty(self, *sizes: Any, **options: Any) -> Tensor:
        """Whatever is in memory, in another shape and this tensor's dtype and device; options as for new_zeros.

        >>> minitorch.Tensor([1]).new_empty(2).shape
        (2,)
        """
        return self._new("empty", sizes, **options)

    def new_full(
        self,
        size: Any,
        fill_value: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Bool = False,
    ) -> Tensor:
        """One value everywhere, in another shape and this tensor's dtype and device.

        >>> minitorch.Tensor([1.0]).new_full((2,), 7)
        tensor([7., 7.])
        """
        made = self._new("empty", (size,), dtype=dtype, device=device)
        return made.fill_(fill_value).requires_grad_(requires_grad)

    def new(self, *args: Any) -> Tensor:
        """Old PyTorch's new_empty or new_tensor: `x.new(2, 3)`, `x.new([1, 2])`.

        >>> minitorch.Tensor([1.0]).new(2, 3).shape
        (2, 3)
        """
        if len(args) == 1 and not isinstance(args[0], (int, Size)):
            return self.new_tensor(args[0])
        return self.new_empty(*args or (0,))

    def is_floating_point(self) -> bool:
        """Whether its elements are floats.

        >>> minitorch.Tensor([1, 2]).is_floating_point()
        False
        """
        return kind_of(self._array.dtype) == "f"

    def is_complex(self) -> bool:
        """Whether its elements are complex numbers.

        >>> minitorch.Tensor([1.0, 2j]).is_complex()
        True
        """
        return self._array.dtype.kind == "c"

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether its elements lie in memory in the order of its axes, or with the channels last.

        >>> minitorch.Tensor([[1.0, 2.0], [3.0, 4.0]]).T.is_contiguous()
        False
        """
        if memory_format in CHANNELS_LAST:
            axes = CHANNELS_LAST[memory_format]
            return len(axes) == self._array.ndim and bool(self._data.transpose(axes).flags.c_contiguous)
        return bool(self._data.flags.c_contiguous)

    def contiguous(self, memory_format: Any = contiguous_format) -> Tensor:
        """Itself if contiguous, else a copy that is.   dx = g

        >>> minitorch.Tensor([[1.0, 2.0], [3.0, 4.0]]).T.contiguous().is_contiguous()
        True
        """
        if memory_format == preserve_format or self.is_contiguous(memory_format):
            return self  # type: ignore[return-value]
        if memory_format not in CHANNELS_LAST:
            return apply(CLONE, self, order="C")
        axes = CHANNELS_LAST[memory_format]
        if len(axes) != self._array.ndim:
            raise RuntimeError(
                f"{memory_format}: the tensor must have {len(axes)} axes, this one has shape {self.shape}"
            )
        last = apply(CLONE, self.permute(axes), order="C")  # type: ignore[attr-defined]
        return last.permute(sorted(range(len(axes)), key=axes.__getitem__))
