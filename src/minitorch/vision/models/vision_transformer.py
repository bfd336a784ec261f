"""The vision transformer (Dosovitskiy and others, 2020). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from minitorch import creation
from minitorch.functions import cat
from minitorch.nn import (
    GELU,
    Conv2d,
    Dropout,
    LayerNorm,
    Linear,
    Module,
    MultiheadAttention,
    Parameter,
    Sequential,
    Tanh,
    init,
)
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model
from minitorch.vision.ops.misc import MLP


class MLPBlock(MLP):
    """Two linear layers with gelu between."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=GELU, inplace=None, dropout=dropout)
        for module in self.modules():
            if isinstance(module, Linear):
                init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    init.normal_(module.bias, std=1e-6)


class EncoderBlock(Module):
    """Attention and two linear layers, each normalised before and with a way around."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., Module],
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        """(N, L, E) → (N, L, E)."""
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(Module):
    """Places added, blocks, a last normalisation."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., Module],
    ) -> None:
        super().__init__()
        self.pos_embedding = Parameter(creation.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = Dropout(dropout)
        layers: OrderedDict[str, Module] = OrderedDict()
        for i in range(num_layers):
            layers[f"encoder_layer_{i}"] = EncoderBlock(
                num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
            )
        self.layers = Sequential(layers)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        """(N, L, E) → (N, L, E)."""
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(Module):
    """An image as a sequence of patches, with one more for the class."""

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or partial(LayerNorm, eps=1e-6)
        if image_size % patch_size:
            raise ValueError(f"Input shape indivisible by patch size: {image_size} by {patch_size}")
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.conv_proj = Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = Parameter(creation.zeros(1, 1, hidden_dim))
        self.encoder = Encoder(
            seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        )
        self.seq_length = seq_length
        heads: OrderedDict[str, Module] = OrderedDict()
        if representation_size is None:
            heads["head"] = Linear(hidden_dim, num_classes)
        else:
            heads["pre_logits"] = Linear(hidden_dim, representation_size)
            heads["act"] = Tanh()
            heads["head"] = Linear(representation_size, num_classes)
        self.heads = Sequential(heads)
        fan_in = self.conv_proj.in_channels * patch_size * patch_size
        init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / fan_in))
        if self.conv_proj.bias is not None:
            init.zeros_(self.conv_proj.bias)
        if representation_size is not None:
            before = self.heads.pre_logits
            init.trunc_normal_(before.weight, std=math.sqrt(1 / before.in_features))
            init.zeros_(before.bias)
        init.zeros_(self.heads.head.weight)
        init.zeros_(self.heads.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        n, _, h, w = x.shape
        if h != self.image_size or w != self.image_size:
            raise RuntimeError(f"Wrong image size! Expected {self.image_size} but got {h} × {w}!")
        patches = self.conv_proj(x).reshape(n, self.hidden_dim, -1).permute(0, 2, 1)
        whole = self.encoder(cat([self.class_token.expand(n, -1, -1), patches], dim=1))
        return self.heads(whole[:, 0])


def _register(name: str, patch: int, layers: int, heads: int, hidden: int, mlp: int) -> Any:
    def build(image_size: int = 224, **options: Any) -> VisionTransformer:
        return VisionTransformer(image_size, patch, layers, heads, hidden, mlp, **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Make a {name}."
    return register_model(build)


vit_b_16 = _register("vit_b_16", 16, 12, 12, 768, 3072)
vit_b_32 = _register("vit_b_32", 32, 12, 12, 768, 3072)
vit_l_16 = _register("vit_l_16", 16, 24, 16, 1024, 4096)
vit_l_32 = _register("vit_l_32", 32, 24, 16, 1024, 4096)
vit_h_14 = _register("vit_h_14", 14, 32, 16, 1280, 5120)
