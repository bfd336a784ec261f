import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from one import trained


def try_functions():
    x = torch.randn(2, 3, 4, 6, requires_grad=True)
    y = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3)
    z = repeat(reduce(y, "b n d -> b d", "mean"), "b d -> b k d", k=2)
    packed, shapes = pack([y, z], "b * d")
    out = einsum(packed, packed, "b i d, b j d -> b i j")
    out.sin().sum().backward()
    return [out, x.grad, [tuple(s) for s in shapes], unpack(packed, shapes, "b * d")[1]]


def try_layers():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        Rearrange("b c h w -> b h w c"),
        EinMix("b h w c -> b h w d", weight_shape="c d", bias_shape="d", c=8, d=5),
        Reduce("b h w d -> b d", "max"),
    )
    x = torch.randn(4, 3, 6, 6)
    return trained(model, lambda: model(x).square().mean())
