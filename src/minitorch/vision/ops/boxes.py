"""Boxes (x1, y1, x2, y2): areas, overlaps, and which to keep. Enters: boxes (N, 4). Leaves: numbers or indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch import creation
from minitorch.functions import maximum, minimum, stack, where
from minitorch.tensor import Tensor


def box_area(boxes: Tensor) -> Tensor:
    """The areas.

    >>> box_area(creation.tensor([[0.0, 0.0, 2.0, 3.0]]))
    tensor([6.])
    """
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _overlaps(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The areas of the intersections and of the unions, of each of N with each of M: (N, M)."""
    low = maximum(first[:, None, :2], second[None, :, :2])
    high = minimum(first[:, None, 2:], second[None, :, 2:])
    size = (high - low).clamp(min=0)
    both = size[..., 0] * size[..., 1]
    return both, box_area(first)[:, None] + box_area(second)[None] - both


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The intersection over the union, of each of N with each of M: (N, M).

    >>> box_iou(creation.tensor([[0.0, 0.0, 2.0, 2.0]]), creation.tensor([[1.0, 0.0, 3.0, 2.0]]))
    tensor([[0.3333]])
    """
    both, union = _overlaps(boxes1, boxes2)
    return both / union


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The intersection over the union, less the share of the smallest box around both that neither fills."""
    both, union = _overlaps(boxes1, boxes2)
    low = minimum(boxes1[:, None, :2], boxes2[None, :, :2])
    high = maximum(boxes1[:, None, 2:], boxes2[None, :, 2:])
    size = (high - low).clamp(min=0)
    around = size[..., 0] * size[..., 1]
    return both / union - (around - union) / around


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The indices of boxes to keep, best first: no one overlaps a better one by more than the threshold.

    >>> boxes = creation.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]])
    >>> nms(boxes, creation.tensor([0.5, 0.9, 0.1]), 0.5)
    tensor([1, 2])
    """
    overlap = box_iou(boxes.detach(), boxes.detach()).cpu().numpy()
    order = np.argsort(-scores.detach().cpu().numpy(), kind="stable")
    kept: list[int] = []
    dropped = np.zeros(len(order), dtype=bool)
    for i in order:
        if not dropped[i]:
            kept.append(int(i))
            dropped |= overlap[i] > iou_threshold
    return creation.tensor(np.array(kept, dtype=np.int64), device=boxes.device)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """What nms keeps of each category by itself."""
    if boxes.numel() == 0:
        return creation.zeros(0, dtype=np.int64, device=boxes.device)
    apart = idxs.to(boxes.dtype) * (boxes.max() + 1)
    return nms(boxes + apart[:, None], scores, iou_threshold)


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut boxes off at the edges of an image (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return stack((x, y), dim=boxes.dim()).reshape(boxes.shape)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The indices of boxes whose sides are all at least that long."""
    keep = (boxes[:, 2] - boxes[:, 0] >= min_size) & (boxes[:, 3] - boxes[:, 1] >= min_size)
    return where(keep)[0]


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes by two corners (xyxy), corner and size (xywh), or centre and size (cxcywh), in another of these.

    >>> box_convert(creation.tensor([[1.0, 1.0, 3.0, 5.0]]), "xyxy", "cxcywh")
    tensor([[2., 3., 2., 4.]])
    """
    known = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in known or out_fmt not in known:
        raise ValueError(
            f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}"
        )
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    given: dict[str, Any] = {
        "xyxy": lambda: (a, b, c, d),
        "xywh": lambda: (a, b, c - a, d - b),
        "cxcywh": lambda: ((a + c) / 2, (b + d) / 2, c - a, d - b),
    }
    return stack(given[out_fmt](), dim=-1)
