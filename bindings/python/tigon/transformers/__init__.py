"""Hugging Face's causal language models on Tigon.

    model = tigon.transformers.AutoTigonModelForCausalLM.from_pretrained(path)
    tigon.transformers.apply_to(model)      # of a model that is there already

Of that model alone, RMSNorm, rotary embeddings, the feed-forward blocks and, in training, the last layer with its loss run on Tigon.
"""
import types
import warnings

from torch import nn

from tigon.transformers import _forwards

LLAMA_NORM = _forwards.Norm("llama")
GEMMA_NORM = _forwards.Norm("gemma", offset=1.0)

# config.model_type: the RMSNorm of such models
NORMS = {
    "llama": LLAMA_NORM,
    "mistral": LLAMA_NORM,
    "mixtral": LLAMA_NORM,
    "phi3": LLAMA_NORM,
    "qwen2": LLAMA_NORM,
    "qwen2_moe": LLAMA_NORM,
    "qwen3": LLAMA_NORM,
    "qwen3_moe": LLAMA_NORM,
    "gemma": GEMMA_NORM,
    "gemma2": GEMMA_NORM,
    "gemma3_text": GEMMA_NORM,
}


def _activation(config):
    name = getattr(config, "hidden_activation", None) or config.hidden_act
    return _forwards.ACTIVATIONS.get(name)


def _mlp(module, activation):
    """The forward of a feed-forward block, or None if the module is none of those."""
    if all(hasattr(module, name) for name in ("gate_proj", "up_proj", "down_proj")):
        return _forwards.gated_mlp(activation)
    if not hasattr(module, "gate_up_proj"):
        return None
    if type(module).__name__.endswith("Experts"):
        return _forwards.experts if activation is _forwards.ACTIVATIONS["silu"] else None
    return _forwards.packed_mlp(activation)


def _forward_of(module, config, rms_norm, rope, mlp, linear):
    """The forward that a module of the model gets, None if it keeps its own."""
    norm = NORMS[config.model_type]
    if type(module).__name__.endswith("RMSNorm"):
        return norm.forward() if rms_norm else None
    if _forwards.is_layer(module):
        return norm.of_layer() if rms_norm else None
    if _forwards.is_rotary_attention(module):
        return _forwards.with_rotation(type(module).forward) if rope else None
    if isinstance(module, nn.Linear):
        return _forwards.linear if linear and _forwards.is_plain(module) else None
    activation = _activation(config)
    return _mlp(module, activation) if mlp and activation else None


def _use_attention(model):
    if getattr(model.config, "attn_logit_softcapping", None):
        return  # PyTorch's fused attention, which takes what is not Tigon's, has no such thing
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register("tigon", _forwards.attention)
    AttentionMaskInterface.register("tigon", sdpa_mask)
    model.set_attn_implementation("tigon")


def apply_to(model, rms_norm=True, rope=True, mlp=True, fused_linear_cross_entropy=True, attention=False, linear=False):
    """Puts Tigon's operators into this model, and returns it. Parameters and their names stay as they are.

    Where a model is training and is given labels it returns the loss without logits, with fused_linear_cross_entropy. `attention`:
    causal attention without a mask, dropout or window by flash_attention, any other by PyTorch as before. `linear`: products of nn.Linear
    without bias by gemm, which on a card takes what is fastest there for these sizes once it has tried; for batches of one shape.
    """
    config = model.config
    if config.model_type not in NORMS:
        raise ValueError(f"no model of type {config.model_type!r}, expected one of {', '.join(sorted(NORMS))}")
    for module in list(model.modules()):
        forward = _forward_of(module, config, rms_norm, rope, mlp, linear and module is not getattr(model, "lm_head", None))
        if forward:
            module.forward = types.MethodType(forward, module)
    if fused_linear_cross_entropy and hasattr(model, "lm_head"):
        model.forward = types.MethodType(_forwards.causal_lm(type(model).forward), model)
    if attention:
        _use_attention(model)
    return model


class AutoTigonModelForCausalLM:
    """transformers.AutoModelForCausalLM whose models run on Tigon. Options of apply_to() are taken from the arguments."""

    OPTIONS = ("rms_norm", "rope", "mlp", "fused_linear_cross_entropy", "attention", "linear")

    @classmethod
    def _make(cls, maker, args, kwargs):
        options = {name: kwargs.pop(name) for name in cls.OPTIONS if name in kwargs}
        model = maker(*args, **kwargs)
        if model.config.model_type not in NORMS:
            warnings.warn(f"models of type {model.config.model_type!r} do not run on Tigon; this one is as transformers made it")
            return model
        return apply_to(model, **options)

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        from transformers import AutoModelForCausalLM

        return cls._make(AutoModelForCausalLM.from_pretrained, args, kwargs)

    @classmethod
    def from_config(cls, *args, **kwargs):
        from transformers import AutoModelForCausalLM

        return cls._make(AutoModelForCausalLM.from_config, args, kwargs)
