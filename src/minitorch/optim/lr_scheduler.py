"""Schedules: how the learning rate changes from epoch to epoch.

Enters: an optimiser. Leaves: the same, with another `lr` in its parameter groups after each step().

Most schedules are written as a factor on the rate that is there, not as a formula in the epoch: that
is what lets several of them act on one optimiser (ChainedScheduler), each multiplying its own part.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minitorch.engine.recording import made, refuse_inside_recording, replayed
from minitorch.optim.optimizer import Optimizer, ParameterGroup, number
from minitorch.tensor import Tensor


class LRScheduler:
    """The base of all schedules; a subclass defines `get_lr`, the rates at `last_epoch`.

    >>> class Halving(LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=0.8)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.4]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    base_lrs: list[Any]
    _last_lr: list[Any]
    _step_count: int

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Make one, and say so before its first step."""
        return made(super().__new__(cls))

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = _checked(optimizer, self)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: param 'initial_lr' is not specified in param_groups[{i}], so the schedule "
                    f"cannot resume at last_epoch={last_epoch}; load the optimiser's state_dict first"
                )
        self.base_lrs = [_own(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        if optimizer._opt_called is None:
            optimizer._opt_called = False
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`, one per parameter group."""
        raise NotImplementedError(f"{type(self).__name__}: define get_lr(self)")

    def get_last_lr(self) -> list[Any]:
        """Return the rates last set, one per parameter group."""
        refuse_inside_recording("lr_scheduler.get_last_lr()")
        return self._last_lr

    @replayed
    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch and set its learning rates. Call it after optimizer.step()."""
        if self._step_count == 1 and self.optimizer._opt_called is False:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                "first `optimizer.step()`, then `lr_scheduler.step()`; otherwise the first value of the learning rate "
                "schedule is skipped.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            _warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = self._get_closed_form_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)

    def _get_closed_form_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch` from the initial ones, whatever there is now."""
        return self.get_lr()

    def _set(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_option(group, "lr", rate)
        self._last_lr = [_own(group["lr"]) for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> list[Any]:
        """Return the rates there are, times a factor."""
        self._expect_step()
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _expect_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser.

        >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=0.8)
        >>> StepLR(optimizer, 3).state_dict()["last_epoch"]
        0
        """
        refuse_inside_recording("lr_scheduler.state_dict()")
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that state_dict returned."""
        vars(self).update(state_dict)


class _ByFunction(LRScheduler):
    """Schedules given by functions of the epoch, one for all groups or one for each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        _checked(optimizer, self)
        name, count = type(self).__name__, len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != count:
                raise ValueError(
                    f"{name}: expected {count} lr_lambdas, one per parameter group, got {len(lr_lambda)}"
                )
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"{name}: lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and functions; of callable objects their attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [_attributes(function) for function in state.pop("lr_lambdas")]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that state_dict returned; functions stay as they are here."""
        state = dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if attributes is not None:
                vars(function).update(attributes)
        super().load_state_dict(state)


class LambdaLR(_ByFunction):
    """The initial rate times a function of the epoch:  lr = lr₀·f(epoch).

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        self._expect_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_ByFunction):
    """The rate times a function of the epoch, each epoch anew:  lr ← lr·f(epoch).

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        if self._is_initial:
            return self._scaled(1)
        self._expect_step()
        groups = self.optimizer.param_groups
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, groups, strict=True)
        ]


