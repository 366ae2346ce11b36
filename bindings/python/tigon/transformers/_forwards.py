"""What modules of Hugging Face's models compute, on Tigon: functions of a module and its input, as their forward is."""
import inspect
import types

import torch.nn.functional as F
from torch import nn

import tigon.torch
from tigon.liger.ops.fused_moe import LigerFusedMoEFunction


def norm(offset, casting_mode):
    """RMSNorm: Llama's, or with an offset of 1 Gemma's."""

    def forward(self, hidden_states):
        eps = self.variance_epsilon if hasattr(self, "variance_epsilon") else self.eps
        return tigon.torch.rms_norm(hidden_states, self.weight, eps=eps, offset=offset, casting_mode=casting_mode)

    return forward


# Names of Hugging Face's activations, as functions of gate and up.
ACTIVATIONS = {
    "silu": tigon.torch.swiglu,
    "swish": tigon.torch.swiglu,
    "gelu": lambda gate, up: tigon.torch.geglu(gate, up, exact=True),
    "gelu_pytorch_tanh": tigon.torch.geglu,
    "gelu_new": tigon.torch.geglu,
}


def gated_mlp(activation):
    def forward(self, x):
        return self.down_proj(activation(self.gate_proj(x), self.up_proj(x)))

    return forward


def packed_mlp(activation):
    """Phi-3's, whose gate and up come from one projection."""

    def forward(self, hidden_states):
        return self.down_proj(activation(*self.gate_up_proj(hidden_states).chunk(2, dim=-1)))

    return forward


def experts(self, hidden_states, top_k_index, top_k_weights):
    return LigerFusedMoEFunction.apply(hidden_states, self.gate_up_proj, self.down_proj, top_k_index, top_k_weights)


def rotate(q, k, cos, sin, *unused, unsqueeze_dim=1, **also_unused):
    """apply_rotary_pos_emb of Hugging Face's models: q and k have heads before positions, unless unsqueeze_dim is 2."""
    rotary_dim = cos.shape[-1] // 2 * 2
    if unsqueeze_dim == 2:
        return tigon.torch.rope(q, k, cos, sin, rotary_dim=rotary_dim)
    y = tigon.torch.rope(q.transpose(1, 2), k.transpose(1, 2), cos, sin, rotary_dim=rotary_dim)
    return tuple(x.transpose(1, 2) for x in y)


def with_rotation(forward):
    """An attention's forward that calls `rotate` where it called its module's apply_rotary_pos_emb; other models keep theirs."""
    plain = inspect.unwrap(forward)
    names = {**plain.__globals__, "apply_rotary_pos_emb": rotate}
    copy = types.FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__, plain.__closure__)
    copy.__kwdefaults__ = plain.__kwdefaults__
    return copy


def next_token_loss(model, hidden, labels=None, shift_labels=None, num_items_in_batch=None, ignore_index=-100):
    """The loss of predicting each position's next token, without the logits of all: Hugging Face's, from hidden states."""
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    loss = tigon.torch.fused_linear_cross_entropy(
        hidden.reshape(-1, hidden.shape[-1]),
        model.lm_head.weight,
        shift_labels.reshape(-1).to(hidden.device),
        bias=model.lm_head.bias,
        ignore_index=ignore_index,
        softcap=getattr(model.config, "final_logit_softcapping", None) or 0.0,
        reduction="mean" if num_items_in_batch is None else "sum",
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch


LOSS_ARGUMENTS = ("labels", "shift_labels", "num_items_in_batch", "ignore_index")


def causal_lm(original):
    """The forward of a causal language model which in training, with labels, returns the loss and no logits."""
    signature = inspect.signature(original)

    def forward(self, *args, **kwargs):
        _, *arguments = signature.bind(self, *args, **kwargs).arguments.items()
        arguments = dict(arguments)
        arguments.update(arguments.pop("kwargs", {}))
        given = {name: arguments.pop(name) for name in LOSS_ARGUMENTS if arguments.get(name) is not None}
        if not self.training or not {"labels", "shift_labels"} & set(given):
            return original(self, *args, **kwargs)
        for name in (*LOSS_ARGUMENTS, "logits_to_keep", "return_dict"):
            arguments.pop(name, None)
        outputs = self.model(**arguments)
        loss = next_token_loss(self, outputs.last_hidden_state, **given)
        return _output(self, outputs, loss, arguments)

    return forward


def _output(model, outputs, loss, arguments):
    from transformers.modeling_outputs import CausalLMOutputWithPast, MoeCausalLMOutputWithPast

    kind, more = CausalLMOutputWithPast, {}
    if getattr(outputs, "router_logits", None) is not None:
        kind, more = MoeCausalLMOutputWithPast, {"aux_loss": _balance(model, outputs, arguments)}
        loss = loss + model.router_aux_loss_coef * more["aux_loss"].to(loss.device)
    kept = {name: value for name, value in outputs.items() if name in kind.__dataclass_fields__}
    return kind(loss=loss, **more, **kept)


def _balance(model, outputs, arguments):
    """The loss that spreads tokens over experts, of the model's own module."""
    of_module = inspect.getmodule(type(model)).load_balancing_loss_func
    mask = arguments.get("attention_mask")
    return of_module(outputs.router_logits, model.num_experts, model.num_experts_per_tok, mask)


def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """Causal attention without a mask, dropout, window or softcap; anything else is PyTorch's."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    special = attention_mask is not None or dropout or kwargs.get("sliding_window") or kwargs.get("softcap")
    if special or not getattr(module, "is_causal", True):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs)
    heads_last = (x.transpose(1, 2) for x in (query, key, value))
    return tigon.torch.flash_attention(*heads_last, scale=scaling, causal=True), None


def is_rotary_attention(module):
    forward = inspect.unwrap(type(module).forward)
    return isinstance(module, nn.Module) and "apply_rotary_pos_emb" in getattr(forward, "__code__", rotate.__code__).co_names
