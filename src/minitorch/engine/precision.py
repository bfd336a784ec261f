"""How exactly products of float32 are computed on a GPU. Enters: what a program asks for. Leaves: whether TF32 may be.

As in PyTorch, products of matrices are not rounded unless a program says so, and convolutions are.

TF32 rounds the factors of a product to ten bits, and adds up in float32: several times as fast, on GPUs that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from minitorch.engine.recording import is_rehearsing

_kept: dict[str, Any] = {"precision": "highest", "convolutions": True}

# 1 where products of matrices may round, so that machine code can read it.
rounds = np.zeros(1, np.int64)

# Who knows the version of cuDNN, None where it is not installed: the compiler's room, which offers to tell.
versions_of_cudnn: list[Callable[[], int | None]] = []


def set_precision(precision: str) -> None:
    """Set 'highest' (float32), or 'high' or 'medium' (TF32)."""
    _kept["precision"] = precision
    rounds[0] = precision != "highest"


def precision() -> str:
    """Return what was set.

    >>> set_precision("highest"); precision()
    'highest'
    """
    return _kept["precision"]


def may_round() -> bool:
    """Tell whether TF32 may be used: not while a program is tried beside its function, which rounds nothing.

    >>> set_precision("highest"); may_round()
    False
    """
    return _kept["precision"] != "highest" and not is_rehearsing()


def convolutions_are() -> str:
    """Tell how convolutions are computed: 'rounded' to TF32, 'exact', or 'tried': exactly, for a comparison's sake."""
    if is_rehearsing():
        return "tried"
    return "rounded" if _kept["convolutions"] else "exact"


class Convolutions(ModuleType):
    """The flags of `backends.cudnn`."""

    @property
    def allow_tf32(self) -> bool:
        """Whether convolutions of float32 may round their factors to TF32, on a GPU."""
        return _kept["convolutions"]

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        _kept["convolutions"] = bool(allowed)

    @contextmanager
    def flags(
        self,
        enabled: bool = False,
        benchmark: bool = False,
        benchmark_limit: int = 10,
        deterministic: bool = False,
        allow_tf32: bool = True,
        fp32_precision: str = "none",
    ) -> Iterator[None]:
        """Let convolutions round their factors to TF32, or not, inside the block; nothing depends on the others."""
        before, self.allow_tf32 = self.allow_tf32, allow_tf32
        try:
            yield
        finally:
            self.allow_tf32 = before


class Products:
    """The flags of `backends.cuda.matmul`."""

    allow_fp16_reduced_precision_reduction = False
    allow_bf16_reduced_precision_reduction = False

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may round their factors to TF32, on a GPU."""
        return precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_precision("high" if allowed else "highest")
