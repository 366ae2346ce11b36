"""The names of liger_kernel.megatron: modules that Megatron-Core's layers can be made of, and the function that has it make them so.
Megatron need not be installed, but for that function. __all__ is the export list: what tigon.liger.apply() puts in the place of Liger's
own."""
from tigon.liger.megatron.modules import LigerMegatronCrossEntropy, LigerMegatronRMSNorm, LigerMegatronSwiGLU
from tigon.liger.megatron.patch import apply_liger_kernel_to_megatron

__all__ = ["LigerMegatronCrossEntropy", "LigerMegatronRMSNorm", "LigerMegatronSwiGLU", "apply_liger_kernel_to_megatron"]
