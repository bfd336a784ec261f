"""Transforms: objects that change an image each time they are called, some by chance.

Enters: a Pillow image or a Tensor (…, C, H, W). Leaves: another. Chances are drawn as torchvision draws them, in its
order: the same seed makes the same choices.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from minitorch import creation
from minitorch.engine.dtypes import float32
from minitorch.functions import cat
from minitorch.nn import Module
from minitorch.random import rand, randint, randperm
from minitorch.tensor import Tensor
from minitorch.vision.images import InterpolationMode, as_pair, dimensions, is_pillow, mode_of
from minitorch.vision.transforms import functional as F

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def uniform(low: float, high: float) -> float:
    """Draw a number between two."""
    return float(creation.empty(1).uniform_(float(low), float(high)).item())


def whole(low: int, high: int) -> int:
    """Draw a whole number from low to below high."""
    return int(randint(low, high, size=(1,)).item())


def happens(p: float) -> bool:
    """Draw whether something of a probability happens."""
    return bool(rand(1).item() < p)


def _shown(value: Any) -> str:
    return value.value if isinstance(value, InterpolationMode) else str(value)


class _Shown(Module):
    """A transform that prints itself by its options."""

    _options: tuple[str, ...] = ()

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in self._options)
        return f"{type(self).__name__}({inside})"


class Compose:
    """Several transforms, one after the other.

    >>> Compose([CenterCrop(2), ConvertImageDtype()])(creation.ones(1, 4, 4)).shape
    (1, 2, 2)
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        """Apply all."""
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        inside = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}({inside}\n)"


class ToTensor:
    """A Pillow image, or an array (H, W, C), as floats (C, H, W) in [0, 1]."""

    def __call__(self, pic: Any) -> Tensor:
        """Convert one."""
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """A Pillow image as a Tensor (C, H, W) of its own numbers."""

    def __call__(self, pic: Any) -> Tensor:
        """Convert one."""
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return "PILToTensor()"


class ToPILImage:
    """A Tensor (C, H, W) or an array (H, W, C) as a Pillow image."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        """Convert one."""
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"ToPILImage({'' if self.mode is None else f'mode={self.mode}'})"


class ConvertImageDtype(Module):
    """A Tensor image in another dtype, its values stretched to that one's range."""

    def __init__(self, dtype: Any = float32) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Any) -> Tensor:
        """Convert one."""
        return F.convert_image_dtype(image, self.dtype)


class Lambda:
    """A function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        """Apply it."""
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class Normalize(_Shown):
    """(x - mean) / std, channel by channel."""

    _options = ("mean", "std")

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Tensor) -> Tensor:
        """Normalise one."""
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class LinearTransformation(Module):
    """(x - mean) @ matrix, of an image as one vector."""

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        if transformation_matrix.shape[0] != transformation_matrix.shape[1]:
            raise ValueError("transformation_matrix should be square")
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        """Transform one."""
        moved = tensor.reshape(-1, tensor.numel()) - self.mean_vector
        return (moved @ self.transformation_matrix).reshape(tensor.shape)


class Resize(_Shown):
    """Larger or smaller: `size` is (height, width), or the shorter side's."""

    _options = ("size", "interpolation", "max_size", "antialias")

    def __init__(
        self,
        size: Any,
        interpolation: Any = BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, int) and (not isinstance(size, (list, tuple)) or len(size) not in (1, 2)):
            raise ValueError(f"size should be an int or a sequence of 1 or 2, got {size!r}")
        self.size, self.max_size, self.antialias = size, max_size, antialias
        self.interpolation = mode_of(interpolation)

    def forward(self, img: Any) -> Any:
        """Resize one."""
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(_Shown):
    """The middle."""

    _options = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = as_pair(size)

    def forward(self, img: Any) -> Any:
        """Crop one."""
        return F.center_crop(img, self.size)


class Pad(_Shown):
    """More pixels around it."""

    _options = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        """Pad one."""
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class Grayscale(_Shown):
    """Without colour, in 1 or 3 channels."""

    _options = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        """Convert one."""
        return F.rgb_to_grayscale(img, self.num_output_channels)


class FiveCrop(_Shown):
    """The four corners and the middle, as a tuple."""

    _options = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = as_pair(size)

    def forward(self, img: Any) -> tuple[Any, ...]:
        """Crop one."""
        return F.five_crop(img, self.size)


class TenCrop(_Shown):
    """The five crops, and those of the flipped image."""

    _options = ("size", "vertical_flip")

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = as_pair(size), vertical_flip

    def forward(self, img: Any) -> tuple[Any, ...]:
        """Crop one."""
        return F.ten_crop(img, self.size, self.vertical_flip)


# --- some of them, by chance -------------------------------------------------------------------------


