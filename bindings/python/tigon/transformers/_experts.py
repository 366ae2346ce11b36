"""Experts of mixtures in Hugging Face's models, on fused_moe: what transformers calls experts_implementation="tigon", and what apply_to() puts
into experts. What differs from gated experts whose matrices are plain tensors runs as transformers has it, and words say why."""
import torch
from transformers.activations import ACT2CLS

import tigon.torch
from tigon.transformers._plain import autocast_type, is_untouched, takes

try:
    from transformers.integrations import moe
except ImportError:  # before transformers 5
    moe = None

# Classes of activations of transformers: the one of fused_moe.
ACTIVATIONS = {
    ACT2CLS["silu"]: "swiglu",
    torch.nn.SiLU: "swiglu",
    ACT2CLS["gelu"]: "geglu_exact",
    ACT2CLS["gelu_pytorch_tanh"]: "geglu",
    ACT2CLS["gelu_new"]: "geglu",
}
GPT_OSS = "transformers.models.gpt_oss.modeling_gpt_oss"


def _gate_of(experts):
    """The options of fused_moe that are these experts' gate, or why there are none."""
    gate = getattr(type(experts), "_apply_gate", None)
    default = getattr(moe, "_default_apply_gate", None)
    if "_apply_gate" in vars(experts) or gate not in (None, default):
        if gate is None or gate.__module__ != GPT_OSS or "_apply_gate" in vars(experts):
            return None, "they have an _apply_gate of their own"
        return {"limit": experts.limit, "alpha": experts.alpha, "up_offset": 1.0}, None
    act_fn = getattr(experts, "act_fn", None)
    activation = ACTIVATIONS.get(type(act_fn))
    if activation is None or not is_untouched(act_fn):
        return None, f"their activation is {type(act_fn).__name__}"
    return {"activation": activation}, None


def _matrices(experts):
    """gate_up, down and their biases; once, since they may be computed."""
    names = ["gate_up_proj", "down_proj"] + ["gate_up_proj_bias", "down_proj_bias"] * getattr(experts, "has_bias", False)
    found = [getattr(experts, n) for n in names]
    return found + [None] * (4 - len(found))


def why_not(experts, *inputs):
    """Words for why these experts run as transformers has them, None where they run on Tigon."""
    if not getattr(experts, "has_gate", True):
        return "they have no gate"
    if getattr(experts, "has_post_expert_norm", False):
        return "a norm follows each expert"
    if torch.nn.utils.parametrize.is_parametrized(experts):
        return "their matrices are parametrised, as LoRA's target_parameters do"
    words = _gate_of(experts)[1]
    if words:
        return words
    tensors = [t for t in _matrices(experts) if t is not None]
    if not takes(*tensors, *inputs):
        return "their matrices are quantised, or not where Tigon is"
    if any(x.dtype != tensors[0].dtype for x in inputs) and autocast_type(tensors[0]) is None:
        return "their matrices are of another type than what they are given"
    return None


def compute(experts, hidden_states, top_k_index, top_k_weights):
    """What these experts make of the tokens; None where they run as transformers has them."""
    if why_not(experts, hidden_states) is not None:
        return None
    gate_up, down, gate_up_bias, down_bias = _matrices(experts)
    layout = {"transposed": getattr(experts, "is_transposed", False), "interleaved": not getattr(experts, "is_concatenated", True)}
    return tigon.torch.fused_moe(hidden_states, gate_up, down, top_k_index, top_k_weights, gate_up_bias, down_bias, **layout,
                                 **_gate_of(experts)[0])


def forward(experts, hidden_states, top_k_index, top_k_weights, *args, **kwargs):
    """An implementation of transformers' ALL_EXPERTS_FUNCTIONS."""
    if not args and not kwargs:
        y = compute(experts, hidden_states, top_k_index, top_k_weights)
        if y is not None:
            return y
    return moe.grouped_mm_experts_forward(experts, hidden_states, top_k_index, top_k_weights, *args, **kwargs)


def register():
    if moe is not None:
        moe.ALL_EXPERTS_FUNCTIONS.register("tigon", forward)
