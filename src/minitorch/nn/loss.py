"""The losses as modules: each keeps its options and calls the function of nn.functional.

Enters: options once, then predictions and targets. Leaves: the loss. A loss has no parameters; class weights
are buffers, so that they move with the model and are saved with it.
"""

from __future__ import annotations

import warnings
from typing import Any

from minitorch.nn import functional as F
from minitorch.nn.functional.loss import reduction_of
from minitorch.nn.layer import FunctionLayer, takes, takes_by_name
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor


class _Loss(FunctionLayer):
    """A loss with a reduction: 'mean', 'sum' or 'none'."""

    _arguments = takes(size_average=None, reduce=None, reduction="mean")
    _not_kept = ("size_average", "reduce")

    def _keep(self, **settings: Any) -> None:
        size_average, reduce = (settings.pop(name, None) for name in self._not_kept)
        if size_average is not None or reduce is not None:
            settings["reduction"] = reduction_of(
                type(self).__name__, size_average, reduce, settings["reduction"], stacklevel=4
            )
        super()._keep(**settings)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Return the loss, as the function of nn.functional computes it."""
        if self._settings == ("reduction",):  # the commonest, without detour
            return self._function(input, target, reduction=self.reduction)
        return self._run(input, target)


class _WeightedLoss(_Loss):
    """A loss with a weight per class, or per element, kept as a buffer."""

    _arguments = takes(weight=None, size_average=None, reduce=None, reduction="mean")

    def _keep(self, **settings: Any) -> None:
        for name in ("weight", "pos_weight"):
            if name in settings:
                weight = settings.pop(name)
                self.register_buffer(name, None if weight is None else as_tensor(weight))
        super()._keep(**settings)


class L1Loss(_Loss):
    """|x - y|, averaged; see nn.functional.l1_loss.

    >>> L1Loss()(minitorch.tensor([1.0, 3.0]), minitorch.tensor([1.0, 1.0]))
    tensor(1.)
    """

    _function = staticmethod(F.l1_loss)


class MSELoss(_Loss):
    """(x - y)², averaged; see nn.functional.mse_loss.

    >>> MSELoss()(minitorch.tensor([1.0, 3.0]), minitorch.tensor([1.0, 1.0]))
    tensor(2.)
    """

    _function = staticmethod(F.mse_loss)


class SmoothL1Loss(_Loss):
    """(x - y)² / 2β near 0, |x - y| - β/2 elsewhere; see nn.functional.smooth_l1_loss.

    >>> SmoothL1Loss()(minitorch.tensor([3.0]), minitorch.tensor([0.0]))
    tensor(2.5000)
    """

    _function = staticmethod(F.smooth_l1_loss)
    _arguments = takes(size_average=None, reduce=None, reduction="mean", beta=1.0)


class HuberLoss(_Loss):
    """(x - y)² / 2 near 0, δ·(|x - y| - δ/2) elsewhere; see nn.functional.huber_loss.

    >>> HuberLoss(delta=2.0)(minitorch.tensor([3.0]), minitorch.tensor([0.0]))
    tensor(4.)
    """

    _function = staticmethod(F.huber_loss)
    _arguments = takes(reduction="mean", delta=1.0)


class CrossEntropyLoss(_WeightedLoss):
    """-log softmax(logits)[target]; see nn.functional.cross_entropy.

    >>> logits, tenses = minitorch.zeros(4, 5), minitorch.tensor([0, 4, 2, 2])
    >>> CrossEntropyLoss(label_smoothing=0.1)(logits, tenses)
    tensor(1.6094)
    """

    _function = staticmethod(F.cross_entropy)
    _arguments = takes(
        weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
    )


class NLLLoss(_WeightedLoss):
    """-log p[target] of log-probabilities; see nn.functional.nll_loss.

    >>> NLLLoss()(minitorch.zeros(4, 5).log_softmax(1), minitorch.tensor([0, 4, 2, 2]))
    tensor(1.6094)
    """

    _function = staticmethod(F.nll_loss)
    _arguments = takes(weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean")


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images, which warns."""

    def _keep(self, **settings: Any) -> None:
        warnings.warn(
            "NLLLoss2d is deprecated: NLLLoss takes images too; write NLLLoss",
            FutureWarning,
            stacklevel=3,
        )
        super()._keep(**settings)


