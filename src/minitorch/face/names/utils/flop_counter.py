"""torch.utils.flop_counter: counts of multiplications, which are not kept here. Enters: nothing. Leaves: an error."""

from __future__ import annotations

from typing import Any


class FlopCounterMode:
    """Would count multiplications; can be named, not used."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "FlopCounterMode: multiplications are not counted; torchinfo.summary estimates them"
        )
