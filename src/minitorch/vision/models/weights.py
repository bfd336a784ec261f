"""Trained weights, which are files on the network and not loaded here. Enters: their names. Leaves: clear errors."""

from __future__ import annotations

from typing import Any

WHAT_TO_DO = (
    "weights are files on the network, which are not loaded here: write weights=None, and "
    "model.load_state_dict(minitorch.load(path)) with a file of your own; the parameters' names are torchvision's"
)


class Weights:
    """Stands for one set of trained weights, by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_state_dict(self, *args: Any, **options: Any) -> Any:
        """Refuse."""
        raise RuntimeError(f"{self.name}: {WHAT_TO_DO}")

    def transforms(self, *args: Any, **options: Any) -> Any:
        """Refuse."""
        raise RuntimeError(
            f"{self.name}.transforms: write the transforms that the weights were trained with yourself"
        )

    def __repr__(self) -> str:
        return self.name


class WeightsNames:
    """Stands for the sets of trained weights of a model: ResNet18_Weights.IMAGENET1K_V1 and others."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Weights:
        if name.startswith("_"):
            raise AttributeError(name)
        return Weights(f"{self._name}.{name}")

    def __repr__(self) -> str:
        return self._name


def refuse_weights(name: str, weights: Any, pretrained: Any = None) -> None:
    """Refuse any trained weights."""
    if weights is not None or pretrained:
        raise RuntimeError(
            f"{name}(weights={weights if weights is not None else 'pretrained'}): {WHAT_TO_DO}"
        )
