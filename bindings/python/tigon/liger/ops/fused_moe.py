"""fused_moe under Liger-Kernel's name."""
import tigon.torch


class LigerFusedMoEFunction:
    """A mixture of experts: out[t] = sum over k of top_k_weights[t,k] times the expert top_k_index[t,k] of x[t].

    x [T,H], gate_up_proj [E,2I,H], down_proj [E,H,I], top_k_index and top_k_weights [T,K].
    """

    @staticmethod
    def apply(x, gate_up_proj, down_proj, top_k_index, top_k_weights):
        return tigon.torch.fused_moe(x, gate_up_proj, down_proj, top_k_index, top_k_weights)
