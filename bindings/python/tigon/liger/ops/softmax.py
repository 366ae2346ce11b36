"""softmax under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops


class LigerSoftmaxFunction(Function):
    @staticmethod
    def forward(ctx, input_):
        y = ops.softmax_forward(rows(input_), y=like(input_))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return ops.softmax_backward(rows(grad_output), y, dx=like(y))
