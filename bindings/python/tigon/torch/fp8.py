"""A linear layer whose three products are of numbers of 8 bits, with scales of blocks of 128."""
from typing import Optional

import torch
from torch import Tensor

from tigon._once import differentiable_once
from tigon.torch.functional import overridable

__all__ = ["FP8Linear", "fp8_linear"]


def _quantized(x, *, square=False, rows=True, columns=False):
    """(q, scale) along the rows of x, and along its columns: those of its transpose."""
    q, scale, qt, scale_t = torch.ops.tigon.quantize_block(x, square=square, q=rows, scale=rows, qt=columns, scale_t=columns)
    return (q, scale), (qt, scale_t)


def _product(a, b, dtype, addend=None):
    """a b^T in that type, which an addend tells the operator."""
    if addend is None and dtype != torch.bfloat16:
        addend = torch.zeros(1, b[0].shape[0], dtype=dtype, device=b[0].device)
    if addend is not None:
        addend = addend.to(dtype).expand(a[0].shape[0], -1)
    return torch.ops.tigon.gemm_block_scaled(*a, *b, addend)


class _FP8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        for_x, for_weight = ctx.needs_input_grad[:2]
        of_x, across_x = _quantized(x, columns=for_weight)
        of_weight, across_weight = _quantized(weight, square=True, columns=for_x)
        ctx.save_for_backward(*across_x, *across_weight)
        ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return _product(of_x, of_weight, x.dtype, None if bias is None else bias.view(1, -1))

    @staticmethod
    @differentiable_once("fp8_linear")
    def backward(ctx, dy):
        saved, (of_x, of_weight, of_bias) = ctx.saved_tensors, ctx.types
        for_x, for_weight, for_bias = ctx.needs_input_grad
        along, across = _quantized(dy, rows=for_x, columns=for_weight) if for_x or for_weight else (None, None)
        dx = _product(along, saved[2:], of_x) if for_x else None
        dweight = _product(across, saved[:2], of_weight) if for_weight else None
        return dx, dweight, dy.sum(0, dtype=torch.float32).to(of_bias) if for_bias else None


@overridable
def fp8_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """x weight^T + bias, multiplied as numbers of 8 bits (E4M3), in forward and in both products of backward.

    x [..,K], weight [N,K] and bias [N] are f32, bf16 or f16; the result has the type of x, gradients that of their tensors. Activations and
    gradients have a scale for each 128 along the sum, the weight one for each 128 x 128, as in DeepSeek-V3 (`tigon.ops.quantize_block`,
    `gemm_block_scaled`). Quantisation passes gradients through. For backward x and weight are kept as they were multiplied, a byte an element.
    Under autocast x is lowered first."""
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    y = _FP8Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    return y.reshape(*x.shape[:-1], weight.shape[0])


class FP8Linear(torch.nn.Linear):
    """torch.nn.Linear by fp8_linear."""

    def forward(self, x: Tensor) -> Tensor:
        return fp8_linear(x, self.weight, self.bias)
