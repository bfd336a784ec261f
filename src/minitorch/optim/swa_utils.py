"""Averages of weights: AveragedModel, and SWALR, the schedule that goes with it.

Enters: a model in training. Leaves: a second one, whose weights are an average of the first one's over time: equal
(stochastic weight averaging) or fading (an exponential moving average).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from minitorch.creation import tensor
from minitorch.engine.modes import no_grad
from minitorch.engine.recording import number
from minitorch.nn import Module
from minitorch.nn.normalization import _BatchNorm
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.optim.optimizer import Optimizer
from minitorch.tensor import Tensor

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """Return averaged, current, count ↦ decay·averaged + (1 - decay)·current.

    >>> get_ema_avg_fn(0.5)(minitorch.tensor(1.0), minitorch.tensor(3.0), 1)
    tensor(2.)
    """
    _check_decay(decay)

    def average(averaged: Any, current: Any, num_averaged: Any) -> Any:
        with no_grad():
            return decay * averaged + (1 - decay) * current

    return average


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """Return averaged, current, count ↦ averaged + (current - averaged) / (count + 1): the equal average.

    >>> get_swa_avg_fn()(minitorch.tensor(1.0), minitorch.tensor(4.0), 2)
    tensor(2.)
    """

    def average(averaged: Any, current: Any, num_averaged: Any) -> Any:
        with no_grad():
            return averaged + (current - averaged) / (num_averaged + 1)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Return the fading average of lists of tensors, written into the first list.

    >>> averaged = [minitorch.tensor(1.0)]
    >>> get_ema_multi_avg_fn(0.5)(averaged, [minitorch.tensor(3.0)], 1); averaged
    [tensor(2.)]
    """
    return _of_lists(lambda num_averaged: 1 - decay, get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Return the equal average of lists of tensors, written into the first list.

    >>> averaged = [minitorch.tensor(1.0)]
    >>> get_swa_multi_avg_fn()(averaged, [minitorch.tensor(4.0)], 2); averaged
    [tensor(2.)]
    """

    return _of_lists(lambda num_averaged: 1 / (num_averaged + 1), get_swa_avg_fn())


def _of_lists(weight: Callable[[Any], float], average: Callable[..., Tensor]) -> Callable[..., None]:
    """Return the average of lists of tensors: floats move by a weight, what are none by a function."""

    def average_all(averaged: Iterable[Any], current: Iterable[Any], num_averaged: Any) -> None:
        with no_grad():
            for a, c in zip(averaged, current, strict=True):
                if a.is_floating_point():
                    a.lerp_(c, weight(num_averaged))
                else:
                    a.copy_(average(a, c, num_averaged))

    return average_all


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of a model whose weights are an average of what the model's were at each `update_parameters`.

    avg_fn: how one averaged tensor, one current one and the count so far become the new average; multi_avg_fn the
        same for lists of them, in place. Without either, the equal average.
    use_buffers: average the buffers too (running statistics); otherwise they are copied.

    >>> model = minitorch.nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = model.weight.data.fill_(value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: only one of avg_fn and multi_avg_fn can be given")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's weights of now into the average; the first time they are it."""
        own, others = self._averaged(self.module), self._averaged(model)
        first = number(self.n_averaged._data) == 0
        with no_grad():
            if first:
                for a, c in zip(own, others, strict=True):
                    a.copy_(c.detach())
            elif self.avg_fn is not None:
                for a, c in zip(own, others, strict=True):
                    a.copy_(self.avg_fn(a.detach(), c.detach(), self.n_averaged))
            else:
                average = self.multi_avg_fn or get_swa_multi_avg_fn()
                average([a.detach() for a in own], [c.detach() for c in others], self.n_averaged)
            if not self.use_buffers:
                for a, c in zip(self.module.buffers(), model.buffers(), strict=True):
                    a.copy_(c.detach())
            self.n_averaged += 1

    def _averaged(self, model: Module) -> list[Tensor]:
        if self.use_buffers:
            return list(itertools.chain(model.parameters(), model.buffers()))
        return list(model.parameters())


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Give a model's batch norms the running statistics of one pass over the data: an averaged model has none.

    Of a batch that is a tuple or a list the first entry goes in.

    >>> model = minitorch.nn.Sequential(minitorch.nn.BatchNorm1d(1))
    >>> update_bn([minitorch.tensor([[1.0], [3.0]])], model); model[0].running_mean
    tensor([2.])
    """
    norms = [part for part in model.modules() if isinstance(part, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain average over all batches
    with no_grad():
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Move each learning rate to `swa_lr` within anneal_epochs steps, by a cosine or a line, and keep it there.

    >>> optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule, rates = SWALR(optimizer, swa_lr=0.2, anneal_epochs=2, anneal_strategy="linear"), []
    >>> for _ in range(3):
    ...     optimizer.step(); schedule.step(); rates.append(round(optimizer.param_groups[0]["lr"], 3))
    >>> rates
    [0.6, 0.2, 0.2]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(
                f"SWALR: {len(rates)} rates for {len(groups)} parameter groups; give one, or one each"
            )
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be 0 or a positive int, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: float) -> float:
        """Return how far to swa_lr a step is, from 0 to 1."""
        if self.anneal_epochs == 0:
            return 1.0
        done = max(0.0, min(1.0, step / self.anneal_epochs))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self) -> list[Any]:
        """The rates: from what they are, what is left of the way to swa_lr."""
        step = self._step_count - 1
        groups = self.optimizer.param_groups
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(max(0, step - 1)), self._share(step)
        rates = []
        for group in groups:
            if before == 1:
                rates.append(group["swa_lr"])
            else:  # undo the step before: the rate that the way began at
                start = (group["lr"] - group["swa_lr"] * before) / (1 - before)
                rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
