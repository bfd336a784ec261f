"""Augmentation: operations and strengths drawn by chance, or by a policy. Enters: an image. Leaves: another."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from minitorch import creation
from minitorch.distributions import Dirichlet
from minitorch.random import rand, randint
from minitorch.tensor import Tensor
from minitorch.vision.images import InterpolationMode, dimensions, is_pillow, mode_of
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


class AutoAugmentPolicy(Enum):
    """Which data a policy was found on."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# The policies that AutoAugment found (Cubuk and others, 2018): two operations each, with its probability and, of ten,
# its strength.
_POLICIES = {
    "imagenet": """
        Posterize 0.4 8 & Rotate 0.6 9; Solarize 0.6 5 & AutoContrast 0.6; Equalize 0.8 & Equalize 0.6;
        Posterize 0.6 7 & Posterize 0.6 6; Equalize 0.4 & Solarize 0.2 4; Equalize 0.4 & Rotate 0.8 8;
        Solarize 0.6 3 & Equalize 0.6; Posterize 0.8 5 & Equalize 1; Rotate 0.2 3 & Solarize 0.6 8;
        Equalize 0.6 & Posterize 0.4 6; Rotate 0.8 8 & Color 0.4 0; Rotate 0.4 9 & Equalize 0.6;
        Equalize 0 & Equalize 0.8; Invert 0.6 & Equalize 1; Color 0.6 4 & Contrast 1 8;
        Rotate 0.8 8 & Color 1 2; Color 0.8 8 & Solarize 0.8 7; Sharpness 0.4 7 & Invert 0.6;
        ShearX 0.6 5 & Equalize 1; Color 0.4 0 & Equalize 0.6; Equalize 0.4 & Solarize 0.2 4;
        Solarize 0.6 5 & AutoContrast 0.6; Invert 0.6 & Equalize 1; Color 0.6 4 & Contrast 1 8;
        Equalize 0.8 & Equalize 0.6
    """,
    "cifar10": """
        Invert 0.1 & Contrast 0.2 6; Rotate 0.7 2 & TranslateX 0.3 9; Sharpness 0.8 1 & Sharpness 0.9 3;
        ShearY 0.5 8 & TranslateY 0.7 9; AutoContrast 0.5 & Equalize 0.9; ShearY 0.2 7 & Posterize 0.3 7;
        Color 0.4 3 & Brightness 0.6 7; Sharpness 0.3 9 & Brightness 0.7 9; Equalize 0.6 & Equalize 0.5;
        Contrast 0.6 7 & Sharpness 0.6 5; Color 0.7 7 & TranslateX 0.5 8; Equalize 0.3 & AutoContrast 0.4;
        TranslateY 0.4 3 & Sharpness 0.2 6; Brightness 0.9 6 & Color 0.2 8; Solarize 0.5 2 & Invert 0;
        Equalize 0.2 & AutoContrast 0.6; Equalize 0.2 & Equalize 0.6; Color 0.9 9 & Equalize 0.6;
        AutoContrast 0.8 & Solarize 0.2 8; Brightness 0.1 3 & Color 0.7 0;
        Solarize 0.4 5 & AutoContrast 0.9; TranslateY 0.9 9 & TranslateY 0.7 9;
        AutoContrast 0.9 & Solarize 0.8 3; Equalize 0.8 & Invert 0.1; TranslateY 0.7 9 & AutoContrast 0.9
    """,
    "svhn": """
        ShearX 0.9 4 & Invert 0.2; ShearY 0.9 8 & Invert 0.7; Equalize 0.6 & Solarize 0.6 6;
        Invert 0.9 & Equalize 0.6; Equalize 0.6 & Rotate 0.9 3; ShearX 0.9 4 & AutoContrast 0.8;
        ShearY 0.9 8 & Invert 0.4; ShearY 0.9 5 & Solarize 0.2 6; Invert 0.9 & AutoContrast 0.8;
        Equalize 0.6 & Rotate 0.9 3; ShearX 0.9 4 & Solarize 0.3 3; ShearY 0.8 8 & Invert 0.7;
        Equalize 0.9 & TranslateY 0.6 6; Invert 0.9 & Equalize 0.6; Contrast 0.3 3 & Rotate 0.8 4;
        Invert 0.8 & TranslateY 0 2; ShearY 0.7 6 & Solarize 0.4 8; Invert 0.6 & Rotate 0.8 4;
        ShearY 0.3 7 & TranslateX 0.9 3; ShearX 0.1 6 & Invert 0.6; Solarize 0.7 2 & TranslateY 0.6 7;
        ShearY 0.8 4 & Invert 0.8; ShearX 0.7 9 & TranslateY 0.8 3; ShearY 0.8 5 & AutoContrast 0.7;
        ShearX 0.7 2 & Invert 0.1
    """,
}
Step = tuple[str, float, int | None]


