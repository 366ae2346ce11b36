"""fused_moe under Liger-Kernel's names."""
import torch

import tigon.torch


class LigerFusedMoEFunction:
    """A mixture of experts: out[t] = sum over k of top_k_weights[t,k] times the expert top_k_index[t,k] of x[t].

    x [T,H], gate_up_proj [E,2I,H], down_proj [E,H,I], top_k_index and top_k_weights [T,K].
    """

    @staticmethod
    def apply(x, gate_up_proj, down_proj, top_k_index, top_k_weights):
        return tigon.torch.fused_moe(x, gate_up_proj, down_proj, top_k_index, top_k_weights)


def compute_routing_metadata(topk_indices, E, block_m_token=64):
    """Slots by expert, all i32: how many each has and where they begin [E + 1], the token and the number of each slot in that order, the
    inverse of the latter; and of tiles of block_m_token rows at most the first row and the expert."""
    slot, start, place = tigon.torch.moe_route(topk_indices, experts=E, place=True)
    count = start.diff()
    tiles = (count + block_m_token - 1) // block_m_token
    expert = torch.arange(E, device=count.device).repeat_interleave(tiles)
    first = torch.arange(len(expert), device=count.device) - (tiles.cumsum(0) - tiles)[expert]
    found = count, start, slot // topk_indices.shape[1], slot, place.flatten(), start[expert] + block_m_token * first, expert
    return tuple(t.int() for t in found)
