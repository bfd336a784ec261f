"""Containers: Modules and Parameters in sequences and dictionaries. Enters: Modules. Leaves: a Module that holds them.

A plain Python list hides its modules from `parameters()` and `state_dict()`; these do not.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import Any, TypeVar, overload

from minitorch.engine.recording import changed
from minitorch.nn.module import Module, indented
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

S = TypeVar("S", bound="_Numbered")


def _place(index: Any, length: int, *, end: bool = False) -> int:
    """Return an index counted from 0; `end` allows the place after the last."""
    number = operator.index(index)
    if not -length <= number < length + end:
        raise IndexError(f"index {number} is out of range")
    return number + length if number < 0 else number


class _Numbered(Module):
    """Children named '0', '1', '2', … and what they share with a Python list."""

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def _listed(self) -> list[Any]:
        return list(self._modules.values())

    def _key(self, index: Any) -> str:
        return list(self._modules)[_place(index, len(self._modules))]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listed())

    def __dir__(self) -> list[str]:
        return super().__dir__()

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._listed()
        del modules[index if isinstance(index, slice) else _place(index, len(modules))]
        self._renumber(modules)

    def append(self: S, module: Module) -> S:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Insert a module before an index."""
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}.insert: expected a Module, got {type(module).__name__}")
        modules = self._listed()
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self: S, modules: Iterable[Module]) -> S:
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend: expected an iterable of Modules, got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove a module and return it."""
        module = self[key]  # type: ignore[index]
        del self[key]
        return module


class Sequential(_Numbered):
    """Modules one after the other, each given what the one before returned.

    >>> from minitorch.nn import Linear, ReLU, Sequential
    >>> net = Sequential(Linear(2, 8), ReLU(), Linear(8, 1))
    >>> net(minitorch.zeros(4, 2)).shape
    (4, 1)
    >>> net[:2]
    Sequential(
      (0): Linear(in_features=2, out_features=8, bias=True)
      (1): ReLU()
    )
    >>> from collections import OrderedDict
    >>> Sequential(OrderedDict(hidden=Linear(2, 8))).hidden
    Linear(in_features=2, out_features=8, bias=True)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else None
        for name, module in named if named is not None else ((str(i), m) for i, m in enumerate(args)):
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Run the modules in order."""
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [self._key(index)]:
            del self._modules[key]
        changed()
        # Names given by a person stay; numbers are counted anew, so that the next append finds its place.
        if all(key.isdigit() for key in self._modules):
            self._renumber(self._listed())

    def insert(self, index: int, module: Module) -> Sequential:
        """Insert a module before an index."""
        _place(index, len(self), end=True)
        return super().insert(index, module)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential + {type(other).__name__}: only another Sequential can be added")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential += {type(other).__name__}: only another Sequential can be added")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*(list(self) * _times(times)))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        modules = list(self)
        for _ in range(_times(times) - 1):
            self.extend(modules)
        return self


def _times(number: Any) -> int:
    if not isinstance(number, int):
        raise TypeError(f"Sequential * {type(number).__name__}: an int says how many times")
    if number <= 0:
        raise ValueError(f"Sequential * {number}: the number of times must be positive")
    return number


class ModuleList(_Numbered):
    """A list of Modules; what is done with them is up to forward.

    >>> from minitorch.nn import Linear, ModuleList
    >>> layers = ModuleList(Linear(4, 4) for _ in range(3))
    >>> len(layers), layers[-1]
    (3, Linear(in_features=4, out_features=4, bias=True))
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=4, out_features=4, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._listed()[index])
        return self._modules[self._key(index)]

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before an index."""
        super().insert(index, module)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        # Neighbours that look alike are shown once: (0-2): 3 x Linear(…).
        if not self._modules:
            return f"{self._get_name()}()"
        lines = []
        first = 0
        for text, same in groupby(repr(module) for module in self):
            count = len(list(same))
            place = f"({first})" if count == 1 else f"({first}-{first + count - 1})"
            lines.append(f"{place}: {'' if count == 1 else f'{count} x '}{indented(text)}")
            first += count
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"


class ModuleDict(Module):
    """A dictionary of Modules, in order of insertion.

    >>> from minitorch.nn import Linear, ModuleDict, ReLU
    >>> parts = ModuleDict({"body": Linear(2, 3), "act": ReLU()})
    >>> parts["act"]
    ReLU()
    >>> list(parts.keys())
    ['body', 'act']
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]
        changed()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove everything."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return (name, module) pairs."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules, from a mapping or (name, module) pairs."""
        for name, module in _pairs(modules, type(self).__name__):
            self[name] = module


def _pairs(entries: Any, who: str) -> list[tuple[str, Any]]:
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise TypeError(f"{who}: expected a mapping or (name, value) pairs, got {type(entries).__name__}")
    pairs = []
    for i, pair in enumerate(entries):
        if not isinstance(pair, Iterable) or isinstance(pair, (str, Tensor)) or len(list(pair)) != 2:
            raise ValueError(f"{who}: element {i} must be a (name, value) pair, got {pair!r}")
        pairs.append(tuple(pair))
    return pairs


def _kept(value: Any) -> Any:
    """Make a plain Tensor a Parameter, as parameter containers do; leave anything else."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _lines_of(items: Iterable[tuple[Any, Any]]) -> str:
    lines = []
    for key, value in items:
        if isinstance(value, Tensor):
            kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
            place = " (GPU)" if value.device != "cpu" else ""
            size = "x".join(str(n) for n in value.shape)
            lines.append(f"  ({key}): {kind} containing: [{value.dtype} of size {size}{place}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(value).__name__}")
    return "\n".join(lines)


class ParameterList(Module):
    """A list of Parameters; plain Tensors become Parameters.

    >>> from minitorch.nn import ParameterList
    >>> weights = ParameterList([minitorch.zeros(2), minitorch.zeros(3)])
    >>> len(list(weights.parameters())), list(weights.state_dict())
    (2, ['0', '1'])
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, str(_place(index, self._size)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_place(index, self._size)), _kept(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self._size)])

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several parameters at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values)}")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def extra_repr(self) -> str:
        """Return one line per parameter."""
        return _lines_of(enumerate(self))


class ParameterDict(Module):
    """A dictionary of Parameters, in order of insertion; plain Tensors become Parameters.

    >>> from minitorch.nn import ParameterDict
    >>> weights = ParameterDict({"left": minitorch.zeros(2)})
    >>> weights["right"] = minitorch.zeros(3)
    >>> list(weights.state_dict())
    ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: a key must be a string, got {key!r}")
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"attribute '{key}' already exists")
        setattr(self, key, _kept(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another dictionary of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, put there first if it is missing."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove a parameter and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the parameter added last, and return it with its key."""
        key = next(reversed(list(self._keys)))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or a default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dictionary with these keys and one value."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return (key, parameter) pairs."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Iterable[Any]:
        """Return the parameters."""
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Add or replace parameters, from a mapping or (key, value) pairs."""
        for key, value in _pairs(parameters, "ParameterDict"):
            self[key] = value

    def extra_repr(self) -> str:
        """Return one line per parameter."""
        return _lines_of(self.items())

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self
