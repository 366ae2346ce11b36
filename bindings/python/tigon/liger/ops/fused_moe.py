"""fused_moe under Liger-Kernel's name: swiglu of Tigon between an expert's two matrix products, which are PyTorch's."""
import torch.nn.functional as F

from tigon.liger.ops.swiglu import LigerFusedGateUpSiLUMulFunction


class LigerFusedMoEFunction:
    """A mixture of experts: out[t] = sum over k of top_k_weights[t,k] times the expert top_k_index[t,k] of x[t].

    x [T,H], gate_up_proj [E,2I,H], down_proj [E,H,I], top_k_index and top_k_weights [T,K].
    """

    @staticmethod
    def apply(x, gate_up_proj, down_proj, top_k_index, top_k_weights):
        out = x.new_zeros(x.shape)
        for expert, (gate_up, down) in enumerate(zip(gate_up_proj.unbind(), down_proj.unbind())):
            token, choice = (top_k_index == expert).nonzero(as_tuple=True)
            hidden = LigerFusedGateUpSiLUMulFunction.apply(F.linear(x[token], gate_up))
            weight = top_k_weights[token, choice].unsqueeze(-1).to(x.dtype)
            out = out.index_add(0, token, F.linear(hidden, down) * weight)
        return out
