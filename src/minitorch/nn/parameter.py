"""Parameter and Buffer: Tensors that a Module counts as its own. Enters: a Tensor. Leaves: one a Module registers."""

from __future__ import annotations

from typing import Any

from minitorch import creation
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.torch_function import not_for_me
from minitorch.tensor.torch_types import pytorchs

__all__ = ["Buffer", "Parameter"]


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
