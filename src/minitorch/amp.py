"""minitorch.amp: mixed precision, for programs that ask for it. Enters: such a program. Leaves: it runs in float32.

There is no lower precision to gain here: NumPy's float16 is slower than its float32, and bfloat16 it has not. So
`autocast` leaves every dtype as it is, and `GradScaler`, which guards float16 gradients from vanishing, scales by 1.
A program then computes what PyTorch computes on a machine without a GPU, where it switches both off with a warning.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class autocast:
    """A context, or a decorator, in which everything is computed in the dtype it has.

    >>> import minitorch
    >>> with autocast("cuda", dtype=minitorch.float16):
    ...     (minitorch.ones(2) * 2).dtype
    dtype('float32')
    """

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device_type, self.dtype, self.enabled = device_type, dtype, enabled

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, function: F) -> F:
        """Decorate a function: it stays as it is."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return run  # type: ignore[return-value]


class GradScaler:
    """Scales losses by 1, and steps.

    >>> GradScaler().get_scale()
    1.0
    """

    def __init__(self, device: str = "cuda", *args: Any, enabled: bool = True, **options: Any) -> None:
        self.device = device

    def scale(self, outputs: Any) -> Any:
        """Return the loss as it is."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Leave the gradients as they are."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Let the optimiser step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Leave the scale as it is."""

    def get_scale(self) -> float:
        """Return 1."""
        return 1.0

    def is_enabled(self) -> bool:
        """Return False: nothing is scaled."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take nothing."""


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Decorate a Function's forward for use under autocast: here it is what it was.

    >>> @custom_fwd(device_type="cuda")
    ... def forward(ctx, x): ...
    """
    return fwd if fwd is not None else functools.partial(custom_fwd, device_type=device_type)


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorate a Function's backward for use under autocast: here it is what it was.

    >>> @custom_bwd
    ... def backward(ctx, g): ...
    """
    return bwd if bwd is not None else functools.partial(custom_bwd, device_type=device_type)


def is_autocast_available(device_type: str) -> bool:
    """Tell whether a device computes in a lower precision: none does here.

    >>> is_autocast_available("cuda")
    False
    """
    return False


# PyTorch's files of these: `from torch.amp.grad_scaler import GradScaler`.
autocast_mode = grad_scaler = sys.modules[__name__]
sys.modules[f"{__name__}.autocast_mode"] = sys.modules[f"{__name__}.grad_scaler"] = autocast_mode
__path__: list[str] = []
