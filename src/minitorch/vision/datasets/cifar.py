"""CIFAR-10 and CIFAR-100, from the original Python batches. Enters: a folder. Leaves: (image, class) by index."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import numpy as np

from minitorch.vision.datasets.base import Transform, VisionDataset
from minitorch.vision.datasets.files import check_integrity, download_and_extract_archive
from minitorch.vision.images import pillow


class _Batches(pickle.Unpickler):
    """Reads dicts, lists, strings, numbers and NumPy arrays, and refuses all else: no code of a file is run."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.zeros(0).__reduce__()[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if module == "_codecs" and name == "encode":
            return lambda text, encoding: text.encode(encoding)
        raise pickle.UnpicklingError(f"a batch of CIFAR holds {module}.{name}, which is not read")


def read_batch(path: str) -> dict[str, Any]:
    """Read one of the original batches."""
    with open(path, "rb") as file:
        return _Batches(io.BytesIO(file.read()), encoding="latin1").load()


class CIFAR10(VisionDataset):
    """Ten classes of things, 32 × 32. Files: root/cifar-10-batches-py/data_batch_1 and so on."""

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list: tuple[tuple[str, str], ...] = (
        ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    )
    test_list: tuple[tuple[str, str], ...] = (("test_batch", "40351d587109b95175f43aff81a1287e"),)
    meta = ("batches.meta", "label_names")

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
        names = [name for name, _ in (self.train_list if train else self.test_list)]
        missing = [name for name in (*names, self.meta[0]) if not os.path.isfile(self._path(name))]
        if missing:
            raise RuntimeError(
                f"Dataset not found or corrupted: {', '.join(missing)} in {self._path('')}. You can use download=True "
                f"to download it, or unpack {self.filename} into {self.root} yourself"
            )
        batches = [read_batch(self._path(name)) for name in names]
        images = np.vstack([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        self.data = np.ascontiguousarray(images.transpose(0, 2, 3, 1))  # (N, H, W, C)
        self.targets: list[int] = []
        for batch in batches:
            self.targets.extend(batch["labels"] if "labels" in batch else batch["fine_labels"])
        self.classes = read_batch(self._path(self.meta[0]))[self.meta[1]]
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _check_integrity(self) -> bool:
        return all(
            check_integrity(self._path(name), md5) for name, md5 in (*self.train_list, *self.test_list)
        )

    def download(self) -> None:
        """Fetch and unpack the archive, unless it is unpacked."""
        if all(os.path.isfile(self._path(name)) for name, _ in (*self.train_list, *self.test_list)):
            return
        download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return an image and its class."""
        return self._transformed(pillow("Image").fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """Return which part it is."""
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """A hundred classes of things, 32 × 32. Files: root/cifar-100-python/train, test, meta."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = (("train", "16019d7e3df5f24257cddd939b257f8d"),)
    test_list = (("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),)
    meta = ("meta", "fine_label_names")
