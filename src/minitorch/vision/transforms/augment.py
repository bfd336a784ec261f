"""RandAugment and TrivialAugmentWide: operations and strengths drawn by chance. Enters: an image. Leaves: another."""

from __future__ import annotations

import math
from typing import Any

from minitorch import creation
from minitorch.random import randint
from minitorch.tensor import Tensor
from minitorch.vision.images import InterpolationMode, dimensions, mode_of
from minitorch.vision.transforms import functional as F
from minitorch.vision.transforms.classes import _fill_for, _Shown, whole

# By operation: how strong it may be, bin by bin, and whether the other direction is possible too.
Space = dict[str, tuple[Tensor, bool]]


def apply_operation(img: Any, name: str, strength: float, mode: InterpolationMode, fill: Any) -> Any:
    """Return an image after one operation of a strength."""
    how = {"interpolation": mode, "fill": fill}
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], **how}
    if name in ("ShearX", "ShearY"):  # strengths are tangents; sheared from the corner
        angle = math.degrees(math.atan(strength))
        shear = [angle, 0.0] if name == "ShearX" else [0.0, angle]
        return F.affine(img, **{**still, "shear": shear, "center": [0, 0]})
    if name in ("TranslateX", "TranslateY"):
        way = [int(strength), 0] if name == "TranslateX" else [0, int(strength)]
        return F.affine(img, **{**still, "translate": way})
    if name == "Rotate":
        return F.rotate(img, strength, **how)
    factors = {
        "Brightness": F.adjust_brightness,
        "Color": F.adjust_saturation,
        "Contrast": F.adjust_contrast,
        "Sharpness": F.adjust_sharpness,
    }
    if name in factors:
        return factors[name](img, 1.0 + strength)
    if name == "Posterize":
        return F.posterize(img, int(strength))
    if name == "Solarize":
        return F.solarize(img, strength)
    plain = {"AutoContrast": F.autocontrast, "Equalize": F.equalize, "Invert": F.invert}
    return plain[name](img) if name in plain else img


def _space(
    bins: int, shear: float, way: tuple[float, float], turn: float, colour: float, bits: float
) -> Space:
    strengths = {
        "Identity": (creation.tensor(0.0), False),
        "ShearX": (creation.linspace(0.0, shear, bins), True),
        "ShearY": (creation.linspace(0.0, shear, bins), True),
        "TranslateX": (creation.linspace(0.0, way[1], bins), True),
        "TranslateY": (creation.linspace(0.0, way[0], bins), True),
        "Rotate": (creation.linspace(0.0, turn, bins), True),
    }
    for name in ("Brightness", "Color", "Contrast", "Sharpness"):
        strengths[name] = (creation.linspace(0.0, colour, bins), True)
    strengths["Posterize"] = (8 - (creation.arange(bins) / ((bins - 1) / bits)).round().int(), False)
    strengths["Solarize"] = (creation.linspace(255.0, 0.0, bins), False)
    strengths["AutoContrast"] = strengths["Equalize"] = (creation.tensor(0.0), False)
    return strengths


class _Augment(_Shown):
    """What both draw alike."""

    def _other_direction(self) -> bool:
        return bool(randint(2, (1,)).item())


class RandAugment(_Augment):
    """`num_ops` operations drawn by chance, all of strength `magnitude`, of `num_magnitude_bins`."""

    _options = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__()
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins
        self.interpolation, self.fill = mode_of(interpolation), fill

    def forward(self, img: Any) -> Any:
        """Change one."""
        _, height, width = dimensions(img)
        fill = None if self.fill is None else _fill_for(img, self.fill)
        way = (150.0 / 331.0 * height, 150.0 / 331.0 * width)
        space = _space(self.num_magnitude_bins, 0.3, way, 30.0, 0.9, 4)
        for _ in range(self.num_ops):
            name = list(space)[whole(0, len(space))]
            strengths, signed = space[name]
            strength = float(strengths[self.magnitude].item()) if strengths.ndim > 0 else 0.0
            strength = -strength if signed and self._other_direction() else strength
            img = apply_operation(img, name, strength, self.interpolation, fill)
        return img


class TrivialAugmentWide(_Augment):
    """One operation drawn by chance, of a strength drawn by chance."""

    _options = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__()
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation, self.fill = mode_of(interpolation), fill

    def forward(self, img: Any) -> Any:
        """Change one."""
        fill = None if self.fill is None else _fill_for(img, self.fill)
        space = _space(self.num_magnitude_bins, 0.99, (32.0, 32.0), 135.0, 0.99, 6)
        name = list(space)[whole(0, len(space))]
        strengths, signed = space[name]
        strength = 0.0
        if strengths.ndim > 0:
            strength = float(strengths[whole(0, len(strengths))].item())
        strength = -strength if signed and self._other_direction() else strength
        return apply_operation(img, name, strength, self.interpolation, fill)
