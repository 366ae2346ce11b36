"""What is patched of Hugging Face's models, and with which forward. A class is known by where its forward comes from and what that names."""
import inspect

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from tigon.transformers import _attention, _experts, _forwards, _loss, _masks, _rotary
from tigon.transformers._classes import patch
from tigon.transformers._plain import original, originals

LLAMA, GEMMA = _forwards.Norm("llama"), _forwards.Norm("gemma", offset=1.0)
GPT_OSS = _forwards.Norm("gemma")

# The folder of transformers.models that a class is from: the RMSNorm there.
NORMS = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "mixtral": LLAMA,
    "phi3": LLAMA,
    "qwen2": LLAMA,
    "qwen2_moe": LLAMA,
    "qwen3": LLAMA,
    "qwen3_moe": LLAMA,
    "gemma": GEMMA,
    "gemma2": GEMMA,
    "gemma3": GEMMA,
    "gpt_oss": GPT_OSS,
}

LAYER = {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}
GATED_MLP = {"gate_proj", "up_proj", "act_fn", "down_proj"}
PACKED_MLP = {"gate_up_proj", "chunk", "activation_fn", "down_proj"}
EXPERTS = {"gate_up_proj", "down_proj", "num_experts", "index_add_"}

AttentionInterface.register("tigon", _attention.attention)
AttentionMaskInterface.register("tigon", _masks.make)
_experts.register()


def _folder(forward):
    """The folder of transformers.models that a forward is from, None if it is from elsewhere."""
    package, _, rest = forward.__globals__.get("__name__", "").partition("transformers.models.")
    folder = rest.partition(".")[0]
    return folder if not package and folder in NORMS else None


def _of_model(cls, forward, folder):
    names, norm = set(forward.__code__.co_names), NORMS[folder]
    if cls.__name__.endswith("RMSNorm"):
        return "rms_norm", norm.forward
    # Some layers have more norms, factors or dropout; those of old releases return a tuple, which they gather in `outputs`, and the
    # feed-forward block of GPT-OSS returns one.
    if names == LAYER and "outputs" not in forward.__code__.co_varnames and norm is not GPT_OSS:
        return "rms_norm", norm.of_layer
    if _rotary.NAME in names and _rotary.can_replace(cls.forward):
        return "rope", _rotary.attention_forward
    if names == GATED_MLP:
        return "mlp", _forwards.gated_mlp
    if names == PACKED_MLP:
        return "mlp", _forwards.packed_mlp
    if cls.__name__.endswith("Experts") and EXPERTS <= names:
        return "mlp", _forwards.experts
    if cls.__name__.endswith("ForCausalLM") and {"lm_head", "loss_function", "model"} <= names:
        return "fused_linear_cross_entropy", _loss.causal_lm
    return None


def kind_of(cls):
    """(The option of apply_to() that has instances of this class patched, what makes their forward), or None."""
    if cls is nn.Linear:
        return "linear", _forwards.linear
    forward = inspect.unwrap(cls.forward)
    folder = _folder(forward) if hasattr(forward, "__globals__") else None
    return _of_model(cls, forward, folder) if folder else None


def _status_of_experts(name, module):
    if name.endswith(".base_layer"):
        return "as it was: LoRA's target_parameters are around its matrices"
    asked = type(module) in originals or getattr(module.config, "_experts_implementation", None) == "tigon"
    words = _experts.why_not(module) if asked else "tigon was not asked for"
    return f"as it was: {words}" if words else "tigon"


def status_of(model):
    """(name, words) of each module that could be Tigon's."""
    for name, module in model.named_modules():
        cls = original(type(module))
        if hasattr(cls, "_apply_gate") and hasattr(module, "config"):
            yield name, _status_of_experts(name, module)
        elif type(module) in originals:
            yield name, "tigon"
        elif (kind_of(cls) or ("linear",))[0] != "linear":
            yield name, "as it was: tigon was not asked for"


def patch_of(cls):
    return patch(cls, kind_of(cls)[1])


def is_as_made(module):
    """May the class of this module change? Not where a parametrisation made one, or where a forward of its own would run anyway."""
    if torch.nn.utils.parametrize.is_parametrized(module):
        return False
    own = module.__dict__.get("_old_forward", module.__dict__.get("forward"))
    return own is None or getattr(own, "__func__", None) is type(module).forward
