"""The forward of a model with a last layer and a loss: in training, with labels, these two are one operator.

It is the model's own, down to the arguments of its loss, further losses and what it returns; only its last layer gives logits that are not
computed (_logits.py), and that it returns none.
"""
import functools
import inspect

import torch
from torch import nn
from transformers.loss.loss_utils import ForCausalLMLoss

from tigon.transformers._classes import Part, makers
from tigon.transformers._logits import Head, Logits, is_product
from tigon.transformers._plain import behind, is_untouched, original
from tigon.transformers._renamed import can_copy, renamed

HEAD, PART = "lm_head", "language_model"  # attributes: the last layer, or the model that has it
LOSSES = {"loss_function", "CrossEntropyLoss"}
SUFFIX = "_of_tigon"


def _names_of(cls):
    forward = inspect.unwrap(cls.forward)
    return set(forward.__code__.co_names) if hasattr(forward, "__code__") else set()


@functools.lru_cache(maxsize=None)
def _attribute_of(cls):
    """By which of its attributes a class comes to the logits that its loss is of, None where it has no such loss."""
    names = _names_of(cls)
    if not names & LOSSES or "labels" not in inspect.signature(cls.forward).parameters:
        return None
    return HEAD if HEAD in names else PART if PART in names else None


def recognise(module):
    """The part that a model with a loss is, words where its loss is not Tigon's, None where it has none."""
    cls = type(module)
    if not _names_of(cls) & LOSSES:
        return None
    if _attribute_of(cls) is None or getattr(module.config, "is_encoder_decoder", False):
        return "its loss is not that of a causal language model"
    if not can_copy(cls.forward):
        return "its forward is decorated by what cannot be copied"
    return Part("fused_linear_cross_entropy", "causal_lm")


def _head_of(model):
    """The last layer of a model of such a class."""
    name = _attribute_of(original(type(model)))
    return getattr(model, HEAD) if name == HEAD else getattr(getattr(model, name), HEAD, None)


def why_not(model):
    """Words for why a model computes logits for its loss, None where it does not."""
    head = _head_of(model)
    if "loss_function" in _names_of(original(type(model))) and model.loss_function is not ForCausalLMLoss:
        return "its loss_function is not that of causal language models"
    if not is_product(head) and not _is_spread(model, head):
        return f"its last layer, {type(head).__name__}, is more than a product, quantised, or not where Tigon is"
    return None


def _is_spread(model, head):
    """Is the weight of a plain last layer spread by fully_shard(model), which gathers it before the model's forward?"""
    plain = type(head) is nn.Linear and is_untouched(head)
    return plain and behind(type(model)) is not type(model) and type(head.weight).__name__ == "DTensor"


@functools.lru_cache(maxsize=None)
def _without_logits(cls):
    """The forward of a class, of which logits may be returned as they are not computed."""
    name = _attribute_of(cls)
    if not hasattr(cls, name + SUFFIX):
        setattr(cls, name + SUFFIX, property(lambda self: _lazily(getattr(self, name))))
    return renamed(cls.forward, {name: name + SUFFIX})


def _lazily(module):
    """A last layer, or a model that has one, that need not give logits."""
    cls = original(type(module))
    if _attribute_of(cls) is None:
        return Head(module)
    return functools.partial(_without_logits(cls), module) if can_copy(cls.forward) and is_untouched(module) else module


def _is_fused(model, arguments, own_loss):
    """Is the loss alone asked for, of labels as they are usual?"""
    labels, shifted = arguments.get("labels"), arguments.get("shift_labels")
    if not model.training or labels is None or (labels if shifted is None else shifted).dtype != torch.int64:
        return False
    if own_loss and torch.compiler.is_compiling():  # which knows nn.CrossEntropyLoss for tensors alone
        return False
    if not own_loss and model.loss_function is not ForCausalLMLoss:
        return False
    return_dict = arguments.get("return_dict")
    return bool(model.config.return_dict if return_dict is None else return_dict)


def _may_read_logits(model, arguments):
    """Could the caller compute a loss of its own from the logits? PEFT's context-aware prompt tuning (CPT) does. Such methods train what
    they put in front of the embeddings, and nothing of the model."""
    if arguments.get("inputs_embeds") is None or torch.compiler.is_compiling():
        return False
    return not any(p.requires_grad for p in model.parameters())


def _without(outputs, with_attribute):
    """The outputs without logits. With the attribute, `outputs.logits` are there all the same, computed once they are read."""
    kept = type(outputs)(**{name: value for name, value in outputs.items() if not isinstance(value, Logits)})
    for name, value in outputs.items() if with_attribute else ():
        if isinstance(value, Logits):
            setattr(kept, name, value)
    return kept


def causal_lm(cls, settings=()):
    forward, fused = cls.forward, _without_logits(cls)
    signature = inspect.signature(forward)
    own_loss = "loss_function" not in _names_of(cls)

    @functools.wraps(forward)
    def replaced(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        if not _is_fused(self, {**given, **given.get("kwargs", {}), **given.get("lm_kwargs", {})}, own_loss):
            return forward(self, *args, **kwargs)
        return _without(fused(self, *args, **kwargs), _may_read_logits(self, given))

    return replaced


makers.update(causal_lm=causal_lm)
