import torch
from one import trained
from pytorch_metric_learning import distances, losses, miners, reducers

NAMES = [
    "TripletMarginLoss",
    "ContrastiveLoss",
    "NTXentLoss",
    "MultiSimilarityLoss",
    "CircleLoss",
    "SupConLoss",
    "LiftedStructureLoss",
    "NPairsLoss",
]


def try_losses():
    x, y = torch.randn(12, 8, requires_grad=True), torch.arange(12) % 4
    found = []
    for name in NAMES:
        loss = getattr(losses, name)()(x, y)
        (g,) = torch.autograd.grad(loss, x)
        found.append([name, loss, g])
    return found


def try_with_weights():
    found = []
    for make in (
        lambda: losses.ArcFaceLoss(4, 8),
        lambda: losses.ProxyAnchorLoss(4, 8),
        lambda: losses.SoftTripleLoss(4, 8),
        lambda: losses.CosFaceLoss(4, 8),
    ):
        torch.manual_seed(0)
        loss = make()
        x, y = torch.randn(12, 8), torch.arange(12) % 4
        found.append(trained(loss, lambda loss=loss, x=x, y=y: loss(x, y)))
    return found


def try_miners():
    x, y = torch.randn(12, 8), torch.arange(12) % 4
    pairs = miners.MultiSimilarityMiner()(x, y)
    loss = losses.TripletMarginLoss(
        distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(low=0)
    )
    return [*pairs, loss(x, y, pairs)]
