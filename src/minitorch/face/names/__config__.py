"""torch.__config__: what this was built with. Enters: nothing. Leaves: text."""

from __future__ import annotations

import numpy as np
import scipy

import minitorch


def show() -> str:
    """Return what computes here."""
    return f"minitorch {minitorch.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}\n"


def parallel_info() -> str:
    """Return how many threads were asked for."""
    return f"torch.get_num_threads(): {minitorch.get_num_threads()}\n"
