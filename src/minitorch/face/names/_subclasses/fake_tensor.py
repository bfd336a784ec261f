"""torch._subclasses.fake_tensor: whether a tensor has no values. Enters: a tensor. Leaves: no, it has."""

from __future__ import annotations

from typing import Any

import minitorch


class FakeTensor(minitorch.Tensor):
    """A tensor without values; nothing is one."""


class FakeTensorMode:
    """A context in which tensors would have no values: absent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "FakeTensorMode: tensors always have values here; write torch.empty(…) for shapes alone"
        )


def is_fake(x: Any) -> bool:
    """Return False: every tensor has its values."""
    return False
