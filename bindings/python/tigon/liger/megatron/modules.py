"""Modules with the arguments of Megatron-Core's, of the names that they have in liger_kernel.megatron."""
import logging
import numbers

import torch
from torch import nn

from tigon.liger import ops
from tigon.liger.transformers.losses import LigerVocabParallelCrossEntropy

logger = logging.getLogger(__name__)


class LigerMegatronCrossEntropy(LigerVocabParallelCrossEntropy):
    """With Megatron's formula, and its mean over the classes of each process alone."""

    def __init__(
        self,
        ignore_index=-100,
        label_smoothing=0.0,
        reduction="none",
        label_smoothing_formula="megatron",
        label_smoothing_mode="partition",
    ):
        super().__init__(ignore_index, label_smoothing, reduction, label_smoothing_formula, label_smoothing_mode)


class LigerMegatronRMSNorm(nn.Module):
    """persist_layer_norm and normalization are Megatron's, and have no effect: what normalises stands in the configuration."""

    def __init__(
        self, config, hidden_size, eps=1e-5, persist_layer_norm=False, zero_centered_gamma=False, normalization="RMSNorm"
    ):
        super().__init__()
        if getattr(config, "normalization", "RMSNorm") != "RMSNorm":
            raise ValueError(f"config.normalization is {config.normalization!r}, expected 'RMSNorm'")
        self.config, self.eps = config, eps
        self.hidden_size = torch.Size((hidden_size,) if isinstance(hidden_size, numbers.Integral) else hidden_size)
        self.zero_centered_gamma = bool(zero_centered_gamma or getattr(config, "layernorm_zero_centered_gamma", False))
        self._offset = float(self.zero_centered_gamma)
        self.weight = nn.Parameter(torch.empty(self.hidden_size))
        self.weight.sequence_parallel = bool(getattr(config, "sequence_parallel", False))  # Megatron then sums its gradient
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.constant_(self.weight, 1 - self._offset)

    def forward(self, x):
        return ops.LigerRMSNormFunction.apply(x, self.weight, self.eps, self._offset, "llama", False, None)

    def extra_repr(self):
        return f"hidden_size={tuple(self.hidden_size)}, eps={self.eps}, zero_centered_gamma={self.zero_centered_gamma}"


def beyond_swiglu(bias, fp8_input_store, cpu_offload_input):
    """What a call asks for that swiglu does not have; None if there is nothing."""
    asked = {"bias": bias is not None, "fp8_input_store": fp8_input_store, "cpu_offload_input": cpu_offload_input}
    return next((name for name, given in asked.items() if given), None)


class LigerMegatronSwiGLU(nn.Module):
    """Megatron's bias_swiglu_impl. What it has beyond swiglu goes to `fallback_impl`, which is to be that function."""

    def __init__(self, fallback_impl=None, in_place=False):
        super().__init__()
        self.fallback_impl, self.in_place = fallback_impl, in_place
        self._told = set()

    def forward(self, input, bias=None, fp8_input_store=False, cpu_offload_input=False):
        beyond = beyond_swiglu(bias, fp8_input_store, cpu_offload_input)
        if beyond:
            return self._fall_back(beyond, input, bias, fp8_input_store, cpu_offload_input)
        if input.dim() not in (2, 3):
            raise ValueError(f"input is {tuple(input.shape)}, expected 2D [tokens, gate and up] or 3D [seq, batch, gate and up]")
        if input.shape[-1] % 2:
            raise ValueError(f"the last dimension, gate and up, is {input.shape[-1]}, expected an even one")
        return ops.LigerFusedGateUpSiLUMulFunction.apply(input, self.in_place)

    def _fall_back(self, beyond, *arguments):
        if self.fallback_impl is None:
            raise RuntimeError(
                f"LigerMegatronSwiGLU: {beyond} is given, which needs fallback_impl, Megatron's bias_swiglu_impl;"
                " apply_liger_kernel_to_megatron(swiglu=True) leaves such calls to Megatron"
            )
        if beyond not in self._told:
            self._told.add(beyond)
            logger.info("LigerMegatronSwiGLU: falling back to Megatron's function where %s is given", beyond)
        return self.fallback_impl(*arguments)
