"""The last layer's loss where each process of a group has a slice of the vocabulary."""
from typing import Optional

import torch
import torch.distributed as dist
from torch import Tensor

from tigon import ops
from tigon._groups import of_all
from tigon._once import differentiable_once
from tigon.torch.functional import overridable

__all__ = ["vocab_parallel_fused_linear_cross_entropy"]


def _of_the_whole(loss, lse, group):
    """lse, and what the losses of all slices add up to, the same bits in every process: one exchange of two numbers a row."""
    lse, loss = of_all(group, lse, loss)
    return torch.logsumexp(lse, 0), loss.sum(0)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, target, group, reduction, logits, options):
        asked = {"lse": True, "logits": True} if logits else {"lse": True}
        loss, lse, *kept = ops.fused_linear_cross_entropy_forward(x, weight, target, bias=bias, reduction="none", **asked, **options)
        lse, rest = _of_the_whole(loss.flatten(), lse.flatten(), group)
        ignored = target.flatten() == options["ignore_index"]
        loss = (lse + rest + (options["lse_square_scale"] or 0) * lse.square()).masked_fill(ignored, 0)
        ctx.save_for_backward(x, weight, bias, target, lse, *kept)
        ctx.group, ctx.options = group, {**options, "reduction": reduction}
        if reduction == "none":
            return loss.view(target.shape)
        return loss.sum() / ((~ignored).sum().clamp(min=1) if reduction == "mean" else 1)

    @staticmethod
    @differentiable_once("vocab_parallel_fused_linear_cross_entropy")
    def backward(ctx, dloss):
        x, weight, bias, target, lse, *kept = ctx.saved_tensors
        needs = dict(zip(("dx", "dweight", "dbias"), ctx.needs_input_grad))
        asked = {name: True for name, need in needs.items() if need}
        logits = {"logits": kept[0]} if kept else {}
        got = ops.fused_linear_cross_entropy_backward(x, weight, target, bias=bias, lse=lse, dloss=dloss.contiguous(), **logits,
                                                      **asked, **ctx.options)
        got = dict(zip(asked, got if isinstance(got, tuple) else (got,)))
        if "dx" in got:
            dist.all_reduce(got["dx"], group=ctx.group)
        return got.get("dx"), got.get("dweight"), got.get("dbias"), None, None, None, None, None


@overridable
def vocab_parallel_fused_linear_cross_entropy(x: Tensor, weight: Tensor, target: Tensor, bias: Optional[Tensor] = None, *,
                                              group: Optional[dist.ProcessGroup] = None, vocab_start: Optional[int] = None,
                                              vocab_size: Optional[int] = None, ignore_index: int = -100, reduction: str = "mean",
                                              label_smoothing: Optional[float] = None, lse_square_scale: Optional[float] = None,
                                              softcap: Optional[float] = None, chunk_bytes: Optional[int] = None,
                                              logits: bool = False) -> Tensor:
    """fused_linear_cross_entropy of a head whose rows are shared out over the processes of a group, for vocabularies that outgrow one
    device: the loss, and gradients as if one process had them all. No process holds the logits, not even those of its slice, unless
    `logits` is asked for: then each keeps those of its slice, in f32, and backward does not compute them again.

    x and target are the same in all processes of `group` (None: all processes), and targets are classes of the whole vocabulary.
    weight and bias are this process's slice, classes from vocab_start on of vocab_size; without these, slices are equal and in the
    order of the ranks. The loss is the same in every process, to the bit. x gets its whole gradient, weight and bias that of the
    slice. The processes exchange two numbers for each row in forward, and add up the gradient of x in backward. `tigon.ops.fused_linear_cross_entropy_forward` tells the options and the formulas.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"vocab_parallel_fused_linear_cross_entropy: reduction is {reduction!r}, expected one of mean, sum, none")
    if (vocab_start is None) != (vocab_size is None):
        raise ValueError("vocab_parallel_fused_linear_cross_entropy: vocab_start and vocab_size are given together, or none of them")
    if vocab_size is None:
        vocab_start = dist.get_rank(group) * weight.shape[0]
        vocab_size = dist.get_world_size(group) * weight.shape[0]
    options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "lse_square_scale": lse_square_scale,
               "softcap": softcap, "chunk_bytes": chunk_bytes, "vocab_start": vocab_start, "vocab_size": vocab_size}
    return _Loss.apply(x, weight, bias, target, group, reduction, logits, options)
