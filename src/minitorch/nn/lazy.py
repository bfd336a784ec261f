"""Layers that learn the number of their inputs from the first input. Enters: a Tensor. Leaves: what the layer gives.

Until then their parameters have no shape; at the first call they become the ordinary layer, drawn then as PyTorch does.
"""

from __future__ import annotations

import contextlib
from typing import Any

from minitorch.engine.recording import changed, recorder
from minitorch.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from minitorch.nn.linear import Linear
from minitorch.nn.module import Module
from minitorch.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from minitorch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from minitorch.random import fork_rng

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class LazyModuleMixin:
    """What a Module inherits, first, to learn shapes from its first input.

    In __init__ it has UninitializedParameters; its `initialize_parameters` is called with the first input, and gives
    them shapes. Then it becomes one of `cls_to_become`, if that is said.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own: Any = self
        own.register_forward_pre_hook(_learn, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes, by the first input: for the subclass to write."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}; give its parameters shapes there"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether it still waits for shapes."""
        own: Any = self
        return any(is_lazy(each) for each in (*own._parameters.values(), *own._buffers.values()))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        own: Any = self
        waiting = [name for name, buffer in own._buffers.items() if is_lazy(buffer)]
        super()._apply(fn, recurse)  # type: ignore[misc]
        for name in waiting:  # moved, or of another dtype, and still without a shape
            moved = own._buffers[name]
            own._buffers[name] = UninitializedBuffer(dtype=moved.dtype, device=moved.device)
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        # What is loaded has shapes.
        own: Any = self
        for name, member in {**own._parameters, **own._buffers}.items():
            found = state_dict.get(prefix + name)
            if is_lazy(member) and found is not None and not is_lazy(found):
                member.materialize(found.shape)
        super()._load_from_state_dict(state_dict, prefix, *others)  # type: ignore[misc]


def _learn(module: Any, args: Any, kwargs: Any) -> None:
    """Let a Module learn shapes from its first input, and become the ordinary one."""
    if (active := recorder()) is not None and active.repeats:
        raise active.refusal(
            f"{module._get_name()} makes its parameters at its first call; call the model once before it is compiled"
        )
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"module {module._get_name()} has not been fully initialized: initialize_parameters left a parameter "
            "without a shape"
        )
    for key, (hook, *_) in list(module._forward_pre_hooks.items()):
        if hook is _learn:
            changed()
            del module._forward_pre_hooks[key]
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


class _Lazy(LazyModuleMixin, Module):
    """A layer that waits for its first input, and is drawn then: everything but the number of its inputs is said."""

    axis = -1  # of the input, which says how many there are; for images the channels, counted from the end

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, *args, **kwargs)
        self._given = (args, kwargs)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                how = {"dtype": parameter.dtype, "device": parameter.device}
                self._parameters[name] = UninitializedParameter(parameter.requires_grad, **how)
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.ndim:
                self._buffers[name] = UninitializedBuffer(dtype=buffer.dtype, device=buffer.device)

    def reset_parameters(self) -> None:
        """Draw nothing: there are no shapes yet."""

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Make the ordinary layer, and take what it has; parameters that were loaded stay."""
        given, options = self.__dict__.pop("_given")
        mine: dict[str, Any] = {**self._parameters, **self._buffers}
        waiting = [each for each in mine.values() if is_lazy(each)]
        how = {"dtype": waiting[0].dtype, "device": waiting[0].device} if waiting else {}
        assert self.cls_to_become is not None
        with contextlib.nullcontext() if waiting else fork_rng():
            made = self.cls_to_become(self._count(input), *given, **{**options, **how})
        others: dict[str, Any] = {**made._parameters, **made._buffers}
        for name, each in mine.items():
            if is_lazy(each):
                each.materialize(others[name].shape)
                each.data = others[name]._data
        for name, value in vars(made).items():
            if not name.startswith("_") and name != "training":
                setattr(self, name, value)

    def _count(self, input: Any) -> int:
        return int(input.shape[self.axis if self.axis < 0 else input.ndim - self.axis])


def _lazy(name: str, become: type[Module], axis: int, example: str) -> Any:
    """Make the lazy twin of a layer; `axis` counts from the end where it is positive."""
    text = f"{become.__name__} that finds its number of inputs at the first call.\n\n    {example}\n    "
    body = {"cls_to_become": become, "axis": axis, "__doc__": text, "__module__": __name__}
    return type(name, (_Lazy, become), body)


LazyLinear = _lazy(
    "LazyLinear",
    Linear,
    -1,
    ">>> layer = LazyLinear(5)\n    >>> layer(minitorch.ones(2, 3)).shape, layer\n    "
    "((2, 5), Linear(in_features=3, out_features=5, bias=True))",
)
LazyConv1d = _lazy(
    "LazyConv1d", Conv1d, 2, ">>> LazyConv1d(4, 3)(minitorch.ones(2, 3, 5)).shape\n    (2, 4, 3)"
)
LazyConv2d = _lazy(
    "LazyConv2d", Conv2d, 3, ">>> LazyConv2d(4, 3)(minitorch.ones(2, 3, 5, 5)).shape\n    (2, 4, 3, 3)"
)
LazyConv3d = _lazy("LazyConv3d", Conv3d, 4, "")
LazyConvTranspose1d = _lazy("LazyConvTranspose1d", ConvTranspose1d, 2, "")
LazyConvTranspose2d = _lazy("LazyConvTranspose2d", ConvTranspose2d, 3, "")
LazyConvTranspose3d = _lazy("LazyConvTranspose3d", ConvTranspose3d, 4, "")


class _LazyChannels(_Lazy):
    """One whose inputs are counted by axis 1."""

    def _count(self, input: Any) -> int:
        return int(input.shape[1])


class _LazyInstance(_LazyChannels):
    """One that learns a scale and keeps running statistics, unlike the ordinary layer, unless told otherwise."""

    def __init__(self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, **options: Any) -> None:
        super().__init__(eps, momentum, affine, **{"track_running_stats": True, **options})


def _lazy_channels(name: str, become: type[Module], base: type[_Lazy] = _LazyChannels) -> Any:
    text = f"{become.__name__} that finds num_features at the first call."
    return type(name, (base, become), {"cls_to_become": become, "__doc__": text, "__module__": __name__})


LazyBatchNorm1d = _lazy_channels("LazyBatchNorm1d", BatchNorm1d)
LazyBatchNorm2d = _lazy_channels("LazyBatchNorm2d", BatchNorm2d)
LazyBatchNorm3d = _lazy_channels("LazyBatchNorm3d", BatchNorm3d)
LazyInstanceNorm1d = _lazy_channels("LazyInstanceNorm1d", InstanceNorm1d, _LazyInstance)
LazyInstanceNorm2d = _lazy_channels("LazyInstanceNorm2d", InstanceNorm2d, _LazyInstance)
LazyInstanceNorm3d = _lazy_channels("LazyInstanceNorm3d", InstanceNorm3d, _LazyInstance)
