"""Tensor: the node a person holds. Operators, backward(), writing, conversions, NumPy's protocols.

Enters: anything array-like. Leaves: a Tensor that records what is done to it and differentiates
itself. The graph and the engine are in node.py; the methods by family are in methods/.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from minitorch.engine import node, plain, watch
from minitorch.engine.dtypes import LEGACY_NAMES, DType, get_default_dtype, legacy_dtype
from minitorch.engine.node import Hooks, Node, apply, backpropagate, new_tensor
from minitorch.engine.recording import changed
from minitorch.ops import arithmetic, comparison
from minitorch.ops.op import Op
from minitorch.ops.shape import CLONE
from minitorch.tensor import printing
from minitorch.tensor import protocols as numpy_protocols
from minitorch.tensor.convert import as_array, as_tensor, binary, cast, is_array, shape_of
from minitorch.tensor.devices import CPU, CUDA, Size, device
from minitorch.tensor.methods.activation import Activations
from minitorch.tensor.methods.arithmetic import Arithmetic, divide_whole, power
from minitorch.tensor.methods.comparison import Comparisons
from minitorch.tensor.methods.complex import ComplexNumbers
from minitorch.tensor.methods.exponential import Exponentials
from minitorch.tensor.methods.indexing import Indexing
from minitorch.tensor.methods.joining import Cutting
from minitorch.tensor.methods.linalg import LinearAlgebra
from minitorch.tensor.methods.products import Products, matmul
from minitorch.tensor.methods.random import RandomDraws
from minitorch.tensor.methods.reductions import Reductions
from minitorch.tensor.methods.rounding import Rounding
from minitorch.tensor.methods.shape import Shapes
from minitorch.tensor.methods.sorting import Sorting
from minitorch.tensor.methods.special import SpecialFunctions
from minitorch.tensor.methods.statistics import Statistics
from minitorch.tensor.methods.trigonometric import Trigonometry
from minitorch.tensor.writing import Writing, add_twins

_hook_number = itertools.count().__next__

# Tensor has methods of these names, which inside the class would hide the types.
Bool: TypeAlias = bool
Int: TypeAlias = int
Device: TypeAlias = device


class Tensor(
    Arithmetic,
    Exponentials,
    Trigonometry,
    Activations,
    SpecialFunctions,
    Rounding,
    Comparisons,
    ComplexNumbers,
    Reductions,
    Sorting,
    Statistics,
    Shapes,
    Cutting,
    Indexing,
    Products,
    LinearAlgebra,
    RandomDraws,
    Writing,
):
    """An array that records what is done to it and differentiates itself.

    data: anything array-like; copied. NumPy arrays keep their dtype, Python floats become float32,
        Python ints int64.
    requires_grad: whether gradients shall be computed for it (floats only).

    >>> w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> loss = (w * w).sum()
    >>> loss.backward()
    >>> w.grad
    array([2., 4., 6.], dtype=float32)
    """

    __slots__ = ()

    # NumPy's operators leave `array * tensor` to us.
    __array_priority__ = 1000

    def __init__(
        self, data: Any = (), requires_grad: bool = False, dtype: Any = None, device: Any = None
    ) -> None:
        check_device(device)
        if requires_grad.__class__ is int:  # Tensor(2, 3): PyTorch's old way to write empty(2, 3)
            raise TypeError(
                f"Tensor({data!r}, {requires_grad!r}, …): the second argument is requires_grad; for a tensor of this "
                "shape write minitorch.empty(…) or minitorch.zeros(…)"
            )
        self._data = as_array(data, dtype, copy=True)
        self._grad = None
        self._hooks = None
        self._operation = None
        self._inputs = ()
        self._attributes = {}
        self._time = watch.tick()
        self._requires_grad = False
        if requires_grad:
            self.requires_grad_()

    # --- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The length of each axis: a tuple, which can count its product with numel()."""
        return Size(self._data.shape)

    @property
    def dtype(self) -> DType:
        """The NumPy dtype of its elements."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self._data.ndim)

    @property
    def device(self) -> Device:
        """Where the array lives: 'cpu', or 'cuda' for a CuPy array."""
        return CUDA if type(self._data).__module__.partition(".")[0] == "cupy" else CPU

    @property
    def is_cuda(self) -> Bool:
        """Whether it lives on a GPU."""
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> Bool:
        """Whether it lives in the computer's own memory."""
        return self.device.type == "cpu"

    @property
    def itemsize(self) -> Int:
        """The bytes of one element."""
        return int(self._data.itemsize)

    @property
    def nbytes(self) -> Int:
        """The bytes of all elements."""
        return int(self._data.nbytes)

    # What PyTorch has other kinds of, and here there is one kind: answers for code that asks.
    is_sparse = is_quantized = is_meta = is_mps = False

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one axis.

        >>> Tensor([[1.0, 2.0]]).size(), Tensor([[1.0, 2.0]]).size(-1)
        ((1, 2), 2)
        """
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of axes.

        >>> Tensor([[1.0]]).dim()
        2
        """
        return self.ndim

    def numel(self) -> int:
        """The number of elements.

        >>> Tensor([[1.0, 2.0]]).numel()
        2
        """
        return int(self._data.size)

    nelement = numel
    ndimension = dim

    def element_size(self) -> Int:
        """The bytes of one element.

        >>> Tensor([1.0]).element_size()
        4
        """
        return int(self._data.itemsize)

    def stride(self, dim: Int | None = None) -> Any:
        """How many elements further the next one along each axis lies in memory, or along one axis.

        >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).T.stride()
        (1, 2)
        """
        steps = tuple(n // self._data.itemsize for n in self._data.strides)
        return steps if dim is None else steps[dim]

    def data_ptr(self) -> Int:
        """The address of its first element.

        >>> x = Tensor([1.0]); x.data_ptr() == x.detach().data_ptr()
        True
        """
        return int(self._data.ctypes.data if isinstance(self._data, np.ndarray) else self._data.data.ptr)

    def get_device(self) -> Int:
        """The GPU's number; -1 for the CPU.

        >>> Tensor([1.0]).get_device()
        -1
        """
        return -1 if self.is_cpu else int(self._data.device.id)

    def is_signed(self) -> Bool:
        """Whether its dtype has negative numbers.

        >>> Tensor([1.0]).is_signed()
        True
        """
        return self._data.dtype.kind not in "bu"

    def is_same_size(self, other: Tensor) -> Bool:
        """Whether two tensors have one shape.

        >>> Tensor([1.0]).is_same_size(Tensor([2]))
        True
        """
        return self.shape == other.shape

    def is_nonzero(self) -> Bool:
        """Whether its only element is not 0.

        >>> Tensor([2.0]).is_nonzero()
        True
        """
        return bool(self)

    def is_pinned(self) -> Bool:
        """Whether its memory is reserved for a GPU: never."""
        return False

    def pin_memory(self) -> Tensor:
        """Itself: there is no other memory to move to.

        >>> Tensor([1.0]).pin_memory()
        tensor([1.])
        """
        return self

    def share_memory_(self) -> Tensor:
        """Itself: threads share its memory as it is."""
        return self

    def apply_(self, function: Callable[[Any], Any]) -> Tensor:
        """Write function(element) in each element's place; slow, and for tensors no graph needs.

        >>> Tensor([1.0, 2.0]).apply_(lambda v: v * 10)
        tensor([10., 20.])
        """
        values = [function(v) for v in self._data.reshape(-1).tolist()]
        self[...] = Tensor(np.array(values, self._data.dtype).reshape(self._data.shape))
        return self

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Bool = False
    ) -> Tensor:
        """A leaf with a copy of `data`, in this tensor's dtype and device.

        >>> Tensor([1.0]).new_tensor([1, 2])
        tensor([1., 2.])
        """
        chosen = self.dtype if dtype is None else dtype
        made = move(Tensor(data, dtype=chosen), self.device if device is None else device)
        return made.requires_grad_(requires_grad)

    def _new(
        self, name: str, shape: tuple[Any, ...], size: Any, dtype: Any, device: Any, requires_grad: Bool
    ) -> Tensor:
        chosen = self._data.dtype if dtype is None else np.dtype(dtype)
        made = new_tensor(getattr(np, name)(shape_of(shape, size, f"new_{name}"), chosen))
        return move(made, self.device if device is None else device).requires_grad_(requires_grad)

    def new_zeros(
        self,
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Bool = False,
    ) -> Tensor:
        """Zeros of another shape, in this tensor's dtype and device.

        >>> Tensor([1]).new_zeros(2)
        tensor([0, 0])
        """
        return self._new("zeros", sizes, size, dtype, device, requires_grad)

    def new_ones(
        self,
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Bool = False,
    ) -> Tensor:
        """Ones of another shape, in this tensor's dtype and device.

        >>> Tensor([1]).new_ones(2)
        tensor([1, 1])
        """
        return self._new("ones", sizes, size, dtype, device, requires_grad)

    def new_empty(
        self,
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Bool = False,
    ) -> Tensor:
        """Whatever is in memory, in another shape and this tensor's dtype and device.

        >>> Tensor([1]).new_empty(2).shape
        (2,)
        """
        return self._new("empty", sizes, size, dtype, device, requires_grad)

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

        >>> Tensor([1.0]).new_full((2,), 7)
        tensor([7., 7.])
        """
        made = self._new("empty", (size,), None, dtype, device, False)
        return made.fill_(fill_value).requires_grad_(requires_grad)

    def new(self, *args: Any) -> Tensor:
        """Old PyTorch's new_empty or new_tensor: `x.new(2, 3)`, `x.new([1, 2])`.

        >>> Tensor([1.0]).new(2, 3).shape
        (2, 3)
        """
        if len(args) == 1 and not isinstance(args[0], (int, Size)):
            return self.new_tensor(args[0])
        return self.new_empty(*args or (0,))

    def is_floating_point(self) -> bool:
        """Whether its elements are floats.

        >>> Tensor([1, 2]).is_floating_point()
        False
        """
        return self._data.dtype.kind == "f"

    def is_complex(self) -> bool:
        """Whether its elements are complex numbers.

        >>> Tensor([1.0, 2j]).is_complex()
        True
        """
        return self._data.dtype.kind == "c"

    def is_contiguous(self) -> bool:
        """Whether its elements lie in memory in the order of its axes.

        >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).T.is_contiguous()
        False
        """
        return bool(self._data.flags.c_contiguous)

    def contiguous(self) -> Tensor:
        """Itself if contiguous, else a copy that is.   dx = g

        >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).T.contiguous().is_contiguous()
        True
        """
        return self if self.is_contiguous() else self.clone()

    # --- differentiation ------------------------------------------------------------------------

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Compute d(self)/d(node) for every node this tensor depends on, and add it to node.grad.

        gradient: the gradient of some final scalar with respect to this tensor; only a tensor with
            one element may leave it out (it is 1 then).
        retain_graph: keep the graph for another backward; otherwise it is consumed on the way.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).backward(gradient=Tensor([1.0, 10.0]))
        >>> x.grad
        array([ 2., 40.], dtype=float32)
        """
        if create_graph:
            raise RuntimeError(
                "backward: .grad is a plain array and cannot be differentiated again; for higher derivatives "
                "write minitorch.autograd.grad(loss, inputs, create_graph=True)"
            )
        if not self.requires_grad:
            raise RuntimeError(
                "backward: this tensor does not require grad: what it was computed from does not, or it was computed "
                "under no_grad() or after detach(), where nothing is recorded. Make the tensors you want gradients for "
                "with requires_grad=True, and compute the loss from them outside no_grad()"
            )
        seed = seed_gradient(self, gradient, "backward")
        if gradient is not None:
            seed = seed.copy()  # gradients of this walk may share it; the given array stays the giver's own
        if inputs is None:
            backpropagate([self], [seed], retain_graph=bool(retain_graph))
            return
        wanted = dict.fromkeys([inputs] if isinstance(inputs, Tensor) else inputs)
        if not wanted:
            raise RuntimeError("backward: inputs is empty; leave it away to compute every gradient")
        for i, tensor in enumerate(wanted):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"backward: inputs[{i}] must be a Tensor, got {type(tensor).__name__}")
            if not tensor.requires_grad:
                raise RuntimeError(f"backward: inputs[{i}] does not require grad")
        found = backpropagate([self], [seed], wanted=wanted, retain_graph=bool(retain_graph))
        node.deposit(list(found.items()))

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set requires_grad on a leaf, in place.

        >>> Tensor([1.0]).requires_grad_()
        tensor([1.], requires_grad=True)
        """
        self.requires_grad = requires_grad
        return self

    def detach(self) -> Tensor:
        """The same array, cut off from the graph. It shares memory.

        >>> x = Tensor([1.0], requires_grad=True)
        >>> (x * 2).detach().requires_grad
        False
        """
        return new_tensor(self._data)

    def clone(self) -> Tensor:
        """A copy that stays in the graph.   dx = g

        >>> Tensor([1.0, 2.0]).clone()
        tensor([1., 2.])
        """
        return apply(CLONE, self)

    def retain_grad(self) -> None:
        """Keep `.grad` after backward; here every tensor a person holds does, so this only checks.

        >>> y = Tensor([3.0], requires_grad=True) * 2
        >>> y.retain_grad(); y.sum().backward(); y.grad
        array([1.], dtype=float32)
        """
        if not self.requires_grad:
            raise RuntimeError(
                "retain_grad: this tensor does not require grad, so it will have no gradient to keep"
            )

    @property
    def retains_grad(self) -> bool:
        """Whether a non-leaf keeps its grad: always, if it has one."""
        return self.requires_grad and not self.is_leaf

    @property
    def grad_fn(self) -> GradFn | None:
        """The recorded op that made this tensor, to walk the graph by hand; None for a leaf."""
        return None if self._operation is None else GradFn.of(self)

    def register_hook(self, hook: Callable[[Tensor], Any]) -> HookHandle:
        """Call `hook(gradient)` when this tensor's gradient is computed; what it returns replaces it.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> handle = x.register_hook(lambda g: g * 10)
        >>> x.sum().backward(); x.grad
        array([10., 10.], dtype=float32)
        >>> handle.remove()
        """
        if not self.requires_grad:
            raise RuntimeError(
                "register_hook: this tensor does not require grad, so the hook would never run"
            )
        if self._hooks is None:
            self._hooks = Hooks()
        return HookHandle(self._hooks.on_gradient, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> HookHandle:
        """Call `hook(tensor)` after a backward has added to this leaf's `.grad`.

        >>> x = Tensor([1.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda t: print(t.grad))
        >>> (x * 3).sum().backward()
        [3.]
        """
        if not self.requires_grad or not self.is_leaf:
            raise RuntimeError(
                "register_post_accumulate_grad_hook: only leaves that require grad accumulate one"
            )
        if self._hooks is None:
            self._hooks = Hooks()
        return HookHandle(self._hooks.when_accumulated, hook)

    # --- operators ------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return binary(arithmetic.ADD, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary(arithmetic.ADD, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return binary(arithmetic.SUB, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return binary(arithmetic.SUB, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary(arithmetic.MUL, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return binary(arithmetic.MUL, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return binary(arithmetic.DIV, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return binary(arithmetic.DIV, other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return self.floor_divide(other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return divide_whole(arithmetic.FLOOR_QUOTIENT, other, self)

    def __mod__(self, other: Any) -> Tensor:
        return divide_whole(arithmetic.REMAINDER, self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return divide_whole(arithmetic.REMAINDER, other, self)

    def __pow__(self, other: Any) -> Tensor:
        return power(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return power(other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return matmul(other, self)

    def __neg__(self) -> Tensor:
        return self.neg()

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return self.abs()

    def __invert__(self) -> Tensor:
        return apply(comparison.BITWISE_NOT, self)

    def __and__(self, other: Any) -> Tensor:
        return binary(comparison.BITWISE_AND, self, other)

    def __rand__(self, other: Any) -> Tensor:
        return binary(comparison.BITWISE_AND, other, self)

    def __or__(self, other: Any) -> Tensor:
        return binary(comparison.BITWISE_OR, self, other)

    def __ror__(self, other: Any) -> Tensor:
        return binary(comparison.BITWISE_OR, other, self)

    def __xor__(self, other: Any) -> Tensor:
        return binary(comparison.BITWISE_XOR, self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return binary(comparison.BITWISE_XOR, other, self)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return _compare(comparison.EQUAL, self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _compare(comparison.NOT_EQUAL, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return binary(comparison.LESS, self, other)

    def __le__(self, other: Any) -> Tensor:
        return binary(comparison.LESS_EQUAL, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return binary(comparison.GREATER, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return binary(comparison.GREATER_EQUAL, self, other)

    def __decide__(self, unknown: bool | None) -> bool:
        """Answer an op's question about a condition (see ops/op.py), while rules run on Tensors."""
        decide = getattr(self._data, "__decide__", None)
        return bool(self) if decide is None else decide(unknown)

    # `==` is element by element; a set of tensors goes by identity all the same.
    __hash__ = Node.__hash__

    def equal(self, other: Any) -> bool:
        """Whether shape and all elements are equal: one bool.

        >>> Tensor([1.0, 2.0]).equal(Tensor([1.0, 2.0]))
        True
        """
        theirs = as_tensor(other)._data
        return self._data.shape == theirs.shape and bool((self._data == theirs).all())

    # --- conversions ----------------------------------------------------------------------------

    def astype(self, dtype: Any, copy: bool = True) -> Tensor:
        """The elements in another dtype.   dx = g, in x's dtype

        >>> Tensor([1.7]).astype(np.int64)
        tensor([1])
        """
        return cast(self, dtype)

    def to(
        self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **ignored: Any
    ) -> Tensor:
        """Another dtype or device: x.to(minitorch.float64), x.to("cpu"), x.to(other).

        >>> Tensor([1.0]).to(np.float64).dtype
        dtype('float64')
        """
        for each in args:
            if isinstance(each, Tensor):
                dtype, device = each.dtype, each.device
            elif isinstance(each, (np.dtype, type)):
                dtype = each
            elif isinstance(each, str):
                device = each
            elif isinstance(each, bool) or each is None:
                continue  # non_blocking and copy, by position
            elif isinstance(each, int):
                device = f"cuda:{each}"
            else:
                raise TypeError(f"to: expected a device, a dtype or a Tensor, got {each!r}")
        moved = move(self, device)
        out = moved if dtype is None else cast(moved, dtype)
        return out.clone() if copy and out is self else out

    def type(self, dtype: Any = None) -> Any:
        """The elements in another dtype; without one, its name as PyTorch writes it.

        >>> Tensor([1.0]).type(np.float64).dtype, Tensor([1.0]).type()
        (dtype('float64'), 'torch.FloatTensor')
        """
        if dtype is None:
            return f"torch.{'cuda.' if self.is_cuda else ''}{LEGACY_NAMES[self._data.dtype.name]}"
        return cast(self, legacy_dtype(dtype))

    def type_as(self, other: Tensor) -> Tensor:
        """The elements in another tensor's dtype.

        >>> Tensor([1]).type_as(Tensor([1.0])).dtype
        dtype('float32')
        """
        return cast(self, other.dtype)

    def float(self) -> Tensor:
        """As float32.

        >>> Tensor([1]).float()
        tensor([1.])
        """
        return cast(self, np.float32)

    def double(self) -> Tensor:
        """As float64.

        >>> Tensor([1.0]).double()
        tensor([1.], dtype=float64)
        """
        return cast(self, np.float64)

    def half(self) -> Tensor:
        """As float16.

        >>> Tensor([1.0]).half()
        tensor([1.], dtype=float16)
        """
        return cast(self, np.float16)

    def int(self) -> Tensor:
        """As int32.

        >>> Tensor([1.7]).int()
        tensor([1], dtype=int32)
        """
        return cast(self, np.int32)

    def long(self) -> Tensor:
        """As int64.

        >>> Tensor([1.7]).long()
        tensor([1])
        """
        return cast(self, np.int64)

    def short(self) -> Tensor:
        """As int16.

        >>> Tensor([1.7]).short()
        tensor([1], dtype=int16)
        """
        return cast(self, np.int16)

    def char(self) -> Tensor:
        """As int8.

        >>> Tensor([1.7]).char()
        tensor([1], dtype=int8)
        """
        return cast(self, np.int8)

    def byte(self) -> Tensor:
        """As uint8.

        >>> Tensor([1.7]).byte()
        tensor([1], dtype=uint8)
        """
        return cast(self, np.uint8)

    def bool(self) -> Tensor:
        """As bools: whether not 0.

        >>> Tensor([0.0, 2.0]).bool()
        tensor([False,  True])
        """
        return cast(self, np.bool_)

    def cpu(self, memory_format: Any = None) -> Tensor:
        """In the computer's own memory.

        >>> Tensor([1.0]).cpu()
        tensor([1.])
        """
        return move(self, "cpu")

    def cuda(self, device: Any = None, non_blocking: Any = False) -> Tensor:
        """On the GPU, as a CuPy array; a clear error where there is none."""
        return move(self, "cuda")

    def item(self) -> Any:
        """The only element, as a Python number.

        >>> Tensor([2.5]).item()
        2.5
        """
        if self._data.size != 1:
            raise ValueError(
                f"item: only a tensor with one element is a number, this one has shape {self.shape}; "
                "write x.tolist() or reduce it first"
            )
        return self._data.item()

    def tolist(self) -> Any:
        """The elements as nested Python lists.

        >>> Tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return self._data.tolist()

    def numpy(self, *, force: Any = False) -> np.ndarray:
        """The array itself, sharing memory; of a tensor without a graph.

        >>> Tensor([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        if self.requires_grad and not force:
            raise RuntimeError(
                "numpy: this tensor requires grad, and an array would silently drop its graph; write x.detach().numpy()"
            )
        tensor = move(self, "cpu")
        watch.expose(tensor._data)
        return tensor._data

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = self.numpy()
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
        watch.expose(self._data)
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()

    def __float__(self) -> Any:
        return float(self._scalar("float(x)"))

    def __int__(self) -> Any:
        return int(self._scalar("int(x)"))

    def __index__(self) -> Any:
        if self._data.dtype.kind not in "biu":
            raise TypeError(
                f"only integer tensors of one element can be an index, this one holds {self.dtype}"
            )
        return int(self._scalar("using x as an index"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex(x)"))

    def __bool__(self) -> Any:
        if self._data.size != 1:
            raise RuntimeError(
                f"the truth value of a tensor of shape {self.shape} is ambiguous; write x.any() or x.all()"
            )
        return bool(self._data.item())

    def _scalar(self, spelling: str) -> Any:
        if self._data.size != 1:
            raise ValueError(
                f"{spelling}: only a tensor with one element is a number, this one has shape {self.shape}"
            )
        return self._data.item()

    def __len__(self) -> Any:
        if not self._data.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._data.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> Any:
        return bool((self == element).any())

    def __repr__(self) -> str:
        return printing.text(self)

    def __format__(self, spec: str) -> str:
        return format(self._data.item(), spec) if self._data.ndim == 0 else format(repr(self), spec)

    def _repr_html_(self) -> str:
        return printing.html(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError("deepcopy: only leaves can be copied deeply; write x.detach().clone()")
        copied = Tensor.__new__(type(self))
        memo[id(self)] = copied
        Tensor.__init__(copied, self._data, requires_grad=self.requires_grad)
        if self._grad is not None:
            copied.grad = self.grad.copy()  # type: ignore[union-attr]
        return copied

    def __copy__(self) -> Tensor:
        copied = Tensor.__new__(type(self))
        for name in Node.__slots__:
            if name != "__weakref__" and hasattr(self, name):
                setattr(copied, name, getattr(self, name))
        copied._time = watch.tick()
        return copied

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise RuntimeError("pickle: only leaves can be saved; write x.detach()")
        return (type(self), (self._data, self.requires_grad))

    # --- NumPy's protocols ----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return numpy_protocols.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return numpy_protocols.function(function, args, kwargs, self)

    def __minitorch_op__(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        return apply(op, *inputs, **attributes)


add_twins(Tensor)
node.tensor_class = Tensor


def _compare(op: Op, a: Tensor, b: Any) -> Any:
    # `x == None` and `x == "text"` are Python's own questions; NumPy's arrays answer them by hand.
    if b is None or isinstance(b, str):
        return NotImplemented
    return binary(op, a, b)


def seed_gradient(tensor: Node, gradient: Any, name: str) -> Any:
    """Return the gradient a backward pass starts with, checked; 1 for a single element."""
    data = tensor._data
    if gradient is None:
        if data.size != 1:
            raise RuntimeError(
                f"{name}: the output has shape {tuple(data.shape)}; a gradient can be left out only for one "
                "element. Reduce it to a loss (x.sum(), x.mean()) or pass gradient="
            )
        return np.ones_like(data)
    array = gradient._data if isinstance(gradient, Node) else plain.taken_back(gradient)
    if not is_array(array):
        array = np.asarray(array, dtype=data.dtype)
    if array.shape != data.shape:
        raise RuntimeError(
            f"{name}: gradient has shape {tuple(array.shape)}, but the output has {tuple(data.shape)}"
        )
    return array.astype(data.dtype, copy=False)


class HookHandle:
    """What register_hook returns: remove() takes the hook off again."""

    def __init__(self, hooks: dict[Any, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._number = _hook_number()
        hooks[self._number] = hook
        changed()

    def remove(self) -> None:
        """Take the hook off."""
        self._hooks.pop(self._number, None)
        changed()

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class GradFn:
    """A recorded op, seen from its result: its name, and the ops that made its inputs.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> loss = (x * 2).sum()
    >>> loss.grad_fn
    <SumBackward0>
    >>> loss.grad_fn.next_functions[0][0]
    <MulBackward0>
    >>> loss.grad_fn.next_functions[0][0].next_functions
    ((<AccumulateGrad>, 0),)
    """

    __slots__ = ("_index", "_node")

    def __init__(self, made: Node, index: Any = 0) -> None:
        self._node = made
        self._index = index

    @classmethod
    def of(cls, tensor: Node) -> GradFn:
        """Return the op that made a tensor; for one result of several, the op that made them all."""
        if tensor._operation is node.SELECT and tensor._inputs:
            return cls(tensor._inputs[0], tensor._attributes["index"])
        return cls(tensor)

    def name(self) -> str:
        """The op's name, as PyTorch writes it: AddBackward0; AccumulateGrad for a leaf."""
        operation = self._node._operation
        if operation is None:
            return "AccumulateGrad"
        words = operation.name.replace(".", "_").split("_")
        return "".join(word[:1].upper() + word[1:] for word in words) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, Any], ...]:
        """For each Tensor the op was given: what made it (None if it needs no gradient), and its place there."""
        found: list[tuple[GradFn | None, Any]] = []
        for parent in self._node._prev:
            made_by = GradFn.of(parent) if parent.requires_grad else None
            found.append((made_by, made_by._index if made_by is not None else 0))
        return tuple(found)

    @property
    def variable(self) -> Any:
        """The leaf whose gradient is accumulated here."""
        if self._node._operation is not None:
            raise AttributeError(f"{self.name()} has no variable: only AccumulateGrad, at a leaf, does")
        return self._node

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def __eq__(self, other: object) -> Any:
        return isinstance(other, GradFn) and self._node is other._node

    def __hash__(self) -> Any:
        return hash(self._node)


def check_device(device: Any) -> None:
    """Refuse a device this build does not have."""
    kind = str(device).partition(":")[0]
    if device is not None and kind not in ("cpu", "cuda"):
        raise RuntimeError(f"device: there are 'cpu' and 'cuda', not {device!r}")


def move(tensor: Tensor, device: Any) -> Tensor:
    """Return the tensor on 'cpu' or 'cuda'; itself if it is there."""
    check_device(device)
    kind = None if device is None else str(device).partition(":")[0]
    if kind is None or kind == tensor.device:
        return tensor
    if kind == "cpu":
        return apply(_TO_CPU, tensor)
    try:
        import cupy
    except ImportError:
        raise RuntimeError(
            "cuda: no GPU can be used: CuPy is not installed. In minitorch's folder, on a machine with an NVIDIA "
            "GPU: pip install '.[gpu]'; or stay on 'cpu'"
        ) from None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(f"cuda: CuPy is installed but finds no GPU ({error}); stay on 'cpu'") from None
    return apply(_TO_CUDA, tensor)


def _to_cuda(x: Any) -> Any:
    import cupy

    return cupy.asarray(x)


# Each way is the other's derivative.
_TO_CPU = Op("to_cpu", lambda x: x.get(), lambda g, out, x: _TO_CUDA(g), register=False)
_TO_CUDA: Op = Op("to_cuda", _to_cuda, lambda g, out, x: _TO_CPU(g), register=False)

__all__ = ["GradFn", "HookHandle", "Tensor", "get_default_dtype", "move", "seed_gradient"]
