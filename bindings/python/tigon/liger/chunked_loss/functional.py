"""The functions of liger_kernel.chunked_loss.functional: the Functions' apply."""
from tigon.liger.chunked_loss.distillation import LigerFusedLinearCosineSimilarityFunction, LigerFusedLinearJSDFunction
from tigon.liger.chunked_loss.grpo import LigerFusedLinearGRPOFunction
from tigon.liger.chunked_loss.kto import LigerFusedLinearKTOFunction
from tigon.liger.chunked_loss.preference import (
    LigerFusedLinearCPOFunction,
    LigerFusedLinearDPOFunction,
    LigerFusedLinearORPOFunction,
    LigerFusedLinearSimPOFunction,
)

liger_fused_linear_orpo = LigerFusedLinearORPOFunction.apply
liger_fused_linear_dpo = LigerFusedLinearDPOFunction.apply
liger_fused_linear_jsd = LigerFusedLinearJSDFunction.apply
liger_fused_linear_cosine = LigerFusedLinearCosineSimilarityFunction.apply
liger_fused_linear_cpo = LigerFusedLinearCPOFunction.apply
liger_fused_linear_simpo = LigerFusedLinearSimPOFunction.apply
liger_fused_linear_kto = LigerFusedLinearKTOFunction.apply
liger_fused_linear_grpo = LigerFusedLinearGRPOFunction.apply
