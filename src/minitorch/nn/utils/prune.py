"""Pruning: weights that a mask holds at 0. Enters: a Module, a tensor's name, how much. Leaves: the Module, masked.

The parameter moves to `<name>_orig`, its mask is the buffer `<name>_mask`, and before every call the Module gets their
product under the old name. `remove` makes it a plain parameter again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from minitorch.creation import ones_like, zeros_like
from minitorch.engine.recording import changed
from minitorch.functions import cat
from minitorch.nn.module import Module
from minitorch.random import rand, rand_like
from minitorch.tensor import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """A way to choose what is pruned: a subclass has `compute_mask`, and `PRUNING_TYPE`, which says of what.

    "unstructured": of single numbers; "structured": of whole slices; "global": of several tensors' numbers.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the new mask (1: keep, 0: prune) of a tensor of importances, within the mask it has."""

    def __call__(self, module: Module, inputs: Any) -> None:
        """Give the Module its masked tensor; called before each forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter times its mask."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, f"{name}_orig")
        return getattr(module, f"{name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a Module, further if it is pruned already, and return what was made for it."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        earlier = _hooks_for(module, name)
        if len(earlier) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of {module}."
            )
        weight = getattr(module, name)
        importance = weight if importance_scores is None else importance_scores
        if importance.shape != weight.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}: "
                f"{tuple(weight.shape)}, got {tuple(importance.shape)}"
            )
        if earlier:
            ((key, before),) = earlier.items()
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            mask = container.compute_mask(importance, getattr(module, f"{name}_mask"))
            _forget(module, key)
            method = container
        else:
            mask = method.compute_mask(importance, ones_like(weight))
            module.register_parameter(f"{name}_orig", module._parameters[name])
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask.to(getattr(module, f"{name}_orig").dtype))
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return a tensor times the mask that this method computes."""
        importance = t if importance_scores is None else importance_scores
        if importance.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        return t * self.compute_mask(importance, ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the masked tensor the Module's parameter; mask and original are forgotten."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = self._masked(original, module._buffers.pop(f"{name}_mask"))
        if name in vars(module):
            delattr(module, name)
        module.register_parameter(name, original)

    @staticmethod
    def _masked(original: Any, mask: Any) -> Any:
        return (original.detach() * mask.to(original.dtype)).data


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other: each prunes what those before it have left."""

    PRUNING_TYPE = "container"

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args if len(args) != 1 or not isinstance(args[0], Iterable) else tuple(args[0])
        for method in methods:
            if not hasattr(self, "_tensor_name"):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Let the last method choose among what is left: numbers that are not 0, or slices that are not all 0."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            axis = method.dim % t.ndim  # type: ignore[attr-defined]
            others = tuple(i for i in range(t.ndim) if i != axis)
            kept = mask.sum(dim=others) != 0
            left = tuple(kept if i == axis else slice(None) for i in range(t.ndim))
        elif method.PRUNING_TYPE == "global":
            left = tuple(slice(None) for _ in range(t.ndim))
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = mask.clone()
        new[left] = method.compute_mask(t.detach()[left], mask[left]).to(mask.dtype)
        return new


class Identity(BasePruningMethod):
    """Prune nothing, but have a mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask as it is."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prune numbers chosen at random. amount: a share of them, or how many."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Prune where random numbers are largest."""
        count = _count(self.amount, t.numel())
        return _without_least(default_mask, -rand_like(t), count) if count else default_mask.clone()


class L1Unstructured(BasePruningMethod):
    """Prune the numbers of least absolute value. amount: a share of them, or how many."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Prune the least."""
        count = _count(self.amount, t.numel())
        return _without_least(default_mask, t.detach().abs(), count) if count else default_mask.clone()


class RandomStructured(BasePruningMethod):
    """Prune slices along an axis, chosen at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Prune slices whose random number is least."""
        _check_slices(t, self.dim)
        count = _count(self.amount, t.shape[self.dim])
        if not count:
            return default_mask
        drawn = rand(t.shape[self.dim], device=t.device)
        return default_mask * _spread(drawn > drawn.kthvalue(count).values, t, self.dim)


class LnStructured(BasePruningMethod):
    """Prune the slices along an axis whose n-norm is least."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Keep the slices of the largest norms."""
        _check_slices(t, self.dim)
        length = t.shape[self.dim]
        count = _count(self.amount, length)
        if not count:
            return default_mask
        others = [i for i in range(t.ndim) if i != self.dim % t.ndim]
        norms = t.detach().norm(p=self.n, dim=others)
        kept = zeros_like(norms)
        kept[norms.topk(length - count).indices] = 1
        return default_mask * _spread(kept, t, self.dim)


class CustomFromMask(BasePruningMethod):
    """Prune what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return what both masks keep."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"mask shape {tuple(self.mask.shape)} does not match {tuple(default_mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# --- for one tensor of one Module -----------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune numbers of a parameter at random. amount: a share of them (a float), or how many (an int)."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Any = None) -> Module:
    """Prune the numbers of a parameter that are least in absolute value, or in importance.

    >>> layer = minitorch.nn.Linear(2, 2)
    >>> _ = minitorch.nn.init.eye_(layer.weight)
    >>> l1_unstructured(layer, "weight", amount=3).weight
    tensor([[0., 0.],
            [0., 1.]], grad_fn=<MulBackward0>)
    >>> [name for name, _ in layer.named_parameters()], [name for name, _ in layer.named_buffers()]
    (['bias', 'weight_orig'], ['weight_mask'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices of a parameter along an axis, at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the slices of a parameter along an axis whose n-norm is least."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune numbers of several parameters, (module, name) each, as if they were one tensor.

    importance_scores: for some of these pairs, a tensor of importances.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    importances = [scores.get(pair, getattr(*pair)) for pair in given]
    masks = [getattr(module, f"{name}_mask", ones_like(getattr(module, name))) for module, name in given]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            "Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`. Found method "
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    whole = container.compute_mask(
        cat([each.detach().reshape(-1) for each in importances]), cat([mask.reshape(-1) for mask in masks])
    )
    pieces = whole.split([each.numel() for each in importances])
    for (module, name), piece in zip(given, pieces, strict=True):
        custom_from_mask(module, name, piece.reshape(getattr(module, name).shape))


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter plain again, with the zeros it has.

    >>> layer = remove(l1_unstructured(minitorch.nn.Linear(2, 2), "weight", amount=3), "weight")
    >>> int((layer.weight == 0).sum()), is_pruned(layer)
    (3, False)
    """
    for key, method in _hooks_for(module, name).items():
        method.remove(module)
        _forget(module, key)
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Tell whether a Module, or one inside it, has a pruned tensor."""
    return any(_hooks_for(each) for each in module.modules())


# --- what they share ------------------------------------------------------------------------------------------


def _hooks_for(module: Module, name: str | None = None) -> dict[int, BasePruningMethod]:
    """Return the methods that prune a Module's tensor, or any of its tensors, by the key of their hook."""
    return {
        key: hook
        for key, (hook, *_) in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name)
    }


def _forget(module: Module, key: int) -> None:
    changed()
    del module._forward_pre_hooks[key]


def _without_least(mask: Tensor, numbers: Tensor, count: int) -> Tensor:
    new = mask.clone().reshape(-1)
    new[numbers.reshape(-1).topk(count, largest=False).indices] = 0
    return new.reshape(mask.shape)


def _spread(kept: Tensor, t: Tensor, dim: int) -> Tensor:
    """Return one number for each slice as a mask of the tensor's shape."""
    shape = [1] * t.ndim
    shape[dim] = -1
    return kept.to(t.dtype).reshape(shape).expand(t.shape)


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, (int, float, np.integer, np.floating)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, (int, np.integer)) and amount > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _count(amount: Any, size: int) -> int:
    if not isinstance(amount, (int, np.integer)):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


def _check_slices(t: Tensor, dim: int) -> None:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{tuple(t.shape)} with {t.ndim} dims"
        )
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid dim {dim} for tensor of shape {tuple(t.shape)}")
