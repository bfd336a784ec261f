"""minitorch.amp: mixed precision. Enters: a program that asks for it. Leaves: products in half precision, the rest in
float32, and gradients that do not vanish.

`autocast` lets products and convolutions take bfloat16 (or float16) operands; their sums are made in float32
(engine/bfloat16.py). On a CPU nothing is gained by it but memory: what counts is that a program computes what it will
compute on a GPU. `GradScaler` multiplies losses so that small gradients survive in float16, and leaves a step out if
that was too much.
"""

from __future__ import annotations

import functools
import operator
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from minitorch.creation import tensor
from minitorch.engine import dtypes, modes
from minitorch.engine.backward import own_gradient
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.recording import unless
from minitorch.ops.native import MOST_TOGETHER, natively_there
from minitorch.ops.scaling import multiply_all
from minitorch.ops.sparse import Coo
from minitorch.tensor import Tensor
from minitorch.tensor.devices import has_gpu
from minitorch.tensor.torch_types import pytorchs, shown

F = TypeVar("F", bound=Callable[..., Any])

_DEVICES = ("cpu", "cuda")
_defaults = {"cpu": "bfloat16", "cuda": "float16"}


class autocast(modes.ModeSwitch):
    """A context, or a decorator, in which products and convolutions are computed in half precision.

    device_type: "cpu" or "cuda"; without a GPU the latter changes nothing. dtype: bfloat16 or float16; if left out,
    bfloat16 on a CPU and float16 on a GPU. enabled: False switches it off, inside another one too.
    cache_enabled: cast each parameter once.

    >>> import minitorch
    >>> with autocast("cpu", dtype=minitorch.float16):
    ...     product = minitorch.ones(2, 2) @ minitorch.ones(2, 2)
    >>> product.dtype, (product + minitorch.ones(2, 2)).dtype
    (dtype('float16'), dtype('float32'))
    """

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type not in _DEVICES:
            raise RuntimeError(f"autocast: device_type must be 'cpu' or 'cuda', got {device_type!r}")
        self.device_type = self.device = device_type
        chosen = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type == "cuda" and not has_gpu():
            warnings.warn("autocast: there is no GPU, nothing is cast; write autocast('cpu')", stacklevel=2)
            enabled = False
        if enabled and chosen not in (dtypes.float16, dtypes.bfloat16):
            warnings.warn(
                f"autocast: nothing is cast to {chosen}, only to bfloat16 and float16", stacklevel=2
            )
            enabled = False
        self._enabled, self.fast_dtype, self._cache_enabled = enabled, chosen, cache_enabled is not False
        super().__init__(self._changed)

    def _changed(self, mode: modes.Mode) -> modes.Mode:
        precision = mode.precision or modes.Precision()
        before = precision.of(self.device_type == "cuda")
        caches = mode.casts is not None
        if (
            before is not None
            and self._enabled
            and before == self.fast_dtype
            and caches == self._cache_enabled
        ):
            return mode  # one inside another shares what is cast already
        precision = precision._replace(
            **{self.device_type: np.dtype(self.fast_dtype) if self._enabled else None}
        )
        if precision.cpu is None and precision.cuda is None:
            return mode._replace(precision=None)
        if not modes.autocasting:
            modes.autocasting.append(True)
        if self.device_type == "cuda" and "autocast" not in modes.attention:
            modes.attention.append("autocast")
        return mode._replace(precision=precision, casts={} if self._cache_enabled else None)

    def __enter__(self) -> autocast:  # type: ignore[override]
        super().__enter__()
        return self


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Tell whether products are cast.

    >>> with autocast("cpu", dtype=np.float16):
    ...     is_autocast_enabled("cpu"), is_autocast_enabled("cuda")
    (True, False)
    """
    return _precision(device_type) is not None


def _precision(device_type: str) -> Any:
    """Return the dtype that is cast to on a device; None: nothing is."""
    precision = modes.current().precision
    return None if precision is None else precision.of(device_type == "cuda")


def is_autocast_cpu_enabled() -> bool:
    """Tell whether products are cast on the CPU."""
    return is_autocast_enabled("cpu")


def get_autocast_dtype(device_type: str) -> Any:
    """Return the dtype that autocast casts to if it is told none.

    >>> get_autocast_dtype("cuda")
    dtype('float16')
    """
    precision = _precision(device_type)
    chosen = getattr(dtypes, _defaults[device_type]) if precision is None else precision
    return shown(chosen) if pytorchs.on else chosen


def get_autocast_gpu_dtype() -> Any:
    """Return the dtype that autocast casts to on a GPU."""
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    """Return the dtype that autocast casts to on the CPU."""
    return get_autocast_dtype("cpu")


def is_autocast_cache_enabled() -> bool:
    """Tell whether parameters that were cast are kept for their next use: until the block's end, or a backward's.

    >>> with autocast("cpu", dtype=np.float16, cache_enabled=False):
    ...     is_autocast_cache_enabled()
    False
    """
    mode = modes.current()
    return mode.precision is None or mode.casts is not None


def clear_autocast_cache() -> None:
    """Forget parameters that were cast: after they were written into, say."""
    mode: modes.Mode | None = modes.current()
    while mode is not None:
        if mode.casts is not None:
            mode.casts.clear()
        mode = mode.outer


def is_autocast_available(device_type: str) -> bool:
    """Tell whether autocast does something on a device.

    >>> is_autocast_available("cpu")
    True
    """
    return device_type == "cpu" or (device_type == "cuda" and has_gpu())


class GradScaler:
    """Multiplies losses before backward, and divides gradients by the same before the step.

    scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()

    Where a gradient is infinite or nan, the step is left out and the scale gets smaller (by `backoff_factor`); after
    `growth_interval` steps without that, larger (by `growth_factor`).

    In a compiled step nobody asks: what the optimiser has written is chosen, where it shall count, on the device.

    >>> GradScaler("cpu").get_scale(), GradScaler("cpu", enabled=False).get_scale()
    (65536.0, 1.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and growth_factor <= 1.0:
            raise ValueError(f"GradScaler: the growth factor must be > 1.0, got {growth_factor}")
        if enabled and backoff_factor >= 1.0:
            raise ValueError(f"GradScaler: the backoff factor must be < 1.0, got {backoff_factor}")
        if enabled and device == "cuda" and not has_gpu():
            warnings.warn(
                "GradScaler: there is no GPU, nothing is scaled; write GradScaler('cpu')", stacklevel=2
            )
            enabled = False
        self._device, self._enabled = device, enabled
        # On the device, and written in place: there a compiled step finds them, and nobody waits for it.
        self._scale: Tensor = tensor(
            float(init_scale), dtype=dtypes.float32, device=device if enabled else "cpu"
        )
        self._growth_tracker: Tensor = tensor(0, dtype=dtypes.int32, device=self._scale.device)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        # Optimisers, by their ids, since the last update: those unscaled, each with whether it has found something
        # infinite, and those that made their step. (New tuples each time: what was there before can be put back.)
        self._unscaled: tuple[tuple[int, Tensor], ...] = ()
        self._stepped: tuple[int, ...] = ()

    def scale(self, outputs: Any) -> Any:
        """Return a loss, or losses in a list, multiplied by the scale.

        >>> import minitorch
        >>> GradScaler("cpu", init_scale=4.0).scale(minitorch.tensor(2.0))
        tensor(8.)
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Node):
            return outputs * self._scale.to(outputs.device)  # type: ignore[attr-defined]
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(each) for each in outputs)
        raise ValueError(
            f"GradScaler.scale: expects a Tensor or a list of them, got {type(outputs).__name__}"
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the scale: before clipping, say."""
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise RuntimeError("GradScaler.unscale_: it is called after step(); call it before")
        if id(optimizer) in dict(self._unscaled):
            raise RuntimeError(
                "GradScaler.unscale_: it was called for this optimiser already since the last update()"
            )
        inverse = self._scale.double().reciprocal().float()
        gradients: dict[Any, list[Any]] = {}  # by device
        for group in optimizer.param_groups:
            for p in group["params"]:
                g = own_gradient(p)
                if g is None:
                    continue
                if g.dtype == dtypes.float16:
                    raise ValueError(
                        "GradScaler.unscale_: gradients are float16; keep the parameters in float32"
                    )
                gradients.setdefault(p.device, []).append(g.values if isinstance(g, Coo) else g)
        flags = [_unscaled(some, inverse.to(there)._data) for there, some in gradients.items()]
        of_each = [new_tensor(flag).to(self._scale.device) for flag in flags if flag is not None]
        found = functools.reduce(operator.or_, of_each or [tensor(False, device=self._scale.device)])
        self._unscaled = (*self._unscaled, (id(optimizer), found))

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Let an optimiser step, unless a gradient is infinite or nan."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError(
                "GradScaler.step: a closure cannot be used: its gradients would not be unscaled"
            )
        if id(optimizer) in self._stepped:
            raise RuntimeError(
                "GradScaler.step: it was called for this optimiser already since the last update()"
            )
        if id(optimizer) not in dict(self._unscaled):
            self.unscale_(optimizer)
        self._stepped = (*self._stepped, id(optimizer))
        found = dict(self._unscaled)[id(optimizer)]
        states = getattr(optimizer, "state", {})
        return unless(found._data, functools.partial(optimizer.step, *args, **kwargs), states)

    def update(self, new_scale: Any = None) -> None:
        """Choose the scale of the next step."""
        if not self._enabled:
            return
        scale, counted = self._scale, self._growth_tracker
        if new_scale is not None:
            scale.copy_(new_scale) if isinstance(new_scale, Tensor) else scale.fill_(float(new_scale))
        elif not self._unscaled:
            raise RuntimeError("GradScaler.update: no optimiser made a step since the last update()")
        else:
            found = functools.reduce(lambda one, other: one | other, (flag for _, flag in self._unscaled))
            chosen, count = _chosen(
                scale._data,
                counted._data,
                found._data,
                backoff=float(self._backoff_factor),
                growth=float(self._growth_factor),
                interval=int(self._growth_interval),
            )
            scale.copy_(new_tensor(chosen))
            counted.copy_(new_tensor(count))
        self._unscaled, self._stepped = (), ()

    def get_scale(self) -> float:
        """Return the scale; 1 if nothing is scaled."""
        return self._scale.item() if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return by how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by how much the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return what the scale is multiplied by after something infinite."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after something infinite."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Tell whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return what a later run needs to go on; nothing if nothing is scaled.

        >>> GradScaler("cpu", init_scale=8.0).state_dict()["scale"]
        8.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker.item(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another run stopped."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "GradScaler.load_state_dict: the state is empty: it is of one that scales nothing"
            )
        self._scale.fill_(state_dict["scale"])
        self._growth_tracker.fill_(state_dict["_growth_tracker"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]


def _unscaled(gradients: list[Any], inverse: Any) -> Any:
    """Multiply gradients by a number; return whether an infinity or nan is among them then (None: there are none)."""
    multiply_all(gradients, inverse)
    some = [g for g in gradients if g.size]
    flags = [_are_finite(some[i : i + MOST_TOGETHER]) for i in range(0, len(some), MOST_TOGETHER)]
    return _not_all(np.stack(flags)) if flags else None


@natively_there
def _are_finite(several: list[Any]) -> Any:
    return np.stack([np.isfinite(each).all() for each in several]).all()


@natively_there
def _not_all(flags: Any) -> Any:
    return ~flags.all()


@natively_there
def _chosen(
    scale: Any, counted: Any, found: Any, *, backoff: float, growth: float, interval: int
) -> tuple[Any, Any]:
    """Return the scale of the next step, and how many good steps there were at it. found: something infinite."""
    with np.errstate(over="ignore"):
        smaller, larger = ((scale.astype(np.float64) * by).astype(np.float32) for by in (backoff, growth))
    successful = counted + 1
    grows = successful == interval
    kept = np.where(grows & np.isfinite(larger), larger, scale)
    return np.where(found, smaller, kept), successful * np.logical_not(found | grows)


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Decorate a Function's forward: under autocast it runs as it did outside, or on `cast_inputs` without autocast.

    >>> @custom_fwd(device_type="cuda")
    ... def forward(ctx, x): ...
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def run(*args: Any, **kwargs: Any) -> Any:
        precision = _precision(device_type)
        if args and not isinstance(args[0], Node):  # (the context; beside setup_context there is none)
            args[0]._forward_precision = precision if cast_inputs is None else None
        if cast_inputs is None or precision is None:
            return fwd(*args, **kwargs)
        cast = functools.partial(_cast_input, device_type, cast_inputs)
        with autocast(device_type, enabled=False):
            return fwd(*map(cast, args), **{name: cast(x) for name, x in kwargs.items()})

    return run


def _cast_input(device_type: str, dtype: Any, given: Any) -> Any:
    """Return an argument with the floats in it that lie on such a device in a dtype; float64 as it is."""
    if isinstance(given, Tensor):
        casts = given.is_floating_point() and given.device.type == device_type
        return given.to(dtype) if casts and given.dtype != dtypes.float64 else given
    if isinstance(given, dict):
        return {key: _cast_input(device_type, dtype, each) for key, each in given.items()}
    if given.__class__ in (list, tuple):
        return type(given)(_cast_input(device_type, dtype, each) for each in given)
    return given


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorate a Function's backward: it runs under autocast if its forward, decorated with custom_fwd, did.

    >>> @custom_bwd
    ... def backward(ctx, g): ...
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def run(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        precision = getattr(ctx, "_forward_precision", None)
        with autocast(device_type, precision, enabled=precision is not None, cache_enabled=False):
            return bwd(ctx, *args, **kwargs)

    return run


# PyTorch's files of these: `from torch.amp.grad_scaler import GradScaler`.
autocast_mode = grad_scaler = sys.modules[__name__]
sys.modules[f"{__name__}.autocast_mode"] = sys.modules[f"{__name__}.grad_scaler"] = autocast_mode
__path__: list[str] = []
