"""torch.fx.experimental.proxy_tensor: whether a program is being traced. Enters: nothing. Leaves: no."""

from __future__ import annotations


def get_proxy_mode() -> None:
    """Return None: nothing is traced."""


def is_tracing() -> bool:
    """Return False: nothing is traced."""
    return False