class RandomTransforms:
    """The base of those that choose among transforms."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __repr__(self) -> str:
        inside = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}({inside}\n)"


class RandomApply(Module):
    """All transforms, with probability p; else none."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img: Any) -> Any:
        """Apply all, or none."""
        if self.p < rand(1).item():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        inside = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}(\n    p={self.p}{inside}\n)"


class RandomOrder(RandomTransforms):
    """All transforms, in an order drawn by Python's random, as torchvision draws it."""

    def __call__(self, img: Any) -> Any:
        """Apply all."""
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(RandomTransforms):
    """One of the transforms, drawn by Python's random, as torchvision draws it."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        self.p = p

    def __call__(self, *args: Any) -> Any:
        """Apply one."""
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


class _WithProbability(_Shown):
    """One that changes an image with probability p."""

    _options: tuple[str, ...] = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        """Change it, or not."""
        return self._changed(img) if happens(self.p) else img

    def _changed(self, img: Any) -> Any:
        raise NotImplementedError


class RandomHorizontalFlip(_WithProbability):
    """Left and right exchanged, with probability p."""

    def _changed(self, img: Any) -> Any:
        return F.hflip(img)


class RandomVerticalFlip(_WithProbability):
    """Top and bottom exchanged, with probability p."""

    def _changed(self, img: Any) -> Any:
        return F.vflip(img)


class RandomInvert(_WithProbability):
    """Black and white exchanged, with probability p."""

    def _changed(self, img: Any) -> Any:
        return F.invert(img)


class RandomAutocontrast(_WithProbability):
    """Each channel stretched from black to white, with probability p."""

    def _changed(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(_WithProbability):
    """Values spread so that all are about as frequent, with probability p."""

    def _changed(self, img: Any) -> Any:
        return F.equalize(img)


class RandomPosterize(_WithProbability):
    """The first bits of each byte alone, with probability p."""

    _options = ("bits", "p")

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def _changed(self, img: Any) -> Any:
        return F.posterize(img, self.bits)


class RandomSolarize(_WithProbability):
    """Inverted from a threshold on, with probability p."""

    _options = ("threshold", "p")

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def _changed(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(_WithProbability):
    """Sharper or blurred, with probability p."""

    _options = ("sharpness_factor", "p")

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def _changed(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomGrayscale(_WithProbability):
    """Without colour, with probability p; as many channels as before."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def forward(self, img: Any) -> Any:
        """Change it, or not."""
        channels = dimensions(img)[0]
        return F.rgb_to_grayscale(img, channels) if happens(self.p) else img


# --- places drawn by chance --------------------------------------------------------------------------


