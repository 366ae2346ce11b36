"""The functions of liger_kernel.transformers.functional for Tigon's families: the same names, arguments and defaults."""
from dataclasses import dataclass
from typing import Optional

import torch

from tigon.liger import ops


@dataclass
class CrossEntropyOutput:
    loss: torch.Tensor
    z_loss: Optional[torch.Tensor] = None
    token_accuracy: Optional[torch.Tensor] = None
    predicted_tokens: Optional[torch.Tensor] = None


def losses(results, *asked):
    """The loss alone, unless more was asked for."""
    return CrossEntropyOutput(*results) if any(asked) else results[0]


def liger_cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
    lse_square_scale=0.0,
    softcap=None,
    return_z_loss=False,
    return_token_accuracy=False,
    return_predicted_tokens=False,
):
    asked = return_z_loss, return_token_accuracy, return_predicted_tokens
    results = ops.LigerCrossEntropyFunction.apply(
        input, target, weight, ignore_index, lse_square_scale, label_smoothing, reduction, softcap, *asked
    )
    return losses(results, *asked)


def liger_fused_linear_cross_entropy(
    input,
    weight,
    target,
    bias=None,
    ce_weight=None,
    ignore_index=-100,
    lse_square_scale=0.0,
    label_smoothing=0.0,
    reduction="mean",
    softcap=None,
    return_z_loss=False,
    accum_dtype=None,
    use_token_scaling=False,
    return_token_accuracy=False,
    return_predicted_tokens=False,
    chunk_mem_const=1,
):
    results = ops.LigerFusedLinearCrossEntropyFunction.apply(
        input,
        weight,
        target,
        bias,
        ce_weight,
        ignore_index,
        lse_square_scale,
        label_smoothing,
        reduction,
        softcap,
        return_z_loss,
        accum_dtype,
        use_token_scaling,
        return_token_accuracy,
        return_predicted_tokens,
    )
    return losses(results, return_z_loss, return_token_accuracy, return_predicted_tokens)


def liger_fused_linear_jsd(
    student_input,
    student_weight,
    teacher_input,
    teacher_weight,
    shift_labels=None,
    jsd_beta=0.5,
    ignore_index=-100,
    temperature=1.0,
    accum_dtype=None,
):
    return ops.LigerFusedLinearJSDFunction.apply(
        student_input, student_weight, teacher_input, teacher_weight, shift_labels, jsd_beta, ignore_index, temperature, accum_dtype
    )


def liger_kl_div(input, target, size_average=True, reduce=True, reduction="mean", log_target=False, eps=1e-10):
    return ops.LigerKLDivLossFunction.apply(input, target, reduction, log_target, eps)


def liger_tvd(input, target, shift_labels=None, reduction="mean", ignore_index=-100):
    return ops.LigerTVDLossFunction.apply(input, target, shift_labels, reduction, ignore_index)


def liger_jsd(input, target, shift_labels=None, beta=0.5, ignore_index=-100):
    return ops.LigerJSDFunction.apply(input, target, shift_labels, beta, ignore_index)


def liger_geglu(a, b):
    return ops.LigerGELUMulFunction.apply(a, b)


def liger_swiglu(a, b):
    return ops.LigerSiLUMulFunction.apply(a, b)


def liger_relu_squared(x):
    return ops.LigerReLUSquaredFunction.apply(x)


def liger_softmax(x):
    return ops.LigerSoftmaxFunction.apply(x)


def liger_sparsemax(input, dim=-1):
    return ops.LigerSparsemaxFunction.apply(input, dim)


def liger_dyt(x, alpha, gamma, beta):
    return ops.LigerDyTFunction.apply(x, alpha, gamma, beta)


def liger_rms_norm(X, W, eps, offset=0.0, casting_mode="llama", in_place=True):
    return ops.LigerRMSNormFunction.apply(X, W, eps, offset, casting_mode, in_place)


def liger_fused_add_rms_norm(X, R, W, eps, offset=0.0, casting_mode="llama", in_place=True):
    return ops.LigerFusedAddRMSNormFunction.apply(X, R, W, eps, offset, casting_mode, in_place)


def liger_layer_norm(X, W, B, eps):
    return ops.LigerLayerNormFunction.apply(X, W, B, eps)


def liger_poly_norm(X, W, B, eps=1e-6, in_place=True):
    return ops.LigerPolyNormFunction.apply(X, W, B, eps, in_place)


def liger_group_norm(X, affine_scaling_weight, affine_shifting_bias, num_channels, num_groups, eps):
    return ops.LigerGroupNormFunction.apply(X, affine_scaling_weight, affine_shifting_bias, num_channels, num_groups, eps)


def liger_rope(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
    return ops.LigerRopeFunction.apply(q, k, cos, sin, position_ids, unsqueeze_dim, rotary_dim)


def liger_qwen2vl_mrope(q, k, cos, sin, mrope_section, unsqueeze_dim=1):
    return ops.LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, mrope_section, unsqueeze_dim)


def liger_fused_neighborhood_attention(query, key, value, kernel_size=7, dilation=1, scale=None):
    return ops.LigerFusedNeighborhoodAttentionFunction.apply(query, key, value, kernel_size, dilation, scale)
