"""fused_ce_tvd under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, check_targets, like, rows
from tigon.liger.ops._traced import ops


def _check(student_logits, teacher_logits, target):
    student, teacher = tuple(student_logits.shape), tuple(teacher_logits.shape)
    if student != teacher:
        raise ValueError(f"student_logits and teacher_logits must have the same shape, found {student} and {teacher}")
    if len(student) != 2:
        raise ValueError(f"student_logits must be 2D, found {len(student)} dimensions")
    if target.shape != student[:1]:
        raise ValueError(f"target must have shape {student[:1]}, found {tuple(target.shape)}")


def fused_ce_tvd_forward(student_logits, teacher_logits, target, ignore_index):
    """ce and tvd, and what backward takes: both log-sums of exponentials, and sigma."""
    check_targets(target, ignore_index, student_logits.shape[-1])
    dtype = torch.promote_types(student_logits.dtype, teacher_logits.dtype)
    results = [torch.empty(target.shape, dtype=torch.float32, device=target.device) for _ in range(5)]
    names = "ce", "tvd", "student_lse", "teacher_lse", "sigma"
    logits = (rows(t.to(dtype)) for t in (student_logits, teacher_logits))
    ops.fused_ce_tvd_forward(*logits, target, **dict(zip(names, results)), ignore_index=ignore_index)
    return tuple(results)


def fused_ce_tvd_backward(grad_ce, grad_tvd, student_logits, teacher_logits, target, student_lse, teacher_lse, sigma, ignore_index):
    dtype = torch.promote_types(student_logits.dtype, teacher_logits.dtype)
    student, teacher = (rows(t.to(dtype)) for t in (student_logits, teacher_logits))
    dstudent = like(student)
    ops.fused_ce_tvd_backward(
        student,
        teacher,
        target,
        student_lse,
        teacher_lse,
        sigma,
        grad_ce.contiguous(),
        grad_tvd.contiguous(),
        dstudent=dstudent,
        ignore_index=ignore_index,
    )
    return dstudent.to(student_logits.dtype)


class LigerFusedCETVDFunction(Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, target, ignore_index=-100):
        _check(student_logits, teacher_logits, target)
        ce, tvd, *saved = fused_ce_tvd_forward(student_logits, teacher_logits, target, ignore_index)
        ctx.save_for_backward(student_logits, teacher_logits, target, *saved)
        ctx.ignore_index = ignore_index
        return ce, tvd

    @staticmethod
    def backward(ctx, grad_ce, grad_tvd):
        return fused_ce_tvd_backward(grad_ce, grad_tvd, *ctx.saved_tensors, ctx.ignore_index), None, None, None
