import einx
import torch


def try_functions():
    x = torch.randn(2, 3, 4, requires_grad=True)
    y = einx.sum("a [b] c", x)
    z = einx.dot("a b c, a d c -> a b d", x, x)
    w = einx.id("a (b c) d -> a b c d", x.reshape(2, 3, 4), c=1)
    (y.sin().sum() + z.sum() + w.mean()).backward()
    return [y, z, x.grad]
