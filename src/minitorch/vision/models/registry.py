"""Models by name. Enters: functions that make models. Leaves: the same functions, listed, with weights refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitorch.nn import Module
from minitorch.vision.models.weights import WeightsNames, refuse_weights

BUILDERS: dict[str, Callable[..., Module]] = {}


def register_model(build: Callable[..., Module]) -> Callable[..., Module]:
    """List a function that makes a model; what it makes has fresh weights."""
    name = build.__name__

    @functools.wraps(build)
    def make(*, weights: Any = None, progress: bool = True, pretrained: Any = None, **options: Any) -> Module:
        refuse_weights(name, weights, pretrained)
        if options.pop("weights_backbone", None) is not None:
            refuse_weights(name, "weights_backbone")
        return build(**options)

    BUILDERS[name] = make
    return make


def get_model(name: str, **config: Any) -> Module:
    """Make a model, given its name.

    >>> type(get_model("alexnet", num_classes=2)).__name__
    'AlexNet'
    """
    return get_model_builder(name)(**config)


def get_model_builder(name: str) -> Callable[..., Module]:
    """Return the function that makes a model, given its name."""
    if name.lower() not in BUILDERS:
        raise ValueError(f"Unknown model {name}; there are {', '.join(sorted(BUILDERS))}")
    return BUILDERS[name.lower()]


def list_models(module: Any = None, include: Any = None, exclude: Any = None) -> list[str]:
    """Return the names of all models."""
    return sorted(BUILDERS)


def get_weight(name: str) -> Any:
    """Return what stands for trained weights."""
    return getattr(WeightsNames(name.partition(".")[0]), name.partition(".")[2] or "DEFAULT")
