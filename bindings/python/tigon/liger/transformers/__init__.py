"""Tigon's operators as the modules and functions of liger_kernel.transformers: the same names, arguments and defaults."""
from tigon.liger.transformers import functional
from tigon.liger.transformers.attention import (
    LigerFusedNeighborhoodAttention,
    LigerFusedNeighborhoodAttentionConfig,
    LigerFusedNeighborhoodAttentionLayer,
)
from tigon.liger.transformers.embedding import LigerEmbedding
from tigon.liger.transformers.functional import CrossEntropyOutput
from tigon.liger.transformers.grpo_loss import triton_grpo_loss
from tigon.liger.transformers.losses import (
    LigerCrossEntropyLoss,
    LigerFusedCETVDLoss,
    LigerFusedLinearCrossEntropyLoss,
    LigerFusedLinearJSD,
    LigerFusedLinearKLDivLoss,
    LigerJSD,
    LigerKLDIVLoss,
    LigerTVDLoss,
    LigerVocabParallelCrossEntropy,
)
from tigon.liger.transformers.mhc import LigerMHC
from tigon.liger.transformers.mlp import (
    LigerBlockSparseTop2MLP,
    LigerExperts,
    LigerFalconH1MLP,
    LigerFalconH1SwiGLUMLP,
    LigerGEGLUMLP,
    LigerHunyuanV1SwiGLUMLP,
    LigerMLP,
    LigerPhi3SwiGLUMLP,
    LigerQwen3MoeSwiGLUMLP,
    LigerSwiGLUMLP,
    LigerTiledGEGLUMLP,
    LigerTiledSwiGLUMLP,
)
from tigon.liger.transformers.multi_token_attention import LigerMultiTokenAttention
from tigon.liger.transformers.norms import (
    LigerDyT,
    LigerFusedAddRMSNorm,
    LigerGroupNorm,
    LigerLayerNorm,
    LigerModulatedRMSNorm,
    LigerPolyNorm,
    LigerReLUSquared,
    LigerRMSNorm,
    LigerRMSNormForGemma,
    LigerRMSNormForGemma2,
    LigerRMSNormForGemma3,
    LigerRMSNormForGemma4,
    LigerRMSNormForGlm4,
    LigerRMSNormForOlmo2,
    LigerRMSNormForQwen3Next,
    LigerSoftmax,
    LigerSparsemax,
)
from tigon.liger.transformers.rope import (
    liger_llama4_text_rotary_pos_emb,
    liger_llama4_vision_rotary_pos_emb,
    liger_multimodal_rotary_pos_emb,
    liger_rotary_pos_emb,
    liger_rotary_pos_emb_vision,
)

__all__ = sorted(name for name, value in globals().items() if getattr(value, "__module__", "").startswith("tigon.liger.")) + ["functional"]
