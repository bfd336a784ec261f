"""Parametrizations: a weight that is a function of other tensors, computed whenever it is read.

Enters: a Module and a Module that maps the tensor to be learned to the weight to be used. Leaves: the
first Module, with the original under `parametrizations.<name>.original` and a property in the
weight's place.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from minitorch.engine.modes import no_grad
from minitorch.nn.containers import ModuleDict, ModuleList
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

_cache: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar(
    "minitorch_parametrization_cache", default=None
)


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized weight once only within the `with`, however often it is read.

    >>> layer = minitorch.nn.utils.parametrizations.weight_norm(minitorch.nn.Linear(2, 3))
    >>> with cached():
    ...     layer.weight is layer.weight
    True
    """
    outer = _cache.get()
    token = _cache.set({} if outer is None else outer)
    try:
        yield
    finally:
        _cache.reset(token)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the original tensor, or tensors, they start from."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList: requires one or more modules")
        super().__init__(modules)
        self.unsafe = unsafe
        start: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):  # then the parameter stays as it is
                        start = module.right_inverse(start)
        self.is_tensor = isinstance(start, Tensor)
        if not self.is_tensor and not isinstance(start, Sequence):
            raise ValueError(
                f"parametrization: right_inverse must return one or several Tensors, got {type(start).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(start)
        if start is original:
            _register(self, "original", original, isinstance(original, Parameter))
        elif self.is_tensor:
            _register(self, "original", start, isinstance(original, Parameter))
        else:
            for i, tensor in enumerate(start):
                _register(self, f"original{i}", tensor, isinstance(original, Parameter))

    def originals(self) -> list[Tensor]:
        """Return the tensors that are learned."""
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Write into the originals what makes the weight equal to a value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__}: define right_inverse to be able to assign the weight"
                    )
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else value
            for original, new in zip(self.originals(), values, strict=True):
                original.copy_(new)

    def forward(self) -> Tensor:
        """Compute the weight."""
        first, *others = self
        out = first(*self.originals())
        for module in others:
            out = module(out)
        return out


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a parameter or buffer be computed by a Module from now on; several are applied in their order.

    The first one's `right_inverse`, where it has one, gives the original that the present value comes from.

    >>> class Symmetric(minitorch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = register_parametrization(minitorch.nn.Linear(3, 3), "weight", Symmetric())
    >>> layer.weight.equal(layer.weight.T)
    True
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        stack = module.parametrizations[tensor_name]
        before = getattr(module, tensor_name)
        after = parametrization(before)
        if not unsafe and (
            not isinstance(after, Tensor) or (after.shape, after.dtype) != (before.shape, before.dtype)
        ):
            raise ValueError(
                f"register_parametrization: {type(parametrization).__name__} changes shape or dtype of "
                f"{tensor_name!r}; pass unsafe=True if that is meant"
            )
        stack.append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer named {tensor_name!r}"
        )
    original = getattr(module, tensor_name)
    if original is None:
        raise ValueError(f"register_parametrization: {tensor_name!r} of {type(module).__name__} is None")
    stack = ParametrizationList([parametrization], original, unsafe)
    with no_grad():
        value = stack()
    if not unsafe and (
        not isinstance(value, Tensor) or (value.shape, value.dtype) != (original.shape, original.dtype)
    ):
        raise ValueError(
            f"register_parametrization: {type(parametrization).__name__} turns {tensor_name!r} of shape "
            f"{original.shape}, {original.dtype}, into something else; pass unsafe=True if that is meant"
        )
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module)
        module.parametrizations = ModuleDict()
    _make_property(module, tensor_name)
    module.parametrizations[tensor_name] = stack
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Tell whether a Module, or one tensor of it, has parametrizations.

    >>> is_parametrized(minitorch.nn.Linear(2, 2))
    False
    """
    stacks = module._modules.get("parametrizations")
    if stacks is None or not isinstance(stacks, ModuleDict):
        return False
    return bool(len(stacks)) if tensor_name is None else tensor_name in stacks


def type_before_parametrizations(module: Module) -> type:
    """Return the class a Module had before it was given a parametrization.

    >>> layer = minitorch.nn.utils.parametrizations.weight_norm(minitorch.nn.Linear(2, 3))
    >>> type(layer).__name__, type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a Module another one's parametrizations, of all tensors or of one, with the originals they start from."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        stack = from_module.parametrizations[name]
        for parametrization in stack:
            register_parametrization(to_module, name, parametrization)
        new = to_module.parametrizations[name]
        for key in ["original"] if stack.is_tensor else [f"original{i}" for i in range(stack.ntensors)]:
            setattr(new, key, getattr(stack, key))
    return to_module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor plain again: with the value it has, or with the original's.

    >>> layer = minitorch.nn.utils.parametrizations.weight_norm(minitorch.nn.Linear(2, 3))
    >>> [name for name, _ in remove_parametrizations(layer, "weight").named_parameters()]
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {type(module).__name__} has no parametrization on {tensor_name!r}"
        )
    stack = module.parametrizations[tensor_name]
    first = stack.originals()[0]
    learned = isinstance(first, Parameter)
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).clone()
        kept = Parameter(value, requires_grad=first.requires_grad) if learned else value
    elif not stack.is_tensor:
        raise ValueError(
            "remove_parametrizations: leaving the original needs a parametrization of one tensor only"
        )
    else:
        kept = first
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, kept, learned)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def _register(module: Module, name: str, tensor: Tensor, learned: bool) -> None:
    if not learned:
        module.register_buffer(name, tensor)
    elif isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_parameter(name, Parameter(tensor))


def _own_class(module: Module) -> None:
    """Give one Module a class of its own: a property belongs to a class, and others of the kind stay as they are."""
    kind = type(module)
    module.__class__ = type(
        f"Parametrized{kind.__name__}", (kind,), {"__getstate__": _refuse_pickle, "__deepcopy__": _copied}
    )


def _refuse_pickle(self: Module) -> Any:
    raise RuntimeError(
        f"{type(self).__name__}: a parametrized Module has a class of its own and cannot be pickled; "
        "save its state_dict()"
    )


def _copied(self: Module, memo: dict[int, Any]) -> Module:
    """Copy a parametrized Module deeply; the copy gets a class of its own too."""
    kind: Any = type(self).__bases__[0]
    made = kind.__new__(kind)
    memo[id(self)] = made
    made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    _own_class(made)
    for name in made.parametrizations:
        _make_property(made, name)
    return made


def _make_property(module: Module, name: str) -> None:
    def get(self: Module) -> Tensor:
        stack = self.parametrizations[name]
        cache = _cache.get()
        if cache is None:
            return stack()
        key = (id(self), name)
        if key not in cache:
            cache[key] = stack()
        return cache[key]

    def set_(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, set_))
