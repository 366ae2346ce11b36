"""dyt, dynamic tanh, under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops


def liger_dyt_fwd(x, alpha, gamma, beta):
    return ops.dyt_forward(rows(x), alpha, gamma, beta, y=like(x))


def liger_dyt_bwd(dy, x, alpha, gamma, beta):
    dx, dalpha, dgamma = like(x), like(alpha), like(gamma)
    dbeta = None if beta is None else like(beta)
    ops.dyt_backward(rows(dy), rows(x), alpha, gamma, dx=dx, dalpha=dalpha, dgamma=dgamma, dbeta=dbeta)
    return dx, dalpha, dgamma, dbeta


class LigerDyTFunction(Function):
    @staticmethod
    def forward(ctx, x, alpha, gamma, beta):
        ctx.save_for_backward(x, alpha, gamma, beta)
        return liger_dyt_fwd(x, alpha, gamma, beta)

    @staticmethod
    def backward(ctx, dy):
        return liger_dyt_bwd(dy, *ctx.saved_tensors)
