"""Datasets of images, from files in their original formats. Enters: a folder. Leaves: (image, target) by index."""

from minitorch.vision.datasets import cifar, fake, files, folder, mnist
from minitorch.vision.datasets import files as utils
from minitorch.vision.datasets.base import StandardTransform, VisionDataset
from minitorch.vision.datasets.cifar import CIFAR10, CIFAR100
from minitorch.vision.datasets.fake import FakeData
from minitorch.vision.datasets.folder import DatasetFolder, ImageFolder
from minitorch.vision.datasets.mnist import EMNIST, KMNIST, MNIST, FashionMNIST

__all__ = [
    "CIFAR10", "CIFAR100", "EMNIST", "KMNIST", "MNIST", "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder",
    "StandardTransform", "VisionDataset", "cifar", "fake", "files", "folder", "mnist", "utils",
]  # fmt: skip
