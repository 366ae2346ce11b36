"""What modules of Hugging Face's models compute, on Tigon: functions of a module and its input, as their forward is."""
import inspect
import types

import torch
import torch.nn.functional as F
from torch import nn

import tigon.torch
from tigon._once import differentiable_once
from tigon.liger.ops.fused_moe import LigerFusedMoEFunction
from tigon.torch._table import FAMILIES


class Norm:
    """RMSNorm: Llama's, or with an offset of 1 Gemma's."""

    def __init__(self, casting_mode, offset=0.0):
        self.options = {"casting_mode": casting_mode, "offset": offset}

    def _options(self, module):
        return {"eps": module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps, **self.options}

    def forward(self):
        def forward(module, hidden_states):
            return tigon.torch.rms_norm(hidden_states, module.weight, **self._options(module))

        return forward

    def of_layer(self):
        """The forward of a layer of attention and a feed-forward block, where the norm between them adds what comes before it."""

        def forward(layer, hidden_states, **kwargs):
            attended, _ = layer.self_attn(hidden_states=layer.input_layernorm(hidden_states), **kwargs)
            norm = layer.post_attention_layernorm
            if _has_hooks(norm):
                hidden_states = hidden_states + attended
                return hidden_states + layer.mlp(norm(hidden_states))
            normed, hidden_states = tigon.torch.fused_add_rms_norm(attended, hidden_states, norm.weight, **self._options(norm))
            return hidden_states + layer.mlp(normed)

        return forward


def _has_hooks(module):
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks))


def is_plain(module):
    """Is a product with the weight all that this module does? Adapters, quantised layers and hooks do more."""
    forward = getattr(module.forward, "__func__", None)
    return type(module) is nn.Linear and module.bias is None and forward in (nn.Linear.forward, linear) and not _has_hooks(module)


def _torch_product(a, b, trans_a=False, trans_b=False):
    return torch.mm(a.T if trans_a else a, b.T if trans_b else b)


def _product_for(module):
    """The product that this nn.Linear computes with."""
    return torch.ops.tigon.gemm if getattr(module.forward, "__func__", None) is linear else _torch_product


def _weight_gradient(product, dy, x):
    return product(dy.flatten(0, -2), x.flatten(0, -2), trans_a=True)


class Projections(torch.autograd.Function):
    """x @ weight.T for each weight. The gradient of x is summed up in the products, and not by additions behind them."""

    generate_vmap_rule = True

    @staticmethod
    def forward(product, x, *weights):
        return tuple(product(x.flatten(0, -2), weight, trans_b=True).unflatten(0, x.shape[:-1]) for weight in weights)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.product, x, *weights = inputs
        ctx.save_for_backward(x if any(ctx.needs_input_grad[2:]) else None, *weights)

    @staticmethod
    @differentiable_once("gemm of a patched model")
    def backward(ctx, *dys):
        x, *weights = ctx.saved_tensors
        dx = None
        if ctx.needs_input_grad[1]:
            dx = ctx.product(dys[0].flatten(0, -2), weights[0])
            for dy, weight in zip(dys[1:], weights[1:]):
                dx.addmm_(dy.flatten(0, -2), weight)
            dx = dx.unflatten(0, dys[0].shape[:-1])
        needed = zip(dys, ctx.needs_input_grad[2:])
        return None, dx, *(_weight_gradient(ctx.product, dy, x) if need else None for dy, need in needed)


class ActivatedLinear(torch.autograd.Function):
    """act(gate, up) @ weight.T. Its backward computes act(gate, up) again, and so only gate and up are kept."""

    generate_vmap_rule = True

    @staticmethod
    def forward(product, activation, gate, up, weight):
        y = activation.forward(gate, up, **activation.options)
        return product(y.flatten(0, -2), weight, trans_b=True).unflatten(0, gate.shape[:-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.product, ctx.activation, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @differentiable_once("the feed-forward block of a patched model")
    def backward(ctx, dy):
        gate, up, weight = ctx.saved_tensors
        dact = ctx.product(dy.flatten(0, -2), weight).unflatten(0, dy.shape[:-1])
        dgate, dup, y = ctx.activation.gradients(dact, gate, up)
        return None, None, dgate, dup, _weight_gradient(ctx.product, dy, y) if ctx.needs_input_grad[4] else None


class Activation:
    """act(gate, up), alone and with the product that follows it."""

    def __init__(self, family, **options):
        self.function = getattr(tigon.torch, family)
        self.forward = getattr(torch.ops.tigon, f"{family}_forward")
        self.backward = getattr(torch.ops.tigon, f"{family}_backward")
        self.gives_y = "y" in FAMILIES[family].backward.flags
        self.options = options

    def __call__(self, gate, up):
        return self.function(gate, up, **self.options)

    def gradients(self, dy, gate, up):
        """dgate, dup and act(gate, up) again."""
        if self.gives_y:
            return self.backward(dy, gate, up, y=True, **self.options)
        return *self.backward(dy, gate, up, **self.options), self.forward(gate, up, **self.options)

    def then(self, down, gate, up):
        """down(act(gate, up))"""
        if not is_plain(down):
            return down(self(gate, up))
        return ActivatedLinear.apply(_product_for(down), self, gate, up, down.weight.to(gate.dtype))


def _project(x, *linears):
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    return Projections.apply(_product_for(linears[0]), x, *(module.weight.to(x.dtype) for module in linears))


def linear(self, x):
    """Of an nn.Linear without bias."""
    return _project(x, self)[0]


def projections(x, *linears):
    """linear(x) of each."""
    if not all(map(is_plain, linears)):
        return tuple(module(x) for module in linears)
    return _project(x, *linears)


# Hugging Face's names.
ACTIVATIONS = {
    "silu": Activation("swiglu"),
    "swish": Activation("swiglu"),
    "gelu": Activation("geglu", exact=True),
    "gelu_pytorch_tanh": Activation("geglu"),
    "gelu_new": Activation("geglu"),
}


def gated_mlp(activation):
    def forward(self, x):
        return activation.then(self.down_proj, *projections(x, self.gate_proj, self.up_proj))

    return forward


def packed_mlp(activation):
    """Phi-3's, whose gate and up come from one projection."""

    def forward(self, hidden_states):
        return activation.then(self.down_proj, *self.gate_up_proj(hidden_states).chunk(2, dim=-1))

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


def _code(module):
    return getattr(inspect.unwrap(type(module).forward), "__code__", rotate.__code__)


def is_rotary_attention(module):
    return "apply_rotary_pos_emb" in _code(module).co_names


LAYER = {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}


def is_layer(module):
    """A layer that adds, normalises, and returns a tensor: some have more norms, factors or dropout, or return a tuple."""
    code = _code(module)
    return set(code.co_names) == LAYER and "outputs" not in code.co_varnames
