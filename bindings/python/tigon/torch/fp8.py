"""Linear layers whose products are of numbers of 8 bits, with scales of blocks of 128, and norm and gate that write such numbers themselves."""
from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from tigon._once import differentiable_once
from tigon.torch.functional import overridable

__all__ = ["FP8Linear", "fp8_linear", "fp8_norm_linear", "fp8_swiglu"]


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


class _FP8NormLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, norm_weight, weight, eps):
        for_norm, for_weight = any(ctx.needs_input_grad[:3]), ctx.needs_input_grad[3]
        s, rstd, q, scale, qt, scale_t = torch.ops.tigon.quantize_rms_norm(
            x, residual, norm_weight, eps=eps, rstd=for_norm, q=True, scale=True, qt=for_weight, scale_t=for_weight)
        of_weight, across_weight = _quantized(weight, square=True, columns=for_norm)
        ctx.save_for_backward(x if residual is None else s, norm_weight, rstd, qt, scale_t, *across_weight)
        ctx.types, ctx.fused = (x.dtype, weight.dtype), residual is not None
        y = _product((q, scale), of_weight, x.dtype)
        return (y, s) if ctx.fused else y

    @staticmethod
    @differentiable_once("fp8_norm_linear")
    def backward(ctx, dy, ds=None):
        x, norm_weight, rstd, qt, scale_t, *across_weight = ctx.saved_tensors
        for_norm, for_weight = any(ctx.needs_input_grad[:3]), ctx.needs_input_grad[3]
        along, across = _quantized(dy, rows=for_norm, columns=for_weight) if for_norm or for_weight else (None, None)
        dweight = _product(across, (qt, scale_t), ctx.types[1]) if for_weight else None
        dx = dnorm = None
        if for_norm:
            dnormed = _product(along, across_weight, ctx.types[0])
            if ctx.fused:
                dx, dnorm = torch.ops.tigon.fused_add_rms_norm_backward(dnormed, ds, x, norm_weight, rstd, dweight=True)
            else:
                dx, dnorm, *_ = torch.ops.tigon.rms_norm_backward(dnormed, x, norm_weight, rstd, dweight=True)
        return dx, dx if ctx.fused else None, dnorm, dweight, None


class _FP8SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate_up, down):
        for_x, for_gate_up, _ = ctx.needs_input_grad
        of_x, across_x = _quantized(x, columns=for_gate_up)
        of_gate_up, across_gate_up = _quantized(gate_up, square=True, columns=for_x)
        of_down, across_down = _quantized(down, square=True, columns=for_x or for_gate_up)
        z = _product(of_x, of_gate_up, x.dtype)
        gate, up = z.chunk(2, 1)
        q, scale, *_ = torch.ops.tigon.quantize_swiglu(gate, up, q=True, scale=True)
        ctx.save_for_backward(z, *across_x, *across_gate_up, *across_down)
        ctx.types = x.dtype, gate_up.dtype, down.dtype
        return _product((q, scale), of_down, x.dtype)

    @staticmethod
    @differentiable_once("fp8_swiglu")
    def backward(ctx, dy):
        z, *factors = ctx.saved_tensors
        across_x, across_gate_up, across_down = factors[:2], factors[2:4], factors[4:]
        for_x, for_gate_up, for_down = ctx.needs_input_grad
        inner = for_x or for_gate_up
        if not inner and not for_down:
            return None, None, None
        along, across = _quantized(dy, rows=inner, columns=for_down)
        gate, up = z.chunk(2, 1)
        dh = _product(along, across_down, ctx.types[0]) if inner else torch.zeros_like(gate)
        q, scale, qt, scale_t, yt, scale_yt = torch.ops.tigon.quantize_swiglu_gradient(
            dh, gate, up, q=for_x, scale=for_x, qt=for_gate_up, scale_t=for_gate_up, yt=for_down, scale_yt=for_down)
        dx = _product((q, scale), across_gate_up, ctx.types[0]) if for_x else None
        dgate_up = _product((qt, scale_t), across_x, ctx.types[1]) if for_gate_up else None
        return dx, dgate_up, _product(across, (yt, scale_yt), ctx.types[2]) if for_down else None


def _lowered(x):
    """x as products take it under autocast."""
    return x.to(torch.get_autocast_dtype(x.device.type)) if torch.is_autocast_enabled(x.device.type) else x


@overridable
def fp8_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """x weight^T + bias, multiplied as numbers of 8 bits (E4M3), in forward and in both products of backward.

    x [..,K], weight [N,K] and bias [N] are f32, bf16 or f16; the result has the type of x, gradients that of their tensors. Activations and
    gradients have a scale for each 128 along the sum, the weight one for each 128 x 128, as in DeepSeek-V3 (`tigon.ops.quantize_block`,
    `gemm_block_scaled`). Quantisation passes gradients through. For backward x and weight are kept as they were multiplied, a byte an element.
    Under autocast x is lowered first."""
    x = _lowered(x)
    y = _FP8Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    return y.reshape(*x.shape[:-1], weight.shape[0])


@overridable
def fp8_norm_linear(x: Tensor, norm_weight: Tensor, weight: Tensor, residual: Optional[Tensor] = None,
                    eps: float = 1e-6) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """fp8_linear(rms_norm(x, norm_weight), weight), whose norm writes numbers of 8 bits itself; with a residual (that, x + residual).

    x and residual [..,K], norm_weight [K], weight [N,K]. The norm is that of Llama (casting_mode "llama"); what it gives is kept for backward a byte
    an element, across its rows. The numbers are those of fp8_linear of rms_norm or of fused_add_rms_norm."""
    x = _lowered(x)
    residual = None if residual is None else residual.to(x.dtype).reshape(-1, x.shape[-1])
    y = _FP8NormLinear.apply(x.reshape(-1, x.shape[-1]), residual, norm_weight, weight, eps)
    y, s = (y, None) if residual is None else y
    y = y.reshape(*x.shape[:-1], weight.shape[0])
    return y if s is None else (y, s.reshape(x.shape))


@overridable
def fp8_swiglu(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """A feed-forward part, fp8_linear(swiglu(x gate^T, x up^T), down), whose gate writes numbers of 8 bits itself, and so do its gradients.

    x [..,K]; gate_up [2 F,K], gate above up; down [N,F]; F is a multiple of 128. In bf16 nothing but x gate_up^T is written, which is kept for
    backward; what else is kept takes a byte an element. The numbers are those of fp8_linear, swiglu and fp8_linear one after the other."""
    if gate_up.shape[0] % 256:
        raise ValueError(f"fp8_swiglu: gate_up has {gate_up.shape[0]} rows, expected a multiple of 256")
    x = _lowered(x)
    y = _FP8SwiGLU.apply(x.reshape(-1, x.shape[-1]), gate_up, down)
    return y.reshape(*x.shape[:-1], down.shape[0])


class FP8Linear(torch.nn.Linear):
    """torch.nn.Linear by fp8_linear."""

    def forward(self, x: Tensor) -> Tensor:
        return fp8_linear(x, self.weight, self.bias)
