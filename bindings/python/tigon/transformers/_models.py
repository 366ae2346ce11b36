"""What is patched of Hugging Face's models, and with which forward. No model is known by its name: a class is asked what it computes."""
import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from tigon.transformers import _attention, _blocks, _embeddings, _experts, _forwards, _loss, _masks, _mixtures, _norms, _rotary  # noqa: F401
from tigon.transformers._classes import Part, parts, patch
from tigon.transformers._plain import behind, original

AttentionInterface.register("tigon", _attention.attention)
AttentionMaskInterface.register("tigon", _masks.make)
_experts.register()

# Each returns the part that a module is, words where it is of such a kind but not Tigon's, or None.
RECOGNISERS = (_loss.recognise, _experts.recognise, _mixtures.recognise, _norms.recognise_layer, _norms.recognise, _rotary.recognise,
               _blocks.recognise, _embeddings.recognise)
SCALARS, OF_EACH = (bool, str, int, float, type(None)), ("training", "layer_idx")  # what a class computes may depend on the first
_known = {}  # what a class of modules is, with such parameters and modules in it: what was found


def _key(module):
    children = tuple((name, original(type(m))) for name, m in module._modules.items())
    settings = tuple((name, value) for name, value in vars(module).items() if type(value) in SCALARS and name not in OF_EACH)
    return behind(type(module)), tuple(name for name, p in module._parameters.items() if p is not None), children, settings


def _recognise(module):
    words = None
    for recognise in RECOGNISERS:
        found = recognise(module)
        if isinstance(found, Part):
            return found
        words = words or found
    return words


def find(module):
    """The part that a module is, words where it could be one but is not, None for all else."""
    cls = behind(type(module))
    if cls in parts:
        return parts[cls]
    if cls is nn.Linear:
        return Part("linear", "linear")
    if torch.nn.utils.parametrize.is_parametrized(module):
        return _experts.recognise(module) or _of_parametrised(module)
    key = _key(module)
    if key not in _known:
        _known[key] = _recognise(module)
    return _known[key]


def _of_parametrised(module):
    """Words where a module has parameters that are computed, and its class would be Tigon's without."""
    bases = type(module).__bases__
    same = any(key[0] in bases and isinstance(found, Part) for key, found in _known.items())
    return "a parametrisation computes its parameters" if same else None


def is_patched(module):
    return behind(type(module)) in parts


def patch_of(module, part):
    return patch(original(behind(type(module))), part)


def _words_of(module, part):
    """Why a module does not run on Tigon that is of a class that does, None if it does."""
    own = {"experts": _experts.why_not, "mixture": _mixtures.why_not, "causal_lm": _loss.why_not}
    return own.get(part.make, lambda m: _blocks.words_of(m, part))(module)


def _status_of_experts(name, module):
    if name.endswith(".base_layer"):
        return "as it was: LoRA's target_parameters are around its matrices"
    asked = is_patched(module) or getattr(module.config, "_experts_implementation", None) == "tigon"
    words = _experts.why_not(module) if asked else "tigon was not asked for"
    return f"as it was: {words}" if words else "tigon"


def status_of(model):
    """(name, words) of each module that could be Tigon's."""
    for name, module in model.named_modules():
        part = find(module)
        if part is None or (isinstance(part, Part) and (part.option == "linear" or part.make == "layer") and not is_patched(module)):
            continue
        if isinstance(part, str):
            yield name, f"as it was: {part}"
        elif part.make == "experts":
            yield name, _status_of_experts(name, module)
        elif is_patched(module):
            words = _words_of(module, part)
            yield name, f"as it was: {words}" if words else "tigon"
        else:
            yield name, "as it was: tigon was not asked for"


def is_as_made(module):
    """May the class of this module change? Not where a parametrisation made one, or where a forward of its own would run anyway."""
    if torch.nn.utils.parametrize.is_parametrized(module):
        return False
    own = module.__dict__.get("_old_forward", module.__dict__.get("forward"))
    return own is None or getattr(own, "__func__", None) is type(module).forward
