"""Hugging Face's causal language models on Tigon.

    model = tigon.transformers.AutoTigonModelForCausalLM.from_pretrained(path)
    tigon.transformers.apply_to(model)      # of a model that is there already

Of that model alone, RMSNorm, rotary embeddings, attention, the feed-forward blocks and, in training, the last layer with its loss run on
Tigon.
"""
import warnings
import weakref
from typing import Any, Dict, TypeVar

from tigon.transformers._install import install as install, uninstall as uninstall
from tigon.transformers._profile import profile as profile

Model = TypeVar("Model")
# config.model_type of models whose masks are causal, with a window or packed at most.
MODEL_TYPES = (
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt_oss",
    "llama",
    "mistral",
    "mixtral",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
)
OPTIONS = ("rms_norm", "rope", "mlp", "fused_linear_cross_entropy", "attention", "linear", "recompute", "embedding")


def _of_transformers(model):
    """The model of transformers that this one is, or that PEFT has put adapters into."""
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel) and hasattr(model, "get_base_model"):
        model = model.get_base_model()
    if not isinstance(model, PreTrainedModel):
        raise TypeError(
            f"apply_to() takes a model of transformers, or PEFT's around one, found {type(model).__name__}: call it before the model is "
            "wrapped by DistributedDataParallel, torch.compile or the like"
        )
    return model


def _head(base):
    """The last layer, whose product is the loss's or transformers' own."""
    try:
        return base.get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return None


def _patch_modules(base, options):
    """Patches what the options name; the rest gets its own forward again. Returns names of what could not be."""
    from tigon.transformers import _models, _shared
    from tigon.transformers._classes import Part, put
    from tigon.transformers._plain import behind, original

    head, kept, known = _head(base), [], 0
    for name, module in base.named_modules():
        part = _models.find(module)
        if not isinstance(part, Part) or (part.option == "linear" and (module is head or module.bias is not None)):
            continue
        known += part.option not in ("linear", "embedding")
        wanted = options[part.option]
        if wanted and _models.is_as_made(module):
            put(module, _models.patch_of(module, part))
        else:
            put(module, original(behind(type(module))))
            kept += [name or type(module).__name__] * wanted
        _shared.keep_result(module, wanted and not options["recompute"])
    if not known:
        raise ValueError(f"nothing in {type(base).__name__} computes what Tigon has, among its norms, rotations, feed-forward blocks and heads")
    return kept


_before = weakref.WeakKeyDictionary()  # a model: its attention before it was Tigon's
_without: Any = weakref.WeakSet()  # models that refused another implementation of attention


_NO_IMPLEMENTATION = "its attention is no implementation of transformers"


def _keeps_attention(model):
    """Words for why apply_to() leaves a model's attention as it is, None where it does not."""
    from tigon.transformers._mask_readers import reader_in

    config = model.config.get_text_config()
    if config._attn_implementation not in ("sdpa", "eager", "tigon"):
        return f"{config._attn_implementation!r} was asked for"
    if config.output_attentions:
        return "output_attentions was asked for"
    if not model._supports_sdpa and config.model_type not in MODEL_TYPES:
        return "it has no masks of transformers for PyTorch's attention"
    reader = reader_in(model)
    if reader is not None:
        return f"{reader} computes with its mask"
    return _NO_IMPLEMENTATION if model in _without else None


def _own_configs(model):
    """Configurations that layers alone have: of those that were copied within the model, as PEFT's layer_replication does."""
    from transformers import PreTrainedConfig, PreTrainedModel

    modules = [(m, m.config) for m in model.modules() if isinstance(getattr(m, "config", None), PreTrainedConfig)]
    known = [config for module, config in modules if isinstance(module, PreTrainedModel)]
    known += [getattr(config, name, None) for config in known for name in config.sub_configs]
    return [config for _, config in modules if not any(config is k for k in known)]


def _set_attention(model, name):
    """Layers ask for it what the model makes its masks for."""
    before = model.config.get_text_config()._attn_implementation
    model.set_attn_implementation(name)
    for config in _own_configs(model) if model.config.get_text_config()._attn_implementation == name else ():
        if config._attn_implementation == before:
            config._attn_implementation = name


