"""What `.data` and `.grad` hand out: a NumPy array that also understands PyTorch's spelling.

Enters: an array, without a copy. Leaves: the same memory as a PlainArray, which is a numpy.ndarray in every
respect (printed form, indexing, ufuncs, files) and beyond that knows every method of Tensor: `p.grad.zero_()`,
`p.data.add_(step, alpha=-0.1)`, `x.grad.norm()`, `p.grad.data.clamp_(-1, 1)`.

Where both libraries have a method of one name and mean different things:
- NumPy's words (`axis=`, `keepdims=`, `ddof=`, `out=`) and NumPy's functions (`np.std(g)`) mean NumPy's.
- PyTorch's words (`dim=`, `keepdim=`, `unbiased=`, `correction=`, `descending=`) mean PyTorch's.
- With neither, it is NumPy's, except where PyTorch's programs would silently get something else: `std`, `var`,
  `max`/`min` along an axis (`out.data.max(1)[1]`: values and indices), `sort` (likewise; NumPy's sorts the array
  itself) and `repeat` with a count for each axis are PyTorch's. So is the dtype of arithmetic with integers:
  `x.data / 2` is float32, where NumPy's would be float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from minitorch.engine import node, watch
from minitorch.engine.node import Node, new_tensor

_PYTORCHS_WORDS = {"dim", "keepdim", "unbiased", "correction", "descending"}


class Count(int):
    """How many elements: NumPy's `x.size`, and, called, PyTorch's `x.size()` and `x.size(0)`."""

    shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        """Return the shape, or the length of one axis."""
        return self.shape if dim is None else self.shape[dim]


class PyTorchsSpelling:
    """What makes an array (NumPy's, or one that is recorded) understand Tensor's methods too.

    `_memory`: the array as the engine keeps it. `_like`: another array of the engine's, as this kind.
    """

    __slots__ = ()

    def _memory(self) -> Any:
        raise NotImplementedError

    def _like(self, array: Any) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        # Python asks here only for what the arrays do not have.
        if name.startswith("_") or not hasattr(node.result_class, name):
            raise AttributeError(f"neither NumPy's arrays nor Tensors have an attribute {name!r}")
        found = getattr(new_tensor(self._memory()), name)
        return partial(_call, self, name) if callable(found) else _handed_back(self, None, found)

    @property
    def data(self) -> Any:
        """The array itself: PyTorch's `p.grad.data`. (NumPy's buffer is `memoryview(x)`.)"""
        return self

    @property
    def size(self) -> Count:
        """The number of elements; called, the shape."""
        of: Any = super()
        count = Count(of.size)
        count.shape = of.shape
        return count

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """NumPy's view as another dtype or class; with lengths, PyTorch's: another shape."""
        lengths = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if lengths and all(isinstance(n, (int, np.integer)) for n in lengths) and not kwargs:
            return _call(self, "view", *lengths)
        of: Any = super()
        return of.view(*args, **kwargs)

    def transpose(self, *axes: Any) -> Any:
        """NumPy's permutation of all axes; two ints exchange these, as in PyTorch."""
        of: Any = super()
        if len(axes) == 2:
            return of.swapaxes(*axes)
        return of.transpose(*axes)

    def flatten(self, *args: Any, **kwargs: Any) -> Any:
        """NumPy's copy with one axis; with ints, PyTorch's: the axes from one to another made one."""
        if {*kwargs} & {"start_dim", "end_dim"} or (args and isinstance(args[0], int)):
            return _call(self, "flatten", *args, **kwargs)
        of: Any = super()
        return of.flatten(*args, **kwargs)

    def __round__(self, digits: int = 0) -> Any:
        of: Any = super()
        return of.round(digits)


class PlainArray(PyTorchsSpelling, np.ndarray):
    """A NumPy array that also takes Tensor's methods; they compute on the same memory, without a graph.

    >>> import minitorch
    >>> w = minitorch.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> w.grad
    array([6., 8.], dtype=float32)
    >>> w.grad.norm().item(), w.grad.size()
    (10.0, (2,))
    >>> w.data.add_(w.grad, alpha=-0.5); w.grad.zero_(); w
    array([0., 0.], dtype=float32)
    array([0., 0.], dtype=float32)
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # A reduction to one element stays an array of no axes: `(lr * p.grad).std().log10()` goes on.
        return array if type(array) is PlainArray else array.view(PlainArray)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # NumPy's functions compute on NumPy's arrays: what they call inside (`sort` in np.unique) means NumPy's.
        if not all(issubclass(kind, np.ndarray) for kind in types):
            return NotImplemented
        return _as_plain(function(*_as_numpy(args), **_as_numpy(kwargs)))

    def _memory(self) -> np.ndarray:
        return np.asarray(self)

    def _like(self, array: Any) -> Any:
        array = watch.memory_of(array)
        return array.view(PlainArray) if type(array) is np.ndarray else array

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.asarray(self).__reduce_ex__(protocol)


def _as_numpy(given: Any) -> Any:
    """Return arguments with NumPy's own arrays in place of these, without a copy."""
    if type(given) is PlainArray:
        return np.asarray(given)
    if type(given) in (list, tuple):
        return type(given)(_as_numpy(each) for each in given)
    return {name: _as_numpy(each) for name, each in given.items()} if type(given) is dict else given


