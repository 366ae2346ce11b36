"""Tigon's operators for PyTorch: with gradients, in torch.compile, torch.func, autocast, checkpointing, DDP and FSDP, on the CPU, on CUDA
and on Ascend NPUs. Every family is a function, tigon.torch.rms_norm(x, weight), and a module, tigon.torch.RMSNorm(4096)."""
import torch as _torch
from tigon import _core, _devices
from tigon.torch.experts import *  # noqa: F403
from tigon.torch.fp8 import *  # noqa: F403
from tigon.torch.functional import *  # noqa: F403
from tigon.torch.modules import *  # noqa: F403
from tigon.torch.parallel import *  # noqa: F403
from tigon.torch.ring import *  # noqa: F403

# Workspace on a card is PyTorch's memory, so that both share one pool and CUDA graphs can be recorded.
_core.set_device_allocator("cuda", _torch.cuda.caching_allocator_alloc, _torch.cuda.caching_allocator_delete)
_core.set_device_allocator("npu", _devices.allocate, _devices.release)