def _use_attention(model, use):
    """Another implementation than PyTorch's was asked for by name, and stays."""
    current = model.config.get_text_config()._attn_implementation
    if use and current != "tigon" and not _keeps_attention(model):
        try:
            _set_attention(model, "tigon")
        except ValueError:
            _without.add(model)
            return
        _before[model] = current
    elif not use and current == "tigon":
        _set_attention(model, _before.pop(model, "sdpa" if model._supports_sdpa else "eager"))


def apply_to(
    model: Model, rms_norm: bool = True, rope: bool = True, mlp: bool = True, fused_linear_cross_entropy: bool = True,
    attention: bool = True, linear: bool = False, recompute: bool = True, embedding: bool = True,
) -> Model:
    """Puts Tigon's operators into this model, and returns it. Parameters and their names stay as they are. PEFT's model around one is taken
    too, before adapters or after.

    Where a model is training and is given labels it returns the loss without logits, with fused_linear_cross_entropy. `attention`:
    flash_attention with padding, packed sequences, windows, soft caps, sinks and caches, in place of PyTorch's attention, not of another that
    was asked for by name; what the library has not on a device, and dropout, are PyTorch's as before. `linear`: products of nn.Linear
    without bias by gemm, which on a card takes what is fastest there for these sizes once it has tried; for batches of one shape.
    `recompute`: what a layer's norms give is computed again in backward, in a pass over memory, and not kept: False keeps it, two numbers of
    the hidden size for each token and layer. `embedding`: rows of nn.Embedding, whose gradient PyTorch on a card makes the host wait for.
    Modules with hooks, adapters, parametrisations or weights elsewhere are called as they are, whenever those came.
    """
    given = (rms_norm, rope, mlp, fused_linear_cross_entropy, attention, linear, recompute, embedding)
    base = _of_transformers(model)
    kept = _patch_modules(base, dict(zip(OPTIONS, given)))
    if kept:
        warnings.warn(f"{len(kept)} modules, such as {kept[0]}, have a forward or a class that was put in later, and keep it: call apply_to() before")
    _use_attention(base, attention)
    return model


def undo(model: Model) -> Model:
    """Every module is of its own class again, and attention is what it was before apply_to(). Returns the model."""
    base = _of_transformers(model)
    _patch_modules(base, dict.fromkeys(OPTIONS, False))
    _use_attention(base, False)
    return model


def register() -> None:
    """Makes "tigon" a name of transformers' implementations: attn_implementation="tigon" and, since transformers 5,
    experts_implementation="tigon", for models that no apply_to() was called for."""
    from tigon.transformers import _models  # noqa: F401


def status(model: Any) -> Dict[str, str]:
    """What the modules run on that Tigon knows, by their names, and under "attention" what all attention does: "tigon", or why they run as
    transformers made them. Experts of a mixture run on Tigon after apply_to() (option mlp), and in any model of transformers with
    experts_implementation="tigon"."""
    from transformers import PreTrainedModel

    from tigon.transformers import _models

    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    found = dict(_models.status_of(base))
    if isinstance(base, PreTrainedModel):
        tigon = base.config.get_text_config()._attn_implementation == "tigon"
        found["attention"] = "tigon" if tigon else f"as it was: {_keeps_attention(base) or 'tigon was not asked for'}"
    return found


class AutoTigonModelForCausalLM:
    """transformers.AutoModelForCausalLM whose models run on Tigon. Options of apply_to() are taken from the arguments."""

    @classmethod
    def _make(cls, maker, args, kwargs):
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        model = maker(*args, **kwargs)
        try:
            return apply_to(model, **options)
        except ValueError as error:
            warnings.warn(f"{error}; this model is as transformers made it")
            return model

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        from transformers import AutoModelForCausalLM

        return cls._make(AutoModelForCausalLM.from_pretrained, args, kwargs)

    @classmethod
    def from_config(cls, *args, **kwargs):
        from transformers import AutoModelForCausalLM

        return cls._make(AutoModelForCausalLM.from_config, args, kwargs)
