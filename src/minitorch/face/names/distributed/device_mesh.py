"""torch.distributed.device_mesh: ranks as a grid: absent. Enters: a shape. Leaves: an error that says what there is."""

from __future__ import annotations

from typing import Any, NoReturn


class DeviceMesh:
    """Ranks as a grid; nothing is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        init_device_mesh()


def init_device_mesh(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: ranks are in a row."""
    raise NotImplementedError(
        "device_mesh: ranks are in a row here, numbered from 0; torch.distributed.new_group makes groups of some of "
        "them (the rows and columns of a grid), and torch.nn.parallel.DistributedDataParallel trains on all"
    )
