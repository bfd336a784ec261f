"""MNIST and its kin, from the original IDX files. Enters: a folder. Leaves: (image, digit) by index."""

from __future__ import annotations

import gzip
import os
import warnings
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.tensor import Tensor
from minitorch.vision.datasets.base import Transform, VisionDataset
from minitorch.vision.datasets.files import download_url, verify_str_arg
from minitorch.vision.images import pillow

_KINDS = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str) -> np.ndarray:
    """Read an IDX file, packed (.gz) or not: two zeros, a number's kind, how many axes, their lengths, the numbers."""
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        content = file.read()
    if len(content) < 4 or content[:2] != b"\x00\x00" or content[2] not in _KINDS:
        raise RuntimeError(f"{path} is no IDX file: it begins with {content[:4]!r}")
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, 4)
    array = np.frombuffer(content, _KINDS[content[2]], offset=4 + 4 * axes)
    if array.size != np.prod(shape, dtype=np.int64):
        raise RuntimeError(f"{path} claims shape {tuple(shape)}, but has {array.size:,} numbers (truncated?)")
    return array.reshape(shape).astype(array.dtype.newbyteorder("="))


class MNIST(VisionDataset):
    """Handwritten digits, 28 × 28. Files: root/MNIST/raw/train-images-idx3-ubyte and so on, packed (.gz) or not."""

    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
    resources: tuple[tuple[str, str], ...] = (
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
    classes: tuple[str, ...] | list[str] = [  # noqa: RUF012
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven", "8 - eight",
        "9 - nine",
    ]  # fmt: skip

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError(
                f"Dataset not found: {', '.join(self._names())} in {self.raw_folder}. You can use download=True to "
                "download it, or bring the files there yourself"
            )
        self.data, self.targets = self._load_data()

    def _part(self) -> str:
        return "train" if self.train else "t10k"

    def _names(self) -> tuple[str, str]:
        return f"{self._part()}-images-idx3-ubyte", f"{self._part()}-labels-idx1-ubyte"

    def _path(self, name: str) -> str | None:
        for candidate in (name, f"{name}.gz"):
            path = os.path.join(self.raw_folder, candidate)
            if os.path.isfile(path):
                return path
        return None

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = (read_idx(self._path(name) or name) for name in self._names())
        return creation.tensor(images), creation.tensor(labels.astype(np.int64))

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        """Where older versions kept theirs."""
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Each class's number."""
        return {name: i for i, name in enumerate(self.classes)}

    def _check_exists(self) -> bool:
        return all(self._path(name) for name in self._names())

    def download(self) -> None:
        """Fetch the files, unless they are there."""
        if all(self._path(name.removesuffix(".gz")) for name, _ in self.resources):
            return
        for name, md5 in self.resources:
            errors = []
            for mirror in self.mirrors:
                try:
                    download_url(mirror + name, self.raw_folder, name, md5)
                    break
                except RuntimeError as error:
                    errors.append(str(error))
            else:
                raise RuntimeError("; ".join(errors))

    @property
    def train_labels(self) -> Tensor:
        """An old name of targets."""
        warnings.warn("train_labels has been renamed targets", stacklevel=2)
        return self.targets

    @property
    def train_data(self) -> Tensor:
        """An old name of data."""
        warnings.warn("train_data has been renamed data", stacklevel=2)
        return self.data

    test_labels, test_data = train_labels, train_data

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return an image and its class."""
        image = pillow("Image").fromarray(self.data[index].numpy())
        return self._transformed(image, int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """Return which part it is."""
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """Clothes, 28 × 28, in MNIST's format."""

    mirrors = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)  # type: ignore[assignment]
    resources = (
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    )
    classes = [  # noqa: RUF012
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Old Japanese characters, 28 × 28, in MNIST's format."""

    mirrors = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)  # type: ignore[assignment]
    resources = (
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    )
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]  # noqa: RUF012


class EMNIST(MNIST):
    """Letters and digits, 28 × 28, in MNIST's format: root/EMNIST/raw/emnist-letters-train-images-idx3-ubyte, …"""

    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")

    def __init__(self, root: Any, split: str, **options: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        super().__init__(root, **options)

    def _part(self) -> str:
        return f"emnist-{self.split}-{'train' if self.train else 'test'}"

    def download(self) -> None:
        """Say that the archive is to be brought here."""
        if not self._check_exists():
            raise RuntimeError(
                f"EMNIST: unpack gzip.zip of the dataset into {self.raw_folder} yourself, and write download=False"
            )
