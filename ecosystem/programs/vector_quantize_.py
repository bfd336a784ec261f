import torch
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, VectorQuantize


def try_vq():
    vq = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
    x = torch.randn(2, 10, 8, requires_grad=True)
    quantized, indices, loss = vq(x)
    (quantized.sin().sum() + loss.sum()).backward()
    return [quantized, indices, loss, x.grad]


def try_residual():
    vq = ResidualVQ(dim=8, codebook_size=16, num_quantizers=3)
    return list(vq(torch.randn(2, 10, 8)))


def try_fsq_and_lfq():
    x = torch.randn(2, 10, 4)
    quantized, indices = FSQ(levels=[8, 5, 5, 5])(x)
    found = LFQ(codebook_size=16, dim=4)(x)
    return [quantized, indices, *found]