class RandomCrop(_Shown):
    """A part of a size, at a place drawn by chance."""

    _options = ("size", "padding")

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = as_pair(size)
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = (
            padding,
            pad_if_needed,
            fill,
            padding_mode,
        )

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Draw top and left; and height and width."""
        _, h, w = dimensions(img)
        th, tw = output_size
        if h < th or w < tw:
            raise ValueError(f"Required crop size {(th, tw)} is larger than input image size {(h, w)}")
        if w == tw and h == th:
            return 0, 0, h, w
        top = whole(0, h - th + 1)
        return top, whole(0, w - tw + 1), th, tw

    def forward(self, img: Any) -> Any:
        """Crop one."""
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, height, width = dimensions(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))


class RandomResizedCrop(_Shown):
    """A part whose area and shape are drawn by chance, resized to a size."""

    _options = ("size", "scale", "ratio", "interpolation", "antialias")

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.scale, self.ratio = as_pair(size), scale, ratio
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Draw top, left, height and width; after ten that do not fit, the middle."""
        _, height, width = dimensions(img)
        area = height * width
        low, high = creation.tensor(list(ratio)).log().tolist()
        for _ in range(10):
            wanted = area * uniform(scale[0], scale[1])
            aspect = creation.empty(1).uniform_(low, high).exp().item()
            w, h = round(math.sqrt(wanted * aspect)), round(math.sqrt(wanted / aspect))
            if 0 < w <= width and 0 < h <= height:
                top = whole(0, height - h + 1)
                return top, whole(0, width - w + 1), h, w
        shape = width / height
        w, h = width, height
        if shape < min(ratio):
            h = round(w / min(ratio))
        elif shape > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        """Crop and resize one."""
        i, j, h, w = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, i, j, h, w, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self) -> str:
        scale, ratio = tuple(round(s, 4) for s in self.scale), tuple(round(r, 4) for r in self.ratio)
        return (
            f"RandomResizedCrop(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


def _around_zero(value: Any, name: str) -> list[float]:
    """Return a range of angles: one number stands for both directions."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(value), float(value)]
    return [float(v) for v in value]


class RandomRotation(_Shown):
    """Turned by an angle drawn by chance."""

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = _around_zero(degrees, "degrees")
        self.interpolation = mode_of(interpolation)
        self.expand, self.center, self.fill = expand, center, 0 if fill is None else fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """Draw the angle."""
        return uniform(degrees[0], degrees[1])

    def forward(self, img: Any) -> Any:
        """Turn one."""
        fill = _fill_for(img, self.fill)
        return F.rotate(
            img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, fill
        )

    def __repr__(self) -> str:
        center = "" if self.center is None else f", center={self.center}"
        how = f"interpolation={self.interpolation.value}, expand={self.expand}{center}, fill={self.fill}"
        return f"RandomRotation(degrees={self.degrees}, {how})"


def _fill_for(img: Any, fill: Any) -> Any:
    """Return a fill for each channel of a Tensor; a Pillow image's as it is."""
    if is_pillow(img):
        return fill
    return [float(fill)] * dimensions(img)[0] if isinstance(fill, (int, float)) else [float(f) for f in fill]


class RandomAffine(Module):
    """Turned, moved, scaled and sheared by chance."""

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        self.degrees = _around_zero(degrees, "degrees")
        if translate is not None and any(not 0.0 <= t <= 1.0 for t in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and any(s <= 0 for s in scale):
            raise ValueError("scale values should be positive")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else _around_zero(shear, "shear")
        self.interpolation, self.fill, self.center = (
            mode_of(interpolation),
            0 if fill is None else fill,
            center,
        )

    @staticmethod
    def get_params(
        degrees: Sequence[float], translate: Any, scale_ranges: Any, shears: Any, img_size: Sequence[int]
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Draw the angle, the way, the scale and the shear."""
        angle = uniform(degrees[0], degrees[1])
        tx = ty = 0
        if translate is not None:
            most_x, most_y = float(translate[0] * img_size[0]), float(translate[1] * img_size[1])
            tx = round(uniform(-most_x, most_x))
            ty = round(uniform(-most_y, most_y))
        scale = uniform(scale_ranges[0], scale_ranges[1]) if scale_ranges is not None else 1.0
        shear_x = shear_y = 0.0
        if shears is not None:
            shear_x = uniform(shears[0], shears[1])
            if len(shears) == 4:
                shear_y = uniform(shears[2], shears[3])
        return angle, (tx, ty), scale, (shear_x, shear_y)

    def forward(self, img: Any) -> Any:
        """Change one."""
        _, height, width = dimensions(img)
        drawn = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        fill = _fill_for(img, self.fill)
        return F.affine(img, *drawn, interpolation=self.interpolation, fill=fill, center=self.center)

    def __repr__(self) -> str:
        kept = {
            "translate": None,
            "scale": None,
            "shear": None,
            "interpolation": NEAREST,
            "fill": 0,
            "center": None,
        }
        named = [f"{k}={_shown(getattr(self, k))}" for k, usual in kept.items() if getattr(self, k) != usual]
        return f"RandomAffine({', '.join([f'degrees={self.degrees}', *named])})"


class RandomPerspective(Module):
    """Seen from another place, with probability p."""

    def __init__(
        self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: Any = BILINEAR, fill: Any = 0
    ) -> None:
        super().__init__()
        self.p, self.distortion_scale = p, distortion_scale
        self.interpolation, self.fill = mode_of(interpolation), 0 if fill is None else fill

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Draw where the four corners come to lie."""
        x = int(distortion_scale * (width // 2))
        y = int(distortion_scale * (height // 2))
        ends = [
            [whole(0, x + 1), whole(0, y + 1)],
            [whole(width - x - 1, width), whole(0, y + 1)],
            [whole(width - x - 1, width), whole(height - y - 1, height)],
            [whole(0, x + 1), whole(height - y - 1, height)],
        ]
        starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return starts, ends

    def forward(self, img: Any) -> Any:
        """Change it, or not."""
        fill = _fill_for(img, self.fill)
        if not happens(self.p):
            return img
        _, height, width = dimensions(img)
        starts, ends = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, starts, ends, self.interpolation, fill)

    def __repr__(self) -> str:
        return f"RandomPerspective(p={self.p})"


class ColorJitter(_Shown):
    """Brightness, contrast, saturation and hue changed by chance, in an order drawn by chance."""

    _options = ("brightness", "contrast", "saturation", "hue")

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        super().__init__()
        self.brightness = self._range(brightness, "brightness")
        self.contrast = self._range(contrast, "contrast")
        self.saturation = self._range(saturation, "saturation")
        self.hue = self._range(hue, "hue", center=0, bound=(-0.5, 0.5), clip=False)

    @staticmethod
    def _range(
        value: Any,
        name: str,
        center: float = 1,
        bound: tuple[float, float] = (0, math.inf),
        clip: bool = True,
    ) -> tuple[float, float] | None:
        if isinstance(value, (int, float)):
            if value < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            low, high = center - float(value), center + float(value)
            low = max(low, 0.0) if clip else low
        else:
            low, high = (float(v) for v in value)
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == center else (low, high)

    @staticmethod
    def get_params(
        brightness: Any, contrast: Any, saturation: Any, hue: Any
    ) -> tuple[Tensor, float | None, float | None, float | None, float | None]:
        """Draw the order, and a factor for each."""
        order = randperm(4)
        b, c, s, h = (
            None if r is None else uniform(r[0], r[1]) for r in (brightness, contrast, saturation, hue)
        )
        return order, b, c, s, h

    def forward(self, img: Any) -> Any:
        """Change one."""
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        change = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order.tolist():
            if factors[i] is not None:
                img = change[i](img, factors[i])
        return img


class GaussianBlur(_Shown):
    """Blurred by a bell whose width is drawn by chance."""

    _options = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = as_pair(kernel_size)
        if any(k <= 0 or k % 2 == 0 for k in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        self.sigma = (float(sigma), float(sigma)) if isinstance(sigma, (int, float)) else tuple(sigma)
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max). Got {self.sigma}")

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """Draw the width."""
        return uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        """Blur one."""
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, list(self.kernel_size), [sigma, sigma])


class ElasticTransform(_Shown):
    """Each pixel moved by chance, neighbours alike: as if the image were rubber."""

    _options = ("alpha", "sigma", "interpolation", "fill")

    def __init__(
        self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = BILINEAR, fill: Any = 0
    ) -> None:
        super().__init__()
        self.alpha, self.sigma = (
            _two_floats(value, name) for value, name in ((alpha, "alpha"), (sigma, "sigma"))
        )
        self.interpolation = mode_of(interpolation)
        self.fill = [float(f) for f in (fill if isinstance(fill, (list, tuple)) else [fill])]

    @staticmethod
    def get_params(alpha: list[float], sigma: list[float], size: list[int]) -> Tensor:
        """Draw how far each pixel is moved, as (1, H, W, 2), in parts of the half image."""
        height, width = size
        moved = []
        for strength, smooth, length in ((alpha[0], sigma[0], width), (alpha[1], sigma[1], height)):
            part = rand(1, 1, height, width) * 2 - 1
            if smooth > 0.0:
                count = int(8 * smooth + 1)
                part = F.gaussian_blur(part, [count + (count % 2 == 0)] * 2, list(sigma))
            moved.append(part * strength / length)
        return cat(moved, 1).permute(0, 2, 3, 1)

    def forward(self, img: Any) -> Any:
        """Change one."""
        _, height, width = dimensions(img)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(img, displacement, self.interpolation, self.fill)


def _two_floats(value: Any, name: str) -> list[float]:
    if not isinstance(value, (int, float, Sequence)):
        raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
    both = list(value) if isinstance(value, Sequence) else [value, value]
    if len(both) != 2:
        raise ValueError(f"If {name} is a sequence its length should be 2. Got {len(both)}")
    return [float(each) for each in both]


class RandomErasing(Module):
    """A part of a Tensor image overwritten, with probability p."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not 0 <= p <= 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    @staticmethod
    def get_params(
        img: Tensor, scale: Sequence[float], ratio: Sequence[float], value: list[float] | None = None
    ) -> tuple[int, int, int, int, Tensor]:
        """Draw the part and what is written there; after ten that do not fit, the image itself."""
        channels, height, width = img.shape[-3:]
        area = height * width
        low, high = creation.tensor(list(ratio)).log().tolist()
        for _ in range(10):
            wanted = area * uniform(scale[0], scale[1])
            aspect = creation.empty(1).uniform_(low, high).exp().item()
            h, w = round(math.sqrt(wanted * aspect)), round(math.sqrt(wanted / aspect))
            if not (h < height and w < width):
                continue
            if value is None:
                written = creation.empty(channels, h, w, dtype=float32).normal_()
            else:
                written = creation.tensor(value).reshape(-1, 1, 1)
            top = whole(0, height - h + 1)
            return top, whole(0, width - w + 1), h, w, written
        return 0, 0, height, width, img

    def forward(self, img: Tensor) -> Tensor:
        """Erase, or not."""
        if not happens(self.p):
            return img
        if isinstance(self.value, (int, float)):
            value: list[float] | None = [float(self.value)]
        elif isinstance(self.value, str):
            value = None
        else:
            value = [float(v) for v in self.value]
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError(
                f"If value is a sequence, it should have one value or {img.shape[-3]}, one for each channel"
            )
        x, y, h, w, written = self.get_params(img, self.scale, self.ratio, value)
        return F.erase(img, x, y, h, w, written, self.inplace)

    def __repr__(self) -> str:
        return (
            f"RandomErasing(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value}, "
            f"inplace={self.inplace})"
        )
