"""Parameter and Buffer: Tensors that a Module counts as its own. Enters: a Tensor. Leaves: one a Module registers."""

from __future__ import annotations

from typing import Any

from minitorch import creation
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.torch_function import not_for_me
from minitorch.tensor.torch_types import pytorchs

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


class Parameter(Tensor):
    """A Tensor to be learned: assigned to a Module it appears in `parameters()`. It requires grad.

    data: a Tensor (or anything array-like); memory is shared, not copied. What is computed from a
    Parameter is a plain Tensor.

    >>> w = Parameter(minitorch.zeros(2))
    >>> w
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    >>> type(w * 2).__name__
    'Tensor'
    """

    __torch_function__ = classmethod(not_for_me)  # what is computed from a Parameter is a plain Tensor

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Make one that __init__ fills; one of a class with a __new__ of its own is filled at once, as in PyTorch."""
        made = object.__new__(cls)
        if pytorchs.on and cls.__new__ is not Parameter.__new__:
            Parameter.__init__(made, *args, **options)
        return made

    def __init__(self, data: Any = None, requires_grad: bool = True, *more: Any, **unknown: Any) -> None:
        if pytorchs.on and hasattr(self, "_array"):
            return  # a subclass's __new__ has made it, and took what else there is
        if more or unknown:
            raise TypeError(f"Parameter: takes data and requires_grad, got {more or list(unknown)!r} too")
        source = creation.empty(0) if data is None else as_tensor(data)
        super().__init__()
        self._data = source._data
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A Tensor that belongs to a Module but is not learned: assigned to a Module it appears in `buffers()`.

    persistent: whether it is part of the Module's state_dict.

    >>> module = minitorch.nn.Module()
    >>> module.steps = Buffer(minitorch.tensor(0))
    >>> [name for name, _ in module.named_buffers()]
    ['steps']
    """

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        source = creation.empty(0) if data is None else as_tensor(data)
        super().__init__()
        self._data = source._data
        self.persistent = persistent

    def __reduce__(self) -> Any:
        return (_buffer, (self._data, self.persistent))


def _buffer(data: Any, persistent: bool) -> Buffer:
    return Buffer(data, persistent=persistent)


# --- without a shape yet ----------------------------------------------------------------------------------------

# What can be asked of a tensor that has no shape yet, or done with it.
_WITHOUT_SHAPE = {
    "cls_to_become", "cpu", "cuda", "data", "detach", "device", "dtype", "grad", "grad_fn", "is_complex", "is_cpu",
    "is_cuda", "is_floating_point", "is_leaf", "is_meta", "is_sparse", "layout", "materialize", "names", "persistent",
    "requires_grad", "requires_grad_", "share_memory_", "to",
}  # fmt: skip


class UninitializedTensorMixin(Tensor):
    """What a Tensor is until its shape is known: it has a dtype and a device, and no elements."""

    cls_to_become: type[Tensor]

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in _WITHOUT_SHAPE and hasattr(Tensor, name):
            if name == "shape":
                raise RuntimeError(
                    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
                    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
                    "`forward` to initialize the parameters before accessing their attributes."
                )
            raise ValueError(
                f"Attempted to use an uninitialized parameter in {name!r}: it has no shape yet. Call `forward` of the "
                "lazy module with a batch first, or materialize(shape)"
            )
        return super().__getattribute__(name)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it a shape, and whatever is in memory for elements: from now on it is an ordinary one.

        >>> w = UninitializedParameter()
        >>> w.materialize((2, 3)); w.shape
        (2, 3)
        """
        kind = self.dtype if dtype is None else dtype
        made = creation.empty(tuple(shape), device=self.device if device is None else device, dtype=kind)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self.data = made._data

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: Any) -> Any:
        made = memo[id(self)] = type(self)(device=self.device, dtype=self.dtype)
        return made.requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_uninitialized, (type(self), self.requires_grad, self._array.dtype.name))


def _uninitialized(kind: type, requires_grad: bool, dtype: str) -> Any:
    return kind(dtype=dtype).requires_grad_(requires_grad)


def _refusing(name: str) -> Any:
    def refuse(self: Any, *args: Any) -> Any:
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name!r}: it has no shape yet. Call `forward` of the lazy "
            "module with a batch first, or materialize(shape)"
        )

    return refuse


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    for _way in ("", "r", "i"):
        setattr(UninitializedTensorMixin, f"__{_way}{_operator}__", _refusing(_operator))
for _operator in ("neg", "getitem", "setitem", "len", "iter", "float", "lt", "gt", "le", "ge"):
    setattr(UninitializedTensorMixin, f"__{_operator}__", _refusing(_operator))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape is not known yet: lazy layers have such until their first input.

    >>> UninitializedParameter()
    <UninitializedParameter>
    """

    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(creation.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> None:
        super().__init__()
        self._data = creation.empty(0, device=device, dtype=dtype)._data
        self.requires_grad_(requires_grad)


def is_lazy(param: Any) -> bool:
    """Tell whether a parameter or buffer has no shape yet.

    >>> is_lazy(UninitializedParameter()), is_lazy(Parameter())
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)
