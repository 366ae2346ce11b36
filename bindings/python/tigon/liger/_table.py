"""Liger-Kernel's names, an entry a family. From it follow tigon.liger.ops and what apply() puts in the place of Liger's, the functions of
tigon.liger.transformers.functional, Tigon's entries in Liger's registry of single operators, and the stubs of all these."""
from typing import NamedTuple


class Family(NamedTuple):
    exports: str  # names that tigon/liger/ops/<family>.py gives to liger_kernel.ops; the first one is the autograd function
    functional: str = ""  # name and parameters of the function in liger_kernel.transformers.functional
    applied: str = ""  # what that passes on to the autograd function, where it is not its parameters as they stand
    further: str = ""  # parameters of it that ask for results beside the loss
    dispatched: bool = False  # liger_kernel.functional has the operator, by the family's name
    beside: tuple = ()  # further functions of transformers.functional: name and parameters, and what they return


FURTHER = "return_z_loss, return_token_accuracy, return_predicted_tokens"

FAMILIES = {
    "attn_res": Family(
        "LigerAttnResFunction attn_res_forward attn_res_backward", "liger_attn_res(V, w_query, w_norm, eps=1e-6)"
    ),
    "cross_entropy": Family(
        "LigerCrossEntropyFunction cross_entropy_forward cross_entropy_backward",
        "liger_cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean',"
        " label_smoothing=0.0, lse_square_scale=0.0, softcap=None, return_z_loss=False, return_token_accuracy=False,"
        " return_predicted_tokens=False)",
        applied=f"input, target, weight, ignore_index, lse_square_scale, label_smoothing, reduction, softcap, {FURTHER}",
        further=FURTHER,
        dispatched=True,
    ),
    "dyt": Family("LigerDyTFunction liger_dyt_fwd liger_dyt_bwd", "liger_dyt(x, alpha, gamma, beta)"),
    "embedding": Family("LigerEmbeddingFunction embedding_forward embedding_backward"),
    "fused_add_rms_norm": Family(
        "LigerFusedAddRMSNormFunction fused_add_rms_norm_forward fused_add_rms_norm_backward",
        "liger_fused_add_rms_norm(X, R, W, eps, offset=0.0, casting_mode='llama', in_place=True)",
        dispatched=True,
    ),
    "fused_ce_tvd": Family("LigerFusedCETVDFunction fused_ce_tvd_forward fused_ce_tvd_backward"),
    "fused_linear_cross_entropy": Family(
        "LigerFusedLinearCrossEntropyFunction fused_linear_cross_entropy_forward fused_linear_cross_entropy_backward",
        "liger_fused_linear_cross_entropy(input, weight, target, bias=None, ce_weight=None, ignore_index=-100, lse_square_scale=0.0,"
        " label_smoothing=0.0, reduction='mean', softcap=None, return_z_loss=False, accum_dtype=None, use_token_scaling=False,"
        " return_token_accuracy=False, return_predicted_tokens=False, chunk_mem_const=1)",
        applied="input, weight, target, bias, ce_weight, ignore_index, lse_square_scale, label_smoothing, reduction, softcap, return_z_loss,"
        " accum_dtype, use_token_scaling, return_token_accuracy, return_predicted_tokens",
        further=FURTHER,
        dispatched=True,
    ),
    "fused_linear_jsd": Family(
        "LigerFusedLinearJSDFunction fused_linear_jsd_forward fused_linear_jsd_backward",
        "liger_fused_linear_jsd(student_input, student_weight, teacher_input, teacher_weight, shift_labels=None, jsd_beta=0.5,"
        " ignore_index=-100, temperature=1.0, accum_dtype=None)",
        dispatched=True,
    ),
    "fused_linear_kl_div": Family(
        "LigerFusedLinearKLDivFunction fused_linear_kl_div_forward fused_linear_kl_div_backward",
        "liger_fused_linear_kl_div(student_input, student_weight, target, shift_labels=None, reduction='batchmean', ignore_index=-100,"
        " temperature=1.0, eps=1e-10, accum_dtype=None)",
    ),
    "fused_linear_scaled_cross_entropy": Family(
        "LigerFusedLinearScaledCrossEntropyFunction LigerFusedLinearScaledCrossEntropyTPFunction",
        beside=(
            (
                "liger_fused_linear_scaled_cross_entropy_tp(input, weight, target, tp_group, temperature=1.0, ignore_index=-100,"
                " tiles_per_reduce=1, return_entropy=False)",
                "ops.LigerFusedLinearScaledCrossEntropyTPFunction.apply(input, weight, target, tp_group, temperature, ignore_index,"
                " tiles_per_reduce, return_entropy)",
            ),
        ),
    ),
    "fused_moe": Family("LigerFusedMoEFunction compute_routing_metadata"),
    "fused_neighborhood_attention": Family(
        "LigerFusedNeighborhoodAttentionFunction",
        "liger_fused_neighborhood_attention(query, key, value, kernel_size=7, dilation=1, scale=None)",
    ),
    "geglu": Family("LigerGELUMulFunction geglu_forward geglu_backward", "liger_geglu(a, b)", dispatched=True),
    "group_norm": Family(
        "LigerGroupNormFunction group_norm_forward group_norm_backward",
        "liger_group_norm(X, affine_scaling_weight, affine_shifting_bias, num_channels, num_groups, eps)",
    ),
    "grpo_loss": Family("GrpoLossFunction fused_selective_log_softmax"),
    "jsd": Family(
        "LigerJSDFunction jsd_forward jsd_backward",
        "liger_jsd(input, target, shift_labels=None, beta=0.5, ignore_index=-100)",
        dispatched=True,
    ),
    "kl_div": Family(
        "LigerKLDivLossFunction",
        "liger_kl_div(input, target, size_average=True, reduce=True, reduction='mean', log_target=False, eps=1e-10)",
        applied="input, target, reduction, log_target, eps",
        dispatched=True,
    ),
    "layer_norm": Family(
        "LigerLayerNormFunction layer_norm_forward layer_norm_backward", "liger_layer_norm(X, W, B, eps)", dispatched=True
    ),
    "llama4_rope": Family("LigerLlama4RopeFunction llama4_rope_forward"),
    "mhc": Family(
        "LigerMHCCoeffsFunction LigerMHCPreFunction LigerMHCPostResFunction",
        "liger_mhc_coeffs(x, phi, b, alpha_pre, alpha_post, alpha_res, *, allow_fp32=False, tmax=20, rms_eps=1e-6, pre_eps=0.0,"
        " sinkhorn_eps=1e-6, post_mult=2.0)",
        applied="x, phi, b, alpha_pre, alpha_post, alpha_res, allow_fp32, tmax, rms_eps, pre_eps, sinkhorn_eps, post_mult",
        beside=(
            ("liger_mhc_pre(x, h_pre)", "ops.LigerMHCPreFunction.apply(x, h_pre)"),
            ("liger_mhc_post_res(x, f_out, h_post, h_res)", "ops.LigerMHCPostResFunction.apply(x, f_out, h_post, h_res)"),
        ),
    ),
    "mlp": Family("LigerMLPFunction"),
    "modulated_rms_norm": Family(
        "LigerModulatedRMSNormFunction modulated_rms_norm_forward modulated_rms_norm_backward",
        "liger_modulated_rms_norm(X, W, scale, shift=None, eps=1e-6, offset=0.0, casting_mode='llama', in_place=True)",
    ),
    "multi_token_attention": Family(
        "LigerMultiTokenAttentionFunction",
        "liger_multi_token_attention(scores, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, sparse=False)",
    ),
    "poly_norm": Family(
        "LigerPolyNormFunction poly_norm_forward poly_norm_backward", "liger_poly_norm(X, W, B, eps=1e-6, in_place=True)"
    ),
    "qwen2vl_mrope": Family(
        "LigerQwen2VLMRopeFunction qwen2vl_mrope_forward qwen2vl_mrope_backward",
        "liger_qwen2vl_mrope(q, k, cos, sin, mrope_section, unsqueeze_dim=1)",
    ),
    "relu_squared": Family("LigerReLUSquaredFunction relu_squared_forward relu_squared_backward", "liger_relu_squared(x)"),
    "rms_norm": Family(
        "LigerRMSNormFunction rms_norm_forward rms_norm_backward",
        "liger_rms_norm(X, W, eps, offset=0.0, casting_mode='llama', in_place=True)",
        dispatched=True,
    ),
    "rope": Family(
        "LigerRopeFunction rope_forward rope_backward",
        "liger_rope(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None)",
        dispatched=True,
    ),
    "softmax": Family("LigerSoftmaxFunction", "liger_softmax(x)", dispatched=True),
    "sparsemax": Family("LigerSparsemaxFunction", "liger_sparsemax(input, dim=-1)"),
    "swiglu": Family(
        "LigerSiLUMulFunction LigerFusedGateUpSiLUMulFunction swiglu_forward swiglu_backward swiglu_fused_gate_up_forward"
        " swiglu_fused_gate_up_backward",
        "liger_swiglu(a, b)",
        dispatched=True,
    ),
    "tiled_mlp": Family("LigerTiledMLPFunction apply_tiled_mlp"),
    "tvd": Family(
        "LigerTVDLossFunction", "liger_tvd(input, target, shift_labels=None, reduction='mean', ignore_index=-100)"
    ),
    "vocab_parallel_cross_entropy": Family("LigerVocabParallelCEFunction"),
}


def exports(family):
    return FAMILIES[family].exports.split()


def function_of(family):
    return exports(family)[0]


def functions(family):
    """Its functions in transformers.functional: name and parameters."""
    entry = FAMILIES[family]
    return [f for f in (entry.functional, *(f for f, _ in entry.beside)) if f]


def definitions(family):
    """The Python source of its functions in transformers.functional."""
    own = definition(family) if FAMILIES[family].functional else ""
    return own + "".join(f"def {function}:\n    return {result}\n" for function, result in FAMILIES[family].beside)


def definition(family):
    entry = FAMILIES[family]
    parameters = entry.functional.partition("(")[2].rstrip(")")
    applied = entry.applied or ", ".join(p.partition("=")[0].strip() for p in parameters.split(","))
    call = f"ops.{function_of(family)}.apply({applied})"
    return f"def {entry.functional}:\n    return {f'losses({call}, {entry.further})' if entry.further else call}\n"
