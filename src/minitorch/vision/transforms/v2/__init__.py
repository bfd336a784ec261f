"""The transforms under the names of torchvision's second version. Enters: images. Leaves: images.

They are those of `transforms`, and draw the same; what is new is `ToImage`, `ToDtype`, `ToPureTensor`, `Identity`, and
that a sample of several parts (a tuple, a list, a dict) is walked through: images change alike, all else stays.
Bounding boxes, masks and videos are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitorch import creation
from minitorch.nn import Module
from minitorch.random import get_rng_state, multinomial, rand, randint, randperm, set_rng_state
from minitorch.tensor import Tensor
from minitorch.vision import transforms as first
from minitorch.vision.images import InterpolationMode, is_pillow, is_tensor_image
from minitorch.vision.transforms import functional as F
from minitorch.vision.transforms.v2 import functional


def _walked(change: Callable[[Any], Any], sample: tuple[Any, ...]) -> Any:
    """Change every image in a sample; each by the same draws."""
    whole: Any = sample if len(sample) > 1 else sample[0]
    if is_pillow(whole) or is_tensor_image(whole):
        return change(whole)
    start: Any = None
    end: Any = None

    def walk(part: Any) -> Any:
        nonlocal start, end
        if is_pillow(part) or (is_tensor_image(part) and not holds_pillow):
            if start is None:
                start = get_rng_state()
            else:
                set_rng_state(start)
            part = change(part)
            end = get_rng_state()
            return part
        if isinstance(part, dict):
            return {key: walk(value) for key, value in part.items()}
        if isinstance(part, (list, tuple)) and not hasattr(part, "_fields"):
            return type(part)(walk(value) for value in part)
        return part

    holds_pillow = _has_pillow(whole)
    return walk(whole)


def _has_pillow(part: Any) -> bool:
    if isinstance(part, dict):
        return any(_has_pillow(value) for value in part.values())
    return any(_has_pillow(value) for value in part) if isinstance(part, (list, tuple)) else is_pillow(part)


class Transform(Module):
    """The base of the second version's transforms: `transform(inpt, params)` changes one image."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw what all images of a sample share."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one image."""
        raise NotImplementedError

    def forward(self, *inputs: Any) -> Any:
        """Change every image of a sample."""
        params = self.make_params(list(inputs))
        return _walked(lambda image: self.transform(image, params), inputs)


def _second(kind: Any) -> Any:
    """Return a transform of the first version that walks through samples."""

    class Walking(kind):
        """See the transform of the same name in `transforms`."""

        def __call__(self, *inputs: Any) -> Any:
            """Change every image of a sample."""
            return _walked(super().__call__, inputs)

    Walking.__name__ = Walking.__qualname__ = kind.__name__
    Walking.__module__ = __name__
    return Walking


CenterCrop, ColorJitter, ConvertImageDtype = map(
    _second, (first.CenterCrop, first.ColorJitter, first.ConvertImageDtype)
)
FiveCrop, GaussianBlur, Grayscale = map(_second, (first.FiveCrop, first.GaussianBlur, first.Grayscale))
LinearTransformation, Normalize, Pad = map(_second, (first.LinearTransformation, first.Normalize, first.Pad))
PILToTensor, RandAugment, RandomAffine = map(
    _second, (first.PILToTensor, first.RandAugment, first.RandomAffine)
)
RandomAdjustSharpness, RandomAutocontrast = map(
    _second, (first.RandomAdjustSharpness, first.RandomAutocontrast)
)
RandomCrop, RandomEqualize, RandomErasing = map(
    _second, (first.RandomCrop, first.RandomEqualize, first.RandomErasing)
)
RandomGrayscale, RandomHorizontalFlip = map(_second, (first.RandomGrayscale, first.RandomHorizontalFlip))
RandomInvert, RandomPerspective, RandomPosterize = map(
    _second, (first.RandomInvert, first.RandomPerspective, first.RandomPosterize)
)
RandomResizedCrop, RandomRotation = map(_second, (first.RandomResizedCrop, first.RandomRotation))
RandomSolarize, RandomVerticalFlip, Resize = map(
    _second, (first.RandomSolarize, first.RandomVerticalFlip, first.Resize)
)
AugMix, AutoAugment, ElasticTransform = map(
    _second, (first.AugMix, first.AutoAugment, first.ElasticTransform)
)
AutoAugmentPolicy = first.AutoAugmentPolicy
TenCrop, ToTensor, TrivialAugmentWide = map(
    _second, (first.TenCrop, first.ToTensor, first.TrivialAugmentWide)
)


