"""torch.jit.annotations: typing's names, as scripts import them from there."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

from minitorch.tensor import Tensor

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "Dict",
    "List",
    "NamedTuple",
    "Optional",
    "Tensor",
    "Tuple",
    "Union",
]

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List  # noqa: UP006
