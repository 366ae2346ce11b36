"""geglu under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops


def geglu_forward(a, b):
    a, b = rows(a), rows(b)
    return a, b, ops.geglu_forward(a, b, y=like(a))


def geglu_backward(a, b, dc):
    return ops.geglu_backward(rows(dc), a, b, dgate=like(a), dup=like(b))


class LigerGELUMulFunction(Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b, c = geglu_forward(a, b)
        ctx.save_for_backward(a, b)
        return c

    @staticmethod
    def backward(ctx, dc):
        return geglu_backward(*ctx.saved_tensors, dc)
