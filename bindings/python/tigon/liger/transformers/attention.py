"""Neighborhood attention as modules, of the names that they have in liger_kernel.transformers."""
from dataclasses import asdict, dataclass
from typing import Optional

from torch import nn

from tigon.liger import ops


class LigerFusedNeighborhoodAttention(nn.Module):
    def __init__(self, hidden_size, num_heads, kernel_size=7, dilation=1, bias=True, dropout=0.0, scale=None):
        super().__init__()
        if hidden_size % num_heads:
            raise ValueError(f"hidden_size {hidden_size} is not divisible by {num_heads} heads")
        if kernel_size <= 0 or kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {kernel_size}, expected an odd number above 0")
        if dilation < 1:
            raise ValueError(f"dilation is {dilation}, expected 1 or more")
        self.hidden_size, self.num_heads, self.head_dim = hidden_size, num_heads, hidden_size // num_heads
        self.kernel_size, self.dilation, self.dropout_p = kernel_size, dilation, dropout
        self.scale = self.head_dim**-0.5 if scale is None else scale
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(hidden_size, hidden_size, bias=bias))
        self.dropout = nn.Dropout(dropout) if dropout > 0 else nn.Identity()

    def forward(self, hidden_states, attention_mask=None):
        if attention_mask is not None:
            raise NotImplementedError("neighborhood attention takes no attention mask")
        heads = (*hidden_states.shape[:-1], self.num_heads, self.head_dim)
        q, k, v = (p(hidden_states).view(heads).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, self.kernel_size, self.dilation, self.scale)
        return self.out_proj(self.dropout(y.transpose(1, 2).reshape(hidden_states.shape)))


class LigerFusedNeighborhoodAttentionLayer(nn.Module):
    """The attention behind a layer_norm, with a residual connection around both."""

    def __init__(
        self, hidden_size, num_heads, kernel_size=7, dilation=1, bias=True, dropout=0.0, layer_norm_eps=1e-5, scale=None
    ):
        super().__init__()
        self.attention = LigerFusedNeighborhoodAttention(hidden_size, num_heads, kernel_size, dilation, bias, dropout, scale)
        self.layer_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.dropout = nn.Dropout(dropout) if dropout > 0 else nn.Identity()

    def forward(self, hidden_states, attention_mask=None):
        return hidden_states + self.dropout(self.attention(self.layer_norm(hidden_states), attention_mask))


@dataclass
class LigerFusedNeighborhoodAttentionConfig:
    hidden_size: int = 768
    num_heads: int = 12
    kernel_size: int = 7
    dilation: int = 1
    bias: bool = True
    dropout: float = 0.0
    layer_norm_eps: float = 1e-5
    scale: Optional[float] = None

    to_dict = asdict
