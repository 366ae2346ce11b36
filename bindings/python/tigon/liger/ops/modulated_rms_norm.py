"""modulated_rms_norm under Liger-Kernel's names: rms_norm with a scale, and a shift, of groups of rows. Arithmetic is in f32 whatever
casting_mode says."""
import torch

from tigon.liger.ops._shared import Function, gathered, launch_settings, like, matrix, rows
from tigon.liger.ops._traced import ops
from tigon.liger.ops.rms_norm import check_width, mode_of


def _groups(modulation, x):
    """scale or shift as a matrix, of which each row is that of as many rows of x."""
    if modulation is None:
        return None
    width = x.shape[-1]
    assert modulation.shape[-1] == width, f"scale and shift are {modulation.shape[-1]} wide, expected {width}, the last dimension of X"
    groups, tokens = modulation.numel() // max(width, 1), x.numel() // max(width, 1)
    assert groups and tokens % groups == 0, f"{groups} rows of scale or shift do not divide the {tokens} rows of X"
    return matrix(modulation)


def modulated_rms_norm_forward(X, W, scale, shift, eps, offset, casting_mode):
    """The result, 1 / rms of each row, Liger's launch settings, the casting mode's number, rows that share one of scale."""
    mode = mode_of(casting_mode)
    check_width(X, W)
    assert shift is None or shift.numel() == scale.numel(), "shift has another number of rows than scale"
    x, scale, shift = matrix(X), _groups(scale, X), _groups(shift, X)
    y, rstd = ops.rms_norm_forward(x, W, scale=scale, shift=shift, rstd=True, eps=eps, offset=offset, casting_mode=mode)
    return (y.view(X.shape), rstd, *launch_settings(x.shape[-1]), mode, x.shape[0] // scale.shape[0])


def modulated_rms_norm_backward(
    dY, X, W, scale, shift, RSTD, offset, casting_mode, BLOCK_SIZE, num_warps, rows_per_modulation, in_place, needs=(True,) * 4
):
    """The gradients of X, W, scale and shift, of which those are None that are not needed or have none."""
    x, g = matrix(X), _groups(scale, X)
    dscale, dshift = (like(g, t.dtype) if t is not None and need else None for t, need in zip((scale, shift), needs[2:]))
    dweight = like(W) if W is not None and needs[1] else None
    dx = torch.empty(x.shape, dtype=X.dtype, device=X.device)
    ops.rms_norm_backward(
        matrix(rows(dY)), x, W, RSTD, scale=g, dx=dx, dweight=dweight, dscale=dscale, dshift=dshift, offset=offset,
        casting_mode=casting_mode,
    )
    of_shape = (None if d is None else d.view(t.shape) for d, t in ((dscale, scale), (dshift, shift)))
    return (dx.view(X.shape), dweight, *of_shape)


class LigerModulatedRMSNormFunction(Function):
    """(1 + scale) times rms_norm(X) plus shift. `in_place` is taken and has no effect: the upstream gradient is never overwritten."""

    @staticmethod
    def forward(ctx, X, W, scale, shift, eps, offset=0.0, casting_mode="llama", in_place=True):
        X = gathered(X)
        Y, RSTD, *ctx.settings = modulated_rms_norm_forward(X, W, scale, shift, eps, offset, casting_mode)
        ctx.offset = offset
        ctx.save_for_backward(X, W, scale, shift, RSTD)
        return Y

    @staticmethod
    def backward(ctx, dY):
        *settings, mode, per_group = ctx.settings
        gradients = modulated_rms_norm_backward(
            gathered(dY), *ctx.saved_tensors, ctx.offset, mode, *settings, per_group, False, needs=ctx.needs_input_grad
        )
        return (*gradients, None, None, None, None)
