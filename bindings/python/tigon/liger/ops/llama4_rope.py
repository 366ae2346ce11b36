"""llama4_rope under Liger-Kernel's names."""
import torch

from tigon._devices import side_by_side
from tigon.liger.ops._shared import Function, like
from tigon.liger.ops._traced import ops


def _table(freqs_cis, length):
    """The real view [S,D/2,2] of a complex table's first rows."""
    if freqs_cis.is_complex():
        freqs_cis = torch.view_as_real(freqs_cis.reshape(-1, freqs_cis.shape[-1])[:length])
    return freqs_cis.contiguous()


def llama4_rope_forward(q, k, freqs_cis, BLOCK_SIZE=None, imag_sign=1.0):
    """The product with the table; with imag_sign -1 that with its conjugate, which is the backward."""
    q, k = side_by_side(q), side_by_side(k.to(q.dtype))
    table = _table(freqs_cis, q.shape[1])
    if imag_sign > 0:
        return ops.llama4_rope_forward(q, k, table, yq=like(q), yk=like(k))
    return ops.llama4_rope_backward(q, k, table, dq=like(q), dk=like(k))


class LigerLlama4RopeFunction(Function):
    @staticmethod
    def forward(ctx, q, k, freqs_cis, BLOCK_SIZE=None):
        ctx.save_for_backward(freqs_cis)
        return llama4_rope_forward(q, k, freqs_cis)

    @staticmethod
    def backward(ctx, dq, dk):
        return (*llama4_rope_forward(dq, dk, *ctx.saved_tensors, imag_sign=-1.0), None, None)
