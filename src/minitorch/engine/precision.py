"""How exactly products of float32 are computed on a GPU. Enters: what a program asks for. Leaves: whether TF32 may be.

TF32 rounds the factors of a product to ten bits, and adds up in float32: several times as fast, on GPUs that have it.
"""

from __future__ import annotations

from minitorch.engine.recording import is_rehearsing

_kept = {"precision": "highest"}


def set_precision(precision: str) -> None:
    """Set 'highest' (float32), or 'high' or 'medium' (TF32)."""
    _kept["precision"] = precision


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
