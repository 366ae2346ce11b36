"""fused_neighborhood_attention under Liger-Kernel's names."""
from tigon._devices import side_by_side
from tigon.liger.ops._shared import Function, like
from tigon.liger.ops._traced import ops


class LigerFusedNeighborhoodAttentionFunction(Function):
    @staticmethod
    def forward(ctx, query, key, value, kernel_size=7, dilation=1, scale=None):
        query, key, value = side_by_side(query), side_by_side(key), side_by_side(value)
        ctx.options = {"kernel_size": kernel_size, "dilation": dilation, "scale": scale}
        y, lse = ops.fused_neighborhood_attention_forward(query, key, value, y=like(query), lse=True, **ctx.options)
        ctx.save_for_backward(query, key, value, lse)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        gradients = {name: like(x) for name, x in zip(("dq", "dk", "dv"), ctx.saved_tensors)}
        ops.fused_neighborhood_attention_backward(side_by_side(grad_output), *ctx.saved_tensors, **gradients, **ctx.options)
        return (*gradients.values(), None, None, None)
