"""fused_add_rms_norm under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, launch_settings, like, matrix, rows
from tigon.liger.ops._traced import ops
from tigon.liger.ops.rms_norm import check_width, mode_of

NUM_STAGES = 2


def fused_add_rms_norm_forward(X, R, W, eps, offset, casting_mode):
    mode = mode_of(casting_mode)
    check_width(X, W)
    y, s, rstd = ops.fused_add_rms_norm_forward(matrix(X), matrix(R), W, rstd=True, eps=eps, offset=offset, casting_mode=mode)
    return (y.view(X.shape), s.view(X.shape), rstd, *launch_settings(X.shape[-1]), NUM_STAGES, mode)


def fused_add_rms_norm_backward(
    dY, dS_out, S, W, RSTD, offset, casting_mode, BLOCK_SIZE, num_warps, num_stages, in_place, needs_dw=None
):
    dweight = None if needs_dw is False else like(W)
    dx = like(S)
    ops.fused_add_rms_norm_backward(
        rows(dY), rows(dS_out), S, W, RSTD, dx=dx, dweight=dweight, offset=offset, casting_mode=casting_mode
    )
    return dx, dx, dweight


class LigerFusedAddRMSNormFunction(Function):
    """`in_place` is taken and has no effect: the upstream gradient is never overwritten."""

    @staticmethod
    def forward(ctx, X, R, W, eps, offset=0.0, casting_mode="llama", in_place=False):
        Y, S, RSTD, *ctx.settings, ctx.mode = fused_add_rms_norm_forward(X, R, W, eps, offset, casting_mode)
        ctx.offset = offset
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(S, W, RSTD)
        return Y, S

    @staticmethod
    def backward(ctx, dY, dS_out):
        S, W, RSTD = ctx.saved_tensors
        if dY is None:
            return dS_out, dS_out, None, None, None, None, None
        dX, dR, dW = fused_add_rms_norm_backward(
            dY, dS_out, S, W, RSTD, ctx.offset, ctx.mode, *ctx.settings, False, needs_dw=ctx.needs_input_grad[2]
        )
        return dX, dR, dW, None, None, None, None
