"""poly_norm under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, launch_settings, like, matrix, rows
from tigon.liger.ops._traced import ops


def poly_norm_forward(X, W, B, eps=1e-6):
    assert W.shape[0] == 3, f"weight is {tuple(W.shape)}, expected (3,)"
    assert B.numel() == 1, f"bias has {B.numel()} elements, expected 1"
    x = matrix(X)
    y, rstd = ops.poly_norm_forward(x, W, B, rstd=True, eps=eps)
    return (y.view(X.shape), x, rstd, *launch_settings(x.shape[-1]))


def poly_norm_backward(dY, X, W, RSTD, BLOCK_SIZE, num_warps, in_place):
    dx = torch.empty(dY.shape, dtype=X.dtype, device=X.device)
    dweight, dbias = like(W), torch.empty((), dtype=W.dtype, device=W.device)
    ops.poly_norm_backward(rows(dY), X.view(dY.shape), W, RSTD, dx=dx, dweight=dweight, dbias=dbias)
    return dx, dweight, dbias


class LigerPolyNormFunction(Function):
    """`in_place` is taken and has no effect: the upstream gradient is never overwritten."""

    @staticmethod
    def forward(ctx, X, W, B, eps=1e-6, in_place=True):
        Y, X, RSTD, *ctx.settings = poly_norm_forward(X, W, B, eps)
        ctx.bias_shape = B.shape
        ctx.save_for_backward(X, W, RSTD)
        return Y

    @staticmethod
    def backward(ctx, dY):
        X, W, RSTD = ctx.saved_tensors
        dX, dW, dB = poly_norm_backward(dY, X, W, RSTD, *ctx.settings, False)
        return dX, dW, dB.view(ctx.bias_shape), None, None
