"""torch.nn.utils.prune: weights set to 0 by masks, which is absent. Enters: a name. Leaves: what refuses a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class BasePruningMethod:
    """The class of ways to choose weights; can be named, not used."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError("prune: absent; write weight.data.mul_(mask) after each step")


class PruningContainer(BasePruningMethod):
    """Several of them."""


def _absent(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> Any:
        raise NotImplementedError(f"prune.{name}: absent; write weight.data.mul_(mask) after each step")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def is_pruned(module: Any) -> bool:
    """Tell whether a module's weights have masks: none have."""
    return False


custom_from_mask, global_unstructured, identity = map(
    _absent, ("custom_from_mask", "global_unstructured", "identity")
)
l1_unstructured, ln_structured, random_structured = map(
    _absent, ("l1_unstructured", "ln_structured", "random_structured")
)
random_unstructured, remove = map(_absent, ("random_unstructured", "remove"))
L1Unstructured = LnStructured = RandomStructured = RandomUnstructured = Identity = BasePruningMethod
CustomFromMask = BasePruningMethod
