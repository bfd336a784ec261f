"""A softmax over classes by their frequency. Enters: features, class labels. Leaves: log-probabilities, a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minitorch.functions import cat
from minitorch.nn import functional as F
from minitorch.nn.containers import ModuleList, Sequential
from minitorch.nn.linear import Linear
from minitorch.nn.module import Module
from minitorch.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """What forward returns: the log-probability of each target, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log p of classes sorted by frequency: the frequent ones in a head, the rare ones in clusters of smaller layers.

    cutoffs: where the clusters begin; class c of a cluster k has p(c) = p_head(k)·p_k(c). The layers of cluster k
    have in_features/div_value^(k+1) features in the middle.

    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10, 40])
    >>> output, loss = layer(minitorch.randn(3, 8), minitorch.tensor([2, 30, 99]))
    >>> output.shape, layer.log_prob(minitorch.randn(3, 8)).shape
    ((3,), (3, 100))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        if not bounds:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            bounds != sorted(set(bounds))
            or any(int(bound) != bound for bound in bounds)
            or not 1 <= bounds[0] <= bounds[-1] <= n_classes - 1
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
                f"each value is between 1 and n_classes-1, got {bounds} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        where = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for cluster, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False), start=1):
            middle = int(in_features // div_value**cluster)
            self.tail.append(
                Sequential(
                    Linear(in_features, middle, bias=False, **where),
                    Linear(middle, high - low, bias=False, **where),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(N, in_features) and (N,) → the log-probability of each target (N,), and the loss; or one example."""
        if target_.ndim == 0:
            if input_.ndim != 1:
                raise RuntimeError("0D target tensor expects 1D input tensor")
            output, loss = self(input_.unsqueeze(0), target_.unsqueeze(0))
            return _ASMoutput(output.squeeze(0), loss)
        if target_.ndim != 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.ndim != 2:
            raise RuntimeError("1D target tensor expects 2D input tensor")
        if len(input_) != len(target_):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if len(target_) and not 0 <= int(target_.min()) <= int(target_.max()) < self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target_.min())}, {int(target_.max())}] were found. "
            )
        # Each cluster's layers see the examples of its classes alone; the parts are put back in order at the end.
        head = F.log_softmax(self.head(input_), dim=1)
        rows, parts = [], []
        for cluster, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs, strict=False)):
            members = ((target_ >= low) & (target_ < high)).nonzero()[:, 0]
            if not members.numel():
                continue
            inside = (target_[members] - low).unsqueeze(1)
            if cluster == 0:
                part = head[members].gather(1, inside)
            else:
                own = F.log_softmax(self.tail[cluster - 1](input_[members]), dim=1).gather(1, inside)
                part = own + head[members, self.shortlist_size + cluster - 1].unsqueeze(1)
            rows.append(members)
            parts.append(part.squeeze(1))
        output = cat(parts)[cat(rows).argsort()] if parts else head.sum(1)
        return _ASMoutput(output, -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, in_features) → log p of every class, (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for cluster, layers in enumerate(self.tail):
            own = F.log_softmax(layers(input), dim=1)
            parts.append(own + head[:, self.shortlist_size + cluster].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """(N, in_features) → the likeliest class of each, (N,); rare classes are asked only where they may win."""
        head = self.head(input)
        best = head.argmax(dim=1)
        rare = best >= self.shortlist_size
        if not rare.any():
            return best
        return self.log_prob(input).argmax(dim=1).where(rare, best)
