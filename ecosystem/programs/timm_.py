import timm
import torch
from one import trained

NAMES = [
    "resnet18", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0", "mobilenetv3_small_050", "mobilenetv2_035",
    "regnetx_002", "swin_tiny_patch4_window7_224", "ghostnet_050", "seresnet18", "beit_base_patch16_224",
]  # fmt: skip


def _make(name):
    def program():
        options = {"num_classes": 3}
        size = 64
        if name.startswith(("vit", "deit", "mixer", "beit")):
            options["img_size"], size = 64, 64
        if name.startswith("swin"):
            options.update(img_size=56, depths=(1, 1, 1, 1), embed_dim=24, num_heads=(1, 2, 2, 4))
            size = 56
        if name.startswith("beit"):
            options.update(depth=2, embed_dim=48, num_heads=3)
        model = timm.create_model(name, **options)
        x, y = torch.randn(2, 3, size, size), torch.tensor([0, 2])
        model.eval()
        with torch.no_grad():
            out = model(x)
        return [out, trained(model, lambda: torch.nn.functional.cross_entropy(model(x), y), 2)]

    return program


for _name in NAMES:
    globals()[f"try_{_name}"] = _make(_name)


def try_optimizers_and_loss():
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler

    model = torch.nn.Linear(4, 3)
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    found = []
    for name in ("lamb", "lars", "adamw", "lookahead_radam", "nadam", "adabelief", "madgrad"):
        optimizer = create_optimizer_v2(model, opt=name, lr=0.05)
        schedule = CosineLRScheduler(optimizer, t_initial=4, lr_min=1e-3)
        found.append(trained(model, lambda: LabelSmoothingCrossEntropy()(model(x), y), 3, optimizer))
        schedule.step(1)
        found.append(optimizer.param_groups[0]["lr"])
    return found
