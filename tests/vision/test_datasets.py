"""Datasets from files in their original formats; grids of images, and files of them."""

import gzip
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import minitorch
from minitorch.utils.data import DataLoader
from minitorch.vision import datasets, io, transforms, utils

Image = pytest.importorskip("PIL.Image")
NUMBERS = json.loads((Path(__file__).parents[1] / "support" / "torchvision.json").read_text(encoding="utf-8"))
R = np.random.default_rng(0)


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


@pytest.mark.parametrize("kind", ["MNIST", "FashionMNIST", "KMNIST"])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_and_its_kin(kind, packed, tmp_path):
    images, labels = R.integers(0, 256, (5, 28, 28), dtype=np.uint8), R.integers(0, 10, 5, dtype=np.uint8)
    folder = tmp_path / kind / "raw"
    folder.mkdir(parents=True)
    for name, array in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    dataset = getattr(datasets, kind)(tmp_path, transform=transforms.ToTensor())
    image, label = dataset[3]
    np.testing.assert_allclose(image.numpy()[0], images[3] / np.float32(255))
    assert label == labels[3]
    assert dataset.data.dtype == np.uint8
    batch, targets = next(iter(DataLoader(dataset, batch_size=4)))
    assert batch.shape == (4, 1, 28, 28)
    assert targets.tolist() == labels[:4].tolist()
    assert "Number of datapoints: 5" in repr(dataset)
    with pytest.raises(RuntimeError, match=r"t10k-images.*download=True"):
        getattr(datasets, kind)(tmp_path, train=False)


def test_cifar(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    pixels = R.integers(0, 256, (2, 3072), dtype=np.uint8)
    for i in range(1, 6):
        (folder / f"data_batch_{i}").write_bytes(pickle.dumps({"data": pixels, "labels": [i, 0]}, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["plane", "car"]}))
    dataset = datasets.CIFAR10(tmp_path)
    assert len(dataset) == 10
    image, label = dataset[2]
    assert label == 2
    np.testing.assert_array_equal(np.asarray(image), pixels[0].reshape(3, 32, 32).transpose(1, 2, 0))
    assert dataset.class_to_idx == {"plane": 0, "car": 1}
    with pytest.raises(RuntimeError, match=r"test_batch.*unpack"):
        datasets.CIFAR10(tmp_path, train=False)
    (folder / "test_batch").write_bytes(pickle.dumps(Path))
    with pytest.raises(pickle.UnpicklingError, match="not read"):
        datasets.CIFAR10(tmp_path, train=False)


def test_cifar100(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    batch = {
        "data": R.integers(0, 256, (3, 3072), dtype=np.uint8),
        "fine_labels": [7, 8, 9],
        "coarse_labels": [1, 1, 2],
    }
    (folder / "test").write_bytes(pickle.dumps(batch))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": list("abc")}))
    assert datasets.CIFAR100(tmp_path, train=False).targets == [7, 8, 9]


def test_a_folder_for_each_class(tmp_path):
    for name, colour in (("cat", 10), ("ant", 200)):
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.new("RGB", (4, 3), (colour, i, 0)).save(tmp_path / name / f"{i}.png")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    dataset = datasets.ImageFolder(tmp_path, transform=transforms.PILToTensor())
    assert dataset.classes == ["ant", "cat"]
    assert dataset.targets == [0, 0, 1, 1]
    assert dataset[3][0][:, 0, 0].tolist() == [10, 1, 0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty"):
        datasets.ImageFolder(tmp_path)
    texts = datasets.DatasetFolder(tmp_path, Path, extensions=(".txt",), allow_empty=True)
    assert [Path(p).name for p, _ in texts.samples] == ["notes.txt"]


def test_noise_is_torchvisions():
    dataset = datasets.FakeData(3, (3, 8, 8))
    minitorch.manual_seed(0)
    found = [[int(np.asarray(image).sum()), target] for image, target in (dataset[i] for i in range(3))]
    assert found == NUMBERS["others"]["fake"]
    assert round(minitorch.rand(1).item(), 6) == 0.496257  # the stream outside is untouched


def test_what_cannot_be_downloaded_says_what_to_do(tmp_path, monkeypatch):
    def unreachable(*args, **options):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(RuntimeError, match=r"no network.*download=False"):
        datasets.MNIST(tmp_path, download=True)
    with pytest.raises(RuntimeError, match=r"cifar-10-python.*download=False"):
        datasets.CIFAR10(tmp_path, download=True)


def test_grids_and_files(tmp_path):
    images = minitorch.arange(5 * 4 * 6.0).reshape(5, 1, 4, 6)
    grid = utils.make_grid(images, nrow=3, padding=1, normalize=True, pad_value=0.5)
    assert grid.shape == (3, 11, 22)
    np.testing.assert_allclose(grid.sum().item(), NUMBERS["others"]["grid"], atol=1e-2)
    utils.save_image(images / 120, tmp_path / "grid.png", nrow=5)
    read = io.read_image(tmp_path / "grid.png")
    assert read.shape == (3, 8, 42)
    assert read.dtype == np.uint8
    assert io.read_image(tmp_path / "grid.png", io.ImageReadMode.GRAY).shape[0] == 1


def test_summaries_need_tensorboardx(monkeypatch):
    from minitorch.utils import tensorboard

    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    tensorboard._writer.cache_clear()
    with pytest.raises(ImportError, match="pip install tensorboardX"):
        tensorboard.SummaryWriter
