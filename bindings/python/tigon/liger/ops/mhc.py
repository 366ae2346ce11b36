"""mhc, manifold-constrained hyper-connections, under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops

HALVES = (torch.bfloat16, torch.float16)


def _check(x, phi, b, allow_fp32):
    assert x.dtype in HALVES + (torch.float32,) * bool(allow_fp32), f"x is {x.dtype}, expected bf16 or f16, or FP32 with allow_fp32"
    assert phi.dim() == 2 and phi.shape[0] == x.shape[-2] * x.shape[-1], f"phi is {tuple(phi.shape)}, expected rows for all of a token's x"
    assert b.shape == phi.shape[1:], f"b is {tuple(b.shape)}, expected {tuple(phi.shape[1:])}, the columns of phi"


class LigerMHCCoeffsFunction(Function):
    @staticmethod
    def forward(ctx, x, phi, b, alpha_pre, alpha_post, alpha_res, allow_fp32, tmax, rms_eps, pre_eps, sinkhorn_eps, post_mult):
        _check(x, phi, b, allow_fp32)
        x = rows(x)
        ctx.options = {"iterations": tmax, "sinkhorn_eps": sinkhorn_eps, "post_multiplier": post_mult}
        *results, mix, rstd = ops.mhc_coeffs_forward(x, phi, b, alpha_pre, alpha_post, alpha_res, mix=True, rstd=True, rms_eps=rms_eps,
                                                     pre_eps=pre_eps, **ctx.options)
        ctx.save_for_backward(x, phi, b, alpha_pre, alpha_post, alpha_res, mix, rstd)
        return tuple(results)

    @staticmethod
    def backward(ctx, *upstream):
        x, *parameters, mix, rstd = ctx.saved_tensors
        dh = (None if d is None else d.contiguous() for d in upstream)
        gradients = [like(p) for p in (x, *parameters)]
        names = ("dx", "dphi", "dbias", "dalpha_pre", "dalpha_post", "dalpha_res")
        ops.mhc_coeffs_backward(x, *parameters, mix, rstd, *dh, **dict(zip(names, gradients)), **ctx.options)
        return (*gradients, *[None] * 6)


class LigerMHCPreFunction(Function):
    @staticmethod
    def forward(ctx, x, h_pre):
        ctx.save_for_backward(x, h_pre)
        return ops.mhc_pre_forward(rows(x), h_pre.contiguous())

    @staticmethod
    def backward(ctx, dy):
        x, h_pre = ctx.saved_tensors
        dx, dh_pre = ops.mhc_pre_backward(rows(dy), rows(x), h_pre.contiguous())
        return dx, dh_pre.to(h_pre.dtype)


class LigerMHCPostResFunction(Function):
    """f_out may be of another type than x: it is taken in that of x, as the sum is."""

    @staticmethod
    def forward(ctx, x, f_out, h_post, h_res):
        ctx.save_for_backward(x, f_out, h_post, h_res)
        return ops.mhc_post_res_forward(rows(x), rows(f_out.to(x.dtype)), h_post.contiguous(), h_res.contiguous())

    @staticmethod
    def backward(ctx, dy):
        x, f_out, h_post, h_res = ctx.saved_tensors
        dx, df, dpost, dres = ops.mhc_post_res_backward(rows(dy), rows(x), rows(f_out.to(x.dtype)), h_post.contiguous(), h_res.contiguous())
        return dx, df.to(f_out.dtype), dpost.to(h_post.dtype), dres.to(h_res.dtype)
