"""tvd under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, labels_of, like, rows
from tigon.liger.ops._traced import ops


class LigerTVDLossFunction(Function):
    @staticmethod
    def forward(ctx, p, q, shift_labels=None, reduction="batchmean", ignore_index=-100):
        labels = labels_of(shift_labels, p)
        ctx.options = {"reduction": reduction, "ignore_index": ignore_index}
        p, q = rows(p), rows(q)
        ctx.save_for_backward(p, q, labels)
        loss = torch.empty(p.shape if reduction == "none" else (), dtype=torch.float32, device=p.device)
        return ops.tvd_forward(p, q, labels, loss=loss, **ctx.options)

    @staticmethod
    def backward(ctx, grad_output):
        p, q, labels = ctx.saved_tensors
        dp = ops.tvd_backward(p, q, labels, rows(grad_output), dp=like(p), **ctx.options)
        return dp, None, None, None, None
