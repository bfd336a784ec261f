"""PyTorch's own types, and the switch that says whether they hold. Enters: on or off. Leaves: what Tensors show.

Off, as `import minitorch` finds it: `.data` and `.grad` are NumPy arrays, `x.dtype` is NumPy's, `Tensor(array)` keeps
its dtype. On, as `install_as_torch()` leaves it: `.data` and `.grad` are Tensors, a non-leaf's `.grad` is None
unless it was retained, `x.dtype` is a `dtype` of this file, `Tensor(array)` is float32 and `Tensor(2, 3)` is a shape.
The switch is the process's. Inside this library nobody goes through what it changes: arrays are `_data` and `_grad`.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from minitorch.engine import dtypes
from minitorch.engine.backward import backpropagate, collect, own_gradient
from minitorch.engine.hooks import Hooks
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.recording import changed
from minitorch.engine.versions import UNNOTICED, note_viewed, synced


class Types:
    """The switch. on: whether PyTorch's types hold."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False


pytorchs = Types()


def use_pytorchs_types(on: bool = True) -> None:
    """Let PyTorch's types hold in this process, or no longer.

    >>> use_pytorchs_types()
    >>> x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward(); x.grad, x.dtype, x.shape
    (tensor([2., 4.]), torch.float32, torch.Size([2]))
    >>> use_pytorchs_types(False)
    >>> x.grad
    array([2., 4.], dtype=float32)
    """
    pytorchs.on = bool(on)
    changed()


class dtype:
    """A dtype as PyTorch shows it: prints as torch.float32, equals NumPy's, goes wherever NumPy's goes.

    >>> float32 = DTYPES[np.dtype("float32")]
    >>> float32, float32.is_floating_point, float32.itemsize, float32 == np.float32, np.zeros(2, float32).dtype
    (torch.float32, True, 4, True, dtype('float32'))
    """

    __slots__ = ("__weakref__", "dtype")
    __module__ = "torch"  # as PyTorch's files name it

    def __init__(self, numpys: Any) -> None:
        self.dtype = np.dtype(numpys)  # where NumPy looks, given something in a dtype's place

    @property
    def is_floating_point(self) -> bool:
        """Whether its numbers are floats."""
        return dtypes.kind_of(self.dtype) == "f"

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return self.dtype.kind == "c"

    @property
    def is_signed(self) -> bool:
        """Whether it has negative numbers."""
        return dtypes.kind_of(self.dtype) in "ifc"

    def to_real(self) -> dtype:
        """Return the dtype of a real part."""
        return shown(np.empty(0, self.dtype).real.dtype)

    def to_complex(self) -> dtype:
        """Return the dtype of complex numbers with such parts."""
        return shown(np.promote_types(self.dtype, np.complex64))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None:  # which NumPy takes for float64
            return False
        try:
            return bool(self.dtype == np.dtype(other))  # type: ignore[call-overload]
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"torch.{self.dtype.name}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "dtype":
            raise AttributeError(name)
        return getattr(self.dtype, name)

    def __reduce__(self) -> Any:
        return (shown, (self.dtype,))

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self


# One object for each, so that `x.dtype is torch.float32`.
DTYPES: dict[Any, dtype] = {
    each: dtype(each)
    for each in (
        dtypes.bool_, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.int8, dtypes.int16,
        dtypes.int32, dtypes.int64, dtypes.float16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128,
    )
}  # fmt: skip


def shown(numpys: Any) -> Any:
    """Return PyTorch's dtype of NumPy's; one that PyTorch does not have as it is."""
    found = DTYPES.get(numpys)
    if found is None and isinstance(numpys, np.dtype) and dtypes.is_bfloat16(numpys):
        found = DTYPES[numpys] = dtype(numpys)  # (known only where the package that has it is installed)
    return numpys if found is None else found


def is_dtype(thing: Any) -> bool:
    """Tell whether an argument is a dtype: NumPy's, PyTorch's, or a class of numbers."""
    return isinstance(thing, (np.dtype, dtype, type))


# `p.grad is p.grad`: while someone holds the Tensor around an array, others get the same one.
_gradients: WeakValueDictionary[int, Any] = WeakValueDictionary()


def gradient_of(tensor: Any) -> Any:
    """Return a tensor's `.grad` as PyTorch has it: a Tensor; None for a non-leaf that does not retain it."""
    hooks = tensor._hooks
    if synced(tensor)._operation is not None and (hooks is None or not hooks.retains):
        return None
    array = own_gradient(tensor)
    if array is None:
        return None
    if hooks is not None and hooks.gradient is not None and hooks.gradient._data is array:
        return hooks.gradient  # it has a graph of its own
    found = _gradients.get(id(array))
    if found is None or found._data is not array:
        found = _gradients[id(array)] = new_tensor(array)
    return found


def note_gradient(tensor: Any, gradient: Node) -> None:
    """Remember the Tensor that was given as a tensor's `.grad`: it is the one to be shown, with its graph."""
    if gradient._data is not tensor._grad:
        return
    if gradient.requires_grad:
        hooks_of(tensor).gradient = gradient
    else:
        _gradients[id(gradient._data)] = gradient


def keep_graphs(roots: Any, seeds: Any, inputs: Any, retain_graph: bool | None) -> None:
    """Walk backwards so that gradients have graphs of their own (`backward(create_graph=True)`), and keep them."""
    order = collect(roots)
    wanted = [inputs] if isinstance(inputs, Node) else inputs
    if wanted is None:
        wanted = [n for n in order if n._operation is None or (n._hooks is not None and n._hooks.retains)]
    keep = True if retain_graph is None else retain_graph
    found = backpropagate(roots, seeds, wanted=set(wanted), retain_graph=keep, create_graph=True)
    for tensor, gradient in found.items():
        held = gradient_of(tensor)
        graph: Any = gradient if isinstance(gradient, Node) else new_tensor(gradient)
        # A copy, as PyTorch's: a rule may give a view, and a view cannot be cut off from its graph (p.grad.detach_()).
        tensor.grad = graph.clone() if held is None else held + graph  # type: ignore[attr-defined]


def hooks_of(tensor: Any) -> Hooks:
    """Return a tensor's hooks, made if there are none yet."""
    if tensor._hooks is None:
        tensor._hooks = Hooks()
    return tensor._hooks


def data_of(tensor: Any) -> Any:
    """Return a tensor's `.data` as PyTorch has it: without a graph, over its memory; writing into it is not noticed."""
    note_viewed(tensor)
    data = new_tensor(tensor._data)
    data._view = UNNOTICED
    return data
