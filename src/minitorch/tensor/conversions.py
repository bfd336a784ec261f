"""A Tensor as something else: another dtype, another device, a NumPy array, Python's numbers and lists.

Enters: a tensor. Leaves: its elements, otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine import dtypes, gpu, meta, watch
from minitorch.engine.dtypes import LEGACY_NAMES, legacy_dtype, legacy_names_gpu
from minitorch.engine.meta import no_numbers
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops.op import Op
from minitorch.ops.sparse import Coo
from minitorch.tensor.convert import cast
from minitorch.tensor.devices import check_device, numbered, place_of
from minitorch.tensor.devices import device as Device
from minitorch.tensor.torch_types import is_dtype

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Conversions(Node):
    """What of a Tensor makes something else of it."""

    __slots__ = ()

    def astype(self, dtype: Any, copy: bool = True) -> Tensor:
        """The elements in another dtype.   dx = g, in x's dtype

        >>> minitorch.Tensor([1.7]).astype(np.int64)
        tensor([1])
        """
        return cast(self, dtype)

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: Any = False,
        copy: Any = False,
        memory_format: Any = None,
    ) -> Tensor:
        """Another dtype or device: x.to(minitorch.float64), x.to("cpu"), x.to(other).

        non_blocking: do not wait for a copy from pinned memory to a GPU (see pin_memory).

        >>> minitorch.Tensor([1.0]).to(np.float64).dtype
        dtype('float64')
        """
        flags: list[Any] = []
        for each in args:
            if isinstance(each, Node):
                dtype, device = each._array.dtype, each.device  # type: ignore[attr-defined]
            elif is_dtype(each):
                dtype = each
            elif isinstance(each, str):
                device = each
            elif isinstance(each, bool) or each is None:
                flags.append(bool(each))  # by position: non_blocking, then copy
            elif isinstance(each, int):
                device = f"cuda:{each}"
            else:
                raise TypeError(f"to: expected a device, a dtype or a Tensor, got {each!r}")
        if flags:
            non_blocking, copy = (*flags, copy)[:2]
        moved = move(self, device, non_blocking)
        out = moved if dtype is None else cast(moved, dtype)
        if memory_format is not None:
            out = out.contiguous(memory_format)
        return out.clone() if copy and out is self else out

    def type(self, dtype: Any = None) -> Any:
        """The elements in another dtype, and where that says; without one, its name as PyTorch writes it.

        >>> minitorch.Tensor([1.0]).type(np.float64).dtype, minitorch.Tensor([1.0]).type()
        (dtype('float64'), 'torch.FloatTensor')
        """
        if dtype is None:
            where = "cuda." if gpu.is_on_gpu(gpu.beneath(self._data)) else ""
            where += "sparse." if self._array.__class__ is Coo else ""
            return f"torch.{where}{LEGACY_NAMES[self._array.dtype.name]}"
        out, names_gpu = cast(self, legacy_dtype(dtype)), legacy_names_gpu(dtype)
        if names_gpu is None or names_gpu == out.is_cuda:
            return out
        return move(out, "cuda" if names_gpu else "cpu")

    def type_as(self, other: Tensor) -> Tensor:
        """The elements in another tensor's dtype, where that lies.

        >>> minitorch.Tensor([1]).type_as(minitorch.Tensor([1.0])).dtype
        dtype('float32')
        """
        here = self._data.__class__ is other._data.__class__ is np.ndarray
        return cast(self if here else move(self, other.device), other.dtype)

    def float(self) -> Tensor:
        """As float32.

        >>> minitorch.Tensor([1]).float()
        tensor([1.])
        """
        return cast(self, np.float32)

    def double(self) -> Tensor:
        """As float64.

        >>> minitorch.Tensor([1.0]).double()
        tensor([1.], dtype=float64)
        """
        return cast(self, np.float64)

    def cfloat(self) -> Tensor:
        """As complex64.

        >>> minitorch.Tensor([1.0]).cfloat()
        tensor([1.+0.j])
        """
        return cast(self, np.complex64)

    def cdouble(self) -> Tensor:
        """As complex128.

        >>> minitorch.Tensor([1.0]).cdouble()
        tensor([1.+0.j], dtype=complex128)
        """
        return cast(self, np.complex128)

    def half(self) -> Tensor:
        """As float16.

        >>> minitorch.Tensor([1.0]).half()
        tensor([1.], dtype=float16)
        """
        return cast(self, np.float16)

    def bfloat16(self) -> Tensor:
        """As bfloat16: float32's range with 8 bits of its digits.

        >>> minitorch.Tensor([1.0]).bfloat16().dtype
        dtype(bfloat16)
        """
        return cast(self, dtypes.bfloat16)

    def int(self) -> Tensor:
        """As int32.

        >>> minitorch.Tensor([1.7]).int()
        tensor([1], dtype=int32)
        """
        return cast(self, np.int32)

    def long(self) -> Tensor:
        """As int64.

        >>> minitorch.Tensor([1.7]).long()
        tensor([1])
        """
        return cast(self, np.int64)

    def short(self) -> Tensor:
        """As int16.

        >>> minitorch.Tensor([1.7]).short()
        tensor([1], dtype=int16)
        """
        return cast(self, np.int16)

    def char(self) -> Tensor:
        """As int8.

        >>> minitorch.Tensor([1.7]).char()
        tensor([1], dtype=int8)
        """
        return cast(self, np.int8)

    def byte(self) -> Tensor:
        """As uint8.

        >>> minitorch.Tensor([1.7]).byte()
        tensor([1], dtype=uint8)
        """
        return cast(self, np.uint8)

    def bool(self) -> Tensor:
        """As bools: whether not 0.

        >>> minitorch.Tensor([0.0, 2.0]).bool()
        tensor([False,  True])
        """
        return cast(self, np.bool_)

    def cpu(self, memory_format: Any = None) -> Tensor:
        """In the computer's own memory.

        >>> minitorch.Tensor([1.0]).cpu()
        tensor([1.])
        """
        return move(self, "cpu")

    def cuda(self, device: Any = None, non_blocking: Any = False) -> Tensor:
        """On the GPU, as a CuPy array; a clear error where there is none. device: which one, by name or number."""
        return move(self, "cuda" if device is None else Device(device), non_blocking)

    def item(self) -> Any:
        """The only element, as a Python number.

        >>> minitorch.Tensor([2.5]).item()
        2.5
        """
        if self._data.size != 1:
            raise ValueError(
                f"item: only a tensor with one element is a number, this one has shape {tuple(self._data.shape)}; "
                "write x.tolist() or reduce it first"
            )
        number = self._data.item()
        if self._data.__class__ is not np.ndarray:
            gpu.tell()
        return number

    def tolist(self) -> Any:
        """The elements as nested Python lists.

        >>> minitorch.Tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        numbers = self._data.tolist()
        if self._data.__class__ is not np.ndarray:
            gpu.tell()
        return numbers

    def numpy(self, *, force: Any = False) -> np.ndarray:
        """The array itself, sharing memory; of a tensor without a graph.

        >>> minitorch.Tensor([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        if self.requires_grad and not force:
            raise RuntimeError(
                "numpy: this tensor requires grad, and an array would silently drop its graph; write x.detach().numpy()"
            )
        tensor = move(self, "cpu")
        if tensor._array.__class__ is Coo:
            raise TypeError("numpy: this tensor is sparse; write x.to_dense().numpy()")
        return watch.hand_out(tensor._data)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array: Any = self.numpy()
        if not isinstance(array, np.ndarray):
            array = np.asarray(array)  # of a kind that may refuse it
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"__array__: {array.dtype} cannot become {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise RuntimeError(
                "__dlpack__: this tensor requires grad; write x.detach() before handing it over"
            )
        array = watch.memory_of(self._data)
        watch.share(array)
        watch.read(array, watch.tick())
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        """What other libraries read of an array on a GPU; on the CPU there is none."""
        array = self._data
        if self.requires_grad or not gpu.is_on_gpu(array):
            raise AttributeError(
                "__cuda_array_interface__: of tensors on a GPU that do not require grad; write x.detach().cuda()"
            )
        watch.share(array)
        return array.__cuda_array_interface__

    def __float__(self) -> Any:
        return float(self._scalar("float(x)"))

    def __int__(self) -> Any:
        return int(self._scalar("int(x)"))

    def __index__(self) -> Any:
        if self._array.dtype.kind not in "biu":
            raise TypeError(
                f"only integer tensors of one element can be an index, this one holds {self._array.dtype}"
            )
        return int(self._scalar("using x as an index"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex(x)"))

    def __bool__(self) -> Any:
        if self._data.size != 1:
            raise RuntimeError(
                f"the truth value of a tensor of shape {tuple(self._data.shape)} is ambiguous; write x.any() or "
                "x.all()"
            )
        return bool(self._data.item())

    def _scalar(self, spelling: str) -> Any:
        if self._data.size != 1:
            raise ValueError(
                f"{spelling}: only a tensor with one element is a number, this one has shape {tuple(self._data.shape)}"
            )
        return self._data.item()

    def __len__(self) -> Any:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def __contains__(self, element: Any) -> Any:
        return bool((self == element).any())


def move(tensor: Any, device: Any, non_blocking: bool = False) -> Tensor:
    """Return the tensor on a device ('cpu', 'cuda', 'cuda:1'); itself if it is there."""
    check_device(device)
    if device is None or device == tensor.device:
        return tensor
    named = numbered(Device(device))
    if named == tensor.device:
        return tensor
    if named.type == "meta":
        return apply(_TO_META, tensor)
    if tensor.is_meta:
        raise no_numbers(f"to: nothing can be copied to '{named}'")
    if named.type == "cpu":
        return apply(_TO_CPU, tensor)
    return apply(_TO_CUDA, tensor, number=named.index, non_blocking=non_blocking)


def gradient_beside(gradient: Any, array: Any, what: str) -> Any:
    """Return a gradient (an array, or a Tensor) where an array lies; of the CPU's a single number is brought there."""
    mine = getattr(gradient, "_data", gradient)
    if not gpu.differ(mine, array):
        return gradient
    here, there = place_of(mine), place_of(array)
    if mine.ndim or here.type != "cpu":
        raise RuntimeError(
            f"{what} lies on '{here}', but what it is the gradient of on '{there}'; write gradient.to({str(there)!r})"
        )
    return move(gradient if isinstance(gradient, Node) else new_tensor(mine), there)


def _back(g: Any, x: Any) -> Any:
    """Return a gradient where the tensor is that was sent: on another GPU, or in the computer's own memory."""
    return _TO_CUDA(g, number=place_of(x).index) if gpu.device_of(x) is not None else _TO_CPU(g)


# What goes to 'meta' loses its numbers, and its gradient has none.
_TO_META = Op("to_meta", meta.like, lambda g, out, x: np.zeros_like(x), register=False, whole=True)
# Each way is the other's derivative.
_TO_CPU = Op(
    "to_cpu",
    gpu.on_host,
    lambda g, out, x: _TO_CUDA(g, number=place_of(x).index),
    register=False,
    whole=True,
)
_TO_CUDA: Op = Op(
    "to_cuda",
    gpu.sent,
    lambda g, out, x, number, non_blocking=False: _back(g, x),
    register=False,
    whole=True,
)
