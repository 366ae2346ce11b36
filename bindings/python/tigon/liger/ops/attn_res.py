"""attn_res under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops


def attn_res_forward(blocks, w_query, w_norm, eps=1e-6):
    """Of a list of blocks' outputs, or of these in one tensor."""
    v = rows(torch.stack(blocks) if isinstance(blocks, (list, tuple)) else blocks)
    flat = v.reshape(v.shape[0], -1, v.shape[-1])
    y, alpha, rstd = ops.attn_res_forward(flat, w_query, w_norm, alpha=True, rstd=True, eps=eps)
    return y.view(v.shape[1:]), flat, alpha, rstd


def attn_res_backward(dh, V_3d, w_query, w_norm, Alpha, RSTD, eps=1e-6):
    dy, dv = rows(dh).reshape(V_3d.shape[1:]), like(V_3d)
    dquery, dweight = like(w_query), like(w_norm)
    ops.attn_res_backward(dy, V_3d, w_query, w_norm, Alpha, RSTD, dv=dv, dquery=dquery, dweight=dweight)
    return dv, dquery, dweight


class LigerAttnResFunction(Function):
    @staticmethod
    def forward(ctx, V_stacked, w_query, w_norm, eps):
        ctx.shape = V_stacked.shape
        h, V_3d, Alpha, RSTD = attn_res_forward(V_stacked, w_query, w_norm, eps)
        ctx.save_for_backward(V_3d, w_query, w_norm, Alpha, RSTD)
        return h

    @staticmethod
    def backward(ctx, dh):
        dv, dquery, dweight = attn_res_backward(dh, *ctx.saved_tensors)
        return dv.view(ctx.shape), dquery, dweight, None
