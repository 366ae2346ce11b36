"""sparsemax under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, like
from tigon.liger.ops._traced import ops


class LigerSparsemaxFunction(Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = ops.sparsemax_forward(x.contiguous(), y=like(x), dim=dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, grad_out):
        (y,) = ctx.saved_tensors
        return ops.sparsemax_backward(grad_out.contiguous(), y, dx=like(y), dim=ctx.dim), None