class StepLR(LRScheduler):
    """Multiply the rate by gamma every `step_size` epochs.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates(scheduler, 5)
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma if due else 1)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by gamma at each of the given epochs.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> rates(MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5), 5)
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times a factor for the first `total_iters` epochs, then the rate itself.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> rates(ConstantLR(optimizer, factor=0.5, total_iters=2), 4)
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: the factor is expected to be between 0 and 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1 / self.factor if self.last_epoch == self.total_iters else 1)

    def _get_closed_form_lr(self) -> list[Any]:
        factor = 1 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that grows, or falls, in a line over the first `total_iters` epochs.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> rates(LinearLR(optimizer, start_factor=0.5, total_iters=2), 4)
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                f"LinearLR: start_factor must be greater than 0 and at most 1, got {start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._scaled(1)
        return self._scaled(self._factor(self.last_epoch) / self._factor(self.last_epoch - 1))

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rate by gamma every epoch.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> rates(ExponentialLR(optimizer, gamma=0.5), 4)
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        return self._scaled(1 if self._is_initial else self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to 0 over `total_iters` epochs:  lr = lr₀·(1 - epoch/total_iters)^power.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> rates(PolynomialLR(optimizer, total_iters=4), 6)
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return (1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._scaled(1)
        return self._scaled(self._factor(self.last_epoch) / self._factor(self.last_epoch - 1))

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate falls to eta_min along half a cosine over T_max epochs, and rises again after.

        lr = eta_min + ½·(lr₀ - eta_min)·(1 + cos(π·epoch/T_max))

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> [round(rate, 3) for rate in rates(CosineAnnealingLR(optimizer, T_max=4), 5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: float) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        if self._is_initial:
            return self._scaled(1)
        self._expect_step()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1) % (2 * self.T_max) == self.T_max:
            # Out of the valley, where the height was 0 and there is nothing to multiply.
            rise = self._height(self.T_max - 1) / 2
            return [
                group["lr"] + (base - self.eta_min) * rise
                for base, group in zip(self.base_lrs, groups, strict=True)
            ]
        factor = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [factor * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        share = self._height(self.last_epoch) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines one after another: the first T_0 epochs long, each T_mult times its predecessor.

    step(epoch) may be given fractions, to change the rate within an epoch: step(epoch + i / batches).

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> [round(rate, 3) for rate in rates(CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2), 6)]
    [1.0, 0.5, 1.0, 0.854, 0.5, 0.146]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        name = type(self).__name__
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"{name}: expected a positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"{name}: expected an integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (int, float)):
            raise ValueError(f"{name}: expected a number eta_min, but got {type(eta_min).__name__}")
        self.T_0 = T_0
        self.T_i = T_0  # the length of the present cosine
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch  # epochs since it began
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the rates of epoch `last_epoch`."""
        self._expect_step()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    @replayed
    def step(self, epoch: float | None = None) -> None:
        """Go on by one epoch, or to a given one, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(
                    f"{type(self).__name__}.step: expected a non-negative epoch, but got {epoch}"
                )
            self.T_cur, self.T_i = epoch, self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            self._set(self.get_lr())
        finally:
            self._get_lr_called_within_step = False

    def _update_lr(self, epoch: float | None = None) -> None:
        # SequentialLR starts a schedule with epoch 0: the cosine begins anew with it.
        self.step(epoch)


class CyclicLR(LRScheduler):
    """The rate goes up from base_lr to max_lr and down again, over and over; momentum the other way.

    mode: "triangular" repeats, "triangular2" halves the height each time, "exp_range" multiplies it
        by gamma each step; or give `scale_fn` of the cycle or the iteration (`scale_mode`).

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> rates(CyclicLR(optimizer, base_lr=1.0, max_lr=2.0, step_size_up=2), 6)
    [1.0, 1.5, 2.0, 1.5, 1.0, 1.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _checked(optimizer, self)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', or give scale_fn; got {mode!r}"
            )
        base_lrs = _per_group("base_lr", base_lr, optimizer)
        self.max_lrs = _per_group("max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                _set_option(group, "lr", rate)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = (
            scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        )
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_is_beta1(optimizer, self)
            self.base_momentums = _per_group("base_momentum", base_momentum, optimizer)
            self.max_momentums = _per_group("max_momentum", max_momentum, optimizer)
            if last_epoch == -1:
                _start_momentum(optimizer, self.base_momentums, self.max_momentums, self.use_beta1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle, or at an iteration, relative to the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 0.5 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        """Compute the rates, and set the momentum, of iteration `last_epoch`."""
        self._expect_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        done = 1.0 + self.last_epoch / self.total_size - cycle
        height = done / self.step_ratio if done <= self.step_ratio else (done - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                _set_momentum(group, high - (high - low) * height, self.use_beta1)
        # In the first step base_lrs is still the optimiser's own; it is replaced right after.
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and a function given as scale_fn."""
        state = super().state_dict()
        state["_scale_fn_custom"] = _attributes(state["_scale_fn_custom"])
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that state_dict returned; scale_fn stays as it is here."""
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom")
        if attributes is not None:
            vars(self._scale_fn_custom).update(attributes)
        super().load_state_dict(state)


class OneCycleLR(LRScheduler):
    """One rise to max_lr and one long fall, over `total_steps` batches; momentum the other way.

    The rate starts at max_lr/div_factor, reaches max_lr after the share `pct_start` of the steps, and
    ends at max_lr/div_factor/final_div_factor. Call step() after every batch.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = OneCycleLR(optimizer, max_lr=1.0, total_steps=5, pct_start=0.4, anneal_strategy="linear")
    >>> [round(rate, 3) for rate in rates(scheduler, 5)]
    [0.04, 1.0, 0.667, 0.333, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _checked(optimizer, self)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give either total_steps, or both epochs and steps_per_epoch")
            for key, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if not isinstance(value, int) or value <= 0:
                    raise ValueError(f"OneCycleLR: expected a positive integer {key}, but got {value}")
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"OneCycleLR: expected a positive integer total_steps, but got {total_steps}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: expected a float pct_start between 0 and 1, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}"
            )
        self.total_steps = total_steps
        top = float(pct_start * total_steps) - 1
        if three_phase:
            self._schedule_phases = [
                _phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(2 * top, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases = [
                _phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for group, highest in zip(
                optimizer.param_groups, _per_group("max_lr", max_lr, optimizer), strict=True
            ):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_is_beta1(optimizer, self)
            if last_epoch == -1:
                low = _per_group("base_momentum", base_momentum, optimizer)
                high = _per_group("max_momentum", max_momentum, optimizer)
                _start_momentum(optimizer, low, high, self.use_beta1)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == "linear":
            return start + (end - start) * done
        return end + (start - end) / 2 * (1 + math.cos(math.pi * done))

    def get_lr(self) -> list[Any]:
        """Compute the rates, and set the momentum, of step `last_epoch`."""
        self._expect_step()
        now = self.last_epoch
        if now > self.total_steps:
            raise ValueError(
                f"OneCycleLR: tried to step {now} times, but total_steps is {self.total_steps}; step once per batch "
                "and give the number of all batches of all epochs"
            )
        start = 0.0
        for phase in self._schedule_phases[:-1]:
            if now <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        length = phase["end_step"] - start
        done = (now - start) / length if length else 1.0
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                value = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], done)
                _set_momentum(group, value, self.use_beta1)
        return [
            self._between(group[phase["start_lr"]], group[phase["end_lr"]], done)
            for group in self.optimizer.param_groups
        ]


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by `factor` when a metric has not improved for more than `patience` epochs.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    >>> for validation_loss in [3.0, 2.0, 2.0, 2.0]:
    ...     scheduler.step(validation_loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        name = type(self).__name__
        if factor >= 1.0:
            raise ValueError(f"{name}: the factor should be < 1.0, got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"{name}: mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"{name}: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        self.optimizer = _checked(optimizer, self)
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = _per_group("min_lr", min_lr, optimizer)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = [_own(group["lr"]) for group in optimizer.param_groups]
        self.mode = mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether a reduction is so recent that bad epochs do not count yet."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Tell whether a metric is an improvement that counts."""
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            best *= 1 + sign * self.threshold
        else:
            best += sign * self.threshold
        return a > best if sign > 0 else a < best

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at the metric of an epoch, and reduce the rate if it has stopped improving."""
        current = float(metrics)
        if epoch is not None:
            _warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [_own(group["lr"]) for group in self.optimizer.param_groups]

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: the optimiser now has {len(groups)} parameter groups, but min_lr was given "
                    f"for {len(self.min_lrs)}; set scheduler.min_lrs to one value per group"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, smallest in zip(groups, self.min_lrs, strict=True):
            old = number(group["lr"])
            new = max(old * self.factor, smallest)
            if old - new > self.eps:
                _set_option(group, "lr", new)


class _OfSchedulers(LRScheduler):
    """Schedules made of others."""

    _schedulers: list[LRScheduler]

    def _check_schedulers(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name}: the scheduler at index {i} should have `optimizer` as its attribute"
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name}: does not support ReduceLROnPlateau (at index {i}), whose step() needs a metric; "
                    "step it on its own"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name}: expects all schedulers to belong to the same optimizer, but {type(scheduler).__name__} "
                    f"at index {i} has another one"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all schedules, and where this one is."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in state.pop("_schedulers")]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that state_dict returned."""
        state = dict(state_dict)
        for scheduler, saved in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(saved)
        super().load_state_dict(state)


class SequentialLR(_OfSchedulers):
    """One schedule after another: the next one begins at each milestone, with its epoch 0.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> warmup = ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> decay = ExponentialLR(optimizer, gamma=0.5)
    >>> rates(SequentialLR(optimizer, [warmup, decay], milestones=[2]), 5)
    [0.5, 0.5, 1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR: expects at least one scheduler")
        self._check_schedulers(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: expects one scheduler more than milestones, got {len(schedulers)} schedulers and "
                f"{len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule has already made its first step, on top of those before it: take them all
        # back, and let only the first one begin.
        for group in optimizer.param_groups:
            _set_option(group, "lr", group["initial_lr"])
        _take_back(schedulers)
        self._initial_step()

    def _initial_step(self) -> None:
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def _update_lr(self, epoch: int | None = None) -> None:
        # A sequence within a sequence: its turn has come.
        self.last_epoch = 0
        self._schedulers[bisect_right(self._milestones, 0)]._update_lr(0)
        self._last_lr = [_own(group["lr"]) for group in self.optimizer.param_groups]

    @replayed
    def step(self) -> None:  # type: ignore[override]
        """Go on to the next epoch, in the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_OfSchedulers):
    """Several schedules at once, each multiplying the rate by its own factor.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> warmup = ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates(ChainedScheduler([warmup, ExponentialLR(optimizer, gamma=0.5)]), 4)
    [0.5, 0.25, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler: expects at least one scheduler to be chained")
        chosen = getattr(schedulers[0], "optimizer", None) if optimizer is None else optimizer
        self._check_schedulers(schedulers, chosen)  # type: ignore[arg-type]
        self._schedulers = list(schedulers)
        self.optimizer = chosen  # type: ignore[assignment]
        self._last_lr = [_own(group["lr"]) for group in self.optimizer.param_groups]

    def _initial_step(self) -> None:
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = [_own(group["lr"]) for group in self.optimizer.param_groups]

    def _update_lr(self, epoch: int | None = None) -> None:
        # Within a SequentialLR: its turn has come. All begin, on top of one another, from the initial rate.
        for group in self.optimizer.param_groups:
            _set_option(group, "lr", group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch = -1
        self._initial_step()

    @replayed
    def step(self) -> None:  # type: ignore[override]
        """Step every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = [_own(group["lr"]) for group in self.optimizer.param_groups]


def rates(scheduler: LRScheduler, epochs: int) -> list[float]:
    """Return the first group's rates in the next epochs, stepping optimiser and schedule: to look at one.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> rates(ExponentialLR(optimizer, gamma=0.5), 3)
    [1.0, 0.5, 0.25]
    """
    seen = []
    for epoch in range(epochs):
        if epoch:
            scheduler.optimizer.step()
            scheduler.step()
        seen.append(number(scheduler.get_last_lr()[0]))
    return seen


def _checked(optimizer: Any, scheduler: LRScheduler) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(scheduler).__name__}: {type(optimizer).__name__} is not an Optimizer")
    return optimizer


