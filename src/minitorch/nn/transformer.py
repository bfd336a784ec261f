"""Attention layers and the Transformer. Enters: sequences (T, N, E), or (N, T, E) with batch_first. Leaves: the same.

MultiheadAttention lets every position look at every other; a Transformer layer adds a network applied to each
position, with a residual path and layer norm around both.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from minitorch import functions
from minitorch.creation import empty, full
from minitorch.engine.dtypes import get_default_dtype
from minitorch.nn import init
from minitorch.nn.containers import ModuleList
from minitorch.nn.dropout import Dropout
from minitorch.nn.functional.attention import attend
from minitorch.nn.linear import Linear
from minitorch.nn.module import Module
from minitorch.nn.normalization import LayerNorm
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor

Activation = str | Callable[[Tensor], Tensor]


class MultiheadAttention(Module):
    """Attention in several heads at once: softmax(Q Kᵀ / √D) V in each, joined and projected.

    add_bias_kv: one more key and value, learned. add_zero_attn: one more of zeros. kdim, vdim: the features of
    key and value where they are not embed_dim. batch_first: (N, L, E) instead of (L, N, E).

    >>> attention = MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = minitorch.zeros(3, 7, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    ((3, 7, 8), (3, 7, 7))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim and num_heads must be greater than 0, got {embed_dim} and {num_heads}"
            )
        if embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: embed_dim {embed_dim} must be divisible by num_heads {num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads

        def weight(*shape: int) -> Parameter:
            return Parameter(empty(*shape, device=device, dtype=dtype))

        # One matrix for all three projections where that is possible; the other names hold their place.
        together = self._qkv_same_embed_dim
        self.register_parameter("q_proj_weight", None if together else weight(embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", None if together else weight(embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", None if together else weight(embed_dim, self.vdim))
        self.register_parameter("in_proj_weight", weight(3 * embed_dim, embed_dim) if together else None)
        self.register_parameter("in_proj_bias", weight(3 * embed_dim) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", weight(1, 1, embed_dim) if add_bias_kv else None)
        self.register_parameter("bias_v", weight(1, 1, embed_dim) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for matrix in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if matrix is not None:
                init.xavier_uniform_(matrix)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what each query found (L, N, E), and the weights (N, L, S), None without need_weights.

        key_padding_mask (N, S): True for keys to be left out. attn_mask (L, S) or (N·H, L, S): True where a
        query may not look. Both may be floats, which are added. is_causal only says that attn_mask is causal.
        average_attn_weights=False gives the weights of each head, (N, H, L, S). Without N, all lose that axis.
        """
        q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
        if q.ndim not in (2, 3) or not q.ndim == k.ndim == v.ndim:
            raise RuntimeError(
                "MultiheadAttention: query, key and value all need three axes, or two without a batch, got "
                f"{q.shape}, {k.shape} and {v.shape}"
            )
        alone = q.ndim == 2
        if alone:
            q, k, v = _keeping_sameness(lambda x: x.unsqueeze(0), q, k, v)
            if key_padding_mask is not None:
                key_padding_mask = as_tensor(key_padding_mask).reshape(1, -1)
        elif not self.batch_first:
            q, k, v = _keeping_sameness(lambda x: x.swapaxes(0, 1), q, k, v)
        separate = None
        if not self._qkv_same_embed_dim:
            separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        out, weights = attend(
            q, k, v, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout if self.training else 0.0, self.out_proj.weight, self.out_proj.bias,
            key_padding_mask, need_weights, attn_mask, separate,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        if alone:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.swapaxes(0, 1)), weights


def _keeping_sameness(change: Callable[[Tensor], Tensor], q: Tensor, k: Tensor, v: Tensor) -> Any:
    """Change three tensors; those that were one object stay one, and are projected in one product."""
    new_q = change(q)
    new_k = new_q if k is q else change(k)
    new_v = new_k if v is k else new_q if v is q else change(v)
    return new_q, new_k, new_v


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if isinstance(activation, str):
        if activation not in ("relu", "gelu"):
            raise RuntimeError(
                f"Transformer: activation should be 'relu', 'gelu' or a function, not {activation!r}"
            )
        return functions.relu if activation == "relu" else functions.gelu
    return activation


class _TransformerLayer(Module):
    """What both layers share: attention, a network at each position, a residual path and layer norm around each."""

    _attends_memory = False  # whether there is a second attention, to the encoder's output

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functions.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: Any = {"bias": bias, "device": device, "dtype": dtype}
        heads: Any = {"dropout": dropout, "batch_first": batch_first, **made}
        self.self_attn = MultiheadAttention(d_model, nhead, **heads)
        if self._attends_memory:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **heads)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        if self._attends_memory:
            self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        if self._attends_memory:
            self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def _with_residual(self, x: Tensor, norm: Module, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a change of x to x, with layer norm before the change or after the sum."""
        return x + change(norm(x)) if self.norm_first else norm(x + change(x))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _found(self, attention: MultiheadAttention, dropout: Any, *inputs: Any, **masks: Any) -> Tensor:
        """Attend, and drop from what was found."""
        return dropout(attention(*inputs, need_weights=False, **masks)[0])


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention, then a network at each position, each with a residual path and layer norm.

    norm_first: norm before attention and network instead of after the residual sum.

    >>> layer = TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(minitorch.zeros(7, 3, 8)).shape
    (7, 3, 8)
    """

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """Return the sequence transformed; the masks are those of MultiheadAttention."""
        masks = {"key_padding_mask": src_key_padding_mask, "attn_mask": src_mask, "is_causal": is_causal}

        def attention(x: Tensor) -> Tensor:
            return self._found(self.self_attn, self.dropout1, x, x, x, **masks)

        x = self._with_residual(as_tensor(src), self.norm1, attention)
        return self._with_residual(x, self.norm2, lambda x: self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoder's output (the memory), then a network at each position.

    >>> layer = TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(minitorch.zeros(5, 3, 8), minitorch.zeros(7, 3, 8)).shape
    (5, 3, 8)
    """

    _attends_memory = True

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the target sequence transformed; the masks are those of MultiheadAttention."""
        memory = as_tensor(memory)
        own = {"key_padding_mask": tgt_key_padding_mask, "attn_mask": tgt_mask, "is_causal": tgt_is_causal}
        other = {"key_padding_mask": memory_key_padding_mask, "attn_mask": memory_mask}

        def to_itself(x: Tensor) -> Tensor:
            return self._found(self.self_attn, self.dropout1, x, x, x, **own)

        def to_memory(x: Tensor) -> Tensor:
            attention = self.multihead_attn
            return self._found(
                attention, self.dropout2, x, memory, memory, **other, is_causal=memory_is_causal
            )

        x = self._with_residual(as_tensor(tgt), self.norm1, to_itself)
        x = self._with_residual(x, self.norm2, to_memory)
        return self._with_residual(x, self.norm3, lambda x: self.dropout3(self._feed_forward(x)))


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Several encoder layers, one above the other: deep copies of the one given, and a norm at the end.

    enable_nested_tensor and mask_check are PyTorch's and change nothing here.

    >>> layer = TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> TransformerEncoder(layer, num_layers=2)(minitorch.zeros(7, 3, 8)).shape
    (7, 3, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Tensor:
        """Return the sequence after all layers; the masks are those of MultiheadAttention."""
        output = as_tensor(src)
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Several decoder layers, one above the other: deep copies of the one given, and a norm at the end.

    >>> layer = TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> TransformerDecoder(layer, num_layers=2)(minitorch.zeros(5, 3, 8), minitorch.zeros(7, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the target sequence after all layers; the masks are those of MultiheadAttention."""
        output = as_tensor(tgt)
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """Encoder and decoder: from a source sequence and what is written so far to what comes next.

    >>> model = Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> mask = Transformer.generate_square_subsequent_mask(5)
    >>> model(minitorch.zeros(7, 3, 8), minitorch.zeros(5, 3, 8), tgt_mask=mask).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functions.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: Any = {"bias": bias, "device": device, "dtype": dtype}
        options: Any = {
            "dim_feedforward": dim_feedforward,
            "dropout": dropout,
            "activation": activation,
            "layer_norm_eps": layer_norm_eps,
            "batch_first": batch_first,
            "norm_first": norm_first,
            **made,
        }
        if custom_encoder is None:
            layer = TransformerEncoderLayer(d_model, nhead, **options)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **made)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            last = TransformerDecoderLayer(d_model, nhead, **options)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **made)
            custom_decoder = TransformerDecoder(last, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode src, decode tgt beside it; the masks are those of MultiheadAttention."""
        src, tgt = as_tensor(src), as_tensor(tgt)
        axis = 0 if self.batch_first else 1
        if src.ndim == 3 and tgt.ndim == 3 and src.shape[axis] != tgt.shape[axis]:
            raise RuntimeError(
                f"Transformer: the batch number of src and tgt must be equal, got {src.shape} and {tgt.shape}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"Transformer: the feature number of src and tgt must be equal to d_model {self.d_model}, got "
                f"{src.shape} and {tgt.shape}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return a mask to add that keeps position i from looking at later ones: -inf above the diagonal.

        >>> Transformer.generate_square_subsequent_mask(3)
        tensor([[0., -inf, -inf],
                [0., 0., -inf],
                [0., 0., 0.]])
        """
        kind = get_default_dtype() if dtype is None else dtype
        return full((sz, sz), -math.inf, dtype=kind, device=device).triu(1)


__all__ = [
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip
