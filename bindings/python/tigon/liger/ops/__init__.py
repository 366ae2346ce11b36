"""Tigon's operators under the names of liger_kernel.ops: the same arguments, defaults and results.

A file a family, of the name that the module has in Liger. __all__ is the export list: what tigon.liger.apply() puts in the place of
Liger's own.
"""
import torch

from tigon._imports import when_loaded
from tigon.liger.ops import _shared
from tigon.liger.ops.cross_entropy import LigerCrossEntropyFunction, cross_entropy_backward, cross_entropy_forward
from tigon.liger.ops.dyt import LigerDyTFunction, liger_dyt_bwd, liger_dyt_fwd
from tigon.liger.ops.embedding import LigerEmbeddingFunction, embedding_backward, embedding_forward
from tigon.liger.ops.fused_add_rms_norm import (
    LigerFusedAddRMSNormFunction,
    fused_add_rms_norm_backward,
    fused_add_rms_norm_forward,
)
from tigon.liger.ops.fused_linear_cross_entropy import (
    LigerFusedLinearCrossEntropyFunction,
    fused_linear_cross_entropy_backward,
    fused_linear_cross_entropy_forward,
)
from tigon.liger.ops.fused_linear_jsd import LigerFusedLinearJSDFunction, fused_linear_jsd_backward, fused_linear_jsd_forward
from tigon.liger.ops.fused_moe import LigerFusedMoEFunction
from tigon.liger.ops.fused_neighborhood_attention import LigerFusedNeighborhoodAttentionFunction
from tigon.liger.ops.geglu import LigerGELUMulFunction, geglu_backward, geglu_forward
from tigon.liger.ops.group_norm import LigerGroupNormFunction, group_norm_backward, group_norm_forward
from tigon.liger.ops.grpo_loss import GrpoLossFunction, fused_selective_log_softmax
from tigon.liger.ops.jsd import LigerJSDFunction, jsd_backward, jsd_forward
from tigon.liger.ops.kl_div import LigerKLDivLossFunction
from tigon.liger.ops.layer_norm import LigerLayerNormFunction, layer_norm_backward, layer_norm_forward
from tigon.liger.ops.llama4_rope import LigerLlama4RopeFunction, llama4_rope_forward
from tigon.liger.ops.poly_norm import LigerPolyNormFunction, poly_norm_backward, poly_norm_forward
from tigon.liger.ops.qwen2vl_mrope import LigerQwen2VLMRopeFunction, qwen2vl_mrope_backward, qwen2vl_mrope_forward
from tigon.liger.ops.relu_squared import LigerReLUSquaredFunction, relu_squared_backward, relu_squared_forward
from tigon.liger.ops.rms_norm import LigerRMSNormFunction, rms_norm_backward, rms_norm_forward
from tigon.liger.ops.rope import LigerRopeFunction, rope_backward, rope_forward
from tigon.liger.ops.softmax import LigerSoftmaxFunction
from tigon.liger.ops.sparsemax import LigerSparsemaxFunction
from tigon.liger.ops.swiglu import (
    LigerFusedGateUpSiLUMulFunction,
    LigerSiLUMulFunction,
    swiglu_backward,
    swiglu_forward,
    swiglu_fused_gate_up_backward,
    swiglu_fused_gate_up_forward,
)
from tigon.liger.ops.tvd import LigerTVDLossFunction

__all__ = sorted(name for name, value in globals().items() if getattr(value, "__module__", "").startswith("tigon.liger.ops."))

# torch.compile takes these whole: it traces what a call computes, not its Python.
when_loaded("torch._dynamo", lambda: torch.compiler.allow_in_graph([*_shared.Function.__subclasses__(), fused_selective_log_softmax]))