def policies_of(policy: AutoAugmentPolicy) -> list[tuple[Step, ...]]:
    """Return a policy's pairs of operations.

    >>> policies_of(AutoAugmentPolicy.IMAGENET)[0]
    (('Posterize', 0.4, 8), ('Rotate', 0.6, 9))
    """
    pairs = []
    for pair in _POLICIES[policy.value].split(";"):
        words = [each.split() for each in pair.split("&")]
        pairs.append(tuple((w[0], float(w[1]), int(w[2]) if len(w) > 2 else None) for w in words))
    return pairs


class AutoAugment(_Shown):
    """Two operations of a policy that was found on some data, each with its probability and strength."""

    _options = ("policy", "fill")

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__()
        self.policy, self.policies = policy, policies_of(policy)
        self.interpolation, self.fill = mode_of(interpolation), fill

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Draw which pair it is, whether each happens, and in which direction."""
        return whole(0, transform_num), rand((2,)), randint(2, (2,))

    def _draw(self) -> tuple[Any, Any, Any]:
        """Return the pair, and two questions of an operation's place in it: whether it happens, which direction."""
        number, chances, signs = self.get_params(len(self.policies))
        return self.policies[number], lambda i, p: bool(chances[i] <= p), lambda i: bool(signs[i] == 0)

    def forward(self, img: Any) -> Any:
        """Change one."""
        _, height, width = dimensions(img)
        fill = None if self.fill is None else _fill_for(img, self.fill)
        space = _space(10, 0.3, (150.0 / 331.0 * height, 150.0 / 331.0 * width), 30.0, 0.9, 4)
        steps, happens, other_direction = self._draw()
        for i, (name, p, level) in enumerate(steps):
            if not happens(i, p):
                continue
            strengths, signed = space.get(name, (creation.tensor(0.0), False))
            strength = 0.0 if level is None else float(strengths[level].item())
            strength = -strength if signed and other_direction(i) else strength
            img = apply_operation(img, name, strength, self.interpolation, fill)
        return img


class AugMix(_Augment):
    """An image mixed with several of itself, each changed by a chain of operations drawn by chance."""

    _options = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = None,
    ) -> None:
        super().__init__()
        if not 1 <= severity <= 10:
            raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, all_ops
        self.interpolation, self.fill = mode_of(interpolation), fill

    def _space(self, height: int, width: int) -> Space:
        colours = ("Brightness", "Color", "Contrast", "Sharpness")
        found = _space(10, 0.3, (height / 3.0, width / 3.0), 30.0, 0.9, 4)
        found["Posterize"] = (found["Posterize"][0] - 4, False)
        order = [name for name in found if name not in (*colours, "Identity")]
        return {name: found[name] for name in [*order, *(colours if self.all_ops else ())]}

    def forward(self, img: Any) -> Any:
        """Change one."""
        image = F.pil_to_tensor(img) if is_pillow(img) else img
        fill = None if self.fill is None else _fill_for(image, self.fill)
        space = self._space(*image.shape[-2:])
        batch = image.reshape((1,) * max(4 - image.ndim, 0) + tuple(image.shape))
        count, ones = batch.shape[0], (1,) * (batch.ndim - 1)
        kept, mixed = (
            Dirichlet(creation.tensor([self.alpha] * n, device=batch.device).expand(count, -1)).sample()
            for n in (2, self.mixture_width)
        )
        shares = mixed * kept[:, 1:]
        mix = kept[:, 0].reshape(count, *ones) * batch
        for i in range(self.mixture_width):
            changed = batch
            for _ in range(self.chain_depth if self.chain_depth > 0 else whole(1, 4)):
                name = list(space)[whole(0, len(space))]
                strengths, signed = space[name]
                strength = float(strengths[whole(0, self.severity)].item()) if strengths.ndim > 0 else 0.0
                strength = -strength if signed and self._other_direction() else strength
                changed = apply_operation(changed, name, strength, self.interpolation, fill)
            mix = mix + shares[:, i].reshape(count, *ones) * changed
        mix = mix.reshape(image.shape).to(image.dtype)
        return F.to_pil_image(mix) if is_pillow(img) else mix
