"""The forward of a causal language model: in training, with labels, the last layer and the loss are one operator."""
import functools
import inspect

import torch
import torch.nn.functional as F
from torch import nn
from transformers.loss.loss_utils import ForCausalLMLoss
from transformers.modeling_outputs import CausalLMOutputWithPast, MoeCausalLMOutputWithPast

import tigon.torch
from tigon.transformers._classes import Part, makers
from tigon.transformers._plain import reads, takes

try:
    from transformers.modeling_utils import slice_logits_to_keep
except ImportError:  # of releases before 5.20, where each model has these lines

    def slice_logits_to_keep(hidden, logits_to_keep):
        return hidden[:, slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep, :]


def next_token_loss(model, hidden, labels, softcap, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **unused):
    """The loss of predicting each position's next token, without the logits of all: Hugging Face's, from hidden states."""
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    shift_labels = shift_labels.reshape(-1).to(hidden.device)
    loss = tigon.torch.fused_linear_cross_entropy(
        hidden.reshape(-1, hidden.shape[-1]),
        model.lm_head.weight,
        shift_labels,
        bias=model.lm_head.bias,
        ignore_index=ignore_index,
        softcap=softcap,
        reduction="mean" if num_items_in_batch is None else "sum",
    )
    if num_items_in_batch is None:  # the mean over no token is NaN in PyTorch, without a gradient
        return torch.where((shift_labels != ignore_index).any(), loss, torch.nan)
    return loss / (num_items_in_batch.to(loss.device) if isinstance(num_items_in_batch, torch.Tensor) else num_items_in_batch)


def _is_fused(model, arguments):
    """Are the loss alone, and a last layer that is nothing but a product, asked for?"""
    labels, shifted = arguments.get("labels"), arguments.get("shift_labels")
    if not model.training or labels is None or model.loss_function is not ForCausalLMLoss:
        return False
    if (labels if shifted is None else shifted).dtype != torch.int64:
        return False
    return_dict = arguments.get("return_dict")
    if not (model.config.return_dict if return_dict is None else return_dict):
        return False
    head = model.lm_head
    if not reads(head, nn.Linear) or head.weight.shape[0] != model.config.vocab_size:
        return False
    return head.bias is None or takes(head.bias, head.weight)


# Names by which a forward scales its logits.
SCALES = {"logits_scaling", "logit_scale", "lm_head_multiplier"}


def recognise(module):
    """The part that a model with a head is, words where its loss is not Tigon's, None where it has none."""
    forward = inspect.unwrap(type(module).forward)
    names = set(forward.__code__.co_names) if hasattr(forward, "__code__") else set()
    if not {"loss_function"} <= names:
        return None
    if not type(module).__name__.endswith("ForCausalLM") or not {"lm_head", "model"} <= names:
        return "its loss is not that of a causal language model"
    if names & SCALES:
        return "its logits are scaled"
    return Part("fused_linear_cross_entropy", "causal_lm")


def causal_lm(cls, settings=()):
    original = cls.forward
    signature = inspect.signature(original)
    capped = "final_logit_softcapping" in inspect.unwrap(original).__code__.co_names

    @functools.wraps(original)
    def forward(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        _, *arguments = given.arguments.items()
        arguments = dict(arguments)
        further = arguments.pop("kwargs", {})
        if not _is_fused(self, {**arguments, **further}):
            return original(self, *args, **kwargs)
        further.pop("return_dict", None)
        labels, kept = arguments.pop("labels"), arguments.pop("logits_to_keep", 0)
        outputs = self.model(**arguments, **further)
        hidden = slice_logits_to_keep(outputs.last_hidden_state, kept)
        softcap = self.config.final_logit_softcapping or 0.0 if capped else 0.0
        loss = next_token_loss(self, hidden, labels, softcap, **further)
        return _output(self, outputs, loss, arguments.get("attention_mask"))

    return forward


def _output(model, outputs, loss, attention_mask):
    kind, more = CausalLMOutputWithPast, {}
    if getattr(outputs, "router_logits", None) is not None:
        kind, more = MoeCausalLMOutputWithPast, {"aux_loss": _balance(model, outputs, attention_mask)}
        loss = loss + model.router_aux_loss_coef * more["aux_loss"].to(loss.device)
    kept = {name: value for name, value in outputs.items() if name in kind.__dataclass_fields__}
    return kind(loss=loss, **more, **kept)


def _balance(model, outputs, attention_mask):
    """The loss that spreads tokens over experts, of the model's own module."""
    of_module = inspect.getmodule(type(model)).load_balancing_loss_func
    return of_module(outputs.router_logits, model.num_experts, model.num_experts_per_tok, attention_mask)


makers.update(causal_lm=causal_lm)
