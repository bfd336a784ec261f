"""minitorch.version: which one this is. Enters: nothing. Leaves: numbers, and None for what is not there."""

from __future__ import annotations

from typing import Any

from minitorch.engine import gpu

hip = xpu = rocm = None
debug = False
git_version = "minitorch"


def __getattr__(name: str) -> Any:
    if name == "cuda":  # the version that CuPy uses, where there is a GPU; "13.0", say
        if not gpu.gpu_count():
            return None
        number = int(gpu.library().cuda.runtime.runtimeGetVersion())
        return f"{number // 1000}.{number % 1000 // 10}"
    raise AttributeError(f"module 'minitorch.version' has no attribute {name!r}")
