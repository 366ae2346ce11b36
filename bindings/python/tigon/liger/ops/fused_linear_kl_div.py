"""fused_linear_kl_div under Liger-Kernel's names. Sums over chunks are in f32, whatever accum_dtype says."""
import torch

from tigon.liger.ops._shared import Function, labels_of, like, rows, scaled
from tigon.liger.ops._traced import ops
from tigon.liger.ops.fused_linear_cross_entropy import as_given, operands

REDUCTIONS = "batchmean", "mean", "sum"


def fused_linear_kl_div_forward(
    student_input,
    student_weight,
    target,
    shift_labels,
    reduction,
    ignore_index,
    has_label,
    temperature,
    eps,
    accum_dtype=None,
    weight_requires_grad=None,
):
    """The loss, and the gradients of student_input and, if it needs one, of student_weight for an upstream gradient of 1."""
    needed = student_weight.requires_grad if weight_requires_grad is None else weight_requires_grad
    tensors = operands(student_input, student_weight)
    loss = torch.empty((), dtype=torch.float32, device=student_input.device)
    dx, dweight = like(tensors[0]), like(tensors[1]) if needed else None
    ops.fused_linear_kl_div_forward(
        *tensors,
        rows(target),
        labels=shift_labels if has_label else None,
        loss=loss,
        dx=dx,
        dweight=dweight,
        reduction=reduction,
        temperature=temperature,
        eps=eps,
        ignore_index=ignore_index,
    )
    return (loss, *as_given((dx, dweight), (student_input, student_weight)))


def fused_linear_kl_div_backward(grad_output, grad_input, grad_weight):
    return scaled(grad_output, grad_input, grad_weight)


class LigerFusedLinearKLDivFunction(Function):
    @staticmethod
    def forward(
        ctx,
        student_input,
        student_weight,
        target,
        shift_labels=None,
        reduction="batchmean",
        ignore_index=-100,
        temperature=1.0,
        eps=1e-10,
        accum_dtype=None,
    ):
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {REDUCTIONS}, found {reduction!r}: gradients are computed with a single loss")
        labels = labels_of(shift_labels, student_input)
        loss, *gradients = fused_linear_kl_div_forward(
            student_input,
            student_weight,
            target,
            labels,
            reduction,
            ignore_index,
            labels is not None,
            temperature,
            eps,
            weight_requires_grad=ctx.needs_input_grad[1],
        )
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        return (*fused_linear_kl_div_backward(grad_output, *ctx.saved_tensors), *(None,) * 7)