def _by_half(self: Any) -> bool:
    """Draw the direction as the second version draws it."""
    return bool(rand(()).item() <= 0.5)


def _draw_as_needed(self: Any) -> tuple[Any, Any, Any]:
    """Draw a policy's chances as the second version does: each when it is needed."""
    pair = self.policies[int(randint(len(self.policies), ()).item())]
    return pair, lambda i, p: bool(rand(()).item() <= p), lambda i: _by_half(self)


RandAugment._other_direction = TrivialAugmentWide._other_direction = AugMix._other_direction = _by_half
AutoAugment._draw = _draw_as_needed


class Compose(Module):
    """Several transforms, one after the other, of a sample of any number of parts."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence) or not transforms:
            raise ValueError("Compose: expects a sequence of at least one transform")
        self.transforms = transforms

    def forward(self, *inputs: Any) -> Any:
        """Apply all."""
        for transform in self.transforms:
            outputs = transform(*inputs)
            inputs = outputs if len(inputs) > 1 else (outputs,)
        return outputs

    def extra_repr(self) -> str:
        """Return one line for each."""
        return "\n".join(f"      {t}" for t in self.transforms)


class RandomApply(first.RandomApply):
    """All transforms, with probability p; else none."""


class RandomChoice(Module):
    """One of the transforms, by their probabilities, drawn from the generator."""

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None) -> None:
        super().__init__()
        weights = [1.0] * len(transforms) if p is None else list(p)
        self.transforms, self.p = transforms, [w / sum(weights) for w in weights]

    def forward(self, *inputs: Any) -> Any:
        """Apply one."""
        chosen = int(multinomial(creation.tensor(self.p), 1).item())
        return self.transforms[chosen](*inputs)


class RandomOrder(Module):
    """All transforms, in an order drawn from the generator."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        super().__init__()
        self.transforms = transforms

    def forward(self, *inputs: Any) -> Any:
        """Apply all."""
        for i in randperm(len(self.transforms)).tolist():
            outputs = self.transforms[i](*inputs)
            inputs = outputs if len(inputs) > 1 else (outputs,)
        return outputs


class Identity(Transform):
    """The sample as it is."""

    def forward(self, *inputs: Any) -> Any:
        """Return it."""
        return inputs if len(inputs) > 1 else inputs[0]


class Lambda(Transform):
    """A function, applied to every part of the given types."""

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        super().__init__()
        self.lambd, self.types = lambd, types or (object,)

    def forward(self, *inputs: Any) -> Any:
        """Apply it."""
        outputs = tuple(self.lambd(i) if isinstance(i, self.types) else i for i in inputs)
        return outputs if len(inputs) > 1 else outputs[0]


class ToImage(Transform):
    """A Pillow image or an array (H, W, C) as a Tensor (C, H, W) of its own numbers."""

    def forward(self, *inputs: Any) -> Any:
        """Convert every image of a sample."""
        outputs = tuple(functional.to_image(i) if functional.is_image(i) else i for i in inputs)
        return outputs if len(inputs) > 1 else outputs[0]


class ToDtype(Transform):
    """Another dtype; with `scale`, values stretched to its range."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one image."""
        return functional.to_dtype(inpt, self.dtype, self.scale) if isinstance(inpt, Tensor) else inpt


class ToPureTensor(Identity):
    """The sample as it is: images are plain Tensors here."""


class ToPILImage(Transform):
    """A Tensor (C, H, W) or an array (H, W, C) as a Pillow image."""

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, *inputs: Any) -> Any:
        """Convert one."""
        outputs = (F.to_pil_image(inputs[0], self.mode), *inputs[1:])
        return outputs if len(inputs) > 1 else outputs[0]


__all__ = [
    "AugMix", "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype",
    "ElasticTransform", "FiveCrop", "GaussianBlur", "Grayscale", "Identity",
    "InterpolationMode", "Lambda", "LinearTransformation", "Normalize", "PILToTensor", "Pad", "RandAugment",
    "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop",
    "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder",
    "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize",
    "RandomVerticalFlip", "Resize", "TenCrop", "ToDtype", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor",
    "Transform", "TrivialAugmentWide", "functional",
]  # fmt: skip
