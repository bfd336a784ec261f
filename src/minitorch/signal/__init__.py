"""minitorch.signal: windows for cutting a signal into pieces."""

from minitorch.signal import windows

__all__ = ["windows"]