class BCELoss(_WeightedLoss):
    """-(y·log p + (1-y)·log(1-p)) of probabilities; see nn.functional.binary_cross_entropy.

    >>> BCELoss()(minitorch.tensor([0.5]), minitorch.tensor([1.0]))
    tensor(0.6931)
    """

    _function = staticmethod(F.binary_cross_entropy)


class BCEWithLogitsLoss(_WeightedLoss):
    """BCELoss of sigmoid(x), accurate for any x; see nn.functional.binary_cross_entropy_with_logits.

    >>> BCEWithLogitsLoss()(minitorch.tensor([0.0]), minitorch.tensor([1.0]))
    tensor(0.6931)
    """

    _function = staticmethod(F.binary_cross_entropy_with_logits)
    _arguments = takes(weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None)


class KLDivLoss(_Loss):
    """y·(log y - x) of log-probabilities x; see nn.functional.kl_div.

    >>> y = minitorch.tensor([[0.5, 0.5]])
    >>> KLDivLoss(reduction="batchmean")(minitorch.tensor([[0.25, 0.75]]).log(), y)
    tensor(0.1438)
    """

    _function = staticmethod(F.kl_div)
    _arguments = takes(size_average=None, reduce=None, reduction="mean", log_target=False)


class PoissonNLLLoss(_Loss):
    """eˣ - y·x for counts y; see nn.functional.poisson_nll_loss.

    >>> PoissonNLLLoss()(minitorch.tensor([0.0]), minitorch.tensor([2.0]))
    tensor(1.)
    """

    _function = staticmethod(F.poisson_nll_loss)
    _arguments = takes(log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean")

    def forward(self, log_input: Any, target: Any) -> Tensor:
        """Return the loss; see nn.functional.poisson_nll_loss."""
        return self._run(log_input, target)


class GaussianNLLLoss(_Loss):
    """(log v + (x - y)² / v) / 2 for a normal y; see nn.functional.gaussian_nll_loss.

    >>> GaussianNLLLoss()(minitorch.tensor([0.0]), minitorch.tensor([2.0]), minitorch.tensor([4.0]))
    tensor(1.1931)
    """

    _function = staticmethod(F.gaussian_nll_loss)
    _arguments = takes_by_name(full=False, eps=1e-6, reduction="mean")

    def forward(self, input: Any, target: Any, var: Any) -> Tensor:  # type: ignore[override]
        """Return the loss; see nn.functional.gaussian_nll_loss."""
        return self._run(input, target, var)


class HingeEmbeddingLoss(_Loss):
    """x where y = 1, max(0, margin - x) where y = -1; see nn.functional.hinge_embedding_loss.

    >>> HingeEmbeddingLoss()(minitorch.tensor([0.25]), minitorch.tensor([-1]))
    tensor(0.7500)
    """

    _function = staticmethod(F.hinge_embedding_loss)
    _arguments = takes(margin=1.0, size_average=None, reduce=None, reduction="mean")


class _MarginLoss(_Loss):
    """A loss of two inputs that asks for a margin."""

    _arguments = takes(margin=0.0, size_average=None, reduce=None, reduction="mean")

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:  # type: ignore[override]
        """Return the loss, as the function of nn.functional computes it."""
        return self._run(input1, input2, target)


class MarginRankingLoss(_MarginLoss):
    """max(0, margin - y·(x₁ - x₂)); see nn.functional.margin_ranking_loss.

    >>> MarginRankingLoss()(minitorch.tensor([2.0]), minitorch.tensor([3.0]), minitorch.tensor([1.0]))
    tensor(1.)
    """

    _function = staticmethod(F.margin_ranking_loss)


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos(x₁, x₂) where y = 1, max(0, cos - margin) where y = -1; see nn.functional.cosine_embedding_loss.

    >>> a, b = minitorch.tensor([[1.0, 0.0]]), minitorch.tensor([[0.0, 1.0]])
    >>> CosineEmbeddingLoss()(a, b, minitorch.tensor([1]))
    tensor(1.)
    """

    _function = staticmethod(F.cosine_embedding_loss)


class SoftMarginLoss(_Loss):
    """log(1 + e^{-y·x}) for y = ±1; see nn.functional.soft_margin_loss.

    >>> SoftMarginLoss()(minitorch.tensor([0.0]), minitorch.tensor([1.0]))
    tensor(0.6931)
    """

    _function = staticmethod(F.soft_margin_loss)


class MultiLabelMarginLoss(_Loss):
    """Each right class shall lead each wrong one by 1; see nn.functional.multilabel_margin_loss.

    >>> scores, right = minitorch.tensor([0.1, 0.2, 0.4, 0.8]), minitorch.tensor([3, 0, -1, 1])
    >>> MultiLabelMarginLoss()(scores, right)
    tensor(0.8500)
    """

    _function = staticmethod(F.multilabel_margin_loss)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross-entropy of logits, averaged over classes; see nn.functional.multilabel_soft_margin_loss.

    >>> MultiLabelSoftMarginLoss()(minitorch.zeros(2, 3), minitorch.ones(2, 3))
    tensor(0.6931)
    """

    _function = staticmethod(F.multilabel_soft_margin_loss)


class MultiMarginLoss(_WeightedLoss):
    """The right class shall lead every other one by a margin; see nn.functional.multi_margin_loss.

    >>> MultiMarginLoss()(minitorch.tensor([[0.1, 0.2, 0.4, 0.8]]), minitorch.tensor([3]))
    tensor(0.3250)
    """

    _function = staticmethod(F.multi_margin_loss)
    _arguments = takes(p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean")

    def _keep(self, **settings: Any) -> None:
        super()._keep(**settings)
        if self.p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2, got {self.p}")
        if self.weight is not None and self.weight.ndim != 1:
            raise ValueError(
                f"MultiMarginLoss: weight must have one number per class, got shape {self.weight.shape}"
            )


class _TripletLoss(_Loss):
    """A loss of three inputs that asks for a margin."""

    def _keep(self, **settings: Any) -> None:
        if settings["margin"] <= 0:
            name = type(self).__name__
            raise ValueError(f"{name}: margin must be greater than 0, got {settings['margin']}")
        super()._keep(**settings)

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:  # type: ignore[override]
        """Return the loss, as the function of nn.functional computes it."""
        return self._run(anchor, positive, negative)


class TripletMarginLoss(_TripletLoss):
    """max(0, margin + ‖a - p‖ - ‖a - n‖); see nn.functional.triplet_margin_loss.

    >>> a, near, far = minitorch.zeros(1, 2), minitorch.tensor([[1.0, 0.0]]), minitorch.tensor([[0.0, 1.5]])
    >>> TripletMarginLoss()(a, near, far)
    tensor(0.5000)
    """

    _function = staticmethod(F.triplet_margin_loss)
    _arguments = takes(
        margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
    )


class TripletMarginWithDistanceLoss(_TripletLoss):
    """max(0, margin + d(a, p) - d(a, n)); see nn.functional.triplet_margin_with_distance_loss.

    >>> a, near, far = minitorch.zeros(1, 2), minitorch.tensor([[1.0, 0.0]]), minitorch.tensor([[0.0, 1.5]])
    >>> taxi = lambda x, y: (x - y).abs().sum(axis=-1)
    >>> TripletMarginWithDistanceLoss(distance_function=taxi)(a, near, far)
    tensor(0.5000)
    """

    _function = staticmethod(F.triplet_margin_with_distance_loss)
    _arguments = takes_by_name(distance_function=None, margin=1.0, swap=False, reduction="mean")


class CTCLoss(_Loss):
    """-log of the probability of a target in any alignment; see nn.functional.ctc_loss.

    >>> even = minitorch.zeros(2, 1, 3).log_softmax(-1)
    >>> CTCLoss()(even, minitorch.tensor([[1]]), [2], [1]).exp()
    tensor(3.)
    """

    _function = staticmethod(F.ctc_loss)
    _arguments = takes(blank=0, reduction="mean", zero_infinity=False)

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Tensor:  # type: ignore[override]
        """Return the loss; see nn.functional.ctc_loss."""
        return self._run(log_probs, targets, input_lengths, target_lengths)


__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip
