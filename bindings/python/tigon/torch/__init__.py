"""Tigon's operators for PyTorch: with gradients, in torch.compile, torch.func, autocast, checkpointing, DDP and FSDP, on the CPU and on
CUDA. Every family is a function, tigon.torch.rms_norm(x, weight), and a module, tigon.torch.RMSNorm(4096)."""
from tigon.torch.functional import *  # noqa: F403
from tigon.torch.modules import *  # noqa: F403
