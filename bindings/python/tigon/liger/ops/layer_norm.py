"""layer_norm under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, launch_settings, like, matrix, rows
from tigon.liger.ops._traced import ops


def layer_norm_forward(X, W, B, eps):
    if W.shape[0] != X.shape[-1]:
        raise ValueError(f"weight is {tuple(W.shape)}, expected ({X.shape[-1]},), the last dimension of X")
    x = matrix(X)
    y, mean, rstd = ops.layer_norm_forward(x, W, B, mean=True, rstd=True, eps=eps)
    return (y.view(X.shape), x, mean, rstd, *launch_settings(x.shape[-1]))


def layer_norm_backward(dY, X, W, B, Mean, RSTD, needs_dw=None, needs_db=None):
    dweight = None if needs_dw is False else like(W)
    dbias = None if needs_db is False else like(B)
    dx = torch.empty(dY.shape, dtype=X.dtype, device=X.device)
    ops.layer_norm_backward(rows(dY), X.view(dY.shape), W, Mean, RSTD, dx=dx, dweight=dweight, dbias=dbias)
    return dx, dweight, dbias


class LigerLayerNormFunction(Function):
    @staticmethod
    def forward(ctx, X, W, B, eps):
        Y, X, Mean, RSTD, _, _ = layer_norm_forward(X, W, B, eps)
        ctx.save_for_backward(X, W, B, Mean, RSTD)
        return Y

    @staticmethod
    def backward(ctx, dY):
        _, needs_dw, needs_db, _ = ctx.needs_input_grad
        return (*layer_norm_backward(dY, *ctx.saved_tensors, needs_dw=needs_dw, needs_db=needs_db), None)
