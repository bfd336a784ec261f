"""Models of images, with torchvision's names for their parameters, and its weights from the same seed.

Enters: images (N, 3, H, W). Leaves: logits. Trained weights are not loaded.
"""

from __future__ import annotations

from typing import Any

from minitorch.vision.models import (
    convnext,
    densenet,
    efficientnet,
    mobilenetv2,
    mobilenetv3,
    registry,
    resnet,
    shufflenetv2,
    squeezenet,
    vgg,
    vision_transformer,
)
from minitorch.vision.models.alexnet import AlexNet
from minitorch.vision.models.convnext import ConvNeXt
from minitorch.vision.models.densenet import DenseNet
from minitorch.vision.models.efficientnet import EfficientNet
from minitorch.vision.models.googlenet import GoogLeNet, GoogLeNetOutputs
from minitorch.vision.models.inception import Inception3, InceptionOutputs
from minitorch.vision.models.mobilenetv2 import MobileNetV2
from minitorch.vision.models.mobilenetv3 import MobileNetV3
from minitorch.vision.models.registry import (
    get_model,
    get_model_builder,
    get_weight,
    list_models,
    register_model,
)
from minitorch.vision.models.resnet import ResNet
from minitorch.vision.models.shufflenetv2 import ShuffleNetV2
from minitorch.vision.models.squeezenet import SqueezeNet
from minitorch.vision.models.vgg import VGG
from minitorch.vision.models.vision_transformer import VisionTransformer
from minitorch.vision.models.weights import WeightsNames

# Every function that makes a model stands here too: models.resnet18(), …
globals().update(registry.BUILDERS)


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights"):
        return WeightsNames(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "VGG", "AlexNet", "ConvNeXt", "DenseNet", "EfficientNet", "GoogLeNet", "GoogLeNetOutputs", "Inception3",
    "InceptionOutputs", "MobileNetV2",
    "MobileNetV3", "ResNet", "ShuffleNetV2", "SqueezeNet", "VisionTransformer", "convnext", "densenet",
    "efficientnet", "get_model", "get_model_builder", "get_weight", "list_models", "mobilenetv2", "mobilenetv3",
    "register_model", "resnet", "shufflenetv2", "squeezenet", "vgg", "vision_transformer",
]  # fmt: skip
