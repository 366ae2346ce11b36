"""Which tensors Tigon takes, and when a weight may be read past its module. The rule stands here, for every module that a patch looks into."""
import sys

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Proxy
from torch.nn.modules.module import _has_any_global_hook

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
DEVICES = ("cpu", "cuda")
# Other classes of tensors are spread over processes, quantised, or something else that has its own products.
TENSORS = (torch.Tensor, nn.Parameter, FakeTensor)

originals = {}  # a class of a patch: the class in whose place it stands


def original(cls):
    return originals.get(cls, cls)


def behind(cls):
    """The class of a module as it was before fully_shard(), which puts one of its own around it."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    sharded = fsdp is not None and issubclass(cls, getattr(fsdp, "FSDPModule", ()))
    return cls.__mro__[2] if sharded and len(cls.__mro__) > 3 else cls


def takes(*tensors):
    """Are these plain tensors, of types that the operators know, on one device that has them? What torch.fx passes through counts too."""
    known = [t for t in tensors if type(t) is not Proxy]
    return all(type(t) in TENSORS and t.dtype in DTYPES and t.device.type in DEVICES and t.device == known[0].device for t in known)


def autocast_type(tensor):
    """The type that autocast gives to products with this tensor, None where it is off."""
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def promoted(*tensors):
    """The tensors in the type that PyTorch's arithmetic would give to a result of them."""
    if any(type(t) is Proxy for t in tensors) or len({t.dtype for t in tensors}) == 1:
        return tensors
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return tuple(t.to(dtype) for t in tensors)


def is_untouched(module):
    """Is what its class computes all that happens when this module is called? It is not where hooks run, PyTorch's own (weight_norm of
    torch.nn.utils is one) or accelerate's, which are a `forward` of the module itself."""
    if _has_any_global_hook() or module._forward_hooks or module._forward_pre_hooks:
        return False
    if module._backward_hooks or module._backward_pre_hooks:
        return False
    return not has_own_forward(module)


def has_hooks_within(module):
    """Does something else run when a module within this one is called?"""
    return any(not is_untouched(m) or (m._modules and has_hooks_within(m)) for m in module._modules.values() if m is not None)


def has_own_forward(module):
    """Does something else than the forward of its class run when this module is called?"""
    own = module.__dict__.get("forward")
    return own is not None and getattr(own, "__func__", None) is not type(module).forward


def does_nothing(owner, name):
    """Is this number 0, or this module one of dropout that returns what it is given?"""
    part = getattr(owner, name)
    return part.p == 0 and is_untouched(part) if isinstance(part, nn.Dropout) else not part


def reads(module, cls, *inputs):
    """May the weight of this module, which gets these inputs, be read past it? Where its class is `cls` itself, which an adapter or a
    parametrisation is not, nothing else happens when it is called, and the weight is a tensor as PyTorch would take it for them."""
    if original(type(module)) is not cls or any(type(x) is Proxy for x in inputs) or not is_untouched(module):
        return False
    weight = module.weight
    if not takes(weight, *inputs):
        return False
    return all(x.dtype == weight.dtype for x in inputs) or autocast_type(weight) is not None
