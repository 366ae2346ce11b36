"""kl_div under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops


class LigerKLDivLossFunction(Function):
    @staticmethod
    def forward(ctx, y_pred, y_true, reduction="batchmean", log_target=False, eps=1e-10):
        ctx.options = {"reduction": reduction, "log_target": log_target}
        ctx.dtype = y_pred.dtype
        y_true = rows(y_true)
        ctx.save_for_backward(y_true)
        loss = torch.empty(y_pred.shape if reduction == "none" else (), dtype=torch.float32, device=y_pred.device)
        return ops.kl_div_forward(rows(y_pred), y_true, loss=loss, eps=eps, **ctx.options)

    @staticmethod
    def backward(ctx, grad_output):
        (y_true,) = ctx.saved_tensors
        dy_pred = ops.kl_div_backward(y_true, rows(grad_output), dy_pred=like(y_true, ctx.dtype), **ctx.options)
        return dy_pred, None, None, None, None
