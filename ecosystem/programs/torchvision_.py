import torch
from torchvision import models


def _make(name, **options):
    def program():
        model = getattr(models, name)(num_classes=3, **options)
        state = model.state_dict()
        model.eval()
        with torch.no_grad():
            out = model(torch.randn(2, 3, 64, 64))
        return [len(state), sum(float(v.double().abs().sum()) for v in state.values()), out]

    return program


for _name in (
    "alexnet",
    "vgg11_bn",
    "resnet18",
    "resnext50_32x4d",
    "densenet121",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "convnext_tiny",
):
    globals()[f"try_{_name}"] = _make(_name)
try_vit_b_32 = _make("vit_b_32", image_size=64)
