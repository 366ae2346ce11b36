"""Tigon as a kernel of Hugging Face's `kernels`: operators for training, forward and backward, on CPUs and NVIDIA GPUs.

    tigon = kernels.get_local_kernel(Path("build/hub-kernel/tigon"))
    tigon.register()          # from_pretrained(path, use_kernels=True, attn_implementation="tigon") takes what is here
    tigon.use(model)          # of one model that is there: these, its feed-forward blocks, experts and loss
"""
from tigon import _tigon, layers, torch  # noqa: F401
from tigon._functions import ForCausalLMLoss, apply_rotary_transformers, attention, experts
from tigon._register import register, use

__version__ = _tigon.__version__
__all__ = ["ForCausalLMLoss", "apply_rotary_transformers", "attention", "experts", "layers", "register", "torch", "use"]
