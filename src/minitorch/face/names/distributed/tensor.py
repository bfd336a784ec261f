"""torch.distributed.tensor: tensors in parts on several ranks: absent. Enters: questions. Leaves: nothing is one."""

from __future__ import annotations

from typing import Any, NoReturn

import minitorch
from minitorch.tensor.torch_function import not_for_me


class DTensor(minitorch.Tensor):
    """A tensor in parts on several ranks; nothing is one."""

    __torch_function__ = classmethod(not_for_me)


class Placement:
    """Where the parts of such a tensor would be."""


class Shard(Placement):
    """Each rank has a part along an axis."""

    def __init__(self, dim: int) -> None:
        self.dim = dim


class Replicate(Placement):
    """Each rank has all of it."""


def distribute_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: a tensor is on one rank."""
    raise NotImplementedError(
        "torch.distributed.tensor: a tensor lies on one rank here; there are torch.distributed's collectives, and "
        "torch.nn.parallel.DistributedDataParallel"
    )


distribute_module = distribute_tensor
