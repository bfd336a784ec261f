"""Boxes and blocks. Enters: boxes, features. Leaves: what to keep; features."""

from minitorch.vision.ops import boxes, losses, misc
from minitorch.vision.ops.boxes import (
    batched_nms,
    box_area,
    box_convert,
    box_iou,
    clip_boxes_to_image,
    generalized_box_iou,
    nms,
    remove_small_boxes,
)
from minitorch.vision.ops.losses import sigmoid_focal_loss
from minitorch.vision.ops.misc import (
    MLP,
    Conv2dNormActivation,
    Conv3dNormActivation,
    FrozenBatchNorm2d,
    Permute,
    SqueezeExcitation,
    StochasticDepth,
    stochastic_depth,
)

__all__ = [
    "MLP", "Conv2dNormActivation", "Conv3dNormActivation", "FrozenBatchNorm2d", "Permute", "SqueezeExcitation",
    "StochasticDepth", "batched_nms", "box_area", "box_convert", "box_iou", "boxes", "clip_boxes_to_image",
    "generalized_box_iou", "losses", "misc", "nms", "remove_small_boxes", "sigmoid_focal_loss", "stochastic_depth",
]  # fmt: skip
