"""relu_squared under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops


def relu_squared_forward(X):
    return ops.relu_squared_forward(rows(X), y=like(X))


def relu_squared_backward(X, dY):
    return ops.relu_squared_backward(rows(dY), rows(X), dx=like(X))


class LigerReLUSquaredFunction(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return relu_squared_forward(x)

    @staticmethod
    def backward(ctx, dy):
        return relu_squared_backward(*ctx.saved_tensors, dy)