def _own(value: Any) -> Any:
    """Return a rate that will not change with the optimiser's: a Tensor is copied."""
    return value.clone() if isinstance(value, Tensor) else value


def _set_option(group: ParameterGroup, key: str, value: Any) -> None:
    """Set an option; a Tensor keeps its identity and gets a new value."""
    if isinstance(group[key], Tensor):
        group[key].fill_(number(value))
    else:
        group[key] = value.item() if isinstance(value, Tensor) else value


def _per_group(name: str, value: Any, optimizer: Optimizer) -> list[Any]:
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name}: must have the same length as optimizer.param_groups, one value for each of the {count} parameter "
            f"groups; got {len(value)}"
        )
    return list(value)


def _attributes(function: Any) -> dict[str, Any] | None:
    """Return what is to be saved of a function: nothing, but of a callable object its attributes."""
    if function is None or isinstance(function, (types.FunctionType, types.BuiltinFunctionType)):
        return None
    return dict(vars(function))


def _momentum_is_beta1(optimizer: Optimizer, scheduler: LRScheduler) -> bool:
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"{type(scheduler).__name__}: {type(optimizer).__name__} has neither momentum nor betas to cycle; write "
            "cycle_momentum=False"
        )
    return "betas" in optimizer.defaults


def _set_momentum(group: ParameterGroup, value: Any, is_beta1: bool) -> None:
    if is_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _start_momentum(optimizer: Optimizer, lowest: list[Any], highest: list[Any], is_beta1: bool) -> None:
    for group, low, high in zip(optimizer.param_groups, lowest, highest, strict=True):
        _set_momentum(group, high, is_beta1)
        group["max_momentum"] = high
        group["base_momentum"] = low


def _phase(end: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    """Describe a part of OneCycleLR: until which step, and between which of the group's values."""
    return {
        "end_step": end,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


def _take_back(schedulers: Iterable[LRScheduler]) -> None:
    for scheduler in schedulers:
        if isinstance(scheduler, _OfSchedulers):
            _take_back(scheduler._schedulers)
        else:
            scheduler.last_epoch -= 1


def _warn_of_epoch() -> None:
    warnings.warn(
        "scheduler.step(epoch) is deprecated: a scheduler counts its steps itself; write scheduler.step()",
        UserWarning,
        stacklevel=3,
    )


_LRScheduler = LRScheduler  # its old name

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
