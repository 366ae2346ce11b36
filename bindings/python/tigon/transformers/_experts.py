"""Experts of mixtures in Hugging Face's models, on fused_moe: what transformers calls experts_implementation="tigon", and what apply_to() puts
into experts. What differs from gated experts whose matrices are plain tensors runs as transformers has it, and words say why."""
import functools
import types

import torch
from transformers.activations import ACT2CLS

import tigon.torch
from tigon.transformers import _probe
from tigon.transformers._classes import Part, makers, replacing
from tigon.transformers._plain import autocast_type, is_untouched, original, takes

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


def _activation_of(experts):
    act_fn = getattr(experts, "act_fn", None)
    return ACTIVATIONS.get(type(act_fn)) if act_fn is not None and is_untouched(act_fn) else None


# Options of fused_moe that an _apply_gate of a class's own could be: names of attributes, and the rest.
GATES = (
    ({"limit": "limit", "alpha": "alpha"}, {"up_offset": 1.0}),  # GPT-OSS
    ({"limit": "limit"}, {}),  # DeepSeek-V4
)


def _options(experts, gate):
    names, rest = gate
    return {**{option: getattr(experts, name) for option, name in names.items()}, **rest}


@functools.lru_cache(maxsize=None)
def _find_gate(cls, interleaved):
    """Which of GATES the _apply_gate of a class is, found by running it: its index, None where it is none of them."""
    experts = types.SimpleNamespace(limit=0.75, alpha=1.5, act_fn=torch.nn.SiLU())
    gate_up = 2 * _probe.random(4, 12)
    expected = _probe.run(cls._apply_gate, experts, gate_up)
    halves = (gate_up[:, ::2], gate_up[:, 1::2]) if interleaved else gate_up.chunk(2, dim=-1)
    for index, gate in enumerate(GATES):
        found = _probe.run(tigon.torch.swiglu, *(h.contiguous() for h in halves), **_options(experts, gate))
        if expected is not None and _probe.agree(found, expected):
            return index
    return None


@torch.compiler.assume_constant_result
def _own_gate(cls, interleaved):
    """The same, which a compiler asks instead of tracing it."""
    return _find_gate(cls, interleaved)


def _gate_of(experts):
    """The options of fused_moe that are these experts' gate, or why there are none."""
    cls = original(type(experts))
    gate = getattr(cls, "_apply_gate", None)
    default = getattr(moe, "_default_apply_gate", None)
    if "_apply_gate" in vars(experts) or gate not in (None, default):
        own = None if "_apply_gate" in vars(experts) else _own_gate(cls, not getattr(experts, "is_concatenated", True))
        if own is None or (hasattr(experts, "act_fn") and _activation_of(experts) != "swiglu"):
            return None, "they have an _apply_gate of their own"
        return _options(experts, GATES[own]), None
    activation = _activation_of(experts)
    if activation is None:
        return None, f"their activation is {type(getattr(experts, 'act_fn', None)).__name__}"
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
    if top_k_weights.shape != top_k_index.shape or why_not(experts, hidden_states) is not None:
        return None  # transformers 5.0 gives Hunyuan's the weights of all experts
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


def recognise(module):
    """The part that experts are, None for what are none."""
    if hasattr(type(module), "_apply_gate") and hasattr(module, "config"):
        return Part("mlp", "experts")
    return None


makers.update(experts=lambda cls, settings: replacing(cls.forward, compute))
