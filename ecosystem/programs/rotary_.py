import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb


def try_rotary():
    rotary = RotaryEmbedding(dim=8)
    q = torch.randn(1, 2, 6, 16, requires_grad=True)
    out = rotary.rotate_queries_or_keys(q)
    out.sin().sum().backward()
    pixel = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16)
    frequencies = pixel.get_axial_freqs(4, 4)
    return [out, q.grad, apply_rotary_emb(frequencies, torch.randn(1, 4, 4, 16))]
