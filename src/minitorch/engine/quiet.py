"""Hold back NumPy's floating-point warnings: log(0) is -inf here, quietly, as in PyTorch.

Three layers, so that the common path costs nothing. Forward: a filter ignores the warnings that arise
in this package's own lines (yours stay). Where someone turned warnings into errors, or told NumPy to
raise, the engine computes that op again between `hush` and `restore`. Backward: one `hush` for the walk.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"minitorch\.")


def hush() -> Any:
    """Silence NumPy's floating-point warnings in this context; give the token to `restore`."""
    return np.seterr(all="ignore")


def restore(token: Any) -> None:
    """Bring the warnings back as they were."""
    np.seterr(**token)
