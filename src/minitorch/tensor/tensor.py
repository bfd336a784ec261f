"""Tensor: the node a person holds. What it is made from, backward(), operators, NumPy's protocols.

Enters: anything array-like. Leaves: a Tensor that records what is done to it and differentiates
itself. The graph and the walk are in engine/; facts, conversions, writing and the methods by family beside this file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine import gpu, meta, watch
from minitorch.engine.backward import Lent, backpropagate, deposit, own_gradient, step_back
from minitorch.engine.complex import meet_complex
from minitorch.engine.dtypes import get_default_dtype, kind_of
from minitorch.engine.node import Node, new_tensor, write_down
from minitorch.engine.record import apply, made_by
from minitorch.engine.recording import changed, recorder
from minitorch.engine.versions import copy_past, inputs_of, let_views_follow, note_viewed, rebased, synced
from minitorch.ops import arithmetic, comparison
from minitorch.ops.native import copied
from minitorch.ops.op import Op
from minitorch.ops.shape import CLONE
from minitorch.ops.sparse import Coo
from minitorch.tensor import plain, printing, torch_function
from minitorch.tensor import protocols as numpy_protocols
from minitorch.tensor.closures import Closure, is_closure
from minitorch.tensor.conversions import Conversions, gradient_beside
from minitorch.tensor.convert import as_array, as_tensor, binary, is_array
from minitorch.tensor.devices import Size, check_device, gpu_of, place_of, preserve_format
from minitorch.tensor.facts import Facts
from minitorch.tensor.grad_fn import GradFn, HookHandle
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
from minitorch.tensor.methods.sparse import Sparse
from minitorch.tensor.methods.special import SpecialFunctions
from minitorch.tensor.methods.statistics import Statistics
from minitorch.tensor.methods.trigonometric import Trigonometry
from minitorch.tensor.torch_types import (
    data_of,
    gradient_of,
    hooks_of,
    keep_graphs,
    note_gradient,
    pytorchs,
)
from minitorch.tensor.writing import Writing, add_in_place_forms


class Tensor(
    Facts,
    Conversions,
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
    Sparse,
    Writing,
    results=True,
):
    """An array that records what is done to it and differentiates itself.

    data: anything array-like; copied. NumPy arrays keep their dtype, Python floats become float32,
        Python ints int64.
    requires_grad: whether gradients shall be computed for it (floats only).
    _prev, _op: what it was computed from, and a name for how, for an op written by hand: `_backward` is then
        assigned a function without arguments that adds to the parents' grad (closures.py).

    >>> w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> loss = (w * w).sum()
    >>> loss.backward()
    >>> w.grad
    array([2., 4., 6.], dtype=float32)
    """

    # A person may give a tensor attributes of their own, as in PyTorch.
    __slots__ = ("__dict__",)

    # NumPy's operators leave `array * tensor` to us.
    __array_priority__ = 1000

    def __init_subclass__(cls, **options: Any) -> None:
        """Note a class of a person's own: under PyTorch's types, results for it are of it (torch_function.py)."""
        super().__init_subclass__(**options)
        if pytorchs.on:
            torch_function.note_class(cls, Tensor)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch_function.not_asked():
            result = func(*args, **(kwargs or {}))
        return result if cls is Tensor else torch_function.as_kind(result, cls)

    def __new__(cls, *args: Any, **options: Any) -> Tensor:
        """Make one that __init__ fills; one of a class with a __new__ of its own is filled at once, as in PyTorch."""
        made = object.__new__(cls)
        if pytorchs.on and cls.__new__ is not Tensor.__new__:
            Tensor.__init__(made, *args, **options)
        return made

    def __init__(
        self,
        data: Any = (),
        requires_grad: Any = False,
        _prev: Any = (),
        _op: Any = "",
        *lengths: Any,
        dtype: Any = None,
        device: Any = None,
        **unknown: Any,
    ) -> None:
        if pytorchs.on and hasattr(self, "_array"):
            return  # a subclass's __new__ has made it, and took what else there is
        if unknown:
            raise TypeError(f"Tensor: got an unexpected keyword argument {next(iter(unknown))!r}")
        if pytorchs.on:
            if isinstance(data, Size) or data.__class__ is int:  # Tensor(2, 3): a shape
                wanted = data if isinstance(data, Size) else (data, requires_grad, _prev, _op, *lengths)
                data = np.zeros([n for n in wanted if n.__class__ is int], get_default_dtype())
                write_down(self, data, None, (), {})
                return
            if dtype is None and requires_grad is False and _prev.__class__ is tuple and not _prev:
                write_down(self, as_tensor(data, get_default_dtype())._data, None, (), {})
                return
        if isinstance(
            requires_grad, tuple
        ):  # Tensor(data, (a, b), "+"): the short form of a node made by hand
            requires_grad, _prev, _op = False, requires_grad, _prev or _op
        check_device(device)
        if requires_grad.__class__ is int:  # Tensor(2, 3): PyTorch's old way to write empty(2, 3)
            raise TypeError(
                f"Tensor({data!r}, {requires_grad!r}, …): the second argument is requires_grad; for a tensor of this "
                "shape write minitorch.empty(…) or minitorch.zeros(…)"
            )
        if not isinstance(_prev, tuple):  # Tensor(data, False, np.float64): a dtype
            dtype, _prev = (_prev, ()) if dtype is None else (dtype, _prev)
        array = as_array(data, dtype, copy=True)
        if device is not None and (where := gpu_of(device)) is not None:
            array = meta.like(array) if where.type == "meta" else gpu.sent(array, where.index)
        write_down(self, array, None, (), {})
        parents = tuple(parent for parent in _prev if isinstance(parent, Node))
        if any(parent._requires_grad for parent in parents):
            self._operation, self._inputs, self._requires_grad = Closure(str(_op), self), parents, True
        elif requires_grad:
            self.requires_grad_()

    # --- the node -------------------------------------------------------------------------------

    @property
    def data(self) -> np.ndarray:
        """The array itself: what is written into it is seen by the tensor. (Under PyTorch's types: a Tensor.)"""
        if pytorchs.on:
            return data_of(self)
        return plain.handed_out(self._data, watched=True)

    @data.setter
    def data(self, value: Any) -> None:
        array = value._data if isinstance(value, Node) else plain.taken_back(value)
        if not hasattr(array, "__array_function__") or isinstance(array, np.generic):
            array = np.asarray(array, dtype=self._array.dtype)
        _check_differentiable(self._requires_grad or array.dtype.kind == "c", array)
        # `p.data -= step` ends here with the same array: it was written into, not replaced.
        watch.touch(array if array is self._data else self, "x.data = …")
        if not isinstance(value, Node):
            watch.share(array)
        self._data = array
        if self._grad is not None and (self._grad.shape != array.shape or self._grad.dtype != array.dtype):
            self._grad = None

    @property
    def grad(self) -> np.ndarray | None:
        """The gradient accumulated by backward(): an array like `data`, or None. (Under PyTorch's types: a Tensor.)"""
        if pytorchs.on:
            return gradient_of(self)
        gradient = own_gradient(self)
        return gradient_of(self) if gradient.__class__ is Coo else plain.handed_out(gradient)

    @grad.setter
    def grad(self, value: Any) -> None:
        if self._hooks is not None:
            self._hooks.gradient = None
        if value is None:
            self._grad = None
            return
        gradient = plain.taken_back(value._data if isinstance(value, Node) else value)
        if not hasattr(gradient, "__array_function__"):
            gradient = np.asarray(gradient, dtype=self._array.dtype)
        if gradient.shape != self._data.shape:
            raise RuntimeError(
                f"grad: a gradient has its tensor's shape {self._data.shape}, but got {gradient.shape}; "
                "sum it over the broadcast axes first (minitorch.ops.unbroadcast)"
            )
        if gradient.dtype != self._array.dtype:
            gradient = gradient.astype(self._array.dtype)
        if gpu.differ(gradient, self._data):
            raise RuntimeError(
                f"grad: assigned grad has data located on a different device: it lies on '{place_of(gradient)}', its "
                f"tensor on '{self.device}'; write grad.to({str(self.device)!r})"
            )
        self._grad = np.asarray(gradient) if isinstance(gradient, np.generic) else gradient
        self._grad_is_shared = False
        if pytorchs.on and isinstance(value, Node):
            note_gradient(self, value)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow here."""
        return synced(self)._requires_grad if rebased else self._requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        _check_differentiable(wanted, self._data)
        if self._operation is not None and not wanted:
            raise RuntimeError(
                "requires_grad: only a leaf's flag can be changed; write x.detach() to cut it off"
            )
        if bool(wanted) != self._requires_grad and (active := recorder()) is not None:
            active.flagging(self)
        self._requires_grad = bool(wanted)
        if wanted and self._view is not None:
            let_views_follow(watch.tick())
        changed()

    @property
    def is_leaf(self) -> bool:
        """Whether a person made it, rather than a recorded op."""
        return synced(self)._operation is None

    @property
    def _prev(self) -> tuple[Tensor, ...]:
        return tuple(i for i in inputs_of(made_by(synced(self))) if isinstance(i, Node))  # type: ignore[misc]

    @property
    def _op(self) -> str:
        operation = made_by(synced(self))._operation
        return "" if operation is None else operation.name

    @property
    def _backward(self) -> Callable[[], None]:
        """Add this node's contribution to its parents' grad: one step of the chain rule."""
        return lambda: step_back(self)

    @_backward.setter
    def _backward(self, function: Callable[[], None]) -> None:
        if not is_closure(self._operation):
            raise RuntimeError(
                "_backward: can be assigned to a tensor made by hand from tensors that require grad: "
                "out = Tensor(data, _prev=(a, b), _op='name'); for a derivative of your own write minitorch.op(…)"
            )
        self._operation.function = function  # type: ignore[union-attr]

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
        if create_graph and not pytorchs.on:
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
        if gradient is not None and inputs is None and not create_graph and Lent.suits(seed, self):
            lent = Lent([seed])
            try:
                backpropagate([self], [seed], retain_graph=bool(retain_graph), lent=lent)
            finally:
                # `f(x).backward(g)`: then nobody holds this tensor any more, and nobody can ask for its gradient.
                del self
                lent.give_back(drop=pytorchs.on)
            return
        if gradient is not None:
            seed = copied(seed)  # gradients of this walk may share it; the given array stays the giver's own
        if create_graph:
            start = gradient if isinstance(gradient, Node) else new_tensor(seed)
            keep_graphs([self], [start], inputs, retain_graph)
            return
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
        deposit([(tensor, gradient, True) for tensor, gradient in found.items()])

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
        note_viewed(self)
        array = self._data
        return new_tensor(array.like(array.values) if array.__class__ is Coo else array)

    def clone(self, *, memory_format: Any = preserve_format) -> Tensor:
        """A copy that stays in the graph.   dx = g

        >>> Tensor([1.0, 2.0]).clone()
        tensor([1., 2.])
        """
        if memory_format == preserve_format or memory_format is None:
            return apply(CLONE, self)
        out = self.contiguous(memory_format)
        return apply(CLONE, self) if out is self else out

    @staticmethod
    def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
        """A tensor of another class over the same memory: what __new__ of such a class calls."""
        made = object.__new__(cls)
        note_viewed(data)
        write_down(made, data._data, None, (), {})
        if require_grad:
            made.requires_grad_()
        return made

    def as_subclass(self, cls: type[Tensor]) -> Any:
        """The same tensor, graph and memory, as one of another class.

        >>> class Image(Tensor): ...
        >>> type(minitorch.ones(2).as_subclass(Image)).__name__
        'Image'
        """
        source = self.view(self.shape) if self.requires_grad else self.detach()
        made = object.__new__(cls)
        _copy_node(source, made)
        return made

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
        if pytorchs.on and not self.is_leaf:
            hooks_of(self).retains = True

    @property
    def retains_grad(self) -> bool:
        """Whether a non-leaf keeps its grad: always, if it has one. (Under PyTorch's types: if it was asked to.)"""
        retains = not pytorchs.on or (self._hooks is not None and self._hooks.retains)
        return retains and self.requires_grad and not self.is_leaf

    @property
    def grad_fn(self) -> GradFn | None:
        """The recorded op that made this tensor, to walk the graph by hand; None for a leaf."""
        return None if synced(self)._operation is None else GradFn.of(self)

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
        return HookHandle(hooks_of(self).on_gradient, hook)

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
        return HookHandle(hooks_of(self).when_accumulated, hook)

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

    def __repr__(self) -> str:
        return printing.text(self)

    def __format__(self, spec: str) -> str:
        return format(self._data.item(), spec) if self._array.ndim == 0 else format(repr(self), spec)

    def _repr_html_(self) -> str:
        return printing.html(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError("deepcopy: only leaves can be copied deeply; write x.detach().clone()")
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        write_down(copied, self._data.copy(), None, (), {})
        copied.requires_grad = self.requires_grad
        if self._grad is not None:
            copied._grad, copied._grad_is_shared = self._grad.copy(), False
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def __copy__(self) -> Tensor:
        copied = object.__new__(type(self))
        _copy_node(self, copied)
        vars(copied).update(vars(self))
        return copied

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise RuntimeError("pickle: only leaves can be saved; write x.detach()")
        return (_rebuilt, (type(self), self._data, self.requires_grad, vars(self)))

    # --- NumPy's protocols ----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return numpy_protocols.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return numpy_protocols.function(function, args, kwargs, self)

    def __minitorch_op__(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        return apply(op, *inputs, **attributes)


add_in_place_forms(Tensor)


def _copy_node(source: Tensor, copied: Tensor) -> None:
    """Let a new tensor be at another's place in the graph, over its memory."""
    for name in Node.__slots__:
        if name != "__weakref__" and hasattr(source, name):
            setattr(copied, name, getattr(source, name))
    copied._time = watch.tick()
    copy_past(source, copied)
    note_viewed(source)


def _rebuilt(kind: type[Tensor], data: Any, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    """Return what a pickle holds: a tensor of a class, around its array."""
    tensor = object.__new__(kind)
    write_down(tensor, data, None, (), {})
    tensor.requires_grad = requires_grad
    if attributes:
        vars(tensor).update(attributes)
    return tensor


def _check_differentiable(wanted: bool, array: Any) -> None:
    if wanted and kind_of(array.dtype) != "f":
        if array.dtype.kind == "c":
            meet_complex()
            return
        raise RuntimeError(
            "requires_grad: only floating-point and complex tensors can require gradients, this one holds "
            f"{array.dtype}; write x.float() first"
        )


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
    array = gradient_beside(array, data, f"{name}: the gradient")
    array = getattr(array, "_data", array)
    if array.shape != data.shape:
        raise RuntimeError(
            f"{name}: gradient has shape {tuple(array.shape)}, but the output has {tuple(data.shape)}"
        )
    return array if array.dtype is data.dtype else array.astype(data.dtype, copy=False)
