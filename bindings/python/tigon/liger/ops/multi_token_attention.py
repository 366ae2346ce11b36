"""multi_token_attention under Liger-Kernel's names."""
import torch

from tigon._devices import side_by_side
from tigon.liger.ops._shared import Function, like
from tigon.liger.ops._traced import ops


def _one(name, value):
    """Both directions' number, which is one."""
    first, *others = value if isinstance(value, (tuple, list)) else (value,)
    if any(other != first for other in others):
        raise ValueError(f"{name} is {tuple(value)}, expected the same for rows and columns")
    return int(first)


def _size_of_result(length, kernel, stride, padding, dilation):
    """Rows and columns that a convolution has; those of the operator are as many as scores has, of which they are some."""
    size = (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if not 0 < size <= length:
        raise ValueError(f"the convolution's result has {size} rows, expected 1 to {length}, those of scores")
    return size


class LigerMultiTokenAttentionFunction(Function):
    @staticmethod
    def forward(ctx, scores, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, sparse=False):
        stride, padding, dilation = _one("stride", stride), _one("padding", padding), _one("dilation", dilation)
        if sparse and scores.dtype != torch.float32:
            raise RuntimeError(f"sparse multi-token attention is of float32, scores is {scores.dtype}")
        size = _size_of_result(scores.shape[-1], weight.shape[-1], stride, padding, dilation)
        ctx.part = (..., slice(0, (size - 1) * stride + 1, stride), slice(0, (size - 1) * stride + 1, stride))
        ctx.options = {"padding": padding, "dilation": dilation, "groups": groups, "sparse": sparse}
        ctx.bias = bias
        ctx.y_shape = (scores.shape[0], weight.shape[0], *scores.shape[2:])
        y, probs = scores.new_empty(ctx.y_shape), like(scores)
        ops.multi_token_attention_forward(side_by_side(scores), weight, bias, y=y, probs=probs, **ctx.options)
        ctx.save_for_backward(probs, weight)
        return y if size == scores.shape[-1] else y[ctx.part].contiguous()

    @staticmethod
    def backward(ctx, grad_out):
        probs, weight = ctx.saved_tensors
        dy = side_by_side(grad_out)
        if grad_out.shape != ctx.y_shape:
            dy = grad_out.new_zeros(ctx.y_shape)
            dy[ctx.part] = grad_out
        _, wants_weight, wants_bias = (*ctx.needs_input_grad, False)[:3]
        results = {"dscores": like(probs), "dweight": like(weight) if wants_weight else None,
                   "dbias": like(ctx.bias) if wants_bias else None}
        ops.multi_token_attention_backward(dy, probs, weight, **results, **ctx.options)
        return (*results.values(), None, None, None, None, None)
