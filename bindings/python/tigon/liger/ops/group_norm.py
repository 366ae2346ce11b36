"""group_norm under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, launch_settings, like
from tigon.liger.ops._traced import ops


def group_norm_forward(X, num_channels, num_groups, W, B, eps):
    X = X.contiguous()
    y, mean, rstd = ops.group_norm_forward(X, W, B, mean=True, rstd=True, num_groups=num_groups, eps=eps)
    block, _ = launch_settings(X[0].numel() // num_groups if X.shape[0] else 0)
    return y, X, mean, rstd, block


def group_norm_backward(dY, X, W, B, Mean, RSTD, num_channels, num_groups):
    dx, dweight, dbias = like(X), like(W), like(B)
    ops.group_norm_backward(dY.contiguous(), X, W, Mean, RSTD, dx=dx, dweight=dweight, dbias=dbias, num_groups=num_groups)
    return dx, dweight, dbias


class LigerGroupNormFunction(Function):
    @staticmethod
    def forward(ctx, X, affine_scaling_weight, affine_shifting_bias, num_channels, num_groups, eps):
        Y, X, Mean, RSTD, _ = group_norm_forward(X, num_channels, num_groups, affine_scaling_weight, affine_shifting_bias, eps)
        ctx.sizes = num_channels, num_groups
        ctx.save_for_backward(X, affine_scaling_weight, affine_shifting_bias, Mean, RSTD)
        return Y

    @staticmethod
    def backward(ctx, dY):
        return (*group_norm_backward(dY, *ctx.saved_tensors, *ctx.sizes), None, None, None)
