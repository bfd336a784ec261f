import torch
from one import trained
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper


def try_decoder():
    model = TransformerWrapper(
        num_tokens=32,
        max_seq_len=16,
        attn_layers=Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True),
    )
    wrapped = AutoregressiveWrapper(model)
    x = torch.randint(0, 32, (2, 12))
    return trained(wrapped, lambda: wrapped(x))


def try_encoder():
    model = TransformerWrapper(
        num_tokens=32,
        max_seq_len=16,
        attn_layers=Encoder(dim=16, depth=2, heads=2, attn_dim_head=8, use_rmsnorm=True, ff_glu=True),
    )
    x = torch.randint(0, 32, (2, 12))
    mask = torch.ones_like(x).bool()
    return [model(x, mask=mask), trained(model, lambda: model(x, mask=mask).square().mean())]


def try_vit():
    model = ViTransformerWrapper(
        image_size=16,
        patch_size=8,
        num_classes=4,
        attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8),
    )
    x = torch.randn(2, 3, 16, 16)
    return trained(model, lambda: model(x).square().mean())
