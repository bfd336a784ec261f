"""Transforms against numbers of torchvision 0.29: the same seed makes the same choices, on the same pixels."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

import minitorch
from minitorch.vision import transforms as first
from minitorch.vision.transforms import functional as F
from minitorch.vision.transforms import v2

Image = pytest.importorskip("PIL.Image")
NUMBERS = json.loads((Path(__file__).parents[1] / "support" / "torchvision.json").read_text(encoding="utf-8"))


def picture():
    y, x = np.mgrid[:48, :60]
    pixels = [(x * 4) % 256, (y * 5 + x) % 256, (x * y) % 256]
    return Image.fromarray(np.stack(pixels, -1).astype(np.uint8))


def array_of(image):
    return image.numpy() if hasattr(image, "numpy") else np.asarray(image)


def made(spec, library):
    return eval(spec, {"T": library, **{n: getattr(library, n) for n in dir(library) if n[0].isupper()}})


@pytest.mark.parametrize("case", NUMBERS["transforms"])
def test_the_same_seed_makes_the_same_choices(case):
    version, _, spec = case.partition(" ")
    transform = made(spec, first if version == "v1" else v2)
    for seed, (shape, weighed, drawn) in enumerate(
        zip(*[iter(NUMBERS["transforms"][case])] * 3, strict=True)
    ):
        minitorch.manual_seed(seed)
        random.seed(seed)
        array = array_of(transform(picture())).astype(np.float64)
        assert list(array.shape) == shape
        # Pillow's own rounding differs a little from version to version.
        found = (array * np.cos(np.arange(array.size)).reshape(array.shape)).sum()
        np.testing.assert_allclose(found, weighed, atol=20 if array.max() > 10 else 0.5)
        assert round(minitorch.rand(1).item(), 6) == drawn  # and as much was drawn


ON_BOTH = [
    "CenterCrop((70, 30))", "Pad((1, 2, 3, 4), fill=7)", "Pad(4, padding_mode='edge')", "RandomCrop(64, padding=12)",
    "Pad(4, padding_mode='symmetric')", "RandomHorizontalFlip(1.0)", "RandomVerticalFlip(1.0)", "RandomInvert(1.0)",
    "RandomPosterize(3, 1.0)", "RandomSolarize(100, 1.0)", "RandomEqualize(1.0)",
]  # fmt: skip


@pytest.mark.parametrize("spec", ON_BOTH)
def test_tensors_and_pillow_images_agree(spec):
    results = []
    for image in (picture(), F.pil_to_tensor(picture())):
        minitorch.manual_seed(4)
        out = made(spec, first)(image)
        results.append(out.numpy() if hasattr(out, "numpy") else F.pil_to_tensor(out).numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    "spec",
    [
        "Resize((30, 40))", "ColorJitter(0.4, 0.4, 0.4, 0.2)", "GaussianBlur(5)", "RandomAdjustSharpness(2, 1.0)",
        "RandomAutocontrast(1.0)", "Grayscale(3)", "RandomPerspective(p=1.0)", "RandomAffine(20, (0.1, 0.2), (0.8, 1.2), 10)",
        "RandomRotation(30, T.InterpolationMode.BILINEAR)",
    ],
)  # fmt: skip
def test_tensors_and_pillow_images_nearly_agree(spec):
    results = []
    for image in (picture(), F.pil_to_tensor(picture())):
        minitorch.manual_seed(4)
        out = made(spec, first)(image)
        results.append((out if hasattr(out, "numpy") else F.pil_to_tensor(out)).numpy().astype(float))
    off = np.abs(results[0] - results[1])
    assert results[0].shape == results[1].shape
    assert np.median(off) <= 2


def test_from_one_kind_to_the_other():
    image = picture()
    floats = F.to_tensor(image)
    assert floats.shape == (3, 48, 60)
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(F.to_pil_image(floats)), np.asarray(image))
    np.testing.assert_array_equal(np.asarray(F.to_pil_image(np.asarray(image))), np.asarray(image))
    assert F.to_tensor(image.convert("1")).max().item() == 1
    assert F.to_tensor(np.zeros((4, 5), np.float64)).dtype == np.float64
    assert F.to_pil_image(minitorch.zeros(4, 5)).mode == "L"
    assert F.to_pil_image(minitorch.zeros(4, 4, 5), "CMYK").mode == "CMYK"
    assert (
        F.convert_image_dtype(minitorch.tensor([255], dtype=minitorch.uint8), minitorch.float32).item() == 1
    )
    assert F.convert_image_dtype(minitorch.tensor([1.0]), minitorch.uint8).item() == 255
    assert (
        F.convert_image_dtype(minitorch.tensor([255], dtype=minitorch.uint8), minitorch.int16).item() == 32640
    )


def test_a_sample_of_several_parts():
    pair = v2.Compose([v2.RandomCrop(20), v2.ToImage(), v2.ToDtype(minitorch.float32, scale=True)])
    image, label = pair(picture(), 3)
    assert image.shape == (3, 20, 20)
    assert label == 3
    same = v2.RandomCrop(20)({"a": picture(), "b": picture(), "c": "text"})
    np.testing.assert_array_equal(np.asarray(same["a"]), np.asarray(same["b"]))
    assert same["c"] == "text"


@pytest.mark.parametrize(
    ("call", "kind", "reason"),
    [
        (lambda: F.to_tensor("a"), TypeError, "pic should be PIL Image or ndarray"),
        (lambda: F.hflip("a"), TypeError, "hflip: expects a Pillow image or a Tensor"),
        (lambda: F.normalize(minitorch.ones(3, 2, 2), [0.0], [0.0]), ValueError, "std is 0"),
        (lambda: F.normalize(minitorch.ones(3, 2, 2).int(), [0.0], [1.0]), TypeError, "expects floats"),
        (lambda: first.RandomCrop(99)(picture()), ValueError, "larger than input"),
        (lambda: F.adjust_hue(picture(), 0.7), ValueError, "not in"),
        (lambda: first.ColorJitter(hue=0.7), ValueError, "between"),
        (lambda: first.Resize("a"), ValueError, "size should be an int"),
    ],
)
def test_refusals(call, kind, reason):
    with pytest.raises(kind, match=reason):
        call()


def test_they_print_themselves():
    text = repr(first.Compose([first.RandomAffine(20, scale=(0.8, 1.2)), first.ToTensor()]))
    assert text == "Compose(\n    RandomAffine(degrees=[-20.0, 20.0], scale=(0.8, 1.2))\n    ToTensor()\n)"
