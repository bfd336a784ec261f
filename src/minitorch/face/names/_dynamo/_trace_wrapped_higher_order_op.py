"""A context that packages enter around vmap. Enters: a block. Leaves: it: vmap indexes by batched tensors itself."""

from __future__ import annotations

import contextlib
from typing import Any


class TransformGetItemToIndex(contextlib.nullcontext[Any]):
    """In PyTorch, x[i] with a batched i becomes another operator inside; here it needs none."""
