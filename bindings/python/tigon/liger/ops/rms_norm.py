"""rms_norm under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, gathered, launch_settings, like, matrix, rows
from tigon.liger.ops._traced import ops

MODES = {"none": -1, "llama": 0, "gemma": 1}


def mode_of(casting_mode):
    """The number of a casting mode, given by name or number."""
    mode = MODES.get(casting_mode, casting_mode)
    assert mode in MODES.values(), f"casting_mode is {casting_mode!r}, expected one of {', '.join(MODES)}"
    return mode


def check_width(X, W):
    assert W is None or W.shape[0] == X.shape[-1], f"weight is {tuple(W.shape)}, expected ({X.shape[-1]},), the last dimension of X"


def rms_norm_forward(X, W, eps, offset, casting_mode, row_mode):
    mode = mode_of(casting_mode)
    check_width(X, W)
    x = matrix(X)
    y, rstd = ops.rms_norm_forward(x, W, rstd=True, eps=eps, offset=offset, casting_mode=mode)
    return (y.view(X.shape), x, rstd, *launch_settings(x.shape[-1]), mode)


def rms_norm_backward(dY, X, W, RSTD, offset, casting_mode, BLOCK_SIZE, num_warps, in_place, row_mode, needs_dw=None):
    dweight = like(W) if W is not None and needs_dw is not False else None
    dx = torch.empty(dY.shape, dtype=X.dtype, device=X.device)
    ops.rms_norm_backward(
        rows(dY), X.view(dY.shape), W, RSTD, dx=dx, dweight=dweight, offset=offset, casting_mode=casting_mode
    )
    return dx, dweight


class LigerRMSNormFunction(Function):
    """`in_place` and `row_mode` are taken and have no effect: the upstream gradient is never overwritten."""

    @staticmethod
    def forward(ctx, X, W, eps, offset=0.0, casting_mode="llama", in_place=True, row_mode=None):
        Y, X, RSTD, *ctx.settings, ctx.mode = rms_norm_forward(gathered(X), W, eps, offset, casting_mode, row_mode)
        ctx.offset = offset
        ctx.save_for_backward(X, W, RSTD)
        return Y

    @staticmethod
    def backward(ctx, dY):
        X, W, RSTD = ctx.saved_tensors
        dX, dW = rms_norm_backward(
            gathered(dY), X, W, RSTD, ctx.offset, ctx.mode, *ctx.settings, False, None, needs_dw=ctx.needs_input_grad[1]
        )
        return dX, dW, None, None, None, None, None
