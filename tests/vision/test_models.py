"""Models against numbers of torchvision 0.29: parameters' names, their values from one seed; blocks and boxes."""

import json
from pathlib import Path

import numpy as np
import pytest

import minitorch
from minitorch.vision import models, ops

NUMBERS = json.loads((Path(__file__).parents[1] / "support" / "torchvision.json").read_text(encoding="utf-8"))
LARGE = (
    "alexnet",
    "vgg11_bn",
    "vit_b_32",
    "convnext_tiny",
    "resnext50_32x4d",
)  # seconds each: `make test-ecosystem`
NAMES = [name for name in NUMBERS["models"] if name not in LARGE]
OPTIONS = {name: {"init_weights": False} for name in ("googlenet", "inception_v3")}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_torchvisions_weights(name):
    minitorch.manual_seed(0)
    model = models.get_model(name, num_classes=3, **OPTIONS.get(name, {}))
    state = model.state_dict()
    count, middle, total, drawn = NUMBERS["models"][name]
    assert len(state) == count
    assert list(state)[count // 2] == middle
    np.testing.assert_allclose(sum(float(v.double().abs().sum()) for v in state.values()), total, rtol=1e-5)
    assert round(minitorch.rand(1).item(), 6) == drawn


def test_inception_computes_what_torchvision_does():
    minitorch.manual_seed(0)
    model = models.Inception3(num_classes=3, init_weights=False).eval()
    minitorch.manual_seed(1)
    with minitorch.no_grad():
        logits = model(minitorch.randn(1, 3, 299, 299))
    np.testing.assert_allclose(logits.numpy(), [[-0.01487, 0.00665, -0.00782]], atol=2e-5)


def test_a_model_learns():
    minitorch.manual_seed(0)
    model = models.squeezenet1_1(num_classes=2, dropout=0.0)
    optimizer = minitorch.optim.SGD(model.parameters(), lr=0.05)
    images, labels = minitorch.randn(4, 3, 32, 32), minitorch.tensor([0, 1, 0, 1])
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = minitorch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_small_transformers_and_convnexts():
    vit = models.VisionTransformer(32, 16, 1, 2, 8, 16, num_classes=5)
    assert vit(minitorch.zeros(2, 3, 32, 32)).shape == (2, 5)
    assert "encoder.layers.encoder_layer_0.self_attention.in_proj_weight" in vit.state_dict()
    net = models.ConvNeXt((8, 16), (1, 1), num_classes=5)
    assert net(minitorch.zeros(2, 3, 32, 32)).shape == (2, 5)
    assert "features.1.0.layer_scale" in net.state_dict()


def test_trained_weights_are_refused_with_a_remedy():
    assert str(models.ResNet18_Weights.DEFAULT) == "ResNet18_Weights.DEFAULT"
    for weights in (models.ResNet18_Weights.IMAGENET1K_V1, "DEFAULT"):
        with pytest.raises(RuntimeError, match=r"weights=None.*load_state_dict"):
            models.resnet18(weights=weights)
    with pytest.raises(RuntimeError, match="weights=None"):
        models.resnet18(pretrained=True)
    with pytest.raises(ValueError, match="Unknown model"):
        models.get_model("resnet19")
    assert "resnet18" in models.list_models()


def test_boxes():
    boxes = minitorch.tensor(
        [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 6.0, 6.0]]
    )
    iou = ops.box_iou(boxes, boxes)
    np.testing.assert_allclose(iou.numpy()[0], [1, 0.95, 1 / 7, 0], rtol=1e-6)
    np.testing.assert_allclose(ops.generalized_box_iou(boxes, boxes).numpy()[0, 3], -31 / 36, rtol=1e-6)
    scores = minitorch.tensor([0.5, 0.9, 0.7, 0.1])
    assert ops.nms(boxes, scores, 0.5).tolist() == [1, 2, 3]
    assert ops.batched_nms(boxes, scores, minitorch.tensor([0, 1, 0, 1]), 0.1).tolist() == [1, 2, 3]
    back = ops.box_convert(ops.box_convert(boxes, "xyxy", "cxcywh"), "cxcywh", "xyxy")
    np.testing.assert_allclose(back.numpy(), boxes.numpy())
    assert ops.remove_small_boxes(boxes, 1.95).tolist() == [0, 2]
    assert ops.clip_boxes_to_image(boxes, (4, 5))[3].tolist() == [5, 4, 5, 4]


def test_branches_are_dropped_by_chance():
    minitorch.manual_seed(0)
    rows = ops.stochastic_depth(minitorch.ones(1000, 2), 0.25, "row")[:, 0]
    assert set(rows.tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert 0.7 < (rows > 0).float().mean().item() < 0.8
    assert ops.StochasticDepth(0.5, "batch").eval()(minitorch.ones(2)).tolist() == [1, 1]
