import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LayerGradCam,
    NoiseTunnel,
    Occlusion,
    Saliency,
)


def _net():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 3),
    )


def try_attributions():
    net, x = _net().eval(), torch.randn(2, 1, 8, 8)
    found = [
        kind(net).attribute(x, target=1)
        for kind in (IntegratedGradients, Saliency, InputXGradient, GuidedBackprop, FeatureAblation)
    ]
    found.append(DeepLift(net).attribute(x, torch.zeros_like(x), target=1))
    found.append(LayerGradCam(net, net[0]).attribute(x, target=1))
    found.append(Occlusion(net).attribute(x, target=1, sliding_window_shapes=(1, 3, 3)))
    return found


def try_by_chance():
    import numpy as np

    np.random.seed(0)
    net, x = _net().eval(), torch.randn(2, 1, 8, 8)
    noisy = NoiseTunnel(Saliency(net)).attribute(x, nt_samples=3, target=1)
    return [noisy, GradientShap(net).attribute(x, torch.zeros(3, 1, 8, 8), target=1, n_samples=4)]
