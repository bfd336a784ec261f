import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import (
    MaskedAffineAutoregressiveTransform,
    MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
)
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation
from one import trained


def _with(make):
    flow = Flow(
        CompositeTransform([ReversePermutation(features=2), make(), ReversePermutation(features=2), make()]),
        StandardNormal(shape=[2]),
    )
    x = torch.randn(16, 2)
    found = trained(
        flow, lambda: -flow.log_prob(inputs=x).mean(), 3, torch.optim.Adam(flow.parameters(), lr=0.01)
    )
    torch.manual_seed(1)
    with torch.no_grad():
        return [found, flow.sample(4)]


def try_affine():
    return _with(lambda: MaskedAffineAutoregressiveTransform(features=2, hidden_features=4))


def try_splines():
    return _with(
        lambda: MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
            features=2, hidden_features=4, num_bins=4, tails="linear", tail_bound=3.0
        )
    )
