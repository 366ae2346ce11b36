"""swiglu under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import DTensor, Function, like, matrix, rows
from tigon.liger.ops._traced import ops, traced


def swiglu_forward(a, b, gate_multiplier=1.0, down_multiplier=1.0):
    a, b = rows(a), rows(b)
    return a, b, ops.swiglu_forward(a, b, y=like(a), gate_multiplier=gate_multiplier, down_multiplier=down_multiplier)


def swiglu_backward(a, b, dc, gate_multiplier=1.0, down_multiplier=1.0):
    return ops.swiglu_backward(
        rows(dc), a, b, dgate=like(a), dup=like(b), gate_multiplier=gate_multiplier, down_multiplier=down_multiplier
    )


class LigerSiLUMulFunction(Function):
    @staticmethod
    def forward(ctx, a, b, gate_multiplier=1.0, down_multiplier=1.0):
        ctx.multipliers = float(gate_multiplier), float(down_multiplier)
        spread = next((x for x in (a, b) if isinstance(x, DTensor)), None)
        ctx.placement = spread is not None and (spread.device_mesh, spread.placements)
        a, b, c = swiglu_forward(_local(ctx, a), _local(ctx, b), *ctx.multipliers)
        ctx.save_for_backward(a, b)
        return _spread(ctx, c)

    @staticmethod
    def backward(ctx, dc):
        da, db = swiglu_backward(*ctx.saved_tensors, _local(ctx, dc), *ctx.multipliers)
        return _spread(ctx, da), _spread(ctx, db), None, None


def _local(ctx, x):
    """This process's part of x, where the call's tensors are spread over processes."""
    if ctx.placement and not isinstance(x, DTensor):
        x = torch.distributed.tensor.distribute_tensor(x, *ctx.placement)
    return x.to_local() if ctx.placement else x


def _spread(ctx, x):
    return DTensor.from_local(x, *ctx.placement) if ctx.placement else x


def _halves(y):
    size = y.shape[-1] // 2
    return y[:, :size], y[:, size:]


def swiglu_fused_gate_up_forward(y):
    if y.shape[-1] % 2:
        raise ValueError(f"the last dimension of [gate | up] is {y.shape[-1]}, expected an even one")
    packed = matrix(y)
    gate, up = _halves(packed)
    return packed, ops.swiglu_forward(gate, up, y=like(gate)).view(*y.shape[:-1], y.shape[-1] // 2)


def swiglu_fused_gate_up_backward(y, dc, in_place=False):
    dy = y if in_place and not traced() else like(y)
    (gate, up), (dgate, dup) = _halves(y), _halves(dy)
    ops.swiglu_backward(matrix(dc), gate, up, dgate=dgate, dup=dup)
    return dy


class LigerFusedGateUpSiLUMulFunction(Function):
    """With in_place the gradient overwrites what forward saved, and so there is one backward."""

    @staticmethod
    def forward(ctx, y, in_place=False):
        ctx.shape, ctx.in_place, ctx.overwritten = y.shape, in_place, False
        packed, c = swiglu_fused_gate_up_forward(y)
        ctx.save_for_backward(packed)
        return c

    @staticmethod
    def backward(ctx, dc):
        if ctx.overwritten:
            raise RuntimeError("with in_place=True LigerFusedGateUpSiLUMulFunction can only run backward once")
        ctx.overwritten = ctx.in_place
        return swiglu_fused_gate_up_backward(*ctx.saved_tensors, dc, ctx.in_place).view(ctx.shape), None
