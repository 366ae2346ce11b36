"""What makes transformers take this kernel."""
import warnings
from pathlib import Path

LAYERS = ("RMSNorm", "GemmaRMSNorm", "SwiGLUMLP", "GeGLUMLP")
FUNCTIONS = {"rotary_pos_emb": "apply_rotary_transformers", "ForCausalLMLoss": "ForCausalLMLoss"}
DEVICES = ("cpu", "cuda")


def _mapping():
    """By the names that layers of transformers have, where each of them is: in this folder."""
    from kernels import LocalFuncRepository, LocalLayerRepository, Mode

    here = Path(__file__).parent
    where = {name: LocalLayerRepository(repo_path=here, layer_name=name) for name in LAYERS}
    where.update({name: LocalFuncRepository(repo_path=here, func_name=function) for name, function in FUNCTIONS.items()})
    modes = (Mode.TRAINING | Mode.TORCH_COMPILE, Mode.INFERENCE | Mode.TORCH_COMPILE)
    return {name: {device: dict.fromkeys(modes, repository) for device in DEVICES} for name, repository in where.items()}


def register(name="tigon"):
    """Puts this kernel into the mapping of use_kernels=True, in place of what stands there for these devices, and makes `name` a name of
    attn_implementation and experts_implementation."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations import hub_kernels

    from tigon import _functions
    from tigon.transformers import _masks

    known = hub_kernels.get_kernel_mapping_transformers()
    for layer, devices in _mapping().items():
        known[layer] = {**known.get(layer, {}), **devices}
    AttentionInterface.register(name, _functions.attention)
    AttentionMaskInterface.register(name, _masks.make)
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:  # before transformers 5
        return
    ALL_EXPERTS_FUNCTIONS.register(name, _functions.experts)


def _layer_of(module):
    """The name of the layer that computes what this module does, for classes that transformers gives none."""
    from tigon.transformers._experts import ACTIVATIONS

    name = type(module).__name__
    if name in ("GemmaRMSNorm", "Gemma2RMSNorm", "Gemma3RMSNorm") and hasattr(module, "weight"):
        return "GemmaRMSNorm"
    if name.endswith("MLP") and {"gate_proj", "up_proj", "down_proj"} == set(dict(module.named_children())) - {"act_fn"}:
        return {"swiglu": "SwiGLUMLP", "geglu": "GeGLUMLP"}.get(ACTIVATIONS.get(type(getattr(module, "act_fn", None))))
    return None


def _mark(model):
    """Gives classes of the model the names of layers, as transformers' own decorator does where it stands."""
    from kernels import replace_kernel_forward_from_hub

    for module in model.modules():
        if not hasattr(type(module), "kernel_layer_name"):
            layer = _layer_of(module)
            if layer:
                replace_kernel_forward_from_hub(type(module), layer)


def use(model, name="tigon"):
    """All that is here for a model of transformers: its norms, rotary embeddings, feed-forward blocks, attention, experts and loss. Returns
    the model."""
    from kernels import Mode
    from transformers.loss.loss_utils import ForCausalLMLoss

    from tigon import _functions

    register(name)
    _mark(model)
    training = model.training
    model.set_use_kernels(True, mode=(Mode.TRAINING if training else Mode.INFERENCE) | Mode.TORCH_COMPILE)
    if model.config._attn_implementation in ("sdpa", "eager"):
        model.set_attn_implementation(name)
    if getattr(model, "_can_set_experts_implementation", bool)():
        model.set_experts_implementation(name)
    if getattr(model, "loss_function", None) is ForCausalLMLoss:
        model.loss_function = _functions.ForCausalLMLoss
    elif training:
        warnings.warn(f"{type(model).__name__} keeps its own loss")
    return model
