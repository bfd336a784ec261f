"""Transforms of images: crops, flips, rotations, colours; on Pillow images and on Tensors.

Enters: images. Leaves: images. `functional` has them as functions, `v2` under its names.
"""

from minitorch.vision.images import InterpolationMode
from minitorch.vision.transforms import functional
from minitorch.vision.transforms.augment import (
    AugMix,
    AutoAugment,
    AutoAugmentPolicy,
    RandAugment,
    TrivialAugmentWide,
)
from minitorch.vision.transforms.classes import (
    CenterCrop,
    ColorJitter,
    Compose,
    ConvertImageDtype,
    ElasticTransform,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    Lambda,
    LinearTransformation,
    Normalize,
    Pad,
    PILToTensor,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomTransforms,
    RandomVerticalFlip,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
)

__all__ = [
    "AugMix", "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype",
    "ElasticTransform", "FiveCrop",
    "GaussianBlur", "Grayscale", "InterpolationMode", "Lambda", "LinearTransformation", "Normalize", "PILToTensor",
    "Pad", "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast",
    "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip",
    "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation",
    "RandomSolarize", "RandomTransforms", "RandomVerticalFlip", "Resize", "TenCrop", "ToPILImage", "ToTensor",
    "TrivialAugmentWide", "functional",
]  # fmt: skip