def _as_plain(answer: Any) -> Any:
    """Return what a function of NumPy gave, arrays as PlainArrays."""
    if type(answer) is np.ndarray:
        return answer.view(PlainArray)
    return type(answer)(map(_as_plain, answer)) if type(answer) in (list, tuple) else answer


def _handed_back(array: PyTorchsSpelling, tensor: Any, answer: Any) -> Any:
    """Return what a Tensor's method gave, as arrays: this one itself where it was written into."""
    if isinstance(answer, Node):
        if answer.requires_grad:
            return answer  # one of the arguments has a graph: so has the result
        if tensor is not None and answer._data is tensor._data:
            return array
        return array._like(answer._data)
    if isinstance(answer, tuple) and any(isinstance(part, Node) for part in answer):
        parts = [_handed_back(array, tensor, part) for part in answer]
        return type(answer)(*parts) if hasattr(answer, "_fields") else type(answer)(parts)
    return answer


def _call(array: PyTorchsSpelling, name: str, *args: Any, **kwargs: Any) -> Any:
    tensor = new_tensor(array._memory())
    args = tuple(new_tensor(a._memory()) if isinstance(a, PyTorchsSpelling) else a for a in args)
    return _handed_back(array, tensor, getattr(tensor, name)(*args, **kwargs))


def _both(name: str) -> Any:
    """Make a method that both libraries have, and that means what its words mean."""

    def method(self: PyTorchsSpelling, *args: Any, **kwargs: Any) -> Any:
        pytorchs = bool(kwargs.keys() & _PYTORCHS_WORDS)
        if name in ("std", "var"):
            pytorchs = pytorchs or not kwargs
        elif name in ("max", "min"):
            pytorchs = pytorchs or (bool(args) and not kwargs and args[0] is not None)
        elif name == "sort":
            pytorchs = pytorchs or not kwargs
        elif name == "repeat":  # a count for each axis
            pytorchs = pytorchs or (not kwargs and len(args) >= self.ndim > 0)
        if pytorchs:
            return _call(self, name, *args, **kwargs)
        return getattr(super(PyTorchsSpelling, self), name)(*args, **kwargs)

    documentation = getattr(np.ndarray, name).__doc__
    method.__name__, method.__doc__ = name, documentation and documentation.partition("\n\n")[0]
    return method


for _name in (
    *("all", "any", "argmax", "argmin", "argsort", "cumprod", "cumsum", "diagonal", "max", "mean", "min"),
    *("prod", "repeat", "sort", "squeeze", "std", "sum", "var"),
):
    setattr(PyTorchsSpelling, _name, _both(_name))


def _operator(name: str) -> Any:
    """Make an arithmetic operator: NumPy's, but where that widens integers to float64 it is PyTorch's."""

    def method(self: PyTorchsSpelling, other: Any) -> Any:
        of: Any = super(PyTorchsSpelling, self)
        answer = getattr(of, name)(other)
        wide = answer is not NotImplemented and answer.dtype == np.float64 != of.dtype
        if wide and getattr(other, "dtype", None) != np.float64:
            return _call(self, name, other)
        return answer

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _spelled in (f"__{_name}__", f"__r{_name}__"):
        setattr(PyTorchsSpelling, _spelled, _operator(_spelled))


# `p.grad is p.grad`: while someone holds the view of an array, others get the same one.
_views: WeakValueDictionary[tuple[int, bool], PlainArray] = WeakValueDictionary()


def handed_out(array: Any, watched: bool = False) -> Any:
    """Return an array as a person gets it: the same memory, as a PlainArray.

    watched: what is written into it is to be noticed, because a graph may need the values.
    """
    array = watch.memory_of(array)
    if type(array) is not np.ndarray:
        # An array that is recorded (compiler/trace) hands out one of its own kind; a device's is left as it is.
        return array.__minitorch_plain__() if hasattr(array, "__minitorch_plain__") else array
    view = _views.get((id(array), watched))
    if view is None or watch.beneath(view) is not array:
        memory = watch.hand_out(array) if watched else array
        view = _views[id(array), watched] = memory.view(PlainArray)
    return view


def taken_back(array: Any) -> Any:
    """Return an array as the engine keeps it: NumPy's own kind, the very one that was handed out if it is it."""
    if not isinstance(array, PlainArray):
        return array._memory() if isinstance(array, PyTorchsSpelling) else array
    base = watch.beneath(array)
    same = type(base) is np.ndarray and (base.shape, base.strides, base.dtype) == (
        array.shape,
        array.strides,
        array.dtype,
    )
    return base if same else np.asarray(array)
