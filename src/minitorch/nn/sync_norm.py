"""SyncBatchNorm: batch norm over the batches of all ranks. Enters: this rank's part of a batch. Leaves: it, normalised
as the whole batch would be.

Each rank sends its mean, its sum of squared distances from it, and its count; from these every rank makes the whole
batch's mean and variance:  mean = Σ n·m / Σ n,  var = (Σ M + Σ n·(m - mean)²) / Σ n. Parts may differ in size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch import creation
from minitorch.distributed.groups import chosen, is_initialized
from minitorch.distributed.nn.functional import all_gather
from minitorch.engine.modes import no_grad
from minitorch.engine.recording import number
from minitorch.nn.module import Module
from minitorch.nn.normalization import _BatchNorm
from minitorch.tensor import Tensor

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """BatchNorm whose mean and variance, while training, are those of all ranks' batches together.

    process_group: whose; all ranks if None. With one rank, and after eval(), it is BatchNorm.

    >>> SyncBatchNorm(3)(minitorch.randn(2, 3, 4)).shape
    (2, 3, 4)
    """

    _ranks = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        """Normalise each channel over the batches of all ranks."""
        group = chosen(self.process_group) if is_initialized() else None
        own = self.training or (self.running_mean is None and self.running_var is None)
        if not own or group is None or group.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                share = 1.0 / number(self.num_batches_tracked._data)
        x = input.float() if input.dtype == np.float16 else input
        axes = (0, *range(2, x.ndim))
        shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
        count = x.numel() // max(x.shape[1], 1)
        mean = x.sum(axes) / max(count, 1)
        spread = ((x - mean.reshape(shape)) ** 2).sum(axes)
        # One array to all ranks: (means, squared distances, count).
        mine = np.concatenate([mean, spread, creation.full((1,), count, dtype=x.dtype)])
        everyone = np.stack(list(all_gather(mine, group)))  # (ranks, 2·C + 1)
        channels = x.shape[1]
        means, spreads, counts = everyone[:, :channels], everyone[:, channels:-1], everyone[:, -1:]
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        variance = (spreads + counts * (means - mean) ** 2).sum(0) / total
        out = (x - mean.reshape(shape)) * ((variance + self.eps) ** -0.5).reshape(shape)
        if self.weight is not None:
            out = out * self.weight.reshape(shape)
        if self.bias is not None:
            out = out + self.bias.reshape(shape)
        if self.training and self.running_mean is not None and self.running_var is not None:
            with no_grad():
                unbiased = variance * (total / (total - 1).clamp(min=1))
                self.running_mean.copy_((1 - share) * self.running_mean + share * mean)
                self.running_var.copy_((1 - share) * self.running_var + share * unbiased)
        return out.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Any:
        """Return a module with every BatchNorm in it made a SyncBatchNorm with the same parameters."""
        if isinstance(module, _BatchNorm):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            made.weight, made.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
            return made
        for name, child in module.named_children():
            new = cls.convert_sync_batchnorm(child, process_group)
            if new is not child:
                setattr(module, name, new)
        return module
