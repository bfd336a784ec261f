"""torch.utils.flop_counter: counting multiplications: absent. Enters: a block. Leaves: an error that says so."""

from __future__ import annotations

from typing import Any


class FlopCounterMode:
    """A context that would count; entering it is an error."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> Any:
        raise NotImplementedError(
            "FlopCounterMode: operations are not counted here; minitorch.compile(f).explain(…) shows what is computed"
        )

    def __exit__(self, *exception: object) -> None:
        pass
