"""What a layer's norm and the products of its result share.

The result of a norm is a tensor that remembers what it was made of. Two or three products of it keep that for backward, which is kept anyway,
and the products of attention are computed at once: their gradients are summed up in the products.
"""
import functools
import inspect
import re
from typing import NamedTuple

import torch
from torch import nn

from tigon._once import differentiable_once
from tigon.torch._library import direct_calls
from tigon.transformers._plain import has_hooks_within, is_untouched, original, reads

_NAME = "_of_tigon"  # attribute of a tensor
_KEPT = "_result_is_kept"  # of a norm
_rms_norm, _rms_norm_backward = direct_calls["rms_norm_forward"], direct_calls["fused_add_rms_norm_backward"]


def is_plain(x):
    """Is this a tensor that a gradient is computed of, and neither a compiler's nor a transformation's?"""
    if type(x) is not torch.Tensor or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return not torch._C._are_functorch_transforms_active()


class _Norm(torch.autograd.Function):
    """(rms_norm(x), x): the gradients of both are one pass."""

    @staticmethod
    def forward(ctx, x, weight, options):
        ctx.set_materialize_grads(False)
        y, rstd = _rms_norm(x, weight, **options)
        ctx.save_for_backward(x, weight, rstd)
        ctx.options = {name: value for name, value in options.items() if name != "eps"}
        return y, x

    @staticmethod
    @differentiable_once("rms_norm of a patched model")
    def backward(ctx, dy, dx):
        if dy is None:
            return dx, None, None
        x, weight, rstd = ctx.saved_tensors
        dx, dweight = _rms_norm_backward(dy, dx, x, weight, rstd, dweight=ctx.needs_input_grad[1], **ctx.options)
        return dx, dweight if ctx.needs_input_grad[1] else None, None


class Made(NamedTuple):
    """What a norm was made of."""

    inputs: tuple  # what is normed, and the weight
    options: dict
    products: dict  # by the identity of a module: its product, once it is computed
    members: list  # modules whose products are to be computed at once
    is_kept: bool  # for backward, which else computes it again
    version: int  # of the result, as PyTorch counts what is done in its place


def normed(x, weight, options):
    return _rms_norm(x, weight, **options)[0]


def keep_result(module, kept):
    """Has a norm's result be kept for backward, or computed again there."""
    module.__dict__.pop(_KEPT, None)
    if kept:
        module.__dict__[_KEPT] = True


def norm(module, x, **options):
    """(The norm of x, x)"""
    y, x = _Norm.apply(x, module.weight, options)
    remember(y, x, module, options)
    return y, x


def remember(y, x, module, options):
    if is_plain(y):
        setattr(y, _NAME, Made((x, module.weight), options, {}, [], _KEPT in module.__dict__, y._version))


def _made(x):
    made = getattr(x, _NAME, None)
    return None if made is None or x._version != made.version else made


def norm_of(x):
    """What x was made of, None where that is not known, or x has been changed since."""
    return _made(x) if is_plain(x) else None


def hand_to(module, x):
    """x for this module. What it was made of is forgotten where hooks of it, or of a module within, may change x."""
    if not is_untouched(module) or has_hooks_within(module):
        vars(x).pop(_NAME, None)
    return x


# ---- products of attention ----


@functools.lru_cache(maxsize=None)
def _names(cls):
    """Names of modules that the forward of a class calls with its hidden states."""
    try:
        source = inspect.getsource(inspect.unwrap(original(cls).forward))
    except (OSError, TypeError):
        return ()
    return tuple(dict.fromkeys(re.findall(r"self\.(\w+)\(hidden_states\)", source)))


def products(attention, x):
    """Has the products of x be computed at once that attention will ask for."""
    made = norm_of(x)
    if made is None:
        return
    modules = [m for m in (attention._modules.get(name) for name in _names(type(attention))) if m is not None]
    if len(modules) in (2, 3) and all(_is_patched_product(m, x) for m in modules):
        made.members.extend(modules)


def _is_patched_product(module, x):
    return type(module) is not nn.Linear and reads(module, nn.Linear, x) and module.bias is None and module.weight.dtype == x.dtype


def product_of(module, x):
    """The module's product of x where it is one of several that are computed at once, None where it is not."""
    made = _made(x)
    if made is None or not any(m is module for m in made.members):
        return None
    if not made.products:
        from tigon.transformers._forwards import project

        made.products.update(zip(map(id, made.members), project(direct_calls["gemm"], x, *(m.weight for m in made.members))))
    return made.products.pop(id(module), None)
