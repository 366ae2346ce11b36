"""Megatron-Core on Tigon's modules, as apply_liger_kernel_to_megatron of liger_kernel.megatron has it on Liger's."""
import importlib
import logging

from tigon.liger import ops
from tigon.liger.megatron.modules import LigerMegatronCrossEntropy, LigerMegatronRMSNorm, beyond_swiglu

logger = logging.getLogger(__name__)

PATCHED = "__liger_patched__"  # Liger's mark: what it has patched stays as it is

FUSED = "megatron.core.fusions.fused_cross_entropy", "fused_vocab_parallel_cross_entropy"
UNFUSED = "megatron.core.tensor_parallel.cross_entropy", "vocab_parallel_cross_entropy"
SWIGLU = "megatron.core.fusions.fused_bias_swiglu", "SwiGLUFunction"
# Where versions of Megatron call them by names of their own, bound when they were imported.
CALLERS = {
    FUSED: (
        ("megatron.core.models.common.language_module.language_module", "fused_vocab_parallel_cross_entropy"),
        ("megatron.core.models.backends", "_fused_ce"),
    ),
    UNFUSED: (("megatron.core.tensor_parallel", "vocab_parallel_cross_entropy"),),
}


def apply_liger_kernel_to_megatron(rms_norm=True, cross_entropy=False, swiglu=False):
    """Has the models that Megatron builds from then on use Tigon: RMSNorm, where neither Transformer Engine nor Apex has it; both of
    Megatron's vocabulary-parallel cross entropies; and SwiGLU, where it has no bias, is not stored in FP8 and not offloaded."""
    if rms_norm:
        _patch_layer_norm_of_layers()
        _patch_layer_norm_of_blocks()
    if cross_entropy:
        if not _patch(FUSED, _fused_cross_entropy):
            logger.warning("Could not find where this Megatron version calls %s: it may keep using its own", FUSED[1])
        _patch(UNFUSED, _unfused_cross_entropy)
    if swiglu:
        _patch(SWIGLU, _swiglu)


def _fused_cross_entropy(original):
    cross_entropy = LigerMegatronCrossEntropy()

    def liger_fused_vocab_parallel_cross_entropy(vocab_parallel_logits, target, tp_group=None):
        return cross_entropy(vocab_parallel_logits, target, tp_group)

    return liger_fused_vocab_parallel_cross_entropy


def _unfused_cross_entropy(original):
    def liger_vocab_parallel_cross_entropy(vocab_parallel_logits, target, label_smoothing=0.0, tp_group=None):
        return LigerMegatronCrossEntropy(label_smoothing=label_smoothing)(vocab_parallel_logits, target, tp_group)

    return liger_vocab_parallel_cross_entropy


def _swiglu(original):
    class LigerSwiGLUFunction:
        """What Megatron calls of its autograd function. How it stores or offloads the input for backward stays its own business."""

        @staticmethod
        def apply(input, fp8_input_store=False, cpu_offload_input=False):
            if beyond_swiglu(None, fp8_input_store, cpu_offload_input):
                return original.apply(input, fp8_input_store, cpu_offload_input)
            return ops.LigerFusedGateUpSiLUMulFunction.apply(input)

    return LigerSwiGLUFunction


def _mark(replacement, original):
    setattr(replacement, PATCHED, True)
    replacement.__wrapped__ = original
    return replacement


def _patch(place, make):
    """Puts make(what is there) into its place, and where it is called by another name. Returns whether it is called from there."""
    module_name, name = place
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ImportError(f"apply_liger_kernel_to_megatron requires megatron-core, with {module_name}.{name}") from error
    original = getattr(module, name, None)
    if original is None:
        raise ImportError(f"{module_name} has no {name}: its symbol path may have changed in this version of Megatron")
    if getattr(original, PATCHED, False):
        return True
    replacement = _mark(make(original), original)
    setattr(module, name, replacement)
    return any([_rebind(*caller, original, replacement) for caller in CALLERS.get(place, ())])


def _rebind(module_name, name, original, replacement):
    """Whether the name is the replacement's. Another's that is neither is left alone."""
    try:
        module = importlib.import_module(module_name)
    except ImportError:
        return False
    if getattr(module, name, None) is original:
        setattr(module, name, replacement)
    return getattr(module, name, None) is replacement


def _patch_layer_norm_of_layers():
    provider = importlib.import_module("megatron.core.models.backends").LocalSpecProvider
    original = provider.layer_norm
    if getattr(original, PATCHED, False):
        return

    def patched_layer_norm(self, rms_norm=False, *args, **kwargs):
        return LigerMegatronRMSNorm if rms_norm else original(self, rms_norm, *args, **kwargs)

    provider.layer_norm = _mark(patched_layer_norm, original)


def _patch_layer_norm_of_blocks():
    """The last norm of a block, where it is PyTorch's."""
    block = importlib.import_module("megatron.core.transformer.transformer_block")
    original = block.LayerNormImpl
    if original is not importlib.import_module("megatron.core.transformer.torch_norm").WrappedTorchNorm:
        return

    class _LigerOrTorchNorm:
        def __new__(cls, config, hidden_size, eps=1e-5, **others):
            norm = LigerMegatronRMSNorm if getattr(config, "normalization", None) == "RMSNorm" else original
            return norm(config=config, hidden_size=hidden_size, eps=eps, **others)

    block.LayerNormImpl = _mark(_LigerOrTorchNorm, original)
