"""What `.data` and `.grad` hand out while a function is recorded: a Traced that also understands PyTorch's spelling.

Enters: the Traced that a Tensor, or its gradient, is. Leaves: a `PlainTraced`, which looks at the same value: what is
written into one is seen by the other. As outside (tensor/plain.py), what is computed from one is one again.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from minitorch.compiler.trace.traced import HANDLERS, METHODS, OPERATORS, Traced
from minitorch.engine import watch
from minitorch.tensor.plain import PlainArray, PyTorchsSpelling


class _GivesItsOwnKind(Traced):
    """A Traced whose methods and operators give PlainTraced."""

    __slots__ = ()

    _source: Any  # what it looks at: the Traced that the engine keeps

    device = property(lambda self: self._array.device)
    T = property(lambda self: self.transpose())
    mT = property(lambda self: _plain(np.swapaxes(self._source, -1, -2)))
    real = property(lambda self: _plain(self._source.real))
    imag = property(lambda self: _plain(self._source.imag))

    def sort(self, axis: int = -1, **options: Any) -> None:
        """Order the elements along an axis, in place."""
        ordered: Any = np.sort(self._source, axis, **options)
        self.assign(ordered)

    def argsort(self, *args: Any, **options: Any) -> Any:
        """Return the places of the elements in order."""
        return _plain(np.argsort(self._source, *args, **options))

    def std(self, *args: Any, **options: Any) -> Any:
        """Return NumPy's standard deviation."""
        return _plain(np.std(self._source, *args, **options))

    def var(self, *args: Any, **options: Any) -> Any:
        """Return NumPy's variance."""
        return _plain(np.var(self._source, *args, **options))


def _giving_its_own_kind(name: str) -> Any:
    of_traced = getattr(Traced, name)

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return _plain(of_traced(self, *args, **options))

    return method


for _name in (*METHODS, *OPERATORS):
    setattr(_GivesItsOwnKind, _name, _giving_its_own_kind(_name))


class PlainTraced(PyTorchsSpelling, _GivesItsOwnKind):
    """A Traced that also takes Tensor's methods; they are recorded on the same value, without a graph."""

    __slots__ = ()

    def _memory(self) -> Any:
        return self._source

    def _like(self, array: Any) -> Any:
        return _plain(array)

    def __minitorch_plain__(self) -> PlainTraced:
        return self

    def assign(self, new: Traced) -> None:
        """Write, and report it: a graph may need the values, and outside this is noticed."""
        super().assign(new)
        watch.touch(self._source)

    def __setitem__(self, key: Any, new: Any) -> None:
        super().__setitem__(key, new._source if isinstance(new, PlainTraced) else new)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _plain(super().__array_ufunc__(ufunc, method, *inputs, **options))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        result = super().__array_function__(function, types, args, options)
        if not isinstance(result, Traced) or isinstance(result, PlainTraced):
            return result
        # Some of NumPy's functions keep an array's class, others do not: NumPy itself says which.
        with np.errstate(all="ignore"):
            answer = function(
                *(_as_numpy(each) for each in args), **{k: _as_numpy(v) for k, v in options.items()}
            )
        return _plain(result) if isinstance(answer, PlainArray) else result


def _as_numpy(thing: Any) -> Any:
    if isinstance(thing, Traced):
        array = thing.array.copy()
        return array.view(PlainArray) if isinstance(thing, PlainTraced) else array
    return type(thing)(map(_as_numpy, thing)) if type(thing) in (tuple, list) else thing


# `p.grad is p.grad`: while someone holds what was handed out, others get the same one.
_handed_out: WeakValueDictionary[int, PlainTraced] = WeakValueDictionary()


def _plain(traced: Any) -> Any:
    """Return a Traced as a person gets it; anything else as it is."""
    if not isinstance(traced, Traced) or isinstance(traced, PlainTraced) or traced.is_masked:
        return traced
    found = _handed_out.get(id(traced))
    if found is None or found._source is not traced:
        found = PlainTraced(traced.value, traced.array, traced.known)
        found.look_at(traced, lambda source: source, lambda source, view: view)
        _handed_out[id(traced)] = found
    return found


HANDLERS["plain"] = _plain
