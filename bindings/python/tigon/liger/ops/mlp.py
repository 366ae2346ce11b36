"""mlp, the SwiGLU feed-forward block, under Liger-Kernel's name: swiglu of Tigon between matrix products, which are PyTorch's."""
import torch.nn.functional as F

from tigon.liger.ops.swiglu import LigerSiLUMulFunction


class LigerMLPFunction:
    """down_multiplier * down(silu(gate_multiplier * gate(x)) * up(x)). input [..,H], gate_weight and up_weight [I,H], down_weight [H,I]."""

    @staticmethod
    def apply(input, gate_weight, up_weight, down_weight, gate_multiplier=1.0, down_multiplier=1.0):
        gate, up = F.linear(input, gate_weight), F.linear(input, up_weight)
        return F.linear(LigerSiLUMulFunction.apply(gate, up, gate_multiplier, down_multiplier), down_weight)
