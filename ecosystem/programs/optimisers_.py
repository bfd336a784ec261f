import torch
from lion_pytorch import Lion
from one import trained
from prodigyopt import Prodigy
from schedulefree import AdamWScheduleFree, RAdamScheduleFree, SGDScheduleFree


def _with(make):
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    optimizer = make(model.parameters())
    if hasattr(optimizer, "train"):
        optimizer.train()
    found = trained(model, lambda: torch.nn.functional.cross_entropy(model(x), y), 5, optimizer)
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    return [found, model[0].weight]


def try_lion():
    return _with(lambda p: Lion(p, lr=1e-2, weight_decay=1e-2))


def try_prodigy():
    return _with(lambda p: Prodigy(p, lr=1.0))


def try_schedulefree():
    return [
        _with(lambda p, k=k: k(p, lr=0.05)) for k in (AdamWScheduleFree, SGDScheduleFree, RAdamScheduleFree)
    ]
